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

// room is a namespace on a real API server.
type room struct {
	t         *testing.T
	api       client.WithWatch
	namespace string
	k         *kube.Client
}

func newRoom(t *testing.T) *room {
	t.Helper()
	api, namespace := apitest.Direct(t)
	return &room{t, api, namespace, kube.NewClient(api, api, "quoin-test")}
}

// make makes a deployment with a display name.
func (r *room) make(name, shown string) *v1alpha1.Deployment {
	r.t.Helper()
	d := &v1alpha1.Deployment{
		ObjectMeta: metav1.ObjectMeta{Namespace: r.namespace, Name: name},
		Spec: v1alpha1.DeploymentSpec{
			DisplayName: shown, ReleaseChannel: "stable",
			Model: v1alpha1.ModelSource{ConfigMapRef: &v1alpha1.LocalReference{Name: "model"}},
		},
	}
	if err := r.api.Create(r.t.Context(), d); err != nil {
		r.t.Fatal(err)
	}
	return d
}

// rename gives a deployment another display name.
func (r *room) rename(d *v1alpha1.Deployment, shown string) {
	r.t.Helper()
	d.Spec.DisplayName = shown
	if err := r.api.Update(r.t.Context(), d); err != nil {
		r.t.Fatal(err)
	}
}

func (r *room) delete(obj client.Object) {
	r.t.Helper()
	if err := r.api.Delete(r.t.Context(), obj); err != nil {
		r.t.Fatal(err)
	}
}

// ensure wants d to hold its name, or the named holder instead.
func (r *room) ensure(d *v1alpha1.Deployment, holder string) {
	r.t.Helper()
	got, err := displayName.Ensure(r.t.Context(), r.k, d)
	if err != nil || got != holder {
		r.t.Errorf("%s wants %q: held by %q, %v; want %q", d.Name, d.DisplayName(), got, err, holder)
	}
}

// held are the holders by the claim's value, which is tried out of those given.
func (r *room) held(values ...string) map[string]string {
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

func (r *room) wantHeld(want map[string]string, values ...string) {
	r.t.Helper()
	if diff := cmp.Diff(want, r.held(values...)); diff != "" {
		r.t.Errorf("claims (-want +got):\n%s", diff)
	}
}

// TestOneWins: of 64 objects that want a value at the same time, exactly one gets it, and the
// others are told whose it is.
func TestOneWins(t *testing.T) {
	r := newRoom(t)
	var all []*v1alpha1.Deployment
	for i := range 64 {
		all = append(all, r.make(fmt.Sprint("d", i), "Sales"))
	}
	wins, told := race(r, all)
	if len(wins) != 1 {
		t.Fatalf("%v hold the value", wins)
	}
	r.wantHeld(map[string]string{"Sales": wins[0]}, "Sales")
	for loser, holder := range told {
		if holder != wins[0] {
			t.Errorf("%s is told that %q holds the value; it is %q", loser, holder, wins[0])
		}
	}
	for _, d := range all { // and it stays so
		holder := wins[0]
		if d.Name == holder {
			holder = ""
		}
		r.ensure(d, holder)
	}
}

// race lets all ensure at once. Conflicts are what the caller's queue tries again: who had
// one is neither among the winners nor told anything.
func race(r *room, all []*v1alpha1.Deployment) (wins []string, told map[string]string) {
	r.t.Helper()
	told = map[string]string{}
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
				told[d.Name] = holder
			}
		})
	}
	close(start)
	group.Wait()
	return wins, told
}

// TestOneTakesOver: of many that want what an object that is gone has held, one gets it.
func TestOneTakesOver(t *testing.T) {
	r := newRoom(t)
	gone := r.make("gone", "Sales")
	r.ensure(gone, "")
	r.delete(gone)
	var all []*v1alpha1.Deployment
	for i := range 16 {
		all = append(all, r.make(fmt.Sprint("d", i), "Sales"))
	}
	wins, _ := race(r, all)
	if len(wins) != 1 {
		t.Fatalf("%v hold the value", wins)
	}
	r.wantHeld(map[string]string{"Sales": wins[0]}, "Sales")
}

