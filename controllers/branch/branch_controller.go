// Package branch reconciles Branches: it allocates their IDs, reports their commits, and
// creates and deletes their staging and development environments.
package branch

import (
	"context"
	"fmt"
	"slices"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/quoin-dev/quoin/api/v1alpha1"
	"github.com/quoin-dev/quoin/controllers/tenancy"
	"github.com/quoin-dev/quoin/internal/engine"
	"github.com/quoin-dev/quoin/internal/ids"
	"github.com/quoin-dev/quoin/internal/kube"
	"github.com/quoin-dev/quoin/internal/reconciler"
)

// FieldManager is the field manager of this controller's writes.
const FieldManager = "quoin-branch"

type branchReconciler struct {
	ids     *ids.Allocator
	numbers tenancy.Numbers[*v1alpha1.Branch]
}

type scope = reconciler.Scope[*v1alpha1.Branch]

// New returns the reconciler of Branches.
func New(c *kube.Client, recorder reconciler.Recorder, clk clock.PassiveClock, allocator *ids.Allocator) *reconciler.Reconciler[*v1alpha1.Branch] {
	r := &branchReconciler{allocator, tenancy.Numbers[*v1alpha1.Branch]{
		Kind: "Branch", Counter: ids.Branches, IDs: allocator, Status: func(b *v1alpha1.Branch) *int64 { return &b.Status.ID },
	}}
	return &reconciler.Reconciler[*v1alpha1.Branch]{
		Client: c.As(FieldManager), Recorder: recorder, Clock: clk,
		New:  func() *v1alpha1.Branch { return &v1alpha1.Branch{} },
		Work: r.work,
	}
}

func (r *branchReconciler) work(ctx context.Context, s *scope) reconciler.Outcome {
	b := s.Object
	account, o := tenancy.Account(ctx, s)
	if o != nil {
		return *o
	}
	if o := checkDuplicate(ctx, s); o != nil {
		return *o
	}
	if o := checkCopiedIDs(ctx, s); o != nil {
		return *o
	}
	if o := r.numbers.Assign(ctx, s, account.Name, nil); o != nil {
		return *o
	}
	d := &v1alpha1.Deployment{}
	err := s.Get(ctx, client.ObjectKey{Namespace: b.Namespace, Name: b.Spec.DeploymentRef.Name}, d)
	if apierrors.IsNotFound(err) {
		return r.deleteEnvironments(ctx, s, reconciler.NotFound(v1alpha1.ReasonDeploymentNotFound, fmt.Sprintf(
			"spec.deploymentRef: deployment %q does not exist", b.Spec.DeploymentRef.Name)))
	}
	if err != nil {
		return reconciler.Failed(err)
	}
	if o := checkRemote(b, d); o != nil {
		if o.Reason() != v1alpha1.ReasonBranchNotFound {
			return *o // no commit is known yet, or a client that replaced the object has removed it: the environment is kept
		}
		return r.deleteEnvironments(ctx, s, *o)
	}
	b.Status.LastHash = b.Annotations[v1alpha1.AnnotationCommit]
	serving := servingOf(b, d)
	if serving == nil {
		return r.deleteEnvironments(ctx, s, reconciler.Done("The branch follows the remote"))
	}
	return r.serve(ctx, s, d, account.Name, *serving)
}

// checkRemote returns an outcome unless the branch exists in the deployment's repository.
func checkRemote(b *v1alpha1.Branch, d *v1alpha1.Deployment) *reconciler.Outcome {
	var o reconciler.Outcome
	remote, commit := engine.RemoteOf(d, ""), b.Annotations[v1alpha1.AnnotationCommit]
	if !engine.IsOfSource(b, d) {
		commit = ""
	}
	switch {
	case remote == nil:
		o = reconciler.Stalled(v1alpha1.ReasonBranchNotFound, fmt.Sprintf(
			"spec.deploymentRef: the model of deployment %q is not in Git, so it has no branches", d.Name))
	case commit == v1alpha1.CommitMissing:
		o = reconciler.Stalled(v1alpha1.ReasonBranchNotFound, fmt.Sprintf(
			"spec.name: %s has no branch %q", remote, b.Spec.Name))
	case commit == "" && gitFailure(d) != nil:
		c := gitFailure(d)
		o = reconciler.Stalled(c.Reason, fmt.Sprintf("spec.deploymentRef: deployment %q: %s", d.Name, c.Message))
	case commit == "":
		o = reconciler.Progressing(v1alpha1.ReasonProgressing, "Waiting for the branches of "+remote.String()+" to be read")
	default:
		return nil
	}
	return &o
}

