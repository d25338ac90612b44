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

// IndexWanted is the index of the objects that wait for a name, by the name of the claim. Objects that
// hold their claim are not in it.
const IndexWanted = requests.CacheOnly + "wanted-claim"

// Wanted returns the index function for IndexWanted. Objects whose latest generation has not been
// observed are included: their claim may be released before the cache has their status.
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

// Watch adds the watches that the kinds share: objects are reconciled when their account declares other
// schemas, when a claim that they wait for is created or deleted, and when their own claim is deleted.
// list is an empty list of the kind.
func Watch[T v1alpha1.Object](b *builder.Builder, c client.Reader, name claims.Attribute[T], list client.ObjectList) *builder.Builder {
	return b.
		Watches(&v1alpha1.Account{}, handler.EnqueueRequestsFromMapFunc(requests.OfAccount[T](c, list)), schemas()).
		Watches(&v1alpha1.Claim{}, handler.EnqueueRequestsFromMapFunc(ofClaim[T](c, list)), predicates.Existence()).
		Watches(&v1alpha1.Claim{}, handler.EnqueueRequestsFromMapFunc(holderOf(name.Kind)), predicates.Deletion())
}

// ofClaim maps a claim to the objects that wait for it. list is an empty list of their kind.
func ofClaim[T client.Object](c client.Reader, list client.ObjectList) handler.MapFunc {
	return func(ctx context.Context, claim client.Object) []reconcile.Request {
		return requests.For(ctx, c, empty(list), requests.All[T],
			client.InNamespace(claim.GetNamespace()), client.MatchingFields{IndexWanted: claim.GetName()})
	}
}

// holderOf maps a deleted claim to the object that held it, which creates it again if it still has the
// value: deleting a claim must not release the name.
func holderOf(kind string) handler.MapFunc {
	return func(_ context.Context, obj client.Object) []reconcile.Request {
		claim, ok := obj.(*v1alpha1.Claim)
		if !ok || claim.Spec.Holder.Kind != kind {
			return nil
		}
		return []reconcile.Request{{NamespacedName: client.ObjectKey{Namespace: claim.Namespace, Name: claim.Spec.Holder.Name}}}
	}
}

// empty returns a new list of the same kind: map functions run concurrently.
func empty(list client.ObjectList) client.ObjectList {
	l, _ := list.DeepCopyObject().(client.ObjectList)
	return l
}

// schemas accepts creations and deletions of accounts and changes of their schemas. Other changes do not
// affect users and groups.
func schemas() builder.Predicates {
	return builder.WithPredicates(predicate.Funcs{
		UpdateFunc: func(e event.UpdateEvent) bool {
			before, ok := e.ObjectOld.(*v1alpha1.Account)
			after, ok2 := e.ObjectNew.(*v1alpha1.Account)
			return ok && ok2 && !equality.Semantic.DeepEqual(before.Spec.Scim, after.Spec.Scim)
		},
	})
}
