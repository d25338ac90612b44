package dbtsync

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/events"
	clocktesting "k8s.io/utils/clock/testing"
	"k8s.io/utils/ptr"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	"github.com/quoin-dev/quoin/api/v1alpha1"
	"github.com/quoin-dev/quoin/internal/apitest"
	"github.com/quoin-dev/quoin/internal/kube"
)

func TestMain(m *testing.M) { apitest.Main(m) }

var start = time.Date(2026, 11, 22, 12, 0, 0, 0, time.UTC)

// fixture is a deployment and a sync named shop, without quoin apiserver, Job controller and kubelet: the
// tests do what these do.
type fixture struct {
	*testing.T
	client.WithWatch
	namespace string
	options   Options
}

func newFixture(t *testing.T) *fixture {
	api, namespace := apitest.Direct(t)
	f := &fixture{T: t, WithWatch: api, namespace: namespace, options: Options{
		QuoinImage: "quoin:1", DbtImage: "dbt:1", URL: "https://quoin-apiserver.quoin-system.svc",
	}}
	f.create(&v1alpha1.Deployment{ObjectMeta: metav1.ObjectMeta{Name: "sales"}, Spec: v1alpha1.DeploymentSpec{
		ReleaseChannel: "latest", Model: v1alpha1.ModelSource{Repository: &v1alpha1.RepositorySource{}},
		Env: []v1alpha1.EnvVar{{Name: "CUBEJS_DB_TYPE", Value: ptr.To("postgres")}, {Name: "CUBEJS_DB_NAME", Value: ptr.To("shop")}},
	}})
	return f
}

func (f *fixture) must(err error) {
	f.Helper()
	if err != nil {
		f.Fatal(err)
	}
}

func (f *fixture) create(obj client.Object) {
	f.Helper()
	obj.SetNamespace(f.namespace)
	f.must(f.Create(f.Context(), obj))
}

// sync creates the sync of a Git repository.
func (f *fixture) sync(change func(*v1alpha1.DbtSyncSpec)) {
	f.Helper()
	s := &v1alpha1.DbtSync{ObjectMeta: metav1.ObjectMeta{Name: "shop"}, Spec: v1alpha1.DbtSyncSpec{
		DeploymentRef: v1alpha1.LocalReference{Name: "sales"},
		Source: v1alpha1.DbtSource{Git: &v1alpha1.DbtGitSource{
			URL: "https://git.example.com/dbt.git", Ref: "main", SecretRef: &v1alpha1.LocalReference{Name: "git"}, Selector: "tag:$(HOME)", Schema: "analytics",
		}},
	}}
	if change != nil {
		change(&s.Spec)
	}
	f.create(s)
}

func (f *fixture) get() *v1alpha1.DbtSync {
	f.Helper()
	s := &v1alpha1.DbtSync{}
	f.must(f.Get(f.Context(), client.ObjectKey{Namespace: f.namespace, Name: "shop"}, s))
	return s
}

// stage sets the stage, as quoin apiserver does.
func (f *fixture) stage(stage, text string) {
	f.Helper()
	s := f.get()
	before := s.DeepCopy()
	s.Status.Stage, s.Status.Error, s.Status.StartTime = stage, text, ptr.To(metav1.NewTime(start))
	f.must(f.Status().Patch(f.Context(), s, client.MergeFrom(before)))
}

// reconcile reconciles with a new process, twice: the second time it changes nothing.
func (f *fixture) reconcile(status metav1.ConditionStatus, reason, message string) *v1alpha1.DbtSync {
	f.Helper()
	version := ""
	for range 2 {
		c := kube.NewClient(f.WithWatch, f.WithWatch, "quoin-test")
		r := New(c, events.NewFakeRecorder(20), clocktesting.NewFakePassiveClock(start), f.options)
		if _, err := r.Reconcile(f.Context(), ctrl.Request{NamespacedName: client.ObjectKey{Namespace: f.namespace, Name: "shop"}}); err != nil {
			f.Fatal(err)
		}
		s := f.get()
		if version != "" && s.ResourceVersion != version {
			f.Error("the second reconciliation has written")
		}
		version = s.ResourceVersion
	}
	s := f.get()
	c := meta.FindStatusCondition(s.Status.Conditions, v1alpha1.ConditionReady)
	if c == nil || c.Status != status || c.Reason != reason || !strings.Contains(c.Message, message) {
		f.Errorf("Ready is %+v; want %s, %s: %s", c, status, reason, message)
	}
	return s
}

