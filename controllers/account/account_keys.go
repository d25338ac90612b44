package account

import (
	"context"
	"crypto/rand"
	"fmt"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"

	"github.com/quoin-dev/quoin/api/v1alpha1"
	"github.com/quoin-dev/quoin/internal/engine"
	"github.com/quoin-dev/quoin/internal/oidctoken"
	"github.com/quoin-dev/quoin/internal/reconciler"
)

// +kubebuilder:rbac:groups="",namespace=quoin-system,resources=secrets,verbs=delete;get

// tokenKeys creates and removes the keys of the account's OpenID Connect tokens, if it has an OidcTokenConfig. It returns the
// time until the next change.
//
// A private key is in a Secret of Quoin's namespace, which is created before the public key is in the status, and deleted
// before it is removed from it. So an interruption at any time leaves a Secret that the next reconciliation finds by its
// number.
func (r *accountReconciler) tokenKeys(ctx context.Context, s *reconciler.Scope[*v1alpha1.Account]) (time.Duration, error) {
	acct := s.Object
	configs := &v1alpha1.OidcTokenConfigList{}
	if err := s.List(ctx, configs, client.InNamespace(acct.Spec.Namespace), client.Limit(1)); err != nil {
		return 0, fmt.Errorf("list OIDC token configurations: %w", err)
	}
	if len(configs.Items) == 0 {
		return 0, nil
	}
	now := s.Clock.Now()
	lost, err := r.areLost(ctx, s, oidctoken.Signers(acct.Status.OidcTokenKeys, now))
	if err != nil {
		return 0, err
	}
	plan := oidctoken.PlanKeys(acct.Status.OidcTokenKeys, lost, now)
	for i := range plan.Remove {
		if err := r.removeKey(ctx, s, plan.Remove[i].Number); err != nil {
			return 0, err
		}
	}
	keys := slices.DeleteFunc(slices.Clone(acct.Status.OidcTokenKeys), func(k v1alpha1.OidcTokenKey) bool {
		return slices.ContainsFunc(plan.Remove, func(removed v1alpha1.OidcTokenKey) bool { return removed.Number == k.Number })
	})
	if plan.Create > 0 {
		key, err := r.createKey(ctx, s, plan.Create)
		if err != nil {
			return 0, err
		}
		keys = append(keys, key.Public(plan.Create, now))
	}
	acct.Status.OidcTokenKeys = keys
	return max(plan.Next.Sub(now), time.Second), nil
}

// areLost reports whether the Secrets of all keys are missing. It does not read private keys.
func (r *accountReconciler) areLost(ctx context.Context, s *reconciler.Scope[*v1alpha1.Account], keys []v1alpha1.OidcTokenKey) (bool, error) {
	for i := range keys {
		secret := &metav1.PartialObjectMetadata{}
		secret.SetGroupVersionKind(corev1.SchemeGroupVersion.WithKind("Secret"))
		err := s.Live().Get(ctx, r.keySecret(s.Object, keys[i].Number), secret)
		if err == nil {
			return false, nil
		}
		if !apierrors.IsNotFound(err) {
			return false, fmt.Errorf("read key of OIDC tokens: %w", err)
		}
	}
	return true, nil
}

func (r *accountReconciler) keySecret(acct *v1alpha1.Account, number int64) client.ObjectKey {
	return client.ObjectKey{Namespace: r.Hosts.Namespace, Name: oidctoken.KeySecretName(acct.Name, number)}
}

// createKey returns the key with a number: that of the Secret if it exists, because the reconciliation that created it was
// interrupted, and else a new one.
func (r *accountReconciler) createKey(ctx context.Context, s *reconciler.Scope[*v1alpha1.Account], number int64) (*oidctoken.PrivateKey, error) {
	name := r.keySecret(s.Object, number)
	existing := &corev1.Secret{}
	err := s.Live().Get(ctx, name, existing)
	switch {
	case err == nil && !metav1.IsControlledBy(existing, s.Object):
		return nil, fmt.Errorf("secret %q in namespace %q is not that of this account's key; delete it", name.Name, name.Namespace)
	case err == nil:
		key, err := oidctoken.Decode(existing.Data[oidctoken.DataPrivateKey])
		if err != nil {
			return nil, fmt.Errorf("secret %q in namespace %q: %s: %w; delete it", name.Name, name.Namespace, oidctoken.DataPrivateKey, err)
		}
		return key, nil
	case !apierrors.IsNotFound(err):
		return nil, fmt.Errorf("read key of OIDC tokens: %w", err)
	}
	key, err := oidctoken.Generate(rand.Reader)
	if err != nil {
		return nil, err
	}
	encoded, err := key.Encode()
	if err != nil {
		return nil, err
	}
	secret := &corev1.Secret{
		ObjectMeta: metav1.ObjectMeta{Namespace: name.Namespace, Name: name.Name, Labels: map[string]string{engine.LabelManagedBy: engine.ManagedBy}},
		Immutable:  ptr.To(true), Data: map[string][]byte{oidctoken.DataPrivateKey: encoded},
	}
	if err := controllerutil.SetControllerReference(s.Object, secret, s.Scheme(), controllerutil.WithBlockOwnerDeletion(false)); err != nil {
		return nil, err
	}
	if err := s.Client.Client.Create(ctx, secret); err != nil {
		return nil, fmt.Errorf("create key of OIDC tokens: %w", err)
	}
	return key, nil
}

// removeKey deletes the Secret of a key.
func (r *accountReconciler) removeKey(ctx context.Context, s *reconciler.Scope[*v1alpha1.Account], number int64) error {
	name := r.keySecret(s.Object, number)
	err := s.Client.Client.Delete(ctx, &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: name.Namespace, Name: name.Name}})
	if err := client.IgnoreNotFound(err); err != nil {
		return fmt.Errorf("delete key of OIDC tokens: %w", err)
	}
	return nil
}
