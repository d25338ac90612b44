package model

import (
	"context"
	"fmt"

	"github.com/go-git/go-git/v5/plumbing"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/quoin-dev/quoin/api/v1alpha1"
	"github.com/quoin-dev/quoin/apiserver/edit"
	"github.com/quoin-dev/quoin/apiserver/recording"
	"github.com/quoin-dev/quoin/apiserver/rest"
	"github.com/quoin-dev/quoin/internal/audit"
	"github.com/quoin-dev/quoin/internal/freshness"
	"github.com/quoin-dev/quoin/internal/modeltree"
)

// PullInput may name a branch. All branches of the repository are fetched at once: the name only
// selects the branch of the response.
type PullInput struct {
	rest.InDeployment
	Body *struct {
		Branch string `json:"branchName" minLength:"1" maxLength:"244" pattern:"^[^\\x00-\\x20\\x7F~^:?*\\[\\\\]+$" patternDescription:"a valid name of a branch"`
	}
}

// PullOutput reports whether the branch has moved.
type PullOutput struct {
	Body struct {
		BuildTriggered bool    `json:"buildTriggered" doc:"true when the branch has another commit than before."`
		Message        *string `json:"message,omitempty" nullable:"true" doc:"Why nothing was pulled."`
	}
}

// pull triggers an immediate fetch of the repository and waits for it.
func (a *api) pull(ctx context.Context, in *PullInput) (*PullOutput, error) {
	d := rest.ScopeFrom(ctx).Deployment
	switch {
	case d.Spec.Model.Repository != nil:
		return a.pullParent(ctx, in)
	case d.Spec.Model.Git == nil:
		return nil, rest.Conflict("the data model of deployment %s is not in Git: there is nothing to pull", d.Labels[v1alpha1.LabelID])
	case ptr.Deref(d.Spec.Suspend, false):
		return nil, rest.Conflict("deployment %s is suspended: its repository is not read", d.Labels[v1alpha1.LabelID])
	}
	personal, err := a.pullsParent(ctx, in)
	if err != nil {
		return nil, err
	}
	if personal {
		return a.pullParent(ctx, in)
	}
	name := ""
	if in.Body != nil {
		name = in.Body.Branch
	}
	before, err := a.commitOf(ctx, d, name)
	if err != nil {
		return nil, err
	}
	w := a.Kube.Expect(d)
	defer w.Stop()
	if err := edit.Annotate(recording.Named(ctx, audit.TriggeredNewBuild), a.Kube, d, v1alpha1.AnnotationReconcile, a.now()); err != nil {
		return nil, err
	}
	err = w.Until(ctx, edit.Timeout, func(o metav1.Object, _ bool) bool {
		// A later request triggers a later fetch, which serves this request too.
		current, ok := o.(*v1alpha1.Deployment)
		return ok && !freshness.Older(current.ResourceVersion, d.ResourceVersion) &&
			current.Status.LastHandledReconcileAt == current.Annotations[v1alpha1.AnnotationReconcile]
	})
	if err != nil {
		return nil, err
	}
	after, err := a.commitOf(ctx, d, name)
	if err != nil {
		return nil, err
	}
	if after == "" && name != "" {
		return nil, rest.NotFound("branchName: the repository has no branch %q", rest.Clip(name))
	}
	out := &PullOutput{}
	out.Body.BuildTriggered = after != before
	return out, nil
}

// pullsParent reports whether a pull concerns a personal branch of the caller on a Git host: the one that
// is named, or the active one.
func (a *api) pullsParent(ctx context.Context, in *PullInput) (bool, error) {
	s := rest.ScopeFrom(ctx)
	if !a.isWritable(s.Deployment) || a.DevMode == nil {
		return false, nil
	}
	state, err := a.DevMode.State(ctx, s.Content(), s.Caller())
	name := state.Active
	if in.Body != nil {
		name = in.Body.Branch
	}
	return err == nil && name != "" && state.Branches[name].Owner == s.Caller(), err
}

// pullParent brings a personal branch of the caller up to date with its parent. Other branches of a
// repository that Quoin keeps have nothing to be pulled from.
func (a *api) pullParent(ctx context.Context, in *PullInput) (*PullOutput, error) {
	name := ""
	if in.Body != nil {
		name = in.Body.Branch
	}
	out := &PullOutput{}
	err := a.save(ctx, func(t *tree) (*change, error) {
		out.Body.BuildTriggered = false
		own, err := t.selected(name)
		switch {
		case err != nil:
			return nil, err
		case own.role != v1alpha1.BranchPersonal:
			out.Body.Message = ptr.To(fmt.Sprintf("nothing to pull: Quoin keeps the repository, and branch %q has no remote", rest.Clip(own.name)))
			return nil, nil
		}
		if err := t.checkOwned(own, name != ""); err != nil {
			return nil, err
		}
		parent, err := t.branch("parentBranch", own.parent)
		if err != nil {
			return nil, err
		}
		to, err := a.updated(ctx, t, own, parent)
		if err != nil || to == own.commit {
			return nil, err
		}
		c := newChange(ctx, t)
		c.move(own, to)
		c.record(audit.PulledChanges, own.name, map[string]any{"from": parent.name, "commit": to.String()})
		out.Body.BuildTriggered = true
		return c, nil
	})
	if err != nil {
		return nil, err
	}
	return out, nil
}

// updated returns the commit of a branch with the changes of its parent: that of the parent if the
// branch has no changes of its own.
func (a *api) updated(ctx context.Context, t *tree, own, parent *target) (plumbing.Hash, error) {
	behind, err := modeltree.IsAncestor(t.session, own.commit, parent.commit)
	if err != nil || behind {
		return parent.commit, err
	}
	return a.mergeInto(ctx, t, own, parent, mergeCommit{message: mergeMessage(parent, own)})
}

// commitOf returns the commit of a branch, that of production for an empty name, as fresh as the
// Kubernetes API server; empty if the repository has no such branch.
func (a *api) commitOf(ctx context.Context, d *v1alpha1.Deployment, name string) (string, error) {
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
