package e2e_test

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"fmt"
	"net/http"
	"net/url"
	"os"
	"strings"
	"time"

	"github.com/chromedp/cdproto/network"
	"github.com/golang-jwt/jwt/v5"
	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	"github.com/quoin-dev/quoin/api/v1alpha1"
	"github.com/quoin-dev/quoin/internal/store/postgrestest"
	"github.com/quoin-dev/quoin/test/e2e/internal/commandline"
	"github.com/quoin-dev/quoin/test/e2e/internal/servers"
	"github.com/quoin-dev/quoin/test/internal/browser"
	"github.com/quoin-dev/quoin/test/internal/keycloak"
)

// The person who signs in, in the realm of the account.
const (
	personName     = "ada@example.com"
	personPassword = "correct horse battery staple"
	realmName      = "people"
	signInAccount  = "people"
	clientSecret   = "secret-of-the-client"
	// warehouseSecret is that of Quoin as the client of the integration, and accessTokens the lifetime of access tokens.
	warehouseSecret = "secret-of-the-warehouse"
	accessTokens    = time.Minute
)

// Journey j on simulated nodes; on a real node the servers are pods of the Helm chart.
var _ = Describe("Signing in", Ordered, func() {
	w := &signInWorld{}
	BeforeAll(func(ctx SpecContext) {
		onlySimulated("it is a part of the journey of the Helm chart")
		browser.Prepare(GinkgoTB())
		w.idp = startKeycloak()
		database := postgrestest.StartServer(GinkgoTB())
		w.tenant = newTenant(ctx, signInAccount, "v1.2.3")
		GinkgoTB().Setenv("SSL_CERT_DIR", w.idp.CAFolder) // for the processes of Quoin
		w.rest = startREST(ctx, w.tenant, "--database-url="+database.Database(GinkgoTB()))
		w.start(ctx)
	}, NodeTimeout(20*time.Minute)) // including the download of Keycloak

	w.signInAndOut()
})

// signIn adds the specs of journey j to a journey of the Helm chart.
func (i *installation) signIn() {
	w := &signInWorld{}
	BeforeAll(func(ctx SpecContext) {
		w.idp = i.idp
		w.tenant = i.newTenant(ctx, signInAccount, "v1.2.3")
		w.rest = servers.InstalledReplicas(ctx, world, w.tenant.name, w.tenant.host())
		servers.ForwardInstalled(ctx, world)
		w.start(ctx)
	}, NodeTimeout(5*time.Minute))

	w.signInAndOut()
}

// signInAndOut adds the specs of journey j: a person signs in at Keycloak with a browser, for the command line. See
// docs/journeys/j-sign-in.md.
func (w *signInWorld) signInAndOut() {
	w.connect()
	w.authorize()
	w.endAccess()
}

