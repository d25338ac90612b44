// Package signin_test attacks sign-in: sessions, codes, tokens and devices of a person are stolen, replayed and guessed.
package signin_test

import (
	"context"
	"crypto/rand"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"html"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/http/cookiejar"
	"net/http/httptest"
	"net/url"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	clocktesting "k8s.io/utils/clock/testing"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	"github.com/quoin-dev/quoin/api/v1alpha1"
	"github.com/quoin-dev/quoin/apiserver/access"
	quoinauth "github.com/quoin-dev/quoin/apiserver/auth"
	"github.com/quoin-dev/quoin/apiserver/clientcredentials"
	"github.com/quoin-dev/quoin/apiserver/signin"
	"github.com/quoin-dev/quoin/internal/audit"
	"github.com/quoin-dev/quoin/internal/content/oauth"
	"github.com/quoin-dev/quoin/internal/content/usertoken"
	"github.com/quoin-dev/quoin/internal/keyring"
	"github.com/quoin-dev/quoin/internal/serving"
	"github.com/quoin-dev/quoin/internal/store"
	"github.com/quoin-dev/quoin/test/internal/oidcprovider"
)

const (
	site     = "https://demo.example.com"
	cli      = "cube-cli"
	redirect = "http://127.0.0.1:4000/callback"
	verifier = "a-verifier-of-the-client-a-verifier-of-the-client"
)

// world is an account whose people sign in at an OIDC provider, and the server that serves it.
type world struct {
	*testing.T
	idp     *oidcprovider.Provider
	account *v1alpha1.Account
	people  *people
	clock   *clocktesting.FakeClock
	events  *audit.Log
	db      *store.Store
	options signin.Options
	// k8s has the Secrets and API keys of the account, and reads is the number of objects that were read from it.
	k8s   client.Client
	reads atomic.Int64
	// keys and programs authenticate API keys and the access tokens of programs.
	keys     *quoinauth.Keys
	programs *clientcredentials.Tokens
	server   *httptest.Server
}

// people are the ScimUsers of the account.
type people struct{ users []*v1alpha1.ScimUser }

func (p *people) UsersNamed(_, userName string) []*v1alpha1.ScimUser {
	return slices.DeleteFunc(slices.Clone(p.users), func(u *v1alpha1.ScimUser) bool { return u.Spec.UserName != userName })
}

func (*people) UsersFreed(string) uint64 { return 0 }

func (*people) RolesOfGroups(context.Context, string, string) []v1alpha1.AccountRoleReference {
	return nil
}

// Of implements auth.Roles: there are no roles.
func (*people) Of(string) *access.Set { return &access.Set{} }

func (w *world) must(err error) {
	w.Helper()
	if err != nil {
		w.Fatal(err)
	}
}

