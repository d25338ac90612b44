package deployment

import (
	"context"
	"slices"
	"sync"
	"time"

	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/log"

	"github.com/quoin-dev/quoin/api/v1alpha1"
)

// Fleet limits the number of concurrent rollouts over all accounts, so that a new version
// does not affect the whole fleet at once, and the number of deployments that try a version until
// its channel accepts it.
//
// The rollouts in progress and the failures are recorded in the statuses of the deployments, or with the
// version of their environments. The Fleet only counts them, and initializes its counts from there when
// the controller starts.
type Fleet struct {
	limit  int
	reader client.Reader
	wake   chan event.GenericEvent

	mu          sync.Mutex
	initialized bool
	// rolling are the candidates of the rollouts in progress; without an image for one that waits for a user.
	rolling map[client.ObjectKey]candidate
	// failed are the deployments on which a candidate has failed.
	failed map[candidate]map[client.ObjectKey]struct{}
	// tried is the number of deployments that roll a candidate out or on which it has failed. Thousands may wait for a place
	// while many roll out: none of them counts the others.
	tried   map[candidate]int
	waiting []*waiter
	// queued has those of waiting, which is long while a version is rolled out to a large fleet.
	queued map[client.ObjectKey]*waiter
	// woken are deployments that were removed from waiting and have not been reconciled since: those that are woken next need
	// a slot or a place beside them.
	woken map[client.ObjectKey]*waiter
	now   func() time.Time
	// freed reports whether a slot or a place was freed since the waiting deployments were last woken.
	freed bool
	// since is when the waiting deployments began to wait.
	since map[client.ObjectKey]time.Time
}

// candidate is an image that deployments of a release channel try. Channels of the same repository offer the
// same images, and each of them accepts an image by the results of its own deployments.
type candidate struct{ channel, image string }

// startRequest is a request to start a rollout.
type startRequest struct {
	// channel that the deployment follows.
	channel string
	// image that is rolled out, with its digest.
	image string
	// slot requests a rollout slot.
	slot bool
	// places is the number of deployments of the channel that may try the image: that roll it out or on
	// which it has failed; 0 if there is no limit.
	places int
}

func (r startRequest) candidate() candidate { return candidate{r.channel, r.image} }

type waiter struct {
	key     client.ObjectKey
	request startRequest
	// woken is when the deployment was woken.
	woken time.Time
}

// wokenTimeout is how long a woken deployment counts: it may have no rollout to start any more.
const wokenTimeout = 10 * time.Second

// denial is why a rollout may not start yet.
type denial string

const (
	// noSlot: the limit of concurrent rollouts is reached.
	noSlot denial = "a rollout slot: the maximum number of concurrent rollouts is reached"
	// noPlace: enough deployments try the version.
	noPlace denial = "the results of the first deployments: the release channel limits their number until the version is accepted"
)

// A deployment that waits also tries again by itself: one that was woken may no longer need the slot.
const (
	minRetryInterval = 30 * time.Second
	maxRetryInterval = 10 * time.Minute
	// retriesPerSecond is the number of retries of all waiting deployments, so that thousands of them do not keep a
	// processor busy.
	retriesPerSecond = 20
)

// NewFleet returns a Fleet with limit slots, or without a limit when it is 0. reader reads
// Deployments.
func NewFleet(reader client.Reader, limit int) *Fleet {
	return &Fleet{
		limit: limit, reader: reader,
		wake:    make(chan event.GenericEvent, 1024),
		rolling: map[client.ObjectKey]candidate{},
		failed:  map[candidate]map[client.ObjectKey]struct{}{},
		tried:   map[candidate]int{},
		queued:  map[client.ObjectKey]*waiter{},
		woken:   map[client.ObjectKey]*waiter{},
		now:     time.Now,
		since:   map[client.ObjectKey]time.Time{},
	}
}

// AcquireSlot starts a rollout, or returns why it may not start yet. In this case the deployment is
// queued, and reconciled when it may.
func (f *Fleet) AcquireSlot(ctx context.Context, key client.ObjectKey, request startRequest) denial {
	f.mu.Lock()
	defer f.unlock()
	if !f.initialize(ctx) {
		return noSlot
	}
	delete(f.woken, key)
	why, queued := f.deny(key, request), f.queued[key]
	switch {
	case why == "":
		f.setRolling(key, request.candidate())
		f.dequeue(key)
	case queued != nil:
		queued.request = request
	default:
		w := &waiter{key: key, request: request}
		f.waiting, f.queued[key] = append(f.waiting, w), w
		f.unsetRolling(key) // another rollout, which this one would have replaced, ends
	}
	return why
}

