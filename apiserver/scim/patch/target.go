package patch

import (
	"slices"
	"strings"

	"github.com/quoin-dev/quoin/apiserver/scim/filter"
	"github.com/quoin-dev/quoin/apiserver/scim/schema"
	"github.com/quoin-dev/quoin/apiserver/scim/scimerror"
)

// target is the resolved path of an operation.
type target struct {
	schema.Ref
	// selects matches elements of a multi-valued attribute; nil without brackets.
	selects *filter.ElementPredicate
	// brackets is the source of selects.
	brackets filter.Expression
}

// readOnly reports whether clients may not change the target. schemas is read-only, because it is derived
// from the extensions with attributes.
func (t target) readOnly() bool {
	if t.Attribute == nil {
		return false
	}
	return t.Attribute.Mutability == schema.ReadOnly || t.Leaf().Mutability == schema.ReadOnly ||
		t.Extension == "" && t.Attribute.Name == "schemas"
}

// hidden reports whether values of the target are accepted and dropped.
func (t target) hidden() bool {
	return t.Attribute != nil && (t.Attribute.Hidden || t.Leaf().Hidden)
}

// elements reports whether the target is elements of a multi-valued attribute or a sub-attribute of them,
// and not the whole attribute.
func (t target) elements() bool {
	return t.Attribute != nil && t.Attribute.MultiValued && (t.selects != nil || t.Sub != nil)
}

// resolve returns the target of a path. Errors are invalidPath and invalidFilter.
func (e *editor) resolve(path string) (target, error) {
	if extension := e.t.Extension(path); extension != nil {
		return target{Ref: schema.Ref{Extension: extension.ID}}, nil
	}
	parsed, err := e.quirks.Filters.ParsePath(path)
	if err != nil {
		return target{}, err
	}
	ref, ok := parsed.Resolve(e.t)
	if !ok {
		return target{}, scimerror.Bad(scimerror.InvalidPath, "%s is not an attribute of %s", scimerror.Quote(path), e.t.Name)
	}
	if parsed.Filter == nil {
		return target{Ref: ref}, nil
	}
	if ref.Attribute == nil || !ref.Attribute.MultiValued {
		return target{}, scimerror.Bad(scimerror.InvalidPath, "%s: is not multi-valued: a filter in brackets is not allowed", ref)
	}
	brackets := parsed.Filter
	if e.quirks.StringBooleans {
		brackets = unquoteBooleans(brackets, ref.Attribute)
	}
	selects, err := filter.CompileElement(brackets, asComplex(ref.Attribute))
	return target{Ref: ref, selects: selects, brackets: brackets}, err
}

// resolveKey returns the target of a key in a value without a path, and false for a key to ignore.
func (e *editor) resolveKey(key string) (target, bool, error) {
	if ref, ok := e.t.Resolve("", key, ""); ok {
		return target{Ref: ref}, true, nil
	}
	if extension := e.t.Extension(key); extension != nil {
		return target{Ref: schema.Ref{Extension: extension.ID}}, true, nil
	}
	if e.quirks.QualifiedKeys && strings.ContainsAny(key, ".:[") {
		if t, err := e.resolve(key); err == nil {
			return t, true, nil
		}
	}
	if e.quirks.ForeignSchemas && e.isForeign(key) {
		return target{}, false, nil // as schema.Normalize does
	}
	return target{}, false, scimerror.Bad(scimerror.InvalidSyntax, "%s is not an attribute of %s", scimerror.Quote(key), e.t.Name)
}

// isForeign reports whether a key belongs to an unknown schema. An unknown attribute of a known schema is
// an error.
func (e *editor) isForeign(key string) bool {
	if !strings.Contains(key, ":") || strings.Contains(key, "[") {
		return false
	}
	urns := []string{e.t.Core.ID}
	for _, extension := range e.t.Extensions {
		urns = append(urns, extension.Schema.ID)
	}
	return !slices.ContainsFunc(urns, func(urn string) bool {
		return len(key) > len(urn) && strings.EqualFold(key[:len(urn)], urn)
	})
}

// asComplex returns a multi-valued attribute for use in a filter in brackets, where simple values have the
// name "value" (RFC 7644 section 3.4.2.2).
func asComplex(a *schema.Attribute) *schema.Attribute {
	if a.Type == schema.Complex {
		return a
	}
	value := *a
	value.Name, value.MultiValued = "value", false
	return &schema.Attribute{
		Name: a.Name, Type: schema.Complex, MultiValued: true, Mutability: a.Mutability, Returned: a.Returned,
		SubAttributes: []*schema.Attribute{&value},
	}
}

// asElement returns a value of a multi-valued attribute for use in a filter in brackets.
func asElement(item any) map[string]any {
	if element, ok := item.(map[string]any); ok {
		return element
	}
	return map[string]any{"value": item}
}

// unquoteBooleans returns a filter with booleans in place of strings: Entra ID sends
// roles[primary eq "True"].value.
func unquoteBooleans(e filter.Expression, a *schema.Attribute) filter.Expression {
	switch e := e.(type) {
	case *filter.And:
		return &filter.And{Left: unquoteBooleans(e.Left, a), Right: unquoteBooleans(e.Right, a)}
	case *filter.Or:
		return &filter.Or{Left: unquoteBooleans(e.Left, a), Right: unquoteBooleans(e.Right, a)}
	case *filter.Not:
		return &filter.Not{Operand: unquoteBooleans(e.Operand, a)}
	case *filter.Comparison:
		sub := a.Sub(e.Path.Name)
		if _, quoted := e.Value.(string); !quoted || sub == nil || sub.Type != schema.Boolean {
			return e
		}
		value, err := schema.NormalizeElement(sub.Name, sub, e.Value, schema.Leniency{StringBooleans: true})
		if err != nil {
			return e // compiling the filter returns the error
		}
		return &filter.Comparison{Path: e.Path, Operator: e.Operator, Value: value, At: e.At}
	}
	return e
}

// equalities returns the values of a filter that consists only of eq terms joined by and; false for all
// other filters.
func equalities(e filter.Expression, a *schema.Attribute) (map[string]any, bool) {
	found := map[string]any{}
	var walk func(filter.Expression) bool
	walk = func(e filter.Expression) bool {
		switch e := e.(type) {
		case *filter.And:
			return walk(e.Left) && walk(e.Right)
		case *filter.Comparison:
			sub := a.Sub(e.Path.Name)
			if e.Operator != filter.Equal || sub == nil || sub.Mutability == schema.ReadOnly || e.Path.Sub != "" || e.Path.URN != "" {
				return false
			}
			value, err := schema.NormalizeElement(sub.Name, sub, e.Value, schema.Leniency{})
			if other, duplicate := found[sub.Name]; err != nil || value == nil || duplicate && !equal(other, value) {
				return false
			}
			found[sub.Name] = value
			return true
		}
		return false
	}
	return found, walk(e)
}
