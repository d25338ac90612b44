package rest

import (
	"maps"
	"net/http"
	"slices"
	"strings"

	"github.com/danielgtaylor/huma/v2"
)

// exampleTexts are example values of strings, by the name of the property or parameter. Others are
// derived from the schema.
var exampleTexts = map[string]string{ //nolint:gosec // tokens without content
	"id": "1", "deploymentId": "1", "environmentId": "2", "apiKeyId": "key-x7k2m9q4ab", "name": "Sales", "region": "local", "targetPlatform": "aws",
	"email": "ada@example.com", "userEmail": "ada@example.com", "username": "ada", "branchName": "next", "parentBranch": "main", "from": "main", "branch": "main",
	"releaseChannel": "latest", "releaseChannelVersion": "cubejs/cube:v1.2.3", "version": "1.2.3", "lastHash": "9fceb02d0ae598e95dc970b74767f19372d61af8",
	"deploymentUrl": "https://sales.data.example.com", "url": "https://sales.data.example.com/cubejs-api/v1", "host": "sales.data.example.com",
	"token": "eyJhbGciOiJIUzI1NiJ9…", "cubeApiToken": "eyJhbGciOiJIUzI1NiJ9…", "value": "postgres", "error": "name: expected length >= 1",
	"start": "2026-11-01", "end": "2026-11-30", "search": "sales", "eventName": "Created deployment", "maintenanceWindowTime": "02:00",
	"startCursor": "eyJ2IjoxfQ", "endCursor": "eyJ2IjoxfQ", "after": "eyJ2IjoxfQ", "X-GitHub-Event": "push", "customDomain": "data.example.com", "color": "#3B5BDB",
	"transaction": `{"id":"KVJ4U6YB2ZC3WQ5XN7RTLMSEPA"}`, "fileName": "model/cubes/orders.yml", "file": "model/cubes/orders.yml", "path": "/model/cubes/orders.yml",
	"newPath": "/model/cubes/sales.yml", "content": "cubes: []\n", "hash": "da39a3ee5e6b4b0d3255bfef95601890afd80709",
}

// addExamples adds an example to each parameter, and to each JSON request and response, that has none.
func addExamples(doc *huma.OpenAPI) {
	for _, item := range doc.Paths {
		for _, method := range routeMethods {
			op := documentedOperation(item, method)
			if op == nil {
				continue
			}
			for _, p := range op.Parameters {
				if p.Example == nil {
					p.Example = exampleOf(doc, p.Name, p.Schema, 0)
				}
			}
			if op.RequestBody != nil {
				addExample(doc, op.RequestBody.Content)
			}
			for status, response := range op.Responses {
				if strings.HasPrefix(status, "2") {
					addExample(doc, response.Content)
				}
			}
		}
	}
}

func addExample(doc *huma.OpenAPI, content map[string]*huma.MediaType) {
	if media := content["application/json"]; media != nil && media.Example == nil && len(media.Examples) == 0 {
		media.Example = exampleOf(doc, "", media.Schema, 0)
	}
}

// exampleDepth is the depth up to which examples of objects have properties.
const exampleDepth = 6

// exampleOf returns a valid value for a schema; name is that of the property or parameter.
func exampleOf(doc *huma.OpenAPI, name string, s *huma.Schema, depth int) any {
	if s != nil && s.Ref != "" {
		s = doc.Components.Schemas.SchemaFromRef(s.Ref)
	}
	switch {
	case s == nil:
		return nil
	case len(s.Examples) > 0:
		return s.Examples[0]
	case len(s.Enum) > 0:
		return s.Enum[0]
	}
	switch s.Type {
	case huma.TypeObject:
		return exampleObject(doc, s, depth)
	case huma.TypeArray:
		return []any{exampleOf(doc, name, s.Items, depth+1)}
	case huma.TypeBoolean:
		return true
	case huma.TypeInteger, huma.TypeNumber:
		if s.Minimum != nil && *s.Minimum > 1 {
			return *s.Minimum
		}
		return 1
	}
	return exampleText(name, s)
}

