package signin_test

import (
	"crypto/rand"
	"encoding/base64"
	"fmt"
	"net/http"
	"net/url"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	"github.com/quoin-dev/quoin/api/v1alpha1"
	"github.com/quoin-dev/quoin/apiserver/clientcredentials"
	"github.com/quoin-dev/quoin/internal/apikey"
	"github.com/quoin-dev/quoin/internal/keyring"
)

// key creates an API key and returns it with its token.
func (w *world) key(name string) (*v1alpha1.ApiKey, string) {
	w.Helper()
	token, err := apikey.New(rand.Reader)
	w.must(err)
	k := &v1alpha1.ApiKey{ObjectMeta: metav1.ObjectMeta{Namespace: "demo", Name: name, UID: "k1"}, Spec: v1alpha1.ApiKeySpec{
		Token: ptr.To(token.Hash()), Permissions: []v1alpha1.Permission{v1alpha1.PermissionSchemaRead},
	}}
	w.must(w.k8s.Create(w.Context(), k))
	return k, token.Reveal()
}

// credentials are the parameters of the client credentials grant, with pairs of further ones; an empty value removes one.
func credentials(id, secret string, more ...string) url.Values {
	form := url.Values{"grant_type": {"client_credentials"}, "client_id": {id}, "client_secret": {secret}}
	for i := 0; i < len(more); i += 2 {
		if form.Set(more[i], more[i+1]); more[i+1] == "" {
			form.Del(more[i])
		}
	}
	return form
}

// programToken returns an access token of an API key.
func (w *world) programToken(id, secret string) string {
	w.Helper()
	b := w.browser()
	return b.want(b.post("/auth/oauth2/token", credentials(id, secret)), 200).json("access_token")
}

// TestProgramGetsAccessTokens: a program exchanges its API key for an access token, in the body or in the header, and the token may do
// what the key may. Nothing is stored.
func TestProgramGetsAccessTokens(t *testing.T) {
	w := newWorld(t)
	_, secret := w.key("entra")
	b := w.browser()
	got := b.want(b.post("/auth/oauth2/token", credentials("entra", secret)), 200)
	if got.json("token_type") != "Bearer" || got.json("expires_in") != "3600" || got.json("scope") != "all" || strings.Contains(got.text, "refresh_token") || got.header.Get("Cache-Control") != "no-store" {
		t.Errorf("the response is %s", got)
	}
	if token := got.json("access_token"); strings.Contains(token, secret) || !strings.HasPrefix(token, "qct_1_") {
		t.Errorf("the access token is %q", token)
	}
	b.header.Set("Authorization", "Basic "+base64.StdEncoding.EncodeToString([]byte("entra:"+secret)))
	for _, response := range []page{got, b.want(b.post("/auth/oauth2/token", credentials("", "", "client_id", "", "client_secret", "", "scope", "all", "resource", site)), 200)} {
		p := b.want(w.api(response.json("access_token")), 200)
		if p.json("Kind") != "ApiKey" || p.json("ID") != "entra" || p.json("Read") != "true" || p.json("Admin") != "false" {
			t.Errorf("the principal is %s", p)
		}
	}
	for _, table := range []string{"oauth_grant", "oauth_token"} {
		if n := w.rows(table); n != 0 {
			t.Errorf("%d rows of %s", n, table)
		}
	}
}

// TestProgramWithoutDatabase: programs get tokens without a database. People cannot sign in, and the metadata says so.
func TestProgramWithoutDatabase(t *testing.T) {
	w := newWorld(t)
	_, secret := w.key("entra")
	w.options.Store = nil
	w.serve()
	b := w.browser()
	b.want(b.post("/auth/oauth2/token", credentials("entra", secret)), 200)
	b.rejected(b.refreshAt("/auth/oauth2/token"), "unsupported_grant_type")
	b.want(b.get("/.well-known/oauth-authorization-server"), 200, `"grant_types_supported":["client_credentials"]`, site+"/auth/oauth2/token")
	b.want(b.get("/auth/sessions"), 404, "database")
}

// refreshAt sends a refresh token to a path.
func (b *browser) refreshAt(path string) page {
	b.Helper()
	return b.post(path, url.Values{"grant_type": {"refresh_token"}, "client_id": {cli}, "refresh_token": {"x"}})
}

// TestTokensOfProgramsEndWithTheKey: an access token ends after an hour, and at once when its key is revoked, expires, is deleted or gets
// another token.
func TestTokensOfProgramsEndWithTheKey(t *testing.T) {
	for name, c := range map[string]struct {
		end    func(w *world, k *v1alpha1.ApiKey)
		reason string
	}{
		"an hour": {func(w *world, _ *v1alpha1.ApiKey) { w.clock.Step(5 * time.Minute) }, "the access token has expired"},
		"revoked": {func(w *world, k *v1alpha1.ApiKey) {
			k.Spec.Revoked = ptr.To(true)
			w.must(w.k8s.Update(w.Context(), k))
		}, "revoked"},
		"expired": {func(w *world, k *v1alpha1.ApiKey) {
			k.Spec.ExpirationTime = ptr.To(metav1.NewTime(w.clock.Now()))
			w.must(w.k8s.Update(w.Context(), k))
		}, "expired"},
		"deleted": {func(w *world, k *v1alpha1.ApiKey) { w.must(w.k8s.Delete(w.Context(), k)) }, "there is no such API key"},
		"another token": {func(w *world, k *v1alpha1.ApiKey) {
			k.Spec.Token.SHA256 = strings.Repeat("0", 64) // with the same id
			w.must(w.k8s.Update(w.Context(), k))
		}, "there is no such API key"},
		"keys of the account are lost": {func(w *world, _ *v1alpha1.ApiKey) {
			w.must(w.k8s.Delete(w.Context(), &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: "demo", Name: keyring.SecretName}}))
			w.clock.Step(2 * time.Minute)
		}, "there is no such access token"},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t)
			k, secret := w.key("entra")
			token := w.programToken("entra", secret)
			b := w.browser()
			b.want(w.api(token), 200)
			w.clock.Step(time.Hour - 5*time.Minute)
			b.want(w.api(token), 200)
			c.end(w, k)
			b.want(w.api(token), 401, c.reason)
		})
	}
}

