// Package mcp_test tests the endpoint for clients of the Model Context Protocol with the client of the official Go SDK. `quoin apiserver`
// runs in the test process with the permissions of its roles, with a real kube-apiserver and an OpenID Connect provider.
package mcp_test

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"net/http/cookiejar"
	"strings"
	"testing"

	"github.com/modelcontextprotocol/go-sdk/mcp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/quoin-dev/quoin/api/v1alpha1"
	"github.com/quoin-dev/quoin/apiserver"
	"github.com/quoin-dev/quoin/test/internal/apiclient"
	"github.com/quoin-dev/quoin/test/internal/clustertest"
	"github.com/quoin-dev/quoin/test/internal/inprocess"
	"github.com/quoin-dev/quoin/test/internal/oidcprovider"
)

var (
	k8s client.Client
	idp *oidcprovider.Provider
	// transport leads names to the server.
	transport *http.Transport
)

// account is an account with three deployments: sales, which is 1, finance, which is 2, and secret, which is 3.
type account struct {
	name string
	// admin is a key without an owner; ada's is a Viewer's; limited is a key for the deployment finance; lost is a key that a test
	// deletes.
	admin, ada, limited, lost string
}

// MCP is on for acme, with sales and finance, and for globex, with sales, and off for initech.
var acme, globex, initech = &account{name: "acme"}, &account{name: "globex"}, &account{name: "initech"}

func (a *account) site() string { return "https://" + a.name + ".example.com" }

func TestMain(m *testing.M) { clustertest.Main(m, run) }

func run(ctx context.Context, c *clustertest.Cluster, m *testing.M) (int, error) {
	k8s, idp = c.Client, oidcprovider.New()
	defer idp.Close()
	for a, mcp := range map[*account]*v1alpha1.AccountMCP{
		acme:   {Deployments: []string{"sales", "finance", "deleted"}, RedirectURIs: []string{"https://assistant.example.net/callback"}},
		globex: {Deployments: []string{"sales"}}, initech: nil,
	} {
		if err := a.create(ctx, c, mcp); err != nil {
			return 0, fmt.Errorf("account %s: %w", a.name, err)
		}
	}
	server, err := inprocess.Serve(ctx, c, apiserver.Config{OIDCClient: idp.Client()})
	if err != nil {
		return 0, err
	}
	roots, err := c.Roots(ctx)
	if err != nil {
		return 0, err
	}
	roots.AddCert(idp.Certificate())
	transport = apiclient.Transport(roots, server.Address.String)
	return server.Run(m)
}

func (a *account) create(ctx context.Context, c *clustertest.Cluster, mcp *v1alpha1.AccountMCP) error {
	owner := &v1alpha1.ApiKeyOwner{ScimUser: "ada"}
	keys, tokens, err := clustertest.Keys(a.name, map[string]v1alpha1.ApiKeySpec{
		"admin": {}, "ada": {Owner: owner}, "lost": {Owner: owner},
		"limited": {Permissions: []v1alpha1.Permission{v1alpha1.PermissionDeploymentRead}, Deployments: []string{"finance"}},
	})
	if err != nil {
		return err
	}
	a.admin, a.ada, a.limited, a.lost = tokens["admin"], tokens["ada"], tokens["limited"], tokens["lost"]
	spec := v1alpha1.AccountSpec{
		Host: v1alpha1.Host(a.name + ".example.com"), Plan: v1alpha1.PlanEnterprise, AuditLog: &v1alpha1.AuditLog{Enabled: ptr.To(true)}, MCP: mcp,
		OIDCIssuers: []v1alpha1.OIDCIssuer{{
			URL: idp.URL, Audiences: []string{"api"}, ClientID: idp.ClientID, ClientSecretRef: &v1alpha1.SecretKeyReference{Name: "login", Key: "secret"},
		}},
	}
	objects := append(keys,
		&corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: a.name, Name: "login"}, Data: map[string][]byte{"secret": []byte(idp.ClientSecret)}},
		&v1alpha1.ScimUser{ObjectMeta: metav1.ObjectMeta{Namespace: a.name, Name: "ada"}, Spec: v1alpha1.ScimUserSpec{
			UserName: "ada@example.com", AccountRoles: []v1alpha1.AccountRoleReference{"Viewer"},
		}},
	)
	if err := c.Account(ctx, a.name, spec, objects...); err != nil {
		return err
	}
	for number, name := range []string{"sales", "finance", "secret"} {
		if err := c.Deploy(ctx, a.name, name, number+1); err != nil {
			return err
		}
	}
	return nil
}

// bearer adds a token to requests.
type bearer struct{ token string }

func (b bearer) RoundTrip(r *http.Request) (*http.Response, error) {
	r = r.Clone(r.Context())
	r.Header.Set("Authorization", "Bearer "+b.token)
	return transport.RoundTrip(r)
}

// connect connects a client with a token; the test ends the session.
func (a *account) connect(t *testing.T, token string) *mcp.ClientSession {
	t.Helper()
	assistant := mcp.NewClient(&mcp.Implementation{Name: "test", Version: "1"}, nil)
	session, err := assistant.Connect(t.Context(), &mcp.StreamableClientTransport{
		Endpoint: a.site() + "/api/mcp", HTTPClient: &http.Client{Transport: bearer{token}, Timeout: apiclient.Timeout}, DisableStandaloneSSE: true, MaxRetries: -1,
	}, nil)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = session.Close() })
	return session
}

// call calls a tool and returns the text of the result, and whether it is a failure.
func call(t *testing.T, s *mcp.ClientSession, tool string, arguments map[string]any) (string, bool) {
	t.Helper()
	result, err := s.CallTool(t.Context(), &mcp.CallToolParams{Name: tool, Arguments: arguments})
	if err != nil {
		t.Fatalf("%s: %v", tool, err)
	}
	var text strings.Builder
	for _, part := range result.Content {
		if part, ok := part.(*mcp.TextContent); ok {
			text.WriteString(part.Text)
		}
	}
	return text.String(), result.IsError
}

// fails calls a tool that must fail with a text.
func fails(t *testing.T, s *mcp.ClientSession, tool string, arguments map[string]any, want string) {
	t.Helper()
	if got, failed := call(t, s, tool, arguments); !failed || !strings.Contains(got, want) {
		t.Errorf("%s %v: %v %s; want %q", tool, arguments, failed, got, want)
	}
}

// program is an HTTP client, with cookies if it is a browser.
func program(t *testing.T, browser bool) *http.Client {
	t.Helper()
	c := &http.Client{Transport: transport, Timeout: apiclient.Timeout}
	if browser {
		jar, err := cookiejar.New(nil)
		if err != nil {
			t.Fatal(err)
		}
		c.Jar = jar
	}
	return c
}

// response is a response with its body.
type response struct {
	status int
	header http.Header
	body   string
}

// send sends a request.
func send(t *testing.T, c *http.Client, method, target, body string, header map[string]string) response {
	t.Helper()
	r, err := http.NewRequestWithContext(t.Context(), method, target, strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	for name, value := range header {
		r.Header.Set(name, value)
	}
	got, err := c.Do(r)
	if err != nil {
		t.Fatal(err)
	}
	defer got.Body.Close()
	text, err := io.ReadAll(got.Body)
	if err != nil {
		t.Fatal(err)
	}
	return response{got.StatusCode, got.Header, string(text)}
}
