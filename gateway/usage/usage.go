// Package usage records, in annotations on Environments, which of those that may sleep are in use,
// and which sleeping ones are requested to wake.
package usage

import (
	"context"
	"encoding/json"
	"log/slog"
	"sync"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/quoin-dev/quoin/api/v1alpha1"
)

// Minimum intervals between writes to an environment, including those of other replicas.
const (
	wakeInterval = 10 * time.Second
	usedInterval = 5 * time.Minute
)

// retryInterval is the pause after a write that failed.
const retryInterval = time.Second

// maxPending is the length of the queue. An update that finds it full is dropped, and queued with
// the next request.
const maxPending = 1024

// Recorder writes the annotations in the background, so that they do not delay requests.
type Recorder struct {
	// Cache is used to read environments, and Writer to patch them.
	Cache  client.Reader
	Writer client.Client
	Log    *slog.Logger
	// Now returns the current time.
	Now func() time.Time

	once    sync.Once
	pending chan update
	mu      sync.Mutex
	last    map[update]time.Time
	// queued are the updates in pending: each is there once.
	queued map[update]struct{}
}

// update sets an annotation of an environment to the current time.
type update struct {
	environment types.NamespacedName
	annotation  string
}

// Used records a request to an environment that may sleep.
func (r *Recorder) Used(environment types.NamespacedName) {
	r.enqueue(update{environment, v1alpha1.AnnotationLastUsed}, usedInterval)
}

// RequestWake requests that an environment wakes, if it sleeps.
func (r *Recorder) RequestWake(environment types.NamespacedName) {
	r.enqueue(update{environment, v1alpha1.AnnotationWakeRequested}, wakeInterval)
}

func (r *Recorder) enqueue(u update, interval time.Duration) {
	now := r.Now()
	r.mu.Lock()
	if r.last == nil {
		r.last = map[update]time.Time{}
	}
	if last, ok := r.last[u]; ok && now.Sub(last) < interval {
		r.mu.Unlock()
		return
	}
	r.last[u] = now
	r.mu.Unlock()
	r.push(u)
}

func (r *Recorder) push(u update) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if _, queued := r.queued[u]; queued {
		return
	}
	if r.queued == nil {
		r.queued = map[update]struct{}{}
	}
	select {
	case r.queue() <- u:
		r.queued[u] = struct{}{}
	default:
		delete(r.last, u)
	}
}

func (r *Recorder) queue() chan update {
	r.once.Do(func() { r.pending = make(chan update, maxPending) })
	return r.pending
}

// reset allows an update to be queued again at once.
func (r *Recorder) reset(u update) {
	r.mu.Lock()
	defer r.mu.Unlock()
	delete(r.last, u)
}

// Run writes the queued updates until the context ends. It returns nil.
//
// An update that cannot be written is queued again: otherwise an environment in use could be put to
// sleep after an outage of the API server, and a request that waits for its environment to wake
// would have to be repeated. One that the API server rejects, such as for an admission webhook, is dropped
// instead: the next request repeats it after the interval, and the updates of other environments do not wait.
func (r *Recorder) Run(ctx context.Context) error {
	sweep := time.NewTicker(usedInterval)
	defer sweep.Stop()
	for {
		select {
		case <-ctx.Done():
			return nil
		case u := <-r.queue():
			err := r.write(ctx, u)
			switch {
			case err == nil || ctx.Err() != nil:
			case isRejected(err):
				r.Log.Warn("An annotation of an environment is rejected", "environment", u.environment.String(), "annotation", u.annotation, "error", err)
			default:
				r.Log.Warn("Cannot annotate an environment; retrying", "environment", u.environment.String(), "annotation", u.annotation, "error", err)
				r.push(u)
				select {
				case <-ctx.Done():
				case <-time.After(retryInterval):
				}
			}
		case <-sweep.C:
			r.sweep()
		}
	}
}

// isRejected reports whether an update would be rejected again.
func isRejected(err error) bool {
	return apierrors.IsForbidden(err) || apierrors.IsInvalid(err) || apierrors.IsBadRequest(err)
}

// sweep removes the entries that no longer limit updates, such as those of deleted environments.
func (r *Recorder) sweep() {
	now := r.Now()
	r.mu.Lock()
	defer r.mu.Unlock()
	for u, last := range r.last {
		if now.Sub(last) > usedInterval {
			delete(r.last, u)
		}
	}
}

func (r *Recorder) write(ctx context.Context, u update) error {
	r.mu.Lock()
	delete(r.queued, u)
	r.mu.Unlock()
	environment := &v1alpha1.Environment{}
	if err := r.Cache.Get(ctx, u.environment, environment); err != nil {
		return client.IgnoreNotFound(err)
	}
	interval := usedInterval
	if u.annotation == v1alpha1.AnnotationWakeRequested {
		interval = wakeInterval
		if !asleep(environment) {
			// It may go to sleep while the request waits.
			r.reset(u)
			return nil
		}
	}
	now := r.Now()
	if last, err := time.Parse(time.RFC3339, environment.Annotations[u.annotation]); err == nil && now.Sub(last) < interval && !last.After(now) {
		// Another replica has written it. The next write is due an interval after that one, not after this request.
		r.mu.Lock()
		r.last[u] = now.Add(-now.Sub(last))
		r.mu.Unlock()
		return nil
	}
	patch, err := json.Marshal(map[string]any{"metadata": map[string]any{
		"annotations": map[string]string{u.annotation: now.UTC().Format(time.RFC3339)},
	}})
	if err != nil {
		return err
	}
	target := &v1alpha1.Environment{}
	target.Namespace, target.Name = u.environment.Namespace, u.environment.Name
	err = r.Writer.Patch(ctx, target, client.RawPatch(types.MergePatchType, patch))
	return client.IgnoreNotFound(err)
}

// asleep reports whether the environment sleeps.
func asleep(e *v1alpha1.Environment) bool {
	for _, c := range e.Status.Conditions {
		if c.Reason == v1alpha1.ReasonAsleep {
			return true
		}
	}
	return false
}
