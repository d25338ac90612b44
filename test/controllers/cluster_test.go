package controllers_test

import (
	"encoding/json"
	"fmt"
	"regexp"
	"slices"
	"sort"
	"strings"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	policyv1 "k8s.io/api/policy/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/quoin-dev/quoin/api/v1alpha1"
)

// kinds returns lists of the kinds that the controllers create or read, owners first.
func kinds() []client.ObjectList {
	return []client.ObjectList{
		&v1alpha1.AccountList{}, &v1alpha1.ReleaseChannelList{}, &v1alpha1.DeploymentList{}, &v1alpha1.BranchList{},
		&v1alpha1.EnvironmentList{}, &v1alpha1.ScimUserList{}, &v1alpha1.ScimGroupList{}, &v1alpha1.ScimMemberChunkList{}, &v1alpha1.ClaimList{},
		&appsv1.DeploymentList{}, &appsv1.StatefulSetList{}, &corev1.ServiceList{}, &corev1.ServiceAccountList{},
		&corev1.SecretList{}, &policyv1.PodDisruptionBudgetList{}, &networkingv1.NetworkPolicyList{},
	}
}

// runCluster simulates the controllers of Kubernetes: it deletes objects whose owner does not
// exist, and rolls out workloads. Pods whose image tag contains "-broken" never become ready,
// all others do at once.
func (w *world) runCluster() {
	w.t.Helper()
	existing := map[string]bool{}
	var objs []client.Object
	for _, list := range kinds() {
		for _, obj := range w.all(list) {
			existing[string(obj.GetUID())] = true
			objs = append(objs, obj)
		}
	}
	for _, obj := range objs {
		owners := obj.GetOwnerReferences()
		if len(owners) > 0 && !slices.ContainsFunc(owners, func(o metav1.OwnerReference) bool { return existing[string(o.UID)] }) {
			if err := w.api.Delete(w.ctx, obj); err != nil && !apierrors.IsNotFound(err) {
				w.t.Fatal(err)
			}
			delete(existing, string(obj.GetUID()))
			w.acted++
			continue
		}
		switch obj := obj.(type) {
		case *appsv1.Deployment:
			w.rollOutDeployment(obj.DeepCopy(), obj)
		case *appsv1.StatefulSet:
			w.rollOutStatefulSet(obj.DeepCopy(), obj)
		}
	}
}

func (w *world) rollOutDeployment(before, d *appsv1.Deployment) {
	w.t.Helper()
	n := ptr.Deref(d.Spec.Replicas, 1)
	d.Status = appsv1.DeploymentStatus{
		ObservedGeneration: d.Generation, Replicas: n, UpdatedReplicas: n, ReadyReplicas: n, AvailableReplicas: n,
	}
	if !w.repaired && strings.Contains(d.Spec.Template.Spec.Containers[0].Image, "-broken") || !w.updatePods(d) {
		d.Status.Replicas, d.Status.UpdatedReplicas = n+1, 1
	}
	w.patchStatus(before, d)
}

func (w *world) rollOutStatefulSet(before, s *appsv1.StatefulSet) {
	w.t.Helper()
	n := ptr.Deref(s.Spec.Replicas, 1)
	s.Status = appsv1.StatefulSetStatus{
		ObservedGeneration: s.Generation, Replicas: n, UpdatedReplicas: n, CurrentReplicas: n, ReadyReplicas: n, AvailableReplicas: n,
		CurrentRevision: "1", UpdateRevision: "1",
	}
	w.patchStatus(before, s)
}

func (w *world) patchStatus(before, obj client.Object) {
	w.t.Helper()
	if equality.Semantic.DeepEqual(before, obj) {
		return
	}
	w.acted++
	if err := w.api.Status().Patch(w.ctx, obj, client.MergeFrom(before)); err != nil && !apierrors.IsNotFound(err) {
		w.t.Fatal(err)
	}
}

var (
	variable   = regexp.MustCompile(`"(platform\.quoin\.dev/wake-requested-at|uid|resourceVersion|creationTimestamp|lastTransitionTime|lastBuildTime|firstSeen|lastChangeTime|completionTime|startTime|lastModified|time)":"[^"]*"`)
	numbers    = regexp.MustCompile(`("platform\.quoin\.dev/(id|environment-id|issued-ids)":|"id":)"?[0-9a-z=,]+"?`)
	counters   = regexp.MustCompile(`"(generation|observedGeneration|deploymentGeneration)":[0-9]+`)
	secrets    = regexp.MustCompile(`"data":\{[^}]*\}`)
	clusterIPs = regexp.MustCompile(`"10\.0\.[0-9]+\.[0-9]+"`)
	hostClaims = regexp.MustCompile(`"name":"host-[0-9a-f]{32}"`)
	// A controller that is killed before it reports the pods leaves less to say about a version that failed.
	failures = regexp.MustCompile(`("message":"|did not become ready within 1m0s \()(api: 0 of 1 pods are up to date and ready|the environment has not reported its state)(","time"|\); rolled back)`)
	hashes   = regexp.MustCompile(`"platform\.quoin\.dev/applied-hash":"[0-9a-f]+"`)
	// The start of the last rollout is in the environment, in the status of the deployment, or in both.
	starts = regexp.MustCompile(`"platform\.quoin\.dev/rollout":"([^"\\]|\\.)*",?`)
)

