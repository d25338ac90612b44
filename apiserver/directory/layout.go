package directory

import (
	"slices"

	"github.com/quoin-dev/quoin/api/v1alpha1"
)

// How the members of a group are spread over chunks. All is planned here, and nothing written.
//
// A chunk is small, so that writing one anew is cheap whatever the size of the group: at 256
// members it has some 14 KiB. A group refers to at most 1,024 chunks, which a group with chunks
// of that size reaches at 262,144 members; so the size grows with the group:
//
//	up to 196,608 members (768 × 256)    256 in a chunk
//	up to 393,216 members (768 × 512)    512
//	above                                1,000, up to 1,024,000 members
//
// Of the members that are added, those that fit go into one chunk that has room, and the others
// into chunks of their own: adding a thousand to a group of any size is some five chunks. Chunks
// get smaller as members leave, and go when they are empty. When there are more than 768 in spite
// of that, all that have room are filled before another one is made: the sizes above leave room
// enough, so no chunks have to be merged, ever.
const (
	chunkSize      = 256
	largeChunkSize = 512
	maxChunkSize   = 1000 // of the CRD
	manyChunks     = 768
)

// chunkSizeFor is the size of chunks in a group with so many members.
func chunkSizeFor(members int) int {
	switch {
	case members <= manyChunks*chunkSize:
		return chunkSize
	case members <= manyChunks*largeChunkSize:
		return largeChunkSize
	}
	return maxChunkSize
}

// part is the members of one chunk, by value.
type part struct {
	// reference is the chunk's; zero when there is no such chunk yet.
	reference v1alpha1.ScimMemberChunkReference
	members   []v1alpha1.ScimMember
	// lost chunks are referred to, and are not there. Nobody knows what was in them, so the
	// reference stays.
	lost bool
}

// find is the member with a value; nil when there is none.
func (p *part) find(value string) *v1alpha1.ScimMember {
	i, ok := slices.BinarySearchFunc(p.members, value, compareValue)
	if !ok { // somebody may have written a chunk by hand, in no order
		i = slices.IndexFunc(p.members, func(m v1alpha1.ScimMember) bool { return m.Value == value })
	}
	if i < 0 {
		return nil
	}
	return &p.members[i]
}

// with is the part with other members.
func (p *part) with(members []v1alpha1.ScimMember) *part {
	slices.SortFunc(members, func(x, y v1alpha1.ScimMember) int { return compareValue(x, y.Value) })
	return &part{members: members}
}

// isNew tells whether the chunk has to be made.
func (p *part) isNew() bool { return p.reference.Name == "" }

// layout is where the members are after the changes.
func (m *members) layout() (inPlace []v1alpha1.ScimMember, parts []*part) {
	for i := range m.inPlace {
		if now := m.edited(&m.inPlace[i]); now != nil {
			inPlace = append(inPlace, *now)
		}
	}
	touched := map[*part]bool{}
	var added []v1alpha1.ScimMember
	for value, now := range m.edits {
		for _, p := range m.partsWith(value) {
			touched[p] = true
		}
		if now != nil && m.base(value) == nil {
			added = append(added, *now)
		}
	}
	for _, p := range m.parts {
		if m.cleared || touched[p] {
			p = m.editPart(p)
		}
		if len(p.members) > 0 || p.lost {
			parts = append(parts, p)
		}
	}
	slices.SortFunc(added, func(x, y v1alpha1.ScimMember) int { return compareValue(x, y.Value) })
	return inPlace, place(parts, added)
}

// editPart is a part after the changes: the same one when they leave it as it is.
func (m *members) editPart(p *part) *part {
	kept := make([]v1alpha1.ScimMember, 0, len(p.members))
	same := true
	for i := range p.members {
		was := &p.members[i]
		now := m.edited(was)
		if now != nil {
			kept = append(kept, *now)
		}
		same = same && now == was
	}
	if same && !p.lost {
		return p
	}
	return p.with(kept)
}

// place puts members that are added into parts.
func place(parts []*part, added []v1alpha1.ScimMember) []*part {
	if len(added) == 0 {
		return parts
	}
	total := len(added)
	for _, p := range parts {
		total += len(p.members)
	}
	size := chunkSizeFor(total)
	for filled := false; len(added) > 0; filled = true {
		more := (len(added) + size - 1) / size
		roomy := roomiest(parts, size)
		if roomy < 0 || filled && len(parts)+more <= manyChunks {
			break
		}
		p := parts[roomy]
		taken := min(size-len(p.members), len(added))
		parts[roomy] = p.with(slices.Concat(p.members, added[:taken]))
		added = added[taken:]
	}
	for chunk := range slices.Chunk(added, size) {
		parts = append(parts, (&part{}).with(slices.Clone(chunk)))
	}
	return parts
}

// roomiest is the part with the most room, one that has to be written anyway before others; -1
// when all are full.
func roomiest(parts []*part, size int) int {
	best := -1
	for i, p := range parts {
		switch {
		case p.lost || len(p.members) >= size:
		case best < 0, p.isNew() && !parts[best].isNew(),
			p.isNew() == parts[best].isNew() && len(p.members) < len(parts[best].members):
			best = i
		}
	}
	return best
}
