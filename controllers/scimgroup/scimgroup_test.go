package scimgroup

import (
	"context"
	"errors"
	"fmt"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/events"
	clocktesting "k8s.io/utils/clock/testing"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"
	"sigs.k8s.io/controller-runtime/pkg/cluster"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/quoin-dev/quoin/api/v1alpha1"
	"github.com/quoin-dev/quoin/internal/apitest"
	"github.com/quoin-dev/quoin/internal/kube"
	"github.com/quoin-dev/quoin/internal/lastmodified"
)

// fixture is a reconciler with its own namespace and account.
type fixture struct {
	*testing.T
	api        client.WithWatch
	namespace  string
	recorder   *events.FakeRecorder
	clock      *clocktesting.FakeClock
	account    *v1alpha1.Account
	reconciler reconcile.Reconciler
	// calls are the calls so far. fail is called before each call and may return an error.
	calls []string
	fail  func(call string) error
}

func newFixture(t *testing.T) *fixture {
	api, namespace := apitest.Direct(t)
	f := &fixture{
		T: t, api: api, namespace: namespace, recorder: events.NewFakeRecorder(20),
		clock: clocktesting.NewFakeClock(time.Now()), fail: func(string) error { return nil },
	}
	f.account = &v1alpha1.Account{
		ObjectMeta: metav1.ObjectMeta{Name: namespace},
		Spec:       v1alpha1.AccountSpec{Namespace: namespace, Host: v1alpha1.Host(namespace + ".example.com")},
	}
	f.must(api.Create(t.Context(), f.account))
	t.Cleanup(func() { _ = api.Delete(context.Background(), f.account) })
	c := f.client()
	f.reconciler = New(kube.NewClient(c, c, "quoin-test"), f.recorder, f.clock)
	return f
}

func (f *fixture) client() client.WithWatch {
	call := func(op string, obj any, do func() error) error {
		name := op + " " + strings.TrimPrefix(reflect.TypeOf(obj).String(), "*v1alpha1.")
		f.calls = append(f.calls, name)
		if err := f.fail(name); err != nil {
			return err
		}
		return do()
	}
	return interceptor.NewClient(f.api, interceptor.Funcs{
		Get: func(ctx context.Context, c client.WithWatch, key client.ObjectKey, obj client.Object, opts ...client.GetOption) error {
			return call("get", obj, func() error { return c.Get(ctx, key, obj, opts...) })
		},
		List: func(ctx context.Context, c client.WithWatch, list client.ObjectList, opts ...client.ListOption) error {
			return call("list", list, func() error { return c.List(ctx, list, opts...) })
		},
		Create: func(ctx context.Context, c client.WithWatch, obj client.Object, opts ...client.CreateOption) error {
			return call("create", obj, func() error { return c.Create(ctx, obj, opts...) })
		},
		Delete: func(ctx context.Context, c client.WithWatch, obj client.Object, opts ...client.DeleteOption) error {
			return call("delete", obj, func() error { return c.Delete(ctx, obj, opts...) })
		},
		SubResourcePatch: func(ctx context.Context, c client.Client, sub string, obj client.Object, patch client.Patch, opts ...client.SubResourcePatchOption) error {
			return call("patch "+sub, obj, func() error { return c.SubResource(sub).Patch(ctx, obj, patch, opts...) })
		},
	})
}

func (f *fixture) must(err error) {
	f.Helper()
	if err != nil {
		f.Fatal(err)
	}
}

func (f *fixture) named(name string) metav1.ObjectMeta {
	return metav1.ObjectMeta{Namespace: f.namespace, Name: name}
}

func (f *fixture) user(name string) *v1alpha1.ScimUser {
	f.Helper()
	u := &v1alpha1.ScimUser{ObjectMeta: f.named(name), Spec: v1alpha1.ScimUserSpec{UserName: name}}
	f.must(f.api.Create(f.Context(), u))
	return u
}

// list returns members with these names. Names that begin with a capital letter are groups.
func list(names ...string) []v1alpha1.ScimMember {
	var all []v1alpha1.ScimMember
	for _, name := range names {
		m := v1alpha1.ScimMember{Value: strings.ToLower(name)}
		if m.Value != name {
			m.Type = "Group"
		}
		all = append(all, m)
	}
	return all
}

