package signin

import (
	"context"
	"encoding/base64"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"net/url"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	clocktesting "k8s.io/utils/clock/testing"

	"github.com/quoin-dev/quoin/api/v1alpha1"
	"github.com/quoin-dev/quoin/apiserver/auth"
	"github.com/quoin-dev/quoin/internal/content"
	"github.com/quoin-dev/quoin/internal/content/oauth"
	"github.com/quoin-dev/quoin/internal/oauthintegration"
	"github.com/quoin-dev/quoin/internal/serving"
	"github.com/quoin-dev/quoin/internal/store"
)

// everybody stands for the identity providers and for the providers of integrations: it authenticates every request as the same
// user, and its token endpoint rejects all authorization codes.
type everybody struct{}

func (e everybody) Endpoints(context.Context, string) (auth.Endpoints, *http.Client, error) {
	return auth.Endpoints{Authorization: fuzzIssuer + "/authorize", Token: fuzzIssuer + "/token"}, &http.Client{Transport: e}, nil
}

func (everybody) RoundTrip(r *http.Request) (*http.Response, error) {
	return &http.Response{
		StatusCode: http.StatusBadRequest, Header: http.Header{"Content-Type": {"application/json"}}, Request: r,
		Body: io.NopCloser(strings.NewReader(`{"error":"invalid_grant"}`)),
	}, r.Body.Close()
}

func (everybody) Complete(context.Context, *v1alpha1.Account, string, string, url.Values) (string, error) {
	return "", content.Errorf(content.Invalid, "The provider has rejected the authorization.")
}

func (everybody) IDToken(context.Context, *v1alpha1.Account, *v1alpha1.OIDCIssuer, string, string) (auth.Claims, error) {
	return nil, auth.Invalid("no token")
}

func (everybody) Person(_ context.Context, account *v1alpha1.Account, _ string, _ auth.Claims) (*auth.Principal, error) {
	return &auth.Principal{Kind: auth.KindUser, Account: account.Name, ID: "u1", Name: "Ada", User: "ada"}, nil
}

const (
	fuzzSite   = "https://demo.example.com"
	fuzzIssuer = "https://login.example.com"
)

// fuzzed is a server with a session of a person.
type fuzzed struct {
	http.Handler
	clock   *clocktesting.FakeClock
	store   *oauth.Store
	session string
	token   string
}

func newFuzzed(f *testing.F) *fuzzed {
	f.Helper()
	db, err := store.Open(f.Context(), "sqlite://"+filepath.Join(f.TempDir(), "quoin.db"), nil, oauth.Owner)
	if err != nil {
		f.Fatal(err)
	}
	f.Cleanup(func() { _ = db.Close() })
	clk := clocktesting.NewFakeClock(metav1.Now().Time)
	out := &fuzzed{clock: clk, store: &oauth.Store{DB: db, Record: RecordTx}}
	server := New(Options{Store: out.store, People: everybody{}, Integrations: everybody{}, Clock: clk})
	account := &v1alpha1.Account{ObjectMeta: metav1.ObjectMeta{Name: "demo", UID: "a1"}, Spec: v1alpha1.AccountSpec{
		Host: "demo.example.com", OIDCIssuers: []v1alpha1.OIDCIssuer{{URL: fuzzIssuer, ClientID: "quoin"}},
	}}
	_, out.session, err = out.store.StartSession(f.Context(), store.Account{UID: "a1", Name: "demo"}, oauth.Session{Person: oauth.Person{Subject: "u1"}}, "")
	if err != nil {
		f.Fatal(err)
	}
	out.token = (&browser{secret: out.session}).token()
	out.Handler = serving.CanonicalPath(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { server.ServeHTTP(w, r, account) }))
	return out
}

// send sends a request. There are no limits: a minute passes between two requests.
func (f *fuzzed) send(t *testing.T, method, target, body string, cookies ...*http.Cookie) *httptest.ResponseRecorder {
	t.Helper()
	f.clock.Step(60e9)
	r := httptest.NewRequestWithContext(t.Context(), method, fuzzSite+target, strings.NewReader(body))
	for _, cookie := range append(cookies, &http.Cookie{Name: sessionCookie, Value: f.session}) {
		r.AddCookie(cookie)
	}
	r.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	w := httptest.NewRecorder()
	f.ServeHTTP(w, r)
	if w.Code >= http.StatusInternalServerError {
		t.Errorf("%s %s %q: %d %s", method, target, body, w.Code, w.Body)
	}
	return w
}

