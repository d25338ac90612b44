package signin_test

import (
	"net/http"
	"net/url"
	"strings"
	"testing"
	"time"

	"k8s.io/utils/ptr"

	"github.com/quoin-dev/quoin/api/v1alpha1"
	"github.com/quoin-dev/quoin/internal/content/oauth"
	"github.com/quoin-dev/quoin/test/internal/oidcprovider"
)

// TestSignIn: a person signs in, allows a client, and the client acts as the person until the person signs out.
func TestSignIn(t *testing.T) {
	w := newWorld(t)
	b := w.browser().signIn()
	got := b.tokens()
	if got.json("token_type") != "Bearer" || got.json("expires_in") != "3600" || got.header.Get("Cache-Control") != "no-store" {
		t.Errorf("the tokens are %s", got)
	}
	me := b.want(w.api(got.json("access_token")), 200)
	if me.json("Kind") != "User" || me.json("User") != "ada" || me.json("UserName") != "ada@example.com" || me.json("Name") != "Ada" || !strings.HasSuffix(me.json("ID"), "#u1") {
		t.Errorf("the principal is %s", me)
	}
	next := b.want(b.refresh(got.json("refresh_token")), 200)
	b.want(w.api(next.json("access_token")), 200)
	p := b.want(b.follow("/auth/sessions"), 200, "Command line (cube)", "this browser")
	b.want(b.post("/auth/sessions", p.form("kind", "application")), 200, "no access from now on")
	b.want(w.api(next.json("access_token")), 401, "no such access token")
	b.want(b.post("/auth/logout", p.form("", "")), 200, "You are signed out")
	if p := b.get("/auth/sessions"); p.status != 303 || !strings.HasPrefix(p.location, "/auth/login?") {
		t.Errorf("after signing out: %s", p)
	}
	for _, event := range []string{"Logged in succeeded ada@example.com", "Authorized client succeeded ada@example.com", "Revoked client succeeded ada@example.com", "Logged out succeeded ada@example.com"} {
		w.wantEvent(event)
	}
}

// TestPermissionsAreThoseOfATokenOfTheIssuer: groups of the ID token decide, and the account's settings as they are now.
func TestPermissionsAreThoseOfATokenOfTheIssuer(t *testing.T) {
	w := newWorld(t)
	w.idp.Set(map[string]any{"groups": []string{"admins"}})
	b := w.browser().signIn()
	token := b.tokens().json("access_token")
	direct := func() string {
		r, _ := http.NewRequest(http.MethodGet, "/", nil)
		r.Header.Set("Authorization", "Bearer "+w.idp.Token(map[string]any{"aud": "api"}))
		p, err := w.options.People.(auth).Authenticate(t.Context(), w.account, r)
		w.must(err)
		return asJSON(t, shown(p))
	}
	same := func(admin string) {
		t.Helper()
		p := b.want(w.api(token), 200)
		if want := direct(); strings.TrimSpace(p.text) != want || p.json("Admin") != admin {
			t.Errorf("the principal is %s, want %s", p, want)
		}
	}
	same("true")
	w.account.Spec.OIDCIssuers[0].AdminGroups = nil
	same("false")
	w.people.users[0].Spec.Admin = ptr.To(true)
	same("true")
	w.account.Spec.Settings = &v1alpha1.AccountSettings{OIDC: ptr.To(false)}
	b.want(w.api(token), 401)
	w.account.Spec.Settings = nil
	b.want(w.api(token), 401, "no such access token") // it has ended
}

