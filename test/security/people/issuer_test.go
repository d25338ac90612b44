package people_test

import (
	"context"
	"crypto/ed25519"
	"crypto/rand"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"testing"
	"time"

	"github.com/quoin-dev/quoin/api/v1alpha1"
	"github.com/quoin-dev/quoin/apiserver/auth"
)

// issuer is an OpenID Connect issuer that keeps issuing tokens to people who have left.
type issuer struct {
	*httptest.Server
	public ed25519.PublicKey
	key    ed25519.PrivateKey
}

func newIssuer(t *testing.T) *issuer {
	t.Helper()
	i := &issuer{}
	i.public, i.key, _ = ed25519.GenerateKey(rand.Reader)
	i.Server = httptest.NewTLSServer(i)
	t.Cleanup(i.Close)
	return i
}

// ServeHTTP serves the configuration and the keys.
func (i *issuer) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	body := map[string]any{"issuer": i.URL, "jwks_uri": i.URL + "/keys"}
	if r.URL.Path == "/keys" {
		body = map[string]any{"keys": []any{map[string]any{"kty": "OKP", "crv": "Ed25519", "kid": "1", "x": encode(i.public)}}}
	}
	w.Header().Set("Content-Type", "application/json")
	_ = json.NewEncoder(w).Encode(body)
}

func encode(data []byte) string { return base64.RawURLEncoding.EncodeToString(data) }

// token returns a valid token of a person.
func (i *issuer) token(email string) string {
	payload, _ := json.Marshal(map[string]any{"iss": i.URL, "aud": "quoin", "sub": email, "email": email, "exp": time.Now().Add(time.Hour).Unix()})
	text := encode([]byte(`{"alg":"EdDSA","kid":"1","typ":"JWT"}`)) + "." + encode(payload)
	return text + "." + encode(ed25519.Sign(i.key, []byte(text)))
}

// tryAccess returns an error unless a credential is accepted, or rejected as invalid.
func tryAccess(ctx context.Context, what string, a auth.Authenticator, account *v1alpha1.Account, token string, want bool) error {
	request := httptest.NewRequestWithContext(ctx, http.MethodGet, "/", nil)
	request.Header.Set("Authorization", "Bearer "+token)
	_, err := a.Authenticate(ctx, account, request)
	if (err == nil) != want || err != nil && !errors.Is(err, auth.ErrNoCredential) {
		return fmt.Errorf("%s: access is %t (%w), want %t", what, err == nil, err, want)
	}
	return nil
}