// TestFalsePrograms: wrong credentials of a program are the RFC's errors, which contain no part of a secret.
func TestFalsePrograms(t *testing.T) {
	w := newWorld(t)
	_, secret := w.key("entra")
	w.key("okta")
	unknown, err := apikey.New(rand.Reader)
	w.must(err)
	basic := func(text string) string { return "Basic " + base64.StdEncoding.EncodeToString([]byte(text)) }
	for name, c := range map[string]struct {
		header, code string
		form         url.Values
	}{
		"no id":                   {"", "invalid_request", credentials("", secret)},
		"no secret":               {"", "invalid_client", credentials("entra", "")},
		"of another key":          {"", "invalid_client", credentials("okta", secret)},
		"unknown key":             {"", "invalid_client", credentials("entra", unknown.Reveal())},
		"mistyped":                {"", "invalid_client", credentials("entra", secret[:len(secret)-1]+"_")},
		"password":                {"", "invalid_client", credentials("entra", "correct horse battery staple")},
		"in header and body":      {basic("entra:" + secret), "invalid_request", credentials("entra", secret)},
		"another id in the body":  {basic("entra:" + secret), "invalid_request", credentials("okta", "")},
		"not Basic":               {"Bearer " + secret, "invalid_client", credentials("entra", "")},
		"not encoded as in forms": {basic("entra:%zz"), "invalid_client", credentials("", "")},
		"scope":                   {"", "invalid_scope", credentials("entra", secret, "scope", "root")},
		"resource":                {"", "invalid_target", credentials("entra", secret, "resource", "https://other.example.com")},
		"twice":                   {"", "invalid_request", url.Values{"grant_type": {"client_credentials"}, "client_id": {"entra", "okta"}, "client_secret": {secret}}},
	} {
		b := w.browser()
		if c.header != "" {
			b.header.Set("Authorization", c.header)
		}
		p := b.post("/auth/oauth2/token", c.form)
		if b.rejected(p, c.code); strings.Contains(p.text, secret[20:]) || strings.Contains(p.text, "horse") {
			t.Errorf("%s: the response has a part of the secret: %s", name, p)
		}
		if unauthorized := p.status == http.StatusUnauthorized; unauthorized != (c.code == "invalid_client") || unauthorized && c.header != "" && !strings.HasPrefix(p.header.Get("WWW-Authenticate"), "Basic ") {
			t.Errorf("%s: %s, %s", name, p, p.header)
		}
	}
}

// TestForgedTokensOfPrograms: a token that was changed, that is of another account, or that is invented is refused. Invented ones make
// Quoin read few objects from the API server.
func TestForgedTokensOfPrograms(t *testing.T) {
	w := newWorld(t)
	_, secret := w.key("entra")
	token := w.programToken("entra", secret)
	b := w.browser()
	other := &v1alpha1.Account{ObjectMeta: metav1.ObjectMeta{Name: "other", UID: "a2"}, Spec: v1alpha1.AccountSpec{Namespace: "other"}}
	r, err := http.NewRequest(http.MethodGet, "/", nil)
	w.must(err)
	r.Header.Set("Authorization", "Bearer "+token)
	if p, err := w.programs.Authenticate(t.Context(), other, r); err == nil || !strings.Contains(err.Error(), "there is no such access token") {
		t.Errorf("in another account: %v, %v", p, err)
	}
	for name, forged := range map[string]string{
		"changed":   token[:10] + string('A'+(token[10]-'A'+1)%26) + token[11:],
		"cut":       token[:40],
		"other key": "qct_2_" + token[6:],
		"no key":    "qct_" + token[6:],
		"empty":     clientcredentials.Prefix,
		"long":      token + strings.Repeat("A", 1000),
	} {
		if p := w.api(forged); p.status != http.StatusUnauthorized || !strings.Contains(p.text, "there is no such access token") {
			t.Errorf("%s: %s", name, p)
		}
	}
	b.want(w.api(token), 200)
	before, busy := w.reads.Load(), 0
	for i := range 100 {
		if p := w.api(fmt.Sprintf("qct_%d_%s", i+2, token[6:])); p.status == http.StatusTooManyRequests {
			busy++
		}
	}
	if reads := w.reads.Load() - before; busy < 50 || reads > 50 {
		t.Errorf("100 invented tokens: %d are refused as too many, and %d objects were read", busy, reads)
	}
	b.want(w.api(token), 200) // known tokens are valid while others are invented
}
