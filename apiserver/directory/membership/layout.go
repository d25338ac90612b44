package membership

import (
	"cmp"
	"maps"
	"slices"
	"strings"

	"github.com/quoin-dev/quoin/api/v1alpha1"
)

// This file plans where members are stored: in the group itself or in chunks. It writes nothing.
//
// A change of one member is one write, of the group:
//
//   - Users that are added are in the group itself, in memberChanges: up to maxChanges of them, so that a group of up to maxChanges
//     users has no chunk; up to maxAdded in a group with chunks. When there are more, all of them move into chunks.
//   - Members of chunks that are removed are positions in the references to the chunks, up to maxDropped of them, which are four
//     bytes each instead of the forty of an id. When there are more, those of the chunks with the most of them are removed from
//     there, until keptDropped or fewer are left: a large group with removals from all chunks does not have to write all of them.
//
// A chunk has up to 1,000 users, about 37 KiB. Each chunk is a line in the group, which costs time in each change of the group, so
// there are few of them; and since one change in some hundred writes a chunk, their size matters little for the others.
//
// Added members fill the chunks that have to be written and one more that has room, and the rest goes into new chunks: adding
// 3,000 members to a group of any size writes about four chunks. Chunks shrink when members are removed, and empty chunks are
// removed. If a group still has more than 768 chunks, all chunks with room are filled before a new one is added, so chunks never
// have to be merged.
const (
	chunkSize     = 1000 // as in the CRD
	manyChunks    = 768
	maxReferences = 1024 // as in the CRD
	maxMembers    = maxReferences * chunkSize
	maxRemoved    = 1000 // as in the CRD
	maxChanges    = 256
	maxAdded      = 128
	maxDropped    = 1000
	keptDropped   = 750
)

// part is the members of one chunk, sorted by value if Quoin has written it.
type part struct {
	// reference refers to the chunk; zero for a new chunk.
	reference v1alpha1.ScimMemberChunkReference
	members   []v1alpha1.ScimMember
	// removed are the positions of members that are not members of the group, and planned those after the changes; nil if they
	// do not change.
	removed, planned bits
	// ascending is true if the members are sorted by value and each is there once.
	ascending bool
	// missing chunks are referred to and do not exist. Their content is unknown, so the reference
	// stays until all members are replaced.
	missing bool
}

// newPart returns the part of a reference, whose chunk exists.
func newPart(reference v1alpha1.ScimMemberChunkReference, chunk *v1alpha1.ScimMemberChunkSpec, ascending bool) *part {
	p := &part{reference: reference, members: chunk.AllMembers(), ascending: ascending}
	p.removed = newBits(len(p.members))
	for i := range reference.RemovedPositions() {
		if i < len(p.members) {
			p.removed.add(i)
		}
	}
	return p
}

// find returns the member with a value, or nil.
func (p *part) find(value string) *v1alpha1.ScimMember {
	if i, ok := slices.BinarySearchFunc(p.members, value, compareValue); ok {
		return &p.members[i]
	}
	return withValue(p.members, value) // a chunk that was not written by Quoin may be unsorted
}

// after returns the positions of members that are not members of the group after the changes.
func (p *part) after() bits {
	if p.planned != nil {
		return p.planned
	}
	return p.removed
}

// plan returns the same for a change.
func (p *part) plan() bits {
	if p.planned == nil {
		p.planned = newBits(len(p.members))
		copy(p.planned, p.removed)
	}
	return p.planned
}

// size returns the number of members that are members of the group after the changes.
func (p *part) size() int { return len(p.members) - p.after().count() }

// left returns the members that are members of the group after the changes.
func (p *part) left() []v1alpha1.ScimMember {
	after := p.after()
	members := make([]v1alpha1.ScimMember, 0, len(p.members))
	for i := range p.members {
		if !after.has(i) {
			members = append(members, p.members[i])
		}
	}
	return members
}

