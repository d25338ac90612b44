package branch

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"

	"github.com/quoin-dev/quoin/api/v1alpha1"
	"github.com/quoin-dev/quoin/internal/channels"
	"github.com/quoin-dev/quoin/internal/ids"
	"github.com/quoin-dev/quoin/internal/kube"
	"github.com/quoin-dev/quoin/internal/reconciler"
)

// staging makes the branch's staging environment run the newest version of the channel.
func (r *branchReconciler) staging(ctx context.Context, s *scope, d *v1alpha1.Deployment, account string) reconciler.Outcome {
	b := s.Object
	channel := &v1alpha1.ReleaseChannel{}
	err := s.Get(ctx, client.ObjectKey{Name: d.Spec.ReleaseChannel}, channel)
	if apierrors.IsNotFound(err) {
		return reconciler.Stalled(v1alpha1.ReasonChannelNotFound, fmt.Sprintf(
			"release channel %q of deployment %q does not exist", d.Spec.ReleaseChannel, d.Name))
	}
	if err != nil {
		return reconciler.Failed(err)
	}
	head, ok := channels.From(channel).Head()
	if !ok {
		return reconciler.Stalled(v1alpha1.ReasonChannelEmpty, fmt.Sprintf("release channel %q has no version yet", channel.Name))
	}
	if err := r.reserve(ctx, s, account); err != nil {
		return reconciler.Failed(err)
	}
	env := &v1alpha1.Environment{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: b.Namespace, Name: StagingName(b),
			Labels: map[string]string{
				v1alpha1.LabelID:         b.Annotations[v1alpha1.AnnotationEnvironmentID],
				v1alpha1.LabelDeployment: d.Name,
				v1alpha1.LabelBranch:     b.Name,
			},
		},
		Spec: v1alpha1.EnvironmentSpec{
			DeploymentRef:        b.Spec.DeploymentRef,
			Type:                 v1alpha1.EnvironmentStaging,
			BranchRef:            &v1alpha1.LocalReference{Name: b.Name},
			DeploymentGeneration: d.Generation,
			Version:              head.Version.String(),
			Image:                head.Pinned(),
			ModelCommit:          b.Status.LastHash,
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
	return ready(live)
}

// reserve gives the branch's environment its number. It is kept on the branch, so that the
// environment has the same number when it is switched off and on again. One that is there
// already, as after a restore, is not given out again.
func (r *branchReconciler) reserve(ctx context.Context, s *scope, account string) error {
	carried := s.Object.Annotations[v1alpha1.AnnotationEnvironmentID]
	if _, ok := ids.Parse(carried); ok && s.Object.Status.Environment != "" {
		return nil
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

// without removes the branch's environment, if there is one, and ends with the outcome.
func (r *branchReconciler) without(ctx context.Context, s *scope, o reconciler.Outcome) reconciler.Outcome {
	b := s.Object
	env := &v1alpha1.Environment{}
	err := s.Get(ctx, client.ObjectKey{Namespace: b.Namespace, Name: StagingName(b)}, env)
	switch {
	case apierrors.IsNotFound(err):
		b.Status.Environment = ""
		return o
	case err != nil:
		return reconciler.Failed(err)
	case !metav1.IsControlledBy(env, b):
		return o
	}
	if err := s.Delete(ctx, env, client.Preconditions{UID: &env.UID}); client.IgnoreNotFound(err) != nil {
		return reconciler.Failed(fmt.Errorf("remove environment %q: %w", env.Name, err))
	}
	b.Status.Environment = ""
	return o
}

// StagingName is the name of a branch's staging Environment.
func StagingName(b *v1alpha1.Branch) string {
	sum := sha256.Sum256([]byte(b.Name))
	return b.Spec.DeploymentRef.Name + "-stg-" + hex.EncodeToString(sum[:4])
}
