package apikey

import (
	"context"
	"crypto/rand"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/validation"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"

	"github.com/quoin-dev/quoin/api/v1alpha1"
	"github.com/quoin-dev/quoin/internal/apikey"
	"github.com/quoin-dev/quoin/internal/engine"
	"github.com/quoin-dev/quoin/internal/reconciler"
)

// SecretKey is the key of the token in the Secret.
const SecretKey = "token"

// secretRetryInterval is the time after which a Secret that a user has to change is read again:
// Secrets are not watched.
const secretRetryInterval = time.Minute

// SecretName returns the name of the Secret in which the controller stores the token of a key.
func SecretName(k *v1alpha1.ApiKey) string {
	if k.Spec.TokenSecretName != "" {
		return k.Spec.TokenSecretName
	}
	return k.Name + "-token"
}

// token generates the token of a key that has none, once: first the Secret is created, then the
// hash is stored in the status. After a crash in between, the hash of the token in the Secret
// is used. When the status has a hash the Secret is not read any more, so users may delete it.
//
// The Secret is read from the API server, because Secrets are not cached. The controller may
// create Secrets everywhere, but read them only where an administrator grants it (ClusterRole
// quoin-account). Without the grant only the recovery from a crash in between fails.
func token(ctx context.Context, s *scope) *reconciler.Outcome {
	k, name := s.Object, SecretName(s.Object)
	if k.Token() != nil {
		return nil
	}
	if problems := validation.IsDNS1123Subdomain(name); len(problems) > 0 {
		return stalled(v1alpha1.ReasonInvalidSpec, fmt.Sprintf("spec.tokenSecretName: %q is not a valid name of a Secret: %s", name, problems[0]))
	}
	secret := &corev1.Secret{}
	err := s.Live().Get(ctx, client.ObjectKey{Namespace: k.Namespace, Name: name}, secret)
	switch {
	case apierrors.IsNotFound(err):
		return create(ctx, s, name)
	case apierrors.IsForbidden(err):
		o := create(ctx, s, name)
		if o != nil && apierrors.IsAlreadyExists(o.Err()) {
			return retry(v1alpha1.ReasonTokenUnreadable, fmt.Sprintf(
				"secret %q exists and may not be read by the controller: delete it, or bind ClusterRole quoin-account to the controller in namespace %q",
				name, k.Namespace))
		}
		return o
	case err != nil:
		return failed(fmt.Errorf("read secret %q: %w", name, err))
	case !metav1.IsControlledBy(secret, k):
		return retry(v1alpha1.ReasonSecretTaken, fmt.Sprintf(
			"spec.tokenSecretName: secret %q exists and does not belong to this key: name another one, or delete it", name))
	}
	found, err := apikey.Parse(string(secret.Data[SecretKey]))
	if err != nil {
		return retry(v1alpha1.ReasonTokenUnreadable, fmt.Sprintf(
			"key %q of secret %q has no valid token: delete the secret, and a new one is created", SecretKey, name))
	}
	hash := found.Hash()
	k.Status.Token = &hash
	return nil
}

// create generates a token and stores it in a Secret.
func create(ctx context.Context, s *scope, name string) *reconciler.Outcome {
	generated, err := apikey.New(rand.Reader)
	if err != nil {
		return failed(err)
	}
	secret := &corev1.Secret{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: s.Object.Namespace, Name: name,
			Labels: map[string]string{engine.LabelManagedBy: engine.ManagedBy},
		},
		Type: corev1.SecretTypeOpaque,
		Data: map[string][]byte{SecretKey: []byte(generated.Reveal())},
	}
	if err := controllerutil.SetControllerReference(s.Object, secret, s.Scheme()); err != nil {
		return failed(err)
	}
	// Not through the client that tracks writes: Secrets are not cached, so it would wait forever.
	if err := s.Client.Client.Create(ctx, secret); err != nil {
		return failed(fmt.Errorf("create secret %q: %w", name, err))
	}
	hash := generated.Hash()
	s.Object.Status.Token = &hash
	return nil
}

func stalled(reason, message string) *reconciler.Outcome {
	o := reconciler.Stalled(reason, message)
	return &o
}

func retry(reason, message string) *reconciler.Outcome {
	o := reconciler.Stalled(reason, message).RequeueIn(secretRetryInterval)
	return &o
}

func failed(err error) *reconciler.Outcome {
	o := reconciler.Failed(err)
	return &o
}
