package schema

import (
	"encoding/json"
	"fmt"
	"maps"
	"math"
	"reflect"
	"slices"
	"strconv"
	"strings"

	"github.com/quoin-dev/quoin/apiserver/scim/scimerror"
	"github.com/quoin-dev/quoin/internal/fold"
)

// Leniency is the deviations from the RFCs that are accepted in values. The table of client profiles
// lists the clients that need them.
type Leniency struct {
	// StringBooleans accepts the strings "True" and "false" as booleans.
	StringBooleans bool
	// BareValues accepts a simple value for a complex attribute with a sub-attribute "value", and a single
	// element for a list.
	BareValues bool
	// EmptyUnassigns accepts "" as no value for attributes of all types.
	EmptyUnassigns bool
	// ForeignSchemas ignores unknown schemas and the attributes under their URNs.
	ForeignSchemas bool
	// ForeignSubAttributes ignores unknown sub-attributes of references to resources, such as members.
	ForeignSubAttributes bool
}

// Normalize converts a body decoded by strictjson to a Document: names in canonical spelling, values of
// the types of their attributes. It drops attributes that are read-only, hidden or without a value.
// Errors are 400: invalidSyntax for an unknown attribute, invalidValue for a value of the wrong type.
func (t *ResourceType) Normalize(body map[string]any, l Leniency) (Document, error) {
	d := Document{}
	for _, name := range slices.Sorted(maps.Keys(body)) {
		value := body[name]
		var err error
		switch extension := t.Extension(name); {
		case SameName("schemas", name):
			err = t.checkSchemas(value, l)
		case SameName(t.Core.ID, name):
			err = t.coreByURN(d, value, l)
		case extension != nil:
			err = addExtension(d, extension, value, l)
		case l.ForeignSchemas && strings.Contains(name, ":"):
		default:
			err = t.attribute(d, name, value, l)
		}
		if err != nil {
			return nil, err
		}
	}
	return d, nil
}

// addExtension adds the normalized attributes of an extension. An object without values is added only if there are user attributes:
// it removes their values, and Keep keeps them if the extension is omitted.
func addExtension(d Document, s *Schema, value any, l Leniency) error {
	attributes, err := NormalizeExtension(s, value, l)
	switch {
	case attributes != nil:
		d[s.ID] = attributes
	case err == nil && value != nil && slices.ContainsFunc(s.Attributes, func(a *Attribute) bool { return a.IsUserAttribute }):
		d[s.ID] = map[string]any{}
	}
	return err
}

func (t *ResourceType) coreByURN(d Document, value any, l Leniency) error {
	object, ok := value.(map[string]any)
	if !ok {
		return wrongType(t.Core.ID, "an object", value)
	}
	for _, name := range slices.Sorted(maps.Keys(object)) {
		if err := t.attribute(d, name, object[name], l); err != nil {
			return err
		}
	}
	return nil
}

func (t *ResourceType) attribute(d Document, name string, value any, l Leniency) error {
	ref, ok := t.Resolve("", name, "")
	if !ok {
		return scimerror.Bad(scimerror.InvalidSyntax, "%s is not an attribute of %s", scimerror.Quote(name), t.Name)
	}
	a := ref.Attribute
	if a.Mutability == ReadOnly || a.Hidden {
		return nil
	}
	normal, err := NormalizeValue(a.Name, a, value, l)
	if err != nil {
		return err
	}
	if _, duplicate := d[a.Name]; duplicate {
		return scimerror.Bad(scimerror.InvalidSyntax, "%s: the attribute occurs twice", a.Name)
	}
	d.Put(ref, normal)
	return nil
}