func newWorld(t *testing.T) *world {
	t.Helper()
	w := &world{T: t, idp: oidcprovider.New(), clock: clocktesting.NewFakeClock(time.Now().Truncate(time.Microsecond))}
	t.Cleanup(w.idp.Close)
	w.account = &v1alpha1.Account{ObjectMeta: metav1.ObjectMeta{Name: "demo", UID: "a1"}, Spec: v1alpha1.AccountSpec{
		DisplayName: `Demo <"&'>`, Host: "demo.example.com", Namespace: "demo", Plan: v1alpha1.PlanEnterprise, AuditLog: &v1alpha1.AuditLog{Enabled: ptr.To(true)},
		OIDCIssuers: []v1alpha1.OIDCIssuer{{
			URL: w.idp.URL, Audiences: []string{"api"}, AdminGroups: []string{"admins"}, ClientID: w.idp.ClientID,
			ClientSecretRef: &v1alpha1.SecretKeyReference{Name: "idp", Key: "secret"},
		}},
	}}
	w.people = &people{[]*v1alpha1.ScimUser{{ObjectMeta: metav1.ObjectMeta{Name: "ada", Namespace: "demo"}, Spec: v1alpha1.ScimUserSpec{UserName: "ada@example.com", Active: ptr.To(true)}}}}
	scheme := runtime.NewScheme()
	w.must(errors.Join(v1alpha1.AddToScheme(scheme), corev1.AddToScheme(scheme)))
	live := fake.NewClientBuilder().WithScheme(scheme).WithObjects(&corev1.Secret{
		ObjectMeta: metav1.ObjectMeta{Namespace: "demo", Name: "idp"}, Data: map[string][]byte{"secret": []byte(w.idp.ClientSecret + "\n")},
	}).WithIndex(&v1alpha1.ApiKey{}, quoinauth.IndexTokenID, quoinauth.TokenIDs).WithIndex(&v1alpha1.ApiKey{}, "spec.token.id", quoinauth.TokenIDs).
		WithIndex(&v1alpha1.ApiKey{}, "status.token.id", quoinauth.TokenIDs).
		WithInterceptorFuncs(interceptor.Funcs{Get: func(ctx context.Context, c client.WithWatch, key client.ObjectKey, o client.Object, opts ...client.GetOption) error {
			w.reads.Add(1)
			return c.Get(ctx, key, o, opts...)
		}}).Build()
	w.k8s = live
	db, err := store.Open(t.Context(), "sqlite://"+filepath.Join(t.TempDir(), "quoin.db"), nil, audit.Owner, oauth.Owner, usertoken.Owner)
	w.must(err)
	w.db, w.events = db, audit.NewLog(db, audit.Options{})
	t.Cleanup(func() { w.events.Close(); _ = db.Close() })
	w.options = signin.Options{
		Store:   &oauth.Store{DB: db, Record: signin.RecordTx, Now: w.clock.Now},
		People:  quoinauth.NewOIDC(quoinauth.NewActiveUsers(w.people, w.people, live, w.clock), w.clock, w.idp.Client()),
		Secrets: live, Log: log{w.events}, Clock: w.clock,
	}
	w.keys = quoinauth.NewKeys(live, live, quoinauth.NewActiveUsers(w.people, w.people, live, w.clock), w.clock, nil)
	w.programs = clientcredentials.New(w.keys, &keyring.Keyring{Live: live, Now: w.clock.Now}, w.clock)
	w.options.Programs = w.programs
	w.serve()
	return w
}

// log is the audit log as the server has it.
type log struct{ *audit.Log }

// serve serves sign-in, and all other paths as a route of the REST API that answers with the name of the caller.
func (w *world) serve() {
	server := signin.New(w.options)
	credentials := quoinauth.Chain(signin.NewAuthenticator(w.options), w.programs, w.keys)
	handler := http.HandlerFunc(func(rw http.ResponseWriter, r *http.Request) {
		if signin.Handles(r.URL.Path) {
			server.ServeHTTP(rw, r, w.account)
			return
		}
		p, err := credentials.Authenticate(r.Context(), w.account, r)
		if err != nil {
			status := http.StatusServiceUnavailable
			switch {
			case errors.Is(err, quoinauth.ErrNoCredential):
				status = http.StatusUnauthorized
			case errors.Is(err, quoinauth.ErrTooMany):
				status = http.StatusTooManyRequests
			}
			serving.WriteError(rw, status, err.Error())
			return
		}
		_ = json.NewEncoder(rw).Encode(shown(p))
	})
	w.server = httptest.NewTLSServer(serving.Wrap(serving.CanonicalPath(handler), serving.WrapOptions{Log: slog.New(slog.DiscardHandler), BodyLimitOf: signin.BodyLimit}))
	w.Cleanup(w.server.Close)
}

// shown returns what a principal is and may do.
func shown(p *quoinauth.Principal) map[string]any {
	return map[string]any{
		"Kind": p.Kind, "Account": p.Account, "ID": p.ID, "Name": p.Name, "Email": p.Email, "User": p.User, "UserName": p.UserName,
		"Admin": p.May(v1alpha1.PermissionAdmin), "Read": p.May(v1alpha1.PermissionSchemaRead), "Update": p.May(v1alpha1.PermissionSchemaUpdate),
	}
}

