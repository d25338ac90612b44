package claims

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	"github.com/quoin-dev/quoin/api/v1alpha1"
	"github.com/quoin-dev/quoin/internal/kube"
)

// fastClock is a clock that starts ahead of the system clock and runs faster.
type fastClock struct {
	clock.RealClock
	start time.Time
	ahead time.Duration
	speed int64
}

func newFastClock(ahead time.Duration, speed int64) fastClock {
	return fastClock{start: time.Now(), ahead: ahead, speed: speed}
}

func (q fastClock) Now() time.Time {
	return q.start.Add(q.ahead + time.Since(q.start)*time.Duration(q.speed))
}
func (q fastClock) Since(t time.Time) time.Duration { return q.Now().Sub(t) }
func (q fastClock) After(d time.Duration) <-chan time.Time {
	return time.After(d / time.Duration(q.speed))
}

// at returns UserName with another clock.
func at(c clock.Clock) Attribute[*v1alpha1.ScimUser] {
	a := UserName
	a.Clock = c
	return a
}

// user creates a user.
func (r *fixture) user(name, userName string) *v1alpha1.ScimUser {
	r.t.Helper()
	u := &v1alpha1.ScimUser{ObjectMeta: metav1.ObjectMeta{Namespace: r.namespace, Name: name}, Spec: v1alpha1.ScimUserSpec{UserName: userName}}
	if err := r.api.Create(r.t.Context(), u); err != nil {
		r.t.Fatal(err)
	}
	return u
}

// reserve calls Reserve and expects the value reserved for name, or else the named holder.
func (r *fixture) reserve(a Attribute[*v1alpha1.ScimUser], name, value, holder string) {
	r.t.Helper()
	got, err := a.Reserve(r.t.Context(), r.k, r.namespace, name, value)
	if err != nil || got != holder {
		r.t.Errorf("%q for %s: held by %q, %v; want %q", value, name, got, err, holder)
	}
}

// holder returns the holder of the claim on a user name; empty when there is none.
func (r *fixture) holder(value string) v1alpha1.ClaimHolder {
	r.t.Helper()
	claim := &v1alpha1.Claim{}
	err := r.api.Get(r.t.Context(), client.ObjectKey{Namespace: r.namespace, Name: UserName.Name(value)}, claim)
	if client.IgnoreNotFound(err) != nil {
		r.t.Fatal(err)
	}
	return claim.Spec.Holder
}

// TestConcurrentReserveHasOneWinner: of 64 requests at two replicas one gets the name, in any
// case, and the others get the name of the holder.
func TestConcurrentReserveHasOneWinner(t *testing.T) {
	r := newFixture(t)
	replicas := []*kube.Client{r.k, kube.NewClient(r.api, r.api, "quoin-other")}
	var mu sync.Mutex
	var wins []string
	holders := map[string]int{}
	var group sync.WaitGroup
	start := make(chan struct{})
	for i := range 64 {
		group.Go(func() {
			<-start
			name, userName := fmt.Sprint("u", i), []string{"ann@example.com", "Ann@Example.com"}[i%2]
			holder, err := UserName.Reserve(t.Context(), replicas[i/2%2], r.namespace, name, userName)
			if err == nil && holder == "" {
				err = r.api.Create(t.Context(), &v1alpha1.ScimUser{
					ObjectMeta: metav1.ObjectMeta{Namespace: r.namespace, Name: name}, Spec: v1alpha1.ScimUserSpec{UserName: userName},
				})
			}
			mu.Lock()
			defer mu.Unlock()
			switch {
			case err != nil:
				t.Errorf("%s: %v", name, err)
			case holder == "":
				wins = append(wins, name)
			default:
				holders[holder]++
			}
		})
	}
	close(start)
	group.Wait()
	if len(wins) != 1 || holders[wins[0]] != 63 {
		t.Fatalf("%v have the name; the others got %v", wins, holders)
	}
	if got := r.holder("ANN@example.com").Name; got != wins[0] {
		t.Errorf("held by %q", got)
	}
}

