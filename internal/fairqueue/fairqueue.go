// Package fairqueue provides the queue of a controller. It takes turns between the namespaces of the waiting objects, and a
// namespace has at most half of the workers, so that an account with many changes does not delay those of others.
//
// In other respects it is the queue of client-go, with two priorities as in controller-runtime: objects that are added
// because the controller starts or resyncs wait for those that have changed, but not forever.
package fairqueue

import (
	"sync"

	"k8s.io/client-go/util/workqueue"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/controller"
	"sigs.k8s.io/controller-runtime/pkg/controller/priorityqueue"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/quoin-dev/quoin/internal/turns"
)

// queue implements priorityqueue.PriorityQueue.
type queue struct {
	workqueue.TypedRateLimitingInterface[reconcile.Request]
	ready   workqueue.TypedInterface[reconcile.Request]
	waiting *waiting
}

// due is the queue to which the delaying queue adds the items whose time has come.
type due struct {
	workqueue.TypedInterface[reconcile.Request]
	waiting *waiting
}

// Add implements workqueue.TypedInterface.
func (d due) Add(item reconcile.Request) {
	d.waiting.endDelay(item)
	d.TypedInterface.Add(item)
}

// Workers sets the number of workers of a controller, of which each namespace has at most half.
func Workers(o *controller.Options, workers int) {
	o.MaxConcurrentReconciles, o.NewQueue = workers, New(workers)
}

// New returns the queue of a controller with a number of workers, as a function for controller.Options.NewQueue.
func New(workers int) func(name string, limiter workqueue.TypedRateLimiter[reconcile.Request]) workqueue.TypedRateLimitingInterface[reconcile.Request] {
	return func(name string, limiter workqueue.TypedRateLimiter[reconcile.Request]) workqueue.TypedRateLimitingInterface[reconcile.Request] {
		return newQueue(name, limiter, max(1, workers/2))
	}
}

// newQueue returns a queue of which each namespace may have so many items in progress.
func newQueue(name string, limiter workqueue.TypedRateLimiter[reconcile.Request], each int) *queue {
	w := &waiting{
		each: each, queued: map[reconcile.Request]bool{}, queuedOf: map[string]int{}, inProgress: map[string]int{},
		priorities: map[reconcile.Request]int{}, delayed: map[reconcile.Request]int{},
	}
	ready := workqueue.NewTypedWithConfig(workqueue.TypedQueueConfig[reconcile.Request]{Name: name, Queue: w})
	delaying := workqueue.NewTypedDelayingQueueWithConfig(workqueue.TypedDelayingQueueConfig[reconcile.Request]{Name: name, Queue: due{ready, w}})
	return &queue{
		workqueue.NewTypedRateLimitingQueueWithConfig(limiter, workqueue.TypedRateLimitingQueueConfig[reconcile.Request]{Name: name, DelayingQueue: delaying}), ready, w,
	}
}

var _ priorityqueue.PriorityQueue[reconcile.Request] = &queue{}

// Add implements workqueue.TypedInterface.
func (q *queue) Add(item reconcile.Request) { q.AddWithOpts(priorityqueue.AddOpts{}, item) }

// AddWithOpts implements priorityqueue.PriorityQueue.
func (q *queue) AddWithOpts(o priorityqueue.AddOpts, items ...reconcile.Request) {
	priority := ptr.Deref(o.Priority, 0)
	for _, item := range items {
		switch {
		case o.RateLimited:
			q.waiting.delay(item, priority)
			q.TypedRateLimitingInterface.AddRateLimited(item)
		case o.After > 0:
			q.waiting.delay(item, priority)
			q.TypedRateLimitingInterface.AddAfter(item, o.After)
		default:
			q.waiting.prioritize(item, priority)
			q.ready.Add(item)
		}
	}
}

// Done implements workqueue.TypedInterface. A worker calls it before it gets the next item: it does not wake up another
// worker for an item of the namespace that waits.
func (q *queue) Done(item reconcile.Request) {
	q.waiting.done(item.Namespace)
	q.TypedRateLimitingInterface.Done(item)
}

// GetWithPriority implements priorityqueue.PriorityQueue.
func (q *queue) GetWithPriority() (item reconcile.Request, priority int, shutdown bool) {
	item, shutdown = q.Get()
	return item, q.waiting.take(item), shutdown
}

// lowShare says that one of so many items is of low priority, if one is waiting: the changes of a busy account do not keep the
// objects of others waiting forever.
const lowShare = 8

