package identity

import (
	"context"
	"errors"
	"slices"
	"strconv"

	"github.com/quoin-dev/quoin/api/v1alpha1"
	"github.com/quoin-dev/quoin/apiserver/edit"
	"github.com/quoin-dev/quoin/apiserver/recording"
	"github.com/quoin-dev/quoin/apiserver/rest"
	"github.com/quoin-dev/quoin/internal/accountrole"
	"github.com/quoin-dev/quoin/internal/audit"
	"github.com/quoin-dev/quoin/internal/permission"
)

// maxRolesOfUser repeats the schema of ScimUsers.
const maxRolesOfUser = 64

// AssignmentInput has the path parameters of an assignment.
type AssignmentInput struct {
	InRole
	InUser
}

func (a *api) assignRole(ctx context.Context, in *AssignmentInput) (*struct{}, error) {
	return a.changeRoles(ctx, in, audit.AssignedRoleToUser, func(held []v1alpha1.AccountRoleReference, role v1alpha1.AccountRoleReference) ([]v1alpha1.AccountRoleReference, error) {
		if slices.Contains(held, role) {
			return held, nil
		}
		if len(held) >= maxRolesOfUser {
			all, err := a.roles(ctx)
			if err != nil {
				return nil, err
			}
			held = slices.DeleteFunc(held, func(other v1alpha1.AccountRoleReference) bool {
				_, builtIn := accountrole.BuiltIn(other)
				return !builtIn && accountrole.Find(all, string(other)) == nil // deleted
			})
		}
		if len(held) >= maxRolesOfUser {
			return nil, rest.Conflict("user %d has %d roles; allowed: at most %d", in.InUser.ID, len(held), maxRolesOfUser)
		}
		return append(held, role), nil
	})
}

func (a *api) removeRole(ctx context.Context, in *AssignmentInput) (*struct{}, error) {
	return a.changeRoles(ctx, in, audit.RemovedRoleFromUser, func(held []v1alpha1.AccountRoleReference, role v1alpha1.AccountRoleReference) ([]v1alpha1.AccountRoleReference, error) {
		return slices.DeleteFunc(held, func(other v1alpha1.AccountRoleReference) bool { return other == role }), nil
	})
}

// changeRoles changes the roles of a user. Nothing is written, and no event recorded, if they stay the same.
func (a *api) changeRoles(
	ctx context.Context, in *AssignmentInput, event string,
	change func(held []v1alpha1.AccountRoleReference, role v1alpha1.AccountRoleReference) ([]v1alpha1.AccountRoleReference, error),
) (*struct{}, error) {
	role, err := a.assignable(ctx, in.InRole.ID)
	if err != nil {
		return nil, err
	}
	users := a.users(ctx)
	id, err := users.id(in.InUser.ID)
	if err != nil {
		return nil, err
	}
	_, err = a.Users.ChangeUser(recording.Named(ctx, event), rest.ScopeFrom(ctx).Namespace(), id, func(u *v1alpha1.ScimUser) error {
		held, err := change(slices.Clone(u.Spec.AccountRoles), role)
		if err == nil && !slices.Equal(held, u.Spec.AccountRoles) {
			u.Spec.AccountRoles = held
		}
		if len(u.Spec.AccountRoles) == 0 {
			u.Spec.AccountRoles = nil
		}
		return err
	})
	if errors.Is(err, edit.ErrDeleted) {
		return nil, users.unknown(in.InUser.ID)
	}
	return nil, err
}

// assignable returns the reference to a custom or a built-in role by its number. Admin has none.
func (a *api) assignable(ctx context.Context, id string) (v1alpha1.AccountRoleReference, error) {
	for _, r := range permission.BuiltIn {
		if strconv.FormatInt(r.ID, 10) == id {
			return v1alpha1.AccountRoleReference(r.Name), nil
		}
	}
	r, err := a.role(ctx, id)
	if err != nil {
		return "", err
	}
	return v1alpha1.AccountRoleReference(r.Name), nil
}

// roleNames returns a function that returns the names of roles in user interfaces, without those that do not exist.
func (a *api) roleNames(ctx context.Context) (func([]v1alpha1.AccountRoleReference) []string, error) {
	all, err := a.roles(ctx)
	if err != nil {
		return nil, err
	}
	return func(held []v1alpha1.AccountRoleReference) []string {
		names := []string{}
		for _, reference := range held {
			if builtIn, is := accountrole.BuiltIn(reference); is {
				names = append(names, builtIn.Name)
			} else if r := accountrole.Find(all, string(reference)); r != nil {
				names = append(names, r.Spec.Name)
			}
		}
		slices.Sort(names)
		return names
	}, nil
}
