// Package oidcprovider is an OpenID Connect provider for tests: it checks clients, redirect URIs and PKCE as providers do,
// and signs people in without asking.
package oidcprovider

import (
	"crypto/ed25519"
	"crypto/rand"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"encoding/pem"
	"maps"
	"net/http"
	"net/http/httptest"
	"net/url"
	"sync"
	"time"
)

// Provider is a provider on loopback. Close it.
type Provider struct {
	*httptest.Server
	// ClientID and ClientSecret are those of its only client.
	ClientID, ClientSecret string

	key ed25519.PrivateKey

	mu    sync.Mutex
	codes map[string]url.Values
	// claims are those of ID tokens, besides those of the protocol, which override replaces. metadata is added to the
	// configuration.
	claims, override, metadata map[string]any
	// answer changes the parameters of authorization responses.
	answer func(url.Values)
}

// New starts a provider whose only person is ada@example.com.
func New() *Provider {
	_, key, _ := ed25519.GenerateKey(rand.Reader)
	p := &Provider{
		ClientID: "quoin", ClientSecret: rand.Text(), key: key, codes: map[string]url.Values{},
		claims: map[string]any{"sub": "u1", "email": "ada@example.com", "name": "Ada"}, metadata: map[string]any{}, answer: func(url.Values) {},
	}
	p.Server = httptest.NewTLSServer(p)
	return p
}

// Set changes claims of ID tokens; a nil value removes one.
func (p *Provider) Set(claims map[string]any) {
	p.mu.Lock()
	defer p.mu.Unlock()
	maps.Copy(p.claims, claims)
}

// Override replaces any claims of ID tokens; a nil value removes one.
func (p *Provider) Override(claims map[string]any) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.override = claims
}

// Publish adds fields to the configuration.
func (p *Provider) Publish(metadata map[string]any) {
	p.mu.Lock()
	defer p.mu.Unlock()
	maps.Copy(p.metadata, metadata)
}

// Answer sets a function that changes the parameters of authorization responses.
func (p *Provider) Answer(change func(url.Values)) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.answer = change
}

// CertificatePEM returns the certificate of the provider.
func (p *Provider) CertificatePEM() []byte {
	return pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: p.Certificate().Raw})
}

// Token returns a signed token with claims, besides those of the person.
func (p *Provider) Token(claims map[string]any) string {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.sign(claims)
}

func (p *Provider) sign(claims map[string]any) string {
	all := map[string]any{"iss": p.URL, "exp": time.Now().Add(time.Hour).Unix(), "iat": time.Now().Unix()}
	maps.Copy(all, p.claims)
	maps.Copy(all, claims)
	maps.DeleteFunc(all, func(_ string, value any) bool { return value == nil })
	payload, _ := json.Marshal(all)
	text := encode([]byte(`{"alg":"EdDSA","kid":"1","typ":"JWT"}`)) + "." + encode(payload)
	return text + "." + encode(ed25519.Sign(p.key, []byte(text)))
}

func encode(data []byte) string { return base64.RawURLEncoding.EncodeToString(data) }

// ServeHTTP implements http.Handler.
func (p *Provider) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	p.mu.Lock()
	defer p.mu.Unlock()
	switch r.URL.Path {
	case "/.well-known/openid-configuration":
		document := map[string]any{
			"issuer": p.URL, "jwks_uri": p.URL + "/keys", "authorization_endpoint": p.URL + "/authorize", "token_endpoint": p.URL + "/token",
			"id_token_signing_alg_values_supported": []string{"EdDSA"},
		}
		maps.Copy(document, p.metadata)
		write(w, http.StatusOK, document)
	case "/keys":
		public, _ := p.key.Public().(ed25519.PublicKey)
		write(w, http.StatusOK, map[string]any{"keys": []any{map[string]any{"kty": "OKP", "crv": "Ed25519", "kid": "1", "x": encode(public)}}})
	case "/authorize":
		p.authorize(w, r)
	case "/token":
		p.exchange(w, r)
	default:
		http.NotFound(w, r)
	}
}

func (p *Provider) authorize(w http.ResponseWriter, r *http.Request) {
	query := r.URL.Query()
	if query.Get("client_id") != p.ClientID || query.Get("response_type") != "code" || query.Get("code_challenge_method") != "S256" || query.Get("nonce") == "" {
		http.Error(w, "invalid request", http.StatusBadRequest)
		return
	}
	code := rand.Text()
	p.codes[code] = query
	answer := url.Values{"code": {code}, "state": {query.Get("state")}}
	p.answer(answer)
	http.Redirect(w, r, query.Get("redirect_uri")+"?"+answer.Encode(), http.StatusFound)
}

func (p *Provider) exchange(w http.ResponseWriter, r *http.Request) {
	id, secret, basic := r.BasicAuth()
	if !basic {
		id, secret = r.FormValue("client_id"), r.FormValue("client_secret")
	}
	asked, known := p.codes[r.FormValue("code")]
	delete(p.codes, r.FormValue("code"))
	sum := sha256.Sum256([]byte(r.FormValue("code_verifier")))
	switch {
	case id != p.ClientID || secret != p.ClientSecret:
		write(w, http.StatusUnauthorized, map[string]any{"error": "invalid_client"})
	case !known || asked.Get("redirect_uri") != r.FormValue("redirect_uri") || asked.Get("code_challenge") != encode(sum[:]):
		write(w, http.StatusBadRequest, map[string]any{"error": "invalid_grant"})
	default:
		claims := map[string]any{"aud": p.ClientID, "nonce": asked.Get("nonce")}
		maps.Copy(claims, p.override)
		token := p.sign(claims)
		write(w, http.StatusOK, map[string]any{"access_token": rand.Text(), "token_type": "Bearer", "expires_in": 3600, "id_token": token})
	}
}

func write(w http.ResponseWriter, status int, body map[string]any) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	_ = json.NewEncoder(w).Encode(body)
}
