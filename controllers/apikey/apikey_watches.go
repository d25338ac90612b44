package apikey

import (
	"context"
	"slices"

	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/quoin-dev/quoin/api/v1alpha1"
	"github.com/quoin-dev/quoin/controllers/predicates"
	"github.com/quoin-dev/quoin/controllers/requests"
)

// +kubebuilder:rbac:groups=platform.quoin.dev,resources=apikeys,verbs=get;list;watch
// +kubebuilder:rbac:groups=platform.quoin.dev,resources=apikeys/finalizers,verbs=update
// +kubebuilder:rbac:groups=platform.quoin.dev,resources=apikeys/status,verbs=patch
// +kubebuilder:rbac:groups=platform.quoin.dev,resources=accounts,verbs=get;list;watch
// +kubebuilder:rbac:groups=platform.quoin.dev,resources=deployments,verbs=get;list;watch
// +kubebuilder:rbac:groups=platform.quoin.dev,resources=scimusers,verbs=get;list;watch
// +kubebuilder:rbac:groups="",resources=secrets,verbs=create

// SetupWithManager starts the reconciler in a manager.
func SetupWithManager(mgr ctrl.Manager, r reconcile.Reconciler, opts controller.Options) error {
	c := mgr.GetClient()
	return ctrl.NewControllerManagedBy(mgr).
		Named("apikey").
		For(&v1alpha1.ApiKey{}, predicates.Spec()).
		Watches(&v1alpha1.Account{}, handler.EnqueueRequestsFromMapFunc(requests.OfAccount[*v1alpha1.ApiKey](c, &v1alpha1.ApiKeyList{})), predicates.Existence()).
		Watches(&v1alpha1.ScimUser{}, handler.EnqueueRequestsFromMapFunc(ofOwner(c)), predicates.Spec()).
		Watches(&v1alpha1.Deployment{}, handler.EnqueueRequestsFromMapFunc(ofDeployment(c)), predicates.Existence()).
		WithOptions(opts).
		Complete(r)
}

// ofOwner maps a user to the keys that it owns.
func ofOwner(c client.Reader) handler.MapFunc {
	return func(ctx context.Context, user client.Object) []reconcile.Request {
		return requests.For(ctx, c, &v1alpha1.ApiKeyList{}, func(k *v1alpha1.ApiKey) bool {
			return k.Spec.Owner != nil && k.Spec.Owner.ScimUser == user.GetName()
		}, client.InNamespace(user.GetNamespace()))
	}
}

// ofDeployment maps a created or deleted deployment to the keys that name it.
func ofDeployment(c client.Reader) handler.MapFunc {
	return func(ctx context.Context, o client.Object) []reconcile.Request {
		d, ok := o.(*v1alpha1.Deployment)
		if !ok {
			return nil
		}
		return requests.For(ctx, c, &v1alpha1.ApiKeyList{}, func(k *v1alpha1.ApiKey) bool {
			return slices.ContainsFunc(k.Spec.Deployments, d.IsReferredToBy)
		}, client.InNamespace(d.Namespace))
	}
}
