package userattribute

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/events"
	clocktesting "k8s.io/utils/clock/testing"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"

	"github.com/quoin-dev/quoin/api/v1alpha1"
	"github.com/quoin-dev/quoin/internal/ids"
	"github.com/quoin-dev/quoin/internal/kube"
	"github.com/quoin-dev/quoin/internal/tenant"
	"github.com/quoin-dev/quoin/internal/userattribute"
)

func attribute(name string, second int64, id string) *v1alpha1.UserAttribute {
	a := &v1alpha1.UserAttribute{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: "acme", Name: name, UID: types.UID(name), Generation: 1, CreationTimestamp: metav1.Unix(second, 0), Labels: map[string]string{},
		},
		Spec: v1alpha1.UserAttributeSpec{Name: v1alpha1.UserAttributeName(name), Type: v1alpha1.UserAttributeString},
	}
	if id != "" {
		a.Labels[v1alpha1.LabelID] = id
	}
	return a
}

// newAPI returns a fake client with attributes and an account that has allocated 5 IDs; no account if issued is empty.
func newAPI(t *testing.T, issued string, objs ...client.Object) client.WithWatch {
	t.Helper()
	scheme := runtime.NewScheme()
	if err := v1alpha1.AddToScheme(scheme); err != nil {
		t.Fatal(err)
	}
	if issued != "" {
		objs = append(objs, &v1alpha1.Account{
			ObjectMeta: metav1.ObjectMeta{Name: "acme", Annotations: map[string]string{v1alpha1.AnnotationIssuedIDs: issued}},
			Spec:       v1alpha1.AccountSpec{Namespace: "acme", Host: "acme.example.com"},
		})
	}
	return fake.NewClientBuilder().WithScheme(scheme).WithObjects(objs...).WithStatusSubresource(&v1alpha1.UserAttribute{}).
		WithIndex(&v1alpha1.Account{}, tenant.IndexNamespace, tenant.NamespaceOf).Build()
}

// reconcileOnce reconciles an attribute and returns it.
func reconcileOnce(t *testing.T, api client.WithWatch, name string) *v1alpha1.UserAttribute {
	t.Helper()
	k := kube.NewClient(api, api, "quoin-test")
	r := New(k, events.NewFakeRecorder(10), clocktesting.NewFakePassiveClock(time.Now()), ids.New(k))
	key := client.ObjectKey{Namespace: "acme", Name: name}
	if _, err := r.Reconcile(t.Context(), ctrl.Request{NamespacedName: key}); err != nil {
		t.Fatal(err)
	}
	a := &v1alpha1.UserAttribute{}
	if err := api.Get(t.Context(), key, a); err != nil {
		t.Fatal(err)
	}
	return a
}

func wantReady(t *testing.T, a *v1alpha1.UserAttribute, reason, message string) {
	t.Helper()
	c := meta.FindStatusCondition(a.Status.Conditions, v1alpha1.ConditionReady)
	if c == nil || c.Reason != reason || !strings.Contains(c.Message, message) || (c.Status == metav1.ConditionTrue) != (reason == "Succeeded") {
		t.Errorf("%s: Ready is %+v, want %s: %s", a.Name, c, reason, message)
	}
}

func TestIDsAreAllocated(t *testing.T) {
	copied, own := attribute("copied", 3, "7"), attribute("own", 1, "7")
	replaced, stolen := attribute("replaced", 1, ""), attribute("stolen", 1, "")
	own.Status.ID, replaced.Status.ID, stolen.Status.ID = 7, 5, 7
	api := newAPI(t, "userattributes=8", attribute("new", 2, ""), own, copied, attribute("restored", 1, "12"), replaced, stolen)
	for _, c := range []struct {
		name            string
		id              int64
		label           string
		reason, message string
	}{
		{"new", 9, "9", "Succeeded", "in effect"},
		{"own", 7, "7", "Succeeded", "in effect"},
		{"copied", 0, "7", "InvalidSpec", `the ID of UserAttribute "own"`},
		{"restored", 12, "12", "Succeeded", "in effect"},
		{"replaced", 5, "5", "Succeeded", "in effect"},
		{"stolen", 7, "", "InvalidSpec", `the ID of UserAttribute "own"`},
	} {
		a := reconcileOnce(t, api, c.name)
		wantReady(t, a, c.reason, c.message)
		if a.Status.ID != c.id || a.Labels[v1alpha1.LabelID] != c.label {
			t.Errorf("%s: id %d, label %q", c.name, a.Status.ID, a.Labels[v1alpha1.LabelID])
		}
		again := reconcileOnce(t, api, c.name)
		if again.ResourceVersion != a.ResourceVersion {
			t.Errorf("%s: another reconciliation writes", c.name)
		}
	}
}

func TestOnlyTheFirstAreInEffect(t *testing.T) {
	var objs []client.Object
	for i := range userattribute.MaxPerAccount + 1 {
		objs = append(objs, attribute(fmt.Sprintf("a%d", i), int64(i+1), ""))
	}
	api := newAPI(t, "userattributes=1", objs...)
	wantReady(t, reconcileOnce(t, api, "a0"), "Succeeded", "in effect")
	wantReady(t, reconcileOnce(t, api, "a63"), "Succeeded", "in effect")
	wantReady(t, reconcileOnce(t, api, "a64"), "LimitExceeded", "the account has 65 user attributes, and only the first 64 are in effect")
	if err := api.Delete(t.Context(), objs[3]); err != nil {
		t.Fatal(err)
	}
	wantReady(t, reconcileOnce(t, api, "a64"), "Succeeded", "in effect")
}

func TestAccountNotFound(t *testing.T) {
	a := attribute("region", 1, "")
	wantReady(t, reconcileOnce(t, newAPI(t, "", a), "region"), "AccountNotFound", "acme")
}
