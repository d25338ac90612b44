package auth

import (
	"context"
	"fmt"
	"slices"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/utils/clock"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/quoin-dev/quoin/api/v1alpha1"
	"github.com/quoin-dev/quoin/apiserver/access"
	"github.com/quoin-dev/quoin/internal/accountrole"
	"github.com/quoin-dev/quoin/internal/claims"
	"github.com/quoin-dev/quoin/internal/fold"
)

// +kubebuilder:rbac:groups=platform.quoin.dev,resources=claims,verbs=get

// Users finds users; *directory.Directory implements it.
type Users interface {
	// UsersNamed returns the ScimUsers in a namespace with a user name, ignoring case, also those that lost it to
	// another one. They are shared and must not be modified.
	UsersNamed(namespace, userName string) []*v1alpha1.ScimUser
	// UsersFreed returns how many ScimUsers in a namespace were deleted or renamed so far. A call after UsersNamed did not return
	// such a user counts it.
	UsersFreed(namespace string) uint64
	// RolesOfGroups returns the roles of the groups that a user is in, directly or through others.
	RolesOfGroups(ctx context.Context, namespace, user string) []v1alpha1.AccountRoleReference
}

// Roles are the roles of accounts; *access.Roles implements it.
type Roles interface {
	// Of returns the roles of the account with a namespace.
	Of(namespace string) *access.Set
}

const (
	// unknownUserFor is how long a user that SCIM does not know is not looked up again, unless a user is deleted or renamed: that may be
	// this one, who was created since.
	unknownUserFor = time.Minute
	// maxUnknownUsers bounds the memory for such users: callers with valid tokens.
	maxUnknownUsers = 10_000
)

// ActiveUsers finds users and what they may do. It rejects those that were deactivated, or deprovisioned and deleted. Create it
// with NewActiveUsers.
type ActiveUsers struct {
	users Users
	roles Roles
	live  client.Reader
	// gone are users without a ScimUser by namespace and name.
	gone *expiringCache[string, goneUser]
}

// goneUser is what is known of a user without a ScimUser while no other user of the namespace is freed.
type goneUser struct {
	deprovisioned bool
	freed         uint64
}

// NewActiveUsers returns an ActiveUsers. live reads from the Kubernetes API server.
func NewActiveUsers(users Users, roles Roles, live client.Reader, clk clock.PassiveClock) *ActiveUsers {
	return &ActiveUsers{users: users, roles: roles, live: live, gone: newExpiringCache[string, goneUser](clk, unknownUserFor, maxUnknownUsers)}
}

// named returns the ScimUser of a user name, nil if there is none: users that were never provisioned are
// accepted. It is shared and must not be modified. It returns an error if the ScimUser is deactivated or being deleted, or was
// deprovisioned and deleted.
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

// Principal returns the user of an account with a user name, with what the roles of the user permit; nil if there is none. The error
// wraps ErrNoCredential if the user is not active. It is for programs that act on behalf of users.
func (u *ActiveUsers) Principal(ctx context.Context, account *v1alpha1.Account, userName string) (*Principal, error) {
	found, err := u.named(ctx, account.Spec.Namespace, userName)
	if err != nil || found == nil {
		return nil, err
	}
	p := &Principal{
		Kind: KindUser, Account: account.Name, ID: found.Spec.UserName, Name: found.Spec.UserName, Email: EmailOf(found),
		User: found.Name, UserUID: string(found.UID), UserName: found.Spec.UserName,
	}
	p.Grants, p.HasRole = u.grantsOf(ctx, account, found, nil, nil)
	return p, nil
}

// checkDeprovisioned returns an error if a user, who has no ScimUser, was deprovisioned.
func (u *ActiveUsers) checkDeprovisioned(ctx context.Context, namespace, userName string) error {
	key, freed := namespace+"/"+fold.Case(userName), u.users.UsersFreed(namespace)
	found, known := u.gone.get(key)
	if !known || found.freed != freed {
		deprovisioned, err := claims.IsDeprovisioned(ctx, u.live, namespace, userName)
		if err != nil {
			return fmt.Errorf("check whether the user was deprovisioned: %w", err)
		}
		found = goneUser{deprovisioned, freed}
		u.gone.put(key, found)
	}
	if found.deprovisioned {
		return unauthenticated("the user was deprovisioned")
	}
	return nil
}

// defaultGrants are the permissions of users without a role in accounts without a default role.
var defaultGrants = access.OnAll(v1alpha1.PermissionDeploymentRead, v1alpha1.PermissionSchemaRead)

// grantsOf returns what a user may do, from the cache: what its roles grant, those of its groups, and those of its groups at an
// issuer of the account. user is nil for one without a ScimUser, issuer if it is not known. hasRole is false if the user has no
// role but the default.
func (u *ActiveUsers) grantsOf(
	ctx context.Context, account *v1alpha1.Account, user *v1alpha1.ScimUser, issuer *v1alpha1.OIDCIssuer, groups []string,
) (granted access.Grants, hasRole bool) {
	var assigned []v1alpha1.AccountRoleReference
	isAdmin := user != nil && user.Spec.IsAdmin()
	if issuer != nil {
		assigned = rolesOf(issuer, groups)
		isAdmin = isAdmin || slices.ContainsFunc(groups, func(g string) bool { return slices.Contains(issuer.AdminGroups, g) })
	}
	if isAdmin {
		return access.OnAll(v1alpha1.PermissionAdmin), true
	}
	set := u.roles.Of(account.Spec.Namespace)
	if user != nil {
		assigned = slices.Concat(assigned, user.Spec.AccountRoles, u.users.RolesOfGroups(ctx, account.Spec.Namespace, user.Name))
		if scim := account.Spec.Scim; scim != nil && ptr.Deref(scim.AssignRoles, false) {
			assigned = append(assigned, accountrole.OverSCIM(user.Spec.Roles, set.InEffect)...)
		}
	}
	switch {
	case set.HasAny(assigned):
		return set.Grants(assigned), true
	case account.Spec.DefaultRole != "":
		return set.Grants([]v1alpha1.AccountRoleReference{account.Spec.DefaultRole}), true
	}
	return defaultGrants, false
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
