package contract_test

import (
	"encoding/json"
	"fmt"
	"maps"
	"net/url"
	"os"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/quoin-dev/quoin/test/internal/apiclient"
)

// clientCall is a call of the upstream command-line client: what it sends, and what it reads of the response. A field that
// it reads has a type after a colon if the client requires it, and a question mark if it may be missing; [] stands for the
// elements of an array, of which one must have the field, and * for all values of an object.
type clientCall struct {
	Command, Method, Path string
	Query, Body, Reads    []string
	// sent are the fields of query and body that a test has sent.
	sent map[string]bool
}

// clientCalls are the calls of testdata/cli-calls.json by command.
type clientCalls struct {
	caller
	all map[string]*clientCall
}

func readClientCalls(t *testing.T) *clientCalls {
	t.Helper()
	data, err := os.ReadFile("testdata/cli-calls.json")
	if err != nil {
		t.Fatal(err)
	}
	var list []*clientCall
	if err := json.Unmarshal(data, &list); err != nil {
		t.Fatal(err)
	}
	c := &clientCalls{caller{acme.host, "Api-Key " + acme.admin}, map[string]*clientCall{}}
	for _, call := range list {
		c.all[call.Command] = call
	}
	return c
}

var pathParameter = regexp.MustCompile(`\\\{\w+\\\}`)

// of returns a call whose request is to be sent, and checks that the client sends such a request.
func (c *clientCalls) of(t *testing.T, command, path string, body map[string]any) *clientCall {
	t.Helper()
	call := c.all[command]
	if call == nil {
		t.Fatalf("the client has no command %q", command)
	}
	target, err := url.Parse(path)
	if err != nil {
		t.Fatal(err)
	}
	if template := pathParameter.ReplaceAllString(regexp.QuoteMeta(call.Path), "[^/]+"); !regexp.MustCompile("^" + template + "$").MatchString(target.Path) {
		t.Errorf("%s: the client calls %s, not %s", command, call.Path, target.Path)
	}
	if call.sent == nil {
		call.sent = map[string]bool{}
	}
	for name := range target.Query() {
		if call.sent[name] = true; !slices.Contains(call.Query, name) {
			t.Errorf("%s: the client does not send the parameter %q", command, name)
		}
	}
	for name := range body {
		if call.sent[name] = true; !slices.Contains(call.Body, name) {
			t.Errorf("%s: the client does not send the field %q", command, name)
		}
	}
	return call
}

// do sends a request of the client and checks that the response has what the client reads.
func (c *clientCalls) do(t *testing.T, command, path string, body map[string]any) *response {
	t.Helper()
	call := c.of(t, command, path, body)
	var document any
	if body != nil {
		document = body
	}
	got := c.call(t, call.Method, path, document)
	call.check(t, got)
	return got
}

func (call *clientCall) check(t *testing.T, got *response) {
	t.Helper()
	if got.status/100 != 2 {
		t.Fatalf("%s: %s: %d %s", call.Command, got.what, got.status, got.raw)
	}
	var document any
	if err := json.Unmarshal(got.raw, &document); err != nil && len(got.raw) > 0 {
		t.Fatalf("%s: the response is not JSON: %s", call.Command, got.raw)
	}
	for _, read := range call.Reads {
		required := strings.TrimSuffix(read, "?")
		path, kind, _ := strings.Cut(required, ":")
		values := slices.DeleteFunc(valuesAt(document, strings.Split(path, ".")), func(v any) bool { return v == nil })
		if len(values) == 0 && required == read {
			t.Errorf("%s: the response has no %s: %s", call.Command, path, got.raw)
		}
		for _, value := range values {
			if kind != "" && kind != kindOf(value) {
				t.Errorf("%s: %s is %v, which is no %s", call.Command, path, value, kind)
			}
		}
	}
}

