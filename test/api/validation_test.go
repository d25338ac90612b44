package api_test

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"sort"
	"strings"
	"testing"
	"time"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"
)

// table declares what the API server accepts and rejects of a kind, and how kubectl shows it. Each
// kind has one, in a file of its own.
type table struct {
	kind string
	// objectName is the name of all objects, if the schema demands one.
	objectName string
	// headings are the columns of kubectl get; those in brackets only with -o wide.
	headings string
	// selectable are the selectable fields, with their value in whole[0].
	selectable map[string]string
	// whole are specs that together set every field.
	whole []string
	// spec is a valid spec, from which every case starts.
	spec  string
	cases []validationCase
}

// validationCase is an object, and a change of it if then is set.
type validationCase struct {
	name string
	// metadataName replaces the default name.
	metadataName string
	// with is merged into the table's spec (RFC 7386: null removes a field).
	with string
	// then is merged into the spec after the object has been created; the update is validated.
	then string
	// field is the field that the error names; empty for a valid object.
	field string
	// message is a part of the error message.
	message string
}

func TestObjectsAreValidated(t *testing.T) {
	s := server(t)
	namespace := s.namespace(t)
	rejected := &rejections{}
	for _, table := range tables {
		t.Run(table.kind, func(t *testing.T) {
			for i, c := range table.cases {
				t.Run(c.name, func(t *testing.T) {
					name := cmp.Or(c.metadataName, table.objectName, fmt.Sprintf("case-%d", i))
					err := s.validate(t, table, c, namespace, name)
					checkError(t, err, c.field, c.message)
					rejected.add(table.kind, err)
				})
			}
		})
	}
	if !t.Failed() {
		t.Run("every rule has rejected an object", func(t *testing.T) { rejected.requireEveryRule(t) })
	}
}

// nameOfWhole returns the name of the complete objects.
func (t *table) nameOfWhole() string { return cmp.Or(t.objectName, "whole") }

// tables are the declared tables.
var tables []table

// declare adds a table to tables.
func declare(t table) table {
	tables = append(tables, t)
	return t
}

// tableOf returns the table of a kind.
func tableOf(t *testing.T, kind string) table {
	t.Helper()
	i := slices.IndexFunc(tables, func(of table) bool { return of.kind == kind })
	if i < 0 {
		t.Fatalf("%s has no table: declare one in %s_test.go", kind, strings.ToLower(kind))
	}
	return tables[i]
}

// validate creates the object of the case, or updates it, as a dry run.
func (s *apiServer) validate(t *testing.T, table table, c validationCase, namespace, name string) error {
	t.Helper()
	ctx := testContext(t)
	u := fresh(t, table.kind, namespace, name, merge(t, table.spec, c.with))
	strict := client.FieldValidation(metav1.FieldValidationStrict)
	if c.then == "" {
		return s.Create(ctx, u, client.DryRunAll, strict)
	}
	if err := s.Create(ctx, u, strict); err != nil {
		t.Fatalf("create the object to update: %v", err)
	}
	t.Cleanup(func() { s.remove(t, u) })
	specText, err := yaml.Marshal(u.Object["spec"])
	if err != nil {
		t.Fatal(err)
	}
	u.Object["spec"] = fresh(t, table.kind, "", name, merge(t, string(specText), c.then)).Object["spec"]
	return s.Update(ctx, u.DeepCopy(), client.DryRunAll, strict)
}

// remove deletes an object that the test created.
func (s *apiServer) remove(t *testing.T, u *unstructured.Unstructured) {
	t.Helper()
	// The context of the test has ended during cleanup.
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	if err := s.Delete(ctx, u); client.IgnoreNotFound(err) != nil {
		t.Error(err)
	}
}

