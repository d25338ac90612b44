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

// maxCredential bounds a credential, in bytes. Tokens of people in many groups are long.
const maxCredential = 16 << 10

// ErrBusy says that a credential cannot be judged right now, because too many that nobody
// knows were shown in a short time. It is a fault on this side, to be answered as 503.
var ErrBusy = errors.New("too many look-ups of unknown credentials")

// otherCredential says that a credential is not of the form, or not of the issuer, that an
// authenticator is for: Chain goes on to the next one. The text is for when there is none.
type otherCredential string

func (e otherCredential) Error() string { return ErrNoCredential.Error() + ": " + string(e) }
func (otherCredential) Unwrap() error   { return ErrNoCredential }

// otherForm is the answer to a credential of none of the forms. It names no part of the
// header: whoever mixes up the scheme may have written the secret in its place.
const otherForm = otherCredential(`the Authorization header must be "Bearer <API key>", "Api-Key <API key>" or "Bearer <JWT>"`)

// refused is an error that the caller is to blame for.
func refused(format string, args ...any) error {
	return fmt.Errorf("%w: "+format, append([]any{ErrNoCredential}, args...)...)
}

// credential is what stands in the Authorization header: one of the two.
type credential struct {
	key apikey.Token
	jwt string
}

// isKey tells whether it is an API key.
func (c credential) isKey() bool { return c.jwt == "" }

// credentialOf reads the Authorization header (RFC 9110, section 11.6.2). Every error wraps
// ErrNoCredential and holds no part of the header.
func credentialOf(r *http.Request) (credential, error) {
	headers := r.Header.Values("Authorization")
	switch {
	case len(headers) == 0:
		return credential{}, refused("no Authorization header")
	case len(headers) > 1:
		return credential{}, refused("more than one Authorization header")
	case len(headers[0]) > maxCredential:
		return credential{}, refused("the Authorization header is longer than %d bytes", maxCredential)
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
			return credential{}, refused("%w", err)
		}
		return credential{key: token}, nil
	}
	return credential{}, otherForm
}

// isJWT tells whether a text has the form of a signed JWT: three parts in base64url, of which
// the last is empty where nothing is signed (RFC 7519, section 6.1).
func isJWT(text string) bool {
	if strings.Count(text, ".") != 2 || strings.HasPrefix(text, ".") || strings.Contains(text, "..") {
		return false
	}
	return strings.IndexFunc(text, func(c rune) bool {
		return (c < '0' || c > '9') && (c < 'A' || c > 'Z') && (c < 'a' || c > 'z') && c != '-' && c != '_' && c != '.'
	}) < 0
}

type chain []Authenticator

// Chain is an Authenticator that asks others in turn until one is for the credential. The
// answer of that one counts, whatever it is.
func Chain(authenticators ...Authenticator) Authenticator { return chain(authenticators) }

// Authenticate implements Authenticator.
func (c chain) Authenticate(ctx context.Context, account *v1alpha1.Account, r *http.Request) (*Principal, error) {
	last := otherForm
	for _, a := range c {
		p, err := a.Authenticate(ctx, account, r)
		var other otherCredential
		if !errors.As(err, &other) {
			return p, err
		}
		if other != otherForm {
			last = other
		}
	}
	return nil, last
}
