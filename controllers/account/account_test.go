package account

import (
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/events"
	clocktesting "k8s.io/utils/clock/testing"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/quoin-dev/quoin/api/v1alpha1"
	"github.com/quoin-dev/quoin/internal/kube"
	"github.com/quoin-dev/quoin/internal/reconciler"
	"github.com/quoin-dev/quoin/internal/tenant"
)

// account is one made at a second, with a namespace of its own name.
func account(name string, second int64, change ...func(*v1alpha1.Account)) *v1alpha1.Account {
	a := &v1alpha1.Account{
		ObjectMeta: metav1.ObjectMeta{Name: name, UID: types.UID(name), Generation: 1, CreationTimestamp: metav1.Unix(second, 0)},
		Spec:       v1alpha1.AccountSpec{Host: v1alpha1.Host(name + ".example.com"), Namespace: name},
	}
	for _, f := range change {
		f(a)
	}
	return a
}

func host(h string) func(*v1alpha1.Account) {
	return func(a *v1alpha1.Account) { a.Spec.Host = v1alpha1.Host(h) }
}

func domains(names ...string) func(*v1alpha1.Account) {
	return func(a *v1alpha1.Account) {
		for _, n := range names {
			a.Spec.CustomDomains = append(a.Spec.CustomDomains, v1alpha1.Host(n))
		}
	}
}

func in(namespace string) func(*v1alpha1.Account) {
	return func(a *v1alpha1.Account) { a.Spec.Namespace = namespace }
}

// TestRivalry: the older of two accounts has what both want, and the other is told whose it is.
func TestRivalry(t *testing.T) {
	cases := map[string]struct {
		self, other  *v1alpha1.Account
		reason, says string
	}{
		"nothing in common":           {account("self", 5), account("other", 1), "", ""},
		"namespace":                   {account("self", 5, in("ns")), account("other", 1, in("ns")), "NamespaceTaken", `spec.namespace: "ns" belongs to account "other"`},
		"namespace, younger":          {account("self", 1, in("ns")), account("other", 5, in("ns")), "", ""},
		"namespace, same second":      {account("self", 1, in("ns")), account("other", 1, in("ns")), "NamespaceTaken", `"other"`},
		"host":                        {account("self", 5, host("bi.test")), account("other", 1, host("bi.test")), "HostTaken", `spec.host or spec.customDomains: "bi.test" belongs to account "other"`},
		"host with another port":      {account("self", 5, host("bi.test:8443")), account("other", 1, host("bi.test")), "HostTaken", `"bi.test"`},
		"custom domain":               {account("self", 5, domains("a.test", "bi.test")), account("other", 1, domains("bi.test")), "HostTaken", `"bi.test"`},
		"custom domain and host":      {account("self", 5, domains("bi.test")), account("other", 1, host("bi.test")), "HostTaken", `"bi.test"`},
		"host of a younger":           {account("self", 1, host("bi.test")), account("other", 5, host("bi.test")), "", ""},
		"a domain below":              {account("self", 5, host("a.bi.test")), account("other", 1, host("bi.test")), "", ""},
		"itself":                      {account("self", 5), account("self", 5), "", ""},
		"namespace before the host's": {account("self", 5, in("ns"), host("bi.test")), account("other", 1, in("ns"), host("bi.test")), "NamespaceTaken", ""},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			o := rivalry(tc.self, []v1alpha1.Account{*tc.self, *tc.other})
			if o == nil {
				if tc.reason != "" {
					t.Errorf("no rival, want %s", tc.reason)
				}
				return
			}
			reconciler.Summarise(tc.self, *o)
			if c := tc.self.Status.Conditions[0]; c.Reason != tc.reason || !strings.Contains(c.Message, tc.says) {
				t.Errorf("says %s: %s; want %s: …%s…", c.Reason, c.Message, tc.reason, tc.says)
			}
		})
	}
}

// town is an API server in memory with accounts.
type town struct {
	t     *testing.T
	api   client.WithWatch
	clock *clocktesting.FakePassiveClock
}

