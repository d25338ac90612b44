package directory

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

// members is the attribute members of a group, as a schema.Set: the members that are written in
// the group itself (in place), and those of its chunks. Chunks do not change, and the cache has
// them with an index of their members: to find one costs the same in a group of any size.
//
// Changes are kept beside what there is, and storeMembers makes new chunks of those that they touch.
type members struct {
	v       *view
	inPlace []v1alpha1.ScimMember
	parts   []*part
	// byName are the parts by the names of their chunks, and unknown those of them that the cache
	// does not have yet: its index does not find what is in them.
	byName  map[string]*part
	unknown []*part

	// edits are the members that were put, and nil for those that were deleted.
	edits map[string]*v1alpha1.ScimMember
	// cleared says that what is not in edits is deleted.
	cleared bool
	// count of members, and whether it is known.
	count   int
	counted bool
	// err is what was put and cannot be kept.
	err error
}

var _ schema.Set = (*members)(nil)

// newMembers reads the members of a group.
func newMembers(v *view, s *v1alpha1.ScimGroupSpec) *members {
	m := &members{
		v: v, inPlace: s.Members, edits: map[string]*v1alpha1.ScimMember{},
		parts: make([]*part, 0, len(s.MemberChunks)), byName: make(map[string]*part, len(s.MemberChunks)),
	}
	for _, reference := range s.MemberChunks {
		if m.byName[reference.Name] != nil {
			continue // written by hand: a chunk counts once
		}
		p, cached := v.loadPart(reference)
		m.parts = append(m.parts, p)
		m.byName[reference.Name] = p
		if !cached {
			m.unknown = append(m.unknown, p)
		}
	}
	return m
}

// mostNamed is how many members the audit log names of a change; of more it has the number.
const mostNamed = 100

// changes are what the audit log says of the changes.
func (m *members) changes() map[string]any {
	told := map[string]any{}
	if m.cleared {
		told["replaced"] = true
	}
	if len(m.edits) > mostNamed {
		told["changed"] = len(m.edits)
		return told
	}
	var added, removed []string
	for _, value := range slices.Sorted(maps.Keys(m.edits)) {
		isThere := m.base(value) != nil
		switch now := m.edits[value]; {
		case now != nil && !isThere:
			added = append(added, value)
		case now == nil && isThere:
			removed = append(removed, value)
		}
	}
	if len(added) > 0 {
		told["added"] = added
	}
	if len(removed) > 0 {
		told["removed"] = removed
	}
	return told
}

// partsWith are the parts that have a member: one, unless somebody has written chunks by hand.
func (m *members) partsWith(value string) []*part {
	var found []*part
	keys, err := m.v.d.chunks.GetIndexer().IndexKeys(indexMember, keyOf(m.v.namespace, value))
	if err != nil {
		m.v.fail(err)
	}
	for _, key := range keys {
		if p := m.byName[key[len(m.v.namespace)+1:]]; p != nil && !slices.Contains(m.unknown, p) {
			found = append(found, p)
		}
	}
	for _, p := range m.unknown {
		if p.find(value) != nil {
			found = append(found, p)
		}
	}
	return found
}

// base is a member as it was before any change; nil when there was none.
func (m *members) base(value string) *v1alpha1.ScimMember {
	if i := slices.IndexFunc(m.inPlace, func(x v1alpha1.ScimMember) bool { return x.Value == value }); i >= 0 {
		return &m.inPlace[i]
	}
	for _, p := range m.partsWith(value) {
		if found := p.find(value); found != nil {
			return found
		}
	}
	return nil
}

// current is a member as it is now.
func (m *members) current(value string) *v1alpha1.ScimMember {
	if edited, ok := m.edits[value]; ok {
		return edited
	}
	if m.cleared {
		return nil
	}
	return m.base(value)
}

// element is a member in the form of a document; nil when it is not shown.
func (m *members) element(x *v1alpha1.ScimMember) map[string]any {
	element := map[string]any{"value": x.Value}
	r, ok := m.v.d.resolve(m.v.namespace, x)
	switch {
	case ok:
		element["type"] = string(r.kind)
		if r.display != "" {
			element["display"] = r.display
		}
	case !m.v.editing:
		return nil
	case x.Type != "":
		element["type"] = string(x.Type)
	}
	return element
}

