package membership

import (
	"cmp"
	"iter"
	"maps"
	"slices"
	"strings"

	"github.com/quoin-dev/quoin/api/v1alpha1"
	"github.com/quoin-dev/quoin/apiserver/scim/schema"
	"github.com/quoin-dev/quoin/apiserver/scim/scimerror"
)

// Members is the attribute members of a group as a schema.Set: the members in the group itself (in
// place, and those that its memberChanges add) and those in its chunks, without those that the references
// to the chunks remove. Chunks are immutable and indexed by member in the cache, so a lookup costs the same in a group of any size.
//
// Edits are recorded separately from the stored members; Session.Save writes them to memberChanges or to the affected chunks.
type Members struct {
	session *Session
	// listed are the members in the group itself, and removed those of them that a SCIM client has removed.
	listed  []v1alpha1.ScimMember
	removed []string
	// inPlace are listed without removed.
	inPlace []v1alpha1.ScimMember
	// added are the users that memberChanges adds to those in parts, and wereAdded those of a layout that moves them into parts.
	added, wereAdded map[string]*v1alpha1.ScimMember
	// unplaced are the ids that memberChanges of an earlier version removes and that are in no known part.
	unplaced []string
	parts    []*part
	// byName are the parts by chunk name.
	byName map[string]*part
	// uncached are the parts that the index of the cache does not cover yet.
	uncached []*part

	// edits are the members that were put; nil for those that were deleted.
	edits map[string]*v1alpha1.ScimMember
	// cleared means that all members that are not in edits are deleted.
	cleared bool
	// discarded means that references to missing chunks are deleted.
	discarded bool
	// storedCount is the number of stored members, if counted is set, and editedCount by how much the edits change it.
	storedCount int
	counted     bool
	editedCount int
	// err is the error of the first invalid element that was put.
	err error
}

var (
	_ schema.References = (*Members)(nil)
	_ schema.Incomplete = (*Members)(nil)
)

// Members returns the members of a group.
func (s *Session) Members(spec *v1alpha1.ScimGroupSpec) *Members {
	references := spec.Chunks()
	m := &Members{
		session: s, listed: spec.Members, removed: spec.RemovedMembers, inPlace: spec.ListedMembers(), edits: map[string]*v1alpha1.ScimMember{},
		parts: make([]*part, 0, len(references)), byName: make(map[string]*part, len(references)),
	}
	added, removed := spec.Changes()
	m.setAdded(added)
	for _, reference := range references {
		p, cached := s.load(reference)
		m.parts = append(m.parts, p)
		m.byName[reference.Name] = p
		if !cached {
			m.uncached = append(m.uncached, p)
		}
	}
	m.setRemoved(removed)
	return m
}

// setRemoved sets the ids that memberChanges of an earlier version removes.
func (m *Members) setRemoved(removed []string) {
	for _, value := range removed {
		isPlaced := m.added[value] != nil
		for p, i := range m.places(value) {
			p.removed.add(i)
			isPlaced = true
		}
		if !isPlaced {
			m.unplaced = append(m.unplaced, value)
		}
	}
}

// setAdded sets the users that memberChanges adds.
func (m *Members) setAdded(added []string) {
	m.added = make(map[string]*v1alpha1.ScimMember, len(added))
	users := make([]v1alpha1.ScimMember, len(added))
	for i, value := range added {
		users[i].Value = value
		m.added[value] = &users[i]
	}
}

// maxLogged is the number of members up to which the audit log lists the changed members. For larger
// changes it contains only their number.
const maxLogged = 100

// changes returns the changes for the audit log.
func (m *Members) changes() map[string]any {
	changes := map[string]any{}
	if m.cleared {
		changes["replaced"] = true
	}
	if len(m.edits) > maxLogged {
		changes["changed"] = len(m.edits)
		return changes
	}
	var added, removed []string
	for _, value := range slices.Sorted(maps.Keys(m.edits)) {
		stored := m.Stored(value) != nil
		switch edited := m.edits[value]; {
		case edited != nil && !stored:
			added = append(added, value)
		case edited == nil && stored:
			removed = append(removed, value)
		}
	}
	if len(added) > 0 {
		changes["added"] = added
	}
	if len(removed) > 0 {
		changes["removed"] = removed
	}
	return changes
}

// partsWith returns the parts that contain a member: at most one if Quoin wrote all chunks.
func (m *Members) partsWith(value string) []*part {
	var found []*part
	for _, name := range m.session.Chunks.With(m.session.Namespace, value) {
		if p := m.byName[name]; p != nil && !slices.Contains(m.uncached, p) {
			found = append(found, p)
		}
	}
	for _, p := range m.uncached {
		if p.find(value) != nil {
			found = append(found, p)
		}
	}
	return found
}

