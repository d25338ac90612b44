package deployment

import (
	"fmt"
	"slices"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/quoin-dev/quoin/api/v1alpha1"
	"github.com/quoin-dev/quoin/internal/engine"
	"github.com/quoin-dev/quoin/internal/reconciler"
)

const (
	// defaultDeadline is how long a rollout may take when the spec does not say.
	defaultDeadline = 600 * time.Second
	// slotPause is when a deployment that waits for its turn looks for itself.
	slotPause = 30 * time.Second
	// keptHistory is how many versions the history keeps.
	keptHistory = 20
	// maxTrouble bounds status.failed.message: a status that is too long cannot be written,
	// and the version before would not be put back.
	maxTrouble = 1024
)

// observation is what a plan is made from.
type observation struct {
	deployment *v1alpha1.Deployment
	// target is the version that spec and channel ask for.
	target v1alpha1.VersionRun
	// commit that the production branch points at; empty when the model is not in Git.
	commit string
	// byHand tells that a person asked for the target, who is not made to queue behind the fleet.
	byHand bool
	// production is the environment as it is; nil when there is none.
	production *v1alpha1.Environment
	now        time.Time
	// takeSlot asks the fleet for leave to begin a rollout.
	takeSlot func() bool
}

// plan is what is to be done.
type plan struct {
	// run is what production shall run, and commit the one of the data model.
	run     v1alpha1.VersionRun
	commit  string
	outcome reconciler.Outcome
	// ended is how a rollout ended just now, and took how long it took; empty when none did.
	ended string
	took  time.Duration
}

// How a rollout ends.
const (
	endedSucceeded = "succeeded"
	endedFailed    = "failed"
)

// makePlan decides what production runs and writes what must be remembered into the
// deployment's status: the rollout under way, what failed, what has been run.
//
//	target ─▶ waiting ─▶ rolling out ─▶ current
//	                         │ deadline
//	                         ▼
//	                     rolling back ─▶ stalled, until spec or channel change
func makePlan(o observation) plan {
	status := &o.deployment.Status
	status.TargetVersion = o.target.Version
	if f := status.Failed; f != nil && (!sameImage(f.Version, o.target) || f.Generation != o.deployment.Generation) {
		status.Failed = nil
	}
	if p, failed := o.judgeModel(); failed {
		return p
	}
	p := o.planVersion()
	p.commit = o.chooseCommit(p.run)
	if f := status.FailedModel; f != nil && p.outcome.IsDone() {
		p.outcome = o.withoutModel(*f)
	}
	return p
}

// planVersion decides which version production runs.
func (o observation) planVersion() plan {
	status := &o.deployment.Status
	switch {
	case status.Failed != nil:
		return o.backOut()
	case o.runs(o.target) && o.settled() && o.asleep():
		return o.sleep()
	case o.runs(o.target) && o.settled():
		return o.complete()
	case o.hasRun(o.target):
		return o.restore()
	}
	return o.rollOut()
}

// complete ends a rollout: what was the target is what runs.
func (o observation) complete() plan {
	status := &o.deployment.Status
	p := plan{run: o.target, outcome: reconciler.Done("Production runs " + o.target.Version)}
	if r := status.Rollout; r != nil && r.StartTime != nil && !o.hasRun(o.target) {
		p.ended, p.took = endedSucceeded, o.now.Sub(r.StartTime.Time)
	}
	status.Rollout = nil
	if !o.hasRun(o.target) || status.History[0].StoreImage != o.target.StoreImage {
		status.History = remembered(status.History, o.target, o.now)
	}
	return p
}

// sleep leaves a deployment that is scaled to nothing alone. Nothing has run, so nothing is
// proven: when it is scaled up, a version that has not run before is rolled out like any other.
func (o observation) sleep() plan {
	o.deployment.Status.Rollout = nil
	return plan{run: o.target, outcome: reconciler.Done(fmt.Sprintf(
		"Scaled to nothing; version %s begins when it is scaled up", o.target.Version)).Because(v1alpha1.ReasonAsleep)}
}