// merge merges a YAML patch into YAML as RFC 7386 does: null removes a field.
func merge(t *testing.T, base, patch string) string {
	t.Helper()
	if patch == "" {
		return base
	}
	text, err := yaml.Marshal(mergePatch(parse(t, base), parse(t, patch)))
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

func mergePatch(target, patch any) any {
	fields, ok := patch.(map[string]any)
	if !ok {
		return patch
	}
	merged, ok := target.(map[string]any)
	if !ok {
		merged = map[string]any{}
	}
	for name, value := range fields {
		if value == nil {
			delete(merged, name)
			continue
		}
		merged[name] = mergePatch(merged[name], value)
	}
	return merged
}

func parse(t *testing.T, text string) any {
	t.Helper()
	var value any
	if err := yaml.UnmarshalStrict([]byte(text), &value); err != nil {
		t.Fatalf("parse: %v\n%s", err, text)
	}
	return value
}

// checkError checks that the error names exactly this field and contains the message, or that there is no error if the
// field is empty.
func checkError(t *testing.T, err error, field, message string) {
	t.Helper()
	switch {
	case field == "" && err == nil:
		return
	case field == "":
		t.Fatalf("a valid object is rejected: %v", err)
	case err == nil:
		t.Fatalf("the object is accepted, want an error about %s: %s", field, message)
	case message == "":
		t.Fatalf("the case has no message; the error is: %v", err)
	}
	causes := causesOf(err)
	if len(causes) == 0 {
		t.Fatalf("the error names no field: %v", err)
	}
	found := false
	for _, c := range causes {
		// The server's own checks of the scale subresource write ".spec.replicas".
		if strings.TrimPrefix(c.Field, ".") != field {
			t.Errorf("the error names %s (%s), want %s", c.Field, c.Message, field)
		}
		found = found || strings.Contains(c.Message, message)
	}
	if !found {
		t.Errorf("the error does not contain %q: %v", message, err)
	}
}

// causesOf returns the causes of an error.
func causesOf(err error) []metav1.StatusCause {
	var status apierrors.APIStatus
	if !errors.As(err, &status) || status.Status().Details == nil {
		return nil
	}
	return slices.DeleteFunc(slices.Clone(status.Status().Details.Causes), func(c metav1.StatusCause) bool {
		// The server adds this cause if it skips CEL because the schema has failed.
		return strings.Contains(c.Message, "some validation rules were not checked")
	})
}

// rejections collects the messages with which the server rejected objects.
type rejections struct {
	messages []string
}

func (r *rejections) add(kind string, err error) {
	for _, c := range causesOf(err) {
		r.messages = append(r.messages, kind+": "+c.Field+": "+c.Message)
	}
}

// requireEveryRule fails for each CEL rule of the CRDs without a case that it rejects.
func (r *rejections) requireEveryRule(t *testing.T) {
	t.Helper()
	for _, file := range yamlFiles(t, crdFolder) {
		crd := readCRD(t, file)
		kind := crd.Spec.Names.Kind
		for _, rule := range celRules("", crd.Spec.Versions[0].Schema.OpenAPIV3Schema) {
			if !slices.ContainsFunc(r.messages, rule.explains(kind)) {
				t.Errorf("%s: no case is rejected by the rule of %q: %s", kind, rule.path, rule.message)
			}
		}
	}
}

// celRule is an x-kubernetes-validations entry and its path.
type celRule struct{ path, message, expression string }

// explains reports whether the rule caused a message such as "Kind: spec.a[0].b: text".
func (c celRule) explains(kind string) func(string) bool {
	return func(text string) bool {
		rest, ok := strings.CutPrefix(text, kind+": ")
		field, message, found := strings.Cut(rest, ": ")
		return ok && found && withoutIndices(field) == c.path && strings.Contains(message, c.message)
	}
}

// withoutIndices converts a[0].b to a[].b.
func withoutIndices(path string) string {
	var b strings.Builder
	inside := false
	for _, c := range path {
		if c == ']' {
			inside = false
		}
		if !inside {
			b.WriteRune(c)
		}
		if c == '[' {
			inside = true
		}
	}
	return b.String()
}

func celRules(path string, s *apiextensionsv1.JSONSchemaProps) []celRule {
	var found []celRule
	for _, v := range s.XValidations {
		at := path + v.FieldPath
		if at == "" {
			at = "<nil>" // The server's path of a rule about the whole object.
		}
		found = append(found, celRule{path: at, message: v.Message, expression: v.Rule})
	}
	if s.Items != nil && s.Items.Schema != nil {
		found = append(found, celRules(path+"[]", s.Items.Schema)...)
	}
	names := make([]string, 0, len(s.Properties))
	for name := range s.Properties {
		names = append(names, name)
	}
	sort.Strings(names)
	for _, name := range names {
		property := s.Properties[name]
		found = append(found, celRules(strings.TrimPrefix(path+"."+name, "."), &property)...)
	}
	return found
}

// readCRD reads a generated CRD.
func readCRD(t *testing.T, file string) *apiextensionsv1.CustomResourceDefinition {
	t.Helper()
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	crd := &apiextensionsv1.CustomResourceDefinition{}
	if err := yaml.UnmarshalStrict(text, crd); err != nil {
		t.Fatalf("%s: %v", file, err)
	}
	return crd
}
