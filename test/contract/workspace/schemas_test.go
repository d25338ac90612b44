package workspace_test

import (
	"bytes"
	"io"
	"net/http"
	"strings"
	"testing"

	"github.com/santhosh-tekuri/jsonschema/v6"
)

// published is the response to a request without a credential.
type published struct {
	status int
	header http.Header
	body   []byte
}

// public sends a request without a credential.
func public(t *testing.T, method, path, tag string) published {
	t.Helper()
	r, err := http.NewRequestWithContext(t.Context(), method, "https://"+acme.host()+path, nil)
	if err != nil {
		t.Fatal(err)
	}
	if tag != "" {
		r.Header.Set("If-None-Match", tag)
	}
	answer, err := anyone.Do(r)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = answer.Body.Close() }()
	body, err := io.ReadAll(answer.Body)
	if err != nil {
		t.Fatal(err)
	}
	return published{answer.StatusCode, answer.Header, body}
}

// TestSchemasArePublished: anyone can read the schemas, which have the URLs as ids at which they are served, and validate with them.
func TestSchemasArePublished(t *testing.T) {
	for name, c := range map[string]struct {
		valid, invalid any
	}{
		"dashboard-v1": {map[string]any{"widgets": []any{}}, map[string]any{"widgets": 1}},
		"report-v1":    {map[string]any{"kind": "table", "later": true}, map[string]any{"kind": 1}},
	} {
		path := "/schemas/workspace/" + name + ".json"
		answer := public(t, "GET", path, "")
		tag := answer.header.Get("Etag")
		if answer.status != http.StatusOK || answer.header.Get("Content-Type") != "application/schema+json" || tag == "" || !strings.Contains(answer.header.Get("Cache-Control"), "public") {
			t.Fatalf("%s: %d %v", path, answer.status, answer.header)
		}
		schema := compiled(t, "https://"+acme.host()+path, answer.body)
		if schema.Validate(c.valid) != nil || schema.Validate(c.invalid) == nil {
			t.Errorf("%s does not validate", path)
		}
		if again := public(t, "GET", path, tag); again.status != http.StatusNotModified {
			t.Errorf("with the entity tag: %d", again.status)
		}
		if head := public(t, "HEAD", path, ""); head.status != http.StatusOK || head.header.Get("Etag") != tag {
			t.Errorf("HEAD: %d", head.status)
		}
		if posted := public(t, "POST", path, ""); posted.status != http.StatusMethodNotAllowed {
			t.Errorf("POST: %d", posted.status)
		}
	}
	for _, path := range []string{"/schemas/workspace/other-v1.json", "/schemas/workspace/dashboard-v1"} {
		if answer := public(t, "GET", path, ""); answer.status != http.StatusNotFound {
			t.Errorf("%s: %d", path, answer.status)
		}
	}
}

// compiled returns a schema whose $id is a URL.
func compiled(t *testing.T, url string, text []byte) *jsonschema.Schema {
	t.Helper()
	document, err := jsonschema.UnmarshalJSON(bytes.NewReader(text))
	if err != nil {
		t.Fatal(err)
	}
	if object, _ := document.(map[string]any); object["$id"] != url {
		t.Errorf("the $id is %v, want %s", object["$id"], url)
	}
	compiler := jsonschema.NewCompiler()
	if err := compiler.AddResource(url, document); err != nil {
		t.Fatal(err)
	}
	schema, err := compiler.Compile(url)
	if err != nil {
		t.Fatal(err)
	}
	return schema
}