func newTown(t *testing.T, objs ...client.Object) *town {
	t.Helper()
	scheme := runtime.NewScheme()
	for _, add := range []func(*runtime.Scheme) error{v1alpha1.AddToScheme, corev1.AddToScheme} {
		if err := add(scheme); err != nil {
			t.Fatal(err)
		}
	}
	api := fake.NewClientBuilder().WithScheme(scheme).WithObjects(objs...).
		WithStatusSubresource(&v1alpha1.Account{}).
		WithIndex(&v1alpha1.Account{}, tenant.IndexNamespace, func(o client.Object) []string {
			a, _ := o.(*v1alpha1.Account)
			return []string{a.Spec.Namespace}
		}).Build()
	return &town{t, api, clocktesting.NewFakePassiveClock(time.Now())}
}

func (w *town) once(name string) (*v1alpha1.Account, ctrl.Result) {
	w.t.Helper()
	r := New(kube.NewClient(w.api, w.api, "quoin-test"), events.NewFakeRecorder(10), w.clock)
	result, err := r.Reconcile(w.t.Context(), ctrl.Request{NamespacedName: client.ObjectKey{Name: name}})
	if err != nil {
		w.t.Fatal(err)
	}
	a := &v1alpha1.Account{}
	if err := w.api.Get(w.t.Context(), client.ObjectKey{Name: name}, a); client.IgnoreNotFound(err) != nil {
		w.t.Fatal(err)
	}
	return a, result
}

func (w *town) delete(obj client.Object) {
	w.t.Helper()
	if err := w.api.Delete(w.t.Context(), obj); err != nil {
		w.t.Fatal(err)
	}
}

func (w *town) exists(obj client.Object) bool {
	w.t.Helper()
	err := w.api.Get(w.t.Context(), client.ObjectKeyFromObject(obj), obj)
	if client.IgnoreNotFound(err) != nil {
		w.t.Fatal(err)
	}
	return err == nil
}

func said(a *v1alpha1.Account) (state, message string) {
	c := meta.FindStatusCondition(a.Status.Conditions, v1alpha1.ConditionReady)
	if c == nil {
		return "", ""
	}
	return string(c.Status) + " " + c.Reason, c.Message
}

func deploymentIn(namespace string, finalizers ...string) *v1alpha1.Deployment {
	return &v1alpha1.Deployment{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "sales", Finalizers: finalizers}}
}

func TestAccount(t *testing.T) {
	w := newTown(t, account("acme", 1, domains("bi.test:8443")))
	a, _ := w.once("acme")
	if state, message := said(a); state != "False NamespaceNotFound" || !strings.Contains(message, "kubectl create namespace acme") {
		t.Errorf("says %s: %s", state, message)
	}
	if err := w.api.Create(t.Context(), &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "acme"}}); err != nil {
		t.Fatal(err)
	}
	a, _ = w.once("acme")
	if state, _ := said(a); state != "True Succeeded" || a.Status.URL != "https://bi.test:8443" || a.Status.DataDomain != "data.acme.example.com" {
		t.Errorf("says %s, with %s and %s", state, a.Status.URL, a.Status.DataDomain)
	}
	if diff := cmp.Diff([]string{v1alpha1.FinalizerAccount}, a.Finalizers); diff != "" {
		t.Errorf("finalizers (-want +got):\n%s", diff)
	}
}

