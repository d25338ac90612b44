package directory

import (
	"reflect"

	"github.com/quoin-dev/quoin/apiserver/scim/schema"
)

// row maps one attribute to a field of S.
type row[S any] struct {
	// name is the name of the attribute, or the URN of an extension with a row.
	name string
	// get returns the value as in a document; nil if there is none. id is the id of the resource.
	get func(v *view, id string, s *S) any
	// set sets the value, or removes it if it is nil. set is nil for attributes that are derived from
	// other objects or that the table does not write.
	set func(v *view, id string, s *S, value any)
	// sub returns one sub-attribute without converting the whole value; nil for simple attributes.
	sub func(v *view, id string, s *S, name string) any
	// defaultValue is the value of an attribute that is not set.
	defaultValue any
	// expensive values are read only on request.
	expensive bool
}

// table maps all attributes to the fields of S.
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

// get returns the value of one attribute.
func (t *table[S]) get(v *view, id string, s *S, name string) any {
	if r := t.byName[name]; r != nil {
		return r.get(v, id, s)
	}
	return nil
}

// read returns all values, except expensive ones that the view does not need.
func (t *table[S]) read(v *view, id string, s *S) map[string]any {
	values := v.documents.new(len(t.rows) / 2)
	for _, r := range t.rows {
		if r.expensive && !v.wants(r.name) {
			continue
		}
		if value := r.get(v, id, s); value != nil {
			values[r.name] = value
		}
	}
	return values
}

// write sets the fields of s to values. A field that already has the value is not modified, so that
// equivalent notations, such as an empty object and none, stay as in the manifest.
func (t *table[S]) write(v *view, id string, s *S, values map[string]any) {
	for _, r := range t.rows {
		if r.set == nil {
			continue
		}
		value := values[r.name]
		if value == nil {
			value = r.defaultValue
		}
		if !reflect.DeepEqual(r.get(v, id, s), value) {
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

// flag returns the row of a boolean with a default.
func flag[S any](name string, field func(*S) **bool, defaultValue any) *row[S] {
	return &row[S]{
		name: name, defaultValue: defaultValue,
		get: func(_ *view, _ string, s *S) any {
			if value := *field(s); value != nil {
				return *value
			}
			return defaultValue
		},
		set: func(_ *view, _ string, s *S, value any) {
			*field(s) = nil
			if b, ok := value.(bool); ok {
				*field(s) = &b
			}
		},
	}
}

// object returns the row of a complex attribute or of an extension, stored in a struct.
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

// list returns the row of a multi-valued complex attribute.
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

// attribute returns the value of one attribute, and false for an extension without a row.
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

// documents is the memory of documents that are used one after the other: of the maps that tables read. nil allocates each.
type documents struct {
	maps []map[string]any
	// used is how many of them the current document has.
	used int
}

// new returns an empty map for some values.
func (d *documents) new(values int) map[string]any {
	if d == nil {
		return make(map[string]any, values)
	}
	if d.used == len(d.maps) {
		d.maps = append(d.maps, make(map[string]any, values))
	}
	d.used++
	return d.maps[d.used-1]
}

// reuse ends the use of the current document.
func (d *documents) reuse() {
	if d == nil {
		return
	}
	for _, m := range d.maps[:d.used] {
		clear(m)
	}
	d.used = 0
}