// waiting are the items that are ready. It implements workqueue.Queue, whose methods are not called concurrently.
type waiting struct {
	// each is the number of items of a namespace that may be in progress.
	each int

	normal, low turns.Queue[string, reconcile.Request]
	// queued has the waiting items, and whether they are in low only; queuedOf has their number for each namespace.
	queued   map[reconcile.Request]bool
	queuedOf map[string]int
	// popped counts the items that were returned.
	popped int

	mu sync.Mutex
	// priorities are those of the items that have been added and not been returned since.
	priorities map[reconcile.Request]int
	// delayed are those of the items whose delay is not over. An object that is reconciled once a minute also waits as one of a
	// resync, if it is added as such in between.
	delayed map[reconcile.Request]int
	// inProgress has the number of items of each namespace that have been returned and are not done.
	inProgress map[string]int
}

// prioritize records the priority of an item that is about to be added. Of several, the highest applies.
func (w *waiting) prioritize(item reconcile.Request, priority int) {
	w.mu.Lock()
	defer w.mu.Unlock()
	raise(w.priorities, item, priority)
}

// delay records the priority of an item that is about to be added after a time.
func (w *waiting) delay(item reconcile.Request, priority int) {
	w.mu.Lock()
	defer w.mu.Unlock()
	raise(w.delayed, item, priority)
}

// endDelay records the priority of an item whose delay is over, and that is about to be added.
func (w *waiting) endDelay(item reconcile.Request) {
	w.mu.Lock()
	defer w.mu.Unlock()
	raise(w.priorities, item, w.delayed[item])
	delete(w.delayed, item)
}

// raise sets the priority of an item unless it has a higher one.
func raise(priorities map[reconcile.Request]int, item reconcile.Request, priority int) {
	if before, added := priorities[item]; added {
		priority = max(priority, before)
	}
	priorities[item] = priority
}

// take returns the priority of an item that is being returned.
func (w *waiting) take(item reconcile.Request) int {
	w.mu.Lock()
	defer w.mu.Unlock()
	defer delete(w.priorities, item)
	return w.priorities[item]
}

func (w *waiting) isLow(item reconcile.Request) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.priorities[item] < 0
}

// Push implements workqueue.Queue.
func (w *waiting) Push(item reconcile.Request) {
	low := w.isLow(item)
	w.queued[item] = low
	w.queuedOf[item.Namespace]++
	if low {
		w.low.Push(item.Namespace, item)
		return
	}
	w.normal.Push(item.Namespace, item)
}

// Touch implements workqueue.Queue: an item that is waiting has been added again.
func (w *waiting) Touch(item reconcile.Request) {
	if w.queued[item] && !w.isLow(item) {
		w.queued[item] = false
		w.normal.Push(item.Namespace, item) // Pop skips the item in low
	}
}

// Len implements workqueue.Queue: it returns the number of items that Pop may return.
func (w *waiting) Len() int {
	w.mu.Lock()
	defer w.mu.Unlock()
	n := len(w.queued)
	for namespace := range w.inProgress {
		if !w.may(namespace) {
			n -= w.queuedOf[namespace]
		}
	}
	return n
}

// may reports whether a further item of a namespace may be in progress. The items without a namespace are those of all
// accounts. The caller must hold mu.
func (w *waiting) may(namespace string) bool {
	return namespace == "" || w.inProgress[namespace] < w.each
}

// done ends an item of a namespace.
func (w *waiting) done(namespace string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.inProgress[namespace]--; w.inProgress[namespace] <= 0 {
		delete(w.inProgress, namespace)
	}
}

// Pop implements workqueue.Queue.
func (w *waiting) Pop() reconcile.Request {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.popped++
	item, ok := reconcile.Request{}, false
	if w.popped%lowShare == 0 {
		item, ok = w.popLow()
	}
	if !ok {
		_, item, ok = w.normal.PopOf(w.may)
	}
	if !ok {
		item, _ = w.popLow()
	}
	if delete(w.queued, item); len(w.queued) == 0 {
		w.low = turns.Queue[string, reconcile.Request]{} // items that have been moved to normal
	}
	if w.queuedOf[item.Namespace]--; w.queuedOf[item.Namespace] == 0 {
		delete(w.queuedOf, item.Namespace)
	}
	w.inProgress[item.Namespace]++
	return item
}

// popLow returns the next item of low priority, without those that have been moved to normal. ok is false if there is none.
func (w *waiting) popLow() (item reconcile.Request, ok bool) {
	for {
		if _, item, ok = w.low.PopOf(w.may); !ok || w.queued[item] {
			return item, ok
		}
	}
}
