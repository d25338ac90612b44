package environment

import (
	"context"
	"fmt"
	"maps"
	"strconv"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	policyv1 "k8s.io/api/policy/v1"
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
	"github.com/quoin-dev/quoin/internal/fairqueue"
)

const (
	// IndexDeployment is the indexed field of environments that names their deployment.
	IndexDeployment = "spec.deploymentRef.name"
	// indexEnvironment is the indexed field of an environment's objects in the cache.
	indexEnvironment = "metadata.labels." + v1alpha1.LabelEnvironment
)

// AddIndexes indexes the objects of environments by their label. Without it, every
// reconciliation iterates over all objects of the account. The Kubernetes API server has no
// such field; see Options.Indexed.
func AddIndexes(ctx context.Context, indexer client.FieldIndexer) error {
	for _, kind := range childKinds() {
		err := indexer.IndexField(ctx, kind.object, indexEnvironment, func(obj client.Object) []string {
			return []string{obj.GetLabels()[v1alpha1.LabelEnvironment]}
		})
		if err != nil {
			return fmt.Errorf("index %T by %s: %w", kind.object, indexEnvironment, err)
		}
	}
	return nil
}

// +kubebuilder:rbac:groups=platform.quoin.dev,resources=environments,verbs=get;list;watch
// +kubebuilder:rbac:groups=platform.quoin.dev,resources=environments/finalizers,verbs=update
// +kubebuilder:rbac:groups=platform.quoin.dev,resources=environments/status,verbs=patch
// +kubebuilder:rbac:groups=apps,resources=deployments;statefulsets,verbs=create;delete;get;list;patch;watch
// +kubebuilder:rbac:groups="",resources=configmaps,verbs=get;list;watch
// +kubebuilder:rbac:groups="",resources=pods,verbs=list;watch
// +kubebuilder:rbac:groups="",resources=secrets,verbs=create
// +kubebuilder:rbac:groups="",resources=serviceaccounts;services,verbs=create;delete;get;list;patch;watch
// +kubebuilder:rbac:groups=networking.k8s.io,resources=networkpolicies,verbs=create;delete;get;list;patch;watch
// +kubebuilder:rbac:groups=policy,resources=poddisruptionbudgets,verbs=create;delete;get;list;patch;watch

// SetupWithManager starts the reconciler in a manager. It has twice as many workers as others: a rollout takes as many writes of
// this controller as of that of Deployments, and larger ones. With fewer workers, environments would wait while more and more
// rollouts begin.
func SetupWithManager(mgr ctrl.Manager, r reconcile.Reconciler, opts controller.Options) error {
	fairqueue.Workers(&opts, 2*opts.MaxConcurrentReconciles)
	c := mgr.GetClient()
	return ctrl.NewControllerManagedBy(mgr).
		Named("environment").
		For(&v1alpha1.Environment{}, predicates.SpecOr(v1alpha1.AnnotationWakeRequested)).
		Owns(&appsv1.Deployment{}, workloadChanged).
		Owns(&appsv1.StatefulSet{}, workloadChanged).
		Owns(&corev1.Service{}, withoutStatus).
		Owns(&corev1.ServiceAccount{}, withoutStatus).
		Owns(&policyv1.PodDisruptionBudget{}, withoutStatus).
		Owns(&networkingv1.NetworkPolicy{}, withoutStatus).
		Watches(&v1alpha1.Deployment{}, handler.EnqueueRequestsFromMapFunc(ofDeployment(c)), deploymentChanged).
		Watches(&v1alpha1.Account{}, handler.EnqueueRequestsFromMapFunc(requests.OfAccount[*v1alpha1.Environment](c, &v1alpha1.EnvironmentList{})), predicates.Spec()).
		Watches(&v1alpha1.OidcTokenConfig{}, handler.EnqueueRequestsFromMapFunc(ofTokenConfig(c)), tokensChanged).
		Watches(&corev1.Pod{}, podEvents, builder.WithPredicates(modelRejected)).
		WatchesMetadata(&corev1.ConfigMap{}, handler.EnqueueRequestsFromMapFunc(ofConfigMap(c))).
		WithOptions(opts).
		Complete(r)
}