// TestReserveCostsOneWrite and no read.
func TestReserveCostsOneWrite(t *testing.T) {
	r := newFixture(t)
	var calls []string
	note := func(call string) { calls = append(calls, call) }
	api := interceptor.NewClient(r.api, interceptor.Funcs{
		Create: func(ctx context.Context, c client.WithWatch, obj client.Object, opts ...client.CreateOption) error {
			note("create")
			return c.Create(ctx, obj, opts...)
		},
		Get: func(ctx context.Context, c client.WithWatch, key client.ObjectKey, obj client.Object, opts ...client.GetOption) error {
			note("get")
			return c.Get(ctx, key, obj, opts...)
		},
		List: func(ctx context.Context, c client.WithWatch, list client.ObjectList, opts ...client.ListOption) error {
			note("list")
			return c.List(ctx, list, opts...)
		},
	})
	r.k = kube.NewClient(api, api, "quoin-test")
	r.reserve(UserName, "ann", "ann@example.com", "")
	if diff := cmp.Diff([]string{"create"}, calls); diff != "" {
		t.Errorf("calls (-want +got):\n%s", diff)
	}
}

// TestReserveTakesOverOrphanedClaims: after ReserveTimeout while they may be in flight, and at
// once when they are old.
func TestReserveTakesOverOrphanedClaims(t *testing.T) {
	cases := map[string]struct {
		clock          clock.Clock
		atLeast, below time.Duration
	}{
		"new": {newFastClock(0, 10), ReserveTimeout / 10, 2 * ReserveTimeout / 10},
		"old": {newFastClock(2*time.Minute, 1), 0, ReserveTimeout / 2},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			r := newFixture(t)
			r.reserve(UserName, "dead", "ann", "")
			begin := time.Now()
			r.reserve(at(tc.clock), "ann", "ann", "")
			if took := time.Since(begin); took < tc.atLeast || took > tc.below {
				t.Errorf("took %s, want between %s and %s", took, tc.atLeast, tc.below)
			}
			if diff := cmp.Diff(v1alpha1.ClaimHolder{Kind: "ScimUser", Name: "ann"}, r.holder("ann")); diff != "" {
				t.Errorf("holder (-want +got):\n%s", diff)
			}
			r.confirm("dead", "ann", false)
			r.confirm("ann", "ann", true)
		})
	}
}

func (r *fixture) confirm(name, value string, want bool) {
	r.t.Helper()
	got, err := UserName.Confirm(r.t.Context(), r.k, r.namespace, name, value)
	if err != nil || got != want {
		r.t.Errorf("%q held by %s: %v, %v; want %v", value, name, got, err, want)
	}
}

// TestConcurrentTakeoverByReserveHasOneWinner.
func TestConcurrentTakeoverByReserveHasOneWinner(t *testing.T) {
	r := newFixture(t)
	r.reserve(UserName, "dead", "ann", "")
	a := at(newFastClock(0, 10))
	holders := make([]string, 16)
	var group sync.WaitGroup
	for i := range holders {
		group.Go(func() {
			name := fmt.Sprint("u", i)
			holder, err := a.Reserve(t.Context(), r.k, r.namespace, name, "ann")
			if err != nil {
				t.Error(err)
			}
			if holder == "" {
				r.user(name, "ann")
			}
			holders[i] = holder
		})
	}
	group.Wait()
	won := r.holder("ann").Name
	for i, holder := range holders {
		if name := fmt.Sprint("u", i); (holder == "") != (name == won) || holder != "" && holder != won {
			t.Errorf("%s got holder %q; %q has the name", name, holder, won)
		}
	}
}

