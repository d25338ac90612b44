package scim_test

import (
	"encoding/json"
	"fmt"
	"reflect"
	"strings"
	"testing"

	"github.com/quoin-dev/quoin/test/internal/scimtest"
)

// described is an attribute in /Schemas.
type described struct {
	Name, Type, Mutability, Returned, Uniqueness string
	MultiValued, Required, CaseExact             bool
	CanonicalValues, ReferenceTypes              []string
	SubAttributes                                []described
}

// sample returns a valid value of an attribute; n selects one of several values. resources are ids for
// references.
func (d *described) sample(n int, resources []string) any {
	var value any
	switch d.Type {
	case "complex":
		object := map[string]any{}
		for _, sub := range d.SubAttributes {
			if sub.Name == "value" && d.refersToResources() {
				object["value"] = resources[n]
			} else if sub.Name != "$ref" && sub.Mutability != "readOnly" {
				object[sub.Name] = sub.sample(n, resources)
			}
		}
		value = object
	case "boolean":
		value = n == 0
	case "integer":
		value = float64(41 + n)
	case "decimal":
		value = float64(n) + 0.5
	case "dateTime":
		value = fmt.Sprintf("2026-01-0%dT12:00:00Z", n+1)
	case "binary":
		value = []string{"AAEC", "AAED"}[n]
	case "reference":
		value = fmt.Sprintf("https://example.com/%d", n)
	default:
		if value = fmt.Sprintf("Value-%d", n); len(d.CanonicalValues) > 0 {
			value = d.CanonicalValues[min(n, len(d.CanonicalValues)-1)]
		}
		if d.CanonicalValues != nil && d.CanonicalValues[0] == "User" {
			value = "User"
		}
		if d.Uniqueness == "server" {
			value = scimtest.UniqueName("Value")
		}
	}
	if d.MultiValued {
		return []any{value}
	}
	return value
}

func (d *described) refersToResources() bool {
	for _, sub := range d.SubAttributes {
		if sub.Name == "$ref" {
			return true
		}
	}
	return false
}

// misfit returns a value of another type.
func (d *described) misfit() any {
	var value any = 5
	if d.Type == "integer" || d.Type == "decimal" {
		value = "five"
	}
	if d.MultiValued {
		return []any{value}
	}
	return value
}

// covers reports whether a value contains all that was written; the server may add to it.
func covers(got, want any) bool {
	switch want := want.(type) {
	case map[string]any:
		object, _ := got.(map[string]any)
		for name, value := range want {
			if !covers(object[name], value) {
				return false
			}
		}
		return true
	case []any:
		list, _ := got.([]any)
		if len(list) != len(want) {
			return false
		}
		for i := range want {
			if !covers(list[i], want[i]) {
				return false
			}
		}
		return true
	}
	return reflect.DeepEqual(got, want)
}

// attributeTest tests one attribute of a resource type.
type attributeTest struct {
	scimtest.Caller
	*described
	endpoint, urn string
	// path is the path of the attribute, with the URN of its extension.
	path      string
	core      bool
	resources []string
}

func TestRFC7643Section7_Characteristics(t *testing.T) {
	admin := acme.WithToken(acme.RFC)
	resources := []string{admin.CreateUser(t, scimtest.UniqueName("r")), admin.CreateUser(t, scimtest.UniqueName("r"))}
	for endpoint, urns := range map[string][]string{"/Users": {scimtest.UserURN, scimtest.EnterpriseURN, scimtest.AttributesURN}, "/Groups": {scimtest.GroupURN}} {
		for i, urn := range urns {
			var s struct{ Attributes []described }
			if err := json.Unmarshal(admin.Call(t, "GET", "/Schemas/"+urn, nil).WantStatus(200).Raw, &s); err != nil || len(s.Attributes) == 0 {
				t.Fatalf("%s: %v", urn, err)
			}
			for _, d := range s.Attributes {
				at := &attributeTest{Caller: admin, described: &d, endpoint: endpoint, urn: urn, path: d.Name, core: i == 0, resources: resources}
				if !at.core {
					at.path = urn + ":" + d.Name
				}
				t.Run(at.path, at.run)
			}
		}
	}
}

// body returns the body of a resource with a value of the attribute.
func (at *attributeTest) body(value any) string {
	name := "userName"
	if at.endpoint == "/Groups" {
		name = "displayName"
	}
	body := map[string]any{name: scimtest.UniqueName("s")}
	if at.core {
		body[at.Name] = value
	} else {
		body[at.urn] = map[string]any{at.Name: value}
	}
	return scimtest.FormatJSON(body)
}

// of returns the attribute's value in a response.
func (at *attributeTest) of(a *scimtest.Response) any {
	if at.core {
		return a.Value(at.Name)
	}
	return a.Value("[" + at.urn + "]." + at.Name)
}

