package agent

import (
	"context"
	"strings"

	"k8s.io/apimachinery/pkg/api/meta"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/quoin-dev/quoin/api/v1alpha1"
	"github.com/quoin-dev/quoin/controllers/predicates"
	"github.com/quoin-dev/quoin/controllers/requests"
)

// Indexed fields of agents: the names of what they refer to.
const (
	IndexDeployment = "spec.deploymentRef.name"
	IndexEndpoint   = "spec.modelEndpointRef.name"
)

// +kubebuilder:rbac:groups=platform.quoin.dev,resources=agents,verbs=get;patch
// +kubebuilder:rbac:groups=platform.quoin.dev,resources=agents/status,verbs=patch
// +kubebuilder:rbac:groups=platform.quoin.dev,resources=deployments;modelendpoints,verbs=get

// SetupWithManager adds the reconciler to a manager.
func SetupWithManager(mgr ctrl.Manager, r reconcile.Reconciler, opts controller.Options) error {
	c := mgr.GetClient()
	return ctrl.NewControllerManagedBy(mgr).
		Named("agent").
		For(&v1alpha1.Agent{}, predicates.Spec()).
		// The label with the ID of a deleted agent may be that of another one.
		Watches(&v1alpha1.Agent{}, handler.EnqueueRequestsFromMapFunc(requests.Others[*v1alpha1.Agent](c, &v1alpha1.AgentList{})), predicates.Deletion()).
		Watches(&v1alpha1.Account{}, handler.EnqueueRequestsFromMapFunc(requests.OfAccount[*v1alpha1.Agent](c, &v1alpha1.AgentList{})), predicates.Spec()).
		Watches(&v1alpha1.Deployment{}, handler.EnqueueRequestsFromMapFunc(ofDeployment(c)), predicates.Existence()).
		Watches(&v1alpha1.ModelEndpoint{}, handler.EnqueueRequestsFromMapFunc(ofEndpoint(c)), predicates.SpecOrChanged(readiness)).
		WithOptions(opts).
		Complete(r)
}

// readiness returns what agents report of an endpoint: its condition Ready without the message.
func readiness(o client.Object) string {
	e, ok := o.(*v1alpha1.ModelEndpoint)
	if !ok {
		return ""
	}
	c := meta.FindStatusCondition(e.Status.Conditions, v1alpha1.ConditionReady)
	if c == nil {
		return ""
	}
	return strings.Join([]string{string(c.Status), c.Reason}, " ")
}

// ofDeployment maps a deployment to its agents.
func ofDeployment(c client.Reader) handler.MapFunc {
	return func(ctx context.Context, d client.Object) []reconcile.Request {
		return requests.For(ctx, c, &v1alpha1.AgentList{}, requests.All[*v1alpha1.Agent],
			client.InNamespace(d.GetNamespace()), client.MatchingFields{IndexDeployment: d.GetName()})
	}
}

// ofEndpoint maps a model endpoint to the agents that use it, in all accounts.
func ofEndpoint(c client.Reader) handler.MapFunc {
	return func(ctx context.Context, e client.Object) []reconcile.Request {
		return requests.For(ctx, c, &v1alpha1.AgentList{}, requests.All[*v1alpha1.Agent], client.MatchingFields{IndexEndpoint: e.GetName()})
	}
}