// Stored returns a member as it is stored, without the changes; nil if there is none.
func (m *Members) Stored(value string) *v1alpha1.ScimMember {
	if found := withValue(m.inPlace, value); found != nil {
		return found
	}
	if added := m.added[value]; added != nil {
		return added
	}
	return m.storedInChunk(value)
}

// places iterates over the places of a member in parts, removed or not: at most one if Quoin wrote all chunks.
func (m *Members) places(value string) iter.Seq2[*part, int] {
	return func(yield func(*part, int) bool) {
		for _, p := range m.partsWith(value) {
			for _, i := range p.positions(value) {
				if !yield(p, i) {
					return
				}
			}
		}
	}
}

// storedInChunk returns a member of a chunk that is a member of the group; nil if there is none.
func (m *Members) storedInChunk(value string) *v1alpha1.ScimMember {
	for p, i := range m.places(value) {
		if !p.removed.has(i) {
			return &p.members[i]
		}
	}
	return nil
}

// inChunk returns a member of a chunk, also one that was removed if there is no other; nil if there is none.
func (m *Members) inChunk(value string) (found *v1alpha1.ScimMember) {
	for p, i := range m.places(value) {
		if !p.removed.has(i) {
			return &p.members[i]
		}
		if found == nil {
			found = &p.members[i]
		}
	}
	return found
}

// current returns a member with the changes; nil if there is none.
func (m *Members) current(value string) *v1alpha1.ScimMember {
	if edited, ok := m.edits[value]; ok {
		return edited
	}
	if m.cleared {
		return nil
	}
	return m.Stored(value)
}

// element returns a member as an element of a document; nil if it is not visible.
func (m *Members) element(x *v1alpha1.ScimMember) map[string]any {
	element := map[string]any{"value": x.Value}
	r, ok := m.session.Resolve(x)
	switch {
	case ok:
		element["type"] = string(r.Type)
		if r.Display != "" {
			element["display"] = r.Display
		}
	case !m.session.Unresolved:
		return nil
	case x.Type != "":
		element["type"] = string(x.Type)
	}
	return element
}

// Len implements schema.Set. It counts all members, visible or not.
func (m *Members) Len() int {
	if !m.counted {
		m.counted, m.storedCount = true, m.storedLen()
	}
	return m.storedCount + m.editedCount
}

// storedLen counts the stored members.
func (m *Members) storedLen() int {
	count := 0
	for _, p := range m.parts {
		count += len(p.members) - p.removed.count()
	}
	inChunk := func(value string) bool { return len(m.parts) > 0 && m.storedInChunk(value) != nil }
	for value := range m.added {
		if !inChunk(value) {
			count++
		}
	}
	for i := range m.inPlace {
		if value := m.inPlace[i].Value; m.added[value] == nil && !inChunk(value) {
			count++
		}
	}
	return count
}

// Get implements schema.Set.
func (m *Members) Get(value string) (map[string]any, bool) {
	x := m.current(value)
	if x == nil {
		return nil, false
	}
	element := m.element(x)
	return element, element != nil
}

// All implements schema.Set. It includes members that refer to nothing only for a change.
func (m *Members) All() iter.Seq[map[string]any] {
	return func(yield func(map[string]any) bool) {
		for x := range m.References() {
			if element := m.element(x); element != nil && !yield(element) {
				return
			}
		}
	}
}

// AllReferences implements schema.References.
func (m *Members) AllReferences() iter.Seq[schema.ReferenceValue] {
	return func(yield func(schema.ReferenceValue) bool) {
		for x := range m.References() {
			element := schema.ReferenceValue{Value: x.Value, Type: string(x.Type)}
			if r, ok := m.session.Resolve(x); ok {
				element.Type, element.Display = string(r.Type), r.Display
			} else if !m.session.Unresolved {
				continue
			}
			if !yield(element) {
				return
			}
		}
	}
}

// References iterates over all members, visible or not, each once.
func (m *Members) References() iter.Seq[*v1alpha1.ScimMember] {
	return func(yield func(*v1alpha1.ScimMember) bool) {
		put := map[string]bool{}
		for value, edited := range m.edits {
			if edited != nil {
				put[value] = true
			}
		}
		for stored := range m.stored() {
			current := stored
			if edited, ok := m.edits[stored.Value]; ok || m.cleared {
				current = edited
				delete(put, stored.Value)
			}
			if current != nil && !yield(current) {
				return
			}
		}
		for _, value := range slices.Sorted(maps.Keys(put)) {
			if !yield(m.edits[value]) {
				return
			}
		}
	}
}

// stored iterates over the stored members, without the edits, each once.
func (m *Members) stored() iter.Seq[*v1alpha1.ScimMember] {
	return func(yield func(*v1alpha1.ScimMember) bool) {
		other := map[string]bool{} // not members because of a chunk
		for i := range m.inPlace {
			other[m.inPlace[i].Value] = true
			if !yield(&m.inPlace[i]) {
				return
			}
		}
		for _, value := range slices.Sorted(maps.Keys(m.added)) {
			if !other[value] && !yield(m.added[value]) {
				return
			}
			other[value] = true
		}
		for _, p := range m.parts {
			for i := range p.members {
				if x := &p.members[i]; !p.removed.has(i) && !other[x.Value] && !yield(x) {
					return
				}
			}
		}
	}
}

