package deployment

import (
	"fmt"
	"slices"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/quoin-dev/quoin/api/v1alpha1"
	"github.com/quoin-dev/quoin/internal/reconciler"
)

const (
	// defaultProgressDeadline applies when spec.rollout.progressDeadlineSeconds is not set.
	defaultProgressDeadline = 600 * time.Second
	// waitReportDelay is how long a deployment waits to start a rollout before its status shows that. The
	// status then shows the start too: three writes more for each deployment, while the cluster is at its busiest.
	waitReportDelay = 30 * time.Minute
	// maxHistory is the number of versions in status.history.
	maxHistory = 20
	// maxFailureMessage bounds status.failed.message: a status that exceeds the limit of the
	// API cannot be written, and the version would not be rolled back.
	maxFailureMessage = 1024
	// maxFailures is the number of versions in status.failures.
	maxFailures = 10
	// retried ends the messages about failures.
	retried = "Retried when the version, the model, variables or resources change, or on request"
)

// observation is the input of makePlan, which does not change it.
type observation struct {
	deployment *v1alpha1.Deployment
	choice
	// commit is the head of the production branch; empty when the model is not in Git.
	commit string
	// production is the production environment; nil when there is none.
	production *v1alpha1.Environment
	now        time.Time
	// since is when the controller started to reconcile.
	since time.Time
	// denial is why the target may not be rolled out yet; empty if it may.
	denial denial
}

// plan is the result of makePlan: the deployment's new status, and what to do.
type plan struct {
	status v1alpha1.DeploymentStatus
	// run and commit are the version and the commit of the data model for production.
	run     v1alpha1.VersionRun
	commit  string
	outcome reconciler.Outcome
	// start is the request to the fleet to start a rollout; nil if the plan starts none that has to
	// wait for others. The caller makes it before it records the plan; if it is denied, waitForSlot
	// amends the plan.
	start *startRequest
	// overdue reports that a rollout has missed its deadline and continues, because there is nothing
	// to roll back to. It needs no slot any more.
	overdue bool
	// started reports whether the plan starts the rollout of status.rollout.to.
	started bool
	// result is resultSucceeded or resultFailed when the plan ends a rollout, else empty;
	// duration is the time that the rollout took.
	result   string
	duration time.Duration
}

// Values of plan.result, which are those of the label "result" of metrics.
const (
	resultSucceeded = "succeeded"
	resultFailed    = "failed"
)

// planner holds the state of one makePlan: the observation, and the status under construction.
type planner struct {
	observation
	status *v1alpha1.DeploymentStatus
}

// makePlan decides which version and commit production runs, and what the status records: the
// rollout in progress, the last failure, the history. It is a pure function.
//
//	target ─▶ waiting ─▶ rolling out ─▶ current
//	                         │ deadline
//	                         ▼
//	                     rolling back ─▶ stalled, until the target or its inputs change
func makePlan(o observation) plan {
	status := o.deployment.Status.DeepCopy()
	p := (&planner{observation: o, status: status}).plan()
	p.status = *status
	return p
}

// waitForSlot returns the plan that replaces one whose start was denied.
func waitForSlot(o observation, why denial) plan {
	o.denial = why
	return makePlan(o)
}

func (o *planner) plan() plan {
	o.status.TargetVersion = o.target.Version
	waiting := o.waitForWindow()
	o.forgetFailures()
	if p, rejected := o.judgeCommit(); rejected {
		p.outcome = waiting.amend(p.outcome, p.run.Version, o.now)
		return p
	}
	p := o.planVersion()
	p.commit = o.chooseCommit(p.run)
	p.outcome = waiting.amend(p.outcome, p.run.Version, o.now)
	if f := o.status.FailedModel; f != nil && p.outcome.IsDone() {
		p.outcome = o.commitRejected(*f)
	}
	return p
}

// planVersion decides which version production runs.
func (o *planner) planVersion() plan {
	if o.previous() == nil {
		o.status.Failed = nil // there is nothing to return to: the target is tried again
	}
	switch {
	case o.status.Failed != nil:
		return o.rollBack()
	case o.isSet(o.target) && o.settled() && o.asleep():
		return o.sleep()
	case o.isSet(o.target) && o.settled():
		return o.complete()
	case o.ranLast(o.target):
		return o.update()
	}
	return o.rollOut()
}

// complete ends a rollout: the target becomes the current version.
func (o *planner) complete() plan {
	p := plan{run: o.target, outcome: reconciler.Done("Production runs " + o.target.Version)}
	if o.skipped != "" {
		p.outcome = reconciler.Done(fmt.Sprintf("Production runs %s; release channel %q has stopped version %s",
			o.target.Version, o.deployment.Spec.ReleaseChannel, o.skipped)).WithReason(v1alpha1.ReasonVersionStopped)
	}
	if r := o.status.Rollout; r != nil && r.StartTime != nil && !o.ranLast(o.target) {
		p.result, p.duration = resultSucceeded, o.now.Sub(r.StartTime.Time)
		p.outcome = p.outcome.WithEvent(o.describeEnd())
	}
	o.status.Rollout = nil
	if !o.ranLast(o.target) || o.status.History[0].StoreImage != o.target.StoreImage {
		o.status.History = prepend(o.status.History, o.target, o.now)
	}
	o.status.Failures = withoutImage(o.status.Failures, o.target.Pinned())
	return p
}