func (at *attributeTest) run(t *testing.T) {
	value := at.sample(0, at.resources)
	created := at.Post(t, at.endpoint, at.body(value)).WantStatus(201)
	path := at.endpoint + "/" + created.Text("id")
	if at.Mutability == "readOnly" {
		if at.of(created) != nil {
			t.Errorf("a read-only attribute was written: %s", created.Raw)
		}
		at.Call(t, "PATCH", path, at.operation("replace", value)).WantError(400, "mutability", at.Name)
		at.Call(t, "PATCH", path, scimtest.PatchBody(`{"op":"remove","path":`+scimtest.Quote(at.path)+`}`)).WantError(400, "mutability", at.Name)
		return
	}
	for _, a := range []*scimtest.Response{created, at.Call(t, "GET", path, nil).WantStatus(200)} {
		if !covers(at.of(a), value) {
			t.Errorf("wrote %s, %s returns %s", scimtest.FormatJSON(value), a.Request, scimtest.FormatJSON(at.of(a)))
		}
	}
	at.Post(t, at.endpoint, at.body(at.misfit())).WantError(400, "invalidValue", at.Name)
	if list := []any{value}; !at.MultiValued {
		at.Post(t, at.endpoint, at.body(list)).WantError(400, "invalidValue", at.Name)
	}
	if at.Uniqueness == "server" {
		at.Post(t, at.endpoint, at.body(value)).WantError(409, "uniqueness", at.Name)
	}
	at.projected(t, path)
	at.filtered(t, created.Text("id"), value)
	at.replaced(t, path)
	at.removed(t, path)
}

func (at *attributeTest) operation(op string, value any) string {
	return scimtest.PatchBody(`{"op":"` + op + `","path":` + scimtest.Quote(at.path) + `,"value":` + scimtest.FormatJSON(value) + `}`)
}

func (at *attributeTest) projected(t *testing.T, path string) {
	if at.Returned != "default" {
		t.Errorf("returned is %s: not tested", at.Returned)
	}
	if only := at.Call(t, "GET", path+scimtest.Query("attributes", at.path), nil).WantStatus(200); at.of(only) == nil || len(only.Names("")) != 3 {
		t.Errorf("included: %s", only.Raw)
	}
	if without := at.Call(t, "GET", path+scimtest.Query("excludedAttributes", at.path), nil).WantStatus(200); at.of(without) != nil {
		t.Errorf("excluded: %s", without.Raw)
	}
}

// filtered filters by the value of the attribute and of its sub-attributes.
func (at *attributeTest) filtered(t *testing.T, id string, value any) {
	matches := func(filter string, want bool) {
		t.Helper()
		if got := at.Find(t, at.endpoint, fmt.Sprintf(`id eq %q and %s`, id, filter)).WantStatus(200); (got.Value("totalResults") == 1.0) != want {
			t.Errorf("%s: %v, want %v", filter, got.Value("totalResults"), want)
		}
	}
	simple := func(d *described, path string, value any) {
		t.Helper()
		matches(path+" pr", true)
		if list, ok := value.([]any); ok {
			value = list[0]
		}
		matches(path+" eq "+scimtest.FormatJSON(value), true)
		if text, ok := value.(string); ok && d.Type != "dateTime" && strings.ToUpper(text) != text {
			matches(path+" eq "+scimtest.Quote(strings.ToUpper(text)), !d.CaseExact)
		}
	}
	if at.Type != "complex" {
		simple(at.described, at.path, value)
		return
	}
	matches(at.path+" pr", true)
	if list, ok := value.([]any); ok {
		value = list[0]
	}
	object, _ := value.(map[string]any)
	for _, sub := range at.SubAttributes {
		if sent, ok := object[sub.Name]; ok {
			simple(&sub, at.path+"."+sub.Name, sent)
		}
	}
}

func (at *attributeTest) replaced(t *testing.T, path string) {
	other := at.sample(1, at.resources)
	got := at.Call(t, "PATCH", path, at.operation("replace", other))
	if at.Mutability == "immutable" {
		got.WantError(400, "mutability", at.Name)
		return
	}
	if got.WantStatus(200); !covers(at.of(got), other) {
		t.Errorf("replaced by %s, got %s", scimtest.FormatJSON(other), scimtest.FormatJSON(at.of(got)))
	}
	back, _ := at.sample(0, at.resources).(map[string]any)
	if list, ok := at.sample(0, at.resources).([]any); ok {
		back, _ = list[0].(map[string]any)
	}
	for _, sub := range at.SubAttributes {
		if sub.Name == "$ref" && sub.Mutability != "readOnly" || sub.CanonicalValues != nil && sub.CanonicalValues[0] == "User" {
			continue // derived from value
		}
		operation := scimtest.PatchBody(`{"op":"replace","path":` + scimtest.Quote(at.path+"."+sub.Name) + `,"value":` + scimtest.FormatJSON(back[sub.Name]) + `}`)
		if got := at.Call(t, "PATCH", path, operation); sub.Mutability != "readWrite" {
			got.WantError(400, "mutability", sub.Name)
		} else if got.WantStatus(200); !strings.Contains(scimtest.FormatJSON(at.of(got)), scimtest.FormatJSON(sub.Name)+":"+scimtest.FormatJSON(back[sub.Name])) {
			t.Errorf("%s replaced by %s: %s", sub.Name, scimtest.FormatJSON(back[sub.Name]), scimtest.FormatJSON(at.of(got)))
		}
	}
}

func (at *attributeTest) removed(t *testing.T, path string) {
	got := at.Call(t, "PATCH", path, scimtest.PatchBody(`{"op":"remove","path":`+scimtest.Quote(at.path)+`}`))
	if at.Required || at.Mutability == "immutable" {
		got.WantError(400, "mutability", at.Name)
		return
	}
	if got.WantStatus(200); at.of(got) != nil && at.Name != "active" { // active is true by default
		t.Errorf("removed, got %s", scimtest.FormatJSON(at.of(got)))
	}
	if at.Name != "active" {
		at.Find(t, at.endpoint, fmt.Sprintf(`id eq %q and %s eq null`, got.Text("id"), at.path)).WantStatus(200).Want("totalResults", 1)
	}
}