// dump returns all objects of the world as text, without what differs between runs.
func (w *world) dump() string {
	w.t.Helper()
	var lines []string
	for _, list := range kinds() {
		for _, obj := range w.all(list) {
			obj.SetManagedFields(nil)
			data, err := json.Marshal(obj)
			if err != nil {
				w.t.Fatal(err)
			}
			text := strings.ReplaceAll(string(data), w.name, "world")
			text = variable.ReplaceAllString(text, `"$1":"…"`)
			text = numbers.ReplaceAllString(text, `$1"N"`)
			text = counters.ReplaceAllString(text, `"$1":0`)
			text = secrets.ReplaceAllString(text, `"data":{}`)
			text = hostClaims.ReplaceAllString(text, `"name":"host-…"`)
			text = hashes.ReplaceAllString(text, `"applied":"…"`)
			text = starts.ReplaceAllString(text, "")
			text = failures.ReplaceAllString(text, `$1…$3`)
			text = clusterIPs.ReplaceAllString(text, `"10.0.n.n"`)
			lines = append(lines, fmt.Sprintf("%T %s", obj, text))
		}
	}
	// The names of claims are hashes that do not depend on the name of the world, but for those on hosts.
	sort.Strings(lines)
	return strings.Join(lines, "\n")
}

// checkIDs fails the test when two objects have the same ID.
func (w *world) checkIDs() {
	w.t.Helper()
	for _, list := range []client.ObjectList{&v1alpha1.DeploymentList{}, &v1alpha1.BranchList{}, &v1alpha1.EnvironmentList{}} {
		names := map[string]string{}
		for _, obj := range w.all(list) {
			id := obj.GetLabels()[v1alpha1.LabelID]
			if other, exists := names[id]; exists || id == "" {
				w.t.Errorf("%T %s has ID %q, as has %q", obj, obj.GetName(), id, other)
			}
			names[id] = obj.GetName()
		}
	}
}

// checkStatus checks the rules of a status that tools rely on (kstatus).
func checkStatus(t *testing.T, obj v1alpha1.Object) {
	t.Helper()
	status := obj.Common()
	name := fmt.Sprintf("%T %s", obj, obj.GetName())
	ready := meta.FindStatusCondition(status.Conditions, v1alpha1.ConditionReady)
	reconciling := meta.FindStatusCondition(status.Conditions, v1alpha1.ConditionReconciling)
	stalled := meta.FindStatusCondition(status.Conditions, v1alpha1.ConditionStalled)
	if ready == nil {
		if status.ObservedGeneration != -1 {
			t.Errorf("%s: observedGeneration is %d without a Ready condition", name, status.ObservedGeneration)
		}
		return
	}
	if reconciling != nil && stalled != nil {
		t.Errorf("%s is Reconciling and Stalled at once", name)
	}
	for _, c := range []*metav1.Condition{reconciling, stalled} {
		if c != nil && c.Status != metav1.ConditionTrue {
			t.Errorf("%s: condition %s is %s; it must be absent unless True", name, c.Type, c.Status)
		}
	}
	if ready.Status == metav1.ConditionTrue && (reconciling != nil || stalled != nil) {
		t.Errorf("%s is Ready and still has Reconciling or Stalled", name)
	}
	if ready.Status != metav1.ConditionTrue && reconciling == nil && stalled == nil {
		t.Errorf("%s is neither Ready nor Reconciling nor Stalled", name)
	}
	if ready.Status == metav1.ConditionTrue && status.ObservedGeneration != ready.ObservedGeneration {
		t.Errorf("%s is Ready for generation %d but has observed %d", name, ready.ObservedGeneration, status.ObservedGeneration)
	}
	for _, c := range status.Conditions {
		if c.Reason == "" || c.Message == "" {
			t.Errorf("%s: condition %s has no reason or no message", name, c.Type)
		}
		if c.ObservedGeneration <= 0 || c.ObservedGeneration > obj.GetGeneration() {
			t.Errorf("%s: condition %s is about generation %d of %d", name, c.Type, c.ObservedGeneration, obj.GetGeneration())
		}
	}
	if status.ObservedGeneration > obj.GetGeneration() {
		t.Errorf("%s has observed generation %d of %d", name, status.ObservedGeneration, obj.GetGeneration())
	}
}