func (f *fixture) chunk(name string, members ...string) *v1alpha1.ScimMemberChunk {
	f.Helper()
	chunk := &v1alpha1.ScimMemberChunk{ObjectMeta: f.named(name)}
	chunk.Spec.SetMembers(list(members...))
	f.must(f.api.Create(f.Context(), chunk))
	return chunk
}

func (f *fixture) group(name string, members ...string) *v1alpha1.ScimGroup {
	f.Helper()
	g := &v1alpha1.ScimGroup{ObjectMeta: f.named(name), Spec: v1alpha1.ScimGroupSpec{DisplayName: name, Members: list(members...)}}
	f.must(f.api.Create(f.Context(), g))
	return g
}

// setChunks sets the chunks of a group, each with a number of members.
func (f *fixture) setChunks(g *v1alpha1.ScimGroup, count int32, chunks ...string) {
	f.Helper()
	var references []v1alpha1.ScimMemberChunkReference
	for _, name := range chunks {
		references = append(references, v1alpha1.ScimMemberChunkReference{Name: name, Count: count})
	}
	g.Spec.SetChunks(references)
	f.must(f.api.Update(f.Context(), g))
}

func (f *fixture) reconcile(name string) (*v1alpha1.ScimGroup, ctrl.Result, error) {
	f.Helper()
	key := client.ObjectKey{Namespace: f.namespace, Name: name}
	result, err := f.reconciler.Reconcile(f.Context(), ctrl.Request{NamespacedName: key})
	g := &v1alpha1.ScimGroup{}
	f.must(f.api.Get(f.Context(), key, g))
	return g, result, err
}

// mustReconcile reconciles a group after the interval between two reconciliations.
func (f *fixture) mustReconcile(name string) *v1alpha1.ScimGroup {
	f.Helper()
	f.clock.Step(smallInterval)
	g, _, err := f.reconcile(name)
	f.must(err)
	return g
}

// wantNoWrites checks that another reconciliation writes nothing.
func (f *fixture) wantNoWrites(name string) {
	f.Helper()
	f.calls = nil
	f.mustReconcile(name)
	for _, call := range f.calls {
		if !strings.HasPrefix(call, "get ") && !strings.HasPrefix(call, "list ") {
			f.Errorf("unexpected write: %s", call)
		}
	}
}

// wantCondition checks a condition.
func (f *fixture) wantCondition(g *v1alpha1.ScimGroup, kind string, status metav1.ConditionStatus, reason, message string) {
	f.Helper()
	c := meta.FindStatusCondition(g.Status.Conditions, kind)
	if c == nil || c.Status != status || c.Reason != reason || !strings.Contains(c.Message, message) {
		f.Errorf("%s is %+v; want %s, %s: %s", kind, c, status, reason, message)
	}
	if g.Status.ObservedGeneration != g.Generation || c != nil && c.ObservedGeneration != g.Generation {
		f.Errorf("observedGeneration is %d of %d", g.Status.ObservedGeneration, g.Generation)
	}
}

func TestMembers(t *testing.T) {
	f := newFixture(t)
	f.user("ann")
	f.user("bob")
	f.group("sub")
	f.group("empty")
	g := f.mustReconcile("empty")
	f.wantCondition(g, "Ready", "True", "Succeeded", "in effect")
	f.wantCondition(g, "MembersFound", "True", "MembersFound", "All members exist")

	f.group("staff", "ann", "Sub")
	f.chunk("c1", "bob", "ann", "Sub")
	f.chunk("c2", "bob")
	g = f.mustReconcile("staff")
	f.setChunks(g, 3, "c1", "c2")
	g = f.mustReconcile("staff")
	f.wantCondition(g, "Ready", "True", "Succeeded", "in effect")
	f.wantCondition(g, "MembersFound", "True", "MembersFound", "All members exist")
	if g.Status.MemberCount != 3 || g.Status.LastModified == nil {
		t.Errorf("%d members, modified at %s", g.Status.MemberCount, g.Status.LastModified)
	}
	f.wantNoWrites("staff")
}