// restore brings back what ran last, with the settings of today: there is no other version
// to go back to, so the environment's own judgement counts.
func (o observation) restore() plan {
	o.deployment.Status.Rollout = nil
	reason, message := v1alpha1.ReasonProgressing, "Production is being brought up to date"
	if f := o.deployment.Status.FailedModel; f != nil {
		reason, message = v1alpha1.ReasonRollingBack, o.puttingBack(*f)
	}
	p := plan{run: o.target, outcome: reconciler.Progressing(reason, message)}
	if o.production != nil && o.runs(o.target) {
		p.outcome = o.echo(reason, message)
	}
	return p
}

// rollOut brings the target in.
func (o observation) rollOut() plan {
	status := &o.deployment.Status
	underWay := status.Rollout != nil && status.Rollout.StartTime != nil
	if status.Rollout == nil || !sameImage(status.Rollout.To, o.target) {
		status.Rollout = &v1alpha1.RolloutStatus{To: o.target}
	}
	rollout := status.Rollout
	if rollout.StartTime == nil {
		first := len(status.History) == 0
		if !first && !o.byHand && !underWay && !o.runs(o.target) && !o.takeSlot() {
			return plan{run: status.History[0], outcome: reconciler.Progressing(v1alpha1.ReasonWaitingForSlot, fmt.Sprintf(
				"Version %s waits: as many deployments are rolling out as may at once", o.target.Version)).In(slotPause)}
		}
		rollout.StartTime = &metav1.Time{Time: o.now.Truncate(time.Second)}
	}
	left := rollout.StartTime.Add(o.patience()).Sub(o.now)
	blocked := o.runs(o.target) && o.blocked()
	switch {
	case blocked && len(status.History) > 0 && o.brokenModel():
		return o.giveUp() // the commit is one that compiled before, so it is the version
	case blocked:
		// Nothing was tried yet, so the clock does not run.
		rollout.StartTime = nil
		return plan{run: o.target, outcome: o.echo(v1alpha1.ReasonRollingOut, "")}
	case left > 0:
		return plan{run: o.target, outcome: o.echo(v1alpha1.ReasonRollingOut, o.describe()).In(left)}
	case len(status.History) == 0:
		return plan{run: o.target, outcome: reconciler.Stalled(v1alpha1.ReasonDeadlineExceeded, fmt.Sprintf(
			"Version %s did not become ready within %s: %s", o.target.Version, deadline(o.deployment), o.trouble()))}
	}
	return o.giveUp()
}

// patience is how long a rollout may take. While pods compile their data model that has its
// own limit.
func (o observation) patience() time.Duration {
	if c := o.ready(); c != nil && c.Reason == v1alpha1.ReasonWarmingUp && c.ObservedGeneration == o.production.Generation {
		return deadline(o.deployment) + engine.CompileLimit
	}
	return deadline(o.deployment)
}

// giveUp ends a rollout that missed its deadline, or of a version that certainly cannot serve.
func (o observation) giveUp() plan {
	status := &o.deployment.Status
	status.Failed = &v1alpha1.FailedRollout{
		Version: o.target, Generation: o.deployment.Generation, Message: reconciler.Clip(o.trouble(), maxTrouble),
		Time: metav1.NewTime(o.now.Truncate(time.Second)),
	}
	if o.brokenModel() {
		status.Failed.Reason = v1alpha1.ReasonModelBroken
	}
	took := o.now.Sub(status.Rollout.StartTime.Time)
	p := o.backOut()
	p.ended, p.took = endedFailed, took
	return p
}

// backOut puts the version before back and leaves it there.
func (o observation) backOut() plan {
	status := &o.deployment.Status
	status.Rollout = nil
	before := status.History[0]
	p := plan{run: before}
	if o.runs(before) && o.settled() {
		p.outcome = reconciler.Stalled(v1alpha1.ReasonRolloutFailed, fmt.Sprintf(
			"Version %s %s (%s); production is back on %s. It is tried again when the spec or the channel changes",
			o.target.Version, failing(status.Failed, "within "+deadline(o.deployment).String()), status.Failed.Message, before.Version))
		return p
	}
	p.outcome = reconciler.Progressing(v1alpha1.ReasonRollingBack, fmt.Sprintf(
		"Version %s %s; putting %s back", o.target.Version, failing(status.Failed, "in time"), before.Version))
	if o.runs(before) && o.brokenModel() {
		p.outcome = o.echo(v1alpha1.ReasonRollingBack, "")
	}
	return p
}