// TestDeactivatedPersonLosesEverythingAtOnce: sessions, access tokens and refresh tokens end, also if the person is activated
// again, and the person cannot sign in.
func TestDeactivatedPersonLosesEverythingAtOnce(t *testing.T) {
	w := newWorld(t)
	b := w.browser().signIn()
	first, second := b.tokens(), b.tokens()
	b.want(w.api(first.json("access_token")), 200)
	w.people.users[0].Spec.Active = ptr.To(false)
	b.want(w.api(first.json("access_token")), 401, "not active")
	w.people.users[0].Spec.Active = ptr.To(true)
	b.want(w.api(second.json("access_token")), 401)
	b.rejected(b.refresh(second.json("refresh_token")), "invalid_grant")
	if p := b.get("/auth/sessions"); p.status != 303 {
		t.Errorf("the session is valid: %s", p)
	}
	for _, change := range []func(){
		func() { w.people.users[0].Spec.Active = ptr.To(false) },
		func() {
			w.people.users[0].Spec.Active = ptr.To(true)
			w.idp.Set(map[string]any{"email_verified": false})
		},
	} {
		change()
		b.want(b.follow("/auth/sessions"), 400, "You cannot sign in")
	}
	w.wantEvent("Failed to log in failed ada@example.com the user is not active")
	w.idp.Set(map[string]any{"email_verified": nil})
	third := b.signIn().tokens()
	w.people.users[0].Spec.Active = ptr.To(false)
	b.rejected(b.refresh(third.json("refresh_token")), "invalid_grant")
	if n := w.rows("oauth_grant") + w.rows("oauth_session"); n != 0 {
		t.Errorf("%d rows are left", n)
	}
}

// TestNextUserOfTheName: a user is deleted while nothing that the user was granted is used, and another one gets the address. What
// the deleted one has is not valid for the new one, who signs in as usual.
func TestNextUserOfTheName(t *testing.T) {
	w := newWorld(t)
	w.people.users[0].UID = "first"
	former, code := w.browser().signIn(), ""
	tokens := former.tokens()
	former.want(w.api(tokens.json("access_token")), 200)
	code = former.code()
	next := w.people.users[0].DeepCopy()
	next.UID = "next"
	w.people.users = []*v1alpha1.ScimUser{next}
	former.want(w.api(tokens.json("access_token")), 401, "was deleted")
	former.rejected(former.refresh(tokens.json("refresh_token")), "invalid_grant")
	former.rejected(former.post("/auth/oauth2/token", exchangeForm(code)), "invalid_grant")
	if p := former.get("/auth/sessions"); p.status != 303 {
		t.Errorf("the session is valid: %s", p)
	}
	b := w.browser().signIn()
	b.want(w.api(b.tokens().json("access_token")), 200)
}

// TestLoginCSRF: an attacker signs in and makes another browser end the sign-in, to make its person act in the attacker's
// session.
func TestLoginCSRF(t *testing.T) {
	w := newWorld(t)
	attacker, victim := w.browser(), w.browser()
	begun := attacker.get(attacker.get("/auth/sessions").location)
	answer := attacker.want(attacker.get(begun.location), 302)
	p := victim.want(victim.get(answer.location), 400, "You are not signed in", "not begun in this browser")
	if strings.Contains(p.header.Get("Set-Cookie"), "session=qss_") {
		t.Error("the victim has a session")
	}
	victim.get(victim.get("/auth/sessions").location) // the victim has begun one, too
	victim.want(victim.get(answer.location), 400, "not begun in this browser")
	w.wantEvent("Failed to log in failed  the state is not")
	if n := w.rows("oauth_session"); n != 0 {
		t.Errorf("%d sessions", n)
	}
	// A code of the attacker in the victim's own response: the verifier and the nonce are others.
	own := victim.get(victim.get("/auth/sessions").location)
	mine := victim.want(victim.get(own.location), 302)
	stolen, _ := url.Parse(answer.location)
	injected, _ := url.Parse(mine.location)
	injected.RawQuery = with(injected.Query(), "code", stolen.Query().Get("code")).Encode()
	victim.want(victim.get(injected.String()), 400, "You are not signed in")
	w.wantEvent("Failed to log in failed  the issuer has rejected the code")
}

