package reconciler

import (
	"context"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/quoin-dev/quoin/api/v1alpha1"
)

// TestEventsAreNotRepeatedAfterProgress: progress has no event, so an object that returns from it to
// the state that was reported before has none either.
func TestEventsAreNotRepeatedAfterProgress(t *testing.T) {
	progress := Progressing(v1alpha1.ReasonProgressing, "In progress")
	stalled := Stalled(v1alpha1.ReasonInvalidSpec, "spec.x: must be y")
	const done, isStalled = "Normal Succeeded Reconcile x", "Warning InvalidSpec Reconcile spec.x: must be y"
	cases := map[string]struct {
		outcomes []Outcome
		want     []string
	}{
		"the same":               {[]Outcome{Done("x"), progress, Done("x"), progress, Done("x")}, []string{done}},
		"the same failure":       {[]Outcome{stalled, progress, stalled}, []string{isStalled}},
		"two kinds of progress":  {[]Outcome{Done("x"), progress, Progressing("Other", "y"), Done("x")}, []string{done}},
		"another message":        {[]Outcome{Done("x"), progress, Done("y")}, []string{done, "Normal Succeeded Reconcile y"}},
		"another state":          {[]Outcome{Done("x"), progress, stalled, progress, Done("x")}, []string{done, isStalled, done}},
		"without progress":       {[]Outcome{Done("x"), stalled, Done("x")}, []string{done, isStalled, done}},
		"first state":            {[]Outcome{progress, Done("x")}, []string{done}},
		"its own event":          {[]Outcome{stalled, reporting, stalled}, []string{isStalled, "Normal Started Work again", isStalled}},
		"an event of no change":  {[]Outcome{Done("x"), Done("x").WithEvent("y in place of x")}, []string{done, "Normal Succeeded Reconcile y in place of x"}},
		"an event of a change":   {[]Outcome{stalled, Done("x").WithEvent("y in place of x")}, []string{isStalled, "Normal Succeeded Reconcile y in place of x"}},
		"its own event, earlier": {[]Outcome{stalled, progress, reporting, stalled}, []string{isStalled, "Normal Started Work again", isStalled}},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			f := newFixture(t, branch(1))
			for _, o := range tc.outcomes {
				f.r.Work = func(_ context.Context, s *Scope[*v1alpha1.Branch]) Outcome {
					if o.reason == reporting.reason {
						s.Event("Normal", "Started", "Work", "again")
					}
					return o
				}
				if _, err := f.reconcile(t.Context()); err != nil {
					t.Fatal(err)
				}
			}
			if diff := cmp.Diff(tc.want, []string(*f.events), cmpopts.EquateEmpty()); diff != "" {
				t.Errorf("events (-want +got):\n%s", diff)
			}
			if len(f.r.interrupted) != 0 {
				t.Errorf("the states of objects that are not in progress are kept: %v", f.r.interrupted)
			}
		})
	}
}

// reporting is the outcome of work that writes an event of its own.
var reporting = Progressing("Reporting", "Starting")
