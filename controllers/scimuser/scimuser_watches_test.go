package scimuser

import (
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/clock"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/metrics/server"

	"github.com/quoin-dev/quoin/api/v1alpha1"
	"github.com/quoin-dev/quoin/internal/apitest"
	"github.com/quoin-dev/quoin/internal/claims"
	"github.com/quoin-dev/quoin/internal/kube"
	"github.com/quoin-dev/quoin/internal/lastmodified"
	"github.com/quoin-dev/quoin/internal/tenant"
)

// startController returns a fixture with a manager that runs the controller.
func startController(t *testing.T) *fixture {
	f := newFixture(t)
	mgr, err := ctrl.NewManager(apitest.Server(t), ctrl.Options{
		Scheme:  apitest.Scheme(t),
		Metrics: server.Options{BindAddress: "0"},
		Cache: cache.Options{
			DefaultNamespaces: map[string]cache.Config{f.namespace: {}},
			DefaultTransform:  cache.TransformStripManagedFields(),
			ByObject:          map[client.Object]cache.ByObject{&v1alpha1.ScimUser{}: {Transform: lastmodified.Transform()}},
		},
	})
	f.must(err)
	index := func(obj client.Object, field string, value func(client.Object) string) {
		f.must(mgr.GetFieldIndexer().IndexField(t.Context(), obj, field, func(o client.Object) []string { return []string{value(o)} }))
	}
	index(&v1alpha1.Account{}, tenant.IndexNamespace, func(o client.Object) string { return o.(*v1alpha1.Account).Spec.Namespace })
	index(&v1alpha1.Claim{}, claims.IndexHolder, func(o client.Object) string { return o.(*v1alpha1.Claim).Spec.Holder.Name })
	f.must(AddIndexes(t.Context(), mgr.GetFieldIndexer()))
	r := New(kube.NewClient(mgr.GetClient(), mgr.GetAPIReader(), "quoin-test"), f.recorder, clock.RealClock{})
	skip := true
	f.must(SetupWithManager(mgr, r, controller.Options{SkipNameValidation: &skip, MaxConcurrentReconciles: 4}))
	go func() { _ = mgr.Start(t.Context()) }()
	return f
}

// waitForReady waits until the Ready condition of a user has a reason and a matching message.
func (f *fixture) waitForReady(name, reason string, matches func(message string) bool) {
	f.Helper()
	u := &v1alpha1.ScimUser{}
	for end := time.Now().Add(20 * time.Second); time.Now().Before(end); time.Sleep(20 * time.Millisecond) {
		f.must(f.api.Get(f.Context(), client.ObjectKey{Namespace: f.namespace, Name: name}, u))
		c := meta.FindStatusCondition(u.Status.Conditions, v1alpha1.ConditionReady)
		if c != nil && c.Reason == reason && u.Status.ObservedGeneration == u.Generation && (matches == nil || matches(c.Message)) {
			if u.Status.LastModified == nil {
				f.Errorf("%s: status.lastModified is not set", name)
			}
			return
		}
	}
	f.Fatalf("%s: no reason %s: %+v", name, reason, u.Status)
}

// TestWatches checks that changes of its account, claim and manager reconcile a user.
func TestWatches(t *testing.T) {
	f := startController(t)
	ann := f.user("ann", v1alpha1.ScimUserSpec{UserName: "ann"})
	f.waitForReady("ann", "Succeeded", nil)
	f.user("eve", v1alpha1.ScimUserSpec{UserName: "Ann"})
	f.waitForReady("eve", "NameTaken", nil)

	f.Log("a deleted claim is created again")
	claim := &v1alpha1.Claim{ObjectMeta: metav1.ObjectMeta{Namespace: f.namespace, Name: claims.UserName.Name("ann")}}
	f.must(f.api.Delete(t.Context(), claim))
	for f.api.Get(t.Context(), client.ObjectKeyFromObject(claim), claim) != nil {
		time.Sleep(20 * time.Millisecond)
	}

	f.Log("a released name is claimed")
	owner, other := "ann", "eve"
	if claim.Spec.Holder.Name == "eve" {
		owner, other = other, owner // both were reconciled
	}
	f.waitForReady(other, "NameTaken", nil)
	renamed := &v1alpha1.ScimUser{ObjectMeta: metav1.ObjectMeta{Namespace: f.namespace, Name: owner}}
	f.must(f.api.Patch(t.Context(), renamed, client.RawPatch("application/merge-patch+json", []byte(`{"spec":{"userName":"anna"}}`))))
	f.waitForReady(other, "Succeeded", nil)
	f.waitForReady(owner, "Succeeded", nil)

	f.Log("a manager that is created is no longer missing")
	f.must(f.api.Patch(t.Context(), ann, client.RawPatch("application/merge-patch+json", []byte(`{"spec":{"enterprise":{"manager":{"value":"boss"}}}}`))))
	f.waitForReady("ann", "Succeeded", func(m string) bool { return m != "The user is in effect" })
	boss := f.user("boss", v1alpha1.ScimUserSpec{UserName: "boss"})
	f.waitForReady("ann", "Succeeded", func(m string) bool { return m == "The user is in effect" })
	f.must(f.api.Delete(t.Context(), boss))
	f.waitForReady("ann", "Succeeded", func(m string) bool { return m != "The user is in effect" })

	f.Log("declared schemas")
	f.must(f.api.Patch(t.Context(), ann, client.RawPatch("application/merge-patch+json", []byte(`{"spec":{"enterprise":null,"extensions":[{"schema":"urn:example:Badge","attributes":{}}]}}`))))
	f.waitForReady("ann", "Succeeded", func(m string) bool { return m == "The user is in effect" })
	f.must(f.api.Patch(t.Context(), f.account, client.RawPatch("application/merge-patch+json", []byte(`{"spec":{"scim":null}}`))))
	f.waitForReady("ann", "Succeeded", func(m string) bool { return m != "The user is in effect" })
	f.must(f.api.Delete(t.Context(), f.account))
	f.waitForReady("ann", "AccountNotFound", nil)
}

// TestAttributesThatTakeEffect: users with a value for an attribute above the limit of the account are reconciled when it takes effect,
// and not after other changes of its status.
func TestAttributesThatTakeEffect(t *testing.T) {
	with := func(condition, reason string) *v1alpha1.UserAttribute {
		a := &v1alpha1.UserAttribute{}
		meta.SetStatusCondition(&a.Status.Conditions, metav1.Condition{Type: condition, Status: metav1.ConditionTrue, Reason: reason})
		return a
	}
	above, ready := with(v1alpha1.ConditionStalled, v1alpha1.ReasonLimitExceeded), with(v1alpha1.ConditionReady, v1alpha1.ReasonSucceeded)
	for name, c := range map[string]struct {
		before, after *v1alpha1.UserAttribute
		want          bool
	}{
		"takes effect":                  {above, ready, true},
		"is stalled for another reason": {with(v1alpha1.ConditionStalled, v1alpha1.ReasonAccountNotFound), ready, false},
		"stays above the limit":         {above, above, false},
		"is new":                        {&v1alpha1.UserAttribute{}, ready, false},
	} {
		if got := takesEffect.Update(event.UpdateEvent{ObjectOld: c.before, ObjectNew: c.after}); got != c.want {
			t.Errorf("%s: selected %t, want %t", name, got, c.want)
		}
	}
}
