package contract_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"net/url"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/santhosh-tekuri/jsonschema/v6"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/quoin-dev/quoin/api/v1alpha1"
	"github.com/quoin-dev/quoin/apiserver/directory/number"
	"github.com/quoin-dev/quoin/apiserver/scim/schema"
	"github.com/quoin-dev/quoin/internal/permission"
	"github.com/quoin-dev/quoin/test/internal/apiclient"
	"github.com/quoin-dev/quoin/test/internal/clustertest"
)

// specification is the served OpenAPI document, with a compiler of its schemas.
type specification struct {
	t        *testing.T
	compiler *jsonschema.Compiler
	paths    map[string]map[string]operation
	schemas  map[string]map[string]any
}

type operation struct {
	OperationID string `json:"operationId"`
	Description string
	Parameters  []struct {
		Name, In string
		Required bool
		Schema   map[string]any
	}
	RequestBody struct {
		Content map[string]struct{ Schema map[string]any }
	}
	Responses map[string]struct {
		Content map[string]struct{ Schema map[string]any }
	}
}

func readSpecification(t *testing.T) *specification {
	t.Helper()
	raw := acme.as(acme.admin).call(t, "GET", "/api/v1/spec", nil).is(200).raw
	var doc struct {
		Paths      map[string]map[string]operation
		Components struct{ Schemas map[string]map[string]any }
	}
	if err := json.Unmarshal(raw, &doc); err != nil {
		t.Fatal(err)
	}
	whole, err := jsonschema.UnmarshalJSON(bytes.NewReader(raw))
	if err != nil {
		t.Fatal(err)
	}
	s := &specification{t: t, compiler: jsonschema.NewCompiler(), paths: doc.Paths, schemas: doc.Components.Schemas}
	s.compiler.DefaultDraft(jsonschema.Draft2020)
	s.compiler.AssertFormat()
	if err := s.compiler.AddResource("https://spec.test/", whole); err != nil {
		t.Fatal(err)
	}
	return s
}

// TestDocumentHasRareStatuses: those that need a slow client, a Git host that does not answer, or two users with one number.
func TestDocumentHasRareStatuses(t *testing.T) {
	s := readSpecification(t)
	has := func(path, method, status string) {
		t.Helper()
		if response := s.paths[path][method].Responses[status]; response.Content["application/json"].Schema == nil {
			t.Errorf("%s %s has no error of status %s", method, path, status)
		}
	}
	const in = "/api/v1/deployments/{deploymentId}"
	has("/api/v1/users/{userId}", "get", "409")
	has(in, "put", "408")
	has(in+"/agent-skills", "get", "502")
	has(in+"/evaluations", "post", "502")
	has(in+"/chat-replays", "post", "502")
}

// TestDocumentHasNullableObjects: null is accepted for the optional objects of bodies.
func TestDocumentHasNullableObjects(t *testing.T) {
	s := readSpecification(t)
	for _, name := range []string{"UpdateTemplateOptions", "DbtSyncOptions", "RunControls", "WorkbookContext", "DashboardContext", "ViewerState", "SessionInput"} {
		if types, _ := s.schemas[name]["type"].([]any); !slices.Contains(types, any("null")) {
			t.Errorf("%s has the type %v, want object and null", name, s.schemas[name]["type"])
		}
	}
}

// check returns an error unless the document describes the response.
func (s *specification) check(path, method string, op operation, a *response) error {
	documented, ok := op.Responses[fmt.Sprint(a.status)]
	if !ok {
		return fmt.Errorf("status %d is not in the document: %s", a.status, a.raw)
	}
	if documented.Content["application/json"].Schema == nil {
		return nil
	}
	pointer := fmt.Sprintf("https://spec.test/#/paths/%s/%s/responses/%d/content/application~1json/schema",
		url.PathEscape(strings.ReplaceAll(path, "/", "~1")), method, a.status)
	schema, err := s.compiler.Compile(pointer)
	if err != nil {
		return err
	}
	value, err := jsonschema.UnmarshalJSON(bytes.NewReader(a.raw))
	if err != nil {
		return fmt.Errorf("not JSON: %s", a.raw)
	}
	if err := schema.Validate(value); err != nil {
		return fmt.Errorf("%w: %s", err, a.raw)
	}
	return nil
}

