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
// Changes of users are in the group itself, in memberChanges, up to maxChanges of them: a change of one member is one write, and
// a group of up to maxChanges users has no chunk. When there are more, those that few chunks take move there, and keptChanges
// or fewer stay: a large group with removals from all chunks does not have to write all of them.
//
// A chunk has up to 1,000 users, about 37 KiB. Each chunk is a line in the group, which costs time in each change of the group, so
// there are few of them; and since one change in some 200 writes chunks, their size matters little for the others.
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
	keptChanges   = maxChanges / 4
)

// part is the members of one chunk, sorted by value.
type part struct {
	// reference refers to the chunk; zero for a new chunk.
	reference v1alpha1.ScimMemberChunkReference
	members   []v1alpha1.ScimMember
	// missing chunks are referred to and do not exist. Their content is unknown, so the reference
	// stays until all members are replaced.
	missing bool
}

// find returns the member with a value, or nil.
func (p *part) find(value string) *v1alpha1.ScimMember {
	if i, ok := slices.BinarySearchFunc(p.members, value, compareValue); ok {
		return &p.members[i]
	}
	return withValue(p.members, value) // a chunk that was not written by Quoin may be unsorted
}

// with returns a new part with other members.
func (p *part) with(members []v1alpha1.ScimMember) *part {
	return &part{members: sorted(members)}
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
	// added are the users that are members besides those of the parts, and dropped the members of the parts that are not members
	// of the group.
	added   []string
	dropped []string
	parts   []*part
}

// layout returns the members after the changes. A listed member that is deleted stays listed, because
// a program may own the list and would add the member again: it is added to the removed ones.
func (m *Members) layout() changed {
	var after changed
	var restored map[string]bool
	after.listed, after.removed, restored = m.layoutListed()
	changes := m.layoutChanges(restored)
	if changes == nil {
		after.parts = m.withChanges().layoutParts(restored)
		return after
	}
	after.parts = m.parts
	if len(changes) > maxChanges {
		after.parts = m.move(changes, restored)
	}
	for value, isMember := range changes {
		if isMember {
			after.added = append(after.added, value)
		} else {
			after.dropped = append(after.dropped, value)
		}
	}
	slices.Sort(after.added)
	slices.Sort(after.dropped)
	if hasOnly(after.parts, after.dropped) {
		after.parts, after.dropped = nil, nil
	}
	return after
}

// move moves changes into the parts until keptChanges or fewer are left, and returns the parts. It writes few chunks: those
// with the most removals, and one more if the added members do not fit there. restored are as in layoutParts.
func (m *Members) move(changes, restored map[string]bool) []*part {
	moved := *m
	moved.cleared, moved.added, moved.dropped, moved.edits = false, nil, nil, map[string]*v1alpha1.ScimMember{}
	removals := map[*part][]string{}
	for _, value := range slices.Sorted(maps.Keys(changes)) {
		if changes[value] {
			moved.edits[value] = &v1alpha1.ScimMember{Value: value}
			delete(changes, value)
			continue
		}
		parts := m.partsWith(value)
		if len(parts) == 0 {
			delete(changes, value) // its chunk is missing, or was replaced by another program
		}
		for _, p := range parts {
			removals[p] = append(removals[p], value)
		}
	}
	most := func(x, y *part) int {
		return cmp.Or(cmp.Compare(len(removals[y]), len(removals[x])), cmp.Compare(x.reference.Name, y.reference.Name))
	}
	for _, p := range slices.SortedFunc(maps.Keys(removals), most) {
		if len(changes) <= keptChanges {
			break
		}
		for _, value := range removals[p] {
			moved.edits[value] = nil
			delete(changes, value)
		}
	}
	return moved.layoutParts(restored)
}

// layoutChanges returns memberChanges after the edits, true for members; nil if there are many edits, or one that is not of a user.
// There may be more changes than fit into the group. restored are as in layoutParts.
func (m *Members) layoutChanges(restored map[string]bool) map[string]bool {
	edits, ok := m.net()
	if !ok {
		return nil
	}
	changes := map[string]bool{}
	for value := range m.added {
		changes[value] = true
	}
	for value := range m.dropped {
		changes[value] = false
	}
	for value, edited := range edits {
		inChunk := m.inChunk(value)
		switch {
		case restored[value]:
		case edited == nil && inChunk != nil:
			changes[value] = false
		case edited == nil, inChunk != nil && TypeOf(edited) == TypeOf(inChunk):
			delete(changes, value)
		case inChunk != nil:
			return nil
		case withValue(m.inPlace, value) != nil:
		case *edited != v1alpha1.ScimMember{Value: value} || strings.Contains(value, "\n"):
			return nil
		default:
			changes[value] = true
		}
	}
	return changes
}

// hasOnly reports whether parts contain no other members than those of a sorted list.
func hasOnly(parts []*part, values []string) bool {
	n := 0
	for _, p := range parts {
		if n += len(p.members); p.missing || n > len(values) {
			return false
		}
	}
	for _, p := range parts {
		for i := range p.members {
			if _, ok := slices.BinarySearch(values, p.members[i].Value); !ok {
				return false
			}
		}
	}
	return true
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

// withChanges returns the members with memberChanges as edits.
func (m *Members) withChanges() *Members {
	all := *m
	all.added, all.dropped, all.edits = nil, nil, map[string]*v1alpha1.ScimMember{}
	if !m.cleared {
		maps.Copy(all.edits, m.added)
		for value := range m.dropped {
			all.edits[value] = nil
		}
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

// layoutParts returns the parts after the changes, without members that are restored in the group itself.
func (m *Members) layoutParts(restored map[string]bool) (parts []*part) {
	touched := map[*part]bool{}
	var added []v1alpha1.ScimMember
	for value, edited := range m.edits {
		if !m.session.next() {
			return nil // the request has ended: nothing is written
		}
		for _, p := range m.partsWith(value) {
			touched[p] = true
		}
		if edited != nil && !restored[value] && m.Stored(value) == nil {
			added = append(added, *edited)
		}
	}
	for _, p := range m.parts {
		if m.cleared || touched[p] {
			p = m.editPart(p)
		}
		if len(p.members) > 0 || p.missing && !m.discarded {
			parts = append(parts, p)
		}
	}
	return place(parts, sorted(added))
}

// editPart returns a part after the changes; the same part if nothing in it changes.
func (m *Members) editPart(p *part) *part {
	kept := make([]v1alpha1.ScimMember, 0, len(p.members))
	unchanged := true
	for i := range p.members {
		stored := &p.members[i]
		current := m.edited(stored)
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
		n := min(chunkSize-len(p.members), len(added))
		parts[target] = p.with(slices.Concat(p.members, added[:n]))
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
		case p.missing || len(p.members) >= chunkSize:
		case best < 0, p.isNew() && !parts[best].isNew(),
			p.isNew() == parts[best].isNew() && len(p.members) < len(parts[best].members):
			best = i
		}
	}
	return best
}
