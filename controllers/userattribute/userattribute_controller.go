// Package userattribute reconciles UserAttributes: it allocates their IDs, and reports those above the limit of the account.
package userattribute

import (
	"context"
	"fmt"
	"slices"

	"k8s.io/utils/clock"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/quoin-dev/quoin/api/v1alpha1"
	"github.com/quoin-dev/quoin/controllers/predicates"
	"github.com/quoin-dev/quoin/controllers/requests"
	"github.com/quoin-dev/quoin/controllers/tenancy"
	"github.com/quoin-dev/quoin/internal/ids"
	"github.com/quoin-dev/quoin/internal/kube"
	"github.com/quoin-dev/quoin/internal/reconciler"
	"github.com/quoin-dev/quoin/internal/userattribute"
)

// FieldManager is the field manager of this controller's writes.
const FieldManager = "quoin-userattribute"

type scope = reconciler.Scope[*v1alpha1.UserAttribute]

type attributeReconciler struct {
	numbers tenancy.Numbers[*v1alpha1.UserAttribute]
}

// New returns the reconciler of UserAttributes.
func New(c *kube.Client, recorder reconciler.Recorder, clk clock.PassiveClock, allocator *ids.Allocator) *reconciler.Reconciler[*v1alpha1.UserAttribute] {
	r := &attributeReconciler{tenancy.Numbers[*v1alpha1.UserAttribute]{
		Kind: "UserAttribute", Counter: ids.UserAttributes, IDs: allocator, Status: func(a *v1alpha1.UserAttribute) *int64 { return &a.Status.ID },
	}}
	return &reconciler.Reconciler[*v1alpha1.UserAttribute]{
		Client: c.As(FieldManager), Recorder: recorder, Clock: clk,
		New:  func() *v1alpha1.UserAttribute { return &v1alpha1.UserAttribute{} },
		Work: r.work,
	}
}

// +kubebuilder:rbac:groups=platform.quoin.dev,resources=userattributes,verbs=get;patch
// +kubebuilder:rbac:groups=platform.quoin.dev,resources=userattributes/status,verbs=patch

// SetupWithManager adds the reconciler to a manager.
func SetupWithManager(mgr ctrl.Manager, r reconcile.Reconciler, opts controller.Options) error {
	c := mgr.GetClient()
	return ctrl.NewControllerManagedBy(mgr).
		Named("userattribute").
		For(&v1alpha1.UserAttribute{}, predicates.Spec()).
		Watches(&v1alpha1.UserAttribute{}, handler.EnqueueRequestsFromMapFunc(requests.Others[*v1alpha1.UserAttribute](c, &v1alpha1.UserAttributeList{})), predicates.Deletion()).
		Watches(&v1alpha1.Account{}, handler.EnqueueRequestsFromMapFunc(requests.OfAccount[*v1alpha1.UserAttribute](c, &v1alpha1.UserAttributeList{})), predicates.Existence()).
		WithOptions(opts).
		Complete(r)
}

func (r *attributeReconciler) work(ctx context.Context, s *scope) reconciler.Outcome {
	account, o := tenancy.Account(ctx, s)
	if o != nil {
		return *o
	}
	list := &v1alpha1.UserAttributeList{}
	if err := s.List(ctx, list, client.InNamespace(s.Object.Namespace)); err != nil {
		return reconciler.Failed(fmt.Errorf("list user attributes: %w", err))
	}
	all := make([]*v1alpha1.UserAttribute, len(list.Items))
	for i := range list.Items {
		all[i] = &list.Items[i]
	}
	if o := r.numbers.Assign(ctx, s, account.Name, all); o != nil {
		return *o
	}
	inEffect := userattribute.InEffect(all)
	if len(inEffect) == userattribute.MaxPerAccount && !slices.ContainsFunc(inEffect, func(a *v1alpha1.UserAttribute) bool { return a.Name == s.Object.Name }) {
		return reconciler.Stalled(v1alpha1.ReasonLimitExceeded, fmt.Sprintf(
			"the account has %d user attributes, and only the first %d are in effect; delete one", len(all), userattribute.MaxPerAccount))
	}
	return reconciler.Done("The attribute is in effect")
}
