// Package requests finds the objects that a change of another object concerns.
package requests

import (
	"context"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/util/workqueue"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/handler"
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

// CacheOnly begins the name of a field that only the cache can be asked by: map functions
// ask nobody else. Other indexed fields can be asked of the API server too.
const CacheOnly = "cache-only/"

// Later asks for the reconciliation of those that a change concerns after a pause: however
// many changes there are in it, one reconciliation sees them all. What is there when the
// controller starts is no change: every object is reconciled then.
func Later(pause time.Duration, concerns handler.MapFunc) handler.EventHandler {
	type queue = workqueue.TypedRateLimitingInterface[reconcile.Request]
	add := func(ctx context.Context, obj client.Object, q queue) {
		for _, request := range concerns(ctx, obj) {
			q.AddAfter(request, pause) // the earliest of several counts
		}
	}
	return handler.Funcs{
		CreateFunc: func(ctx context.Context, e event.CreateEvent, q queue) {
			if !e.IsInInitialList {
				add(ctx, e.Object, q)
			}
		},
		UpdateFunc: func(ctx context.Context, e event.UpdateEvent, q queue) { add(ctx, e.ObjectNew, q) },
		DeleteFunc: func(ctx context.Context, e event.DeleteEvent, q queue) { add(ctx, e.Object, q) },
	}
}