// failing says in which way a version failed; when is what the deadline is called.
func failing(f *v1alpha1.FailedRollout, when string) string {
	if f.Reason == v1alpha1.ReasonModelBroken {
		return "cannot serve the data model"
	}
	return "did not become ready " + when
}

// runs tells whether production is set to run a version.
func (o observation) runs(v v1alpha1.VersionRun) bool {
	return o.production != nil && o.production.Spec.Image == v.Pinned() && o.production.Spec.StoreImage == v.StoreImage
}

// hasRun tells whether a version is the one that ran last.
func (o observation) hasRun(v v1alpha1.VersionRun) bool {
	history := o.deployment.Status.History
	return len(history) > 0 && sameImage(history[0], v)
}

// settled tells whether all of production runs what it is set to, with today's settings.
func (o observation) settled() bool {
	env := o.production
	return env.Status.ObservedGeneration == env.Generation &&
		env.Spec.DeploymentGeneration == o.deployment.Generation &&
		env.Status.Image == env.Spec.Image &&
		meta.IsStatusConditionTrue(env.Status.Conditions, v1alpha1.ConditionReady)
}

// asleep tells whether production is scaled to nothing.
func (o observation) asleep() bool {
	c := o.ready()
	return c != nil && c.Reason == v1alpha1.ReasonAsleep
}

// blocked tells whether the environment waits for a person, rather than for its pods.
func (o observation) blocked() bool {
	stalled := o.stalled()
	return stalled != nil && stalled.Reason != v1alpha1.ReasonDeadlineExceeded
}

// stalled is the environment's Stalled condition, when it speaks of the spec of now.
func (o observation) stalled() *metav1.Condition {
	if o.production == nil || o.production.Spec.DeploymentGeneration != o.deployment.Generation {
		return nil
	}
	c := meta.FindStatusCondition(o.production.Status.Conditions, v1alpha1.ConditionStalled)
	if c == nil || c.ObservedGeneration != o.production.Generation {
		return nil
	}
	return c
}

// echo passes a stalled environment's complaint on; else work is under way.
func (o observation) echo(reason, message string) reconciler.Outcome {
	if c := o.stalled(); c != nil && (reason != v1alpha1.ReasonRollingOut || c.Reason != v1alpha1.ReasonDeadlineExceeded) {
		return reconciler.Stalled(c.Reason, c.Message)
	}
	return reconciler.Progressing(reason, message)
}

// trouble is what the environment says is wrong.
func (o observation) trouble() string {
	if o.production == nil {
		return "the environment was not made"
	}
	if c := o.ready(); c != nil && c.Status != metav1.ConditionTrue {
		return c.Message
	}
	return "the environment did not report"
}

// ready is the environment's Ready condition; nil when there is none.
func (o observation) ready() *metav1.Condition {
	if o.production == nil {
		return nil
	}
	return meta.FindStatusCondition(o.production.Status.Conditions, v1alpha1.ConditionReady)
}

func (o observation) describe() string {
	if history := o.deployment.Status.History; len(history) > 0 {
		return fmt.Sprintf("Rolling out version %s in place of %s", o.target.Version, history[0].Version)
	}
	return "Rolling out version " + o.target.Version
}

// remembered puts a version at the head of the history, where it stands once.
func remembered(history []v1alpha1.VersionRun, run v1alpha1.VersionRun, now time.Time) []v1alpha1.VersionRun {
	run.CompletionTime = metav1.NewTime(now.Truncate(time.Second))
	others := slices.DeleteFunc(slices.Clone(history), func(h v1alpha1.VersionRun) bool { return sameImage(h, run) })
	history = append([]v1alpha1.VersionRun{run}, others...)
	return history[:min(len(history), keptHistory)]
}

func deadline(d *v1alpha1.Deployment) time.Duration {
	if r := d.Spec.Rollout; r != nil && r.ProgressDeadlineSeconds != nil {
		return time.Duration(*r.ProgressDeadlineSeconds) * time.Second
	}
	return defaultDeadline
}

// sameImage tells whether two versions are the same content. The store's image is left out:
// a store that comes with another size is a new setting, not a version to go back from.
func sameImage(a, b v1alpha1.VersionRun) bool { return a.Pinned() == b.Pinned() }
