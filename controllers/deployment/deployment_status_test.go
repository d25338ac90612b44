package deployment

import (
	"encoding/json"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/quoin-dev/quoin/api/v1alpha1"
	"github.com/quoin-dev/quoin/internal/reconciler"
)

// TestLongFailureMessageIsClipped: a message that exceeds the limit of the API would keep the
// rollback from being recorded.
func TestLongFailureMessageIsClipped(t *testing.T) {
	w := newWorld()
	d := w.deployment
	d.Status.History = []v1alpha1.VersionRun{run("1.2.3")}
	d.Status.Rollout = &v1alpha1.RolloutStatus{To: run("1.2.4"), StartTime: &metav1.Time{Time: w.now.Add(-time.Hour)}}
	env := &v1alpha1.Environment{}
	env.Spec.Image, env.Spec.DeploymentGeneration = run("1.2.4").Pinned(), d.Generation
	reconciler.Summarise(env, reconciler.Progressing(v1alpha1.ReasonError, strings.Repeat("äöü ", 1000)))
	p := makePlan(observation{deployment: d, choice: choice{target: run("1.2.4")}, production: env, now: w.now})
	if p.status.Failed == nil || p.run.Version != "1.2.3" {
		t.Fatalf("the plan is %+v", p)
	}
	// The limit is that of status.failed.message in the API.
	if text := p.status.Failed.Message; len(text) > 1024 || len(text) < 1000 || !utf8.ValidString(text) {
		t.Errorf("%d bytes: %q", len(text), text)
	}
	d.Status = p.status
	reconciler.Summarise(d, p.outcome)
	if c := meta.FindStatusCondition(d.Status.Conditions, v1alpha1.ConditionReady); !strings.Contains(c.Message, "1.2.4") {
		t.Errorf("message %q", c.Message)
	}
}

// startOf returns the annotation of an environment whose rollout of a version has started at a time.
func startOf(version string, start time.Time) map[string]string {
	text, err := json.Marshal(v1alpha1.RolloutStatus{To: run(version), StartTime: &metav1.Time{Time: start}})
	if err != nil {
		panic(err) // strings and times
	}
	return map[string]string{v1alpha1.AnnotationRollout: string(text)}
}

// unreported returns a deployment that runs 1.2.3 and is Ready, and its production, which has begun to roll
// 1.2.4 out a minute ago.
func unreported() (*v1alpha1.Deployment, *v1alpha1.Environment, time.Time) {
	now := time.Date(2026, 1, 1, 0, 1, 0, 0, time.UTC)
	d := &v1alpha1.Deployment{ObjectMeta: metav1.ObjectMeta{Namespace: "acme", Name: "a", Generation: 1}}
	d.Status.History = []v1alpha1.VersionRun{run("1.2.3")}
	reconciler.Summarise(d, reconciler.Done("Production runs 1.2.3"))
	env := &v1alpha1.Environment{ObjectMeta: metav1.ObjectMeta{
		Namespace: "acme", Name: v1alpha1.ProductionName("a"), Generation: 2, Annotations: startOf("1.2.4", now.Add(-time.Minute)),
	}}
	env.Spec.Image, env.Spec.DeploymentGeneration = run("1.2.4").Pinned(), 1
	meta.SetStatusCondition(&env.Status.Conditions, metav1.Condition{Type: v1alpha1.ConditionReady, Status: "True", Reason: "Succeeded", ObservedGeneration: 1})
	return d, env, now
}