// workloadChanged selects the updates of workloads that concern their environment.
var workloadChanged = builder.WithPredicates(predicate.Funcs{UpdateFunc: func(e event.UpdateEvent) bool {
	return concerns(e.ObjectOld, e.ObjectNew)
}})

// concerns reports whether an update of a workload can change the outcome of its environment or what it applies. What
// Kubernetes writes most often during a rollout does not: the revision, and numbers of pods, which are read when
// progress is reported.
func concerns(before, after client.Object) bool {
	return before.GetGeneration() != after.GetGeneration() || !after.GetDeletionTimestamp().IsZero() ||
		!maps.Equal(before.GetLabels(), after.GetLabels()) || !maps.Equal(withoutRevision(before), withoutRevision(after)) ||
		progressOf(before).milestone() != progressOf(after).milestone()
}

// withoutRevision returns the annotations that Kubernetes does not write.
func withoutRevision(workload client.Object) map[string]string {
	annotations := maps.Clone(workload.GetAnnotations())
	delete(annotations, revisionAnnotation)
	return annotations
}

// revisionAnnotation counts the pod templates of a Deployment of apps.
const revisionAnnotation = "deployment.kubernetes.io/revision"

// withoutStatus ignores status changes of objects whose status is not used.
var withoutStatus = builder.WithPredicates(predicate.Or(
	predicate.GenerationChangedPredicate{}, predicate.LabelChangedPredicate{}, predicate.AnnotationChangedPredicate{},
	predicate.Funcs{UpdateFunc: func(event.UpdateEvent) bool { return false }},
))

// deploymentChanged selects changes of what environments take from their deployment: the spec, and the
// custom domain that it holds, which is in the addresses.
var deploymentChanged = predicates.SpecOrChanged(func(o client.Object) string {
	d, ok := o.(*v1alpha1.Deployment)
	if !ok {
		return ""
	}
	return d.Status.CustomDomain
})

// tokensChanged selects changes of what pods mount.
var tokensChanged = predicates.SpecOrChanged(func(o client.Object) string {
	c, ok := o.(*v1alpha1.OidcTokenConfig)
	if !ok {
		return ""
	}
	return strconv.FormatBool(c.Status.Mounted)
})

// ofTokenConfig maps an OIDC token configuration to the environments of its account.
func ofTokenConfig(c client.Reader) handler.MapFunc {
	return func(ctx context.Context, config client.Object) []reconcile.Request {
		return requests.For(ctx, c, &v1alpha1.EnvironmentList{}, requests.All[*v1alpha1.Environment], client.InNamespace(config.GetNamespace()))
	}
}

func ofDeployment(c client.Reader) handler.MapFunc {
	return func(ctx context.Context, d client.Object) []reconcile.Request {
		return requests.For(ctx, c, &v1alpha1.EnvironmentList{}, requests.All[*v1alpha1.Environment], client.InNamespace(d.GetNamespace()), client.MatchingFields{IndexDeployment: d.GetName()})
	}
}

// ofConfigMap maps a ConfigMap to the environments of the deployments whose model it is.
func ofConfigMap(c client.Reader) handler.MapFunc {
	return func(ctx context.Context, cm client.Object) []reconcile.Request {
		deployments := map[string]bool{}
		for _, r := range requests.For(ctx, c, &v1alpha1.DeploymentList{}, func(d *v1alpha1.Deployment) bool {
			ref := d.Spec.Model.ConfigMapRef
			return ref != nil && ref.Name == cm.GetName()
		}, client.InNamespace(cm.GetNamespace())) {
			deployments[r.Name] = true
		}
		if len(deployments) == 0 {
			return nil
		}
		return requests.For(ctx, c, &v1alpha1.EnvironmentList{}, func(e *v1alpha1.Environment) bool {
			return deployments[e.Spec.DeploymentRef.Name]
		}, client.InNamespace(cm.GetNamespace()))
	}
}
