package filter

import (
	"cmp"
	"math"
	"net/http"

	"github.com/quoin-dev/quoin/apiserver/scim/schema"
	"github.com/quoin-dev/quoin/apiserver/scim/scimerror"
	"github.com/quoin-dev/quoin/internal/fold"
)

// SortKey is the value of an attribute in the form that sorts. It is comparable, and small as
// JSON so that it may stand in a cursor. The zero SortKey is no value. Keys of one attribute
// have at most one of Text, Number and Integer.
type SortKey struct {
	Present bool `json:"p,omitempty"`
	// Text is in its Fold unless the attribute is caseExact. A dateTime is its UTC form.
	Text   string  `json:"t,omitempty"`
	Number float64 `json:"n,omitempty"`
	// Integer is 1 for true.
	Integer int64 `json:"i,omitempty"`
}

// Compare orders the keys of one attribute: ascending, what has no value last (RFC 7644 section
// 3.4.2.3).
func Compare(a, b SortKey) int {
	if a.Present != b.Present {
		if a.Present {
			return -1
		}
		return 1
	}
	return cmp.Or(cmp.Compare(a.Integer, b.Integer), cmp.Compare(a.Number, b.Number), cmp.Compare(a.Text, b.Text))
}

// Sortable tells whether resources can be sorted by an attribute. They can not, with a 400
// invalidPath, by what is complex and has no "value", and by references to other resources,
// such as members: no one of them is the primary one, and their order is nobody's. They can not,
// with a 403 sensitive, by what is never returned.
func Sortable(ref schema.Ref) error {
	a := ref.Attribute
	if a == nil {
		return scimerror.Bad(scimerror.InvalidPath, "%s is a schema: it can not be sorted by", ref)
	}
	leaf := sortLeaf(ref)
	if isSensitive(schema.Ref{Attribute: a, Sub: leaf}) {
		return &scimerror.Error{Status: http.StatusForbidden, Type: scimerror.Sensitive, Detail: ref.String() + " can not be sorted by"}
	}
	if leaf == nil || leaf.Type == schema.Complex {
		return scimerror.Bad(scimerror.InvalidPath, "%s has sub-attributes: name the one to sort by", ref)
	}
	if a.MultiValued && a.Sub("primary") == nil && a.Sub("$ref") != nil {
		return scimerror.Bad(scimerror.InvalidPath, "%s is a list of references: it can not be sorted by", ref)
	}
	return nil
}

// sortLeaf is what counts: of a complex attribute its "value". Nil when there is none.
func sortLeaf(ref schema.Ref) *schema.Attribute {
	if ref.Attribute != nil && ref.Sub == nil && ref.Attribute.Type == schema.Complex {
		return ref.Attribute.Value()
	}
	return ref.Leaf()
}

// KeyOf is the key of a resource by an attribute that is Sortable. Of many values the primary
// one counts, or else the first.
func KeyOf(src schema.Source, ref schema.Ref) SortKey {
	leaf := sortLeaf(ref)
	if leaf == nil {
		return SortKey{}
	}
	value := src.Get(ref)
	if list, ok := value.([]any); ok {
		value = primary(list)
	}
	if element, ok := value.(map[string]any); ok {
		value = element[leaf.Name]
	}
	if list, ok := value.([]any); ok {
		value = primary(list)
	}
	return keyOf(value, leaf)
}

func primary(list []any) any {
	for _, item := range list {
		if element, ok := item.(map[string]any); ok && element["primary"] == true {
			return item
		}
	}
	if len(list) == 0 {
		return nil
	}
	return list[0]
}

func keyOf(value any, a *schema.Attribute) SortKey {
	switch value := value.(type) {
	case string:
		return textKey(value, a)
	case bool:
		if value {
			return SortKey{Present: true, Integer: 1}
		}
		return SortKey{Present: true}
	case int64:
		return SortKey{Present: true, Integer: value}
	case float64:
		if !math.IsNaN(value) && !math.IsInf(value, 0) {
			return SortKey{Present: true, Number: value}
		}
	}
	return SortKey{}
}

func textKey(value string, a *schema.Attribute) SortKey {
	if value == "" {
		return SortKey{}
	}
	if a.Type == schema.DateTime {
		t, err := schema.ParseDateTime(value)
		if err != nil {
			return SortKey{}
		}
		// Of equal length, so that texts sort as times.
		return SortKey{Present: true, Text: t.UTC().Format("2006-01-02T15:04:05.000000000Z")}
	}
	if !a.CaseExact {
		value = fold.Case(value)
	}
	return SortKey{Present: true, Text: value}
}
