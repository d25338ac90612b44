package scim

import (
	"context"

	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/api/meta"
	"sigs.k8s.io/controller-runtime/pkg/builder"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/predicate"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/quoin-dev/quoin/api/v1alpha1"
	"github.com/quoin-dev/quoin/controllers/predicates"
	"github.com/quoin-dev/quoin/controllers/requests"
	"github.com/quoin-dev/quoin/internal/claims"
)

// IndexWanted is the field by which the objects are found that want a name in vain, by the
// claim that another one has. Objects that have their name are not in it.
const IndexWanted = requests.CacheOnly + "wanted-claim"

// Wanted is the claim that an object wants in vain, for IndexWanted. What has not been dealt
// with yet counts: the claim may come free while its status is on the way to the cache.
func Wanted[T v1alpha1.Object](name claims.Attribute[T]) client.IndexerFunc {
	return func(o client.Object) []string {
		obj, ok := o.(T)
		if !ok {
			return nil
		}
		stalled := meta.FindStatusCondition(obj.Common().Conditions, v1alpha1.ConditionStalled)
		taken := stalled != nil && stalled.Reason == v1alpha1.ReasonNameTaken
		if !taken && obj.Common().ObservedGeneration == obj.GetGeneration() {
			return nil
		}
		return []string{name.Name(name.Value(obj))}
	}
}

// Watch has the objects of a kind looked at when their account declares other schemas, when a
// claim that they want in vain came or went, and when their own claim is gone. list is an empty
// list of the kind.
func Watch[T v1alpha1.Object](b *builder.Builder, c client.Reader, name claims.Attribute[T], list client.ObjectList) *builder.Builder {
	return b.
		Watches(&v1alpha1.Account{}, handler.EnqueueRequestsFromMapFunc(ofAccount[T](c, list)), schemas()).
		Watches(&v1alpha1.Claim{}, handler.EnqueueRequestsFromMapFunc(ofClaim[T](c, list)), predicates.Existence()).
		Watches(&v1alpha1.Claim{}, handler.EnqueueRequestsFromMapFunc(holderOf(name.Kind)), predicates.Deletion())
}

// ofClaim maps a claim that came or went to those that want the name in vain. list is an
// empty list of their kind.
func ofClaim[T client.Object](c client.Reader, list client.ObjectList) handler.MapFunc {
	return func(ctx context.Context, claim client.Object) []reconcile.Request {
		return requests.For(ctx, c, empty(list), requests.All[T],
			client.InNamespace(claim.GetNamespace()), client.MatchingFields{IndexWanted: claim.GetName()})
	}
}

// holderOf maps a claim that is gone to the object of a kind that had it, which has it made
// again if it still has the value: a claim must not be lost by whoever deleted it.
func holderOf(kind string) handler.MapFunc {
	return func(_ context.Context, obj client.Object) []reconcile.Request {
		claim, ok := obj.(*v1alpha1.Claim)
		if !ok || claim.Spec.Holder.Kind != kind {
			return nil
		}
		return []reconcile.Request{{NamespacedName: client.ObjectKey{Namespace: claim.Namespace, Name: claim.Spec.Holder.Name}}}
	}
}

// ofAccount maps an account to the objects of a kind in its namespace.
func ofAccount[T client.Object](c client.Reader, list client.ObjectList) handler.MapFunc {
	return func(ctx context.Context, obj client.Object) []reconcile.Request {
		account, ok := obj.(*v1alpha1.Account)
		if !ok {
			return nil
		}
		return requests.For(ctx, c, empty(list), requests.All[T], client.InNamespace(account.Spec.Namespace))
	}
}

// empty is a list of the same kind: map functions run at the same time.
func empty(list client.ObjectList) client.ObjectList {
	fresh, _ := list.DeepCopyObject().(client.ObjectList)
	return fresh
}

// schemas lets through that an account came or went, or declares other schemas: nothing else
// of it is worth a look at all users.
func schemas() builder.Predicates {
	return builder.WithPredicates(predicate.Funcs{
		UpdateFunc: func(e event.UpdateEvent) bool {
			was, ok := e.ObjectOld.(*v1alpha1.Account)
			is, ok2 := e.ObjectNew.(*v1alpha1.Account)
			return ok && ok2 && !equality.Semantic.DeepEqual(was.Spec.Scim, is.Spec.Scim)
		},
	})
}
