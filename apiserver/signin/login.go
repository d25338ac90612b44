package signin

import (
	"context"
	"crypto/rand"
	"crypto/sha256"
	"crypto/subtle"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"time"

	"golang.org/x/oauth2"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/quoin-dev/quoin/api/v1alpha1"
	"github.com/quoin-dev/quoin/apiserver/auth"
	"github.com/quoin-dev/quoin/internal/audit"
	"github.com/quoin-dev/quoin/internal/content/oauth"
	"github.com/quoin-dev/quoin/internal/serving"
)

const (
	// loginCookie binds a sign-in to the browser that has begun it.
	loginCookie = "__Host-quoin-login"
	// loginLifetime is the time that a person has at the issuer.
	loginLifetime = 10 * time.Minute
	// maxReturn is the maximum length of the address to return to in bytes: cookies have at most 4 KiB.
	maxReturn = 2500
)

// pendingLogin is a sign-in that has begun: the value of loginCookie. State, nonce and verifier are known to the
// browser and to Quoin only, so a sign-in that was begun in another browser cannot end in this one.
type pendingLogin struct {
	Issuer   string `json:"issuer"`
	State    string `json:"state"`
	Nonce    string `json:"nonce"`
	Verifier string `json:"verifier"`
	Return   string `json:"return"`
}

// issuerID returns the id of an issuer in paths. Each issuer has a redirect URI of its own, so that a response
// of one is not taken for that of another (RFC 9700, section 4.4.2.2).
func issuerID(issuerURL string) string {
	sum := sha256.Sum256([]byte(issuerURL))
	return hex.EncodeToString(sum[:8])
}

// issuerWith returns the issuer of an account with an id; nil if there is none.
func issuerWith(account *v1alpha1.Account, id string) *v1alpha1.OIDCIssuer {
	all := issuers(account)
	i := slices.IndexFunc(all, func(spec *v1alpha1.OIDCIssuer) bool { return issuerID(spec.URL) == id })
	if i < 0 {
		return nil
	}
	return all[i]
}

// loginURL returns the address that returns to a page after signing in.
func loginURL(page *url.URL) string {
	return loginPath + "?" + url.Values{"return": {page.RequestURI()}}.Encode()
}

// returns are the pages to which a sign-in may return.
var returns = []string{authorizePath, devicePath, sessionsPath}

// returnTo returns the page to return to: one of this server, whatever the text is.
func returnTo(text string) string {
	u, err := url.Parse(text)
	if err != nil || len(text) > maxReturn || u.Scheme != "" || u.Host != "" || u.User != nil || !slices.Contains(returns, u.Path) && !isIntegrationPath(u.Path) {
		return sessionsPath
	}
	return (&url.URL{Path: u.Path, RawQuery: u.Query().Encode()}).String()
}

// login begins a sign-in: at the only issuer, or at the one that the person chooses.
func (s *Server) login(w http.ResponseWriter, r *http.Request, in *request) {
	query := r.URL.Query()
	all, page := issuers(in.account), returnTo(query.Get("return"))
	id := query.Get("issuer")
	if len(all) == 1 && id == "" {
		id = issuerID(all[0].URL)
	}
	spec := issuerWith(in.account, id)
	switch {
	case len(all) == 0:
		s.fail(w, r, http.StatusNotFound, "Sign-in is not set up", "This account has no identity provider for signing in. An administrator sets clientID of an issuer in oidcIssuers of the Account. API keys work without it.")
	case spec != nil:
		s.begin(w, r, in, spec, page)
	default:
		type choice struct{ Name, Link string }
		var choices []choice
		for _, one := range all {
			link := loginPath + "?" + url.Values{"issuer": {issuerID(one.URL)}, "return": {page}}.Encode()
			choices = append(choices, choice{issuerName(one), link})
		}
		s.render(w, r, http.StatusOK, "choice", pageData{Title: "Sign in", Content: map[string]any{"Choices": choices}})
	}
}

func issuerName(spec *v1alpha1.OIDCIssuer) string {
	if spec.DisplayName != "" {
		return spec.DisplayName
	}
	return hostOf(spec.URL)
}

// begin redirects to an issuer.
func (s *Server) begin(w http.ResponseWriter, r *http.Request, in *request, spec *v1alpha1.OIDCIssuer, page string) {
	if wait := s.limits.logins.take(r, in.account.Name, s.Clock.Now()); wait > 0 {
		s.failTooMany(w, r, wait)
		return
	}
	endpoints, _, err := s.People.Endpoints(r.Context(), spec.URL)
	if err != nil {
		s.failUnavailable(w, r, err)
		return
	}
	started := pendingLogin{Issuer: spec.URL, State: rand.Text(), Nonce: rand.Text(), Verifier: oauth2.GenerateVerifier(), Return: page}
	value, err := json.Marshal(started)
	if err != nil {
		s.failUnavailable(w, r, err)
		return
	}
	setCookie(w, loginCookie, base64.RawURLEncoding.EncodeToString(value), loginLifetime)
	config := exchangeConfig(in, spec, endpoints, "")
	redirectTo(w, r, config.AuthCodeURL(started.State, oauth2.S256ChallengeOption(started.Verifier), oauth2.SetAuthURLParam("nonce", started.Nonce)))
}

