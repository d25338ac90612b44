package gitmirror

import (
	"context"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/quoin-dev/quoin/internal/content"
	"github.com/quoin-dev/quoin/internal/git"
)

// credentials returns the credentials of a remote, for reading it or for a push. They are read each
// time, so that a corrected Secret takes effect at once.
func (m *Mirrors) credentials(ctx context.Context, r *remote, push bool) (git.Credentials, error) {
	data, err := m.data(ctx, r, push)
	if err != nil || data == nil {
		return git.Credentials{}, err
	}
	creds, err := git.ParseCredentials(r.source.URL, data)
	return creds, explain(r, err)
}

// data returns credentials in the form of a Secret; nil for none.
func (m *Mirrors) data(ctx context.Context, r *remote, push bool) (map[string][]byte, error) {
	if push && m.PushCredentials != nil {
		if data, err := m.PushCredentials(ctx, r.deployment); data != nil || err != nil {
			return data, err
		}
	}
	if r.source.SecretRef == nil {
		return nil, nil
	}
	secret, name := &corev1.Secret{}, r.source.SecretRef.Name
	err := m.Live.Get(ctx, client.ObjectKey{Namespace: r.deployment.Namespace, Name: name}, secret)
	switch {
	case apierrors.IsNotFound(err):
		return nil, content.Errorf(content.Conflict, "spec.model.git.secretRef: secret %q does not exist", name)
	case err != nil:
		return nil, fmt.Errorf("read the secret of a Git repository: %w", err)
	}
	return secret.Data, nil
}
