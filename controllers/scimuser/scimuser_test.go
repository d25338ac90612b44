package scimuser

import (
	"context"
	"errors"
	"fmt"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/events"
	"k8s.io/utils/clock"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	"github.com/quoin-dev/quoin/api/v1alpha1"
	"github.com/quoin-dev/quoin/internal/apitest"
	"github.com/quoin-dev/quoin/internal/claims"
	"github.com/quoin-dev/quoin/internal/kube"
)

// fixture is a reconciler with its own namespace and account.
type fixture struct {
	*testing.T
	api       client.WithWatch
	namespace string
	recorder  *events.FakeRecorder
	account   *v1alpha1.Account
	// writes are the writes so far. fail is called before each call and may return an error.
	writes []string
	fail   func(call string) error
}

func newFixture(t *testing.T) *fixture {
	api, namespace := apitest.Direct(t)
	f := &fixture{T: t, api: api, namespace: namespace, recorder: events.NewFakeRecorder(20), fail: func(string) error { return nil }}
	f.account = &v1alpha1.Account{
		ObjectMeta: metav1.ObjectMeta{Name: namespace},
		Spec: v1alpha1.AccountSpec{
			Namespace: namespace, Host: v1alpha1.Host(namespace + ".example.com"),
			Scim: &v1alpha1.Scim{Schemas: []v1alpha1.ScimSchema{
				{ID: "urn:example:Badge", ResourceType: "User", Attributes: []v1alpha1.ScimAttribute{{Name: "number", Type: "string"}}},
				{ID: "urn:example:Team", ResourceType: "Group", Attributes: []v1alpha1.ScimAttribute{{Name: "number", Type: "string"}}},
			}},
		},
	}
	f.must(api.Create(t.Context(), f.account))
	t.Cleanup(func() { _ = api.Delete(context.Background(), f.account) })
	return f
}

func (f *fixture) client() client.WithWatch {
	call := func(op string, obj any, write bool, do func() error) error {
		name := op + " " + typeName(obj)
		if write {
			f.writes = append(f.writes, name)
		}
		if err := f.fail(name); err != nil {
			return err
		}
		return do()
	}
	return interceptor.NewClient(f.api, interceptor.Funcs{
		Get: func(ctx context.Context, c client.WithWatch, key client.ObjectKey, obj client.Object, opts ...client.GetOption) error {
			return call("get", obj, false, func() error { return c.Get(ctx, key, obj, opts...) })
		},
		List: func(ctx context.Context, c client.WithWatch, list client.ObjectList, opts ...client.ListOption) error {
			return call("list", list, false, func() error { return c.List(ctx, list, opts...) })
		},
		Create: func(ctx context.Context, c client.WithWatch, obj client.Object, opts ...client.CreateOption) error {
			return call("create", obj, true, func() error { return c.Create(ctx, obj, opts...) })
		},
		Update: func(ctx context.Context, c client.WithWatch, obj client.Object, opts ...client.UpdateOption) error {
			return call("update", obj, true, func() error { return c.Update(ctx, obj, opts...) })
		},
		Delete: func(ctx context.Context, c client.WithWatch, obj client.Object, opts ...client.DeleteOption) error {
			return call("delete", obj, true, func() error { return c.Delete(ctx, obj, opts...) })
		},
		Patch: func(ctx context.Context, c client.WithWatch, obj client.Object, patch client.Patch, opts ...client.PatchOption) error {
			return call("patch", obj, true, func() error { return c.Patch(ctx, obj, patch, opts...) })
		},
		SubResourcePatch: func(ctx context.Context, c client.Client, sub string, obj client.Object, patch client.Patch, opts ...client.SubResourcePatchOption) error {
			return call("patch "+sub, obj, true, func() error { return c.SubResource(sub).Patch(ctx, obj, patch, opts...) })
		},
	})
}

func (f *fixture) must(err error) {
	f.Helper()
	if err != nil {
		f.Fatal(err)
	}
}

// user creates a user.
func (f *fixture) user(name string, spec v1alpha1.ScimUserSpec) *v1alpha1.ScimUser {
	f.Helper()
	u := &v1alpha1.ScimUser{ObjectMeta: metav1.ObjectMeta{Namespace: f.namespace, Name: name}, Spec: spec}
	f.must(f.api.Create(f.Context(), u))
	return u
}

func (f *fixture) reconcile(name string) (*v1alpha1.ScimUser, ctrl.Result, error) {
	f.Helper()
	c := f.client()
	key := client.ObjectKey{Namespace: f.namespace, Name: name}
	result, err := New(kube.NewClient(c, c, "quoin-test"), f.recorder, clock.RealClock{}).Reconcile(f.Context(), ctrl.Request{NamespacedName: key})
	u := &v1alpha1.ScimUser{}
	f.must(f.api.Get(f.Context(), key, u))
	return u, result, err
}

