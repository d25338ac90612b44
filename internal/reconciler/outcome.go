// Package reconciler is the frame around every controller: read the object, let the
// controller do its work, sum the outcome up in conditions, write the status if it changed.
//
// Only this package writes the conditions Ready, Reconciling and Stalled, so they keep the
// contract that tools rely on (kstatus): Reconciling and Stalled are present only while
// True and never both, and observedGeneration moves only when a generation is dealt with.
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

// Outcome is how a reconciliation ended. Make one with Done, Progressing, Stalled or Failed.
type Outcome struct {
	state   state
	reason  string
	message string
	err     error
	quiet   bool

	// After asks for another reconciliation after that time; zero for none.
	After time.Duration
}

// Done says that the spec is in effect.
func Done(message string) Outcome {
	return Outcome{state: stateDone, reason: v1alpha1.ReasonSucceeded, message: message}
}

// Progressing says that work is under way and needs nobody's help.
func Progressing(reason, message string) Outcome {
	return Outcome{state: stateProgressing, reason: reason, message: message}
}

// Stalled says that nothing more happens until somebody changes something. The message
// names it and what is allowed.
func Stalled(reason, message string) Outcome {
	return Outcome{state: stateStalled, reason: reason, message: message}
}

// Failing says that something outside failed, which is tried again after a while; reason
// and message say what, without anything that differs from try to try.
func Failing(reason, message string, after time.Duration) Outcome {
	return Outcome{state: stateFailing, reason: reason, message: message, After: after}
}

// Failed says that a call failed; it is tried again with growing pauses. Conflicts are not
// failures: another writer was faster, and the next try sees what it wrote.
func Failed(err error) Outcome {
	return Outcome{state: stateFailing, reason: v1alpha1.ReasonError, message: stableText(err), err: err}
}

// In asks for another reconciliation after d at the latest.
func (o Outcome) In(d time.Duration) Outcome {
	if d > 0 && (o.After == 0 || d < o.After) {
		o.After = d
	}
	return o
}

// Because gives another reason than the usual one.
func (o Outcome) Because(reason string) Outcome {
	o.reason = reason
	return o
}

// Progressing turns the outcome into work under way, for another reason and with the same message.
func (o Outcome) Progressing(reason string) Outcome {
	o.state, o.reason, o.err = stateProgressing, reason, nil
	return o
}

// Saying adds to the message.
func (o Outcome) Saying(more string) Outcome {
	o.message += " (" + more + ")"
	return o
}

// Quietly writes no status while the object's generation says already that work is under
// way: progress that will be over in a moment is not worth a write.
func (o Outcome) Quietly() Outcome {
	o.quiet = true
	return o
}

// IsDone tells whether the spec is in effect.
func (o Outcome) IsDone() bool { return o.state == stateDone }

// Err is the error of Failed.
func (o Outcome) Err() error { return o.err }

// Summarise writes the outcome into the conditions of an object.
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
	// Ready first, as people read it, and the same order whatever came to pass.
	slices.SortStableFunc(status.Conditions, func(a, b metav1.Condition) int {
		return cmp.Compare(rank(a.Type), rank(b.Type))
	})
}

// rank is the place of a condition in the list.
func rank(kind string) int {
	return slices.Index([]string{
		v1alpha1.ConditionStalled, v1alpha1.ConditionReconciling, v1alpha1.ConditionAvailable, v1alpha1.ConditionReady,
	}, kind) * -1
}

// maxMessage bounds the message of a condition, in bytes.
const maxMessage = 2048

// Clip keeps a text within a number of bytes, without cutting a character in two.
func Clip(s string, most int) string {
	if len(s) <= most {
		return s
	}
	return strings.ToValidUTF8(s[:most-3], "") + "..."
}

// stableText is the text of an error for a condition. Errors that carry text of their own
// for users offer it; the others are shown whole.
func stableText(err error) string {
	var user interface{ UserMessage() string }
	if errors.As(err, &user) {
		return user.UserMessage()
	}
	return err.Error()
}
