package patch

import (
	"maps"
	"reflect"
	"slices"

	"github.com/quoin-dev/quoin/apiserver/scim/schema"
	"github.com/quoin-dev/quoin/internal/fold"
)

// equal reports whether two values of documents are equal. It does not compare Sets.
func equal(x, y any) bool {
	switch x := x.(type) {
	case map[string]any:
		y, ok := y.(map[string]any)
		return ok && maps.EqualFunc(x, y, equal)
	case []any:
		y, ok := y.([]any)
		return ok && slices.EqualFunc(x, y, equal)
	}
	return reflect.DeepEqual(x, y)
}

// copied returns a shallow copy of an object; never nil.
func copied(object map[string]any) map[string]any {
	next := make(map[string]any, len(object)+1)
	maps.Copy(next, object)
	return next
}

// union returns the distinct values of two multi-valued sub-attributes; nil if there are none.
func union(old, given any) any {
	values, _ := old.([]any)
	values = slices.Clone(values)
	added, _ := given.([]any)
	for _, v := range added {
		if !slices.ContainsFunc(values, func(u any) bool { return equal(u, v) }) {
			values = append(values, v)
		}
	}
	if len(values) == 0 {
		return nil
	}
	return values
}

// positions are the indexes of elements by identity. They avoid quadratic comparisons of large lists.
type positions map[any][]int

func (p positions) add(item any, at int) {
	id := identity(item)
	p[id] = append(p[id], at)
}

// identity returns a key that equal elements have in common: their value, or nil if it is not comparable.
func identity(item any) any {
	if element, ok := item.(map[string]any); ok {
		item = element["value"]
	}
	switch item.(type) {
	case string, bool, int64, float64:
		return item
	}
	return nil
}

// folded returns the identity of an element, case-folded unless its value is case-exact.
func folded(a *schema.Attribute, item any) any {
	value := a
	if a.Type == schema.Complex {
		if value = a.Value(); value == nil {
			return nil
		}
	}
	id := identity(item)
	if text, ok := id.(string); ok && !value.CaseExact {
		return fold.Case(text)
	}
	return id
}
