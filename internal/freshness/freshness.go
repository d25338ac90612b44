// Package freshness gives a process read-your-writes consistency on top of informer caches, which
// lag behind the writes that fill them.
//
// A Tracker is used in two ways, which cost no request of their own:
//
//   - Readers ask: Wrote records the resource version of each write, and Behind reports whether a
//     cached copy is older, so that the caller reads the Kubernetes API server instead.
//   - Writers wait: Expect begins to wait for an object before it is written, and Wait.Until returns
//     when the handlers of the informer's events have handled what the caller waits for. These
//     handlers report to the function that Observer returns.
package freshness

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/resourceversion"
	toolscache "k8s.io/client-go/tools/cache"
	"k8s.io/utils/clock"
)

// ErrTimeout is returned if an object does not reach the expected state in time.
var ErrTimeout = errors.New("timed out waiting for the cache")

// ID identifies an object.
type ID struct {
	Kind schema.GroupKind
	Key  types.NamespacedName
}

// Tracker tracks the own writes of a process and what its caches have observed. It is safe for
// concurrent use.
type Tracker struct {
	clock clock.Clock

	mu sync.Mutex
	// written are the resource versions of own writes that no cache has shown yet.
	written map[ID]string
	waits   map[ID][]*Wait
	// observed are the latest resource versions of the kinds whose events are reported; empty before
	// the first event.
	observed map[schema.GroupKind]string
}

// New returns a Tracker.
func New(clk clock.Clock) *Tracker {
	return &Tracker{clock: clk, written: map[ID]string{}, waits: map[ID][]*Wait{}, observed: map[schema.GroupKind]string{}}
}

// Wrote records that this process has written an object at a resource version.
func (t *Tracker) Wrote(id ID, version string) {
	if version == "" {
		return
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	if last, ok := t.written[id]; !ok || Older(last, version) {
		t.written[id] = version
	}
}

// Behind reports whether a cached copy of an object (empty version: no copy) is older than the last
// own write. A copy that is not behind ends the record of that write.
func (t *Tracker) Behind(id ID, cached string) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	written, ok := t.written[id]
	if !ok {
		return false
	}
	if cached == "" || Older(cached, written) {
		return true
	}
	delete(t.written, id)
	return false
}

// Forget ends the record of writes of an object, which no longer exists.
func (t *Tracker) Forget(id ID) {
	t.mu.Lock()
	defer t.mu.Unlock()
	delete(t.written, id)
}

// Observer returns a function that reports an event of a kind: the object before and after it, nil
// where there is none. It is to be called after the event was handled, and by one handler of a kind
// only: the one whose state callers read after their writes.
func (t *Tracker) Observer(kind schema.GroupKind) func(before, after any) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if _, ok := t.observed[kind]; !ok {
		t.observed[kind] = ""
	}
	return func(before, after any) { t.observe(kind, before, after) }
}

// Handler returns an event handler for a kind of which callers read nothing but the cache.
func (t *Tracker) Handler(kind schema.GroupKind) toolscache.ResourceEventHandler {
	return EventHandler(t.Observer(kind))
}

// EventHandler returns a handler that calls one function with the object before and after an event,
// nil where there is none.
func EventHandler(changed func(before, after any)) toolscache.ResourceEventHandler {
	return toolscache.ResourceEventHandlerFuncs{
		AddFunc:    func(o any) { changed(nil, o) },
		UpdateFunc: changed,
		DeleteFunc: func(o any) {
			if unknown, ok := o.(toolscache.DeletedFinalStateUnknown); ok {
				o = unknown.Obj
			}
			changed(o, nil)
		},
	}
}

func (t *Tracker) observe(kind schema.GroupKind, before, after any) {
	o, exists := after.(metav1.Object)
	if !exists {
		var ok bool
		if o, ok = before.(metav1.Object); !ok {
			return
		}
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	if latest := t.observed[kind]; latest == "" || Older(latest, o.GetResourceVersion()) {
		t.observed[kind] = o.GetResourceVersion()
	}
	if len(t.waits) == 0 && len(t.written) == 0 {
		return
	}
	id := ID{Kind: kind, Key: types.NamespacedName{Namespace: o.GetNamespace(), Name: o.GetName()}}
	if written, ok := t.written[id]; ok && !Older(o.GetResourceVersion(), written) {
		delete(t.written, id)
	}
	for _, w := range t.waits[id] {
		w.last, w.deleted = o, !exists
		select {
		case w.wake <- struct{}{}:
		default:
		}
	}
}

// Wait waits for one object.
type Wait struct {
	tracker *Tracker
	id      ID
	// since is the latest resource version of the kind that was observed before the wait.
	since string
	// wake has a token if there was an event since the last look.
	wake chan struct{}
	// last is the object of the last event, deleted whether the event was its deletion; under the
	// tracker's lock.
	last    metav1.Object
	deleted bool
}

// Expect begins to wait for an object. It is called before the write, so that no event is missed.
// The caller calls Stop.
func (t *Tracker) Expect(id ID) *Wait {
	w := &Wait{tracker: t, id: id, wake: make(chan struct{}, 1)}
	t.mu.Lock()
	defer t.mu.Unlock()
	w.since = t.observed[id.Kind]
	t.waits[id] = append(t.waits[id], w)
	return w
}

// Stop ends the wait.
func (w *Wait) Stop() {
	t := w.tracker
	t.mu.Lock()
	defer t.mu.Unlock()
	others := slices.DeleteFunc(slices.Clone(t.waits[w.id]), func(other *Wait) bool { return other == w })
	if len(others) == 0 {
		delete(t.waits, w.id)
		return
	}
	t.waits[w.id] = others
}

// Until waits until an event of the object, since Expect, satisfies a condition. The object is
// shared and must not be modified. The error is ErrTimeout or that of the context.
func (w *Wait) Until(ctx context.Context, timeout time.Duration, reached func(o metav1.Object, deleted bool) bool) error {
	w.tracker.mu.Lock()
	_, isObserved := w.tracker.observed[w.id.Kind]
	w.tracker.mu.Unlock()
	if !isObserved {
		return fmt.Errorf("wait for %s %s: events of the kind are not observed", w.id.Kind, w.id.Key)
	}
	timer := w.tracker.clock.NewTimer(timeout)
	defer timer.Stop()
	for {
		w.tracker.mu.Lock()
		last, deleted := w.last, w.deleted
		w.tracker.mu.Unlock()
		if last != nil && reached(last, deleted) {
			return nil
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-timer.C():
			return ErrTimeout
		case <-w.wake:
		}
	}
}

// Version waits until the object is observed at the resource version of a write since Expect, or
// later. A write that changed nothing has a version from before, and is not waited for.
func (w *Wait) Version(ctx context.Context, timeout time.Duration, version string) error {
	if w.since != "" && !Older(w.since, version) {
		return nil
	}
	return w.Until(ctx, timeout, func(o metav1.Object, _ bool) bool {
		return !Older(o.GetResourceVersion(), version)
	})
}

// Absence waits until the object with a UID is deleted or being deleted.
func (w *Wait) Absence(ctx context.Context, timeout time.Duration, uid types.UID) error {
	return w.Until(ctx, timeout, func(o metav1.Object, deleted bool) bool {
		return deleted || o.GetUID() != uid || !o.GetDeletionTimestamp().IsZero()
	})
}

// Older reports whether resource version a is older than b. Kubernetes guarantees that resource
// versions are comparable integers; others count as not older, so that reads are as fresh as the
// cache.
func Older(a, b string) bool {
	order, err := resourceversion.CompareResourceVersion(a, b)
	return err == nil && order < 0
}
