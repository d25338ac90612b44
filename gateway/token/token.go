// Package token authorizes requests by their token. It is pure except for Store, which reads
// Secrets.
//
// An environment has two kinds of token, distinguished by the key that signed them: data tokens,
// signed with a secret that the pods know, and metadata tokens, signed with a key that only the
// gateway knows. Tokens of people may be limited by a claim; those that must not read metadata are
// signed with the key of the gateway, so that a pod does not accept them over a WebSocket.
package token

import (
	"errors"
	"net/http"
	"strings"
	"time"

	"github.com/golang-jwt/jwt/v5"

	"github.com/quoin-dev/quoin/internal/engine/dataapi"
)

// maxBytes is the maximum size of a token: the server's limit for all headers together, 16 KiB.
const maxBytes = 16 << 10

// exchangedLifetime is the lifetime of the data token that a metadata token is exchanged for. It
// covers the way to a pod of the cluster, whose clock may differ slightly.
const exchangedLifetime = time.Minute

// Reasons for rejecting a token. The texts are shown to callers.
var (
	// ErrNone means that the request has no token.
	ErrNone = errors.New("the header Authorization with a token is missing")
	// ErrAmbiguous means that the request has more than one token.
	ErrAmbiguous = errors.New("more than one Authorization header")
	// ErrTooLarge means that the token exceeds the maximum size.
	ErrTooLarge = errors.New("the token is larger than 16 KiB")
	// ErrInvalid means that the token is malformed or not signed for this environment.
	ErrInvalid = errors.New("the token is not valid for this environment")
	// ErrExpired means that the token's exp is in the past.
	ErrExpired = errors.New("the token has expired")
	// ErrNotYet means that the token's nbf is in the future.
	ErrNotYet = errors.New("the token is not valid yet")
)

// Kind is what a token may be used for: a set of the following.
type Kind uint8

// What tokens may be used for.
const (
	ReadMetadata Kind = 1 << iota
	RunQueries
	RunSQL
	// ofGateway tokens are signed with the key that only the gateway knows, and exchanged for those that pods accept.
	ofGateway
)

// The kinds of tokens that are not limited to what a person may do.
const (
	// Data tokens may be used for everything.
	Data = ReadMetadata | RunQueries | RunSQL
	// Metadata tokens may be used for the metadata endpoints only.
	Metadata = ReadMetadata | ofGateway
)

// May reports whether a token may be used for something.
func (k Kind) May(what Kind) bool { return k&what == what }

// limited returns the part of a kind that the claims of a token permit: those of a person may have a list of permissions.
func (k Kind) limited(claims jwt.MapClaims) Kind {
	listed, isLimited := claims[dataapi.ClaimPermissions]
	if !isLimited {
		return k
	}
	allowed := ofGateway
	names, _ := listed.([]any)
	for _, name := range names {
		switch name {
		case "DeploymentRead":
			allowed |= RunQueries
		case "SchemaRead":
			allowed |= ReadMetadata
		case "SqlRunnerRead":
			allowed |= RunSQL
		}
	}
	return k & allowed
}

// Keys are the signing keys of the tokens of one environment.
type Keys struct {
	// Data are all secrets that the pods accept, the one to sign with first.
	Data [][]byte
	// Metadata is the key that only the gateway knows; empty for none.
	Metadata []byte
}

// Find returns the token of a request, with the precedence of the server, and the name of its
// header. The server accepts any scheme before the token; Find accepts none or Bearer, with one
// space.
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
		// The other header must be unambiguous too: both are forwarded.
		if len(header["Authorization"]) > 1 {
			return "", "", ErrAmbiguous
		}
		return value, name, nil
	}
	return "", "", ErrNone
}

// parser returns a parser that accepts HS256 only, whatever the token's header. Clock skew is not
// tolerated: the server does not tolerate it either, and would reject the token.
func parser(now time.Time) *jwt.Parser {
	return jwt.NewParser(
		jwt.WithValidMethods([]string{jwt.SigningMethodHS256.Alg()}),
		jwt.WithTimeFunc(func() time.Time { return now }),
		jwt.WithStrictDecoding(),
		jwt.WithJSONNumber(), // a security context may hold numbers that no float can
	)
}

// Check verifies a token and returns its kind and its claims.
func (k Keys) Check(token string, now time.Time) (Kind, jwt.MapClaims, error) {
	if claims, err := verify(token, k.Data, now); err == nil || !errors.Is(err, ErrInvalid) {
		return Data.limited(claims), claims, err
	}
	claims, err := verify(token, [][]byte{k.Metadata}, now)
	if err != nil {
		return 0, nil, err
	}
	// Every such token that Quoin issues has an expiry.
	if expiry, err := claims.GetExpirationTime(); err != nil || expiry == nil {
		return 0, nil, ErrInvalid
	}
	if _, ofPerson := claims[dataapi.ClaimPermissions]; ofPerson {
		return (Data | ofGateway).limited(claims), claims, nil
	}
	return Metadata, claims, nil
}

// verify returns the claims of a token that one of keys has signed, or ErrInvalid if none has.
// Signatures are compared in constant time.
func verify(token string, keys [][]byte, now time.Time) (jwt.MapClaims, error) {
	set := jwt.VerificationKeySet{}
	for _, key := range keys {
		if len(key) > 0 { // an empty key is no secret
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

// Exchange returns the data token that a pod receives in place of one of the gateway's key: with the same
// security context, valid for a minute at most and no longer than that token. Its scope
// claim is kept, for servers that are configured to check it.
func (k Keys) Exchange(claims jwt.MapClaims, now time.Time) (string, error) {
	if len(k.Data) == 0 || len(k.Data[0]) == 0 {
		return "", errors.New("the environment has no API secret")
	}
	exchanged := jwt.MapClaims{}
	for name, value := range claims {
		exchanged[name] = value
	}
	expires := now.Add(exchangedLifetime)
	if expiry, err := claims.GetExpirationTime(); err == nil && expiry != nil && expiry.Before(expires) {
		expires = expiry.Time
	}
	exchanged["exp"] = expires.Unix()
	return jwt.NewWithClaims(jwt.SigningMethodHS256, exchanged).SignedString(k.Data[0])
}
