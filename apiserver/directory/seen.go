package directory

import (
	"context"
	"sync"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/clock"

	"github.com/quoin-dev/quoin/internal/freshness"
)

// patience is how long a write waits to be seen in the cache. The write is done; what it waits for
// is only that the next list of this replica has it.
const patience = 5 * time.Second

// seen tells writers what the event handlers have handled.
type seen struct {
	clock clock.Clock

	mu      sync.Mutex
	waiting map[objectKey][]*wait
}

// objectKey names an object.
type objectKey struct{ kind, namespace, name string }

// wait is for one object. It is begun before the write, so that no event is missed.
type wait struct {
	seen *seen
	key  objectKey
	// wake holds one token when something has happened since the last look.
	wake chan struct{}
	// last is the object as it was handled last, gone whether it was deleted; under seen.mu.
	last metav1.Object
	gone bool
}

func newSeen(c clock.Clock) *seen { return &seen{clock: c, waiting: map[objectKey][]*wait{}} }

// expect begins to wait for an object. The caller ends it.
func (s *seen) expect(kind, namespace, name string) *wait {
	w := &wait{seen: s, key: objectKey{kind, namespace, name}, wake: make(chan struct{}, 1)}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.waiting[w.key] = append(s.waiting[w.key], w)
	return w
}

// end forgets the wait.
func (w *wait) end() {
	w.seen.mu.Lock()
	defer w.seen.mu.Unlock()
	var others []*wait
	for _, other := range w.seen.waiting[w.key] {
		if other != w {
			others = append(others, other)
		}
	}
	if len(others) == 0 {
		delete(w.seen.waiting, w.key)
		return
	}
	w.seen.waiting[w.key] = others
}

// happened is told of each event, after it was handled.
func (s *seen) happened(kind string, before, after any) {
	o, there := after.(metav1.Object)
	if !there {
		var ok bool
		if o, ok = before.(metav1.Object); !ok {
			return
		}
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.waiting) == 0 {
		return
	}
	for _, w := range s.waiting[objectKey{kind, o.GetNamespace(), o.GetName()}] {
		w.last, w.gone = o, !there
		select {
		case w.wake <- struct{}{}:
		default:
		}
	}
}

// version waits until the object was handled as it was written, or as it was later.
func (w *wait) version(ctx context.Context, written string) {
	w.until(ctx, func(last metav1.Object, _ bool) bool {
		return !freshness.Older(last.GetResourceVersion(), written)
	})
}

// absence waits until the object with a UID is no resource any more.
func (w *wait) absence(ctx context.Context, uid types.UID) {
	w.until(ctx, func(last metav1.Object, gone bool) bool {
		return gone || last.GetUID() != uid || !last.GetDeletionTimestamp().IsZero()
	})
}

// until gives up silently: the write is done.
func (w *wait) until(ctx context.Context, reached func(last metav1.Object, gone bool) bool) {
	late := w.seen.clock.NewTimer(patience)
	defer late.Stop()
	for {
		w.seen.mu.Lock()
		done := w.last != nil && reached(w.last, w.gone)
		w.seen.mu.Unlock()
		if done {
			return
		}
		select {
		case <-ctx.Done():
			return
		case <-late.C():
			return
		case <-w.wake:
		}
	}
}
