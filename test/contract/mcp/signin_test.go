package mcp_test

import (
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"net/http"
	"net/url"
	"regexp"
	"strings"
	"testing"
)

func errorf(format string, args ...any) error { return fmt.Errorf(format, args...) }

// document fetches a JSON document.
func document(t *testing.T, target string) map[string]any {
	t.Helper()
	got := send(t, program(t, false), http.MethodGet, target, "", nil)
	out := map[string]any{}
	if err := json.Unmarshal([]byte(got.body), &out); err != nil || got.status != http.StatusOK {
		t.Fatalf("%s: %d %s", target, got.status, got.body)
	}
	return out
}

// TestDiscovery: a client finds the authorization server from the challenge, as RFC 9728 describes, and older clients by their path.
func TestDiscovery(t *testing.T) {
	challenge := send(t, program(t, false), http.MethodPost, acme.site()+"/api/mcp", initialize, headers("")).header.Get("WWW-Authenticate")
	found := regexp.MustCompile(`resource_metadata="([^"]+)", scope="mcp-agent-access"$`).FindStringSubmatch(challenge)
	if found == nil || found[1] != acme.site()+"/.well-known/oauth-protected-resource/api/mcp" {
		t.Fatalf("WWW-Authenticate is %q", challenge)
	}
	resource := document(t, found[1])
	if resource["resource"] != acme.site()+"/api/mcp" || fmt.Sprint(resource["authorization_servers"]) != "["+acme.site()+"]" || fmt.Sprint(resource["scopes_supported"]) != "[mcp-agent-access]" {
		t.Errorf("the metadata is %v", resource)
	}
	for _, path := range []string{"/.well-known/oauth-authorization-server", "/.well-known/oauth-authorization-server/api/mcp", "/.well-known/oauth"} {
		server := document(t, acme.site()+path)
		if server["issuer"] != acme.site() || server["authorization_endpoint"] != acme.site()+"/auth/oauth2/authorize" || fmt.Sprint(server["scopes_supported"]) != "[all mcp-agent-access]" {
			t.Errorf("%s is %v", path, server)
		}
	}
}

const verifier = "verifier-of-the-client-verifier-of-the-client"

// authorization returns the parameters of an authorization request.
func authorization(redirect string, more ...string) url.Values {
	sum := sha256.Sum256([]byte(verifier))
	values := url.Values{
		"response_type": {"code"}, "client_id": {"cube-mcp-client"}, "redirect_uri": {redirect}, "state": {"s1"},
		"code_challenge": {base64.RawURLEncoding.EncodeToString(sum[:])}, "code_challenge_method": {"S256"},
	}
	for i := 0; i < len(more); i += 2 {
		values.Set(more[i], more[i+1])
	}
	return values
}

var hidden = regexp.MustCompile(`<input type="hidden" name="(\w+)" value="([^"]*)">`)

// authorize lets ada sign in with a browser and allow a client. It returns the address to which she is redirected at the end.
func (a *account) authorize(t *testing.T, values url.Values) *url.URL {
	t.Helper()
	browser := program(t, true)
	page := send(t, browser, http.MethodGet, a.site()+"/auth/oauth2/authorize?"+values.Encode(), "", nil)
	if page.status != http.StatusOK {
		t.Fatalf("%d %s", page.status, page.body)
	}
	if !strings.Contains(page.body, "AI assistant (MCP)") || !strings.Contains(page.body, "It can change nothing") {
		t.Errorf("the page of consent is %s", page.body)
	}
	form := url.Values{"decision": {"allow"}}
	for _, match := range hidden.FindAllStringSubmatch(page.body, -1) {
		form.Set(match[1], strings.ReplaceAll(match[2], "&#43;", "+"))
	}
	browser.CheckRedirect = func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }
	got := send(t, browser, http.MethodPost, a.site()+"/auth/oauth2/authorize", form.Encode(), map[string]string{"Content-Type": "application/x-www-form-urlencoded"})
	location, err := url.Parse(got.header.Get("Location"))
	if err != nil || location.Host == "" {
		t.Fatalf("%d %s %s", got.status, got.header, got.body)
	}
	return location
}

// tokens requests tokens.
func (a *account) tokens(t *testing.T, status int, form url.Values) map[string]string {
	t.Helper()
	got := send(t, program(t, false), http.MethodPost, a.site()+"/auth/oauth2/token", form.Encode(), map[string]string{"Content-Type": "application/x-www-form-urlencoded"})
	all, out := map[string]any{}, map[string]string{}
	if err := json.Unmarshal([]byte(got.body), &all); err != nil || got.status != status {
		t.Fatalf("%d %s", got.status, got.body)
	}
	for name, value := range all {
		out[name] = fmt.Sprint(value)
	}
	return out
}

// redemption returns the form that exchanges the code in a redirect.
func redemption(redirect string, from *url.URL, more ...string) url.Values {
	values := url.Values{
		"grant_type": {"authorization_code"}, "client_id": {"cube-mcp-client"}, "redirect_uri": {redirect}, "code": {from.Query().Get("code")}, "code_verifier": {verifier},
	}
	for i := 0; i < len(more); i += 2 {
		values.Set(more[i], more[i+1])
	}
	return values
}

