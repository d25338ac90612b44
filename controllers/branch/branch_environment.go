package branch

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"slices"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/validate/content"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"

	"github.com/quoin-dev/quoin/api/v1alpha1"
	"github.com/quoin-dev/quoin/internal/channels"
	"github.com/quoin-dev/quoin/internal/engine"
	"github.com/quoin-dev/quoin/internal/ids"
	"github.com/quoin-dev/quoin/internal/kube"
	"github.com/quoin-dev/quoin/internal/reconciler"
	"github.com/quoin-dev/quoin/internal/version"
)

// defaultIdleSeconds applies when spec.onDemand.idleSeconds of the deployment is not set.
const defaultIdleSeconds = 1800

// serving is how a branch is served.
type serving struct {
	kind v1alpha1.EnvironmentType
	// idleSeconds is the time without use after which the environment sleeps; nil if it never does.
	idleSeconds *int32
}

// servingOf returns the environment that a branch has; nil for none. The production environment
// belongs to the Deployment controller.
func servingOf(b *v1alpha1.Branch, d *v1alpha1.Deployment) *serving {
	kind := v1alpha1.EnvironmentStaging
	switch b.Spec.Role {
	case v1alpha1.BranchShared:
		if ptr.Deref(b.Spec.StagingEnvironmentEnabled, false) {
			return &serving{kind: kind}
		}
	case v1alpha1.BranchPersonal:
		kind = v1alpha1.EnvironmentDevelopment
	case v1alpha1.BranchProduction:
		return nil
	}
	onDemand := d.Spec.OnDemand
	if onDemand == nil || !slices.Contains(onDemand.Roles, v1alpha1.OnDemandRole(b.Spec.Role)) {
		return nil
	}
	return &serving{kind: kind, idleSeconds: ptr.To(ptr.Deref(onDemand.IdleSeconds, defaultIdleSeconds))}
}

// serve applies the branch's environment with the newest version of the channel that is not stopped.
func (r *branchReconciler) serve(ctx context.Context, s *scope, d *v1alpha1.Deployment, account string, want serving) reconciler.Outcome {
	b := s.Object
	// The type of an environment is immutable: another role of the branch needs another environment.
	for _, other := range []v1alpha1.EnvironmentType{v1alpha1.EnvironmentStaging, v1alpha1.EnvironmentDevelopment} {
		if other != want.kind {
			if err := r.deleteEnvironment(ctx, s, other); err != nil {
				return reconciler.Failed(err)
			}
		}
	}
	channel := &v1alpha1.ReleaseChannel{}
	err := s.Get(ctx, client.ObjectKey{Name: d.Spec.ReleaseChannel}, channel)
	if apierrors.IsNotFound(err) {
		return reconciler.NotFound(v1alpha1.ReasonChannelNotFound, fmt.Sprintf(
			"release channel %q of deployment %q does not exist", d.Spec.ReleaseChannel, d.Name))
	}
	if err != nil {
		return reconciler.Failed(err)
	}
	head, ok := newest(channel)
	if !ok {
		return reconciler.Stalled(v1alpha1.ReasonChannelEmpty, fmt.Sprintf("release channel %q has no version yet", channel.Name))
	}
	if err := r.allocateEnvironmentID(ctx, s, account); err != nil {
		return reconciler.Failed(err)
	}
	env := &v1alpha1.Environment{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: b.Namespace, Name: environmentName(b, want.kind),
			Labels: map[string]string{
				v1alpha1.LabelID:         b.Annotations[v1alpha1.AnnotationEnvironmentID],
				v1alpha1.LabelDeployment: d.Name,
				v1alpha1.LabelBranch:     engine.Shorten(b.Name, content.LabelValueMaxLength), // spec.branchRef has the whole name
			},
			Annotations: map[string]string{v1alpha1.AnnotationSource: engine.SourceOf(d)},
		},
		Spec: v1alpha1.EnvironmentSpec{
			DeploymentRef:        b.Spec.DeploymentRef,
			Type:                 want.kind,
			BranchRef:            &v1alpha1.LocalReference{Name: b.Name},
			DeploymentGeneration: d.Generation,
			Version:              head.Version.String(),
			Image:                head.Pinned(),
			ModelCommit:          b.Status.LastHash,
			IdleSeconds:          want.idleSeconds,
		},
	}
	if err := controllerutil.SetControllerReference(b, env, s.Scheme()); err != nil {
		return reconciler.Failed(err)
	}
	live, _, err := kube.Apply(ctx, s.Client, env)
	if err != nil {
		return reconciler.Failed(err)
	}
	b.Status.Environment = env.Name
	return outcomeOf(live)
}