// positions returns the positions of a member: one, or none; more only in a chunk that was not written by Quoin.
func (p *part) positions(value string) (all []int) {
	if p.ascending {
		if i, ok := slices.BinarySearchFunc(p.members, value, compareValue); ok {
			return []int{i}
		}
		return nil
	}
	for i := range p.members {
		if p.members[i].Value == value {
			all = append(all, i)
		}
	}
	return all
}

// with returns a new part with other members.
func (p *part) with(members []v1alpha1.ScimMember) *part {
	return &part{members: sorted(members)}
}

// isAscending reports whether members are sorted by value and each is there once.
func isAscending(members []v1alpha1.ScimMember) bool {
	for i := 1; i < len(members); i++ {
		if members[i-1].Value >= members[i].Value {
			return false
		}
	}
	return true
}

// sorted sorts members by value.
func sorted(members []v1alpha1.ScimMember) []v1alpha1.ScimMember {
	slices.SortFunc(members, func(x, y v1alpha1.ScimMember) int { return compareValue(x, y.Value) })
	return members
}

// isNew reports whether the chunk has to be written.
func (p *part) isNew() bool { return p.reference.Name == "" }

// changed is the members of a group after the changes.
type changed struct {
	// listed are the members in the group itself, and removed those of them that are not members.
	listed  []v1alpha1.ScimMember
	removed []string
	// added are the users that are members besides those of the parts, and unplaced those that memberChanges of an earlier version
	// removes from chunks that are missing.
	added, unplaced []string
	parts           []*part
}

// layout returns the members after the changes. A listed member that is deleted stays listed, because
// a program may own the list and would add the member again: it is added to the removed ones.
func (m *Members) layout() changed {
	var after changed
	var restored map[string]bool
	after.listed, after.removed, restored = m.layoutListed()
	m.forgetPlans()
	added, ok := m.layoutChanges(restored)
	switch {
	case !ok:
		m.forgetPlans()
		after.parts = m.withAdded().layoutParts(restored, nil)
	case m.fits(added):
		after.added, after.parts = slices.Sorted(maps.Keys(added)), m.parts
	default:
		after.parts = m.move(added, restored)
	}
	after.parts = slices.DeleteFunc(slices.Clone(after.parts), func(p *part) bool { return !p.missing && p.size() == 0 })
	if slices.ContainsFunc(after.parts, func(p *part) bool { return p.missing }) {
		after.unplaced = slices.DeleteFunc(slices.Clone(m.unplaced), func(value string) bool { return m.edits[value] != nil })
	}
	return after
}

func (m *Members) forgetPlans() {
	for _, p := range m.parts {
		p.planned = nil
	}
}

// removals returns the number of members of parts that are not members of the group after the changes.
func (m *Members) removals() int {
	n := 0
	for _, p := range m.parts {
		n += p.after().count()
	}
	return n
}

// fits reports whether the group itself has room for the changes.
func (m *Members) fits(added map[string]bool) bool {
	if len(m.parts) == 0 {
		return len(added) <= maxChanges
	}
	return len(added) <= maxAdded && m.removals() <= maxDropped
}

// move moves all added members into the parts, and returns the parts. If more than maxDropped are removed, the parts with the most of
// them are written without them, until keptDropped or fewer are left. restored are as in layoutParts.
func (m *Members) move(added, restored map[string]bool) []*part {
	moved := *m
	moved.cleared, moved.added, moved.wereAdded, moved.edits = false, nil, m.added, make(map[string]*v1alpha1.ScimMember, len(added))
	for value := range added {
		moved.edits[value] = &v1alpha1.ScimMember{Value: value}
	}
	written := map[*part]bool{}
	if left := m.removals(); left > maxDropped {
		most := func(x, y *part) int {
			return cmp.Or(cmp.Compare(y.after().count(), x.after().count()), cmp.Compare(x.reference.Name, y.reference.Name))
		}
		for _, p := range slices.SortedFunc(slices.Values(m.parts), most) {
			if left <= keptDropped {
				break
			}
			written[p] = true
			left -= p.after().count()
		}
	}
	return moved.layoutParts(restored, written)
}

