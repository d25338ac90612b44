package deployment

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"github.com/prometheus/client_golang/prometheus/testutil"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/tools/events"
	clocktesting "k8s.io/utils/clock/testing"
	"k8s.io/utils/ptr"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	"github.com/quoin-dev/quoin/api/v1alpha1"
	"github.com/quoin-dev/quoin/internal/claims"
	"github.com/quoin-dev/quoin/internal/ids"
	"github.com/quoin-dev/quoin/internal/kube"
	"github.com/quoin-dev/quoin/internal/tenant"
)

// newAPI returns a fake client with objects.
func newAPI(t *testing.T, objs ...client.Object) client.WithWatch {
	t.Helper()
	scheme := runtime.NewScheme()
	if err := errors.Join(v1alpha1.AddToScheme(scheme), corev1.AddToScheme(scheme)); err != nil {
		t.Fatal(err)
	}
	builder := fake.NewClientBuilder().WithScheme(scheme).WithObjects(objs...).
		WithStatusSubresource(&v1alpha1.Deployment{}, &v1alpha1.Branch{}).
		WithIndex(&v1alpha1.Deployment{}, indexStalled, stalledReasons).WithIndex(&v1alpha1.Deployment{}, indexHost, hosts)
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

// rolling returns a deployment with a rollout: in progress, or waiting for a slot.
func rolling(name string, started bool) *v1alpha1.Deployment {
	d := &v1alpha1.Deployment{ObjectMeta: metav1.ObjectMeta{Namespace: "acme", Name: name}}
	d.Status.Rollout = &v1alpha1.RolloutStatus{To: run("1.2.3")}
	if started {
		d.Status.Rollout.StartTime = ptr.To(metav1.Now())
	}
	return d
}

// woken returns the deployments that the fleet woke, in order.
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

// fleetSteps are steps of deployments: "+a" starts a rollout, "!a" has started it by hand, "xa" fails,
// "-a" ends, "~a" waits for a user. "@" is a time in which woken deployments do not come back.
type fleetSteps struct {
	limit int
	steps []string
	// denied and wakes are in the order in which they happened.
	denied, wakes []string
}

// run runs the steps with rollouts of one request.
func (s fleetSteps) run(t *testing.T, request startRequest) {
	f, now := NewFleet(newAPI(t), s.limit), time.Unix(0, 0)
	f.now = func() time.Time { return now }
	var denied []string
	for _, step := range s.steps {
		key := keyOf(step[1:])
		switch step[0] {
		case '+':
			if f.AcquireSlot(t.Context(), key, request) != "" {
				denied = append(denied, key.Name)
			}
		case '!':
			f.OccupySlot(t.Context(), key, request.channel, request.image)
		case '~':
			f.Suspend(t.Context(), key)
		case 'x':
			f.SetFailures(t.Context(), key, request.channel, []v1alpha1.FailedVersion{{Image: request.image}})
		case '-':
			f.ReleaseSlot(t.Context(), key)
		case '@':
			now = now.Add(2 * wokenTimeout)
		}
	}
	if diff := cmp.Diff(s.denied, denied); diff != "" {
		t.Errorf("denied (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff(s.wakes, woken(f), cmpopts.EquateEmpty()); diff != "" {
		t.Errorf("woken (-want +got):\n%s", diff)
	}
}

// TestFleetSlots: no more rollouts are in progress than there are slots.
func TestFleetSlots(t *testing.T) {
	cases := map[string]fleetSteps{
		"up to the limit":                {2, []string{"+a", "+b", "+c"}, []string{"c"}, nil},
		"acquiring is idempotent":        {2, []string{"+a", "+a", "+b"}, nil, nil},
		"a slot is kept":                 {1, []string{"+a", "+b", "+a"}, []string{"b"}, nil},
		"no limit":                       {0, []string{"+a", "+b", "+c", "-a"}, nil, nil},
		"a released slot wakes the next": {1, []string{"+a", "+b", "-a", "+b"}, []string{"b"}, []string{"b"}},
		"first in, first out":            {1, []string{"+a", "+b", "+c", "-a", "+b", "-b"}, []string{"b", "c"}, []string{"b", "c"}},
		"queued once":                    {1, []string{"+a", "+b", "+b", "+c", "-a", "+b", "-b"}, []string{"b", "b", "c"}, []string{"b", "c"}},
		"released while waiting":         {1, []string{"+a", "+b", "+c", "-b", "-a"}, []string{"b", "c"}, []string{"c"}},
		"a waiter that does not come back blocks nothing": {1, []string{"+a", "+b", "+c", "-a", "@", "-x"}, []string{"b", "c"}, []string{"b", "c"}},
		"a slot wakes one":         {1, []string{"+a", "+b", "+c", "-a", "-x"}, []string{"b", "c"}, []string{"b"}},
		"too late, queued again":   {1, []string{"+a", "+b", "-a", "+c", "+b", "-c"}, []string{"b", "b"}, []string{"b", "b"}},
		"occupied slots count":     {1, []string{"!a", "+b"}, []string{"b"}, nil},
		"occupied over the limit":  {1, []string{"!a", "!b", "+c", "-a", "-b"}, []string{"c"}, []string{"c"}},
		"releasing without a slot": {1, []string{"-a", "+b"}, nil, nil},
		"two slots":                {2, []string{"+a", "+b", "+c", "+d", "+e", "-a", "-b"}, []string{"c", "d", "e"}, []string{"c", "d"}},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) { tc.run(t, slotOf("")) })
	}
}