// Len implements schema.Set. It counts references, whether or not they are shown.
func (m *members) Len() int {
	if m.counted {
		return m.count
	}
	m.counted = true
	for _, p := range m.parts {
		m.count += len(p.members)
	}
	for i := range m.inPlace {
		if len(m.parts) == 0 || len(m.partsWith(m.inPlace[i].Value)) == 0 {
			m.count++
		}
	}
	return m.count
}

// Get implements schema.Set.
func (m *members) Get(value string) (map[string]any, bool) {
	x := m.current(value)
	if x == nil {
		return nil, false
	}
	element := m.element(x)
	return element, element != nil
}

// All implements schema.Set: those that exist, or for a change all that are kept.
func (m *members) All() iter.Seq[map[string]any] {
	return func(yield func(map[string]any) bool) {
		for x := range m.references() {
			if element := m.element(x); element != nil && !yield(element) {
				return
			}
		}
	}
}

// references goes through all members that are kept, each once.
func (m *members) references() iter.Seq[*v1alpha1.ScimMember] {
	return func(yield func(*v1alpha1.ScimMember) bool) {
		put := map[string]bool{}
		for value, edited := range m.edits {
			if edited != nil {
				put[value] = true
			}
		}
		// give shows what is there now in the place of what was.
		give := func(was *v1alpha1.ScimMember) bool {
			now := was
			if edited, ok := m.edits[was.Value]; ok || m.cleared {
				now = edited
				delete(put, was.Value)
			}
			return now == nil || yield(now)
		}
		inPlace := make(map[string]bool, len(m.inPlace))
		for i := range m.inPlace {
			inPlace[m.inPlace[i].Value] = true
			if !give(&m.inPlace[i]) {
				return
			}
		}
		for _, p := range m.parts {
			for i := range p.members {
				if x := &p.members[i]; !inPlace[x.Value] && !give(x) {
					return
				}
			}
		}
		for _, value := range slices.Sorted(maps.Keys(put)) {
			if !yield(m.edits[value]) {
				return
			}
		}
	}
}

// Put implements schema.Set. Of an element only value and type are kept: what is displayed is
// what the member is called. A member that is there already stays as it is, unless it is said to
// be something else.
func (m *members) Put(element map[string]any) bool {
	value, _ := element["value"].(string)
	given, _ := element["type"].(string)
	var kind v1alpha1.ScimMemberType // none says User
	switch {
	case value == "":
		m.fail("members: each needs a value")
		return false
	case strings.EqualFold(given, string(typeGroup)):
		kind = typeGroup
	case given != "" && !strings.EqualFold(given, string(typeUser)):
		m.fail("members.type: must be User or Group, not %s", scimerror.Quote(given))
		return false
	}
	was := m.current(value)
	if was != nil && (given == "" || cmp.Or(kind, typeUser) == m.typeOf(was)) {
		return false
	}
	m.set(value, was, &v1alpha1.ScimMember{Value: value, Type: kind})
	return true
}

// typeOf is what a member is, or is said to be while it does not exist.
func (m *members) typeOf(x *v1alpha1.ScimMember) v1alpha1.ScimMemberType {
	if r, ok := m.v.d.resolve(m.v.namespace, x); ok {
		return r.kind
	}
	return typeOf(x)
}

func (m *members) fail(format string, args ...any) {
	if m.err == nil {
		m.err = scimerror.Bad(scimerror.InvalidValue, format, args...)
	}
}

// set keeps a change: from what the member was to what it is.
func (m *members) set(value string, was, is *v1alpha1.ScimMember) {
	m.Len() // is known before it changes
	switch {
	case was == nil && is != nil:
		m.count++
	case was != nil && is == nil:
		m.count--
	}
	m.edits[value] = is
}

// Delete implements schema.Set.
func (m *members) Delete(value string) bool {
	was := m.current(value)
	if was == nil {
		return false
	}
	m.set(value, was, nil)
	return true
}

// Clear implements schema.Set.
func (m *members) Clear() {
	m.cleared, m.edits = true, map[string]*v1alpha1.ScimMember{}
	m.count, m.counted = 0, true
}

// edited is what becomes of a member that there was; nil when it goes.
func (m *members) edited(was *v1alpha1.ScimMember) *v1alpha1.ScimMember {
	now, touched := m.edits[was.Value]
	switch {
	case !touched && !m.cleared:
		return was
	case now != nil && typeOf(now) == typeOf(was):
		return was
	}
	return now
}
