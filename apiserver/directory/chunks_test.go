package directory

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	toolscache "k8s.io/client-go/tools/cache"
	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	"github.com/quoin-dev/quoin/api/v1alpha1"
	"github.com/quoin-dev/quoin/apiserver/directory/membership"
	"github.com/quoin-dev/quoin/apiserver/scim/patch"
	"github.com/quoin-dev/quoin/apiserver/scim/schema"
	"github.com/quoin-dev/quoin/apiserver/scim/scimtest"
	"github.com/quoin-dev/quoin/internal/freshness"
)

// chunksOf reads the chunks of a group from the API server; nil for a chunk that does not exist.
func (r *fixture) chunksOf(id string) []*v1alpha1.ScimMemberChunk {
	r.t.Helper()
	g := r.read(id)
	var chunks []*v1alpha1.ScimMemberChunk
	for _, reference := range g.Spec.Chunks() {
		c := &v1alpha1.ScimMemberChunk{}
		err := r.api.Get(r.t.Context(), client.ObjectKey{Namespace: r.namespace, Name: reference.Name}, c)
		r.must(client.IgnoreNotFound(err))
		if err != nil {
			c = nil
		}
		chunks = append(chunks, c)
	}
	return chunks
}

// inChunks returns so many members that, with others, a group has two chunks.
func inChunks(others ...string) []string { return append(scimtest.Sequence("m", 0, 1000), others...) }

// TestReusedChunks checks that a chunk that exists is protected from the collector before a group refers
// to it, and that chunks that the group has already are not written.
func TestReusedChunks(t *testing.T) {
	r := newFixture(t)
	first, second := r.group("first", inChunks("a")...), r.group("second")
	chunk := r.chunksOf(first.ID)[0]
	if chunk.Annotations[v1alpha1.AnnotationUsed] != "" {
		t.Error("a new chunk has the annotation")
	}
	r.must(r.change(r.Tenant, second.ID, func(s schema.Set) { scimtest.AddMembers(s, inChunks("a")...) }))
	same := r.chunksOf(second.ID)[0]
	if same.Name != chunk.Name || same.Annotations[v1alpha1.AnnotationUsed] == "" || same.ResourceVersion == chunk.ResourceVersion {
		t.Errorf("%s is not protected: %v", same.Name, same.Annotations)
	}
	r.must(r.change(r.Tenant, second.ID, func(s schema.Set) { scimtest.AddMembers(s, "c") }))
	r.must(r.change(r.Tenant, first.ID, func(s schema.Set) { scimtest.AddMembers(s, "a") }))
	if again := r.chunksOf(first.ID)[0]; again.ResourceVersion != same.ResourceVersion {
		t.Error("a chunk of the group was written")
	}
}

// TestFewMembersWithoutChunks checks that the members of a small group are in the group itself, and that the last changes of a
// large one are.
func TestFewMembersWithoutChunks(t *testing.T) {
	r := newFixture(t)
	ids := r.users("u", 3)
	small, large := r.group("small", ids[:2]...), r.group("large", inChunks(ids[:2]...)...)
	chunks := r.chunksOf(large.ID)
	for _, g := range []*schema.Resource{small, large} {
		r.must(r.change(r.Tenant, g.ID, func(s schema.Set) { s.Delete(ids[0]); scimtest.AddMembers(s, ids[2]) }))
		if got := r.visibleMembers(g.ID); !slices.Equal(got, sorted(ids[1:])) {
			t.Errorf("members %v", got)
		}
	}
	object := r.read(small.ID)
	if want := sorted(ids[1:]); object.Spec.MemberChanges != "+"+want[0]+"\n+"+want[1]+"\n" || object.Spec.MemberChunkList != "" {
		t.Errorf("the small group is stored as %+v", object.Spec)
	}
	if object = r.read(large.ID); object.Spec.MemberChanges != "+"+ids[2]+"\n" || len(chunks) != 2 || r.removed(object) != ids[0] {
		t.Errorf("the large group is stored with %d chunks, %q and %q", len(chunks), object.Spec.MemberChanges, object.Spec.MemberChunkList)
	}
	both := []string{small.ID, large.ID}
	for id, want := range map[string][]string{ids[0]: {}, ids[1]: both, ids[2]: both} {
		if got := r.find(r.Tenant, r.Tenant.group, `members.value eq "`+id+`"`); !slices.Equal(got, want) {
			t.Errorf("groups with %s: %v, want %v", id, got, want)
		}
	}
	if got := r.find(r.Tenant, r.Tenant.user, `groups.value eq "`+large.ID+`"`); !slices.Equal(got, ids[1:]) {
		t.Errorf("users in the large group: %v, want %v", got, ids[1:])
	}
	if got := r.chunksOf(large.ID); got[0].ResourceVersion != chunks[0].ResourceVersion || got[1].ResourceVersion != chunks[1].ResourceVersion {
		t.Error("a chunk was written")
	}
}

