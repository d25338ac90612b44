package filter

import (
	"iter"

	"github.com/quoin-dev/quoin/apiserver/scim/schema"
)

// Match tells whether a resource satisfies the filter (RFC 7644 section 3.4.2.2).
//
// A path stands for the values that it leads to: those of all elements, or of those that the
// brackets let through. A comparison is satisfied when one of them satisfies it. So ne means
// "some value is another one", which is not the opposite of eq where there are many values. It
// also matches when there is no value at all, while the other operators do not. pr and ne null
// match when there is a value, eq null when there is none; an empty text is none to them.
//
// The tree is evaluated as it is: to expand it into alternatives would cost 2^n.
func (p *Predicate) Match(src schema.Source) bool {
	return p == nil || p.root.match(view{source: src})
}

// Match tells whether an element of the attribute satisfies the filter.
func (p *ElementPredicate) Match(element map[string]any) bool {
	return p.root.match(view{element: element})
}

// Key is the "value" that an element must have to match, when the filter asks for one: there is
// at most one such element in a schema.Set, which Get finds.
func (p *ElementPredicate) Key() (string, bool) { return p.root.key() }

// Select goes through the elements of a schema.Set that match; through one only, whatever the
// size of the set, when the filter has a Key. The set is not to be changed meanwhile.
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

// view is what a filter looks at: a resource or, in brackets, an element.
type view struct {
	source  schema.Source
	element map[string]any
}

// node is a part of a compiled filter. A node does not change.
type node interface {
	match(v view) bool
	// key is the "value" of a matching element, where the node asks for exactly one.
	key() (string, bool)
	// lookups is a superset of what matches, false when there is no plan.
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
	// ref is the path in full, in brackets too.
	ref schema.Ref
	// inside brackets the value is the element's, not the resource's.
	inside bool
	// filter is in the path's own brackets; nil without.
	filter    node
	condition condition
	// absent is the answer when there is no value.
	absent bool
	// assumeFalse is for primary: an element that has none has false.
	assumeFalse bool
	// keyed leaves are satisfied only by an element with the "value" keyValue.
	keyed    bool
	keyValue string
}

// withKey finds the key, once the filter and the condition are there.
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

// outcome is how far a path came. They are ordered: the best of a list is the list's.
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

// values looks at the value of an attribute.
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

// set asks a set for the one element that counts, where the filter says which.
func (l *leaf) set(set schema.Set) outcome {
	if l.keyed {
		element, ok := set.Get(l.keyValue)
		if !ok {
			return unassigned // of no consequence: a keyed leaf does not match what is absent
		}
		return l.element(element)
	}
	if l.condition.kind <= noValue && l.filter == nil && (l.ref.Sub == nil || l.ref.Sub == l.ref.Attribute.Value()) {
		return l.size(set)
	}
	best := unassigned
	for element := range set.All() {
		if best = max(best, l.element(element)); best == satisfied {
			break
		}
	}
	return best
}

// size says whether there is a value, which every element of a set has. Its length does not tell:
// it may hold elements that are not shown.
func (l *leaf) size(set schema.Set) outcome {
	for range set.All() {
		if l.condition.kind == anyValue {
			return satisfied
		}
		return assigned
	}
	return unassigned
}

// element looks at one element of a complex attribute, at a complex attribute that has but one,
// or at an extension.
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

// check looks at one value.
func (l *leaf) check(value any) outcome {
	if value == nil || l.condition.kind <= noValue && isEmpty(value) {
		return unassigned
	}
	if l.condition.holds(value) {
		return satisfied
	}
	return assigned
}

// isEmpty tells whether a value counts as none to pr: an empty text, or nothing but such.
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
