// Package auth authenticates requests and decides which permissions a principal holds. The
// permission that a route requires is declared with the route.
//
// The credential is in the Authorization header, except for webhooks of Git hosts, which cannot send
// it, and for the exchange of a deploy token. Each form has an authenticator; Chain tries them in order:
//
//   - no Authorization header, on the two webhook paths only: GitHooks.
//   - a JWT with the id of a deploy token, with or without "Bearer", or in the body of the route that
//     exchanges it: DeployTokens.
//   - "Bearer <API key>" or "Api-Key <API key>": Keys. LastUsed records the time.
//   - "Bearer <access token>" that the account's authorization server has issued: signin.NewAuthenticator for people,
//     clientcredentials.Tokens for programs with an API key.
//   - "Bearer <JWT>" of one of the account's spec.oidcIssuers: OIDC.
//   - "Bearer <JWT>" of any other issuer: ServiceAccounts, which uses TokenReviews.
//
// A ServiceAccount presents a token for the audience "quoin". Its permissions in an account are those
// that Kubernetes RBAC grants with verbs on the subresource "proxy" of the resource "accounts" in the
// API group api.platform.quoin.dev, by the name of the account; internal/permission has the table. The
// same applies to callers of the aggregated API (Granted). A ServiceAccount without any of the verbs
// gets ErrForbidden.
//
// Quoin's API server needs get, list and watch on apikeys, deployments and scimusers, patch on
// apikeys/status, create on tokenreviews.authentication.k8s.io and
// subjectaccessreviews.authorization.k8s.io, and get on the Secrets of deployments with webhooks.
//
// Errors distinguish missing, malformed, expired and revoked credentials; the last two only if the
// caller presented a complete, valid secret. Server-side failures, such as an unavailable Kubernetes
// API server or issuer, are never reported as an invalid credential.
package auth

import (
	"context"
	"errors"
	"net/http"

	"github.com/quoin-dev/quoin/api/v1alpha1"
	"github.com/quoin-dev/quoin/apiserver/access"
)

// Kind is the type of a principal's credential.
type Kind string

// The kinds of principals.
const (
	// KindAPIKey is an ApiKey of the account.
	KindAPIKey Kind = "ApiKey"
	// KindUser is a user with an access token of one of the account's OIDC issuers, or of its authorization server.
	KindUser Kind = "User"
	// KindServiceAccount is a ServiceAccount of the cluster.
	KindServiceAccount Kind = "ServiceAccount"
	// KindKubernetes is a Kubernetes user who calls the aggregated API.
	KindKubernetes Kind = "Kubernetes"
	// KindGitHook is the Git host of a deployment, authenticated by a shared secret.
	KindGitHook Kind = "GitHook"
	// KindDeployToken is a program with a deploy token or a Git token of a deployment.
	KindDeployToken Kind = "DeployToken"
)

// Principal is the authenticated caller in an account.
type Principal struct {
	// Kind of its credential.
	Kind Kind
	// Account is the name of the account.
	Account string
	// ID is the stable identifier: the name of the ApiKey object, the issuer and the subject of a token, the name
	// of a Kubernetes user.
	ID string
	// Name in user interfaces: the key's display name, the user's name.
	Name string
	// Email of the user that the principal is or acts on behalf of; empty if there is none.
	Email string
	// User is the object name of the ScimUser that the principal is or acts on behalf of; empty if
	// there is none. UserUID is its UID: the name can be that of another ScimUser later.
	User, UserUID string
	// UserName is the SCIM userName of a user, also of one without a ScimUser; empty for other kinds.
	UserName string
	// ScimProfile is the SCIM client that responses are adapted to; empty to detect it.
	ScimProfile v1alpha1.ScimProfile
	// Creator is <kind>:<id> of the principal that created a deploy token, on whose branches its live previews
	// are; empty for others, also for Git tokens. CreatorName is a name for readers.
	Creator, CreatorName string
	// Issuer and Groups are those of a user's token, if the issuer gives the groups permissions. A key that the user creates
	// has them too, because they are not known later.
	Issuer string
	Groups []string
	// Grants are the permissions held.
	access.Grants
	// HasRole is true if the principal is a user, or acts on behalf of one, whose permissions are those of roles,
	// and not those of every user of the account.
	HasRole bool
}

// ErrNoCredential is returned for a request without credential, or with a malformed, unknown,
// expired or revoked one. Errors that wrap it may be returned to the caller: they contain no part of
// the credential.
var ErrNoCredential = errors.New("not authenticated")

// ErrForbidden is returned for a valid credential without any permission in the account (403). Errors
// that wrap it may be returned to the caller.
var ErrForbidden = errors.New("not authorized")

// Authenticator authenticates callers.
type Authenticator interface {
	// Authenticate returns the principal of a request to an account. The error wraps ErrNoCredential
	// if the credential is invalid (401), ErrForbidden if it is valid without a permission in the account
	// (403), and ErrBusy if it cannot be checked now (429 or 503); any other error is a server-side
	// failure.
	Authenticate(ctx context.Context, account *v1alpha1.Account, r *http.Request) (*Principal, error)
}

type contextKey struct{}

// With returns a context with the principal.
func With(ctx context.Context, p *Principal) context.Context {
	return context.WithValue(ctx, contextKey{}, p)
}

// From returns the principal of an authenticated request, nil if there is none.
func From(ctx context.Context) *Principal {
	p, _ := ctx.Value(contextKey{}).(*Principal)
	return p
}

// again authenticates the caller of a request once more.
type again func(context.Context) (*Principal, error)

type againKey struct{}

// WithAgain returns a context in which Again calls a function.
func WithAgain(ctx context.Context, authenticate func(context.Context) (*Principal, error)) context.Context {
	return context.WithValue(ctx, againKey{}, again(authenticate))
}

// Again returns the caller of a request as it is now, for requests that take minutes: the error is that of
// Authenticator.Authenticate if the credential is no longer valid. It is the same principal if the request was not authenticated
// here, but by the Kubernetes API server.
func Again(ctx context.Context) (*Principal, error) {
	if authenticate, ok := ctx.Value(againKey{}).(again); ok {
		return authenticate(ctx)
	}
	return From(ctx), nil
}
