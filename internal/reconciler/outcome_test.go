package reconciler

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/quoin-dev/quoin/api/v1alpha1"
)

// outcomes returns one outcome of each state.
func outcomes() map[string]Outcome {
	return map[string]Outcome{
		"done":        Done("Ready"),
		"progressing": Progressing(v1alpha1.ReasonProgressing, "In progress"),
		"stalled":     Stalled(v1alpha1.ReasonInvalidSpec, "spec.x: must be y"),
		"failing":     Failing(v1alpha1.ReasonGitFailed, "No answer", time.Minute),
		"failed":      Failed(errors.New("connection refused")),
	}
}

// condition is a condition without its time.
type condition struct {
	Type, Status, Reason, Message string
	Generation                    int64
}

func conditionsOf(obj v1alpha1.Object) []condition {
	var all []condition
	for _, c := range obj.Common().Conditions {
		all = append(all, condition{c.Type, string(c.Status), c.Reason, c.Message, c.ObservedGeneration})
	}
	return all
}

func branch(generation int64) *v1alpha1.Branch {
	b := &v1alpha1.Branch{ObjectMeta: metav1.ObjectMeta{Namespace: "acme", Name: "main", Generation: generation, UID: "1"}}
	b.Status.ObservedGeneration = -1
	return b
}

func TestSummarise(t *testing.T) {
	cases := map[string]struct {
		want     []condition
		observed int64
	}{
		"done": {[]condition{{"Ready", "True", "Succeeded", "Ready", 3}}, 3},
		"progressing": {[]condition{
			{"Ready", "Unknown", "Progressing", "In progress", 3}, {"Reconciling", "True", "Progressing", "In progress", 3},
		}, -1},
		"stalled": {[]condition{
			{"Ready", "False", "InvalidSpec", "spec.x: must be y", 3}, {"Stalled", "True", "InvalidSpec", "spec.x: must be y", 3},
		}, 3},
		"failing": {[]condition{
			{"Ready", "False", "GitFailed", "No answer", 3}, {"Reconciling", "True", "GitFailed", "No answer", 3},
		}, -1},
		"failed": {[]condition{
			{"Ready", "False", "ReconcileError", "connection refused", 3}, {"Reconciling", "True", "ReconcileError", "connection refused", 3},
		}, -1},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			b := branch(3)
			Summarise(b, outcomes()[name])
			if diff := cmp.Diff(tc.want, conditionsOf(b)); diff != "" {
				t.Errorf("conditions (-want +got):\n%s", diff)
			}
			if b.Status.ObservedGeneration != tc.observed {
				t.Errorf("observedGeneration is %d, want %d", b.Status.ObservedGeneration, tc.observed)
			}
		})
	}
}

// TestSummariseDoesNotDependOnThePreviousOutcome, on the same generation and on the next.
func TestSummariseDoesNotDependOnThePreviousOutcome(t *testing.T) {
	for previousName, previous := range outcomes() {
		for name, outcome := range outcomes() {
			for _, generation := range []int64{1, 2} {
				t.Run(fmt.Sprintf("%s after %s, generation %d", name, previousName, generation), func(t *testing.T) {
					b := branch(1)
					meta.SetStatusCondition(&b.Status.Conditions, metav1.Condition{Type: v1alpha1.ConditionAvailable, Status: "True", Reason: "Succeeded"})
					Summarise(b, previous)
					observed := b.Status.ObservedGeneration
					b.Generation = generation
					Summarise(b, outcome)

					fresh := branch(generation)
					Summarise(fresh, outcome)
					var got []condition
					for _, c := range conditionsOf(b) {
						if c.Type != v1alpha1.ConditionAvailable {
							got = append(got, c)
						}
					}
					if diff := cmp.Diff(conditionsOf(fresh), got); diff != "" {
						t.Errorf("conditions depend on the previous outcome (-want +got):\n%s", diff)
					}
					if meta.FindStatusCondition(b.Status.Conditions, v1alpha1.ConditionAvailable) == nil {
						t.Error("the controller's own condition was removed")
					}
					want := observed
					if outcome.state == stateDone || outcome.state == stateStalled {
						want = generation
					}
					if b.Status.ObservedGeneration != want {
						t.Errorf("observedGeneration is %d, want %d", b.Status.ObservedGeneration, want)
					}
				})
			}
		}
	}
}

// TestLastTransitionTimeChangesWithTheStatus only.
func TestLastTransitionTimeChangesWithTheStatus(t *testing.T) {
	past := metav1.NewTime(time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC))
	cases := map[string]struct {
		before, after Outcome
		kept          bool
	}{
		"same":          {Done("x"), Done("x"), true},
		"other message": {Done("x"), Done("y"), true},
		"other reason":  {Progressing("A", "x"), Progressing("B", "x"), true},
		"other status":  {Done("x"), Stalled("A", "x"), false},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			b := branch(1)
			Summarise(b, tc.before)
			for i := range b.Status.Conditions {
				b.Status.Conditions[i].LastTransitionTime = past
			}
			Summarise(b, tc.after)
			c := meta.FindStatusCondition(b.Status.Conditions, v1alpha1.ConditionReady)
			if got := c.LastTransitionTime.Equal(&past); got != tc.kept {
				t.Errorf("lastTransitionTime is %s", c.LastTransitionTime)
			}
		})
	}
}

