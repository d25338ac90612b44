package scim

import (
	"context"
	"time"

	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/quoin-dev/quoin/api/v1alpha1"
	"github.com/quoin-dev/quoin/controllers/requests"
	"github.com/quoin-dev/quoin/internal/accountrole"
	"github.com/quoin-dev/quoin/internal/kube"
)

// IndexAccountRole is the index of users and of groups by the names of their roles.
const IndexAccountRole = requests.CacheOnly + "accountRole"

// RolesDelay is the delay between the creation or deletion of a role and the reconciliation of the objects that name it: a GitOps
// tool creates many roles at once.
const RolesDelay = time.Second

// RolesOf is the index function of IndexAccountRole.
func RolesOf(obj client.Object) []string {
	var roles []v1alpha1.AccountRoleReference
	switch o := obj.(type) {
	case *v1alpha1.ScimUser:
		roles = o.Spec.AccountRoles
	case *v1alpha1.ScimGroup:
		roles = o.Spec.AccountRoles
	}
	names := make([]string, len(roles))
	for i, name := range roles {
		names[i] = string(name)
	}
	return names
}

// OfRole maps a role to the objects of a list that name it.
func OfRole[T client.Object](c client.Reader, newList func() client.ObjectList) handler.MapFunc {
	return func(ctx context.Context, role client.Object) []reconcile.Request {
		return requests.For(ctx, c, newList(), requests.All[T], client.InNamespace(role.GetNamespace()), client.MatchingFields{IndexAccountRole: role.GetName()})
	}
}

// UnknownRoles returns a note on the roles in spec.accountRoles that do not exist; empty if there are none.
func UnknownRoles(ctx context.Context, c *kube.Client, namespace string, assigned []v1alpha1.AccountRoleReference) (string, error) {
	if len(assigned) == 0 {
		return "", nil
	}
	all, err := accountrole.List(ctx, c, namespace)
	if err != nil {
		return "", err
	}
	return accountrole.Unknown("spec.accountRoles", assigned, all), nil
}
