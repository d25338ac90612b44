package filter

import (
	"iter"

	"github.com/quoin-dev/quoin/apiserver/scim/schema"
)

// Match reports whether a resource matches the filter (RFC 7644 section 3.4.2.2).
//
// A path denotes the values of all elements, or of the elements that the filter in brackets selects. A
// comparison matches if one of these values satisfies it. So ne means "some value differs" and is not the
// negation of eq for multi-valued attributes. ne also matches if there is no value; all other operators do
// not. pr and ne null match if there is a value, eq null if there is none; for them an empty string is no
// value.
//
// The expression tree is evaluated directly: a disjunctive normal form could have 2^n terms.
func (p *Predicate) Match(src schema.Source) bool {
	return p == nil || p.root.match(view{source: src})
}

// Match reports whether an element of the attribute matches the filter.
func (p *ElementPredicate) Match(element map[string]any) bool {
	return p.root.match(view{element: element})
}

// Key returns the "value" that an element must have to match, and false if the filter does not require one.
// A schema.Set has at most one such element, which Get returns.
func (p *ElementPredicate) Key() (string, bool) { return p.root.key() }

// Select iterates over the matching elements of a schema.Set. If the filter has a Key, the cost is independent
// of the size of the set. The set must not be changed during the iteration.
func (p *ElementPredicate) Select(set schema.Set) iter.Seq[map[string]any] {
	return func(yield func(map[string]any) bool) {
		if key, ok := p.Key(); ok {
			if element, ok := set.Get(key); ok && p.Match(element) {
				yield(element)
			}
			return
		}
		for element := range set.All() {
			if p.Match(element) && !yield(element) {
				return
			}
		}
	}
}

// view is the input of a filter: a resource or, in brackets, an element.
type view struct {
	source  schema.Source
	element map[string]any
}

// node is a part of a compiled filter. Nodes are immutable.
type node interface {
	match(v view) bool
	// key returns the "value" that a matching element must have; false if the node requires none.
	key() (string, bool)
	// lookups returns lookups whose results include all matches; false if a scan is required.
	lookups(indexed func(schema.Ref) bool) ([]Lookup, bool)
}

type (
	and struct{ left, right node }
	or  struct{ left, right node }
	not struct{ operand node }
)

func (n *and) match(v view) bool { return n.left.match(v) && n.right.match(v) }
func (n *or) match(v view) bool  { return n.left.match(v) || n.right.match(v) }
func (n *not) match(v view) bool { return !n.operand.match(v) }

func (n *and) key() (string, bool) {
	if key, ok := n.left.key(); ok {
		return key, true
	}
	return n.right.key()
}
func (n *or) key() (string, bool)  { return "", false }
func (n *not) key() (string, bool) { return "", false }

// leaf is a condition on the values of a path.
type leaf struct {
	// ref is the full path, also in brackets.
	ref schema.Ref
	// inside is set in brackets, where values are those of the element.
	inside bool
	// filter is the filter in the brackets of the path; nil without brackets.
	filter    node
	condition condition
	// absent is the result if there is no value.
	absent bool
	// assumeFalse is set for primary, which is false by default.
	assumeFalse bool
	// keyed means that only an element with "value" keyValue can match.
	keyed    bool
	keyValue string
}

// withKey sets the key from the filter and the condition.
func (l *leaf) withKey() *leaf {
	c := &l.condition
	if c.kind == text && c.operator == Equal && c.exact && l.ref.Sub != nil && l.ref.Sub == l.ref.Attribute.Value() {
		l.keyValue, l.keyed = c.text, true
	} else if l.filter != nil && !l.absent {
		l.keyValue, l.keyed = l.filter.key()
	}
	return l
}

func (l *leaf) key() (string, bool) { return l.keyValue, l.keyed }

// outcome is the result of matching values. Outcomes are ordered: that of a list is the maximum of its
// elements.
type outcome uint8

const (
	unassigned outcome = iota // no value
	assigned                  // a value, but none that satisfies the condition
	satisfied
)

func (l *leaf) match(v view) bool {
	var found outcome
	if l.inside {
		found = l.sub(v.element)
	} else {
		found = l.values(v.source.Get(l.ref))
	}
	return found == satisfied || found == unassigned && l.absent
}

// values matches the value of an attribute.
func (l *leaf) values(value any) outcome {
	switch value := value.(type) {
	case nil:
		return unassigned
	case []any:
		best := unassigned
		for i := 0; i < len(value) && best != satisfied; i++ {
			best = max(best, l.values(value[i]))
		}
		return best
	case schema.Set:
		return l.set(value)
	case map[string]any:
		return l.element(value)
	}
	return l.check(value)
}

// set matches the elements of a set; for a keyed leaf only one element, by lookup.
func (l *leaf) set(set schema.Set) outcome {
	if l.keyed {
		element, ok := set.Get(l.keyValue)
		if !ok {
			return unassigned // a keyed leaf does not match without a value
		}
		return l.element(element)
	}
	if l.condition.kind <= noValue && l.filter == nil && (l.ref.Sub == nil || l.ref.Sub == l.ref.Attribute.Value()) {
		return l.presence(set)
	}
	best := unassigned
	for element := range set.All() {
		if best = max(best, l.element(element)); best == satisfied {
			break
		}
	}
	return best
}

// presence matches a set by whether it has visible elements. Len may count elements that are not visible.
func (l *leaf) presence(set schema.Set) outcome {
	for range set.All() {
		if l.condition.kind == anyValue {
			return satisfied
		}
		return assigned
	}
	return unassigned
}

// element matches one element of a complex attribute, a single-valued complex attribute, or an extension.
func (l *leaf) element(element map[string]any) outcome {
	switch {
	case l.filter != nil && !l.filter.match(view{element: element}):
		return unassigned
	case l.ref.Sub == nil:
		return l.check(element)
	}
	return l.sub(element)
}

func (l *leaf) sub(element map[string]any) outcome {
	value := element[l.ref.Sub.Name]
	switch list, many := value.([]any); {
	case value == nil && l.assumeFalse:
		return l.check(false)
	case many:
		best := unassigned
		for _, item := range list {
			best = max(best, l.check(item))
		}
		return best
	}
	return l.check(value)
}

// check matches one value.
func (l *leaf) check(value any) outcome {
	if value == nil || l.condition.kind <= noValue && isEmpty(value) {
		return unassigned
	}
	if l.condition.holds(value) {
		return satisfied
	}
	return assigned
}

// isEmpty reports whether pr treats a value as absent: an empty string, or a structure of empty values.
func isEmpty(value any) bool {
	switch value := value.(type) {
	case nil:
		return true
	case string:
		return value == ""
	case []any:
		for _, item := range value {
			if !isEmpty(item) {
				return false
			}
		}
		return true
	case map[string]any:
		for _, item := range value {
			if !isEmpty(item) {
				return false
			}
		}
		return true
	}
	return false
}
