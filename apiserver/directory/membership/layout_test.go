package membership

import (
	"errors"
	"net/http"

	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	toolscache "k8s.io/client-go/tools/cache"

	"github.com/quoin-dev/quoin/api/v1alpha1"
	"github.com/quoin-dev/quoin/apiserver/scim/schema"
	"github.com/quoin-dev/quoin/apiserver/scim/scimerror"
	"github.com/quoin-dev/quoin/apiserver/scim/scimtest"
)

// testGroup is a group whose chunks are in a cache without an API server.
type testGroup struct {
	cache *Chunks
	spec  v1alpha1.ScimGroupSpec
	// groups are the ids of members that are groups.
	groups map[string]bool
	// chunks is the number of chunks written by the last change, and members their members.
	chunks, members int
}

func newTestGroup(t testing.TB) *testGroup {
	t.Helper()
	cache := NewChunks(&Chunks{Informer: toolscache.NewSharedIndexInformer(&toolscache.ListWatch{}, &v1alpha1.ScimMemberChunk{}, 0, toolscache.Indexers{})})
	return &testGroup{cache: cache, groups: map[string]bool{}}
}

// store adds or replaces a chunk in the cache, like an informer: with the members as a list.
func (g *testGroup) store(t testing.TB, chunk *v1alpha1.ScimMemberChunk) {
	t.Helper()
	chunk.Spec = v1alpha1.ScimMemberChunkSpec{Members: chunk.Spec.AllMembers()}
	before, _, err := g.cache.Informer.GetIndexer().Get(chunk)
	if err := errors.Join(err, g.cache.Informer.GetIndexer().Update(chunk)); err != nil {
		t.Fatal(err)
	}
	g.cache.Changed(before, chunk)
}

// session returns a session for a change.
func (g *testGroup) session(t testing.TB) *Session {
	return &Session{Context: t.Context(), Chunks: g.cache, Namespace: "acme", Unresolved: true, Resolve: func(m *v1alpha1.ScimMember) (Resolved, bool) {
		return Resolved{Type: TypeGroup}, g.groups[m.Value]
	}}
}

// change applies a change and stores its chunks in the cache.
func (g *testGroup) change(t testing.TB, change func(schema.Set)) {
	t.Helper()
	session := g.session(t)
	m := session.Members(&g.spec)
	change(m)
	after := m.layout()
	if m.err != nil || session.err != nil {
		t.Fatal(m.err, session.err)
	}
	g.spec.Members, g.spec.RemovedMembers = after.listed, after.removed
	g.save(t, &after)
	if len(after.added) > maxChanges || len(after.added) > maxAdded && len(g.spec.Chunks()) > 0 {
		t.Errorf("%d added in the group itself", len(after.added))
	}
}

// save stores the chunks of a layout in the cache, and the references to them and the changes in the group.
func (g *testGroup) save(t testing.TB, after *changed) {
	t.Helper()
	references := make([]v1alpha1.ScimMemberChunkReference, len(after.parts))
	g.chunks, g.members = 0, 0
	for i, p := range after.parts {
		references[i] = p.reference
		if !p.isNew() {
			continue
		}
		name, err := ChunkName(p.members)
		if err != nil {
			t.Fatal(err)
		}
		references[i] = v1alpha1.ScimMemberChunkReference{Name: name, Count: int32(len(p.members))}
		g.chunks++
		g.members += len(p.members)
		chunk := &v1alpha1.ScimMemberChunk{ObjectMeta: metav1.ObjectMeta{Namespace: "acme", Name: name}}
		chunk.Spec.SetMembers(p.members)
		g.store(t, chunk)
	}
	g.spec.SetChunks(withRemoved(references, after.parts))
	g.spec.SetChanges(after.added, after.unplaced)
}

// all returns the sorted values of all stored members, with duplicates.
func (g *testGroup) all(t testing.TB) []string {
	t.Helper()
	session := g.session(t)
	var values []string
	for _, m := range g.spec.EffectiveMembers() {
		values = append(values, m.Value)
	}
	stored := 0
	for _, reference := range g.spec.Chunks() {
		p, cached := session.load(reference)
		if !cached || len(p.members) != int(reference.Count) || len(p.members) == 0 || len(p.members) > chunkSize {
			t.Errorf("chunk has %d members, its reference says %d", len(p.members), reference.Count)
		}
		chunk := &v1alpha1.ScimMemberChunkSpec{}
		chunk.SetMembers(p.members)
		values = append(values, Values(reference.MembersIn(chunk))...)
		stored += int(reference.Count) - len(slices.Collect(reference.RemovedPositions()))
	}
	if inChunks := len(values) - len(g.spec.EffectiveMembers()); inChunks != stored || g.spec.Size() != len(g.spec.Members)+inChunks+len(g.spec.EffectiveMembers())-len(g.spec.ListedMembers()) {
		t.Errorf("%d members of chunks are members, the references say %d; the size is %d", inChunks, stored, g.spec.Size())
	}
	if len(g.spec.Chunks()) > maxReferences {
		t.Errorf("%d chunks", len(g.spec.Chunks()))
	}
	slices.Sort(values)
	return values
}

