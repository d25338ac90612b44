package directory

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/quoin-dev/quoin/api/v1alpha1"
	"github.com/quoin-dev/quoin/apiserver/scim/schema"
)

// grown is a group whose members are changed and laid out without an API server.
type grown struct {
	m    *memory
	v    *view
	spec v1alpha1.ScimGroupSpec
	// written chunks of the last change, and members in them.
	chunks, members int
}

func newGrown(t testing.TB) *grown {
	m, tenant, _ := inMemory(t)
	_, v := tenant.of(t.Context(), tenant.group, nil)
	return &grown{m: m, v: v}
}

// change does what storeMembers does, with the cache for an API server.
func (g *grown) change(t testing.TB, with func(schema.Set)) {
	t.Helper()
	editing := g.v.forEditing()
	m := newMembers(editing, &g.spec)
	with(m)
	inPlace, parts := m.layout()
	if m.err != nil || editing.err != nil {
		t.Fatal(m.err, editing.err)
	}
	g.spec.Members, g.spec.MemberChunks = inPlace, nil
	g.chunks, g.members = 0, 0
	for _, p := range parts {
		reference := p.reference
		if p.isNew() {
			name, err := chunkName(p.members)
			if err != nil {
				t.Fatal(err)
			}
			reference = v1alpha1.ScimMemberChunkReference{Name: name, Count: int32(len(p.members))}
			g.chunks++
			g.members += len(p.members)
			g.m.put(&v1alpha1.ScimMemberChunk{
				ObjectMeta: metav1.ObjectMeta{Namespace: "acme", Name: name}, Spec: v1alpha1.ScimMemberChunkSpec{Members: p.members},
			})
		}
		g.spec.MemberChunks = append(g.spec.MemberChunks, reference)
	}
}

// all are the values, each as often as it is kept.
func (g *grown) all(t testing.TB) []string {
	t.Helper()
	var values []string
	for i := range g.spec.Members {
		values = append(values, g.spec.Members[i].Value)
	}
	for _, reference := range g.spec.MemberChunks {
		p, cached := g.v.loadPart(reference)
		if !cached || len(p.members) != int(reference.Count) || len(p.members) == 0 || len(p.members) > maxChunkSize {
			t.Errorf("chunk of %d, said to have %d", len(p.members), reference.Count)
		}
		for i := range p.members {
			values = append(values, p.members[i].Value)
		}
	}
	if len(g.spec.MemberChunks) > maxReferences {
		t.Errorf("%d chunks", len(g.spec.MemberChunks))
	}
	slices.Sort(values)
	return values
}

func put(s schema.Set, values ...string) {
	for _, value := range values {
		s.Put(map[string]any{"value": value})
	}
}

func numbered(prefix string, from, to int) []string {
	var values []string
	for i := from; i < to; i++ {
		values = append(values, fmt.Sprintf("%s%07d", prefix, i))
	}
	return values
}

