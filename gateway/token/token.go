// Package token decides which requests a token is good for. It is pure but for Keys, which
// reads the Secrets.
//
// An environment has two kinds of token, told apart by what signed them and by nothing that is
// written in them: data tokens, signed with a secret that the pods know, and metadata tokens,
// signed with a key that only the gateway knows. See DESIGN, decision 7.
package token

import (
	"errors"
	"net/http"
	"strings"
	"time"

	"github.com/golang-jwt/jwt/v5"

	"github.com/quoin-dev/quoin/internal/engine/dataapi"
)

// maxBytes bounds a token. The server's own limit is that of all headers together, 16 KiB.
const maxBytes = 16 << 10

// relayed is how long a token lives that a metadata token is exchanged for. It has to reach a
// pod of this cluster, whose clock may be behind or ahead a little.
const relayed = time.Minute

// Why a token is not taken. The texts are shown to callers.
var (
	// ErrNone says that there is no token.
	ErrNone = errors.New("the header Authorization with a token is missing")
	// ErrAmbiguous says that readers could differ about which token counts.
	ErrAmbiguous = errors.New("more than one Authorization header")
	// ErrTooLarge says that the token cannot be one.
	ErrTooLarge = errors.New("the token is larger than 16 KiB")
	// ErrInvalid says that the token is none of this environment's.
	ErrInvalid = errors.New("the token is not valid for this environment")
	// ErrExpired says that it was.
	ErrExpired = errors.New("the token has expired")
	// ErrNotYet says that it will be.
	ErrNotYet = errors.New("the token is not valid yet")
)

// Kind says what a token may be used for.
type Kind int

// The kinds of tokens.
const (
	// Data tokens may be used for everything.
	Data Kind = iota + 1
	// Metadata tokens may be used for the metadata endpoints only.
	Metadata
)

// Keys are what the tokens of one environment are signed with.
type Keys struct {
	// Data are all secrets that the pods accept, the one to sign with first.
	Data [][]byte
	// Metadata is the key that only the gateway knows; empty when there is none.
	Metadata []byte
}

// Find returns the token of a request as the server would, and the header that it is in. The
// server takes any scheme before the token; here it is none or Bearer, with one space.
func Find(header http.Header) (token, name string, err error) {
	for _, name := range []string{dataapi.HeaderToken, "Authorization"} {
		values := header[name]
		if len(values) > 1 {
			return "", "", ErrAmbiguous
		}
		if len(values) == 0 || values[0] == "" {
			continue
		}
		value := values[0]
		if scheme, after, found := strings.Cut(value, " "); found {
			if !strings.EqualFold(scheme, "Bearer") {
				return "", "", ErrInvalid
			}
			value = after
		}
		switch {
		case len(value) > maxBytes:
			return "", "", ErrTooLarge
		case value == "" || strings.ContainsAny(value, " \t,"):
			return "", "", ErrInvalid
		}
		// The other header must be unambiguous too: what is passed on has both.
		if len(header["Authorization"]) > 1 {
			return "", "", ErrAmbiguous
		}
		return value, name, nil
	}
	return "", "", ErrNone
}

// parser takes HS256 only, whatever the token says of itself. There is no leeway: the server
// has none, and would refuse what was let through here.
func parser(now time.Time) *jwt.Parser {
	return jwt.NewParser(
		jwt.WithValidMethods([]string{jwt.SigningMethodHS256.Alg()}),
		jwt.WithTimeFunc(func() time.Time { return now }),
		jwt.WithStrictDecoding(),
		jwt.WithJSONNumber(), // a security context may hold numbers that no float can
	)
}

// Check says what a token may be used for, and what its claims are.
func (k Keys) Check(token string, now time.Time) (Kind, jwt.MapClaims, error) {
	if claims, err := verify(token, k.Data, now); err == nil || !errors.Is(err, ErrInvalid) {
		return Data, claims, err
	}
	claims, err := verify(token, [][]byte{k.Metadata}, now)
	if err != nil {
		return 0, nil, err
	}
	// The platform makes these tokens, and never one without an end.
	if expiry, err := claims.GetExpirationTime(); err != nil || expiry == nil {
		return 0, nil, ErrInvalid
	}
	return Metadata, claims, nil
}

// verify returns the claims of a token that one of keys has signed. ErrInvalid says that none
// has; all keys are tried with a comparison in constant time.
func verify(token string, keys [][]byte, now time.Time) (jwt.MapClaims, error) {
	set := jwt.VerificationKeySet{}
	for _, key := range keys {
		if len(key) > 0 { // anybody can sign with nothing
			set.Keys = append(set.Keys, key)
		}
	}
	if len(set.Keys) == 0 {
		return nil, ErrInvalid
	}
	claims := jwt.MapClaims{}
	parsed, err := parser(now).ParseWithClaims(token, claims, func(t *jwt.Token) (any, error) {
		if _, critical := t.Header["crit"]; critical { // RFC 7515, section 4.1.11
			return nil, ErrInvalid
		}
		return set, nil
	})
	switch {
	case errors.Is(err, jwt.ErrTokenSignatureInvalid), errors.Is(err, jwt.ErrTokenUnverifiable), errors.Is(err, jwt.ErrTokenMalformed):
		return nil, ErrInvalid
	case errors.Is(err, jwt.ErrTokenExpired):
		return nil, ErrExpired
	case errors.Is(err, jwt.ErrTokenNotValidYet):
		return nil, ErrNotYet
	case err != nil || !parsed.Valid:
		return nil, ErrInvalid
	}
	return claims, nil
}

// Relay makes the data token that a pod gets in place of a metadata token: of the same security
// context, for the next minute and not beyond the end of the other. The scope that it is marked
// with stays, for servers that are configured to look at it.
func (k Keys) Relay(claims jwt.MapClaims, now time.Time) (string, error) {
	if len(k.Data) == 0 || len(k.Data[0]) == 0 {
		return "", errors.New("the environment has no API secret")
	}
	relay := jwt.MapClaims{}
	for name, value := range claims {
		relay[name] = value
	}
	end := now.Add(relayed)
	if expiry, err := claims.GetExpirationTime(); err == nil && expiry != nil && expiry.Before(end) {
		end = expiry.Time
	}
	relay["exp"] = end.Unix()
	return jwt.NewWithClaims(jwt.SigningMethodHS256, relay).SignedString(k.Data[0])
}