// TestFleetPlaces: at most two deployments try an image until it is accepted.
func TestFleetPlaces(t *testing.T) {
	cases := map[string]fleetSteps{
		"up to the number":                     {9, []string{"+a", "+b", "+c"}, []string{"c"}, nil},
		"a success makes room":                 {9, []string{"+a", "+b", "+c", "-a", "+c"}, []string{"c"}, []string{"c"}},
		"a failure does not":                   {9, []string{"+a", "+b", "+c", "xa", "-a", "+c"}, []string{"c", "c"}, nil},
		"a failed one may try again":           {9, []string{"+a", "+b", "xa", "-a", "+a"}, nil, nil},
		"one that waits for a user makes room": {9, []string{"+a", "+b", "~a", "+c"}, nil, nil},
		"rollouts by hand count":               {9, []string{"!a", "!b", "+c"}, []string{"c"}, nil},
		"without a limit of slots":             {0, []string{"+a", "+b", "+c", "-a"}, []string{"c"}, []string{"c"}},
		"a slot is needed too":                 {1, []string{"+a", "+b"}, []string{"b"}, nil},
		"only as many are woken as may start":  {9, []string{"+a", "+b", "+c", "+d", "-a"}, []string{"c", "d"}, []string{"c"}},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) { tc.run(t, startRequest{image: "cube", slot: true, places: 2}) })
	}
}

// TestFleetPlacesOfChannels: two channels of the same repository offer the same image. Deployments of one of
// them do not occupy the places of the other, which would wait for results that it never gets.
func TestFleetPlacesOfChannels(t *testing.T) {
	failed := rolling("a", false)
	failed.Spec.ReleaseChannel = "edge"
	failed.Status.Failures = []v1alpha1.FailedVersion{{Version: "1.2.3", Image: run("1.2.3").Pinned()}}
	f := NewFleet(newAPI(t, failed), 0)
	f.SetFailures(t.Context(), keyOf("b"), "edge", failed.Status.Failures)
	f.OccupySlot(t.Context(), keyOf("c"), "edge", run("1.2.3").Pinned())
	for channel, want := range map[string]denial{"edge": noPlace, "stable": ""} {
		request := startRequest{channel: channel, image: run("1.2.3").Pinned(), slot: true, places: 2}
		if why := f.AcquireSlot(t.Context(), keyOf(channel), request); why != want {
			t.Errorf("a deployment of channel %s is denied for %q, want %q", channel, why, want)
		}
	}
}

// TestFleetReplacedRolloutKeepsNoSlot: a deployment waits to try a version, a user pins another one
// meanwhile, and removes the pin before that is rolled out.
func TestFleetReplacedRolloutKeepsNoSlot(t *testing.T) {
	f := NewFleet(newAPI(t), 2)
	limited := startRequest{image: "cube", slot: true, places: 1}
	if f.AcquireSlot(t.Context(), keyOf("a"), limited) != "" || f.AcquireSlot(t.Context(), keyOf("b"), limited) != noPlace {
		t.Fatal("want a place for a, and none for b")
	}
	f.OccupySlot(t.Context(), keyOf("b"), "", "pinned")
	if why := f.AcquireSlot(t.Context(), keyOf("b"), limited); why != noPlace {
		t.Fatalf("b is denied for %q, want %q", why, noPlace)
	}
	if why := f.AcquireSlot(t.Context(), keyOf("c"), slotOf("")); why != "" {
		t.Errorf("c waits for %s, although b only waits", why)
	}
}

