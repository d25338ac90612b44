package api_test

import (
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"path/filepath"
	"reflect"
	"sort"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// sourceFolder has the Go types that the CRDs are generated from.
const sourceFolder = "../../api/v1alpha1"

// zeroMeansUnset are optional integers in specs that need no pointer, with the reason.
var zeroMeansUnset = map[string]string{
	"EnvironmentSpec.DeploymentGeneration": "generations start at 1",
}

// TestTypesFollowTheConventions checks what the CRDs do not show: whether each field is marked as optional or required, and
// whether unset differs from zero.
func TestTypesFollowTheConventions(t *testing.T) {
	files, err := filepath.Glob(filepath.Join(sourceFolder, "*_types.go"))
	if err != nil {
		t.Fatal(err)
	}
	if len(files) == 0 {
		t.Fatalf("no types in %s", sourceFolder)
	}
	set := token.NewFileSet()
	var parsed []*ast.File
	for _, name := range append(files, filepath.Join(sourceFolder, "conditions.go")) {
		file, err := parser.ParseFile(set, name, nil, parser.ParseComments)
		if err != nil {
			t.Fatal(err)
		}
		parsed = append(parsed, file)
	}
	for _, breach := range sourceBreaches(parsed) {
		t.Error(breach)
	}
}

// sourceBreaches returns the violations of the conventions, sorted.
func sourceBreaches(files []*ast.File) []string {
	structs := structsOf(files)
	inSpec := reachableFrom(structs, func(name string) bool { return strings.HasSuffix(name, "Spec") })
	var breaches []string
	for name, s := range structs {
		if isRoot(s) {
			continue // TypeMeta, ObjectMeta and the items of lists are part of apimachinery.
		}
		for _, field := range s.Fields.List {
			path := name + "." + fieldName(field)
			for _, breach := range fieldBreaches(field, inSpec[name] && zeroMeansUnset[path] == "") {
				breaches = append(breaches, path+": "+breach)
			}
		}
	}
	sort.Strings(breaches)
	return breaches
}

func fieldBreaches(field *ast.Field, needsPointer bool) []string {
	tag := reflect.StructTag(strings.Trim(tagOf(field), "`")).Get("json")
	name, options, _ := strings.Cut(tag, ",")
	if len(field.Names) == 0 {
		if tag != ",inline" {
			return []string{"an embedded struct needs the tag json:\",inline\""}
		}
		return nil
	}
	var breaches []string
	if !lowerCamel.MatchString(name) {
		breaches = append(breaches, fmt.Sprintf("json name %q is not lowerCamel", name))
	}
	marked := markers(field)
	optional, required := marked["optional"], marked["required"]
	if optional == required {
		breaches = append(breaches, "needs exactly one of +optional and +required")
	}
	if optional != strings.Contains(options, "omitempty") {
		breaches = append(breaches, "omitempty goes with +optional, and only with it")
	}
	if needsPointer && optional && isBoolOrInteger(field.Type) {
		breaches = append(breaches, "an optional bool or integer of a spec must be a pointer: unset is not zero")
	}
	return breaches
}

// structsOf returns the struct types by name.
func structsOf(files []*ast.File) map[string]*ast.StructType {
	structs := map[string]*ast.StructType{}
	for _, file := range files {
		ast.Inspect(file, func(n ast.Node) bool {
			if spec, ok := n.(*ast.TypeSpec); ok {
				if s, ok := spec.Type.(*ast.StructType); ok {
					structs[spec.Name.Name] = s
				}
			}
			return true
		})
	}
	return structs
}

// reachableFrom returns the chosen structs and the structs in their fields.
func reachableFrom(structs map[string]*ast.StructType, chosen func(string) bool) map[string]bool {
	reached := map[string]bool{}
	var visit func(name string)
	visit = func(name string) {
		s, known := structs[name]
		if !known || reached[name] {
			return
		}
		reached[name] = true
		for _, field := range s.Fields.List {
			ast.Inspect(field.Type, func(n ast.Node) bool {
				if id, ok := n.(*ast.Ident); ok {
					visit(id.Name)
				}
				return true
			})
		}
	}
	for name := range structs {
		if chosen(name) {
			visit(name)
		}
	}
	return reached
}

// isRoot reports whether the struct is a kind or a list of one.
func isRoot(s *ast.StructType) bool {
	for _, field := range s.Fields.List {
		if selector, ok := field.Type.(*ast.SelectorExpr); ok && len(field.Names) == 0 && selector.Sel.Name == "TypeMeta" {
			return true
		}
	}
	return false
}

func markers(field *ast.Field) map[string]bool {
	found := map[string]bool{}
	if field.Doc == nil {
		return found
	}
	for _, comment := range field.Doc.List {
		if marker, ok := strings.CutPrefix(comment.Text, "// +"); ok {
			found[marker] = true
		}
	}
	return found
}

func tagOf(field *ast.Field) string {
	if field.Tag == nil {
		return ""
	}
	return field.Tag.Value
}

func fieldName(field *ast.Field) string {
	if len(field.Names) > 0 {
		return field.Names[0].Name
	}
	return "(embedded)"
}

func isBoolOrInteger(e ast.Expr) bool {
	id, ok := e.(*ast.Ident)
	return ok && (id.Name == "bool" || strings.HasPrefix(id.Name, "int") || strings.HasPrefix(id.Name, "uint"))
}

const badSource = `package bad

type BadSpec struct {
	Other
	// unmarked has no marker.
	Unmarked string ` + "`json:\"unmarked\"`" + `
	// both has two markers.
	// +optional
	// +required
	Both string ` + "`json:\"both,omitempty\"`" + `
	// upper has the wrong case.
	// +required
	Upper string ` + "`json:\"Upper\"`" + `
	// nested has more fields.
	// +optional
	Nested []*Nested ` + "`json:\"nested,omitempty\"`" + `
	// kept is written when it is zero.
	// +optional
	Kept string ` + "`json:\"kept\"`" + `
}

type Nested struct {
	// on has no difference between false and unset.
	// +optional
	On bool ` + "`json:\"on,omitempty\"`" + `
	// count has no difference between zero and unset.
	// +optional
	Count int32 ` + "`json:\"count,omitempty\"`" + `
}

type BadStatus struct {
	// active needs no pointer: only controllers write status.
	// +optional
	Active bool ` + "`json:\"active,omitempty\"`" + `
}
`

func TestEverySourceConventionIsChecked(t *testing.T) {
	file, err := parser.ParseFile(token.NewFileSet(), "bad.go", badSource, parser.ParseComments)
	if err != nil {
		t.Fatal(err)
	}
	want := []string{
		`BadSpec.(embedded): an embedded struct needs the tag json:",inline"`,
		"BadSpec.Both: needs exactly one of +optional and +required",
		"BadSpec.Kept: omitempty goes with +optional, and only with it",
		"BadSpec.Unmarked: needs exactly one of +optional and +required",
		`BadSpec.Upper: json name "Upper" is not lowerCamel`,
		"Nested.Count: an optional bool or integer of a spec must be a pointer: unset is not zero",
		"Nested.On: an optional bool or integer of a spec must be a pointer: unset is not zero",
	}
	if diff := cmp.Diff(want, sourceBreaches([]*ast.File{file})); diff != "" {
		t.Errorf("violations of badSource (-want +got):\n%s", diff)
	}
}
