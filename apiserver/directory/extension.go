package directory

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

// readExtensions adds the extensions that the account declares and that have no row in a table.
// What is in the object under other URNs is not shown.
func (c *collection[T, S]) readExtensions(t *schema.ResourceType, kept []v1alpha1.ScimExtension, d schema.Document) {
	for _, e := range t.Extensions {
		if c.table.byName[e.Schema.ID] != nil {
			continue
		}
		if values := readExtension(e.Schema, kept); len(values) > 0 {
			d[e.Schema.ID] = values
		}
	}
}

// readExtension is what is kept of a declared schema. What does not fit the declaration is left
// out: the object may be older than it, or written by hand.
func readExtension(s *schema.Schema, kept []v1alpha1.ScimExtension) map[string]any {
	i := indexOf(s, kept)
	if i < 0 {
		return nil
	}
	raw := decode(kept[i])
	shown := make(map[string]any, len(raw))
	for name, value := range raw {
		if a := s.Attribute(name); a != nil {
			if normal, err := schema.NormalizeValue(a.Name, a, value, schema.Leniency{}); err == nil && normal != nil {
				shown[a.Name] = normal
			}
		}
	}
	return shown
}

func indexOf(s *schema.Schema, kept []v1alpha1.ScimExtension) int {
	return slices.IndexFunc(kept, func(e v1alpha1.ScimExtension) bool { return strings.EqualFold(e.Schema, s.ID) })
}

// decode reads the attributes of an extension as they are kept; nil when they are no object.
// Numbers stay as they are written: what is not ours goes back unchanged.
func decode(e v1alpha1.ScimExtension) map[string]any {
	var raw map[string]any
	decoder := json.NewDecoder(bytes.NewReader(e.Attributes.Raw))
	decoder.UseNumber()
	if err := decoder.Decode(&raw); err != nil {
		return nil
	}
	return raw
}

// writeExtensions makes the declared extensions what a document says. Attributes that are not
// declared stay as they are.
func (c *collection[T, S]) writeExtensions(t *schema.ResourceType, to *[]v1alpha1.ScimExtension, d schema.Document) error {
	for _, e := range t.Extensions {
		if c.table.byName[e.Schema.ID] != nil {
			continue
		}
		wanted, _ := d[e.Schema.ID].(map[string]any)
		if shown := readExtension(e.Schema, *to); len(shown) == 0 && len(wanted) == 0 || reflect.DeepEqual(shown, wanted) {
			continue
		}
		if err := writeExtension(e.Schema, to, wanted); err != nil {
			return err
		}
	}
	return nil
}

func writeExtension(s *schema.Schema, to *[]v1alpha1.ScimExtension, wanted map[string]any) error {
	i := indexOf(s, *to)
	var raw map[string]any
	if i >= 0 {
		raw = decode((*to)[i])
		maps.DeleteFunc(raw, func(name string, _ any) bool { return s.Attribute(name) != nil })
	}
	if raw == nil {
		raw = map[string]any{}
	}
	maps.Copy(raw, wanted)
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