// connect adds the specs of the sessions of a browser and a command line.
func (w *signInWorld) connect() {
	It("connects a device after the person has signed in at Keycloak", func(ctx SpecContext) {
		device := w.cli.Do(ctx, commandline.Start, http.StatusOK, map[string]string{"client_id": "cube-cli"})
		code, page := text(device, "device_code"), text(device, "verification_uri_complete")
		w.deviceCode = code
		pending := w.cli.Do(ctx, commandline.Poll, http.StatusBadRequest, map[string]string{"device_code": code, "client_id": "cube-cli"})
		Expect(pending).To(HaveKeyWithValue("error", "authorization_pending"))

		w.person.Open(page)
		w.signIn()
		w.shows("Connect this device?", text(device, "user_code"), "Command line (cube)", "Signed in as Ada Lovelace")
		w.person.Click("button[value=allow]")
		w.shows("The device is connected")
	}, SpecTimeout(3*timeout))

	It("gives the command line tokens of the person, which it refreshes", func(ctx SpecContext) {
		form := map[string]string{"device_code": w.deviceCode, "client_id": "cube-cli"}
		var tokens map[string]any
		Eventually(func() error { // the interval between two polls is five seconds
			return InterceptGomegaFailure(func() { tokens = w.cli.Do(ctx, commandline.Poll, http.StatusOK, form) })
		}).WithContext(ctx).WithPolling(10 * time.Second).Should(Succeed())
		w.cli.Token, w.refreshToken = text(tokens, "access_token"), text(tokens, "refresh_token")
		Expect(w.cli.Do(ctx, commandline.Check, http.StatusOK, nil)).To(HaveKeyWithValue("email", personName))
		Expect(w.cli.Do(ctx, commandline.WhoAmI, http.StatusOK, nil)).To(HaveKeyWithValue("isAdmin", true), "by the group platform of Keycloak")

		first := w.cli.Token
		w.refresh(ctx, http.StatusOK)
		Expect(w.cli.Token).NotTo(Equal(first))
		Expect(w.cli.Do(ctx, commandline.Check, http.StatusOK, nil)).To(HaveKeyWithValue("email", personName))
	}, SpecTimeout(3*timeout))

	It("shows the person the session and the command line, and ends the session", func(SpecContext) {
		w.person.Open(w.rest.URL("/auth/sessions"))
		w.shows("Your sessions", "(this browser)", "Command line (cube)")
		Expect(w.sessions()).To(HaveExactElements(And(HaveField("Secure", true), HaveField("HTTPOnly", true), HaveField("Path", "/"))))
		w.person.Click(`form[action="/auth/logout"] button`)
		w.shows("You are signed out")
		Expect(w.sessions()).To(BeEmpty())
		w.person.Open(w.rest.URL("/auth/device"))
		w.shows("Connect a device", "Signed in as Ada Lovelace") // Keycloak still has its own session
		w.person.Fill("#user_code", "AAAA-AAAA")
		w.person.Click("form button")
		w.shows("The code is unknown or has expired")
		w.person.Open(w.rest.URL("/auth/oauth2/authorize?" + url.Values{
			"response_type": {"code"}, "client_id": {"cube-cli"}, "redirect_uri": {"http://127.0.0.1:8080/callback"}, "state": {"s"},
			"code_challenge": {strings.Repeat("c", 43)}, "code_challenge_method": {"S256"},
		}.Encode()))
		w.shows("Allow access?", "http://127.0.0.1:8080.")
	}, SpecTimeout(3*timeout))
}

// authorize adds the spec of an OAuth integration.
func (w *signInWorld) authorize() {
	It("authorizes Keycloak as the provider of an integration, and gives its token to a deployment until it is revoked", func(ctx SpecContext) {
		w.provide(ctx)
		w.authorizeIntegration(ctx)
		first := w.credential(ctx)
		Expect(w.isActive(ctx, first)).To(BeTrue(), "the access token in the data token is valid at Keycloak")
		Eventually(w.credential).WithContext(ctx).WithPolling(time.Second).ShouldNot(Equal(first), "it is refreshed before it expires")
		second := w.credential(ctx)
		Expect(w.isActive(ctx, second)).To(BeTrue())

		Expect(w.asPerson(ctx, http.MethodDelete, w.tokenPath, nil)).To(servers.HaveStatus(http.StatusOK))
		Eventually(w.isActive).WithContext(ctx).WithArguments(second).Should(BeFalse(), "it is revoked at Keycloak")
		w.authorizeIntegration(ctx)
		w.lastCredential = w.credential(ctx)
		Expect(w.isActive(ctx, w.lastCredential)).To(BeTrue())
	}, SpecTimeout(4*timeout))
}