// oddValues are unusual values for any field.
var oddValues = []any{
	nil, "", " ", "\x00", "😀", strings.Repeat("x", 5000), "../..", "%2e%2e", "'; DROP TABLE x; --", -1, 0, 1, 1.5, 9007199254740993, 1e300,
	json.Number("60.0"), json.Number("6e1"), json.Number("1e400"), json.Number("99999999999999999999"), "2030-01-01T25:00:00Z", "+10000-01-01T00:00:00Z",
	true, false, []any{}, []any{nil}, map[string]any{}, map[string]any{"": nil}, "null", "[ENCRYPTED]", "dev-x", "main", "next",
}

// goWords are words of Go and its standard library that mean nothing to clients.
var goWords = regexp.MustCompile(`\bjson: |(?i)unmarshal|strconv|parsing time|cannot parse|Go (value|struct)|u?int(8|16|32|64)\b|float64|runtime error|invalid character|looking for|URL escape|semicolon separator|unexpected EOF|base64`)

// value returns a random value for a schema, which is mostly valid.
func (s *specification) value(r *rand.Rand, schema map[string]any, depth int) any {
	if r.IntN(12) == 0 || depth > 5 {
		return oddValues[r.IntN(len(oddValues))]
	}
	if ref, ok := schema["$ref"].(string); ok {
		return s.value(r, s.schemas[ref[strings.LastIndex(ref, "/")+1:]], depth+1)
	}
	if allowed, ok := schema["enum"].([]any); ok {
		return allowed[r.IntN(len(allowed))]
	}
	kind, _ := schema["type"].(string)
	if kinds, ok := schema["type"].([]any); ok {
		kind, _ = kinds[r.IntN(len(kinds))].(string)
	}
	switch kind {
	case "object":
		object := map[string]any{}
		properties, _ := schema["properties"].(map[string]any)
		required, _ := schema["required"].([]any)
		for _, name := range slices.Sorted(maps.Keys(properties)) {
			if slices.Contains(required, any(name)) && r.IntN(10) > 0 || r.IntN(3) == 0 {
				property, _ := properties[name].(map[string]any)
				object[name] = s.value(r, property, depth+1)
			}
		}
		if r.IntN(15) == 0 {
			object["unexpected"] = 1
		}
		return object
	case "array":
		items, _ := schema["items"].(map[string]any)
		array := make([]any, r.IntN(3))
		for i := range array {
			array[i] = s.value(r, items, depth+1)
		}
		return array
	case "integer", "number":
		return r.IntN(30) - 2
	case "boolean":
		return r.IntN(2) == 0
	case "null":
		return nil
	}
	if schema["format"] == "date-time" {
		return "2030-01-01T00:00:00Z"
	}
	if r.IntN(3) == 0 {
		return fmt.Sprintf("n%d", r.IntN(1e6)) // names are unique in many lists
	}
	return []string{"a", "Fuzz", "next", "v1.2.3", "1.1.0", "latest", "here", "cubecloud"}[r.IntN(8)]
}

// request returns a random request for an operation.
func (s *specification) request(r *rand.Rand, path string, op operation, ids map[string]string) (string, any) {
	query := url.Values{}
	for _, p := range op.Parameters {
		switch {
		case p.In == "path":
			filled := ids[p.Name]
			if filled == "" || r.IntN(8) == 0 {
				filled = fmt.Sprint(oddValues[2+r.IntN(len(oddValues)-2)]) // an empty value is another path
				if filled == globex.id {
					filled = "0" // other tests use it
				}
			}
			path = strings.ReplaceAll(path, "{"+p.Name+"}", url.PathEscape(filled))
		case p.In == "query" && (p.Required || r.IntN(3) == 0):
			query.Add(p.Name, fmt.Sprint(s.value(r, p.Schema, 0)))
		}
	}
	if r.IntN(20) == 0 {
		query.Add("unexpected", "1")
	}
	if len(query) > 0 {
		path += "?" + query.Encode()
	}
	if len(op.RequestBody.Content) == 0 || r.IntN(15) == 0 {
		return path, nil
	}
	return path, s.value(r, op.RequestBody.Content["application/json"].Schema, 0)
}

