package signin

import (
	"cmp"
	"context"
	"errors"
	"net/http"
	"net/url"
	"regexp"
	"time"

	"github.com/quoin-dev/quoin/apiserver/auth"
	"github.com/quoin-dev/quoin/apiserver/clientcredentials"
	"github.com/quoin-dev/quoin/internal/content/oauth"
)

// token serves the token endpoint (RFC 6749, section 3.2).
func (s *Server) token(w http.ResponseWriter, r *http.Request, in *request) { s.grant(w, r, in, "") }

// refreshOnly serves the path at which the command line refreshes its tokens.
func (s *Server) refreshOnly(w http.ResponseWriter, r *http.Request, in *request) {
	s.grant(w, r, in, refreshGrant)
}

// deviceOnly serves the path at which the command line polls.
func (s *Server) deviceOnly(w http.ResponseWriter, r *http.Request, in *request) {
	s.grant(w, r, in, deviceGrant)
}

// tokenResponse is the response of the token endpoint (RFC 6749, section 5.1).
type tokenResponse struct {
	AccessToken  string `json:"access_token"`
	TokenType    string `json:"token_type"`
	ExpiresIn    int    `json:"expires_in"` // seconds
	RefreshToken string `json:"refresh_token,omitempty"`
	Scope        string `json:"scope"`
}

// grant exchanges a grant for tokens. If only is not empty, no other grant type is accepted.
func (s *Server) grant(w http.ResponseWriter, r *http.Request, in *request, only string) {
	issued, err := s.issue(r, in, only)
	if err != nil {
		writeProtocolError(w, r, err)
		return
	}
	writeJSON(w, http.StatusOK, issued)
}

func (s *Server) issue(r *http.Request, in *request, only string) (*tokenResponse, error) {
	form, err := formOf(r)
	if err != nil {
		return nil, err
	}
	if only == "" && form.Get("grant_type") == clientGrant && s.Programs != nil {
		return s.issueToProgram(r, in, form)
	}
	if s.Store == nil {
		return nil, reject(unsupportedGrantType, "the grant type is %q: others need a database, and quoin apiserver has no --database-url", clientGrant)
	}
	tokens, err := s.exchange(r, in, form, only)
	if err != nil {
		return nil, err
	}
	return &tokenResponse{
		AccessToken: tokens.Access, TokenType: "Bearer", ExpiresIn: int(oauth.AccessLifetime / time.Second),
		RefreshToken: tokens.Refresh, Scope: cmp.Or(tokens.Grant.Scope, oauth.ScopeAll),
	}, nil
}

// issueToProgram issues an access token to a program with an API key. Without refresh token: the program asks again.
func (s *Server) issueToProgram(r *http.Request, in *request, form url.Values) (*tokenResponse, error) {
	id, secret, err := secretIn(r, form)
	if err != nil {
		return nil, err
	}
	if scope := form.Get("scope"); scope != "" && scope != oauth.ScopeAll {
		return nil, reject(invalidScope, "the scope %q is not allowed: the token has the permissions of the API key, and the scope is %q or empty", printable(scope), oauth.ScopeAll)
	}
	if err := checkResource(in, form); err != nil {
		return nil, err
	}
	token, err := s.Programs.Issue(r.Context(), in.account, id, secret)
	if errors.Is(err, auth.ErrNoCredential) {
		return nil, &protocolError{http.StatusUnauthorized, invalidClient, err.Error()}
	}
	if err != nil {
		return nil, err
	}
	return &tokenResponse{AccessToken: token, TokenType: "Bearer", ExpiresIn: int(clientcredentials.Lifetime / time.Second), Scope: oauth.ScopeAll}, nil
}

