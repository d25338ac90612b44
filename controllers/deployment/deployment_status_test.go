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