// TestTeardown: an account goes when its objects are gone, and takes its own ones only.
func TestTeardown(t *testing.T) {
	final := func(a *v1alpha1.Account) { a.Finalizers = []string{v1alpha1.FinalizerAccount} }
	t.Run("takes its objects along", func(t *testing.T) {
		mine, theirs := deploymentIn("acme"), deploymentIn("other")
		key := &v1alpha1.ApiKey{ObjectMeta: metav1.ObjectMeta{Namespace: "acme", Name: "key"}}
		w := newTown(t, account("acme", 1, final), mine, theirs, key)
		w.delete(account("acme", 1))
		a, result := w.once("acme")
		if state, _ := said(a); state != "Unknown Terminating" || result.RequeueAfter != teardownPause {
			t.Errorf("says %s, comes back after %s", state, result.RequeueAfter)
		}
		w.once("acme")
		if w.exists(account("acme", 1)) || w.exists(mine) || w.exists(key) || !w.exists(theirs) {
			t.Errorf("account %v, deployment %v, key %v, another's deployment %v", w.exists(account("acme", 1)), w.exists(mine), w.exists(key), w.exists(theirs))
		}
	})
	t.Run("waits for what is held, and says what that is", func(t *testing.T) {
		w := newTown(t, account("acme", 1, final), deploymentIn("acme", "example.com/held"))
		w.delete(account("acme", 1))
		a, _ := w.once("acme")
		if state, _ := said(a); state != "Unknown Terminating" {
			t.Errorf("says %s", state)
		}
		w.clock.SetTime(a.DeletionTimestamp.Add(teardownPatience + time.Second))
		a, result := w.once("acme")
		if state, message := said(a); state != "False Terminating" || !strings.Contains(message, "Deployment sales does not go away: look at its metadata.finalizers") || result.RequeueAfter != teardownPause {
			t.Errorf("says %s: %s, comes back after %s", state, message, result.RequeueAfter)
		}
	})
	t.Run("of one that never had the namespace leaves it alone", func(t *testing.T) {
		mine := deploymentIn("acme")
		w := newTown(t, account("acme", 1, final), account("rival", 5, final, in("acme")), mine)
		w.delete(account("rival", 5))
		w.once("rival")
		if w.exists(account("rival", 5)) || !w.exists(mine) {
			t.Errorf("rival %v, deployment %v", w.exists(account("rival", 5)), w.exists(mine))
		}
	})
	t.Run("leaves the finalizers of others", func(t *testing.T) {
		w := newTown(t, account("acme", 1, func(a *v1alpha1.Account) { a.Finalizers = []string{"example.com/other"} }), deploymentIn("acme"))
		w.delete(account("acme", 1))
		a, _ := w.once("acme")
		if state, message := said(a); state != "Unknown Terminating" || !strings.Contains(message, "finalizers of others") {
			t.Errorf("says %s: %s", state, message)
		}
	})
}

// TestWhomAChangeConcerns: accounts that may have waited for it, and no others.
func TestWhomAChangeConcerns(t *testing.T) {
	ready := func(a *v1alpha1.Account) { reconciler.Summarise(a, reconciler.Done("x")) }
	now := metav1.Now()
	going := func(a *v1alpha1.Account) {
		ready(a)
		a.DeletionTimestamp, a.Finalizers = &now, []string{v1alpha1.FinalizerAccount}
	}
	w := newTown(t, account("well", 1, ready), account("waits", 2), account("going", 3, going))
	namespace := func(name string, deletion *metav1.Time) *corev1.Namespace {
		return &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: name, DeletionTimestamp: deletion}}
	}
	cases := map[string]struct {
		found []reconcile.Request
		want  []string
	}{
		"account":                          {rivals(w.api)(t.Context(), account("well", 1)), []string{"waits"}},
		"account with a younger's host":    {rivals(w.api)(t.Context(), account("old", 0, domains("well.example.com"))), []string{"waits", "well"}},
		"account with an older's host":     {rivals(w.api)(t.Context(), account("young", 9, domains("well.example.com"))), []string{"waits"}},
		"account that waits itself":        {rivals(w.api)(t.Context(), account("waits", 2)), nil},
		"new namespace":                    {ofNamespace(w.api)(t.Context(), namespace("waits", nil)), []string{"waits"}},
		"namespace of one that is well":    {ofNamespace(w.api)(t.Context(), namespace("well", nil)), nil},
		"namespace that goes":              {ofNamespace(w.api)(t.Context(), namespace("well", &now)), []string{"well"}},
		"environment of one that is going": {ofNamespace(w.api)(t.Context(), &v1alpha1.Environment{ObjectMeta: metav1.ObjectMeta{Namespace: "going", Name: "x"}}), []string{"going"}},
		"somebody's namespace":             {ofNamespace(w.api)(t.Context(), namespace("kube-system", nil)), nil},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			var got []string
			for _, r := range tc.found {
				got = append(got, r.Name)
			}
			if diff := cmp.Diff(tc.want, got); diff != "" {
				t.Errorf("reconciled (-want +got):\n%s", diff)
			}
		})
	}
}