// TestMemberChanges checks that the users in memberChanges are members, and that the members of chunks that the reference or, in a group of
// an earlier version, memberChanges removes are not.
func TestMemberChanges(t *testing.T) {
	t.Run("by position", func(t *testing.T) { testMemberChanges(t, "1,2,3") })
	t.Run("by id", func(t *testing.T) { testMemberChanges(t, "", "bob", "joe", "loop") })
}

func testMemberChanges(t *testing.T, positions string, ids ...string) {
	t.Helper()
	f := newFixture(t)
	for _, name := range []string{"ann", "bob", "eve", "joe"} {
		f.user(name)
	}
	f.group("loop", "Staff")
	f.chunk("c1", "ann", "bob", "joe", "Loop")
	g := f.group("staff", "joe")
	g.Spec.SetChanges([]string{"ann", "eve", "nobody"}, ids)
	g.Spec.SetChunks([]v1alpha1.ScimMemberChunkReference{{Name: "c1", Count: 4, Removed: positions}})
	f.must(f.api.Update(f.Context(), g))
	g = f.mustReconcile("staff")
	f.wantCondition(g, "MembersFound", "False", "MemberNotFound", `user "nobody"`)
	if c := meta.FindStatusCondition(g.Status.Conditions, "Ready"); g.Status.MemberCount != 3 || c.Message != "The group is in effect" {
		t.Errorf("%d members, want ann, eve and joe: %s", g.Status.MemberCount, c.Message)
	}
	if c := meta.FindStatusCondition(f.mustReconcile("loop").Status.Conditions, "Ready"); c.Message != "The group is in effect" {
		t.Errorf("the group is not a member of staff: %s", c.Message)
	}
	f.wantNoWrites("staff")
}

func TestMissingMembers(t *testing.T) {
	f := newFixture(t)
	f.user("ann")
	f.user("sub") // not a group
	f.group("staff", "ann", "b", "c", "no name/at all", "Sub", "d", "e", "f")
	g := f.mustReconcile("staff")
	f.wantCondition(g, "Ready", "True", "Succeeded", "in effect")
	f.wantCondition(g, "MembersFound", "False", "MemberNotFound", `user "b", user "c", user "no name/at all", group "sub", user "d" and 2 more`)
	if g.Status.MemberCount != 1 {
		t.Errorf("%d members", g.Status.MemberCount)
	}
	f.wantNoWrites("staff")
}

func TestChunkMissing(t *testing.T) {
	f := newFixture(t)
	f.user("ann")
	f.setChunks(f.group("staff"), 7, "c1")
	g := f.mustReconcile("staff")
	f.wantCondition(g, "Ready", "False", "ChunkMissing", `chunk "c1" with 7 members does not exist`)
	f.wantCondition(g, "Stalled", "True", "ChunkMissing", "")
	f.wantNoWrites("staff")
	f.chunk("c1", "ann")
	g = f.mustReconcile("staff")
	f.wantCondition(g, "Ready", "True", "Succeeded", "")
	f.setChunks(g, 1, "no/name")
	f.wantCondition(f.mustReconcile("staff"), "Ready", "False", "ChunkMissing", `"no/name"`)
}

func TestNameTaken(t *testing.T) {
	f := newFixture(t)
	f.group("staff")
	f.mustReconcile("staff")
	other := &v1alpha1.ScimGroup{ObjectMeta: f.named("other"), Spec: v1alpha1.ScimGroupSpec{DisplayName: "STAFF"}}
	f.must(f.api.Create(t.Context(), other))
	g := f.mustReconcile("other")
	f.wantCondition(g, "Ready", "False", "NameTaken", `spec.displayName: "STAFF" belongs to ScimGroup "staff"`)
	f.wantNoWrites("other")
}

// TestChunksOfEarlierVersions checks that members and references that are stored as lists are counted, and
// that their chunks are not collected.
func TestChunksOfEarlierVersions(t *testing.T) {
	f := newFixture(t)
	f.user("ann")
	f.user("bob")
	f.chunk("new", "bob")
	f.must(f.api.Create(t.Context(), &v1alpha1.ScimMemberChunk{ObjectMeta: f.named("old"), Spec: v1alpha1.ScimMemberChunkSpec{Members: list("ann")}}))
	g := f.group("staff")
	g.Spec.MemberChunkList = "new 1\n"
	g.Spec.MemberChunks = []v1alpha1.ScimMemberChunkReference{{Name: "old", Count: 1}}
	f.must(f.api.Update(t.Context(), g))
	if g = f.mustReconcile("staff"); g.Status.MemberCount != 2 {
		t.Errorf("memberCount is %d", g.Status.MemberCount)
	}
	used, err := references(t.Context(), f.api, f.namespace)
	f.must(err)
	for _, name := range []string{"new", "old"} {
		if !used[client.ObjectKey{Namespace: f.namespace, Name: name}] {
			t.Errorf("%s would be collected", name)
		}
	}
}

