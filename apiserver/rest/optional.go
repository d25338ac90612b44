package rest

import (
	"encoding/json"
	"reflect"

	"github.com/danielgtaylor/huma/v2"

	"github.com/quoin-dev/quoin/internal/displayname"
)

// Optional is a path, query or header parameter that may be absent. Its schema is that of T.
type Optional[T any] struct {
	Value T
	IsSet bool
}

// Schema implements huma.SchemaProvider.
func (o Optional[T]) Schema(r huma.Registry) *huma.Schema {
	return huma.SchemaFromType(r, reflect.TypeFor[T]())
}

// Receiver implements huma.ParamWrapper.
func (o *Optional[T]) Receiver() reflect.Value { return reflect.ValueOf(o).Elem().Field(0) }

// OnParamSet implements huma.ParamReactor.
func (o *Optional[T]) OnParamSet(isSet bool, _ any) { o.IsSet = isSet }

// DisplayName is a name that users see. Its pattern is checked before handlers run.
type DisplayName string

// Schema implements huma.SchemaProvider.
func (DisplayName) Schema(huma.Registry) *huma.Schema {
	return &huma.Schema{Type: huma.TypeString, Pattern: displayname.Pattern, PatternDescription: displayname.PatternDescription}
}

// NilIfEmpty returns a pointer to text, or nil for the empty string.
func NilIfEmpty(text string) *string {
	if text == "" {
		return nil
	}
	return &text
}

// SuccessOutput is the response of operations without a result.
type SuccessOutput struct {
	Body struct {
		Success bool `json:"success"`
	}
}

// Success returns the response of a successful operation without a result.
func Success() *SuccessOutput {
	out := &SuccessOutput{}
	out.Body.Success = true
	return out
}

// OrNull returns the schema of an object that a body may have, for huma.SchemaTransformer: null is accepted, and the same as
// absent. The library accepts it, but does not document it for objects.
func OrNull(s *huma.Schema) *huma.Schema {
	s.Nullable = true
	return s
}

// Nullable is a property of a body that may be absent or null. Its schema is that of T.
type Nullable[T any] struct {
	// Given reports whether the property is present.
	Given bool
	// Value is nil if the property is absent or null.
	Value *T
}

// UnmarshalJSON implements json.Unmarshaler.
func (n *Nullable[T]) UnmarshalJSON(data []byte) error {
	n.Given = true
	return json.Unmarshal(data, &n.Value)
}

// Schema implements huma.SchemaProvider.
func (Nullable[T]) Schema(r huma.Registry) *huma.Schema {
	s := *huma.SchemaFromType(r, reflect.TypeFor[T]())
	s.Nullable = true
	return &s
}
