package schema

import (
	"encoding/json"
	"slices"
	"strconv"
)

// Projection selects the attributes of a response (RFC 7644 section 3.9). A nil Projection selects the
// default attributes.
type Projection struct {
	// Include are the attributes to return; empty for the default attributes.
	Include []Ref
	// Exclude are the attributes not to return.
	Exclude []Ref
}

// Wants reports whether a response contains an attribute or a part of it.
func (p *Projection) Wants(extension string, a *Attribute) bool {
	if a.Hidden || a.Returned == Never {
		return false
	}
	if a.Returned == Always {
		return true
	}
	named := func(r Ref) bool { return r.Extension == extension && (r.Attribute == nil || r.Attribute == a) }
	if p == nil {
		return a.Returned != OnRequest
	}
	if len(p.Include) > 0 {
		return slices.ContainsFunc(p.Include, named)
	}
	whole := func(r Ref) bool { return named(r) && r.Sub == nil }
	return a.Returned != OnRequest && !slices.ContainsFunc(p.Exclude, whole)
}

// wantsSub reports whether a response contains a sub-attribute of a selected attribute.
func (p *Projection) wantsSub(extension string, a, sub *Attribute) bool {
	if sub.Hidden || sub.Returned == Never {
		return false
	}
	if p == nil || sub.Returned == Always {
		return sub.Returned != OnRequest
	}
	this := func(r Ref) bool { return r.Extension == extension && r.Attribute == a && r.Sub == sub }
	if len(p.Include) == 0 {
		return sub.Returned != OnRequest && !slices.ContainsFunc(p.Exclude, this)
	}
	return slices.ContainsFunc(p.Include, func(r Ref) bool {
		return this(r) || sub.Returned != OnRequest && r.Extension == extension && (r.Attribute == nil || r.Attribute == a && r.Sub == nil)
	})
}

// Locate returns the URL of a resource by the name of its type and its id; empty if the type is unknown.
type Locate func(resourceType, id string) string

// sizeOfResource and sizeOfElement are usual lengths of a resource, and of an element of a Set, as JSON.
const (
	sizeOfResource = 1024
	sizeOfElement  = 224
)

// RenderedSize returns an estimate of the length of the result of Render. A buffer that grows with a large group
// would be copied many times.
func (r *Resource) RenderedSize() int {
	size := sizeOfResource
	for _, value := range r.Document {
		if set, ok := value.(Set); ok {
			size += sizeOfElement * set.Len()
		}
	}
	return size
}

// Render appends a resource as JSON, with its attributes in schema order.
func (r *Resource) Render(dst []byte, p *Projection, locate Locate) []byte {
	return r.RenderInSteps(dst, p, locate, func() bool { return true })
}

// RenderInSteps is like Render. It calls step for each element of a Set, and omits the others when step returns false.
func (r *Resource) RenderInSteps(dst []byte, p *Projection, locate Locate, step func() bool) []byte {
	w := &renderer{dst: dst, p: p, locate: locate, step: step}
	w.open('{')
	w.name("schemas")
	w.value("", nil, r.Schemas())
	w.name("id")
	w.value("", nil, r.ID)
	w.attribute("", externalID, r.Document[externalID.Name])
	for _, a := range r.Type.Core.Attributes {
		w.attribute("", a, r.Document[a.Name])
	}
	for _, e := range r.Type.Extensions {
		if attributes, ok := r.Document[e.Schema.ID].(map[string]any); ok {
			w.extension(e.Schema, attributes)
		}
	}
	if p.Wants("", meta) {
		w.meta(r)
	}
	w.close('}')
	return w.dst
}

type renderer struct {
	dst    []byte
	p      *Projection
	locate Locate
	step   func() bool
	comma  bool
}

func (w *renderer) open(b byte)  { w.next(); w.dst = append(w.dst, b); w.comma = false }
func (w *renderer) close(b byte) { w.dst = append(w.dst, b); w.comma = true }

// next begins the next element of an array or the next member of an object.
func (w *renderer) next() {
	if w.comma {
		w.dst = append(w.dst, ',')
	}
	w.comma = true
}

func (w *renderer) name(s string) {
	w.next()
	w.dst = append(appendString(w.dst, s), ':')
	w.comma = false
}

func (w *renderer) attribute(extension string, a *Attribute, value any) {
	if set, ok := value.(Set); isEmpty(value) || !w.p.Wants(extension, a) || ok && isInvisible(set) {
		return
	}
	w.name(a.Name)
	w.value(extension, a, value)
}

// isInvisible reports whether a Set has no visible elements.
func isInvisible(set Set) bool {
	for range set.All() {
		return false
	}
	return true
}

func (w *renderer) extension(s *Schema, attributes map[string]any) {
	if !slices.ContainsFunc(s.Attributes, func(a *Attribute) bool { return attributes[a.Name] != nil && w.p.Wants(s.ID, a) }) {
		return
	}
	w.name(s.ID)
	w.open('{')
	for _, a := range s.Attributes {
		w.attribute(s.ID, a, attributes[a.Name])
	}
	w.close('}')
}

