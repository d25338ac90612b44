package deployment

import (
	"cmp"
	"fmt"
	"slices"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/quoin-dev/quoin/api/v1alpha1"
	"github.com/quoin-dev/quoin/internal/engine"
	"github.com/quoin-dev/quoin/internal/reconciler"
)

// rollOut starts or continues the rollout of the target.
func (o *planner) rollOut() plan {
	inProgress := o.status.Rollout != nil && o.status.Rollout.StartTime != nil
	if o.status.Rollout == nil || !sameImage(o.status.Rollout.To, o.target) {
		o.status.Rollout = &v1alpha1.RolloutStatus{To: o.target}
	}
	if o.status.Rollout.StartTime != nil {
		return o.continueRollout()
	}
	start := o.startRequest(inProgress)
	if start != nil && o.denial != "" {
		return plan{run: *o.previous(), outcome: reconciler.Progressing(v1alpha1.ReasonWaitingForSlot, fmt.Sprintf(
			"Version %s waits for %s", o.target.Version, o.denial))}
	}
	o.status.Rollout.StartTime = &metav1.Time{Time: o.now.Truncate(time.Second)}
	p := o.continueRollout()
	p.start, p.started = start, o.status.Rollout != nil && o.status.Rollout.StartTime != nil
	return p
}

// startRequest returns the request to the fleet to start the rollout of the target; nil if it does
// not wait for others: a first install cannot disrupt anything. inProgress reports whether another
// rollout is in progress, whose slot is used.
func (o *planner) startRequest(inProgress bool) *startRequest {
	if len(o.status.History) == 0 || o.isSet(o.target) {
		return nil
	}
	r := startRequest{
		channel: o.deployment.Spec.ReleaseChannel, image: o.target.Pinned(), slot: !o.manual && !inProgress, places: o.places,
	}
	if !r.slot && r.places == 0 {
		return nil
	}
	return &r
}

// continueRollout decides how a rollout that has a start time goes on.
func (o *planner) continueRollout() plan {
	rollout := o.status.Rollout
	remaining := o.deadline().Sub(o.now)
	blocked := o.isSet(o.target) && o.blocked()
	switch {
	case blocked && o.previous() != nil && o.modelBroken():
		return o.failRollout() // the commit has compiled before, so the version is at fault
	case blocked:
		// The rollout has not started, so its deadline does not either.
		rollout.StartTime = nil
		return plan{run: o.target, outcome: o.stalledOr(v1alpha1.ReasonRollingOut, "")}
	case remaining > 0:
		return plan{run: o.target, outcome: o.stalledOr(v1alpha1.ReasonRollingOut, o.describe()).RequeueIn(remaining)}
	case o.previous() == nil:
		o.recordFailure()
		return plan{run: o.target, overdue: true, outcome: reconciler.Stalled(v1alpha1.ReasonDeadlineExceeded, fmt.Sprintf(
			"Version %s did not become ready within %s: %s", o.target.Version, progressDeadline(o.deployment), o.failureMessage()))}
	}
	return o.failRollout()
}

// deadline is when the rollout has failed. A controller that starts does not know for how long there was none to create
// and observe pods, so a rollout has all the time again, unless it has failed before.
func (o *planner) deadline() time.Time {
	start := o.status.Rollout.StartTime.Time
	if o.since.After(start) && !o.isRecorded() {
		start = o.since
	}
	return start.Add(o.rolloutTimeout())
}

// rolloutTimeout is the progress deadline, plus the limit for compilation while pods compile
// their data model.
func (o *planner) rolloutTimeout() time.Duration {
	if c := o.ready(); c != nil && c.Reason == v1alpha1.ReasonWarmingUp && c.ObservedGeneration == o.production.Generation {
		return progressDeadline(o.deployment) + engine.CompileLimit
	}
	return progressDeadline(o.deployment)
}

// failRollout ends a rollout that exceeded its deadline or whose version cannot serve the model.
func (o *planner) failRollout() plan {
	o.status.Failed = &v1alpha1.FailedRollout{
		Version: o.target, Generation: o.deployment.Generation, AttemptHash: o.attemptHash(),
		Message: reconciler.Clip(o.failureMessage(), maxFailureMessage),
		Time:    metav1.NewTime(o.now.Truncate(time.Second)),
	}
	if o.modelBroken() {
		o.status.Failed.Reason = v1alpha1.ReasonModelBroken
	}
	o.recordFailure()
	duration := o.now.Sub(o.status.Rollout.StartTime.Time)
	p := o.rollBack()
	p.result, p.duration = resultFailed, duration
	return p
}

// recordFailure adds the target to the list of failures, once for each rollout.
func (o *planner) recordFailure() {
	if o.isRecorded() {
		return
	}
	image := o.target.Pinned()
	failure := v1alpha1.FailedVersion{
		Version: o.target.Version, Image: image,
		Message: reconciler.Clip(o.failureMessage(), maxFailureMessage), Time: metav1.NewTime(o.now.Truncate(time.Second)),
	}
	failures := append([]v1alpha1.FailedVersion{failure}, withoutImage(o.status.Failures, image)...)
	o.status.Failures = failures[:min(len(failures), maxFailures)]
}

// isRecorded reports whether the list of failures has the rollout.
func (o *planner) isRecorded() bool {
	image, start := o.target.Pinned(), o.status.Rollout.StartTime
	return slices.ContainsFunc(o.status.Failures, func(f v1alpha1.FailedVersion) bool { return f.Image == image && start.Before(&f.Time) })
}

// withoutImage returns failures without that of an image.
func withoutImage(failures []v1alpha1.FailedVersion, image string) []v1alpha1.FailedVersion {
	return slices.DeleteFunc(slices.Clone(failures), func(f v1alpha1.FailedVersion) bool { return f.Image == image })
}

// previous returns the version to roll back to: the one that ran last, or on a first install the
// proven version of the channel; nil if there is none. A version that ran with another size has no image of
// the store, which production needs now.
func (o *planner) previous() *v1alpha1.VersionRun {
	if len(o.status.History) == 0 {
		return o.fallback
	}
	previous := o.status.History[0]
	previous.StoreImage = cmp.Or(previous.StoreImage, o.storeImage)
	return &previous
}

// rollBack returns production to the previous version.
func (o *planner) rollBack() plan {
	o.status.Rollout = nil
	previous := *o.previous()
	p := plan{run: previous}
	install := len(o.status.History) == 0
	if (install || o.status.History[0].StoreImage != previous.StoreImage) && o.isSet(previous) && o.settled() && !o.asleep() {
		o.status.History = prepend(o.status.History, previous, o.now)
	}
	if o.isSet(previous) && o.settled() {
		p.outcome = reconciler.Stalled(v1alpha1.ReasonRolloutFailed, fmt.Sprintf(
			"Version %s %s (%s); rolled back to %s. "+retried,
			o.target.Version, failure(o.status.Failed, "within "+progressDeadline(o.deployment).String()), o.status.Failed.Message, previous.Version))
		return p
	}
	message := fmt.Sprintf("Version %s %s; rolling back to %s", o.target.Version, failure(o.status.Failed, "in time"), previous.Version)
	p.outcome = reconciler.Progressing(v1alpha1.ReasonRollingBack, message)
	if o.isSet(previous) && (install || o.blocked()) {
		p.outcome = o.stalledOr(v1alpha1.ReasonRollingBack, message)
	}
	return p
}
