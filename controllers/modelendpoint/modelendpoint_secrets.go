package modelendpoint

import (
	"context"
	"crypto/x509"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/quoin-dev/quoin/api/v1alpha1"
	"github.com/quoin-dev/quoin/internal/modelendpoint"
	"github.com/quoin-dev/quoin/internal/reconciler"
)

// secrets are the values of an endpoint's Secrets.
type secrets struct {
	// key is empty if requests have none.
	key string
	// roots are nil for those of the system.
	roots *x509.CertPool
	// pem are the certificates as text.
	pem []byte
}

// secrets reads the values of the endpoint's Secrets, or returns the outcome if one cannot be used.
func (r *endpointReconciler) secrets(ctx context.Context, s *scope) (*secrets, *reconciler.Outcome) {
	values := &secrets{}
	if ref := s.Object.Spec.APIKeySecretRef; ref != nil {
		data, o := r.read(ctx, s, "spec.apiKeySecretRef", ref)
		if o != nil {
			return nil, o
		}
		key, err := modelendpoint.Key(data)
		if err != nil {
			return nil, unreadable(fmt.Sprintf("spec.apiKeySecretRef: the value of the key %q in Secret %q is not usable: %v", ref.Key, ref.Name, err))
		}
		values.key = key
	}
	if ref := s.Object.Spec.CASecretRef; ref != nil {
		data, o := r.read(ctx, s, "spec.caSecretRef", ref)
		if o != nil {
			return nil, o
		}
		roots, err := modelendpoint.Roots(data)
		if err != nil {
			return nil, unreadable(fmt.Sprintf("spec.caSecretRef: the value of the key %q in Secret %q is not usable: %v", ref.Key, ref.Name, err))
		}
		values.roots, values.pem = roots, data
	}
	return values, nil
}

// read reads a value of a Secret in Quoin's namespace from the API server, because Secrets are not cached, or returns the
// outcome if there is none.
func (r *endpointReconciler) read(ctx context.Context, s *scope, field string, ref *v1alpha1.SecretKeyReference) ([]byte, *reconciler.Outcome) {
	secret := &corev1.Secret{}
	err := s.Live().Get(ctx, client.ObjectKey{Namespace: r.Namespace, Name: ref.Name}, secret)
	switch {
	case apierrors.IsNotFound(err):
		o := reconciler.NotFound(v1alpha1.ReasonModelSecretUnreadable, fmt.Sprintf(
			"%s: Secret %q does not exist in namespace %q; create it with the key %q", field, ref.Name, r.Namespace, ref.Key)).RequeueIn(retryInterval)
		return nil, &o
	case apierrors.IsForbidden(err):
		o := reconciler.Failing(v1alpha1.ReasonModelSecretUnreadable, fmt.Sprintf(
			"%s: reading Secret %q in namespace %q is forbidden for the controller", field, ref.Name, r.Namespace), retryInterval)
		return nil, &o
	case err != nil:
		o := reconciler.Failed(fmt.Errorf("read secret %q: %w", ref.Name, err))
		return nil, &o
	case len(secret.Data[ref.Key]) == 0:
		return nil, unreadable(fmt.Sprintf("%s: Secret %q in namespace %q has no value for the key %q; add it", field, ref.Name, r.Namespace, ref.Key))
	}
	return secret.Data[ref.Key], nil
}

func unreadable(message string) *reconciler.Outcome {
	o := reconciler.Stalled(v1alpha1.ReasonModelSecretUnreadable, message).RequeueIn(retryInterval)
	return &o
}