func (w *renderer) value(extension string, a *Attribute, value any) {
	switch value := value.(type) {
	case string:
		w.next()
		w.dst = appendString(w.dst, value)
	case bool:
		w.next()
		w.dst = strconv.AppendBool(w.dst, value)
	case int64:
		w.next()
		w.dst = strconv.AppendInt(w.dst, value, 10)
	case float64:
		w.next()
		w.dst = strconv.AppendFloat(w.dst, value, 'g', -1, 64)
	case []any:
		w.open('[')
		for _, item := range value {
			w.value(extension, a, item)
		}
		w.close(']')
	case References:
		w.references(extension, a, value)
	case Set:
		w.open('[')
		for element := range value.All() {
			if !w.step() {
				break
			}
			w.value(extension, a, element)
		}
		w.close(']')
	case map[string]any:
		w.object(extension, a, value)
	}
}

func (w *renderer) object(extension string, a *Attribute, object map[string]any) {
	w.open('{')
	for _, sub := range a.SubAttributes {
		if !w.p.wantsSub(extension, a, sub) {
			continue
		}
		value := object[sub.Name]
		if value == nil && sub.Name == "$ref" {
			value = w.reference(sub, object)
		}
		if value != nil && value != "" {
			w.name(sub.Name)
			w.value(extension, sub, value)
		}
	}
	w.close('}')
}

func (w *renderer) meta(r *Resource) {
	w.name(meta.Name)
	w.open('{')
	for _, sub := range meta.SubAttributes {
		if !w.p.wantsSub("", meta, sub) {
			continue
		}
		if value := r.metaValue(sub.Name); value != "" {
			w.name(sub.Name)
			w.next()
			w.dst = appendString(w.dst, value)
		}
	}
	w.close('}')
}

// reference returns the URL of the resource whose id is the value of an element; nil if there is none.
func (w *renderer) reference(ref *Attribute, element map[string]any) any {
	id, _ := element["value"].(string)
	if id == "" || len(ref.ReferenceTypes) == 0 || w.locate == nil {
		return nil
	}
	kind, _ := element["type"].(string)
	if !slices.Contains(ref.ReferenceTypes, kind) {
		kind = ref.ReferenceTypes[0]
	}
	return w.locate(kind, id)
}

// referenceColumn is a sub-attribute of references in responses.
type referenceColumn struct {
	// key is the name as JSON with a colon.
	key []byte
	// value returns the text of an element.
	value func(ReferenceValue) string
	// isLocation means that value returns an id, whose URL is the value.
	isLocation bool
}

// referenceColumns returns the sub-attributes of references that the response contains, in schema order.
func (w *renderer) referenceColumns(extension string, a *Attribute) []referenceColumn {
	texts := map[string]func(ReferenceValue) string{
		"value": func(r ReferenceValue) string { return r.Value }, "type": func(r ReferenceValue) string { return r.Type },
		"display": func(r ReferenceValue) string { return r.Display }, "$ref": func(r ReferenceValue) string { return r.Value },
	}
	var columns []referenceColumn
	for _, sub := range a.SubAttributes {
		if value := texts[sub.Name]; value != nil && w.p.wantsSub(extension, a, sub) {
			columns = append(columns, referenceColumn{append(appendString(nil, sub.Name), ':'), value, sub.Name == "$ref"})
		}
	}
	return columns
}

// references appends the elements of References.
func (w *renderer) references(extension string, a *Attribute, set References) {
	columns := w.referenceColumns(extension, a)
	prefixes := w.locationPrefixes(a)
	w.open('[')
	for r := range set.AllReferences() {
		if !w.step() {
			break
		}
		w.open('{')
		for i := range columns {
			c := &columns[i]
			text := c.value(r)
			prefix, known := "", true
			if c.isLocation {
				if prefix, known = prefixes[r.Type]; !known {
					prefix = prefixes[""]
				}
				known = prefix != ""
			}
			if text == "" || !known {
				continue
			}
			w.next()
			w.dst = append(w.dst, c.key...)
			w.dst = appendConcatenated(w.dst, prefix, text)
		}
		w.close('}')
	}
	w.close(']')
}

// locationPrefixes returns the URLs of the resource types that an attribute refers to, without an id. "" is the
// type of elements with another type.
func (w *renderer) locationPrefixes(a *Attribute) map[string]string {
	prefixes := map[string]string{}
	ref := a.Sub("$ref")
	if ref == nil || len(ref.ReferenceTypes) == 0 || w.locate == nil {
		return prefixes
	}
	for _, kind := range ref.ReferenceTypes {
		prefixes[kind] = w.locate(kind, "")
	}
	prefixes[""] = prefixes[ref.ReferenceTypes[0]]
	return prefixes
}

// appendConcatenated appends a JSON string of two parts.
func appendConcatenated(dst []byte, prefix, s string) []byte {
	if !isPlain(prefix) || !isPlain(s) {
		return appendString(dst, prefix+s)
	}
	dst = append(dst, '"')
	dst = append(dst, prefix...)
	dst = append(dst, s...)
	return append(dst, '"')
}

// isPlain reports whether a JSON string of a text contains it as it is.
func isPlain(s string) bool {
	for i := range len(s) {
		if c := s[i]; c < 0x20 || c == '"' || c == '\\' || c >= 0x7f {
			return false
		}
	}
	return true
}

// appendString appends a JSON string.
func appendString(dst []byte, s string) []byte {
	if isPlain(s) {
		dst = append(dst, '"')
		dst = append(dst, s...)
		return append(dst, '"')
	}
	quoted, err := json.Marshal(s)
	if err != nil {
		return append(dst, `""`...) // cannot happen: strings can always be encoded
	}
	return append(dst, quoted...)
}