func (f *fixture) mustReconcile(name string) (*v1alpha1.ScimUser, ctrl.Result) {
	f.Helper()
	u, result, err := f.reconcile(name)
	f.must(err)
	return u, result
}

// wantNoWrites checks that another reconciliation writes nothing.
func (f *fixture) wantNoWrites(name string) {
	f.Helper()
	f.writes = nil
	f.mustReconcile(name)
	if len(f.writes) != 0 {
		f.Errorf("unexpected writes: %v", f.writes)
	}
}

// wantReady checks the Ready condition, and that Stalled is set if Ready is False.
func (f *fixture) wantReady(u *v1alpha1.ScimUser, status metav1.ConditionStatus, reason, message string) {
	f.Helper()
	c := meta.FindStatusCondition(u.Status.Conditions, v1alpha1.ConditionReady)
	if c == nil || c.Status != status || c.Reason != reason || !strings.Contains(c.Message, message) {
		f.Errorf("Ready is %+v; want %s, %s: %s", c, status, reason, message)
	}
	if stalled := meta.IsStatusConditionTrue(u.Status.Conditions, v1alpha1.ConditionStalled); stalled != (status == metav1.ConditionFalse) {
		f.Errorf("Stalled: %v", stalled)
	}
	if u.Status.ObservedGeneration != u.Generation {
		f.Errorf("observedGeneration is %d of %d", u.Status.ObservedGeneration, u.Generation)
	}
}

// TestWrites checks that a user created over SCIM costs one status write, and an applied one also a claim.
func TestWrites(t *testing.T) {
	f := newFixture(t)
	k := kube.NewClient(f.api, f.api, "quoin-test")
	if holder, err := claims.UserName.Reserve(t.Context(), k, f.namespace, "ann", "ann@example.com"); holder != "" || err != nil {
		t.Fatal(holder, err)
	}
	f.user("ann", v1alpha1.ScimUserSpec{UserName: "Ann@example.com"})
	u, _ := f.mustReconcile("ann")
	f.wantReady(u, "True", "Succeeded", "in effect")
	if diff := cmp.Diff([]string{"patch status ScimUser"}, f.writes); diff != "" {
		t.Errorf("writes (-want +got):\n%s", diff)
	}
	f.wantNoWrites("ann")
	f.user("bob", v1alpha1.ScimUserSpec{UserName: "bob"})
	f.writes = nil
	u, _ = f.mustReconcile("bob")
	f.wantReady(u, "True", "Succeeded", "in effect")
	if diff := cmp.Diff([]string{"create Claim", "patch status ScimUser"}, f.writes); diff != "" {
		t.Errorf("writes (-want +got):\n%s", diff)
	}
	f.wantNoWrites("bob")
	close(f.recorder.Events)
	for event := range f.recorder.Events {
		t.Errorf("event %q", event)
	}
}

// TestDeactivationIsReported checks that the status shows whether a user is active, and why not although its
// manifest says so.
func TestDeactivationIsReported(t *testing.T) {
	f := newFixture(t)
	for name, spec := range map[string]v1alpha1.ScimUserSpec{
		"ann": {}, "bob": {Active: new(true), DeprovisionTime: new(metav1.Unix(1, 0))}, "eve": {Active: new(false)},
	} {
		spec.UserName = name
		u := f.user(name, spec)
		u, _ = f.mustReconcile(u.Name)
		f.wantReady(u, "True", "Succeeded", "in effect")
		deprovisioned := meta.FindStatusCondition(u.Status.Conditions, "Deprovisioned")
		if u.Status.Active == nil || *u.Status.Active != (name == "ann") || (deprovisioned != nil) != (name == "bob") {
			t.Errorf("%s: active is %v, Deprovisioned %+v", name, u.Status.Active, deprovisioned)
		}
		f.wantNoWrites(name)
		if name != "bob" {
			continue
		}
		if deprovisioned.Reason != "DeactivatedOverSCIM" || !strings.Contains(deprovisioned.Message, "1970-01-01T00:00:01Z") {
			t.Errorf("Deprovisioned is %+v", deprovisioned)
		}
		u.Spec.DeprovisionTime = nil
		f.must(f.api.Update(t.Context(), u))
		if u, _ = f.mustReconcile("bob"); !*u.Status.Active || meta.FindStatusCondition(u.Status.Conditions, "Deprovisioned") != nil {
			t.Errorf("after the activation: %+v", u.Status)
		}
	}
}