// TestReserveWaitsForTheHolder of a claim in flight.
func TestReserveWaitsForTheHolder(t *testing.T) {
	t.Run("created", func(t *testing.T) {
		r := newFixture(t)
		r.reserve(UserName, "first", "ann", "")
		go func() {
			time.Sleep(100 * time.Millisecond)
			r.user("first", "Ann")
		}()
		begin := time.Now()
		r.reserve(UserName, "second", "ann", "first")
		if took := time.Since(begin); took > ReserveTimeout/2 {
			t.Errorf("took %s", took)
		}
	})
	t.Run("released", func(t *testing.T) {
		r := newFixture(t)
		r.reserve(UserName, "first", "ann", "")
		go func() {
			time.Sleep(100 * time.Millisecond)
			if err := UserName.Release(t.Context(), r.k, r.namespace, "first", "ann"); err != nil {
				t.Error(err)
			}
		}()
		begin := time.Now()
		r.reserve(UserName, "second", "ann", "")
		if took := time.Since(begin); took > ReserveTimeout/2 {
			t.Errorf("took %s", took)
		}
	})
	t.Run("context cancelled", func(t *testing.T) {
		r := newFixture(t)
		r.reserve(UserName, "first", "ann", "")
		ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
		defer cancel()
		if _, err := UserName.Reserve(ctx, r.k, r.namespace, "second", "ann"); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("got %v", err)
		}
		if got := r.holder("ann").Name; got != "first" {
			t.Errorf("held by %q", got)
		}
	})
}

// TestReserveOfOwnValue: an object can reserve its current value, and its previous one again.
func TestReserveOfOwnValue(t *testing.T) {
	for name, claimed := range map[string]func(r *fixture, u *v1alpha1.ScimUser){
		"by Reserve": func(r *fixture, u *v1alpha1.ScimUser) { r.reserve(UserName, u.Name, u.Spec.UserName, "") },
		"by Ensure": func(r *fixture, u *v1alpha1.ScimUser) {
			if holder, err := UserName.Ensure(r.t.Context(), r.k, u); holder != "" || err != nil {
				r.t.Errorf("held by %q, %v", holder, err)
			}
		},
	} {
		t.Run(name, func(t *testing.T) {
			r := newFixture(t)
			u := r.user("ann", "ann")
			claimed(r, u)
			before := r.holder("ann")
			r.reserve(UserName, "ann", "ANN", "")
			if diff := cmp.Diff(before, r.holder("ann")); diff != "" {
				t.Errorf("the claim was changed (-want +got):\n%s", diff)
			}
			u.Spec.UserName = "anna"
			if err := r.api.Update(t.Context(), u); err != nil {
				t.Fatal(err)
			}
			r.reserve(UserName, "ann", "ann", "")
			if diff := cmp.Diff(v1alpha1.ClaimHolder{Kind: "ScimUser", Name: "ann"}, r.holder("ann")); diff != "" {
				t.Errorf("the claim is not in flight again (-want +got):\n%s", diff)
			}
		})
	}
}

// TestReserveDoesNotWaitForClaimsOfControllers.
func TestReserveDoesNotWaitForClaimsOfControllers(t *testing.T) {
	r := newFixture(t)
	u := r.user("ann", "ann")
	if _, err := UserName.Ensure(t.Context(), r.k, u); err != nil {
		t.Fatal(err)
	}
	r.reserve(UserName, "other", "Ann", "ann")
	if err := r.api.Delete(t.Context(), u); err != nil {
		t.Fatal(err)
	}
	// A claim with UID is not in flight.
	begin := time.Now()
	r.reserve(UserName, "other", "Ann", "")
	if took := time.Since(begin); took > ReserveTimeout/2 {
		t.Errorf("took %s", took)
	}
}

// TestLateHolderKeepsTheValue: it is written and confirmed between the last read by the other
// caller and the deletion of the claim.
func TestLateHolderKeepsTheValue(t *testing.T) {
	r := newFixture(t)
	r.reserve(UserName, "first", "ann", "")
	api := interceptor.NewClient(r.api, interceptor.Funcs{
		Delete: func(ctx context.Context, c client.WithWatch, obj client.Object, opts ...client.DeleteOption) error {
			r.user("first", "ann")
			return c.Delete(ctx, obj, opts...)
		},
	})
	r.k = kube.NewClient(api, api, "quoin-test")
	r.reserve(at(newFastClock(2*time.Minute, 1)), "second", "ann", "first")
	r.confirm("first", "ann", true)
	r.confirm("second", "ann", false)
}