// TestResponsesMatchTheDocument sends random requests, generated from the document, to every route: no status is 5xx or
// undocumented, and every response matches its schema.
func TestResponsesMatchTheDocument(t *testing.T) {
	s := readSpecification(t)
	admin := globex.as(globex.admin)
	rounds := 25
	if testing.Short() {
		rounds = 5
	}
	r := rand.New(rand.NewPCG(20261121, 3))
	id := create(t, globex, "Document")
	succeeded := s.checkValidRequests(t)
	s.checkUploads(t, succeeded)
	for range rounds {
		for _, path := range slices.Sorted(maps.Keys(s.paths)) {
			for _, method := range slices.Sorted(maps.Keys(s.paths[path])) {
				op := s.paths[path][method]
				if admin.call(t, "GET", "/api/v1/deployments/"+id, nil).status == 404 {
					id = create(t, globex, "Document")
				}
				environment, _ := admin.call(t, "GET", "/api/v1/deployments/"+id+"/environments", nil).is(200).at("items.0.id").(string)
				ids := map[string]string{
					"deploymentId": id, "environmentId": environment, "apiKeyId": "admin-2",
					"installationId": "2", "owner": "globex-org", "repo": "model", "syncJobId": "none",
				}
				s.createItem(admin, r, path, ids)
				filled, body := s.request(r, path, op, ids)
				a := admin.call(t, strings.ToUpper(method), filled, body)
				if a.status >= 500 && (a.status != 503 || !isRun(path)) {
					t.Errorf("%s with %v: %d %s", a.what, body, a.status, a.raw)
				}
				if a.status >= 400 && goWords.Match(a.raw) {
					t.Errorf("%s with %v: %d %s has words of Go", a.what, body, a.status, a.raw)
				}
				if err := s.check(path, method, op, a); err != nil {
					t.Errorf("%s with %v: %v", a.what, body, err)
				}
				if a.status < 300 {
					succeeded[op.OperationID] = true
				}
			}
		}
	}
	for path, methods := range s.paths {
		for method, op := range methods {
			if !succeeded[op.OperationID] && !testing.Short() && !strings.Contains(path, "api-keys/{") && !strings.Contains(path, "user-oauth-tokens/{") && !strings.HasSuffix(path, "/shared-workspace") && !isRun(path) { // test/contract/oauth has a provider; the shared workspace is a 403
				t.Errorf("%s %s never succeeded, so its response was not checked", method, path)
			}
		}
	}
	for _, key := range admin.call(t, "GET", "/api/v1/api-keys", nil).is(200).list("items") {
		if id := key["id"].(string); id != "admin" {
			admin.call(t, "DELETE", "/api/v1/api-keys/"+id, nil).is(200)
		}
	}
}

// createItem creates the item that a path names, with a random valid request to its collection, and adds its id to ids.
func (s *specification) createItem(c caller, r *rand.Rand, path string, ids map[string]string) {
	s.t.Helper()
	collection, rest, found := strings.Cut(strings.TrimPrefix(path, "/api/v1/deployments/{deploymentId}"), "/{")
	collection = "/api/v1/deployments/{deploymentId}" + collection
	name, _, _ := strings.Cut(rest, "}")
	create, exists := s.paths[collection]["post"]
	if !found || !exists || ids[name] != "" || isRun(path) || strings.HasPrefix(path, "/build/") {
		return
	}
	const tries = 30
	for i := range tries {
		filled, body := s.request(r, collection, create, ids)
		if i == tries-1 { // the body is often optional
			filled, body = strings.Replace(collection, "{deploymentId}", ids["deploymentId"], 1), nil
		}
		a := c.call(s.t, "POST", filled, body)
		if id := a.at("id"); a.status < 300 && id != nil && strings.HasPrefix(filled, strings.Replace(collection, "{deploymentId}", ids["deploymentId"], 1)) {
			ids[name] = fmt.Sprint(id)
			return
		}
	}
	s.t.Errorf("no random request created an item in %s", collection)
}