func (f *fixture) job() *batchv1.Job {
	f.Helper()
	job := &batchv1.Job{}
	err := f.Get(f.Context(), client.ObjectKey{Namespace: f.namespace, Name: "shop-dbt"}, job)
	if apierrors.IsNotFound(err) || err == nil && !job.DeletionTimestamp.IsZero() {
		return nil
	}
	f.must(err)
	return job
}

// pod creates the pod of the Job, or changes the state of its containers: what they have ended with, in
// order; the next one runs.
func (f *fixture) pod(ended ...*corev1.ContainerStateTerminated) {
	f.Helper()
	job := f.job()
	pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: f.namespace, Name: "shop-dbt-x", Labels: map[string]string{batchv1.ControllerUidLabel: string(job.UID)}}, Spec: job.Spec.Template.Spec}
	if err := f.Create(f.Context(), pod); !apierrors.IsAlreadyExists(err) {
		f.must(err)
	}
	f.must(f.Get(f.Context(), client.ObjectKeyFromObject(pod), pod))
	before := pod.DeepCopy()
	var all []corev1.ContainerStatus
	for i, c := range append(pod.Spec.InitContainers, pod.Spec.Containers...) {
		state := corev1.ContainerState{Waiting: &corev1.ContainerStateWaiting{Reason: "PodInitializing"}}
		at := metav1.NewTime(start.Add(time.Duration(i) * time.Second))
		switch {
		case i < len(ended):
			ended[i].StartedAt, ended[i].FinishedAt = at, metav1.NewTime(at.Add(time.Second))
			state = corev1.ContainerState{Terminated: ended[i]}
		case i == len(ended):
			state = corev1.ContainerState{Running: &corev1.ContainerStateRunning{StartedAt: at}}
		}
		all = append(all, corev1.ContainerStatus{Name: c.Name, Image: c.Image, State: state})
	}
	n := len(pod.Spec.InitContainers)
	pod.Status.InitContainerStatuses, pod.Status.ContainerStatuses = all[:n], all[n:]
	f.must(f.Status().Patch(f.Context(), pod, client.MergeFrom(before)))
}

// end ends the Job.
func (f *fixture) end(kind batchv1.JobConditionType, reason string) {
	f.Helper()
	job := f.job()
	before := job.DeepCopy()
	now := metav1.NewTime(start)
	job.Status.StartTime = &now
	first := batchv1.JobFailureTarget
	if kind == batchv1.JobComplete {
		first, job.Status.CompletionTime, job.Status.Succeeded = batchv1.JobSuccessCriteriaMet, &now, 1
	}
	for _, c := range []batchv1.JobConditionType{first, kind} {
		job.Status.Conditions = append(job.Status.Conditions, batchv1.JobCondition{Type: c, Status: corev1.ConditionTrue, Reason: reason, LastProbeTime: now, LastTransitionTime: now})
	}
	f.must(f.Status().Patch(f.Context(), job, client.MergeFrom(before)))
}

var ok = corev1.ContainerStateTerminated{}

func done() *corev1.ContainerStateTerminated { return ok.DeepCopy() }

// TestARun: the stages and phases of a run, with a new controller at each step.
func TestARun(t *testing.T) {
	f := newFixture(t)
	f.sync(nil)
	f.reconcile("Unknown", "Progressing", "Waiting for quoin apiserver")
	if f.job() != nil {
		t.Error("a Job was created before the sync was stored")
	}
	f.stage(v1alpha1.DbtStageInitializing, "")
	f.reconcile("Unknown", "Progressing", "Creating the pod")
	f.must(f.Get(t.Context(), client.ObjectKeyFromObject(policy(f.job())), &networkingv1.NetworkPolicy{}))
	f.pod()
	if s := f.reconcile("Unknown", "Progressing", "The pod runs repo-clone"); s.Status.Stage != v1alpha1.DbtStageCloning {
		t.Errorf("%+v", s.Status)
	}
	f.pod(done(), done())
	s := f.reconcile("Unknown", "Progressing", "The pod runs dbt-compile")
	if s.Status.Stage != v1alpha1.DbtStageCompiling || len(s.Status.Phases) != 3 || s.Status.Phases[0].DurationMilliseconds != 1000 || s.Status.Phases[2].Outcome != "running" {
		t.Errorf("%+v", s.Status)
	}
	f.pod(done(), done(), done(), done(), done())
	f.end(batchv1.JobComplete, "")
	if s = f.reconcile("Unknown", "Progressing", "generates the data model"); s.Status.Stage != v1alpha1.DbtStageProcessing || len(s.Status.Phases) != 5 {
		t.Errorf("%+v", s.Status)
	}
	f.stage(v1alpha1.DbtStageCompleted, "")
	if s = f.reconcile("True", "Succeeded", "Generated 0 cubes"); s.Status.ObservedGeneration != s.Generation {
		t.Errorf("%+v", s.Status)
	}
}

