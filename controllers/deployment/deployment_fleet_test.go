package deployment

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	clocktesting "k8s.io/utils/clock/testing"
	"k8s.io/utils/ptr"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	"github.com/quoin-dev/quoin/api/v1alpha1"
	"github.com/quoin-dev/quoin/internal/claims"
	"github.com/quoin-dev/quoin/internal/kube"
	"github.com/quoin-dev/quoin/internal/tenant"
)

// newAPI is an API server in memory with objects on it.
func newAPI(t *testing.T, objs ...client.Object) client.WithWatch {
	t.Helper()
	scheme := runtime.NewScheme()
	if err := v1alpha1.AddToScheme(scheme); err != nil {
		t.Fatal(err)
	}
	builder := fake.NewClientBuilder().WithScheme(scheme).WithObjects(objs...).
		WithStatusSubresource(&v1alpha1.Deployment{}, &v1alpha1.Branch{})
	for _, index := range []struct {
		obj   client.Object
		field string
		value func(client.Object) string
	}{
		{&v1alpha1.Branch{}, IndexDeployment, func(o client.Object) string { return o.(*v1alpha1.Branch).Spec.DeploymentRef.Name }},
		{&v1alpha1.Account{}, tenant.IndexNamespace, func(o client.Object) string { return o.(*v1alpha1.Account).Spec.Namespace }},
		{&v1alpha1.Claim{}, claims.IndexHolder, func(o client.Object) string { return o.(*v1alpha1.Claim).Spec.Holder.Name }},
	} {
		builder = builder.WithIndex(index.obj, index.field, func(o client.Object) []string { return []string{index.value(o)} })
	}
	return builder.Build()
}

func keyOf(name string) client.ObjectKey { return client.ObjectKey{Namespace: "acme", Name: name} }

// rolling is a deployment with a rollout under way; waiting for its turn when not started.
func rolling(name string, started bool) *v1alpha1.Deployment {
	d := &v1alpha1.Deployment{ObjectMeta: metav1.ObjectMeta{Namespace: "acme", Name: name}}
	d.Status.Rollout = &v1alpha1.RolloutStatus{To: run("1.2.3")}
	if started {
		d.Status.Rollout.StartTime = ptr.To(metav1.Now())
	}
	return d
}

// woken are the deployments that a channel asks for, in order.
func woken(f *Fleet) []string {
	var names []string
	for {
		select {
		case e := <-f.wake:
			names = append(names, e.Object.GetName())
		default:
			return names
		}
	}
}

// TestFleet plays a fleet of two places: "+a" asks for a place, "!a" holds one, "-a" gives it back.
func TestFleet(t *testing.T) {
	cases := map[string]struct {
		limit int
		do    []string
		// refused and wakes in the order in which they came about.
		refused, wakes []string
	}{
		"up to the limit":                 {2, []string{"+a", "+b", "+c"}, []string{"c"}, nil},
		"asking again is no second place": {2, []string{"+a", "+a", "+b"}, nil, nil},
		"who has a place keeps it":        {1, []string{"+a", "+b", "+a"}, []string{"b"}, nil},
		"no limit":                        {0, []string{"+a", "+b", "+c", "-a"}, nil, nil},
		"a place is given on":             {1, []string{"+a", "+b", "-a", "+b"}, []string{"b"}, []string{"b"}},
		"in the order of asking":          {1, []string{"+a", "+b", "+c", "-a", "+b", "-b"}, []string{"b", "c"}, []string{"b", "c"}},
		"queued once":                     {1, []string{"+a", "+b", "+b", "+c", "-a", "+b", "-b"}, []string{"b", "b", "c"}, []string{"b", "c"}},
		"who loses interest is passed by": {1, []string{"+a", "+b", "+c", "-b", "-a"}, []string{"b", "c"}, []string{"c"}},
		"who sleeps blocks nobody":        {1, []string{"+a", "+b", "+c", "-a", "-x"}, []string{"b", "c"}, []string{"b", "c"}},
		"who comes too late queues again": {1, []string{"+a", "+b", "-a", "+c", "+b", "-c"}, []string{"b", "b"}, []string{"b", "b"}},
		"held ones count":                 {1, []string{"!a", "+b"}, []string{"b"}, nil},
		"held over the limit":             {1, []string{"!a", "!b", "+c", "-a", "-b"}, []string{"c"}, []string{"c"}},
		"giving back what one never had":  {1, []string{"-a", "+b"}, nil, nil},
		"as many as there are places":     {2, []string{"+a", "+b", "+c", "+d", "+e", "-a", "-b"}, []string{"c", "d", "e"}, []string{"c", "d", "e"}},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			f := NewFleet(newAPI(t), tc.limit)
			var refused []string
			for _, step := range tc.do {
				key := keyOf(step[1:])
				switch step[0] {
				case '+':
					if !f.Acquire(t.Context(), key) {
						refused = append(refused, key.Name)
					}
				case '!':
					f.Hold(t.Context(), key)
				case '-':
					f.Release(t.Context(), key)
				}
			}
			if diff := cmp.Diff(tc.refused, refused); diff != "" {
				t.Errorf("refused (-want +got):\n%s", diff)
			}
			if diff := cmp.Diff(tc.wakes, woken(f), cmpopts.EquateEmpty()); diff != "" {
				t.Errorf("woken (-want +got):\n%s", diff)
			}
		})
	}
}

