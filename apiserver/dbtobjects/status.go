package dbtobjects

import (
	"context"
	"time"

	"k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/quoin-dev/quoin/api/v1alpha1"
	"github.com/quoin-dev/quoin/apiserver/edit"
	"github.com/quoin-dev/quoin/internal/content/dbtsync"
	"github.com/quoin-dev/quoin/internal/reconciler"
)

// maxText is the maximum length of texts in the status, in bytes.
const maxText = 4096

// patch writes a change of the status, if there is one. It fails with a conflict if the object has changed
// since it was read.
func (o *Objects) patch(ctx context.Context, obj *v1alpha1.DbtSync, change func(*v1alpha1.DbtSyncStatus)) error {
	before := obj.DeepCopy()
	change(&obj.Status)
	if equality.Semantic.DeepEqual(before.Status, obj.Status) {
		return nil
	}
	err := o.Writer.Status().Patch(ctx, obj, client.MergeFromWithOptions(before, client.MergeFromWithOptimisticLock{}), client.FieldOwner(edit.Manager))
	return client.IgnoreNotFound(err)
}

// end ends an object without a row.
func (o *Objects) end(ctx context.Context, obj *v1alpha1.DbtSync, message string) error {
	return o.patch(ctx, obj, func(s *v1alpha1.DbtSyncStatus) {
		now := metav1.NewTime(o.Now())
		s.Stage, s.Error, s.CompletionTime = v1alpha1.DbtStageFailed, reconciler.Clip(message, maxText), &now
	})
}

// describe sets what does not change while a sync runs.
func describe(s *v1alpha1.DbtSyncStatus, p *dbtsync.Pending) {
	started := metav1.NewTime(p.StartedAt.Truncate(time.Second))
	s.StartTime, s.Branch, s.SyncJobID = &started, p.Branch, p.ID
}

// show writes the state of a row that a worker works on, or that has ended.
func (o *Objects) show(ctx context.Context, obj *v1alpha1.DbtSync, p *dbtsync.Pending) error {
	return o.patch(ctx, obj, func(s *v1alpha1.DbtSyncStatus) {
		describe(s, p)
		s.Stage = string(p.Stage)
		if p.Status == dbtsync.Running {
			return
		}
		ended := metav1.NewTime(p.CompletedAt.Truncate(time.Second))
		s.CompletionTime, s.Phases = &ended, toStatus(p)
		if p.Status == dbtsync.Completed {
			s.Stage, s.GeneratedFiles = v1alpha1.DbtStageCompleted, int32(min(p.Cubes, 1<<30)) //nolint:gosec // bounded
			return
		}
		s.Stage, s.Error = v1alpha1.DbtStageFailed, reconciler.Clip(p.Error, maxText)
	})
}

// toStatus returns the phases of a row in the form of the status.
func toStatus(p *dbtsync.Pending) []v1alpha1.DbtPhase {
	var phases []v1alpha1.DbtPhase
	for _, phase := range p.Phases {
		start := metav1.NewTime(p.StartedAt.Add(phase.Start).Truncate(time.Second))
		shown := v1alpha1.DbtPhase{
			Name: phase.Name, Outcome: v1alpha1.DbtPhaseOK, StartTime: &start, DurationMilliseconds: phase.Duration.Milliseconds(),
			Message: reconciler.Clip(phase.Message, maxText),
		}
		if !phase.OK {
			shown.Outcome = v1alpha1.DbtPhaseFailed
		}
		phases = append(phases, shown)
	}
	return phases
}

// fromStatus returns the ended phases of the pod of an object in the form of a row.
func fromStatus(obj *v1alpha1.DbtSync, started time.Time) []dbtsync.Phase {
	var phases []dbtsync.Phase
	for _, phase := range obj.Status.Phases {
		if phase.Outcome == v1alpha1.DbtPhaseRunning {
			continue
		}
		p := dbtsync.Phase{
			Name: phase.Name, OK: phase.Outcome == v1alpha1.DbtPhaseOK, Duration: time.Duration(phase.DurationMilliseconds) * time.Millisecond,
			Sandbox: true, Message: phase.Message,
		}
		if phase.StartTime != nil {
			p.Start = max(phase.StartTime.Sub(started), 0)
		}
		phases = append(phases, p)
	}
	return phases
}
