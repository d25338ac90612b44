package soak_test

import (
	"context"
	"fmt"
	"os"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"text/tabwriter"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/quoin-dev/quoin/api/v1alpha1"
)

const (
	// convergence is how long the cluster may take after a fault.
	convergence = 3 * time.Minute
	// shortest is the shortest time of a soak: a fault must last longer than timeouts of requests.
	shortest = 3 * time.Minute
)

// TestSoak injects one fault after the other while clients write and query. After each, all objects are Ready, and the
// controllers reconcile. No request to a data API fails while pods are ready. In the end every acknowledged write and its
// audit event exist once, no pod or environment exists twice, no process has restarted without reason, and memory and
// goroutines do not keep growing.
func TestSoak(t *testing.T) {
	text := os.Getenv("QUOIN_SOAK")
	if text == "" {
		t.Skip("QUOIN_SOAK is not set, such as 10m; run make soak")
	}
	duration, err := time.ParseDuration(text)
	must(t, err)
	if duration < shortest {
		t.Fatalf("QUOIN_SOAK=%s: want %s or more", text, shortest)
	}
	w := newWorld(t)
	ready := w.ready()
	if len(ready) < 5 {
		t.Fatalf("the samples are not ready: %v", ready)
	}
	writers := w.writers(w.deploymentID())
	ctx, stop := context.WithCancel(t.Context())
	defer stop()
	var running sync.WaitGroup
	for _, r := range writers {
		running.Go(func() { r.run(ctx, w) })
	}
	data := newTraffic(ctx, w, &running)
	for i := range readers {
		running.Go(func() { data.run(ctx, i) })
	}
	calm := &atomic.Bool{}
	running.Go(func() { w.sampleAll(ctx, calm, writers) })
	s := &soak{world: w, ready: ready, writers: writers, data: data, calm: calm}
	s.header()
	defer func() { _ = s.table.Flush() }() // to stdout
	each := duration / time.Duration(len(disturbances)+1)
	calm.Store(true)
	time.Sleep(each) // without a fault, to compare with
	s.dataRow("none")
	for _, d := range disturbances {
		s.disturb(d, each)
	}
	stop()
	running.Wait()
	s.verdict()
}

// soak is the state of a run.
type soak struct {
	*world
	ready   []string
	writers []*writer
	data    *traffic
	calm    *atomic.Bool
	table   *tabwriter.Writer
	faults  int
	// dataRows are the rows of the table of data APIs.
	dataRows [][]any
}

func (s *soak) header() {
	s.table = tabwriter.NewWriter(os.Stdout, 0, 0, 2, ' ', tabwriter.AlignRight)
	s.row("fault", "seconds", "acknowledged", "failed", "converged after", "restarts")
}

func (s *soak) row(cells ...any) {
	fmt.Fprintf(s.table, strings.Repeat("%v\t", len(cells))+"\n", cells...)
}

// disturb injects a fault for half of its time, and waits until the cluster has converged, at least for the other half.
func (s *soak) disturb(d disturbance, each time.Duration) {
	s.Helper()
	began, acknowledged, failed, restarts := time.Now(), 0, 0, 0
	count := func(sign int) {
		for _, r := range s.writers {
			a, f := r.counts()
			acknowledged, failed = acknowledged+sign*a, failed+sign*f
		}
		for _, p := range s.processes {
			restarts += sign * p.count()
		}
	}
	count(-1)
	s.calm.Store(false)
	s.data.excuse(d.interrupts)
	d.run(s.world, each/2)
	ended := time.Now()
	s.converge(d.name)
	took := time.Since(ended)
	s.data.excuse(false)
	s.calm.Store(true)
	time.Sleep(max(each/2, each-time.Since(began)))
	count(1)
	s.faults++
	s.dataRow(d.name)
	s.row(d.name, fmt.Sprintf("%.0f", ended.Sub(began).Seconds()), acknowledged, failed, fmt.Sprintf("%.1f s", took.Seconds()), restarts)
}