// TestFleetCountsTriesAfterRestart reads failures and rollouts in progress from the statuses.
func TestFleetCountsTriesAfterRestart(t *testing.T) {
	failed := rolling("b", false)
	failed.Status.Failures = []v1alpha1.FailedVersion{{Version: "1.2.3", Image: run("1.2.3").Pinned()}}
	f := NewFleet(newAPI(t, rolling("a", true), failed), 0)
	request := startRequest{image: run("1.2.3").Pinned(), slot: true, places: 2}
	if f.AcquireSlot(t.Context(), keyOf("c"), request) == "" {
		t.Error("a third deployment may try the version")
	}
	if f.AcquireSlot(t.Context(), keyOf("b"), request) != "" {
		t.Error("a deployment on which it has failed may not try it again")
	}
}

// TestFleetCountsRolloutsInProgressAfterRestart reads them from the statuses.
func TestFleetCountsRolloutsInProgressAfterRestart(t *testing.T) {
	f := NewFleet(newAPI(t, rolling("a", true), rolling("b", false), rolling("c", true)), 3)
	if f.AcquireSlot(t.Context(), keyOf("b"), slotOf("")) != "" {
		t.Error("denied, with two of three slots occupied: b only waits")
	}
	if f.AcquireSlot(t.Context(), keyOf("d"), slotOf("")) == "" {
		t.Error("d acquired a fourth slot")
	}
	f.ReleaseSlot(t.Context(), keyOf("a"))
	if f.AcquireSlot(t.Context(), keyOf("d"), slotOf("")) != "" {
		t.Error("the slot of a was not released")
	}
}

// TestFleetInitializesBeforeFirstChange: a rollout that ends before the first AcquireSlot must
// not be counted from a stale status.
func TestFleetInitializesBeforeFirstChange(t *testing.T) {
	for name, first := range map[string]func(f *Fleet){
		"release": func(*Fleet) {},
		"occupy":  func(f *Fleet) { f.OccupySlot(t.Context(), keyOf("a"), "", "") },
	} {
		t.Run(name, func(t *testing.T) {
			f := NewFleet(newAPI(t, rolling("a", true)), 1)
			first(f)
			f.ReleaseSlot(t.Context(), keyOf("a")) // the cache is stale
			if f.AcquireSlot(t.Context(), keyOf("b"), slotOf("")) != "" {
				t.Error("the slot of a is never released")
			}
		})
	}
}

// TestFleetDeniesSlotsUntilInitialized: while the rollouts in progress cannot be counted, no
// slot is acquired.
func TestFleetDeniesSlotsUntilInitialized(t *testing.T) {
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
	if f.AcquireSlot(t.Context(), keyOf("a"), slotOf("")) == "" {
		t.Error("acquired a slot while the count is unknown")
	}
	broken = false
	if f.AcquireSlot(t.Context(), keyOf("a"), slotOf("")) != "" {
		t.Error("no slot after the count succeeded")
	}
}

// TestFleetWakesWithoutBlocking: a full channel drops wakes; waiting deployments retry by themselves.
func TestFleetWakesWithoutBlocking(t *testing.T) {
	f, now := NewFleet(newAPI(t), 1), time.Unix(0, 0)
	f.now = func() time.Time { now = now.Add(time.Minute); return now } // woken deployments do not come back
	for i := range cap(f.wake) + 10 {
		f.OccupySlot(t.Context(), keyOf("a"), "", "")
		f.AcquireSlot(t.Context(), keyOf(fmt.Sprint("w", i)), slotOf(""))
		f.ReleaseSlot(t.Context(), keyOf("a"))
	}
	if got := len(woken(f)); got != cap(f.wake) {
		t.Errorf("%d wakes, want %d", got, cap(f.wake))
	}
}

