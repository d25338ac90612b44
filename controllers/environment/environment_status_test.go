package environment

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/quoin-dev/quoin/api/v1alpha1"
	"github.com/quoin-dev/quoin/internal/engine"
	"github.com/quoin-dev/quoin/internal/reconciler"
)

// api is the Deployment of an environment's API pods: wanted, and present, updated and
// available pods.
func api(wanted, present, updated, available int32, change ...func(*appsv1.Deployment)) *appsv1.Deployment {
	d := &appsv1.Deployment{
		ObjectMeta: metav1.ObjectMeta{
			Name: engine.APIName("sales-production"), Generation: 2, Labels: map[string]string{"app.kubernetes.io/component": "api"},
		},
		Spec:   appsv1.DeploymentSpec{Replicas: &wanted},
		Status: appsv1.DeploymentStatus{ObservedGeneration: 2, Replicas: present, UpdatedReplicas: updated, ReadyReplicas: available, AvailableReplicas: available},
	}
	for _, f := range change {
		f(d)
	}
	return d
}

func late(d *appsv1.Deployment) {
	d.Status.Conditions = []appsv1.DeploymentCondition{
		{Type: appsv1.DeploymentAvailable, Status: corev1.ConditionFalse, Reason: "MinimumReplicasUnavailable"},
		{Type: appsv1.DeploymentProgressing, Status: corev1.ConditionFalse, Reason: "ProgressDeadlineExceeded"},
	}
}

func notObserved(d *appsv1.Deployment) { d.Status.ObservedGeneration = 1 }

// router is the StatefulSet of the store's router.
func router(wanted, present, current, updated, available int32, change ...func(*appsv1.StatefulSet)) *appsv1.StatefulSet {
	s := &appsv1.StatefulSet{
		ObjectMeta: metav1.ObjectMeta{Name: "sales-production-router", Generation: 2, Labels: map[string]string{"app.kubernetes.io/component": "store-router"}},
		Spec:       appsv1.StatefulSetSpec{Replicas: &wanted},
		Status: appsv1.StatefulSetStatus{
			ObservedGeneration: 2, Replicas: present, CurrentReplicas: current, UpdatedReplicas: updated, ReadyReplicas: available,
			AvailableReplicas: available, CurrentRevision: "r1", UpdateRevision: "r2",
		},
	}
	for _, f := range change {
		f(s)
	}
	return s
}

func rolledOut(s *appsv1.StatefulSet) { s.Status.CurrentRevision = s.Status.UpdateRevision }

func TestProgress(t *testing.T) {
	unset := func(d *appsv1.Deployment) { d.Spec.Replicas = nil }
	cases := map[string]struct {
		workload       client.Object
		complete, late bool
		says           string
	}{
		"complete":                          {api(2, 2, 2, 2), true, false, "api: 2 of 2"},
		"just made":                         {api(2, 0, 0, 0), false, false, "api: 0 of 2"},
		"not seen by its controller":        {api(2, 2, 2, 2, notObserved), false, false, "api: 0 of 2"},
		"surge: new pod beside the old":     {api(2, 3, 1, 2), false, false, "api: 0 of 2"},
		"surge: new pod is ready":           {api(2, 3, 1, 3), false, false, "api: 1 of 2"},
		"old pods left":                     {api(2, 3, 2, 3), false, false, "api: 2 of 2"},
		"new pod not ready, old is gone":    {api(2, 2, 2, 1), false, false, "api: 1 of 2"},
		"ready for too short a time":        {api(1, 1, 1, 0, func(d *appsv1.Deployment) { d.Status.ReadyReplicas = 1 }), false, false, "api: 0 of 1"},
		"more pods than wanted":             {api(1, 2, 2, 2), false, false, "api: 1 of 1"},
		"scaled to nothing":                 {api(0, 0, 0, 0), true, false, "api: 0 of 0"},
		"scaled to nothing, not gone yet":   {api(0, 1, 1, 1), false, false, "api: 0 of 0"},
		"replicas not set is one":           {api(9, 1, 1, 1, unset), true, false, "api: 1 of 1"},
		"deadline exceeded":                 {api(2, 3, 1, 2, late), false, true, "api: 0 of 2"},
		"deadline of the spec before":       {api(2, 3, 1, 2, late, notObserved), false, false, "api: 0 of 2"},
		"StatefulSet complete":              {router(1, 1, 1, 0, 1, rolledOut), true, false, "store-router: 1 of 1"},
		"StatefulSet complete, counter set": {router(1, 1, 1, 1, 1, rolledOut), true, false, "store-router: 1 of 1"},
		"StatefulSet still the old":         {router(1, 1, 1, 0, 1), false, false, "store-router: 0 of 1"},
		"StatefulSet new, not ready":        {router(1, 1, 0, 1, 0), false, false, "store-router: 0 of 1"},
		"StatefulSet pod is being replaced": {router(1, 0, 0, 0, 0), false, false, "store-router: 0 of 1"},
		"StatefulSet not seen":              {router(1, 1, 1, 1, 1, rolledOut, func(s *appsv1.StatefulSet) { s.Status.ObservedGeneration = 1 }), false, false, "store-router: 0 of 1"},
		"StatefulSet of none":               {router(0, 0, 0, 0, 0, rolledOut), true, false, "store-router: 0 of 0"},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			p := progressOf(tc.workload)
			if p.complete() != tc.complete || p.late != tc.late || p.name != tc.workload.GetName() {
				t.Errorf("complete %v, late %v: %+v", p.complete(), p.late, p)
			}
			if want := tc.says + " pods are up to date and ready"; p.String() != want {
				t.Errorf("says %q, want %q", p, want)
			}
		})
	}
}

