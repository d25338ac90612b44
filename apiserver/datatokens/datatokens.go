// Package datatokens signs tokens for the data APIs of environments: those that callers create over REST, and those with which
// Quoin runs queries for them. Contents decides what a token permits, Issuer signs it.
package datatokens

import (
	"context"
	"encoding/json"
	"maps"
	"slices"
	"time"

	"github.com/golang-jwt/jwt/v5"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/quoin-dev/quoin/api/v1alpha1"
	"github.com/quoin-dev/quoin/apiserver/auth"
	"github.com/quoin-dev/quoin/apiserver/rest"
	"github.com/quoin-dev/quoin/apiserver/usertokens"
	"github.com/quoin-dev/quoin/internal/engine"
	"github.com/quoin-dev/quoin/internal/engine/dataapi"
	"github.com/quoin-dev/quoin/internal/kube"
)

// maxContext is the largest security context in bytes: the token must fit into a header.
const maxContext = 8 << 10

// maxClaims is the largest size of the claims of a person's token in bytes. In base64, with its signature, the token fits
// into the 16 KiB of headers that the data-plane server accepts.
const maxClaims = 11 << 10

// Issuer signs tokens.
type Issuer struct {
	// Kube reads the keys.
	Kube *kube.Client
	// Person returns the names of the groups of a ScimUser and its user attributes, from the cache; "" is a person without one.
	// Tokens have neither if it is nil.
	Person func(ctx context.Context, namespace, user string) (groups []string, attributes map[string]any)
	// Credentials returns the access tokens of a ScimUser for the OAuth integrations that a deployment names, by type; nil
	// without a database.
	Credentials func(ctx context.Context, a *v1alpha1.Account, user string, d *v1alpha1.Deployment) (map[string]usertokens.Credential, error)
	// Now is the clock.
	Now func() time.Time
}

// Token is a signed token.
type Token struct {
	// JWT is the token.
	JWT                  string
	CreatedAt, ExpiresAt time.Time
	// SecurityContext is that of the contents, not nil.
	SecurityContext map[string]any
	// Identity is equal for tokens with which the data plane answers queries equally: those with the same claims, apart from
	// times and access tokens.
	Identity string
}

// Contents are what a token is issued for.
type Contents struct {
	// SecurityContext is the security context.
	SecurityContext map[string]any
	// MetadataOnly is true if the token reads metadata, and queries no data.
	MetadataOnly bool
	// Permissions are what a person may do with a data token, if it is not all.
	Permissions []v1alpha1.Permission
	// Person is whom the token is for, if it is not the caller.
	Person *Person
}

// Person is a person who is no user of the account: the groups and the user attributes.
type Person struct {
	Groups     []string
	Attributes map[string]any
}

// ofGateway reports whether the token is signed with the key that only the gateway has: pods do not accept it themselves.
func (c *Contents) ofGateway() bool {
	return c.MetadataOnly || c.Permissions != nil && !slices.Contains(c.Permissions, v1alpha1.PermissionSchemaRead)
}

// For returns the contents of a data token for the caller, who holds DeploymentRead. With DeploymentUpdate, it is a token for
// anyone, with the security context of the request. Otherwise it is a token for the caller only, who must be a person with a role:
// the security context is not that of the request, which could name any user.
func For(ctx context.Context, securityContext map[string]any) (Contents, error) {
	s := rest.ScopeFrom(ctx)
	if MayEdit(s) {
		return Contents{SecurityContext: securityContext, Permissions: PermissionsOf(s)}, nil
	}
	if !isPerson(s.Principal) || !s.Principal.HasRole {
		return Contents{}, Lacks(s, v1alpha1.PermissionDeploymentUpdate)
	}
	return Contents{Permissions: PermissionsOf(s)}, nil
}

