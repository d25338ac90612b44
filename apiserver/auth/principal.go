// Package auth turns the credential of a request into a principal, and says what a principal
// may do. Which permission a route needs stands beside the route.
//
// A credential stands in the one Authorization header, but for hooks of Git hosts, which cannot
// send it. Each form has its authenticator, and Chain tries them in turn:
//
//   - no such header, on the one path for them: GitHooks.
//   - "Bearer <API key>" or "Api-Key <API key>": Keys. LastUsed notes when.
//   - "Bearer <JWT>" of one of the account's spec.oidcIssuers: OIDC.
//   - "Bearer <JWT>" of any other issuer: ServiceAccounts, which asks the cluster.
//
// A ServiceAccount of the cluster presents a token for the audience "quoin". What it may do in
// an account is what the cluster's RBAC allows it to do with the subresource "proxy" of the
// resource "accounts" of the API group api.platform.quoin.dev, by the name of the account:
//
//	get     DeploymentRead, SchemaRead
//	update  those and DeploymentsManage
//	delete  Admin
//
// The same goes for users of the Kubernetes API on the aggregated way (Granted). A ServiceAccount
// that may do none of these is not recognised. The front end's own role needs get, list
// and watch on apikeys, deployments and scimusers, patch on apikeys/status, create on
// tokenreviews.authentication.k8s.io and subjectaccessreviews.authorization.k8s.io, and get on
// the secrets of accounts whose deployments take hooks.
//
// Errors tell a missing from a malformed, an expired from a revoked credential; the latter two
// only to whoever has shown the whole of it. A fault on this side, such as an API server or an
// issuer that does not answer, never looks like a wrong credential.
package auth

import (
	"context"
	"errors"
	"net/http"
	"slices"

	"github.com/quoin-dev/quoin/api/v1alpha1"
	"github.com/quoin-dev/quoin/internal/permission"
)

// Kind says by what a principal was recognised.
type Kind string

// The kinds of principals.
const (
	// KindAPIKey is an ApiKey of the account.
	KindAPIKey Kind = "ApiKey"
	// KindUser is a person, by an access token of one of the account's OIDC issuers.
	KindUser Kind = "User"
	// KindServiceAccount is a ServiceAccount of the cluster, by its token.
	KindServiceAccount Kind = "ServiceAccount"
	// KindKubernetes is a user of the Kubernetes API, on the aggregated way.
	KindKubernetes Kind = "Kubernetes"
	// KindGitHook is the Git host of a deployment, by the secret that they share.
	KindGitHook Kind = "GitHook"
)

// Principal is who asks, in one account.
type Principal struct {
	// Kind says by what it was recognised.
	Kind Kind
	// Account is the name of the account.
	Account string
	// ID is what the principal is called for good: the name of the ApiKey object, the subject
	// of a token, the name of a Kubernetes user.
	ID string
	// Name shown to people: the key's display name, a user's name.
	Name string
	// Email of the user that the principal is or acts for; empty when there is none.
	Email string
	// User is the ScimUser, by object name, that the principal is or acts for; empty when there
	// is none.
	User string
	// ScimProfile is how the principal's SCIM requests are answered; empty to tell it by the
	// client's own marks.
	ScimProfile v1alpha1.ScimProfile
	// Permissions held.
	Permissions []v1alpha1.Permission
	// Deployments that the principal is confined to, by object name; nil is all of them.
	Deployments []string
}

// May reports whether the principal holds a permission or one that implies it. Every principal
// holds the empty permission.
func (p *Principal) May(needed v1alpha1.Permission) bool {
	return needed == "" || slices.ContainsFunc(p.Permissions, func(held v1alpha1.Permission) bool {
		return permission.Name(held).Includes(permission.Name(needed))
	})
}

// LimitedFor reports whether the principal is limited to certain deployments while the permission
// acts on the whole account: the request is then forbidden.
func (p *Principal) LimitedFor(needed v1alpha1.Permission) bool {
	return p.Deployments != nil && permission.Name(needed).AccountWide()
}

// Reaches tells whether a deployment, by object name, is in the principal's scope.
func (p *Principal) Reaches(deployment string) bool {
	return p.Deployments == nil || slices.Contains(p.Deployments, deployment)
}

// ErrNoCredential says that a request has no credential, or one that is malformed, unknown,
// expired or revoked. The text of the errors that wrap it may be shown to the caller: it
// never holds any part of the credential.
var ErrNoCredential = errors.New("not authenticated")

// Authenticator recognises who asks.
type Authenticator interface {
	// Authenticate returns the principal of a request to an account. The error wraps
	// ErrNoCredential when the caller is to blame (401); any other is a fault on this side.
	Authenticate(ctx context.Context, account *v1alpha1.Account, r *http.Request) (*Principal, error)
}

type contextKey struct{}

// With returns a context that knows the principal.
func With(ctx context.Context, p *Principal) context.Context {
	return context.WithValue(ctx, contextKey{}, p)
}

// From is the principal of a request that has passed authentication; nil otherwise.
func From(ctx context.Context) *Principal {
	p, _ := ctx.Value(contextKey{}).(*Principal)
	return p
}
