// Package cause finds the deepest reason for which a deployment is not ready, and what to do about it.
package cause

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/quoin-dev/quoin/api/v1alpha1"
	"github.com/quoin-dev/quoin/internal/channels"
	"github.com/quoin-dev/quoin/internal/masking"
	"github.com/quoin-dev/quoin/plugin/tree"
	"github.com/quoin-dev/quoin/plugin/view"
)

// Finding is what an object reports.
type Finding struct {
	// Kind and Name of the object.
	Kind string `json:"kind"`
	Name string `json:"name"`
	// Reason and Message of the object's condition, container or event.
	Reason  string `json:"reason"`
	Message string `json:"message,omitempty"`
}

// Report is the explanation of a deployment.
type Report struct {
	Namespace string `json:"namespace"`
	Name      string `json:"name"`
	// Ready reports whether the deployment and all its environments are ready.
	Ready bool `json:"ready"`
	// Waiting reports whether it is not ready, and gets there without a change by a user.
	Waiting bool `json:"waiting,omitempty"`
	// Chain are the findings from the deployment to the deepest cause.
	Chain []Finding `json:"chain"`
	// Next are the next steps, the best one first.
	Next []string `json:"next,omitempty"`
	// Unreadable are resources that the caller may not read: the cause may be there.
	Unreadable []string `json:"unreadable,omitempty"`
}

// Find explains a view.
func Find(v *view.View) Report {
	d := v.Deployment
	r := Report{Namespace: d.Namespace, Name: d.Name, Unreadable: v.Unreadable}
	ready := view.Ready(d)
	r.Chain = []Finding{{"Deployment", d.Name, ready.Reason, ready.Message}}
	if ready.Status == metav1.ConditionTrue {
		r.Ready = true
		r.addOther(v)
		r.addWait(v)
	} else {
		r.Waiting = !view.IsStalled(d)
		r.addChannel(v)
		r.addFailure(d)
		if e := production(v); e != nil {
			r.addEnvironment(v, e)
		}
	}
	r.addNext(v)
	for i := range r.Chain { // messages of events and containers may quote credentials
		r.Chain[i].Message = masking.Text(r.Chain[i].Message)
	}
	return r
}

// production returns the production environment, or nil.
func production(v *view.View) *v1alpha1.Environment {
	for i := range v.Environments {
		if v.Environments[i].Spec.Type == v1alpha1.EnvironmentProduction {
			return &v.Environments[i]
		}
	}
	return nil
}

// addOther adds the first other environment that is not ready, of a deployment that is.
func (r *Report) addOther(v *view.View) {
	for i := range v.Environments {
		e := &v.Environments[i]
		if view.Ready(e).Status != metav1.ConditionTrue {
			r.Ready, r.Waiting = false, !view.IsStalled(e)
			r.addEnvironment(v, e)
			return
		}
	}
}

// addWait adds the channel of a deployment that is ready, if a newer version waits to be rolled out: the deployment reports that
// only after half an hour.
func (r *Report) addWait(v *view.View) {
	d, e := v.Deployment, production(v)
	if !r.Ready || r.Chain[0].Reason == v1alpha1.ReasonAsleep || v.Channel == nil || e == nil || !channels.FollowerOf(d).IsBehind(v.Channel) || e.Spec.Image != d.Status.History[0].Pinned() {
		return
	}
	r.Chain = append(r.Chain, Finding{
		"ReleaseChannel", v.Channel.Name, v1alpha1.ReasonWaitingForSlot,
		"A newer version waits for a rollout slot, or for the results of the first deployments",
	})
}

// channelReasons are the reasons of deployments whose cause is in the channel.
var channelReasons = []string{v1alpha1.ReasonChannelEmpty, v1alpha1.ReasonChannelNotFound, v1alpha1.ReasonVersionStopped, v1alpha1.ReasonUnknownVersion, v1alpha1.ReasonStoreImageMissing}

func (r *Report) addChannel(v *view.View) {
	if v.Channel == nil || !slices.Contains(channelReasons, r.Chain[0].Reason) {
		return
	}
	ready := view.Ready(v.Channel)
	if ready.Status != metav1.ConditionTrue {
		r.Chain = append(r.Chain, Finding{"ReleaseChannel", v.Channel.Name, ready.Reason, ready.Message})
	} else if c := condition(v.Channel, v1alpha1.ConditionVersionStopped); c != nil {
		r.Chain = append(r.Chain, Finding{"ReleaseChannel", v.Channel.Name, c.Reason, c.Message})
	}
}

func condition(o v1alpha1.Object, name string) *metav1.Condition {
	for i, c := range o.Common().Conditions {
		if c.Type == name && c.Status == metav1.ConditionTrue {
			return &o.Common().Conditions[i]
		}
	}
	return nil
}

// addFailure adds the recorded cause of a rollout that was rolled back: its pods are gone.
func (r *Report) addFailure(d *v1alpha1.Deployment) {
	if f := d.Status.Failed; f != nil && f.Message != "" {
		r.Chain = append(r.Chain, Finding{"Version", f.Version.Version, cmp.Or(f.Reason, v1alpha1.ReasonRolloutFailed), f.Message})
	}
	if f := d.Status.FailedModel; f != nil {
		r.Chain = append(r.Chain, Finding{"Commit", f.Commit[:min(12, len(f.Commit))], f.Reason, f.Message})
	}
}

