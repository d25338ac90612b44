// Package agent reconciles Agents: it allocates their IDs, and checks that their deployments and model endpoints exist and may be
// used.
package agent

import (
	"context"
	"fmt"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/clock"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/quoin-dev/quoin/api/v1alpha1"
	"github.com/quoin-dev/quoin/controllers/tenancy"
	"github.com/quoin-dev/quoin/internal/ids"
	"github.com/quoin-dev/quoin/internal/kube"
	"github.com/quoin-dev/quoin/internal/modelendpoint"
	"github.com/quoin-dev/quoin/internal/reconciler"
)

// FieldManager is the field manager of this controller's writes.
const FieldManager = "quoin-agent"

type scope = reconciler.Scope[*v1alpha1.Agent]

type agentReconciler struct {
	numbers tenancy.Numbers[*v1alpha1.Agent]
}

// New returns the reconciler of Agents.
func New(c *kube.Client, recorder reconciler.Recorder, clk clock.PassiveClock, allocator *ids.Allocator) *reconciler.Reconciler[*v1alpha1.Agent] {
	r := &agentReconciler{tenancy.Numbers[*v1alpha1.Agent]{
		Kind: "Agent", Counter: ids.Agents, IDs: allocator, Status: func(a *v1alpha1.Agent) *int64 { return &a.Status.ID },
	}}
	return &reconciler.Reconciler[*v1alpha1.Agent]{
		Client: c.As(FieldManager), Recorder: recorder, Clock: clk,
		New:  func() *v1alpha1.Agent { return &v1alpha1.Agent{} },
		Work: r.work,
	}
}

func (r *agentReconciler) work(ctx context.Context, s *scope) reconciler.Outcome {
	account, o := tenancy.Account(ctx, s)
	if o != nil {
		return *o
	}
	list := &v1alpha1.AgentList{}
	if err := s.List(ctx, list, client.InNamespace(s.Object.Namespace)); err != nil {
		return reconciler.Failed(fmt.Errorf("list agents: %w", err))
	}
	all := make([]*v1alpha1.Agent, len(list.Items))
	for i := range list.Items {
		all[i] = &list.Items[i]
	}
	if o := r.numbers.Assign(ctx, s, account.Name, all); o != nil {
		return *o
	}
	if o := checkDeployment(ctx, s); o != nil {
		return *o
	}
	if o := checkEndpoint(ctx, s, account.Name); o != nil {
		return *o
	}
	if ptr.Deref(s.Object.Spec.Suspended, false) {
		return reconciler.Done("The agent is suspended; messages are rejected").WithReason(v1alpha1.ReasonSuspended)
	}
	return reconciler.Done("The agent answers messages")
}

// checkDeployment returns the outcome if the deployment does not exist.
func checkDeployment(ctx context.Context, s *scope) *reconciler.Outcome {
	name := s.Object.Spec.DeploymentRef.Name
	deployment := &v1alpha1.Deployment{}
	err := s.Get(ctx, client.ObjectKey{Namespace: s.Object.Namespace, Name: name}, deployment)
	switch {
	case apierrors.IsNotFound(err), err == nil && !deployment.DeletionTimestamp.IsZero():
		o := reconciler.NotFound(v1alpha1.ReasonDeploymentNotFound, fmt.Sprintf("spec.deploymentRef: Deployment %q does not exist", name))
		return &o
	case err != nil:
		o := reconciler.Failed(fmt.Errorf("read deployment %q: %w", name, err))
		return &o
	}
	return nil
}

// checkEndpoint returns the outcome if the model endpoint does not exist, is not for the account, or is not ready. Whether its
// server answers does not matter: that changes with the network, and runs report it.
func checkEndpoint(ctx context.Context, s *scope, account string) *reconciler.Outcome {
	name := s.Object.Spec.ModelEndpointRef.Name
	endpoint := &v1alpha1.ModelEndpoint{}
	err := s.Get(ctx, client.ObjectKey{Name: name}, endpoint)
	switch {
	case apierrors.IsNotFound(err), err == nil && !endpoint.DeletionTimestamp.IsZero():
		o := reconciler.NotFound(v1alpha1.ReasonModelEndpointNotFound, fmt.Sprintf("spec.modelEndpointRef: ModelEndpoint %q does not exist", name))
		return &o
	case err != nil:
		o := reconciler.Failed(fmt.Errorf("read model endpoint %q: %w", name, err))
		return &o
	case !modelendpoint.Allows(endpoint, account):
		o := reconciler.Stalled(v1alpha1.ReasonModelEndpointNotAllowed, fmt.Sprintf(
			"spec.modelEndpointRef: ModelEndpoint %q does not allow account %q; an administrator can add it to spec.allowedAccounts", name, account))
		return &o
	}
	ready := meta.FindStatusCondition(endpoint.Status.Conditions, v1alpha1.ConditionReady)
	if ready == nil || ready.Status == metav1.ConditionUnknown {
		o := reconciler.Progressing(v1alpha1.ReasonModelEndpointNotReady, fmt.Sprintf("ModelEndpoint %q is being checked", name)).Transient()
		return &o
	}
	if ready.Status != metav1.ConditionTrue {
		// Its message is for administrators of the cluster: it names Secrets in Quoin's namespace.
		o := reconciler.Failing(v1alpha1.ReasonModelEndpointNotReady, fmt.Sprintf(
			"spec.modelEndpointRef: ModelEndpoint %q is not ready: %s", name, ready.Reason), 0)
		return &o
	}
	return nil
}