// TestOrderOfConditionsIsFixed with Ready first.
func TestOrderOfConditionsIsFixed(t *testing.T) {
	b := branch(1)
	for _, kind := range []string{"Other", v1alpha1.ConditionAvailable, v1alpha1.ConditionReconciling, "Another"} {
		meta.SetStatusCondition(&b.Status.Conditions, metav1.Condition{Type: kind, Status: "True", Reason: "x"})
	}
	Summarise(b, Stalled("A", "x"))
	var got []string
	for _, c := range b.Status.Conditions {
		got = append(got, c.Type)
	}
	if diff := cmp.Diff([]string{"Ready", "Available", "Stalled", "Other", "Another"}, got); diff != "" {
		t.Errorf("order (-want +got):\n%s", diff)
	}
}

func TestClip(t *testing.T) {
	cases := map[string]struct{ text, want string }{
		"short":              {"x", "x"},
		"maximum length":     {strings.Repeat("x", 2048), strings.Repeat("x", 2048)},
		"one byte too long":  {strings.Repeat("x", 2049), strings.Repeat("x", 2045) + "..."},
		"no split character": {strings.Repeat("x", 2043) + "€uro and more", strings.Repeat("x", 2043) + "..."},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			got := Clip(tc.text, maxMessage)
			if got != tc.want {
				t.Errorf("got %d bytes that end in %q, want %d", len(got), got[max(0, len(got)-8):], len(tc.want))
			}
		})
	}
}

func FuzzClip(f *testing.F) {
	f.Add("x", 3000)
	f.Add("€", 700)
	f.Add("a😀", 500)
	f.Fuzz(func(t *testing.T, piece string, times int) {
		if !utf8.ValidString(piece) || len(piece) > 64 || times < 0 || times > 4096 {
			t.Skip()
		}
		text := strings.Repeat(piece, times)
		got := Clip(text, maxMessage)
		if len(got) > 2048 || !utf8.ValidString(got) || (len(text) <= 2048 && got != text) {
			t.Errorf("Clip of %d bytes is %d bytes, valid: %v", len(text), len(got), utf8.ValidString(got))
		}
	})
}

// userError is an error with a message for users.
type userError struct{ error }

func (userError) UserMessage() string { return "the registry did not answer" }

func TestOutcomes(t *testing.T) {
	cases := map[string]struct {
		outcome Outcome
		want    condition
		after   time.Duration
	}{
		"message for users":          {Failed(fmt.Errorf("scan: %w", userError{errors.New("dial tcp 10.0.0.1:37512")})), condition{"Ready", "False", "ReconcileError", "the registry did not answer", 1}, 0},
		"other reason":               {Done("x").WithReason("Suspended"), condition{"Ready", "True", "Suspended", "x", 1}, 0},
		"detail":                     {Stalled("A", "x").WithDetail("y"), condition{"Ready", "False", "A", "x (y)", 1}, 0},
		"requeued":                   {Done("x").RequeueIn(time.Minute), condition{"Ready", "True", "Succeeded", "x", 1}, time.Minute},
		"the earlier requeue counts": {Done("x").RequeueIn(time.Minute).RequeueIn(time.Second), condition{"Ready", "True", "Succeeded", "x", 1}, time.Second},
		"a later requeue is ignored": {Done("x").RequeueIn(time.Second).RequeueIn(time.Minute), condition{"Ready", "True", "Succeeded", "x", 1}, time.Second},
		"zero is ignored":            {Done("x").RequeueIn(time.Second).RequeueIn(0), condition{"Ready", "True", "Succeeded", "x", 1}, time.Second},
		"negative is ignored":        {Done("x").RequeueIn(-time.Second), condition{"Ready", "True", "Succeeded", "x", 1}, 0},
		"failing is requeued":        {Failing("A", "x", time.Hour), condition{"Ready", "False", "A", "x", 1}, time.Hour},
		"transient":                  {Progressing("A", "x").Transient(), condition{"Ready", "Unknown", "A", "x", 1}, 0},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			b := branch(1)
			Summarise(b, tc.outcome)
			if diff := cmp.Diff(tc.want, conditionsOf(b)[0]); diff != "" {
				t.Errorf("Ready (-want +got):\n%s", diff)
			}
			if tc.outcome.After != tc.after {
				t.Errorf("requeued after %s, want %s", tc.outcome.After, tc.after)
			}
		})
	}
	cause := errors.New("x")
	if o := Failed(cause); !errors.Is(o.Err(), cause) || o.IsDone() {
		t.Errorf("Failed: Err %v, IsDone %v", o.Err(), o.IsDone())
	}
	if o := Done("x"); o.Err() != nil || !o.IsDone() {
		t.Errorf("Done: Err %v, IsDone %v", o.Err(), o.IsDone())
	}
}
