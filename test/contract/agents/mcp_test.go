package agents_test

import (
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"testing"

	"github.com/modelcontextprotocol/go-sdk/mcp"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/quoin-dev/quoin/api/v1alpha1"
	"github.com/quoin-dev/quoin/test/internal/apiclient"
	"github.com/quoin-dev/quoin/test/security/prompts"
)

// offer makes the deployment and the analyst of an account available to clients of MCP.
func (a *account) offer(t *testing.T) {
	t.Helper()
	account, agent := &v1alpha1.Account{}, &v1alpha1.Agent{}
	for _, err := range []error{
		k8s.Get(t.Context(), client.ObjectKey{Name: a.name}, account), k8s.Get(t.Context(), client.ObjectKey{Namespace: a.name, Name: "agent-1"}, agent),
	} {
		if err != nil {
			t.Fatal(err)
		}
	}
	before, agentBefore := account.DeepCopy(), agent.DeepCopy()
	account.Spec.MCP, agent.Spec.AllowMCP = &v1alpha1.AccountMCP{Deployments: []string{deployment}}, ptr.To(true)
	if err := k8s.Patch(t.Context(), account, client.MergeFrom(before)); err != nil {
		t.Fatal(err)
	}
	if err := k8s.Patch(t.Context(), agent, client.MergeFrom(agentBefore)); err != nil {
		t.Fatal(err)
	}
	apiclient.Soon(t, func() error {
		session, err := a.session(t, a.ada)
		if err != nil {
			return err
		}
		defer func() { _ = session.Close() }()
		if got, _ := invoke(t, session, "listDeployments", nil); !strings.Contains(got, `"agent-1"`) {
			return fmt.Errorf("the agents are not offered yet: %s", got)
		}
		return nil
	})
}

// keyed adds a token to requests.
type keyed struct{ token string }

func (k keyed) RoundTrip(r *http.Request) (*http.Response, error) {
	r = r.Clone(r.Context())
	r.Header.Set("Authorization", "Bearer "+k.token)
	return anyone.Transport.RoundTrip(r)
}

func (a *account) session(t *testing.T, token string) (*mcp.ClientSession, error) {
	t.Helper()
	assistant := mcp.NewClient(&mcp.Implementation{Name: "test", Version: "1"}, nil)
	return assistant.Connect(t.Context(), &mcp.StreamableClientTransport{
		Endpoint: "https://" + a.host() + "/api/mcp", HTTPClient: &http.Client{Transport: keyed{token}, Timeout: apiclient.Timeout}, DisableStandaloneSSE: true, MaxRetries: -1,
	}, nil)
}

// assistant connects a client with a token; the test ends the session.
func (a *account) assistant(t *testing.T, token string) *mcp.ClientSession {
	t.Helper()
	session, err := a.session(t, token)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = session.Close() })
	return session
}

// invoke calls a tool and returns the text of the result, and whether it is a failure.
func invoke(t *testing.T, s *mcp.ClientSession, tool string, arguments any) (string, bool) {
	t.Helper()
	result, err := s.CallTool(t.Context(), &mcp.CallToolParams{Name: tool, Arguments: arguments})
	if err != nil {
		t.Fatalf("%s: %v", tool, err)
	}
	text, ok := result.Content[0].(*mcp.TextContent)
	if !ok || len(result.Content) != 1 {
		t.Fatalf("%s: %v", tool, result.Content)
	}
	return text.Text, result.IsError
}

// TestMCPQueries: the tools of the endpoint query as the person whose token it is.
func TestMCPQueries(t *testing.T) {
	acme.offer(t)
	globex.offer(t)
	p := acme.startPod(t)
	globex.startPod(t)
	sql := object{"sqlQuery": "SELECT country, MEASURE(count) FROM orders_view GROUP BY 1", "deploymentId": 1}
	query := object{"query": object{"dimensions": []string{"orders_view.country"}}}
	for name, test := range map[string]struct {
		of              *account
		token, tool     string
		arguments       object
		want, forbidden string
	}{
		"metadata":                   {acme, acme.ada, "cubeMeta", object{"searchQuery": "orders"}, `"orders_view.country"`, ""},
		"SQL of a person":            {acme, acme.ada, "cubeSqlApi", sql, `"data":[["CH","1"]]`, ""},
		"JSON of a person":           {acme, acme.ben, "cubeJsonQuery", query, `"data":[["DE"]]`, ""},
		"SQL of one who writes none": {acme, acme.ben, "cubeSqlApi", sql, "", "ForbiddenError"},
		"a program":                  {acme, acme.admin, "cubeSqlApi", sql, `"data":[["program","1"]]`, ""},
		"a program that only reads":  {acme, acme.reader, "cubeSqlApi", sql, "", "DeploymentUpdate"},
		"a page":                     {acme, acme.ada, "loadQueryResults", object{"sqlQuery": sql["sqlQuery"], "limit": 10}, `"data":[["CH","1"]],"offset":0}`, ""},
		"a page after the end":       {acme, acme.ada, "loadQueryResults", object{"sqlQuery": sql["sqlQuery"], "offset": 5}, `"data":[],"offset":5}`, ""},
		"what is hidden":             {acme, acme.ada, "cubeSqlApi", object{"sqlQuery": "SELECT secret FROM orders_view"}, "", "ForbiddenError"},
		"no SELECT":                  {acme, acme.ada, "cubeSqlApi", object{"sqlQuery": "DROP TABLE orders_view"}, "", "BadRequestError"},
		"a deployment that is not":   {acme, acme.ada, "cubeSqlApi", object{"sqlQuery": "SELECT 1", "deploymentId": 2}, "", "Deployment 2 is not available via MCP for this account"},
		"another account":            {globex, globex.ada, "cubeSqlApi", sql, `"data":[["CH","1"]]`, ""},
	} {
		t.Run(name, func(t *testing.T) {
			got, failed := invoke(t, test.of.assistant(t, test.token), test.tool, test.arguments)
			if failed != (test.forbidden != "") || !strings.Contains(got, test.want+test.forbidden) {
				t.Errorf("%v %s", failed, got)
			}
		})
	}
	if all := p.received("DROP"); len(all) > 0 {
		t.Errorf("the pod has received %q", all)
	}
}

