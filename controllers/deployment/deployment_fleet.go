package deployment

import (
	"context"
	"slices"
	"sync"

	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/log"

	"github.com/quoin-dev/quoin/api/v1alpha1"
)

// Fleet limits the number of concurrent rollouts over all accounts, so that a new version
// does not affect the whole fleet at once.
//
// The rollouts in progress are recorded in the statuses of the deployments. The Fleet only
// counts them, and initializes its count from there when the controller starts.
type Fleet struct {
	limit  int
	reader client.Reader
	wake   chan event.GenericEvent

	mu          sync.Mutex
	initialized bool
	rolling     map[client.ObjectKey]struct{}
	waiting     []client.ObjectKey
}

// NewFleet returns a Fleet with limit slots, or without a limit when it is 0. reader reads
// Deployments.
func NewFleet(reader client.Reader, limit int) *Fleet {
	return &Fleet{
		limit: limit, reader: reader,
		wake:    make(chan event.GenericEvent, 1024),
		rolling: map[client.ObjectKey]struct{}{},
	}
}

// AcquireSlot acquires a slot for a rollout and reports whether it did. Otherwise the
// deployment is queued, and reconciled when a slot is released.
func (f *Fleet) AcquireSlot(ctx context.Context, key client.ObjectKey) bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	if !f.initialize(ctx) {
		return false
	}
	_, occupied := f.rolling[key]
	if occupied || f.limit <= 0 || len(f.rolling) < f.limit {
		f.rolling[key] = struct{}{}
		f.waiting = slices.DeleteFunc(f.waiting, func(k client.ObjectKey) bool { return k == key })
		return true
	}
	if !slices.Contains(f.waiting, key) {
		f.waiting = append(f.waiting, key)
	}
	return false
}

// OccupySlot counts a rollout that is in progress or was requested by a user, regardless of
// the limit.
func (f *Fleet) OccupySlot(ctx context.Context, key client.ObjectKey) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.initialize(ctx)
	f.rolling[key] = struct{}{}
}

// ReleaseSlot releases a deployment's slot, or removes it from the queue, and wakes the next
// deployments in the queue.
func (f *Fleet) ReleaseSlot(ctx context.Context, key client.ObjectKey) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.initialize(ctx)
	delete(f.rolling, key)
	f.waiting = slices.DeleteFunc(f.waiting, func(k client.ObjectKey) bool { return k == key })
	for range min(f.limit-len(f.rolling), len(f.waiting)) {
		// Dequeued now, because a deployment that no longer needs the slot must not block the
		// queue. One that is too late is queued again.
		wake(f.wake, f.waiting[0])
		f.waiting = f.waiting[1:]
	}
}

// wake enqueues a deployment for reconciliation. A full channel loses nothing: a waiting
// deployment is also reconciled after slotRetryInterval.
func wake(ch chan<- event.GenericEvent, key client.ObjectKey) {
	d := &v1alpha1.Deployment{}
	d.Namespace, d.Name = key.Namespace, key.Name
	select {
	case ch <- event.GenericEvent{Object: d}:
	default:
	}
}

// initialize counts, once, the rollouts in progress when the controller started. It must run
// before the first change: later, a stale status would count a rollout that has ended.
func (f *Fleet) initialize(ctx context.Context) bool {
	if f.initialized || f.limit <= 0 {
		return true
	}
	list := &v1alpha1.DeploymentList{}
	if err := f.reader.List(ctx, list); err != nil {
		log.FromContext(ctx).Error(err, "Cannot count the rollouts in progress")
		return false
	}
	for i := range list.Items {
		if r := list.Items[i].Status.Rollout; r != nil && r.StartTime != nil {
			f.rolling[client.ObjectKeyFromObject(&list.Items[i])] = struct{}{}
		}
	}
	f.initialized = true
	return true
}