// endAccess adds the spec of the end of a person's access.
func (w *signInWorld) endAccess() {
	It("ends all access at once when SCIM deactivates the person", func(ctx SpecContext) {
		Expect(w.cli.Do(ctx, commandline.Check, http.StatusOK, nil)).To(HaveKeyWithValue("email", personName), "the session's end has no effect on it")
		deactivate := scimPatch(map[string]any{"op": "replace", "value": map[string]any{"active": false}})
		Expect(w.rest.Ask(ctx, 0, http.MethodPatch, "/api/scim/v2/Users/"+w.userID, deactivate)).To(servers.HaveStatus(http.StatusOK))
		w.cli.Do(ctx, commandline.Check, http.StatusUnauthorized, nil)
		w.refresh(ctx, http.StatusBadRequest)
		Eventually(w.isActive).WithContext(ctx).WithArguments(w.lastCredential).Should(BeFalse(), "the token of the integration is revoked at Keycloak")
		w.person.Open(w.rest.URL("/auth/sessions"))
		w.shows("You are not signed in", "the user is not active")
		audited := w.rest.Ask(ctx, 0, http.MethodGet, "/api/v1/audit-logs/export", nil)
		Expect(audited.Text).To(And(ContainSubstring("Logged in,"+personName), ContainSubstring("Authorized client,"+personName), ContainSubstring("Failed to log in,"+personName)))
		for _, secret := range []string{w.cli.Token, w.refreshToken, w.deviceCode, clientSecret, warehouseSecret, w.lastCredential, personPassword} {
			Expect(audited.Text).NotTo(ContainSubstring(secret))
			for _, replica := range w.rest.Replicas {
				Expect(replica.Output()).NotTo(ContainSubstring(secret))
			}
		}
	}, SpecTimeout(3*timeout))
}

// signInWorld is an account whose people sign in at Keycloak.
type signInWorld struct {
	tenant *tenant
	rest   *servers.REST
	idp    *keycloak.Server
	cli    *commandline.Client
	person *browser.Browser
	// userID is the id of the person over SCIM.
	userID string
	// deviceCode and refreshToken are those of the command line.
	deviceCode, refreshToken string
	// tokenPath is that of the person's token for the integration, and dataTokenPath creates a data token for the deployment
	// that names it.
	tokenPath, dataTokenPath string
	// lastCredential is the access token for the integration.
	lastCredential string
}

// startKeycloak starts Keycloak with the realm of the account.
func startKeycloak() *keycloak.Server {
	GinkgoHelper()
	host := (&tenant{name: signInAccount}).host()
	return keycloak.StartAt(GinkgoTB(), world.Address(), keycloak.Realm{
		Name: realmName, Groups: []string{"platform"},
		Users: []keycloak.User{{Email: personName, Password: personPassword, FirstName: "Ada", LastName: "Lovelace", Groups: []string{"platform"}}},
		Clients: []keycloak.Client{
			{ID: "quoin", Secret: clientSecret, RedirectURIs: []string{"https://" + host + "/auth/callback/*"}},
			{ID: "warehouse", Secret: warehouseSecret, RedirectURIs: []string{"https://" + host + "/auth/integrations/callback"}},
		},
		AccessTokens: accessTokens,
	})
}

// start configures the account, and starts a browser and the command line. Scripts of pages do not run in the browser.
func (w *signInWorld) start(ctx context.Context) {
	GinkgoHelper()
	Expect(w.idp.Await(ctx, realmName)).To(Succeed())
	w.configure(ctx)
	address := fmt.Sprintf("127.0.0.1:%d", world.RESTPort())
	w.cli = commandline.New(w.rest.Host, address, w.rest.CAFile)
	w.person = browser.Start(GinkgoTB(), w.roots(), map[string][]string{
		w.rest.Host: append([]string{address}, w.rest.Addresses()...), w.idp.Address: {w.idp.Address},
	})
}

// configure makes Keycloak the issuer of the account, and provisions the person.
func (w *signInWorld) configure(ctx context.Context) {
	GinkgoHelper()
	kubectl(ctx, "create", "secret", "generic", "quoin-sign-in", "-n", w.tenant.name, "--from-literal=client-secret="+clientSecret)
	kubectl(ctx, "patch", "acct/"+w.tenant.name, "--type=merge", "-p", fmt.Sprintf(`{"spec":{"plan":"Enterprise","auditLog":{"enabled":true},"oidcIssuers":[{
		"url":%q,"audiences":["quoin"],"adminGroups":["platform"],"clientID":"quoin","clientSecretRef":{"name":"quoin-sign-in","key":"client-secret"}}]}}`, w.idp.Issuer(realmName)))
	created := w.rest.Ask(ctx, 0, http.MethodPost, "/api/scim/v2/Users", map[string]any{"userName": personName})
	Expect(created).To(servers.HaveStatus(http.StatusCreated))
	w.userID = text(created.Body, "id")
	Eventually(func() servers.Reply { // until the server has the account with its issuer
		return w.rest.Ask(ctx, 0, http.MethodGet, "/.well-known/oauth-authorization-server", nil)
	}).WithContext(ctx).Should(servers.HaveStatus(http.StatusOK))
}