func TestTakeover(t *testing.T) {
	cases := map[string]struct {
		// before is what became of the holder, which is "first".
		before func(r *room, first *v1alpha1.Deployment)
		holder string
	}{
		"holder is well":              {func(*room, *v1alpha1.Deployment) {}, "first"},
		"holder is gone":              {func(r *room, first *v1alpha1.Deployment) { r.delete(first) }, ""},
		"holder has another value":    {func(r *room, first *v1alpha1.Deployment) { r.rename(first, "Marketing") }, ""},
		"holder was made anew, other": {func(r *room, first *v1alpha1.Deployment) { r.delete(first); r.make("first", "Marketing") }, ""},
		"holder was made anew, same":  {func(r *room, first *v1alpha1.Deployment) { r.delete(first); r.make("first", "Sales") }, ""},
		"claimed before it was made":  {func(r *room, _ *v1alpha1.Deployment) { r.forgetUID("Sales") }, "first"},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			r := newRoom(t)
			first := r.make("first", "Sales")
			r.ensure(first, "")
			tc.before(r, first)
			second := r.make("second", "Sales")
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

// forgetUID makes the claim one that was made before its holder, as the front end does.
func (r *room) forgetUID(value string) {
	r.t.Helper()
	claim := &v1alpha1.Claim{ObjectMeta: metav1.ObjectMeta{Namespace: r.namespace, Name: displayName.Name(value)}}
	if err := r.api.Patch(r.t.Context(), claim, client.RawPatch("application/merge-patch+json", []byte(`{"spec":{"holder":{"uid":null}}}`))); err != nil {
		r.t.Fatal(err)
	}
}

// TestRename: the old value is free as soon as the new one is held, and not before.
func TestRename(t *testing.T) {
	r := newRoom(t)
	first, second := r.make("first", "Sales"), r.make("second", "Marketing")
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
	third := r.make("third", "Sales")
	r.ensure(third, "")
	r.ensure(first, "") // again costs nothing and changes nothing
	r.wantHeld(map[string]string{"Finance": "first", "Marketing": "second", "Sales": "third", other: "first"}, "Sales", "Marketing", "Finance")
}

func TestNamespacesAreApart(t *testing.T) {
	one, other := newRoom(t), newRoom(t)
	one.ensure(one.make("first", "Sales"), "")
	other.ensure(other.make("second", "Sales"), "")
}

// TestLostTakeover: who loses the race for an orphan has a conflict and tries again; there
// is no second winner.
func TestLostTakeover(t *testing.T) {
	r := newRoom(t)
	gone := r.make("gone", "Sales")
	r.ensure(gone, "")
	r.delete(gone)
	first, second := r.make("first", "Sales"), r.make("second", "Sales")
	k := kube.NewClient(interceptor.NewClient(r.api, interceptor.Funcs{
		Update: func(ctx context.Context, c client.WithWatch, obj client.Object, opts ...client.UpdateOption) error {
			r.ensure(first, "") // is faster
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

// TestCacheThatLags: a claim that the cache does not show yet is found all the same.
func TestCacheThatLags(t *testing.T) {
	r := newRoom(t)
	r.ensure(r.make("first", "Sales"), "")
	api := r.api
	blind := interceptor.NewClient(api, interceptor.Funcs{
		Get: func(_ context.Context, _ client.WithWatch, key client.ObjectKey, _ client.Object, _ ...client.GetOption) error {
			return apierrors.NewNotFound(v1alpha1.GroupVersion.WithResource("claims").GroupResource(), key.Name)
		},
	})
	r.k = kube.NewClient(blind, api, "quoin-test")
	r.ensure(r.make("second", "Sales"), "first")
}

// TestErrors name the attribute and keep the cause.
func TestErrors(t *testing.T) {
	broken := errors.New("connection refused")
	cases := map[string]struct {
		funcs interceptor.Funcs
		says  string
	}{
		"read": {interceptor.Funcs{Get: func(context.Context, client.WithWatch, client.ObjectKey, client.Object, ...client.GetOption) error {
			return broken
		}}, "claim Deployment.displayName: "},
		"create": {interceptor.Funcs{Create: func(context.Context, client.WithWatch, client.Object, ...client.CreateOption) error { return broken }}, "claim Deployment.displayName: "},
		"list":   {interceptor.Funcs{List: func(context.Context, client.WithWatch, client.ObjectList, ...client.ListOption) error { return broken }}, `list claims of Deployment "first": `},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			r := newRoom(t) // the claim is not there yet
			k := kube.NewClient(interceptor.NewClient(r.api, tc.funcs), r.api, "quoin-test")
			_, err := displayName.Ensure(t.Context(), k, r.make("first", "Sales"))
			if !errors.Is(err, broken) || !strings.HasPrefix(err.Error(), tc.says) {
				t.Errorf("got %v, want %s%v", err, tc.says, broken)
			}
		})
	}
}

// TestName: one name for one value, a name that Kubernetes takes, and nothing of the value in it.
func TestName(t *testing.T) {
	seen := map[string]string{}
	for _, value := range []string{"", "Sales", "sales", " Sales", "日本", strings.Repeat("x", 1000), "a\x00b"} {
		for _, a := range []Attribute[*v1alpha1.Deployment]{displayName, channelName, {Kind: "ScimUser", Field: "userName"}} {
			name := a.Name(value)
			if problems := validation.IsDNS1123Label(name); len(problems) > 0 {
				t.Errorf("%q: %v", name, problems)
			}
			if other, twice := seen[name]; twice || name != a.Name(value) {
				t.Errorf("%q is the name for %q and for %q", name, other, value)
			}
			seen[name] = value
		}
	}
}

// TestIsNameTaken: only a controller's word that another has the name counts.
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
