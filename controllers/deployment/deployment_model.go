package deployment

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"strings"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"
	"sigs.k8s.io/controller-runtime/pkg/log"

	"github.com/quoin-dev/quoin/api/v1alpha1"
	"github.com/quoin-dev/quoin/internal/kube"
	"github.com/quoin-dev/quoin/internal/reconciler"
)

const (
	// IndexDeployment is the field by which the branches and environments of a deployment are found.
	IndexDeployment = "spec.deploymentRef.name"
	// personalPrefix begins the names of personal branches.
	personalPrefix = "dev-"
	// quietFailures is how many looks at a remote in a row may fail before the deployment shows it.
	quietFailures = 3
	// maxRequest bounds what is kept of a request to reconcile now.
	maxRequest = 64
)

// modelState is what production serves of the data model.
type modelState struct {
	// branch is the name of the production Branch object; empty without Git.
	branch string
	// commit of the production branch.
	commit string
	// trouble with the remote that does not keep production from running.
	trouble *reconciler.Outcome
	// lookAgain is when the remote is looked at next.
	lookAgain time.Duration
}

// model brings the Branch objects in line with the remote's refs and finds the commit that
// production serves. A model in a ConfigMap is the environment's own business.
func (r *deploymentReconciler) model(ctx context.Context, s *scope) (modelState, *reconciler.Outcome) {
	git := s.Object.Spec.Model.Git
	if git == nil {
		handled(s.Object)
		return modelState{}, nil
	}
	branches := &v1alpha1.BranchList{}
	if err := s.List(ctx, branches, client.InNamespace(s.Object.Namespace), client.MatchingFields{IndexDeployment: s.Object.Name}); err != nil {
		return modelState{}, failed(fmt.Errorf("list branches: %w", err))
	}
	look := r.Remotes.Look(ctx, s.Object)
	state := modelState{lookAgain: look.next}
	if look.known() {
		if err := follow(ctx, s, branches.Items, look); err != nil {
			if apierrors.IsInvalid(err) {
				o := reconciler.Stalled(v1alpha1.ReasonInvalidSpec, err.Error())
				return state, &o
			}
			return state, failed(err)
		}
	}
	if !look.seen.IsZero() && look.request == s.Object.Annotations[v1alpha1.AnnotationReconcile] {
		handled(s.Object)
	}
	state.branch, state.commit = productionCommit(s.Object, branches.Items, look)
	if look.err != nil {
		o := look.outcome()
		if state.commit == "" {
			return state, &o
		}
		if look.failures >= quietFailures {
			state.trouble = &o
		}
	}
	if state.commit != "" {
		return state, nil
	}
	if !look.known() {
		o := reconciler.Progressing(v1alpha1.ReasonProgressing, "Reading the branches of "+git.URL).In(look.next)
		return state, &o
	}
	o := reconciler.Failing(v1alpha1.ReasonModelNotFound, fmt.Sprintf(
		"spec.model.git.branch: %s has no branch %q", git.URL, look.production(s.Object)), look.next)
	return state, &o
}

// handled notes that a request to reconcile now has been dealt with: whoever asked for it
// waits for that, and not for some time.
func handled(d *v1alpha1.Deployment) {
	d.Status.LastHandledReconcileAt = reconciler.Clip(d.Annotations[v1alpha1.AnnotationReconcile], maxRequest)
}

// productionCommit is what the production branch points at: by the remote, or as long as it
// does not answer by the Branch object.
func productionCommit(d *v1alpha1.Deployment, branches []v1alpha1.Branch, look remoteState) (name, commit string) {
	if look.known() {
		for _, ref := range look.refs {
			if ref.Name == look.production(d) {
				return branchName(d, branches, ref.Name), ref.Commit
			}
		}
		return "", ""
	}
	for i := range branches {
		b := &branches[i]
		if b.Spec.Role == v1alpha1.BranchProduction && b.Annotations[v1alpha1.AnnotationCommit] != v1alpha1.CommitMissing {
			return b.Name, b.Annotations[v1alpha1.AnnotationCommit]
		}
	}
	return "", ""
}

