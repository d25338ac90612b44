package patch

import (
	"maps"
	"slices"

	"github.com/quoin-dev/quoin/apiserver/scim/schema"
	"github.com/quoin-dev/quoin/apiserver/scim/scimerror"
)

// assignAll adds or replaces the attributes in a value without a path.
func (e *editor) assignAll(op string, value any) error {
	object, ok := value.(map[string]any)
	if !ok {
		return scimerror.Bad(scimerror.InvalidValue, "the value must be an object of attributes if there is no path")
	}
	for _, key := range slices.Sorted(maps.Keys(object)) {
		if schema.SameName(e.t.Core.ID, key) {
			if err := e.assignAll(op, object[key]); err != nil {
				return err
			}
			continue
		}
		target, ok, err := e.resolveKey(key)
		if err != nil {
			return err
		}
		// Okta sends the id of the group together with its new name. Read-only attributes are ignored
		// (RFC 7644 section 3.5.1).
		if !ok || target.hidden() || target.readOnly() {
			continue
		}
		if err := e.assign(op, target, object[key]); err != nil {
			return err
		}
	}
	return nil
}

// assign adds or replaces the value of a target.
func (e *editor) assign(op string, t target, value any) error {
	if e.unassigns(value) {
		value = nil
	}
	switch {
	case t.Attribute == nil:
		return e.assignExtension(op, t, value)
	case t.elements():
		return e.assignElements(op, t, value)
	case t.Attribute.MultiValued:
		given, err := e.normalizeList(t.String(), t.Attribute, value)
		if err != nil {
			return err
		}
		if op == add {
			return e.many(t.Ref).add(given)
		}
		return e.many(t.Ref).replace(given)
	}
	return e.assignSingle(op, t, value)
}

// assignExtension adds or replaces the attributes of an extension that the value contains.
func (e *editor) assignExtension(op string, t target, value any) error {
	if value == nil {
		return e.unassignExtension(t)
	}
	object, ok := value.(map[string]any)
	if !ok {
		return scimerror.Bad(scimerror.InvalidValue, "%s: must be an object of attributes", t)
	}
	extension := e.t.Extension(t.Extension)
	for _, key := range slices.Sorted(maps.Keys(object)) {
		if extension.NamesOnly(key, object[key]) {
			continue
		}
		attribute := target{Ref: schema.Ref{Extension: t.Extension, Attribute: extension.Attribute(key)}}
		if attribute.Attribute == nil {
			return scimerror.Bad(scimerror.InvalidSyntax, "%s is not an attribute of %s", scimerror.Quote(key), t)
		}
		if attribute.hidden() || attribute.readOnly() {
			continue
		}
		if err := e.assign(op, attribute, object[key]); err != nil {
			return err
		}
	}
	return nil
}

// assignSingle adds or replaces the value of a single-valued attribute. For a complex attribute it adds or
// replaces the sub-attributes in the value and keeps all others (RFC 7644 section 3.5.2.3: "a set of
// sub-attributes … that replaces any existing values or adds").
func (e *editor) assignSingle(op string, t target, value any) error {
	old := e.d.Get(t.Ref)
	var next any
	var err error
	switch {
	case t.Sub != nil:
		next, err = e.withSub(op, t, old, value)
	case t.Attribute.Type == schema.Complex:
		next, err = e.merged(t, old, value)
	default:
		next, err = schema.NormalizeValue(t.String(), t.Attribute, value, e.quirks.Leniency)
	}
	if err != nil {
		return err
	}
	return e.put(t, old, next)
}

// put sets or removes the value of a single-valued attribute.
func (e *editor) put(t target, old, next any) error {
	if next == nil && t.Attribute.Retained {
		return nil
	}
	if old != nil && t.Attribute.Mutability == schema.Immutable && !equal(old, next) {
		return cannotChange(t.String())
	}
	e.d.Put(t.Ref, next)
	return nil
}

// withSub returns a complex value with a new value of the target's sub-attribute; nil if no sub-attribute
// is left.
func (e *editor) withSub(op string, t target, old, value any) (any, error) {
	given, err := schema.NormalizeValue(t.String(), t.Sub, value, e.quirks.Leniency)
	if err != nil {
		return nil, err
	}
	was, _ := old.(map[string]any)
	next := copied(was)
	if t.Sub.MultiValued && op == add {
		given = union(was[t.Sub.Name], given)
	}
	if given == nil {
		delete(next, t.Sub.Name)
	} else {
		next[t.Sub.Name] = given
	}
	return keepImmutable(t, was, next)
}

// merged returns a complex value with the sub-attributes of the sent value; nil if the sent value removes
// it.
func (e *editor) merged(t target, old, value any) (any, error) {
	given, err := e.normalizeElement(t.String(), t.Attribute, value)
	if err != nil {
		return nil, err
	}
	object, named := value.(map[string]any)
	if given == nil && !named {
		return nil, nil
	}
	was, _ := old.(map[string]any)
	now, _ := given.(map[string]any)
	next := copied(was)
	for name := range object {
		// Entra ID sends members that are no sub-attributes.
		if sub := t.Attribute.Sub(name); sub != nil && sub.Mutability != schema.ReadOnly && !derived(t.Attribute, sub) {
			delete(next, sub.Name) // null removes the value
		}
	}
	maps.Copy(next, now)
	return keepImmutable(t, was, next)
}

// replaced returns the replacement of an element. Read-only and immutable sub-attributes that the
// replacement omits are kept.
func (e *editor) replaced(t target, old, value any) (any, error) {
	given, err := e.normalizeElement(t.String(), t.Attribute, value)
	next, complexValue := given.(map[string]any)
	if err != nil || !complexValue {
		return given, err
	}
	was, _ := old.(map[string]any)
	for _, sub := range t.Attribute.SubAttributes {
		fixed := sub.Mutability == schema.Immutable || sub.Mutability == schema.ReadOnly
		if _, has := next[sub.Name]; fixed && !has && was[sub.Name] != nil {
			next[sub.Name] = was[sub.Name]
		}
	}
	return keepImmutable(t, was, next)
}

// keepImmutable returns an error if an immutable sub-attribute with a value changes, and nil for a value
// without sub-attributes.
func keepImmutable(t target, was, next map[string]any) (any, error) {
	for _, sub := range t.Attribute.SubAttributes {
		if value, ok := was[sub.Name]; ok && sub.Mutability == schema.Immutable && !equal(value, next[sub.Name]) {
			return nil, cannotChange(schema.Ref{Extension: t.Extension, Attribute: t.Attribute, Sub: sub}.String())
		}
	}
	if len(next) == 0 {
		return nil, nil
	}
	return next, nil
}

func cannotChange(path string) error {
	return scimerror.Bad(scimerror.Mutability, "%s: is immutable and has another value", path)
}

// unassigns reports whether a value means no value.
func (e *editor) unassigns(value any) bool {
	list, many := value.([]any)
	return value == nil || many && len(list) == 0 || value == "" && e.quirks.EmptyUnassigns
}
