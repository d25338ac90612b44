// Package reconciler runs the work that all controllers have in common: it reads the object,
// calls the controller, summarises the outcome in conditions, and patches the status if it
// changed.
//
// Only this package writes the conditions Ready, Reconciling and Stalled, so that they follow
// the rules that tools rely on (kstatus): Reconciling and Stalled are present only while True
// and never both, and observedGeneration is set only when a generation has been handled.
package reconciler

import (
	"cmp"
	"errors"
	"slices"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/quoin-dev/quoin/api/v1alpha1"
)

type state int

const (
	stateDone state = iota
	stateProgressing
	stateStalled
	stateFailing
)

// Outcome is the result of a reconciliation. See Done, Progressing, Stalled, Failing and Failed.
type Outcome struct {
	state   state
	reason  string
	message string
	err     error
	// transient is set by Transient.
	transient bool
	// deferred is set by Deferred.
	deferred bool
	// reference is set by NotFound.
	reference bool
	// note is set by WithEvent.
	note string

	// After is the time until the next reconciliation; zero for none.
	After time.Duration
}

// Done returns the outcome when the spec is in effect.
func Done(message string) Outcome {
	return Outcome{state: stateDone, reason: v1alpha1.ReasonSucceeded, message: message}
}

// Progressing returns the outcome while work is in progress and needs no action by a user.
func Progressing(reason, message string) Outcome {
	return Outcome{state: stateProgressing, reason: reason, message: message}
}

// Stalled returns the outcome when a user has to change something first. The message names
// the field and the allowed values.
func Stalled(reason, message string) Outcome {
	return Outcome{state: stateStalled, reason: reason, message: message}
}

// NotFound returns the outcome when the object refers to one that does not exist: Stalled, but
// not in the first seconds of an object, because objects that are applied together are created
// one after the other.
func NotFound(reason, message string) Outcome {
	o := Stalled(reason, message)
	o.reference = true
	return o
}

// Failing returns the outcome when an external system fails, which is retried after a time.
// The message must not contain text that differs between retries.
func Failing(reason, message string, after time.Duration) Outcome {
	return Outcome{state: stateFailing, reason: reason, message: message, After: after}
}

// Failed returns the outcome of a failed call, which is retried with backoff. A conflict is
// not a failure: the next reconciliation reads the current object.
func Failed(err error) Outcome {
	return Outcome{state: stateFailing, reason: v1alpha1.ReasonError, message: stableText(err), err: err}
}

// RequeueIn returns the outcome with another reconciliation after d at the latest.
func (o Outcome) RequeueIn(d time.Duration) Outcome {
	if d > 0 && (o.After == 0 || d < o.After) {
		o.After = d
	}
	return o
}

// WithReason returns the outcome with another reason.
func (o Outcome) WithReason(reason string) Outcome {
	o.reason = reason
	return o
}

// Progressing returns a Progressing outcome with another reason and the same message.
func (o Outcome) Progressing(reason string) Outcome {
	o.state, o.reason, o.err = stateProgressing, reason, nil
	return o
}

// Stalled returns a Stalled outcome with another reason and the same message.
func (o Outcome) Stalled(reason string) Outcome {
	o.state, o.reason, o.err = stateStalled, reason, nil
	return o
}

// WithDetail returns the outcome with text added to the message in parentheses.
func (o Outcome) WithDetail(detail string) Outcome {
	o.message += " (" + detail + ")"
	return o
}

// Transient returns an outcome that is not written to the status while the generation is
// unobserved, which shows already that work is in progress: a short-lived state is not worth
// a write. It is written in place of an error, which would remain reported otherwise.
func (o Outcome) Transient() Outcome {
	o.transient = true
	return o
}

// Deferred returns an outcome that is not written to the status, except in place of an error: the next
// reconciliation writes the state of that time.
func (o Outcome) Deferred() Outcome {
	o.deferred = true
	return o
}