// TestMembersMatchModel applies random changes to a group and to a map and compares the results.
func TestMembersMatchModel(t *testing.T) {
	for seed := range uint64(20) {
		random := rand.New(rand.NewPCG(seed, 1))
		g, model := newTestGroup(t), map[string]bool{}
		for _, value := range scimtest.Sequence("m", 0, random.IntN(8)) { // members in the group itself, as in a manifest
			g.spec.Members = append(g.spec.Members, v1alpha1.ScimMember{Value: value})
			model[value] = true
		}
		for i := range 40 { // a group is stored in a chunk
			g.groups[fmt.Sprintf("m%07d", 50*i)] = seed%2 == 0
		}
		for range 60 {
			g.change(t, func(s schema.Set) { randomChanges(t, random, s, model) })
			if want := slices.Sorted(maps.Keys(model)); !slices.Equal(g.all(t), want) {
				t.Fatalf("seed %d: %d members are stored, want %d", seed, len(g.all(t)), len(want))
			}
			if t.Failed() {
				t.Fatalf("seed %d", seed)
			}
		}
	}
}

func randomChanges(t *testing.T, random *rand.Rand, s schema.Set, model map[string]bool) {
	t.Helper()
	if random.IntN(25) == 0 {
		s.Clear()
		clear(model)
	}
	some := 1 + random.IntN([]int{1, 3, 700}[random.IntN(3)])
	adding := random.IntN(5) > 1
	for range some {
		value := fmt.Sprintf("m%07d", random.IntN(2000))
		_, exists := s.Get(value)
		switch {
		case exists != model[value]:
			t.Errorf("Get(%s) = %v", value, exists)
		case adding:
			if s.Put(map[string]any{"value": value}) == exists {
				t.Errorf("Put(%s): got %v, member exists: %v", value, exists, exists)
			}
			model[value] = true
		default:
			if s.Delete(value) != exists {
				t.Errorf("Delete(%s): got %v, member exists: %v", value, !exists, exists)
			}
			delete(model, value)
		}
	}
	if s.Len() != len(model) {
		t.Errorf("Len() = %d, want %d", s.Len(), len(model))
	}
	var all []string
	for element := range s.All() {
		all = append(all, element["value"].(string))
	}
	slices.Sort(all)
	if !slices.Equal(all, slices.Sorted(maps.Keys(model))) {
		t.Errorf("All() has %d, want %d", len(all), len(model))
	}
}