// PermissionsOf returns what the caller may do with a data token: nil if it is all, and for programs.
func PermissionsOf(s *rest.Scope) []v1alpha1.Permission {
	if !isPerson(s.Principal) {
		return nil
	}
	held, all := []v1alpha1.Permission{v1alpha1.PermissionDeploymentRead}, []v1alpha1.Permission{v1alpha1.PermissionSchemaRead, v1alpha1.PermissionSqlRunnerRead}
	for _, p := range all {
		if s.Principal.MayOn(p, s.Deployment.Name) {
			held = append(held, p)
		}
	}
	if len(held) == 1+len(all) {
		return nil
	}
	return held
}

// MayEdit reports whether the caller may create tokens for others.
func MayEdit(s *rest.Scope) bool {
	return s.Principal.MayOn(v1alpha1.PermissionDeploymentUpdate, s.Deployment.Name)
}

// Lacks returns the error for a caller who lacks a permission on the deployment.
func Lacks(s *rest.Scope, needed v1alpha1.Permission) error {
	return rest.Forbidden("%s %q does not hold the permission %s on deployment %s", s.Principal.Kind, s.Principal.Name, needed, s.Deployment.Labels[v1alpha1.LabelID])
}

// isPerson reports whether the caller is a person: it has an access token, or a key with an owner.
func isPerson(p *auth.Principal) bool { return p.User != "" || p.Kind == auth.KindUser }

// reserved are the claims that the platform sets. They are removed from a security context.
var reserved = []string{"iat", "exp", "nbf", "iss", "aud", "sub", "jti", "scope", dataapi.ClaimPermissions}

// Sign returns a token for the caller (docs/decisions/0003). Data tokens are signed with the secret that the pods have, metadata
// tokens and data tokens that must not read metadata with a key that only the gateway has.
func (i *Issuer) Sign(ctx context.Context, e *v1alpha1.Environment, in Contents, lifetime time.Duration) (*Token, error) {
	out := &Token{SecurityContext: in.SecurityContext, CreatedAt: i.Now().UTC().Truncate(time.Second)}
	if out.SecurityContext == nil {
		out.SecurityContext = map[string]any{}
	}
	if size, err := json.Marshal(out.SecurityContext); err != nil || len(size) > maxContext {
		return nil, rest.BadRequest("security_context: larger than %d bytes", maxContext)
	}
	secret, key := engine.CredentialsName(e.Name), engine.KeyAPISecret
	if in.ofGateway() {
		secret, key = engine.GatewayCredentialsName(e.Name), engine.KeyMetadata
	}
	stored := &corev1.Secret{}
	if err := i.Kube.Live().Get(ctx, client.ObjectKey{Namespace: e.Namespace, Name: secret}, stored); err != nil {
		if apierrors.IsNotFound(err) {
			return nil, rest.Conflict("environment %s of the deployment is not set up yet: its conditions show why", e.Labels[v1alpha1.LabelID])
		}
		return nil, err
	}
	claims := jwt.MapClaims(maps.Clone(out.SecurityContext))
	for _, name := range reserved {
		delete(claims, name)
	}
	if err := i.addPerson(ctx, e.Namespace, in.Person, claims); err != nil {
		return nil, err
	}
	if in.Permissions != nil {
		claims[dataapi.ClaimPermissions] = in.Permissions
	}
	if in.MetadataOnly {
		claims["scope"] = []string{"meta"}
	}
	var err error
	if out.Identity, err = identity(rest.ScopeFrom(ctx), claims); err != nil {
		return nil, err
	}
	out.ExpiresAt = out.CreatedAt.Add(lifetime)
	if !in.MetadataOnly && in.Person == nil {
		if out.ExpiresAt, err = i.addCredentials(ctx, claims, out.ExpiresAt); err != nil {
			return nil, err
		}
	}
	claims["iat"], claims["exp"] = out.CreatedAt.Unix(), out.ExpiresAt.Unix()
	out.JWT, err = jwt.NewWithClaims(jwt.SigningMethodHS256, claims).SignedString(stored.Data[key])
	return out, err
}
