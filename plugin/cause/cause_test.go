package cause

import (
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/quoin-dev/quoin/api/v1alpha1"
	"github.com/quoin-dev/quoin/plugin/view"
)

func status(ready metav1.ConditionStatus, stalled bool, reason, message string) v1alpha1.CommonStatus {
	s := v1alpha1.CommonStatus{Conditions: []metav1.Condition{{Type: v1alpha1.ConditionReady, Status: ready, Reason: reason, Message: message}}}
	if stalled {
		s.Conditions = append(s.Conditions, metav1.Condition{Type: v1alpha1.ConditionStalled, Status: metav1.ConditionTrue, Reason: reason})
	}
	return s
}

// rolling is a deployment whose production environment has one pod that is not ready.
func rolling() *view.View {
	d := &v1alpha1.Deployment{ObjectMeta: metav1.ObjectMeta{Name: "sales", Namespace: "acme"}}
	d.Spec.ReleaseChannel = "stable"
	d.Status.CommonStatus = status("Unknown", false, v1alpha1.ReasonRollingOut, "Version 1.2.4 is being rolled out")
	e := v1alpha1.Environment{ObjectMeta: metav1.ObjectMeta{Name: "sales-production"}}
	e.Spec.Type = v1alpha1.EnvironmentProduction
	e.Status.CommonStatus = status("Unknown", false, v1alpha1.ReasonWorkloadsNotReady, "api: 0 of 1 ready")
	c := &v1alpha1.ReleaseChannel{ObjectMeta: metav1.ObjectMeta{Name: "stable"}}
	c.Status.CommonStatus = status("True", false, v1alpha1.ReasonSucceeded, "")
	p := corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: "pod-1", Labels: map[string]string{v1alpha1.LabelEnvironment: e.Name}}}
	return &view.View{Deployment: d, Channel: c, Environments: []v1alpha1.Environment{e}, Pods: []corev1.Pod{p}}
}

// container sets the state of the only container of the first pod.
func container(v *view.View, s corev1.ContainerStatus) {
	s.Name = "cube"
	v.Pods[0].Status.ContainerStatuses = []corev1.ContainerStatus{s}
}

func waiting(reason, message string) corev1.ContainerState {
	return corev1.ContainerState{Waiting: &corev1.ContainerStateWaiting{Reason: reason, Message: message}}
}

// top are the findings above the pods.
const top = "Deployment sales RollingOut | Environment sales-production WorkloadsNotReady"

