package account

import (
	"context"

	"k8s.io/apimachinery/pkg/api/meta"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/quoin-dev/quoin/api/v1alpha1"
	"github.com/quoin-dev/quoin/controllers/requests"
)

// rivals maps a change of an account to the others that may have been waiting for what it
// had, and to those that lose to it what they had.
func rivals(c client.Reader) handler.MapFunc {
	return func(ctx context.Context, obj client.Object) []reconcile.Request {
		changed, ok := obj.(*v1alpha1.Account)
		if !ok {
			return nil
		}
		return requests.For(ctx, c, &v1alpha1.AccountList{}, func(a *v1alpha1.Account) bool {
			return a.Name != changed.Name && (!isReady(a) || rivalry(a, []v1alpha1.Account{*changed}) != nil)
		})
	}
}

// ofNamespace maps a namespace, or an object in one, to its account where that one waits
// for something to come or to go.
func ofNamespace(c client.Reader) handler.MapFunc {
	return func(ctx context.Context, obj client.Object) []reconcile.Request {
		name := obj.GetNamespace()
		if name == "" {
			name = obj.GetName()
		}
		gone := !obj.GetDeletionTimestamp().IsZero()
		return requests.For(ctx, c, &v1alpha1.AccountList{}, func(a *v1alpha1.Account) bool {
			return a.Spec.Namespace == name && (gone || !isReady(a) || !a.DeletionTimestamp.IsZero())
		})
	}
}

func isReady(a *v1alpha1.Account) bool {
	return meta.IsStatusConditionTrue(a.Status.Conditions, v1alpha1.ConditionReady)
}