// newest returns the newest version of a channel that is not stopped, or the newest if all are stopped; false
// if it has none.
func newest(channel *v1alpha1.ReleaseChannel) (version.Release, bool) {
	offered := channels.From(channel)
	if open, ok := offered.Open(); ok {
		return open, true
	}
	return offered.Head()
}

// allocateEnvironmentID allocates the ID of the branch's environment. It is stored on the branch,
// so that an environment that is disabled and enabled again has the same ID. An existing ID,
// for example after a restore, is kept and never allocated again. A branch that was replaced, as by kubectl
// replace, carries none, and keeps that of its environment.
func (r *branchReconciler) allocateEnvironmentID(ctx context.Context, s *scope, account string) error {
	carried := s.Object.Annotations[v1alpha1.AnnotationEnvironmentID]
	if name := s.Object.Status.Environment; name != "" {
		if _, ok := ids.Parse(carried); ok {
			return nil
		}
		env := &v1alpha1.Environment{}
		err := s.Get(ctx, client.ObjectKey{Namespace: s.Object.Namespace, Name: name}, env)
		if client.IgnoreNotFound(err) != nil {
			return err
		}
		if metav1.IsControlledBy(env, s.Object) {
			carried = env.Labels[v1alpha1.LabelID]
		}
	}
	id, err := r.ids.Keep(ctx, account, ids.Environments, carried)
	if err != nil {
		return err
	}
	return s.Label(ctx, func(b *v1alpha1.Branch) {
		metav1.SetMetaDataAnnotation(&b.ObjectMeta, v1alpha1.AnnotationEnvironmentID,
			ids.Or(b.Annotations[v1alpha1.AnnotationEnvironmentID], id))
	})
}

// deleteEnvironments deletes the branch's environments, if any, and returns the outcome.
func (r *branchReconciler) deleteEnvironments(ctx context.Context, s *scope, o reconciler.Outcome) reconciler.Outcome {
	for _, kind := range []v1alpha1.EnvironmentType{v1alpha1.EnvironmentStaging, v1alpha1.EnvironmentDevelopment} {
		if err := r.deleteEnvironment(ctx, s, kind); err != nil {
			return reconciler.Failed(err)
		}
	}
	return o
}

// deleteEnvironment deletes the branch's environment of a type, if any.
func (r *branchReconciler) deleteEnvironment(ctx context.Context, s *scope, kind v1alpha1.EnvironmentType) error {
	b := s.Object
	env := &v1alpha1.Environment{}
	err := s.Get(ctx, client.ObjectKey{Namespace: b.Namespace, Name: environmentName(b, kind)}, env)
	switch {
	case apierrors.IsNotFound(err):
	case err != nil:
		return err
	case !metav1.IsControlledBy(env, b):
		return nil
	default:
		if err := s.Delete(ctx, env, client.Preconditions{UID: &env.UID}); client.IgnoreNotFound(err) != nil {
			return fmt.Errorf("delete environment %q: %w", env.Name, err)
		}
	}
	if b.Status.Environment == environmentName(b, kind) {
		b.Status.Environment = ""
	}
	return nil
}

// StagingName returns the name of a branch's staging Environment.
func StagingName(b *v1alpha1.Branch) string { return environmentName(b, v1alpha1.EnvironmentStaging) }

func environmentName(b *v1alpha1.Branch, kind v1alpha1.EnvironmentType) string {
	infix := "-stg-"
	if kind == v1alpha1.EnvironmentDevelopment {
		infix = "-dev-"
	}
	sum := sha256.Sum256([]byte(b.Name))
	return b.Spec.DeploymentRef.Name + infix + hex.EncodeToString(sum[:4])
}