// NormalizeValue normalizes the value of an attribute; nil if there is none. path is used in errors.
func NormalizeValue(path string, a *Attribute, value any, l Leniency) (any, error) {
	if value == nil || value == "" && l.EmptyUnassigns {
		return nil, nil
	}
	if elements, ok := value.(*Elements); ok {
		return elements.normalized(l)
	}
	if !a.MultiValued {
		return NormalizeElement(path, a, value, l)
	}
	list, ok := value.([]any)
	if !ok {
		if _, object := value.(map[string]any); !object && !l.BareValues {
			return nil, wrongType(path, "a list", value)
		}
		list = []any{value}
	}
	normal := make([]any, 0, len(list))
	for i, item := range list {
		element, err := NormalizeElement(path+"["+strconv.Itoa(i)+"]", a, item, l)
		if err != nil {
			return nil, err
		}
		if element != nil {
			normal = append(normal, element)
		}
	}
	if len(normal) == 0 {
		return nil, nil
	}
	normal = Distinct(a, normal)
	return normal, CheckPrimary(path, normal)
}

// Distinct returns a list whose elements have distinct pairs of type and value (RFC 7643 section 2.4): an
// element with the pair of an earlier one is merged into it. Elements without a value are kept. The list and
// its elements are not modified.
func Distinct(a *Attribute, list []any) []any {
	value, kind := a.Value(), a.Sub("type")
	if a.Type != Complex || value == nil || kind == nil {
		return list
	}
	key := func(sub *Attribute, element map[string]any) string {
		s, _ := element[sub.Name].(string)
		if sub.CaseExact {
			return s
		}
		return fold.Case(s)
	}
	first := make(map[[2]string]int, len(list))
	distinct := make([]any, 0, len(list))
	for _, item := range list {
		element, _ := item.(map[string]any)
		pair := [2]string{key(kind, element), key(value, element)}
		at, duplicate := first[pair]
		if !duplicate || pair[1] == "" {
			first[pair] = len(distinct)
			distinct = append(distinct, item)
			continue
		}
		earlier, _ := distinct[at].(map[string]any)
		merged := maps.Clone(earlier)
		maps.Copy(merged, element)
		if earlier["primary"] == true {
			merged["primary"] = true
		}
		distinct[at] = merged
	}
	return distinct
}

// CheckPrimary returns an error for a list with more than one primary value (RFC 7643 section 2.4).
func CheckPrimary(path string, list []any) error {
	found := false
	for _, item := range list {
		element, _ := item.(map[string]any)
		if element["primary"] != true {
			continue
		}
		if found {
			return scimerror.Bad(scimerror.InvalidValue, "%s: primary is true for more than one value", path)
		}
		found = true
	}
	return nil
}

// NormalizeElement normalizes a single value of an attribute, multi-valued or not; nil if there is none.
func NormalizeElement(path string, a *Attribute, value any, l Leniency) (any, error) {
	if value == nil || value == "" && (l.EmptyUnassigns || a.Type != Complex && a.isText()) {
		return nil, nil
	}
	if a.Type == Complex {
		return normalizeComplex(path, a, value, l)
	}
	if a.isText() {
		return a.normalizeText(path, value)
	}
	switch value := value.(type) {
	case bool:
		if a.Type == Boolean {
			return value, nil
		}
	case string:
		if a.Type == Boolean && l.StringBooleans {
			switch strings.ToLower(value) {
			case "true":
				return true, nil
			case "false":
				return false, nil
			}
		}
	case json.Number:
		return a.normalizeNumber(path, value)
	case int64:
		if a.Type == Integer {
			return value, nil
		}
	case float64:
		if a.Type == Decimal {
			return value, nil
		}
	}
	return nil, wrongType(path, "of type "+string(a.Type), value)
}

func (a *Attribute) normalizeNumber(path string, n json.Number) (any, error) {
	switch a.Type {
	case Integer:
		if i, err := strconv.ParseInt(n.String(), 10, 64); err == nil {
			return i, nil
		}
	case Decimal:
		if f, err := n.Float64(); err == nil && !math.IsInf(f, 0) {
			return f, nil
		}
	}
	return nil, wrongType(path, "of type "+string(a.Type), n)
}

func normalizeComplex(path string, a *Attribute, value any, l Leniency) (any, error) {
	object, ok := value.(map[string]any)
	if !ok {
		sub := a.Value()
		if _, list := value.([]any); list || sub == nil || !l.BareValues {
			return nil, wrongType(path, "an object", value)
		}
		object = map[string]any{sub.Name: value}
	}
	if l.ForeignSubAttributes && a.Sub("$ref") != nil {
		object = maps.Clone(object)
		maps.DeleteFunc(object, func(name string, _ any) bool { return a.Sub(name) == nil })
	}
	normal, err := normalizeObject(path+".", a.SubAttributes, object, l)
	if len(normal) == 0 || err != nil {
		return nil, err
	}
	return normal, nil
}