// TestSessionFixation: the secret of a session that existed before signing in does not become that of the person, and
// forms need the token of the session.
func TestSessionFixation(t *testing.T) {
	w := newWorld(t)
	b := w.browser()
	home, _ := url.Parse(site)
	fixed := guess("qss_")
	b.client.Jar.SetCookies(home, []*http.Cookie{{Name: "__Host-quoin-session", Value: fixed, Path: "/", Secure: true}})
	b.signIn()
	first := b.cookie()
	if first == fixed || !strings.HasPrefix(first, "qss_") {
		t.Errorf("the session is %q", first)
	}
	b.want(b.follow("/auth/login"), 200)
	if second := b.cookie(); second == first {
		t.Error("signing in again keeps the session")
	}
	thief := w.browser()
	for _, secret := range []string{fixed, first} {
		thief.client.Jar.SetCookies(home, []*http.Cookie{{Name: "__Host-quoin-session", Value: secret, Path: "/", Secure: true}})
		if p := thief.get("/auth/sessions"); p.status != 303 {
			t.Errorf("a session from before is valid: %s", p)
		}
	}
	p := b.get(b.get("/auth/login").location)
	b.want(p, 302)
	set := b.get(p.location).header.Values("Set-Cookie")
	for _, attribute := range []string{"__Host-quoin-session=", "Path=/", "HttpOnly", "Secure", "SameSite=Lax"} {
		if !strings.Contains(strings.Join(set, "\n"), attribute) {
			t.Errorf("%s is not in %q", attribute, set)
		}
	}
}

func (b *browser) cookie() string {
	home, _ := url.Parse(site)
	for _, c := range b.client.Jar.Cookies(home) {
		if c.Name == "__Host-quoin-session" {
			return c.Value
		}
	}
	return ""
}

// TestForgedForms: another site sends a form with the cookies of the person.
func TestForgedForms(t *testing.T) {
	w := newWorld(t)
	b := w.browser().signIn()
	device := b.device()
	consent := b.want(b.get(authorizeURL()), 200).form("", "")
	allowed := url.Values{"user_code": {device.json("user_code")}, "decision": {"allow"}}
	for path, form := range map[string]url.Values{
		"/auth/logout":           {},
		"/auth/sessions":         {"kind": {"session"}, "id": {"x"}},
		"/auth/device":           allowed,
		"/auth/oauth2/authorize": authorizeRequest("decision", "allow"),
	} {
		b.want(b.post(path, form), 403, "not from this page")
		other := w.browser().signIn().get("/auth/sessions").form("", "")
		if other.Get("csrf") == "" || other.Get("csrf") == consent.Get("csrf") {
			t.Fatalf("another session has the token %q", other.Get("csrf"))
		}
		b.want(b.post(path, with(form, "csrf", other.Get("csrf"))), 403, "not from this page")
		good := with(form, "csrf", consent.Get("csrf"))
		for name, value := range map[string]string{"Sec-Fetch-Site": "cross-site", "Origin": "https://evil.example.com"} {
			b.header.Set(name, value)
			b.want(b.post(path, good), 403, "not from this page")
			b.header.Del(name)
		}
		b.want(w.browser().post(path, good), 401, "You are signed out")
	}
	w.clock.Step(6 * time.Second)
	b.rejected(b.poll(device), "authorization_pending")
	b.want(b.get("/auth/sessions"), 200, "No application acts")
	// From its own page the form is accepted: only where it came from was wrong.
	b.want(b.post("/auth/device", with(allowed, "csrf", consent.Get("csrf"))), 200, "The device is connected")
}

