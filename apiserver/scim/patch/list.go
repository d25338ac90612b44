package patch

import (
	"slices"

	"github.com/quoin-dev/quoin/apiserver/scim/schema"
	"github.com/quoin-dev/quoin/apiserver/scim/scimerror"
)

// list is a multi-valued attribute whose elements stand in the document.
type list struct {
	e     *editor
	ref   schema.Ref
	items []any
}

// keep puts the elements into the document. winner is the one that the operation makes primary,
// or -1: the others are primary no longer (RFC 7644 section 3.5.2).
func (l *list) keep(items []any, winner int) error {
	if winner >= 0 {
		for i, item := range items {
			if i != winner && isPrimary(item) {
				items[i] = l.overlaid(item, map[string]any{"primary": false})
			}
		}
	}
	if l.ref.Attribute.Mutability == schema.Immutable && len(l.items) > 0 && !equal(l.items, items) {
		return fixed(l.ref)
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
	wanted := make(positions, len(given))
	for i, item := range given {
		wanted.add(item, i)
	}
	// Those that stay keep their places and what is not said of them, as in a Set.
	stay := slices.DeleteFunc(slices.Clone(l.items), func(item any) bool { return wanted[identity(item)] == nil })
	return l.fill(stay, given)
}

// fill adds to items what is given and not among them.
func (l *list) fill(items, given []any) error {
	if err := l.e.visit(len(items)); err != nil {
		return err
	}
	index := make(positions, len(items))
	for i, item := range items {
		index.add(item, i)
	}
	winner := -1
	for _, item := range given {
		if err := l.named(item); err != nil {
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
			winner = at
		}
	}
	return l.keep(items, winner)
}

// overlaid is a value with what an equal or equally named one says.
func (l *list) overlaid(old, given any) any {
	was, complexValue := old.(map[string]any)
	now, also := given.(map[string]any)
	if !complexValue || !also {
		return given
	}
	return overlaid(was, now)
}

// named refuses an element without the value that it would be told by.
func (l *list) named(item any) error {
	element, _ := item.(map[string]any)
	if keyed(l.ref.Attribute) && element["value"] == nil {
		return scimerror.Bad(scimerror.InvalidValue, "%s: each needs a value", l.ref)
	}
	return nil
}

// find is where an element is among the items; -1 when it is not there.
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
		if err := l.named(item); err != nil {
			return err
		}
		index.add(folded(l.ref.Attribute, item), i)
	}
	for _, item := range l.items {
		// What is listed without a value may name any element.
		candidates := slices.Concat(index[identity(folded(l.ref.Attribute, item))], index[nil])
		if err := l.e.visit(1 + len(candidates)); err != nil {
			return err
		}
		if !slices.ContainsFunc(candidates, func(i int) bool { return names(l.ref.Attribute, listed[i], item) }) {
			rest = append(rest, item)
		}
	}
	return l.keep(rest, -1)
}

func (l *list) clear() error { return l.keep(nil, -1) }

func (l *list) change(t target, with func(old any) (any, error)) (int, error) {
	if err := l.e.visit(len(l.items)); err != nil {
		return 0, err
	}
	items := make([]any, 0, len(l.items))
	met, winner := 0, -1
	var altered any
	for _, item := range l.items {
		if t.selects != nil && !t.selects.Match(asElement(item)) {
			items = append(items, item)
			continue
		}
		met++
		next, err := with(item)
		if err != nil {
			return met, err
		}
		// Two elements that a replace makes the same are one.
		if changed := !equal(item, next); next == nil || changed && equal(altered, next) {
			continue
		} else if changed {
			altered = next
		}
		if isPrimary(next) {
			if winner >= 0 {
				return met, twoPrimaries(l.ref)
			}
			winner = len(items)
		}
		items = append(items, next)
	}
	if met == 0 {
		return 0, nil
	}
	return met, l.keep(items, winner)
}