// TestProgressNeverBoasts: whatever the counters say, no more pods are shown than wanted,
// and none below zero.
func TestProgressNeverBoasts(t *testing.T) {
	for wanted := range int32(3) {
		for present := range int32(4) {
			for updated := range present + 1 {
				for available := range present + 1 {
					p := progressOf(api(wanted, present, updated, available))
					var shown, of int32
					if _, err := fmt.Sscanf(p.String(), "api: %d of %d", &shown, &of); err != nil || shown < 0 || shown > of || of != wanted || shown > updated {
						t.Errorf("%+v is shown as %q", p, p)
					}
				}
			}
		}
	}
}

func newEnvironment() *v1alpha1.Environment {
	env := &v1alpha1.Environment{ObjectMeta: metav1.ObjectMeta{Namespace: "acme", Name: "sales-production", Generation: 3, UID: "1"}}
	env.Spec.Version, env.Spec.Image, env.Spec.ModelCommit = "1.2.4", "cube:v1.2.4", "c4"
	env.Status.Version, env.Status.Image, env.Status.ModelCommit = "1.2.3", "cube:v1.2.3", "c3"
	env.Status.ObservedGeneration = 2
	return env
}

func TestObserve(t *testing.T) {
	cases := map[string]struct {
		workloads []client.Object
		ready     string
		says      string
		available string
		version   string
		begun     bool
	}{
		"complete":            {[]client.Object{router(1, 1, 1, 0, 1, rolledOut), api(2, 2, 2, 2)}, "True Succeeded", "All pods run version 1.2.4", "True", "1.2.4", true},
		"api is not":          {[]client.Object{router(1, 1, 1, 0, 1, rolledOut), api(2, 3, 1, 2)}, "Unknown WorkloadsNotReady", "api: 0 of 2", "True", "1.2.3", true},
		"store is not":        {[]client.Object{router(1, 1, 0, 1, 0), api(2, 2, 2, 2)}, "Unknown WorkloadsNotReady", "store-router: 0 of 1", "True", "1.2.3", true},
		"none is":             {[]client.Object{router(1, 0, 0, 0, 0), api(2, 0, 0, 0)}, "Unknown WorkloadsNotReady", "store-router: 0 of 1 pods are up to date and ready; api: 0 of 2", "False", "1.2.3", false},
		"late":                {[]client.Object{api(2, 3, 1, 2, late)}, "False ProgressDeadlineExceeded", "api: 0 of 2", "True", "1.2.3", true},
		"late, but complete":  {[]client.Object{api(2, 2, 2, 2, late)}, "True Succeeded", "1.2.4", "True", "1.2.4", true},
		"scaled to nothing":   {[]client.Object{api(0, 0, 0, 0)}, "True Asleep", "on purpose", "False", "1.2.4", true},
		"nobody has begun":    {[]client.Object{api(2, 2, 0, 2, notObserved)}, "Unknown WorkloadsNotReady", "api: 0 of 2", "True", "1.2.3", false},
		"goes to sleep":       {[]client.Object{api(0, 2, 2, 2)}, "Unknown WorkloadsNotReady", "api: 0 of 0", "True", "1.2.3", true},
		"the last pod failed": {[]client.Object{api(1, 1, 1, 0)}, "Unknown WorkloadsNotReady", "api: 0 of 1", "False", "1.2.3", true},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			env := newEnvironment()
			outcome, begun := observe(env, tc.workloads)
			reconciler.Summarise(env, outcome)
			c := meta.FindStatusCondition(env.Status.Conditions, v1alpha1.ConditionReady)
			if got := string(c.Status) + " " + c.Reason; got != tc.ready || !strings.Contains(c.Message, tc.says) {
				t.Errorf("says %s: %s; want %s: …%s…", got, c.Message, tc.ready, tc.says)
			}
			available := meta.FindStatusCondition(env.Status.Conditions, v1alpha1.ConditionAvailable)
			if string(available.Status) != tc.available || env.Status.Active != (tc.available == "True") || available.ObservedGeneration != 3 {
				t.Errorf("available: %+v, active %v", available, env.Status.Active)
			}
			if env.Status.Version != tc.version || begun != tc.begun {
				t.Errorf("runs %s, begun %v", env.Status.Version, begun)
			}
			all := env.Status.Image == env.Spec.Image && env.Status.ModelCommit == env.Spec.ModelCommit
			if all != (tc.version == "1.2.4") {
				t.Errorf("image %s and model %s beside version %s", env.Status.Image, env.Status.ModelCommit, env.Status.Version)
			}
		})
	}
}