// TestFleetCountsTries compares the number of deployments that have tried a candidate with a count of them, after random changes.
func TestFleetCountsTries(t *testing.T) {
	random := rand.New(rand.NewPCG(1, 2))
	f := NewFleet(newAPI(t), 0)
	images := []string{"", "cube:a", "cube:b"}
	some := func() string { return images[random.IntN(len(images))] }
	for step := range 3000 {
		key := keyOf(fmt.Sprint(random.IntN(6)))
		switch random.IntN(5) {
		case 0:
			f.AcquireSlot(t.Context(), key, startRequest{image: some(), places: 2})
		case 1:
			f.OccupySlot(t.Context(), key, "", some())
		case 2:
			f.Suspend(t.Context(), key)
		case 3:
			f.ReleaseSlot(t.Context(), key)
		default:
			f.SetFailures(t.Context(), key, "", []v1alpha1.FailedVersion{{Image: some()}, {Image: some()}}[:random.IntN(3)])
		}
		woken(f)
		for _, image := range images {
			c, tried := candidate{image: image}, 0
			for i := range 6 {
				if other := keyOf(fmt.Sprint(i)); other != key && (f.rolls(other, c) || f.hasFailed(other, c)) {
					tried++
				}
			}
			if got := f.tries(key, c); got != tried {
				t.Fatalf("after %d changes, %d others have tried %q, want %d", step+1, got, image, tried)
			}
		}
	}
}

// TestFleetRetriesAtALimitedRate: the more deployments wait, the less often each of them tries again.
func TestFleetRetriesAtALimitedRate(t *testing.T) {
	f := NewFleet(newAPI(t), 1)
	for i := range 20_001 {
		switch got := f.RetryInterval(); {
		case i == 2 && got != 30*time.Second, i == 2001 && got != 100*time.Second, i == 20_000 && got != 10*time.Minute:
			t.Errorf("%d wait: every %s", i-1, got)
		}
		f.AcquireSlot(t.Context(), keyOf(fmt.Sprint(i)), slotOf(""))
	}
}

// TestFleetNeverExceedsLimit: with concurrent workers, all deployments get a slot in the end.
func TestFleetNeverExceedsLimit(t *testing.T) {
	const limit, deployments = 3, 40
	f := NewFleet(newAPI(t), limit)
	var mu sync.Mutex
	current, maximum, done := 0, 0, map[string]bool{}
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
				if f.AcquireSlot(t.Context(), keyOf(name), slotOf("")) != "" {
					continue // until it is woken
				}
				mu.Lock()
				current++
				maximum = max(maximum, current)
				mu.Unlock()
				mu.Lock()
				current--
				again := done[name]
				done[name] = true
				mu.Unlock()
				f.ReleaseSlot(t.Context(), keyOf(name))
				if !again {
					left.Done()
				}
			}
		})
	}
	group.Wait()
	if maximum > limit || len(done) != deployments {
		t.Errorf("%d concurrent rollouts, %d of %d acquired a slot", maximum, len(done), deployments)
	}
}

// TestDeletedDeploymentReleasesItsSlot: a Deployment has no finalizer, so its slot is released
// when it is found to be deleted.
func TestDeletedDeploymentReleasesItsSlot(t *testing.T) {
	api := newAPI(t)
	fleet := NewFleet(api, 1)
	fleet.OccupySlot(t.Context(), keyOf("deleted"), "", "")
	clock := clocktesting.NewFakePassiveClock(time.Now())
	remotes := NewRemotes(api, nil, clock)
	remotes.states[keyOf("deleted")] = &remoteState{}
	r := New(kube.NewClient(api, api, "quoin-test"), nil, clock, Options{Fleet: fleet, Remotes: remotes})
	if _, err := r.Reconcile(t.Context(), ctrl.Request{NamespacedName: keyOf("deleted")}); err != nil {
		t.Fatal(err)
	}
	if fleet.AcquireSlot(t.Context(), keyOf("other"), slotOf("")) != "" {
		t.Error("the slot is not released")
	}
	if len(remotes.states) != 0 {
		t.Error("the state of its remote is kept")
	}
}