// removed returns the members of chunks that the references of a group remove.
func (r *fixture) removed(g *v1alpha1.ScimGroup) string {
	r.t.Helper()
	var ids []string
	for _, reference := range g.Spec.Chunks() {
		chunk := &v1alpha1.ScimMemberChunk{}
		r.must(r.api.Get(r.t.Context(), client.ObjectKey{Namespace: r.namespace, Name: reference.Name}, chunk))
		for i := range reference.RemovedPositions() {
			ids = append(ids, chunk.Spec.AllMembers()[i].Value)
		}
	}
	return strings.Join(ids, " ")
}

// read reads a group from the API server.
func (r *fixture) read(id string) *v1alpha1.ScimGroup {
	r.t.Helper()
	g := &v1alpha1.ScimGroup{}
	r.must(r.api.Get(r.t.Context(), client.ObjectKey{Namespace: r.namespace, Name: id}, g))
	return g
}

// TestMissingChunk checks that members in a missing chunk are not visible, and that a change keeps the
// reference to it.
func TestMissingChunk(t *testing.T) {
	r := newFixture(t)
	ids := r.users("u", 2)
	g := r.group("g", append(scimtest.Sequence("m", 0, 1000-1), ids...)...)
	chunks := r.chunksOf(g.ID)
	if len(chunks) != 2 {
		t.Fatalf("%d chunks", len(chunks))
	}
	r.must(r.api.Delete(t.Context(), chunks[0]))
	r.eventually(func() bool { _, ok, _ := r.d.chunks.Informer.GetIndexer().Get(chunks[0]); return !ok })
	r.must(r.change(r.Tenant, g.ID, func(s schema.Set) { scimtest.AddMembers(s, "more") }))
	if got := r.chunksOf(g.ID); len(got) != 2 || got[0] != nil || got[1].Name != chunks[1].Name {
		t.Errorf("chunks %v", got)
	}
	chunks[0].ResourceVersion = ""
	r.must(r.api.Create(t.Context(), chunks[0])) // as from a backup
	if got := r.storedMembers(r.Tenant, g.ID); len(got) != 1000+2 {
		t.Errorf("%d members", len(got))
	}
}

// TestReplacedMissingChunk checks that a replacement of all members removes the reference to a missing chunk: the group would stay
// Stalled with ChunkMissing.
func TestReplacedMissingChunk(t *testing.T) {
	r := newFixture(t)
	ids := r.users("u", 2)
	for name, replace := range map[string]func(schema.Set){
		"put": func(s schema.Set) { schema.Fill(s, memberList(ids[1]), func() bool { return true }) },
		"patch": func(s schema.Set) {
			op := patch.Operation{Op: "replace", Path: "members", HasPath: true, Value: memberList(ids[1]), HasValue: true}
			r.must(patch.Apply(r.Tenant.group, schema.Document{"displayName": "g", "members": s}, []patch.Operation{op}, patch.Quirks{}))
		},
	} {
		g := r.group(name, inChunks(ids...)...)
		chunk := r.chunksOf(g.ID)[0]
		r.must(r.api.Delete(t.Context(), chunk))
		r.eventually(func() bool { _, ok, _ := r.d.chunks.Informer.GetIndexer().Get(chunk); return !ok })
		r.must(r.change(r.Tenant, g.ID, replace))
		if got := r.chunksOf(g.ID); len(got) != 1 || got[0] == nil || len(got[0].Spec.AllMembers()) != 1 {
			t.Errorf("%s: chunks %v", name, got)
		}
	}
}