// TestSignIn: a client of a person gets tokens that are valid for the endpoint only, until they are revoked.
func TestSignIn(t *testing.T) {
	const redirect = "http://127.0.0.1:33418/callback"
	resource := acme.site() + "/api/mcp"
	back := acme.authorize(t, authorization(redirect, "scope", "mcp-agent-access offline_access", "resource", resource))
	if back.Query().Get("state") != "s1" || back.Query().Get("iss") != acme.site() || back.Host != "127.0.0.1:33418" {
		t.Fatalf("redirected to %s", back)
	}
	got := acme.tokens(t, 200, redemption(redirect, back, "resource", resource))
	if got["scope"] != "mcp-agent-access" || got["token_type"] != "Bearer" {
		t.Errorf("the scope is %s", got["scope"])
	}
	refreshed := acme.tokens(t, 200, url.Values{"grant_type": {"refresh_token"}, "client_id": {"cube-mcp-client"}, "refresh_token": {got["refresh_token"]}})
	for _, token := range []string{got["access_token"], refreshed["access_token"]} {
		if text, failed := call(t, acme.connect(t, token), "listDeployments", nil); failed || !strings.Contains(text, `"sales"`) {
			t.Errorf("the result is %s", text)
		}
		// For everything else the token is not valid.
		for _, path := range []string{"/api/v1/users/me", "/api/v1/deployments/", "/api/scim/v2/Users", "/api/mcpx"} {
			if other := send(t, program(t, false), http.MethodGet, acme.site()+path, "", headers(token)); other.status != 403 || !strings.Contains(other.body, "mcp-agent-access") {
				t.Errorf("%s: %d %s", path, other.status, other.body)
			}
		}
		if other := send(t, program(t, false), http.MethodPost, globex.site()+"/api/mcp", initialize, headers(token)); other.status != 401 {
			t.Errorf("another account: %d %s", other.status, other.body)
		}
	}
	revoked := send(t, program(t, false), http.MethodPost, acme.site()+"/auth/oauth2/revoke", url.Values{"client_id": {"cube-mcp-client"}, "token": {refreshed["refresh_token"]}}.Encode(), map[string]string{"Content-Type": "application/x-www-form-urlencoded"})
	if revoked.status != 200 {
		t.Fatal(revoked)
	}
	if after := send(t, program(t, false), http.MethodPost, resource, initialize, headers(refreshed["access_token"])); after.status != 401 || strings.Contains(after.body, refreshed["access_token"]) {
		t.Errorf("after revocation: %d %s", after.status, after.body)
	}
}

// TestRedirects: clients in the web are redirected to the addresses that the account lists, and nowhere else.
func TestRedirects(t *testing.T) {
	const registered = "https://assistant.example.net/callback"
	back := acme.authorize(t, authorization(registered))
	if !strings.HasPrefix(back.String(), registered+"?") {
		t.Fatalf("redirected to %s", back)
	}
	if got := acme.tokens(t, 200, redemption(registered, back)); got["scope"] != "mcp-agent-access" {
		t.Errorf("the scope is %s", got["scope"])
	}
	browser := program(t, true)
	for of, redirect := range map[*account]string{globex: registered, acme: registered + "/x", initech: "https://assistant.example.net/callback"} {
		if got := send(t, browser, http.MethodGet, of.site()+"/auth/oauth2/authorize?"+authorization(redirect).Encode(), "", nil); got.status != 400 || !strings.Contains(got.body, "redirect URI") {
			t.Errorf("%s %s: %d %s", of.name, redirect, got.status, got.body)
		}
	}
}

// TestScopes: a client gets its own scope, for resources of the account.
func TestScopes(t *testing.T) {
	const redirect = "http://127.0.0.1:1/callback"
	for name, test := range map[string]struct {
		values url.Values
		want   string
	}{
		"more than its scope":          {authorization(redirect, "scope", "all"), "invalid_scope"},
		"the scope of MCP for others":  {authorization(redirect, "client_id", "cube-cli", "scope", "mcp-agent-access"), "invalid_scope"},
		"a resource of somebody else":  {authorization(redirect, "resource", "https://evil.example.com/api/mcp"), "invalid_target"},
		"a resource of another tenant": {authorization(redirect, "resource", globex.site()+"/api/mcp"), "invalid_target"},
	} {
		t.Run(name, func(t *testing.T) {
			browser := program(t, true)
			browser.CheckRedirect = func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }
			got := send(t, browser, http.MethodGet, acme.site()+"/auth/oauth2/authorize?"+test.values.Encode(), "", nil)
			back, err := url.Parse(got.header.Get("Location"))
			if err != nil || back.Query().Get("error") != test.want || back.Host != "127.0.0.1:1" {
				t.Errorf("%d %s %s", got.status, back, got.body)
			}
		})
	}
	device := send(t, program(t, false), http.MethodPost, acme.site()+"/auth/device/code", "client_id=cube-mcp-client", map[string]string{"Content-Type": "application/x-www-form-urlencoded"})
	if device.status != 400 || !strings.Contains(device.body, "unauthorized_client") {
		t.Errorf("%d %s", device.status, device.body)
	}
}
