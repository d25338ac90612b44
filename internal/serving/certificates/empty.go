package certificates

import (
	"context"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/log"
)

// GatewaySecretName is the name of the Secret with the generated serving certificate of the gateway.
const GatewaySecretName = "quoin-gateway-tls"

// emptySecretsInterval is how often EmptySecrets looks for Secrets that were deleted.
const emptySecretsInterval = 30 * time.Second

// EmptySecrets creates the Secrets of the serving certificates, without content. `quoin controller`
// runs it, so that the servers, which clients can reach, need no permission to create Secrets: with
// it they could create one whose name another program trusts.
type EmptySecrets struct {
	// Reader must not read from a cache. It needs get of Secrets in the namespace, Writer create.
	Reader client.Reader
	Writer client.Writer
	// Namespace of the Secrets, quoin's own.
	Namespace string
}

// NeedLeaderElection implements manager.LeaderElectionRunnable.
func (e *EmptySecrets) NeedLeaderElection() bool { return true }

// Start implements manager.Runnable: it creates missing Secrets until the context ends.
func (e *EmptySecrets) Start(ctx context.Context) error {
	for {
		if err := e.Once(ctx); err != nil && ctx.Err() == nil {
			log.FromContext(ctx).Error(err, "Cannot create the Secret of a serving certificate; retrying")
		}
		select {
		case <-ctx.Done():
			return nil
		case <-time.After(emptySecretsInterval):
		}
	}
}

// Once creates the Secrets that do not exist.
func (e *EmptySecrets) Once(ctx context.Context) error {
	for _, name := range []string{SecretName, GatewaySecretName} {
		key := client.ObjectKey{Namespace: e.Namespace, Name: name}
		existing := &metav1.PartialObjectMetadata{} // without the keys
		existing.SetGroupVersionKind(corev1.SchemeGroupVersion.WithKind("Secret"))
		err := e.Reader.Get(ctx, key, existing)
		if apierrors.IsNotFound(err) {
			err = e.Writer.Create(ctx, EmptySecret(e.Namespace, name))
		}
		if err != nil && !apierrors.IsAlreadyExists(err) {
			return fmt.Errorf("secret %s: %w", key, err)
		}
	}
	return nil
}

// EmptySecret returns the Secret of a serving certificate before there is one.
func EmptySecret(namespace, name string) *corev1.Secret {
	return &corev1.Secret{
		Type: corev1.SecretTypeTLS,
		ObjectMeta: metav1.ObjectMeta{
			Namespace: namespace, Name: name, Labels: map[string]string{"app.kubernetes.io/managed-by": "quoin"},
		},
		// The type requires both keys.
		Data: map[string][]byte{corev1.TLSCertKey: {}, corev1.TLSPrivateKeyKey: {}},
	}
}
