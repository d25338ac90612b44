package deployment

import (
	"fmt"
	"time"

	"github.com/quoin-dev/quoin/api/v1alpha1"
	"github.com/quoin-dev/quoin/internal/reconciler"
)

// pendingVersion is a version that may not be rolled out before the account's next maintenance window.
type pendingVersion struct {
	version string
	until   time.Time
}

// waitForWindow replaces a target that has to wait for the maintenance window with the version that
// production runs meanwhile, and returns it; nil if it does not wait. Rollouts that a user requested,
// that have started, or that repeat a failed one do not wait, and neither do first installs.
func (o *planner) waitForWindow() *pendingVersion {
	if o.window == nil || o.byHand || len(o.status.History) == 0 || o.ranLast(o.target) {
		return nil
	}
	if f := o.status.Failed; f != nil && sameImage(f.Version, o.target) {
		return nil
	}
	opens := o.window.Opens(o.now)
	if opens.IsZero() {
		return nil
	}
	meanwhile := *o.previous()
	// A rollout that was paused has no start time, but production has its version.
	if r := o.status.Rollout; r != nil && (r.StartTime != nil || o.isSet(r.To) && !o.blocked()) {
		meanwhile = r.To
	}
	run := forSize(o.deployment, meanwhile)
	if run == nil || sameImage(meanwhile, o.target) {
		return nil
	}
	w := &pendingVersion{version: o.target.Version, until: opens}
	o.target = *run
	return w
}

// amend reports the wait in the outcome of a deployment that is ready, and ends it in time.
func (w *pendingVersion) amend(outcome reconciler.Outcome, runs string, now time.Time) reconciler.Outcome {
	if w == nil {
		return outcome
	}
	if outcome.IsDone() {
		outcome = reconciler.Done(fmt.Sprintf("Production runs %s; version %s waits for the maintenance window of the account at %s",
			runs, w.version, w.until.Format(time.RFC3339))).WithReason(v1alpha1.ReasonWaitingForWindow)
	}
	return outcome.RequeueIn(w.until.Sub(now))
}
