package modelendpoint

import (
	"context"
	"crypto/sha256"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/quoin-dev/quoin/api/v1alpha1"
	"github.com/quoin-dev/quoin/internal/modelendpoint"
	"github.com/quoin-dev/quoin/internal/reconciler"
)

const (
	// probeInterval is the time between probes of a server that answers, and the longest one of a server that does not.
	probeInterval = 10 * time.Minute
	// firstRetry is the time after which a server that does not answer is probed again. After that the time doubles.
	firstRetry = 30 * time.Second
	// maxMessage is the maximum length of the message of the condition in bytes.
	maxMessage = 1024
)

// lastProbe is a probe, which is not repeated before its interval has passed. It is only in memory: a controller that starts
// probes each server once.
type lastProbe struct {
	of inputs
	// answer is its result. The status has another one if the write of it has failed.
	answer result
	// since is the time of the first probe with the same inputs, and at that of the last.
	since, at time.Time
	// next is the time from the last probe to the next one.
	next time.Duration
}

// inputs are what a probe depends on. A change is probed at once.
type inputs struct {
	uid        types.UID
	generation int64
	requested  string
	secrets    [sha256.Size]byte
}

func inputsOf(e *v1alpha1.ModelEndpoint, s *secrets) inputs {
	return inputs{e.UID, e.Generation, e.Annotations[v1alpha1.AnnotationReconcile], sha256.Sum256(append([]byte(s.key+"\n"), s.pem...))}
}

// reachable sets the condition Reachable, with a probe if one is due, and returns when the next one is.
func (r *endpointReconciler) reachable(ctx context.Context, s *scope, values *secrets) time.Duration {
	if modelendpoint.IsLoopback(s.Object) {
		r.notProbed(s, "The server is on the host of each replica of quoin apiserver")
		return checkInterval
	}
	of, now := inputsOf(s.Object, values), s.Clock.Now()
	known := meta.FindStatusCondition(s.Object.Status.Conditions, v1alpha1.ConditionReachable)
	last, found := r.last(s.Object.Name)
	if age := now.Sub(last.at); found && last.of == of && known != nil && age >= 0 && age < last.next {
		set(s, last.answer)
		return last.next - age
	}
	answer := r.probe(ctx, s.Object, values)
	if ctx.Err() != nil { // the controller stops, and nothing is known about the server
		return firstRetry
	}
	report(s, known, answer)
	set(s, answer)
	current := lastProbe{of: of, answer: answer, since: now, at: now, next: probeInterval}
	if found && last.of == of {
		current.since = last.since
	}
	if answer.status != metav1.ConditionTrue {
		failing := meta.FindStatusCondition(s.Object.Status.Conditions, v1alpha1.ConditionReachable).LastTransitionTime.Time
		current.next = retryIn(min(now.Sub(failing), now.Sub(current.since)))
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.probes[s.Object.Name] = current
	return current.next
}

// retryIn returns the time until the next probe of a server that has not answered for a time. It is the same time, so that the
// intervals double.
func retryIn(failing time.Duration) time.Duration {
	return min(max(failing, firstRetry), probeInterval)
}

// report writes an event about a server that no longer answers, or answers again.
func report(s *scope, before *metav1.Condition, after result) {
	if before == nil && after.status == metav1.ConditionTrue || before != nil && before.Status == after.status && before.Reason == after.reason {
		return
	}
	kind := corev1.EventTypeNormal
	if after.reason != v1alpha1.ReasonReachable {
		kind = corev1.EventTypeWarning
	}
	s.Event(kind, after.reason, "Probe", "%s", after.message)
}

// set sets the condition Reachable.
func set(s *scope, r result) {
	meta.SetStatusCondition(&s.Object.Status.Conditions, metav1.Condition{
		Type: v1alpha1.ConditionReachable, Status: r.status, Reason: r.reason, Message: reconciler.Clip(r.message, maxMessage),
		ObservedGeneration: s.Object.Generation, LastTransitionTime: metav1.NewTime(s.Clock.Now().Truncate(time.Second)),
	})
}

// notProbed sets the condition Reachable of an endpoint that is not probed.
func (r *endpointReconciler) notProbed(s *scope, why string) {
	r.forget(s.Object.Name)
	set(s, result{metav1.ConditionUnknown, v1alpha1.ReasonNotProbed, why})
}

func (r *endpointReconciler) last(name string) (lastProbe, bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	p, ok := r.probes[name]
	return p, ok
}

func (r *endpointReconciler) forget(name string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	delete(r.probes, name)
}
