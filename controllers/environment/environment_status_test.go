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
	"k8s.io/apimachinery/pkg/runtime"
	clocktesting "k8s.io/utils/clock/testing"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"

	"github.com/quoin-dev/quoin/api/v1alpha1"
	"github.com/quoin-dev/quoin/internal/engine"
	"github.com/quoin-dev/quoin/internal/kube"
	"github.com/quoin-dev/quoin/internal/reconciler"
)

// api returns the apps/v1 Deployment of an environment with numbers of desired, current, updated and
// available pods.
func api(desired, current, updated, available int32, change ...func(*appsv1.Deployment)) *appsv1.Deployment {
	d := &appsv1.Deployment{
		ObjectMeta: metav1.ObjectMeta{
			Name: engine.APIName("sales-production"), Generation: 2, Labels: map[string]string{"app.kubernetes.io/component": "api"},
		},
		Spec:   appsv1.DeploymentSpec{Replicas: &desired},
		Status: appsv1.DeploymentStatus{ObservedGeneration: 2, Replicas: current, UpdatedReplicas: updated, ReadyReplicas: available, AvailableReplicas: available},
	}
	for _, f := range change {
		f(d)
	}
	return d
}

func exceeded(d *appsv1.Deployment) {
	d.Status.Conditions = []appsv1.DeploymentCondition{
		{Type: appsv1.DeploymentAvailable, Status: corev1.ConditionFalse, Reason: "MinimumReplicasUnavailable"},
		{Type: appsv1.DeploymentProgressing, Status: corev1.ConditionFalse, Reason: "ProgressDeadlineExceeded"},
	}
}

func notObserved(d *appsv1.Deployment) { d.Status.ObservedGeneration = 1 }

// router returns the StatefulSet of the store's router.
func router(desired, replicas, current, updated, available int32, change ...func(*appsv1.StatefulSet)) *appsv1.StatefulSet {
	s := &appsv1.StatefulSet{
		ObjectMeta: metav1.ObjectMeta{Name: "sales-production-router", Generation: 2, Labels: map[string]string{"app.kubernetes.io/component": "store-router"}},
		Spec:       appsv1.StatefulSetSpec{Replicas: &desired},
		Status: appsv1.StatefulSetStatus{
			ObservedGeneration: 2, Replicas: replicas, CurrentReplicas: current, UpdatedReplicas: updated, ReadyReplicas: available,
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
		workload           client.Object
		complete, exceeded bool
		message            string
	}{
		"complete":                          {api(2, 2, 2, 2), true, false, "api: 2 of 2"},
		"no pods yet":                       {api(2, 0, 0, 0), false, false, "api: 0 of 2"},
		"not observed":                      {api(2, 2, 2, 2, notObserved), false, false, "api: 0 of 2"},
		"surge: new pod not ready":          {api(2, 3, 1, 2), false, false, "api: 0 of 2"},
		"surge: new pod is ready":           {api(2, 3, 1, 3), false, false, "api: 1 of 2"},
		"old pods not deleted yet":          {api(2, 3, 2, 3), false, false, "api: 2 of 2"},
		"new pod not ready, old deleted":    {api(2, 2, 2, 1), false, false, "api: 1 of 2"},
		"ready for too short a time":        {api(1, 1, 1, 0, func(d *appsv1.Deployment) { d.Status.ReadyReplicas = 1 }), false, false, "api: 0 of 1"},
		"more pods than desired":            {api(1, 2, 2, 2), false, false, "api: 1 of 1"},
		"scaled to zero":                    {api(0, 0, 0, 0), true, false, "api: 0 of 0"},
		"scaled to zero, pods remain":       {api(0, 1, 1, 1), false, false, "api: 0 of 0"},
		"replicas not set is one":           {api(9, 1, 1, 1, unset), true, false, "api: 1 of 1"},
		"deadline exceeded":                 {api(2, 3, 1, 2, exceeded), false, true, "api: 0 of 2"},
		"deadline of the previous spec":     {api(2, 3, 1, 2, exceeded, notObserved), false, false, "api: 0 of 2"},
		"StatefulSet complete":              {router(1, 1, 1, 0, 1, rolledOut), true, false, "store-router: 1 of 1"},
		"StatefulSet complete, counter set": {router(1, 1, 1, 1, 1, rolledOut), true, false, "store-router: 1 of 1"},
		"StatefulSet not updated":           {router(1, 1, 1, 0, 1), false, false, "store-router: 0 of 1"},
		"StatefulSet updated, not ready":    {router(1, 1, 0, 1, 0), false, false, "store-router: 0 of 1"},
		"StatefulSet pod is being replaced": {router(1, 0, 0, 0, 0), false, false, "store-router: 0 of 1"},
		"StatefulSet not observed":          {router(1, 1, 1, 1, 1, rolledOut, func(s *appsv1.StatefulSet) { s.Status.ObservedGeneration = 1 }), false, false, "store-router: 0 of 1"},
		"StatefulSet scaled to zero":        {router(0, 0, 0, 0, 0, rolledOut), true, false, "store-router: 0 of 0"},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			p := progressOf(tc.workload)
			if p.complete() != tc.complete || p.deadlineExceeded != tc.exceeded || p.name != tc.workload.GetName() {
				t.Errorf("complete %v, exceeded %v: %+v", p.complete(), p.deadlineExceeded, p)
			}
			if want := tc.message + " pods are up to date and ready"; p.String() != want {
				t.Errorf("message %q, want %q", p, want)
			}
		})
	}
}