// checkValidRequests checks the responses to valid requests of operations for which random requests rarely succeed. It
// returns these operations.
func (s *specification) checkValidRequests(t *testing.T) map[string]bool {
	t.Helper()
	succeeded := map[string]bool{}
	edited := create(t, globex, "Edited over REST")
	for _, c := range []struct {
		method, path string
		body         any
		status       int
	}{
		// These need a model that Quoin keeps.
		{"post", "/build/api/v1/deployments/{edited}/branches", map[string]any{"name": "next", "activate": true}, 200},
		{"post", "/build/api/v1/deployments/{edited}/dev-mode", map[string]any{"branchName": "next"}, 200},
		{"post", "/build/api/v1/deployments/{edited}/commit", nil, 200},
		{"post", "/build/api/v1/deployments/{edited}/merge", nil, 200},
		{"delete", "/build/api/v1/deployments/{edited}/dev-mode", nil, 200},
		{"post", "/build/api/v1/deployments/{edited}/merge-to-default", map[string]any{"branchName": "next", "removeBranchAfterMerge": false}, 200},
		{"get", "/api/v1/deployments/{edited}/agent-skills?branchName=main", nil, 200},
		{"delete", "/build/api/v1/deployments/{edited}/branches?branchName=next", nil, 200},
		{"post", "/build/api/v1/deployments", creation("Document 2"), 200},
		// This needs dates.
		{"get", "/api/v1/deployments/{deploymentId}/agent-usage?from=2026-11-01&to=2026-11-30", nil, 200},
		// These need a model in Git.
		{"put", "/build/api/v1/deployments/{deploymentId}/branches/staging-environment", map[string]any{"enabled": false, "branchName": "next"}, 200},
		{"post", "/build/api/v1/deployments/{deploymentId}/pull", map[string]any{"branchName": "next"}, 200},
		{"post", "/build/api/v1/deployments/{deploymentId}/git-hook", nil, 202},
		{"get", "/api/v1/github/repositories/{owner}/{repo}/branches?installationId=2", nil, 200},
		{"post", "/build/api/v1/deployments/{deploymentId}/github/connect", map[string]any{"installationId": 2, "name": "model"}, 200},
	} {
		id := globex.id
		if strings.HasSuffix(c.path, "/connect") {
			id = create(t, globex, "Document 3")
		}
		filled := strings.NewReplacer("{deploymentId}", id, "{edited}", edited, "{owner}", "globex-org", "{repo}", "model").Replace(c.path)
		c.path, _, _ = strings.Cut(strings.Replace(c.path, "{edited}", "{deploymentId}", 1), "?")
		op := s.paths[c.path][c.method]
		a := globex.as(globex.admin).call(t, strings.ToUpper(c.method), filled, c.body).is(c.status)
		if err := s.check(c.path, c.method, op, a); err != nil {
			t.Error(err)
		}
		succeeded[op.OperationID] = true
	}
	s.checkDbtSyncs(t, succeeded)
	s.checkUserAttributes(t, succeeded)
	s.checkOidcTokenConfigs(t, succeeded)
	s.checkOAuthIntegrations(t, succeeded)
	s.checkUsers(t, succeeded)
	s.checkRoles(t, succeeded)
	s.checkContent(t, succeeded)
	return succeeded
}

// isRun reports whether a path is that of a run of a report, a chat or an evaluation, which need a gateway: test/contract/runs and
// test/contract/agents have one.
func isRun(path string) bool {
	return strings.HasSuffix(path, "/run") || strings.Contains(path, "/chat/") || strings.HasSuffix(path, "/chat-replays") || strings.Contains(path, "/evaluations")
}