// exchangeConfig returns the configuration of Quoin as a client of an issuer.
func exchangeConfig(in *request, spec *v1alpha1.OIDCIssuer, endpoints auth.Endpoints, secret string) *oauth2.Config {
	style := oauth2.AuthStyleInHeader
	if secret == "" || len(endpoints.AuthMethods) > 0 && !slices.Contains(endpoints.AuthMethods, "client_secret_basic") {
		style = oauth2.AuthStyleInParams
	}
	scopes := []string{"openid", "email", "profile"}
	if slices.Contains(endpoints.Scopes, "groups") { // an issuer rejects those that it does not know
		scopes = append(scopes, "groups")
	}
	return &oauth2.Config{
		ClientID: spec.ClientID, ClientSecret: secret, RedirectURL: in.url + callbackPath + issuerID(spec.URL), Scopes: scopes,
		Endpoint: oauth2.Endpoint{AuthURL: endpoints.Authorization, TokenURL: endpoints.Token, AuthStyle: style},
	}
}

// loginError is a sign-in that failed for a reason that the person can be told.
type loginError struct {
	// text is for the person, and reason for the audit log.
	text, reason string
	actor        audit.Actor
}

func (e *loginError) Error() string { return e.reason }

// callback ends a sign-in: it serves the redirect of an issuer (OpenID Connect Core 1.0, section 3.1.2.5).
func (s *Server) callback(w http.ResponseWriter, r *http.Request, in *request) {
	if wait := s.limits.logins.take(r, in.account.Name, s.Clock.Now()); wait > 0 {
		s.failTooMany(w, r, wait)
		return
	}
	started, spec, err := pendingOf(r, in)
	var person oauth.Person
	if err == nil {
		deleteCookie(w, loginCookie) // it ends one sign-in
		person, err = s.authenticate(r, in, spec, started)
	}
	var failed *loginError
	switch {
	case errors.As(err, &failed):
		s.recordFailure(r.Context(), in, failed.actor, failed.reason)
		s.fail(w, r, http.StatusBadRequest, "You are not signed in", failed.text)
		return
	case err != nil:
		s.failUnavailable(w, r, err)
		return
	}
	previous := ""
	if in.browser != nil {
		previous = in.browser.secret
	}
	started.Return = returnTo(started.Return)
	_, secret, err := s.Store.StartSession(r.Context(), in.stored(), oauth.Session{Person: person, Address: address(r), UserAgent: printableAgent(r)}, previous)
	if text, ok := rejected(err); ok {
		s.recordFailure(r.Context(), in, audit.Actor{}, text)
		s.fail(w, r, http.StatusBadRequest, "You are not signed in", text)
		return
	}
	if err != nil {
		s.failUnavailable(w, r, err)
		return
	}
	setCookie(w, sessionCookie, secret, oauth.SessionLifetime)
	redirectTo(w, r, started.Return)
}

// pendingOf returns the sign-in that a redirect of an issuer ends, and its issuer. The browser must have begun it.
func pendingOf(r *http.Request, in *request) (*pendingLogin, *v1alpha1.OIDCIssuer, error) {
	const again = "The sign-in was not begun in this browser, or has expired. Sign in again."
	started := &pendingLogin{}
	cookie, err := r.Cookie(loginCookie)
	if err == nil {
		var value []byte
		if value, err = base64.RawURLEncoding.DecodeString(cookie.Value); err == nil {
			err = json.Unmarshal(value, started)
		}
	}
	if err != nil || started.State == "" {
		return nil, nil, &loginError{text: again, reason: "the browser has not begun a sign-in"}
	}
	query := r.URL.Query()
	spec := issuerWith(in.account, r.PathValue("issuer"))
	switch {
	case checkOnce(query) != nil, subtle.ConstantTimeCompare([]byte(query.Get("state")), []byte(started.State)) != 1:
		return nil, nil, &loginError{text: again, reason: "the state is not the one that the browser has begun with"}
	case spec == nil || spec.URL != started.Issuer:
		return nil, nil, &loginError{text: again, reason: "the response is that of another issuer"}
	}
	return started, spec, nil
}