// dataRow ends a row of the table of data APIs.
func (s *soak) dataRow(name string) {
	p := s.data.next()
	s.dataRows = append(s.dataRows, []any{name, len(p.times), p.failed, p.excused, p.p99(), p.slowest()})
}

// converge waits until each writer writes, all data APIs answer, the controllers have reconciled the deployment, and all
// objects are Ready.
func (s *soak) converge(fault string) {
	s.Helper()
	before := make([]int, len(s.writers))
	for i, r := range s.writers {
		before[i], _ = r.counts()
	}
	request, answered := fmt.Sprintf("after %q", fault), s.data.answers()
	s.eventually(convergence, "convergence after the fault "+fault, func() error {
		for i, r := range s.writers {
			if now, _ := r.counts(); now <= before[i] {
				return fmt.Errorf("no %s was acknowledged", r.what)
			}
		}
		for _, check := range []func() error{
			func() error { return s.reconciled(request) },
			func() error { return s.same(s.ready) },
			func() error { return s.directed(s.dataIP) },
		} {
			if err := check(); err != nil {
				return err
			}
		}
		return s.data.answeredSince(answered)
	})
}

// reconciled requests a reconciliation of the deployment of the samples, and returns an error until it is handled.
func (w *world) reconciled(request string) error {
	ctx, cancel := context.WithTimeout(w.Context(), 10*time.Second)
	defer cancel()
	d := &v1alpha1.Deployment{}
	if err := w.kube.Get(ctx, client.ObjectKey{Namespace: account, Name: deployment}, d); err != nil {
		return err
	}
	if d.Annotations[v1alpha1.AnnotationReconcile] != request {
		before := d.DeepCopy()
		metav1.SetMetaDataAnnotation(&d.ObjectMeta, v1alpha1.AnnotationReconcile, request)
		if err := w.kube.Patch(ctx, d, client.MergeFrom(before)); err != nil {
			return err
		}
	}
	if d.Status.LastHandledReconcileAt != request {
		return fmt.Errorf("the deployment has handled the request %q", d.Status.LastHandledReconcileAt)
	}
	return nil
}

// verdict prints the rest of the table and checks the results.
func (s *soak) verdict() {
	s.Helper()
	s.checkOnce()
	_ = s.table.Flush()
	fmt.Println()
	s.row("fault", "requests to data APIs", "failed", "failed without a pod", "p99", "slowest")
	for _, cells := range s.dataRows {
		s.row(cells...)
	}
	if failures := s.data.failed(); len(failures) > 0 {
		s.Errorf("requests to data APIs failed although pods were ready:\n%s", strings.Join(failures, "\n"))
	}
	_ = s.table.Flush()
	fmt.Println()
	s.row("process", "restarts", "goroutines", "live memory", "samples")
	for _, p := range s.processes {
		s.row(p.name, p.restarts, p.change(func(u usage) string { return fmt.Sprintf("%.0f", u.goroutines) }),
			p.change(func(u usage) string { return fmt.Sprintf("%.1f MiB", mebibytes(u.memory)) }), len(p.samples))
		// A controller ends when it cannot renew its lease.
		if allowed := map[bool]int{true: s.faults}[strings.HasPrefix(p.name, "controller")]; p.restarts > allowed {
			s.Errorf("%s has restarted %d times, want %d or less; its log is %s", p.name, p.restarts, allowed, p.log)
		}
		if err := grows(p.samples); err != nil {
			s.Errorf("%s: %v", p.name, err)
		}
	}
	_ = s.table.Flush()
	fmt.Println()
	s.row("object", "acknowledged", "failed", "lost", "doubled", "events lost", "events doubled")
	for _, r := range s.writers {
		acknowledged, failed := r.counts()
		found := s.compare(r)
		s.row(r.what, acknowledged, failed, len(found.lost), len(found.doubled), len(found.eventsLost), len(found.eventsDoubled))
		if acknowledged == 0 || !found.none() {
			s.Errorf("%d %ss were acknowledged; %+v", acknowledged, r.what, found)
		}
	}
	_ = s.table.Flush()
}

