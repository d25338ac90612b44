package signin_test

import (
	"encoding/json"
	"net/http"
	"net/url"
	"strings"
	"testing"
	"time"

	quoinauth "github.com/quoin-dev/quoin/apiserver/auth"
	"github.com/quoin-dev/quoin/internal/content/oauth"
)

// auth authenticates tokens of issuers.
type auth = quoinauth.Authenticator

func asJSON(t *testing.T, value any) string {
	t.Helper()
	text, err := json.Marshal(value)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// device starts the sign-in of a device, as the command line does.
func (b *browser) device() page {
	b.Helper()
	return b.want(b.post("/auth/device/code", url.Values{"client_id": {cli}}), 200)
}

func (b *browser) poll(device page) page {
	b.Helper()
	return b.post("/auth/device/token", url.Values{
		"grant_type": {"urn:ietf:params:oauth:grant-type:device_code"}, "device_code": {device.json("device_code")}, "client_id": {cli},
	})
}

// TestDevice: the device flow as the command line calls it.
func TestDevice(t *testing.T) {
	w := newWorld(t)
	d := w.browser() // the device has no cookies
	begun := d.device()
	if begun.json("verification_uri") != site+"/auth/device" || begun.json("expires_in") != "900" || begun.json("interval") != "5" {
		t.Errorf("the answer is %s", begun)
	}
	d.rejected(d.poll(begun), "authorization_pending")
	d.rejected(d.poll(begun), "slow_down")
	b := w.browser()
	p := b.want(b.follow(begun.json("verification_uri_complete")), 200, "Connect this device?", begun.json("user_code"), "Command line (cube)")
	b.want(b.post("/auth/device", with(p.form("", ""), "decision", "allow")), 200, "The device is connected")
	got := d.want(d.poll(begun), 200, "access_token", "refresh_token")
	d.want(w.api(got.json("access_token")), 200, `"ada"`)
	next := d.want(d.refresh(got.json("refresh_token")), 200)
	d.rejected(d.poll(begun), "invalid_grant") // another party has the code
	d.want(w.api(next.json("access_token")), 401)

	denied := d.device()
	p = b.want(b.get("/auth/device?user_code="+strings.ToLower(denied.json("user_code"))), 200)
	b.want(b.post("/auth/device", with(p.form("", ""), "decision", "deny")), 200, "The device is not connected")
	d.rejected(d.poll(denied), "access_denied")
	expired := d.device()
	w.clock.Step(oauth.DeviceLifetime)
	d.rejected(d.poll(expired), "expired_token")
	b.signIn()
	b.want(b.get("/auth/device?user_code="+expired.json("user_code")), 404, "unknown or has expired")
}

// TestUserCodesAreNotGuessed: a person can try a few codes only, also of other sessions.
func TestUserCodesAreNotGuessed(t *testing.T) {
	w := newWorld(t)
	real := w.browser().device()
	b := w.browser().signIn()
	tried := 0
	for ; tried < 100; tried++ {
		if p := b.get("/auth/device?user_code=BBBB-BBBB"); p.status == http.StatusTooManyRequests {
			break
		}
	}
	if tried > 20 {
		t.Errorf("%d codes were tried", tried)
	}
	b = w.browser().signIn()
	b.want(b.get("/auth/device?user_code="+real.json("user_code")), http.StatusTooManyRequests, "Too many codes")
	w.clock.Step(time.Minute)
	b.want(b.get("/auth/device?user_code="+real.json("user_code")), 200)
}

// TestRequestsAreLimited: those that write rows without a credential.
func TestRequestsAreLimited(t *testing.T) {
	w := newWorld(t)
	b := w.browser()
	started, p := 0, page{status: http.StatusOK}
	for ; started < 1000 && p.status == http.StatusOK; started++ {
		p = b.post("/auth/device/code", url.Values{"client_id": {cli}})
	}
	if p.status != http.StatusTooManyRequests || p.json("error") != "temporarily_unavailable" || p.header.Get("Retry-After") == "" || started > 101 {
		t.Errorf("after %d requests: %s", started, p)
	}
	polls := 0
	for p = (page{}); polls < 1000 && p.json("error") != "slow_down"; polls++ {
		p = b.poll(page{text: `{"device_code":"x"}`})
	}
	if p.status != 400 || p.json("error") != "slow_down" || p.header.Get("Retry-After") == "" {
		t.Errorf("after %d polls: %s", polls, p)
	}
}

// TestMalformedRequests: each is the RFC's error in JSON, and writes nothing.
func TestMalformedRequests(t *testing.T) {
	w := newWorld(t)
	b := w.browser()
	for name, c := range map[string]struct {
		path, body, code string
	}{
		"no grant type":     {"/auth/oauth2/token", "client_id=cube-cli", "invalid_request"},
		"other grant type":  {"/auth/oauth2/token", "client_id=cube-cli&grant_type=password", "unsupported_grant_type"},
		"client grant":      {"/auth/oauth2/token", "client_id=cube-cli&grant_type=client_credentials", "invalid_client"},
		"program elsewhere": {"/auth/oauth2/refresh", "client_id=cube-cli&grant_type=client_credentials", "unsupported_grant_type"},
		"grant of refresh":  {"/auth/oauth2/refresh", "client_id=cube-cli&grant_type=authorization_code&code=x", "unsupported_grant_type"},
		"no client":         {"/auth/oauth2/token", "grant_type=refresh_token&refresh_token=x", "invalid_request"},
		"unknown client":    {"/auth/oauth2/token", "client_id=x&grant_type=refresh_token&refresh_token=x", "invalid_client"},
		"client with a key": {"/auth/oauth2/token", "client_id=cube-cli&client_secret=x&grant_type=refresh_token&refresh_token=x", "invalid_client"},
		"twice":             {"/auth/oauth2/revoke", "client_id=cube-cli&token=x&token=x", "invalid_request"},
		"no code":           {"/auth/oauth2/token", "client_id=cube-cli&grant_type=authorization_code", "invalid_request"},
		"scope":             {"/auth/device/code", "client_id=cube-cli&scope=root", "invalid_scope"},
		"client of the web": {"/auth/device/code", "client_id=quoin-web", "unauthorized_client"},
		"no device code":    {"/auth/device/token", "client_id=cube-cli&grant_type=urn:ietf:params:oauth:grant-type:device_code", "invalid_request"},
		"no token":          {"/auth/oauth2/revoke", "client_id=cube-cli", "invalid_request"},
		"malformed":         {"/auth/oauth2/revoke", "client_id=cube-cli&token=x&more=%zz", "invalid_request"},
	} {
		p := b.send(http.MethodPost, c.path, strings.NewReader(c.body))
		if p.json("error") != c.code || p.json("error_description") == "" || p.status != 400 && p.status != 401 {
			t.Errorf("%s: %s", name, p)
		}
	}
	for _, table := range []string{"oauth_session", "oauth_grant", "oauth_token", "oauth_device"} {
		if n := w.rows(table); n != 0 {
			t.Errorf("%d rows of %s", n, table)
		}
	}
	b.want(b.post("/auth/oauth2/token", url.Values{"x": {strings.Repeat("x", 100_000)}}), http.StatusRequestEntityTooLarge)
	b.want(b.get("/auth/oauth2/token"), http.StatusMethodNotAllowed)
	b.want(b.get("/auth/unknown"), http.StatusNotFound)
	b.want(b.post("/auth/oauth2/revoke", url.Values{"client_id": {cli}, "token": {guess("qat_")}}), 200)
	b.want(w.api(guess("qat_")), 401, "no such access token")
}

// TestWithoutIssuer: an account without an issuer for sign-in says so.
func TestWithoutIssuer(t *testing.T) {
	w := newWorld(t)
	w.account.Spec.OIDCIssuers[0].ClientID = ""
	b := w.browser()
	b.want(b.follow("/auth/device"), 404, "Sign-in is not set up", "clientID")
	b.rejected(b.post("/auth/device/code", url.Values{"client_id": {cli}}), "access_denied")
	b.want(b.get("/.well-known/oauth-authorization-server"), 200, `"issuer":"`+site+`"`, `"S256"`)
	b.want(b.get("/.well-known/oauth-protected-resource"), 200, `"resource":"`+site+`"`)
}

// TestPages: no page runs scripts or is embedded, and what others have written is text.
func TestPages(t *testing.T) {
	w := newWorld(t)
	w.idp.Set(map[string]any{"name": "<script>alert(1)</script>"})
	b := w.browser()
	b.header.Set("User-Agent", `"><script>alert(2)</script>`)
	pages := []page{b.follow("/auth/sessions"), b.get("/auth/device"), b.get("/auth/device?user_code=%22%3E%3Cscript%3E"), b.get(authorizeURL()), b.get(authorizeURL("client_id", "<script>"))}
	for _, p := range pages {
		if strings.Contains(p.text, "<script") || strings.Contains(p.text, "style=") || strings.Contains(p.text, `Demo <"`) {
			t.Errorf("the page is %s", p)
		}
		policy := p.header.Get("Content-Security-Policy")
		for _, part := range []string{"default-src 'none'", "frame-ancestors 'none'", "base-uri 'none'", "form-action 'self'"} {
			if !strings.Contains(policy, part) || strings.Contains(policy, "unsafe") {
				t.Errorf("the policy is %q", policy)
			}
		}
		if !strings.Contains(p.text, `<html lang="en">`) || strings.Count(p.text, "<h1>") != 1 || !strings.Contains(p.text, "<title>") || p.header.Get("Cache-Control") != "no-store" {
			t.Errorf("the page is %s", p)
		}
	}
	if policy := pages[3].header.Get("Content-Security-Policy"); !strings.Contains(policy, "form-action 'self' http://127.0.0.1:4000;") {
		t.Errorf("the policy of consent is %q", policy)
	}
	b.want(b.get("/auth/style.css"), 200, "focus-visible")
}

// TestHostHeader: the public URL is that of the configuration, whatever host a request names.
func TestHostHeader(t *testing.T) {
	w := newWorld(t)
	b := w.browser()
	b.want(b.get("https://evil.example.com/.well-known/oauth-authorization-server"), 200, `"issuer":"`+site+`"`)
	if p := b.get("https://evil.example.com/auth/device?x=1"); p.location != site+"/auth/device?x=1" {
		t.Errorf("got %s", p)
	}
	if p := b.post("https://evil.example.com/auth/device/code", url.Values{"client_id": {cli}}); p.json("verification_uri") != site+"/auth/device" {
		t.Errorf("got %s", p)
	}
}
