package environment

import (
	"context"
	"fmt"
	"strings"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/log"

	"github.com/quoin-dev/quoin/api/v1alpha1"
	"github.com/quoin-dev/quoin/internal/engine"
	"github.com/quoin-dev/quoin/internal/reconciler"
)

// progress is how far a workload is.
type progress struct {
	name                            string
	wanted, present, updated, ready int32
	observed, late                  bool
	component                       string
}

// complete tells whether every pod is of the newest template and ready.
func (p progress) complete() bool {
	return p.observed && p.updated == p.wanted && p.ready == p.wanted && p.present == p.wanted
}

// begun tells whether there is something to see: pods with the new settings, or none wanted.
func (p progress) begun() bool {
	return p.late || p.observed && (p.updated > 0 || p.wanted == 0)
}

func (p progress) String() string {
	// Pods of an older template are taken to be ready: they were before.
	ready := max(0, p.ready-(p.present-p.updated))
	if !p.observed {
		ready = 0
	}
	return fmt.Sprintf("%s: %d of %d pods are up to date and ready", p.component, min(ready, p.wanted), p.wanted)
}

// observe writes what the workloads do into the environment's status. It also tells whether
// a workload that is not complete has begun.
func observe(env *v1alpha1.Environment, workloads []client.Object) (reconciler.Outcome, bool) {
	var open []string
	late, begun := false, false
	status := &env.Status
	for _, w := range workloads {
		p := progressOf(w)
		if p.name == engine.APIName(env.Name) {
			status.Replicas, status.ReadyReplicas, status.UpdatedReplicas = p.present, p.ready, p.updated
			status.Active = p.ready > 0
		}
		if !p.complete() {
			open = append(open, p.String())
			late, begun = late || p.late, begun || p.begun()
		}
	}
	setAvailable(env)
	switch {
	case len(open) == 0:
		status.Version, status.Image, status.ModelCommit = env.Spec.Version, env.Spec.Image, env.Spec.ModelCommit
		if status.Replicas == 0 {
			return reconciler.Done("Scaled to nothing on purpose").WithReason(v1alpha1.ReasonAsleep), true
		}
		return reconciler.Done("All pods run version " + env.Spec.Version), true
	case late:
		return reconciler.Stalled(v1alpha1.ReasonDeadlineExceeded, strings.Join(open, "; ")), begun
	}
	return reconciler.Progressing(v1alpha1.ReasonWorkloadsNotReady, strings.Join(open, "; ")), begun
}

func setAvailable(env *v1alpha1.Environment) {
	c := metav1.Condition{
		Type: v1alpha1.ConditionAvailable, Status: metav1.ConditionTrue, ObservedGeneration: env.Generation,
		Reason: v1alpha1.ReasonSucceeded, Message: "At least one API pod is ready",
	}
	if !env.Status.Active {
		c.Status, c.Reason, c.Message = metav1.ConditionFalse, v1alpha1.ReasonWorkloadsNotReady, "No API pod is ready"
	}
	meta.SetStatusCondition(&env.Status.Conditions, c)
}

func progressOf(w client.Object) progress {
	p := progress{name: w.GetName(), component: w.GetLabels()["app.kubernetes.io/component"]}
	switch w := w.(type) {
	case *appsv1.Deployment:
		p.wanted, p.present = ptr.Deref(w.Spec.Replicas, 1), w.Status.Replicas
		p.updated, p.ready = w.Status.UpdatedReplicas, w.Status.AvailableReplicas
		p.observed = w.Status.ObservedGeneration >= w.Generation
		for _, c := range w.Status.Conditions {
			late := c.Type == appsv1.DeploymentProgressing && c.Status == corev1.ConditionFalse && c.Reason == "ProgressDeadlineExceeded"
			p.late = p.late || (late && p.observed)
		}
	case *appsv1.StatefulSet:
		p.wanted, p.present = ptr.Deref(w.Spec.Replicas, 1), w.Status.Replicas
		p.updated, p.ready = w.Status.UpdatedReplicas, w.Status.AvailableReplicas
		p.observed = w.Status.ObservedGeneration >= w.Generation
		if w.Status.CurrentRevision == w.Status.UpdateRevision {
			// Once nothing is left to update, the counter may stay empty.
			p.updated = max(p.updated, w.Status.CurrentReplicas)
		}
	}
	return p
}

// explain adds what is wrong with the pods of an environment that takes its time.
func (r *environmentReconciler) explain(ctx context.Context, s *scope, in engine.Inputs, o reconciler.Outcome) reconciler.Outcome {
	pods := &corev1.PodList{}
	err := s.Live().List(ctx, pods, client.InNamespace(s.Object.Namespace),
		client.MatchingLabels{v1alpha1.LabelEnvironment: s.Object.Name}, client.Limit(100))
	if err != nil {
		// The explanation is missing; what there is to say remains true.
		log.FromContext(ctx).Error(err, "Cannot look at the pods")
		return o.RequeueIn(lookAgain)
	}
	trouble := ""
	for i := range pods.Items {
		if t := podTrouble(&pods.Items[i]); t != "" && (trouble == "" || t < trouble) {
			trouble = t
		}
	}
	if strings.Contains(trouble, "CreateContainerConfigError") {
		// Perhaps somebody deleted the environment's secrets: they are made again.
		if err := r.makeCredentials(ctx, s, in); err != nil {
			return reconciler.Failed(err)
		}
	}
	if trouble != "" {
		o = o.WithDetail(trouble)
	}
	return o.RequeueIn(lookAgain)
}

// podTrouble says what keeps a pod from being ready, in words that do not change from look
// to look and do not name the pod.
func podTrouble(pod *corev1.Pod) string {
	if !pod.DeletionTimestamp.IsZero() {
		return ""
	}
	statuses := append(append([]corev1.ContainerStatus{}, pod.Status.InitContainerStatuses...), pod.Status.ContainerStatuses...)
	for _, c := range statuses {
		if w := c.State.Waiting; w != nil && w.Reason != "" && w.Reason != "ContainerCreating" && w.Reason != "PodInitializing" {
			return fmt.Sprintf("container %s: %s", c.Name, w.Reason)
		}
		if t := c.State.Terminated; t != nil && t.ExitCode != 0 {
			return fmt.Sprintf("container %s: exit code %d", c.Name, t.ExitCode)
		}
	}
	for _, c := range pod.Status.Conditions {
		if c.Type == corev1.PodScheduled && c.Status == corev1.ConditionFalse {
			return "pods cannot be scheduled: " + c.Reason
		}
	}
	return ""
}
