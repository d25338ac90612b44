// Package requests finds the objects that a change of another object concerns.
package requests

import (
	"context"

	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/log"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
)

// For asks for the reconciliation of the objects of a list that are wanted. The objects are
// the cache's own: wanted must not change them. A list that cannot be read, which a filled
// cache never refuses, is logged: a map function has nowhere to return it to.
func For[T client.Object](ctx context.Context, c client.Reader, list client.ObjectList, wanted func(T) bool, opts ...client.ListOption) []reconcile.Request {
	if err := c.List(ctx, list, append(opts, client.UnsafeDisableDeepCopy)...); err != nil {
		log.FromContext(ctx).Error(err, "Cannot find out whom a change concerns")
		return nil
	}
	var found []reconcile.Request
	_ = meta.EachListItem(list, func(item runtime.Object) error {
		if obj, ok := item.(T); ok && wanted(obj) {
			found = append(found, reconcile.Request{NamespacedName: client.ObjectKeyFromObject(obj)})
		}
		return nil
	})
	return found
}

// All wants every object.
func All[T client.Object](T) bool { return true }