// valuesAt returns the values at a path. The items of trees are those of all levels.
func valuesAt(value any, path []string) (values []any) {
	if len(path) == 0 {
		return []any{value}
	}
	object, _ := value.(map[string]any)
	name, isList := strings.CutSuffix(path[0], "[]")
	switch list, _ := object[name].([]any); {
	case path[0] == "*":
		for _, v := range object {
			values = append(values, valuesAt(v, path[1:])...)
		}
	case isList:
		for _, v := range list {
			values = append(values, valuesAt(v, path[1:])...)
			values = append(values, valuesAt(v, append([]string{"children[]"}, path[1:]...))...)
		}
	case object[name] != nil:
		return valuesAt(object[name], path[1:])
	}
	return values
}

func kindOf(value any) string {
	switch value.(type) {
	case string:
		return "string"
	case bool:
		return "bool"
	case float64:
		return "number"
	case []any:
		return "array"
	}
	return "object"
}

// TestUpstreamClientWorks: all commands of the upstream command-line client for data models, branches, uploads, dbt, GitHub,
// builds, logs, users, groups and attributes are answered as it needs.
func TestUpstreamClientWorks(t *testing.T) {
	c, id := readClientCalls(t), create(t, acme, "Upstream client")
	build := "/build/api/v1/deployments/" + id
	c.uploads(t, build)
	c.branches(t, build)
	c.dbt(t, id)
	c.github(t)
	c.people(t)
	c.do(t, "deployments build-status", "/api/v1/deployments/"+id+"/build-status?branchName=main", nil)
	c.do(t, "validate", build+"/data-model/validate?branchName=main", nil)
	logsOfAcme(t)
	c.do(t, "logs", "/api/v1/deployments/"+acme.id+"/logs?pod=analytics-production-api-1&container=MAIN", nil)
	for _, command := range slices.Sorted(maps.Keys(c.all)) {
		call := c.all[command]
		if call.sent == nil {
			t.Errorf("%s was not tested", command)
		}
		for _, name := range slices.Concat(call.Query, call.Body) {
			if !call.sent[name] {
				t.Errorf("%s: %q was not sent", command, name)
			}
		}
	}
}

// uploads deploys a project.
func (c *clientCalls) uploads(t *testing.T, build string) {
	t.Helper()
	model := build + "/data-model"
	c.do(t, "deploy 1", model+"/file-hashes?branchName=main", nil)
	c.do(t, "data-model file-hashes", model+"/file-hashes?branchName=main", nil)
	c.do(t, "deploy 2", model+"/upload/start", map[string]any{})
	transaction := c.do(t, "deploy 2", model+"/upload/start", map[string]any{"branchName": "main"}).at("transaction")
	for _, name := range slices.Sorted(maps.Keys(firstProject)) {
		call := c.of(t, "deploy 3", model+"/upload/file", map[string]any{"transaction": nil, "fileName": nil, "file": nil})
		call.check(t, c.sendFile(t, model+"/upload/file", transaction, name, firstProject[name]))
	}
	c.do(t, "deploy 4", model+"/upload/finish", map[string]any{
		"transaction": transaction, "files": firstProject.hashes(), "autoRemoveFiles": true, "commitMessage": "Deploy", "branchName": "main",
	})
	c.do(t, "data-model list", model+"/files?withContent=true&branchName=main", nil)
	c.do(t, "data-model get", model+"/files?withContent=true&branchName=main", nil)
}

