package contract_test

import (
	"encoding/json"
	"fmt"
	"net/url"
	"strings"
	"testing"

	"github.com/santhosh-tekuri/jsonschema/v6"

	"github.com/quoin-dev/quoin/apiserver/scim"
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
	for _, o := range scim.Operations() {
		_, section, found := strings.Cut(page, fmt.Sprintf("<h3 id=%q>", o.ID))
		section, _, _ = strings.Cut(section, "<h3")
		if !found || !strings.Contains(section, "<pre><code>curl ") || !strings.Contains(section, o.Path) {
			t.Errorf("SCIM: %s %s is not described", o.Method, o.Path)
		}
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

// The document has what the server checks of names and of choices, so that generated clients and mocks refuse the same requests.
func TestRequestsAreDescribed(t *testing.T) {
	s := readSpecification(t)
	const deployment, model = "/api/v1/deployments/{deploymentId}", "/build/api/v1/deployments/{deploymentId}"
	const creations, tokens = "/build/api/v1/deployments", deployment + "/environments/{environmentId}/tokens"
	creation := func(provider, managed string) string {
		return `{"name":"Described","region":"here","cloudProvider":"` + provider + `","targetPlatform":"aws","isManaged":` + managed + `,"creationStep":"project"}`
	}
	environment, _ := globex.as(globex.admin).call(t, "GET", "/api/v1/deployments/"+globex.id+"/environments", nil).is(200).at("items.0.id").(string)
	ids := strings.NewReplacer("{deploymentId}", globex.id, "{environmentId}", environment)
	for _, c := range []struct {
		method, path, body string
		valid              bool
	}{
		{"put", deployment + "/env-vars", `{"env_variables":[{"name":"A_1","value":"x"}]}`, true},
		{"put", deployment + "/env-vars", `{"env_variables":[{"name":"1 A","value":"x"}]}`, false},
		{"put", deployment, `{"releaseChannel":"latest"}`, true},
		{"put", deployment, `{"releaseChannel":"Not a channel"}`, false},
		{"post", model + "/branches", `{"name":"next","from":"main"}`, true},
		{"post", model + "/branches", `{"name":"two words"}`, false},
		{"post", model + "/branches", `{"name":"next","from":"a:b"}`, false},
		{"post", model + "/pull", `{"branchName":"two words"}`, false},
		{"put", model + "/branches/staging-environment", `{"enabled":true,"branchName":"next"}`, true},
		{"put", model + "/branches/staging-environment", `{"enabled":true,"branchId":1}`, true},
		{"put", model + "/branches/staging-environment", `{"enabled":true,"branchName":"two words"}`, false},
		{"put", model + "/branches/staging-environment", `{"enabled":true}`, false},
		{"put", model + "/branches/staging-environment", `{"enabled":true,"branchName":"next","branchId":1}`, false},
		{"put", model + "/branches/staging-environment", `{"enabled":true,"branchName":"next","branchId":null}`, true},
		{"put", model + "/branches/staging-environment", `{"enabled":true,"branchName":null,"branchId":1}`, true},
		{"put", model + "/branches/staging-environment", `{"enabled":true,"branchName":null}`, false},
		{"post", creations, creation("cubecloud", "true"), true},
		{"post", creations, creation("aws", "true"), false},
		{"post", creations, creation("cubecloud", "false"), false},
		{"put", deployment, `{"cloudProvider":"cubecloud"}`, true},
		{"put", deployment, `{"cloudProvider":null,"creationMethod":null}`, true},
		{"put", deployment, `{"cloudProvider":"aws"}`, false},
		{"post", tokens, `{"security_context":{},"scopes":["meta"]}`, true},
		{"post", tokens, `{"security_context":{},"scopes":["data"]}`, false},
	} {
		schema, err := s.compiler.Compile("https://spec.test/#/paths/" + url.PathEscape(strings.ReplaceAll(c.path, "/", "~1")) + "/" + c.method + "/requestBody/content/application~1json/schema")
		if err != nil {
			t.Fatal(err)
		}
		body, err := jsonschema.UnmarshalJSON(strings.NewReader(c.body))
		if err != nil {
			t.Fatal(err)
		}
		if err := schema.Validate(body); (err == nil) != c.valid {
			t.Errorf("%s %s %s: %v", c.method, c.path, c.body, err)
		}
		if c.valid {
			continue // it would change the deployment of other tests
		}
		globex.as(globex.admin).call(t, strings.ToUpper(c.method), ids.Replace(c.path), json.RawMessage(c.body)).is(400)
	}
}
