package auth

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strings"

	"github.com/quoin-dev/quoin/api/v1alpha1"
	"github.com/quoin-dev/quoin/internal/apikey"
)

// maxCredential is the maximum length of a credential in bytes. Tokens of users in many groups are
// long.
const maxCredential = 16 << 10

// otherCredential is returned by an authenticator for a credential of another form or issuer: Chain
// tries the next one. The text is returned if there is none.
type otherCredential string

func (e otherCredential) Error() string { return ErrNoCredential.Error() + ": " + string(e) }
func (otherCredential) Unwrap() error   { return ErrNoCredential }

// otherForm is returned for a credential of an unknown form. It contains no part of the header: the
// scheme may be the secret, by mistake.
const otherForm = otherCredential(`the Authorization header must be "Bearer <API key>", "Api-Key <API key>" or "Bearer <JWT>"`)

// OtherForm is returned by authenticators of other packages for a credential of an unknown form: Chain tries the
// next one.
var OtherForm error = otherForm

// Invalid returns an error that wraps ErrNoCredential, with a reason for the caller.
func Invalid(reason string) error { return unauthenticated("%s", reason) }

// unauthenticated returns an error that wraps ErrNoCredential.
func unauthenticated(format string, args ...any) error {
	return fmt.Errorf("%w: "+format, append([]any{ErrNoCredential}, args...)...)
}

// TokenIn returns the token of a request that begins with a prefix; false if the credential has another form. Tokens that Quoin
// issues are accepted with the scheme of API keys too.
func TokenIn(r *http.Request, prefix string) (string, bool) {
	headers := r.Header.Values("Authorization")
	if len(headers) != 1 {
		return "", false
	}
	scheme, value, _ := strings.Cut(headers[0], " ")
	value = strings.Trim(value, " ")
	return value, strings.HasPrefix(value, prefix) && (strings.EqualFold(scheme, "Bearer") || strings.EqualFold(scheme, "Api-Key"))
}

// credential is the parsed Authorization header: either an API key or a JWT.
type credential struct {
	key apikey.Token
	jwt string
}

// isKey reports whether the credential is an API key.
func (c credential) isKey() bool { return c.jwt == "" }

// credentialOf parses the Authorization header (RFC 9110, section 11.6.2). Errors wrap
// ErrNoCredential and contain no part of the header.
func credentialOf(r *http.Request) (credential, error) {
	headers := r.Header.Values("Authorization")
	switch {
	case len(headers) == 0:
		return credential{}, unauthenticated("no Authorization header")
	case len(headers) > 1:
		return credential{}, unauthenticated("more than one Authorization header")
	case len(headers[0]) > maxCredential:
		return credential{}, unauthenticated("the Authorization header is longer than %d bytes", maxCredential)
	}
	scheme, value, _ := strings.Cut(headers[0], " ")
	value = strings.Trim(value, " ")
	bearer := strings.EqualFold(scheme, "Bearer")
	switch {
	case bearer && isJWT(value):
		return credential{jwt: value}, nil
	case strings.EqualFold(scheme, "Api-Key"), bearer && strings.HasPrefix(value, apikey.Prefix):
		token, err := apikey.Parse(value)
		if err != nil {
			return credential{}, unauthenticated("%w", err)
		}
		return credential{key: token}, nil
	}
	return credential{}, otherForm
}

// isJWT reports whether a text has the form of a JWT: three parts in base64url, of which the last is
// empty in an unsecured JWT (RFC 7519, section 6.1).
func isJWT(text string) bool {
	if strings.Count(text, ".") != 2 || strings.HasPrefix(text, ".") || strings.Contains(text, "..") {
		return false
	}
	for i := range len(text) {
		if !inJWT[text[i]] {
			return false
		}
	}
	return true
}

// inJWT are the bytes that a JWT may have.
var inJWT = func() (allowed [256]bool) {
	for _, c := range []byte("ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_.") {
		allowed[c] = true
	}
	return allowed
}()

// basic accepts credentials as passwords.
type basic struct {
	next  Authenticator
	allow func(path string) bool
}

// Basic returns an Authenticator that accepts every credential of next also as the password of
// "Authorization: Basic" (RFC 7617), on some paths: Git clients send no other form. The user name is
// ignored. The path is the decoded one, which is also that of the route.
func Basic(next Authenticator, allow func(path string) bool) Authenticator { return basic{next, allow} }

// Authenticate implements Authenticator.
func (b basic) Authenticate(ctx context.Context, account *v1alpha1.Account, r *http.Request) (*Principal, error) {
	headers := r.Header.Values("Authorization")
	if len(headers) != 1 || len(headers[0]) > maxCredential || !b.allow(r.URL.Path) {
		return b.next.Authenticate(ctx, account, r)
	}
	_, password, ok := r.BasicAuth()
	if !ok {
		return b.next.Authenticate(ctx, account, r)
	}
	inner := new(http.Request)
	*inner = *r
	inner.Header = r.Header.Clone()
	inner.Header.Set("Authorization", "Bearer "+password)
	p, err := b.next.Authenticate(ctx, account, inner)
	var other otherCredential
	if errors.As(err, &other) && other == otherForm {
		return nil, unauthenticated("the password must be an API key or a token")
	}
	return p, err
}

type chain []Authenticator

// Chain returns an Authenticator that returns the result of the first authenticator that accepts the
// form of the credential.
func Chain(authenticators ...Authenticator) Authenticator { return chain(authenticators) }

// Authenticate implements Authenticator.
func (c chain) Authenticate(ctx context.Context, account *v1alpha1.Account, r *http.Request) (*Principal, error) {
	last := otherForm
	for _, a := range c {
		p, err := a.Authenticate(ctx, account, r)
		if err == nil {
			return p, nil
		}
		other, is := err.(otherCredential) //nolint:errorlint // a shortcut for most requests
		if !is && !errors.As(err, &other) {
			return p, err
		}
		if other != otherForm {
			last = other
		}
	}
	return nil, last
}