// TestRemovedMembersAreReported checks that members that a SCIM client removed are not counted, and are named.
func TestRemovedMembersAreReported(t *testing.T) {
	f := newFixture(t)
	names := []string{"a", "b", "c", "d", "e", "f", "g"}
	for _, name := range names {
		f.user(name)
	}
	g := f.group("staff", names...)
	g.Spec.RemovedMembers = append([]string{"unlisted"}, names[:6]...)
	f.must(f.api.Update(t.Context(), g))
	g = f.mustReconcile("staff")
	f.wantCondition(g, "Ready", "True", "Succeeded", "in effect")
	f.wantCondition(g, "MembersFound", "True", "MembersFound", "")
	f.wantCondition(g, "MembersRemoved", "True", "RemovedOverSCIM", `"a", "b", "c", "d", "e" and 1 more`)
	if g.Status.MemberCount != 1 {
		t.Errorf("memberCount is %d", g.Status.MemberCount)
	}
	f.wantNoWrites("staff")
	g.Spec.RemovedMembers = []string{"unlisted"}
	f.must(f.api.Update(t.Context(), g))
	g = f.mustReconcile("staff")
	if c := meta.FindStatusCondition(g.Status.Conditions, "MembersRemoved"); c != nil || g.Status.MemberCount != 7 {
		t.Errorf("MembersRemoved is %+v, memberCount %d", c, g.Status.MemberCount)
	}
}

func TestAccountNotFound(t *testing.T) {
	f := newFixture(t)
	f.group("staff")
	f.mustReconcile("staff")
	f.must(f.api.Delete(t.Context(), f.account))
	f.wantCondition(f.mustReconcile("staff"), "Ready", "False", "AccountNotFound", f.namespace)
}

// TestCycles checks that cycles are reported with the shortest path.
func TestCycles(t *testing.T) {
	f := newFixture(t)
	f.group("self", "Self")
	f.wantCondition(f.mustReconcile("self"), "Ready", "True", "Succeeded", "the group is a member of itself")
	f.group("a", "B", "D")
	f.group("b", "C")
	f.chunk("a-and-c", "A", "C")
	f.setChunks(f.group("c"), 2, "a-and-c")
	f.group("d", "C", "gone", "Lost")
	f.wantCondition(f.mustReconcile("a"), "Ready", "True", "Succeeded", `the group contains itself, through "b", "c"`)
	f.wantCondition(f.mustReconcile("c"), "Ready", "True", "Succeeded", `the group is a member of itself`)
	f.wantNoWrites("a")
	f.group("above", "A") // contains a cycle, but is not part of it
	g := f.mustReconcile("above")
	if c := meta.FindStatusCondition(g.Status.Conditions, "Ready"); c.Message != "The group is in effect" {
		t.Errorf("message %q", c.Message)
	}
}

