package reconciler

import (
	"cmp"
	"context"
	"errors"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/utils/clock"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/log"

	"github.com/quoin-dev/quoin/api/v1alpha1"
	"github.com/quoin-dev/quoin/internal/kube"
	"github.com/quoin-dev/quoin/internal/tracing"
)

// failureThreshold is the number of consecutive failures after which the conditions show the error: one
// failed request must not make a healthy object flap, nor be given as the reason why a version failed.
const failureThreshold = 3

// conflictBackoff is the time until the next reconciliation after a conflict.
const conflictBackoff = 100 * time.Millisecond

// Recorder writes events. Controllers never read events.
type Recorder interface {
	Eventf(regarding, related runtime.Object, eventtype, reason, action, note string, args ...any)
}

// Scope is one reconciliation of one object.
type Scope[T v1alpha1.Object] struct {
	*kube.Client
	// Object is the object; the controller changes its status in place.
	Object T
	// Clock returns the current time.
	Clock clock.PassiveClock

	// initial is the object as it was read, before as it was last written.
	initial, before T
	recorder        Recorder
	// reported reports whether the controller wrote an event of its own.
	reported bool
}

// Record patches the status with the expected outcome. A controller calls it before it acts
// on a decision that it must not take twice, so that the decision survives a crash.
func (s *Scope[T]) Record(ctx context.Context, o Outcome) error {
	Summarise(s.Object, o)
	return s.Save(ctx)
}

// Initial returns the object as it was read. It must not be changed.
func (s *Scope[T]) Initial() T { return s.initial }

// Save patches the status without new conditions. A controller calls it for a change that must
// be stored before it acts, when the outcome is not known yet.
func (s *Scope[T]) Save(ctx context.Context) error {
	if _, err := kube.PatchStatus(ctx, s.Client, s.before, s.Object); err != nil {
		return err
	}
	s.before, _ = s.Object.DeepCopyObject().(T)
	return nil
}

// labelAttempts is the maximum number of attempts to write labels when there are conflicts.
// Their values, for example an ID just allocated, would be lost otherwise.
const labelAttempts = 5

// Label patches labels, annotations and finalizers of the object. change must be idempotent:
// after a conflict it is called again on the current object. Changes of the status are kept
// and not written.
func (s *Scope[T]) Label(ctx context.Context, change func(obj T)) error {
	generation := s.Object.GetGeneration()
	for attempt := 1; ; attempt++ {
		changed, _ := s.before.DeepCopyObject().(T)
		change(changed)
		err := kube.PatchMetadata(ctx, s.Client, s.before, changed)
		if err == nil {
			s.before, _ = changed.DeepCopyObject().(T)
			s.Object.SetLabels(changed.GetLabels())
			s.Object.SetAnnotations(changed.GetAnnotations())
			s.Object.SetFinalizers(changed.GetFinalizers())
			s.Object.SetResourceVersion(changed.GetResourceVersion())
			return nil
		}
		if !apierrors.IsConflict(err) || attempt == labelAttempts {
			return err
		}
		newer, _ := s.before.DeepCopyObject().(T)
		if err := s.Live().Get(ctx, client.ObjectKeyFromObject(newer), newer); err != nil {
			return err
		}
		// Another object or another spec: the next reconciliation starts over. So it does after another write of the status: its
		// conditions are not in the status of this reconciliation, which would remove them.
		if newer.GetUID() != s.Object.GetUID() || newer.GetGeneration() != generation || !sameStatus(newer, s.before) {
			return err
		}
		s.before = newer
	}
}

// sameStatus reports whether two objects of a kind have the same status.
func sameStatus(a, b v1alpha1.Object) bool {
	var status [2]any
	for i, o := range []v1alpha1.Object{a, b} {
		all, err := runtime.DefaultUnstructuredConverter.ToUnstructured(o)
		if err != nil {
			return false
		}
		status[i] = all["status"]
	}
	return equality.Semantic.DeepEqual(status[0], status[1])
}

// Event writes an event about the object.
func (s *Scope[T]) Event(kind, reason, action, note string, args ...any) {
	s.reported = true
	s.recorder.Eventf(s.Object, nil, kind, reason, action, note, args...)
}

// Reconciler reconciles objects of one kind.
type Reconciler[T v1alpha1.Object] struct {
	Client   *kube.Client
	Recorder Recorder
	Clock    clock.PassiveClock
	// New returns an empty object.
	New func() T
	// Work reconciles the object.
	Work func(context.Context, *Scope[T]) Outcome
	// Delete cleans up while the object has a deletion timestamp, and removes the finalizer; nil
	// when owner references suffice.
	Delete func(context.Context, *Scope[T]) Outcome
	// Forget, if not nil, removes the in-memory state of an object that no longer exists. Delete
	// is not called for an object without finalizers.
	Forget func(context.Context, client.ObjectKey)

	mu       sync.Mutex
	failures map[types.NamespacedName]int
	// interrupted are the last reported states of objects that are in progress since then.
	interrupted map[types.NamespacedName]string
}

// Reconcile implements reconcile.Reconciler.
func (r *Reconciler[T]) Reconcile(ctx context.Context, req ctrl.Request) (ctrl.Result, error) {
	obj := r.New()
	if err := r.Client.Get(ctx, req.NamespacedName, obj); err != nil {
		if apierrors.IsNotFound(err) {
			r.countFailure(req, nil)
			r.takeInterrupted(req)
			if r.Forget != nil {
				r.Forget(ctx, req.NamespacedName)
			}
			return ctrl.Result{}, nil
		}
		return ctrl.Result{}, err
	}
	work := r.Work
	if !obj.GetDeletionTimestamp().IsZero() {
		if r.Delete == nil {
			return ctrl.Result{}, nil
		}
		work = r.Delete
	}
	scope := &Scope[T]{Client: r.Client, Object: obj, Clock: r.Clock, recorder: r.Recorder}
	scope.initial, _ = obj.DeepCopyObject().(T)
	scope.before = scope.initial
	outcome := work(ctx, scope).graceOf(obj, r.Clock.Now())
	tracing.SetOutcome(ctx, outcome.name(), outcome.reason)
	return r.finish(ctx, req, scope, outcome)
}

