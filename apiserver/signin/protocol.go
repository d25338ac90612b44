package signin

import (
	"encoding/json"
	"errors"
	"fmt"
	"mime"
	"net/http"
	"net/url"
	"strings"
	"time"

	"sigs.k8s.io/controller-runtime/pkg/log"

	"github.com/quoin-dev/quoin/apiserver/auth"
	"github.com/quoin-dev/quoin/internal/content"
	"github.com/quoin-dev/quoin/internal/content/oauth"
	"github.com/quoin-dev/quoin/internal/serving"
	"github.com/quoin-dev/quoin/internal/store"
)

// The error codes (RFC 6749, sections 4.1.2.1 and 5.2; RFC 8628, section 3.5).
const (
	invalidRequest          = "invalid_request"
	invalidClient           = "invalid_client"
	invalidGrant            = "invalid_grant"
	invalidScope            = "invalid_scope"
	invalidTarget           = "invalid_target" // RFC 8707, section 2
	unauthorizedClient      = "unauthorized_client"
	unsupportedGrantType    = "unsupported_grant_type"
	unsupportedResponseType = "unsupported_response_type"
	accessDenied            = "access_denied"
	temporarilyUnavailable  = "temporarily_unavailable"
	authorizationPending    = "authorization_pending"
	slowDown                = "slow_down"
	expiredToken            = "expired_token"
)

// protocolError is an error of OAuth. The description is for the developer of the client.
type protocolError struct {
	status            int
	code, description string
}

func (e *protocolError) Error() string { return e.code + ": " + e.description }

// reject returns an error with the status 400.
func reject(code, format string, args ...any) *protocolError {
	return &protocolError{http.StatusBadRequest, code, fmt.Sprintf(format, args...)}
}

// formOf returns the parameters of the body of a request. Each must be given once (RFC 6749, section 3.2).
func formOf(r *http.Request) (url.Values, error) {
	mediaType, _, err := mime.ParseMediaType(r.Header.Get("Content-Type"))
	if err != nil || mediaType != "application/x-www-form-urlencoded" {
		return nil, reject(invalidRequest, "the body must have the media type application/x-www-form-urlencoded")
	}
	if err := r.ParseForm(); err != nil {
		var tooLarge *http.MaxBytesError
		if errors.As(err, &tooLarge) || errors.Is(err, serving.ErrSlowBody) {
			return nil, err
		}
		return nil, reject(invalidRequest, "the body cannot be parsed as a form")
	}
	return r.PostForm, checkOnce(r.PostForm)
}

// checkOnce returns an error if a parameter is given more than once.
func checkOnce(values url.Values) error {
	for name, all := range values {
		if len(all) > 1 {
			return reject(invalidRequest, "a parameter is given more than once: %q", printable(name))
		}
	}
	return nil
}

// printable returns a text of a client for an error message.
func printable(text string) string {
	text = strings.Map(func(r rune) rune {
		if r < ' ' || r >= 0x7f || r == '"' || r == '\\' { // RFC 6749, section 5.2
			return '?'
		}
		return r
	}, text)
	return text[:min(len(text), 64)]
}

// secretIn returns the client_id and the client_secret of a request, which are in the header or in the body (RFC 6749, section
// 2.3.1).
func secretIn(r *http.Request, form url.Values) (id, secret string, err error) {
	id, secret = form.Get("client_id"), form.Get("client_secret")
	if r.Header.Get("Authorization") != "" {
		name, password, ok := r.BasicAuth()
		decodedName, nameErr := url.QueryUnescape(name)
		decoded, err := url.QueryUnescape(password)
		switch {
		case !ok, nameErr != nil, err != nil:
			return "", "", &protocolError{http.StatusUnauthorized, invalidClient, "the Authorization header must be Basic, with client_id and client_secret as a form encodes them"}
		case secret != "", id != "" && id != decodedName:
			return "", "", reject(invalidRequest, "client_id and client_secret must be in the Authorization header or in the body, and not in both")
		}
		id, secret = decodedName, decoded
	}
	switch {
	case id == "":
		return "", "", reject(invalidRequest, "client_id is missing: it is the name of the ApiKey")
	case secret == "":
		return "", "", &protocolError{http.StatusUnauthorized, invalidClient, "client_secret is missing: it is the token of the ApiKey"}
	}
	return id, secret, nil
}

