package directory

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"hash"
	"iter"
	"slices"
	"strings"
	"sync"

	"k8s.io/apimachinery/pkg/types"
	toolscache "k8s.io/client-go/tools/cache"

	"github.com/quoin-dev/quoin/api/v1alpha1"
	"github.com/quoin-dev/quoin/apiserver/directory/compact"
	"github.com/quoin-dev/quoin/apiserver/directory/membership"
	"github.com/quoin-dev/quoin/apiserver/scim/schema"
	"github.com/quoin-dev/quoin/internal/freshness"
)

// maxNesting is the depth up to which nested groups are followed.
const maxNesting = 16

// resolve returns the cached user or group that a member refers to: that of the declared type. A generated id is that of
// only one object, so it may be one of the other type. A name that an administrator has chosen is not: a user and a group
// may have the same name, and when one of them is deleted, members that refer to it must not refer to the other one.
func (d *Directory) resolve(namespace string, m *v1alpha1.ScimMember) (membership.Resolved, bool) {
	if m.Type == membership.TypeGroup {
		if r, ok := d.resolveGroup(namespace, m.Value); ok || !isGenerated(m.Value) {
			return r, ok
		}
		return d.resolveUser(namespace, m.Value)
	}
	if r, ok := d.resolveUser(namespace, m.Value); ok || !isGenerated(m.Value) {
		return r, ok
	}
	return d.resolveGroup(namespace, m.Value)
}

func (d *Directory) resolveUser(namespace, id string) (membership.Resolved, bool) {
	u := d.users.cached(namespace, id)
	if u == nil {
		return membership.Resolved{}, false
	}
	return membership.Resolved{Type: membership.TypeUser, Display: u.Summary().Display}, true
}

func (d *Directory) resolveGroup(namespace, id string) (membership.Resolved, bool) {
	g := d.groups.cached(namespace, id)
	if g == nil {
		return membership.Resolved{}, false
	}
	return membership.Resolved{Type: membership.TypeGroup, Display: g.Summary().Display}, true
}

// referrers returns the groups that have a member with an id for which refers returns true, visible or not. A nil refers stands
// for all members.
func (v *view) referrers(id string, refers func(*v1alpha1.ScimMember) bool) []*v1alpha1.ScimGroup {
	var groups []*v1alpha1.ScimGroup
	for _, o := range v.d.groups.indexes[attributeMembers].Candidates(v.namespace, id) {
		g := v.group(o)
		if g.Spec.AnyMember(id, func(m *v1alpha1.ScimMember) bool { return refers == nil || refers(m) }) {
			groups = append(groups, g)
		}
	}
	for _, found := range v.d.chunks.Referring(v.namespace, id, refers) {
		for _, o := range v.d.groups.indexedBy(indexChunk, v.namespace, found.Chunk) {
			if g := v.group(o); !g.Spec.RemovesMember(id) && !g.Spec.RemovesFrom(found.Chunk, found.Position) {
				groups = append(groups, g)
			}
		}
	}
	slices.SortFunc(groups, func(x, y *v1alpha1.ScimGroup) int { return strings.Compare(x.Name, y.Name) })
	return slices.CompactFunc(groups, func(x, y *v1alpha1.ScimGroup) bool { return x.Name == y.Name })
}

// group returns a cached group as it was. Of the users on a page, many are in the same groups, so a view decodes each group once.
func (v *view) group(cached *compact.Object) *v1alpha1.ScimGroup {
	g, known := v.groups[cached]
	if !known {
		g = decoded[*v1alpha1.ScimGroup](cached)
		if v.groups == nil {
			v.groups = map[*compact.Object]*v1alpha1.ScimGroup{}
		}
		v.groups[cached] = g
	}
	return g
}

// refersTo returns a function that reports whether a member with the id of a user or a group refers to it; nil if all of them do.
func (d *Directory) refersTo(namespace, id string, kind v1alpha1.ScimMemberType) func(*v1alpha1.ScimMember) bool {
	other := d.groups.cached(namespace, id) != nil
	if kind == membership.TypeGroup {
		other = d.users.cached(namespace, id) != nil
	}
	if !other && isGenerated(id) {
		return nil
	}
	return func(m *v1alpha1.ScimMember) bool { return membership.TypeOf(m) == kind }
}

// groupsWith returns the visible groups that have a user or a group as a direct member.
func (v *view) groupsWith(id string, kind v1alpha1.ScimMemberType) []*v1alpha1.ScimGroup {
	groups := v.referrers(id, v.d.refersTo(v.namespace, id, kind))
	return slices.DeleteFunc(groups, func(g *v1alpha1.ScimGroup) bool { return !isVisible(g) })
}

// groupsOfUser returns the attribute groups of a User: its direct groups, and then the groups that
// contain those.
func groupsOfUser(v *view, id string, _ *v1alpha1.ScimUserSpec) any {
	var elements []any
	for g, kind := range v.groupsOf(id) {
		elements = append(elements, v.groupElement(g, kind))
	}
	if elements == nil {
		return nil
	}
	return elements
}

