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
	"github.com/quoin-dev/quoin/internal/claims"
	"github.com/quoin-dev/quoin/internal/kube"
	"github.com/quoin-dev/quoin/internal/oidctoken"
	"github.com/quoin-dev/quoin/internal/reconciler"
	"github.com/quoin-dev/quoin/internal/tenant"
)

// account returns an account with a creation time and the namespace of the same name.
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

// quoin is the namespace of Quoin itself.
const quoin = "quoin-system"

// TestNamespaceConflicts: the older account has a namespace; the other one names it. No account has
// that of Quoin.
func TestNamespaceConflicts(t *testing.T) {
	cases := map[string]struct {
		self, other     *v1alpha1.Account
		reason, message string
	}{
		"nothing in common": {account("self", 5), account("other", 1), "", ""},
		"an older one":      {account("self", 5, in("ns")), account("other", 1, in("ns")), "NamespaceTaken", `spec.namespace: "ns" belongs to account "other"`},
		"a younger one":     {account("self", 1, in("ns")), account("other", 5, in("ns")), "", ""},
		"same second":       {account("self", 1, in("ns")), account("other", 1, in("ns")), "NamespaceTaken", `"other"`},
		"itself":            {account("self", 5), account("self", 5), "", ""},
		"that of Quoin":     {account("self", 1, in(quoin)), account("other", 5), "NamespaceReserved", `spec.namespace: "quoin-system" is the namespace of Quoin itself`},
		"not watched":       {account("self", 1, in("elsewhere")), account("other", 5), "NamespaceNotWatched", `restricted to other namespaces than "elsewhere"; add it to watchNamespaces`},
	}
	r := &accountReconciler{Options{Hosts: claims.Hosts{Namespace: quoin}, WatchNamespaces: tenant.Namespaces{"self", "ns", quoin}}}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			o := r.checkNamespace(tc.self, []v1alpha1.Account{*tc.self, *tc.other})
			if o == nil {
				if tc.reason != "" {
					t.Errorf("no conflict, want %s", tc.reason)
				}
				return
			}
			reconciler.Summarise(tc.self, *o)
			if c := tc.self.Status.Conditions[0]; c.Reason != tc.reason || !strings.Contains(c.Message, tc.message) {
				t.Errorf("message %s: %s; want %s: …%s…", c.Reason, c.Message, tc.reason, tc.message)
			}
		})
	}
}

// TestFirstClaimWinsConflicts about a host, whatever the age of the accounts. The message does not
// disclose the holder.
func TestFirstClaimWinsConflicts(t *testing.T) {
	cases := map[string]struct {
		self, other *v1alpha1.Account
		taken       string
		held        []string
	}{
		"nothing in common":      {account("self", 1), account("other", 5), "", []string{"self.example.com"}},
		"host":                   {account("self", 1, host("bi.test")), account("other", 5, host("bi.test")), "bi.test", nil},
		"host with another port": {account("self", 1, host("bi.test:8443")), account("other", 5, host("bi.test")), "bi.test", nil},
		"custom domain":          {account("self", 1, domains("a.test", "bi.test")), account("other", 5, domains("bi.test")), "bi.test", []string{"self.example.com", "a.test"}},
		"custom domain and host": {account("self", 1, domains("bi.test")), account("other", 5, host("bi.test")), "bi.test", []string{"self.example.com"}},
		"a domain below":         {account("self", 1, host("a.bi.test")), account("other", 5, host("bi.test")), "", []string{"a.bi.test"}},
		"namespace":              {account("self", 5, in("other")), account("other", 1), "", nil},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			w := newFixture(t, tc.self, tc.other, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: tc.self.Spec.Namespace}})
			w.reconcile("other")
			a, _ := w.reconcile("self")
			state, message := readyCondition(a)
			taken := strings.Contains(message, `"`+tc.taken+`" is already in use`)
			if (tc.taken != "") != (state == "False HostTaken") || tc.taken != "" && (!taken || strings.Contains(message, `"other"`)) {
				t.Errorf("message %s: %s", state, message)
			}
			if diff := cmp.Diff(tc.held, a.Status.Hosts); diff != "" {
				t.Errorf("hosts (-want +got):\n%s", diff)
			}
			w.delete(tc.other)
			w.reconcile("other")
			if a, _ = w.reconcile("self"); len(a.Status.Hosts) != len(tenant.Hosts(a)) {
				t.Errorf("after the deletion of the other: hosts %q", a.Status.Hosts)
			}
		})
	}
}