// clientIn returns the client of a request that acts for a person. Such clients have no secret and do not authenticate.
func clientIn(r *http.Request, form url.Values) (*oauthClient, error) {
	if r.Header.Get("Authorization") != "" || form.Get("client_secret") != "" {
		return nil, &protocolError{http.StatusUnauthorized, invalidClient, "the client is a public one: it must send client_id and no secret"}
	}
	id := form.Get("client_id")
	if id == "" {
		return nil, reject(invalidRequest, "client_id is missing")
	}
	c := clientOf(id)
	if c == nil {
		return nil, &protocolError{http.StatusUnauthorized, invalidClient, fmt.Sprintf("there is no client %q", printable(id))}
	}
	return c, nil
}

// checkScope returns an error unless the scope of a request is empty or that of the client. Clients of MCP also ask for
// offline_access, if they want a refresh token: all clients get one.
func checkScope(c *oauthClient, form url.Values) error {
	for scope := range strings.FieldsSeq(form.Get("scope")) {
		if scope != c.Scope && (scope != scopeOffline || c.Scope != oauth.ScopeMCP) {
			return reject(invalidScope, "the client %q may not have the scope %q: allowed is %q, which is also the default", c.ID, printable(scope), c.Scope)
		}
	}
	return nil
}

// checkResource returns an error unless the resource that tokens are requested for is one of the account (RFC 8707).
func checkResource(in *request, form url.Values) error {
	switch resource := form.Get("resource"); strings.TrimSuffix(resource, "/") {
	case "", in.url, in.url + mcpPath:
		return nil
	default:
		return reject(invalidTarget, "the resource %q is not one of this account: allowed are %q and %q", printable(resource), in.url, in.url+mcpPath)
	}
}

// writeJSON writes a response of the token endpoint, which no cache may keep.
func writeJSON(w http.ResponseWriter, status int, body any) {
	w.Header().Set("Content-Type", "application/json")
	w.Header().Set("Cache-Control", "no-store")
	w.WriteHeader(status)
	_ = json.NewEncoder(w).Encode(body) // fails only if the client has disconnected
}

// writeProtocolError writes an error for a client.
func writeProtocolError(w http.ResponseWriter, r *http.Request, err error) {
	var known *protocolError
	var tooLarge *http.MaxBytesError
	switch {
	case errors.As(err, &known):
	case errors.As(err, &tooLarge):
		known = &protocolError{http.StatusRequestEntityTooLarge, invalidRequest, fmt.Sprintf("the body is larger than %d bytes", tooLarge.Limit)}
	case errors.Is(err, serving.ErrSlowBody):
		known = &protocolError{http.StatusRequestTimeout, invalidRequest, serving.ErrSlowBody.Error()}
	default:
		known = &protocolError{http.StatusServiceUnavailable, temporarilyUnavailable, unavailable(r, err)}
		w.Header().Set("Retry-After", "1")
	}
	if known.status == http.StatusUnauthorized && r.Header.Get("Authorization") != "" {
		w.Header().Set("WWW-Authenticate", `Basic realm="quoin"`) // RFC 6749, section 5.2
	}
	serving.Annotate(r.Context(), "refused", known.Error())
	writeJSON(w, known.status, map[string]string{"error": known.code, "error_description": known.description})
}

// unavailable logs a server-side failure and returns what the caller may know of it.
func unavailable(r *http.Request, err error) string {
	log.FromContext(r.Context()).Error(err, "Sign-in failed temporarily", "requestID", serving.RequestID(r.Context()))
	switch {
	case errors.Is(err, store.ErrUnavailable):
		return "the database is not available: retry later"
	case errors.Is(err, auth.ErrBusy):
		return "too many sign-ins at a time: retry later"
	}
	return "sign-in is not available now: retry later"
}

// rejected returns the message of an error that is for the user; false for others.
func rejected(err error) (string, bool) {
	var known *content.Error
	if errors.As(err, &known) {
		return known.Message, true
	}
	return "", false
}

// limited admits a limited number of requests for tokens.
func (s *Server) limited(next handler) handler {
	return func(w http.ResponseWriter, r *http.Request, in *request) {
		if wait := s.limits.tokens.take(r, in.account.Name, s.Clock.Now()); wait > 0 {
			writeTooMany(w, r, wait)
			return
		}
		next(w, r, in)
	}
}

// writeTooMany responds to a request beyond a limit. A client that polls for a device continues after slow_down.
func writeTooMany(w http.ResponseWriter, r *http.Request, wait time.Duration) {
	serving.RetryAfter(w, wait)
	code, status := temporarilyUnavailable, http.StatusTooManyRequests
	if r.URL.Path == deviceTokenPath {
		code, status = slowDown, http.StatusBadRequest
	}
	writeProtocolError(w, r, &protocolError{status, code, "too many requests: retry after the time in Retry-After"})
}
