package soak_test

import (
	"context"
	"fmt"
	"strings"
	"syscall"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/quoin-dev/quoin/api/v1alpha1"
	"github.com/quoin-dev/quoin/test/bench/internal/measure"
)

// disturbance is a fault that lasts for some time.
type disturbance struct {
	name string
	run  func(w *world, d time.Duration)
	// interrupts means that requests to data APIs may fail until all pods are ready.
	interrupts bool
}

// disturbances are the faults, in their order: those after which controllers start again come first, so that the growth of
// their memory shows in the rest of the time.
var disturbances = []disturbance{
	{name: "leader killed", run: (*world).killLeader},
	{name: "API server paused", run: func(w *world, d time.Duration) { w.pause("kube-apiserver", d) }},
	{name: "etcd slow", run: (*world).slowEtcd},
	{name: "node not ready", run: (*world).loseNode, interrupts: true},
	{name: "conflicting writer", run: (*world).conflictingWrites},
	{name: "database lost", run: (*world).loseDatabase},
	{name: "registry hangs", run: func(w *world, d time.Duration) { w.pause("registry", d) }},
	{name: "Git server hangs", run: func(w *world, d time.Duration) { w.pause("git", d) }},
}

// pause stops a daemon for some time; its connections stay open.
func (w *world) pause(daemon string, d time.Duration) {
	w.Helper()
	pid := w.pid(daemon)
	must(w, syscall.Kill(pid, syscall.SIGSTOP))
	time.Sleep(d)
	must(w, syscall.Kill(pid, syscall.SIGCONT))
}

// slowEtcd lets etcd run for a third of the time.
func (w *world) slowEtcd(d time.Duration) {
	pid := w.pid("etcd")
	for end := time.Now().Add(d); time.Now().Before(end); time.Sleep(100 * time.Millisecond) {
		must(w, syscall.Kill(pid, syscall.SIGSTOP))
		time.Sleep(200 * time.Millisecond)
		must(w, syscall.Kill(pid, syscall.SIGCONT))
	}
}

// leader returns the holder of the controllers' lease.
func (w *world) leader() (string, error) {
	lease := &coordinationv1.Lease{}
	if err := w.kube.Get(context.Background(), client.ObjectKey{Namespace: "quoin-system", Name: "quoin-controller"}, lease); err != nil {
		return "", err
	}
	if lease.Spec.HolderIdentity == nil || *lease.Spec.HolderIdentity == "" {
		return "", fmt.Errorf("the lease has no holder")
	}
	return *lease.Spec.HolderIdentity, nil
}

// killLeader kills the controller that leads, and waits until another one leads.
func (w *world) killLeader(time.Duration) {
	w.Helper()
	before, err := w.leader()
	must(w, err)
	for _, p := range w.processes {
		text, err := w.scrape(p)
		if err != nil || !strings.HasPrefix(p.name, "controller") || measure.Metric(text, "leader_election_master_status") != 1 {
			continue
		}
		must(w, p.kill())
		w.eventually(time.Minute, "another leader", func() error {
			now, err := w.leader()
			if err == nil && now == before {
				err = fmt.Errorf("%s leads", now)
			}
			return err
		})
		return
	}
	w.Errorf("no controller reports that it is the leader %s", before)
}

// loseNode stops the simulation of the kubelets and reports a node as not ready. The controllers of Kubernetes taint the node
// and report its pods as not ready; the pods are deleted, and created on the other nodes.
func (w *world) loseNode(d time.Duration) {
	node := strings.Fields(w.kubectl("get", "nodes", "-o", "jsonpath={.items[*].metadata.name}"))[0]
	report := func(status string) {
		w.kubectl("patch", "node", node, "--subresource=status", "--type=strategic", "-p",
			fmt.Sprintf(`{"status":{"conditions":[{"type":"Ready","status":%q,"reason":"Soak"}]}}`, status))
	}
	kubelets := w.pid("kwok")
	must(w, syscall.Kill(kubelets, syscall.SIGSTOP))
	report("False")
	w.kubectl("delete", "pods", "--all-namespaces", "--field-selector=spec.nodeName="+node, "--wait=false")
	time.Sleep(d)
	must(w, syscall.Kill(kubelets, syscall.SIGCONT))
	report("True")
}

// conflictingWrites changes an annotation of all Deployments of Quoin, again and again.
func (w *world) conflictingWrites(d time.Duration) {
	for i, end := 0, time.Now().Add(d); time.Now().Before(end); i++ {
		list := &v1alpha1.DeploymentList{}
		if err := w.kube.List(context.Background(), list); err != nil {
			w.Errorf("list: %v", err)
			return
		}
		for j := range list.Items {
			patch := fmt.Sprintf(`{"metadata":{"annotations":{"example.com/soak":"%d"}}}`, i)
			if err := w.kube.Patch(context.Background(), &list.Items[j], client.RawPatch("application/merge-patch+json", []byte(patch))); err != nil {
				w.Errorf("patch: %v", err)
			}
		}
	}
}

// loseDatabase kills PostgreSQL and starts it again.
func (w *world) loseDatabase(d time.Duration) {
	w.database.Kill(w.T)
	time.Sleep(d)
	w.database.Restart(w.T)
}
