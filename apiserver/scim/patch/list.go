package patch

import (
	"slices"

	"github.com/quoin-dev/quoin/apiserver/scim/schema"
	"github.com/quoin-dev/quoin/apiserver/scim/scimerror"
)

// list is a multi-valued attribute in a list of the document.
type list struct {
	e     *editor
	ref   schema.Ref
	items []any
}

// store sets the elements in the document. primary is the index of the element that the operation makes
// primary, or -1; primary becomes false for all others (RFC 7644 section 3.5.2).
func (l *list) store(items []any, primary int) error {
	if primary >= 0 {
		for i, item := range items {
			if i != primary && isPrimary(item) {
				items[i] = l.overlaid(item, map[string]any{"primary": false})
			}
		}
	}
	items = schema.Distinct(l.ref.Attribute, items)
	if l.ref.Attribute.Mutability == schema.Immutable && len(l.items) > 0 && !equal(l.items, items) {
		return immutableError(l.ref)
	}
	l.items = items
	l.e.d.Put(schema.Ref{Extension: l.ref.Extension, Attribute: l.ref.Attribute}, items)
	return nil
}

func (l *list) add(given []any) error {
	return l.fill(slices.Clone(l.items), given)
}

func (l *list) replace(given []any) error {
	if !keyed(l.ref.Attribute) {
		return l.fill(nil, given)
	}
	keep := make(positions, len(given))
	for i, item := range given {
		keep.add(item, i)
	}
	// Kept elements keep their positions and the sub-attributes that are not sent, as in a Set.
	kept := slices.DeleteFunc(slices.Clone(l.items), func(item any) bool { return keep[identity(item)] == nil })
	return l.fill(kept, given)
}

// fill adds the given elements to items, or merges them with equal ones.
func (l *list) fill(items, given []any) error {
	if err := l.e.visit(len(items)); err != nil {
		return err
	}
	index := make(positions, len(items))
	for i, item := range items {
		index.add(item, i)
	}
	primary := -1
	for _, item := range given {
		if err := l.checkValue(item); err != nil {
			return err
		}
		at, err := l.find(index, items, item)
		switch {
		case err != nil:
			return err
		case at < 0:
			at = len(items)
			index.add(item, at)
			items = append(items, item)
		default:
			items[at] = l.overlaid(items[at], item)
		}
		if isPrimary(item) {
			primary = at
		}
	}
	return l.store(items, primary)
}

// overlaid returns a value merged with an equal one.
func (l *list) overlaid(old, given any) any {
	oldElement, ok := old.(map[string]any)
	element, ok2 := given.(map[string]any)
	if !ok || !ok2 {
		return given
	}
	return overlaid(oldElement, element)
}

// checkValue returns an error for an element without the value that would identify it.
func (l *list) checkValue(item any) error {
	element, _ := item.(map[string]any)
	if keyed(l.ref.Attribute) && element["value"] == nil {
		return scimerror.Bad(scimerror.InvalidValue, "%s: value is required", l.ref)
	}
	return nil
}

// find returns the index of an element in items, or -1.
func (l *list) find(index positions, items []any, item any) (int, error) {
	candidates := index[identity(item)]
	for n, at := range candidates {
		if keyed(l.ref.Attribute) || equal(items[at], item) {
			return at, l.e.visit(n)
		}
	}
	return -1, l.e.visit(len(candidates))
}

func (l *list) remove(listed []any) error {
	rest := make([]any, 0, len(l.items))
	index := positions{}
	for i, item := range listed {
		if err := l.checkValue(item); err != nil {
			return err
		}
		index.add(folded(l.ref.Attribute, item), i)
	}
	for _, item := range l.items {
		// A listed element without a value may identify any element.
		candidates := slices.Concat(index[identity(folded(l.ref.Attribute, item))], index[nil])
		if err := l.e.visit(1 + len(candidates)); err != nil {
			return err
		}
		if !slices.ContainsFunc(candidates, func(i int) bool { return names(l.ref.Attribute, listed[i], item) }) {
			rest = append(rest, item)
		}
	}
	return l.store(rest, -1)
}

func (l *list) clear() error { return l.store(nil, -1) }

func (l *list) change(t target, update func(old any) (any, error)) (int, error) {
	if err := l.e.visit(len(l.items)); err != nil {
		return 0, err
	}
	items := make([]any, 0, len(l.items))
	selected, primary := 0, -1
	var changedTo any
	for _, item := range l.items {
		if t.selects != nil && !t.selects.Match(asElement(item)) {
			items = append(items, item)
			continue
		}
		selected++
		next, err := update(item)
		if err != nil {
			return selected, err
		}
		// A replace may make several elements equal: only one is kept.
		if changed := !equal(item, next); next == nil || changed && equal(changedTo, next) {
			continue
		} else if changed {
			changedTo = next
		}
		if isPrimary(next) {
			if primary >= 0 {
				return selected, twoPrimaries(l.ref)
			}
			primary = len(items)
		}
		items = append(items, next)
	}
	if selected == 0 {
		return 0, nil
	}
	return selected, l.store(items, primary)
}
