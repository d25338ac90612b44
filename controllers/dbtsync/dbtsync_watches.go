package dbtsync

import (
	"context"

	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/quoin-dev/quoin/api/v1alpha1"
	"github.com/quoin-dev/quoin/controllers/predicates"
	"github.com/quoin-dev/quoin/controllers/requests"
)

// +kubebuilder:rbac:groups=platform.quoin.dev,resources=dbtsyncs,verbs=get;list;watch
// +kubebuilder:rbac:groups=platform.quoin.dev,resources=dbtsyncs/finalizers,verbs=update
// +kubebuilder:rbac:groups=platform.quoin.dev,resources=dbtsyncs/status,verbs=patch
// +kubebuilder:rbac:groups=platform.quoin.dev,resources=deployments,verbs=get;list;watch
// +kubebuilder:rbac:groups="",resources=pods,verbs=list
// +kubebuilder:rbac:groups=networking.k8s.io,resources=networkpolicies,verbs=create

// SetupWithManager starts the reconciler in a manager. Jobs are permitted by ClusterRole
// quoin-account-controller, in the namespaces of accounts only.
func SetupWithManager(mgr ctrl.Manager, r reconcile.Reconciler, opts controller.Options) error {
	return ctrl.NewControllerManagedBy(mgr).
		Named("dbtsync").
		For(&v1alpha1.DbtSync{}, predicates.SpecOrChanged(stageOf)).
		Watches(&v1alpha1.Deployment{}, handler.EnqueueRequestsFromMapFunc(ofDeployment(mgr.GetClient())), predicates.Existence()).
		WithOptions(opts).
		Complete(r)
}

// stageOf returns the stage of a run, which quoin apiserver sets too.
func stageOf(o client.Object) string {
	sync, ok := o.(*v1alpha1.DbtSync)
	if !ok {
		return ""
	}
	return sync.Status.Stage
}

// ofDeployment maps a created or deleted deployment to the syncs that wait for it.
func ofDeployment(c client.Reader) handler.MapFunc {
	return func(ctx context.Context, d client.Object) []reconcile.Request {
		return requests.For(ctx, c, &v1alpha1.DbtSyncList{}, func(s *v1alpha1.DbtSync) bool {
			return s.Spec.DeploymentRef.Name == d.GetName() && s.Status.Stage == ""
		}, client.InNamespace(d.GetNamespace()))
	}
}
