package auth

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"time"

	"golang.org/x/time/rate"
	authenticationv1 "k8s.io/api/authentication/v1"
	authorizationv1 "k8s.io/api/authorization/v1"
	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/quoin-dev/quoin/api/v1alpha1"
)

// Audience is the required audience of ServiceAccount tokens.
const Audience = "quoin"

// The resource whose verbs grant permissions: see the package documentation.
const (
	accessGroup       = "api." + v1alpha1.Group
	accessResource    = "accounts"
	accessSubresource = "proxy"
)

const (
	// reviewedFor is how long reviews are cached.
	reviewedFor = 10 * time.Second
	maxReviewed = 4096
	// reviewsPerSecond and reviewBurst limit reviews, which unauthenticated requests cause.
	reviewsPerSecond = 20
	reviewBurst      = 50
)

// ServiceAccounts authenticates ServiceAccounts by their tokens, with the permissions that Kubernetes
// RBAC grants. Create it with NewServiceAccounts.
type ServiceAccounts struct {
	client   Creator
	limiter  *rate.Limiter
	reviewed *expiringCache[review]
}

// Creator creates objects, as client.Client does.
type Creator interface {
	Create(ctx context.Context, obj client.Object, opts ...client.CreateOption) error
}

// review is the result of the reviews of a token in an account: either a principal or an error.
type review struct {
	principal *Principal
	err       error
}

// NewServiceAccounts returns an authenticator of ServiceAccount tokens. The client's scheme must have
// authentication.k8s.io/v1 and authorization.k8s.io/v1.
func NewServiceAccounts(c Creator, clk clock.PassiveClock) *ServiceAccounts {
	return &ServiceAccounts{
		client:   c,
		limiter:  rate.NewLimiter(reviewsPerSecond, reviewBurst),
		reviewed: newExpiringCache[review](clk, reviewedFor, maxReviewed),
	}
}

// Authenticate implements Authenticator. Reviews are cached for ten seconds.
func (a *ServiceAccounts) Authenticate(ctx context.Context, account *v1alpha1.Account, r *http.Request) (*Principal, error) {
	c, err := credentialOf(r)
	if err != nil {
		return nil, err
	}
	if c.isKey() {
		return nil, otherForm
	}
	spec, err := issuerOf(account, c.jwt)
	if err != nil {
		return nil, err
	}
	if spec != nil {
		return nil, otherForm
	}
	sum := sha256.Sum256([]byte(c.jwt))
	name := account.Name + "/" + string(sum[:])
	known, ok := a.reviewed.get(name)
	if !ok {
		if !a.limiter.Allow() {
			return nil, ErrBusy
		}
		p, err := a.review(ctx, account, c.jwt)
		if err != nil && !errors.Is(err, ErrNoCredential) {
			return nil, err
		}
		known = review{p, err}
		a.reviewed.put(name, known)
	}
	if known.err != nil {
		return nil, known.err
	}
	p := *known.principal
	return &p, nil
}

// review reviews the token and the permissions of its ServiceAccount in the account.
func (a *ServiceAccounts) review(ctx context.Context, account *v1alpha1.Account, jwt string) (*Principal, error) {
	t := &authenticationv1.TokenReview{Spec: authenticationv1.TokenReviewSpec{Token: jwt, Audiences: []string{Audience}}}
	if err := a.client.Create(ctx, t); err != nil {
		return nil, fmt.Errorf("review token: %w", err)
	}
	// A status without audiences comes from an authenticator that did not check them.
	user := t.Status.User
	if !t.Status.Authenticated || !slices.Contains(t.Status.Audiences, Audience) || !strings.HasPrefix(user.Username, "system:serviceaccount:") {
		return nil, unauthenticated("the token is neither from an issuer of the account nor a valid ServiceAccount token for the audience %q", Audience)
	}
	permissions, err := a.permissions(ctx, account, user)
	if err != nil {
		return nil, err
	}
	if permissions == nil {
		return nil, unauthenticated("%s may not use account %q", user.Username, account.Name)
	}
	return &Principal{
		Kind: KindServiceAccount, Account: account.Name, ID: user.Username, Name: user.Username, Permissions: permissions,
	}, nil
}

// permissions returns the permissions that RBAC grants in the account, nil if there are none.
func (a *ServiceAccounts) permissions(ctx context.Context, account *v1alpha1.Account, user authenticationv1.UserInfo) ([]v1alpha1.Permission, error) {
	extra := map[string]authorizationv1.ExtraValue{}
	for key, values := range user.Extra {
		extra[key] = authorizationv1.ExtraValue(values)
	}
	return Granted(func(verb string) (bool, error) {
		s := &authorizationv1.SubjectAccessReview{Spec: authorizationv1.SubjectAccessReviewSpec{
			User: user.Username, UID: user.UID, Groups: user.Groups, Extra: extra,
			ResourceAttributes: &authorizationv1.ResourceAttributes{
				Group: accessGroup, Resource: accessResource, Subresource: accessSubresource, Name: account.Name, Verb: verb,
			},
		}}
		if err := a.client.Create(ctx, s); err != nil {
			return false, fmt.Errorf("review access: %w", err)
		}
		return s.Status.Allowed, nil
	})
}
