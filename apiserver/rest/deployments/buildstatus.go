package deployments

import (
	"context"
	"slices"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	apimeta "k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/quoin-dev/quoin/api/v1alpha1"
	"github.com/quoin-dev/quoin/apiserver/catalog"
	"github.com/quoin-dev/quoin/apiserver/rest"
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
	Status           string     `json:"status" enum:"built,building,warmup,failed,stopped,none"`
	DeploymentStatus *string    `json:"deploymentStatus,omitempty" nullable:"true" doc:"Reason of the environment's condition."`
	ErrorText        *string    `json:"errorText,omitempty" nullable:"true"`
	LastHash         *string    `json:"lastHash,omitempty" nullable:"true"`
	UpdatedAt        *time.Time `json:"updatedAt,omitempty" nullable:"true"`
}

// BuildStatusOutput is the response.
type BuildStatusOutput struct{ Body BuildStatus }

func (a *api) buildStatus(ctx context.Context, in *BuildStatusInput) (*BuildStatusOutput, error) {
	d := rest.ScopeFrom(ctx).Deployment
	branches, err := a.Catalog.Branches(ctx, d)
	if err != nil {
		return nil, err
	}
	out := &BuildStatusOutput{BuildStatus{DeploymentID: d.Labels[v1alpha1.LabelID], BranchName: catalog.ProductionBranch(d, branches), Mode: "production"}}
	environment := v1alpha1.ProductionName(d.Name)
	if in.Branch.Value != "" && in.Branch.Value != out.Body.BranchName {
		out.Body.BranchName, out.Body.Mode = in.Branch.Value, "staging"
		i := slices.IndexFunc(branches, func(b *v1alpha1.Branch) bool { return b.Spec.Name == in.Branch.Value })
		switch {
		case i < 0:
			out.Body.Status, out.Body.ErrorText = "building", rest.NilIfEmpty("Bad branch")
			return out, nil
		case branches[i].Status.Environment == "":
			out.Body.Status, out.Body.ErrorText, out.Body.LastHash = "none", rest.NilIfEmpty("Branch is not active"), rest.NilIfEmpty(branches[i].Status.LastHash)
			return out, nil
		}
		if branches[i].Spec.Role == v1alpha1.BranchPersonal {
			out.Body.Mode = "dev_mode"
		}
		environment = branches[i].Status.Environment
	}
	return out, a.environmentStatus(ctx, d, environment, &out.Body)
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
	case err != nil:
		return err
	case e.Spec.Type == v1alpha1.EnvironmentProduction && failed != nil:
		b.Status, b.LastHash, b.DeploymentStatus = "failed", rest.NilIfEmpty(failed.Commit), rest.NilIfEmpty(failed.Reason)
		b.ErrorText, b.UpdatedAt = rest.NilIfEmpty(failed.Message), &failed.Time.Time
	default:
		b.LastHash = rest.NilIfEmpty(e.Status.ModelCommit)
		b.Status = explain(b, e.Status.Conditions)
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
	}
	return "building"
}