// sleep leaves a deployment that is scaled to zero alone. A version that has not run is not
// recorded in the history: it is rolled out when the deployment is scaled up.
func (o *planner) sleep() plan {
	o.status.Rollout = nil
	return plan{run: o.target, outcome: reconciler.Done(fmt.Sprintf(
		"Scaled to zero; version %s starts when it is scaled up", o.target.Version)).WithReason(v1alpha1.ReasonAsleep)}
}

// update runs the version that ran last with the current settings. There is no other version
// to roll back to, so the environment's own condition is reported.
func (o *planner) update() plan {
	o.status.Rollout = nil
	reason, message := v1alpha1.ReasonProgressing, "Production is being updated"
	if f := o.status.FailedModel; f != nil {
		reason, message = v1alpha1.ReasonRollingBack, o.rollingBackCommit(*f)
	}
	p := plan{run: o.target, outcome: reconciler.Progressing(reason, message)}
	if o.production != nil && o.isSet(o.target) {
		p.outcome = o.stalledOr(reason, message)
	}
	return p
}

// failure describes how a version failed; deadline is the text for an exceeded deadline.
func failure(f *v1alpha1.FailedRollout, deadline string) string {
	if f.Reason == v1alpha1.ReasonModelBroken {
		return "cannot serve the data model"
	}
	return "did not become ready " + deadline
}

// isSet reports whether the spec of production asks for a version.
func (o *planner) isSet(v v1alpha1.VersionRun) bool {
	return o.production != nil && o.production.Spec.Image == v.Pinned() && o.production.Spec.StoreImage == v.StoreImage
}

// ranLast reports whether a version is the head of the history.
func (o *planner) ranLast(v v1alpha1.VersionRun) bool {
	return len(o.status.History) > 0 && sameImage(o.status.History[0], v)
}

// settled reports whether all pods of production run its spec, with the deployment's current settings.
func (o *planner) settled() bool {
	env := o.production
	return env.Status.ObservedGeneration == env.Generation &&
		env.Spec.DeploymentGeneration == o.deployment.Generation &&
		env.Status.Image == env.Spec.Image &&
		meta.IsStatusConditionTrue(env.Status.Conditions, v1alpha1.ConditionReady)
}

// asleep reports whether production is scaled to zero.
func (o *planner) asleep() bool {
	c := o.ready()
	return c != nil && c.Reason == v1alpha1.ReasonAsleep
}

// blocked reports whether the environment waits for a change by a user, not for its pods.
func (o *planner) blocked() bool {
	stalled := o.stalled()
	return stalled != nil && stalled.Reason != v1alpha1.ReasonDeadlineExceeded
}

// stalled returns the environment's Stalled condition if it is about the current specs, else nil.
func (o *planner) stalled() *metav1.Condition {
	if o.production == nil || o.production.Spec.DeploymentGeneration != o.deployment.Generation {
		return nil
	}
	c := meta.FindStatusCondition(o.production.Status.Conditions, v1alpha1.ConditionStalled)
	if c == nil || c.ObservedGeneration != o.production.Generation {
		return nil
	}
	return c
}

// stalledOr returns the environment's Stalled condition as an outcome, or else Progressing
// with the given reason and message. During a rollout an exceeded deadline of the
// environment is left out: the rollout has its own.
func (o *planner) stalledOr(reason, message string) reconciler.Outcome {
	if c := o.stalled(); c != nil && (reason != v1alpha1.ReasonRollingOut || c.Reason != v1alpha1.ReasonDeadlineExceeded) {
		return reconciler.Stalled(c.Reason, c.Message)
	}
	return reconciler.Progressing(reason, message)
}

// failureMessage returns the message of the environment's Ready condition.
func (o *planner) failureMessage() string {
	if o.production == nil {
		return "the environment does not exist"
	}
	if c := o.ready(); c != nil && c.Status != metav1.ConditionTrue {
		return c.Message
	}
	return "the environment has not reported its state"
}

// ready returns the environment's Ready condition; nil when there is none.
func (o *planner) ready() *metav1.Condition {
	if o.production == nil {
		return nil
	}
	return meta.FindStatusCondition(o.production.Status.Conditions, v1alpha1.ConditionReady)
}

func (o *planner) describe() string {
	if history := o.status.History; len(history) > 0 {
		return fmt.Sprintf("Rolling out version %s in place of %s", o.target.Version, history[0].Version)
	}
	return "Rolling out version " + o.target.Version
}

// describeEnd describes the rollout that ends, before the history has its version.
func (o *planner) describeEnd() string {
	if history := o.status.History; len(history) > 0 {
		return fmt.Sprintf("Production runs %s in place of %s", o.target.Version, history[0].Version)
	}
	return "Production runs " + o.target.Version
}

// prepend puts a version at the head of the history and removes its earlier entry.
func prepend(history []v1alpha1.VersionRun, run v1alpha1.VersionRun, now time.Time) []v1alpha1.VersionRun {
	run.CompletionTime = metav1.NewTime(now.Truncate(time.Second))
	others := slices.DeleteFunc(slices.Clone(history), func(h v1alpha1.VersionRun) bool { return sameImage(h, run) })
	history = append([]v1alpha1.VersionRun{run}, others...)
	return history[:min(len(history), maxHistory)]
}

func progressDeadline(d *v1alpha1.Deployment) time.Duration {
	if r := d.Spec.Rollout; r != nil && r.ProgressDeadlineSeconds != nil {
		return time.Duration(*r.ProgressDeadlineSeconds) * time.Second
	}
	return defaultProgressDeadline
}

// sameImage reports whether two versions have the same API image. The store's image is
// ignored: a store that comes with another size is a setting, not a version to roll back.
func sameImage(a, b v1alpha1.VersionRun) bool { return a.Pinned() == b.Pinned() }
