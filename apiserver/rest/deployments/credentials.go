package deployments

import (
	"context"
	"encoding/json"
	"time"

	"github.com/golang-jwt/jwt/v5"

	"github.com/quoin-dev/quoin/apiserver/rest"
)

// addCredentials adds the access tokens of a person, for the OAuth integrations that the deployment names, to the claim of the
// person. It returns when the token expires: not after any of them.
func (a *api) addCredentials(ctx context.Context, claims jwt.MapClaims, expires time.Time) (time.Time, error) {
	s := rest.ScopeFrom(ctx)
	person, ok := claims[personClaim].(map[string]any)
	if a.Credentials == nil || !ok || s.Principal.User == "" || s.Deployment == nil || len(s.Deployment.Spec.OAuthIntegrations) == 0 {
		return expires, nil
	}
	found, err := a.Credentials(ctx, s.Account, s.Principal.User, s.Deployment)
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
