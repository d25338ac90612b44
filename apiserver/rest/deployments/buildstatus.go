package deployments

import (
	"context"
	"slices"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	apimeta "k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/quoin-dev/quoin/api/v1alpha1"
	"github.com/quoin-dev/quoin/apiserver/recording"
	"github.com/quoin-dev/quoin/internal/audit"
)

// BuildStatusInput names the branch.
type BuildStatusInput struct {
	InDeployment
	Branch given[string] `query:"branchName" maxLength:"244" doc:"The branch; the one of production when absent."`
}

// BuildStatus is how far the environment of a branch is.
type BuildStatus struct {
	DeploymentID     string     `json:"deploymentId"`
	BranchName       string     `json:"branchName"`
	Mode             string     `json:"mode" enum:"production,staging,dev_mode"`
	Status           string     `json:"status" enum:"built,building,warmup,failed,stopped,none"`
	DeploymentStatus *string    `json:"deploymentStatus,omitempty" nullable:"true" doc:"Reason of the environment's condition."`
	ErrorText        *string    `json:"errorText,omitempty" nullable:"true"`
	LastHash         *string    `json:"lastHash,omitempty" nullable:"true"`
	UpdatedAt        *time.Time `json:"updatedAt,omitempty" nullable:"true"`
}

// BuildStatusOutput is the answer.
type BuildStatusOutput struct{ Body BuildStatus }

func (a *API) buildStatus(ctx context.Context, in *BuildStatusInput) (*BuildStatusOutput, error) {
	d := scopeOf(ctx).deployment
	branches, err := a.branchesOf(ctx, d)
	if err != nil {
		return nil, err
	}
	out := &BuildStatusOutput{BuildStatus{DeploymentID: d.Labels[v1alpha1.LabelID], BranchName: productionBranch(d, branches), Mode: "production"}}
	environment := v1alpha1.ProductionName(d.Name)
	if in.Branch.Value != "" && in.Branch.Value != out.Body.BranchName {
		out.Body.BranchName, out.Body.Mode = in.Branch.Value, "staging"
		i := slices.IndexFunc(branches, func(b *v1alpha1.Branch) bool { return b.Spec.Name == in.Branch.Value })
		switch {
		case i < 0:
			out.Body.Status, out.Body.ErrorText = "building", said("Bad branch")
			return out, nil
		case branches[i].Status.Environment == "":
			out.Body.Status, out.Body.ErrorText, out.Body.LastHash = "none", said("Branch is not active"), said(branches[i].Status.LastHash)
			return out, nil
		}
		if branches[i].Spec.Role == v1alpha1.BranchPersonal {
			out.Body.Mode = "dev_mode"
		}
		environment = branches[i].Status.Environment
	}
	return out, a.environmentStatus(ctx, d, environment, &out.Body)
}

// environmentStatus says how far an environment is. Production that went back to the commit
// before is well, and the build of the newest commit has failed.
func (a *API) environmentStatus(ctx context.Context, d *v1alpha1.Deployment, name string, b *BuildStatus) error {
	e := &v1alpha1.Environment{}
	err := a.Kube.Get(ctx, client.ObjectKey{Namespace: d.Namespace, Name: name}, e)
	failed := d.Status.FailedModel
	switch {
	case apierrors.IsNotFound(err):
		b.Status = "none"
		explain(b, d.Status.Conditions)
	case err != nil:
		return err
	case e.Spec.Type == v1alpha1.EnvironmentProduction && failed != nil:
		b.Status, b.LastHash, b.DeploymentStatus = "failed", said(failed.Commit), said(failed.Reason)
		b.ErrorText, b.UpdatedAt = said(failed.Message), &failed.Time.Time
	default:
		b.LastHash = said(e.Status.ModelCommit)
		b.Status = explain(b, e.Status.Conditions)
	}
	return nil
}

// explain says by the conditions of an object how far it is.
func explain(b *BuildStatus, conditions []metav1.Condition) string {
	ready := apimeta.FindStatusCondition(conditions, v1alpha1.ConditionReady)
	if ready == nil {
		return "building"
	}
	b.DeploymentStatus, b.UpdatedAt = said(ready.Reason), &ready.LastTransitionTime.Time
	switch {
	case ready.Reason == v1alpha1.ReasonAsleep:
		return "stopped"
	case ready.Status == metav1.ConditionTrue:
		return "built"
	case apimeta.IsStatusConditionTrue(conditions, v1alpha1.ConditionStalled):
		b.ErrorText = said(ready.Message)
		return "failed"
	case ready.Reason == v1alpha1.ReasonWarmingUp:
		return "warmup"
	}
	return "building"
}

// PullInput may name a branch. All branches of the repository are read at once, so it only says
// whose news are told.
type PullInput struct {
	InDeployment
	Body *struct {
		Branch string `json:"branchName" minLength:"1" maxLength:"244"`
	}
}

// PullOutput tells whether the branch has moved.
type PullOutput struct {
	Body struct {
		BuildTriggered bool `json:"buildTriggered" doc:"true when the branch has another commit than before."`
	}
}

// pull has the repository read now, as somebody who has pushed wishes.
func (a *API) pull(ctx context.Context, in *PullInput) (*PullOutput, error) {
	d := scopeOf(ctx).deployment
	switch {
	case d.Spec.Model.Git == nil:
		return nil, conflict("the data model of deployment %s is not in Git: there is nothing to pull", d.Labels[v1alpha1.LabelID])
	case ptr.Deref(d.Spec.Suspend, false):
		return nil, conflict("deployment %s is suspended: its repository is not read", d.Labels[v1alpha1.LabelID])
	}
	named := ""
	if in.Body != nil {
		named = in.Body.Branch
	}
	before, err := a.commitOf(ctx, d, named)
	if err != nil {
		return nil, err
	}
	if err := a.annotate(recording.Named(ctx, audit.TriggeredNewBuild), d, v1alpha1.AnnotationReconcile, a.Now().UTC().Format(time.RFC3339Nano)); err != nil {
		return nil, err
	}
	err = a.await(ctx, func(ctx context.Context) (bool, error) {
		fresh := &v1alpha1.Deployment{}
		err := a.Kube.Get(ctx, client.ObjectKeyFromObject(d), fresh)
		// Whoever asks after us has the repository read after us.
		return err == nil && fresh.Status.LastHandledReconcileAt == fresh.Annotations[v1alpha1.AnnotationReconcile], err
	})
	if err != nil {
		return nil, err
	}
	after, err := a.commitOf(ctx, d, named)
	if err != nil {
		return nil, err
	}
	if after == "" && named != "" {
		return nil, notFound("branchName: the repository has no branch %q", clip(named))
	}
	out := &PullOutput{}
	out.Body.BuildTriggered = after != before
	return out, nil
}

// commitOf is the commit of a branch, of production's when it has no name, as fresh as the API
// server; empty when the repository has no such branch.
func (a *API) commitOf(ctx context.Context, d *v1alpha1.Deployment, name string) (string, error) {
	list := &v1alpha1.BranchList{}
	err := a.Kube.Live().List(ctx, list, client.InNamespace(d.Namespace), client.MatchingFields{"spec.deploymentRef.name": d.Name})
	if err != nil {
		return "", err
	}
	for i := range list.Items {
		b := &list.Items[i]
		commit := b.Annotations[v1alpha1.AnnotationCommit]
		if commit != v1alpha1.CommitMissing && (b.Spec.Name == name || name == "" && b.Spec.Role == v1alpha1.BranchProduction) {
			return commit, nil
		}
	}
	return "", nil
}