// TestUpdatesOfWorkloads that start a reconciliation of the environment.
func TestUpdatesOfWorkloads(t *testing.T) {
	annotated := func(key string) func(*appsv1.Deployment) {
		return func(d *appsv1.Deployment) { d.Annotations = map[string]string{key: "2"} }
	}
	cases := map[string]struct {
		before, after client.Object
		want          bool
	}{
		"nothing":                      {api(2, 2, 2, 2), api(2, 2, 2, 2), false},
		"spec":                         {api(2, 2, 2, 2), api(2, 2, 2, 2, func(d *appsv1.Deployment) { d.Generation = 3 }), true},
		"label":                        {api(2, 2, 2, 2), api(2, 2, 2, 2, func(d *appsv1.Deployment) { d.Labels = nil }), true},
		"annotation":                   {api(2, 2, 2, 2), api(2, 2, 2, 2, annotated("example.com/a")), true},
		"annotation of Kubernetes":     {api(2, 2, 2, 2), api(2, 2, 2, 2, annotated("deployment.kubernetes.io/revision")), false},
		"deletion":                     {api(2, 2, 2, 2), api(2, 2, 2, 2, func(d *appsv1.Deployment) { d.DeletionTimestamp = ptr.To(metav1.Now()) }), true},
		"first new pod":                {api(4, 4, 0, 4), api(4, 5, 1, 4), true},
		"one more new pod":             {api(4, 5, 1, 4), api(4, 5, 2, 3), false},
		"one more is ready":            {api(4, 5, 2, 3), api(4, 5, 2, 4), false},
		"rollout complete":             {api(4, 5, 4, 4), api(4, 4, 4, 4), true},
		"a pod is no longer ready":     {api(4, 4, 4, 4), api(4, 4, 4, 3), true},
		"no pod is ready":              {api(4, 4, 4, 1), api(4, 4, 4, 0), true},
		"deadline exceeded":            {api(2, 3, 1, 2), api(2, 3, 1, 2, exceeded), true},
		"StatefulSet: pod is replaced": {router(1, 1, 1, 0, 1), router(1, 1, 0, 1, 0), true},
		"StatefulSet: rolled out":      {router(1, 1, 0, 1, 0), router(1, 1, 1, 1, 1, rolledOut), true},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			if got := concerns(tc.before, tc.after); got != tc.want {
				t.Errorf("got %v, want %v", got, tc.want)
			}
		})
	}
}