// TestOpenRedirect: neither a sign-in nor an invalid request redirects to a page of another site.
func TestOpenRedirect(t *testing.T) {
	w := newWorld(t)
	for _, target := range []string{
		"https://evil.example.com/", "//evil.example.com/auth/device", `/\evil.example.com`, "/auth/device@evil.example.com", "javascript:alert(1)",
		"/auth/callback/x", "http:/auth/device", "/auth/../auth/device", strings.Repeat("/", 3000), "%", "/%09/evil.example.com", "https:evil.example.com/auth/device",
	} {
		b := w.browser()
		p := b.get(b.want(b.get("/auth/login?"+url.Values{"return": {target}}.Encode()), 303).location)
		if p = b.get(p.location); p.location != "/auth/sessions" {
			t.Errorf("%q: redirected to %s", target, p)
		}
	}
	b := w.browser().signIn()
	for _, target := range []string{
		"https://evil.example.com/callback", "http://127.0.0.1.evil.example.com/", "http://127.0.0.1@evil.example.com/", "http://evil.example.com#@127.0.0.1/",
		"http://localhost:4000/callback", "http://127.0.0.1:4000/callback#fragment", "http://127.1/", "http://2130706433/", "http://0x7f.0.0.1/", "https://127.0.0.1/",
		"http://127.0.0.1:4000/call back", "http://127.0.0.1:4000/\r\nX: y", `http://127.0.0.1\@evil.example.com/`, "myapp://127.0.0.1/", "/app/callback", "", "http://[::ffff:127.0.0.1]/",
		site + "/app/callback", "http://user@127.0.0.1/",
	} {
		p := b.get(authorizeURL("redirect_uri", target))
		if p.status != 400 || p.location != "" {
			t.Errorf("%q: %s", target, p)
		}
	}
	b.want(b.get(authorizeURL("client_id", "unknown")), 400, "there is no client")
	b.want(b.get(authorizeURL("redirect_uri", "http://[::1]:4000/callback")), 200, "Allow access?")
	b.want(b.get(authorizeURL("client_id", "quoin-web", "redirect_uri", site+"/app/callback")), 303, site+"/app/callback?code=")
}

// TestPKCEDowngrade: a request without PKCE, or with the method plain, gets no code, and an exchange needs the verifier.
func TestPKCEDowngrade(t *testing.T) {
	w := newWorld(t)
	b := w.browser().signIn()
	for _, change := range [][]string{
		{"code_challenge", "", "code_challenge_method", ""}, {"code_challenge_method", ""}, {"code_challenge_method", "plain"}, {"code_challenge", ""},
		{"code_challenge", verifier}, {"code_challenge_method", "s256"},
	} {
		b.want(b.get(authorizeURL(change...)), 303, redirect, "error=invalid_request", "PKCE")
	}
	b.want(b.get(authorizeURL("response_type", "token")), 303, "error=unsupported_response_type", "state=s+t%26ate", "iss=")
	b.want(b.get(authorizeURL("scope", "admin")), 303, "error=invalid_scope")
	b.want(b.get(authorizeURL()+"&state=x"), 303, "error=invalid_request")
	code := b.code()
	b.rejected(b.post("/auth/oauth2/token", exchangeForm(code, "code_verifier", "")), "invalid_request")
	b.rejected(b.post("/auth/oauth2/token", exchangeForm(code, "code_verifier", challenge())), "invalid_grant")
	b.rejected(b.post("/auth/oauth2/token", exchangeForm(code, "redirect_uri", "http://127.0.0.1:4001/callback")), "invalid_grant")
	b.rejected(b.post("/auth/oauth2/token", exchangeForm(code, "client_id", "quoin-web")), "invalid_grant")
	b.rejected(b.post("/auth/oauth2/token", exchangeForm(code, "client_id", "unknown")), "invalid_client")
	b.want(b.post("/auth/oauth2/token", exchangeForm(code)), 200)
}

// TestCodeReplay: a code that is used again revokes what it gave, and an expired one gives nothing.
func TestCodeReplay(t *testing.T) {
	w := newWorld(t)
	b := w.browser().signIn()
	code := b.code()
	got := b.want(b.post("/auth/oauth2/token", exchangeForm(code)), 200)
	b.want(w.api(got.json("access_token")), 200)
	b.rejected(w.browser().post("/auth/oauth2/token", exchangeForm(code)), "invalid_grant")
	b.want(w.api(got.json("access_token")), 401)
	b.rejected(b.refresh(got.json("refresh_token")), "invalid_grant")
	w.wantEvent("Revoked client succeeded ada@example.com a code or refresh token was used again")
	expired := b.code()
	w.clock.Step(oauth.CodeLifetime)
	b.rejected(b.post("/auth/oauth2/token", exchangeForm(expired)), "invalid_grant")
}