// checkContent sends valid requests for a report, the dashboard that shows it, and who has access to that.
func (s *specification) checkContent(t *testing.T, succeeded map[string]bool) {
	t.Helper()
	const workbook = "/api/v1/deployments/{deploymentId}/workbooks/{workbookId}"
	admin := globex.as(globex.admin)
	created := admin.call(t, "POST", "/api/v1/deployments/"+globex.id+"/workbooks", nil).is(200)
	id := fmt.Sprintf("%.0f", created.at("id"))
	chart := map[string]any{
		"id": "c", "type": "CHART", "position": map[string]any{"x": 0, "y": 0, "w": 1, "h": 1}, "config": map[string]any{"reportPublicId": "Documented01"},
	}
	summary := map[string]any{
		"id": "s", "type": "AI", "position": map[string]any{"x": 1, "y": 0, "w": 1, "h": 1}, "config": map[string]any{"prompt": "What changed?"},
	}
	group, _ := admin.call(t, "POST", "/api/scim/v2/Groups", map[string]any{"schemas": []string{schema.GroupURN}, "displayName": "Documented"}).is(201).at("id").(string)
	for _, c := range []struct {
		method, path string
		body         any
	}{
		{"put", "/api/v1/deployments/{deploymentId}/reports/by-public-id/{publicId}", map[string]any{
			"workbookId": created.at("id"), "meta": map[string]any{"kind": "vega", "spec": map[string]any{"mark": "bar"}, "columnFormats": map[string]any{}, "periodComparisons": []any{
				map[string]any{"measure": "m", "timeDimension": "t", "offset": map[string]any{"amount": 1, "unit": "day"}},
			}},
			"pivotItems":         map[string]any{"rows": []string{}, "columns": []string{}, "measures": []string{}, "filters": []string{}},
			"externalWorkbookId": "book", "resultLocation": "Sheet1!A1", "resultChecksum": map[string]any{"v": 1, "chunks": []any{map[string]any{"from": 0, "hash": "x"}}},
		}},
		{"put", workbook + "/favorite", nil},
		{"get", "/api/v1/deployments/{deploymentId}/workspace", nil},
		{"post", "/api/v1/deployments/{deploymentId}/workspace/move", map[string]any{"type": "WORKBOOK", "id": created.at("id"), "folderId": nil}},
		{"post", "/api/v1/deployments/{deploymentId}/workspace/bulk-move", map[string]any{"items": []any{map[string]any{"type": "WORKBOOK", "id": created.at("id")}, map[string]any{"type": "FOLDER", "id": 999999}}}},
		{"post", "/api/v1/deployments/{deploymentId}/workspace/bulk-delete", map[string]any{"items": []any{map[string]any{"type": "REPORT", "id": 999999}}}},
		{"delete", workbook + "/favorite", nil},
		{"post", workbook + "/publish", map[string]any{"workbookId": created.at("id"), "config": map[string]any{"widgets": []any{chart, summary}}}},
		{"post", workbook + "/dashboard/ai-widget-thread", map[string]any{"widgetId": "s", "threadId": "chat"}},
		{"get", workbook, nil},
		{"get", workbook + "/versions", nil},
		{"get", workbook + "/versions/{versionNumber}", nil},
		{"post", workbook + "/versions/{versionNumber}/restore", nil},
		{"put", "/api/v1/resource-policies/user", map[string]any{"resourceType": "Workbook", "resourceId": created.at("id"), "action": "WorkbookRead"}},
		{"put", "/api/v1/resource-policies/group", map[string]any{
			"resourceType": "Workbook", "resourceId": created.at("id"), "action": "WorkbookEdit", "groupId": number.Of("Group", group),
		}},
		{"get", "/api/v1/resource-policies?resourceType=Workbook&resourceId={workbookId}", nil},
	} {
		path := strings.NewReplacer("{deploymentId}", globex.id, "{workbookId}", id, "{publicId}", "Documented01", "{versionNumber}", "1").Replace(c.path)
		c.path, _, _ = strings.Cut(c.path, "?")
		op := s.paths[c.path][c.method]
		if err := s.check(c.path, c.method, op, admin.call(t, strings.ToUpper(c.method), path, c.body).is(200)); err != nil {
			t.Error(err)
		}
		succeeded[op.OperationID] = true
	}
	admin.call(t, "DELETE", "/api/v1/deployments/"+globex.id+"/workbooks/"+id, nil).is(200)
}

// checkOidcTokenConfigs sends valid requests for an OIDC token configuration.
func (s *specification) checkOidcTokenConfigs(t *testing.T, succeeded map[string]bool) {
	t.Helper()
	const configs, config = "/api/v1/oidc-token-configs", "/api/v1/oidc-token-configs/{id}"
	id := ""
	for _, c := range []struct {
		method, path string
		body         any
	}{
		{"post", configs, map[string]any{"audienceType": "aws", "name": "documented", "subFormat": nil, "customClaims": map[string]any{"team": "sales"}}},
		{"get", configs, nil},
		{"get", config, nil},
		{"put", config, map[string]any{"isEnabled": false, "customAudience": "mine"}},
		{"delete", config, nil},
	} {
		op := s.paths[c.path][c.method]
		a := globex.as(globex.admin).call(t, strings.ToUpper(c.method), strings.ReplaceAll(c.path, "{id}", id), c.body).is(200)
		if err := s.check(c.path, c.method, op, a); err != nil {
			t.Error(err)
		}
		if id == "" {
			id = fmt.Sprintf("%.0f", a.at("id"))
		}
		succeeded[op.OperationID] = true
	}
}

