package rest

import (
	"bytes"
	"cmp"
	"context"
	_ "embed"
	"encoding/json"
	"fmt"
	"html/template"
	"net/http"
	"slices"
	"strings"

	"github.com/danielgtaylor/huma/v2"
)

// documentFamily serves the document itself.
func (a *API) documentFamily() Family {
	return Family{Tag: "OpenAPI Spec", Description: "This document.", Routes: []Route{
		Handle(http.MethodGet, "/api/v1/spec", "getSpec", NoPermission, "Get the OpenAPI document", a.getDocument),
	}}
}

// DocumentOutput is the OpenAPI document.
type DocumentOutput struct {
	Body map[string]any
}

func (a *API) getDocument(context.Context, *struct{}) (*DocumentOutput, error) {
	out := &DocumentOutput{}
	return out, json.Unmarshal(a.document, &out.Body)
}

// Document returns the OpenAPI 3.1 document of all routes, as JSON.
func (a *API) Document() []byte { return a.document }

// Reference returns the reference page, as HTML.
func (a *API) Reference() []byte { return a.page }

// render writes the document and the reference page, once: routes do not change afterwards.
func (a *API) render() error {
	doc := a.huma.OpenAPI()
	addExamples(doc)
	page := &bytes.Buffer{}
	if err := reference.Execute(page, append(a.referenceTags(), a.sections...)); err != nil {
		return fmt.Errorf("write reference page: %w", err)
	}
	a.page = page.Bytes()
	for _, s := range doc.Components.Schemas.Map() {
		addNull(s)
	}
	var err error
	if a.document, err = json.Marshal(doc); err != nil {
		return fmt.Errorf("write OpenAPI document: %w", err)
	}
	return nil
}

// addNull adds null to the choices of values that may be null: in JSON Schema an enum without it excludes null whatever the type is.
func addNull(s *huma.Schema) {
	if s == nil {
		return
	}
	if s.Nullable && len(s.Enum) > 0 && !slices.Contains(s.Enum, nil) {
		s.Enum = append(slices.Clone(s.Enum), nil)
	}
	for _, property := range s.Properties {
		addNull(property)
	}
	addNull(s.Items)
	for _, one := range slices.Concat(s.OneOf, s.AnyOf, s.AllOf) {
		addNull(one)
	}
}

//go:embed reference.html
var referenceHTML string

var reference = template.Must(template.New("reference").Parse(referenceHTML))

// ServeReference serves the reference: one page without external resources and tenant data.
func (a *API) ServeReference(w http.ResponseWriter, _ *http.Request) { ServePage(w, a.page) }

// ServePage serves a page that is the same for all accounts and has no external resources.
func ServePage(w http.ResponseWriter, page []byte) {
	h := w.Header()
	h.Set("Content-Type", "text/html; charset=utf-8")
	h.Set("Content-Security-Policy", "default-src 'none'; style-src 'unsafe-inline'")
	h.Set("Cache-Control", "public, max-age=300")
	_, _ = w.Write(page)
}

// Section is a section of the reference: the operations of a family, or of another API of the account.
type Section struct {
	Name, About string
	Operations  []SectionOperation
}

// SectionOperation is an operation in the reference. Curl is a command that calls it.
type SectionOperation struct {
	ID, Method, Path, Summary, Description string
	Curl                                   string
	Parameters                             []SectionField
	Body, Answer                           []SectionField
}

// SectionField is a parameter, or a field of a body by its path.
type SectionField struct {
	Name, In, Type, About string
	Required              bool
}

// CurlCommand begins the commands of the reference.
const CurlCommand = `curl -H "Authorization: Bearer $QUOIN_API_KEY"`

// referenceTags returns the operations of each tag in the order of the routes of its families: list,
// create, get, update and delete first.
func (a *API) referenceTags() []Section {
	doc := a.huma.OpenAPI()
	var tags []Section
	for _, tag := range doc.Tags {
		shown := Section{Name: tag.Name, About: tag.Description}
		for _, r := range a.routes {
			if op := documentedOperation(doc.Paths[r.Path], r.Method); op != nil && slices.Contains(op.Tags, tag.Name) {
				shown.Operations = append(shown.Operations, referenceOperation(doc, r.Method, r.Path, op))
			}
		}
		tags = append(tags, shown)
	}
	return tags
}

func referenceOperation(doc *huma.OpenAPI, method, path string, op *huma.Operation) SectionOperation {
	shown := SectionOperation{ID: op.OperationID, Method: method, Path: path, Summary: op.Summary, Description: op.Description, Curl: curl(doc, method, path, op)}
	for _, p := range op.Parameters {
		shown.Parameters = append(shown.Parameters, SectionField{p.Name, p.In, describeType(p.Schema), p.Description, p.Required})
	}
	if op.RequestBody != nil {
		for _, mediaType := range []string{"application/json", formMediaType} {
			if media := op.RequestBody.Content[mediaType]; media != nil {
				shown.Body = fields(doc, "", media.Schema, 0)
			}
		}
	}
	var statuses []string
	for status, response := range op.Responses {
		statuses = append(statuses, status)
		if content := response.Content["application/json"]; content != nil && strings.HasPrefix(status, "2") {
			shown.Answer = fields(doc, "", content.Schema, 0)
		}
	}
	slices.Sort(statuses)
	shown.Description = strings.TrimSpace(shown.Description + " Answers " + strings.Join(statuses, " ") + ".")
	return shown
}

// fields flattens a schema into lines: a.b, a[].c.
func fields(doc *huma.OpenAPI, prefix string, s *huma.Schema, depth int) []SectionField {
	if s == nil || depth > 6 {
		return nil
	}
	if s.Ref != "" {
		return fields(doc, prefix, doc.Components.Schemas.SchemaFromRef(s.Ref), depth)
	}
	if s.Type == huma.TypeArray {
		return fields(doc, prefix+"[]", s.Items, depth)
	}
	var all []SectionField
	for _, name := range sortedNames(s.Properties) {
		property := s.Properties[name]
		all = append(all, SectionField{Name: strings.TrimPrefix(prefix+"."+name, "."), Type: describeType(property), About: property.Description, Required: slices.Contains(s.Required, name)})
		all = append(all, fields(doc, prefix+"."+name, property, depth+1)...)
	}
	return all
}

func sortedNames(properties map[string]*huma.Schema) []string {
	names := make([]string, 0, len(properties))
	for name := range properties {
		names = append(names, name)
	}
	slices.Sort(names)
	return names
}

func describeType(s *huma.Schema) string {
	switch {
	case s == nil:
		return ""
	case s.Ref != "":
		return s.Ref[strings.LastIndex(s.Ref, "/")+1:]
	case s.Type == huma.TypeArray:
		return describeType(s.Items) + "[]"
	}
	described := s.Type
	if s.Format != "" {
		described += " " + s.Format
	}
	var allowed []string
	for _, value := range s.Enum {
		allowed = append(allowed, fmt.Sprint(value))
	}
	if len(allowed) > 0 {
		described += ": " + strings.Join(allowed, " · ")
	}
	if pattern := cmp.Or(s.PatternDescription, s.Pattern); pattern != "" {
		described += ": " + pattern
	}
	if s.Minimum != nil {
		described += fmt.Sprintf(" ≥ %v", *s.Minimum)
	}
	if s.Maximum != nil {
		described += fmt.Sprintf(" ≤ %v", *s.Maximum)
	}
	return described
}
