package filter

import (
	"slices"

	"github.com/quoin-dev/quoin/apiserver/scim/schema"
)

// Lookup is one exact look-up in an index of values.
type Lookup struct {
	// Ref is the attribute, with its sub-attribute where it is complex: emails.value.
	Ref schema.Ref
	// Value to look up: in its Fold unless the attribute is caseExact, as the index has to hold it.
	Value string
}

// maxLookups bounds a plan: with more, going through all resources is no worse.
const maxLookups = 64

// Lookups is an index plan: what matches is among what its look-ups find, which still has to be
// matched. It is false when the indexes, of which indexed knows, do not help.
func (p *Predicate) Lookups(indexed func(schema.Ref) bool) ([]Lookup, bool) {
	if p == nil {
		return nil, false
	}
	return p.root.lookups(indexed)
}

// Of two plans each of which will do, the one with fewer look-ups is taken.
func (n *and) lookups(indexed func(schema.Ref) bool) ([]Lookup, bool) {
	left, ok := n.left.lookups(indexed)
	if ok && len(left) == 1 {
		return left, true
	}
	right, okRight := n.right.lookups(indexed)
	if okRight && (!ok || len(right) < len(left)) {
		return right, true
	}
	return left, ok
}

func (n *or) lookups(indexed func(schema.Ref) bool) ([]Lookup, bool) {
	left, ok := n.left.lookups(indexed)
	if !ok {
		return nil, false
	}
	right, ok := n.right.lookups(indexed)
	if !ok {
		return nil, false
	}
	for _, lookup := range right {
		if !slices.Contains(left, lookup) {
			left = append(left, lookup)
		}
	}
	if len(left) > maxLookups {
		return nil, false
	}
	return left, true
}

func (n *not) lookups(func(schema.Ref) bool) ([]Lookup, bool) { return nil, false }

func (l *leaf) lookups(indexed func(schema.Ref) bool) ([]Lookup, bool) {
	c := &l.condition
	if c.kind == text && c.operator == Equal && indexed(l.ref) {
		return []Lookup{{Ref: l.ref, Value: c.text}}, true
	}
	// The brackets bound what matches, unless what is absent matches too.
	if l.filter != nil && !l.absent {
		return l.filter.lookups(indexed)
	}
	return nil, false
}