// exchange exchanges the grant of a person.
func (s *Server) exchange(r *http.Request, in *request, form url.Values, only string) (*oauth.Tokens, error) {
	c, err := clientIn(r, form)
	if err != nil {
		return nil, err
	}
	kind := form.Get("grant_type")
	switch {
	case kind == "":
		return nil, reject(invalidRequest, "grant_type is missing")
	case only != "" && kind != only:
		return nil, reject(unsupportedGrantType, "the grant type of this endpoint is %q", only)
	}
	if err := errors.Join(checkScope(c, form), checkResource(in, form)); err != nil {
		return nil, err
	}
	// Before the exchange, which uses the secret up: a client that gets a 503 tries again with the same one.
	if err := s.checkHolder(r.Context(), in, form.Get(secretOf[kind])); err != nil {
		return nil, err
	}
	switch kind {
	case codeGrant:
		return s.redeem(r, in, c, form)
	case refreshGrant:
		return s.refresh(r, in, c, form)
	case deviceGrant:
		return s.poll(r, in, c, form)
	}
	return nil, reject(unsupportedGrantType, "the grant types are %q", s.grantTypes())
}

// secretOf are the parameters with what is exchanged, by grant type.
var secretOf = map[string]string{codeGrant: "code", refreshGrant: "refresh_token", deviceGrant: "device_code"}

// checkHolder returns an error unless the person who has granted what a secret is exchanged for is active. A secret that does not
// exist is no error.
func (s *Server) checkHolder(ctx context.Context, in *request, secret string) error {
	if secret == "" || len(secret) > maxToken {
		return nil
	}
	p, err := s.Store.Holder(ctx, string(in.account.UID), secret)
	if p == nil || err != nil {
		return err
	}
	_, err = s.person(ctx, in, *p)
	if errors.Is(err, auth.ErrNoCredential) {
		return reject(invalidGrant, "the user is deactivated or was deleted, or the account no longer has the issuer of the user")
	}
	return err
}

var (
	// verifierForm is that of RFC 7636, section 4.1.
	verifierForm = regexp.MustCompile(`^[A-Za-z0-9._~-]{43,128}$`)
	// challengeForm is that of a code challenge of the method S256: 32 bytes in base64url.
	challengeForm = regexp.MustCompile(`^[A-Za-z0-9_-]{43}$`)
)

// maxToken is the maximum length of a secret in a request in bytes.
const maxToken = 512

func (s *Server) redeem(r *http.Request, in *request, c *oauthClient, form url.Values) (*oauth.Tokens, error) {
	code, verifier := form.Get("code"), form.Get("code_verifier")
	switch {
	case code == "":
		return nil, reject(invalidRequest, "code is missing")
	case !verifierForm.MatchString(verifier):
		return nil, reject(invalidRequest, "code_verifier is required: 43 to 128 letters, digits and . _ ~ -")
	case len(code) > maxToken:
		return nil, reject(invalidGrant, "the authorization code is invalid")
	}
	tokens, err := s.Store.Redeem(r.Context(), in.stored(), oauth.Redemption{Code: code, ClientID: c.ID, RedirectURI: form.Get("redirect_uri"), Verifier: verifier})
	return tokens, grantError("the authorization code", err)
}

func (s *Server) refresh(r *http.Request, in *request, c *oauthClient, form url.Values) (*oauth.Tokens, error) {
	token := form.Get("refresh_token")
	switch {
	case token == "":
		return nil, reject(invalidRequest, "refresh_token is missing")
	case len(token) > maxToken:
		return nil, reject(invalidGrant, "the refresh token is invalid")
	}
	tokens, err := s.Store.Refresh(r.Context(), in.stored(), c.ID, token)
	return tokens, grantError("the refresh token", err)
}

// grantError returns the error for an invalid grant; other errors as they are.
func grantError(what string, err error) error {
	for _, known := range []error{oauth.ErrUnknown, oauth.ErrReused, oauth.ErrMismatch} {
		if errors.Is(err, known) {
			return reject(invalidGrant, "%s is invalid: %s", what, known)
		}
	}
	return err
}

// revoke serves the revocation endpoint (RFC 7009).
func (s *Server) revoke(w http.ResponseWriter, r *http.Request, in *request) {
	form, err := formOf(r)
	var c *oauthClient
	if err == nil {
		c, err = clientIn(r, form)
	}
	token := form.Get("token")
	switch {
	case err != nil:
	case token == "":
		err = reject(invalidRequest, "token is missing")
	case len(token) <= maxToken:
		err = s.Store.Revoke(r.Context(), in.stored(), c.ID, token)
	}
	if err != nil {
		writeProtocolError(w, r, err)
		return
	}
	w.WriteHeader(http.StatusOK)
}