// cases are views, and what is found.
var cases = map[string]struct {
	change func(*view.View)
	// chain are kind, name and reason of the findings; next is a part of the first step.
	chain, next string
	waiting     bool
}{
	"image": {func(v *view.View) {
		container(v, corev1.ContainerStatus{State: waiting("ImagePullBackOff", "back-off")})
	}, top + " | Pod pod-1 ImagePullBackOff", "imagePullSecrets", true},
	"image with event": {func(v *view.View) {
		container(v, corev1.ContainerStatus{State: waiting("ErrImagePull", "")})
		v.Events = []corev1.Event{
			{Type: "Normal", Reason: "Pulling", InvolvedObject: corev1.ObjectReference{Kind: "Pod", Name: "pod-1"}},
			{Type: "Warning", Reason: "Failed", Message: "manifest unknown", InvolvedObject: corev1.ObjectReference{Kind: "Pod", Name: "pod-1"}},
			{Type: "Warning", Reason: "Other", InvolvedObject: corev1.ObjectReference{Kind: "Pod", Name: "pod-2"}},
		}
	}, top + " | Pod pod-1 ErrImagePull | Event Pod/pod-1 Failed", "imagePullSecrets", true},
	"secret": {func(v *view.View) {
		container(v, corev1.ContainerStatus{State: waiting("CreateContainerConfigError", `secret "db" not found`)})
	}, top + " | Pod pod-1 CreateContainerConfigError", "create the Secret", true},
	"crash": {func(v *view.View) {
		container(v, corev1.ContainerStatus{State: waiting("CrashLoopBackOff", ""), RestartCount: 3, LastTerminationState: corev1.ContainerState{Terminated: &corev1.ContainerStateTerminated{ExitCode: 1}}})
	}, top + " | Pod pod-1 CrashLoopBackOff", "kubectl logs pod-1 -n acme --previous", true},
	"memory": {func(v *view.View) {
		container(v, corev1.ContainerStatus{State: waiting("CrashLoopBackOff", ""), LastTerminationState: corev1.ContainerState{Terminated: &corev1.ContainerStateTerminated{Reason: "OOMKilled", ExitCode: 137}}})
	}, top + " | Pod pod-1 OOMKilled", "memory limit", true},
	"unschedulable": {func(v *view.View) {
		v.Pods[0].Status.Conditions = []corev1.PodCondition{{Type: corev1.PodScheduled, Status: "False", Reason: "Unschedulable", Message: "0/3 nodes"}}
	}, top + " | Pod pod-1 Unschedulable", "add nodes", true},
	"configuration before image": {func(v *view.View) {
		container(v, corev1.ContainerStatus{State: waiting("ImagePullBackOff", "")})
		other := v.Pods[0].DeepCopy()
		other.Name, other.Status.ContainerStatuses[0].State = "pod-2", waiting("CreateContainerConfigError", "")
		v.Pods = append(v.Pods, *other)
	}, top + " | Pod pod-2 CreateContainerConfigError", "create the Secret", true},
	"no pods": {func(v *view.View) {
		v.Pods = nil
		v.Events = []corev1.Event{{Type: "Warning", Reason: "FailedCreate", Message: "exceeded quota", InvolvedObject: corev1.ObjectReference{Kind: "ReplicaSet", Name: "sales-production-api-5d"}}}
	}, top + " | Event ReplicaSet/sales-production-api-5d FailedCreate", "quota", true},
	"some pods": {func(v *view.View) {
		v.Pods[0].Status.Conditions = []corev1.PodCondition{{Type: corev1.PodReady, Status: "True"}}
		v.Events = []corev1.Event{{Type: "Warning", Reason: "FailedCreate", Message: "exceeded quota", InvolvedObject: corev1.ObjectReference{Kind: "ReplicaSet", Name: "sales-production-api-5d"}}}
	}, top + " | Event ReplicaSet/sales-production-api-5d FailedCreate", "quota", true},
	"pods not readable": {func(v *view.View) { v.Pods = nil }, top, "wait", true},
	"failed version": {func(v *view.View) {
		v.Environments, v.Pods = nil, nil
		v.Deployment.Status.CommonStatus = status("False", true, v1alpha1.ReasonRolloutFailed, "rolled back")
		v.Deployment.Status.Failed = &v1alpha1.FailedRollout{Version: v1alpha1.VersionRun{Version: "1.2.4"}, Message: "pods crash"}
	}, "Deployment sales RolloutFailed | Version 1.2.4 RolloutFailed", "kubectl quoin retry sales -n acme", false},
	"broken model": {func(v *view.View) {
		v.Environments, v.Pods = nil, nil
		v.Deployment.Status.CommonStatus = status("False", true, v1alpha1.ReasonModelBroken, "")
		v.Deployment.Status.FailedModel = &v1alpha1.FailedModel{Commit: strings.Repeat("a", 40), Reason: v1alpha1.ReasonModelBroken, Message: "orders.yml: no sql"}
	}, "Deployment sales ModelBroken | Commit aaaaaaaaaaaa ModelBroken", "correct the data model", false},
	"channel": {func(v *view.View) {
		v.Environments, v.Pods = nil, nil
		v.Deployment.Status.CommonStatus = status("False", true, v1alpha1.ReasonChannelEmpty, "")
		v.Channel.Status.CommonStatus = status("Unknown", false, v1alpha1.ReasonScanFailed, "connection refused")
	}, "Deployment sales ReleaseChannelEmpty | ReleaseChannel stable ScanFailed", "address of the registry", false},
	"staging of a ready deployment": {func(v *view.View) {
		v.Deployment.Status.CommonStatus = status("True", false, v1alpha1.ReasonSucceeded, "")
		e := &v.Environments[0]
		e.Spec.Type, e.Spec.BranchRef = v1alpha1.EnvironmentStaging, &v1alpha1.LocalReference{Name: "sales-next"}
		e.Status.CommonStatus = status("False", true, v1alpha1.ReasonBranchNotFound, "")
		b := v1alpha1.Branch{ObjectMeta: metav1.ObjectMeta{Name: "sales-next"}, Spec: v1alpha1.BranchSpec{Name: "next"}}
		b.Status.CommonStatus = status("False", true, v1alpha1.ReasonBranchNotFound, "no such branch")
		v.Branches, v.Pods = []v1alpha1.Branch{b}, nil
	}, "Deployment sales Succeeded | Environment sales-production BranchNotFound | Branch next BranchNotFound", "push the branch", false},
	"not reconciled": {func(v *view.View) {
		v.Environments, v.Pods, v.Deployment.Status = nil, nil, v1alpha1.DeploymentStatus{}
	}, "Deployment sales NotReported", "controller runs", true},
}

