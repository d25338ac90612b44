// Package userattribute reconciles UserAttributes: it allocates their IDs, and reports those above the limit of the account.
package userattribute

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
	"github.com/quoin-dev/quoin/internal/ids"
	"github.com/quoin-dev/quoin/internal/kube"
	"github.com/quoin-dev/quoin/internal/reconciler"
	"github.com/quoin-dev/quoin/internal/tenant"
	"github.com/quoin-dev/quoin/internal/userattribute"
)

// FieldManager is the field manager of this controller's writes.
const FieldManager = "quoin-userattribute"

type scope = reconciler.Scope[*v1alpha1.UserAttribute]

type attributeReconciler struct{ ids *ids.Allocator }

// New returns the reconciler of UserAttributes.
func New(c *kube.Client, recorder reconciler.Recorder, clk clock.PassiveClock, allocator *ids.Allocator) *reconciler.Reconciler[*v1alpha1.UserAttribute] {
	r := &attributeReconciler{ids: allocator}
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
		Watches(&v1alpha1.UserAttribute{}, handler.EnqueueRequestsFromMapFunc(ofNamespace(c)), predicates.Deletion()).
		Watches(&v1alpha1.Account{}, handler.EnqueueRequestsFromMapFunc(ofAccount(c)), predicates.Existence()).
		WithOptions(opts).
		Complete(r)
}

// ofNamespace maps a deleted attribute to the others of its account, one of which may come into effect.
func ofNamespace(c client.Reader) handler.MapFunc {
	return func(ctx context.Context, deleted client.Object) []reconcile.Request {
		return requests.For(ctx, c, &v1alpha1.UserAttributeList{}, requests.All[*v1alpha1.UserAttribute], client.InNamespace(deleted.GetNamespace()))
	}
}

// ofAccount maps an account to its attributes.
func ofAccount(c client.Reader) handler.MapFunc {
	return func(ctx context.Context, obj client.Object) []reconcile.Request {
		account, ok := obj.(*v1alpha1.Account)
		if !ok {
			return nil
		}
		return requests.For(ctx, c, &v1alpha1.UserAttributeList{}, requests.All[*v1alpha1.UserAttribute], client.InNamespace(account.Spec.Namespace))
	}
}

func (r *attributeReconciler) work(ctx context.Context, s *scope) reconciler.Outcome {
	account, err := tenant.Of(ctx, s.Client, s.Object.Namespace)
	if errors.Is(err, tenant.ErrNoAccount) {
		return reconciler.NotFound(v1alpha1.ReasonAccountNotFound, fmt.Sprintf("no Account has spec.namespace %q", s.Object.Namespace))
	}
	if err != nil {
		return reconciler.Failed(err)
	}
	list := &v1alpha1.UserAttributeList{}
	if err := s.List(ctx, list, client.InNamespace(s.Object.Namespace)); err != nil {
		return reconciler.Failed(fmt.Errorf("list user attributes: %w", err))
	}
	all := make([]*v1alpha1.UserAttribute, len(list.Items))
	for i := range list.Items {
		all[i] = &list.Items[i]
	}
	if other := sameID(s.Object, all); other != nil {
		return reconciler.Stalled(v1alpha1.ReasonInvalidSpec, fmt.Sprintf(
			"metadata: label %s has the ID of UserAttribute %q; remove it, and a new ID is allocated", v1alpha1.LabelID, other.Name))
	}
	if err := r.allocateID(ctx, s, account.Name); err != nil {
		return reconciler.Failed(err)
	}
	inEffect := userattribute.InEffect(all)
	if len(inEffect) == userattribute.MaxPerAccount && !slices.ContainsFunc(inEffect, func(a *v1alpha1.UserAttribute) bool { return a.Name == s.Object.Name }) {
		return reconciler.Stalled(v1alpha1.ReasonLimitExceeded, fmt.Sprintf(
			"the account has %d user attributes, and only the first %d are in effect; delete one", len(all), userattribute.MaxPerAccount))
	}
	return reconciler.Done("The attribute is in effect")
}

// sameID returns the attribute whose ID an object without one carries, because its YAML was copied; nil if there is none.
func sameID(a *v1alpha1.UserAttribute, all []*v1alpha1.UserAttribute) *v1alpha1.UserAttribute {
	carried, ok := ids.Parse(a.Labels[v1alpha1.LabelID])
	if !ok || a.Status.ID == carried {
		return nil
	}
	i := slices.IndexFunc(all, func(other *v1alpha1.UserAttribute) bool { return other.UID != a.UID && other.Status.ID == carried })
	if i < 0 {
		return nil
	}
	return all[i]
}

// allocateID allocates the attribute's ID.
func (r *attributeReconciler) allocateID(ctx context.Context, s *scope, account string) error {
	a := s.Object
	if carried, ok := ids.Parse(a.Labels[v1alpha1.LabelID]); ok && a.Status.ID == carried {
		return nil
	}
	id, err := r.ids.Keep(ctx, account, ids.UserAttributes, a.Labels[v1alpha1.LabelID])
	if err != nil {
		return err
	}
	err = s.Label(ctx, func(a *v1alpha1.UserAttribute) {
		metav1.SetMetaDataLabel(&a.ObjectMeta, v1alpha1.LabelID, ids.Or(a.Labels[v1alpha1.LabelID], id))
	})
	if err != nil {
		return err
	}
	a.Status.ID, _ = ids.Parse(a.Labels[v1alpha1.LabelID])
	return nil
}
