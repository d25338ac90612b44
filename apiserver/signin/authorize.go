package signin

import (
	"net/http"
	"net/url"

	"github.com/quoin-dev/quoin/internal/content/oauth"
)

// maxState is the maximum length of the parameter state in bytes.
const maxState = 2 << 10

// authorization is a valid authorization request.
type authorization struct {
	client                     *oauthClient
	redirect, state, challenge string
}

// authorizationOf returns the authorization request in parameters (RFC 6749, section 4.1.1; RFC 7636). If err is
// not nil, the user agent may be redirected with it only if the authorization is not nil.
func authorizationOf(in *request, values url.Values) (*authorization, error) {
	// Before the redirect URI is known to be the client's, nothing is sent to it.
	for _, name := range []string{"client_id", "redirect_uri"} {
		if len(values[name]) != 1 {
			return nil, reject(invalidRequest, "%s must be given once", name)
		}
	}
	c := clientOf(values.Get("client_id"))
	if c == nil {
		return nil, reject(invalidClient, "there is no client %q", printable(values.Get("client_id")))
	}
	redirect := values.Get("redirect_uri")
	if !c.allows(in, redirect) {
		return nil, reject(invalidRequest, "the redirect URI is not registered for the client %q", c.ID)
	}
	a := &authorization{client: c, redirect: redirect}
	if err := checkOnce(values); err != nil {
		return a, err
	}
	if a.state = values.Get("state"); len(a.state) > maxState {
		a.state = ""
		return a, reject(invalidRequest, "state is longer than %d bytes", maxState)
	}
	a.challenge = values.Get("code_challenge")
	switch {
	case values.Get("response_type") != "code":
		return a, reject(unsupportedResponseType, "response_type must be code")
	case values.Get("response_mode") != "" && values.Get("response_mode") != "query":
		return a, reject(invalidRequest, "response_mode must be query")
	case values.Get("code_challenge_method") != "S256" || !challengeForm.MatchString(a.challenge):
		return a, reject(invalidRequest, "PKCE is required: code_challenge_method=S256 and code_challenge")
	case values.Has("request") || values.Has("request_uri"):
		return a, reject(invalidRequest, "request and request_uri are not supported")
	}
	if err := checkResource(in, values); err != nil {
		return a, err
	}
	return a, checkScope(c, values)
}

// answer returns the redirect URI with the parameters of a response and iss (RFC 9207).
func (a *authorization) answer(in *request, parameters map[string]string) string {
	u, err := url.Parse(a.redirect)
	if err != nil {
		return "" // allows has parsed it
	}
	query := u.Query()
	for name, value := range parameters {
		query.Set(name, value)
	}
	query.Set("iss", in.url)
	if a.state != "" {
		query.Set("state", a.state)
	}
	u.RawQuery = query.Encode()
	return u.String()
}

// authorize serves the authorization endpoint: it asks the person for consent, after signing in.
func (s *Server) authorize(w http.ResponseWriter, r *http.Request, in *request) {
	values, err := url.ParseQuery(r.URL.RawQuery)
	if err != nil {
		s.fail(w, r, http.StatusBadRequest, "The link is malformed", "The query of the address cannot be parsed.")
		return
	}
	a, err := authorizationOf(in, values)
	if err != nil {
		s.rejectAuthorization(w, r, in, a, err)
		return
	}
	if in.browser == nil {
		redirectTo(w, r, loginURL(r.URL))
		return
	}
	if a.client.Trusted {
		s.issueCode(w, r, in, a)
		return
	}
	s.render(w, r, http.StatusOK, "consent", pageData{
		Title: "Allow access?", FormTargets: []string{originOf(a.redirect)},
		Content: map[string]any{"Client": a.client.Name, "Queries": a.client.Scope == oauth.ScopeMCP, "Redirect": originOf(a.redirect), "Parameters": single(values), "Action": authorizePath},
	})
}

// consent serves the form of the page of consent.
func (s *Server) consent(w http.ResponseWriter, r *http.Request, in *request) {
	a, err := authorizationOf(in, r.PostForm)
	switch {
	case err != nil:
		s.rejectAuthorization(w, r, in, a, err)
	case r.PostForm.Get("decision") == "allow":
		s.issueCode(w, r, in, a)
	default:
		redirectTo(w, r, a.answer(in, map[string]string{"error": accessDenied, "error_description": "the user has denied access"}))
	}
}

// rejectAuthorization responds to an invalid authorization request.
func (s *Server) rejectAuthorization(w http.ResponseWriter, r *http.Request, in *request, a *authorization, err error) {
	known, _ := err.(*protocolError) //nolint:errorlint // authorizationOf returns no other
	if a == nil {
		s.fail(w, r, http.StatusBadRequest, "The application has sent an invalid request", "Reason: "+known.description+".")
		return
	}
	redirectTo(w, r, a.answer(in, map[string]string{"error": known.code, "error_description": known.description}))
}

// issueCode redirects to the client with an authorization code.
func (s *Server) issueCode(w http.ResponseWriter, r *http.Request, in *request, a *authorization) {
	code, err := s.Store.IssueCode(r.Context(), in.stored(), oauth.Code{
		ClientID: a.client.ID, Scope: a.client.Scope, RedirectURI: a.redirect, Challenge: a.challenge, Person: in.browser.session.Person, Address: address(r),
	})
	if err != nil {
		s.failUnavailable(w, r, err)
		return
	}
	redirectTo(w, r, a.answer(in, map[string]string{"code": code}))
}

// single returns the first value of each parameter.
func single(values url.Values) map[string]string {
	all := map[string]string{}
	for name := range values {
		all[name] = values.Get(name)
	}
	return all
}

// originOf returns scheme, host and port of a URI.
func originOf(uri string) string {
	u, err := url.Parse(uri)
	if err != nil {
		return ""
	}
	return u.Scheme + "://" + u.Host
}