// branches changes files on a personal branch, and brings them to production.
func (c *clientCalls) branches(t *testing.T, build string) {
	t.Helper()
	c.do(t, "data-model create-branch", build+"/branches", map[string]any{"name": "cli", "enterDevMode": true})
	branch, _ := c.do(t, "data-model dev-mode", build+"/dev-mode", map[string]any{"branchName": "cli"}).at("branchName").(string)
	files := build + "/data-model/files"
	file := func(fields ...string) map[string]any {
		one := map[string]any{}
		for i := 0; i < len(fields); i += 2 {
			one[fields[i]] = fields[i+1]
		}
		return map[string]any{"files": []any{one}, "branchName": branch}
	}
	c.do(t, "data-model put", files, file("path", "/model/new.yml", "content", "cubes: []\n"))
	c.do(t, "data-model rename", files+"/rename", file("path", "model/new.yml", "newPath", "model/renamed.yml"))
	c.do(t, "data-model delete", files, file("path", "model/renamed.yml"))
	c.do(t, "data-model put", files, file("path", "model/kept.yml", "content", "cubes: []\n"))
	c.do(t, "data-model branches", build+"/branches?first=5&after=", nil)
	c.do(t, "validate", build+"/data-model/validate?devMode=true", nil)
	c.do(t, "data-model pull", build+"/pull", nil)
	c.do(t, "data-model pull", build+"/pull", map[string]any{"branchName": branch})
	c.do(t, "data-model commit", build+"/commit", map[string]any{})
	c.do(t, "data-model commit", build+"/commit", map[string]any{"message": "Change", "branchName": branch})
	c.do(t, "data-model merge", build+"/merge", map[string]any{"squashCommits": false, "switchToParentBranch": true, "deleteBranch": false, "branchName": branch})
	c.do(t, "data-model enable-branch", build+"/branches/staging-environment", map[string]any{"branchName": "cli", "enabled": true})
	c.do(t, "data-model merge-to-default", build+"/merge-to-default", map[string]any{"message": "Release", "removeBranchAfterMerge": false, "branchName": "cli"})
	c.do(t, "data-model exit-dev-mode", build+"/dev-mode", nil)
	c.do(t, "data-model delete-branch", build+"/branches?branchName=cli&removeOnUpstream=true", nil)
}

// dbt converts a manifest, to a branch and to files.
func (c *clientCalls) dbt(t *testing.T, id string) {
	t.Helper()
	path, manifest := dbtSyncsOf(id), dbtManifest(t)
	end := func(started *response) string {
		t.Helper()
		one := fmt.Sprintf("%s/%v", path, started.at("syncJobId"))
		apiclient.Soon(t, func() error {
			if got := c.do(t, "dbt status", one, nil); got.at("status") != "COMPLETED" {
				return fmt.Errorf("%s", got.raw)
			}
			return nil
		})
		return one
	}
	toBranch := c.do(t, "dbt sync", path, map[string]any{"ref": "main", "source": "manifest", "manifest": manifest})
	end(toBranch)
	end(c.do(t, "dbt sync", path, map[string]any{"ref": "main", "source": "manifest", "manifest": manifest, "branchName": toBranch.at("branchName")}))
	c.do(t, "dbt sync, confirm", path+"?first=100", nil)
	generated := c.do(t, "dbt generate", path, map[string]any{"source": "manifest", "output": "files", "manifest": manifest})
	if name := generated.at("branchName"); name != nil && name != "" {
		t.Errorf("dbt generate: branchName is %v, with which the client fails", name)
	}
	one := end(generated)
	c.do(t, "dbt result", one+"/result", nil)
	c.do(t, "dbt generate, files", one+"/generated-files", nil)
	c.do(t, "dbt logs", one+"/logs", nil)
	c.do(t, "dbt history", path+"?status=COMPLETED&trigger=api&first=2&after=", nil)
	for range 20 { // until one is canceled before it ends
		one := fmt.Sprintf("%s/%v", path, c.do(t, "dbt generate", path, map[string]any{"source": "manifest", "output": "files", "manifest": manifest}).at("syncJobId"))
		call := c.of(t, "dbt cancel", one, nil)
		if got := c.call(t, call.Method, one, nil); got.status != 409 {
			call.check(t, got)
			return
		}
	}
	t.Error("no sync was canceled")
}

// github lists what is on GitHub, and connects a deployment to it.
func (c *clientCalls) github(t *testing.T) {
	t.Helper()
	id := create(t, acme, "Upstream client on GitHub")
	c.do(t, "github status", "/api/v1/github/status", nil)
	c.do(t, "github installations", "/api/v1/github/installations?first=5&after=", nil)
	c.do(t, "github repos", "/api/v1/github/installations/1/repositories?first=5&after=", nil)
	c.do(t, "github branches", "/api/v1/github/repositories/acme-org/model/branches?installationId=1&first=5&after=", nil)
	c.do(t, "github connect", "/build/api/v1/deployments/"+id+"/github/connect", map[string]any{"installationId": 1, "name": "model", "branch": "next"})
	if source := object(t, acme, id).Spec.Model.Git; source == nil || source.Branch != "next" {
		t.Errorf("connected to %+v", source)
	}
}