func TestNameTaken(t *testing.T) {
	f := newFixture(t)
	ann := f.user("ann", v1alpha1.ScimUserSpec{UserName: "ann@example.com"})
	f.user("eve", v1alpha1.ScimUserSpec{UserName: "ANN@example.com"})
	f.mustReconcile("ann")
	u, _ := f.mustReconcile("eve")
	f.wantReady(u, "False", "NameTaken", `spec.userName: "ANN@example.com" belongs to ScimUser "ann"`)
	f.wantNoWrites("eve")
	if e := <-f.recorder.Events; !strings.Contains(e, "Warning NameTaken") {
		t.Errorf("event %q", e)
	}
	f.must(f.api.Delete(t.Context(), ann))
	u, _ = f.mustReconcile("eve")
	f.wantReady(u, "True", "Succeeded", "")
}

// TestNameInFlight checks that no condition is set while the name is being claimed.
func TestNameInFlight(t *testing.T) {
	f := newFixture(t)
	k := kube.NewClient(f.api, f.api, "quoin-test")
	if _, err := claims.UserName.Reserve(t.Context(), k, f.namespace, "ann", "ann"); err != nil {
		t.Fatal(err)
	}
	f.user("eve", v1alpha1.ScimUserSpec{UserName: "Ann"})
	u, result := f.mustReconcile("eve")
	if len(u.Status.Conditions) != 0 || result.RequeueAfter <= 0 || len(f.writes) != 0 {
		t.Errorf("conditions %v, requeued after %s, writes %v", u.Status.Conditions, result.RequeueAfter, f.writes)
	}
	f.user("ann", v1alpha1.ScimUserSpec{UserName: "ann"})
	u, _ = f.mustReconcile("eve")
	f.wantReady(u, "False", "NameTaken", `"ann"`)
}

func TestAccountNotFound(t *testing.T) {
	f := newFixture(t)
	f.user("ann", v1alpha1.ScimUserSpec{UserName: "ann"})
	f.mustReconcile("ann")
	f.must(f.api.Delete(t.Context(), f.account))
	u, _ := f.mustReconcile("ann")
	f.wantReady(u, "False", "AccountNotFound", f.namespace)
	f.wantNoWrites("ann")
}

func TestExtensions(t *testing.T) {
	extension := func(schema, attributes string) v1alpha1.ScimExtension {
		return v1alpha1.ScimExtension{Schema: schema, Attributes: apiextensionsv1.JSON{Raw: []byte(attributes)}}
	}
	cases := map[string]struct {
		extensions      []v1alpha1.ScimExtension
		reason, message string
	}{
		"declared":                {[]v1alpha1.ScimExtension{extension("URN:example:badge", `{"number":"1"}`)}, "Succeeded", "The user is in effect"},
		"not declared":            {[]v1alpha1.ScimExtension{extension("urn:example:Other", `{}`)}, "Succeeded", `and ignored: "urn:example:Other"`},
		"declared for groups":     {[]v1alpha1.ScimExtension{extension("urn:example:Team", `{}`)}, "Succeeded", `and ignored: "urn:example:Team"`},
		"a string":                {[]v1alpha1.ScimExtension{extension("urn:example:Badge", `"x"`)}, "InvalidSpec", "spec.extensions[0].attributes: must be an object"},
		"a list":                  {[]v1alpha1.ScimExtension{extension("urn:example:Other", `{}`), extension("urn:example:Badge", `[{}]`)}, "InvalidSpec", "spec.extensions[1].attributes"},
		"the core schema":         {[]v1alpha1.ScimExtension{extension("urn:ietf:params:scim:schemas:core:2.0:User", `{}`)}, "InvalidSpec", "are fields of the spec"},
		"the enterprise schema":   {[]v1alpha1.ScimExtension{extension("urn:ietf:params:scim:schemas:extension:Enterprise:2.0:user", `{}`)}, "InvalidSpec", "are fields of the spec"},
		"twice in different case": {[]v1alpha1.ScimExtension{extension("urn:example:Badge", `{}`), extension("urn:example:badge", `{}`)}, "InvalidSpec", "spec.extensions[1].schema"},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			f := newFixture(t)
			f.user("ann", v1alpha1.ScimUserSpec{UserName: "ann", Extensions: tc.extensions})
			u, _ := f.mustReconcile("ann")
			status := metav1.ConditionTrue
			if tc.reason != "Succeeded" {
				status = metav1.ConditionFalse
			}
			f.wantReady(u, status, tc.reason, tc.message)
			f.wantNoWrites("ann")
		})
	}
}