// FuzzToken sends forms to the endpoints of clients: the response is JSON, and none has tokens.
func FuzzToken(f *testing.F) {
	server := newFuzzed(f)
	for _, seed := range []string{
		"", "client_id=cube-cli&grant_type=refresh_token&refresh_token=qrt_x", "client_id=cube-cli&grant_type=authorization_code&code=x&redirect_uri=http://127.0.0.1/&code_verifier=" + strings.Repeat("v", 43),
		"client_id=cube-cli&grant_type=urn:ietf:params:oauth:grant-type:device_code&device_code=%00", "client_id=cube-cli&token=x&scope=all", "client_id=cube-cli&client_id=x", "%zz=%&;;==",
	} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, body string) {
		for _, path := range []string{tokenPath, refreshPath, deviceTokenPath, revokePath} {
			w := server.send(t, http.MethodPost, path, body)
			var answer map[string]any
			if w.Code != http.StatusOK && (json.Unmarshal(w.Body.Bytes(), &answer) != nil || answer["error"] == "" || answer["error_description"] == "") {
				t.Errorf("%s %q: %d %s", path, body, w.Code, w.Body)
			}
			if strings.Contains(w.Body.String(), "access_token") {
				t.Errorf("%s %q: %s", path, body, w.Body)
			}
		}
	})
}

// FuzzAuthorize sends authorization requests of a person who has signed in: whatever they are, the browser is
// redirected to a registered address only, and consent is needed.
func FuzzAuthorize(f *testing.F) {
	server := newFuzzed(f)
	valid := url.Values{
		"response_type": {"code"}, "client_id": {"cube-cli"}, "redirect_uri": {"http://127.0.0.1:4000/callback"}, "code_challenge": {strings.Repeat("c", 43)}, "code_challenge_method": {"S256"},
	}
	f.Add(valid.Encode())
	for _, change := range []string{"&redirect_uri=https://evil.example.com", "&state=%0d%0aX", "&scope=x", "&request_uri=https://evil.example.com", "&decision=allow"} {
		f.Add(valid.Encode() + change)
	}
	valid.Set("redirect_uri", "http://[::1]:1/?x=%00")
	f.Add(valid.Encode())
	f.Fuzz(func(t *testing.T, query string) {
		values, err := url.ParseQuery(query)
		if err != nil || strings.ContainsFunc(query, func(r rune) bool { return r <= ' ' || r >= 0x7f }) || strings.Contains(query, "#") {
			return // no browser sends it
		}
		checkRedirect(t, query, server.send(t, http.MethodGet, authorizePath+"?"+query, ""), values.Get("client_id") == "quoin-web")
		values.Set("csrf", server.token)
		checkRedirect(t, query, server.send(t, http.MethodPost, authorizePath, values.Encode()), true)
	})
}

// checkRedirect checks that a response redirects to a loopback address or to the account.
func checkRedirect(t *testing.T, query string, w *httptest.ResponseRecorder, code bool) {
	t.Helper()
	location := w.Header().Get("Location")
	if location == "" {
		return
	}
	u, err := url.Parse(location)
	if err != nil || u.User != nil || u.Hostname() != "127.0.0.1" && u.Hostname() != "::1" && !strings.HasPrefix(location, fuzzSite+"/app/callback?") {
		t.Errorf("%q: redirected to %q", query, location)
	}
	if u != nil && u.Query().Get("iss") != fuzzSite || u != nil && u.Query().Has("code") && !code && !strings.Contains(query, "code=") {
		t.Errorf("%q: redirected to %q", query, location)
	}
}

// FuzzDevice sends requests of devices, and user codes of a person: only the code of a device finds it.
func FuzzDevice(f *testing.F) {
	server := newFuzzed(f)
	for _, seed := range []string{"", "BBBB-BBBB", "client_id=cube-cli", "<script>", "\x00", strings.Repeat("B", 100), "ＢＢＢＢ"} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, text string) {
		w := server.send(t, http.MethodPost, deviceCodePath, text)
		var answer map[string]any
		if json.Unmarshal(w.Body.Bytes(), &answer) != nil || (w.Code == http.StatusOK) != (answer["device_code"] != nil) {
			t.Errorf("%q: %d %s", text, w.Code, w.Body)
		}
		form := url.Values{"user_code": {text}, "decision": {"allow"}, "csrf": {server.token}}.Encode()
		_, err := server.store.FindDevice(t.Context(), "a1", text)
		found := server.send(t, http.MethodGet, devicePath+"?"+form, "")
		if unknown := errors.Is(err, oauth.ErrUnknown); text != "" && (found.Code == http.StatusOK) == unknown || strings.Contains(found.Body.String(), "<script") {
			t.Errorf("%q: %d %s", text, found.Code, found.Body)
		}
		server.send(t, http.MethodPost, devicePath, form)
	})
}