// TestChangeWritesFewChunks checks that changes are written to the group itself as long as they are few, and then only the
// chunks that they affect.
func TestChangeWritesFewChunks(t *testing.T) {
	g := newTestGroup(t)
	add := func(prefix string, from, to int) func(schema.Set) {
		return func(s schema.Set) { scimtest.AddMembers(s, scimtest.Sequence(prefix, from, to)...) }
	}
	remove := func(from, to int) func(schema.Set) {
		return func(s schema.Set) {
			for _, value := range scimtest.Sequence("m", from, to) {
				s.Delete(value)
			}
		}
	}
	removeEach := func(from, step, n, times int) func(schema.Set) {
		return func(s schema.Set) {
			for i := range times {
				remove(from+i*step, from+i*step+n)(s)
			}
		}
	}
	replace := func(with func(schema.Set)) func(schema.Set) { return func(s schema.Set) { s.Clear(); with(s) } }
	for _, c := range []struct {
		name            string
		change          func(schema.Set)
		chunks, members int // that are written
		added, removed  int // in the group itself
		total           int
	}{
		{"add 256", add("m", 0, 256), 0, 0, 256, 0, 256},
		{"add one more", add("m", 256, 257), 1, 257, 0, 0, 257},
		{"add 50,000", add("m", 0, 50_000), 50, 50_000, 0, 0, 50_000},
		{"add the same", add("m", 0, 50_000), 0, 0, 0, 0, 50_000},
		{"replace all with the same", replace(add("m", 0, 50_000)), 0, 0, 0, 0, 50_000},
		{"add one", add("x", 0, 1), 0, 0, 1, 0, 50_001},
		{"remove one", remove(300, 301), 0, 0, 1, 1, 50_000},
		{"remove one and add it again", func(s schema.Set) { remove(301, 302)(s); add("m", 301, 302)(s) }, 0, 0, 1, 1, 50_000},
		{"replace one", func(s schema.Set) { remove(302, 303)(s); add("n", 0, 1)(s) }, 0, 0, 2, 2, 50_000},
		{"replace all with others of a few", replace(add("m", 0, 49_990)), 0, 0, 0, 10, 49_990},
		{"add those again", add("m", 49_990, 50_000), 0, 0, 0, 0, 50_000},
		{"remove 256", remove(0, 256), 0, 0, 0, 256, 49_744},
		{"remove another one", remove(256, 257), 0, 0, 0, 257, 49_743},
		{"add 1,000", add("x", 0, 1000), 2, 1000 - 257 + 1000, 0, 0, 50_743},
		{"remove 10 from each of 12 chunks", removeEach(4000, 1000, 10, 12), 0, 0, 0, 120, 50_623},
		{"remove 20 from each of 12 others", removeEach(20_000, 1000, 20, 12), 0, 0, 0, 360, 50_383},
		{"remove 20 from each of 12 more", removeEach(32_000, 1000, 20, 12), 0, 0, 0, 600, 50_143},
		{"add 128", add("y", 0, 128), 0, 0, 128, 600, 50_271},
		{"add one more than fits", add("y", 128, 129), 1, 743 + 129, 0, 600, 50_272},
		{"remove 250 from one chunk", removeEach(44_000, 1000, 250, 1), 0, 0, 0, 850, 50_022},
		{"remove 150 from another one", removeEach(45_000, 1000, 150, 1), 0, 0, 0, 1000, 49_872},
		{"remove one more than fits", remove(46_000, 46_001), 2, 750 + 850, 0, 601, 49_871},
		{"keep one chunk", replace(add("m", 1000, 2000)), 0, 0, 0, 0, 1000},
		{"replace it with others", replace(add("n", 0, 10)), 1, 10, 0, 0, 10},
		{"remove all", replace(func(schema.Set) {}), 0, 0, 0, 0, 0},
	} {
		g.change(t, c.change)
		added, removed := g.inGroup()
		if g.chunks != c.chunks || g.members != c.members || added != c.added || removed != c.removed || len(g.all(t)) != c.total {
			t.Errorf("%s: wrote %d chunks with %d members, %d are added and %d removed, and has %d; want %d with %d, %d, %d, and %d",
				c.name, g.chunks, g.members, added, removed, len(g.all(t)), c.chunks, c.members, c.added, c.removed, c.total)
		}
	}
}

// inGroup returns the numbers of added and removed members that are in the group itself.
func (g *testGroup) inGroup() (added, removed int) {
	names, _ := g.spec.Changes()
	for _, reference := range g.spec.Chunks() {
		removed += len(slices.Collect(reference.RemovedPositions()))
	}
	return len(names), removed
}

// TestManySmallChanges: a large group to which members are added and from which members are removed one at a time writes few chunks,
// and few at a time.
func TestManySmallChanges(t *testing.T) {
	const size, changes = 20_000, 4_000
	g, random, model := newTestGroup(t), rand.New(rand.NewPCG(1, 2)), map[string]bool{}
	members := scimtest.Sequence("m", 0, size)
	g.change(t, func(s schema.Set) { scimtest.AddMembers(s, members...) })
	for _, value := range members {
		model[value] = true
	}
	total, most := 0, 0
	for i := range changes {
		added, at := fmt.Sprintf("n%07d", i), random.IntN(size)
		g.change(t, func(s schema.Set) { scimtest.AddMembers(s, added) })
		total, most = total+g.chunks, max(most, g.chunks)
		g.change(t, func(s schema.Set) { s.Delete(members[at]) })
		total, most = total+g.chunks, max(most, g.chunks)
		delete(model, members[at])
		model[added], members[at] = true, added
		if i%500 == 0 && !slices.Equal(g.all(t), slices.Sorted(maps.Keys(model))) {
			t.Fatalf("after %d changes, %d members are stored, want %d", i, len(g.all(t)), len(model))
		}
	}
	if !slices.Equal(g.all(t), slices.Sorted(maps.Keys(model))) {
		t.Errorf("%d members are stored, want %d", len(g.all(t)), len(model))
	}
	t.Logf("%d changes wrote %d chunks, at most %d at a time", 2*changes, total, most)
	if total > changes/25 || most > 10 {
		t.Errorf("%d changes wrote %d chunks, at most %d at a time", 2*changes, total, most)
	}
}