// TestReserveFailsAfterTooManyConflicts.
func TestReserveFailsAfterTooManyConflicts(t *testing.T) {
	r := newFixture(t)
	r.reserve(UserName, "dead", "ann", "")
	api := interceptor.NewClient(r.api, interceptor.Funcs{
		Delete: func(_ context.Context, _ client.WithWatch, obj client.Object, _ ...client.DeleteOption) error {
			return apierrors.NewConflict(v1alpha1.GroupVersion.WithResource("claims").GroupResource(), obj.GetName(), errChanged)
		},
	})
	_, err := at(newFastClock(2*time.Minute, 1)).Reserve(t.Context(), kube.NewClient(api, api, "quoin-test"), r.namespace, "ann", "ann")
	if !errors.Is(err, ErrInFlight) {
		t.Errorf("got %v", err)
	}
}

func TestReleaseDeletesOwnOrphanedClaims(t *testing.T) {
	r := newFixture(t)
	release := func(name, value string) {
		t.Helper()
		if err := UserName.Release(t.Context(), r.k, r.namespace, name, value); err != nil {
			t.Error(err)
		}
	}
	release("ann", "ann") // no claim
	r.reserve(UserName, "ann", "ann", "")
	release("bob", "ann")
	if got := r.holder("ann").Name; got != "ann" {
		t.Errorf("the claim of ann was released by bob; held by %q", got)
	}
	u := r.user("ann", "ann")
	release("ann", "ann")
	if got := r.holder("ann").Name; got != "ann" {
		t.Errorf("the claim of a holder that has the value was released; held by %q", got)
	}
	if err := r.api.Delete(t.Context(), u); err != nil {
		t.Fatal(err)
	}
	release("ann", "Ann")
	if got := r.holder("ann").Name; got != "" {
		t.Errorf("held by %q", got)
	}
	r.confirm("ann", "ann", false)
}

// TestEnsureAfterReserve: Ensure adds no write, keeps claims that may be in flight, and deletes
// orphaned ones.
func TestEnsureAfterReserve(t *testing.T) {
	ensure := func(r *fixture, a Attribute[*v1alpha1.ScimUser], u *v1alpha1.ScimUser) (string, error) {
		return a.Ensure(r.t.Context(), r.k, u)
	}
	old := at(newFastClock(2*time.Minute, 1))
	t.Run("held", func(t *testing.T) {
		r := newFixture(t)
		r.reserve(UserName, "ann", "ann", "")
		u := r.user("ann", "ann")
		api := interceptor.NewClient(r.api, interceptor.Funcs{
			Create: func(context.Context, client.WithWatch, client.Object, ...client.CreateOption) error {
				return errors.New("a write")
			},
			Update: func(context.Context, client.WithWatch, client.Object, ...client.UpdateOption) error {
				return errors.New("a write")
			},
			Delete: func(context.Context, client.WithWatch, client.Object, ...client.DeleteOption) error {
				return errors.New("a write")
			},
		})
		r.k = kube.NewClient(api, api, "quoin-test")
		for _, a := range []Attribute[*v1alpha1.ScimUser]{UserName, old} {
			if holder, err := ensure(r, a, u); holder != "" || err != nil {
				t.Errorf("held by %q, %v", holder, err)
			}
		}
		other := r.user("other", "Ann")
		if holder, err := ensure(r, UserName, other); holder != "ann" || err != nil {
			t.Errorf("held by %q, %v", holder, err)
		}
	})
	t.Run("in flight", func(t *testing.T) {
		r := newFixture(t)
		r.reserve(UserName, "ann", "ann", "")
		other := r.user("other", "Ann")
		if _, err := ensure(r, UserName, other); !errors.Is(err, ErrInFlight) {
			t.Errorf("got %v", err)
		}
		if holder, err := ensure(r, old, other); holder != "" || err != nil {
			t.Errorf("orphaned, and held by %q, %v", holder, err)
		}
	})
	t.Run("rename in flight", func(t *testing.T) {
		r := newFixture(t)
		r.reserve(UserName, "ann", "ann", "")
		u := r.user("ann", "ann")
		r.reserve(UserName, "ann", "anna", "")
		if _, err := ensure(r, UserName, u); err != nil || r.holder("anna").Name != "ann" {
			t.Errorf("claim in flight: held by %q, %v", r.holder("anna").Name, err)
		}
		if _, err := ensure(r, old, u); err != nil || r.holder("anna").Name != "" || r.holder("ann").Name != "ann" {
			t.Errorf("orphaned claim: held by %q, %v", r.holder("anna").Name, err)
		}
	})
}

