package oidctokenconfig

import (
	"strings"

	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/builder"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/predicate"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/quoin-dev/quoin/api/v1alpha1"
	"github.com/quoin-dev/quoin/controllers/predicates"
	"github.com/quoin-dev/quoin/controllers/requests"
)

// +kubebuilder:rbac:groups=platform.quoin.dev,resources=oidctokenconfigs,verbs=get;patch
// +kubebuilder:rbac:groups=platform.quoin.dev,resources=oidctokenconfigs/status,verbs=patch
// +kubebuilder:rbac:groups="",namespace=quoin-system,resources=secrets,verbs=get
// +kubebuilder:rbac:groups="",resources=secrets,verbs=create

// SetupWithManager starts the reconciler in a manager. Secrets of accounts are read and changed with ClusterRole
// quoin-account-tokens, in the namespaces of accounts only.
func SetupWithManager(mgr ctrl.Manager, r reconcile.Reconciler, opts controller.Options) error {
	c := mgr.GetClient()
	return ctrl.NewControllerManagedBy(mgr).
		Named("oidctokenconfig").
		For(&v1alpha1.OidcTokenConfig{}, predicates.Spec()).
		// Another configuration may have the same variable.
		Watches(&v1alpha1.OidcTokenConfig{}, handler.EnqueueRequestsFromMapFunc(requests.Others[*v1alpha1.OidcTokenConfig](c, &v1alpha1.OidcTokenConfigList{})), predicates.Spec()).
		Watches(&v1alpha1.Deployment{}, handler.EnqueueRequestsFromMapFunc(requests.Others[*v1alpha1.OidcTokenConfig](c, &v1alpha1.OidcTokenConfigList{})), builder.WithPredicates(numberedOrGone)).
		Watches(&v1alpha1.Account{}, handler.EnqueueRequestsFromMapFunc(requests.OfAccount[*v1alpha1.OidcTokenConfig](c, &v1alpha1.OidcTokenConfigList{})), predicates.SpecOrChanged(keysOf)).
		WithOptions(opts).
		Complete(r)
}

// numberedOrGone selects deployments that are created, get their number, or are deleted.
var numberedOrGone = predicate.Or(predicates.Changed(numberOf), predicate.Funcs{
	UpdateFunc: func(e event.UpdateEvent) bool {
		return e.ObjectOld.GetDeletionTimestamp().IsZero() != e.ObjectNew.GetDeletionTimestamp().IsZero()
	},
})

func numberOf(o client.Object) string { return o.GetLabels()[v1alpha1.LabelID] }

// keysOf returns the IDs of the keys of an account.
func keysOf(o client.Object) string {
	account, ok := o.(*v1alpha1.Account)
	if !ok {
		return ""
	}
	keys := make([]string, len(account.Status.OidcTokenKeys))
	for i := range account.Status.OidcTokenKeys {
		keys[i] = account.Status.OidcTokenKeys[i].ID
	}
	return strings.Join(keys, " ")
}