// TestRemovalsOfEarlierVersions: memberChanges of earlier versions remove members of chunks, and the next change stores their positions.
func TestRemovalsOfEarlierVersions(t *testing.T) {
	g := newTestGroup(t)
	members := scimtest.Sequence("m", 0, 2*chunkSize)
	g.change(t, func(s schema.Set) { scimtest.AddMembers(s, members...) })
	g.spec.SetChanges(nil, []string{members[7], members[chunkSize+9]})
	if n := g.session(t).Members(&g.spec).Len(); n != 2*chunkSize-2 {
		t.Errorf("%d members", n)
	}
	g.change(t, func(s schema.Set) { s.Delete(members[8]); scimtest.AddMembers(s, members[chunkSize+9]) })
	chunks := g.spec.Chunks()
	if want := slices.Concat(members[:7], members[9:]); g.spec.MemberChanges != "" || chunks[0].Removed != "7,8" || chunks[1].Removed != "" || !slices.Equal(g.all(t), want) {
		t.Errorf("stored as %q and %q", g.spec.MemberChanges, g.spec.MemberChunkList)
	}
}

// TestRemovedPositions: positions that are no positions are ignored, and the references of other chunks.
func TestRemovedPositions(t *testing.T) {
	spec := &v1alpha1.ScimGroupSpec{
		MemberChunkList: "m-1 3 0,2\nm-11 2 1\nm-2 4 x,1,99,-1,+2\nm-3 1\n1 4 3\nm\nm-1 9 1\n",
		MemberChunks:    []v1alpha1.ScimMemberChunkReference{{Name: "m-4", Count: 2, Removed: "1"}, {Name: "m-1", Count: 3}},
	}
	for place, want := range map[Place]bool{
		{"m-1", 0}: true, {"m-1", 1}: false, {"m-1", 2}: true, {"m-11", 1}: true, {"m-11", 0}: false, {"m-2", 1}: true, {"m-2", 2}: false, {"m-3", 0}: false,
		{"1", 3}: true, {"1", 2}: false, {"m", 0}: false, {"m-4", 1}: true, {"m-4", 0}: false, {"", 0}: false,
	} {
		if got := spec.RemovesFrom(place.Chunk, place.Position); got != want {
			t.Errorf("%v is removed: %v", place, got)
		}
	}
	chunk := &v1alpha1.ScimMemberChunkSpec{Users: "a\nb\nc\nd\n"}
	if got := Values(spec.Chunks()[2].MembersIn(chunk)); !slices.Equal(got, []string{"a", "c", "d"}) {
		t.Errorf("members are %v", got)
	}
	if got := newPart(spec.Chunks()[2], chunk, true).left(); len(got) != 3 {
		t.Errorf("members are %v", got)
	}
	again := &v1alpha1.ScimGroupSpec{}
	again.SetChunks(spec.Chunks())
	if !slices.Equal(again.Chunks(), spec.Chunks()) || len(spec.Chunks()) != 7 || spec.Chunks()[0].Removed != "0,2" {
		t.Errorf("read as %v", spec.Chunks())
	}
}

// forget deletes a chunk from the cache: its members are unknown.
func (g *testGroup) forget(t testing.TB, chunk *v1alpha1.ScimMemberChunk) {
	t.Helper()
	if err := g.cache.Informer.GetIndexer().Delete(chunk); err != nil {
		t.Fatal(err)
	}
	g.cache.Changed(chunk, nil)
}

// missing returns the members of the group, whose chunks that are not in the cache are missing.
func (g *testGroup) missing(t testing.TB) *Members {
	t.Helper()
	m := &Members{session: g.session(t), edits: map[string]*v1alpha1.ScimMember{}, byName: map[string]*part{}}
	added, removed := g.spec.Changes()
	m.setAdded(added)
	for _, reference := range g.spec.Chunks() {
		p := &part{reference: reference, missing: true}
		if g.cache.Cached("acme", reference.Name) != nil {
			p, _ = m.session.load(reference)
		}
		m.parts, m.byName[reference.Name] = append(m.parts, p), p
	}
	m.setRemoved(removed)
	return m
}

