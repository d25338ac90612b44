package branch

import (
	"context"

	"k8s.io/apimachinery/pkg/api/meta"
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

// IndexDeployment is the field by which the branches of a deployment are found.
const IndexDeployment = "spec.deploymentRef.name"

// +kubebuilder:rbac:groups=platform.quoin.dev,resources=branches,verbs=get;list;patch;watch
// +kubebuilder:rbac:groups=platform.quoin.dev,resources=branches/finalizers,verbs=update
// +kubebuilder:rbac:groups=platform.quoin.dev,resources=branches/status,verbs=patch
// +kubebuilder:rbac:groups=platform.quoin.dev,resources=environments,verbs=create;delete;get;list;patch;watch

// SetupWithManager starts the reconciler in a manager.
func SetupWithManager(mgr ctrl.Manager, r reconcile.Reconciler, opts controller.Options) error {
	c := mgr.GetClient()
	return ctrl.NewControllerManagedBy(mgr).
		Named("branch").
		For(&v1alpha1.Branch{}, builder.WithPredicates(specOrCommit)).
		Owns(&v1alpha1.Environment{}).
		Watches(&v1alpha1.Branch{}, handler.EnqueueRequestsFromMapFunc(twins(c)), predicates.Existence()).
		Watches(&v1alpha1.Deployment{}, handler.EnqueueRequestsFromMapFunc(ofDeployment(c)), predicates.Spec()).
		Watches(&v1alpha1.ReleaseChannel{}, handler.EnqueueRequestsFromMapFunc(ofChannel(c)), builder.WithPredicates(headChanged)).
		WithOptions(opts).
		Complete(r)
}

// specOrCommit lets through what a user changed and what the remote did.
var specOrCommit = predicate.Or(predicate.GenerationChangedPredicate{}, predicate.AnnotationChangedPredicate{}, predicate.LabelChangedPredicate{})

var headChanged = predicate.Funcs{
	UpdateFunc: func(e event.UpdateEvent) bool {
		was, ok := e.ObjectOld.(*v1alpha1.ReleaseChannel)
		is, ok2 := e.ObjectNew.(*v1alpha1.ReleaseChannel)
		return ok && ok2 && was.Status.LatestVersion != is.Status.LatestVersion
	},
}

// twins maps a branch that came or went to those of the same name that gave way to it.
func twins(c client.Reader) handler.MapFunc {
	return func(ctx context.Context, obj client.Object) []reconcile.Request {
		gone, ok := obj.(*v1alpha1.Branch)
		if !ok {
			return nil
		}
		return requests.For(ctx, c, &v1alpha1.BranchList{}, func(b *v1alpha1.Branch) bool {
			return b.Spec.Name == gone.Spec.Name && b.Name != gone.Name
		}, client.InNamespace(gone.Namespace), client.MatchingFields{IndexDeployment: gone.Spec.DeploymentRef.Name})
	}
}

func ofDeployment(c client.Reader) handler.MapFunc {
	return func(ctx context.Context, d client.Object) []reconcile.Request {
		return requests.For(ctx, c, &v1alpha1.BranchList{}, requests.All[*v1alpha1.Branch],
			client.InNamespace(d.GetNamespace()), client.MatchingFields{IndexDeployment: d.GetName()})
	}
}

// ofChannel maps a channel whose newest version changed to the branches with a staging
// environment: those run the newest. Whose channel it is, the branch finds out itself.
func ofChannel(c client.Reader) handler.MapFunc {
	return func(ctx context.Context, _ client.Object) []reconcile.Request {
		return requests.For(ctx, c, &v1alpha1.BranchList{}, func(b *v1alpha1.Branch) bool {
			return b.Status.Environment != "" || !meta.IsStatusConditionTrue(b.Status.Conditions, v1alpha1.ConditionReady)
		})
	}
}
