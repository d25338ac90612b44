package schema

import (
	"iter"
	"time"
)

// Document holds the attributes of a resource by their canonical names, the attributes of an
// extension as a map under its URN. What has no value is not there (RFC 7643 section 2.5).
// schemas, id and meta do not stand in it.
type Document map[string]any

// Get is the value of a path's attribute (of the whole extension where the path is that),
// whatever its sub-attribute is; nil when there is none.
func (d Document) Get(ref Ref) any {
	if ref.Extension == "" {
		return d[ref.Attribute.Name]
	}
	extension, _ := d[ref.Extension].(map[string]any)
	if ref.Attribute == nil {
		if extension == nil {
			return nil
		}
		return extension
	}
	return extension[ref.Attribute.Name]
}

// Put gives a path's attribute a value, or none. An extension that has no attribute left goes.
func (d Document) Put(ref Ref, value any) {
	if ref.Extension == "" {
		put(d, ref.Attribute.Name, value)
		return
	}
	if ref.Attribute == nil {
		put(d, ref.Extension, value)
		return
	}
	extension, _ := d[ref.Extension].(map[string]any)
	if extension == nil {
		extension = map[string]any{}
	}
	put(extension, ref.Attribute.Name, value)
	put(d, ref.Extension, extension)
}

func put(object map[string]any, name string, value any) {
	if isEmpty(value) {
		delete(object, name)
		return
	}
	object[name] = value
}

func isEmpty(value any) bool {
	switch value := value.(type) {
	case nil:
		return true
	case []any:
		return len(value) == 0
	case map[string]any:
		return len(value) == 0
	case Set:
		return false // a Set stays where it is, empty or not
	}
	return false
}

// Clone copies a document. A Set in it is shared, for it has an identity: the store's.
func (d Document) Clone() Document {
	copied, _ := clone(map[string]any(d)).(map[string]any)
	return copied
}

func clone(value any) any {
	switch value := value.(type) {
	case map[string]any:
		copied := make(map[string]any, len(value))
		for name, v := range value {
			copied[name] = clone(v)
		}
		return copied
	case []any:
		copied := make([]any, len(value))
		for i, v := range value {
			copied[i] = clone(v)
		}
		return copied
	}
	return value
}

// Set is a multi-valued complex attribute with so many elements that they are not held as a
// list: its elements are told apart by their sub-attribute "value". What works on one must not
// cost more where it has more elements, except All and Clear.
type Set interface {
	// Len is the number of elements.
	Len() int
	// Get finds the element with a value. It is shared: not to be changed.
	Get(value string) (map[string]any, bool)
	// All goes through the elements, in an order that is the same every time. The map is good
	// until the next step.
	All() iter.Seq[map[string]any]
	// Put adds an element, or replaces the one with the same value, and tells whether that
	// changed anything.
	Put(element map[string]any) bool
	// Delete removes the element with a value, and tells whether there was one.
	Delete(value string) bool
	// Clear removes all.
	Clear()
}

// Source is what filters and sorting read: the value of a path's attribute, in the form that it
// has in a Document; nil when there is none. The path's sub-attribute does not matter.
type Source interface {
	Get(Ref) any
}

// Resource is a document with what the server knows of it.
type Resource struct {
	// Type of the resource.
	Type *ResourceType
	// ID is server-made, or the name that an administrator chose.
	ID string
	// Document of the resource.
	Document Document
	// Created and LastModified are when it was made, and when an attribute last changed.
	Created, LastModified time.Time
	// Version changes whenever an attribute does: the inside of W/"…".
	Version string
	// Location is the resource's own address.
	Location string
}

// ETag is the version as HTTP shows it (RFC 7644 section 3.14).
func (r *Resource) ETag() string { return `W/"` + r.Version + `"` }

// Schemas are the URNs of the core schema and of the extensions that the resource has.
func (r *Resource) Schemas() []any {
	urns := []any{r.Type.Core.ID}
	for _, e := range r.Type.Extensions {
		if _, ok := r.Document[e.Schema.ID]; ok {
			urns = append(urns, e.Schema.ID)
		}
	}
	return urns
}

// Get implements Source.
func (r *Resource) Get(ref Ref) any {
	if ref.Extension == "" {
		switch ref.Attribute.Name {
		case "id":
			return r.ID
		case "schemas":
			return r.Schemas()
		case "meta":
			return r.meta()
		}
	}
	return r.Document.Get(ref)
}

func (r *Resource) meta() map[string]any {
	return map[string]any{
		"resourceType": r.Type.Name,
		"created":      FormatDateTime(r.Created),
		"lastModified": FormatDateTime(r.LastModified),
		"location":     r.Location,
		"version":      r.ETag(),
	}
}

// FormatDateTime writes a time as an attribute's value.
func FormatDateTime(t time.Time) string { return t.UTC().Format(time.RFC3339Nano) }

// ParseDateTime reads an xsd:dateTime (RFC 7643 section 2.3.5); without a zone it is UTC.
func ParseDateTime(s string) (time.Time, error) {
	t, err := time.Parse(time.RFC3339Nano, s)
	if err == nil {
		return t, nil
	}
	if t, zoneless := time.Parse("2006-01-02T15:04:05.999999999", s); zoneless == nil {
		return t, nil
	}
	return time.Time{}, err
}

// Fill makes a Set hold just the elements of a list, and leaves those alone that it holds already.
func Fill(set Set, elements []any) {
	wanted := make(map[string]bool, len(elements))
	for _, item := range elements {
		if element, ok := item.(map[string]any); ok {
			value, _ := element["value"].(string)
			wanted[value] = true
			set.Put(element)
		}
	}
	var unwanted []string
	for element := range set.All() {
		if value, _ := element["value"].(string); !wanted[value] {
			unwanted = append(unwanted, value)
		}
	}
	for _, value := range unwanted {
		set.Delete(value)
	}
}