// TestObserveCountsAPIPods: the counters are those of the API pods, for the scale subresource.
func TestObserveCountsAPIPods(t *testing.T) {
	env := newEnvironment()
	observe(env, []client.Object{router(1, 1, 1, 0, 1, rolledOut), api(3, 4, 2, 3)})
	if diff := cmp.Diff([]int32{4, 3, 2}, []int32{env.Status.Replicas, env.Status.ReadyReplicas, env.Status.UpdatedReplicas}); diff != "" {
		t.Errorf("replicas, ready, updated (-want +got):\n%s", diff)
	}
}

func TestPodTrouble(t *testing.T) {
	waiting := func(name, reason string) corev1.ContainerStatus {
		return corev1.ContainerStatus{Name: name, State: corev1.ContainerState{Waiting: &corev1.ContainerStateWaiting{Reason: reason, Message: "back-off 10s restarting failed container of pod x-7f"}}}
	}
	ended := func(name string, code int32) corev1.ContainerStatus {
		return corev1.ContainerStatus{Name: name, State: corev1.ContainerState{Terminated: &corev1.ContainerStateTerminated{ExitCode: code}}}
	}
	running := corev1.ContainerStatus{Name: "api", State: corev1.ContainerState{Running: &corev1.ContainerStateRunning{}}}
	pod := func(containers ...corev1.ContainerStatus) *corev1.Pod {
		return &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: "x-7f"}, Status: corev1.PodStatus{ContainerStatuses: containers}}
	}
	init := func(p *corev1.Pod, containers ...corev1.ContainerStatus) *corev1.Pod {
		p.Status.InitContainerStatuses = containers
		return p
	}
	scheduled := func(status corev1.ConditionStatus) *corev1.Pod {
		p := pod()
		p.Status.Conditions = []corev1.PodCondition{{Type: corev1.PodScheduled, Status: status, Reason: "Unschedulable", Message: "0/3 nodes are available"}}
		return p
	}
	going := pod(waiting("api", "CrashLoopBackOff"))
	going.DeletionTimestamp = ptr.To(metav1.NewTime(time.Unix(1, 0)))
	cases := map[string]struct {
		pod  *corev1.Pod
		want string
	}{
		"well":                   {pod(running), ""},
		"fresh":                  {pod(), ""},
		"being made":             {pod(waiting("api", "ContainerCreating")), ""},
		"waiting for its model":  {pod(waiting("api", "PodInitializing")), ""},
		"waiting without reason": {pod(waiting("api", "")), ""},
		"image cannot be pulled": {pod(waiting("api", "ImagePullBackOff")), "container api: ImagePullBackOff"},
		"crashes":                {pod(waiting("api", "CrashLoopBackOff")), "container api: CrashLoopBackOff"},
		"secret is missing":      {pod(waiting("api", "CreateContainerConfigError")), "container api: CreateContainerConfigError"},
		"ended":                  {pod(ended("api", 137)), "container api: exit code 137"},
		"ended well":             {init(pod(running), ended("model", 0)), ""},
		"model cannot be read":   {init(pod(waiting("api", "PodInitializing")), ended("model", 1)), "container model: exit code 1"},
		"second container":       {pod(running, waiting("sidecar", "ErrImagePull")), "container sidecar: ErrImagePull"},
		"cannot be scheduled":    {scheduled(corev1.ConditionFalse), "pods cannot be scheduled: Unschedulable"},
		"scheduled":              {scheduled(corev1.ConditionTrue), ""},
		"going":                  {going, ""},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			got := podTrouble(tc.pod)
			if got != tc.want {
				t.Errorf("says %q, want %q", got, tc.want)
			}
			if strings.Contains(got, "x-7f") {
				t.Errorf("names the pod, which differs from time to time: %q", got)
			}
		})
	}
}

// TestPause: progress is reported when it has taken its time, and no more often than worth a write.
func TestPause(t *testing.T) {
	var m memories
	now := time.Unix(1000, 0)
	env := newEnvironment()
	for i, step := range []struct {
		after time.Duration
		begun bool
		want  time.Duration
		do    func()
	}{
		{0, false, quietQueue, nil},
		{20 * time.Second, false, quietQueue - 20*time.Second, nil},
		// Pods are there after 30 s: they are given as long again.
		{10 * time.Second, true, quietProgress + 30*time.Second, nil},
		{39 * time.Second, true, time.Second, nil},
		{time.Second, true, 0, nil},
		{time.Second, true, lookAgain - time.Second, nil},
		{lookAgain - time.Second, true, 0, nil},
		{0, true, quietProgress, func() { env.Generation++ }},
		{quietProgress, true, 0, func() { env.Status.ObservedGeneration = env.Generation }},
		{time.Second, true, 0, nil},
		{0, true, quietProgress, func() { m.forget(env) }},
	} {
		now = now.Add(step.after)
		if step.do != nil {
			step.do()
		}
		if got := m.pause(env, step.begun, now); got != step.want {
			t.Errorf("step %d: a pause of %s, want %s", i, got, step.want)
		}
	}
}