// addEnvironment adds an environment that is not ready, its branch, its pods and their events.
func (r *Report) addEnvironment(v *view.View, e *v1alpha1.Environment) {
	ready := view.Ready(e)
	if ready.Status == metav1.ConditionTrue {
		return
	}
	r.Chain = append(r.Chain, Finding{"Environment", e.Name, ready.Reason, ready.Message})
	if b := v.BranchOf(e); b != nil && view.IsStalled(b) {
		ready := view.Ready(b)
		r.Chain = append(r.Chain, Finding{"Branch", b.Spec.Name, ready.Reason, ready.Message})
	}
	pods := v.PodsOf(e.Name)
	problems := make([]problem, 0, len(pods))
	for i := range pods {
		if p, found := podProblem(&pods[i]); found {
			problems = append(problems, p)
		}
	}
	if len(problems) > 0 {
		worst := slices.MinFunc(problems, func(a, b problem) int {
			return cmp.Or(cmp.Compare(a.rank, b.rank), strings.Compare(a.Name, b.Name))
		})
		r.Chain = append(r.Chain, worst.Finding)
		r.addEvent(v, func(o corev1.ObjectReference) bool { return o.Kind == "Pod" && o.Name == worst.Name })
		return
	}
	// Pods are missing, for example because a quota does not allow them.
	r.addEvent(v, func(o corev1.ObjectReference) bool {
		return slices.Contains([]string{"ReplicaSet", "StatefulSet", "Deployment"}, o.Kind) && strings.HasPrefix(o.Name, e.Name)
	})
}

// addEvent adds the newest warning about an object.
func (r *Report) addEvent(v *view.View, about func(corev1.ObjectReference) bool) {
	for i := range v.Events {
		e := &v.Events[i]
		if e.Type == corev1.EventTypeWarning && about(e.InvolvedObject) && e.InvolvedObject.APIVersion != v1alpha1.GroupVersion.String() {
			if last := r.Chain[len(r.Chain)-1]; last.Message != e.Message {
				r.Chain = append(r.Chain, Finding{"Event", e.InvolvedObject.Kind + "/" + e.InvolvedObject.Name, e.Reason, strings.TrimSpace(e.Message)})
			}
			return
		}
	}
}

// problem is what is wrong with a pod.
type problem struct {
	Finding
	// rank orders problems: the lower, the more likely it is the cause.
	rank int
}

// Ranks of problems.
const (
	rankConfiguration = iota
	rankImage
	rankCrash
	rankSchedule
	rankModel
	rankUnready
)

// podProblem returns what is wrong with a pod.
func podProblem(pod *corev1.Pod) (problem, bool) {
	if tree.PodReady(pod) || !pod.DeletionTimestamp.IsZero() {
		return problem{}, false
	}
	at := func(rank int, reason, message string) (problem, bool) {
		return problem{Finding{"Pod", pod.Name, reason, message}, rank}, true
	}
	for _, statuses := range [][]corev1.ContainerStatus{pod.Status.InitContainerStatuses, pod.Status.ContainerStatuses} {
		for i := range statuses {
			if rank, reason, message, found := containerProblem(&statuses[i]); found {
				return at(rank, reason, message)
			}
		}
	}
	for _, c := range pod.Status.Conditions {
		switch {
		case c.Status == corev1.ConditionTrue:
		case c.Type == corev1.PodScheduled:
			return at(rankSchedule, c.Reason, c.Message)
		case c.Type == v1alpha1.PodModelCompiled && c.Message != "":
			return at(rankModel, cmp.Or(c.Reason, v1alpha1.ReasonWarmingUp), c.Message)
		}
	}
	return at(rankUnready, "NotReady", "the pod runs and is not ready: its port does not answer yet")
}

// containerProblem returns what is wrong with a container.
func containerProblem(s *corev1.ContainerStatus) (rank int, reason, message string, found bool) {
	in := "container " + s.Name
	last := s.LastTerminationState.Terminated
	switch w, t := s.State.Waiting, s.State.Terminated; {
	case w != nil && w.Reason == "CrashLoopBackOff" && last != nil:
		return rankCrash, cmp.Or(oom(last), w.Reason), fmt.Sprintf("%s ended %d times, the last time with exit code %d%s", in, s.RestartCount, last.ExitCode, detail(last.Message)), true
	case w != nil && (w.Reason == "ContainerCreating" || w.Reason == "PodInitializing" || w.Reason == ""):
		return 0, "", "", false
	case w != nil && strings.Contains(w.Reason, "Image"):
		return rankImage, w.Reason, in + detail(w.Message), true
	case w != nil && w.Reason == "CrashLoopBackOff":
		return rankCrash, w.Reason, in + detail(w.Message), true
	case w != nil:
		return rankConfiguration, w.Reason, in + detail(w.Message), true
	case t != nil && t.ExitCode != 0:
		return rankCrash, cmp.Or(oom(t), t.Reason, "Error"), fmt.Sprintf("%s ended with exit code %d%s", in, t.ExitCode, detail(t.Message)), true
	}
	return 0, "", "", false
}

// oom returns the reason of a container that needed more memory than its limit, or nothing.
func oom(t *corev1.ContainerStateTerminated) string {
	if t.Reason == "OOMKilled" {
		return t.Reason
	}
	return ""
}

func detail(text string) string {
	if text = strings.TrimSpace(text); text == "" {
		return ""
	}
	return ": " + text
}
