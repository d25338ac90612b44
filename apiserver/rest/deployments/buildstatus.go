package deployments

import (
	"cmp"
	"context"
	"errors"
	"slices"
	"strings"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	apimeta "k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/quoin-dev/quoin/api/v1alpha1"
	"github.com/quoin-dev/quoin/apiserver/catalog"
	"github.com/quoin-dev/quoin/apiserver/rest"
	"github.com/quoin-dev/quoin/internal/content"
	"github.com/quoin-dev/quoin/internal/content/repository"
	"github.com/quoin-dev/quoin/internal/modeltree"
)

// BuildStatusInput selects the branch.
type BuildStatusInput struct {
	rest.InDeployment
	Branch rest.Optional[string] `query:"branchName" maxLength:"244" pattern:"^[^\\x00-\\x20\\x7F~^:?*\\[\\\\]+$" patternDescription:"a valid name of a branch" doc:"The branch; that of production when absent."`
}

// BuildStatus is the status of the environment of a branch.
type BuildStatus struct {
	DeploymentID     string     `json:"deploymentId"`
	BranchName       string     `json:"branchName"`
	Mode             string     `json:"mode" enum:"production,staging,dev_mode"`
	Status           string     `json:"status" enum:"built,building,warmup,failed,cancelled,stopped,none"`
	BuildJobID       *int64     `json:"buildJobId,omitempty" nullable:"true" minimum:"1" doc:"Number of the build in its environment: greater for each new commit, version or setting."`
	DeploymentStatus *string    `json:"deploymentStatus,omitempty" nullable:"true" doc:"Reason of the environment's condition."`
	ErrorText        *string    `json:"errorText,omitempty" nullable:"true"`
	FilesHash        *string    `json:"filesHash,omitempty" nullable:"true" doc:"Hash of the files: the Git tree of a model in a repository that Quoin keeps or changes, or the hash of a ConfigMap."`
	LastHash         *string    `json:"lastHash,omitempty" nullable:"true" doc:"The commit of the newest build."`
	UpdatedAt        *time.Time `json:"updatedAt,omitempty" nullable:"true" doc:"When the status changed or a build ended last."`
}

// BuildStatusOutput is the response.
type BuildStatusOutput struct{ Body BuildStatus }

// buildStatus reports the newest build of a branch: that of its head, if Quoin has the repository.
func (a *api) buildStatus(ctx context.Context, in *BuildStatusInput) (*BuildStatusOutput, error) {
	d := rest.ScopeFrom(ctx).Deployment
	branches, err := a.Catalog.Branches(d)
	if err != nil {
		return nil, err
	}
	out := &BuildStatusOutput{BuildStatus{DeploymentID: d.Labels[v1alpha1.LabelID], BranchName: catalog.ProductionBranch(d, branches), Mode: "production"}}
	environment := v1alpha1.ProductionName(d.Name)
	if in.Branch.Value != "" && in.Branch.Value != out.Body.BranchName {
		out.Body.BranchName, out.Body.Mode = in.Branch.Value, "staging"
		if strings.HasPrefix(in.Branch.Value, "dev-") {
			out.Body.Mode = "dev_mode"
		}
		i := slices.IndexFunc(branches, func(b *v1alpha1.Branch) bool { return b.Spec.Name == in.Branch.Value })
		switch {
		case i < 0:
			out.Body.Status, out.Body.ErrorText = "building", rest.NilIfEmpty("Bad branch")
			return out, nil
		case branches[i].Status.Environment == "":
			out.Body.Status, out.Body.ErrorText, out.Body.LastHash = "none", rest.NilIfEmpty("Branch is not active"), rest.NilIfEmpty(branches[i].Status.LastHash)
			return out, nil
		}
		environment = branches[i].Status.Environment
	}
	if err := a.environmentStatus(ctx, d, environment, &out.Body); err != nil {
		return nil, err
	}
	if err := a.headStatus(ctx, d, &out.Body); err != nil {
		return nil, err
	}
	if ptr.Deref(d.Spec.Suspend, false) && (out.Body.Status == "building" || out.Body.Status == "warmup") {
		out.Body.Status, out.Body.ErrorText = "cancelled", rest.NilIfEmpty("The deployment is suspended: nothing is rolled out until it resumes")
	}
	return out, nil
}