// change describes the first and the last sample.
func (p *process) change(describe func(usage) string) string {
	if p.first == nil || len(p.samples) == 0 {
		return "unknown"
	}
	return describe(*p.first) + " → " + describe(p.samples[len(p.samples)-1])
}

// deploymentID returns the number of the deployment of the samples.
func (w *world) deploymentID() string {
	w.Helper()
	d := &v1alpha1.Deployment{}
	must(w, w.kube.Get(w.Context(), client.ObjectKey{Namespace: account, Name: deployment}, d))
	return d.Status.ID
}

// ready returns the objects of the samples that are Ready.
func (w *world) ready() []string {
	ctx, cancel := context.WithTimeout(w.Context(), 30*time.Second)
	defer cancel()
	var names []string
	for _, kind := range v1alpha1.Kinds {
		list, ok := kind.List.(client.ObjectList)
		// The clients write these.
		if !ok || !kind.HasConditions() || strings.HasPrefix(kind.Plural, "scim") {
			continue
		}
		list = list.DeepCopyObject().(client.ObjectList)
		if err := w.kube.List(ctx, list); err != nil {
			w.Logf("list %s: %v", kind.Plural, err)
			continue
		}
		items, err := meta.ExtractList(list)
		must(w, err)
		for _, item := range items {
			if o, ok := item.(v1alpha1.Object); ok && isCurrent(o) {
				names = append(names, kind.Plural+"/"+o.GetName())
			}
		}
	}
	slices.Sort(names)
	return names
}

func isCurrent(o v1alpha1.Object) bool {
	status := o.Common()
	return meta.IsStatusConditionTrue(status.Conditions, v1alpha1.ConditionReady) && status.ObservedGeneration == o.GetGeneration() &&
		meta.FindStatusCondition(status.Conditions, v1alpha1.ConditionReconciling) == nil && meta.FindStatusCondition(status.Conditions, v1alpha1.ConditionStalled) == nil
}

// same returns an error unless the objects that were ready are ready.
func (w *world) same(before []string) error {
	now := w.ready()
	for _, name := range before {
		if !slices.Contains(now, name) {
			return fmt.Errorf("%s is not Ready", name)
		}
	}
	return nil
}

// checkOnce checks that each deployment has one production environment, and each workload its number of pods.
func (w *world) checkOnce() {
	w.Helper()
	environments := &v1alpha1.EnvironmentList{}
	must(w, w.kube.List(w.Context(), environments, client.InNamespace(account)))
	production := map[string]int{}
	for i := range environments.Items {
		if e := &environments.Items[i]; e.Spec.Type == v1alpha1.EnvironmentProduction {
			production[e.Spec.DeploymentRef.Name]++
		}
	}
	for name, n := range production {
		if n != 1 {
			w.Errorf("deployment %s has %d production environments", name, n)
		}
	}
	workloads := &appsv1.DeploymentList{}
	must(w, w.kube.List(w.Context(), workloads, client.InNamespace(account)))
	if len(production) == 0 || len(workloads.Items) == 0 {
		w.Errorf("%d production environments and %d workloads", len(production), len(workloads.Items))
	}
	for i := range workloads.Items {
		workload := &workloads.Items[i]
		w.eventually(time.Minute, "pods of "+workload.Name, func() error {
			pods := &corev1.PodList{}
			if err := w.kube.List(w.Context(), pods, client.InNamespace(account), client.MatchingLabels(workload.Spec.Selector.MatchLabels)); err != nil {
				return err
			}
			running := slices.DeleteFunc(pods.Items, func(p corev1.Pod) bool { return p.DeletionTimestamp != nil })
			if want := int(ptr.Deref(workload.Spec.Replicas, 1)); len(running) != want {
				return fmt.Errorf("%d pods, want %d", len(running), want)
			}
			return nil
		})
	}
}
