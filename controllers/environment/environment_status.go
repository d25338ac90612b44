package environment

import (
	"context"
	"fmt"
	"regexp"
	"slices"
	"strings"
	"time"
	"unicode"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/log"

	"github.com/quoin-dev/quoin/api/v1alpha1"
	"github.com/quoin-dev/quoin/internal/engine"
	"github.com/quoin-dev/quoin/internal/masking"
	"github.com/quoin-dev/quoin/internal/reconciler"
)

// progress is the state of the rollout of a workload.
type progress struct {
	name, component                  string
	desired, current, updated, ready int32
	observed, deadlineExceeded       bool
}

// complete reports whether all pods have the current template and are ready.
func (p progress) complete() bool {
	return p.observed && p.updated == p.desired && p.ready == p.desired && p.current == p.desired
}

// started reports whether there are pods with the current template, or none are desired.
func (p progress) started() bool {
	return p.deadlineExceeded || p.observed && (p.updated > 0 || p.desired == 0)
}

// milestone is what the outcome of an environment depends on.
type milestone struct{ complete, started, available, deadlineExceeded bool }

func (p progress) milestone() milestone {
	return milestone{p.complete(), p.started(), p.ready > 0, p.deadlineExceeded}
}

func (p progress) String() string {
	// Pods of earlier templates are assumed to be ready.
	ready := max(0, p.ready-(p.current-p.updated))
	if !p.observed {
		ready = 0
	}
	return fmt.Sprintf("%s: %d of %d pods are up to date and ready", p.component, min(ready, p.desired), p.desired)
}

// observe sets the environment's status from its workloads. It also reports whether the rollout
// of an incomplete workload has started.
func observe(env *v1alpha1.Environment, workloads []client.Object) (reconciler.Outcome, bool) {
	var incomplete []string
	deadlineExceeded, started := false, false
	status := &env.Status
	for _, w := range workloads {
		if p := progressOf(w); !p.complete() {
			incomplete = append(incomplete, p.String())
			deadlineExceeded, started = deadlineExceeded || p.deadlineExceeded, started || p.started()
		}
	}
	count(env, workloads)
	switch {
	case len(incomplete) == 0:
		status.Version, status.Image, status.ModelCommit = env.Spec.Version, env.Spec.Image, env.Spec.ModelCommit
		if status.Replicas == 0 {
			return reconciler.Done("Scaled to zero").WithReason(v1alpha1.ReasonAsleep), true
		}
		return reconciler.Done("All pods run version " + env.Spec.Version), true
	case deadlineExceeded:
		return reconciler.Stalled(v1alpha1.ReasonDeadlineExceeded, strings.Join(incomplete, "; ")), started
	}
	return reconciler.Progressing(v1alpha1.ReasonWorkloadsNotReady, strings.Join(incomplete, "; ")), started
}

// count sets the numbers of API pods in the status, and whether one of them is ready.
func count(env *v1alpha1.Environment, workloads []client.Object) {
	status := &env.Status
	for _, w := range workloads {
		if p := progressOf(w); p.name == engine.APIName(env.Name) {
			status.Replicas, status.ReadyReplicas, status.UpdatedReplicas = p.current, p.ready, p.updated
			status.Active = p.ready > 0
		}
	}
	setAvailable(env)
}

// incompleteStore describes the progress of the store's workloads that are not complete; empty if all are.
func incompleteStore(workloads []client.Object) string {
	var incomplete []string
	for _, w := range workloads {
		if _, isStore := w.(*appsv1.StatefulSet); !isStore {
			continue
		}
		if p := progressOf(w); !p.complete() {
			incomplete = append(incomplete, p.String())
		}
	}
	return strings.Join(incomplete, "; ")
}

// recordBuild sets the time of the last build when that of a generation has ended, or the files of a
// ConfigMap have changed, whose hash before is given. Ready alone does not show it: in a fast rollout it
// stays True.
func recordBuild(env *v1alpha1.Environment, filesBefore string, o reconciler.Outcome, now time.Time) {
	hasEnded := (o.IsDone() || o.IsStalled()) && env.Status.ObservedGeneration != env.Generation
	if hasEnded || filesBefore != "" && filesBefore != env.Status.ModelHash {
		env.Status.LastBuildTime = ptr.To(metav1.NewTime(now))
	}
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
		p.desired, p.current = ptr.Deref(w.Spec.Replicas, 1), w.Status.Replicas
		p.updated, p.ready = w.Status.UpdatedReplicas, w.Status.AvailableReplicas
		p.observed = w.Status.ObservedGeneration >= w.Generation
		for _, c := range w.Status.Conditions {
			exceeded := c.Type == appsv1.DeploymentProgressing && c.Status == corev1.ConditionFalse && c.Reason == "ProgressDeadlineExceeded"
			p.deadlineExceeded = p.deadlineExceeded || (exceeded && p.observed)
		}
	case *appsv1.StatefulSet:
		p.desired, p.current = ptr.Deref(w.Spec.Replicas, 1), w.Status.Replicas
		p.updated, p.ready = w.Status.UpdatedReplicas, w.Status.AvailableReplicas
		p.observed = w.Status.ObservedGeneration >= w.Generation
		if w.Status.CurrentRevision == w.Status.UpdateRevision {
			// When all pods are updated, updatedReplicas may be zero.
			p.updated = max(p.updated, w.Status.CurrentReplicas)
		}
	}
	return p
}