func TestFind(t *testing.T) {
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			v := rolling()
			c.change(v)
			r := Find(v)
			var chain []string
			for _, f := range r.Chain {
				chain = append(chain, fmt.Sprintf("%s %s %s", f.Kind, f.Name, f.Reason))
			}
			if diff := cmp.Diff(c.chain, strings.Join(chain, " | ")); diff != "" {
				t.Errorf("chain (-want +got):\n%s", diff)
			}
			if r.Ready || r.Waiting != c.waiting || len(r.Next) == 0 || !strings.Contains(r.Next[0], c.next) {
				t.Errorf("%+v, want waiting %v and a step with %q", r, c.waiting, c.next)
			}
		})
	}
}

// A ready deployment has no next step.
func TestReady(t *testing.T) {
	v := rolling()
	v.Deployment.Status.CommonStatus = status("True", false, v1alpha1.ReasonSucceeded, "Production runs 1.2.3")
	v.Environments[0].Status.CommonStatus = status("True", false, v1alpha1.ReasonSucceeded, "")
	if r := Find(v); !r.Ready || len(r.Chain) != 1 || len(r.Next) != 0 {
		t.Errorf("%+v", r)
	}
}

// A ready deployment whose channel has a newer version explains that it waits, unless the rollout has begun.
func TestReadyDeploymentWaits(t *testing.T) {
	v := rolling()
	v.Deployment.Status.CommonStatus = status("True", false, v1alpha1.ReasonSucceeded, "Production runs 1.2.3")
	v.Deployment.Status.History = []v1alpha1.VersionRun{{Version: "1.2.3", ReleaseChannel: "stable", Image: "registry.example.com/cube:v1.2.3"}}
	v.Channel.Status.Versions = []v1alpha1.ChannelVersion{
		{Version: "1.2.4", Image: "registry.example.com/cube:v1.2.4"}, {Version: "1.2.3", Image: "registry.example.com/cube:v1.2.3"},
	}
	e := &v.Environments[0]
	e.Spec.Image, e.Status.CommonStatus = v.Deployment.Status.History[0].Pinned(), status("True", false, v1alpha1.ReasonSucceeded, "")
	r := Find(v)
	if !r.Ready || len(r.Chain) != 2 || r.Chain[1].Reason != v1alpha1.ReasonWaitingForSlot || len(r.Next) != 1 || !strings.Contains(r.Next[0], "pin sales") {
		t.Errorf("%+v, want the channel with %s", r, v1alpha1.ReasonWaitingForSlot)
	}
	e.Spec.Image = "registry.example.com/cube:v1.2.4"
	if r := Find(v); !r.Ready || len(r.Chain) != 1 {
		t.Errorf("after the start: %+v", r)
	}
	e.Spec.Image = v.Deployment.Status.History[0].Pinned()
	v.Deployment.Spec.Hold = new(true)
	if r := Find(v); len(r.Chain) != 1 {
		t.Errorf("held: %+v", r)
	}
	v.Deployment.Spec.Hold = nil
	v.Deployment.Status.Conditions[0].Reason = v1alpha1.ReasonAsleep // its message says that the version waits
	if r := Find(v); len(r.Chain) != 1 {
		t.Errorf("asleep: %+v", r)
	}
}

// Messages of events may quote a password: it is not printed.
func TestCredentialsAreHidden(t *testing.T) {
	v := rolling()
	container(v, corev1.ContainerStatus{State: waiting("ErrImagePull", "GET https://user:hunter2@registry.example.com/v2: password=hunter2")})
	if r := Find(v); strings.Contains(fmt.Sprint(r), "hunter2") {
		t.Errorf("%+v", r)
	}
}

// Every step names only placeholders that are replaced.
func TestStepsHaveNoOtherPlaceholders(t *testing.T) {
	v := rolling()
	for reason := range steps {
		v.Deployment.Status.CommonStatus = status("False", true, reason, "")
		v.Environments = nil
		for _, step := range Find(v).Next {
			if strings.ContainsAny(step, "{}") {
				t.Errorf("%s: %s", reason, step)
			}
		}
	}
}