// WithEvent returns the outcome with an event, also if it was reported before. note is the text of the
// event.
func (o Outcome) WithEvent(note string) Outcome {
	o.note = note
	return o
}

// applyGracePeriod is the time that a client may take to apply a set of objects.
const applyGracePeriod = 5 * time.Second

// graceOf returns the outcome at a time; it differs only for NotFound, within applyGracePeriod
// of the creation of an object that has not been handled before.
func (o Outcome) graceOf(obj v1alpha1.Object, now time.Time) Outcome {
	remaining := applyGracePeriod - now.Sub(obj.GetCreationTimestamp().Time)
	if !o.reference || remaining <= 0 || obj.Common().ObservedGeneration > 0 {
		return o
	}
	return o.Progressing(o.reason).Transient().RequeueIn(remaining)
}

// name returns the name of the outcome in traces.
func (o Outcome) name() string {
	if isConflict(o.err) {
		return "conflict"
	}
	return [...]string{stateDone: "done", stateProgressing: "progressing", stateStalled: "stalled", stateFailing: "failing"}[o.state]
}

// IsDone reports whether the spec is in effect.
func (o Outcome) IsDone() bool { return o.state == stateDone }

// IsStalled reports whether a user has to change something first.
func (o Outcome) IsStalled() bool { return o.state == stateStalled }

// IsProgressing reports whether work is in progress.
func (o Outcome) IsProgressing() bool { return o.state == stateProgressing }

// Reason returns the reason of the conditions.
func (o Outcome) Reason() string { return o.reason }

// Err returns the error of Failed.
func (o Outcome) Err() error { return o.err }

// Summarise sets the conditions and observedGeneration of an object from the outcome.
func Summarise(obj v1alpha1.Object, o Outcome) {
	ready, abnormal := metav1.ConditionFalse, v1alpha1.ConditionReconciling
	switch o.state {
	case stateDone:
		ready, abnormal = metav1.ConditionTrue, ""
	case stateProgressing:
		ready = metav1.ConditionUnknown
	case stateStalled:
		abnormal = v1alpha1.ConditionStalled
	case stateFailing:
	}
	status := obj.Common()
	if o.state == stateDone || o.state == stateStalled {
		status.ObservedGeneration = obj.GetGeneration()
	}
	set := func(kind string, value metav1.ConditionStatus) {
		meta.SetStatusCondition(&status.Conditions, metav1.Condition{
			Type: kind, Status: value, Reason: o.reason, Message: Clip(o.message, maxMessage),
			ObservedGeneration: obj.GetGeneration(),
		})
	}
	set(v1alpha1.ConditionReady, ready)
	for _, kind := range []string{v1alpha1.ConditionReconciling, v1alpha1.ConditionStalled} {
		if kind == abnormal {
			set(kind, metav1.ConditionTrue)
			continue
		}
		meta.RemoveStatusCondition(&status.Conditions, kind)
	}
	// The order does not depend on the history of the object; Ready comes first.
	slices.SortStableFunc(status.Conditions, func(a, b metav1.Condition) int {
		return cmp.Compare(rank(a.Type), rank(b.Type))
	})
}

// rank returns the position of a condition in the list.
func rank(kind string) int {
	return slices.Index([]string{
		v1alpha1.ConditionStalled, v1alpha1.ConditionReconciling, v1alpha1.ConditionAvailable, v1alpha1.ConditionReady,
	}, kind) * -1
}

// maxMessage is the maximum length of the message of a condition, in bytes.
const maxMessage = 2048

// Clip returns s shortened to maxBytes, without splitting a character.
func Clip(s string, maxBytes int) string {
	if len(s) <= maxBytes {
		return s
	}
	return strings.ToValidUTF8(s[:maxBytes-3], "") + "..."
}

// stableText returns the text of an error for a condition: that of UserMessage if the error
// has this method, else the whole text.
func stableText(err error) string {
	var user interface{ UserMessage() string }
	if errors.As(err, &user) {
		return user.UserMessage()
	}
	return err.Error()
}