// TestKeysOfAnAccountWithoutOneOfItsHosts are created and rotated: it is served on the other hosts.
func TestKeysOfAnAccountWithoutOneOfItsHosts(t *testing.T) {
	config := &v1alpha1.OidcTokenConfig{ObjectMeta: metav1.ObjectMeta{Namespace: "self", Name: "aws"}}
	w := newFixture(t, account("self", 1, domains("bi.test")), account("other", 5, host("bi.test")), config,
		&corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "self"}})
	w.reconcile("other")
	a, _ := w.reconcile("self")
	if state, _ := readyCondition(a); state != "False HostTaken" || len(a.Status.OidcTokenKeys) != 1 {
		t.Fatalf("is %s, with %d keys", state, len(a.Status.OidcTokenKeys))
	}
	w.clock.SetTime(w.clock.Now().Add(oidctoken.RotationPeriod))
	if a, _ = w.reconcile("self"); len(a.Status.OidcTokenKeys) != 2 {
		t.Errorf("%d keys after the time to rotate them", len(a.Status.OidcTokenKeys))
	}
}

// fixture is a fake client with accounts.
type fixture struct {
	t     *testing.T
	api   client.WithWatch
	clock *clocktesting.FakePassiveClock
}

func newFixture(t *testing.T, objs ...client.Object) *fixture {
	t.Helper()
	scheme := runtime.NewScheme()
	for _, add := range []func(*runtime.Scheme) error{v1alpha1.AddToScheme, corev1.AddToScheme} {
		if err := add(scheme); err != nil {
			t.Fatal(err)
		}
	}
	api := fake.NewClientBuilder().WithScheme(scheme).WithObjects(objs...).
		WithStatusSubresource(&v1alpha1.Account{}).
		WithIndex(&v1alpha1.Account{}, tenant.IndexNamespace, tenant.NamespaceOf).
		WithIndex(&v1alpha1.Claim{}, claims.IndexHolder, func(o client.Object) []string {
			c, _ := o.(*v1alpha1.Claim)
			return []string{c.Spec.Holder.Name}
		}).Build()
	return &fixture{t, api, clocktesting.NewFakePassiveClock(time.Now())}
}

func (w *fixture) reconcile(name string) (*v1alpha1.Account, ctrl.Result) {
	w.t.Helper()
	r := New(kube.NewClient(w.api, w.api, "quoin-test"), events.NewFakeRecorder(10), w.clock, Options{Hosts: claims.Hosts{Namespace: quoin}})
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

func (w *fixture) delete(obj client.Object) {
	w.t.Helper()
	if err := w.api.Delete(w.t.Context(), obj); err != nil {
		w.t.Fatal(err)
	}
}

func (w *fixture) exists(obj client.Object) bool {
	w.t.Helper()
	err := w.api.Get(w.t.Context(), client.ObjectKeyFromObject(obj), obj)
	if client.IgnoreNotFound(err) != nil {
		w.t.Fatal(err)
	}
	return err == nil
}

func readyCondition(a *v1alpha1.Account) (state, message string) {
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
	w := newFixture(t, account("acme", 1, domains("bi.test:8443")))
	a, _ := w.reconcile("acme")
	if state, message := readyCondition(a); state != "False NamespaceNotFound" || !strings.Contains(message, "kubectl create namespace acme") {
		t.Errorf("message %s: %s", state, message)
	}
	if err := w.api.Create(t.Context(), &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "acme"}}); err != nil {
		t.Fatal(err)
	}
	a, _ = w.reconcile("acme")
	if state, _ := readyCondition(a); state != "True Succeeded" || a.Status.URL != "https://bi.test:8443" || a.Status.DataDomain != "data.acme.example.com" {
		t.Errorf("message %s, with %s and %s", state, a.Status.URL, a.Status.DataDomain)
	}
	if diff := cmp.Diff([]string{v1alpha1.FinalizerAccount}, a.Finalizers); diff != "" {
		t.Errorf("finalizers (-want +got):\n%s", diff)
	}
}

