package scim

import (
	"encoding/json"
	"fmt"
	"net/http"
	"slices"
	"strings"

	"github.com/quoin-dev/quoin/apiserver/scim/patch"
	"github.com/quoin-dev/quoin/apiserver/scim/schema"
)

// Operation is an operation of the service, for the reference of the API of an account. It is derived from the
// table of routes.
type Operation struct {
	// ID is unique.
	ID                    string
	Method, Path, Summary string
	// Access is who may use it.
	Access string
	// Parameters are the parameters of the query.
	Parameters []Parameter
	// Body are the attributes of the body, and Example is a body; empty if there is none.
	Body    []*schema.Attribute
	Example string
}

// accessText describes who may use a route.
var accessText = map[access]string{
	managers: "Needs the permission ScimManage.",
	self:     "For any user.",
	public:   "Needs no credential.",
}

// Operations returns the operations: those of each resource type, and then all others.
func Operations() []Operation {
	var all []Operation
	for _, t := range []*schema.ResourceType{schema.User, schema.Group} {
		for _, r := range routes {
			if strings.Contains(r.pattern, "{type}") {
				all = append(all, r.operation(t))
			}
		}
	}
	for _, r := range routes {
		if !strings.Contains(r.pattern, "{type}") {
			all = append(all, r.operation(schema.User))
		}
	}
	return all
}

// operation returns the operation of a route for a resource type.
func (r *route) operation(t *schema.ResourceType) Operation {
	method, path, _ := strings.Cut(strings.TrimSuffix(r.pattern, "{$}"), " ")
	path = strings.Replace(path, "/{type}", t.Endpoint, 1)
	o := Operation{
		ID:     strings.ToLower("scim-" + method + strings.NewReplacer("/", "-", "{", "", "}", "", ".", "").Replace(strings.TrimSuffix(path, "/"))),
		Method: method, Path: BasePath + strings.TrimSuffix(path, "/"),
		Summary: strings.ReplaceAll(r.summary, "%s", strings.ToLower(t.Name)), Access: accessText[r.access],
	}
	lists := method == http.MethodGet && (strings.HasSuffix(r.pattern, "/{type}") || strings.HasSuffix(r.pattern, "{$}"))
	switch {
	case lists:
		o.Parameters = parameters
	case r.access != public && method != http.MethodDelete && method != http.MethodPatch && !strings.HasSuffix(path, "/Bulk") && !strings.HasSuffix(path, "/.search"):
		o.Parameters = slices.DeleteFunc(slices.Clone(parameters), func(p Parameter) bool { return !p.projects })
		if method != http.MethodGet {
			o.Body = slices.DeleteFunc(slices.Clone(t.Core.Attributes), func(a *schema.Attribute) bool { return a.Hidden || a.Mutability == schema.ReadOnly })
		}
	}
	if example := exampleOf(method, path, t, o.Body); example != nil {
		text, _ := json.Marshal(example) // of strings, lists and maps: it does not fail
		o.Example = string(text)
	}
	return o
}

// exampleValues are examples of required attributes, and of a change of a resource, by type.
var (
	exampleValues  = map[string]string{"userName": "ada@example.com", "displayName": "Analysts"}
	exampleChanges = map[string]object{
		schema.User.Name:  {"op": "replace", "path": "active", "value": false},
		schema.Group.Name: {"op": "add", "path": "members", "value": []object{{"value": "0193b2a4-7c1e-7000-8000-000000000001"}}},
	}
)

// exampleOf returns an example of the body of an operation; nil if it has none.
func exampleOf(method, path string, t *schema.ResourceType, attributes []*schema.Attribute) any {
	resource := object{"schemas": []string{t.Core.ID}}
	for _, a := range t.Core.Attributes {
		if a.Required {
			resource[a.Name] = exampleValues[a.Name]
		}
	}
	switch {
	case strings.HasSuffix(path, "/.search"):
		return object{"schemas": []string{searchURN}, "filter": fmt.Sprintf(`meta.lastModified gt "%s"`, "2026-11-22T10:00:00Z"), "count": defaultPage}
	case strings.HasSuffix(path, "/Bulk"):
		return object{"schemas": []string{bulkRequestURN}, "Operations": []object{{"method": http.MethodPost, "path": t.Endpoint, "bulkId": "1", "data": resource}}}
	case method == http.MethodPatch:
		return object{"schemas": []string{patch.URN}, "Operations": []object{exampleChanges[t.Name]}}
	case len(attributes) > 0:
		return resource
	}
	return nil
}
