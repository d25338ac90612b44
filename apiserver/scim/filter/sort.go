package filter

import (
	"cmp"
	"math"
	"net/http"

	"github.com/quoin-dev/quoin/apiserver/scim/schema"
	"github.com/quoin-dev/quoin/apiserver/scim/scimerror"
	"github.com/quoin-dev/quoin/internal/fold"
)

// SortKey is the value of an attribute for sorting. It is comparable, and compact in JSON because it is part
// of cursors. The zero SortKey means no value. All keys of one attribute use the same one of Text, Number
// and Integer.
type SortKey struct {
	Present bool `json:"p,omitempty"`
	// Text is case-folded unless the attribute is caseExact. A dateTime is in UTC.
	Text   string  `json:"t,omitempty"`
	Number float64 `json:"n,omitempty"`
	// Integer is an integer, or 1 for true.
	Integer int64 `json:"i,omitempty"`
}

// Compare compares two keys of one attribute: ascending, no value last (RFC 7644 section 3.4.2.3).
func Compare(a, b SortKey) int {
	if a.Present != b.Present {
		if a.Present {
			return -1
		}
		return 1
	}
	return cmp.Or(cmp.Compare(a.Integer, b.Integer), cmp.Compare(a.Number, b.Number), cmp.Compare(a.Text, b.Text))
}

// Sortable returns an error if resources cannot be sorted by an attribute: 400 invalidPath for complex
// attributes without "value" and for lists of references, such as members, which have neither a primary
// element nor an order, and for URLs of resources; 403 sensitive for attributes that are never returned.
func Sortable(ref schema.Ref) error {
	a := ref.Attribute
	if a == nil {
		return scimerror.Bad(scimerror.InvalidPath, "%s is a schema: it cannot be sorted by", ref)
	}
	leaf := sortLeaf(ref)
	if isSensitive(schema.Ref{Attribute: a, Sub: leaf}) {
		return &scimerror.Error{Status: http.StatusForbidden, Type: scimerror.Sensitive, Detail: ref.String() + " cannot be sorted by"}
	}
	if isURL(ref) {
		return scimerror.Bad(scimerror.InvalidPath, "%s is a URL of this service: it cannot be sorted by", ref)
	}
	if leaf == nil || leaf.Type == schema.Complex {
		return scimerror.Bad(scimerror.InvalidPath, "%s has sub-attributes: name the one to sort by", ref)
	}
	if a.MultiValued && a.Sub("primary") == nil && a.Sub("$ref") != nil {
		return scimerror.Bad(scimerror.InvalidPath, "%s is a list of references: it cannot be sorted by", ref)
	}
	return nil
}

// sortLeaf returns the attribute whose value is compared: "value" of a complex attribute; nil if there is none.
func sortLeaf(ref schema.Ref) *schema.Attribute {
	if ref.Attribute != nil && ref.Sub == nil && ref.Attribute.Type == schema.Complex {
		return ref.Attribute.Value()
	}
	return ref.Leaf()
}

// KeyOf returns the key of a resource for a Sortable attribute. Of several values it uses the primary one, or
// else the first.
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
		// A fixed length, so that the strings sort like the times.
		return SortKey{Present: true, Text: t.UTC().Format("2006-01-02T15:04:05.000000000Z")}
	}
	if !a.CaseExact {
		value = fold.Case(value)
	}
	return SortKey{Present: true, Text: value}
}