// TestMissingChunkKeepsWhatIsRemoved: while a chunk is missing, changes keep its removed members, by position and by id; when it is restored,
// they are not members.
func TestMissingChunkKeepsWhatIsRemoved(t *testing.T) {
	g := newTestGroup(t)
	members := scimtest.Sequence("m", 0, 300)
	g.change(t, func(s schema.Set) { scimtest.AddMembers(s, members...) })
	g.change(t, func(s schema.Set) { s.Delete(members[3]); s.Delete(members[17]) })
	chunk := g.cache.Cached("acme", g.spec.Chunks()[0].Name)
	g.spec.SetChanges(nil, []string{members[7]})
	g.forget(t, chunk)
	for i := range 2 * maxAdded {
		m := g.missing(t)
		scimtest.AddMembers(m, fmt.Sprint("x", i))
		after := m.layout()
		g.save(t, &after)
	}
	g.store(t, chunk)
	if got := g.session(t).Members(&g.spec); got.Stored(members[3]) != nil || got.Stored(members[7]) != nil || got.Stored(members[8]) == nil || got.Len() != 300-3+2*maxAdded {
		t.Errorf("%d members, stored as %.200q and %.200q", got.Len(), g.spec.MemberChunkList, g.spec.MemberChanges)
	}
	g.change(t, func(s schema.Set) { scimtest.AddMembers(s, members[3], members[7]) })
	if got := g.all(t); len(got) != 300-1+2*maxAdded || !slices.Contains(got, members[3]) || !slices.Contains(got, members[7]) {
		t.Errorf("%d members after two were added again", len(got))
	}
}

// TestMissingChunkIsWrittenAgain: the members of a missing chunk that are added again are members, those that were removed before too.
func TestMissingChunkIsWrittenAgain(t *testing.T) {
	g := newTestGroup(t)
	members := scimtest.Sequence("m", 0, 300)
	g.change(t, func(s schema.Set) { scimtest.AddMembers(s, members...) })
	g.change(t, func(s schema.Set) { s.Delete(members[3]); s.Delete(members[17]) })
	before := g.spec.Chunks()
	g.forget(t, g.cache.Cached("acme", before[0].Name))
	m := g.missing(t)
	scimtest.AddMembers(m, members...)
	after := m.layout()
	g.save(t, &after)
	if chunks := g.spec.Chunks(); len(chunks) != 1 || chunks[0].Name != before[0].Name || chunks[0].Removed != "" || !slices.Equal(g.all(t), members) {
		t.Errorf("stored as %q", g.spec.MemberChunkList)
	}
}

// TestChunkOfAnother: a chunk that was not written by Quoin may be unsorted and have a member twice, which is removed and added as one.
func TestChunkOfAnother(t *testing.T) {
	g := newTestGroup(t)
	g.store(t, &v1alpha1.ScimMemberChunk{ObjectMeta: metav1.ObjectMeta{Namespace: "acme", Name: "c"}, Spec: v1alpha1.ScimMemberChunkSpec{Users: "b\na\nb\n"}})
	g.spec.SetChunks([]v1alpha1.ScimMemberChunkReference{{Name: "c", Count: 3}})
	g.change(t, func(s schema.Set) { s.Delete("b") })
	if m := g.session(t).Members(&g.spec); m.Stored("b") != nil || g.spec.MemberChunkList != "c 3 0,2\n" {
		t.Errorf("stored as %q", g.spec.MemberChunkList)
	}
	for _, place := range g.cache.Referring("acme", "b", nil) {
		if !g.spec.RemovesFrom(place.Chunk, place.Position) {
			t.Errorf("%v is a member", place)
		}
	}
	g.change(t, func(s schema.Set) { scimtest.AddMembers(s, "b") })
	if got := g.all(t); !slices.Equal(got, []string{"a", "b"}) {
		t.Errorf("members %v, stored as %q", got, g.spec.MemberChunkList)
	}
}

// TestLayoutIsRepeated: a plan depends on the edits, and not on a plan before.
func TestLayoutIsRepeated(t *testing.T) {
	g := newTestGroup(t)
	members := scimtest.Sequence("m", 0, 2*chunkSize)
	g.change(t, func(s schema.Set) { scimtest.AddMembers(s, members...) })
	m := g.session(t).Members(&g.spec)
	m.Delete(members[5])
	m.layout()
	m.Clear()
	scimtest.AddMembers(m, slices.Concat(members[:6], members[7:])...)
	if after := m.layout(); !slices.Equal(after.parts[0].after().positions(), []int{6}) {
		t.Errorf("removed are %v", after.parts[0].after().positions())
	}
}

// TestAddedBeforeItIsListed: a member that a client added, and that a manifest lists later, stays a member when the manifest no longer lists it.
func TestAddedBeforeItIsListed(t *testing.T) {
	g := newTestGroup(t)
	g.change(t, func(s schema.Set) { scimtest.AddMembers(s, scimtest.Sequence("m", 0, 300)...) })
	g.change(t, func(s schema.Set) { scimtest.AddMembers(s, "v") })
	g.spec.Members = []v1alpha1.ScimMember{{Value: "v"}}
	g.change(t, func(s schema.Set) { scimtest.AddMembers(s, scimtest.Sequence("x", 0, maxAdded)...) })
	g.spec.Members = nil
	if got := g.all(t); len(got) != 300+1+maxAdded || !slices.Contains(got, "v") {
		t.Errorf("%d members", len(got))
	}
}