// TestChangesAreBatched checks that the first change of a group is reconciled immediately, and following changes in a batch, so
// that a client that adds members one at a time does not conflict with the status each time.
func TestChangesAreBatched(t *testing.T) {
	for name, c := range map[string]struct {
		members  int32
		interval time.Duration
	}{"small": {largeGroup - 1, smallInterval}, "large": {largeGroup, batchInterval}} {
		t.Run(name, func(t *testing.T) {
			f := newFixture(t)
			f.user("ann")
			f.chunk("c1", "ann")
			g := f.group("staff")
			f.setChunks(g, c.members, "c1")
			g = f.mustReconcile("staff")
			f.wantCondition(g, "Ready", "True", "Succeeded", "")
			for i := range 5 {
				g.Spec.ExternalID = fmt.Sprint(i)
				f.must(f.api.Update(t.Context(), g))
				f.clock.Step(100 * time.Millisecond)
				f.calls = nil
				var result ctrl.Result
				var err error
				g, result, err = f.reconcile("staff")
				f.must(err)
				if g.Status.ObservedGeneration == g.Generation || result.RequeueAfter <= 0 || result.RequeueAfter > c.interval {
					t.Errorf("observedGeneration %d of %d, requeued after %s", g.Status.ObservedGeneration, g.Generation, result.RequeueAfter)
				}
				for _, call := range f.calls {
					if call == "get ScimMemberChunk" || strings.HasPrefix(call, "patch") {
						t.Errorf("%s", call)
					}
				}
			}
			g.Spec.RemovedMembers = []string{"ann"} // which is stored in the status at once
			lastmodified.Stamp(g, f.clock.Now())
			f.must(f.api.Update(t.Context(), g))
			if g, _, err := f.reconcile("staff"); err != nil || !slices.Equal(g.Status.RemovedMembers, g.Spec.RemovedMembers) {
				t.Errorf("status has %q: %v", g.Status.RemovedMembers, err)
			}
			f.clock.Step(c.interval)
			f.wantCondition(f.mustReconcile("staff"), "Ready", "True", "Succeeded", "")
			f.wantNoWrites("staff")
		})
	}
}

// TestFailures checks that a reconciliation recovers from the failure of any call.
func TestFailures(t *testing.T) {
	for _, call := range []string{
		"list AccountList", "get Claim", "create Claim", "list ClaimList", "get ScimUser", "get ScimMemberChunk", "get ScimGroup", "patch status ScimGroup",
	} {
		t.Run(call, func(t *testing.T) {
			f := newFixture(t)
			f.user("ann")
			f.chunk("c1", "ann")
			f.setChunks(f.group("staff", "Staff"), 1, "c1")
			failed := 0
			f.fail = func(c string) error {
				if c == call && failed == 0 {
					failed++
					return errors.New("connection refused")
				}
				return nil
			}
			if _, _, err := f.reconcile("staff"); err == nil || failed == 0 {
				t.Errorf("got %v", err)
			}
			f.wantCondition(f.mustReconcile("staff"), "Ready", "True", "Succeeded", "member of itself")
			f.wantNoWrites("staff")
		})
	}
}

// chunkNames returns the names of the chunks that exist.
func (f *fixture) chunkNames() []string {
	f.Helper()
	list := &v1alpha1.ScimMemberChunkList{}
	f.must(f.api.List(f.Context(), list, client.InNamespace(f.namespace)))
	names := []string{}
	for _, chunk := range list.Items {
		names = append(names, chunk.Name)
	}
	return names
}

func (f *fixture) collector() *Collector {
	c := f.client()
	return NewCollector(kube.NewClient(client.NewNamespacedClient(c, f.namespace), c, "quoin-test"), f.clock)
}

func TestCollect(t *testing.T) {
	f := newFixture(t)
	g := f.group("staff")
	f.chunk("used", "ann")
	f.chunk("unused", "ann")
	touched := f.chunk("touched", "ann")
	f.chunk("used-again", "ann")
	f.setChunks(g, 1, "used")
	c := f.collector()
	step := func(d time.Duration, want ...string) {
		t.Helper()
		f.clock.Step(d)
		f.must(c.Once(t.Context()))
		if diff := cmp.Diff(want, f.chunkNames()); diff != "" {
			t.Errorf("chunks (-want +got):\n%s", diff)
		}
	}
	step(0, "touched", "unused", "used", "used-again")
	step(UnusedGracePeriod-time.Minute, "touched", "unused", "used", "used-again")
	f.must(f.api.Patch(t.Context(), touched, client.RawPatch("application/merge-patch+json",
		fmt.Appendf(nil, `{"metadata":{"annotations":{%q:"now"}}}`, v1alpha1.AnnotationUsed))))
	f.setChunks(g, 1, "used", "used-again")
	step(time.Minute, "touched", "unused", "used", "used-again")
	step(time.Second, "touched", "used", "used-again")
	f.setChunks(g, 1, "used-again") // "used" is now unreferenced
	step(UnusedGracePeriod-2*time.Minute, "touched", "used", "used-again")
	step(2*time.Minute, "used", "used-again")
	step(UnusedGracePeriod, "used-again")
}