// roots are those of Quoin and of Keycloak.
func (w *signInWorld) roots() *x509.CertPool {
	GinkgoHelper()
	roots := w.idp.Roots()
	ca, err := os.ReadFile(w.rest.CAFile)
	Expect(err).NotTo(HaveOccurred())
	Expect(roots.AppendCertsFromPEM(ca)).To(BeTrue())
	return roots
}

// signIn fills in the form of Keycloak.
func (w *signInWorld) signIn() {
	GinkgoHelper()
	w.person.Await(w.idp.Issuer(realmName))
	w.person.Fill("#username", personName)
	w.person.Fill("#password", personPassword)
	w.person.Click("#kc-login")
}

// shows waits until the browser shows a page of Quoin with a title, and checks that people can use the page, its policy and
// its texts.
func (w *signInWorld) shows(title string, texts ...string) {
	GinkgoHelper()
	w.person.Await(title)
	for _, want := range texts {
		Expect(w.person.Text()).To(ContainSubstring(want))
	}
	Expect(w.person.Text()).To(HavePrefix("https://" + w.rest.Host + "/auth/"))
	Expect(w.person.Problems()).To(BeEmpty(), "the page %q", title)
	Expect(w.person.Header(w.rest.Host, "Content-Security-Policy")).To(And(
		HavePrefix("default-src 'none'; style-src 'self'; form-action "), ContainSubstring("; frame-ancestors 'none'")))
}

// sessions returns the session cookies of the browser.
func (w *signInWorld) sessions() (all []*network.Cookie) {
	GinkgoHelper()
	for _, c := range w.person.Cookies(w.rest.URL("/")) {
		if c.Name == "__Host-quoin-session" {
			all = append(all, c)
		}
	}
	return all
}

// refresh refreshes the tokens of the command line.
func (w *signInWorld) refresh(ctx context.Context, status int) {
	GinkgoHelper()
	answer := w.cli.Do(ctx, commandline.Refresh, status, map[string]string{"refresh_token": w.refreshToken, "client_id": "cube-cli"})
	if status == http.StatusOK {
		w.cli.Token, w.refreshToken = text(answer, "access_token"), text(answer, "refresh_token")
	}
}

// text returns a field that is a text.
func text(fields map[string]any, name string) string {
	GinkgoHelper()
	value, _ := fields[name].(string)
	Expect(value).NotTo(BeEmpty(), name)
	return value
}

// integrationManifest is an integration of a client of Keycloak, by the URL of the realm's endpoints.
const integrationManifest = `
apiVersion: platform.quoin.dev/v1alpha1
kind: OAuthIntegration
metadata: {name: warehouse, namespace: %[1]s}
spec:
  type: warehouse
  authorizationURL: %[2]s/auth
  tokenURL: %[2]s/token
  revocationURL: %[2]s/revoke
  clientID: warehouse
  clientSecretRef: {name: warehouse-client, key: secret}
`

// endpoints returns the URL of the endpoints of the realm.
func (w *signInWorld) endpoints() string {
	return w.idp.Issuer(realmName) + "/protocol/openid-connect"
}

