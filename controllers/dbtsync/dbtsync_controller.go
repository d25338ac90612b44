// Package dbtsync reconciles DbtSyncs: it runs dbt in a Job, and reports the state of the run in the
// conditions.
//
// quoin apiserver does the rest of a sync: it stores the sync, receives the manifest from the pod, converts
// it and writes the branch. The stage in the status tells whose turn it is; see apiserver/dbtobjects.
//
//	dbtsync_controller.go  the stages
//	dbtsync_job.go         the Job
//	dbtsync_pod.go         what the containers of the pod report
//	dbtsync_output.go      why dbt has failed
//	dbtsync_watches.go     the events that trigger a reconciliation
package dbtsync

import (
	"context"
	"fmt"
	"time"

	batchv1 "k8s.io/api/batch/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/clock"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/quoin-dev/quoin/api/v1alpha1"
	"github.com/quoin-dev/quoin/internal/engine"
	"github.com/quoin-dev/quoin/internal/kube"
	"github.com/quoin-dev/quoin/internal/reconciler"
)

// FieldManager is the field manager of this controller's writes.
const FieldManager = "quoin-dbtsync"

// pollInterval is the time between two reads of a Job and its pod. They are not watched: the controller may
// read Jobs only in the namespaces of accounts.
const pollInterval = 2 * time.Second

type scope = reconciler.Scope[*v1alpha1.DbtSync]

// Options configure the controller.
type Options struct {
	// QuoinImage and DbtImage are the images of the containers of the pod. Without DbtImage, syncs of Git
	// repositories are Stalled.
	QuoinImage, DbtImage string
	// URL is that of quoin apiserver for pods; empty if it has no database.
	URL string
	// AllowInsecureGit allows http:// URLs of dbt projects.
	AllowInsecureGit bool
}

// New returns the reconciler of DbtSyncs.
func New(c *kube.Client, recorder reconciler.Recorder, clk clock.PassiveClock, o Options) *reconciler.Reconciler[*v1alpha1.DbtSync] {
	r := &syncs{o}
	return &reconciler.Reconciler[*v1alpha1.DbtSync]{
		Client: c.As(FieldManager), Recorder: recorder, Clock: clk,
		New:  func() *v1alpha1.DbtSync { return &v1alpha1.DbtSync{} },
		Work: r.work,
	}
}

// syncs works on DbtSyncs.
type syncs struct{ Options }

func (r *syncs) work(ctx context.Context, s *scope) reconciler.Outcome {
	status := &s.Object.Status
	switch {
	case status.Ended():
		return r.ended(ctx, s)
	case status.Stage == v1alpha1.DbtStageInitializing, status.InSandbox():
		return r.sandbox(ctx, s)
	case status.Stage != "":
		return reconciler.Progressing(v1alpha1.ReasonProgressing, "quoin apiserver generates the data model")
	}
	err := s.Get(ctx, client.ObjectKey{Namespace: s.Object.Namespace, Name: s.Object.Spec.DeploymentRef.Name}, &v1alpha1.Deployment{})
	switch {
	case apierrors.IsNotFound(err):
		return reconciler.NotFound(v1alpha1.ReasonDeploymentNotFound, fmt.Sprintf("spec.deploymentRef: deployment %q does not exist", s.Object.Spec.DeploymentRef.Name))
	case err != nil:
		return reconciler.Failed(err)
	case ptr.Deref(s.Object.Spec.Cancelled, false):
	case s.Object.Spec.Source.Git != nil && r.DbtImage == "":
		return reconciler.Stalled(v1alpha1.ReasonDbtImageMissing, "spec.source.git: quoin controller has no --dbt-image, the image with dbt; set it, or use source.manifest")
	case r.URL == "":
		return reconciler.Stalled(v1alpha1.ReasonRepositoryUnavailable, "spec.deploymentRef: quoin controller has no --repository-url: there is no quoin apiserver with a database")
	}
	return reconciler.Progressing(v1alpha1.ReasonProgressing, "Waiting for quoin apiserver to begin, which it does when no other sync of the branch is running")
}

// ended reports the end of a run, and deletes a Job that still runs.
func (r *syncs) ended(ctx context.Context, s *scope) reconciler.Outcome {
	status := &s.Object.Status
	if s.Object.Spec.Source.Git != nil && status.Stage == v1alpha1.DbtStageFailed && status.StartTime != nil && !reported(s.Object) {
		if err := r.deleteJob(ctx, s); err != nil {
			return r.failed(s, err)
		}
	}
	switch {
	case status.Stage == v1alpha1.DbtStageCompleted:
		return reconciler.Done(fmt.Sprintf("Generated %d cubes on branch %s", status.GeneratedFiles, status.Branch))
	case ptr.Deref(s.Object.Spec.Cancelled, false), status.Error == v1alpha1.DbtCancelled:
		return reconciler.Stalled(v1alpha1.ReasonDbtSyncCancelled, "The sync was cancelled")
	}
	return reconciler.Stalled(v1alpha1.ReasonDbtSyncFailed, status.Error)
}

// reported reports whether the conditions show the end of the run.
func reported(obj *v1alpha1.DbtSync) bool {
	for _, c := range obj.Status.Conditions {
		if c.Type == v1alpha1.ConditionReady {
			return c.Reason == v1alpha1.ReasonDbtSyncFailed || c.Reason == v1alpha1.ReasonDbtSyncCancelled
		}
	}
	return false
}

