// Package accountrole reconciles AccountRoles: it allocates their IDs, and reports those that are not in effect.
package accountrole

import (
	"context"
	"fmt"

	"k8s.io/utils/clock"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/controller"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/quoin-dev/quoin/api/v1alpha1"
	"github.com/quoin-dev/quoin/controllers/predicates"
	"github.com/quoin-dev/quoin/controllers/requests"
	"github.com/quoin-dev/quoin/controllers/tenancy"
	"github.com/quoin-dev/quoin/internal/accountrole"
	"github.com/quoin-dev/quoin/internal/ids"
	"github.com/quoin-dev/quoin/internal/kube"
	"github.com/quoin-dev/quoin/internal/reconciler"
)

// FieldManager is the field manager of this controller's writes.
const FieldManager = "quoin-accountrole"

type scope = reconciler.Scope[*v1alpha1.AccountRole]

type roleReconciler struct {
	numbers tenancy.Numbers[*v1alpha1.AccountRole]
}

// New returns the reconciler of AccountRoles.
func New(c *kube.Client, recorder reconciler.Recorder, clk clock.PassiveClock, allocator *ids.Allocator) *reconciler.Reconciler[*v1alpha1.AccountRole] {
	r := &roleReconciler{tenancy.Numbers[*v1alpha1.AccountRole]{
		Kind: "AccountRole", Counter: ids.AccountRoles, IDs: allocator, Status: func(role *v1alpha1.AccountRole) *int64 { return &role.Status.ID },
	}}
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
		Watches(&v1alpha1.AccountRole{}, handler.EnqueueRequestsFromMapFunc(requests.Others[*v1alpha1.AccountRole](c, &v1alpha1.AccountRoleList{})), predicates.Spec()).
		Watches(&v1alpha1.AccountRole{}, handler.EnqueueRequestsFromMapFunc(requests.Others[*v1alpha1.AccountRole](c, &v1alpha1.AccountRoleList{})), predicates.Deletion()).
		Watches(&v1alpha1.Account{}, handler.EnqueueRequestsFromMapFunc(requests.OfAccount[*v1alpha1.AccountRole](c, &v1alpha1.AccountRoleList{})), predicates.Existence()).
		WithOptions(opts).
		Complete(r)
}

func (r *roleReconciler) work(ctx context.Context, s *scope) reconciler.Outcome {
	account, o := tenancy.Account(ctx, s)
	if o != nil {
		return *o
	}
	all, err := accountrole.List(ctx, s.Client, s.Object.Namespace)
	if err != nil {
		return reconciler.Failed(err)
	}
	if o := r.numbers.Assign(ctx, s, account.Name, all); o != nil {
		return *o
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
