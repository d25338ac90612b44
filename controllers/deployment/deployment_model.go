package deployment

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"strings"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"
	"sigs.k8s.io/controller-runtime/pkg/log"

	"github.com/quoin-dev/quoin/api/v1alpha1"
	"github.com/quoin-dev/quoin/internal/engine"
	"github.com/quoin-dev/quoin/internal/kube"
	"github.com/quoin-dev/quoin/internal/reconciler"
)

const (
	// IndexDeployment is the indexed field of branches and environments that names their deployment.
	IndexDeployment = "spec.deploymentRef.name"
	// personalPrefix begins the names of personal branches.
	personalPrefix = "dev-"
	// maxRequest bounds status.lastHandledReconcileAt.
	maxRequest = 64
)

// modelState is the state of the data model's source.
type modelState struct {
	// branch is the name of the production Branch object; empty without Git.
	branch string
	// commit is the head of the production branch.
	commit string
	// warning is a failure of the remote, or a change of it that has not been read yet. Neither
	// affects production.
	warning *reconciler.Outcome
	// nextFetch is the time until the remote is fetched again.
	nextFetch time.Duration
}

// model applies the remote's refs to the Branch objects and returns the head of the
// production branch. A model in a ConfigMap is left to the Environment controller.
func (r *deploymentReconciler) model(ctx context.Context, s *scope) (modelState, *reconciler.Outcome) {
	source := r.Remotes.of(s.Object)
	if source == nil {
		r.Remotes.Forget(client.ObjectKeyFromObject(s.Object))
		if err := removeBranches(ctx, s); err != nil {
			return modelState{}, failed(err)
		}
		markHandled(s.Object)
		return modelState{}, nil
	}
	if !source.Readable() {
		o := reconciler.Stalled(v1alpha1.ReasonRepositoryUnavailable, source.Field+": cannot be read: quoin controller has no --repository-url")
		return modelState{}, &o
	}
	branches := &v1alpha1.BranchList{}
	if err := s.List(ctx, branches, client.InNamespace(s.Object.Namespace), client.MatchingFields{IndexDeployment: s.Object.Name}); err != nil {
		return modelState{}, failed(fmt.Errorf("list branches: %w", err))
	}
	remote := r.Remotes.State(ctx, s.Object)
	if errors.Is(remote.err, errNoRepositorySecret) {
		if err := r.createRepositorySecret(ctx, s); err != nil {
			return modelState{}, failed(err)
		}
		remote = r.Remotes.Retry(ctx, s.Object)
	}
	state := modelState{nextFetch: remote.next}
	if remote.known() {
		if err := syncBranches(ctx, s, branches.Items, remote); err != nil {
			if apierrors.IsInvalid(err) {
				o := reconciler.Stalled(v1alpha1.ReasonInvalidSpec, err.Error())
				return state, &o
			}
			return state, failed(err)
		}
	}
	if !remote.fetched.IsZero() && remote.request == s.Object.Annotations[v1alpha1.AnnotationReconcile] {
		markHandled(s.Object)
	}
	state.branch, state.commit = productionCommit(s.Object, branches.Items, remote)
	if remote.err != nil {
		o := remote.outcome(s.Object)
		if state.commit == "" {
			return state, &o
		}
		if remote.reported() {
			state.warning = &o
		}
	}
	reading := reconciler.Progressing(v1alpha1.ReasonProgressing, "Reading the branches of "+source.String()).RequeueIn(remote.next)
	switch {
	case state.commit == "" && !remote.known():
		return state, &reading
	case state.commit == "":
		o := remote.branchNotFound(s.Object)
		return state, &o
	case !remote.known() && state.warning == nil && s.Object.Status.ObservedGeneration != s.Object.Generation:
		// The commit may be that of the branch from before the change of the spec.
		state.warning = &reading
	}
	return state, nil
}

// markHandled records that a reconcile request has been handled, for clients that wait for it.
func markHandled(d *v1alpha1.Deployment) {
	d.Status.LastHandledReconcileAt = reconciler.Clip(d.Annotations[v1alpha1.AnnotationReconcile], maxRequest)
}

// productionCommit returns the name of the production Branch object and its commit: from the
// remote, or from the Branch object until the remote was fetched once, unless it is that of another repository.
func productionCommit(d *v1alpha1.Deployment, branches []v1alpha1.Branch, remote remoteState) (name, commit string) {
	if remote.known() {
		for _, ref := range remote.refs {
			if ref.Name == remote.productionBranch(d) {
				return branchName(d, branches, ref.Name), ref.Commit
			}
		}
		return "", ""
	}
	for i := range branches {
		b := &branches[i]
		if b.Spec.Role == v1alpha1.BranchProduction && b.Annotations[v1alpha1.AnnotationCommit] != v1alpha1.CommitMissing && engine.IsOfSource(b, d) {
			return b.Name, b.Annotations[v1alpha1.AnnotationCommit]
		}
	}
	return "", ""
}

