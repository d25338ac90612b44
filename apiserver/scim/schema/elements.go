package schema

import (
	"iter"
	"strconv"

	"github.com/quoin-dev/quoin/apiserver/scim/scimerror"
)

// Elements are the elements of a Large attribute of a request body, such as 50,000 members. They are
// normalized one at a time while the body is read, and keep only what clients may write, so they take a
// fraction of the memory of the body.
type Elements struct {
	attribute *Attribute
	lenient   Leniency
	items     []reference
	// deviation is the error of the first element that only a lenient client profile accepts.
	deviation error
}

// reference is an element: value and type are the attributes of members that clients write.
type reference struct{ value, kind string }

// maxReference is the maximum length of value and type, in bytes. Ids are shorter.
const maxReference = 512

// NewElements returns an empty list of elements. The client profile is known only after the body, so lenient
// are the deviations that the most lenient one accepts; NormalizeValue decides.
func NewElements(a *Attribute, lenient Leniency) *Elements {
	return &Elements{attribute: a, lenient: lenient}
}

// Add normalizes and adds an element. It implements strictjson.Elements.
func (e *Elements) Add(item any) error {
	path := e.attribute.Name + "[" + strconv.Itoa(len(e.items)) + "]"
	normal, err := NormalizeElement(path, e.attribute, item, Leniency{})
	if err != nil {
		deviation := err
		if normal, err = NormalizeElement(path, e.attribute, item, e.lenient); err != nil {
			return err
		}
		if e.deviation == nil {
			e.deviation = deviation
		}
	}
	element, _ := normal.(map[string]any)
	value, _ := element["value"].(string)
	kind, _ := element["type"].(string)
	switch {
	case element == nil:
		return nil
	case value == "":
		return scimerror.Bad(scimerror.InvalidValue, "%s.value: is required", path)
	case len(value) > maxReference || len(kind) > maxReference:
		return scimerror.Bad(scimerror.InvalidValue, "%s: must be shorter than %d bytes", path, maxReference)
	case len(e.items) == e.attribute.MaxElements:
		return scimerror.Bad(scimerror.InvalidValue, "%s: a request has at most %d", e.attribute.Name, e.attribute.MaxElements)
	}
	e.items = append(e.items, reference{value: value, kind: kind})
	return nil
}

// normalized returns the elements as the value of an attribute of a document; nil if there are none.
func (e *Elements) normalized(l Leniency) (any, error) {
	if e.deviation != nil && l != e.lenient {
		return nil, e.deviation
	}
	if len(e.items) == 0 {
		return nil, nil
	}
	return e, nil
}

// Len returns the number of elements.
func (e *Elements) Len() int { return len(e.items) }

// All iterates over the elements. The map is valid until the next iteration.
func (e *Elements) All() iter.Seq[map[string]any] {
	return func(yield func(map[string]any) bool) {
		element := map[string]any{}
		for _, item := range e.items {
			element["value"] = item.value
			if delete(element, "type"); item.kind != "" {
				element["type"] = item.kind
			}
			if !yield(element) {
				return
			}
		}
	}
}

// elementsOf iterates over the elements of a list or of Elements.
func elementsOf(value any) iter.Seq[map[string]any] {
	if elements, ok := value.(*Elements); ok {
		return elements.All()
	}
	list, _ := value.([]any)
	return func(yield func(map[string]any) bool) {
		for _, item := range list {
			if element, ok := item.(map[string]any); ok && !yield(element) {
				return
			}
		}
	}
}

// Fill sets the elements of a Set to those of a list or of Elements. Elements that are in both are not
// replaced. It calls next after each element, and ends if that returns false.
func Fill(set Set, elements any, next func() bool) {
	DiscardUnreadable(set)
	keep := map[string]bool{}
	for element := range elementsOf(elements) {
		value, _ := element["value"].(string)
		keep[value] = true
		set.Put(element)
		if !next() {
			return
		}
	}
	var removed []string
	for element := range set.All() {
		if !next() {
			return
		}
		if value, _ := element["value"].(string); !keep[value] {
			removed = append(removed, value)
		}
	}
	for _, value := range removed {
		set.Delete(value)
	}
}
