package schema

import (
	"iter"
	"time"
)

// Document is the attributes of a resource by canonical name; the attributes of an extension are a map
// under its URN. It contains only attributes with a value (RFC 7643 section 2.5), and not schemas, id and
// meta.
type Document map[string]any

// Get returns the value of the attribute of a path, or the whole extension if the path is its URN; nil if
// there is none. It ignores the sub-attribute of the path.
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

// Put sets the value of the attribute of a path, or removes it if value is empty. It removes an extension
// that has no attributes left.
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
		return false // a Set is kept even if it is empty
	}
	return false
}

// Clone returns a deep copy of a document, except that a Set is shared: it belongs to the store.
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

// Set is a multi-valued complex attribute with too many elements for a list. Its elements are identified
// by their sub-attribute "value". The cost of all methods except All and Clear is independent of the size.
type Set interface {
	// Len returns the number of elements.
	Len() int
	// Get returns the element with a value. The element is shared and must not be modified.
	Get(value string) (map[string]any, bool)
	// All iterates over the elements in a stable order. The map is valid until the next iteration.
	All() iter.Seq[map[string]any]
	// Put adds an element or replaces the one with the same value, and reports whether the Set changed.
	Put(element map[string]any) bool
	// Delete removes the element with a value and reports whether there was one.
	Delete(value string) bool
	// Clear removes all elements.
	Clear()
}

// Incomplete is a Set that may have elements that cannot be read, because a part of what stores them was lost. They are none of the
// elements of the other methods, and are kept by changes.
type Incomplete interface {
	Set
	// DiscardUnreadable removes the elements that cannot be read.
	DiscardUnreadable()
}

// DiscardUnreadable is for requests that replace all elements of a Set: they do not keep those that cannot be read.
func DiscardUnreadable(set Set) {
	if incomplete, ok := set.(Incomplete); ok {
		incomplete.DiscardUnreadable()
	}
}

// References is a Set whose elements refer to resources. It may have tens of thousands, so responses read them
// without a map for each.
type References interface {
	Set
	// AllReferences iterates over the elements of All, in the same order.
	AllReferences() iter.Seq[ReferenceValue]
}

// ReferenceValue is an element of References: its sub-attributes "value", "type" and "display". Those without a value
// are empty.
type ReferenceValue struct{ Value, Type, Display string }

// Source is the input of filters and sorting. Get returns the value of the attribute of a path as in a
// Document; nil if there is none. It ignores the sub-attribute of the path.
type Source interface {
	Get(Ref) any
}

// Resource is a document with its metadata.
type Resource struct {
	// Type is the resource type.
	Type *ResourceType
	// ID is the id; immutable.
	ID string
	// Document is the attributes.
	Document Document
	// Created is the creation time, LastModified the time of the last change of an attribute.
	Created, LastModified time.Time
	// Version changes with every change of an attribute that is stored with the resource. It contains no dot.
	Version string
	// Shown changes with the attributes that are derived from other resources, as far as they are selected; empty
	// if there are none.
	Shown string
	// Location is the URL of the resource.
	Location string
}

// ETag returns the version as a weak entity tag (RFC 7644 section 3.14). It covers all that is shown: Version
// and Shown.
func (r *Resource) ETag() string {
	if r.Shown == "" {
		return `W/"` + r.Version + `"`
	}
	return `W/"` + r.Version + "." + r.Shown + `"`
}

// Schemas returns the URNs of the core schema and of the extensions with attributes.
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
	values := make(map[string]any, len(meta.SubAttributes))
	for _, sub := range meta.SubAttributes {
		values[sub.Name] = r.metaValue(sub.Name)
	}
	return values
}

// metaValue returns a sub-attribute of meta.
func (r *Resource) metaValue(name string) string {
	switch name {
	case "resourceType":
		return r.Type.Name
	case "created":
		return FormatDateTime(r.Created)
	case "lastModified":
		return FormatDateTime(r.LastModified)
	case "location":
		return r.Location
	default:
		return r.ETag()
	}
}

// FormatDateTime formats a time as the value of an attribute.
func FormatDateTime(t time.Time) string { return t.UTC().Format(time.RFC3339Nano) }

// ParseDateTime parses an xsd:dateTime (RFC 7643 section 2.3.5). A value without a time zone is UTC.
func ParseDateTime(s string) (time.Time, error) {
	t, err := time.Parse(time.RFC3339Nano, s)
	if err == nil {
		return t, nil
	}
	if t, err := time.Parse("2006-01-02T15:04:05.999999999", s); err == nil {
		return t, nil
	}
	return time.Time{}, err
}