// sandbox continues a run whose manifest is made by a pod.
func (r *syncs) sandbox(ctx context.Context, s *scope) reconciler.Outcome {
	job := &batchv1.Job{}
	err := s.Live().Get(ctx, client.ObjectKey{Namespace: s.Object.Namespace, Name: engine.DbtJobName(s.Object.Name)}, job)
	initializing := s.Object.Status.Stage == v1alpha1.DbtStageInitializing
	switch {
	case apierrors.IsNotFound(err) && initializing:
		return r.begin(ctx, s)
	case apierrors.IsNotFound(err):
		return r.fail(s, "the Job of the sync was deleted")
	case err != nil:
		return r.failed(s, err)
	case initializing && kube.IsOfEarlier(job, "DbtSync", s.Object):
		return reconciler.Progressing(v1alpha1.ReasonProgressing, "Waiting for the Job of an earlier DbtSync of the same name to be deleted").RequeueIn(pollInterval)
	case !metav1.IsControlledBy(job, s.Object):
		return r.fail(s, fmt.Sprintf("job %q exists and does not belong to the DbtSync: delete it", job.Name))
	case initializing:
		s.Object.Status.Stage = v1alpha1.DbtStageCreatingSandbox
	}
	pod, err := newestPod(ctx, s, job)
	if err != nil {
		return r.failed(s, err)
	}
	if pod != nil {
		follow(&s.Object.Status, pod)
	}
	switch condition := finished(job); {
	case condition == nil:
		return reconciler.Progressing(v1alpha1.ReasonProgressing, progress(&s.Object.Status, pod)).RequeueIn(pollInterval)
	case condition.Type == batchv1.JobComplete:
		s.Object.Status.Stage = v1alpha1.DbtStageProcessing
		return reconciler.Progressing(v1alpha1.ReasonProgressing, "quoin apiserver generates the data model")
	default:
		return r.fail(s, failure(&s.Object.Status, condition))
	}
}

// begin creates the Job, after the policy that denies all connections to its pod.
func (r *syncs) begin(ctx context.Context, s *scope) reconciler.Outcome {
	d := &v1alpha1.Deployment{}
	if err := s.Get(ctx, client.ObjectKey{Namespace: s.Object.Namespace, Name: s.Object.Spec.DeploymentRef.Name}, d); err != nil {
		return reconciler.Failed(err)
	}
	if r.DbtImage == "" {
		return reconciler.Stalled(v1alpha1.ReasonDbtImageMissing, "spec.source.git: quoin controller has no --dbt-image, the image with dbt; set it, or use source.manifest")
	}
	job := r.job(s.Object, d)
	// Neither write is tracked: Jobs are not cached, and the policy is not read.
	if err := s.Client.Client.Create(ctx, policy(job)); err != nil && !apierrors.IsAlreadyExists(err) {
		return r.failed(s, err)
	}
	if err := s.Client.Client.Create(ctx, job); err != nil {
		if apierrors.IsInvalid(err) {
			return r.fail(s, err.Error())
		}
		return r.failed(s, err)
	}
	s.Object.Status.Stage = v1alpha1.DbtStageCreatingSandbox
	return reconciler.Progressing(v1alpha1.ReasonProgressing, progress(&s.Object.Status, nil)).RequeueIn(pollInterval)
}

// fail ends the run with an error.
func (r *syncs) fail(s *scope, message string) reconciler.Outcome {
	status := &s.Object.Status
	now := metav1.NewTime(s.Clock.Now().UTC().Truncate(time.Second))
	for i := range status.Phases {
		if p := &status.Phases[i]; p.Outcome == v1alpha1.DbtPhaseRunning {
			p.Outcome = v1alpha1.DbtPhaseFailed
		}
	}
	status.Stage, status.Error, status.CompletionTime = v1alpha1.DbtStageFailed, reconciler.Clip(message, maxText), &now
	return reconciler.Stalled(v1alpha1.ReasonDbtSyncFailed, status.Error)
}

// failed returns the outcome of a failed call.
func (r *syncs) failed(s *scope, err error) reconciler.Outcome {
	if apierrors.IsForbidden(err) {
		return reconciler.Failing(v1alpha1.ReasonError, fmt.Sprintf(
			"Jobs are forbidden: bind ClusterRole quoin-account-controller to quoin controller with a RoleBinding in namespace %q", s.Object.Namespace), time.Minute)
	}
	return reconciler.Failed(err)
}

// deleteJob deletes the Job, and with it the pod, unless it has ended.
func (r *syncs) deleteJob(ctx context.Context, s *scope) error {
	job := &batchv1.Job{}
	err := s.Live().Get(ctx, client.ObjectKey{Namespace: s.Object.Namespace, Name: engine.DbtJobName(s.Object.Name)}, job)
	if apierrors.IsNotFound(err) {
		return nil
	}
	if err != nil || finished(job) != nil || !metav1.IsControlledBy(job, s.Object) {
		return err
	}
	err = s.Delete(ctx, job, client.Preconditions{UID: &job.UID}, client.PropagationPolicy(metav1.DeletePropagationBackground))
	return client.IgnoreNotFound(err)
}
