package agents_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"net/url"
	"regexp"
	"strings"
	"sync"
	"testing"

	"github.com/santhosh-tekuri/jsonschema/v6"

	"github.com/quoin-dev/quoin/test/internal/apiclient"
)

// document is the OpenAPI document of the server, which describes each response about evaluations.
var document struct {
	sync.Once
	compiler *jsonschema.Compiler
	paths    map[string]map[string]struct {
		Responses map[string]struct{ Content map[string]any }
	}
	failed error
}

func readDocument(t *testing.T) {
	document.Do(func() {
		raw := apiclient.Call(t, anyone, acme.admin, "GET", "https://"+acme.host()+"/api/v1/spec", nil).Is(200).Body
		whole, err := jsonschema.UnmarshalJSON(bytes.NewReader(raw))
		if document.failed = err; err != nil {
			return
		}
		document.compiler = jsonschema.NewCompiler()
		document.compiler.DefaultDraft(jsonschema.Draft2020)
		document.compiler.AssertFormat()
		if document.failed = document.compiler.AddResource("https://spec.test/", whole); document.failed != nil {
			return
		}
		document.failed = json.Unmarshal(raw, &struct{ Paths any }{&document.paths})
	})
	if document.failed != nil {
		t.Fatal(document.failed)
	}
}

var parameter = regexp.MustCompile(`\\\{\w+\\\}`)

// described checks that the document describes a response about evaluations.
func described(t *testing.T, method, path string, got *apiclient.Answer) {
	t.Helper()
	path, _, _ = strings.Cut(path, "?")
	if !strings.Contains(path, "/evaluations") && !strings.HasSuffix(path, "/chat-replays") {
		return
	}
	readDocument(t)
	for template, methods := range document.paths {
		op, exists := methods[strings.ToLower(method)]
		if !exists || !regexp.MustCompile("^"+parameter.ReplaceAllString(regexp.QuoteMeta(template), "[^/]+")+"$").MatchString(path) {
			continue
		}
		response, exists := op.Responses[fmt.Sprint(got.Status)]
		switch {
		case !exists:
			t.Errorf("%s %s: the status %d is not in the document: %s", method, path, got.Status, got.Body)
			return
		case response.Content == nil:
			return
		}
		schema, err := document.compiler.Compile(fmt.Sprintf("https://spec.test/#/paths/%s/%s/responses/%d/content/application~1json/schema",
			url.PathEscape(strings.ReplaceAll(template, "/", "~1")), strings.ToLower(method), got.Status))
		if err != nil {
			t.Fatal(err)
		}
		value, err := jsonschema.UnmarshalJSON(bytes.NewReader(got.Body))
		if err == nil {
			err = schema.Validate(value)
		}
		if err != nil {
			t.Errorf("%s %s: %v: %s", method, path, err, got.Body)
		}
		return
	}
	t.Errorf("%s %s is not in the document", method, path)
}