// TestVeryLargeGroups checks that a group can have a million members, added at once or in steps, and
// that chunks with room are filled before the limit on chunks is reached.
func TestVeryLargeGroups(t *testing.T) {
	for name, step := range map[string]int{"at once": maxMembers, "in 64 steps": maxMembers / 64} {
		t.Run(name, func(t *testing.T) {
			var parts []*part
			for from := 0; from < maxMembers; from += step {
				var added []v1alpha1.ScimMember
				for i := range min(step, maxMembers-from) {
					added = append(added, v1alpha1.ScimMember{Value: fmt.Sprintf("%08d", from+i)})
				}
				if parts = place(parts, added); len(parts) > maxReferences {
					t.Fatalf("%d chunks of %d members", len(parts), from+len(added))
				}
			}
			if parts = place(parts, []v1alpha1.ScimMember{{Value: "beyond the limit"}}); len(parts) != maxReferences+1 {
				t.Errorf("%d chunks", len(parts))
			}
		})
	}
	t.Run("in chunks with room", func(t *testing.T) {
		var parts []*part
		for i := range 1000 {
			parts = append(parts, &part{reference: v1alpha1.ScimMemberChunkReference{Name: fmt.Sprint(i)}, members: []v1alpha1.ScimMember{{Value: fmt.Sprint(i)}}})
		}
		for i := range 200_000 {
			if i%1000 == 0 {
				var added []v1alpha1.ScimMember
				for j := range 1000 {
					added = append(added, v1alpha1.ScimMember{Value: fmt.Sprintf("x%08d", i+j)})
				}
				if parts = place(parts, added); len(parts) > 1000 {
					t.Fatalf("%d chunks after %d", len(parts), i)
				}
			}
		}
	})
}

// TestMembersInPlace checks that members in the group itself stay listed when they are removed, are members
// again when they are added again, and are counted once if they are in a chunk too.
func TestMembersInPlace(t *testing.T) {
	g := newTestGroup(t)
	g.change(t, func(s schema.Set) { scimtest.AddMembers(s, "a", "b") })
	g.spec.Members = []v1alpha1.ScimMember{{Value: "b", Display: "B"}, {Value: "c"}}
	g.change(t, func(s schema.Set) {
		if s.Len() != 3 {
			t.Errorf("Len() = %d, want 3", s.Len())
		}
		scimtest.AddMembers(s, "c", "d")
	})
	if len(g.spec.Members) != 2 || g.spec.Members[0].Display != "B" {
		t.Errorf("in place: %v", g.spec.Members)
	}
	g.change(t, func(s schema.Set) { s.Delete("b"); s.Delete("c") })
	if len(g.spec.Members) != 2 || !slices.Equal(g.spec.RemovedMembers, []string{"b", "c"}) || !slices.Equal(g.all(t), []string{"a", "d"}) {
		t.Errorf("in place %v without %v, all %v", g.spec.Members, g.spec.RemovedMembers, g.all(t))
	}
	g.spec.Members = g.spec.Members[:1] // the manifest no longer lists c
	g.change(t, func(s schema.Set) { scimtest.AddMembers(s, "b", "c") })
	if len(g.spec.Members) != 1 || len(g.spec.RemovedMembers) != 0 || !slices.Equal(g.all(t), []string{"a", "b", "c", "d"}) {
		t.Errorf("in place %v without %v, all %v", g.spec.Members, g.spec.RemovedMembers, g.all(t))
	}
}

// TestChunksOfEarlierVersions checks that members and references that are stored as lists are members, and
// that a change moves the references, without writing the chunks that it does not change.
func TestChunksOfEarlierVersions(t *testing.T) {
	g := newTestGroup(t)
	g.change(t, func(s schema.Set) { scimtest.AddMembers(s, scimtest.Sequence("m", 0, 3*chunkSize)...) })
	old := g.spec.Chunks()
	for _, reference := range old {
		p, _ := g.session(t).load(reference)
		g.store(t, &v1alpha1.ScimMemberChunk{
			ObjectMeta: metav1.ObjectMeta{Namespace: "acme", Name: reference.Name}, Spec: v1alpha1.ScimMemberChunkSpec{Members: p.members},
		})
	}
	g.spec.MemberChunkList, g.spec.MemberChunks = "", old
	removed := scimtest.Sequence("m", 0, chunkSize+1)
	g.change(t, func(s schema.Set) {
		for _, value := range removed {
			s.Delete(value)
		}
	})
	if len(g.all(t)) != 3*chunkSize-len(removed) || g.chunks != 1 || len(g.spec.MemberChunks) != 0 || len(g.spec.Chunks()) != 2 {
		t.Errorf("%d members, %d chunks written, %d old references, %d references", len(g.all(t)), g.chunks, len(g.spec.MemberChunks), len(g.spec.Chunks()))
	}
	if name, err := ChunkName(g.partsOf(t)[1].members); err != nil || name != g.spec.Chunks()[1].Name {
		t.Errorf("the name of a chunk depends on how it is stored: %s, %v", name, err)
	}
}

