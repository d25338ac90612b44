package oidctoken

import (
	"bytes"
	"crypto/rand"
	"encoding/json"
	"fmt"
	"hash/fnv"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/golang-jwt/jwt/v5"

	"github.com/quoin-dev/quoin/api/v1alpha1"
	"github.com/quoin-dev/quoin/internal/engine"
)

// Lifetime is the lifetime of tokens.
const Lifetime = time.Hour

const (
	// renewBefore is how long before its expiry a token is renewed at the latest: the kubelet updates files after up to
	// two minutes, and a controller that fails has the rest of the time to recover.
	renewBefore = 20 * time.Minute
	// spread is the time over which renewals of several deployments are spread, and batch that of one reconciliation.
	spread, batch = 5 * time.Minute, time.Minute
)

// claimQuoin is the claim with what a token was issued for.
const claimQuoin = "platform.quoin.dev"

// timeClaims are the claims that differ between tokens for the same purpose.
var timeClaims = []string{"exp", "iat", "jti", "nbf"}

// Workload is what a token is issued for.
type Workload struct {
	Account *v1alpha1.Account
	// Deployment and ID are the name and the number of the deployment.
	Deployment, ID string
	// Component is one of engine.TokenComponents.
	Component string
	// Region is the region of the cluster.
	Region string
}

// Subject returns the subject of the tokens of a configuration for a workload.
func Subject(c *v1alpha1.OidcTokenConfig, w Workload) string {
	format := c.Spec.SubjectFormat
	if format == "" {
		format = "deployment:{deployment_id}"
	}
	return strings.NewReplacer("{deployment_id}", w.ID, "{component}", w.Component, "{region}", w.Region).Replace(format)
}

// Claims returns the claims of the tokens of a configuration for a workload, without times and the token's id.
func Claims(c *v1alpha1.OidcTokenConfig, w Workload) (map[string]any, error) {
	claims := map[string]any{}
	for i := range c.Spec.CustomClaims {
		claim := &c.Spec.CustomClaims[i]
		value, err := decode(claim.Value.Raw)
		if err != nil {
			return nil, fmt.Errorf("customClaims[%s]: %w", claim.Name, err)
		}
		claims[claim.Name] = value
	}
	issuer := Issuer(w.Account)
	claims["iss"], claims["aud"], claims["sub"] = issuer, Audience(c, issuer), Subject(c, w)
	claims[claimQuoin] = map[string]any{
		"account": w.Account.Name, "deployment": w.Deployment, "deployment_id": w.ID, "component": w.Component, "region": w.Region,
	}
	return claims, nil
}

// Sign returns a token with claims of Claims, which expires after Lifetime.
func Sign(claims map[string]any, key *PrivateKey, now time.Time) (string, error) {
	all := maps.Clone(claims)
	all["iat"], all["nbf"], all["exp"], all["jti"] = now.Unix(), now.Unix(), now.Add(Lifetime).Unix(), rand.Text()
	token := jwt.NewWithClaims(jwt.SigningMethodRS256, jwt.MapClaims(all))
	token.Header["kid"] = key.ID
	signed, err := token.SignedString(key.private)
	if err != nil {
		return "", fmt.Errorf("sign token: %w", err)
	}
	return signed, nil
}

// Issued describes a token that was issued.
type Issued struct {
	// KeyID is that of the key that signed it.
	KeyID string
	// Expiry is when it expires.
	Expiry time.Time
	// claims are the claims without times, as canonical JSON.
	claims []byte
}

// Read returns the description of a token without verifying it; false if it is not a token.
func Read(token string) (Issued, bool) {
	claims := jwt.MapClaims{}
	parsed, _, err := jwt.NewParser(jwt.WithJSONNumber()).ParseUnverified(token, claims)
	if err != nil {
		return Issued{}, false
	}
	expiry, err := claims.GetExpirationTime()
	if err != nil || expiry == nil {
		return Issued{}, false
	}
	keyID, _ := parsed.Header["kid"].(string)
	for _, name := range timeClaims {
		delete(claims, name)
	}
	canonical, err := json.Marshal(claims)
	return Issued{keyID, expiry.Time, canonical}, err == nil
}

// IsCurrent reports whether a token need not be replaced: it has these claims of Claims, one of the keys verifies it, and
// it is not to be renewed yet. deployment is the UID of the deployment.
func (i Issued) IsCurrent(claims map[string]any, keys []v1alpha1.OidcTokenKey, deployment string, now time.Time) bool {
	want, err := json.Marshal(claims)
	return err == nil && bytes.Equal(want, i.claims) &&
		slices.ContainsFunc(keys, func(k v1alpha1.OidcTokenKey) bool { return k.ID == i.KeyID }) &&
		now.Before(i.RenewalTime(deployment).Add(-batch))
}

// RenewalTime returns when a token is renewed at the latest. It differs between deployments, by their UID.
func (i Issued) RenewalTime(deployment string) time.Time {
	h := fnv.New64a()
	_, _ = h.Write([]byte(deployment))
	return i.Expiry.Add(-renewBefore - time.Duration(h.Sum64()%uint64(spread)))
}

// SecretKeys returns the keys of a configuration in the Secrets of deployments, by component.
func SecretKeys(config string) map[string]string {
	keys := map[string]string{}
	for _, component := range engine.TokenComponents {
		keys[component] = engine.TokenKey(config, component)
	}
	return keys
}