// TestForgedChunk checks that a chunk whose content does not match its name is rejected.
func TestForgedChunk(t *testing.T) {
	r := newFixture(t)
	var members []v1alpha1.ScimMember
	for _, value := range inChunks() {
		members = append(members, v1alpha1.ScimMember{Value: value})
	}
	name, err := membership.ChunkName(members)
	r.must(err)
	r.must(r.api.Create(t.Context(), &v1alpha1.ScimMemberChunk{
		ObjectMeta: metav1.ObjectMeta{Namespace: r.namespace, Name: name}, Spec: v1alpha1.ScimMemberChunkSpec{Members: []v1alpha1.ScimMember{{Value: "evil"}}},
	}))
	_, err = r.CreateResource(t.Context(), r.Tenant.group, schema.Document{"displayName": "g", "members": memberList(inChunks("z")...)})
	if err == nil || !strings.Contains(err.Error(), "its members do not match its name") {
		t.Errorf("got %v", err)
	}
}

// TestStaleCache checks that chunks that are not in the cache yet are read from the API server.
func TestStaleCache(t *testing.T) {
	r := newFixture(t)
	ids := r.users("u", 3)
	g := r.group("g", inChunks(ids...)...)
	stale := r.replica(r.api)
	stale.chunks.Informer = toolscache.NewSharedIndexInformer(&toolscache.ListWatch{}, &v1alpha1.ScimMemberChunk{}, 0, toolscache.Indexers{})
	stale.clock, stale.tracker = expiredClock{}, freshness.New(expiredClock{})
	on := stale.Of(r.account)
	r.must(r.change(on, g.ID, func(s schema.Set) { s.Delete(ids[0]); scimtest.AddMembers(s, ids[1], "new") }))
	if got := r.storedMembers(on, g.ID); !slices.Equal(got, sorted(append(inChunks(ids[1:]...), "new"))) {
		t.Errorf("stored members %v", got)
	}
	if got := r.visibleMembers(g.ID); !slices.Equal(got, sorted(ids[1:])) {
		t.Errorf("visible members %v", got)
	}
}

// expiredClock is a clock whose timers fire immediately.
type expiredClock struct{ clock.RealClock }

// NewTimer implements clock.Clock.
func (expiredClock) NewTimer(time.Duration) clock.Timer { return clock.RealClock{}.NewTimer(0) }

// TestVersions checks that a status update changes neither version nor lastModified.
func TestVersions(t *testing.T) {
	r := newFixture(t)
	u := r.user("u")
	object := &v1alpha1.ScimUser{}
	r.must(r.api.Get(t.Context(), client.ObjectKey{Namespace: r.namespace, Name: u.ID}, object))
	if want := "1-" + string(object.UID[:8]); u.Version != want {
		t.Errorf("version %s, want %s", u.Version, want)
	}
	time.Sleep(1100 * time.Millisecond) // the API server's times are in seconds
	object.Status.ObservedGeneration = 1
	r.must(r.api.Status().Update(t.Context(), object, client.FieldOwner("quoin-controller")))
	r.eventually(func() bool {
		cached := r.d.users.visible(r.namespace, u.ID)
		return cached != nil && cached.ResourceVersion == object.ResourceVersion
	})
	live, err := r.GetResource(t.Context(), r.Tenant.user, u.ID, nil)
	r.must(err)
	page, err := r.ListResources(t.Context(), r.Tenant.user, query(t, r.Tenant.user, ""))
	r.must(err)
	for name, got := range map[string]*schema.Resource{"live": live, "listed": page.Resources[0]} {
		if got.Version != u.Version || !got.LastModified.Equal(u.LastModified) || !got.Created.Equal(u.Created) {
			t.Errorf("%s: %s %v, was %s %v", name, got.Version, got.LastModified, u.Version, u.LastModified)
		}
	}
}

