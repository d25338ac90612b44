package claims

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/validation"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	"github.com/quoin-dev/quoin/api/v1alpha1"
	"github.com/quoin-dev/quoin/internal/apitest"
	"github.com/quoin-dev/quoin/internal/kube"
)

var displayName = Attribute[*v1alpha1.Deployment]{
	Kind: "Deployment", Field: "displayName",
	Value: (*v1alpha1.Deployment).DisplayName,
	New:   func() *v1alpha1.Deployment { return &v1alpha1.Deployment{} },
}

// channelName is another field of the same kind that could be unique too.
var channelName = Attribute[*v1alpha1.Deployment]{
	Kind: "Deployment", Field: "releaseChannel",
	Value: func(d *v1alpha1.Deployment) string { return d.Spec.ReleaseChannel },
	New:   displayName.New,
}

// fixture is a namespace on a real Kubernetes API server.
type fixture struct {
	t         *testing.T
	api       client.WithWatch
	namespace string
	k         *kube.Client
}

func newFixture(t *testing.T) *fixture {
	t.Helper()
	api, namespace := apitest.Direct(t)
	return &fixture{t, api, namespace, kube.NewClient(api, api, "quoin-test")}
}

// create creates a deployment with a display name.
func (r *fixture) create(name, displayed string) *v1alpha1.Deployment {
	r.t.Helper()
	d := &v1alpha1.Deployment{
		ObjectMeta: metav1.ObjectMeta{Namespace: r.namespace, Name: name},
		Spec: v1alpha1.DeploymentSpec{
			DisplayName: displayed, ReleaseChannel: "stable",
			Model: v1alpha1.ModelSource{ConfigMapRef: &v1alpha1.LocalReference{Name: "model"}},
		},
	}
	if err := r.api.Create(r.t.Context(), d); err != nil {
		r.t.Fatal(err)
	}
	return d
}

// rename changes the display name of a deployment.
func (r *fixture) rename(d *v1alpha1.Deployment, displayed string) {
	r.t.Helper()
	d.Spec.DisplayName = displayed
	if err := r.api.Update(r.t.Context(), d); err != nil {
		r.t.Fatal(err)
	}
}

func (r *fixture) delete(obj client.Object) {
	r.t.Helper()
	if err := r.api.Delete(r.t.Context(), obj); err != nil {
		r.t.Fatal(err)
	}
}

// ensure calls Ensure and expects d to hold its name, or else the named holder.
func (r *fixture) ensure(d *v1alpha1.Deployment, holder string) {
	r.t.Helper()
	got, err := displayName.Ensure(r.t.Context(), r.k, d)
	if err != nil || got != holder {
		r.t.Errorf("%s wants %q: held by %q, %v; want %q", d.Name, d.DisplayName(), got, err, holder)
	}
}

// held returns the holders of claims by value, or by name of the claim for other values.
func (r *fixture) held(values ...string) map[string]string {
	r.t.Helper()
	list := &v1alpha1.ClaimList{}
	if err := r.api.List(r.t.Context(), list, client.InNamespace(r.namespace)); err != nil {
		r.t.Fatal(err)
	}
	held := map[string]string{}
	for _, claim := range list.Items {
		value := claim.Name
		for _, v := range values {
			if displayName.Name(v) == claim.Name {
				value = v
			}
		}
		held[value] = claim.Spec.Holder.Name
	}
	return held
}

func (r *fixture) wantHeld(want map[string]string, values ...string) {
	r.t.Helper()
	if diff := cmp.Diff(want, r.held(values...)); diff != "" {
		r.t.Errorf("claims (-want +got):\n%s", diff)
	}
}

// TestConcurrentEnsureHasOneWinner: of 64 objects exactly one gets the value, and the others get
// the name of the holder.
func TestConcurrentEnsureHasOneWinner(t *testing.T) {
	r := newFixture(t)
	var all []*v1alpha1.Deployment
	for i := range 64 {
		all = append(all, r.create(fmt.Sprint("d", i), "Sales"))
	}
	wins, holders := race(r, all)
	if len(wins) != 1 {
		t.Fatalf("%v hold the value", wins)
	}
	r.wantHeld(map[string]string{"Sales": wins[0]}, "Sales")
	for loser, holder := range holders {
		if holder != wins[0] {
			t.Errorf("%s: held by %q, want %q", loser, holder, wins[0])
		}
	}
	for _, d := range all { // stable afterwards
		holder := wins[0]
		if d.Name == holder {
			holder = ""
		}
		r.ensure(d, holder)
	}
}