// withRemoved returns the references to parts with the removed members. What is known of a chunk that is missing stays, unless the chunk
// has been written again.
func withRemoved(references []v1alpha1.ScimMemberChunkReference, parts []*part) []v1alpha1.ScimMemberChunkReference {
	written := map[string]bool{}
	for i, p := range parts {
		switch {
		case p.isNew():
			written[references[i].Name] = true
		case !p.missing:
			references[i].SetRemoved(p.after().positions())
		}
	}
	kept := references[:0:0]
	for i, p := range parts {
		if !p.missing || !written[references[i].Name] {
			kept = append(kept, references[i])
		}
	}
	return kept
}

// layoutChanges plans which members of the parts are removed, and returns the users that are added in the group itself; false if there
// are many edits, or one that is not of a user. There may be more changes than fit into the group. restored are as in layoutParts.
func (m *Members) layoutChanges(restored map[string]bool) (added map[string]bool, ok bool) {
	edits, ok := m.net()
	if !ok {
		return nil, false
	}
	added = make(map[string]bool, len(m.added)+len(edits))
	for value := range m.added {
		added[value] = true
	}
	for value, edited := range edits {
		inChunk := m.inChunk(value)
		switch {
		case restored[value]:
		case edited == nil:
			m.planRemoval(value)
			delete(added, value)
		case inChunk != nil && TypeOf(edited) == TypeOf(inChunk):
			m.planReturn(value)
			delete(added, value)
		case inChunk != nil:
			return nil, false
		case withValue(m.inPlace, value) != nil:
		case *edited != v1alpha1.ScimMember{Value: value} || strings.Contains(value, "\n"):
			return nil, false
		default:
			added[value] = true
		}
	}
	return added, true
}

// planRemoval removes a member of parts.
func (m *Members) planRemoval(value string) {
	for p, i := range m.places(value) {
		p.plan().add(i)
	}
}

// planReturn makes a member of a part a member of the group again, once.
func (m *Members) planReturn(value string) {
	var first *part
	var at int
	for p, i := range m.places(value) {
		switch {
		case !p.after().has(i):
			return
		case first == nil:
			first, at = p, i
		}
	}
	if first != nil {
		first.plan().remove(at)
	}
}

// net returns the edits that change something, those of Clear included. It returns false if there are more than maxChanges, or
// if members are unknown that the edits replace.
func (m *Members) net() (edits map[string]*v1alpha1.ScimMember, ok bool) {
	isMissing := func(p *part) bool { return p.missing }
	switch {
	case (m.cleared || m.discarded) && slices.ContainsFunc(m.parts, isMissing):
		return nil, false
	case !m.cleared:
		return m.edits, len(m.edits) <= maxChanges
	}
	edits = maps.Clone(m.edits)
	changed := 0
	for stored := range m.stored() {
		switch edited := m.edited(stored); {
		case !m.session.next() || changed > maxChanges:
			return nil, false
		case edited == stored:
			delete(edits, stored.Value)
		default:
			edits[stored.Value] = edited
			changed++
		}
	}
	return edits, len(edits) <= maxChanges
}

// withAdded returns the members with the users that memberChanges adds as edits.
func (m *Members) withAdded() *Members {
	all := *m
	all.added, all.edits = nil, map[string]*v1alpha1.ScimMember{}
	if !m.cleared {
		all.wereAdded = m.added
		maps.Copy(all.edits, m.added)
	}
	maps.Copy(all.edits, m.edits)
	return &all
}

