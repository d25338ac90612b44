package contract_test

import (
	"encoding/json"
	"fmt"
	"net/url"
	"strings"
	"testing"
)

// Clients are generated from the document, and people copy from it: each operation has examples, which are valid.
func TestEveryOperationHasValidExamples(t *testing.T) {
	s := readSpecification(t)
	var doc struct {
		Info  struct{ Contact, License map[string]any }
		Paths map[string]map[string]struct {
			RequestBody struct{ Content map[string]map[string]any }
			Responses   map[string]struct{ Content map[string]map[string]any }
		}
	}
	if err := json.Unmarshal(acme.as(acme.admin).call(t, "GET", "/api/v1/spec", nil).is(200).raw, &doc); err != nil {
		t.Fatal(err)
	}
	if doc.Info.Contact["url"] == nil || doc.Info.License["identifier"] != "Apache-2.0" {
		t.Errorf("contact %v, licence %v", doc.Info.Contact, doc.Info.License)
	}
	check := func(path, at string, media map[string]any) {
		example, ok := media["example"]
		if !ok {
			t.Errorf("%s: no example", at)
			return
		}
		schema, err := s.compiler.Compile("https://spec.test/#/paths/" + url.PathEscape(strings.ReplaceAll(path, "/", "~1")) + at + "/content/application~1json/schema")
		if err != nil {
			t.Fatal(err)
		}
		if err := schema.Validate(example); err != nil {
			t.Errorf("%s%s: %v", path, at, err)
		}
	}
	for path, methods := range doc.Paths {
		for method, op := range methods {
			if media := op.RequestBody.Content["application/json"]; media != nil {
				check(path, "/"+method+"/requestBody", media)
			}
			for status, response := range op.Responses {
				if media := response.Content["application/json"]; media != nil && status[0] == '2' {
					check(path, fmt.Sprintf("/%s/responses/%s", method, status), media)
				}
			}
		}
	}
}

// The reference has a command for each operation, SCIM, and List, Create, Get, Update and Delete in this order.
func TestReferencePage(t *testing.T) {
	page := string(acme.as(acme.admin).call(t, "GET", "/docs", nil).is(200).raw)
	for _, methods := range readSpecification(t).paths {
		for _, op := range methods {
			_, section, found := strings.Cut(page, fmt.Sprintf("<h3 id=%q>", op.OperationID))
			section, _, _ = strings.Cut(section, "<h3")
			if !found || !strings.Contains(section, "<pre><code>curl ") {
				t.Errorf("%s has no command", op.OperationID)
			}
		}
	}
	if !strings.Contains(page, `id="scim"`) || !strings.Contains(page, "/api/scim/v2/Users") {
		t.Error("no section about SCIM")
	}
	last := 0
	for _, id := range []string{"getDeployments", "createDeployment", "getDeployment", "updateDeployment", "deleteDeployment", "buildStatus"} {
		at := strings.Index(page, fmt.Sprintf("<h3 id=%q>", id))
		if at <= last {
			t.Errorf("%s is not after the operation before it", id)
		}
		last = at
	}
	if strings.Contains(page, "nowrap") || !strings.Contains(page, "overflow-wrap: anywhere") {
		t.Error("text that cannot wrap makes a narrow page scroll sideways")
	}
}
