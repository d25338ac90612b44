// Package accountrole has the rules of roles: which of an account are in effect, and how assignments name them.
package accountrole

import (
	"cmp"
	"context"
	"fmt"
	"math"
	"slices"
	"strings"

	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/quoin-dev/quoin/api/v1alpha1"
	"github.com/quoin-dev/quoin/internal/fold"
	"github.com/quoin-dev/quoin/internal/ids"
	"github.com/quoin-dev/quoin/internal/permission"
)

// MaxPerAccount is the number of roles of an account that are in effect.
const MaxPerAccount = 256

// List returns all roles of an account.
func List(ctx context.Context, c client.Reader, namespace string) ([]*v1alpha1.AccountRole, error) {
	list := &v1alpha1.AccountRoleList{}
	if err := c.List(ctx, list, client.InNamespace(namespace)); err != nil {
		return nil, fmt.Errorf("list roles: %w", err)
	}
	all := make([]*v1alpha1.AccountRole, len(list.Items))
	for i := range list.Items {
		all[i] = &list.Items[i]
	}
	return all, nil
}

// InEffect returns the roles of an account that are in effect, by number: of several with the same name, ignoring case, that
// with the lowest number, because numbers are ascending; at most MaxPerAccount; none that is being deleted. Those that have no
// number yet are last, by the time of creation. all is not modified.
func InEffect(all []*v1alpha1.AccountRole) []*v1alpha1.AccountRole {
	alive := make([]*v1alpha1.AccountRole, 0, len(all))
	for _, r := range all {
		if r.DeletionTimestamp.IsZero() {
			alive = append(alive, r)
		}
	}
	slices.SortFunc(alive, func(x, y *v1alpha1.AccountRole) int {
		return cmp.Or(cmp.Compare(numberOf(x), numberOf(y)), x.CreationTimestamp.Compare(y.CreationTimestamp.Time), strings.Compare(x.Name, y.Name))
	})
	taken := make(map[string]bool, len(alive))
	alive = slices.DeleteFunc(alive, func(r *v1alpha1.AccountRole) bool {
		name := fold.Case(r.Spec.Name)
		lost := taken[name]
		taken[name] = true
		return lost
	})
	return alive[:min(len(alive), MaxPerAccount)]
}

// numberOf returns the number of a role, the greatest one if it has none.
func numberOf(r *v1alpha1.AccountRole) int64 {
	if id, ok := ids.Parse(r.Labels[v1alpha1.LabelID]); ok {
		return id
	}
	return math.MaxInt64
}

// Holder returns the role in effect with a name in user interfaces, ignoring case; nil if there is none.
func Holder(inEffect []*v1alpha1.AccountRole, name string) *v1alpha1.AccountRole {
	folded := fold.Case(name)
	return find(inEffect, func(r *v1alpha1.AccountRole) bool { return fold.Case(r.Spec.Name) == folded })
}

// Find returns the role with an object name, nil if there is none.
func Find(roles []*v1alpha1.AccountRole, object string) *v1alpha1.AccountRole {
	return find(roles, func(r *v1alpha1.AccountRole) bool { return r.Name == object })
}

func find(roles []*v1alpha1.AccountRole, is func(*v1alpha1.AccountRole) bool) *v1alpha1.AccountRole {
	if i := slices.IndexFunc(roles, is); i >= 0 {
		return roles[i]
	}
	return nil
}

// BuiltIn returns the built-in role that an assignment names, and whether there is one.
func BuiltIn(reference v1alpha1.AccountRoleReference) (permission.Role, bool) {
	i := slices.IndexFunc(permission.BuiltIn, func(r permission.Role) bool { return r.Name == string(reference) })
	if i < 0 {
		return permission.Role{}, false
	}
	return permission.BuiltIn[i], true
}

// Unknown returns a note on assignments in a field that name no role; empty if there are none. It is no error, because
// objects are applied in any order.
func Unknown(field string, assigned []v1alpha1.AccountRoleReference, all []*v1alpha1.AccountRole) string {
	var unknown []string
	for _, reference := range assigned {
		if _, builtIn := BuiltIn(reference); !builtIn && Find(all, string(reference)) == nil {
			unknown = append(unknown, `"`+string(reference)+`"`)
		}
	}
	if len(unknown) == 0 {
		return ""
	}
	return field + ": there is no AccountRole with the name, and the assignment has no effect: " + strings.Join(unknown, ", ")
}

// OverSCIM returns the assignments that values of the SCIM attribute roles are: those that name a built-in role, or a role in
// effect by its name in user interfaces, ignoring case.
func OverSCIM(values []v1alpha1.ScimMultiValue, inEffect []*v1alpha1.AccountRole) []v1alpha1.AccountRoleReference {
	var assigned []v1alpha1.AccountRoleReference
	for i := range values {
		value := values[i].Value
		if j := slices.IndexFunc(permission.BuiltIn, func(r permission.Role) bool { return strings.EqualFold(r.Name, value) }); j >= 0 {
			assigned = append(assigned, v1alpha1.AccountRoleReference(permission.BuiltIn[j].Name))
		} else if r := Holder(inEffect, value); r != nil {
			assigned = append(assigned, v1alpha1.AccountRoleReference(r.Name))
		}
	}
	return assigned
}