// layoutListed returns the members in the group itself after the changes, and those of them that are
// removed. restored are members that were removed and are not any more.
func (m *Members) layoutListed() (listed []v1alpha1.ScimMember, removed []string, restored map[string]bool) {
	restored = map[string]bool{}
	for i := range m.listed {
		stored := &m.listed[i]
		current := m.edited(stored)
		if edited := m.edits[stored.Value]; slices.Contains(m.removed, stored.Value) {
			current = edited
			restored[stored.Value] = edited != nil
		}
		if current == nil {
			removed = append(removed, stored.Value)
			current = stored
		} else if TypeOf(current) == TypeOf(stored) {
			current = stored
		}
		listed = append(listed, *current)
	}
	// Members that the manifest no longer lists stay removed, as long as there is room.
	for _, value := range m.removed {
		if m.edits[value] == nil && !slices.Contains(removed, value) && len(removed) < maxRemoved {
			removed = append(removed, value)
		}
	}
	slices.Sort(removed)
	return listed, removed, restored
}

// layoutParts returns the parts after the changes, without members that are restored in the group itself. The parts in written are
// written without removed members.
func (m *Members) layoutParts(restored map[string]bool, written map[*part]bool) (parts []*part) {
	touched := map[*part]bool{}
	var added []v1alpha1.ScimMember
	for value, edited := range m.edits {
		if !m.session.next() {
			return nil // the request has ended: nothing is written
		}
		for _, p := range m.partsWith(value) {
			touched[p] = true
		}
		// One that was added before a manifest has listed it stays a member when the manifest no longer lists it.
		if edited != nil && !restored[value] && m.inChunk(value) == nil && (m.wereAdded[value] != nil || m.Stored(value) == nil) {
			added = append(added, *edited)
		}
	}
	for _, p := range m.parts {
		switch {
		case m.cleared || touched[p]:
			p = m.editPart(p, restored, written[p])
		case written[p]:
			p = p.with(p.left())
		}
		if len(p.members) > 0 || p.missing && !m.discarded {
			parts = append(parts, p)
		}
	}
	return place(parts, sorted(added))
}

// editPart returns a part after the changes; the same part if nothing in it changes, unless it is to be written. A member that was
// removed is not a member unless it is put again, and not restored in the group itself.
func (m *Members) editPart(p *part, restored map[string]bool, written bool) *part {
	kept := make([]v1alpha1.ScimMember, 0, len(p.members))
	unchanged := !written
	removed := p.after()
	for i := range p.members {
		stored := &p.members[i]
		current := m.edited(stored)
		if removed.has(i) {
			if m.edits[stored.Value] == nil || restored[stored.Value] {
				continue
			}
			unchanged = false
		}
		if current != nil {
			kept = append(kept, *current)
		}
		unchanged = unchanged && current == stored
	}
	if unchanged && !p.missing {
		return p
	}
	return p.with(kept)
}

// place distributes added members over parts: those that have to be written anyway, one more that has room, and new ones.
func place(parts []*part, added []v1alpha1.ScimMember) []*part {
	for filledOne := false; len(added) > 0; {
		more := (len(added) + chunkSize - 1) / chunkSize
		target := emptiest(parts)
		if target < 0 {
			break
		}
		p := parts[target]
		if !p.isNew() {
			if filledOne && len(parts)+more <= manyChunks {
				break
			}
			filledOne = true
		}
		n := min(chunkSize-p.size(), len(added))
		parts[target] = p.with(slices.Concat(p.left(), added[:n]))
		added = added[n:]
	}
	for chunk := range slices.Chunk(added, chunkSize) {
		parts = append(parts, (&part{}).with(slices.Clone(chunk)))
	}
	return parts
}

// emptiest returns the index of the part with the most room, preferring parts that have to be written
// anyway; -1 if all are full.
func emptiest(parts []*part) int {
	best := -1
	for i, p := range parts {
		switch {
		case p.missing || p.size() >= chunkSize:
		case best < 0, p.isNew() && !parts[best].isNew(), p.isNew() == parts[best].isNew() && p.size() < parts[best].size():
			best = i
		}
	}
	return best
}