// TestRolloutThatIsNotRecordedKeepsNoSlot: a user makes a mistake in the spec while the start of a rollout is being recorded.
func TestRolloutThatIsNotRecordedKeepsNoSlot(t *testing.T) {
	d, c := outdated()
	stored, started := newAPI(t, acme(), c, d), false
	api := interceptor.NewClient(stored, interceptor.Funcs{
		SubResourcePatch: func(ctx context.Context, api client.Client, sub string, obj client.Object, patch client.Patch, opts ...client.SubResourcePatchOption) error {
			if written, ok := obj.(*v1alpha1.Deployment); ok && written.Status.Rollout != nil {
				started = true
				edited := &v1alpha1.Deployment{}
				if err := stored.Get(ctx, keyOf("sales"), edited); err != nil {
					return err
				}
				edited.Spec.ReleaseChannelVersion, edited.Generation = "9.9.9", edited.Generation+1
				if err := stored.Update(ctx, edited); err != nil {
					return err
				}
			}
			return api.SubResource(sub).Patch(ctx, obj, patch, opts...)
		},
	})
	k, clk := kube.NewClient(api, api, "quoin-test"), clocktesting.NewFakePassiveClock(time.Now())
	fleet := NewFleet(api, 1)
	r := New(k, events.NewFakeRecorder(100), clk, Options{IDs: ids.New(k), Fleet: fleet, Remotes: NewRemotes(api, nil, clk)})
	for range 2 {
		if _, err := r.Reconcile(t.Context(), ctrl.Request{NamespacedName: keyOf("sales")}); err != nil {
			t.Fatal(err)
		}
	}
	got := &v1alpha1.Deployment{}
	if err := stored.Get(t.Context(), keyOf("sales"), got); err != nil {
		t.Fatal(err)
	}
	if !started || got.Status.Rollout != nil || stalledReason(got) != v1alpha1.ReasonUnknownVersion {
		t.Fatalf("started %t: %+v", started, got.Status)
	}
	if why := fleet.AcquireSlot(t.Context(), keyOf("other"), slotOf("")); why != "" {
		t.Errorf("another deployment waits for %s", why)
	}
}

// slotOf returns a request for a slot.
func slotOf(image string) startRequest { return startRequest{image: image, slot: true} }

// TestFleetMeasuresHowLongADeploymentWaits from its first request to the start of its rollout, although
// it is queued again in between.
func TestFleetMeasuresHowLongADeploymentWaits(t *testing.T) {
	f, now := NewFleet(newAPI(t), 1), time.Now()
	if f.AcquireSlot(t.Context(), keyOf("a"), slotOf("")) != "" || f.AcquireSlot(t.Context(), keyOf("b"), slotOf("")) == "" {
		t.Fatal("want a slot for a, and none for b")
	}
	if got := f.Waited(keyOf("b"), now); got != 0 {
		t.Errorf("at first %s", got)
	}
	f.ReleaseSlot(t.Context(), keyOf("a")) // wakes b
	f.OccupySlot(t.Context(), keyOf("c"), "", "")
	if f.AcquireSlot(t.Context(), keyOf("b"), slotOf("")) == "" {
		t.Fatal("b has a slot")
	}
	if got := f.Waited(keyOf("b"), now.Add(time.Minute)); got != time.Minute {
		t.Errorf("after a minute %s", got)
	}
	f.ReleaseSlot(t.Context(), keyOf("c"))
	if f.AcquireSlot(t.Context(), keyOf("b"), slotOf("")) != "" {
		t.Fatal("b has no slot")
	}
	if got := f.Waited(keyOf("b"), now.Add(time.Hour)); got != 0 {
		t.Errorf("after the start %s", got)
	}
}

// TestFleetCountsRolloutsInProgress: the metric does not depend on what statuses report yet. A rollout that waits for a user is
// not counted.
func TestFleetCountsRolloutsInProgress(t *testing.T) {
	f := NewFleet(newAPI(t), 2)
	expect := func(running, waiting int) {
		t.Helper()
		want := fmt.Sprintf("# HELP quoin_deployment_rollouts_in_progress Rollouts that run, or that wait for a slot or for the results of the first deployments.\n"+
			"# TYPE quoin_deployment_rollouts_in_progress gauge\n"+
			"quoin_deployment_rollouts_in_progress{state=\"running\"} %d\nquoin_deployment_rollouts_in_progress{state=\"waiting\"} %d\n", running, waiting)
		if err := testutil.CollectAndCompare(f, strings.NewReader(want)); err != nil {
			t.Error(err)
		}
	}
	expect(0, 0)
	for _, name := range []string{"a", "b", "c"} {
		f.AcquireSlot(t.Context(), keyOf(name), slotOf("cube:v1.2.4"))
	}
	expect(2, 1)
	f.Suspend(t.Context(), keyOf("a"))
	expect(1, 1)
	f.ReleaseSlot(t.Context(), keyOf("b"))
	f.AcquireSlot(t.Context(), keyOf("c"), slotOf("cube:v1.2.4"))
	expect(1, 0)
}
