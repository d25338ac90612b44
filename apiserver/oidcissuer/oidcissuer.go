// Package oidcissuer serves the documents of the OpenID Connect issuer of an account: discovery and the public keys, with which
// anyone can verify the tokens of its deployments. It has no private key: the keys are in the status of the Account.
package oidcissuer

import (
	"encoding/json"
	"net/http"
	"net/netip"
	"strings"
	"time"

	"sigs.k8s.io/controller-runtime/pkg/log"

	"github.com/quoin-dev/quoin/api/v1alpha1"
	"github.com/quoin-dev/quoin/internal/oidctoken"
	"github.com/quoin-dev/quoin/internal/ratelimit"
	"github.com/quoin-dev/quoin/internal/serving"
	"github.com/quoin-dev/quoin/internal/serving/document"
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
	if !document.Allows(w, r) {
		return
	}
	if len(account.Status.OidcTokenKeys) == 0 {
		serving.WriteError(w, http.StatusNotFound, "the account issues no tokens")
		return
	}
	body, err := render(r.URL.Path, account)
	if err != nil {
		log.FromContext(r.Context()).Error(err, "Invalid keys in the status of an account", "account", account.Name)
		serving.WriteError(w, http.StatusInternalServerError, "the keys of the account cannot be read")
		return
	}
	document.Write(w, r, "application/json", maxAge, body)
}

// render returns the document of a path.
func render(path string, account *v1alpha1.Account) ([]byte, error) {
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