// people manages users and groups.
func (c *clientCalls) people(t *testing.T) {
	t.Helper()
	c.do(t, "users me", "/api/v1/users/me", nil)
	user := c.do(t, "users create", "/api/v1/users/", map[string]any{"email": "cli@acme.example.com", "username": "cli@acme.example.com", "firstName": "Cli"}).integer("id")
	c.do(t, "users list", "/api/v1/users/?first=1000&after=", nil)
	c.do(t, "users update", "/api/v1/users/"+user, map[string]any{"title": "Client"})
	c.call(t, "POST", "/api/scim/v2/Groups", map[string]any{"schemas": []string{"urn:ietf:params:scim:schemas:core:2.0:Group"}, "displayName": "Clients"}).is(201)
	groups := c.do(t, "groups list", "/api/v1/user-groups/?first=1000&after=", nil)
	for i, group := range groups.list("items") {
		if group["name"] == "Clients" {
			c.do(t, "groups delete", "/api/v1/groups/"+groups.integer(fmt.Sprintf("items.%d.id", i)), nil)
		}
	}
	c.attributes(t, user)
	c.do(t, "users delete", "/api/v1/users/"+user, nil)
	c.do(t, "users embed-theme", "/api/v1/users/embed-theme", nil)
	c.do(t, "app theme", "/api/v1/app-theme", nil)
	c.do(t, "tenant settings", "/api/v1/tenant/settings", nil)
}

// attributes manages user attributes, and their values for a user.
func (c *clientCalls) attributes(t *testing.T, user string) {
	t.Helper()
	const all, values = "/api/v1/user-attributes/", "/api/v1/user-attribute-values/"
	attribute := c.do(t, "attributes create", all, map[string]any{"name": "cli_region", "type": "string", "displayName": "Region", "description": "Where.", "defaultValue": "EU"}).integer("id")
	for _, query := range []string{"first=1&after=", "offset=0&limit=1", "name=cli_region&type=string"} {
		c.do(t, "attributes list", all+"?"+query, nil)
	}
	c.do(t, "attributes update", all+attribute, map[string]any{"displayName": "Area", "description": "There.", "defaultValue": "US"})
	c.do(t, "attributes values set", values, map[string]any{"userId": user, "userAttributeId": attribute, "value": "EU"})
	c.do(t, "attributes values get", values+user, nil)
	c.do(t, "attributes delete", all+attribute, nil)
}

// integer returns a large integer of the body as text.
func (a *response) integer(path string) string {
	number, _ := a.at(path).(float64)
	return strconv.FormatInt(int64(number), 10)
}

// TestOperationsOfTheContractAreServed: every operation of testdata/operations.txt is in the document, and the server has a
// route for it.
func TestOperationsOfTheContractAreServed(t *testing.T) {
	data, err := os.ReadFile("testdata/operations.txt")
	if err != nil {
		t.Fatal(err)
	}
	documented, parameter := map[string]bool{}, regexp.MustCompile(`\{\w+\}`)
	for path, methods := range readSpecification(t).paths {
		for method := range methods {
			documented[strings.ToUpper(method)+" "+parameter.ReplaceAllString(path, "{}")] = true
		}
	}
	_, token := createAPIKey(t, map[string]any{"name": "Powerless", "permissions": []string{"SqlRunnerRead"}})
	powerless := acme.as(token)
	operations := strings.Fields(strings.TrimSpace(string(data)))
	if len(operations) < 2*30 {
		t.Fatalf("%d words", len(operations))
	}
	for i := 0; i < len(operations); i += 2 {
		method, path := operations[i], operations[i+1]
		if !documented[method+" "+parameter.ReplaceAllString(path, "{}")] {
			t.Errorf("%s %s is not in the document", method, path)
		}
		// Without a permission, no route does anything: an unknown one is a 404, and an unknown method a 405.
		target := strings.NewReplacer("{deploymentId}", acme.id, "{installationId}", "1").Replace(path)
		if got := powerless.call(t, method, parameter.ReplaceAllString(target, "x"), nil); got.status != 403 && got.status != 400 {
			t.Errorf("%s %s: %d %s", method, path, got.status, got.raw)
		}
	}
}
