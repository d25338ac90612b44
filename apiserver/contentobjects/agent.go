package contentobjects

import (
	"context"
	"errors"
	"fmt"
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/wait"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/quoin-dev/quoin/api/v1alpha1"
	"github.com/quoin-dev/quoin/apiserver/agentfiles"
	"github.com/quoin-dev/quoin/controllers/requests"
	"github.com/quoin-dev/quoin/internal/content"
	"github.com/quoin-dev/quoin/internal/kube"
	"github.com/quoin-dev/quoin/internal/reconciler"
	"github.com/quoin-dev/quoin/internal/tenant"
)

// +kubebuilder:rbac:groups=platform.quoin.dev,resources=agents,verbs=get
// +kubebuilder:rbac:groups=platform.quoin.dev,resources=agents/status,verbs=patch

// agents reports in the condition FilesRead of Agents what is wrong with the files that configure them. The other conditions are
// those of quoin controller, which cannot read the files.
type agents struct {
	Options
	kube *kube.Client
}

// Reconcile implements reconcile.Reconciler.
func (r *agents) Reconcile(ctx context.Context, request reconcile.Request) (reconcile.Result, error) {
	agent := &v1alpha1.Agent{}
	if err := r.kube.Get(ctx, request.NamespacedName, agent); err != nil || !agent.DeletionTimestamp.IsZero() {
		return reconcile.Result{}, client.IgnoreNotFound(err)
	}
	account, err := tenant.Of(ctx, r.kube, agent.Namespace)
	if errors.Is(err, tenant.ErrNoAccount) {
		return reconcile.Result{}, nil // quoin controller reports it
	}
	if err != nil {
		return reconcile.Result{}, err
	}
	d := &v1alpha1.Deployment{}
	err = r.kube.Get(ctx, client.ObjectKey{Namespace: agent.Namespace, Name: agent.Spec.DeploymentRef.Name}, d)
	if err != nil || !d.DeletionTimestamp.IsZero() {
		return reconcile.Result{}, client.IgnoreNotFound(err)
	}
	read, err := r.Files.Served(ctx, d, newPlace(r.Options, account, d).Scope)
	condition, err := filesRead(agent, read, err)
	if err != nil {
		return reconcile.Result{}, err
	}
	before := agent.DeepCopy()
	condition.ObservedGeneration = agent.Generation
	meta.SetStatusCondition(&agent.Status.Conditions, *condition)
	again := reconcile.Result{RequeueAfter: wait.Jitter(driftInterval, 0.1)}
	if condition.Status == metav1.ConditionUnknown {
		again.RequeueAfter = conflictInterval
	}
	_, err = kube.PatchStatus(ctx, r.kube, before, agent)
	switch {
	case apierrors.IsConflict(err): // the cache will have the new version
		return reconcile.Result{RequeueAfter: waitInterval}, nil
	case err != nil:
		return reconcile.Result{}, client.IgnoreNotFound(err)
	}
	return again, nil
}

const (
	// maxShownProblems is the maximum number of problems in a message.
	maxShownProblems = 10
	// maxProblem is the maximum length of a problem in a message, in characters.
	maxProblem = 500
)

// filesRead returns the condition for the files, or the error of reading them. Errors that are retried are returned.
func filesRead(a *v1alpha1.Agent, read *agentfiles.Read, err error) (*metav1.Condition, error) {
	of := func(status metav1.ConditionStatus, reason, format string, args ...any) (*metav1.Condition, error) {
		return &metav1.Condition{Type: v1alpha1.ConditionFilesRead, Status: status, Reason: reason, Message: fmt.Sprintf(format, args...)}, nil
	}
	var rejected *content.Error
	switch {
	case errors.Is(err, agentfiles.ErrNotServed):
		return of(metav1.ConditionUnknown, v1alpha1.ReasonWorkloadsNotReady, "%v", err)
	case errors.As(err, &rejected) && rejected.Reason == content.Unavailable:
		return of(metav1.ConditionUnknown, v1alpha1.ReasonContentStoreUnavailable, "The files cannot be read: %s", reconciler.Clip(rejected.Message, maxProblem))
	case errors.As(err, &rejected):
		return of(metav1.ConditionFalse, v1alpha1.ReasonInvalidFiles, "The files cannot be read: %s", reconciler.Clip(rejected.Message, maxProblem))
	case err != nil:
		return nil, err
	}
	at := "The data model is in no Git repository"
	if read.Commit != "" {
		at = "At commit " + read.Commit
	}
	if failures := read.Errors(); len(failures) > 0 {
		return of(metav1.ConditionFalse, v1alpha1.ReasonInvalidFiles, "%s: %s", at, shownProblems(len(failures), func(i int) string { return failures[i].String() }))
	}
	name := agentfiles.ConfigName(a)
	if read.IsMulti && !read.For(name).IsDeclared {
		return of(metav1.ConditionFalse, v1alpha1.ReasonNotDeclared, "%s: agents of config.yml has no %q, so the agent has no configuration; spec.configName names another one", at, name)
	}
	message := at + ": the files have no errors"
	if warnings := read.Problems; len(warnings) > 0 {
		message += "; warnings: " + shownProblems(len(warnings), func(i int) string { return warnings[i].String() })
	}
	return of(metav1.ConditionTrue, v1alpha1.ReasonSucceeded, "%s", message)
}

// shownProblems returns the first problems.
func shownProblems(n int, text func(i int) string) string {
	var shown []string
	for i := range min(n, maxShownProblems) {
		shown = append(shown, reconciler.Clip(text(i), maxProblem))
	}
	if n > maxShownProblems {
		shown = append(shown, fmt.Sprintf("and %d more", n-maxShownProblems))
	}
	return strings.Join(shown, "; ")
}

// agentsOf maps a Deployment to its Agents.
func agentsOf(c client.Reader) handler.MapFunc {
	return func(ctx context.Context, d client.Object) []reconcile.Request {
		return requests.For(ctx, c, &v1alpha1.AgentList{}, func(a *v1alpha1.Agent) bool {
			return a.Spec.DeploymentRef.Name == d.GetName()
		}, client.InNamespace(d.GetNamespace()))
	}
}

// agentsFrom maps a production Environment to the Agents of its deployment.
func agentsFrom(c client.Reader) handler.MapFunc {
	return func(ctx context.Context, e client.Object) []reconcile.Request {
		return requests.For(ctx, c, &v1alpha1.AgentList{}, func(a *v1alpha1.Agent) bool {
			return v1alpha1.ProductionName(a.Spec.DeploymentRef.Name) == e.GetName()
		}, client.InNamespace(e.GetNamespace()))
	}
}
