package datatokens

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"time"

	"github.com/golang-jwt/jwt/v5"

	"github.com/quoin-dev/quoin/apiserver/rest"
)

// personClaim is the claim with the groups and the user attributes of a person, which access policies of data models read.
const personClaim = "cubeCloud"

// addPerson sets the claim of a token for a person: the one that is given, or a caller with an access token, or with a key that
// has an owner. A security context cannot replace it. Other callers are programs that may issue tokens for their own users: the
// claim is theirs.
func (i *Issuer) addPerson(ctx context.Context, namespace string, given *Person, claims jwt.MapClaims) error {
	p := rest.ScopeFrom(ctx).Principal
	var groups []string
	var attributes map[string]any
	name := p.Name
	switch {
	case given != nil:
		groups, attributes, name = given.Groups, given.Attributes, "external"
	case i.Person == nil || !isPerson(p):
		return nil
	default:
		groups, attributes = i.Person(ctx, namespace, p.User)
	}
	claims[personClaim] = map[string]any{"groups": groups, "userAttributes": attributes}
	size, err := json.Marshal(claims)
	if err != nil {
		return err
	}
	if len(size) > maxClaims {
		return rest.Conflict("the security context, and the %d groups and the attributes of user %q, have %d bytes together; allowed: %d, because a token must fit into a header",
			len(groups), name, len(size), maxClaims)
	}
	return nil
}

// addCredentials adds the access tokens of a person, for the OAuth integrations that the deployment names, to the claim of the
// person. It returns when the token expires: not after any of them.
func (i *Issuer) addCredentials(ctx context.Context, claims jwt.MapClaims, expires time.Time) (time.Time, error) {
	s := rest.ScopeFrom(ctx)
	person, ok := claims[personClaim].(map[string]any)
	if i.Credentials == nil || !ok || s.Principal.User == "" || s.Deployment == nil || len(s.Deployment.Spec.OAuthIntegrations) == 0 {
		return expires, nil
	}
	found, err := i.Credentials(ctx, s.Account, s.Principal.User, s.Deployment)
	if err != nil {
		return expires, err
	}
	if len(found) == 0 {
		return expires, nil
	}
	for _, c := range found {
		if at := c.AccessTokenExpiresAt; at != nil && at.Before(expires) {
			expires = at.Truncate(time.Second)
		}
	}
	person["username"], person["userCredentials"] = s.Principal.Name, found
	size, err := json.Marshal(claims)
	if err != nil {
		return expires, err
	}
	if len(size) > maxClaims {
		return expires, rest.Conflict("the security context, groups and attributes of user %q, and the access tokens of %d OAuth integrations, have %d bytes together; allowed: %d, because a token must fit into a header",
			s.Principal.Name, len(found), len(size), maxClaims)
	}
	return expires, nil
}

// identity returns a text that is equal for equal claims without times. The access tokens of people may select what the database
// shows, so with OAuth integrations it is that of one person.
func identity(s *rest.Scope, claims jwt.MapClaims) (string, error) {
	person := ""
	if s.Deployment != nil && len(s.Deployment.Spec.OAuthIntegrations) > 0 {
		person = string(s.Principal.Kind) + ":" + s.Principal.ID + ":" + s.Principal.User
	}
	text, err := json.Marshal([]any{person, claims})
	if err != nil {
		return "", err
	}
	sum := sha256.Sum256(text)
	return hex.EncodeToString(sum[:]), nil
}