// checkRoles sends valid requests for a role and its assignment to a user.
func (s *specification) checkRoles(t *testing.T, succeeded map[string]bool) {
	t.Helper()
	const roles, assignment = "/api/v1/roles", "/api/v1/roles/{roleId}/users/{userId}"
	admin := globex.as(globex.admin)
	user := fmt.Sprintf("%.0f", admin.call(t, "POST", "/api/v1/users", map[string]any{"email": "role@example.com", "username": "role"}).is(200).at("id"))
	policies := []any{map[string]any{"resourceType": "Deployment", "actions": []string{"DeploymentRead"}, "resources": []string{"1"}}}
	id := ""
	for _, c := range []struct {
		method, path string
		body         map[string]any
		status       int
	}{
		{"post", roles, map[string]any{"name": "Documented", "description": "A role.", "policies": policies}, 200},
		{"get", roles, nil, 200},
		{"get", roles + "/{roleId}", nil, 200},
		{"put", roles + "/{roleId}", map[string]any{"description": nil, "policies": []any{}}, 200},
		{"put", assignment, nil, 204},
		{"delete", assignment, nil, 204},
		{"delete", roles + "/{roleId}", nil, 204},
	} {
		var body any
		if c.body != nil {
			body = c.body
		}
		op := s.paths[c.path][c.method]
		a := admin.call(t, strings.ToUpper(c.method), strings.NewReplacer("{roleId}", id, "{userId}", user).Replace(c.path), body).is(c.status)
		if err := s.check(c.path, c.method, op, a); err != nil {
			t.Error(err)
		}
		if id == "" {
			id = fmt.Sprintf("%.0f", a.at("id"))
		}
		succeeded[op.OperationID] = true
	}
}

// checkOAuthIntegrations sends valid requests for an OAuth integration.
func (s *specification) checkOAuthIntegrations(t *testing.T, succeeded map[string]bool) {
	t.Helper()
	const integrations, integration = "/api/v1/oauth-integrations", "/api/v1/oauth-integrations/{id}"
	properties := map[string]any{
		"name": "Documented", "type": "documented", "authUrl": "https://login.example.com/authorize", "tokenUrl": "https://login.example.com/token", "clientId": "quoin",
		"redirectUri": "https://" + globex.host + "/auth/integrations/callback", "scopes": []string{"sql"}, "config": map[string]any{"revocationUrl": "https://login.example.com/revoke", "region": "eu"},
	}
	created := maps.Clone(properties)
	created["clientSecret"] = "hidden"
	id := ""
	for _, c := range []struct {
		method, path string
		body         any
	}{{"post", integrations, created}, {"get", integrations, nil}, {"get", integration, nil}, {"put", integration, properties}, {"delete", integration, nil}} {
		op := s.paths[c.path][c.method]
		a := globex.as(globex.admin).call(t, strings.ToUpper(c.method), strings.ReplaceAll(c.path, "{id}", id), c.body).is(200)
		if err := s.check(c.path, c.method, op, a); err != nil {
			t.Error(err)
		}
		if id == "" {
			id = fmt.Sprintf("%.0f", a.at("id"))
		}
		succeeded[op.OperationID] = true
	}
}

// checkUserOAuthTokens sends valid requests for the token of a user with an API key: the answers that need no provider.
func (s *specification) checkUserOAuthTokens(t *testing.T, owner caller, succeeded map[string]bool) {
	t.Helper()
	const tokens = "/api/v1/user-oauth-tokens"
	op := s.paths[tokens]["get"]
	a := owner.call(t, "GET", tokens, nil).is(200)
	if err := s.check(tokens, "get", op, a); err != nil {
		t.Error(err)
	}
	succeeded[op.OperationID] = true
}

