package patch

import (
	"maps"

	"github.com/quoin-dev/quoin/apiserver/scim/schema"
	"github.com/quoin-dev/quoin/apiserver/scim/scimerror"
)

// elements are the values of a multi-valued attribute: a list or a Set.
type elements interface {
	// add adds values that do not exist yet.
	add(given []any) error
	// replace replaces all values.
	replace(given []any) error
	// remove removes the values that the listed values identify.
	remove(listed []any) error
	// clear removes all values.
	clear() error
	// change replaces the values that the target selects, or all if it has no filter, with the result of
	// update; nil removes a value. It returns the number of selected values.
	change(t target, update func(old any) (any, error)) (selected int, err error)
}

// many returns the values of a multi-valued attribute.
func (e *editor) many(ref schema.Ref) elements {
	value := e.d.Get(ref)
	held, ok := value.(schema.Set)
	if !ok {
		items, _ := value.([]any)
		return &list{e: e, ref: ref, items: items}
	}
	return &set{e: e, ref: schema.Ref{Extension: ref.Extension, Attribute: ref.Attribute}, held: held}
}

// assignElements adds or replaces elements, or a sub-attribute of elements.
func (e *editor) assignElements(op string, t target, value any) error {
	selected, err := e.many(t.Ref).change(t, func(old any) (any, error) {
		switch {
		case t.Sub != nil:
			return e.withSub(op, t, old, value)
		case op == replace:
			return e.replaced(t, old, value)
		case value == nil:
			return old, nil // nothing to add
		case t.Attribute.Type == schema.Complex:
			return e.merged(t, old, value)
		}
		return e.normalizeElement(t.String(), t.Attribute, value)
	})
	if selected > 0 || err != nil {
		return err
	}
	created, err := e.created(op, t, value)
	if err != nil || created == nil {
		return err
	}
	return e.many(t.Ref).add([]any{created})
}

// created returns the element that an add or replace creates if it selects none; nil if there is no value.
func (e *editor) created(op string, t target, value any) (any, error) {
	terms := map[string]any{}
	if t.selects != nil {
		named, ok := equalities(t.brackets, asComplex(t.Attribute))
		if !ok || !e.quirks.CreateUnmatched {
			return nil, scimerror.Bad(scimerror.NoTarget, "%s: no value matches the filter in brackets", t)
		}
		terms = named
	}
	if value == nil {
		return nil, nil
	}
	switch {
	case t.Sub != nil:
		return e.withSub(op, t, terms, value)
	case t.Attribute.Type == schema.Complex:
		return e.merged(t, terms, value)
	}
	return e.normalizeElement(t.String(), t.Attribute, value)
}

// normalizeElement normalizes a single value.
func (e *editor) normalizeElement(path string, a *schema.Attribute, value any) (any, error) {
	normal, err := schema.NormalizeElement(path, a, value, e.quirks.Leniency)
	if err != nil {
		return nil, err
	}
	return withoutReference(a, normal), nil
}

// normalizeList normalizes the values of a multi-valued attribute.
func (e *editor) normalizeList(path string, a *schema.Attribute, value any) ([]any, error) {
	normal, err := schema.NormalizeValue(path, a, value, e.quirks.Leniency)
	if err != nil {
		return nil, err
	}
	items, _ := normal.([]any)
	var kept []any
	for _, item := range items {
		if item = withoutReference(a, item); item != nil {
			kept = append(kept, item)
		}
	}
	return kept, nil
}

// withoutReference removes $ref if it is derived from "value": a value sent by a client could differ.
func withoutReference(a *schema.Attribute, normal any) any {
	element, ok := normal.(map[string]any)
	if !ok {
		return normal
	}
	for _, sub := range a.SubAttributes {
		if derived(a, sub) {
			delete(element, sub.Name)
		}
	}
	if len(element) == 0 {
		return nil
	}
	return element
}

// derived reports whether a sub-attribute is the URL of the resource whose id is "value".
func derived(a, sub *schema.Attribute) bool {
	return sub.Name == "$ref" && len(sub.ReferenceTypes) > 0 && a.Value() != nil
}

// keyed reports whether the elements of an attribute are identified by an immutable "value", such as the
// members of a group.
func keyed(a *schema.Attribute) bool {
	return a.Type == schema.Complex && a.Value() != nil && a.Value().Mutability == schema.Immutable
}

// overlaid returns an element with the sub-attributes of another one with the same value. Immutable
// sub-attributes may differ, because the display name that a client sends may be stale.
func overlaid(old, given map[string]any) map[string]any {
	next := copied(old)
	maps.Copy(next, given)
	return next
}

func isPrimary(item any) bool {
	element, _ := item.(map[string]any)
	return element["primary"] == true
}

// immutableError is the error for a change of an immutable attribute that has values.
func immutableError(ref schema.Ref) error {
	return cannotChange(schema.Ref{Extension: ref.Extension, Attribute: ref.Attribute}.String())
}

// twoPrimaries is the error for an operation that makes more than one element primary.
func twoPrimaries(ref schema.Ref) error {
	return scimerror.Bad(scimerror.InvalidValue, "%s: primary would be true for more than one value", ref)
}
