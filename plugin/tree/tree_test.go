package tree

import (
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	"github.com/quoin-dev/quoin/api/v1alpha1"
	"github.com/quoin-dev/quoin/plugin/view"
)

func condition(status metav1.ConditionStatus, reason string) v1alpha1.CommonStatus {
	return v1alpha1.CommonStatus{Conditions: []metav1.Condition{{Type: v1alpha1.ConditionReady, Status: status, Reason: reason}}}
}

func stalled(reason string) v1alpha1.CommonStatus {
	s := condition(metav1.ConditionFalse, reason)
	s.Conditions = append(s.Conditions, metav1.Condition{Type: v1alpha1.ConditionStalled, Status: metav1.ConditionTrue, Reason: reason})
	return s
}

// pod returns an API pod that runs a version.
func pod(name, version string, ready corev1.ConditionStatus, waiting string) corev1.Pod {
	p := corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: name, Labels: map[string]string{
		v1alpha1.LabelEnvironment: "sales-production", "app.kubernetes.io/component": "api",
	}}}
	p.Spec.Containers = []corev1.Container{{Name: "cube", Image: "r.example.com:5000/cube:v" + version + "@sha256:1"}}
	p.Status.Phase = corev1.PodRunning
	p.Status.Conditions = []corev1.PodCondition{{Type: corev1.PodReady, Status: ready}}
	if waiting != "" {
		p.Status.ContainerStatuses = []corev1.ContainerStatus{{Name: "cube", State: corev1.ContainerState{Waiting: &corev1.ContainerStateWaiting{Reason: waiting}}}}
	}
	return p
}

// rollout is a deployment in the middle of a rollout: one of two pods runs the new version.
func rollout() *view.View {
	d := &v1alpha1.Deployment{ObjectMeta: metav1.ObjectMeta{Name: "sales", Namespace: "acme"}}
	d.Spec.ReleaseChannel, d.Spec.Replicas = "stable", ptr.To(int32(2))
	d.Status.CommonStatus = condition(metav1.ConditionUnknown, v1alpha1.ReasonRollingOut)
	d.Status.CurrentVersion, d.Status.TargetVersion = "1.2.3", "1.2.4"
	e := v1alpha1.Environment{ObjectMeta: metav1.ObjectMeta{Name: "sales-production"}}
	e.Spec.Type, e.Spec.Version, e.Spec.Image = v1alpha1.EnvironmentProduction, "1.2.4", "r.example.com:5000/cube:v1.2.4@sha256:1"
	e.Status.CommonStatus = condition(metav1.ConditionUnknown, v1alpha1.ReasonWorkloadsNotReady)
	e.Status.Version, e.Status.Replicas = "1.2.3", 3 // one more during the rollout
	c := &v1alpha1.ReleaseChannel{ObjectMeta: metav1.ObjectMeta{Name: "stable"}}
	c.Status.CommonStatus, c.Status.LatestVersion = condition(metav1.ConditionTrue, v1alpha1.ReasonSucceeded), "1.2.4"
	return &view.View{Deployment: d, Channel: c, Environments: []v1alpha1.Environment{e}, Pods: []corev1.Pod{
		pod("old-1", "1.2.3", corev1.ConditionTrue, ""), pod("new-1", "1.2.4", corev1.ConditionTrue, ""), pod("new-2", "1.2.4", corev1.ConditionFalse, "ImagePullBackOff"),
	}}
}

