package oidctokenconfig

import (
	"context"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/quoin-dev/quoin/api/v1alpha1"
	"github.com/quoin-dev/quoin/internal/oidctoken"
)

// signer signs tokens of an account. It reads the private key when the first token is signed, and is used for one
// reconciliation, so that private keys are not kept in memory.
type signer struct {
	reader    client.Reader
	namespace string
	account   *v1alpha1.Account
	now       time.Time

	key *oidctoken.PrivateKey
}

func (s *signer) sign(ctx context.Context, claims map[string]any) (string, error) {
	if s.key == nil {
		key, err := s.read(ctx)
		if err != nil {
			return "", err
		}
		s.key = key
	}
	return oidctoken.Sign(claims, s.key, s.now)
}

// read reads the private key of the first of the account's signers that has one. It must be the one whose public key is
// published: another one was written by another process than the controller.
func (s *signer) read(ctx context.Context) (*oidctoken.PrivateKey, error) {
	for _, public := range oidctoken.Signers(s.account.Status.OidcTokenKeys, s.now) {
		name := client.ObjectKey{Namespace: s.namespace, Name: oidctoken.KeySecretName(s.account.Name, public.Number)}
		secret := &corev1.Secret{}
		err := s.reader.Get(ctx, name, secret)
		if apierrors.IsNotFound(err) {
			continue
		}
		if err != nil {
			return nil, fmt.Errorf("read key of OIDC tokens: %w", err)
		}
		key, err := oidctoken.Decode(secret.Data[oidctoken.DataPrivateKey])
		if err != nil {
			return nil, fmt.Errorf("secret %q in namespace %q: %s: %w", name.Name, name.Namespace, oidctoken.DataPrivateKey, err)
		}
		if key.ID != public.ID {
			return nil, fmt.Errorf("secret %q in namespace %q has another key than the account's status; delete it", name.Name, name.Namespace)
		}
		return key, nil
	}
	return nil, fmt.Errorf("no private key of account %q exists in namespace %q; one is created within %s", s.account.Name, s.namespace, oidctoken.CheckInterval)
}
