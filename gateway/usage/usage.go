// Package usage tells the controllers, by annotations on Environments, which of those that may
// sleep are used, and which of those that sleep are wanted.
package usage

import (
	"context"
	"encoding/json"
	"log/slog"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/quoin-dev/quoin/api/v1alpha1"
)

// How often an environment is written to at most. Annotations that another replica wrote count
// too.
const (
	wakeInterval = 10 * time.Second
	usedInterval = 5 * time.Minute
)

// maxPending bounds what waits to be written; more is written when it is noted the next time.
const maxPending = 1024

// Recorder writes the annotations, in the background: no request waits for it.
type Recorder struct {
	// Cache is where environments are looked up; Writer is who writes.
	Cache  client.Reader
	Writer client.Client
	Log    *slog.Logger
	// Now is the time.
	Now func() time.Time

	once    sync.Once
	pending chan note
	mu      sync.Mutex
	last    map[note]time.Time
}

// note is that an annotation of an environment should have the time.
type note struct {
	environment types.NamespacedName
	annotation  string
}

// Used notes that a request was passed on to an environment that may sleep.
func (r *Recorder) Used(environment types.NamespacedName) {
	r.note(note{environment, v1alpha1.AnnotationLastUsed}, usedInterval)
}

// Wanted notes that a request waits for an environment that may sleep: if it does, it is asked
// to wake.
func (r *Recorder) Wanted(environment types.NamespacedName) {
	r.note(note{environment, v1alpha1.AnnotationWakeRequested}, wakeInterval)
}

func (r *Recorder) note(n note, interval time.Duration) {
	now := r.Now()
	r.mu.Lock()
	if r.last == nil {
		r.last = map[note]time.Time{}
	}
	if last, noted := r.last[n]; noted && now.Sub(last) < interval {
		r.mu.Unlock()
		return
	}
	r.last[n] = now
	r.mu.Unlock()
	select {
	case r.queue() <- n:
	default:
		r.retract(n)
	}
}

func (r *Recorder) queue() chan note {
	r.once.Do(func() { r.pending = make(chan note, maxPending) })
	return r.pending
}

// retract lets a note be made again at once.
func (r *Recorder) retract(n note) {
	r.mu.Lock()
	defer r.mu.Unlock()
	delete(r.last, n)
}

// Run writes what is noted until the context ends. It returns nil.
func (r *Recorder) Run(ctx context.Context) error {
	sweep := time.NewTicker(usedInterval)
	defer sweep.Stop()
	for {
		select {
		case <-ctx.Done():
			return nil
		case n := <-r.queue():
			if err := r.write(ctx, n); err != nil && ctx.Err() == nil {
				r.Log.Warn("Cannot annotate an environment; it is tried again when it is used again", "environment", n.environment.String(), "annotation", n.annotation, "error", err)
			}
		case <-sweep.C:
			r.sweep()
		}
	}
}

// sweep forgets what no longer holds anything back, such as environments that are gone.
func (r *Recorder) sweep() {
	now := r.Now()
	r.mu.Lock()
	defer r.mu.Unlock()
	for n, last := range r.last {
		if now.Sub(last) > usedInterval {
			delete(r.last, n)
		}
	}
}

func (r *Recorder) write(ctx context.Context, n note) error {
	environment := &v1alpha1.Environment{}
	if err := r.Cache.Get(ctx, n.environment, environment); err != nil {
		return client.IgnoreNotFound(err)
	}
	interval := usedInterval
	if n.annotation == v1alpha1.AnnotationWakeRequested {
		interval = wakeInterval
		if !asleep(environment) {
			// It may fall asleep while the request waits.
			r.retract(n)
			return nil
		}
	}
	now := r.Now().UTC()
	if last, err := time.Parse(time.RFC3339, environment.Annotations[n.annotation]); err == nil && now.Sub(last) < interval && !last.After(now) {
		return nil
	}
	patch, err := json.Marshal(map[string]any{"metadata": map[string]any{
		"annotations": map[string]string{n.annotation: now.Format(time.RFC3339)},
	}})
	if err != nil {
		return err
	}
	target := &v1alpha1.Environment{}
	target.Namespace, target.Name = n.environment.Namespace, n.environment.Name
	err = r.Writer.Patch(ctx, target, client.RawPatch(types.MergePatchType, patch))
	return client.IgnoreNotFound(err)
}

// asleep tells whether the environment's pods were taken away on purpose.
func asleep(e *v1alpha1.Environment) bool {
	for _, c := range e.Status.Conditions {
		if c.Reason == v1alpha1.ReasonAsleep {
			return true
		}
	}
	return false
}
