// Package oidcissuer serves the documents of the OpenID Connect issuer of an account: discovery and the public keys, with which
// anyone can verify the tokens of its deployments. It has no private key: the keys are in the status of the Account.
package oidcissuer

import (
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"net/http"
	"net/netip"
	"slices"
	"strings"
	"time"

	"sigs.k8s.io/controller-runtime/pkg/log"

	"github.com/quoin-dev/quoin/api/v1alpha1"
	"github.com/quoin-dev/quoin/internal/oidctoken"
	"github.com/quoin-dev/quoin/internal/ratelimit"
	"github.com/quoin-dev/quoin/internal/serving"
)

// Paths of the documents. That of discovery is in OpenID Connect Discovery 1.0, section 4.
const (
	discoveryPath = oidctoken.Path + "/.well-known/openid-configuration"
	keysPath      = oidctoken.Path + "/jwks"
)

// Limits of a client address. Systems that verify tokens fetch each document a few times a day.
const (
	perSecond, burst = 5, 50
	maxClients       = 10_000
)

// maxAge is how long documents may be cached. New keys are published for much longer before they sign:
// oidctoken.ActivationDelay.
const maxAge = time.Hour

// Handles reports whether a path is one of the documents.
func Handles(path string) bool { return path == discoveryPath || path == keysPath }

// Server serves the documents. Create it with New.
type Server struct {
	limits *ratelimit.Limits[netip.Prefix]
}

// New returns a server.
func New() *Server {
	return &Server{ratelimit.New[netip.Prefix](perSecond, burst, maxClients)}
}

// ServeHTTP serves a request, without authentication, on a host of an account. An account without keys has no issuer.
func (s *Server) ServeHTTP(w http.ResponseWriter, r *http.Request, account *v1alpha1.Account) {
	serving.Annotate(r.Context(), serving.AnnotationRoute, r.URL.Path)
	if wait := s.limits.Take(serving.ClientNetwork(r.Context()), time.Now()); wait > 0 {
		serving.RetryAfter(w, wait)
		serving.WriteError(w, http.StatusTooManyRequests, "too many requests: retry after the time in Retry-After")
		return
	}
	if r.Method != http.MethodGet && r.Method != http.MethodHead {
		w.Header().Set("Allow", "GET, HEAD")
		serving.WriteError(w, http.StatusMethodNotAllowed, fmt.Sprintf("method %s is not allowed: GET and HEAD are", r.Method))
		return
	}
	if len(account.Status.OidcTokenKeys) == 0 {
		serving.WriteError(w, http.StatusNotFound, "the account issues no tokens")
		return
	}
	body, err := document(r.URL.Path, account)
	if err != nil {
		log.FromContext(r.Context()).Error(err, "Invalid keys in the status of an account", "account", account.Name)
		serving.WriteError(w, http.StatusInternalServerError, "the keys of the account cannot be read")
		return
	}
	writeDocument(w, r, body)
}

func document(path string, account *v1alpha1.Account) ([]byte, error) {
	if path == keysPath {
		return oidctoken.KeySet(account.Status.OidcTokenKeys)
	}
	issuer := oidctoken.Issuer(account)
	return json.Marshal(map[string]any{
		"issuer":                                issuer,
		"jwks_uri":                              strings.TrimSuffix(issuer, oidctoken.Path) + keysPath,
		"response_types_supported":              []string{"id_token"},
		"subject_types_supported":               []string{"public"},
		"id_token_signing_alg_values_supported": []string{"RS256"},
		"claims_supported":                      []string{"aud", "exp", "iat", "iss", "jti", "nbf", "sub"},
	})
}

// writeDocument writes a document with its entity tag, or 304 if the client has it.
func writeDocument(w http.ResponseWriter, r *http.Request, body []byte) {
	sum := sha256.Sum256(body)
	tag := `"` + base64.RawURLEncoding.EncodeToString(sum[:12]) + `"`
	header := w.Header()
	header.Set("Cache-Control", fmt.Sprintf("public, max-age=%d", int(maxAge.Seconds())))
	header.Set("Etag", tag)
	header.Set("X-Content-Type-Options", "nosniff")
	if has(r.Header.Values("If-None-Match"), tag) {
		w.WriteHeader(http.StatusNotModified)
		return
	}
	header.Set("Content-Type", "application/json")
	if r.Method == http.MethodHead {
		return
	}
	_, _ = w.Write(body) // fails only if the client has disconnected
}

// has reports whether the values of If-None-Match contain an entity tag (RFC 9110 section 13.1.2).
func has(values []string, tag string) bool {
	for _, value := range values {
		listed := strings.Split(value, ",")
		if slices.ContainsFunc(listed, func(t string) bool {
			t = strings.TrimPrefix(strings.TrimSpace(t), "W/")
			return t == tag || t == "*"
		}) {
			return true
		}
	}
	return false
}