// TestProgressIsWithinBounds for all counters: from zero to the desired number.
func TestProgressIsWithinBounds(t *testing.T) {
	for desired := range int32(3) {
		for current := range int32(4) {
			for updated := range current + 1 {
				for available := range current + 1 {
					p := progressOf(api(desired, current, updated, available))
					var shown, of int32
					if _, err := fmt.Sscanf(p.String(), "api: %d of %d", &shown, &of); err != nil || shown < 0 || shown > of || of != desired || shown > updated {
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
		message   string
		available string
		version   string
		started   bool
	}{
		"complete":               {[]client.Object{router(1, 1, 1, 0, 1, rolledOut), api(2, 2, 2, 2)}, "True Succeeded", "All pods run version 1.2.4", "True", "1.2.4", true},
		"api not ready":          {[]client.Object{router(1, 1, 1, 0, 1, rolledOut), api(2, 3, 1, 2)}, "Unknown WorkloadsNotReady", "api: 0 of 2", "True", "1.2.3", true},
		"store not ready":        {[]client.Object{router(1, 1, 0, 1, 0), api(2, 2, 2, 2)}, "Unknown WorkloadsNotReady", "store-router: 0 of 1", "True", "1.2.3", true},
		"none ready":             {[]client.Object{router(1, 0, 0, 0, 0), api(2, 0, 0, 0)}, "Unknown WorkloadsNotReady", "store-router: 0 of 1 pods are up to date and ready; api: 0 of 2", "False", "1.2.3", false},
		"exceeded":               {[]client.Object{api(2, 3, 1, 2, exceeded)}, "False ProgressDeadlineExceeded", "api: 0 of 2", "True", "1.2.3", true},
		"exceeded, but complete": {[]client.Object{api(2, 2, 2, 2, exceeded)}, "True Succeeded", "1.2.4", "True", "1.2.4", true},
		"scaled to zero":         {[]client.Object{api(0, 0, 0, 0)}, "True Asleep", "Scaled to zero", "False", "1.2.4", true},
		"not started":            {[]client.Object{api(2, 2, 0, 2, notObserved)}, "Unknown WorkloadsNotReady", "api: 0 of 2", "True", "1.2.3", false},
		"scaling to zero":        {[]client.Object{api(0, 2, 2, 2)}, "Unknown WorkloadsNotReady", "api: 0 of 0", "True", "1.2.3", true},
		"last pod failed":        {[]client.Object{api(1, 1, 1, 0)}, "Unknown WorkloadsNotReady", "api: 0 of 1", "False", "1.2.3", true},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			env := newEnvironment()
			outcome, started := observe(env, tc.workloads)
			reconciler.Summarise(env, outcome)
			c := meta.FindStatusCondition(env.Status.Conditions, v1alpha1.ConditionReady)
			if got := string(c.Status) + " " + c.Reason; got != tc.ready || !strings.Contains(c.Message, tc.message) {
				t.Errorf("condition %s: %s; want %s: …%s…", got, c.Message, tc.ready, tc.message)
			}
			available := meta.FindStatusCondition(env.Status.Conditions, v1alpha1.ConditionAvailable)
			if string(available.Status) != tc.available || env.Status.Active != (tc.available == "True") || available.ObservedGeneration != 3 {
				t.Errorf("available: %+v, active %v", available, env.Status.Active)
			}
			if env.Status.Version != tc.version || started != tc.started {
				t.Errorf("runs %s, started %v", env.Status.Version, started)
			}
			all := env.Status.Image == env.Spec.Image && env.Status.ModelCommit == env.Spec.ModelCommit
			if all != (tc.version == "1.2.4") {
				t.Errorf("image %s and model %s beside version %s", env.Status.Image, env.Status.ModelCommit, env.Status.Version)
			}
		})
	}
}

// TestObserveCountsAPIPods for the scale subresource.
func TestObserveCountsAPIPods(t *testing.T) {
	env := newEnvironment()
	observe(env, []client.Object{router(1, 1, 1, 0, 1, rolledOut), api(3, 4, 2, 3)})
	if diff := cmp.Diff([]int32{4, 3, 2}, []int32{env.Status.Replicas, env.Status.ReadyReplicas, env.Status.UpdatedReplicas}); diff != "" {
		t.Errorf("replicas, ready, updated (-want +got):\n%s", diff)
	}
}

func TestPodProblem(t *testing.T) {
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
		"running":                {pod(running), ""},
		"new":                    {pod(), ""},
		"being created":          {pod(waiting("api", "ContainerCreating")), ""},
		"waiting for its model":  {pod(waiting("api", "PodInitializing")), ""},
		"waiting without reason": {pod(waiting("api", "")), ""},
		"image cannot be pulled": {pod(waiting("api", "ImagePullBackOff")), "container api: ImagePullBackOff"},
		"crashes":                {pod(waiting("api", "CrashLoopBackOff")), "container api: CrashLoopBackOff"},
		"secret is missing":      {pod(waiting("api", "CreateContainerConfigError")), "container api: CreateContainerConfigError"},
		"failed":                 {pod(ended("api", 137)), "container api: exit code 137"},
		"succeeded":              {init(pod(running), ended("model", 0)), ""},
		"model cannot be read":   {init(pod(waiting("api", "PodInitializing")), ended("model", 1)), "container model: exit code 1"},
		"second container":       {pod(running, waiting("sidecar", "ErrImagePull")), "container sidecar: ErrImagePull"},
		"cannot be scheduled":    {scheduled(corev1.ConditionFalse), "pods cannot be scheduled: Unschedulable"},
		"scheduled":              {scheduled(corev1.ConditionTrue), ""},
		"deleting":               {going, ""},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			got := podProblem(tc.pod)
			if got != tc.want {
				t.Errorf("message %q, want %q", got, tc.want)
			}
			if strings.Contains(got, "x-7f") {
				t.Errorf("contains the name of the pod: %q", got)
			}
		})
	}
}