// follow makes, moves and removes Branch objects as the remote's refs do. A branch that
// somebody declared is never removed: it is told what the remote has.
func follow(ctx context.Context, s *scope, branches []v1alpha1.Branch, look remoteState) error {
	refs := map[string]string{}
	for _, ref := range look.refs {
		refs[ref.Name] = ref.Commit
	}
	declared := map[string]bool{}
	for i := range branches {
		if branches[i].Labels[v1alpha1.LabelRemote] != "true" {
			declared[branches[i].Spec.Name] = true
		}
	}
	for i := range branches {
		b := &branches[i]
		commit, there := refs[b.Spec.Name]
		switch {
		case b.Labels[v1alpha1.LabelRemote] != "true":
			if !there {
				commit = v1alpha1.CommitMissing
			}
			if err := tell(ctx, s, b, commit); err != nil {
				return err
			}
		case !there || declared[b.Spec.Name]:
			if err := s.Delete(ctx, b, client.Preconditions{UID: &b.UID}); client.IgnoreNotFound(err) != nil {
				return fmt.Errorf("remove branch %q: %w", b.Spec.Name, err)
			}
		}
	}
	for _, ref := range look.refs {
		if declared[ref.Name] {
			continue
		}
		desired := desiredBranch(s.Object, ref.Name, ref.Commit, look.production(s.Object))
		if err := controllerutil.SetControllerReference(s.Object, desired, s.Scheme()); err != nil {
			return err
		}
		_, _, err := kube.Apply(ctx, s.Client, desired)
		if apierrors.IsInvalid(err) && desired.Spec.Role != v1alpha1.BranchProduction {
			// Its name is longer than an object can hold. Anybody may push such a branch; it has
			// no object, and production and the other branches go on.
			log.FromContext(ctx).V(1).Info("Left out a branch", "branch", ref.Name, "cause", err.Error())
			continue
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// tell notes on a declared branch what the remote has.
func tell(ctx context.Context, s *scope, b *v1alpha1.Branch, commit string) error {
	if b.Annotations[v1alpha1.AnnotationCommit] == commit {
		return nil
	}
	before := b.DeepCopy()
	metav1.SetMetaDataAnnotation(&b.ObjectMeta, v1alpha1.AnnotationCommit, commit)
	return client.IgnoreNotFound(kube.PatchMetadata(ctx, s.Client, before, b))
}

func desiredBranch(d *v1alpha1.Deployment, name, commit, production string) *v1alpha1.Branch {
	b := &v1alpha1.Branch{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: d.Namespace, Name: BranchObjectName(d.Name, name),
			Labels:      map[string]string{v1alpha1.LabelDeployment: d.Name, v1alpha1.LabelRemote: "true"},
			Annotations: map[string]string{v1alpha1.AnnotationCommit: commit},
		},
		Spec: v1alpha1.BranchSpec{
			DeploymentRef: v1alpha1.LocalReference{Name: d.Name}, Name: name, Role: v1alpha1.BranchShared, ParentBranch: production,
		},
	}
	switch {
	case name == production:
		b.Spec.Role, b.Spec.ParentBranch = v1alpha1.BranchProduction, ""
	case strings.HasPrefix(name, personalPrefix):
		b.Spec.Role = v1alpha1.BranchPersonal
	}
	return b
}

// branchName is the name of the Branch object of a branch.
func branchName(d *v1alpha1.Deployment, branches []v1alpha1.Branch, branch string) string {
	for i := range branches {
		if branches[i].Spec.Name == branch {
			return branches[i].Name
		}
	}
	return BranchObjectName(d.Name, branch)
}

// BranchObjectName is the name under which the controller makes the Branch object of a
// branch: readable, and unique by a hash. The deployment's name stays as it is in it, for a
// branch of that name may be in the repository of another deployment too.
func BranchObjectName(deployment, branch string) string {
	words := strings.FieldsFunc(strings.ToLower(branch), func(r rune) bool {
		return (r < 'a' || r > 'z') && (r < '0' || r > '9')
	})
	readable := strings.Join(words, "-")
	readable = strings.TrimRight(readable[:min(len(readable), 40)], "-")
	sum := sha256.Sum256([]byte(branch))
	unique := hex.EncodeToString(sum[:4])
	if readable == "" {
		return deployment + "-" + unique
	}
	return deployment + "-" + readable + "-" + unique
}