// cases are views and their trees.
var cases = map[string]struct {
	change func(*view.View)
	want   string
}{
	"rollout": {func(*view.View) {}, `
stable|ReleaseChannel|✔ Succeeded|1.2.4|||
└─ sales|Deployment|◌ RollingOut|1.2.3 → 1.2.4|||
   └─ sales-production|Environment|◌ WorkloadsNotReady|1.2.3 → 1.2.4|█████░░░░░ 1/2||production
      ├─ old-1|Pod|✔ Running|1.2.3|||api
      ├─ new-1|Pod|✔ Running|1.2.4|||api
      └─ new-2|Pod|✖ ImagePullBackOff|1.2.4|||api`},
	"pods and channel not readable": {func(v *view.View) {
		v.Pods, v.Channel = nil, nil
		v.Environments[0].Status.UpdatedReplicas, v.Environments[0].Status.ReadyReplicas = 1, 2
	}, `
stable|ReleaseChannel|? Unknown||||not readable, or does not exist
└─ sales|Deployment|◌ RollingOut|1.2.3 → 1.2.4|||
   └─ sales-production|Environment|◌ WorkloadsNotReady|1.2.3 → 1.2.4|█████░░░░░ 1/2||production`},
	"failed and pinned": {func(v *view.View) {
		v.Environments = nil
		v.Deployment.Spec.ReleaseChannelVersion, v.Deployment.Status.Hold = "1.2.4", true
		v.Deployment.Status.CommonStatus = stalled(v1alpha1.ReasonRolloutFailed)
		v.Deployment.Status.Failed = &v1alpha1.FailedRollout{Version: v1alpha1.VersionRun{Version: "1.2.4"}}
		v.Channel.Status.StoppedVersion = "1.2.4"
	}, `
stable|ReleaseChannel|✔ Succeeded|1.2.4|||1.2.4 is stopped
└─ sales|Deployment|✖ RolloutFailed|1.2.3 → 1.2.4|||pinned, 1.2.4 failed`},
	"not reconciled": {func(v *view.View) {
		v.Environments, v.Deployment.Status = nil, v1alpha1.DeploymentStatus{}
	}, `
stable|ReleaseChannel|✔ Succeeded|1.2.4|||
└─ sales|Deployment|◌ NotReported||||`},
	"ready for an earlier spec": {func(v *view.View) {
		v.Environments = nil
		v.Deployment.Generation, v.Deployment.Status.CommonStatus = 2, condition(metav1.ConditionTrue, v1alpha1.ReasonSucceeded)
	}, `
stable|ReleaseChannel|✔ Succeeded|1.2.4|||
└─ sales|Deployment|◌ Progressing|1.2.3 → 1.2.4|||`},
	"branch": {func(v *view.View) {
		v.Pods = nil
		e := &v.Environments[0]
		e.Name, e.Spec.Type, e.Spec.BranchRef = "sales-stg", v1alpha1.EnvironmentStaging, &v1alpha1.LocalReference{Name: "sales-next"}
		e.Status.CommonStatus, e.Status.Replicas, e.Spec.Version = condition(metav1.ConditionTrue, v1alpha1.ReasonAsleep), 0, "1.2.3"
		b := v1alpha1.Branch{ObjectMeta: metav1.ObjectMeta{Name: "sales-next"}, Spec: v1alpha1.BranchSpec{Name: "next"}}
		b.Status.CommonStatus = stalled(v1alpha1.ReasonBranchNotFound)
		v.Branches = []v1alpha1.Branch{b}
	}, `
stable|ReleaseChannel|✔ Succeeded|1.2.4|||
└─ sales|Deployment|◌ RollingOut|1.2.3 → 1.2.4|||
   └─ sales-stg|Environment|☾ Asleep|1.2.3|||staging, branch next: BranchNotFound`},
}

func TestBuild(t *testing.T) {
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			v := rollout()
			c.change(v)
			var lines []string
			for _, row := range Build(v).Rows(func(time.Time) string { return "age" }) {
				lines = append(lines, strings.Join(row, "|"))
			}
			if diff := cmp.Diff(strings.TrimSpace(c.want), strings.Join(lines, "\n")); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}

func TestBar(t *testing.T) {
	for _, c := range []struct {
		done, wanted int
		want         string
	}{{0, 0, ""}, {0, 3, "░░░░░░░░░░ 0/3"}, {1, 3, "███░░░░░░░ 1/3"}, {3, 3, "██████████ 3/3"}, {4, 3, "██████████ 4/3"}} {
		if got := Bar(c.done, c.wanted); got != c.want {
			t.Errorf("%d of %d: %q, want %q", c.done, c.wanted, got, c.want)
		}
	}
}

func TestVersionOf(t *testing.T) {
	for image, want := range map[string]string{"r:5000/cube:v1.2.3@sha256:1": "1.2.3", "r:5000/cube": "", "cube:1": "1", "": ""} {
		if got := versionOf(image); got != want {
			t.Errorf("%q: %q, want %q", image, got, want)
		}
	}
}