// TestTeardownDeletesObjectsOfTheAccount and no others before the finalizer is removed.
func TestTeardownDeletesObjectsOfTheAccount(t *testing.T) {
	final := func(a *v1alpha1.Account) { a.Finalizers = []string{v1alpha1.FinalizerAccount} }
	t.Run("deletes its objects", func(t *testing.T) {
		own, foreign := deploymentIn("acme"), deploymentIn("other")
		key := &v1alpha1.ApiKey{ObjectMeta: metav1.ObjectMeta{Namespace: "acme", Name: "key"}}
		w := newFixture(t, account("acme", 1, final), own, foreign, key)
		w.delete(account("acme", 1))
		a, result := w.reconcile("acme")
		if state, _ := readyCondition(a); state != "Unknown Terminating" || result.RequeueAfter != teardownInterval {
			t.Errorf("message %s, requeued after %s", state, result.RequeueAfter)
		}
		w.reconcile("acme")
		if w.exists(account("acme", 1)) || w.exists(own) || w.exists(key) || !w.exists(foreign) {
			t.Errorf("account %v, deployment %v, key %v, deployment of another account %v", w.exists(account("acme", 1)), w.exists(own), w.exists(key), w.exists(foreign))
		}
	})
	t.Run("names an object that is blocked by a finalizer", func(t *testing.T) {
		w := newFixture(t, account("acme", 1, final), deploymentIn("acme", "example.com/held"))
		w.delete(account("acme", 1))
		a, _ := w.reconcile("acme")
		if state, _ := readyCondition(a); state != "Unknown Terminating" {
			t.Errorf("message %s", state)
		}
		w.clock.SetTime(a.DeletionTimestamp.Add(teardownTimeout + time.Second))
		a, result := w.reconcile("acme")
		if state, message := readyCondition(a); state != "False Terminating" || !strings.Contains(message, "Deployment sales is not deleted: check its metadata.finalizers") || result.RequeueAfter != teardownInterval {
			t.Errorf("message %s: %s, requeued after %s", state, message, result.RequeueAfter)
		}
	})
	t.Run("keeps the objects of the account that has the namespace", func(t *testing.T) {
		own := deploymentIn("acme")
		w := newFixture(t, account("acme", 1, final), account("rival", 5, final, in("acme")), own)
		w.delete(account("rival", 5))
		w.reconcile("rival")
		if w.exists(account("rival", 5)) || !w.exists(own) {
			t.Errorf("rival %v, deployment %v", w.exists(account("rival", 5)), w.exists(own))
		}
	})
	t.Run("keeps the objects in the namespace of Quoin", func(t *testing.T) {
		claim := &v1alpha1.Claim{ObjectMeta: metav1.ObjectMeta{Namespace: quoin, Name: "of-another-account"}}
		w := newFixture(t, account("acme", 1, final, in(quoin)), claim)
		w.delete(account("acme", 1))
		w.reconcile("acme")
		if w.exists(account("acme", 1)) || !w.exists(claim) {
			t.Errorf("account %v, claim %v", w.exists(account("acme", 1)), w.exists(claim))
		}
	})
	t.Run("waits for other finalizers", func(t *testing.T) {
		w := newFixture(t, account("acme", 1, func(a *v1alpha1.Account) { a.Finalizers = []string{"example.com/other"} }), deploymentIn("acme"))
		w.delete(account("acme", 1))
		a, _ := w.reconcile("acme")
		if state, message := readyCondition(a); state != "Unknown Terminating" || !strings.Contains(message, "other finalizers") {
			t.Errorf("message %s: %s", state, message)
		}
	})
}

// TestWatchesEnqueueAffectedAccounts and no others.
func TestWatchesEnqueueAffectedAccounts(t *testing.T) {
	ready := func(a *v1alpha1.Account) { reconciler.Summarise(a, reconciler.Done("x")) }
	now := metav1.Now()
	deleting := func(a *v1alpha1.Account) {
		ready(a)
		a.DeletionTimestamp, a.Finalizers = &now, []string{v1alpha1.FinalizerAccount}
	}
	keys := func(a *v1alpha1.Account) {
		a.Status.OidcTokenKeys = []v1alpha1.OidcTokenKey{{Number: 1, ID: "x", Modulus: "x"}}
	}
	w := newFixture(t, account("well", 1, ready, keys), account("waits", 2), account("deleting", 3, deleting))
	namespace := func(name string, deletion *metav1.Time) *corev1.Namespace {
		return &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: name, DeletionTimestamp: deletion}}
	}
	cases := map[string]struct {
		requests []reconcile.Request
		want     []string
	}{
		"account": {rivals(w.api)(t.Context(), account("well", 1)), []string{"waits"}},
		"account with the namespace of a ready one": {rivals(w.api)(t.Context(), account("old", 0, in("well"))), []string{"waits", "well"}},
		"claim on a host":                              {ofClaim(w.api)(t.Context(), &v1alpha1.Claim{Spec: v1alpha1.ClaimSpec{Attribute: claims.AttributeHost, Value: "well.example.com"}}), []string{"well"}},
		"claim on another value":                       {ofClaim(w.api)(t.Context(), &v1alpha1.Claim{Spec: v1alpha1.ClaimSpec{Attribute: "ScimUser.userName"}}), nil},
		"the account itself":                           {rivals(w.api)(t.Context(), account("waits", 2)), nil},
		"new namespace":                                {ofNamespace(w.api)(t.Context(), namespace("waits", nil)), []string{"waits"}},
		"namespace of a ready account":                 {ofNamespace(w.api)(t.Context(), namespace("well", nil)), nil},
		"deleting namespace":                           {ofNamespace(w.api)(t.Context(), namespace("well", &now)), []string{"well"}},
		"environment of a deleting account":            {ofNamespace(w.api)(t.Context(), &v1alpha1.Environment{ObjectMeta: metav1.ObjectMeta{Namespace: "deleting", Name: "x"}}), []string{"deleting"}},
		"token configuration after a time without any": {ofTokenConfig(w.api)(t.Context(), &v1alpha1.OidcTokenConfig{ObjectMeta: metav1.ObjectMeta{Namespace: "well", Name: "x"}}), []string{"well"}},
		"another namespace":                            {ofNamespace(w.api)(t.Context(), namespace("kube-system", nil)), nil},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			var got []string
			for _, r := range tc.requests {
				got = append(got, r.Name)
			}
			if diff := cmp.Diff(tc.want, got); diff != "" {
				t.Errorf("enqueued (-want +got):\n%s", diff)
			}
		})
	}
}
