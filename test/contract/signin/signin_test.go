// Package signin_test tests sign-in as the command line and a browser see it. `quoin apiserver` runs in the test process with the
// permissions of its roles, with a real kube-apiserver and an OpenID Connect provider.
package signin_test

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/cookiejar"
	"net/url"
	"regexp"
	"strings"
	"testing"

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

const site = "https://acme.example.com"

var (
	cluster *clustertest.Cluster
	k8s     client.Client
	idp     *oidcprovider.Provider
	// transport leads names to the server.
	transport *http.Transport
)

func TestMain(m *testing.M) { clustertest.Main(m, run) }

func run(ctx context.Context, c *clustertest.Cluster, m *testing.M) (int, error) {
	cluster, k8s, idp = c, c.Client, oidcprovider.New()
	defer idp.Close()
	spec := v1alpha1.AccountSpec{
		Host: "acme.example.com", Plan: v1alpha1.PlanEnterprise, AuditLog: &v1alpha1.AuditLog{Enabled: ptr.To(true)},
		OIDCIssuers: []v1alpha1.OIDCIssuer{{
			URL: idp.URL, Audiences: []string{"api"}, ClientID: idp.ClientID, ClientSecretRef: &v1alpha1.SecretKeyReference{Name: "login", Key: "secret"},
		}},
	}
	err := c.Account(ctx, "acme", spec,
		&corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: "acme", Name: "login"}, Data: map[string][]byte{"secret": []byte(idp.ClientSecret)}},
		&v1alpha1.ScimUser{ObjectMeta: metav1.ObjectMeta{Namespace: "acme", Name: "ada"}, Spec: v1alpha1.ScimUserSpec{UserName: "ada@example.com", Admin: ptr.To(true)}},
	)
	if err != nil {
		return 0, err
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

// program is the command line, or a browser if it has cookies.
type program struct {
	*testing.T
	client *http.Client
	token  string
}

func newProgram(t *testing.T, jar http.CookieJar) *program {
	return &program{T: t, client: &http.Client{Transport: transport, Jar: jar, Timeout: apiclient.Timeout}}
}

// response is a response; fields are those of its JSON body.
type response struct {
	status int
	header http.Header
	text   string
	fields map[string]any
}

func (r response) field(name string) string { text, _ := r.fields[name].(string); return text }

func (p *program) send(method, target string, form url.Values) response {
	p.Helper()
	var body io.Reader
	if form != nil {
		body = strings.NewReader(form.Encode())
	}
	if strings.HasPrefix(target, "/") {
		target = site + target
	}
	r, err := http.NewRequestWithContext(p.Context(), method, target, body)
	if err != nil {
		p.Fatal(err)
	}
	if form != nil {
		r.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	}
	if p.token != "" {
		r.Header.Set("Authorization", "Bearer "+p.token)
	}
	got, err := p.client.Do(r)
	if err != nil {
		p.Fatal(err)
	}
	defer func() { _ = got.Body.Close() }()
	text, err := io.ReadAll(got.Body)
	if err != nil {
		p.Fatal(err)
	}
	out := response{status: got.StatusCode, header: got.Header, text: string(text)}
	_ = json.Unmarshal(text, &out.fields) // pages are not JSON
	return out
}

func (p *program) want(status int, method, target string, form url.Values, texts ...string) response {
	p.Helper()
	got := p.send(method, target, form)
	if got.status != status {
		p.Fatalf("%s %s: %d %s", method, target, got.status, got.text)
	}
	for _, text := range texts {
		if !strings.Contains(got.text, text) {
			p.Errorf("%s %s: %q is not in %s", method, target, text, got.text)
		}
	}
	return got
}

var hidden = regexp.MustCompile(`<input type="hidden" name="(\w+)" value="([^"]*)">`)

// TestLogin replays `cube login`, `cube whoami` and a refresh, while a person uses a browser, until the person is deactivated.
func TestLogin(t *testing.T) {
	cli := newProgram(t, nil)
	device := cli.want(200, http.MethodPost, "/auth/device/code", url.Values{"client_id": {"cube-cli"}})
	if expires, ok := device.fields["expires_in"].(float64); !ok || expires != 900 || device.fields["interval"] != 5.0 || !strings.HasPrefix(device.field("verification_uri_complete"), site+"/auth/device?user_code=") {
		t.Errorf("the answer is %s", device.text)
	}
	poll := url.Values{"grant_type": {"urn:ietf:params:oauth:grant-type:device_code"}, "device_code": {device.field("device_code")}, "client_id": {"cube-cli"}}
	if pending := cli.want(400, http.MethodPost, "/auth/device/token", poll); pending.field("error") != "authorization_pending" {
		t.Error(pending.text)
	}
	jar, err := cookiejar.New(nil)
	if err != nil {
		t.Fatal(err)
	}
	browser := newProgram(t, jar)
	page := browser.want(200, http.MethodGet, device.field("verification_uri_complete"), nil, "Connect this device?", device.field("user_code"))
	form := url.Values{"decision": {"allow"}}
	for _, match := range hidden.FindAllStringSubmatch(page.text, -1) {
		form.Set(match[1], match[2])
	}
	browser.want(200, http.MethodPost, "/auth/device", form, "The device is connected")
	tokens := cli.want(200, http.MethodPost, "/auth/device/token", poll)
	cli.token = tokens.field("access_token")
	me := cli.want(200, http.MethodGet, "/api/v1/users/me", nil)
	if me.field("email") != "ada@example.com" || me.fields["isAdmin"] != true {
		t.Errorf("users/me is %s", me.text)
	}
	cli.want(200, http.MethodGet, "/api/v1/deployments/", nil)
	refreshed := newProgram(t, nil).want(200, http.MethodPost, "/auth/oauth2/refresh", url.Values{"grant_type": {"refresh_token"}, "refresh_token": {tokens.field("refresh_token")}, "client_id": {"cube-cli"}})
	cli.token = refreshed.field("access_token")
	events := cli.want(200, http.MethodGet, "/api/v1/audit-logs/export", nil, "Logged in,ada@example.com", "Authorized client,ada@example.com")
	for _, secret := range []string{tokens.field("access_token"), tokens.field("refresh_token"), device.field("device_code"), device.field("user_code"), idp.ClientSecret} {
		if strings.Contains(events.text, secret) {
			t.Errorf("the audit log has a secret")
		}
	}
	ada := &v1alpha1.ScimUser{}
	if err := k8s.Get(t.Context(), client.ObjectKey{Namespace: "acme", Name: "ada"}, ada); err != nil {
		t.Fatal(err)
	}
	ada.Spec.Active = ptr.To(false)
	if err := k8s.Update(t.Context(), ada); err != nil {
		t.Fatal(err)
	}
	apiclient.Soon(t, func() error {
		if got := cli.send(http.MethodGet, "/api/v1/users/me", nil); got.status != http.StatusUnauthorized {
			return fmt.Errorf("%d %s", got.status, got.text)
		}
		return nil
	})
	browser.want(400, http.MethodGet, "/auth/sessions", nil, "You cannot sign in: the user is not active")
}

// TestMetadata: clients find the authorization server without a credential.
func TestMetadata(t *testing.T) {
	p := newProgram(t, nil)
	server := p.want(200, http.MethodGet, "/.well-known/oauth-authorization-server", nil)
	for field, want := range map[string]string{
		"issuer": site, "authorization_endpoint": site + "/auth/oauth2/authorize", "token_endpoint": site + "/auth/oauth2/token",
		"revocation_endpoint": site + "/auth/oauth2/revoke", "device_authorization_endpoint": site + "/auth/device/code",
	} {
		if server.fields[field] != want {
			t.Errorf("%s is %v", field, server.fields[field])
		}
	}
	challenge := p.want(401, http.MethodGet, "/api/v1/users/me", nil).header.Get("WWW-Authenticate")
	address := regexp.MustCompile(`^Bearer realm="quoin", resource_metadata="([^"]+)"$`).FindStringSubmatch(challenge)
	if address == nil {
		t.Fatalf("WWW-Authenticate is %q", challenge)
	}
	resource := p.want(200, http.MethodGet, address[1], nil)
	if fmt.Sprint(resource.fields["authorization_servers"]) != "["+site+"]" {
		t.Error(resource.text)
	}
}
