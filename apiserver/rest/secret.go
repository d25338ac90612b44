package rest

import (
	"reflect"
	"slices"
	"strings"
)

// secretFields returns the locations in an input type, as the library names them in errors, of the
// fields tagged secret:"true".
func secretFields(in reflect.Type) []string {
	var found []string
	for _, field := range reflect.VisibleFields(in) {
		location := ""
		for _, source := range []string{"path", "query", "header", "cookie"} {
			if name, _, _ := strings.Cut(field.Tag.Get(source), ","); name != "" {
				location = source + "." + name
			}
		}
		switch {
		case location != "" && isTaggedSecret(field):
			found = append(found, location)
		case field.Name == "Body":
			found = append(found, secretProperties("body", field, nil)...)
		case field.Name == "RawBody" && isTaggedSecret(field):
			found = append(found, "body")
		}
	}
	return found
}

func isTaggedSecret(field reflect.StructField) bool { return field.Tag.Get("secret") == "true" }

// secretProperties returns the locations at and below a field of a body. parents are the types that
// it is part of.
func secretProperties(location string, field reflect.StructField, parents []reflect.Type) []string {
	if isTaggedSecret(field) {
		return []string{location}
	}
	t := field.Type
	for t.Kind() == reflect.Pointer || t.Kind() == reflect.Slice || t.Kind() == reflect.Array || t.Kind() == reflect.Map {
		t = t.Elem()
	}
	if t.Kind() != reflect.Struct || slices.Contains(parents, t) {
		return nil
	}
	parents = append(slices.Clone(parents), t)
	var found []string
	for i := range t.NumField() {
		property := t.Field(i)
		name, _, _ := strings.Cut(property.Tag.Get("json"), ",")
		at := location
		switch {
		case name == "-" || !property.IsExported() && !property.Anonymous:
			continue
		case name != "":
			at += "." + name
		case !property.Anonymous:
			at += "." + property.Name
		}
		found = append(found, secretProperties(at, property, parents)...)
	}
	return found
}

// isSecret reports whether a location is that of a secret, or has one in it.
func (op *operation) isSecret(location string) bool {
	location = withoutIndexes(location)
	return slices.ContainsFunc(op.secrets, func(secret string) bool {
		return location == secret || strings.HasPrefix(location, secret+".") || strings.HasPrefix(secret, location+".")
	})
}

// withoutIndexes removes the indexes of list items: a[0].b becomes a.b.
func withoutIndexes(location string) string {
	var out strings.Builder
	for {
		before, after, found := strings.Cut(location, "[")
		out.WriteString(before)
		if !found {
			return out.String()
		}
		if _, location, found = strings.Cut(after, "]"); !found {
			return out.String()
		}
	}
}
