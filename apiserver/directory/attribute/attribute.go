// Package attribute maps user attributes to SCIM: the UserAttributes of an account to the attributes of a schema extension,
// and the values in a ScimUser to those of a document.
package attribute

import (
	"encoding/json"
	"maps"
	"reflect"
	"slices"

	"github.com/quoin-dev/quoin/api/v1alpha1"
	"github.com/quoin-dev/quoin/apiserver/scim/schema"
	"github.com/quoin-dev/quoin/apiserver/scim/scimerror"
	"github.com/quoin-dev/quoin/internal/userattribute"
)

// types are the SCIM types of single values and of the items of lists.
var types = map[v1alpha1.UserAttributeType]schema.Type{
	v1alpha1.UserAttributeString: schema.String, v1alpha1.UserAttributeStringArray: schema.String,
	v1alpha1.UserAttributeNumber: schema.Decimal, v1alpha1.UserAttributeNumberArray: schema.Decimal,
	v1alpha1.UserAttributeBoolean: schema.Boolean,
}

// Extend returns the resource type User with the attributes of an account in the extension schema.UserAttributeURN. They take
// precedence over attributes that the Account declares under this URN, and the type is not modified.
func Extend(user *schema.ResourceType, attributes []*v1alpha1.UserAttribute) *schema.ResourceType {
	if len(attributes) == 0 {
		return user
	}
	s := &schema.Schema{ID: schema.UserAttributeURN, Name: "UserAttribute", Description: "User attributes of the account"}
	for _, a := range attributes {
		s.Attributes = append(s.Attributes, attributeOf(a))
	}
	extended := *user
	extended.Extensions = slices.Clone(user.Extensions)
	i := slices.IndexFunc(extended.Extensions, func(e schema.Extension) bool { return schema.SameName(schema.UserAttributeURN, e.Schema.ID) })
	if i < 0 {
		extended.Extensions = append(extended.Extensions, schema.Extension{Schema: s})
		return &extended
	}
	declared := extended.Extensions[i].Schema
	s.ID, s.Name, s.Description = declared.ID, declared.Name, declared.Description
	for _, a := range declared.Attributes {
		if s.Attribute(a.Name) == nil {
			s.Attributes = append(s.Attributes, a)
		}
	}
	extended.Extensions[i].Schema = s
	return &extended
}

// attributeOf returns the SCIM attribute of a UserAttribute.
func attributeOf(a *v1alpha1.UserAttribute) *schema.Attribute {
	t := types[a.Spec.Type]
	description := a.Spec.Description
	if description == "" {
		description = a.Spec.DisplayName
	}
	return &schema.Attribute{
		Name: string(a.Spec.Name), Type: t, Description: description, CaseExact: t == schema.String,
		MultiValued: a.Spec.Type == v1alpha1.UserAttributeStringArray || a.Spec.Type == v1alpha1.UserAttributeNumberArray,
		Mutability:  schema.ReadWrite, Returned: schema.Default, Uniqueness: "none", IsUserAttribute: true,
	}
}

// Read returns the values of the user attributes of a schema as in a document. It omits values of another type and empty lists,
// which SCIM does not distinguish from no value.
func Read(s *schema.Schema, stored []v1alpha1.UserAttributeValue) map[string]any {
	var values map[string]any
	for i := range stored {
		a := s.Attribute(string(stored[i].Name))
		if a == nil || !a.IsUserAttribute || a.Name != string(stored[i].Name) {
			continue
		}
		value, err := schema.NormalizeValue(a.Name, a, generic(&stored[i].UserAttributeContent), schema.Leniency{})
		if err != nil || value == nil {
			continue
		}
		if values == nil {
			values = make(map[string]any, len(stored))
		}
		values[a.Name] = value
	}
	return values
}

// generic returns a value as decoded from JSON.
func generic(c *v1alpha1.UserAttributeContent) any {
	switch value := userattribute.JSON(c).(type) {
	case []string:
		return list(value)
	case []json.Number:
		return list(value)
	default:
		return value
	}
}

func list[T any](items []T) []any {
	converted := make([]any, len(items))
	for i, item := range items {
		converted[i] = item
	}
	return converted
}

// Write sets the values of the user attributes of a schema to those of a document. Values that Read omits are kept unless the
// document has another one.
func Write(s *schema.Schema, to *[]v1alpha1.UserAttributeValue, values map[string]any) error {
	shown := Read(s, *to)
	updated := slices.DeleteFunc(slices.Clone(*to), func(v v1alpha1.UserAttributeValue) bool {
		return shown[string(v.Name)] != nil && values[string(v.Name)] == nil
	})
	for _, name := range slices.Sorted(maps.Keys(values)) {
		a := s.Attribute(name)
		if a == nil || !a.IsUserAttribute || reflect.DeepEqual(shown[name], values[name]) {
			continue
		}
		content, err := userattribute.Parse(typeOf(a), values[name])
		if err != nil {
			return scimerror.Bad(scimerror.InvalidValue, "%s:%s: %s", s.ID, name, err)
		}
		value := v1alpha1.UserAttributeValue{Name: v1alpha1.UserAttributeName(a.Name), UserAttributeContent: content}
		i := slices.IndexFunc(updated, func(v v1alpha1.UserAttributeValue) bool { return v.Name == value.Name })
		if i < 0 {
			updated = append(updated, value)
			continue
		}
		updated[i] = value
	}
	if err := userattribute.CheckSize(updated); err != nil {
		return scimerror.Bad(scimerror.InvalidValue, "%s: %s", s.ID, err)
	}
	if len(updated) == 0 {
		updated = nil
	}
	*to = updated
	return nil
}

// typeOf returns the type of the UserAttribute of a SCIM attribute.
func typeOf(a *schema.Attribute) v1alpha1.UserAttributeType {
	for t, scimType := range types {
		isList := t == v1alpha1.UserAttributeStringArray || t == v1alpha1.UserAttributeNumberArray
		if scimType == a.Type && isList == a.MultiValued {
			return t
		}
	}
	return ""
}