// groupElement returns an element of the attribute groups. Of the users on a page, many are in the same groups, so they share
// elements, which are not changed.
func (v *view) groupElement(g *v1alpha1.ScimGroup, kind string) map[string]any {
	key := groupElementKey{g, kind}
	element := v.elements[key]
	if element == nil {
		element = map[string]any{"value": g.Name, "display": g.Spec.DisplayName, "type": kind}
		if v.elements == nil {
			v.elements = map[groupElementKey]map[string]any{}
		}
		v.elements[key] = element
	}
	return element
}

// groupElementKey identifies an element of the attribute groups: kind is direct or indirect.
type groupElementKey struct {
	group *v1alpha1.ScimGroup
	kind  string
}

// groupsOf iterates over the groups of a user and whether each is direct or indirect.
func (v *view) groupsOf(id string) iter.Seq2[*v1alpha1.ScimGroup, string] {
	return func(yield func(*v1alpha1.ScimGroup, string) bool) {
		visited, kind := map[string]bool{}, "direct"
		level := v.groupsWith(id, membership.TypeUser)
		for depth := 0; depth < maxNesting && len(level) > 0; depth++ {
			var above []*v1alpha1.ScimGroup
			for _, g := range level {
				if visited[g.Name] { // reached on another path, or a cycle
					continue
				}
				visited[g.Name] = true
				if !yield(g, kind) {
					return
				}
				above = append(above, v.groupsAbove(g.Name)...)
			}
			level, kind = above, "indirect"
		}
	}
}

// groupsAbove returns the visible groups that have a group as a direct member. Of the users on a page, many are in
// the same groups.
func (v *view) groupsAbove(id string) []*v1alpha1.ScimGroup {
	groups, known := v.above[id]
	if !known {
		groups = v.groupsWith(id, membership.TypeGroup)
		if v.above == nil {
			v.above = map[string][]*v1alpha1.ScimGroup{}
		}
		v.above[id] = groups
	}
	return groups
}

// usersInGroup looks up users by groups.value: direct members of a group and members of groups in it.
func usersInGroup(_ *collection[*v1alpha1.ScimUser, v1alpha1.ScimUserSpec], v *view, id string) ([]*v1alpha1.ScimUser, error) {
	var users []*v1alpha1.ScimUser
	visited := map[string]bool{}
	level := []string{id}
	for depth := 0; depth < maxNesting && len(level) > 0; depth++ {
		var below []string
		for _, name := range level {
			g := v.d.groups.visible(v.namespace, name)
			if g == nil || visited[name] {
				continue
			}
			visited[name] = true
			for m := range v.members.Members(&g.Spec).References() {
				switch r, ok := v.d.resolve(v.namespace, m); {
				case ok && r.Type == membership.TypeGroup:
					below = append(below, m.Value)
				case ok:
					users = append(users, v.d.users.visible(v.namespace, m.Value))
				}
			}
		}
		level = below
	}
	// A user that was deleted in the meantime is nil.
	return slices.DeleteFunc(users, func(u *v1alpha1.ScimUser) bool { return u == nil }), v.members.Err()
}

// groupsWithMember looks up groups by members.value; the member must exist.
func groupsWithMember(_ *collection[*v1alpha1.ScimGroup, v1alpha1.ScimGroupSpec], v *view, id string) ([]*v1alpha1.ScimGroup, error) {
	if v.d.users.cached(v.namespace, id) == nil && v.d.groups.cached(v.namespace, id) == nil {
		return nil, nil
	}
	return slices.DeleteFunc(v.referrers(id, nil), func(g *v1alpha1.ScimGroup) bool { return !isVisible(g) }), nil
}

// kindChunk is the kind of member chunks.
var kindChunk = v1alpha1.GroupVersion.WithKind("ScimMemberChunk").GroupKind()

// chunkID identifies a member chunk.
func (d *Directory) chunkID(namespace, name string) freshness.ID {
	return freshness.ID{Kind: kindChunk, Key: types.NamespacedName{Namespace: namespace, Name: name}}
}

// followChunks registers an event handler that updates the index of members, notifies writers of chunks and forgets
// digests of deleted ones.
func (d *Directory) followChunks() (toolscache.ResourceEventHandlerRegistration, error) {
	observe := d.tracker.Observer(kindChunk)
	return d.chunks.Informer.AddEventHandler(freshness.EventHandler(func(before, after any) {
		if chunk, ok := before.(*v1alpha1.ScimMemberChunk); ok && after == nil {
			d.shown.forget(chunk.Namespace, chunk.Name)
		}
		d.chunks.Changed(before, after)
		observe(before, after)
	}))
}

// chunkExpectation implements membership.Expectation.
type chunkExpectation struct{ wait *freshness.Wait }

func (e chunkExpectation) Version(ctx context.Context, resourceVersion string) {
	_ = e.wait.Version(ctx, cacheTimeout, resourceVersion) // the chunk is written
}