// gitReasons are the reasons for which the branches of a deployment's repository cannot be read.
var gitReasons = []string{
	v1alpha1.ReasonGitFailed, v1alpha1.ReasonGitRepositoryNotFound, v1alpha1.ReasonGitAccessDenied,
	v1alpha1.ReasonGitSecretUnreadable, v1alpha1.ReasonRepositoryUnavailable, v1alpha1.ReasonInvalidSpec,
}

// gitFailure returns the condition of a deployment whose repository cannot be read until a user
// changes something, or nil.
func gitFailure(d *v1alpha1.Deployment) *metav1.Condition {
	c := meta.FindStatusCondition(d.Status.Conditions, v1alpha1.ConditionStalled)
	if c == nil || !slices.Contains(gitReasons, c.Reason) {
		return nil
	}
	return c
}

// checkDuplicate rejects a Branch when an older object declares the same branch.
func checkDuplicate(ctx context.Context, s *scope) *reconciler.Outcome {
	list := &v1alpha1.BranchList{}
	err := s.List(ctx, list, client.InNamespace(s.Object.Namespace), client.MatchingFields{IndexDeployment: s.Object.Spec.DeploymentRef.Name})
	if err != nil {
		o := reconciler.Failed(fmt.Errorf("list branches: %w", err))
		return &o
	}
	for i := range list.Items {
		other := &list.Items[i]
		if other.UID == s.Object.UID || other.Spec.Name != s.Object.Spec.Name {
			continue
		}
		// A declared Branch replaces one that follows the remote, which the Deployment controller
		// then deletes.
		if other.Labels[v1alpha1.LabelRemote] == "true" || !older(other, s.Object) {
			continue
		}
		o := reconciler.Stalled(v1alpha1.ReasonNameTaken, fmt.Sprintf(
			"spec.name: branch %q of deployment %q is declared by Branch %q", other.Spec.Name, other.Spec.DeploymentRef.Name, other.Name))
		return &o
	}
	return nil
}

func older(a, b *v1alpha1.Branch) bool {
	if !a.CreationTimestamp.Equal(&b.CreationTimestamp) {
		return a.CreationTimestamp.Before(&b.CreationTimestamp)
	}
	return a.Name < b.Name
}

// checkCopiedIDs rejects IDs that another branch has: its YAML was copied.
func checkCopiedIDs(ctx context.Context, s *scope) *reconciler.Outcome {
	branch, environment := s.Object.Labels[v1alpha1.LabelID], s.Object.Annotations[v1alpha1.AnnotationEnvironmentID]
	if s.Object.Status.ID != 0 || branch == "" && environment == "" {
		return nil
	}
	list := &v1alpha1.BranchList{}
	if err := s.Live().List(ctx, list, client.InNamespace(s.Object.Namespace)); err != nil {
		o := reconciler.Failed(fmt.Errorf("list branches to compare IDs: %w", err))
		return &o
	}
	for i := range list.Items {
		other := &list.Items[i]
		if other.UID == s.Object.UID || other.Status.ID == 0 {
			continue
		}
		if (branch != "" && other.Labels[v1alpha1.LabelID] == branch) ||
			(environment != "" && other.Annotations[v1alpha1.AnnotationEnvironmentID] == environment) {
			o := reconciler.Stalled(v1alpha1.ReasonInvalidSpec, fmt.Sprintf(
				"metadata: label %s or annotation %s has an ID of branch %q; remove both, and new IDs are allocated",
				v1alpha1.LabelID, v1alpha1.AnnotationEnvironmentID, other.Name))
			return &o
		}
	}
	return nil
}

// outcomeOf returns the outcome of the branch by the conditions of its environment.
func outcomeOf(env *v1alpha1.Environment) reconciler.Outcome {
	if c := meta.FindStatusCondition(env.Status.Conditions, v1alpha1.ConditionStalled); c != nil && c.ObservedGeneration == env.Generation {
		return reconciler.Stalled(c.Reason, c.Message)
	}
	c := meta.FindStatusCondition(env.Status.Conditions, v1alpha1.ConditionReady)
	isReady := c != nil && c.Status == metav1.ConditionTrue && env.Status.ObservedGeneration == env.Generation
	switch {
	case isReady && c.Reason == v1alpha1.ReasonAsleep:
		return reconciler.Done(fmt.Sprintf("The %s environment is asleep", env.Spec.Type)).WithReason(v1alpha1.ReasonAsleep)
	case isReady:
		return reconciler.Done(fmt.Sprintf("The %s environment is active", env.Spec.Type))
	}
	return reconciler.Progressing(v1alpha1.ReasonProgressing, fmt.Sprintf("The %s environment is starting", env.Spec.Type))
}