// TestReportDelay: progress is reported after the grace periods, and then at intervals.
func TestReportDelay(t *testing.T) {
	var states rolloutStates
	now := time.Unix(1000, 0)
	env := newEnvironment()
	for i, step := range []struct {
		after   time.Duration
		started bool
		want    time.Duration
		do      func()
	}{
		{0, false, startGracePeriod, nil},
		{20 * time.Second, false, startGracePeriod - 20*time.Second, nil},
		// Pods exist after 30 s, which extends the grace period for readiness.
		{10 * time.Second, true, readyGracePeriod + 30*time.Second, nil},
		{39 * time.Second, true, time.Second, nil},
		{time.Second, true, 0, nil},
		{time.Second, true, reportInterval - time.Second, nil},
		{reportInterval - time.Second, true, 0, nil},
		{0, true, readyGracePeriod, func() { env.Generation++ }},
		{readyGracePeriod, true, 0, func() { env.Status.ObservedGeneration = env.Generation }},
		{time.Second, true, 0, nil},
		{0, true, readyGracePeriod, func() { states.forget(client.ObjectKeyFromObject(env)) }},
	} {
		now = now.Add(step.after)
		if step.do != nil {
			step.do()
		}
		if got := states.reportDelay(env, step.started, now); got != step.want {
			t.Errorf("step %d: a delay of %s, want %s", i, got, step.want)
		}
	}
}

// TestStatesOfEnvironments: an environment that is created again does not have the state of the deleted one, and none is kept of
// environments that do not exist.
func TestStatesOfEnvironments(t *testing.T) {
	env, r := newEnvironment(), &environmentReconciler{}
	key := client.ObjectKeyFromObject(env)
	r.states.update(env, func(state *rolloutState) { state.secretsCreated = true })
	env.UID = "2"
	r.states.update(env, func(state *rolloutState) {
		if state.secretsCreated {
			t.Error("the secrets of the deleted environment are taken for those of the new one")
		}
	})
	r.models.use(key, client.ObjectKey{Namespace: key.Namespace, Name: "model"}, "1")
	r.forget(t.Context(), key)
	if len(r.states.states)+len(r.models.models)+len(r.models.of) > 0 {
		t.Errorf("kept: %v, %v, %v", r.states.states, r.models.models, r.models.of)
	}
}