// explain adds the problem of a pod to the outcome of a slow rollout.
func (r *environmentReconciler) explain(ctx context.Context, s *scope, in engine.Inputs, o reconciler.Outcome) reconciler.Outcome {
	pods := &corev1.PodList{}
	err := s.Live().List(ctx, pods, client.InNamespace(s.Object.Namespace),
		client.MatchingLabels{v1alpha1.LabelEnvironment: s.Object.Name}, client.Limit(100))
	if err != nil {
		// The outcome is still correct without it.
		log.FromContext(ctx).Error(err, "Cannot list the pods")
		return o.RequeueIn(reportInterval)
	}
	problem, isSecretMissing := "", false
	for i := range pods.Items {
		p := podProblem(&pods.Items[i])
		isSecretMissing = isSecretMissing || strings.Contains(p, "CreateContainerConfigError")
		if p != "" && (problem == "" || p < problem) {
			problem = p
		}
	}
	if isSecretMissing { // perhaps one of the environment
		if recreated := r.recreateCredentials(ctx, s, in, o); recreated != nil {
			return *recreated
		}
	}
	if problem != "" {
		o = o.WithDetail(problem)
	}
	return o.RequeueIn(reportInterval)
}

// podProblem returns why a pod is not ready, without its name, so that the text is the same for
// all pods and at all times; empty if there is no problem. It contains no secrets.
func podProblem(pod *corev1.Pod) string {
	if !pod.DeletionTimestamp.IsZero() {
		return ""
	}
	statuses := append(append([]corev1.ContainerStatus{}, pod.Status.InitContainerStatuses...), pod.Status.ContainerStatuses...)
	for _, c := range statuses {
		if w := c.State.Waiting; w != nil && w.Reason != "" && w.Reason != "ContainerCreating" && w.Reason != "PodInitializing" {
			problem := fmt.Sprintf("container %s: %s", c.Name, w.Reason)
			if t := c.LastTerminationState.Terminated; t != nil && t.ExitCode != 0 && w.Reason == "CrashLoopBackOff" {
				problem += fmt.Sprintf(", exit code %d", t.ExitCode) + errorOf(t.Message, pod)
			}
			return problem
		}
		if t := c.State.Terminated; t != nil && t.ExitCode != 0 {
			return fmt.Sprintf("container %s: exit code %d", c.Name, t.ExitCode) + errorOf(t.Message, pod)
		}
	}
	for _, c := range pod.Status.Conditions {
		if c.Type == corev1.PodScheduled && c.Status == corev1.ConditionFalse {
			return "pods cannot be scheduled: " + c.Reason
		}
	}
	return ""
}

// maxTerminationMessage is the length to which the kubelet limits the end of a log, in bytes.
const maxTerminationMessage = 2048

// maxErrorLength is the maximum length of the error of a container in a condition, in bytes.
const maxErrorLength = 256

var (
	// noise matches lines that do not describe an error: of stack traces, and the version that Node.js adds.
	noise = regexp.MustCompile(`^\s*(at .*|Node\.js v\S*|[\W_]*)$`)
	// errorLine matches the line of an error, before which there may be the source line, and after which the stack.
	errorLine = regexp.MustCompile(`(?i)\b\w*(error|exception|panic|fatal)\b`)
	// timestamp is removed, so that the text is the same after each restart.
	timestamp = regexp.MustCompile(`\[?\d{4}-\d\d-\d\d[T ][\d:.,]+(Z|[+-]\d\d:?\d\d)?\]?\s*`)
	colors    = regexp.MustCompile("\x1b\\[[0-9;]*m")
)

// errorOf returns the last line with an error of a container's termination message, which is the end of its log
// (TerminationMessageFallbackToLogsOnError), after a colon; empty if there is no line.
func errorOf(message string, pod *corev1.Pod) string {
	lines := strings.Split(secretsOf(pod).Replacer().Replace(colors.ReplaceAllString(message, "")), "\n")
	if len(message) >= maxTerminationMessage {
		lines = lines[1:] // its beginning is missing: a secret in it would not be recognized
	}
	masking.Lines(lines)
	lines = slices.DeleteFunc(lines, noise.MatchString)
	found := ""
	if len(lines) > 0 {
		found = lines[len(lines)-1]
	}
	for _, line := range slices.Backward(lines) {
		if errorLine.MatchString(line) {
			found = line
			break
		}
	}
	found = strings.Join(strings.FieldsFunc(timestamp.ReplaceAllString(found, ""), func(r rune) bool { return unicode.IsSpace(r) || unicode.IsControl(r) }), " ")
	if found == "" {
		return ""
	}
	return ": " + reconciler.Clip(found, maxErrorLength)
}

// secretsOf returns the secrets among the variables of a pod whose values are in its spec. The controller does not read
// Secrets: those in them are recognized by their form only.
func secretsOf(pod *corev1.Pod) *masking.Known {
	secrets := &masking.Known{}
	for _, containers := range [][]corev1.Container{pod.Spec.InitContainers, pod.Spec.Containers} {
		for i := range containers {
			for _, v := range containers[i].Env {
				if masking.IsSecret(v.Name) {
					secrets.Add(v.Name, strings.ReplaceAll(v.Value, "$$", "$")) // as the kubelet expands it
				}
			}
		}
	}
	return secrets
}
