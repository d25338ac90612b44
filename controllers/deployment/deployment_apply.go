package deployment

import (
	"context"
	"crypto/rand"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"

	"github.com/quoin-dev/quoin/api/v1alpha1"
	"github.com/quoin-dev/quoin/internal/engine"
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

// repositoryUser is the user name in the Secret of a repository. Only the password is checked.
const repositoryUser = "quoin"

// createRepositorySecret creates the Secret with which the controller and the pods read the repository
// that Quoin keeps for a deployment. An existing Secret is kept.
func (r *deploymentReconciler) createRepositorySecret(ctx context.Context, s *scope) error {
	secret := &corev1.Secret{
		TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "Secret"},
		ObjectMeta: metav1.ObjectMeta{
			Namespace: s.Object.Namespace, Name: engine.RepositorySecretName(s.Object.Name),
			Labels: map[string]string{engine.LabelManagedBy: engine.ManagedBy, v1alpha1.LabelDeployment: s.Object.Name},
		},
		Type: corev1.SecretTypeOpaque,
		Data: map[string][]byte{
			corev1.BasicAuthUsernameKey: []byte(repositoryUser),
			corev1.BasicAuthPasswordKey: []byte(rand.Text()),
		},
	}
	if err := controllerutil.SetControllerReference(s.Object, secret, s.Scheme()); err != nil {
		return err
	}
	if err := s.Client.Client.Create(ctx, secret); err != nil && !apierrors.IsAlreadyExists(err) {
		return fmt.Errorf("create secret %q: %w", secret.Name, err)
	}
	return nil
}