// TestStoreDeadline: pods of the store that make no progress exceed the deadline, also after a restart.
func TestStoreDeadline(t *testing.T) {
	scheme := runtime.NewScheme()
	if err := corev1.AddToScheme(scheme); err != nil {
		t.Fatal(err)
	}
	c := fake.NewClientBuilder().WithScheme(scheme).Build()
	clk, env, r := clocktesting.NewFakeClock(time.Unix(1000, 0)), newEnvironment(), &environmentReconciler{}
	s := &scope{Client: kube.NewClient(c, c, FieldManager), Object: env, Clock: clk}
	none, one, all := router(2, 2, 0, 2, 0), router(2, 2, 0, 2, 1), router(2, 2, 2, 2, 2, rolledOut)
	for i, step := range []struct {
		after time.Duration
		store *appsv1.StatefulSet
		api   *appsv1.Deployment
		want  string
		do    func()
	}{
		{0, none, api(2, 2, 2, 2), "", nil},
		{59 * time.Second, none, api(2, 2, 2, 2), "", nil},
		{time.Second, one, api(2, 2, 2, 2), "", nil},
		{59 * time.Second, one, api(2, 2, 2, 2), "", nil},
		{time.Second, one, api(2, 2, 2, 2), v1alpha1.ReasonDeadlineExceeded, nil},
		{time.Second, one, api(2, 2, 2, 2), v1alpha1.ReasonDeadlineExceeded, func() { r = &environmentReconciler{} }},
		{time.Second, one, api(2, 2, 2, 2), "", func() { env.Generation++ }},
		{time.Hour, all, api(2, 3, 1, 2), "", nil}, // Kubernetes reports the deadline of Deployments
	} {
		clk.Step(step.after)
		if step.do != nil {
			step.do()
		}
		workloads := []client.Object{step.store, step.api}
		outcome, started := observe(env, workloads)
		outcome = r.report(t.Context(), s, engine.Inputs{ProgressDeadlineSeconds: 60}, workloads, outcome, started)
		reconciler.Summarise(env, outcome)
		got := ""
		if stalled := meta.FindStatusCondition(env.Status.Conditions, v1alpha1.ConditionStalled); stalled != nil {
			got = stalled.Reason
		}
		if got != step.want || outcome.After == 0 {
			t.Errorf("step %d: stalled %q, reconciled again after %s; want %q", i, got, outcome.After, step.want)
		}
	}
}

// TestRecordBuild: the time of the last build changes when a generation is ready or rejected, once, and when
// the files of a ConfigMap change.
func TestRecordBuild(t *testing.T) {
	begin := time.Date(2026, 11, 22, 12, 0, 0, 0, time.UTC)
	env := newEnvironment()
	env.Status.LastBuildTime = ptr.To(metav1.NewTime(begin))
	for i, step := range []struct {
		generation int64
		files      string
		outcome    reconciler.Outcome
		isNew      bool
	}{
		{3, "", reconciler.Progressing(v1alpha1.ReasonWorkloadsNotReady, "0 of 1"), false},
		{3, "", reconciler.Failing(v1alpha1.ReasonError, "no answer", time.Minute), false},
		{3, "", reconciler.Done("All pods run"), true},
		{3, "", reconciler.Progressing(v1alpha1.ReasonWorkloadsNotReady, "a pod is gone"), false},
		{3, "", reconciler.Done("All pods run"), false},
		{4, "", reconciler.Done("All pods run"), true},
		{5, "", reconciler.Stalled(v1alpha1.ReasonModelBroken, "bad"), true},
		{5, "", reconciler.Stalled(v1alpha1.ReasonModelBroken, "bad"), false},
		{6, "a", reconciler.Stalled(v1alpha1.ReasonModelBroken, "bad"), true},
		{6, "a", reconciler.Done("All pods run"), false},
		{6, "b", reconciler.Progressing(v1alpha1.ReasonWorkloadsNotReady, "0 of 1"), true},
		{6, "b", reconciler.Done("All pods run"), false},
	} {
		before, now := env.Status.LastBuildTime.Time, begin.Add(time.Duration(i+1)*time.Minute)
		filesBefore := env.Status.ModelHash
		env.Generation, env.Status.ModelHash = step.generation, step.files
		recordBuild(env, filesBefore, step.outcome, now)
		reconciler.Summarise(env, step.outcome)
		want := before
		if step.isNew {
			want = now
		}
		if got := env.Status.LastBuildTime.Time; !got.Equal(want) {
			t.Errorf("step %d: the last build was at %s, want %s", i, got, want)
		}
	}
}