// TestMCPChat: an agent answers through the endpoint, in one chat after the other, as the person who asks.
func TestMCPChat(t *testing.T) {
	acme.offer(t)
	globex.offer(t)
	acme.startPod(t)
	const question = "sql SELECT country, MEASURE(count) FROM orders_view GROUP BY 1"
	for token, country := range map[string]string{acme.ada: "CH"} {
		session := acme.assistant(t, token)
		text, failed := invoke(t, session, "chat", object{"input": question, "agentId": analyst})
		var first struct {
			ChatID, Answer string
			AgentID        int
			Queries        []struct{ SQLQuery string }
		}
		if err := json.Unmarshal([]byte(text), &first); err != nil || failed || !strings.Contains(first.Answer, country) || first.AgentID != analyst || len(first.Queries) != 1 {
			t.Fatalf("%v %s", failed, text)
		}
		if again, failed := invoke(t, session, "chat", object{"input": "hello", "chatId": first.ChatID, "agentId": nil}); failed || !strings.Contains(again, "You said hello") || !strings.Contains(again, first.ChatID) {
			t.Errorf("%v %s", failed, again)
		}
		// The chat belongs to the person.
		if got, failed := invoke(t, acme.assistant(t, acme.ben), "chat", object{"input": "hello", "chatId": first.ChatID}); !failed || strings.Contains(got, country) {
			t.Errorf("another person continues the chat: %s", got)
		}
	}
	for name, test := range map[string]struct {
		token     string
		arguments object
		want      string
	}{
		"an agent that is not offered": {acme.ada, object{"input": "x", "agentId": small}, "Agent 6 is not available via MCP for this account"},
		"no such agent":                {acme.ada, object{"input": "x", "agentId": 99}, "Agent 99 is not available via MCP for this account"},
		"another deployment":           {acme.ada, object{"input": "x", "agentId": analyst, "deploymentId": 3}, "Deployment 3 is not available via MCP for this account"},
		"a program":                    {acme.admin, object{"input": "x"}, "without an owner"},
		"no input":                     {acme.ada, object{}, "input: missing"},
		"an empty input":               {acme.ada, object{"input": ""}, "input: 0 bytes"},
		"a long input":                 {acme.ada, object{"input": strings.Repeat("x", 33<<10)}, "allowed: 1 to 32768"},
		"an odd agent":                 {acme.ada, object{"input": "x", "agentId": "first"}, "agentId: first is not a number"},
		"an odd chat":                  {acme.ada, object{"input": "x", "chatId": strings.Repeat("x", 300)}, "chatId: 300 bytes"},
		"a chat with a NUL":            {acme.ada, object{"input": "x", "chatId": "c\x00"}, "none of which is 0"},
		"an identity":                  {acme.ada, object{"input": "x", "sessionSettings": external("u1", "US")}, "sessionSettings: there is no such argument"},
		"a model that refuses the key": {acme.ada, object{"input": "refuse"}, "the model failed"},
	} {
		t.Run(name, func(t *testing.T) {
			if got, failed := invoke(t, acme.assistant(t, test.token), "chat", test.arguments); !failed || !strings.Contains(got, test.want) {
				t.Errorf("%v %s; want %q", failed, got, test.want)
			}
		})
	}
	events := acme.call(t, acme.admin, "GET", "/api/v1/audit-logs/export", nil).Is(200)
	if text := string(events.Body); !strings.Contains(text, "Called MCP tool") || strings.Contains(text, "attempted") {
		t.Errorf("the events are %s", text)
	}
}

// TestMCPHostileCalls: calls that a model makes which obeys hostile texts reach the pod as queries of the person only.
func TestMCPHostileCalls(t *testing.T) {
	acme.offer(t)
	p := acme.startPod(t)
	all, err := prompts.All()
	if err != nil {
		t.Fatal(err)
	}
	session := acme.assistant(t, acme.ada)
	answered := 0
	for _, c := range all {
		var arguments map[string]any
		if json.Unmarshal(c.Input, &arguments) != nil || arguments == nil {
			continue // the client of the SDK sends objects only
		}
		result, err := session.CallTool(t.Context(), &mcp.CallToolParams{Name: c.Tool, Arguments: arguments})
		if err == nil && !result.IsError {
			answered++
		}
	}
	if answered == 0 {
		t.Error("no call was answered: the test proves nothing")
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, q := range p.queries {
		fields := strings.Fields(q)
		if path := fields[0]; path != "/v1/meta" && path != "/v1/cubesql" && path != "/v1/load" || fields[1] != "CH" {
			t.Errorf("the pod has received %q", q)
		}
	}
}
