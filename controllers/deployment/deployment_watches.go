package deployment

import (
	"context"
	"errors"

	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/api/meta"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/builder"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/predicate"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
	"sigs.k8s.io/controller-runtime/pkg/source"

	"github.com/quoin-dev/quoin/api/v1alpha1"
	"github.com/quoin-dev/quoin/controllers/predicates"
	"github.com/quoin-dev/quoin/controllers/requests"
	"github.com/quoin-dev/quoin/internal/claims"
)

// +kubebuilder:rbac:groups=platform.quoin.dev,resources=branches,verbs=create;delete;get;list;patch;watch
// +kubebuilder:rbac:groups=platform.quoin.dev,resources=claims,verbs=create;delete;get;list;update;watch
// +kubebuilder:rbac:groups=platform.quoin.dev,resources=deployments,verbs=get;list;patch;watch
// +kubebuilder:rbac:groups=platform.quoin.dev,resources=deployments/finalizers,verbs=update
// +kubebuilder:rbac:groups=platform.quoin.dev,resources=deployments/status,verbs=patch
// +kubebuilder:rbac:groups=platform.quoin.dev,resources=environments,verbs=create;get;list;patch;watch

// SetupWithManager starts the reconciler in a manager.
func SetupWithManager(mgr ctrl.Manager, r reconcile.Reconciler, o Options, opts controller.Options) error {
	c := mgr.GetClient()
	enqueue := &handler.EnqueueRequestForObject{}
	return ctrl.NewControllerManagedBy(mgr).
		Named("deployment").
		For(&v1alpha1.Deployment{}, predicates.SpecOr(v1alpha1.AnnotationRetry, v1alpha1.AnnotationEnvironmentID)).
		Owns(&v1alpha1.Environment{}).
		Watches(&v1alpha1.Branch{}, handler.EnqueueRequestsFromMapFunc(ofBranch), predicates.Spec()).
		Watches(&v1alpha1.ReleaseChannel{}, requests.InBackground(ofChannel(c)), builder.WithPredicates(offerChanged)).
		Watches(&v1alpha1.Account{}, handler.EnqueueRequestsFromMapFunc(requests.OfAccount[*v1alpha1.Deployment](c, &v1alpha1.DeploymentList{})), predicates.Spec()).
		Watches(&v1alpha1.Account{}, handler.EnqueueRequestsFromMapFunc(ofDataDomain(c)), dataDomainChanged).
		Watches(&v1alpha1.Deployment{}, handler.EnqueueRequestsFromMapFunc(ofOwnHosts(c)), predicates.Existence()).
		Watches(&v1alpha1.Claim{}, handler.EnqueueRequestsFromMapFunc(ofClaim(c)), predicates.Existence()).
		WatchesRawSource(source.Channel(o.Fleet.wake, enqueue)).
		WatchesRawSource(source.Channel(o.Remotes.wake, enqueue)).
		WithOptions(opts).
		Complete(r)
}

// offerChanged selects updates that change which versions a channel offers.
var offerChanged = predicate.Funcs{
	UpdateFunc: func(e event.UpdateEvent) bool {
		before, ok := e.ObjectOld.(*v1alpha1.ReleaseChannel)
		after, ok2 := e.ObjectNew.(*v1alpha1.ReleaseChannel)
		return ok && ok2 && (before.Spec.ImageRepository != after.Spec.ImageRepository ||
			!equality.Semantic.DeepEqual(before.Spec.Rollout, after.Spec.Rollout) ||
			!equality.Semantic.DeepEqual(before.Status.Versions, after.Status.Versions) ||
			before.Status.ProvenVersion != after.Status.ProvenVersion ||
			!equality.Semantic.DeepEqual(verdicts(before), verdicts(after)))
	},
}

// verdicts returns the versions that a channel has accepted or stopped: while it has done neither,
// deployments do not depend on its counts.
func verdicts(channel *v1alpha1.ReleaseChannel) map[string]v1alpha1.VersionState {
	all := map[string]v1alpha1.VersionState{}
	for _, r := range channel.Status.Rollouts {
		if r.State != v1alpha1.VersionCandidate {
			all[r.Image] = r.State
		}
	}
	return all
}

func ofBranch(_ context.Context, obj client.Object) []reconcile.Request {
	b, ok := obj.(*v1alpha1.Branch)
	if !ok {
		return nil
	}
	return []reconcile.Request{{NamespacedName: client.ObjectKey{Namespace: b.Namespace, Name: b.Spec.DeploymentRef.Name}}}
}

// ofChannel maps a channel to the deployments that follow it, and to those whose pin is
// unknown so far. They are reconciled in the background: rollouts that have begun go on before others begin, and no other
// change waits for those of all deployments.
func ofChannel(c client.Reader) handler.MapFunc {
	return func(ctx context.Context, channel client.Object) []reconcile.Request {
		return requests.For(ctx, c, &v1alpha1.DeploymentList{}, func(d *v1alpha1.Deployment) bool {
			return d.Spec.ReleaseChannel == channel.GetName() || stalledReason(d) == v1alpha1.ReasonUnknownVersion
		})
	}
}

// ofClaim maps a created or deleted claim to the deployments whose name was taken or that request its
// host.
func ofClaim(c client.Reader) handler.MapFunc {
	return func(ctx context.Context, obj client.Object) []reconcile.Request {
		claim, ok := obj.(*v1alpha1.Claim)
		if !ok {
			return nil
		}
		if claim.Spec.Attribute == claims.AttributeHost {
			return ofHost(ctx, c, claim.Spec.Value)
		}
		return requests.For(ctx, c, &v1alpha1.DeploymentList{}, requests.All[*v1alpha1.Deployment],
			client.InNamespace(claim.GetNamespace()), client.MatchingFields{indexStalled: v1alpha1.ReasonNameTaken})
	}
}

const (
	// indexStalled indexes deployments by the reason for which they are stalled, and indexHost by the hosts that they request or
	// show: there is a claim for each deployment.
	indexStalled = requests.CacheOnly + "stalled"
	indexHost    = requests.CacheOnly + "host"
)

// AddIndexes adds the indexes of the controller to the cache, so that no claim scans all deployments.
func AddIndexes(ctx context.Context, indexer client.FieldIndexer) error {
	return errors.Join(
		indexer.IndexField(ctx, &v1alpha1.Deployment{}, indexStalled, stalledReasons),
		indexer.IndexField(ctx, &v1alpha1.Deployment{}, indexHost, hosts),
	)
}

func stalledReasons(obj client.Object) []string {
	if d, ok := obj.(*v1alpha1.Deployment); ok {
		if reason := stalledReason(d); reason != "" {
			return []string{reason}
		}
	}
	return nil
}

// stalledReason returns the reason for which a deployment is stalled; empty if it is not.
func stalledReason(d *v1alpha1.Deployment) string {
	if c := meta.FindStatusCondition(d.Status.Conditions, v1alpha1.ConditionStalled); c != nil {
		return c.Reason
	}
	return ""
}