// normalizeObject normalizes the attributes under a path, which ends with a separator.
func normalizeObject(path string, attributes []*Attribute, object map[string]any, l Leniency) (map[string]any, error) {
	normal := make(map[string]any, len(object))
	for _, name := range slices.Sorted(maps.Keys(object)) {
		a := find(attributes, name)
		if a == nil {
			return nil, scimerror.Bad(scimerror.InvalidSyntax, "%s is not an attribute", scimerror.Quote(path+name))
		}
		if a.Mutability == ReadOnly || a.Hidden {
			continue
		}
		v, err := NormalizeValue(path+a.Name, a, object[name], l)
		if err != nil {
			return nil, err
		}
		put(normal, a.Name, v)
	}
	return normal, nil
}

func wrongType(path, want string, got any) *scimerror.Error {
	return scimerror.Bad(scimerror.InvalidValue, "%s: must be %s, not %s", path, want, describe(got))
}

// describe returns a value of the client for an error message.
func describe(value any) string {
	switch value := value.(type) {
	case nil:
		return "null"
	case string:
		return scimerror.Quote(value)
	case []any:
		return "a list"
	case map[string]any:
		return "an object"
	case json.Number:
		return scimerror.Quote(value.String())
	}
	return fmt.Sprint(value)
}

// Validate returns an error unless a document has all required attributes (RFC 7643 section 2.2).
func (t *ResourceType) Validate(d Document) error {
	if err := required("", t.Core.Attributes, d); err != nil {
		return err
	}
	for _, e := range t.Extensions {
		attributes, ok := d[e.Schema.ID].(map[string]any)
		if !ok && !e.Required {
			continue
		}
		if err := required(e.Schema.ID+":", e.Schema.Attributes, attributes); err != nil {
			return err
		}
	}
	return nil
}

func required(path string, attributes []*Attribute, object map[string]any) error {
	for _, a := range attributes {
		value, ok := object[a.Name]
		if !ok {
			if a.Required && a.Mutability != ReadOnly {
				return scimerror.Bad(scimerror.InvalidValue, "%s: is required", path+a.Name)
			}
			continue
		}
		if a.Type != Complex {
			continue
		}
		elements, many := value.([]any)
		if !many {
			elements = []any{value}
		}
		for _, element := range elements {
			if object, ok := element.(map[string]any); ok {
				if err := required(path+a.Name+".", a.SubAttributes, object); err != nil {
					return err
				}
			}
		}
	}
	return nil
}

// Keep copies immutable and retained attributes that a replacement omits from the previous document, and
// returns an error if the replacement has other values for immutable ones (RFC 7644 section 3.5.1). An
// immutable attribute without a value may be set. User attributes are kept if the replacement omits their extension. One without
// attributes is removed from the replacement.
func (t *ResourceType) Keep(before, after Document) error {
	keep := func(extension string, attributes []*Attribute) error {
		_, hadExtension := after[extension]
		for _, a := range attributes {
			ref := Ref{Extension: extension, Attribute: a}
			old := before.Get(ref)
			retained := a.Retained || a.IsUserAttribute && !hadExtension
			if old == nil || a.Mutability != Immutable && !retained {
				continue
			}
			switch replaced := after.Get(ref); {
			case replaced == nil:
				after.Put(ref, old)
			case a.Mutability == Immutable && !reflect.DeepEqual(old, replaced):
				return scimerror.Bad(scimerror.Mutability, "%s: cannot be changed", ref)
			}
		}
		return nil
	}
	if err := keep("", t.Core.Attributes); err != nil {
		return err
	}
	for _, e := range t.Extensions {
		if err := keep(e.Schema.ID, e.Schema.Attributes); err != nil {
			return err
		}
		if isEmpty(after[e.Schema.ID]) {
			delete(after, e.Schema.ID)
		}
	}
	return nil
}
