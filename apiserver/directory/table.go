package directory

import (
	"reflect"

	"github.com/quoin-dev/quoin/apiserver/scim/schema"
)

// row is one attribute of what S holds: how it is read, and how it is written.
type row[S any] struct {
	// name of the attribute; for an extension with a row of its own its URN.
	name string
	// get is the attribute's value in the form that it has in a document; nil when there is none.
	// id is that of the resource.
	get func(v *view, id string, s *S) any
	// set gives it a value of that form, or none; nil for what is derived from other objects, or
	// is not written by the table.
	set func(v *view, id string, s *S, value any)
	// sub is one attribute of a complex one or of an extension, without making the whole; nil
	// where there are none.
	sub func(v *view, id string, s *S, name string) any
	// absent is what it means to have no value.
	absent any
	// costly values are read only where they are asked for.
	costly bool
}

// table is all that S holds. It is the one place where attributes and fields meet.
type table[S any] struct {
	rows   []*row[S]
	byName map[string]*row[S]
}

func newTable[S any](rows ...*row[S]) *table[S] {
	t := &table[S]{rows: rows, byName: map[string]*row[S]{}}
	for _, r := range rows {
		t.byName[r.name] = r
	}
	return t
}

// get is the value of one attribute.
func (t *table[S]) get(v *view, id string, s *S, name string) any {
	if r := t.byName[name]; r != nil {
		return r.get(v, id, s)
	}
	return nil
}

// read is all that has a value, without what is costly and not wanted.
func (t *table[S]) read(v *view, id string, s *S) map[string]any {
	values := make(map[string]any, len(t.rows)/2)
	for _, r := range t.rows {
		if r.costly && !v.wants(r.name) {
			continue
		}
		if value := r.get(v, id, s); value != nil {
			values[r.name] = value
		}
	}
	return values
}

// write makes s what values say. A field whose attribute has the value already is left alone: what
// means the same in two forms, such as an empty object and none, stays as somebody has written it.
func (t *table[S]) write(v *view, id string, s *S, values map[string]any) {
	for _, r := range t.rows {
		if r.set == nil {
			continue
		}
		wanted := values[r.name]
		if wanted == nil {
			wanted = r.absent
		}
		if !reflect.DeepEqual(r.get(v, id, s), wanted) {
			r.set(v, id, s, values[r.name])
		}
	}
}

// text is an attribute in a field.
func text[S any](name string, field func(*S) *string) *row[S] {
	return &row[S]{
		name: name,
		get: func(_ *view, _ string, s *S) any {
			if value := *field(s); value != "" {
				return value
			}
			return nil
		},
		set: func(_ *view, _ string, s *S, value any) { *field(s), _ = value.(string) },
	}
}

// flag is a boolean; absent is what is shown where the field is nil.
func flag[S any](name string, field func(*S) **bool, absent any) *row[S] {
	return &row[S]{
		name: name, absent: absent,
		get: func(_ *view, _ string, s *S) any {
			if value := *field(s); value != nil {
				return *value
			}
			return absent
		},
		set: func(_ *view, _ string, s *S, value any) {
			*field(s) = nil
			if b, ok := value.(bool); ok {
				*field(s) = &b
			}
		},
	}
}

// object is a complex attribute, or an extension, in a struct of its own.
func object[S, P any](name string, field func(*S) **P, of *table[P]) *row[S] {
	return &row[S]{
		name: name,
		get: func(v *view, id string, s *S) any {
			if p := *field(s); p != nil {
				if values := of.read(v, id, p); len(values) > 0 {
					return values
				}
			}
			return nil
		},
		set: func(v *view, id string, s *S, value any) {
			values, _ := value.(map[string]any)
			switch p := field(s); {
			case len(values) == 0:
				*p = nil
				return
			case *p == nil:
				*p = new(P)
			}
			of.write(v, id, *field(s), values)
		},
		sub: func(v *view, id string, s *S, name string) any {
			if p := *field(s); p != nil {
				return of.get(v, id, p, name)
			}
			return nil
		},
	}
}

// list is a multi-valued complex attribute.
func list[S, E any](name string, field func(*S) *[]E, of *table[E]) *row[S] {
	return &row[S]{
		name: name,
		get: func(v *view, id string, s *S) any {
			items := *field(s)
			if len(items) == 0 {
				return nil
			}
			elements := make([]any, 0, len(items))
			for i := range items {
				if element := of.read(v, id, &items[i]); len(element) > 0 {
					elements = append(elements, element)
				}
			}
			if len(elements) == 0 {
				return nil
			}
			return elements
		},
		set: func(v *view, id string, s *S, value any) {
			elements, _ := value.([]any)
			*field(s) = nil
			for _, element := range elements {
				item := new(E)
				values, _ := element.(map[string]any)
				of.write(v, id, item, values)
				*field(s) = append(*field(s), *item)
			}
		},
	}
}

// attribute reads one attribute of a resource.
func (t *table[S]) attribute(v *view, id string, s *S, ref schema.Ref) (any, bool) {
	if ref.Extension == "" {
		return t.get(v, id, s, ref.Attribute.Name), true
	}
	r := t.byName[ref.Extension]
	switch {
	case r == nil:
		return nil, false
	case ref.Attribute == nil:
		return r.get(v, id, s), true
	}
	return r.sub(v, id, s, ref.Attribute.Name), true
}
