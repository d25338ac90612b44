package mcp_test

import (
	"encoding/json"
	"net/http"
	"strings"
	"testing"

	"github.com/modelcontextprotocol/go-sdk/mcp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/quoin-dev/quoin/api/v1alpha1"
	"github.com/quoin-dev/quoin/test/internal/apiclient"
)

// TestListDeployments: clients see the deployments that the account offers and that the caller may read, and no others.
func TestListDeployments(t *testing.T) {
	for name, test := range map[string]struct {
		of    *account
		token string
		want  string
	}{
		"a person":                       {acme, acme.ada, `{"deployments":[{"id":1,"name":"sales","agents":[]},{"id":2,"name":"finance","agents":[]}]}`},
		"a program":                      {acme, acme.admin, `{"deployments":[{"id":1,"name":"sales","agents":[]},{"id":2,"name":"finance","agents":[]}]}`},
		"a key for one deployment":       {acme, acme.limited, `{"deployments":[{"id":2,"name":"finance","agents":[]}]}`},
		"a key for none that is offered": {globex, globex.limited, `{"deployments":[]}`},
		"another account":                {globex, globex.ada, `{"deployments":[{"id":1,"name":"sales","agents":[]}]}`},
	} {
		t.Run(name, func(t *testing.T) {
			if got, failed := call(t, test.of.connect(t, test.token), "listDeployments", nil); got != test.want || failed {
				t.Errorf("the result is %v %s", failed, got)
			}
		})
	}
}

// TestTools: every tool reads only, takes no argument that is not declared, and none that names an identity.
func TestTools(t *testing.T) {
	session := acme.connect(t, acme.ada)
	if info := session.InitializeResult(); info.ServerInfo.Name != "quoin" || info.Instructions == "" {
		t.Errorf("the server is %+v", info)
	}
	tools, err := session.ListTools(t.Context(), nil)
	if err != nil {
		t.Fatal(err)
	}
	for _, tool := range tools.Tools {
		schema, err := json.Marshal(tool.InputSchema)
		if err != nil {
			t.Fatal(err)
		}
		if tool.Description == "" || tool.Annotations == nil || !tool.Annotations.ReadOnlyHint || !strings.Contains(string(schema), `"additionalProperties":false`) {
			t.Errorf("%s: %+v %s", tool.Name, tool.Annotations, schema)
		}
		for _, identity := range []string{"sessionSettings", "externalId", "internalId", "securityContext", "userAttributes", "token"} {
			if strings.Contains(strings.ToLower(string(schema)), strings.ToLower(identity)) {
				t.Errorf("%s has an argument %s", tool.Name, identity)
			}
			fails(t, session, tool.Name, map[string]any{identity: "bob"}, identity+": there is no such argument")
		}
	}
	if _, err := session.CallTool(t.Context(), &mcp.CallToolParams{Name: "dropTables"}); err == nil {
		t.Error("a tool that does not exist can be called")
	}
}

const initialize = `{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":"2025-06-18","capabilities":{},"clientInfo":{"name":"t","version":"1"}}}`

// headers returns the headers of a request with a token.
func headers(token string, more ...string) map[string]string {
	all := map[string]string{"Content-Type": "application/json", "Accept": "application/json, text/event-stream"}
	if token != "" {
		all["Authorization"] = "Bearer " + token
	}
	for i := 0; i < len(more); i += 2 {
		all[more[i]] = more[i+1]
	}
	return all
}

// TestStatuses: what is wrong with a request is a status and a text.
func TestStatuses(t *testing.T) {
	for name, test := range map[string]struct {
		of           *account
		method, body string
		header       map[string]string
		status       int
		text         string
	}{
		"accepted":                  {acme, "POST", initialize, headers(acme.ada), 200, `"serverInfo"`},
		"no credential":             {acme, "POST", initialize, headers(""), 401, "Authorization"},
		"an unknown key":            {acme, "POST", initialize, headers("qk_0000"), 401, "not authenticated"},
		"a key of another account":  {acme, "POST", initialize, headers(globex.ada), 401, "not authenticated"},
		"MCP is off":                {initech, "POST", initialize, headers(initech.admin), 403, "spec.mcp.deployments"},
		"no credential, MCP is off": {initech, "POST", initialize, headers(""), 401, "Authorization"},
		"a page of another site":    {acme, "POST", initialize, headers(acme.ada, "Origin", "https://evil.example.com"), 403, "Origin"},
		"a page of a file":          {acme, "POST", initialize, headers(acme.ada, "Origin", "null"), 403, "Origin"},
		"a page of the account":     {acme, "POST", initialize, headers(acme.ada, "Origin", acme.site()), 200, `"serverInfo"`},
		"GET":                       {acme, "GET", "", headers(acme.ada), 405, "use POST"},
		"DELETE":                    {acme, "DELETE", "", headers(acme.ada), 405, "use POST"},
		"no JSON":                   {acme, "POST", "{", headers(acme.ada), 400, "not a JSON-RPC message"},
		"an empty body":             {acme, "POST", "", headers(acme.ada), 400, "not a JSON-RPC message"},
		"a batch":                   {acme, "POST", " [" + initialize + "," + initialize + "]", headers(acme.ada), 400, "batch"},
		"another media type":        {acme, "POST", initialize, headers(acme.ada, "Content-Type", "text/plain"), 415, "application/json"},
		"a large body":              {acme, "POST", `{"x":"` + strings.Repeat("x", 300<<10) + `"}`, headers(acme.ada), 413, "262144"},
		"an unknown version":        {acme, "POST", initialize, headers(acme.ada, "Mcp-Protocol-Version", "2020-01-01"), 400, "protocol version"},
	} {
		t.Run(name, func(t *testing.T) {
			got := send(t, program(t, false), test.method, test.of.site()+"/api/mcp", test.body, test.header)
			if got.status != test.status || !strings.Contains(got.body, test.text) {
				t.Errorf("%d %s; want %d %q", got.status, got.body, test.status, test.text)
			}
			if strings.Contains(got.body, acme.ada) {
				t.Error("the response has the key")
			}
		})
	}
}

// TestRevokedKey: a key that is deleted is no longer accepted, also in a session.
func TestRevokedKey(t *testing.T) {
	session := acme.connect(t, acme.lost)
	call(t, session, "listDeployments", nil)
	if err := k8s.Delete(t.Context(), &v1alpha1.ApiKey{ObjectMeta: metav1.ObjectMeta{Namespace: acme.name, Name: "lost"}}); err != nil {
		t.Fatal(err)
	}
	apiclient.Soon(t, func() error {
		got := send(t, program(t, false), http.MethodPost, acme.site()+"/api/mcp", initialize, headers(acme.lost))
		if got.status != http.StatusUnauthorized {
			return errorf("%d %s", got.status, got.body)
		}
		return nil
	})
	if _, err := session.CallTool(t.Context(), &mcp.CallToolParams{Name: "listDeployments"}); err == nil {
		t.Error("a deleted key calls tools")
	}
}

// TestEvents: each call is in the audit log with who, what and its outcome.
func TestEvents(t *testing.T) {
	call(t, globex.connect(t, globex.ada), "listDeployments", nil)
	events := send(t, program(t, false), http.MethodGet, globex.site()+"/api/v1/audit-logs/export", "", headers(globex.admin))
	if events.status != 200 || !strings.Contains(events.body, "Called MCP tool") || !strings.Contains(events.body, "listDeployments") {
		t.Errorf("%d %s", events.status, events.body)
	}
	if strings.Contains(events.body, "attempted") {
		t.Errorf("an event has no outcome: %s", events.body)
	}
}
