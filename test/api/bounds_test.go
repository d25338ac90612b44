package api_test

import (
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"
	"testing"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// TestEveryBoundIsEnforced violates every bound of every field of every spec, one at a time, starting from the complete
// specs of the tables. The error must name the field and the bound.
func TestEveryBoundIsEnforced(t *testing.T) {
	s := server(t)
	namespace := s.namespace(t)
	schemas := schemasByKind(t)
	visited := map[string]bool{}
	for _, whole := range wholeObjects(t, namespace) {
		t.Run(whole.GetKind(), func(t *testing.T) {
			strict := client.FieldValidation(metav1.FieldValidationStrict)
			if err := s.Create(testContext(t), whole.DeepCopy(), client.DryRunAll, strict); err != nil {
				t.Fatalf("the complete object is rejected: %v", err)
			}
			b := breaker{kind: whole.GetKind(), visited: visited}
			b.walk(place{path: "spec"}, schemas[whole.GetKind()].Properties["spec"], whole.Object["spec"])
			for _, broken := range b.broken {
				t.Run(broken.name(), func(t *testing.T) { s.requireRejected(t, whole, broken) })
			}
		})
	}
	for kind, schema := range schemas {
		for _, path := range fieldPaths("spec", schema.Properties["spec"]) {
			if !visited[kind+" "+path] {
				t.Errorf("%s: no spec in whole sets %s: its bounds are not tested", kind, path)
			}
		}
	}
}

// requireRejected checks that the object with one invalid field is rejected for that field.
func (s *apiServer) requireRejected(t *testing.T, whole *unstructured.Unstructured, b brokenField) {
	t.Helper()
	u := whole.DeepCopy()
	b.place.set(u.Object, b.value)
	err := s.Create(testContext(t), u, client.DryRunAll)
	if !apierrors.IsInvalid(err) {
		t.Fatalf("got %v, want an error about %s: %s", err, b.place.path, b.message)
	}
	names := func(c metav1.StatusCause) bool {
		return strings.TrimPrefix(c.Field, ".") == b.place.path && strings.Contains(c.Message, b.message)
	}
	if !slices.ContainsFunc(causesOf(err), names) {
		t.Errorf("the error does not contain %q about %s: %v", b.message, b.place.path, err)
	}
}

// place is the position of a value in an object.
type place struct {
	path string
	// steps are below spec: names of fields and keys (string), indexes (int).
	steps []any
}

func (p place) field(name string) place {
	return place{path: p.path + "." + name, steps: append(slices.Clone(p.steps), name)}
}

func (p place) index(i int) place {
	return place{path: fmt.Sprintf("%s[%d]", p.path, i), steps: append(slices.Clone(p.steps), i)}
}

// absent is a value that removes the field.
type absent struct{}

// set sets the value at the place.
func (p place) set(object map[string]any, value any) {
	var parent any = object
	steps := append([]any{"spec"}, p.steps...)
	for i, step := range steps {
		last := i == len(steps)-1
		switch step := step.(type) {
		case string:
			fields := parent.(map[string]any)
			if !last {
				parent = fields[step]
				continue
			}
			fields[step] = value
			if value == (absent{}) {
				delete(fields, step)
			}
		case int:
			items := parent.([]any)
			if !last {
				parent = items[step]
				continue
			}
			items[step] = value
		}
	}
}

// brokenField is a value that violates one bound of the schema.
type brokenField struct {
	place   place
	bound   string
	value   any
	message string
}

func (b brokenField) name() string { return b.place.path + " " + b.bound }

// breaker collects an invalid value for every bound of a schema.
type breaker struct {
	kind    string
	visited map[string]bool
	broken  []brokenField
}

func (b *breaker) add(p place, bound string, value any, format string, args ...any) {
	b.broken = append(b.broken, brokenField{place: p, bound: bound, value: value, message: fmt.Sprintf(format, args...)})
}

// walk visits the schema of the values of the object.
func (b *breaker) walk(p place, s apiextensionsv1.JSONSchemaProps, value any) {
	b.visited[b.kind+" "+withoutIndices(p.path)] = true
	b.wrongType(p, s)
	b.ofScalar(p, s)
	switch value := value.(type) {
	case map[string]any:
		b.ofObject(p, s, value)
	case []any:
		b.ofList(p, s, value)
	}
}

func (b *breaker) wrongType(p place, s apiextensionsv1.JSONSchemaProps) {
	wrong := map[string]any{"string": int64(7), "integer": "seven", "boolean": "yes", "array": "list", "object": "map"}
	if value, ok := wrong[s.Type]; ok && len(p.steps) > 0 && s.Format == "" && !ofScale(p) {
		b.add(p, "type", value, "must be of type %s", s.Type)
	}
}

// ofScale reports whether the server validates the value for the scale subresource first, with other messages. The tables
// have these cases.
func ofScale(p place) bool { return p.path == "spec.replicas" }

func (b *breaker) ofScalar(p place, s apiextensionsv1.JSONSchemaProps) {
	if s.MaxLength != nil {
		b.add(p, "maxLength", strings.Repeat("a", int(*s.MaxLength)+1), "Too long: may not be more than %d", *s.MaxLength)
	}
	if s.MinLength != nil && *s.MinLength > 0 {
		b.add(p, "minLength", strings.Repeat("a", int(*s.MinLength)-1), "should be at least %d chars long", *s.MinLength)
	}
	if s.Pattern != "" {
		b.add(p, "pattern", mismatch(s), "should match '%s'", s.Pattern)
	}
	if len(s.Enum) > 0 {
		values := make([]string, 0, len(s.Enum))
		for _, v := range s.Enum {
			values = append(values, string(v.Raw))
		}
		b.add(p, "enum", "Unheard", "supported values: %s", strings.Join(values, ", "))
	}
	if s.Minimum != nil && !ofScale(p) {
		b.add(p, "minimum", int64(*s.Minimum)-1, "should be greater than or equal to %d", int64(*s.Minimum))
	}
	if s.Maximum != nil {
		b.add(p, "maximum", int64(*s.Maximum)+1, "should be less than or equal to %d", int64(*s.Maximum))
	}
	if s.Format == "date-time" {
		b.add(p, "format", "tomorrow", "must be of type date-time")
	}
}

// mismatch returns a text of valid length that does not match the pattern.
func mismatch(s apiextensionsv1.JSONSchemaProps) string {
	length := 1
	if s.MinLength != nil {
		length = int(*s.MinLength)
	}
	for _, character := range []string{"!", "\x00"} {
		text := strings.Repeat(character, length)
		if !regexp.MustCompile(s.Pattern).MatchString(text) {
			return text
		}
	}
	panic("the pattern takes exclamation marks and NUL: " + s.Pattern)
}

func (b *breaker) ofObject(p place, s apiextensionsv1.JSONSchemaProps, value map[string]any) {
	for _, name := range slices.Sorted(maps.Keys(value)) {
		if property, ok := s.Properties[name]; ok {
			b.walk(p.field(name), property, value[name])
		} else if s.AdditionalProperties != nil {
			b.walk(p.field(name), *s.AdditionalProperties.Schema, value[name])
		}
	}
	for _, name := range s.Required {
		b.add(p.field(name), "required", absent{}, "Required value")
	}
	if s.MaxProperties != nil {
		b.add(p, "maxProperties", numbered(*s.MaxProperties+1, value), "must have at most %d items", *s.MaxProperties)
	}
}

// numbered returns a map of n entries like one of the value's.
func numbered(n int64, value map[string]any) map[string]any {
	many := map[string]any{}
	for _, entry := range value {
		for i := range n {
			many[fmt.Sprintf("key-%d", i)] = entry
		}
	}
	return many
}

func (b *breaker) ofList(p place, s apiextensionsv1.JSONSchemaProps, value []any) {
	for i, item := range value {
		b.walk(p.index(i), *s.Items.Schema, item)
	}
	if s.MinItems != nil {
		b.add(p, "minItems", []any{}, "should have at least %d items", *s.MinItems)
	}
	if s.MaxItems != nil {
		b.add(p, "maxItems", slices.Repeat(value[:1], int(*s.MaxItems)+1), "must have at most %d items", *s.MaxItems)
	}
}

// fieldPaths returns the paths of all fields of a schema. The items of a list are list[].
func fieldPaths(path string, s apiextensionsv1.JSONSchemaProps) []string {
	paths := []string{path}
	for name, property := range s.Properties {
		paths = append(paths, fieldPaths(path+"."+name, property)...)
	}
	if s.Items != nil {
		paths = append(paths, fieldPaths(path+"[]", *s.Items.Schema)...)
	}
	return paths
}

// schemasByKind returns the schemas of the generated CRDs.
func schemasByKind(t *testing.T) map[string]*apiextensionsv1.JSONSchemaProps {
	t.Helper()
	schemas := map[string]*apiextensionsv1.JSONSchemaProps{}
	for _, file := range yamlFiles(t, crdFolder) {
		crd := readCRD(t, file)
		schemas[crd.Spec.Names.Kind] = crd.Spec.Versions[0].Schema.OpenAPIV3Schema
	}
	return schemas
}

// wholeObjects returns an object for each complete spec of the tables.
func wholeObjects(t *testing.T, namespace string) []*unstructured.Unstructured {
	t.Helper()
	var objects []*unstructured.Unstructured
	for _, table := range tables {
		for _, spec := range table.whole {
			objects = append(objects, fresh(t, table.kind, namespace, table.nameOfWhole(), spec))
		}
	}
	return objects
}