// authenticate exchanges the code of an issuer and returns the person.
func (s *Server) authenticate(r *http.Request, in *request, spec *v1alpha1.OIDCIssuer, started *pendingLogin) (oauth.Person, error) {
	query, none := r.URL.Query(), oauth.Person{}
	endpoints, httpClient, err := s.People.Endpoints(r.Context(), spec.URL)
	if err != nil {
		return none, err
	}
	// RFC 9207, section 2.4.
	if given := query.Get("iss"); given != spec.URL && (given != "" || endpoints.SendsIssuer) {
		return none, &loginError{text: "The response is that of another identity provider. Sign in again.", reason: "the response has the parameter iss of another issuer"}
	}
	if code := query.Get("error"); code != "" {
		return none, &loginError{text: "The identity provider has rejected the sign-in: " + printable(code) + ".", reason: "the issuer has rejected the sign-in: " + printable(code)}
	}
	secret, err := s.clientSecret(r.Context(), in.account, spec)
	if err != nil {
		return none, err
	}
	ctx := context.WithValue(r.Context(), oauth2.HTTPClient, httpClient)
	token, err := exchangeConfig(in, spec, endpoints, secret).Exchange(ctx, query.Get("code"), oauth2.VerifierOption(started.Verifier))
	var refused *oauth2.RetrieveError
	switch {
	case errors.As(err, &refused) && refused.Response != nil && refused.Response.StatusCode < http.StatusInternalServerError:
		reason := "the issuer has rejected the code: " + printable(refused.ErrorCode)
		return none, &loginError{text: "The identity provider has rejected the sign-in. Sign in again.", reason: reason}
	case errors.As(err, &refused) && refused.Response != nil: // its text has the response, which may have tokens
		return none, fmt.Errorf("OIDC issuer %s: the token endpoint has responded with %d", spec.URL, refused.Response.StatusCode)
	case err != nil:
		return none, fmt.Errorf("OIDC issuer %s: exchange a code: %w", spec.URL, err)
	}
	jwt, _ := token.Extra("id_token").(string)
	claims, err := s.People.IDToken(r.Context(), in.account, spec, started.Nonce, jwt)
	if errors.Is(err, auth.ErrNoCredential) {
		return none, &loginError{text: "The identity provider has sent an invalid ID token. Sign in again.", reason: err.Error()}
	}
	if err != nil {
		return none, err
	}
	return s.admit(r.Context(), in, spec, claims)
}

// admit returns the person with claims, unless the person may not sign in.
func (s *Server) admit(ctx context.Context, in *request, spec *v1alpha1.OIDCIssuer, claims auth.Claims) (oauth.Person, error) {
	p := oauth.Person{Issuer: spec.URL, Claims: claims}
	p.Subject, _ = claims["sub"].(string)
	principal, err := s.person(ctx, in, p)
	if errors.Is(err, auth.ErrNoCredential) {
		email, _ := claims["email"].(string)
		text := strings.TrimPrefix(err.Error(), auth.ErrNoCredential.Error()+": ")
		return p, &loginError{text: "You cannot sign in: " + text + ".", reason: text, actor: audit.Actor{Kind: audit.ActorUser, ID: p.Subject, Email: email}}
	}
	if err != nil {
		return p, err
	}
	p.UserUID = principal.UserUID
	return p, nil
}

// clientSecret returns the secret of Quoin as a client of an issuer; empty for a public client.
func (s *Server) clientSecret(ctx context.Context, account *v1alpha1.Account, spec *v1alpha1.OIDCIssuer) (string, error) {
	ref := spec.ClientSecretRef
	if ref == nil {
		return "", nil
	}
	held := &corev1.Secret{}
	err := s.Secrets.Get(ctx, client.ObjectKey{Namespace: account.Spec.Namespace, Name: ref.Name}, held)
	value := strings.TrimRight(string(held.Data[ref.Key]), "\r\n")
	switch {
	case apierrors.IsForbidden(err):
		return "", fmt.Errorf("bind ClusterRole quoin-account-apiserver to quoin apiserver with a RoleBinding in namespace %q: %w", account.Spec.Namespace, err)
	case err != nil:
		return "", fmt.Errorf("read the client secret of OIDC issuer %s: %w", spec.URL, err)
	case value == "":
		return "", fmt.Errorf("OIDC issuer %s: Secret %q has no key %q", spec.URL, ref.Name, ref.Key)
	}
	return value, nil
}

// printableAgent returns the user agent of a request.
func printableAgent(r *http.Request) string {
	return strings.Map(func(c rune) rune {
		if c < ' ' || c >= 0x7f {
			return -1
		}
		return c
	}, r.UserAgent())
}

// failTooMany responds to a sign-in beyond a limit.
func (s *Server) failTooMany(w http.ResponseWriter, r *http.Request, wait time.Duration) {
	serving.RetryAfter(w, wait)
	s.fail(w, r, http.StatusTooManyRequests, "Too many sign-ins", "Wait a minute and try again.")
}
