package environment

import (
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/utils/ptr"

	"github.com/quoin-dev/quoin/api/v1alpha1"
	"github.com/quoin-dev/quoin/internal/reconciler"
)

// TestUseFromAnnotations: an environment is awake for idleSeconds after the last wake request or use.
func TestUseFromAnnotations(t *testing.T) {
	now := time.Date(2026, 1, 1, 12, 0, 0, 0, time.UTC)
	at := func(ago time.Duration) string { return now.Add(-ago).Format(time.RFC3339) }
	cases := map[string]struct {
		idle        *int32
		woken, used string
		isIdle      bool
		left        time.Duration
	}{
		"always awake":                {nil, "", "", false, 0},
		"always awake, used":          {nil, "", at(time.Hour), false, 0},
		"never used":                  {ptr.To[int32](600), "", "", true, 0},
		"just woken":                  {ptr.To[int32](600), at(0), "", false, 10 * time.Minute},
		"woken a while ago":           {ptr.To[int32](600), at(9 * time.Minute), "", false, time.Minute},
		"woken too long ago":          {ptr.To[int32](600), at(10 * time.Minute), "", true, 0},
		"used since":                  {ptr.To[int32](600), at(time.Hour), at(4 * time.Minute), false, 6 * time.Minute},
		"used before it slept":        {ptr.To[int32](600), "", at(11 * time.Minute), true, 0},
		"woken after it slept":        {ptr.To[int32](600), at(time.Minute), at(time.Hour), false, 9 * time.Minute},
		"clock skew":                  {ptr.To[int32](600), at(-time.Minute), "", false, 11 * time.Minute},
		"invalid times":               {ptr.To[int32](600), "yes", "1767268800", true, 0},
		"one invalid time":            {ptr.To[int32](600), "yes", at(time.Minute), false, 9 * time.Minute},
		"another zone, and fractions": {ptr.To[int32](600), "2026-01-01T13:55:00.5+02:00", "", false, 5*time.Minute + 500*time.Millisecond},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			env := newEnvironment()
			env.Spec.IdleSeconds = tc.idle
			env.Annotations = map[string]string{v1alpha1.AnnotationWakeRequested: tc.woken, v1alpha1.AnnotationLastUsed: tc.used}
			if got := useOf(env, now); got != (use{tc.isIdle, tc.left}) {
				t.Errorf("%+v, want idle %v, left %s", got, tc.isIdle, tc.left)
			}
		})
	}
}

// TestUseInOutcome: asleep, or requeued for the time when it is idle.
func TestUseInOutcome(t *testing.T) {
	done, progressing := reconciler.Done("All pods run"), reconciler.Progressing(v1alpha1.ReasonWorkloadsNotReady, "api: 1 of 0")
	cases := map[string]struct {
		use     use
		outcome reconciler.Outcome
		reason  string
		after   [2]time.Duration
	}{
		"always awake":   {use{}, done, "Succeeded", [2]time.Duration{0, 0}},
		"awake":          {use{left: time.Hour}, done, "Succeeded", [2]time.Duration{time.Hour, 62 * time.Minute}},
		"waking":         {use{left: time.Hour}, progressing.RequeueIn(time.Second), "WorkloadsNotReady", [2]time.Duration{time.Second, time.Second}},
		"asleep":         {use{isIdle: true}, done, "Asleep", [2]time.Duration{0, 0}},
		"going to sleep": {use{isIdle: true}, progressing, "WorkloadsNotReady", [2]time.Duration{0, 0}},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			env := newEnvironment()
			o := tc.use.of(tc.outcome)
			reconciler.Summarise(env, o)
			if got := meta.FindStatusCondition(env.Status.Conditions, v1alpha1.ConditionReady).Reason; got != tc.reason {
				t.Errorf("reason %s, want %s", got, tc.reason)
			}
			if o.After < tc.after[0] || o.After > tc.after[1] {
				t.Errorf("requeued after %s, want %v", o.After, tc.after)
			}
		})
	}
}
