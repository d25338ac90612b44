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

// Fleet bounds how many deployments roll out at once, over all accounts, so that a new
// version does not take the whole fleet down in one go.
//
// What is rolling out is in the deployments' statuses; the Fleet only counts it, and is
// filled from there when the controller starts.
type Fleet struct {
	limit  int
	reader client.Reader
	wake   chan event.GenericEvent

	mu      sync.Mutex
	filled  bool
	rolling map[client.ObjectKey]struct{}
	waiting []client.ObjectKey
}

// NewFleet returns a Fleet that lets limit deployments roll out at once; any number when
// limit is 0. reader reads Deployments.
func NewFleet(reader client.Reader, limit int) *Fleet {
	return &Fleet{
		limit: limit, reader: reader,
		wake:    make(chan event.GenericEvent, 1024),
		rolling: map[client.ObjectKey]struct{}{},
	}
}

// Acquire asks for leave to begin a rollout. Without it the deployment is queued, and is
// reconciled when its turn comes.
func (f *Fleet) Acquire(ctx context.Context, key client.ObjectKey) bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	if !f.fill(ctx) {
		return false
	}
	_, has := f.rolling[key]
	if has || f.limit <= 0 || len(f.rolling) < f.limit {
		f.rolling[key] = struct{}{}
		f.waiting = slices.DeleteFunc(f.waiting, func(k client.ObjectKey) bool { return k == key })
		return true
	}
	if !slices.Contains(f.waiting, key) {
		f.waiting = append(f.waiting, key)
	}
	return false
}

// Hold counts a rollout that goes on whatever the limit: begun before, or by hand.
func (f *Fleet) Hold(ctx context.Context, key client.ObjectKey) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.fill(ctx)
	f.rolling[key] = struct{}{}
}

// Release ends a deployment's rollout, or its waiting, and wakes who waits for the place.
func (f *Fleet) Release(ctx context.Context, key client.ObjectKey) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.fill(ctx)
	delete(f.rolling, key)
	f.waiting = slices.DeleteFunc(f.waiting, func(k client.ObjectKey) bool { return k == key })
	for range min(f.limit-len(f.rolling), len(f.waiting)) {
		// Taken off the queue: one that has lost interest must not keep its place in it. One
		// that finds the place taken queues again.
		wake(f.wake, f.waiting[0])
		f.waiting = f.waiting[1:]
	}
}

// wake asks for a deployment to be reconciled. Nothing is lost when the channel is full:
// who waits also looks again by itself.
func wake(ch chan<- event.GenericEvent, key client.ObjectKey) {
	d := &v1alpha1.Deployment{}
	d.Namespace, d.Name = key.Namespace, key.Name
	select {
	case ch <- event.GenericEvent{Object: d}:
	default:
	}
}

// fill counts, once, what was rolling out when the controller started. It comes before the
// first change: later, a status that the cache shows late would count a rollout that is over.
func (f *Fleet) fill(ctx context.Context) bool {
	if f.filled || f.limit <= 0 {
		return true
	}
	list := &v1alpha1.DeploymentList{}
	if err := f.reader.List(ctx, list); err != nil {
		log.FromContext(ctx).Error(err, "Cannot count the rollouts under way")
		return false
	}
	for i := range list.Items {
		if r := list.Items[i].Status.Rollout; r != nil && r.StartTime != nil {
			f.rolling[client.ObjectKeyFromObject(&list.Items[i])] = struct{}{}
		}
	}
	f.filled = true
	return true
}