func (e chunkExpectation) End() { e.wait.Stop() }

// The version of a resource covers what responses show of other objects: which members of a group exist, their
// types and display names, the groups of a user, and the display name of its manager. Those of a user are a few
// values, of which a digest is computed for each response. Of members there may be tens of thousands, so their
// digests are cached for each chunk: a response costs one lookup for each chunk and one for each member in the
// group itself, and a change of a member requires at most the digest of its chunks again.
//
// Digests depend only on content, so all replicas return the same version.

// shownChunks are the digests of the members of chunks, by cache key.
type shownChunks struct {
	mu      sync.Mutex
	digests map[string]*shownChunk
}

// shownChunk is a digest; empty until it is computed. A change removes it from shownChunks, so that a digest
// that is being computed from the previous state is not used again.
type shownChunk struct{ digest []byte }

// forget removes the digests of chunks.
func (s *shownChunks) forget(namespace string, chunks ...string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, name := range chunks {
		delete(s.digests, keyOf(namespace, name))
	}
}

// of returns the digest of a chunk and computes it if necessary.
func (s *shownChunks) of(key string, compute func() []byte) []byte {
	s.mu.Lock()
	known := s.digests[key]
	if known == nil {
		known = &shownChunk{}
		s.digests[key] = known
	}
	digest := known.digest
	s.mu.Unlock()
	if digest != nil {
		return digest
	}
	digest = compute()
	s.mu.Lock()
	known.digest = digest
	s.mu.Unlock()
	return digest
}

// memberChanged removes the digests of the chunks that contain a user or a group, if an event changes what
// responses show of it.
func (d *Directory) memberChanged(before, after v1alpha1.Object) {
	o := after
	switch {
	case before == nil:
	case after == nil:
		o = before
	case before.GetUID() == after.GetUID() && before.GetGeneration() == after.GetGeneration() && isVisible(before) == isVisible(after):
		return
	}
	d.shown.forget(o.GetNamespace(), d.chunks.With(o.GetNamespace(), o.GetName())...)
}

// shownMembers returns the digest of the members of a group that responses show; empty if the view does not
// need them or there are none.
func shownMembers(v *view, s *v1alpha1.ScimGroupSpec, _ schema.Document) string {
	if !v.wants(attributeMembers) {
		return ""
	}
	inPlace, chunks := s.EffectiveMembers(), s.Chunks()
	if len(inPlace)+len(chunks) == 0 {
		return ""
	}
	sum := sha256.New()
	v.d.writeMembers(sum, v.namespace, inPlace)
	for i := range chunks {
		if !v.yield() {
			return ""
		}
		name := chunks[i].Name
		chunk := v.d.chunks.Cached(v.namespace, name)
		if chunk == nil {
			write(sum, name) // not cached yet: the digest changes when it is
			continue
		}
		_, _ = sum.Write(v.d.shown.of(keyOf(v.namespace, name), func() []byte {
			members := sha256.New()
			v.d.writeMembers(members, v.namespace, chunk.Spec.AllMembers())
			return members.Sum(nil)
		}))
	}
	return short(sum.Sum(nil))
}

// writeMembers writes what responses show of members to a hash.
func (d *Directory) writeMembers(to hash.Hash, namespace string, members []v1alpha1.ScimMember) {
	const each = 128 // bytes
	shown := make([]byte, 0, each*len(members))
	for i := range members {
		if r, ok := d.resolve(namespace, &members[i]); ok {
			for _, text := range [...]string{members[i].Value, string(r.Type), r.Display} {
				shown = append(append(shown, text...), 0)
			}
		}
	}
	_, _ = to.Write(shown)
}

// shownOfUser returns the digest of what responses show of the groups and the manager of a user; empty if there
// is nothing.
func shownOfUser(v *view, s *v1alpha1.ScimUserSpec, d schema.Document) string {
	text := v.shown[:0]
	groups, _ := d["groups"].([]any)
	for _, item := range groups {
		group, _ := item.(map[string]any)
		for _, name := range [...]string{"value", "display", "type"} {
			value, _ := group[name].(string)
			text = append(append(text, value...), 0)
		}
	}
	if s.Enterprise != nil && s.Enterprise.Manager != nil && s.Enterprise.Manager.DisplayName == "" {
		extension, _ := d[schema.EnterpriseURN].(map[string]any)
		manager, _ := extension["manager"].(map[string]any)
		if display, _ := manager["displayName"].(string); display != "" {
			text = append(append(text, display...), 0)
		}
	}
	v.shown = text
	if len(text) == 0 {
		return ""
	}
	sum := sha256.Sum256(text)
	return short(sum[:])
}

// write writes texts to a hash, so that different lists of texts differ: no text contains the separator.
func write(to hash.Hash, texts ...string) {
	for _, text := range texts {
		_, _ = to.Write([]byte(text))
		_, _ = to.Write([]byte{0})
	}
}

// short returns a part of a digest that is sufficient for a version.
func short(sum []byte) string { return hex.EncodeToString(sum[:6]) }