// browser is a browser of a person, which does not follow redirects by itself.
type browser struct {
	*world
	client *http.Client
	header http.Header
}

func (w *world) browser() *browser {
	w.Helper()
	jar, err := cookiejar.New(nil)
	w.must(err)
	transport := &http.Transport{TLSClientConfig: w.idp.Client().Transport.(*http.Transport).TLSClientConfig.Clone()}
	transport.TLSClientConfig.InsecureSkipVerify = true
	transport.DialContext = func(ctx context.Context, network, address string) (net.Conn, error) {
		if !strings.HasPrefix(address, "127.0.0.1:") {
			address = w.server.Listener.Addr().String()
		}
		return (&net.Dialer{}).DialContext(ctx, network, address)
	}
	w.Cleanup(transport.CloseIdleConnections)
	return &browser{w, &http.Client{Jar: jar, Transport: transport, CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}, http.Header{}}
}

// page is a response.
type page struct {
	status   int
	header   http.Header
	text     string
	location string
}

func (p page) String() string { return fmt.Sprintf("%d %s %s", p.status, p.location, p.text) }

// json returns a field of the JSON body.
func (p page) json(name string) string {
	var body map[string]any
	_ = json.Unmarshal([]byte(p.text), &body)
	value, ok := body[name]
	if !ok {
		return ""
	}
	return fmt.Sprint(value)
}

// send sends a request; a body has the media type of a form.
func (b *browser) send(method, target string, body io.Reader) page {
	b.Helper()
	if !strings.Contains(target, "://") {
		target = site + target
	}
	r, err := http.NewRequestWithContext(b.Context(), method, target, body)
	b.must(err)
	r.Header = b.header.Clone()
	if body != nil {
		r.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	}
	response, err := b.client.Do(r)
	b.must(err)
	defer func() { _ = response.Body.Close() }()
	text, err := io.ReadAll(response.Body)
	b.must(err)
	return page{response.StatusCode, response.Header, string(text), response.Header.Get("Location")}
}

func (b *browser) get(target string) page { b.Helper(); return b.send(http.MethodGet, target, nil) }
func (b *browser) post(target string, form url.Values) page {
	b.Helper()
	return b.send(http.MethodPost, target, strings.NewReader(form.Encode()))
}

// follow opens a page and follows redirects, except those to a client.
func (b *browser) follow(target string) page {
	b.Helper()
	for range 10 {
		p := b.get(target)
		if p.location == "" || strings.HasPrefix(p.location, redirect) {
			return p
		}
		base, err := url.Parse(target)
		b.must(err)
		if !base.IsAbs() {
			base, _ = url.Parse(site + target)
		}
		next, err := base.Parse(p.location)
		b.must(err)
		target = next.String()
	}
	b.Fatal("too many redirects")
	return page{}
}

// want checks the status of a page and that it has texts.
func (b *browser) want(p page, status int, texts ...string) page {
	b.Helper()
	if p.status != status {
		b.Fatalf("got %s, want %d", p, status)
	}
	for _, text := range texts {
		if !strings.Contains(p.text+p.location, text) {
			b.Errorf("%q is not in %s", text, p)
		}
	}
	return p
}

func (b *browser) signIn() *browser {
	b.Helper()
	b.want(b.follow("/auth/sessions"), 200, "Your sessions", "Signed in as Ada")
	return b
}

var inputs = regexp.MustCompile(`<input type="hidden" name="([^"]*)" value="([^"]*)">`)

// form returns the hidden fields of the first form of a page that has a field with a value.
func (p page) form(name, value string) url.Values {
	for part := range strings.SplitSeq(p.text, "<form") {
		fields := url.Values{}
		for _, match := range inputs.FindAllStringSubmatch(part, -1) {
			fields.Set(html.UnescapeString(match[1]), html.UnescapeString(match[2]))
		}
		if fields.Has("csrf") && (name == "" || fields.Get(name) == value) {
			return fields
		}
	}
	return nil
}