// TestCollectWithCache checks the collector with a client that reads from a cache.
func TestCollectWithCache(t *testing.T) {
	f := newFixture(t)
	g := f.group("staff")
	f.chunk("used", "ann")
	f.chunk("unused", "ann")
	f.setChunks(g, 1, "used")
	k8s, err := cluster.New(apitest.Server(t), func(o *cluster.Options) {
		o.Scheme, o.Cache.DefaultNamespaces = apitest.Scheme(t), map[string]cache.Config{f.namespace: {}}
	})
	f.must(err)
	go func() { _ = k8s.Start(t.Context()) }() // ends with the test
	for _, kind := range []client.Object{&v1alpha1.ScimGroup{}, &v1alpha1.ScimMemberChunk{}} {
		_, err := k8s.GetCache().GetInformer(t.Context(), kind) // returns when synced
		f.must(err)
	}
	c := NewCollector(kube.NewClient(k8s.GetClient(), k8s.GetAPIReader(), "quoin-test"), f.clock)
	f.must(c.Once(t.Context()))
	f.clock.Step(UnusedGracePeriod + time.Second)
	f.must(c.Once(t.Context()))
	if diff := cmp.Diff([]string{"used"}, f.chunkNames()); diff != "" {
		t.Errorf("chunks (-want +got):\n%s", diff)
	}
}

// TestCollectRaces checks that a chunk that is reused before its deletion is kept.
func TestCollectRaces(t *testing.T) {
	cases := map[string]struct {
		at   string // the call before which the event happens
		what func(f *fixture, g *v1alpha1.ScimGroup, chunk *v1alpha1.ScimMemberChunk)
	}{
		"patched before the deletion": {"delete ScimMemberChunk", func(f *fixture, _ *v1alpha1.ScimGroup, chunk *v1alpha1.ScimMemberChunk) {
			f.must(f.api.Patch(f.Context(), chunk, client.RawPatch("application/merge-patch+json",
				fmt.Appendf(nil, `{"metadata":{"annotations":{%q:"now"}}}`, v1alpha1.AnnotationUsed))))
		}},
		"referenced, with a stale cache": {"list ScimGroupList", func(f *fixture, g *v1alpha1.ScimGroup, _ *v1alpha1.ScimMemberChunk) {
			f.setChunks(g, 1, "chunk")
		}},
		"created again": {"delete ScimMemberChunk", func(f *fixture, _ *v1alpha1.ScimGroup, chunk *v1alpha1.ScimMemberChunk) {
			f.must(f.api.Delete(f.Context(), chunk))
			f.chunk("chunk", "ann")
		}},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			f := newFixture(t)
			g, chunk := f.group("staff"), f.chunk("chunk", "ann")
			c := f.collector()
			f.must(c.Once(t.Context()))
			f.clock.Step(UnusedGracePeriod + time.Second)
			f.calls = nil
			f.fail = func(call string) error {
				lists := 0
				for _, c := range f.calls {
					if c == "list ScimGroupList" {
						lists++
					}
				}
				if call == tc.at && (lists == 2 || call != "list ScimGroupList") {
					f.fail = func(string) error { return nil }
					tc.what(f, g, chunk)
				}
				return nil
			}
			f.must(c.Once(t.Context()))
			if diff := cmp.Diff([]string{"chunk"}, f.chunkNames()); diff != "" {
				t.Errorf("chunks (-want +got):\n%s", diff)
			}
		})
	}
}

// TestCollectorRuns checks that the collector runs until its context is done, despite errors.
func TestCollectorRuns(t *testing.T) {
	f := newFixture(t)
	f.chunk("unused", "ann")
	failed := 0
	f.fail = func(call string) error {
		if failed++; failed < 4 {
			return errors.New("connection refused")
		}
		return nil
	}
	c := f.collector()
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error)
	go func() { ended <- c.Start(ctx) }()
	for end := time.Now().Add(30 * time.Second); len(f.chunkNames()) > 0; time.Sleep(10 * time.Millisecond) {
		if time.Now().After(end) {
			t.Fatal("timeout")
		}
		if f.clock.HasWaiters() {
			f.clock.Step(collectInterval)
		}
	}
	cancel()
	if err := <-ended; err != nil || !c.NeedLeaderElection() {
		t.Errorf("got %v", err)
	}
}