// partsOf returns the stored chunks.
func (g *testGroup) partsOf(t testing.TB) (parts []*part) {
	t.Helper()
	for _, reference := range g.spec.Chunks() {
		p, _ := g.session(t).load(reference)
		parts = append(parts, p)
	}
	return parts
}

// TestChunkContent checks that all members are stored and restored in order, whatever their ids.
func TestChunkContent(t *testing.T) {
	members := []v1alpha1.ScimMember{{Value: "a"}, {Value: "a\nb"}, {Value: "b", Type: TypeGroup}, {Value: "c 1"}, {Value: "d", Display: "D"}, {Value: "é"}}
	chunk := v1alpha1.ScimMemberChunkSpec{}
	chunk.SetMembers(members)
	if got := chunk.AllMembers(); !slices.Equal(got, members) || chunk.Users != "a\nc 1\né\n" {
		t.Errorf("stored as %+v: %+v", chunk, got)
	}
}

// TestMemberChanges checks that memberChanges is read as it was written, and that lines of other forms are ignored.
func TestMemberChanges(t *testing.T) {
	spec := &v1alpha1.ScimGroupSpec{}
	added, removed := []string{"+a", "b c"}, []string{"-d", "é"}
	spec.SetChanges(added, removed)
	gotAdded, gotRemoved := spec.Changes()
	if !slices.Equal(gotAdded, added) || !slices.Equal(gotRemoved, removed) || spec.MemberChanges != "++a\n+b c\n--d\n-é\n" {
		t.Errorf("stored as %q: %q, %q", spec.MemberChanges, gotAdded, gotRemoved)
	}
	for id, want := range map[string]bool{"+a": true, "b c": true, "a": false, "-d": false, "": false, "b": false, "+a\n+b c": false} {
		if spec.AddsMember(id) != want || spec.AnyMember(id, func(m *v1alpha1.ScimMember) bool { return m.Value == id }) != want {
			t.Errorf("AddsMember(%q) is %v", id, !want)
		}
	}
	for id, want := range map[string]bool{"-d": true, "é": true, "d": false, "+a": false, "a": false, "": false, "-d\n--é": false} {
		if spec.RemovesMember(id) != want {
			t.Errorf("RemovesMember(%q) is %v", id, !want)
		}
	}
	spec.MemberChanges = "x\n\n+\n-\n -y\n+z\n-w"
	if gotAdded, gotRemoved = spec.Changes(); !slices.Equal(gotAdded, []string{"z"}) || !slices.Equal(gotRemoved, []string{"w"}) || !spec.RemovesMember("w") || spec.RemovesMember("y") {
		t.Errorf("read as %q, %q", gotAdded, gotRemoved)
	}
}

// TestInvalidElements checks that Save rejects members without a value or with an unknown type.
func TestInvalidElements(t *testing.T) {
	for _, element := range []map[string]any{{}, {"value": ""}, {"value": "x", "type": "Robot"}} {
		g := newTestGroup(t)
		session := g.session(t)
		m := session.Members(&g.spec)
		if m.Put(element) {
			t.Errorf("Put(%v) changed the members", element)
		}
		var e *scimerror.Error
		if _, err := session.Save(&g.spec, m); !errors.As(err, &e) || e.Status != http.StatusBadRequest || e.Type != scimerror.InvalidValue {
			t.Errorf("%v: got %v, want 400 invalidValue", element, err)
		}
	}
}

// TestMemberTypes checks that Put changes an existing member only if its type differs, and that it stores the type of a group also if
// the client does not send it: the controller of groups takes a member without a type for a user.
func TestMemberTypes(t *testing.T) {
	g := newTestGroup(t)
	g.groups["sub"] = true
	g.change(t, func(s schema.Set) { scimtest.AddMembers(s, "sub", "unknown") })
	g.change(t, func(s schema.Set) {
		for _, same := range []map[string]any{
			{"value": "sub"}, {"value": "sub", "type": "group"}, {"value": "unknown", "type": "User"}, {"value": "unknown", "display": "Unknown"},
		} {
			if s.Put(same) {
				t.Errorf("Put(%v) changed the members", same)
			}
		}
		if !s.Put(map[string]any{"value": "unknown", "type": "Group"}) {
			t.Error("Put with another type did not change the members")
		}
		element, _ := s.Get("unknown")
		if element["type"] != "Group" {
			t.Errorf("got %v", element)
		}
	})
	p, _ := g.session(t).load(g.spec.Chunks()[0])
	want := []v1alpha1.ScimMember{{Value: "sub", Type: TypeGroup}, {Value: "unknown", Type: TypeGroup}}
	if !slices.Equal(p.members, want) {
		t.Errorf("stored %v, want %v", p.members, want)
	}
}