// checkUsers sends valid requests for a user and a group.
func (s *specification) checkUsers(t *testing.T, succeeded map[string]bool) {
	t.Helper()
	check := func(c caller, method, path, id string, body any) *response {
		op := s.paths[path][method]
		a := c.call(t, strings.ToUpper(method), strings.NewReplacer("{userId}", id, "{groupId}", id).Replace(path), body).is(200)
		if err := s.check(path, method, op, a); err != nil {
			t.Error(err)
		}
		succeeded[op.OperationID] = true
		return a
	}
	const users = "/api/v1/users"
	admin := globex.as(globex.admin)
	user := check(admin, "post", users, "", map[string]any{"email": "dora@example.com", "username": "dora", "settings": map[string]any{"theme": "dark"}})
	id := fmt.Sprintf("%.0f", user.at("id"))
	check(admin, "get", users+"/{userId}", id, nil)
	check(admin, "put", users+"/{userId}", id, map[string]any{"firstName": "Dora"})
	check(admin, "delete", users+"/{userId}", id, nil)

	owner := &v1alpha1.ScimUser{ObjectMeta: metav1.ObjectMeta{Namespace: globex.name, Name: "owner"}, Spec: v1alpha1.ScimUserSpec{UserName: "owner", Admin: new(true)}}
	group := &v1alpha1.ScimGroup{ObjectMeta: metav1.ObjectMeta{Namespace: globex.name, Name: "documented"}, Spec: v1alpha1.ScimGroupSpec{DisplayName: "Documented"}}
	key, token, err := clustertest.Key(globex.name, "owned", v1alpha1.ApiKeySpec{Owner: &v1alpha1.ApiKeyOwner{ScimUser: owner.Name}})
	if err != nil {
		t.Fatal(err)
	}
	for _, o := range []client.Object{owner, group, key} {
		if err := k8s.Create(t.Context(), o); err != nil {
			t.Fatal(err)
		}
	}
	apiclient.Soon(t, func() error {
		if a := globex.as(token).call(t, "GET", users+"/me", nil); a.status != 200 {
			return fmt.Errorf("the key is answered %d %s", a.status, a.raw)
		}
		return nil
	})
	s.checkUserOAuthTokens(t, globex.as(token), succeeded)
	check(globex.as(token), "patch", users+"/me/settings", "", map[string]any{"locale": "en-GB"})
	var groups []map[string]any
	apiclient.Soon(t, func() error {
		if groups = admin.call(t, "GET", "/api/v1/user-groups", nil).is(200).list("items"); len(groups) == 0 {
			return errors.New("the group is not listed")
		}
		return nil
	})
	check(admin, "delete", "/api/v1/groups/{groupId}", fmt.Sprintf("%.0f", groups[0]["id"]), nil)
}

// checkUserAttributes sends valid requests for an attribute and its value for a user.
func (s *specification) checkUserAttributes(t *testing.T, succeeded map[string]bool) {
	t.Helper()
	user := &v1alpha1.ScimUser{ObjectMeta: metav1.ObjectMeta{Namespace: globex.name, Name: "documented"}, Spec: v1alpha1.ScimUserSpec{UserName: "documented"}}
	if err := k8s.Create(t.Context(), user); err != nil {
		t.Fatal(err)
	}
	const attributes, values = "/api/v1/user-attributes", "/api/v1/user-attribute-values"
	id := ""
	for _, c := range []struct {
		method, path string
		body         map[string]any
	}{
		{"post", attributes, map[string]any{"name": "documented", "type": "number", "defaultValue": "5"}},
		{"get", attributes, nil},
		{"put", attributes + "/{userAttributeId}", map[string]any{"displayName": "Documented", "defaultValue": nil}},
		{"post", values, map[string]any{"userId": "documented", "value": 2.5}},
		{"get", values + "/{userId}", nil},
		{"delete", attributes + "/{userAttributeId}", nil},
	} {
		var body any
		if c.body != nil {
			body = c.body
		}
		if c.path == values {
			c.body["userAttributeId"] = id
		}
		op := s.paths[c.path][c.method]
		filled := strings.NewReplacer("{userAttributeId}", id, "{userId}", "documented").Replace(c.path)
		a := globex.as(globex.admin).call(t, strings.ToUpper(c.method), filled, body).is(200)
		if err := s.check(c.path, c.method, op, a); err != nil {
			t.Error(err)
		}
		if id == "" {
			id = fmt.Sprintf("%.0f", a.at("id"))
		}
		succeeded[op.OperationID] = true
	}
}