// TestFailures: whatever ends a pod, the sync fails and says why.
func TestFailures(t *testing.T) {
	for name, c := range map[string]struct {
		happen func(f *fixture)
		want   string
	}{
		"dbt fails": {func(f *fixture) {
			f.pod(done(), &corev1.ContainerStateTerminated{ExitCode: 1, Message: "12:00:01  Running with dbt=1.10\n12:00:02  Package x was not found\n"})
			f.end(batchv1.JobFailed, "BackoffLimitExceeded")
		}, "dbt-deps: Package x was not found"},
		"too much memory": {func(f *fixture) {
			f.pod(done(), done(), &corev1.ContainerStateTerminated{ExitCode: 137, Reason: "OOMKilled"})
			f.end(batchv1.JobFailed, "BackoffLimitExceeded")
		}, "dbt-compile: the container was ended because it used too much memory"},
		"the deadline": {func(f *fixture) {
			f.pod(done())
			f.reconcile("Unknown", "Progressing", "The pod runs dbt-deps")
			f.must(f.DeleteAllOf(f.Context(), &corev1.Pod{}, client.InNamespace(f.namespace), client.GracePeriodSeconds(0)))
			f.end(batchv1.JobFailed, batchv1.JobReasonDeadlineExceeded)
		}, "the pod did not end within 30m0s, in dbt-deps"},
		"the Job is deleted": {func(f *fixture) {
			f.pod(done())
			f.must(f.Delete(f.Context(), f.job(), client.PropagationPolicy(metav1.DeletePropagationBackground)))
		}, "the Job of the sync was deleted"},
	} {
		t.Run(name, func(t *testing.T) {
			f := newFixture(t)
			f.sync(nil)
			f.stage(v1alpha1.DbtStageInitializing, "")
			f.reconcile("Unknown", "Progressing", "Creating the pod")
			c.happen(f)
			s := f.reconcile("False", "DbtSyncFailed", c.want)
			if s.Status.Stage != v1alpha1.DbtStageFailed || s.Status.Error != c.want || s.Status.CompletionTime == nil {
				t.Errorf("%+v", s.Status)
			}
		})
	}
}

// TestCreatedAgain: the Job of a deleted sync of the same name, and its policy, are deleted later. The new run waits for that of
// the Job, and has a policy of its own.
func TestCreatedAgain(t *testing.T) {
	f := newFixture(t)
	f.sync(nil)
	f.stage(v1alpha1.DbtStageInitializing, "")
	f.reconcile("Unknown", "Progressing", "Creating the pod")
	f.must(f.Delete(t.Context(), f.get()))
	f.sync(nil)
	f.stage(v1alpha1.DbtStageInitializing, "")
	if s := f.reconcile("Unknown", "Progressing", "an earlier DbtSync"); s.Status.Stage != v1alpha1.DbtStageInitializing {
		t.Errorf("%+v", s.Status)
	}
	f.must(f.Delete(t.Context(), f.job(), client.PropagationPolicy(metav1.DeletePropagationBackground)))
	f.reconcile("Unknown", "Progressing", "Creating the pod")
	own := &networkingv1.NetworkPolicy{}
	f.must(f.Get(t.Context(), client.ObjectKeyFromObject(policy(f.job())), own))
	if !metav1.IsControlledBy(own, f.get()) || !metav1.IsControlledBy(f.job(), f.get()) {
		t.Errorf("the owners are %v and %v", own.OwnerReferences, f.job().OwnerReferences)
	}
}