// TestRefreshReuse: a thief and the person use the same refresh token. Both lose access.
func TestRefreshReuse(t *testing.T) {
	w := newWorld(t)
	b := w.browser().signIn()
	stolen := b.tokens().json("refresh_token")
	thief := b.want(w.browser().refresh(stolen), 200)
	b.want(w.browser().refresh(thief.json("refresh_token")), 200)
	b.rejected(b.refresh(stolen), "invalid_grant")
	b.want(w.api(thief.json("access_token")), 401)
	b.rejected(b.refresh(guess("qrt_")), "invalid_grant")
	b.rejected(b.refresh(strings.Repeat("x", 10000)), "invalid_grant")
}

// TestMixUp: the response of one issuer is not taken for that of another one.
func TestMixUp(t *testing.T) {
	w := newWorld(t)
	evil := oidcprovider.New()
	defer evil.Close()
	w.account.Spec.OIDCIssuers = append(w.account.Spec.OIDCIssuers, v1alpha1.OIDCIssuer{URL: evil.URL, Audiences: []string{"x"}, ClientID: "quoin", DisplayName: "Evil & Co"})
	b := w.browser()
	choice := b.want(b.follow("/auth/sessions"), 200, "Choose where", "Evil &amp; Co")
	links := hrefs(choice)
	begun := b.want(b.get(links[0]), 303, w.idp.URL)
	answer := b.want(b.get(begun.location), 302)
	here, _ := url.Parse(answer.location)
	there, _ := url.Parse(b.want(w.browser().get(links[1]), 303, evil.URL).location)
	other, _ := url.Parse(there.Query().Get("redirect_uri"))
	other.RawQuery = here.RawQuery
	b.want(b.get(other.String()), 400, "You are not signed in")
	for name, change := range map[string]func(url.Values){
		"iss of another issuer": func(v url.Values) { v.Set("iss", evil.URL) },
		"two states":            func(v url.Values) { v.Add("state", v.Get("state")) },
	} {
		w.idp.Answer(change)
		b.want(b.follow(links[0]), 400, "You are not signed in")
		_ = name
	}
	w.idp.Answer(func(v url.Values) { v.Set("iss", w.idp.URL) })
	b.want(b.follow(links[0]), 200, "Your sessions")
}

// TestIDTokens: tokens for another client, another sign-in or another person's address do not sign in.
func TestIDTokens(t *testing.T) {
	w := newWorld(t)
	b := w.browser()
	for name, claims := range map[string]map[string]any{
		"nonce":           {"nonce": "another"},
		"audience":        {"aud": "api"},
		"other client":    {"azp": "another"},
		"expired":         {"exp": time.Now().Add(-time.Hour).Unix()},
		"issuer":          {"iss": "https://evil.example.com"},
		"no subject":      {"sub": nil},
		"no email":        {"email": nil},
		"several clients": {"aud": []string{"quoin", "another"}},
	} {
		w.idp.Override(claims)
		if p := b.follow("/auth/sessions"); p.status != 400 {
			t.Errorf("%s: %s", name, p)
		}
		w.idp.Override(nil)
		w.clock.Step(20 * time.Second)
	}
	if n := w.rows("oauth_session"); n != 0 {
		t.Errorf("%d sessions", n)
	}
	b.signIn()
}

func hrefs(p page) []string {
	var all []string
	for part := range strings.SplitSeq(p.text, `href="/auth/login?`) {
		link, _, _ := strings.Cut(part, `"`)
		all = append(all, "/auth/login?"+strings.ReplaceAll(link, "&amp;", "&"))
	}
	return all[1:]
}
