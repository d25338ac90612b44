package filter

import (
	"slices"

	"github.com/quoin-dev/quoin/apiserver/scim/schema"
)

// Lookup is an exact lookup in an index.
type Lookup struct {
	// Ref is the attribute, with the sub-attribute of a complex one: emails.value.
	Ref schema.Ref
	// Value is the value, case-folded unless the attribute is caseExact. The index must use the same form.
	Value string
}

// maxLookups is the maximum number of lookups in a plan. With more, a scan is not slower.
const maxLookups = 64

// Lookups returns an index plan: the results of its lookups include all matching resources and still have to
// be matched. It returns false if the filter requires a scan. indexed reports whether an attribute is
// indexed.
func (p *Predicate) Lookups(indexed func(schema.Ref) bool) ([]Lookup, bool) {
	if p == nil {
		return nil, false
	}
	return p.root.lookups(indexed)
}

// lookups returns the shorter of the two plans.
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
	// The filter in brackets limits the matches, unless resources without a value match too.
	if l.filter != nil && !l.absent {
		return l.filter.lookups(indexed)
	}
	return nil, false
}
