package dbtsync

import (
	"cmp"
	"context"
	"fmt"
	"strings"
	"time"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/quoin-dev/quoin/api/v1alpha1"
	"github.com/quoin-dev/quoin/internal/reconciler"
)

const (
	// maxText is the maximum length of texts in the status, in bytes.
	maxText = 4096
	// maxPods bounds the pods that are read of a Job: one, and those that were evicted.
	maxPods = 20
)

// stages are the stages by phase.
var stages = map[string]string{
	phaseClone: v1alpha1.DbtStageCloning, phaseDeps: v1alpha1.DbtStageDeps, phaseCompile: v1alpha1.DbtStageCompiling,
	phaseCatalog: v1alpha1.DbtStageCompiling, phaseSelect: v1alpha1.DbtStageCompiling, phaseDeliver: v1alpha1.DbtStageCompiling,
}

// newestPod returns the newest pod of a Job; nil if there is none.
func newestPod(ctx context.Context, s *scope, job *batchv1.Job) (*corev1.Pod, error) {
	list := &corev1.PodList{}
	err := s.Live().List(ctx, list, client.InNamespace(job.Namespace), client.MatchingLabels{batchv1.ControllerUidLabel: string(job.UID)}, client.Limit(maxPods))
	if err != nil {
		return nil, fmt.Errorf("read the pod of the Job: %w", err)
	}
	var newest *corev1.Pod
	for i := range list.Items {
		pod := &list.Items[i]
		if newest == nil || newest.CreationTimestamp.Before(&pod.CreationTimestamp) {
			newest = pod
		}
	}
	return newest, nil
}

// finished returns the condition of a Job that has ended; nil if it runs.
func finished(job *batchv1.Job) *batchv1.JobCondition {
	for i := range job.Status.Conditions {
		c := &job.Status.Conditions[i]
		if c.Status == corev1.ConditionTrue && (c.Type == batchv1.JobComplete || c.Type == batchv1.JobFailed) {
			return c
		}
	}
	return nil
}

// follow sets the stage and the phases from the containers of the pod.
func follow(status *v1alpha1.DbtSyncStatus, pod *corev1.Pod) {
	var phases []v1alpha1.DbtPhase
	for _, containers := range [][]corev1.ContainerStatus{pod.Status.InitContainerStatuses, pod.Status.ContainerStatuses} {
		for i := range containers {
			c := &containers[i]
			phase, begun := phaseOf(c)
			if !begun {
				continue
			}
			phases = append(phases, phase)
			if stage, known := stages[c.Name]; known {
				status.Stage = stage
			}
		}
	}
	status.Phases = phases
}

// phaseOf returns the phase of a container, and whether it has begun.
func phaseOf(c *corev1.ContainerStatus) (v1alpha1.DbtPhase, bool) {
	phase := v1alpha1.DbtPhase{Name: c.Name, Outcome: v1alpha1.DbtPhaseRunning}
	switch ended := c.State.Terminated; {
	case ended != nil:
		phase.Outcome, phase.StartTime = v1alpha1.DbtPhaseOK, timeOf(ended.StartedAt)
		phase.DurationMilliseconds = max(ended.FinishedAt.Sub(ended.StartedAt.Time).Milliseconds(), 0)
		if ended.ExitCode != 0 {
			phase.Outcome, phase.Message = v1alpha1.DbtPhaseFailed, reconciler.Clip(explain(ended), maxText)
		}
	case c.State.Running != nil:
		phase.StartTime = timeOf(c.State.Running.StartedAt)
	default:
		return phase, false
	}
	return phase, true
}

func timeOf(t metav1.Time) *metav1.Time {
	if t.IsZero() {
		return nil
	}
	return &metav1.Time{Time: t.UTC().Truncate(time.Second)}
}

// explain returns why a container has failed.
func explain(ended *corev1.ContainerStateTerminated) string {
	if ended.Reason == "OOMKilled" {
		return "the container was ended because it used too much memory"
	}
	return cmp.Or(causeOf(strings.ToValidUTF8(ended.Message, "")), fmt.Sprintf("the container ended with exit code %d and no message", ended.ExitCode))
}

// progress returns what the pod does.
func progress(status *v1alpha1.DbtSyncStatus, pod *corev1.Pod) string {
	for _, phase := range status.Phases {
		if phase.Outcome == v1alpha1.DbtPhaseRunning {
			return "The pod runs " + phase.Name
		}
	}
	if pod == nil {
		return "Creating the pod that runs dbt"
	}
	if reason := waitingReason(pod); reason != "" {
		return "The pod that runs dbt is waiting: " + reason
	}
	return "The pod that runs dbt is starting"
}

// waitingReason returns why a pod does not run, if it may need a user: the scheduler finds no node, an image cannot be
// pulled, or a Secret does not exist.
func waitingReason(pod *corev1.Pod) string {
	for _, c := range pod.Status.Conditions {
		if c.Type == corev1.PodScheduled && c.Status == corev1.ConditionFalse {
			return reconciler.Clip(c.Message, maxText/4)
		}
	}
	for _, c := range append(pod.Status.InitContainerStatuses, pod.Status.ContainerStatuses...) {
		if w := c.State.Waiting; w != nil && strings.Contains(w.Reason, "Pull") {
			return fmt.Sprintf("image %s of container %s cannot be pulled", c.Image, c.Name)
		} else if w != nil && w.Reason == "CreateContainerConfigError" {
			return fmt.Sprintf("container %s cannot be created: %s", c.Name, reconciler.Clip(w.Message, maxText/4))
		}
	}
	return ""
}

// failure returns why a Job has failed: the text of the phase that has, or that of the Job.
func failure(status *v1alpha1.DbtSyncStatus, condition *batchv1.JobCondition) string {
	for _, phase := range status.Phases {
		if phase.Outcome == v1alpha1.DbtPhaseFailed && phase.Message != "" {
			return phase.Name + ": " + phase.Message
		}
	}
	if condition.Reason == batchv1.JobReasonDeadlineExceeded {
		running := ""
		for _, phase := range status.Phases {
			if phase.Outcome == v1alpha1.DbtPhaseRunning {
				running = ", in " + phase.Name
			}
		}
		return fmt.Sprintf("the pod did not end within %s%s", deadlineSeconds*time.Second, running)
	}
	return "the Job has failed: " + cmp.Or(condition.Message, condition.Reason)
}
