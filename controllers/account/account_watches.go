package account

import (
	"context"

	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/quoin-dev/quoin/api/v1alpha1"
	"github.com/quoin-dev/quoin/controllers/requests"
)

// rivals maps a changed account to the other accounts that are not ready, which it may have
// blocked, and to those that it now conflicts with.
func rivals(c client.Reader) handler.MapFunc {
	return func(ctx context.Context, obj client.Object) []reconcile.Request {
		changed, ok := obj.(*v1alpha1.Account)
		if !ok {
			return nil
		}
		return requests.For(ctx, c, &v1alpha1.AccountList{}, func(a *v1alpha1.Account) bool {
			return a.Name != changed.Name && (!isReady(a) || a.Spec.Namespace == changed.Spec.Namespace)
		})
	}
}

// ofTokenConfig maps an OIDC token configuration to its account, also if that has keys: without a configuration, nothing
// renews them.
func ofTokenConfig(c client.Reader) handler.MapFunc {
	return func(ctx context.Context, config client.Object) []reconcile.Request {
		return requests.For(ctx, c, &v1alpha1.AccountList{}, func(a *v1alpha1.Account) bool {
			return a.Spec.Namespace == config.GetNamespace()
		})
	}
}

// ofNamespace maps a namespace, or an object in one, to its account if the account is not ready
// or something is being deleted.
func ofNamespace(c client.Reader) handler.MapFunc {
	return func(ctx context.Context, obj client.Object) []reconcile.Request {
		name := obj.GetNamespace()
		if name == "" {
			name = obj.GetName()
		}
		deleting := !obj.GetDeletionTimestamp().IsZero()
		return requests.For(ctx, c, &v1alpha1.AccountList{}, func(a *v1alpha1.Account) bool {
			return a.Spec.Namespace == name && (deleting || !isReady(a) || !a.DeletionTimestamp.IsZero())
		})
	}
}

// ofRole maps a role to its account.
func ofRole(c client.Reader) handler.MapFunc {
	return func(ctx context.Context, role client.Object) []reconcile.Request {
		return requests.For(ctx, c, &v1alpha1.AccountList{}, func(a *v1alpha1.Account) bool { return a.Spec.Namespace == role.GetNamespace() })
	}
}