// TestSweepDeletesOldOrphanedClaims only.
func TestSweepDeletesOldOrphanedClaims(t *testing.T) {
	r := newFixture(t)
	r.user("ann", "ann")
	r.reserve(UserName, "ann", "Ann", "")
	r.reserve(UserName, "ann", "anna", "") // a rename that was not written
	r.reserve(UserName, "dead", "dead", "")
	if _, err := channelName.Reserve(t.Context(), r.k, r.namespace, "dead", "other attribute"); err != nil {
		t.Fatal(err)
	}
	deleted := r.user("deleted", "deleted")
	if _, err := UserName.Ensure(t.Context(), r.k, deleted); err != nil {
		t.Fatal(err)
	}
	if err := r.api.Delete(t.Context(), deleted); err != nil {
		t.Fatal(err)
	}
	sweep := func(ahead time.Duration, want ...string) {
		t.Helper()
		// Not the namespaces of other tests.
		k := kube.NewClient(client.NewNamespacedClient(r.api, r.namespace), r.api, "quoin-test")
		if err := NewSweep(k, newFastClock(ahead, 1), UserName, GroupName).Once(t.Context()); err != nil {
			t.Fatal(err)
		}
		got := map[string]bool{}
		for _, value := range []string{"ann", "anna", "dead", "deleted"} {
			if r.holder(value).Name != "" {
				got[value] = true
			}
		}
		expected := map[string]bool{}
		for _, value := range want {
			expected[value] = true
		}
		if diff := cmp.Diff(expected, got); diff != "" {
			t.Errorf("claims (-want +got):\n%s", diff)
		}
	}
	sweep(0, "ann", "anna", "dead", "deleted")
	sweep(2*time.Minute, "ann", "deleted")
	if _, left := r.held()[channelName.Name("other attribute")]; !left {
		t.Error("the sweep deleted a claim on another attribute")
	}
}

// TestDeprovisionedNamesOutliveTheirUsers, up to a limit: the oldest are deleted first.
func TestDeprovisionedNamesOutliveTheirUsers(t *testing.T) {
	r := newFixture(t)
	k := kube.NewClient(client.NewNamespacedClient(r.api, r.namespace), r.api, "quoin-test")
	s := NewSweep(k, newFastClock(time.Hour, 1), UserName)
	s.maxDeprovisioned = 2
	want := func(names ...string) {
		t.Helper()
		for _, name := range []string{"ann", "bob", "eve"} {
			got, err := IsDeprovisioned(t.Context(), r.api, r.namespace, strings.ToUpper(name)) // case-insensitive
			if err != nil || got != slices.Contains(names, name) {
				t.Errorf("%s: %t, %v", name, got, err)
			}
		}
	}
	for _, name := range []string{"ann", "bob", "eve"} {
		u := r.user(name, name)
		if err := EnsureDeprovisioned(t.Context(), k, u); err != nil { // it is active
			t.Fatal(err)
		}
		for range 2 {
			if err := Deprovision(t.Context(), k, u); err != nil {
				t.Fatal(err)
			}
		}
		r.delete(u)
		time.Sleep(time.Second) // the resolution of creationTimestamp
	}
	want("ann", "bob", "eve")
	if err := s.Once(t.Context()); err != nil {
		t.Fatal(err)
	}
	want("bob", "eve")
	bob := r.user("bob2", "Bob")
	bob.Spec.Active = new(false)
	for _, active := range []bool{false, true} { // a new user of the name
		bob.Spec.Active = &active
		if err := EnsureDeprovisioned(t.Context(), k, bob); err != nil {
			t.Fatal(err)
		}
		if got, err := IsDeprovisioned(t.Context(), r.api, r.namespace, "bob"); err != nil || got == active {
			t.Errorf("bob is deprovisioned: %t, %v", got, err)
		}
	}
	want("eve")
}