// TestMembersAgainstModel: whatever is done, the members are those of a plain map.
func TestMembersAgainstModel(t *testing.T) {
	for seed := range uint64(20) {
		random := rand.New(rand.NewPCG(seed, 1))
		g, model := newGrown(t), map[string]bool{}
		for _, value := range numbered("m", 0, random.IntN(8)) { // as somebody wrote them in YAML
			g.spec.Members = append(g.spec.Members, v1alpha1.ScimMember{Value: value})
			model[value] = true
		}
		for range 60 {
			g.change(t, func(s schema.Set) { randomChanges(t, random, s, model) })
			if want := sortedKeys(model); !slices.Equal(g.all(t), want) {
				t.Fatalf("seed %d: %d members are kept, want %d", seed, len(g.all(t)), len(want))
			}
			if !t.Failed() {
				continue
			}
			t.Fatalf("seed %d", seed)
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
		_, there := s.Get(value)
		switch {
		case there != model[value]:
			t.Errorf("Get(%s) = %v", value, there)
		case adding:
			if s.Put(map[string]any{"value": value}) == there {
				t.Errorf("Put(%s) of one that is there: %v", value, there)
			}
			model[value] = true
		default:
			if s.Delete(value) != there {
				t.Errorf("Delete(%s) of one that is there: %v", value, there)
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

// TestWhatAChangeWrites: the fewest chunks that will do, whatever the size of the group.
func TestWhatAChangeWrites(t *testing.T) {
	g := newGrown(t)
	cases := []struct {
		name            string
		change          func(schema.Set)
		chunks, members int
		total           int
	}{
		{"50,000 at once", func(s schema.Set) { put(s, numbered("m", 0, 50_000)...) }, 196, 50_000, 50_000},
		{"the same again", func(s schema.Set) { put(s, numbered("m", 0, 50_000)...) }, 0, 0, 50_000},
		{"all replaced by the same", func(s schema.Set) { s.Clear(); put(s, numbered("m", 0, 50_000)...) }, 0, 0, 50_000},
		{"one more", func(s schema.Set) { put(s, "m0000000x") }, 1, 81, 50_001},
		{"one less", func(s schema.Set) { s.Delete("m0000300") }, 1, 255, 50_000},
		{"one goes and comes", func(s schema.Set) { s.Delete("m0000301"); put(s, "m0000301") }, 0, 0, 50_000},
		{"another in its place", func(s schema.Set) { s.Delete("m0000301"); put(s, "n") }, 1, 255, 50_000},
		{"1,000 more", func(s schema.Set) { put(s, numbered("x", 0, 1000)...) }, 5, 81 + 1000, 51_000},
		{"all but one chunk", func(s schema.Set) { s.Clear(); put(s, numbered("m", 512, 768)...) }, 0, 0, 256},
		{"none", func(s schema.Set) { s.Clear() }, 0, 0, 0},
	}
	for _, c := range cases {
		g.change(t, c.change)
		if g.chunks != c.chunks || g.members != c.members || len(g.all(t)) != c.total {
			t.Errorf("%s: wrote %d chunks with %d members, and has %d; want %d with %d, and %d", c.name, g.chunks, g.members, len(g.all(t)), c.chunks, c.members, c.total)
		}
	}
}

// TestVeryLargeGroups: a group holds a million members, in whatever way it came to them, and
// chunks that have shrunk are filled before there are too many.
func TestVeryLargeGroups(t *testing.T) {
	for name, step := range map[string]int{"at once": maxMembers, "by and by": maxMembers / 64} {
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
			if parts = place(parts, []v1alpha1.ScimMember{{Value: "one too many"}}); len(parts) != maxReferences+1 {
				t.Errorf("%d chunks", len(parts))
			}
		})
	}
	t.Run("after many have left", func(t *testing.T) {
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

// TestInPlace: members that somebody wrote in the group itself stay there and go from there, and
// those that are in a chunk too count once.
func TestInPlace(t *testing.T) {
	g := newGrown(t)
	g.change(t, func(s schema.Set) { put(s, "a", "b") })
	g.spec.Members = []v1alpha1.ScimMember{{Value: "b", Display: "B"}, {Value: "c"}}
	g.change(t, func(s schema.Set) {
		if s.Len() != 3 {
			t.Errorf("Len() = %d, want 3", s.Len())
		}
		put(s, "c", "d")
	})
	if len(g.spec.Members) != 2 || g.spec.Members[0].Display != "B" {
		t.Errorf("in place: %v", g.spec.Members)
	}
	g.change(t, func(s schema.Set) { s.Delete("b"); s.Delete("c") })
	if len(g.spec.Members) != 0 || !slices.Equal(g.all(t), []string{"a", "d"}) {
		t.Errorf("in place %v, all %v", g.spec.Members, g.all(t))
	}
}

// TestPutRefuses what cannot be kept, when it is to be written.
func TestPutRefuses(t *testing.T) {
	for _, element := range []map[string]any{{}, {"value": ""}, {"value": "x", "type": "Robot"}} {
		g := newGrown(t)
		m := newMembers(g.v.forEditing(), &g.spec)
		if m.Put(element) {
			t.Errorf("%v was put", element)
		}
		err := storeMembers(g.v.forEditing(), "group", &g.spec, schema.Document{"members": m})
		wantError(t, err, 400, "invalidValue")
	}
}

// TestMemberTypes: a member that is there already is not changed by what says nothing else of it.
func TestMemberTypes(t *testing.T) {
	g := newGrown(t)
	g.m.put(&v1alpha1.ScimGroup{ObjectMeta: metav1.ObjectMeta{Namespace: "acme", Name: "sub"}, Spec: v1alpha1.ScimGroupSpec{DisplayName: "Sub"}})
	g.change(t, func(s schema.Set) { put(s, "sub", "ghost") })
	g.change(t, func(s schema.Set) {
		for _, same := range []map[string]any{
			{"value": "sub"}, {"value": "sub", "type": "group"}, {"value": "ghost", "type": "User"}, {"value": "ghost", "display": "Ghost"},
		} {
			if s.Put(same) {
				t.Errorf("%v changes something", same)
			}
		}
		if !s.Put(map[string]any{"value": "ghost", "type": "Group"}) {
			t.Error("another type changes nothing")
		}
		element, _ := s.Get("ghost")
		if element["type"] != "Group" {
			t.Errorf("got %v", element)
		}
	})
	p, _ := g.v.loadPart(g.spec.MemberChunks[0])
	want := []v1alpha1.ScimMember{{Value: "ghost", Type: typeGroup}, {Value: "sub"}}
	if !slices.Equal(p.members, want) {
		t.Errorf("kept %v, want %v", p.members, want)
	}
}