// syncBranches creates, updates and deletes Branch objects to match the remote's refs. A
// branch that a user declared is never deleted; only its commit annotation is updated.
func syncBranches(ctx context.Context, s *scope, branches []v1alpha1.Branch, remote remoteState) error {
	refs := map[string]string{}
	for _, ref := range remote.refs {
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
		commit, exists := refs[b.Spec.Name]
		switch {
		case b.Labels[v1alpha1.LabelRemote] != "true":
			if !exists {
				commit = v1alpha1.CommitMissing
			}
			if err := annotateCommit(ctx, s, b, commit); err != nil {
				return err
			}
		case !exists || declared[b.Spec.Name]:
			if err := removeBranch(ctx, s, b); err != nil {
				return err
			}
		}
	}
	for _, ref := range remote.refs {
		if declared[ref.Name] {
			continue
		}
		desired := desiredBranch(s.Object, ref.Name, ref.Commit, remote.productionBranch(s.Object))
		keepParent(desired, branches, refs)
		if err := controllerutil.SetControllerReference(s.Object, desired, s.Scheme()); err != nil {
			return err
		}
		_, _, err := kube.Apply(ctx, s.Client, desired)
		if apierrors.IsInvalid(err) && desired.Spec.Role != v1alpha1.BranchProduction {
			// The name exceeds the limit of the API. Such a branch gets no object, and must not
			// affect production and the other branches.
			log.FromContext(ctx).V(1).Info("Ignored a branch", "branch", ref.Name, "cause", err.Error())
			continue
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// removeBranches deletes the Branch objects that follow a remote which the model of the deployment no longer has. Those that
// users declared are kept, without their commit: it is not one of the repository to which the model may move next.
func removeBranches(ctx context.Context, s *scope) error {
	branches := &v1alpha1.BranchList{}
	if err := s.List(ctx, branches, client.InNamespace(s.Object.Namespace), client.MatchingFields{IndexDeployment: s.Object.Name}); err != nil {
		return fmt.Errorf("list branches: %w", err)
	}
	for i := range branches.Items {
		b, leave := &branches.Items[i], removeBranch
		if b.Labels[v1alpha1.LabelRemote] != "true" {
			leave = func(ctx context.Context, s *scope, b *v1alpha1.Branch) error { return annotateCommit(ctx, s, b, "") }
		}
		if err := leave(ctx, s, b); err != nil {
			return err
		}
	}
	return nil
}

func removeBranch(ctx context.Context, s *scope, b *v1alpha1.Branch) error {
	if err := s.Delete(ctx, b, client.Preconditions{UID: &b.UID}); client.IgnoreNotFound(err) != nil {
		return fmt.Errorf("remove branch %q: %w", b.Spec.Name, err)
	}
	return nil
}

// keepParent keeps the parent of a branch that exists: quoin apiserver sets that of branches which it
// creates. A parent that is no longer a branch is replaced by production.
func keepParent(desired *v1alpha1.Branch, branches []v1alpha1.Branch, refs map[string]string) {
	if desired.Spec.Role == v1alpha1.BranchProduction {
		return
	}
	for i := range branches {
		b := &branches[i]
		_, exists := refs[b.Spec.ParentBranch]
		if b.Name == desired.Name && exists && b.Spec.ParentBranch != b.Spec.Name {
			desired.Spec.ParentBranch = b.Spec.ParentBranch
		}
	}
}

// annotateCommit updates the annotations of a declared branch: the commit and its repository.
func annotateCommit(ctx context.Context, s *scope, b *v1alpha1.Branch, commit string) error {
	source := engine.SourceOf(s.Object)
	if b.Annotations[v1alpha1.AnnotationCommit] == commit && b.Annotations[v1alpha1.AnnotationSource] == source {
		return nil
	}
	before := b.DeepCopy()
	metav1.SetMetaDataAnnotation(&b.ObjectMeta, v1alpha1.AnnotationCommit, commit)
	metav1.SetMetaDataAnnotation(&b.ObjectMeta, v1alpha1.AnnotationSource, source)
	return client.IgnoreNotFound(kube.PatchMetadata(ctx, s.Client, before, b))
}

func desiredBranch(d *v1alpha1.Deployment, name, commit, production string) *v1alpha1.Branch {
	b := &v1alpha1.Branch{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: d.Namespace, Name: BranchObjectName(d.Name, name),
			Labels:      map[string]string{v1alpha1.LabelDeployment: d.Name, v1alpha1.LabelRemote: "true"},
			Annotations: map[string]string{v1alpha1.AnnotationCommit: commit, v1alpha1.AnnotationSource: engine.SourceOf(d)},
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

// branchName returns the name of the Branch object of a branch.
func branchName(d *v1alpha1.Deployment, branches []v1alpha1.Branch, branch string) string {
	for i := range branches {
		if branches[i].Spec.Name == branch {
			return branches[i].Name
		}
	}
	return BranchObjectName(d.Name, branch)
}

// BranchObjectName returns the name of the Branch object that the controller creates for a
// branch: readable, and unique by a hash. It begins with the deployment's name, because
// another deployment may have a branch of the same name.
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