func with(form url.Values, pairs ...string) url.Values {
	out := url.Values{}
	for name, values := range form {
		out[name] = slices.Clone(values)
	}
	for i := 0; i < len(pairs); i += 2 {
		out.Set(pairs[i], pairs[i+1])
		if pairs[i+1] == "" {
			out.Del(pairs[i])
		}
	}
	return out
}

func challenge() string {
	sum := sha256.Sum256([]byte(verifier))
	return base64.RawURLEncoding.EncodeToString(sum[:])
}

// authorizeRequest returns the parameters of a valid authorization request, with changes.
func authorizeRequest(pairs ...string) url.Values {
	return with(url.Values{
		"response_type": {"code"}, "client_id": {cli}, "redirect_uri": {redirect}, "state": {"s t&ate"}, "code_challenge": {challenge()}, "code_challenge_method": {"S256"},
	}, pairs...)
}

func authorizeURL(pairs ...string) string {
	return "/auth/oauth2/authorize?" + authorizeRequest(pairs...).Encode()
}

// code returns an authorization code that the person of a browser allows.
func (b *browser) code() string {
	b.Helper()
	p := b.want(b.follow(authorizeURL()), 200, "Allow access?")
	p = b.want(b.post("/auth/oauth2/authorize", with(p.form("", ""), "decision", "allow")), 303)
	u, err := url.Parse(p.location)
	b.must(err)
	if u.Query().Get("state") != "s t&ate" || u.Query().Get("iss") != site || !strings.HasPrefix(p.location, redirect+"?") {
		b.Errorf("redirected to %s", p.location)
	}
	return u.Query().Get("code")
}

func exchangeForm(code string, pairs ...string) url.Values {
	return with(url.Values{"grant_type": {"authorization_code"}, "client_id": {cli}, "code": {code}, "redirect_uri": {redirect}, "code_verifier": {verifier}}, pairs...)
}

// tokens signs a person in and returns tokens of the command line.
func (b *browser) tokens() page {
	b.Helper()
	return b.want(b.post("/auth/oauth2/token", exchangeForm(b.code())), 200, "access_token", "refresh_token")
}

func (b *browser) refresh(token string) page {
	b.Helper()
	return b.post("/auth/oauth2/refresh", url.Values{"grant_type": {"refresh_token"}, "client_id": {cli}, "refresh_token": {token}})
}

// api calls the REST API with an access token.
func (w *world) api(token string) page {
	w.Helper()
	b := w.browser()
	b.header.Set("Authorization", "Bearer "+token)
	return b.get("/api/v1/users/me")
}

// rejected checks the error of the token endpoint.
func (b *browser) rejected(p page, code string) {
	b.Helper()
	if p.json("error") != code || p.status < 400 || p.status > 403 || p.json("error_description") == "" {
		b.Errorf("got %s, want %s", p, code)
	}
}

// recorded returns the names of the events with their outcome and actor.
func (w *world) recorded() []string {
	w.Helper()
	all, err := w.events.Query(w.Context(), audit.Filter{Account: "demo"})
	w.must(err)
	var names []string
	for e, err := range all {
		w.must(err)
		names = append(names, strings.TrimSpace(fmt.Sprintf("%s %s %s %s", e.Name, e.Outcome, e.Actor.Email, e.Reason)))
	}
	return names
}

func (w *world) wantEvent(want string) {
	w.Helper()
	if all := w.recorded(); !slices.ContainsFunc(all, func(e string) bool { return strings.HasPrefix(e, want) }) {
		w.Errorf("no event %q in %q", want, all)
	}
}

// rows returns the number of rows of a table.
func (w *world) rows(table string) (n int) {
	w.Helper()
	w.must(w.db.Reader().QueryRowContext(w.Context(), "SELECT COUNT(*) FROM "+table).Scan(&n))
	return n
}

// guess returns a text of the form of a secret.
func guess(prefix string) string { return prefix + rand.Text() + rand.Text() }