func TestAttributes(t *testing.T) {
	value := func(name, text string) v1alpha1.UserAttributeValue {
		return v1alpha1.UserAttributeValue{Name: v1alpha1.UserAttributeName(name), UserAttributeContent: v1alpha1.UserAttributeContent{String: &text}}
	}
	var large []v1alpha1.UserAttributeValue
	for i := range 9 {
		large = append(large, value(fmt.Sprintf("a%d", i), strings.Repeat("x", 500)))
	}
	for name, tc := range map[string]struct {
		values          []v1alpha1.UserAttributeValue
		reason, message string
	}{
		"of the type":          {[]v1alpha1.UserAttributeValue{value("region", "EU")}, "Succeeded", "The user is in effect"},
		"without an attribute": {[]v1alpha1.UserAttributeValue{value("region", "EU"), value("gone", "x")}, "Succeeded", `and the value is ignored: "gone"`},
		"of another type":      {[]v1alpha1.UserAttributeValue{value("quota", "five")}, "InvalidSpec", `spec.attributes[quota]: "five" is not of the type number`},
		"too large":            {large, "InvalidSpec", "spec.attributes: the values have 4536 bytes in total; allowed: 4096"},
	} {
		t.Run(name, func(t *testing.T) {
			f := newFixture(t)
			for name, kind := range map[string]v1alpha1.UserAttributeType{"region": "string", "quota": "number"} {
				f.must(f.api.Create(t.Context(), &v1alpha1.UserAttribute{
					ObjectMeta: metav1.ObjectMeta{Namespace: f.namespace, Name: name},
					Spec:       v1alpha1.UserAttributeSpec{Name: v1alpha1.UserAttributeName(name), Type: kind},
				}))
			}
			f.user("ann", v1alpha1.ScimUserSpec{UserName: "ann", Attributes: tc.values})
			u, _ := f.mustReconcile("ann")
			status := metav1.ConditionTrue
			if tc.reason != "Succeeded" {
				status = metav1.ConditionFalse
			}
			f.wantReady(u, status, tc.reason, tc.message)
			f.wantNoWrites("ann")
		})
	}
}

func TestManager(t *testing.T) {
	f := newFixture(t)
	for name, manager := range map[string]string{"ann": "boss", "bob": "no name/at all"} {
		f.user(name, v1alpha1.ScimUserSpec{UserName: name, Enterprise: &v1alpha1.ScimEnterprise{Manager: &v1alpha1.ScimManager{Value: manager}}})
		u, _ := f.mustReconcile(name)
		f.wantReady(u, "True", "Succeeded", `manager.value: there is no user "`+manager)
		f.wantNoWrites(name)
	}
	f.user("boss", v1alpha1.ScimUserSpec{UserName: "boss"})
	u, _ := f.mustReconcile("ann")
	f.wantReady(u, "True", "Succeeded", "in effect")
	if c := meta.FindStatusCondition(u.Status.Conditions, "Ready"); strings.Contains(c.Message, "boss") {
		t.Errorf("message %q", c.Message)
	}
}

// TestLastModified checks that only changes of the spec change lastModified.
func TestLastModified(t *testing.T) {
	f := newFixture(t)
	created := f.user("ann", v1alpha1.ScimUserSpec{UserName: "ann"})
	u, _ := f.mustReconcile("ann")
	if !u.Status.LastModified.Equal(&created.CreationTimestamp) {
		t.Errorf("created at %s, modified at %s", created.CreationTimestamp, u.Status.LastModified)
	}
	time.Sleep(1100 * time.Millisecond)
	f.must(f.api.Patch(t.Context(), u, client.RawPatch("application/merge-patch+json", []byte(`{"metadata":{"labels":{"a":"b"}}}`)), client.FieldOwner("other")))
	f.wantNoWrites("ann")
	f.must(f.api.Patch(t.Context(), u, client.RawPatch("application/merge-patch+json", []byte(`{"spec":{"title":"Dr"}}`))))
	u, _ = f.mustReconcile("ann")
	if !u.Status.LastModified.After(created.CreationTimestamp.Time) {
		t.Errorf("created at %s, modified at %s", created.CreationTimestamp, u.Status.LastModified)
	}
}

// TestFailures checks that a reconciliation recovers from the failure of any call.
func TestFailures(t *testing.T) {
	for _, call := range []string{"list AccountList", "get Claim", "create Claim", "list ClaimList", "get ScimUser", "patch status ScimUser"} {
		t.Run(call, func(t *testing.T) {
			f := newFixture(t)
			f.user("ann", v1alpha1.ScimUserSpec{UserName: "ann", Enterprise: &v1alpha1.ScimEnterprise{Manager: &v1alpha1.ScimManager{Value: "boss"}}})
			failed := 0
			f.fail = func(c string) error {
				if c == call && failed == 0 {
					failed++
					return errors.New("connection refused")
				}
				return nil
			}
			if _, _, err := f.reconcile("ann"); err == nil || failed == 0 {
				t.Errorf("got %v", err)
			}
			u, _ := f.mustReconcile("ann")
			f.wantReady(u, "True", "Succeeded", "boss")
			f.wantNoWrites("ann")
		})
	}
}

func typeName(obj any) string {
	return strings.TrimPrefix(reflect.TypeOf(obj).String(), "*v1alpha1.")
}
