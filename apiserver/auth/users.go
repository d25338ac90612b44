package auth

import (
	"context"
	"fmt"
	"slices"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/quoin-dev/quoin/api/v1alpha1"
	"github.com/quoin-dev/quoin/internal/claims"
	"github.com/quoin-dev/quoin/internal/fold"
)

// +kubebuilder:rbac:groups=platform.quoin.dev,resources=claims,verbs=get

// Users finds users; *directory.Directory implements it.
type Users interface {
	// UsersNamed returns the ScimUsers in a namespace with a user name, ignoring case, also those that lost it to
	// another one. They are shared and must not be modified.
	UsersNamed(namespace, userName string) []*v1alpha1.ScimUser
}

const (
	// unknownUserFor is how long a user that SCIM does not know is not looked up again. A user that is deleted
	// was known, and is looked up then.
	unknownUserFor = time.Minute
	// maxUnknownUsers bounds the memory for such users: callers with valid tokens.
	maxUnknownUsers = 10_000
)

// ActiveUsers finds users and rejects those that were deactivated, or deprovisioned and deleted. Create it with
// NewActiveUsers.
type ActiveUsers struct {
	users Users
	live  client.Reader
	// gone are users without a ScimUser by namespace and name; true if they were deprovisioned.
	gone *expiringCache[string, bool]
}

// NewActiveUsers returns an ActiveUsers. live reads from the Kubernetes API server.
func NewActiveUsers(users Users, live client.Reader, clk clock.PassiveClock) *ActiveUsers {
	return &ActiveUsers{users: users, live: live, gone: newExpiringCache[string, bool](clk, unknownUserFor, maxUnknownUsers)}
}

// named returns the ScimUser of a user name, nil if there is none: users that were never provisioned are
// accepted. It is shared and must not be modified. It returns an error if the ScimUser is deactivated, or was deprovisioned and deleted.
func (u *ActiveUsers) named(ctx context.Context, namespace, userName string) (*v1alpha1.ScimUser, error) {
	// Of several ScimUsers with the name, only one holds it.
	users := slices.DeleteFunc(u.users.UsersNamed(namespace, userName), func(u *v1alpha1.ScimUser) bool { return claims.IsNameTaken(u) })
	if slices.ContainsFunc(users, func(u *v1alpha1.ScimUser) bool { return !u.IsActive() }) {
		return nil, unauthenticated("the user is not active")
	}
	switch len(users) {
	case 0:
		return nil, u.checkDeprovisioned(ctx, namespace, userName)
	case 1:
		return users[0], nil
	}
	return nil, nil
}

// checkDeprovisioned returns an error if a user, who has no ScimUser, was deprovisioned.
func (u *ActiveUsers) checkDeprovisioned(ctx context.Context, namespace, userName string) error {
	key := namespace + "/" + fold.Case(userName)
	deprovisioned, known := u.gone.get(key)
	if !known {
		var err error
		if deprovisioned, err = claims.IsDeprovisioned(ctx, u.live, namespace, userName); err != nil {
			return fmt.Errorf("check whether the user was deprovisioned: %w", err)
		}
		u.gone.put(key, deprovisioned)
	}
	if deprovisioned {
		return unauthenticated("the user was deprovisioned")
	}
	return nil
}

// userOf returns the ScimUser with an object name, nil if there is none.
func userOf(ctx context.Context, from client.Reader, namespace, name string) (*v1alpha1.ScimUser, error) {
	u := &v1alpha1.ScimUser{}
	err := from.Get(ctx, client.ObjectKey{Namespace: namespace, Name: name}, u)
	if apierrors.IsNotFound(err) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("read user %q: %w", name, err)
	}
	return u, nil
}