// headStatus completes the status with the newest commit of the branch. A commit that the environment does
// not have yet is being built.
func (a *api) headStatus(ctx context.Context, d *v1alpha1.Deployment, b *BuildStatus) error {
	head, session, err := a.head(ctx, d, b)
	if err != nil || head == nil {
		return err
	}
	if commit := head.Commit.String(); value(b.LastHash) != commit {
		b.Status, b.ErrorText, b.LastHash = "building", nil, &commit
	}
	b.setUpdated(head.UpdatedAt)
	tree, err := modeltree.TreeOf(session, head.Commit)
	if err != nil {
		return err
	}
	b.FilesHash = rest.NilIfEmpty(tree.String())
	return nil
}

// head returns the newest commit of a branch, and a session that reads it: in a repository that Quoin keeps,
// or in one on a Git host that is changed over REST. It is nil if there is none.
func (a *api) head(ctx context.Context, d *v1alpha1.Deployment, b *BuildStatus) (*repository.Branch, *repository.Session, error) {
	scope := rest.ScopeFrom(ctx).Content()
	switch {
	case d.Spec.Model.Git != nil && a.Mirrors != nil:
		return a.Mirrors.Head(ctx, d, scope, b.BranchName, value(b.LastHash))
	case d.Spec.Model.Repository == nil || a.Repositories == nil:
		return nil, nil, nil
	}
	session := a.Repositories.Session(ctx, scope)
	head, err := session.Branch(b.BranchName)
	var rejected *content.Error
	switch {
	case errors.As(err, &rejected) && rejected.Reason == content.NotFound:
		return nil, nil, nil
	case err != nil:
		return nil, nil, err
	}
	return &head, session, nil
}

// setUpdated sets the time of the last change, unless a later one is known.
func (b *BuildStatus) setUpdated(at time.Time) {
	if b.UpdatedAt == nil || b.UpdatedAt.Before(at) {
		b.UpdatedAt = &at
	}
}

// value returns what a pointer points to, or the zero value.
func value[T any](p *T) (v T) {
	if p != nil {
		v = *p
	}
	return v
}

// environmentStatus sets the status of an environment. If production was rolled back to the previous
// commit, the build of the newest commit has failed.
func (a *api) environmentStatus(ctx context.Context, d *v1alpha1.Deployment, name string, b *BuildStatus) error {
	e := &v1alpha1.Environment{}
	err := a.Kube.Get(ctx, client.ObjectKey{Namespace: d.Namespace, Name: name}, e)
	failed := d.Status.FailedModel
	switch {
	case apierrors.IsNotFound(err):
		b.Status = "none"
		explain(b, d.Status.Conditions)
		return nil
	case err != nil:
		return err
	}
	if e.Generation > 0 {
		b.BuildJobID = &e.Generation
	}
	if e.Spec.Type == v1alpha1.EnvironmentProduction && failed != nil {
		b.Status, b.LastHash, b.DeploymentStatus = "failed", rest.NilIfEmpty(failed.Commit), rest.NilIfEmpty(failed.Reason)
		b.ErrorText, b.UpdatedAt = rest.NilIfEmpty(failed.Message), &failed.Time.Time
		return nil
	}
	b.LastHash, b.FilesHash = rest.NilIfEmpty(cmp.Or(e.Spec.ModelCommit, e.Status.ModelCommit)), rest.NilIfEmpty(e.Status.ModelHash)
	b.Status = explain(b, e.Status.Conditions)
	if built := e.Status.LastBuildTime; built != nil {
		b.setUpdated(built.Time)
	}
	if ready := apimeta.FindStatusCondition(e.Status.Conditions, v1alpha1.ConditionReady); ready != nil && ready.ObservedGeneration != e.Generation {
		b.Status, b.ErrorText = "building", nil // the condition is that of the previous build
	}
	return nil
}

// explain returns the build status that follows from the conditions of an object, and sets its reason.
func explain(b *BuildStatus, conditions []metav1.Condition) string {
	ready := apimeta.FindStatusCondition(conditions, v1alpha1.ConditionReady)
	if ready == nil {
		return "building"
	}
	b.DeploymentStatus, b.UpdatedAt = rest.NilIfEmpty(ready.Reason), &ready.LastTransitionTime.Time
	switch {
	case ready.Reason == v1alpha1.ReasonAsleep:
		return "stopped"
	case ready.Status == metav1.ConditionTrue:
		return "built"
	case apimeta.IsStatusConditionTrue(conditions, v1alpha1.ConditionStalled):
		b.ErrorText = rest.NilIfEmpty(ready.Message)
		return "failed"
	case ready.Reason == v1alpha1.ReasonWarmingUp:
		return "warmup"
	case ready.Reason == v1alpha1.ReasonWorkloadsNotReady: // the pods may not be able to start
		b.ErrorText = rest.NilIfEmpty(ready.Message)
	}
	return "building"
}