// TestMemberBecomesAGroup: a member without a type that refers to nothing is stored as a group when it is put again and there is a group
// with its name. It was added before the group, or by a release that stored groups without a type.
func TestMemberBecomesAGroup(t *testing.T) {
	g := newTestGroup(t)
	g.change(t, func(s schema.Set) { scimtest.AddMembers(s, "later", "never") })
	exists := false
	session := &Session{Context: t.Context(), Chunks: g.cache, Namespace: "acme", Unresolved: true, Resolve: func(m *v1alpha1.ScimMember) (Resolved, bool) {
		return Resolved{Type: TypeGroup}, exists && m.Value == "later" && m.Type == TypeGroup
	}}
	m := session.Members(&g.spec)
	element := map[string]any{"value": "later"}
	if m.Put(element) {
		t.Error("Put changed a member that refers to nothing")
	}
	exists = true
	if !m.Put(element) || m.Put(element) || m.Put(map[string]any{"value": "never"}) {
		t.Error("Put did not change the member, or changed one twice, or another one")
	}
	want := []v1alpha1.ScimMember{{Value: "later", Type: TypeGroup}, {Value: "never"}}
	if parts := m.layout().parts; len(parts) != 1 || !slices.Equal(parts[0].members, want) || m.Len() != 2 {
		t.Errorf("%d members in %d parts: %v", m.Len(), len(parts), parts)
	}
}

// TestListedMembersKeepTheirType: a client that sends no types changes none of those that a manifest has.
func TestListedMembersKeepTheirType(t *testing.T) {
	g := newTestGroup(t)
	g.groups["sub"], g.groups["untyped"] = true, true
	g.spec.Members = []v1alpha1.ScimMember{{Value: "sub", Type: TypeGroup}, {Value: "missing", Type: TypeGroup}, {Value: "untyped"}}
	want := slices.Clone(g.spec.Members)
	for name, change := range map[string]func(schema.Set){
		"added":    func(s schema.Set) { scimtest.AddMembers(s, "sub", "missing", "untyped") },
		"replaced": func(s schema.Set) { s.Clear(); scimtest.AddMembers(s, "sub", "missing", "untyped") },
	} {
		if g.change(t, change); !slices.Equal(g.spec.Members, want) || len(g.spec.Chunks()) > 0 {
			t.Errorf("%s: listed %v, want %v", name, g.spec.Members, want)
		}
	}
}

// BenchmarkOneMember measures the change of one member without an API server, in the large group with as many removed members as fit.
func BenchmarkOneMember(b *testing.B) {
	for _, size := range []int{100, 50_000} {
		b.Run(fmt.Sprint(size), func(b *testing.B) {
			g := newTestGroup(b)
			members := scimtest.Sequence("m", 0, size)
			g.change(b, func(s schema.Set) { scimtest.AddMembers(s, members...) })
			for i := 0; i < size/50; i += maxChanges {
				g.change(b, func(s schema.Set) {
					for j := i; j < min(i+maxChanges, size/50); j++ {
						s.Delete(members[j*50])
					}
				})
			}
			b.ReportAllocs()
			for b.Loop() {
				m := g.session(b).Members(&g.spec)
				scimtest.AddMembers(m, "new")
				after := m.layout()
				if !slices.Contains(after.added, "new") {
					b.Fatal("the member is not in the group itself")
				}
				withRemoved(g.spec.Chunks(), after.parts)
			}
		})
	}
}

// BenchmarkRemovesFrom measures whether a member of the last of 50 chunks was removed.
func BenchmarkRemovesFrom(b *testing.B) {
	var references []v1alpha1.ScimMemberChunkReference
	for i := range 50 {
		r := v1alpha1.ScimMemberChunkReference{Name: fmt.Sprintf("m-%032d", i), Count: 1000}
		r.SetRemoved([]int{1, 20, 300, 301, 302, 400, 500, 600, 700, 999})
		references = append(references, r)
	}
	spec := &v1alpha1.ScimGroupSpec{}
	spec.SetChunks(references)
	b.ReportAllocs()
	for b.Loop() {
		if !spec.RemovesFrom(references[49].Name, 999) {
			b.Fatal("the member was not removed")
		}
	}
}
