package deployment

import (
	"context"
	"crypto/rand"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"

	"github.com/quoin-dev/quoin/api/v1alpha1"
	"github.com/quoin-dev/quoin/internal/engine"
)

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
