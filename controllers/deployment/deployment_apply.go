package deployment

import (
	"context"
	"fmt"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"

	"github.com/quoin-dev/quoin/api/v1alpha1"
	"github.com/quoin-dev/quoin/internal/kube"
)

// production returns the production environment; nil when there is none.
func (r *deploymentReconciler) production(ctx context.Context, s *scope) (*v1alpha1.Environment, error) {
	env := &v1alpha1.Environment{}
	err := s.Get(ctx, client.ObjectKey{Namespace: s.Object.Namespace, Name: v1alpha1.ProductionName(s.Object.Name)}, env)
	if apierrors.IsNotFound(err) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("read production environment: %w", err)
	}
	return env, nil
}

// apply writes the planned version and commit to the production environment.
func (r *deploymentReconciler) apply(ctx context.Context, s *scope, p plan) error {
	d, run := s.Object, p.run
	env := &v1alpha1.Environment{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: d.Namespace, Name: v1alpha1.ProductionName(d.Name),
			Labels: map[string]string{
				v1alpha1.LabelID:         d.Annotations[v1alpha1.AnnotationEnvironmentID],
				v1alpha1.LabelDeployment: d.Name,
			},
		},
		Spec: v1alpha1.EnvironmentSpec{
			DeploymentRef:        v1alpha1.LocalReference{Name: d.Name},
			Type:                 v1alpha1.EnvironmentProduction,
			DeploymentGeneration: d.Generation,
			Version:              run.Version,
			Image:                run.Pinned(),
			StoreImage:           run.StoreImage,
			ModelCommit:          p.commit,
		},
	}
	if err := controllerutil.SetControllerReference(d, env, s.Scheme()); err != nil {
		return err
	}
	_, _, err := kube.Apply(ctx, s.Client, env)
	return err
}

// mirror copies the current version and the production environment's replicas to the status.
func (r *deploymentReconciler) mirror(d *v1alpha1.Deployment, production *v1alpha1.Environment) {
	status := &d.Status
	if len(status.History) > 0 {
		current := status.History[0]
		status.CurrentVersion, status.ReleaseChannelVersion, status.CurrentImage = current.Version, current.Image, current.Pinned()
	}
	if production == nil {
		return
	}
	status.Replicas, status.ReadyReplicas = production.Status.Replicas, production.Status.ReadyReplicas
	status.Selector = production.Status.Selector
}
