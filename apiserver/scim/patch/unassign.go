package patch

import (
	"slices"
	"strings"

	"github.com/quoin-dev/quoin/apiserver/scim/schema"
	"github.com/quoin-dev/quoin/apiserver/scim/scimerror"
)

// unassign applies a remove. Removing a value that does not exist is not an error: clients may remove a
// member twice.
func (e *editor) unassign(t target, op Operation) error {
	if op.HasValue && !e.quirks.RemoveListed {
		return scimerror.Bad(scimerror.InvalidValue, "remove takes no value: select the elements in the path, as in members[value eq \"id\"]")
	}
	if t.Attribute == nil {
		if !e.unassigns(op.Value) {
			return scimerror.Bad(scimerror.InvalidValue, "%s: an extension is removed as a whole: value is not allowed", t)
		}
		return e.unassignExtension(t)
	}
	if selected := t.selects != nil && t.Sub == nil; t.Leaf().Required && !selected {
		return scimerror.Bad(scimerror.Mutability, "%s: is required", t)
	}
	if t.Attribute.MultiValued && !t.elements() {
		return e.unassignList(t, op)
	}
	listed, err := e.normalizeListed(t, op.Value)
	if err != nil {
		return err
	}
	if t.elements() {
		_, err := e.many(t.Ref).change(t, func(old any) (any, error) { return e.without(t, old, listed) })
		return err
	}
	old := e.d.Get(t.Ref)
	if old == nil {
		return nil
	}
	next, err := e.without(t, old, listed)
	if err != nil {
		return err
	}
	return e.put(t, old, next)
}

// unassignList removes the elements listed in a value, or all without a value. It rejects an empty list, which
// is ambiguous.
func (e *editor) unassignList(t target, op Operation) error {
	if !op.HasValue {
		return e.many(t.Ref).clear()
	}
	if _, list := op.Value.([]any); !list && e.unassigns(op.Value) {
		return scimerror.Bad(scimerror.InvalidValue, "%s: the value must list the elements to remove; omit it to remove all", t)
	}
	listed, err := e.normalizeList(t.String(), t.Attribute, op.Value)
	if err != nil {
		return err
	}
	return e.many(t.Ref).remove(listed)
}

// normalizeListed normalizes the values listed in a remove of a single-valued target; nil if none are
// listed, so that any value is removed.
func (e *editor) normalizeListed(t target, value any) ([]any, error) {
	if e.unassigns(value) {
		return nil, nil
	}
	items, ok := value.([]any)
	if !ok {
		items = []any{value}
	}
	var listed []any
	for _, item := range items {
		element, err := e.normalizeElement(t.String(), t.Leaf(), item)
		if err != nil {
			return nil, err
		}
		if element != nil {
			listed = append(listed, element)
		}
	}
	return listed, nil
}

// without returns a value or an element after the remove; nil if nothing is left. If values are listed,
// only those are removed.
func (e *editor) without(t target, old any, listed []any) (any, error) {
	current := old
	was, _ := old.(map[string]any)
	if t.Sub != nil {
		current = was[t.Sub.Name]
	}
	next := copied(was)
	if values, many := current.([]any); many && listed != nil {
		rest := slices.DeleteFunc(slices.Clone(values), func(v any) bool { return anyNames(t.Leaf(), listed, v) })
		if next[t.Sub.Name] = rest; len(rest) > 0 {
			return keepImmutable(t, was, next)
		}
	} else if current == nil || listed != nil && !anyNames(t.Leaf(), listed, current) {
		return old, nil
	}
	if t.Sub == nil {
		return nil, nil
	}
	delete(next, t.Sub.Name)
	return keepImmutable(t, was, next)
}

// unassignExtension removes all attributes of an extension that clients may remove.
func (e *editor) unassignExtension(t target) error {
	for _, a := range e.t.Extension(t.Extension).Attributes {
		attribute := target{Ref: schema.Ref{Extension: t.Extension, Attribute: a}}
		old := e.d.Get(attribute.Ref)
		if old == nil || attribute.readOnly() {
			continue
		}
		var err error
		if a.MultiValued {
			err = e.many(attribute.Ref).clear()
		} else {
			err = e.put(attribute, old, nil)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// anyNames reports whether any listed value identifies a value.
func anyNames(a *schema.Attribute, listed []any, value any) bool {
	for _, item := range listed {
		if names(a, item, value) {
			return true
		}
	}
	return false
}

// names reports whether a listed value identifies a value. A complex value may omit sub-attributes. If
// elements are identified by "value", the other sub-attributes are ignored, because they may be stale.
func names(a *schema.Attribute, listed, value any) bool {
	want, complexValue := listed.(map[string]any)
	if !complexValue {
		x, text := listed.(string)
		y, also := value.(string)
		if text && also && !a.CaseExact {
			return strings.EqualFold(x, y)
		}
		return equal(listed, value)
	}
	has, _ := value.(map[string]any)
	if keyed(a) {
		return want["value"] != nil && equal(want["value"], has["value"])
	}
	for name, v := range want {
		sub := a.Sub(name)
		if !names(sub, v, has[name]) {
			return false
		}
	}
	return true
}
