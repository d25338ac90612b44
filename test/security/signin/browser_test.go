package signin_test

import (
	"crypto/x509"
	"net/http"
	"strings"
	"testing"

	"github.com/quoin-dev/quoin/api/v1alpha1"
	chromium "github.com/quoin-dev/quoin/test/internal/browser"
	"github.com/quoin-dev/quoin/test/internal/oidcprovider"
)

// TestChoiceInABrowser: with several issuers, a person chooses one, in a browser without scripts, at 320 px. So are the pages that
// no journey shows: an unknown issuer, and the redirect URI of the web client without a web application.
func TestChoiceInABrowser(t *testing.T) {
	chromium.Prepare(t)
	w := newWorld(t)
	other := oidcprovider.New()
	defer other.Close()
	w.account.Spec.OIDCIssuers = append(w.account.Spec.OIDCIssuers,
		v1alpha1.OIDCIssuer{URL: other.URL, Audiences: []string{"api"}, ClientID: other.ClientID, DisplayName: "Partners <of> " + strings.Repeat("LongName", 12)},
		v1alpha1.OIDCIssuer{URL: "https://login.example.com/without-client", Audiences: []string{"api"}, DisplayName: "API only"},
	)
	roots := x509.NewCertPool()
	roots.AddCert(w.server.Certificate())
	host := strings.TrimPrefix(site, "https://")
	b := chromium.Start(t, roots, map[string][]string{host + ":443": {w.server.Listener.Addr().String()}})
	shows := func(title string, texts ...string) {
		t.Helper()
		b.Await(title)
		shown := b.Text()
		for _, text := range texts {
			if !strings.Contains(shown, text) {
				t.Errorf("%q is not in %s", text, shown)
			}
		}
		if problems := b.Problems(); len(problems) > 0 {
			t.Errorf("the page %q: %q", title, problems)
		}
		if policy := b.Header(host, "Content-Security-Policy"); !strings.HasPrefix(policy, "default-src 'none'; style-src 'self'; form-action 'self'") {
			t.Errorf("the policy of the page %q is %q", title, policy)
		}
	}
	b.Open(site + "/auth/sessions")
	shows("Choose where you have your account", "127.0.0.1", "Partners <of> LongName")
	if strings.Contains(b.Text(), "API only") {
		t.Error("an issuer without clientID is a choice")
	}
	b.Open(site + "/auth/login?issuer=unknown&return=%2Fauth%2Fdevice")
	shows("Choose where you have your account")
	b.Click(".choices li:first-child a")
	shows("Connect a device", "Signed in as")

	query := authorizeRequest("client_id", "quoin-web", "redirect_uri", site+"/app/callback").Encode()
	b.Open(site + "/auth/oauth2/authorize?" + query)
	shows("There is no web application here", site+"/app/callback?code=", "Your sessions")
	b.Click("main a")
	shows("Your sessions", "this browser")
}

// TestWebCallback: the page is the same for everybody, writes nothing, and does not repeat what is in its address.
func TestWebCallback(t *testing.T) {
	w := newWorld(t)
	b := w.browser()
	p := b.want(b.get("/app/callback?code=%3Cscript%3E&error=access_denied&state=x"), http.StatusNotFound, "There is no web application here")
	if strings.Contains(p.text, "access_denied") || strings.Contains(p.text, "script") || p.header.Get("Referrer-Policy") != "same-origin" || p.header.Get("Cache-Control") != "no-store" {
		t.Errorf("%s %v", p, p.header)
	}
	b.want(b.post("/app/callback", nil), http.StatusMethodNotAllowed)
	for _, path := range []string{"/app", "/app/", "/app/callback/x"} {
		b.want(b.get(path), http.StatusUnauthorized)
	}
	for _, table := range []string{"oauth_session", "oauth_grant", "oauth_token"} {
		if n := w.rows(table); n != 0 {
			t.Errorf("%d rows of %s", n, table)
		}
	}
}