// TestNoPodWithoutPolicy: the Job is created after the policy, so its pod accepts no connection at any time.
func TestNoPodWithoutPolicy(t *testing.T) {
	f := newFixture(t)
	f.sync(nil)
	f.stage(v1alpha1.DbtStageInitializing, "")
	failure := apierrors.NewInternalError(errors.New("no policy"))
	c := interceptor.NewClient(f.WithWatch, interceptor.Funcs{
		Create: func(ctx context.Context, c client.WithWatch, obj client.Object, opts ...client.CreateOption) error {
			if _, ok := obj.(*networkingv1.NetworkPolicy); ok {
				return failure
			}
			return c.Create(ctx, obj, opts...)
		},
	})
	if o := (&syncs{f.options}).work(t.Context(), &scope{Client: kube.NewClient(c, c, "x"), Object: f.get()}); !errors.Is(o.Err(), failure) || f.job() != nil {
		t.Errorf("%v, the Job is %v", o.Err(), f.job())
	}
}

// TestCancelled: the Job of a sync that is cancelled is deleted.
func TestCancelled(t *testing.T) {
	f := newFixture(t)
	f.sync(nil)
	f.stage(v1alpha1.DbtStageInitializing, "")
	f.reconcile("Unknown", "Progressing", "Creating the pod")
	s := f.get()
	s.Spec.Cancelled = ptr.To(true)
	f.must(f.Update(t.Context(), s))
	f.stage(v1alpha1.DbtStageFailed, "the sync was cancelled")
	f.reconcile("False", "DbtSyncCancelled", "The sync was cancelled")
	if f.job() != nil {
		t.Error("the Job still runs")
	}
}

// TestCancelledOverREST: quoin apiserver ends the run, and spec.cancelled is not set.
func TestCancelledOverREST(t *testing.T) {
	f := newFixture(t)
	f.sync(nil)
	f.stage(v1alpha1.DbtStageInitializing, "")
	f.reconcile("Unknown", "Progressing", "Creating the pod")
	f.stage(v1alpha1.DbtStageFailed, v1alpha1.DbtCancelled)
	f.reconcile("False", "DbtSyncCancelled", "The sync was cancelled")
	if f.job() != nil {
		t.Error("the Job still runs")
	}
}

// TestWhatIsMissing: configuration and objects that a sync needs.
func TestWhatIsMissing(t *testing.T) {
	f := newFixture(t)
	f.options.DbtImage = ""
	f.sync(nil)
	f.reconcile("False", "DbtImageMissing", "--dbt-image")
	f.options.DbtImage, f.options.URL = "dbt:1", ""
	f.reconcile("False", "RepositoryUnavailable", "--repository-url")
	other := newFixture(t)
	other.sync(func(s *v1alpha1.DbtSyncSpec) { s.DeploymentRef.Name = "other" })
	s := other.get()
	if o := (&syncs{other.options}).work(t.Context(), &scope{Client: kube.NewClient(other.WithWatch, other.WithWatch, "x"), Object: s}); o.IsDone() || o.Err() != nil {
		t.Errorf("%+v", o)
	}
}

// TestThePodIsRestricted: no token, no root, no credentials in the containers that run dbt.
func TestThePodIsRestricted(t *testing.T) {
	f := newFixture(t)
	f.sync(nil)
	f.stage(v1alpha1.DbtStageInitializing, "")
	f.reconcile("Unknown", "Progressing", "Creating the pod")
	pod := f.job().Spec.Template.Spec
	if ptr.Deref(pod.AutomountServiceAccountToken, true) || !ptr.Deref(pod.SecurityContext.RunAsNonRoot, false) || pod.RestartPolicy != corev1.RestartPolicyNever {
		t.Errorf("%+v", pod)
	}
	secrets := map[string]string{}
	for _, c := range append(pod.InitContainers, pod.Containers...) {
		for _, m := range c.VolumeMounts {
			if m.Name == volumeGit || m.Name == volumeDelivery {
				secrets[c.Name] += m.Name
			}
		}
		if s := c.SecurityContext; !ptr.Deref(s.ReadOnlyRootFilesystem, false) || ptr.Deref(s.AllowPrivilegeEscalation, true) || c.Resources.Limits.Memory().IsZero() {
			t.Errorf("%+v", c)
		}
	}
	if len(secrets) != 2 || secrets[phaseClone] != volumeGit || secrets[phaseDeliver] != volumeDelivery {
		t.Errorf("containers with secrets: %v", secrets)
	}
	clone, list := strings.Join(pod.InitContainers[0].Args, " "), pod.InitContainers[3].Command
	if !strings.Contains(clone, "--adapter=postgres --database=shop") || list[len(list)-1] != "tag:$$(HOME)" || strings.Contains(list[2], "HOME") {
		t.Errorf("%s; %q", clone, list)
	}
}

