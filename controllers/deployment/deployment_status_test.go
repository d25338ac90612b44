package deployment

import (
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/quoin-dev/quoin/api/v1alpha1"
	"github.com/quoin-dev/quoin/internal/reconciler"
)

// TestLongTroubleIsCutShort: whatever an environment says of a version that failed, it fits
// into the status, or the decision to go back could never be recorded.
func TestLongTroubleIsCutShort(t *testing.T) {
	w := newWorld()
	d := w.deployment
	d.Status.History = []v1alpha1.VersionRun{run("1.2.3")}
	d.Status.Rollout = &v1alpha1.RolloutStatus{To: run("1.2.4"), StartTime: &metav1.Time{Time: w.now.Add(-time.Hour)}}
	env := &v1alpha1.Environment{}
	env.Spec.Image, env.Spec.DeploymentGeneration = run("1.2.4").Pinned(), d.Generation
	reconciler.Summarise(env, reconciler.Progressing(v1alpha1.ReasonError, strings.Repeat("äöü ", 1000)))
	p := makePlan(observation{deployment: d, target: run("1.2.4"), production: env, now: w.now, takeSlot: func() bool { return true }})
	if d.Status.Failed == nil || p.run.Version != "1.2.3" {
		t.Fatalf("the plan is %+v", p)
	}
	// The bound is that of the API, status.failed.message.
	if text := d.Status.Failed.Message; len(text) > 1024 || len(text) < 1000 || !utf8.ValidString(text) {
		t.Errorf("%d bytes: %q", len(text), text)
	}
	reconciler.Summarise(d, p.outcome)
	if c := meta.FindStatusCondition(d.Status.Conditions, v1alpha1.ConditionReady); !strings.Contains(c.Message, "1.2.4") {
		t.Errorf("says %q", c.Message)
	}
}
