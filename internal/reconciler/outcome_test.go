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

// outcomes are one of each state.
func outcomes() map[string]Outcome {
	return map[string]Outcome{
		"done":        Done("All is well"),
		"progressing": Progressing(v1alpha1.ReasonProgressing, "Under way"),
		"stalled":     Stalled(v1alpha1.ReasonInvalidSpec, "spec.x: must be y"),
		"failing":     Failing(v1alpha1.ReasonGitFailed, "No answer", time.Minute),
		"failed":      Failed(errors.New("connection refused")),
	}
}

// shown is a condition as it is compared: without the time.
type shown struct {
	Type, Status, Reason, Message string
	Generation                    int64
}

func shownOf(obj v1alpha1.Object) []shown {
	var all []shown
	for _, c := range obj.Common().Conditions {
		all = append(all, shown{c.Type, string(c.Status), c.Reason, c.Message, c.ObservedGeneration})
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
		want     []shown
		observed int64
	}{
		"done": {[]shown{{"Ready", "True", "Succeeded", "All is well", 3}}, 3},
		"progressing": {[]shown{
			{"Ready", "Unknown", "Progressing", "Under way", 3}, {"Reconciling", "True", "Progressing", "Under way", 3},
		}, -1},
		"stalled": {[]shown{
			{"Ready", "False", "InvalidSpec", "spec.x: must be y", 3}, {"Stalled", "True", "InvalidSpec", "spec.x: must be y", 3},
		}, 3},
		"failing": {[]shown{
			{"Ready", "False", "GitFailed", "No answer", 3}, {"Reconciling", "True", "GitFailed", "No answer", 3},
		}, -1},
		"failed": {[]shown{
			{"Ready", "False", "ReconcileError", "connection refused", 3}, {"Reconciling", "True", "ReconcileError", "connection refused", 3},
		}, -1},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			b := branch(3)
			Summarise(b, outcomes()[name])
			if diff := cmp.Diff(tc.want, shownOf(b)); diff != "" {
				t.Errorf("conditions (-want +got):\n%s", diff)
			}
			if b.Status.ObservedGeneration != tc.observed {
				t.Errorf("observedGeneration is %d, want %d", b.Status.ObservedGeneration, tc.observed)
			}
		})
	}
}

// TestSummariseAfterAnything holds the contract of kstatus against every outcome after every
// other one, on the same generation and on the next.
func TestSummariseAfterAnything(t *testing.T) {
	for was, before := range outcomes() {
		for is, now := range outcomes() {
			for _, generation := range []int64{1, 2} {
				t.Run(fmt.Sprintf("%s after %s, generation %d", is, was, generation), func(t *testing.T) {
					b := branch(1)
					meta.SetStatusCondition(&b.Status.Conditions, metav1.Condition{Type: v1alpha1.ConditionAvailable, Status: "True", Reason: "Succeeded"})
					Summarise(b, before)
					observed := b.Status.ObservedGeneration
					b.Generation = generation
					Summarise(b, now)

					fresh := branch(generation)
					Summarise(fresh, now)
					var got []shown
					for _, c := range shownOf(b) {
						if c.Type != v1alpha1.ConditionAvailable {
							got = append(got, c)
						}
					}
					if diff := cmp.Diff(shownOf(fresh), got); diff != "" {
						t.Errorf("conditions depend on what was before (-want +got):\n%s", diff)
					}
					if meta.FindStatusCondition(b.Status.Conditions, v1alpha1.ConditionAvailable) == nil {
						t.Error("the controller's own condition is gone")
					}
					want := observed
					if now.state == stateDone || now.state == stateStalled {
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

// TestSummariseKeepsTimes: lastTransitionTime is that of the status, not of the last look.
func TestSummariseKeepsTimes(t *testing.T) {
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

// TestOrderOfConditions: the same order, however they came to be there; Ready first.
func TestOrderOfConditions(t *testing.T) {
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
		"just fits":          {strings.Repeat("x", 2048), strings.Repeat("x", 2048)},
		"one too many":       {strings.Repeat("x", 2049), strings.Repeat("x", 2045) + "..."},
		"no half characters": {strings.Repeat("x", 2043) + "€uro and more", strings.Repeat("x", 2043) + "..."},
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

// userError is an error with words for users.
type userError struct{ error }

func (userError) UserMessage() string { return "the registry did not answer" }

func TestOutcomes(t *testing.T) {
	cases := map[string]struct {
		outcome Outcome
		want    shown
		after   time.Duration
	}{
		"user's words of an error":    {Failed(fmt.Errorf("scan: %w", userError{errors.New("dial tcp 10.0.0.1:37512")})), shown{"Ready", "False", "ReconcileError", "the registry did not answer", 1}, 0},
		"other reason":                {Done("x").Because("Suspended"), shown{"Ready", "True", "Suspended", "x", 1}, 0},
		"more words":                  {Stalled("A", "x").Saying("y"), shown{"Ready", "False", "A", "x (y)", 1}, 0},
		"comes back":                  {Done("x").In(time.Minute), shown{"Ready", "True", "Succeeded", "x", 1}, time.Minute},
		"comes back at the earlier":   {Done("x").In(time.Minute).In(time.Second), shown{"Ready", "True", "Succeeded", "x", 1}, time.Second},
		"later does not delay":        {Done("x").In(time.Second).In(time.Minute), shown{"Ready", "True", "Succeeded", "x", 1}, time.Second},
		"zero asks for nothing":       {Done("x").In(time.Second).In(0), shown{"Ready", "True", "Succeeded", "x", 1}, time.Second},
		"the past asks for nothing":   {Done("x").In(-time.Second), shown{"Ready", "True", "Succeeded", "x", 1}, 0},
		"failing comes back anyway":   {Failing("A", "x", time.Hour), shown{"Ready", "False", "A", "x", 1}, time.Hour},
		"quiet says the same in time": {Progressing("A", "x").Quietly(), shown{"Ready", "Unknown", "A", "x", 1}, 0},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			b := branch(1)
			Summarise(b, tc.outcome)
			if diff := cmp.Diff(tc.want, shownOf(b)[0]); diff != "" {
				t.Errorf("Ready (-want +got):\n%s", diff)
			}
			if tc.outcome.After != tc.after {
				t.Errorf("comes back after %s, want %s", tc.outcome.After, tc.after)
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