// provide makes Keycloak the provider of an integration, and installs a deployment that names it.
func (w *signInWorld) provide(ctx context.Context) {
	GinkgoHelper()
	kubectl(ctx, "create", "secret", "generic", "warehouse-client", "-n", w.tenant.name, "--from-literal=secret="+warehouseSecret)
	apply(ctx, fmt.Sprintf(integrationManifest, w.tenant.name, w.endpoints()))
	kubectl(ctx, "wait", "oauthint/warehouse", "-n", w.tenant.name, "--for=condition=Ready", "--timeout=60s")
	w.tenant.install(ctx, "sales", func(s *v1alpha1.DeploymentSpec) {
		s.OAuthIntegrations = []v1alpha1.LocalReference{{Name: "warehouse"}}
	})
	w.tokenPath = "/api/v1/user-oauth-tokens/" + kubectl(ctx, "get", "oauthint/warehouse", "-n", w.tenant.name, "-o", "jsonpath={.status.id}")
	w.dataTokenPath = w.tenant.path(ctx, "sales") + "/token"
}

// asPerson sends a request as the command line of the person.
func (w *signInWorld) asPerson(ctx context.Context, method, path string, body any) servers.Reply {
	GinkgoHelper()
	person := *w.rest
	person.Token = w.cli.Token
	return person.Ask(ctx, 0, method, path, body)
}

// authorizeIntegration begins an authorization with the command line, and ends it in the browser, in which the person has signed
// in at Keycloak and at Quoin.
func (w *signInWorld) authorizeIntegration(ctx context.Context) {
	GinkgoHelper()
	var begun servers.Reply
	Eventually(func() servers.Reply { // until the server has the integration
		begun = w.asPerson(ctx, http.MethodPost, w.tokenPath+"/initiate", nil)
		return begun
	}).WithContext(ctx).WithPolling(5 * time.Second).Should(servers.HaveStatus(http.StatusOK))
	address := text(begun.Body, "authorizationUrl")
	Expect(address).To(And(HavePrefix(w.endpoints()+"/auth?"), ContainSubstring("code_challenge_method=S256"), Not(ContainSubstring(warehouseSecret))))
	w.person.Open(address)
	w.shows("The integration is authorized", "You have authorized warehouse")
	Expect(w.asPerson(ctx, http.MethodGet, w.tokenPath, nil).Body).To(HaveKeyWithValue("status", "active"))
}

// credential returns the access token for the integration in a data token that the person creates; empty if there is none.
func (w *signInWorld) credential(ctx context.Context) string {
	GinkgoHelper()
	created := w.asPerson(ctx, http.MethodPost, w.dataTokenPath, nil)
	Expect(created).To(servers.HaveStatus(http.StatusOK), created.String())
	var claims struct {
		jwt.RegisteredClaims

		CubeCloud struct {
			UserCredentials map[string]struct{ AccessToken, Status string }
		}
	}
	_, _, err := jwt.NewParser().ParseUnverified(text(created.Body, "cubeApiToken"), &claims)
	Expect(err).NotTo(HaveOccurred())
	given := claims.CubeCloud.UserCredentials["warehouse"]
	Expect(given.Status).To(Equal("active"))
	Expect(claims.ExpiresAt.Time).To(BeTemporally("<=", time.Now().Add(accessTokens)), "the data token expires with the access token")
	return given.AccessToken
}

// isActive asks Keycloak whether an access token is valid (RFC 7662).
func (w *signInWorld) isActive(ctx context.Context, token string) bool {
	GinkgoHelper()
	Expect(token).NotTo(BeEmpty())
	r, err := http.NewRequestWithContext(ctx, http.MethodPost, w.endpoints()+"/token/introspect", strings.NewReader(url.Values{"token": {token}}.Encode()))
	Expect(err).NotTo(HaveOccurred())
	r.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	r.SetBasicAuth("warehouse", warehouseSecret)
	transport := &http.Transport{TLSClientConfig: &tls.Config{RootCAs: w.idp.Roots(), MinVersion: tls.VersionTLS12}}
	defer transport.CloseIdleConnections()
	response, err := (&http.Client{Transport: transport, Timeout: time.Minute}).Do(r)
	Expect(err).NotTo(HaveOccurred())
	defer response.Body.Close()
	var shown struct {
		Active   bool
		Username string
	}
	Expect(json.NewDecoder(response.Body).Decode(&shown)).To(Succeed())
	Expect(response.StatusCode).To(Equal(http.StatusOK))
	if shown.Active {
		Expect(shown.Username).To(Equal(personName))
	}
	return shown.Active
}