// TestDeletedUsersStayDeprovisioned: the cache of the controller still has an active user who is deleted over SCIM. The user is deleted
// before the controller reads it, or while the controller deletes the record.
func TestDeletedUsersStayDeprovisioned(t *testing.T) {
	r := newFixture(t)
	for _, during := range []bool{false, true} {
		u := r.user("ann", "ann")
		k := kube.NewClient(interceptor.NewClient(r.api, interceptor.Funcs{
			Delete: func(ctx context.Context, c client.WithWatch, obj client.Object, opts ...client.DeleteOption) error {
				if during {
					r.delete(u)
				}
				return c.Delete(ctx, obj, opts...)
			},
		}), r.api, "quoin-test")
		if err := Deprovision(t.Context(), k, u); err != nil {
			t.Fatal(err)
		}
		if !during {
			r.delete(u)
		}
		if err := EnsureDeprovisioned(t.Context(), k, u); err != nil {
			t.Fatal(err)
		}
		if got, err := IsDeprovisioned(t.Context(), r.api, r.namespace, "ann"); err != nil || !got {
			t.Errorf("deleted during the deletion of the record: %t: recorded: %t, %v", during, got, err)
		}
	}
}

// TestDeprovisionedNamesOfUsers checks that the names of users who exist do not count to the limit: the controller creates them again.
func TestDeprovisionedNamesOfUsers(t *testing.T) {
	r := newFixture(t)
	k := kube.NewClient(client.NewNamespacedClient(r.api, r.namespace), r.api, "quoin-test")
	s := NewSweep(k, newFastClock(time.Hour, 1), UserName)
	s.maxDeprovisioned = 1
	names := []string{"eve", "ann", "bob"}
	for _, name := range names {
		u := r.user(name, name)
		if err := Deprovision(t.Context(), k, u); err != nil {
			t.Fatal(err)
		}
		if name == "eve" {
			r.delete(u)
		}
	}
	if err := s.Once(t.Context()); err != nil {
		t.Fatal(err)
	}
	for _, name := range names {
		if got, err := IsDeprovisioned(t.Context(), r.api, r.namespace, name); err != nil || !got {
			t.Errorf("%s: %t, %v", name, got, err)
		}
	}
}

// TestSweepRunsUntilTheContextEnds.
func TestSweepRunsUntilTheContextEnds(t *testing.T) {
	r := newFixture(t)
	r.reserve(UserName, "dead", "dead", "")
	ctx, cancel := context.WithCancel(t.Context())
	k := kube.NewClient(client.NewNamespacedClient(r.api, r.namespace), r.api, "quoin-test")
	s := NewSweep(k, newFastClock(2*time.Minute, 1000), UserName)
	ended := make(chan error)
	go func() { ended <- s.Start(ctx) }()
	for r.holder("dead").Name != "" {
		time.Sleep(10 * time.Millisecond)
	}
	cancel()
	if err := <-ended; err != nil || !s.NeedLeaderElection() {
		t.Errorf("ended with %v", err)
	}
}
