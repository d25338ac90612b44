package reconciler

import (
	"context"
	"errors"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/utils/clock"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/log"

	"github.com/quoin-dev/quoin/api/v1alpha1"
	"github.com/quoin-dev/quoin/internal/kube"
)

// quietFailures is how many tries in a row may fail before conditions show it: one lost
// request must not make a healthy object flap.
const quietFailures = 3

// conflictPause is the pause before the next try after another writer was faster.
const conflictPause = 100 * time.Millisecond

// Recorder writes events for people. Events are told, never read.
type Recorder interface {
	Eventf(regarding, related runtime.Object, eventtype, reason, action, note string, args ...any)
}

// Scope is one reconciliation of one object.
type Scope[T v1alpha1.Object] struct {
	*kube.Client
	// Object is the object; the controller changes its status in place.
	Object T
	// Clock tells the time.
	Clock clock.PassiveClock

	first, before T
	recorder      Recorder
}

// Record writes the status as it is now, with the outcome to come if all goes well. A
// controller calls it before it acts on a decision that it must not take twice: whatever
// happens next, the decision is known.
func (s *Scope[T]) Record(ctx context.Context, o Outcome) error {
	Summarise(s.Object, o)
	if _, err := kube.PatchStatus(ctx, s.Client, s.before, s.Object); err != nil {
		return err
	}
	s.before, _ = s.Object.DeepCopyObject().(T)
	return nil
}

// labelTries is how often labels are written again after another writer was faster. What
// they say, such as a number just given out, would be lost otherwise.
const labelTries = 5

// Label writes labels, annotations and finalizers of the object. change may be called
// again on a newer copy, and must leave alone what it finds done. The status is not
// touched: what was changed in it stays to be written.
func (s *Scope[T]) Label(ctx context.Context, change func(obj T)) error {
	generation := s.Object.GetGeneration()
	for try := 1; ; try++ {
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
		if !apierrors.IsConflict(err) || try == labelTries {
			return err
		}
		newer, _ := s.before.DeepCopyObject().(T)
		if err := s.Live().Get(ctx, client.ObjectKeyFromObject(newer), newer); err != nil {
			return err
		}
		if newer.GetUID() != s.Object.GetUID() || newer.GetGeneration() != generation {
			return err // another object, or another spec: begin anew
		}
		s.before = newer
	}
}

// Event tells people of something that happened to the object.
func (s *Scope[T]) Event(kind, reason, action, note string, args ...any) {
	s.recorder.Eventf(s.Object, nil, kind, reason, action, note, args...)
}

// Reconciler runs a controller's work on objects of one kind.
type Reconciler[T v1alpha1.Object] struct {
	Client   *kube.Client
	Recorder Recorder
	Clock    clock.PassiveClock
	// New makes an empty object.
	New func() T
	// Work brings the world in line with the object.
	Work func(context.Context, *Scope[T]) Outcome
	// Delete cleans up before an object goes; nil when owner references do it all. It is
	// called while the object has a deletion timestamp, and takes the finalizer away itself.
	Delete func(context.Context, *Scope[T]) Outcome
	// Gone forgets what is held in memory of an object that does not exist any more; nil when
	// that is nothing. An object without finalizers goes without a call of Delete.
	Gone func(context.Context, client.ObjectKey)

	mu       sync.Mutex
	failures map[types.NamespacedName]int
}

// Reconcile implements reconcile.Reconciler.
func (r *Reconciler[T]) Reconcile(ctx context.Context, req ctrl.Request) (ctrl.Result, error) {
	obj := r.New()
	if err := r.Client.Get(ctx, req.NamespacedName, obj); err != nil {
		if apierrors.IsNotFound(err) {
			r.failed(req, nil)
			if r.Gone != nil {
				r.Gone(ctx, req.NamespacedName)
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
	scope.first, _ = obj.DeepCopyObject().(T)
	scope.before = scope.first
	outcome := work(ctx, scope)
	return r.finish(ctx, req, scope, outcome)
}

// finish sums the outcome up in the status and tells the queue when to come back.
func (r *Reconciler[T]) finish(ctx context.Context, req ctrl.Request, scope *Scope[T], o Outcome) (ctrl.Result, error) {
	logger := log.FromContext(ctx)
	if again(o.err) {
		logger.V(1).Info("Another writer was faster", "cause", o.err.Error())
		return ctrl.Result{RequeueAfter: wait.Jitter(conflictPause, 1)}, nil
	}
	if gone(o.err) {
		return ctrl.Result{}, nil
	}
	if err := ctx.Err(); err != nil {
		// Out of time, or shutting down: nothing can be written, and the queue keeps the object.
		return ctrl.Result{}, errors.Join(o.err, err)
	}
	times := r.failed(req, o.err)
	if o.err != nil && times < quietFailures && scope.Object.Common().ObservedGeneration == scope.Object.GetGeneration() {
		return ctrl.Result{}, o.err
	}
	if o.quiet && scope.Object.Common().ObservedGeneration != scope.Object.GetGeneration() {
		return ctrl.Result{RequeueAfter: o.After}, nil
	}
	Summarise(scope.Object, o)
	if _, err := kube.PatchStatus(ctx, scope.Client, scope.before, scope.Object); err != nil {
		switch {
		case again(err):
			return ctrl.Result{RequeueAfter: wait.Jitter(conflictPause, 1)}, nil
		case apierrors.IsNotFound(err):
			return ctrl.Result{}, nil
		}
		return ctrl.Result{}, errors.Join(o.err, err)
	}
	r.tell(scope, o)
	if o.err != nil {
		return ctrl.Result{}, o.err
	}
	return ctrl.Result{RequeueAfter: o.After}, nil
}

// failed counts failures in a row; a nil error ends the row.
func (r *Reconciler[T]) failed(req ctrl.Request, err error) int {
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

// tell writes an event when the object became ready, or stopped being so for a reason that
// somebody should look at.
func (r *Reconciler[T]) tell(scope *Scope[T], o Outcome) {
	was := meta.FindStatusCondition(scope.first.Common().Conditions, v1alpha1.ConditionReady)
	is := meta.FindStatusCondition(scope.Object.Common().Conditions, v1alpha1.ConditionReady)
	if was != nil && was.Status == is.Status && was.Reason == is.Reason {
		return
	}
	switch o.state {
	case stateDone:
		scope.Event(corev1.EventTypeNormal, is.Reason, "Reconcile", "%s", is.Message)
	case stateStalled, stateFailing:
		scope.Event(corev1.EventTypeWarning, is.Reason, "Reconcile", "%s", is.Message)
	case stateProgressing:
	}
}

// again tells whether the write lost a race and a fresh read will do.
func again(err error) bool {
	return apierrors.IsConflict(err) || apierrors.IsAlreadyExists(err)
}

// gone tells whether the write failed because the namespace is on its way out, which
// takes the object with it.
func gone(err error) bool {
	return apierrors.HasStatusCause(err, corev1.NamespaceTerminatingCause)
}