// finish writes the outcome to the status and returns when to reconcile again.
func (r *Reconciler[T]) finish(ctx context.Context, req ctrl.Request, scope *Scope[T], o Outcome) (ctrl.Result, error) {
	logger := log.FromContext(ctx)
	if isConflict(o.err) {
		logger.V(1).Info("Conflict with another writer", "cause", o.err.Error())
		return ctrl.Result{RequeueAfter: wait.Jitter(conflictBackoff, 1)}, nil
	}
	if isTerminating(o.err) {
		return ctrl.Result{}, nil
	}
	if err := ctx.Err(); err != nil {
		// Timeout or shutdown: nothing can be written, and the queue keeps the object.
		return ctrl.Result{}, errors.Join(o.err, err)
	}
	if failures := r.countFailure(req, o.err); o.err != nil && failures < failureThreshold {
		return ctrl.Result{}, o.err
	}
	if (o.deferred || o.transient && scope.Object.Common().ObservedGeneration != scope.Object.GetGeneration()) && !reportsError(scope.Object) {
		return ctrl.Result{RequeueAfter: o.After}, nil
	}
	Summarise(scope.Object, o)
	if _, err := kube.PatchStatus(ctx, scope.Client, scope.before, scope.Object); err != nil {
		switch {
		case isConflict(err):
			return ctrl.Result{RequeueAfter: wait.Jitter(conflictBackoff, 1)}, nil
		case apierrors.IsNotFound(err):
			return ctrl.Result{}, nil
		}
		return ctrl.Result{}, errors.Join(o.err, err)
	}
	r.recordEvent(req, scope, o)
	if o.err != nil {
		return ctrl.Result{}, o.err
	}
	return ctrl.Result{RequeueAfter: o.After}, nil
}

// reportsError reports whether the status has the outcome of Failed.
func reportsError(obj v1alpha1.Object) bool {
	ready := meta.FindStatusCondition(obj.Common().Conditions, v1alpha1.ConditionReady)
	return ready != nil && ready.Reason == v1alpha1.ReasonError
}

// countFailure returns the number of consecutive failures; a nil error resets it.
func (r *Reconciler[T]) countFailure(req ctrl.Request, err error) int {
	r.mu.Lock()
	defer r.mu.Unlock()
	if err == nil {
		delete(r.failures, req.NamespacedName)
		return 0
	}
	if r.failures == nil {
		r.failures = map[types.NamespacedName]int{}
	}
	r.failures[req.NamespacedName]++
	return r.failures[req.NamespacedName]
}

// recordEvent writes an event when the status or the reason of Ready changed, except for progress.
// An object that returns from progress to the state that was last reported has no event either,
// unless the controller has reported something else meanwhile.
func (r *Reconciler[T]) recordEvent(req ctrl.Request, scope *Scope[T], o Outcome) {
	before := meta.FindStatusCondition(scope.initial.Common().Conditions, v1alpha1.ConditionReady)
	after := meta.FindStatusCondition(scope.Object.Common().Conditions, v1alpha1.ConditionReady)
	if o.state == stateProgressing {
		r.interrupt(req, before, scope.reported)
		return
	}
	last := r.takeInterrupted(req)
	isKnown := before != nil && before.Status == after.Status && before.Reason == after.Reason || last == describe(after)
	if isKnown && o.note == "" {
		return
	}
	note := cmp.Or(o.note, after.Message)
	switch o.state {
	case stateDone:
		scope.Event(corev1.EventTypeNormal, after.Reason, "Reconcile", "%s", note)
	case stateStalled, stateFailing:
		scope.Event(corev1.EventTypeWarning, after.Reason, "Reconcile", "%s", note)
	case stateProgressing:
	}
}

// interrupt remembers the state of Ready before an object was in progress, which was the last that
// was reported. reported reports whether another event has been written since.
func (r *Reconciler[T]) interrupt(req ctrl.Request, before *metav1.Condition, reported bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	switch {
	case reported:
		delete(r.interrupted, req.NamespacedName)
	case before != nil && before.Status != metav1.ConditionUnknown:
		if r.interrupted == nil {
			r.interrupted = map[types.NamespacedName]string{}
		}
		r.interrupted[req.NamespacedName] = describe(before)
	}
}

// takeInterrupted returns the state that was last reported of an object that is in progress, and
// forgets it; empty if there is none.
func (r *Reconciler[T]) takeInterrupted(req ctrl.Request) string {
	r.mu.Lock()
	defer r.mu.Unlock()
	last := r.interrupted[req.NamespacedName]
	delete(r.interrupted, req.NamespacedName)
	return last
}

// describe returns what an event about a condition would report.
func describe(c *metav1.Condition) string {
	return string(c.Status) + " " + c.Reason + " " + c.Message
}

// isConflict reports whether a write failed because the object has changed since it was read.
func isConflict(err error) bool {
	return apierrors.IsConflict(err) || apierrors.IsAlreadyExists(err)
}

// isTerminating reports whether a write failed because the namespace, and with it the object,
// is being deleted.
func isTerminating(err error) bool {
	return apierrors.HasStatusCause(err, corev1.NamespaceTerminatingCause)
}
