package mcp

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"

	"github.com/quoin-dev/quoin/api/v1alpha1"
	"github.com/quoin-dev/quoin/apiserver/access"
	"github.com/quoin-dev/quoin/apiserver/agents"
	"github.com/quoin-dev/quoin/apiserver/auth"
	"github.com/quoin-dev/quoin/apiserver/rest"
	"github.com/quoin-dev/quoin/internal/content"
)

// offering returns an account that offers the deployments a and b.
func offering() *v1alpha1.Account {
	return &v1alpha1.Account{ObjectMeta: metav1.ObjectMeta{Name: "demo"}, Spec: v1alpha1.AccountSpec{
		Host: "demo.example.com", Namespace: "demo", MCP: &v1alpha1.AccountMCP{Deployments: []string{"a", "b"}},
	}}
}

// newTestServer returns a server whose deployments are a, b and c, with the numbers 1 to 3.
func newTestServer(t testing.TB) *Server {
	scheme := runtime.NewScheme()
	if err := v1alpha1.AddToScheme(scheme); err != nil {
		t.Fatal(err)
	}
	known := agents.New(agents.Options{Client: fake.NewClientBuilder().WithScheme(scheme).Build()})
	return New(Options{Version: "test", Agents: known, Deployments: func(_ string, p *auth.Principal, needed v1alpha1.Permission) (all []*v1alpha1.Deployment, err error) {
		for id, name := range map[string]string{"1": "a", "2": "b", "3": "c"} {
			if p.MayOn(needed, name) {
				all = append(all, &v1alpha1.Deployment{ObjectMeta: metav1.ObjectMeta{Name: name, Labels: map[string]string{v1alpha1.LabelID: id}}})
			}
		}
		return all, nil
	}})
}

func reader(deployments ...string) *auth.Principal {
	return &auth.Principal{Kind: auth.KindUser, Name: "Ada", Grants: access.Grants{{Permissions: []v1alpha1.Permission{v1alpha1.PermissionDeploymentRead}, Deployments: deployments}}}
}

// TestDeployment: a deployment is found by its id, as a number or a text, if the account offers it and the caller may read it.
func TestDeployment(t *testing.T) {
	s := newTestServer(t)
	for _, test := range []struct {
		id, want string
		of       *auth.Principal
	}{
		{`1`, "a", reader()},
		{`"2"`, "b", reader()},
		{``, "b", reader("b", "c")},
		{`null`, "b", reader("b")},
		{``, "deploymentId: missing; allowed: ", reader()},
		{`3`, "Deployment 3 is not available via MCP for this account", reader()},
		{`4`, "Deployment 4 is not available via MCP for this account", reader()},
		{`1`, "Deployment 1 is not available via MCP for this account", reader("b")},
		{`-1`, `deploymentId: -1 is not the id of a deployment`, reader()},
		{`1.5`, `deploymentId: 1.5 is not the id of a deployment`, reader()},
		{`{"id":1}`, `deploymentId: {"id":1} is not the id of a deployment`, reader()},
	} {
		d, err := s.deployment(&rest.Scope{Account: offering(), Principal: test.of}, json.RawMessage(test.id))
		got := ""
		if err != nil {
			got = err.Error()
		} else {
			got = d.Name
		}
		if !strings.HasPrefix(got, test.want) {
			t.Errorf("%s: got %q, want %q", test.id, got, test.want)
		}
	}
}

// TestRejectionsAreShown: the model of the client reads why the content store has rejected a call, and is not told to repeat it.
func TestRejectionsAreShown(t *testing.T) {
	of := &tool{name: "chat", run: func(context.Context, json.RawMessage) (*outcome, error) {
		return nil, fmt.Errorf("begin: %w", content.Errorf(content.Invalid, "chatId: must have 1 to 256 bytes, none of which is 0"))
	}}
	_, err := guarded(t.Context(), of, nil)
	if got, err := json.Marshal(failure(t.Context(), of, err)); err != nil || !strings.Contains(string(got), "chatId: must have 1 to 256 bytes") {
		t.Errorf("%s, %v", got, err)
	}
}

// FuzzBody sends bodies: none is a server-side failure, and none reaches a deployment that is not offered.
func FuzzBody(f *testing.F) {
	s := newTestServer(f)
	for _, seed := range []string{
		"", "{", "[]", "null", `{"jsonrpc":"2.0","id":1,"method":"tools/list"}`, `{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"listDeployments","arguments":{}}}`,
		`{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"listDeployments","arguments":{"externalId":"x"}}}`, `{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"listDeployments","arguments":[1]}}`,
		`{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":1}}`, `{"jsonrpc":"2.0","id":1,"result":{}}`, `{"jsonrpc":"2.0","id":"x","method":"logging/setLevel","params":{"level":"debug"}}`,
	} {
		f.Add(seed, "2025-06-18")
	}
	f.Add(`{"jsonrpc":"2.0","id":1,"method":"server/discover"}`, "2026-07-28")
	f.Fuzz(func(t *testing.T, body, version string) {
		if strings.Contains(body, "subscriptions") { // waits until its time is over
			return
		}
		r := httptest.NewRequestWithContext(t.Context(), http.MethodPost, "https://demo.example.com"+Path, strings.NewReader(body))
		r.Header.Set("Content-Type", "application/json")
		r.Header.Set("Accept", "application/json, text/event-stream")
		r.Header.Set("Mcp-Protocol-Version", version)
		w := httptest.NewRecorder()
		s.ServeHTTP(w, r, offering(), reader())
		if w.Code >= http.StatusInternalServerError || strings.Contains(w.Body.String(), `"id":3`) {
			t.Errorf("%q: %d %s", body, w.Code, w.Body)
		}
	})
}