// TestFleetAfterRestart: what was rolling out before goes on counting.
func TestFleetAfterRestart(t *testing.T) {
	f := NewFleet(newAPI(t, rolling("a", true), rolling("b", false), rolling("c", true)), 3)
	if !f.Acquire(t.Context(), keyOf("b")) {
		t.Error("two of three places are taken: b only waits")
	}
	if f.Acquire(t.Context(), keyOf("d")) {
		t.Error("d got a fourth place")
	}
	f.Release(t.Context(), keyOf("a"))
	if !f.Acquire(t.Context(), keyOf("d")) {
		t.Error("the place of a was not given on")
	}
}

// TestFleetFillsBeforeItForgets: a rollout that ends before anybody asks for a place must not
// come back into the count from a status that still shows it.
func TestFleetFillsBeforeItForgets(t *testing.T) {
	for name, first := range map[string]func(f *Fleet){
		"release": func(*Fleet) {},
		"hold":    func(f *Fleet) { f.Hold(t.Context(), keyOf("a")) },
	} {
		t.Run(name, func(t *testing.T) {
			f := NewFleet(newAPI(t, rolling("a", true)), 1)
			first(f)
			f.Release(t.Context(), keyOf("a")) // the cache does not show it yet
			if !f.Acquire(t.Context(), keyOf("b")) {
				t.Error("the place of a is taken for good")
			}
		})
	}
}

// TestFleetThatCannotCount gives no places, and recovers.
func TestFleetThatCannotCount(t *testing.T) {
	api := newAPI(t)
	broken := true
	f := NewFleet(interceptor.NewClient(api, interceptor.Funcs{
		List: func(ctx context.Context, c client.WithWatch, list client.ObjectList, opts ...client.ListOption) error {
			if broken {
				return errors.New("cache is not started")
			}
			return c.List(ctx, list, opts...)
		},
	}), 1)
	if f.Acquire(t.Context(), keyOf("a")) {
		t.Error("gave a place without knowing how many are taken")
	}
	broken = false
	if !f.Acquire(t.Context(), keyOf("a")) {
		t.Error("gave no place")
	}
}

// TestFleetWakesWithoutBlocking: a full channel loses a wake, which who waits does without.
func TestFleetWakesWithoutBlocking(t *testing.T) {
	f := NewFleet(newAPI(t), 1)
	for i := range cap(f.wake) + 10 {
		f.Hold(t.Context(), keyOf("a"))
		f.Acquire(t.Context(), keyOf(fmt.Sprint("w", i)))
		f.Release(t.Context(), keyOf("a"))
	}
	if got := len(woken(f)); got != cap(f.wake) {
		t.Errorf("%d wakes, want %d", got, cap(f.wake))
	}
}

// TestFleetOfMany: with many workers, never more than the limit, and all get their turn.
func TestFleetOfMany(t *testing.T) {
	const limit, deployments = 3, 40
	f := NewFleet(newAPI(t), limit)
	var mu sync.Mutex
	at, most, done := 0, 0, map[string]bool{}
	work := make(chan string, 10*deployments)
	for i := range deployments {
		work <- fmt.Sprint("d", i)
	}
	var group sync.WaitGroup
	left := sync.WaitGroup{}
	left.Add(deployments)
	finished := make(chan struct{})
	go func() { left.Wait(); close(finished) }()
	for range 8 {
		group.Go(func() {
			for {
				var name string
				select {
				case <-finished:
					return
				case name = <-work:
				case e := <-f.wake:
					name = e.Object.GetName()
				}
				if !f.Acquire(t.Context(), keyOf(name)) {
					continue // it is woken
				}
				mu.Lock()
				at++
				most = max(most, at)
				mu.Unlock()
				mu.Lock()
				at--
				again := done[name]
				done[name] = true
				mu.Unlock()
				f.Release(t.Context(), keyOf(name))
				if !again {
					left.Done()
				}
			}
		})
	}
	group.Wait()
	if most > limit || len(done) != deployments {
		t.Errorf("%d at once, %d of %d had their turn", most, len(done), deployments)
	}
}

// TestDeletedDeploymentGivesItsPlaceBack: a deployment that is deleted in the middle of a
// rollout goes without a finalizer, and must not take a place along.
func TestDeletedDeploymentGivesItsPlaceBack(t *testing.T) {
	api := newAPI(t)
	fleet := NewFleet(api, 1)
	fleet.Hold(t.Context(), keyOf("gone"))
	remotes := NewRemotes(api, nil, clocktesting.NewFakePassiveClock(time.Now()))
	remotes.known[keyOf("gone")] = &remoteState{}
	r := New(kube.NewClient(api, api, "quoin-test"), nil, nil, Options{Fleet: fleet, Remotes: remotes})
	if _, err := r.Reconcile(t.Context(), ctrl.Request{NamespacedName: keyOf("gone")}); err != nil {
		t.Fatal(err)
	}
	if !fleet.Acquire(t.Context(), keyOf("other")) {
		t.Error("the place is taken for good")
	}
	if len(remotes.known) != 0 {
		t.Error("its remote is remembered for good")
	}
}
