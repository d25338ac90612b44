package schema

import (
	"fmt"
	"maps"
	"slices"

	"github.com/quoin-dev/quoin/apiserver/scim/scimerror"
)

func (t *ResourceType) checkSchemas(value any, l Leniency) error {
	if value == nil {
		return nil
	}
	list, ok := value.([]any)
	if !ok {
		return wrongType("schemas", "a list of URNs", value)
	}
	core := len(list) == 0
	for i, item := range list {
		urn, ok := item.(string)
		switch {
		case !ok:
			return wrongType(fmt.Sprintf("schemas[%d]", i), "a URN", item)
		case SameName(t.Core.ID, urn):
			core = true
		case t.Extension(urn) == nil && !l.ForeignSchemas:
			return scimerror.Bad(scimerror.InvalidSyntax, "schemas[%d]: %s is not a schema of %s; see /Schemas", i, scimerror.Quote(urn), t.Name)
		}
	}
	if !core {
		return scimerror.Bad(scimerror.InvalidSyntax, "schemas: must contain %s", t.Core.ID)
	}
	return nil
}

// CheckMessage returns an error unless the schemas of a message are absent, as those of a resource may be, or
// contain urn.
func CheckMessage(value any, urn string) error {
	list, isList := value.([]any)
	if value == nil || isList && len(list) == 0 || slices.ContainsFunc(list, func(item any) bool {
		s, ok := item.(string)
		return ok && SameName(urn, s)
	}) {
		return nil
	}
	return scimerror.Bad(scimerror.InvalidSyntax, "schemas: must be [%q]", urn)
}

// NormalizeExtension normalizes the object under the URN of an extension; nil if it has no values.
func NormalizeExtension(s *Schema, value any, l Leniency) (any, error) {
	if value == nil {
		return nil, nil
	}
	object, ok := value.(map[string]any)
	if !ok {
		return nil, wrongType(s.ID, "an object", value)
	}
	if name := s.redundant(object); name != "" {
		object = maps.Clone(object)
		delete(object, name)
	}
	normal, err := normalizeObject(s.ID+":", s.Attributes, object, l)
	if len(normal) == 0 || err != nil {
		return nil, err
	}
	return normal, nil
}

// NamesOnly reports whether a member of the object under the URN of an extension is "schemas" with that URN.
// Libraries that represent an extension as a resource, such as scim2-client, send it. RFC 7643 section 3 defines
// the attribute for resources; here it repeats the URN, and is ignored.
func (s *Schema) NamesOnly(name string, value any) bool {
	if !SameName("schemas", name) || s.Attribute(name) != nil {
		return false
	}
	list, ok := value.([]any)
	return ok && !slices.ContainsFunc(list, func(item any) bool {
		urn, isText := item.(string)
		return !isText || !SameName(s.ID, urn)
	})
}

// redundant returns the name of the member for which NamesOnly is true; empty if there is none.
func (s *Schema) redundant(object map[string]any) string {
	for name, value := range object {
		if s.NamesOnly(name, value) {
			return name
		}
	}
	return ""
}
