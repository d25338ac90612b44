package patch

import (
	"maps"

	"github.com/quoin-dev/quoin/apiserver/scim/schema"
	"github.com/quoin-dev/quoin/apiserver/scim/scimerror"
)

// elements are the values of a multi-valued attribute: a list in the document, or a Set.
type elements interface {
	// add puts in what is not there yet.
	add(given []any) error
	// replace leaves what is given and nothing else.
	replace(given []any) error
	// remove takes out what the listed name.
	remove(listed []any) error
	// clear takes out all.
	clear() error
	// change gives elements that the target selects, or all when it selects none, the value that
	// with makes of them, and takes out those that it makes nil of. It returns how many it met.
	change(t target, with func(old any) (any, error)) (met int, err error)
}

// many is the values of a multi-valued attribute.
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
	met, err := e.many(t.Ref).change(t, func(old any) (any, error) {
		switch {
		case t.Sub != nil:
			return e.withSub(op, t, old, value)
		case op == replace:
			return e.replaced(t, old, value)
		case value == nil:
			return old, nil // there is nothing to add
		case t.Attribute.Type == schema.Complex:
			return e.merged(t, old, value)
		}
		return e.normalizeElement(t.String(), t.Attribute, value)
	})
	if met > 0 || err != nil {
		return err
	}
	created, err := e.created(op, t, value)
	if err != nil || created == nil {
		return err
	}
	return e.many(t.Ref).add([]any{created})
}

// created is the element that an add or replace makes when there is none that it could change;
// nil when the value stands for none.
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

// normalizeElement makes one value canonical.
func (e *editor) normalizeElement(path string, a *schema.Attribute, value any) (any, error) {
	normal, err := schema.NormalizeElement(path, a, value, e.quirks.Leniency)
	if err != nil {
		return nil, err
	}
	return withoutReference(a, normal), nil
}

// normalizeList makes the values of a multi-valued attribute canonical.
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

// withoutReference drops the address of what an element is the id of: it follows from the id,
// and a client that sends another one would be believed.
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

// derived tells whether a sub-attribute is the address of the resource that "value" is the id of.
func derived(a, sub *schema.Attribute) bool {
	return sub.Name == "$ref" && len(sub.ReferenceTypes) > 0 && a.Value() != nil
}

// keyed tells whether the elements of an attribute are told apart by their "value", which then
// never changes: the members of a group.
func keyed(a *schema.Attribute) bool {
	return a.Type == schema.Complex && a.Value() != nil && a.Value().Mutability == schema.Immutable
}

// overlaid is an element with what another one, of the same value, says. Immutable parts may
// differ: the name that a client has for a member gets old.
func overlaid(old, given map[string]any) map[string]any {
	next := copied(old)
	maps.Copy(next, given)
	return next
}

func isPrimary(item any) bool {
	element, _ := item.(map[string]any)
	return element["primary"] == true
}

// fixed refuses to change an immutable attribute that has values.
func fixed(ref schema.Ref) error {
	return cannotChange(schema.Ref{Extension: ref.Extension, Attribute: ref.Attribute}.String())
}

// twoPrimaries refuses an operation that makes more than one element primary.
func twoPrimaries(ref schema.Ref) error {
	return scimerror.Bad(scimerror.InvalidValue, "%s: primary would be true for more than one value", ref)
}