// race calls Ensure for all objects concurrently. Objects with a conflict, which the queue
// retries, are neither in wins nor in holders.
func race(r *fixture, all []*v1alpha1.Deployment) (wins []string, holders map[string]string) {
	r.t.Helper()
	holders = map[string]string{}
	var mu sync.Mutex
	var group sync.WaitGroup
	start := make(chan struct{})
	for _, d := range all {
		group.Go(func() {
			<-start
			holder, err := displayName.Ensure(r.t.Context(), r.k, d)
			mu.Lock()
			defer mu.Unlock()
			switch {
			case apierrors.IsConflict(err):
			case err != nil:
				r.t.Errorf("%s: %v", d.Name, err)
			case holder == "":
				wins = append(wins, d.Name)
			default:
				holders[d.Name] = holder
			}
		})
	}
	close(start)
	group.Wait()
	return wins, holders
}

// TestConcurrentTakeoverHasOneWinner when the holder was deleted.
func TestConcurrentTakeoverHasOneWinner(t *testing.T) {
	r := newFixture(t)
	deleted := r.create("deleted", "Sales")
	r.ensure(deleted, "")
	r.delete(deleted)
	var all []*v1alpha1.Deployment
	for i := range 16 {
		all = append(all, r.create(fmt.Sprint("d", i), "Sales"))
	}
	wins, _ := race(r, all)
	if len(wins) != 1 {
		t.Fatalf("%v hold the value", wins)
	}
	r.wantHeld(map[string]string{"Sales": wins[0]}, "Sales")
}

func TestTakeoverOfOrphanedClaims(t *testing.T) {
	cases := map[string]struct {
		// change changes the holder, which is "first".
		change func(r *fixture, first *v1alpha1.Deployment)
		holder string
	}{
		"holder unchanged":              {func(*fixture, *v1alpha1.Deployment) {}, "first"},
		"holder deleted":                {func(r *fixture, first *v1alpha1.Deployment) { r.delete(first) }, ""},
		"holder has another value":      {func(r *fixture, first *v1alpha1.Deployment) { r.rename(first, "Marketing") }, ""},
		"holder recreated, other value": {func(r *fixture, first *v1alpha1.Deployment) { r.delete(first); r.create("first", "Marketing") }, ""},
		"holder recreated, same value":  {func(r *fixture, first *v1alpha1.Deployment) { r.delete(first); r.create("first", "Sales") }, ""},
		"claim without UID":             {func(r *fixture, _ *v1alpha1.Deployment) { r.removeUID("Sales") }, "first"},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			r := newFixture(t)
			first := r.create("first", "Sales")
			r.ensure(first, "")
			tc.change(r, first)
			second := r.create("second", "Sales")
			r.ensure(second, tc.holder)
			want := tc.holder
			if want == "" {
				want = "second"
			}
			if got := r.held("Sales")["Sales"]; got != want {
				t.Errorf("held by %q, want %q", got, want)
			}
		})
	}
}

// removeUID makes the claim one that was created before its holder, as by Reserve.
func (r *fixture) removeUID(value string) {
	r.t.Helper()
	claim := &v1alpha1.Claim{ObjectMeta: metav1.ObjectMeta{Namespace: r.namespace, Name: displayName.Name(value)}}
	if err := r.api.Patch(r.t.Context(), claim, client.RawPatch("application/merge-patch+json", []byte(`{"spec":{"holder":{"uid":null}}}`))); err != nil {
		r.t.Fatal(err)
	}
}

// TestRenameReleasesTheOldValue when the new one is held, and not before.
func TestRenameReleasesTheOldValue(t *testing.T) {
	r := newFixture(t)
	first, second := r.create("first", "Sales"), r.create("second", "Marketing")
	r.ensure(first, "")
	r.ensure(second, "")
	if _, err := channelName.Ensure(t.Context(), r.k, first); err != nil {
		t.Fatal(err)
	}
	other := channelName.Name("stable")

	r.rename(first, "Marketing")
	r.ensure(first, "second")
	r.wantHeld(map[string]string{"Sales": "first", "Marketing": "second", other: "first"}, "Sales", "Marketing")

	r.rename(first, "Finance")
	r.ensure(first, "")
	r.wantHeld(map[string]string{"Finance": "first", "Marketing": "second", other: "first"}, "Sales", "Marketing", "Finance")
	third := r.create("third", "Sales")
	r.ensure(third, "")
	r.ensure(first, "") // idempotent
	r.wantHeld(map[string]string{"Finance": "first", "Marketing": "second", "Sales": "third", other: "first"}, "Sales", "Marketing", "Finance")
}

func TestNamespacesAreIndependent(t *testing.T) {
	one, other := newFixture(t), newFixture(t)
	one.ensure(one.create("first", "Sales"), "")
	other.ensure(other.create("second", "Sales"), "")
}