// withoutPermission are the operations for every authenticated caller.
var withoutPermission = []string{"listRegions", "getMe", "getSpec", "getTenantSettings", "getAppConfig", "getAppTheme", "getEmbedTheme", "exchangeDeployToken", "updateMySettings",
	"listUserOAuthTokens", "getUserOAuthToken", "revokeUserOAuthToken", "initiateOAuthFlow"}

// ofTypes are the operations whose permission depends on the type of what a request names; test/contract/access tests them.
var ofTypes = []string{
	"getResourcePolicies", "setUserResourcePolicy", "setGroupResourcePolicy",
	"workspaceObjects", "sharedWorkspaceObjects", "moveWorkspaceObject", "bulkMoveWorkspaceObjects", "bulkDeleteWorkspaceObjects",
}

// TestPermissionsByType: what the document says of these operations is what they check.
func TestPermissionsByType(t *testing.T) {
	s := readSpecification(t)
	for _, path := range []string{"move", "bulk-move", "bulk-delete"} {
		op := s.paths["/api/v1/deployments/{deploymentId}/workspace/"+path]["post"]
		if want := "Needs the permission FolderEdit for a folder, WorkbookEdit for a workbook and ReportEdit for a report."; !strings.HasPrefix(op.Description, want) {
			t.Errorf("%s: %s", path, op.Description)
		}
	}
}

// ofReaders are the operations of callers who may read that are no GETs: they record which spreadsheets have the result of a
// report, as documented, and what a person likes, run a report, chat, or evaluate. They leave the content as it is.
var ofReaders = []string{
	"connectReportToWorkbook", "disconnectReportFromWorkbook", "refreshReport", "runReport", "runDashboardReport", "streamChatState", "abortChat", "setWorkbookFavorite", "removeWorkbookFavorite",
	"startEvaluation", "startChatReplay", "cancelEvaluation",
}

// requiredPermission returns the permission in the description of an operation.
func (op operation) requiredPermission() permission.Name {
	_, name, _ := strings.Cut(op.Description, "Needs the permission ")
	return permission.Name(strings.TrimSuffix(name, "."))
}

// TestRoutesRequireTheirPermission checks every operation of the document with a key for each permission.
func TestRoutesRequireTheirPermission(t *testing.T) {
	s := readSpecification(t)
	callers := map[permission.Name]caller{}
	for _, name := range permission.Names() {
		a := acme.as(acme.admin).call(t, "POST", "/api/v1/api-keys", map[string]any{"name": name, "permissions": []permission.Name{name}}).is(200)
		token, _ := a.at("token").(string)
		callers[name] = acme.as(token)
		t.Cleanup(func() {
			acme.as(acme.admin).call(t, "DELETE", fmt.Sprintf("/api/v1/api-keys/%s", a.at("id")), nil).is(200)
		})
	}
	// The id 999 does not exist and the body is invalid, so that authorized requests change nothing. The installation 1 is
	// that of the account: others are forbidden.
	parameter := regexp.MustCompile(`\{[^}]*\}`)
	for path, methods := range s.paths {
		for method, op := range methods {
			if slices.Contains(ofTypes, op.OperationID) {
				continue
			}
			required := op.requiredPermission()
			if _, known := permission.Lookup(required); known == slices.Contains(withoutPermission, op.OperationID) {
				t.Errorf("%s requires %q", op.OperationID, required)
				continue
			}
			// Tokens grant no more than the caller has.
			reads := strings.HasSuffix(string(required), "Read") && !strings.Contains(op.OperationID, "Token")
			if method != "get" && reads && !slices.Contains(ofReaders, op.OperationID) {
				t.Errorf("%s changes something and requires only %s", op.OperationID, required)
			}
			ofUsers := strings.HasPrefix(path, "/api/v1/user-oauth-tokens") // keys without a user have none
			for name, c := range callers {
				allowed := required == "" && !ofUsers || required != "" && name.Includes(required)
				if status := c.call(t, strings.ToUpper(method), parameter.ReplaceAllString(strings.Replace(path, "{installationId}", "1", 1), "999"), "[]").status; (status != 403) != allowed {
					t.Errorf("%s %s with %s: %d", method, path, name, status)
				}
			}
		}
	}
}
