package deployment

import (
	"fmt"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/quoin-dev/quoin/api/v1alpha1"
	"github.com/quoin-dev/quoin/internal/reconciler"
)

// What becomes of a commit of the data model follows what becomes of a version:
//
//	branch moves ─▶ on trial ─▶ served
//	                   │ does not compile, or deadline
//	                   ▼
//	               the commit before is back ─▶ stalled, until spec, version or commit change
//
// When a version and a commit are on trial together and the model does not compile, the
// commit is taken back first: with a commit that has compiled before, the version shows
// whether it was to blame.

// judgeModel remembers the commit that production serves and, once, one that it cannot serve.
// Then the plan is to put the one before back.
func (o observation) judgeModel() (_ plan, failed bool) {
	status := &o.deployment.Status
	if f := status.FailedModel; f != nil && (f.Commit != o.commit || f.Generation != o.deployment.Generation) {
		status.FailedModel = nil
	}
	if o.commit == "" {
		status.ModelCommit = "" // the model is not in Git (any more)
		return plan{}, false
	}
	if o.production == nil {
		return plan{}, false
	}
	if o.settled() && !o.asleep() && o.production.Status.ModelCommit == o.production.Spec.ModelCommit {
		status.ModelCommit = o.production.Spec.ModelCommit
	}
	c := o.condemned()
	if c == nil {
		return plan{}, false
	}
	status.FailedModel = &v1alpha1.FailedModel{
		Commit: o.commit, Image: o.production.Spec.Image, Generation: o.deployment.Generation, Reason: c.Reason,
		Message: reconciler.Clip(c.Message, maxTrouble), Time: metav1.NewTime(o.now.Truncate(time.Second)),
	}
	if r := status.Rollout; r != nil && r.StartTime != nil {
		// The version has its whole time with the other commit.
		r.StartTime = &metav1.Time{Time: o.now.Truncate(time.Second)}
	}
	run := o.target
	if !o.runs(o.target) {
		run = status.History[0]
	}
	return plan{run: run, commit: status.ModelCommit, outcome: reconciler.Progressing(
		v1alpha1.ReasonRollingBack, o.puttingBack(*status.FailedModel))}, true
}

// condemned is why the commit on trial cannot be served; nil while it may be, and when there is
// none to go back to.
func (o observation) condemned() *metav1.Condition {
	status, spec := &o.deployment.Status, &o.production.Spec
	onTrial := status.ModelCommit != "" && spec.ModelCommit == o.commit && spec.ModelCommit != status.ModelCommit
	c := o.stalled()
	if !onTrial || c == nil || len(status.History) == 0 {
		return nil
	}
	proven := o.runs(status.History[0])
	switch {
	case !proven && !o.runs(o.target):
		return nil
	case c.Reason == v1alpha1.ReasonModelBroken:
		return c
	case c.Reason == v1alpha1.ReasonDeadlineExceeded && proven:
		return c // else the version is given up by its own deadline
	}
	return nil
}

// chooseCommit is the commit that production serves with a version.
func (o observation) chooseCommit(run v1alpha1.VersionRun) string {
	status := &o.deployment.Status
	if f := status.FailedModel; f != nil && f.Image != run.Pinned() {
		status.FailedModel = nil // it failed with another version
	}
	if status.FailedModel == nil || status.ModelCommit == "" {
		return o.commit
	}
	return status.ModelCommit
}

// brokenModel tells whether production is certain that its model does not compile.
func (o observation) brokenModel() bool {
	c := o.stalled()
	return c != nil && c.Reason == v1alpha1.ReasonModelBroken
}

// withoutModel says that production is well, without the commit that its branch points at.
func (o observation) withoutModel(f v1alpha1.FailedModel) reconciler.Outcome {
	reason := v1alpha1.ReasonModelBroken
	if f.Reason != reason {
		reason = v1alpha1.ReasonRolloutFailed
	}
	return reconciler.Stalled(reason, fmt.Sprintf(
		"Commit %.12s cannot be served (%s); production serves commit %.12s. It is tried again when the spec, the version or the commit changes",
		f.Commit, f.Message, o.deployment.Status.ModelCommit))
}

func (o observation) puttingBack(f v1alpha1.FailedModel) string {
	return fmt.Sprintf("Commit %.12s cannot be served; putting %.12s back", f.Commit, o.deployment.Status.ModelCommit)
}