// FuzzCallback sends what browsers keep of a sign-in, and responses of issuers and of providers of integrations: none signs in,
// and the browser is redirected to the issuer or to the pages of sign-in only.
func FuzzCallback(f *testing.F) {
	server := newFuzzed(f)
	begun := func(p pendingLogin) string {
		text, err := json.Marshal(p)
		if err != nil {
			f.Fatal(err)
		}
		return base64.RawURLEncoding.EncodeToString(text)
	}
	valid := begun(pendingLogin{Issuer: fuzzIssuer, State: "s", Nonce: "n", Verifier: "v", Return: devicePath})
	for _, query := range []string{"", "state=s&code=c", "state=s&code=c&iss=" + fuzzIssuer, "state=s&code=c&iss=https://evil.example.com", "state=s&error=%3Cscript%3E", "state=x&code=c", "state=s&state=s&code=c", "return=//evil.example.com&issuer=x"} {
		f.Add(valid, query)
	}
	f.Add("", "state=s&code=c")
	f.Add("e30", "state=&code=c")
	f.Add(begun(pendingLogin{Issuer: "https://evil.example.com", State: "s", Return: "https://evil.example.com"}), "state=s&code=c")
	f.Fuzz(func(t *testing.T, kept, query string) {
		if strings.ContainsFunc(query, func(r rune) bool { return r <= ' ' || r >= 0x7f }) || strings.Contains(query, "#") {
			return // no browser sends it
		}
		for _, path := range []string{loginPath, callbackPath + issuerID(fuzzIssuer), callbackPath + "x", oauthintegration.CallbackPath, oauthintegration.CallbackPath + "/x", webCallbackPath} {
			w := server.send(t, http.MethodGet, path+"?"+query, "", &http.Cookie{Name: loginCookie, Value: kept})
			if slices.ContainsFunc(w.Header()["Set-Cookie"], func(cookie string) bool { return strings.HasPrefix(cookie, sessionCookie) }) {
				t.Errorf("%s %q: it signs in", path, query)
			}
			if strings.Contains(w.Body.String(), "<script") {
				t.Errorf("%s %q: %s", path, query, w.Body)
			}
			location := w.Header().Get("Location")
			if location != "" && !strings.HasPrefix(location, "/auth/") && (path != loginPath || !strings.HasPrefix(location, fuzzIssuer+"/authorize?")) {
				t.Errorf("%s %q: redirected to %q", path, query, location)
			}
		}
	})
}

// FuzzForms sends forms of pages without the token of the session: none ends the session.
func FuzzForms(f *testing.F) {
	server := newFuzzed(f)
	for _, seed := range []string{"", "csrf=", "csrf=x&kind=session&id=1", "csrf=x&csrf=x", "%zz", "kind=application&id=%00"} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, body string) {
		if strings.Contains(body, server.token) {
			return
		}
		for _, path := range []string{sessionsPath, logoutPath} {
			if w := server.send(t, http.MethodPost, path, body); w.Code < http.StatusBadRequest {
				t.Errorf("%s %q: %d %s", path, body, w.Code, w.Body)
			}
			if _, err := server.store.Session(t.Context(), store.Account{UID: "a1", Name: "demo"}, server.session); err != nil {
				t.Fatalf("%s %q: the session has ended: %v", path, body, err)
			}
		}
	})
}

// FuzzReturn: whatever the address to return to is, the browser stays on the pages of sign-in.
func FuzzReturn(f *testing.F) {
	for _, seed := range []string{"/auth/device?user_code=x", "//evil.example.com/auth/device", `/\evil`, "https://evil.example.com", "/auth/device#x", "/auth/device\r\nX: y"} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, text string) {
		got := returnTo(text)
		u, err := url.Parse(got)
		if err != nil || u.IsAbs() || u.Host != "" || u.Fragment != "" || !slices.Contains(returns, u.Path) || !strings.HasPrefix(got, "/auth/") || strings.ContainsAny(got, "\r\n\\") {
			t.Errorf("%q: %q", text, got)
		}
	})
}
