// Package oauthprovider is an OAuth 2.0 provider for tests of OAuth integrations: it checks clients, redirect URIs and PKCE,
// rotates refresh tokens, and gives consent without asking. Integration returns the objects of an integration, also for another
// provider such as Keycloak.
package oauthprovider

import (
	"crypto/rand"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"net/url"
	"sync"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/quoin-dev/quoin/api/v1alpha1"
)

// Endpoints are those of a provider, and its client.
type Endpoints struct {
	Authorization, Token, Revocation, ClientID, ClientSecret string
}

// Integration returns an OAuthIntegration of a provider with its Secret. The type is the name.
func Integration(namespace, name string, e Endpoints) (*v1alpha1.OAuthIntegration, *corev1.Secret) {
	secret := name + "-client"
	return &v1alpha1.OAuthIntegration{
			ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name},
			Spec: v1alpha1.OAuthIntegrationSpec{
				Type: name, AuthorizationURL: v1alpha1.HTTPSEndpoint(e.Authorization), TokenURL: v1alpha1.HTTPSEndpoint(e.Token), RevocationURL: v1alpha1.HTTPSEndpoint(e.Revocation),
				ClientID: e.ClientID, ClientSecretRef: v1alpha1.SecretKeyReference{Name: secret, Key: "secret"},
			},
		}, &corev1.Secret{
			ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: secret}, Data: map[string][]byte{"secret": []byte(e.ClientSecret)},
		}
}

// Objects returns what Integration returns.
func Objects(namespace, name string, e Endpoints) []client.Object {
	i, secret := Integration(namespace, name, e)
	return []client.Object{secret, i}
}

// Provider is a provider on loopback. Close it.
type Provider struct {
	*httptest.Server
	// ClientID and ClientSecret are those of its only client.
	ClientID, ClientSecret string

	mu    sync.Mutex
	codes map[string]url.Values
	// live are tokens that were issued and not used or revoked; the value is the kind.
	live map[string]string
	// used are refresh tokens that were used, and grace reports whether they are accepted again.
	used      map[string]bool
	grace     bool
	refreshes int
	lifetime  int
	fail      func(r *http.Request) (status int, code string)
}

// New starts a provider.
func New() *Provider {
	p := &Provider{ClientID: "quoin", ClientSecret: "client-" + rand.Text(), codes: map[string]url.Values{}, live: map[string]string{}, used: map[string]bool{}, lifetime: 3600}
	p.Server = httptest.NewTLSServer(p)
	return p
}

// Endpoints returns the endpoints of the provider.
func (p *Provider) Endpoints() Endpoints {
	return Endpoints{p.URL + "/authorize", p.URL + "/token", p.URL + "/revoke", p.ClientID, p.ClientSecret}
}

// Lifetime sets the lifetime of access tokens in seconds; 0 omits it.
func (p *Provider) Lifetime(seconds int) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.lifetime = seconds
}

// AcceptUsed makes the provider accept refresh tokens again that were used, as many do for some time.
func (p *Provider) AcceptUsed() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.grace = true
}

// Fail sets a function that returns the status and error code of a failure, for requests of POST; a status of 0 is none.
func (p *Provider) Fail(fail func(r *http.Request) (status int, code string)) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.fail = fail
}

// Refreshes returns the number of successful refreshes.
func (p *Provider) Refreshes() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.refreshes
}

// IsLive reports whether a token is valid.
func (p *Provider) IsLive(token string) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.live[token] != ""
}

// Live returns the number of tokens that are valid.
func (p *Provider) Live() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return len(p.live)
}

// RevokeAll revokes all tokens, as an administrator of the provider does.
func (p *Provider) RevokeAll() {
	p.mu.Lock()
	defer p.mu.Unlock()
	clear(p.live)
}

// Consent returns a code for an authorization URL, as the browser of a person gets it.
func (p *Provider) Consent(authorizationURL string) (redirect *url.URL, err error) {
	u, err := url.Parse(authorizationURL)
	if err != nil {
		return nil, err
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.consent(u.Query())
}

func (p *Provider) consent(query url.Values) (*url.URL, error) {
	redirect, err := url.Parse(query.Get("redirect_uri"))
	if err != nil {
		return nil, err
	}
	code := rand.Text()
	p.codes[code] = query
	redirect.RawQuery = url.Values{"code": {code}, "state": {query.Get("state")}}.Encode()
	return redirect, nil
}

// ServeHTTP implements http.Handler.
func (p *Provider) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	p.mu.Lock()
	defer p.mu.Unlock()
	switch r.Method + " " + r.URL.Path {
	case "GET /authorize":
		query := r.URL.Query()
		redirect, err := p.consent(query)
		if err != nil || query.Get("client_id") != p.ClientID || query.Get("response_type") != "code" || query.Get("code_challenge_method") != "S256" || query.Get("state") == "" {
			http.Error(w, "invalid request", http.StatusBadRequest)
			return
		}
		http.Redirect(w, r, redirect.String(), http.StatusFound)
	case "POST /token", "POST /revoke":
		p.post(w, r)
	default:
		http.NotFound(w, r)
	}
}

func (p *Provider) post(w http.ResponseWriter, r *http.Request) {
	if p.fail != nil {
		if status, code := p.fail(r); status != 0 {
			write(w, status, map[string]any{"error": code})
			return
		}
	}
	id, secret, basic := r.BasicAuth()
	if !basic {
		id, secret = r.PostFormValue("client_id"), r.PostFormValue("client_secret")
	}
	switch {
	case id != p.ClientID || secret != p.ClientSecret:
		write(w, http.StatusUnauthorized, map[string]any{"error": "invalid_client"})
	case r.URL.Path == "/revoke":
		delete(p.live, r.PostFormValue("token"))
		w.WriteHeader(http.StatusOK)
	case r.PostFormValue("grant_type") == "refresh_token":
		p.refresh(w, r)
	default:
		p.exchange(w, r)
	}
}

func (p *Provider) exchange(w http.ResponseWriter, r *http.Request) {
	asked, known := p.codes[r.PostFormValue("code")]
	delete(p.codes, r.PostFormValue("code"))
	sum := sha256.Sum256([]byte(r.PostFormValue("code_verifier")))
	challenge := base64.RawURLEncoding.EncodeToString(sum[:])
	if !known || asked.Get("redirect_uri") != r.PostFormValue("redirect_uri") || asked.Get("code_challenge") != challenge {
		write(w, http.StatusBadRequest, map[string]any{"error": "invalid_grant"})
		return
	}
	p.issue(w)
}

func (p *Provider) refresh(w http.ResponseWriter, r *http.Request) {
	token := r.PostFormValue("refresh_token")
	if p.live[token] != "refresh" && (!p.grace || !p.used[token]) {
		write(w, http.StatusBadRequest, map[string]any{"error": "invalid_grant", "error_description": "secret " + token})
		return
	}
	delete(p.live, token)
	p.used[token] = true
	p.refreshes++
	p.issue(w)
}

func (p *Provider) issue(w http.ResponseWriter) {
	access, refresh := "access-"+rand.Text(), "refresh-"+rand.Text()
	p.live[access], p.live[refresh] = "access", "refresh"
	body := map[string]any{"access_token": access, "token_type": "Bearer", "refresh_token": refresh, "refresh_expires_in": 86400}
	if p.lifetime > 0 {
		body["expires_in"] = p.lifetime
	}
	write(w, http.StatusOK, body)
}

func write(w http.ResponseWriter, status int, body map[string]any) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	_ = json.NewEncoder(w).Encode(body)
}