// TestStartedRollout: the start that production has counts until the status has the rollout or its result.
func TestStartedRollout(t *testing.T) {
	cases := map[string]struct {
		change func(d *v1alpha1.Deployment, env *v1alpha1.Environment)
		counts bool
	}{
		"started":         {func(*v1alpha1.Deployment, *v1alpha1.Environment) {}, true},
		"spec is changed": {func(d *v1alpha1.Deployment, _ *v1alpha1.Environment) { d.Generation = 2 }, true},
		"failed before": {func(d *v1alpha1.Deployment, _ *v1alpha1.Environment) {
			d.Status.Failures = []v1alpha1.FailedVersion{{Image: run("1.2.4").Pinned(), Time: metav1.NewTime(time.Date(2025, 1, 1, 0, 0, 0, 0, time.UTC))}}
		}, true},
		"failed": {func(d *v1alpha1.Deployment, _ *v1alpha1.Environment) {
			d.Status.Failures = []v1alpha1.FailedVersion{{Image: run("1.2.4").Pinned(), Time: metav1.NewTime(time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC))}}
		}, false},
		"in the status": {func(d *v1alpha1.Deployment, _ *v1alpha1.Environment) {
			d.Status.Rollout = &v1alpha1.RolloutStatus{To: run("1.2.4")}
		}, false},
		"runs": {func(d *v1alpha1.Deployment, _ *v1alpha1.Environment) {
			d.Status.History = []v1alpha1.VersionRun{run("1.2.4")}
		}, false},
		"first install": {func(d *v1alpha1.Deployment, _ *v1alpha1.Environment) { d.Status.History = nil }, false},
		"rolled back":   {func(_ *v1alpha1.Deployment, env *v1alpha1.Environment) { env.Spec.Image = run("1.2.3").Pinned() }, false},
		"asleep since": {func(d *v1alpha1.Deployment, _ *v1alpha1.Environment) {
			reconciler.Summarise(d, reconciler.Done("").WithReason(v1alpha1.ReasonAsleep))
		}, false},
		"suspended since": {func(d *v1alpha1.Deployment, _ *v1alpha1.Environment) {
			reconciler.Summarise(d, reconciler.Done("").WithReason(v1alpha1.ReasonSuspended))
		}, false},
		"without a start": {func(_ *v1alpha1.Deployment, env *v1alpha1.Environment) { env.Annotations = nil }, false},
		"malformed": {func(_ *v1alpha1.Deployment, env *v1alpha1.Environment) {
			env.Annotations[v1alpha1.AnnotationRollout] = "{"
		}, false},
		"without the time": {func(_ *v1alpha1.Deployment, env *v1alpha1.Environment) {
			env.Annotations[v1alpha1.AnnotationRollout] = "{}"
		}, false},
		"restored, no Ready": {func(d *v1alpha1.Deployment, _ *v1alpha1.Environment) { d.Status.Conditions = nil }, false},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			d, env, now := unreported()
			tc.change(d, env)
			r := startedRollout(d, env)
			if (r != nil) != tc.counts {
				t.Fatalf("the rollout is %+v", r)
			}
			if r != nil && (r.To != run("1.2.4") || !r.StartTime.Equal(&metav1.Time{Time: now.Add(-time.Minute)})) {
				t.Errorf("the rollout is %+v", r)
			}
			fleet := NewFleet(newAPI(t, d, env), 1)
			if denied := fleet.AcquireSlot(t.Context(), keyOf("other"), slotOf("")) != ""; denied != (tc.counts) {
				t.Errorf("the only slot is denied to another deployment: %v", denied)
			}
		})
	}
	if startedRollout(&v1alpha1.Deployment{}, nil) != nil {
		t.Error("a rollout without an environment")
	}
}

// TestStartIsReported at once, unless the rollout follows the channel and will probably end before a user sees it.
func TestStartIsReported(t *testing.T) {
	type world struct {
		initial *v1alpha1.Deployment
		o       *observation
		env     *v1alpha1.Environment
	}
	cases := map[string]struct {
		change func(world)
		delay  time.Duration
	}{
		"in progress":      {func(world) {}, 30 * time.Second},
		"start":            {func(w world) { w.env.Spec.Image, w.o.deployment.Status.Rollout = run("1.2.3").Pinned(), nil }, 90 * time.Second},
		"after 90 seconds": {func(w world) { w.o.now = w.o.now.Add(30 * time.Second) }, 0},
		"manual":           {func(w world) { w.o.manual = true }, 0},
		"environment reports": {func(w world) {
			reconciler.Summarise(w.env, reconciler.Progressing(v1alpha1.ReasonWorkloadsNotReady, "api: 0 of 1 pods are up to date and ready"))
		}, 0},
		"reported":      {func(w world) { w.initial.Status.Rollout = w.o.deployment.Status.Rollout }, 0},
		"not Ready":     {func(w world) { reconciler.Summarise(w.initial, reconciler.Stalled("X", "y")) }, 0},
		"asleep":        {func(w world) { reconciler.Summarise(w.initial, reconciler.Done("").WithReason(v1alpha1.ReasonAsleep)) }, 0},
		"other changes": {func(w world) { w.o.deployment.Status.CustomDomain = "x.example.com" }, 0},
		"failed":        {func(w world) { w.o.now = w.o.now.Add(time.Hour) }, 0},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			d, env, now := unreported()
			initial := d.DeepCopy()
			d.Status.Rollout = startedRollout(d, env)
			o := &observation{deployment: d, choice: choice{target: run("1.2.4")}, production: env, now: now}
			tc.change(world{initial, o, env})
			if delay := startReportDelay(initial, *o, makePlan(*o)); delay != tc.delay {
				t.Errorf("reported after %s, want %s", delay, tc.delay)
			}
		})
	}
}
