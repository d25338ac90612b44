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

// IndexDeployment is the indexed field of branches that names their deployment.
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
		Watches(&v1alpha1.Branch{}, handler.EnqueueRequestsFromMapFunc(duplicates(c)), predicates.Existence()).
		Watches(&v1alpha1.Deployment{}, handler.EnqueueRequestsFromMapFunc(ofDeployment(c)), predicates.SpecOrChanged(gitProblem)).
		Watches(&v1alpha1.ReleaseChannel{}, handler.EnqueueRequestsFromMapFunc(ofChannel(c)), builder.WithPredicates(headChanged)).
		WithOptions(opts).
		Complete(r)
}

// specOrCommit selects changes by users and of the commit.
var specOrCommit = predicate.Or(predicate.GenerationChangedPredicate{}, predicate.AnnotationChangedPredicate{}, predicate.LabelChangedPredicate{})

// headChanged selects changes of the image that environments of branches run: of the newest version of a channel
// that is not stopped, or of its repository or digest.
var headChanged = predicate.Funcs{
	UpdateFunc: func(e event.UpdateEvent) bool {
		before, ok := e.ObjectOld.(*v1alpha1.ReleaseChannel)
		after, ok2 := e.ObjectNew.(*v1alpha1.ReleaseChannel)
		if !ok || !ok2 {
			return false
		}
		was, _ := newest(before)
		is, _ := newest(after)
		return was.Pinned() != is.Pinned()
	},
}

// gitProblem returns why the repository of a deployment cannot be read; empty if it can.
func gitProblem(o client.Object) string {
	d, ok := o.(*v1alpha1.Deployment)
	if !ok {
		return ""
	}
	c := gitFailure(d)
	if c == nil {
		return ""
	}
	return c.Reason + ": " + c.Message
}

// duplicates maps a created or deleted branch to the other objects for the same branch.
func duplicates(c client.Reader) handler.MapFunc {
	return func(ctx context.Context, obj client.Object) []reconcile.Request {
		changed, ok := obj.(*v1alpha1.Branch)
		if !ok {
			return nil
		}
		return requests.For(ctx, c, &v1alpha1.BranchList{}, func(b *v1alpha1.Branch) bool {
			return b.Spec.Name == changed.Spec.Name && b.Name != changed.Name
		}, client.InNamespace(changed.Namespace), client.MatchingFields{IndexDeployment: changed.Spec.DeploymentRef.Name})
	}
}

func ofDeployment(c client.Reader) handler.MapFunc {
	return func(ctx context.Context, d client.Object) []reconcile.Request {
		return requests.For(ctx, c, &v1alpha1.BranchList{}, requests.All[*v1alpha1.Branch],
			client.InNamespace(d.GetNamespace()), client.MatchingFields{IndexDeployment: d.GetName()})
	}
}

// ofChannel maps a channel whose newest version changed to all branches that have an
// environment or are not ready. Their reconciliation finds out whether they follow the channel.
func ofChannel(c client.Reader) handler.MapFunc {
	return func(ctx context.Context, _ client.Object) []reconcile.Request {
		return requests.For(ctx, c, &v1alpha1.BranchList{}, func(b *v1alpha1.Branch) bool {
			return b.Status.Environment != "" || !meta.IsStatusConditionTrue(b.Status.Conditions, v1alpha1.ConditionReady)
		})
	}
}
