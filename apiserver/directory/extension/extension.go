package extension

import (
	"bytes"
	"encoding/json"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strings"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"

	"github.com/quoin-dev/quoin/api/v1alpha1"
	"github.com/quoin-dev/quoin/apiserver/scim/schema"
)

// Read returns the attributes of a declared schema in stored extensions, without user attributes. It omits values that do not
// conform to the declaration: the object may predate it or come from a manifest.
func Read(s *schema.Schema, stored []v1alpha1.ScimExtension) map[string]any {
	i := indexOf(s, stored)
	if i < 0 {
		return nil
	}
	raw := decode(stored[i])
	values := make(map[string]any, len(raw))
	for name, value := range raw {
		if a := s.Attribute(name); a != nil && !a.IsUserAttribute {
			if normal, err := schema.NormalizeValue(a.Name, a, value, schema.Leniency{}); err == nil && normal != nil {
				values[a.Name] = normal
			}
		}
	}
	return values
}

func indexOf(s *schema.Schema, stored []v1alpha1.ScimExtension) int {
	return slices.IndexFunc(stored, func(e v1alpha1.ScimExtension) bool { return strings.EqualFold(e.Schema, s.ID) })
}

// decode returns the stored attributes of an extension; nil if they are not an object. Numbers keep
// their notation, so that undeclared attributes are written unchanged.
func decode(e v1alpha1.ScimExtension) map[string]any {
	var raw map[string]any
	decoder := json.NewDecoder(bytes.NewReader(e.Attributes.Raw))
	decoder.UseNumber()
	if err := decoder.Decode(&raw); err != nil {
		return nil
	}
	return raw
}

// Write sets the attributes of a declared schema in stored extensions. Undeclared attributes are
// unchanged, and user attributes are ignored: they are stored elsewhere.
func Write(s *schema.Schema, to *[]v1alpha1.ScimExtension, all map[string]any) error {
	var values map[string]any
	for name, value := range all {
		if a := s.Attribute(name); a == nil || !a.IsUserAttribute {
			if values == nil {
				values = make(map[string]any, len(all))
			}
			values[name] = value
		}
	}
	if old := Read(s, *to); len(old) == 0 && len(values) == 0 || reflect.DeepEqual(old, values) {
		return nil
	}
	i := indexOf(s, *to)
	var raw map[string]any
	if i >= 0 {
		raw = decode((*to)[i])
		maps.DeleteFunc(raw, func(name string, _ any) bool {
			a := s.Attribute(name)
			return a != nil && !a.IsUserAttribute
		})
	}
	if raw == nil {
		raw = map[string]any{}
	}
	maps.Copy(raw, values)
	if len(raw) == 0 {
		*to = slices.Delete(*to, i, i+1)
		return nil
	}
	data, err := json.Marshal(raw)
	if err != nil {
		return fmt.Errorf("encode %s: %w", s.ID, err)
	}
	if i < 0 {
		*to = append(*to, v1alpha1.ScimExtension{Schema: s.ID})
		i = len(*to) - 1
	}
	(*to)[i].Attributes = apiextensionsv1.JSON{Raw: data}
	return nil
}
