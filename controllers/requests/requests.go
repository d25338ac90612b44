// Package requests maps changed objects to the objects that they affect.
package requests

import (
	"context"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/util/workqueue"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller/priorityqueue"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/log"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/quoin-dev/quoin/api/v1alpha1"
)

// For returns requests for the objects of a list that match. The objects are those of the
// cache: match must not change them. An error, which a synced cache never returns, is logged:
// map functions cannot return it.
func For[T client.Object](ctx context.Context, c client.Reader, list client.ObjectList, match func(T) bool, opts ...client.ListOption) []reconcile.Request {
	if err := c.List(ctx, list, append(opts, client.UnsafeDisableDeepCopy)...); err != nil {
		log.FromContext(ctx).Error(err, "Cannot list the objects that a change affects")
		return nil
	}
	var found []reconcile.Request
	_ = meta.EachListItem(list, func(item runtime.Object) error {
		if obj, ok := item.(T); ok && match(obj) {
			found = append(found, reconcile.Request{NamespacedName: client.ObjectKeyFromObject(obj)})
		}
		return nil
	})
	return found
}

// OfAccount maps an account to the objects of a kind in its namespace. list is an empty list of the kind.
func OfAccount[T client.Object](c client.Reader, list client.ObjectList) handler.MapFunc {
	return func(ctx context.Context, obj client.Object) []reconcile.Request {
		account, ok := obj.(*v1alpha1.Account)
		if !ok {
			return nil
		}
		return For(ctx, c, empty(list), All[T], client.InNamespace(account.Spec.Namespace))
	}
}

// Others maps an object to the objects of a kind in its namespace, without itself. list is an empty list of the kind.
func Others[T client.Object](c client.Reader, list client.ObjectList) handler.MapFunc {
	return func(ctx context.Context, changed client.Object) []reconcile.Request {
		isOther := func(o T) bool { return o.GetUID() != changed.GetUID() }
		return For(ctx, c, empty(list), isOther, client.InNamespace(changed.GetNamespace()))
	}
}

// empty returns a new list of the same kind: map functions run concurrently.
func empty(list client.ObjectList) client.ObjectList {
	l, _ := list.DeepCopyObject().(client.ObjectList)
	return l
}

// All matches every object.
func All[T client.Object](T) bool { return true }

// CacheOnly is the prefix of indexed fields that only the cache supports. Other indexed fields
// are selectable fields of the API server too.
const CacheOnly = "cache-only/"

// queue is the queue of a controller.
type queue = workqueue.TypedRateLimitingInterface[reconcile.Request]

// Later enqueues the objects that a change affects after a delay, so that one reconciliation
// handles all changes in that time.
func Later(delay time.Duration, affected handler.MapFunc) handler.EventHandler {
	return onChange(affected, func(q queue, request reconcile.Request) {
		q.AddAfter(request, delay) // keeps an earlier time
	})
}

// InBackground enqueues the objects that a change affects like those of a resync: they wait for objects that have changed
// themselves. It is for changes that affect many objects, and for the queues of package fairqueue.
func InBackground(affected handler.MapFunc) handler.EventHandler {
	return onChange(affected, func(q queue, request reconcile.Request) {
		if prioritized, ok := q.(priorityqueue.PriorityQueue[reconcile.Request]); ok {
			prioritized.AddWithOpts(priorityqueue.AddOpts{Priority: ptr.To(handler.LowPriority)}, request)
			return
		}
		q.Add(request)
	})
}

// onChange enqueues the objects that a change affects. Objects that exist when the controller starts are not changes: every
// object is reconciled then.
func onChange(affected handler.MapFunc, add func(q queue, request reconcile.Request)) handler.EventHandler {
	all := func(ctx context.Context, obj client.Object, q queue) {
		for _, request := range affected(ctx, obj) {
			add(q, request)
		}
	}
	return handler.Funcs{
		CreateFunc: func(ctx context.Context, e event.CreateEvent, q queue) {
			if !e.IsInInitialList {
				all(ctx, e.Object, q)
			}
		},
		UpdateFunc: func(ctx context.Context, e event.UpdateEvent, q queue) { all(ctx, e.ObjectNew, q) },
		DeleteFunc: func(ctx context.Context, e event.DeleteEvent, q queue) { all(ctx, e.Object, q) },
	}
}