// TestConcurrentTakeoverIsAConflict for all but one; there is no second winner.
func TestConcurrentTakeoverIsAConflict(t *testing.T) {
	r := newFixture(t)
	deleted := r.create("deleted", "Sales")
	r.ensure(deleted, "")
	r.delete(deleted)
	first, second := r.create("first", "Sales"), r.create("second", "Sales")
	k := kube.NewClient(interceptor.NewClient(r.api, interceptor.Funcs{
		Update: func(ctx context.Context, c client.WithWatch, obj client.Object, opts ...client.UpdateOption) error {
			r.ensure(first, "") // takes over first
			return c.Update(ctx, obj, opts...)
		},
	}), r.api, "quoin-test")
	holder, err := displayName.Ensure(t.Context(), k, second)
	if !apierrors.IsConflict(err) || holder != "" {
		t.Errorf("got %q, %v; want a conflict", holder, err)
	}
	r.ensure(second, "first")
	r.wantHeld(map[string]string{"Sales": "first"}, "Sales")
}

// TestStaleCache: a claim that is missing in the cache is found.
func TestStaleCache(t *testing.T) {
	r := newFixture(t)
	r.ensure(r.create("first", "Sales"), "")
	api := r.api
	stale := interceptor.NewClient(api, interceptor.Funcs{
		Get: func(_ context.Context, _ client.WithWatch, key client.ObjectKey, _ client.Object, _ ...client.GetOption) error {
			return apierrors.NewNotFound(v1alpha1.GroupVersion.WithResource("claims").GroupResource(), key.Name)
		},
	})
	r.k = kube.NewClient(stale, api, "quoin-test")
	r.ensure(r.create("second", "Sales"), "first")
}

// TestErrorsNameTheAttribute and wrap the cause.
func TestErrorsNameTheAttribute(t *testing.T) {
	broken := errors.New("connection refused")
	cases := map[string]struct {
		funcs interceptor.Funcs
		text  string
	}{
		"read": {interceptor.Funcs{Get: func(context.Context, client.WithWatch, client.ObjectKey, client.Object, ...client.GetOption) error {
			return broken
		}}, "claim Deployment.displayName: "},
		"create": {interceptor.Funcs{Create: func(context.Context, client.WithWatch, client.Object, ...client.CreateOption) error { return broken }}, "claim Deployment.displayName: "},
		"list":   {interceptor.Funcs{List: func(context.Context, client.WithWatch, client.ObjectList, ...client.ListOption) error { return broken }}, `list claims of Deployment "first": `},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			r := newFixture(t) // without a claim
			k := kube.NewClient(interceptor.NewClient(r.api, tc.funcs), r.api, "quoin-test")
			_, err := displayName.Ensure(t.Context(), k, r.create("first", "Sales"))
			if !errors.Is(err, broken) || !strings.HasPrefix(err.Error(), tc.text) {
				t.Errorf("got %v, want %s%v", err, tc.text, broken)
			}
		})
	}
}

// TestNameIsValidAndUnique, and deterministic.
func TestNameIsValidAndUnique(t *testing.T) {
	values := map[string]string{}
	for _, value := range []string{"", "Sales", "sales", " Sales", "日本", strings.Repeat("x", 1000), "a\x00b"} {
		for _, a := range []Attribute[*v1alpha1.Deployment]{displayName, channelName, {Kind: "ScimUser", Field: "userName"}} {
			name := a.Name(value)
			if problems := validation.IsDNS1123Label(name); len(problems) > 0 {
				t.Errorf("%q: %v", name, problems)
			}
			if other, exists := values[name]; exists || name != a.Name(value) {
				t.Errorf("%q is the name for %q and for %q", name, other, value)
			}
			values[name] = value
		}
	}
}

// TestIsNameTaken depends on the Ready condition only.
func TestIsNameTaken(t *testing.T) {
	for name, c := range map[string]struct {
		conditions []metav1.Condition
		want       bool
	}{
		"new":            {nil, false},
		"ready":          {[]metav1.Condition{{Type: v1alpha1.ConditionReady, Status: metav1.ConditionTrue, Reason: v1alpha1.ReasonSucceeded}}, false},
		"name taken":     {[]metav1.Condition{{Type: v1alpha1.ConditionReady, Status: metav1.ConditionFalse, Reason: v1alpha1.ReasonNameTaken}}, true},
		"something else": {[]metav1.Condition{{Type: v1alpha1.ConditionReady, Status: metav1.ConditionFalse, Reason: v1alpha1.ReasonExpired}}, false},
		"only stalled":   {[]metav1.Condition{{Type: v1alpha1.ConditionStalled, Status: metav1.ConditionTrue, Reason: v1alpha1.ReasonNameTaken}}, false},
	} {
		u := &v1alpha1.ScimUser{}
		u.Status.Conditions = c.conditions
		if got := IsNameTaken(u); got != c.want {
			t.Errorf("%s: got %t, want %t", name, got, c.want)
		}
	}
}
