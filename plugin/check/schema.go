package check

import (
	"fmt"
	"reflect"
	"slices"
	"strings"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/quoin-dev/quoin/api/v1alpha1"
)

// maxNamed is the number of fields or objects that a message names.
const maxNamed = 5

// Schemas compares the CRDs of the cluster with the types of this binary. A field that only the binary
// has is dropped by the API server when it is written.
func Schemas(crds []apiextensionsv1.CustomResourceDefinition) Result {
	r := Result{Check: "CRDs", Status: OK, Message: fmt.Sprintf("%d kinds, as in this release", len(v1alpha1.Kinds))}
	const upgrade = "apply the CRDs of this release: docs/operations/upgrade.md"
	var missing, older, newer []string
	for _, kind := range v1alpha1.Kinds {
		i := slices.IndexFunc(crds, func(c apiextensionsv1.CustomResourceDefinition) bool { return c.Name == kind.Plural+"."+v1alpha1.Group })
		if i < 0 || !established(&crds[i]) {
			missing = append(missing, kind.Name())
			continue
		}
		schema := schemaOf(&crds[i])
		if schema == nil {
			missing = append(missing, kind.Name()+" "+v1alpha1.GroupVersion.Version)
			continue
		}
		lacks, adds := Drift(schema, reflect.TypeOf(kind.Object).Elem())
		older = append(older, prefixed(kind.Name(), lacks)...)
		newer = append(newer, prefixed(kind.Name(), adds)...)
	}
	switch {
	case len(missing) > 0:
		r.Status, r.Message, r.Next = Failed, "not installed: "+some(missing), upgrade
	case len(older) > 0:
		r.Status, r.Message, r.Next = Failed, "older than this plugin, without "+some(older), upgrade
	case len(newer) > 0:
		r.Status, r.Message, r.Next = Warning, "newer than this plugin, with "+some(newer), "use the kubectl-quoin of the installed release"
	}
	return r
}

func established(crd *apiextensionsv1.CustomResourceDefinition) bool {
	return slices.ContainsFunc(crd.Status.Conditions, func(c apiextensionsv1.CustomResourceDefinitionCondition) bool {
		return c.Type == apiextensionsv1.Established && c.Status == apiextensionsv1.ConditionTrue
	})
}

// schemaOf returns the schema of the version that the binary uses, or nil if it is not served.
func schemaOf(crd *apiextensionsv1.CustomResourceDefinition) *apiextensionsv1.JSONSchemaProps {
	for _, v := range crd.Spec.Versions {
		if v.Name == v1alpha1.GroupVersion.Version && v.Served && v.Schema != nil {
			return v.Schema.OpenAPIV3Schema
		}
	}
	return nil
}

func prefixed(kind string, paths []string) []string {
	named := make([]string, len(paths))
	for i, path := range paths {
		named[i] = kind + "." + path
	}
	return named
}

// some returns the first names, and the number of the others.
func some(names []string) string {
	if len(names) > maxNamed {
		return fmt.Sprintf("%s and %d more", strings.Join(names[:maxNamed], ", "), len(names)-maxNamed)
	}
	return strings.Join(names, ", ")
}

// Drift returns the paths of fields that the schema of a kind lacks, and that it has in addition to the
// Go type.
func Drift(schema *apiextensionsv1.JSONSchemaProps, kind reflect.Type) (lacks, adds []string) {
	w := &walk{}
	for _, name := range []string{"spec", "status"} {
		if field, ok := fieldsOf(kind)[name]; ok {
			w.compare(name, schema.Properties, name, field)
		}
	}
	slices.Sort(w.lacks)
	slices.Sort(w.adds)
	return w.lacks, w.adds
}

type walk struct{ lacks, adds []string }

func (w *walk) compare(path string, properties map[string]apiextensionsv1.JSONSchemaProps, name string, field reflect.Type) {
	property, ok := properties[name]
	if !ok {
		w.lacks = append(w.lacks, path)
		return
	}
	w.inside(path, &property, field)
}

// inside compares what is below a field.
func (w *walk) inside(path string, property *apiextensionsv1.JSONSchemaProps, field reflect.Type) {
	for field.Kind() == reflect.Pointer {
		field = field.Elem()
	}
	switch {
	case isLeaf(field):
	case field.Kind() == reflect.Slice && property.Items != nil && property.Items.Schema != nil:
		w.inside(path+"[]", property.Items.Schema, field.Elem())
	case field.Kind() == reflect.Map && property.AdditionalProperties != nil && property.AdditionalProperties.Schema != nil:
		w.inside(path+"{}", property.AdditionalProperties.Schema, field.Elem())
	case field.Kind() == reflect.Struct:
		fields := fieldsOf(field)
		for name, inner := range fields {
			w.compare(path+"."+name, property.Properties, name, inner)
		}
		for name := range property.Properties {
			if _, ok := fields[name]; !ok {
				w.adds = append(w.adds, path+"."+name)
			}
		}
	}
}

// isLeaf reports whether a type is a value whose schema has no fields.
func isLeaf(t reflect.Type) bool {
	switch reflect.New(t).Interface().(type) {
	case *metav1.Time, *metav1.MicroTime, *metav1.Duration, *resource.Quantity, *apiextensionsv1.JSON:
		return true
	}
	return false
}

// fieldsOf returns the types of the fields of a struct by their names in JSON.
func fieldsOf(t reflect.Type) map[string]reflect.Type {
	fields := map[string]reflect.Type{}
	for i := range t.NumField() {
		f := t.Field(i)
		name, options, _ := strings.Cut(f.Tag.Get("json"), ",")
		switch {
		case name == "-" || !f.IsExported():
		case name == "" && (f.Anonymous || strings.Contains(options, "inline")):
			for inner, innerType := range fieldsOf(f.Type) {
				fields[inner] = innerType
			}
		case name != "":
			fields[name] = f.Type
		}
	}
	return fields
}