// TestRequestsOfAChange checks the requests of a change of one member: the group; and after a conflict, such as with a status
// update, the group again. A change of many members writes chunks too, once.
func TestRequestsOfAChange(t *testing.T) {
	r := newFixture(t)
	g := r.group("g", "first")
	var calls []string
	conflict, all := false, []string{"first"}
	call := func(verb string, o client.Object) {
		calls = append(calls, verb+" "+strings.TrimPrefix(fmt.Sprintf("%T", o), "*v1alpha1.Scim"))
	}
	replica := r.replica(interceptor.NewClient(r.api, interceptor.Funcs{
		Get: func(ctx context.Context, c client.WithWatch, key client.ObjectKey, o client.Object, opts ...client.GetOption) error {
			call("get", o)
			return c.Get(ctx, key, o, opts...)
		},
		Create: func(ctx context.Context, c client.WithWatch, o client.Object, opts ...client.CreateOption) error {
			call("create", o)
			return c.Create(ctx, o, opts...)
		},
		Patch: func(ctx context.Context, c client.WithWatch, o client.Object, p client.Patch, opts ...client.PatchOption) error {
			call("patch", o)
			if conflict {
				conflict = false
				status := client.RawPatch(types.MergePatchType, fmt.Appendf(nil, `{"status":{"memberCount":%d}}`, len(all)))
				r.must(r.api.Status().Patch(ctx, &v1alpha1.ScimGroup{ObjectMeta: metav1.ObjectMeta{Namespace: r.namespace, Name: g.ID}}, status))
			}
			return c.Patch(ctx, o, p, opts...)
		},
	})).Of(r.account)
	for _, c := range []struct {
		name     string
		members  []string
		conflict bool
		want     []string
	}{
		{"one", []string{"second"}, false, []string{"patch Group"}},
		{"one, with a conflict", []string{"third"}, true, []string{"patch Group", "get Group", "patch Group"}},
		{"many", scimtest.Sequence("m", 0, 253), false, []string{"patch Group"}},
		{"one more, with a conflict", []string{"x"}, true, []string{"create MemberChunk", "patch Group", "get Group", "patch Group"}},
		{"one after many", []string{"y"}, false, []string{"patch Group"}},
	} {
		calls, conflict = nil, c.conflict
		r.must(r.change(replica, g.ID, func(s schema.Set) { scimtest.AddMembers(s, c.members...) }))
		if diff := cmp.Diff(c.want, calls); diff != "" {
			t.Errorf("%s (-want +got):\n%s", c.name, diff)
		}
		all = append(all, c.members...)
	}
	if got := r.storedMembers(r.Tenant, g.ID); !slices.Equal(got, sorted(all)) {
		t.Errorf("%d members, want %d", len(got), len(all))
	}
}

// TestCompactForm checks that the cache keeps only the fields that a Directory reads.
func TestCompactForm(t *testing.T) {
	now := metav1.NewTime(time.Unix(1_700_000_000, 0))
	stored := func(reason string) *v1alpha1.ScimUser {
		u := &v1alpha1.ScimUser{
			TypeMeta: metav1.TypeMeta{Kind: "ScimUser", APIVersion: v1alpha1.GroupVersion.String()},
			ObjectMeta: metav1.ObjectMeta{Name: "u", Annotations: map[string]string{corev1.LastAppliedConfigAnnotation: "{}"}, ManagedFields: []metav1.ManagedFieldsEntry{
				{Manager: "kubectl", Time: &now, FieldsV1: &metav1.FieldsV1{Raw: []byte(`{"f:spec":{"f:userName":{}}}`)}},
			}},
			Spec: v1alpha1.ScimUserSpec{UserName: "u"},
		}
		u.Status.Conditions = []metav1.Condition{
			{Type: "Stalled", Status: "True", Reason: reason, Message: "long"},
			{Type: "Ready", Status: "False", Reason: reason, Message: "long", LastTransitionTime: now},
		}
		return u
	}
	for reason, conditions := range map[string][]metav1.Condition{
		v1alpha1.ReasonNameTaken:   {{Type: "Ready", Status: "False", Reason: v1alpha1.ReasonNameTaken}},
		v1alpha1.ReasonInvalidSpec: nil,
	} {
		want := &v1alpha1.ScimUser{
			ObjectMeta: metav1.ObjectMeta{Name: "u", ManagedFields: []metav1.ManagedFieldsEntry{{Time: &now}}},
			Spec:       v1alpha1.ScimUserSpec{UserName: "u"},
		}
		want.Status.Conditions = conditions
		cached, err := compactUser(stored(reason))
		got := decoded[*v1alpha1.ScimUser](cached)
		if diff := cmp.Diff(want, got); diff != "" || err != nil {
			t.Errorf("%s (-want +got): %v\n%s", reason, err, diff)
		}
		if again, err := compactUser(cached); again != cached || err != nil {
			t.Errorf("the second time: %v, %v", again, err)
		}
	}
	gone := toolscache.DeletedFinalStateUnknown{Key: "acme/u"}
	if got, err := compactUser(gone); got != gone || err != nil {
		t.Errorf("got %v, %v", got, err)
	}
}
