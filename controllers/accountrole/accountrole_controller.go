// Package accountrole reconciles AccountRoles: it allocates their IDs, and reports those that are not in effect.
package accountrole

import (
	"context"
	"errors"
	"fmt"
	"slices"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/clock"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/quoin-dev/quoin/api/v1alpha1"
	"github.com/quoin-dev/quoin/controllers/predicates"
	"github.com/quoin-dev/quoin/controllers/requests"
	"github.com/quoin-dev/quoin/internal/accountrole"
	"github.com/quoin-dev/quoin/internal/ids"
	"github.com/quoin-dev/quoin/internal/kube"
	"github.com/quoin-dev/quoin/internal/reconciler"
	"github.com/quoin-dev/quoin/internal/tenant"
)

// FieldManager is the field manager of this controller's writes.
const FieldManager = "quoin-accountrole"

type scope = reconciler.Scope[*v1alpha1.AccountRole]

type roleReconciler struct{ ids *ids.Allocator }

// New returns the reconciler of AccountRoles.
func New(c *kube.Client, recorder reconciler.Recorder, clk clock.PassiveClock, allocator *ids.Allocator) *reconciler.Reconciler[*v1alpha1.AccountRole] {
	r := &roleReconciler{ids: allocator}
	return &reconciler.Reconciler[*v1alpha1.AccountRole]{
		Client: c.As(FieldManager), Recorder: recorder, Clock: clk,
		New:  func() *v1alpha1.AccountRole { return &v1alpha1.AccountRole{} },
		Work: r.work,
	}
}

// +kubebuilder:rbac:groups=platform.quoin.dev,resources=accountroles,verbs=get;patch
// +kubebuilder:rbac:groups=platform.quoin.dev,resources=accountroles/status,verbs=patch

// SetupWithManager adds the reconciler to a manager.
func SetupWithManager(mgr ctrl.Manager, r reconcile.Reconciler, opts controller.Options) error {
	c := mgr.GetClient()
	return ctrl.NewControllerManagedBy(mgr).
		Named("accountrole").
		For(&v1alpha1.AccountRole{}, predicates.Spec()).
		Watches(&v1alpha1.AccountRole{}, handler.EnqueueRequestsFromMapFunc(others(c)), predicates.Spec()).
		Watches(&v1alpha1.AccountRole{}, handler.EnqueueRequestsFromMapFunc(others(c)), predicates.Deletion()).
		Watches(&v1alpha1.Account{}, handler.EnqueueRequestsFromMapFunc(ofAccount(c)), predicates.Existence()).
		WithOptions(opts).
		Complete(r)
}

// others maps a role to the others of its account, which may come into effect or lose their name: the first role that was
// created holds a name.
func others(c client.Reader) handler.MapFunc {
	return func(ctx context.Context, changed client.Object) []reconcile.Request {
		isOther := func(r *v1alpha1.AccountRole) bool { return r.Name != changed.GetName() }
		return requests.For(ctx, c, &v1alpha1.AccountRoleList{}, isOther, client.InNamespace(changed.GetNamespace()))
	}
}

// ofAccount maps an account to its roles.
func ofAccount(c client.Reader) handler.MapFunc {
	return func(ctx context.Context, obj client.Object) []reconcile.Request {
		account, ok := obj.(*v1alpha1.Account)
		if !ok {
			return nil
		}
		return requests.For(ctx, c, &v1alpha1.AccountRoleList{}, requests.All[*v1alpha1.AccountRole], client.InNamespace(account.Spec.Namespace))
	}
}

func (r *roleReconciler) work(ctx context.Context, s *scope) reconciler.Outcome {
	account, err := tenant.Of(ctx, s.Client, s.Object.Namespace)
	if errors.Is(err, tenant.ErrNoAccount) {
		return reconciler.NotFound(v1alpha1.ReasonAccountNotFound, fmt.Sprintf("no Account has spec.namespace %q", s.Object.Namespace))
	}
	if err != nil {
		return reconciler.Failed(err)
	}
	all, err := accountrole.List(ctx, s.Client, s.Object.Namespace)
	if err != nil {
		return reconciler.Failed(err)
	}
	if other := sameID(s.Object, all); other != nil {
		return reconciler.Stalled(v1alpha1.ReasonInvalidSpec, fmt.Sprintf(
			"metadata: label %s has the ID of AccountRole %q; remove it, and a new ID is allocated", v1alpha1.LabelID, other.Name))
	}
	if err := r.allocateID(ctx, s, account.Name); err != nil {
		return reconciler.Failed(err)
	}
	for i := range all { // the cache has it without its number
		if all[i].UID == s.Object.UID {
			all[i] = s.Object
		}
	}
	inEffect := accountrole.InEffect(all)
	switch holder := accountrole.Holder(inEffect, s.Object.Spec.Name); {
	case accountrole.Find(inEffect, s.Object.Name) != nil:
		return reconciler.Done("The role is in effect")
	case holder != nil:
		return reconciler.Stalled(v1alpha1.ReasonNameTaken, fmt.Sprintf("spec.name: AccountRole %q has the name %q already; change or delete one of them", holder.Name, holder.Spec.Name))
	default:
		return reconciler.Stalled(v1alpha1.ReasonLimitExceeded, fmt.Sprintf(
			"the account has %d roles, and only the first %d are in effect; delete one", len(all), accountrole.MaxPerAccount))
	}
}

// sameID returns the role whose ID an object without one carries, because its YAML was copied; nil if there is none.
func sameID(r *v1alpha1.AccountRole, all []*v1alpha1.AccountRole) *v1alpha1.AccountRole {
	carried, ok := ids.Parse(r.Labels[v1alpha1.LabelID])
	if !ok || r.Status.ID == carried {
		return nil
	}
	i := slices.IndexFunc(all, func(other *v1alpha1.AccountRole) bool { return other.UID != r.UID && other.Status.ID == carried })
	if i < 0 {
		return nil
	}
	return all[i]
}

// allocateID allocates the role's ID.
func (r *roleReconciler) allocateID(ctx context.Context, s *scope, account string) error {
	role := s.Object
	if carried, ok := ids.Parse(role.Labels[v1alpha1.LabelID]); ok && role.Status.ID == carried {
		return nil
	}
	id, err := r.ids.Keep(ctx, account, ids.AccountRoles, role.Labels[v1alpha1.LabelID])
	if err != nil {
		return err
	}
	err = s.Label(ctx, func(role *v1alpha1.AccountRole) {
		metav1.SetMetaDataLabel(&role.ObjectMeta, v1alpha1.LabelID, ids.Or(role.Labels[v1alpha1.LabelID], id))
	})
	if err != nil {
		return err
	}
	role.Status.ID, _ = ids.Parse(role.Labels[v1alpha1.LabelID])
	return nil
}