// deny returns why a rollout may not start yet; empty if it may.
func (f *Fleet) deny(key client.ObjectKey, request startRequest) denial {
	rolling, occupied := f.rolling[key]
	if request.slot && !occupied && f.limit > 0 && len(f.rolling) >= f.limit {
		return noSlot
	}
	if request.places > 0 && !(occupied && rolling == request.candidate()) && f.tries(key, request.candidate()) >= request.places {
		return noPlace
	}
	return ""
}

// tries returns the number of other deployments that roll out a candidate or on which it has failed.
func (f *Fleet) tries(key client.ObjectKey, c candidate) int {
	if f.rolls(key, c) || f.hasFailed(key, c) {
		return f.tried[c] - 1
	}
	return f.tried[c]
}

func (f *Fleet) rolls(key client.ObjectKey, c candidate) bool {
	rolling, ok := f.rolling[key]
	return ok && rolling == c
}

func (f *Fleet) hasFailed(key client.ObjectKey, c candidate) bool {
	_, failed := f.failed[c][key]
	return failed
}

// setRolling sets the candidate that a deployment rolls out.
func (f *Fleet) setRolling(key client.ObjectKey, c candidate) {
	if f.rolls(key, c) {
		return
	}
	f.unsetRolling(key)
	if f.rolling[key] = c; !f.hasFailed(key, c) {
		f.tried[c]++
	}
}

// unsetRolling removes the candidate that a deployment rolls out.
func (f *Fleet) unsetRolling(key client.ObjectKey) {
	c, ok := f.rolling[key]
	if !ok {
		return
	}
	f.freed = true
	if delete(f.rolling, key); !f.hasFailed(key, c) {
		f.untry(c)
	}
}

// untry removes a deployment from the number of those that have tried a candidate.
func (f *Fleet) untry(c candidate) {
	f.freed = true
	if f.tried[c]--; f.tried[c] == 0 {
		delete(f.tried, c)
	}
}

// OccupySlot counts a rollout that is in progress or was requested by a user, regardless of
// the limits. The image is empty while the rollout waits for a change by a user.
func (f *Fleet) OccupySlot(ctx context.Context, key client.ObjectKey, channel, image string) {
	f.mu.Lock()
	defer f.unlock()
	f.initialize(ctx)
	f.setRolling(key, candidate{channel, image})
	f.dequeue(key)
}

// Suspend counts a rollout that waits for a change by a user: it keeps its slot, if it has one, but
// does not try its version.
func (f *Fleet) Suspend(ctx context.Context, key client.ObjectKey) {
	f.mu.Lock()
	defer f.unlock()
	f.initialize(ctx)
	if _, occupied := f.rolling[key]; occupied {
		f.setRolling(key, candidate{})
	}
}

// ReleaseSlot releases a deployment's slot, or removes it from the queue, and wakes the deployments
// in the queue that may start now.
func (f *Fleet) ReleaseSlot(ctx context.Context, key client.ObjectKey) {
	f.mu.Lock()
	defer f.unlock()
	f.initialize(ctx)
	f.unsetRolling(key)
	f.dequeue(key)
	f.freed = true // a slot of a deployment that was woken may not be needed
}

// unlock wakes the waiting deployments if a slot or a place was freed, and unlocks mu.
func (f *Fleet) unlock() {
	if f.freed {
		f.freed = false
		f.wakeWaiting()
	}
	f.mu.Unlock()
}

// wakeWaiting wakes the deployments in the queue that may start now, beside those that were woken before.
func (f *Fleet) wakeWaiting() {
	now := f.now()
	free, places := f.limit-len(f.rolling), map[candidate]int{}
	for key, w := range f.woken {
		if now.Sub(w.woken) > wokenTimeout {
			delete(f.woken, key)
			continue
		}
		free--
		places[w.request.candidate()]++
	}
	var exhausted startRequest // the last one that no deployment may start: most of those that wait have the same
	// Dequeued now, because a deployment that no longer needs the slot must not block the queue. One
	// that is too late is queued again.
	f.waiting = slices.DeleteFunc(f.waiting, func(w *waiter) bool {
		r := w.request
		if r == exhausted || r.slot && f.limit > 0 && free <= 0 {
			return false
		}
		c := r.candidate()
		if r.places > 0 && f.tried[c]-1+places[c] >= r.places {
			exhausted = r
			return false
		}
		if r.places > 0 && f.tries(w.key, c)+places[c] >= r.places {
			return false
		}
		free--
		places[c]++
		delete(f.queued, w.key)
		f.woken[w.key], w.woken = w, now
		wake(f.wake, w.key)
		return true
	})
}