// TestCatalog: only the container that reads the catalog has the variables of the data source.
func TestCatalog(t *testing.T) {
	f := newFixture(t)
	d := &v1alpha1.Deployment{}
	f.must(f.Get(t.Context(), client.ObjectKey{Namespace: f.namespace, Name: "sales"}, d))
	d.Spec.Env = append(d.Spec.Env, v1alpha1.EnvVar{Name: "CUBEJS_DB_PASS", ValueFrom: &v1alpha1.EnvVarSource{SecretKeyRef: v1alpha1.SecretKeyReference{Name: "warehouse", Key: "password"}}},
		v1alpha1.EnvVar{Name: "OTHER", Value: ptr.To("x")})
	d.Spec.EnvFrom = []v1alpha1.LocalReference{{Name: "more"}}
	f.must(f.Update(t.Context(), d))
	f.sync(func(s *v1alpha1.DbtSyncSpec) { s.Options = &v1alpha1.DbtOptions{TypesFromCatalog: ptr.To(true)} })
	f.stage(v1alpha1.DbtStageInitializing, "")
	f.reconcile("Unknown", "Progressing", "Creating the pod")
	pod := f.job().Spec.Template.Spec
	var names []string
	for _, c := range append(pod.InitContainers, pod.Containers...) {
		names = append(names, c.Name)
		env := map[string]string{}
		for _, v := range c.Env {
			if env[v.Name] = v.Value; v.ValueFrom != nil {
				env[v.Name] = v.ValueFrom.SecretKeyRef.Name + "/" + v.ValueFrom.SecretKeyRef.Key
			}
		}
		if c.Name != phaseCatalog {
			if len(c.EnvFrom) > 0 || env["CUBEJS_DB_TYPE"] != "" || env["DBT_ENV_SECRET_CUBEJS_DB_PASS"] != "" {
				t.Errorf("%s: %v", c.Name, c)
			}
			continue
		}
		if env["CUBEJS_DB_TYPE"] != "postgres" || env["DBT_ENV_SECRET_CUBEJS_DB_PASS"] != "warehouse/password" || env["CUBEJS_DB_PASS"] != "" || env["OTHER"] != "" ||
			len(c.EnvFrom) != 1 || c.EnvFrom[0].Prefix != "DBT_ENV_SECRET_" || c.EnvFrom[0].SecretRef.Name != "more" {
			t.Errorf("%v %v", c.Env, c.EnvFrom)
		}
		if got := strings.Join(c.Command, " "); got != "dbt docs generate --no-compile --target=dev" {
			t.Error(got)
		}
	}
	if got := strings.Join(names, " "); got != "repo-clone dbt-deps dbt-compile dbt-catalog dbt-select manifest-upload" {
		t.Error(got)
	}
	clone, deliver := strings.Join(pod.InitContainers[0].Args, " "), strings.Join(pod.Containers[0].Args, " ")
	if !strings.HasSuffix(clone, "--connects --credentials-dir=/etc/quoin/git") || !strings.Contains(deliver, "--catalog=/workspace/target/catalog.json") {
		t.Errorf("%s; %s", clone, deliver)
	}
	f.pod(done(), done(), done())
	if s := f.reconcile("Unknown", "Progressing", "The pod runs dbt-catalog"); s.Status.Stage != v1alpha1.DbtStageCompiling {
		t.Errorf("%+v", s.Status)
	}
}

// TestWaitingReason: what a user can do something about.
func TestWaitingReason(t *testing.T) {
	for reason, want := range map[string]string{
		"ImagePullBackOff": "image dbt:1 of container dbt-catalog cannot be pulled", "PodInitializing": "",
		"CreateContainerConfigError": `container dbt-catalog cannot be created: secret "warehouse" not found`,
	} {
		pod := &corev1.Pod{Status: corev1.PodStatus{InitContainerStatuses: []corev1.ContainerStatus{{
			Name: phaseCatalog, Image: "dbt:1", State: corev1.ContainerState{Waiting: &corev1.ContainerStateWaiting{Reason: reason, Message: `secret "warehouse" not found`}},
		}}}}
		if got := waitingReason(pod); got != want {
			t.Errorf("%s: %q", reason, got)
		}
	}
}
