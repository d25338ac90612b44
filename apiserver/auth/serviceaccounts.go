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

	"golang.org/x/sync/singleflight"
	authenticationv1 "k8s.io/api/authentication/v1"
	authorizationv1 "k8s.io/api/authorization/v1"
	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/quoin-dev/quoin/api/v1alpha1"
	"github.com/quoin-dev/quoin/apiserver/access"
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
	// reviewTimeout is the timeout of the reviews of a token.
	reviewTimeout = 30 * time.Second
	// expirySkew is the clock skew that kube-apiserver tolerates.
	expirySkew = time.Minute
	// usernamePrefix is the prefix of the user names of ServiceAccounts, and of the subjects of their tokens.
	usernamePrefix = "system:serviceaccount:"
)

// reviewAllowance limits reviews of unknown tokens, which unauthenticated requests cause.
var reviewAllowance = allowance{address: rates{5, 20}, account: rates{10, 40}, total: rates{50, 100}}

// ServiceAccounts authenticates ServiceAccounts by their tokens, with the permissions that Kubernetes
// RBAC grants. Create it with NewServiceAccounts.
type ServiceAccounts struct {
	client Creator
	clock  clock.PassiveClock
	budget *budget
	flight singleflight.Group
	// granted and refused are the cached reviews, apart so that refused tokens displace no others.
	granted, refused *expiringCache[string, review]
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
		client: c, clock: clk,
		budget:  newBudget(clk, reviewAllowance),
		granted: newExpiringCache[string, review](clk, reviewedFor, maxReviewed),
		refused: newExpiringCache[string, review](clk, reviewedFor, maxReviewed),
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
	if !a.isPlausible(c.jwt) {
		return nil, errNoServiceAccount
	}
	sum := sha256.Sum256([]byte(c.jwt))
	found, err := a.reviewed(ctx, account, c.jwt, string(sum[:]))
	if err != nil {
		return nil, err
	}
	if found.err != nil {
		return nil, found.err
	}
	p := *found.principal
	return &p, nil
}

// errNoServiceAccount is returned for an invalid token.
var errNoServiceAccount = unauthenticated("the token is neither from an issuer of the account nor a valid ServiceAccount token for the audience %q", Audience)

// isPlausible reports whether a token may be a ServiceAccount token for Quoin by its unverified content.
// Tokens that are not are refused without a TokenReview. The issuer is not checked: a cluster accepts
// those of earlier configurations.
func (a *ServiceAccounts) isPlausible(jwt string) bool {
	header, headerErr := unverifiedPart(jwt, 0)
	unverified, claimsErr := unverifiedClaims(jwt)
	if headerErr != nil || claimsErr != nil {
		return false
	}
	algorithm, _ := header.text("alg")
	_, issued := unverified.text("iss")
	subject, _ := unverified.text("sub")
	expires, _ := unverified["exp"].(float64)
	return slices.Contains(algorithms, algorithm) && issued &&
		strings.HasPrefix(subject, usernamePrefix) && strings.Count(subject, ":") == 3 &&
		slices.Contains(unverified.texts("aud"), Audience) &&
		expires > float64(a.clock.Now().Add(-expirySkew).Unix())
}

// reviewed returns the cached review of a token with a hash in an account, or reviews it. Concurrent
// requests with the same token share a review.
func (a *ServiceAccounts) reviewed(ctx context.Context, account *v1alpha1.Account, jwt, hash string) (review, error) {
	name := account.Name + "/" + hash
	for _, cache := range []*expiringCache[string, review]{a.granted, a.refused} {
		if known, ok := cache.get(name); ok {
			return known, nil
		}
	}
	// Not with the request's context: other requests wait for the same result.
	shared := context.WithoutCancel(ctx)
	done := a.flight.DoChan(name, func() (any, error) {
		if err := a.budget.spend(shared, account.Name, hash); err != nil {
			return review{}, err
		}
		shared, cancel := context.WithTimeout(shared, reviewTimeout)
		defer cancel()
		p, err := a.review(shared, account, jwt)
		switch {
		case err == nil:
			a.granted.put(name, review{principal: p})
			a.budget.prove(shared, account.Name, hash)
		case errors.Is(err, ErrNoCredential), errors.Is(err, ErrForbidden):
			a.refused.put(name, review{err: err})
			a.budget.disprove(account.Name, hash)
		default:
			return review{}, err
		}
		return review{p, err}, nil
	})
	select {
	case <-ctx.Done():
		return review{}, ctx.Err()
	case result := <-done:
		found, _ := result.Val.(review)
		return found, result.Err
	}
}

// review reviews the token and the permissions of its ServiceAccount in the account.
func (a *ServiceAccounts) review(ctx context.Context, account *v1alpha1.Account, jwt string) (*Principal, error) {
	t := &authenticationv1.TokenReview{Spec: authenticationv1.TokenReviewSpec{Token: jwt, Audiences: []string{Audience}}}
	if err := a.client.Create(ctx, t); err != nil {
		return nil, fmt.Errorf("review token: %w", err)
	}
	// A status without audiences comes from an authenticator that did not check them.
	user := t.Status.User
	if !t.Status.Authenticated || !slices.Contains(t.Status.Audiences, Audience) || !strings.HasPrefix(user.Username, usernamePrefix) {
		return nil, errNoServiceAccount
	}
	grants, err := a.grants(ctx, account, user)
	if err != nil {
		return nil, err
	}
	if grants == nil {
		return nil, fmt.Errorf("%w: %s may not use account %q", ErrForbidden, user.Username, account.Name)
	}
	return &Principal{
		Kind: KindServiceAccount, Account: account.Name, ID: user.Username, Name: user.Username, Grants: grants,
	}, nil
}

// permissions returns the permissions that RBAC grants in the account, nil if there are none.
func (a *ServiceAccounts) grants(ctx context.Context, account *v1alpha1.Account, user authenticationv1.UserInfo) (access.Grants, error) {
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