// Put implements schema.Set. It stores value and type of an element; display is derived from the
// member. A member that exists is unchanged unless the element has another type. A new one without a type has
// that of what it refers to, because a stored member without a type is a user; so has one that exists and refers
// to nothing. One that the group lists keeps its type, which a program may own.
func (m *Members) Put(element map[string]any) bool {
	value, _ := element["value"].(string)
	declared, _ := element["type"].(string)
	var memberType v1alpha1.ScimMemberType // empty means User
	switch {
	case value == "":
		m.fail("members: value is required")
		return false
	case strings.EqualFold(declared, string(TypeGroup)):
		memberType = TypeGroup
	case declared != "" && !strings.EqualFold(declared, string(TypeUser)):
		m.fail("members.type: must be User or Group, not %s", scimerror.Quote(declared))
		return false
	}
	old := m.current(value)
	if old != nil && (declared == "" && !m.isMissingUser(old) || declared != "" && cmp.Or(memberType, TypeUser) == m.typeOf(old)) {
		return false
	}
	if declared == "" {
		memberType = m.impliedType(value)
	}
	added := &v1alpha1.ScimMember{Value: value, Type: memberType}
	if old != nil && TypeOf(added) == TypeOf(old) {
		return false
	}
	m.set(value, old, added)
	return true
}

// isMissingUser reports whether a member that is stored as a user refers to nothing.
func (m *Members) isMissingUser(x *v1alpha1.ScimMember) bool {
	_, ok := m.session.Resolve(x)
	return !ok && TypeOf(x) == TypeUser
}

// impliedType returns the type of a member that is put without one: that with which the group itself lists it, removed or not, and
// else that of what it refers to.
func (m *Members) impliedType(value string) v1alpha1.ScimMemberType {
	if listed := withValue(m.listed, value); listed != nil {
		return listed.Type
	}
	if m.isGroup(value) {
		return TypeGroup
	}
	return ""
}

// isGroup reports whether there is a group with an id, and no user.
func (m *Members) isGroup(value string) bool {
	if r, ok := m.session.Resolve(&v1alpha1.ScimMember{Value: value}); ok {
		return r.Type == TypeGroup
	}
	r, ok := m.session.Resolve(&v1alpha1.ScimMember{Value: value, Type: TypeGroup})
	return ok && r.Type == TypeGroup
}

// typeOf returns the actual type of a member; its declared type if it refers to nothing.
func (m *Members) typeOf(x *v1alpha1.ScimMember) v1alpha1.ScimMemberType {
	if r, ok := m.session.Resolve(x); ok {
		return r.Type
	}
	return TypeOf(x)
}

func (m *Members) fail(format string, args ...any) {
	if m.err == nil {
		m.err = scimerror.Bad(scimerror.InvalidValue, format, args...)
	}
}

// set records the change of a member from old to changed; nil for none.
func (m *Members) set(value string, old, changed *v1alpha1.ScimMember) {
	switch {
	case old == nil && changed != nil:
		m.editedCount++
	case old != nil && changed == nil:
		m.editedCount--
	}
	m.edits[value] = changed
}

// Delete implements schema.Set.
func (m *Members) Delete(value string) bool {
	old := m.current(value)
	if old == nil {
		return false
	}
	m.set(value, old, nil)
	return true
}

// Clear implements schema.Set.
func (m *Members) Clear() {
	m.cleared, m.edits = true, map[string]*v1alpha1.ScimMember{}
	m.storedCount, m.editedCount, m.counted = 0, 0, true
}

// DiscardUnreadable implements schema.Incomplete: the members of a missing chunk are unknown.
func (m *Members) DiscardUnreadable() { m.discarded = true }

// edited returns a stored member with the changes; nil if it is deleted.
func (m *Members) edited(stored *v1alpha1.ScimMember) *v1alpha1.ScimMember {
	edited, changed := m.edits[stored.Value]
	switch {
	case !changed && !m.cleared:
		return stored
	case edited != nil && TypeOf(edited) == TypeOf(stored):
		return stored
	}
	return edited
}

// withValue returns the member with a value, or nil.
func withValue(members []v1alpha1.ScimMember, value string) *v1alpha1.ScimMember {
	i := slices.IndexFunc(members, func(m v1alpha1.ScimMember) bool { return m.Value == value })
	if i < 0 {
		return nil
	}
	return &members[i]
}

func compareValue(m v1alpha1.ScimMember, value string) int { return cmp.Compare(m.Value, value) }