// exampleObject leaves out properties that may be absent beyond a depth, and deprecated ones.
func exampleObject(doc *huma.OpenAPI, s *huma.Schema, depth int) any {
	object := map[string]any{}
	oneOf, _ := s.Extensions["oneOf"].([]map[string]any)
	for _, name := range slices.Sorted(maps.Keys(s.Properties)) {
		property := s.Properties[name]
		isRequired := slices.Contains(s.Required, name)
		isAlternative := len(oneOf) > 1 && slices.ContainsFunc(oneOf[1:], func(other map[string]any) bool {
			names, _ := other["required"].([]string)
			return slices.Contains(names, name)
		})
		if isRequired || depth < exampleDepth && !property.Deprecated && !isAlternative {
			object[name] = exampleOf(doc, name, property, depth+1)
		}
	}
	return object
}

func exampleText(name string, s *huma.Schema) string {
	text, known := exampleTexts[name]
	switch {
	case s.Format == "date-time":
		return "2026-11-22T10:00:00Z"
	case strings.HasPrefix(s.Pattern, "^[1-9][0-9]"), strings.HasPrefix(s.Pattern, "^[0-9]"):
		if known && strings.Trim(text, "0123456789") == "" {
			return text
		}
		return "1"
	case known:
		return text
	}
	return "text"
}

// curl returns a command that calls an operation: with the example of its required parameters and its
// body.
func curl(doc *huma.OpenAPI, method, path string, op *huma.Operation) string {
	var query []string
	for _, p := range op.Parameters {
		example, _ := p.Example.(string)
		switch {
		case p.In == "path" && example != "":
			path = strings.ReplaceAll(path, "{"+p.Name+"}", example)
		case p.In == "path":
			path = strings.ReplaceAll(path, "{"+p.Name+"}", "1")
		case p.In == "query" && p.Required:
			query = append(query, p.Name+"="+example)
		}
	}
	if len(query) > 0 {
		path += "?" + strings.Join(query, "&")
	}
	command := CurlCommand
	if method != http.MethodGet {
		command += " -X " + method
	}
	if op.RequestBody != nil {
		if media := op.RequestBody.Content["application/json"]; media != nil {
			command += " --json '" + exampleJSON(requiredOnly(doc, media)) + "'"
		}
		if media := op.RequestBody.Content[formMediaType]; media != nil {
			for _, name := range media.Schema.Required {
				value := exampleTexts[name]
				if name == "file" {
					value = "@" + value
				}
				command += " -F '" + name + "=" + value + "'"
			}
		}
	}
	return command + ` "$QUOIN_URL` + path + `"`
}

// requiredOnly returns the example of a body with its required properties; if none is required, with
// one property, so that a copied command does not change everything.
func requiredOnly(doc *huma.OpenAPI, media *huma.MediaType) any {
	example, isObject := media.Example.(map[string]any)
	s := media.Schema
	if s.Ref != "" {
		s = doc.Components.Schemas.SchemaFromRef(s.Ref)
	}
	if !isObject || len(example) == 0 {
		return media.Example
	}
	shown := s.Required
	if _, hasName := example["name"]; len(shown) == 0 && hasName {
		shown = []string{"name"}
	} else if len(shown) == 0 {
		shown = slices.Sorted(maps.Keys(example))[:1]
	}
	short := map[string]any{}
	for _, name := range shown {
		short[name] = example[name]
	}
	if oneOf, _ := s.Extensions["oneOf"].([]map[string]any); len(oneOf) > 0 {
		names, _ := oneOf[0]["required"].([]string)
		for _, name := range names {
			short[name] = example[name]
		}
	}
	return short
}

func exampleJSON(value any) string {
	var text strings.Builder
	_ = strictJSON.Marshal(&text, value)
	return strings.TrimSpace(text.String())
}