// Waited returns how long a deployment has waited to start a rollout, since the first call. A restart of
// the controller begins again.
func (f *Fleet) Waited(key client.ObjectKey, now time.Time) time.Duration {
	f.mu.Lock()
	defer f.mu.Unlock()
	if _, waits := f.since[key]; !waits {
		f.since[key] = now
	}
	return now.Sub(f.since[key])
}

// inProgress returns the numbers of rollouts that run and of deployments that wait to start one. A rollout that waits for a
// change by a user is neither.
func (f *Fleet) inProgress() (running, waiting int) {
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, c := range f.rolling {
		if c.image != "" {
			running++
		}
	}
	return running, len(f.waiting)
}

// RetryInterval returns how often a waiting deployment tries again by itself.
func (f *Fleet) RetryInterval() time.Duration {
	f.mu.Lock()
	defer f.mu.Unlock()
	interval := time.Duration(len(f.waiting)) * time.Second / retriesPerSecond
	return min(max(interval, minRetryInterval), maxRetryInterval)
}

// dequeue removes a deployment from the queue. One whose rollout is in progress does not wait.
func (f *Fleet) dequeue(key client.ObjectKey) {
	delete(f.since, key)
	delete(f.woken, key)
	if f.queued[key] != nil {
		delete(f.queued, key)
		f.waiting = slices.DeleteFunc(f.waiting, func(w *waiter) bool { return w.key == key })
	}
}

// SetFailures sets the images that have failed on a deployment, which follows a channel.
func (f *Fleet) SetFailures(ctx context.Context, key client.ObjectKey, channel string, failures []v1alpha1.FailedVersion) {
	f.mu.Lock()
	defer f.unlock()
	f.initialize(ctx)
	f.setFailures(key, channel, failures)
}

func (f *Fleet) setFailures(key client.ObjectKey, channel string, failures []v1alpha1.FailedVersion) {
	for c, keys := range f.failed {
		if !f.hasFailed(key, c) {
			continue
		}
		if !f.rolls(key, c) {
			f.untry(c)
		}
		if delete(keys, key); len(keys) == 0 {
			delete(f.failed, c)
		}
	}
	for _, failure := range failures {
		c := candidate{channel, failure.Image}
		if f.failed[c] == nil {
			f.failed[c] = map[client.ObjectKey]struct{}{}
		}
		if !f.rolls(key, c) && !f.hasFailed(key, c) {
			f.tried[c]++
		}
		f.failed[c][key] = struct{}{}
	}
}

// wake enqueues a deployment for reconciliation. A full channel loses nothing: a waiting
// deployment is also reconciled after RetryInterval.
func wake(ch chan<- event.GenericEvent, key client.ObjectKey) {
	d := &v1alpha1.Deployment{}
	d.Namespace, d.Name = key.Namespace, key.Name
	select {
	case ch <- event.GenericEvent{Object: d}:
	default:
	}
}

// initialize counts, once, the rollouts in progress and the failures when the controller started.
// It must run before the first change: later, a stale status would count a rollout that has ended.
func (f *Fleet) initialize(ctx context.Context) bool {
	if f.initialized {
		return true
	}
	list := &v1alpha1.DeploymentList{}
	if err := f.reader.List(ctx, list); err != nil {
		log.FromContext(ctx).Error(err, "Cannot count the rollouts in progress")
		return false
	}
	environments, err := f.environments(ctx)
	if err != nil {
		log.FromContext(ctx).Error(err, "Cannot count the rollouts in progress")
		return false
	}
	for i := range list.Items {
		d, key := &list.Items[i], client.ObjectKeyFromObject(&list.Items[i])
		r := d.Status.Rollout
		if started := startedRollout(d, environments[client.ObjectKey{Namespace: d.Namespace, Name: v1alpha1.ProductionName(d.Name)}]); started != nil {
			r = started
		}
		if r != nil && r.StartTime != nil {
			f.setRolling(key, candidate{d.Spec.ReleaseChannel, r.To.Pinned()})
		}
		f.setFailures(key, d.Spec.ReleaseChannel, d.Status.Failures)
	}
	f.initialized = true
	return true
}

// environments returns the environments that have the start of a rollout.
func (f *Fleet) environments(ctx context.Context) (map[client.ObjectKey]*v1alpha1.Environment, error) {
	list := &v1alpha1.EnvironmentList{}
	if err := f.reader.List(ctx, list); err != nil {
		return nil, err
	}
	all := map[client.ObjectKey]*v1alpha1.Environment{}
	for i := range list.Items {
		if env := &list.Items[i]; env.Annotations[v1alpha1.AnnotationRollout] != "" {
			all[client.ObjectKeyFromObject(env)] = env
		}
	}
	return all, nil
}
