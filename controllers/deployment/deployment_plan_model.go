package deployment

import (
	"fmt"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/quoin-dev/quoin/api/v1alpha1"
	"github.com/quoin-dev/quoin/internal/engine"
	"github.com/quoin-dev/quoin/internal/reconciler"
)

// A commit of the data model is rolled out as a version is:
//
//	branch moves ─▶ candidate ─▶ served
//	                   │ does not compile, or deadline
//	                   ▼
//	               rolled back ─▶ stalled, until the version, the commit or their inputs change
//
// When both the version and the commit are candidates and the model does not compile, the
// commit is rolled back first: if the version cannot serve a commit that has compiled before
// either, the version is at fault.

// judgeCommit records the commit that production serves, or the rejection of the candidate
// commit; in the second case it returns the plan that rolls the commit back.
func (o *planner) judgeCommit() (_ plan, rejected bool) {
	status := o.status
	if o.commit == "" {
		status.ModelCommit = "" // the model is not, or no longer, in Git
		return plan{}, false
	}
	if o.production == nil {
		return plan{}, false
	}
	if o.settled() && !o.asleep() && o.production.Status.ModelCommit == o.production.Spec.ModelCommit {
		status.ModelCommit = o.production.Spec.ModelCommit
	}
	if !engine.IsOfSource(o.production, o.deployment) && status.ModelCommit != o.commit {
		status.ModelCommit = "" // the repository of the model need not have it, so production cannot be rolled back to it
	}
	c := o.rejectionReason()
	if c == nil {
		return plan{}, false
	}
	status.FailedModel = &v1alpha1.FailedModel{
		Commit: o.commit, Image: o.production.Spec.Image, Reason: c.Reason,
		Generation: o.deployment.Generation, AttemptHash: o.attemptHash(),
		Message: reconciler.Clip(c.Message, maxFailureMessage), Time: metav1.NewTime(o.now.Truncate(time.Second)),
	}
	if r := status.Rollout; r != nil && r.StartTime != nil {
		// With the previous commit, the version gets the whole deadline.
		r.StartTime = &metav1.Time{Time: o.now.Truncate(time.Second)}
	}
	run := o.target
	if !o.isSet(o.target) {
		run = *o.previous()
	}
	return plan{run: run, commit: status.ModelCommit, outcome: reconciler.Progressing(
		v1alpha1.ReasonRollingBack, o.rollingBackCommit(*status.FailedModel))}, true
}

// rejectionReason returns the condition that rejects the candidate commit; nil if there is no
// candidate, none to roll back to, or no reason to reject it.
func (o *planner) rejectionReason() *metav1.Condition {
	served, spec := o.status.ModelCommit, &o.production.Spec
	isCandidate := served != "" && spec.ModelCommit == o.commit && spec.ModelCommit != served
	c := o.stalled()
	if !isCandidate || c == nil || len(o.status.History) == 0 {
		return nil
	}
	proven := o.isSet(*o.previous())
	switch {
	case !proven && !o.isSet(o.target):
		return nil
	case c.Reason == v1alpha1.ReasonModelBroken:
		return c
	case c.Reason == v1alpha1.ReasonDeadlineExceeded && proven && !o.served():
		return c // a version that is a candidate itself has its own deadline
	}
	return nil
}

// served reports whether all API pods of production are up to date and ready. Then a deadline was exceeded by other pods,
// such as those of the store, and the commit is not at fault.
func (o *planner) served() bool {
	status := &o.production.Status
	return status.Replicas > 0 && status.UpdatedReplicas == status.Replicas && status.ReadyReplicas == status.Replicas
}

// chooseCommit returns the commit that production serves with a version.
func (o *planner) chooseCommit(run v1alpha1.VersionRun) string {
	if f := o.status.FailedModel; f != nil && f.Image != run.Pinned() {
		o.status.FailedModel = nil // it failed with another version
	}
	if o.status.FailedModel == nil || o.status.ModelCommit == "" {
		return o.commit
	}
	return o.status.ModelCommit
}

// modelBroken reports whether production has found that its model does not compile.
func (o *planner) modelBroken() bool {
	c := o.stalled()
	return c != nil && c.Reason == v1alpha1.ReasonModelBroken
}

// commitRejected is the outcome when production is ready without the head of its branch.
func (o *planner) commitRejected(f v1alpha1.FailedModel) reconciler.Outcome {
	reason := v1alpha1.ReasonModelBroken
	if f.Reason != reason {
		reason = v1alpha1.ReasonRolloutFailed
	}
	return reconciler.Stalled(reason, fmt.Sprintf(
		"Commit %.12s cannot be served (%s); production serves commit %.12s. "+retried,
		f.Commit, f.Message, o.status.ModelCommit))
}

func (o *planner) rollingBackCommit(f v1alpha1.FailedModel) string {
	return fmt.Sprintf("Commit %.12s cannot be served; rolling back to %.12s", f.Commit, o.status.ModelCommit)
}
