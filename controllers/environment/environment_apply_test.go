package environment

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	clocktesting "k8s.io/utils/clock/testing"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	"github.com/quoin-dev/quoin/api/v1alpha1"
	"github.com/quoin-dev/quoin/internal/apitest"
	"github.com/quoin-dev/quoin/internal/engine"
	"github.com/quoin-dev/quoin/internal/kube"
	"github.com/quoin-dev/quoin/internal/reconciler"
)

// fixture is an environment on a real Kubernetes API server.
type fixture struct {
	t          *testing.T
	api        client.WithWatch
	r          *environmentReconciler
	account    *v1alpha1.Account
	deployment *v1alpha1.Deployment
	env        *v1alpha1.Environment
	options    engine.Options
	// written are the objects that the last apply wrote or deleted.
	written []string
}

// newFixture creates a dedicated environment, which has every kind of object: two store workers
// and three API pods.
func newFixture(t *testing.T) *fixture {
	t.Helper()
	api, namespace := apitest.Direct(t)
	ref := v1alpha1.LocalReference{Name: "sales"}
	f := &fixture{
		t: t, api: api, r: &environmentReconciler{},
		account: &v1alpha1.Account{
			ObjectMeta: metav1.ObjectMeta{Name: namespace},
			Spec:       v1alpha1.AccountSpec{Host: v1alpha1.Host(namespace + ".example.com"), Namespace: namespace},
		},
		deployment: &v1alpha1.Deployment{
			ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "sales"},
			Spec: v1alpha1.DeploymentSpec{
				ReleaseChannel: "stable", Size: v1alpha1.SizeDedicated, Replicas: ptr.To(int32(3)),
				Model: v1alpha1.ModelSource{Git: &v1alpha1.GitSource{URL: "https://git.example.com/model.git"}},
				Store: &v1alpha1.Store{Workers: ptr.To(int32(2)), RemoteClaimRef: &v1alpha1.LocalReference{Name: "store"}},
			},
		},
		env: &v1alpha1.Environment{
			ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "sales-production"},
			Spec: v1alpha1.EnvironmentSpec{
				DeploymentRef: ref, Type: v1alpha1.EnvironmentProduction, Version: "1.2.3",
				Image: "cube@sha256:" + strings.Repeat("1", 64), StoreImage: "cubestore@sha256:" + strings.Repeat("2", 64),
				ModelCommit: strings.Repeat("a", 40),
			},
		},
		options: engine.Options{QuoinImage: "quoin:v1", GatewayNamespace: "quoin-system"},
	}
	if err := api.Create(t.Context(), f.env); err != nil {
		t.Fatal(err)
	}
	return f
}

// apply applies the environment as a restarted controller does, and returns the writes.
func (f *fixture) apply() []string {
	f.t.Helper()
	f.written = nil
	note := func(verb string, kind string, obj string) { f.written = append(f.written, verb+" "+kind+" "+obj) }
	c := interceptor.NewClient(f.api, interceptor.Funcs{
		Apply: func(ctx context.Context, c client.WithWatch, obj runtime.ApplyConfiguration, opts ...client.ApplyOption) error {
			if o, ok := obj.(interface {
				GetKind() string
				GetName() string
			}); ok {
				note("apply", o.GetKind(), o.GetName())
			}
			return c.Apply(ctx, obj, opts...)
		},
		Delete: func(ctx context.Context, c client.WithWatch, obj client.Object, opts ...client.DeleteOption) error {
			note("delete", strings.TrimPrefix(fmt.Sprintf("%T", obj), "*"), obj.GetName())
			return c.Delete(ctx, obj, opts...)
		},
	})
	in, err := engine.InputsFor(f.account, f.deployment, f.env, nil, f.options)
	if err != nil {
		f.t.Fatal(err)
	}
	s := &scope{Client: kube.NewClient(c, f.api, "quoin-controller").As(FieldManager), Object: f.env, Clock: clocktesting.NewFakePassiveClock(time.Now())}
	if _, err := f.r.apply(f.t.Context(), s, in); err != nil {
		f.t.Fatal(err)
	}
	slices.Sort(f.written)
	return f.written
}

// objects returns the objects of the environment by kind and name.
func (f *fixture) objects() map[string]client.Object {
	f.t.Helper()
	all := map[string]client.Object{}
	for _, kind := range childKinds() {
		list, _ := kind.list.DeepCopyObject().(client.ObjectList)
		if err := f.api.List(f.t.Context(), list, client.InNamespace(f.env.Namespace)); err != nil {
			f.t.Fatal(err)
		}
		_ = meta.EachListItem(list, func(o runtime.Object) error {
			if obj, ok := o.(client.Object); ok && obj.GetName() != "default" && obj.GetDeletionTimestamp().IsZero() {
				all[strings.TrimPrefix(fmt.Sprintf("%T ", obj), "*")+obj.GetName()] = obj
			}
			return nil
		})
	}
	return all
}

func (f *fixture) names() []string {
	f.t.Helper()
	var names []string
	for name := range f.objects() {
		names = append(names, name)
	}
	slices.Sort(names)
	return names
}

func (f *fixture) must(err error) {
	f.t.Helper()
	if err != nil {
		f.t.Fatal(err)
	}
}

func (f *fixture) patch(obj client.Object, patch string) {
	f.t.Helper()
	f.must(f.api.Patch(f.t.Context(), obj, client.RawPatch("application/merge-patch+json", []byte(patch)), client.FieldOwner("kubectl")))
}

// TestObjectsAreRestored: every kind of object is written once, is owned by the environment, and
// is restored after a change or a deletion by another client.
func TestObjectsAreRestored(t *testing.T) {
	f := newFixture(t)
	first := f.apply()
	objects := f.objects()
	if len(first) != len(objects) || len(objects) < 12 {
		t.Errorf("%d writes created %d objects", len(first), len(objects))
	}
	if again := f.apply(); len(again) != 0 {
		t.Errorf("the second apply wrote %v", again)
	}
	for name, obj := range objects {
		if !metav1.IsControlledBy(obj, f.env) {
			t.Errorf("%s is not owned by the environment", name)
		}
		before := obj.GetLabels()["app.kubernetes.io/name"]
		f.patch(obj, `{"metadata":{"labels":{"app.kubernetes.io/name":"changed","team":"x"}}}`)
		if wrote := f.apply(); len(wrote) != 1 || !strings.HasSuffix(wrote[0], " "+obj.GetName()) {
			t.Errorf("%s was changed; wrote %v", name, wrote)
		}
		restored := f.objects()[name].GetLabels()
		if restored["app.kubernetes.io/name"] != before || restored["team"] != "x" {
			t.Errorf("%s has labels %v", name, restored)
		}
		if again := f.apply(); len(again) != 0 {
			t.Errorf("%s has a label of another client; wrote %v", name, again)
		}
	}
	for _, obj := range objects {
		f.must(f.api.Delete(t.Context(), obj, client.PropagationPolicy(metav1.DeletePropagationBackground)))
	}
	if wrote := f.apply(); len(wrote) != len(objects) {
		t.Errorf("all were deleted; wrote %v", wrote)
	}
}

// TestPruneDeletesOwnObjectsOnly that are no longer part of the environment.
func TestPruneDeletesOwnObjectsOnly(t *testing.T) {
	f := newFixture(t)
	f.apply()
	large := f.names()
	labels := map[string]string{v1alpha1.LabelEnvironment: f.env.Name, "app.kubernetes.io/managed-by": "quoin"}
	port := []corev1.ServicePort{{Port: 80}}
	orphan := &corev1.Service{ObjectMeta: metav1.ObjectMeta{Namespace: f.env.Namespace, Name: "no-owner", Labels: labels}, Spec: corev1.ServiceSpec{Ports: port}}
	other := f.env.DeepCopy()
	other.ResourceVersion, other.UID, other.Name = "", "", "other-production"
	f.must(f.api.Create(t.Context(), other))
	foreign := orphan.DeepCopy()
	foreign.Name, foreign.OwnerReferences = "of-another", []metav1.OwnerReference{*metav1.NewControllerRef(other, v1alpha1.GroupVersion.WithKind("Environment"))}
	unlabelled := orphan.DeepCopy()
	unlabelled.Name, unlabelled.Labels = "not-labelled", nil
	unlabelled.OwnerReferences = []metav1.OwnerReference{*metav1.NewControllerRef(f.env, v1alpha1.GroupVersion.WithKind("Environment"))}
	for _, obj := range []client.Object{orphan, foreign, unlabelled} {
		f.must(f.api.Create(t.Context(), obj))
	}
	f.deployment.Spec.Size, f.deployment.Spec.Store, f.deployment.Spec.Replicas = v1alpha1.SizeShared, nil, nil
	f.env.Spec.StoreImage = ""
	f.apply()
	want := []string{
		"v1.Deployment sales-production-api", "v1.NetworkPolicy sales-production-api", "v1.Service no-owner", "v1.Service not-labelled",
		"v1.Service of-another", "v1.Service sales-production-api", "v1.ServiceAccount sales-production",
	}
	if diff := cmp.Diff(want, f.names()); diff != "" {
		t.Errorf("remaining objects of %v (-want +got):\n%s", large, diff)
	}
	if again := f.apply(); len(again) != 0 {
		t.Errorf("the second apply wrote %v", again)
	}
}

// TestOneReplicaHasNoDisruptionBudget: it would keep its node from being drained.
func TestOneReplicaHasNoDisruptionBudget(t *testing.T) {
	f := newFixture(t)
	f.apply()
	budgets := func() int {
		list := &policyv1.PodDisruptionBudgetList{}
		f.must(f.api.List(t.Context(), list, client.InNamespace(f.env.Namespace)))
		return len(list.Items)
	}
	before := budgets()
	f.deployment.Spec.Replicas = ptr.To(int32(1))
	f.apply()
	if after := budgets(); before != 1 || after != 0 {
		t.Errorf("%d budgets before, %d after", before, after)
	}
}

// workloads returns the pod templates of the environment's workloads.
func (f *fixture) workloads() map[string]corev1.PodTemplateSpec {
	f.t.Helper()
	found := map[string]corev1.PodTemplateSpec{}
	for name, obj := range f.objects() {
		switch w := obj.(type) {
		case *appsv1.Deployment:
			found[name] = w.Spec.Template
		case *appsv1.StatefulSet:
			found[name] = w.Spec.Template
		}
	}
	return found
}

// TestNewReleaseRestartsNoPods: pod templates of another revision of the renderer are kept.
func TestNewReleaseRestartsNoPods(t *testing.T) {
	f := newFixture(t)
	f.apply()
	for name, obj := range f.objects() {
		if _, isWorkload := f.workloads()[name]; isWorkload {
			// As an earlier release may have rendered it.
			f.patch(obj, `{"metadata":{"annotations":{"`+v1alpha1.AnnotationRevision+`":"0"}},"spec":{"template":{"metadata":{"annotations":{"of":"before"}},"spec":{"priorityClassName":"before"}}}}`)
		}
	}
	before := f.workloads()
	f.options.QuoinImage = "quoin:v2"
	f.apply()
	if diff := cmp.Diff(before, f.workloads()); diff != "" {
		t.Errorf("workloads were changed (-before +after):\n%s", diff)
	}
	if again := f.apply(); len(again) != 0 {
		t.Errorf("the second apply wrote %v", again)
	}

	f.env.Spec.Image = "cube@sha256:" + strings.Repeat("3", 64)
	f.apply()
	after := f.workloads()
	for name, template := range before {
		runsCube := strings.HasPrefix(template.Spec.Containers[0].Image, "cube@")
		if diff := cmp.Diff(template, after[name]); (diff != "") != runsCube {
			t.Errorf("%s (-before +after):\n%s", name, diff)
		}
	}
	for name, obj := range f.objects() {
		if d, ok := obj.(*appsv1.Deployment); ok && (d.Annotations[v1alpha1.AnnotationRevision] == "0" || !strings.Contains(fmt.Sprint(d.Spec.Template.Spec.InitContainers), "quoin:v2")) {
			t.Errorf("%s has a new image and was not rendered again: revision %s", name, d.Annotations[v1alpha1.AnnotationRevision])
		}
	}
}

// TestBlockedEnvironmentShowsItsPods: the status follows the pods also while nothing is applied. Here, the deployment does not
// exist.
func TestBlockedEnvironmentShowsItsPods(t *testing.T) {
	f := newFixture(t)
	work := func() {
		t.Helper()
		s := &scope{Client: kube.NewClient(f.api, f.api, FieldManager), Object: f.env, Clock: clocktesting.NewFakePassiveClock(time.Now())}
		if o := f.r.work(t.Context(), s); o.Reason() != v1alpha1.ReasonDeploymentNotFound {
			t.Errorf("got %+v", o)
		}
	}
	if work(); len(f.env.Status.Conditions) > 0 {
		t.Errorf("without workloads: %+v", f.env.Status)
	}
	f.apply()
	d := &appsv1.Deployment{}
	f.must(f.api.Get(t.Context(), client.ObjectKey{Namespace: f.env.Namespace, Name: "sales-production-api"}, d))
	check := func(replicas, ready int32) {
		t.Helper()
		work()
		status, isServed := f.env.Status, ready > 0
		c := meta.FindStatusCondition(status.Conditions, v1alpha1.ConditionAvailable)
		if status.Replicas != replicas || status.ReadyReplicas != ready || status.Active != isServed || c == nil || (c.Status == metav1.ConditionTrue) != isServed {
			t.Errorf("%d of %d pods are ready: %+v", ready, replicas, status)
		}
	}
	for _, ready := range []int32{2, 0, 1} {
		before := d.DeepCopy()
		d.Status.Replicas, d.Status.UpdatedReplicas, d.Status.ReadyReplicas, d.Status.AvailableReplicas = 3, 3, ready, ready
		f.must(f.api.Status().Patch(t.Context(), d, client.MergeFrom(before)))
		check(3, ready)
	}
	f.must(f.api.Delete(t.Context(), d, client.PropagationPolicy(metav1.DeletePropagationBackground)))
	check(0, 0)
}

// TestTemplateIsKeptForSameInputs and another revision of the renderer.
func TestTemplateIsKeptForSameInputs(t *testing.T) {
	cases := map[string]struct {
		inputs, revision string
		kept             bool
	}{
		"same inputs, same revision":   {"i1", "r1", false},
		"same inputs, other revision":  {"i1", "r2", true},
		"other inputs, same revision":  {"i2", "r1", false},
		"other inputs, other revision": {"i2", "r2", false},
	}
	workload := func(inputs, revision, image string) *appsv1.Deployment {
		d := &appsv1.Deployment{ObjectMeta: metav1.ObjectMeta{Name: "sales-production-api", Annotations: map[string]string{
			v1alpha1.AnnotationInputs: inputs, v1alpha1.AnnotationRevision: revision,
		}}}
		d.Spec.Selector = &metav1.LabelSelector{MatchLabels: map[string]string{"app": "x"}}
		d.Spec.Template.Labels = d.Spec.Selector.MatchLabels
		d.Spec.Template.Spec.Containers = []corev1.Container{{Name: "api", Image: image}}
		return d
	}
	api, namespace := apitest.Direct(t)
	s := &scope{Client: kube.NewClient(api, api, FieldManager)}
	live := workload("i1", "r1", "live")
	live.Namespace = namespace
	if err := api.Create(t.Context(), live); err != nil {
		t.Fatal(err)
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			desired := workload(tc.inputs, tc.revision, "rendered")
			desired.Namespace = namespace
			desired.Spec.Template.Spec.PriorityClassName = "rendered"
			if err := keepTemplate(t.Context(), s, desired); err != nil {
				t.Fatal(err)
			}
			spec := desired.Spec.Template.Spec
			if kept := spec.Containers[0].Image == "live"; kept != tc.kept || (spec.PriorityClassName == "") != tc.kept {
				t.Errorf("image %s, priority class %s", spec.Containers[0].Image, spec.PriorityClassName)
			}
			want := tc.revision
			if tc.kept {
				want = "r1"
			}
			if got := desired.Annotations[v1alpha1.AnnotationRevision]; got != want {
				t.Errorf("revision %s, want %s: that of the template", got, want)
			}
		})
	}
	t.Run("new workload", func(t *testing.T) {
		desired := workload("i1", "r2", "rendered")
		desired.Namespace, desired.Name = namespace, "new"
		if err := keepTemplate(t.Context(), s, desired); err != nil || desired.Spec.Template.Spec.Containers[0].Image != "rendered" {
			t.Errorf("got %v, %v", err, desired.Spec.Template.Spec.Containers)
		}
	})
}

// TestEnvironmentWaitsForACommit: the model of a deployment has moved to Git, and the branch has no commit yet. That is no failed call.
func TestEnvironmentWaitsForACommit(t *testing.T) {
	f := newFixture(t)
	f.env.Spec.ModelCommit = ""
	f.must(f.api.Create(t.Context(), f.account))
	t.Cleanup(func() { _ = f.api.Delete(context.Background(), f.account) })
	f.must(f.api.Create(t.Context(), f.deployment))
	s := &scope{Client: kube.NewClient(f.api, f.api, FieldManager), Object: f.env, Clock: clocktesting.NewFakePassiveClock(time.Now())}
	_, o := f.r.inputs(t.Context(), s)
	if o == nil || !o.IsProgressing() || o.Err() != nil {
		t.Errorf("%+v", o)
	}
}

// TestCredentialsAreCreatedOnce and never changed.
func TestCredentialsAreCreatedOnce(t *testing.T) {
	f := newFixture(t)
	in, err := engine.InputsFor(f.account, f.deployment, f.env, nil, f.options)
	f.must(err)
	create := func() {
		t.Helper()
		s := &scope{Client: kube.NewClient(f.api, f.api, FieldManager), Object: f.env}
		f.must((&environmentReconciler{}).credentials(t.Context(), s, in))
	}
	read := func(name string) *corev1.Secret {
		t.Helper()
		secret := &corev1.Secret{}
		f.must(f.api.Get(t.Context(), client.ObjectKey{Namespace: f.env.Namespace, Name: name}, secret))
		return secret
	}
	create()
	if f.env.Status.CredentialsSecret != "sales-production-credentials" {
		t.Errorf("status.credentialsSecret is %q", f.env.Status.CredentialsSecret)
	}
	pods, gateway := read("sales-production-credentials"), read("sales-production-gateway")
	if !metav1.IsControlledBy(pods, f.env) || !metav1.IsControlledBy(gateway, f.env) {
		t.Error("not owned by the environment")
	}
	f.env.Status.CredentialsSecret = "" // as after the loss of the status
	f.must(f.api.Delete(t.Context(), gateway))
	create()
	if again := read(pods.Name); again.ResourceVersion != pods.ResourceVersion {
		t.Error("an existing secret was changed")
	}
	if again := read(gateway.Name); string(again.Data[engine.KeyMetadata]) == string(gateway.Data[engine.KeyMetadata]) {
		t.Error("the new secret equals the deleted one")
	}
	if err := f.api.Get(t.Context(), client.ObjectKey{Namespace: f.env.Namespace, Name: "other"}, &corev1.Secret{}); !apierrors.IsNotFound(err) {
		t.Error(err)
	}
}

// TestDeletedCredentialsAreCreatedAgain, and the pods that have the deleted ones are restarted, once.
func TestDeletedCredentialsAreCreatedAgain(t *testing.T) {
	missing := corev1.PodCondition{Type: v1alpha1.PodModelCompiled, Status: corev1.ConditionFalse, Reason: engine.WarmUpMissing, Message: "does not exist", LastTransitionTime: metav1.Unix(1, 0)}
	blocked := corev1.ContainerStatus{Name: "api", State: corev1.ContainerState{Waiting: &corev1.ContainerStateWaiting{Reason: "CreateContainerConfigError"}}}
	for name, status := range map[string]corev1.PodStatus{
		"warm-up has no token": {Conditions: []corev1.PodCondition{missing}},
		"pods cannot start":    {ContainerStatuses: []corev1.ContainerStatus{blocked}},
	} {
		t.Run(name, func(t *testing.T) {
			f := newFixture(t)
			f.options.WarmUp = true
			in, err := engine.InputsFor(f.account, f.deployment, f.env, nil, f.options)
			f.must(err)
			clk := clocktesting.NewFakeClock(time.Unix(1000, 0))
			s := &scope{Client: kube.NewClient(f.api, f.api, FieldManager), Object: f.env, Clock: clk}
			f.must(f.r.credentials(t.Context(), s, in))
			f.apply()
			workloads, err := f.r.workloads(t.Context(), s)
			f.must(err)
			f.pod(gatedInputs(f.env, workloads), status)
			secret := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: f.env.Namespace, Name: "sales-production-credentials"}}
			f.must(f.api.Delete(t.Context(), secret))
			reconcile := func() string {
				t.Helper()
				clk.Step(time.Minute)
				o, isFinal := f.r.warmUp(t.Context(), s, in, workloads, reconciler.Progressing(v1alpha1.ReasonWorkloadsNotReady, "0 of 3"))
				if !isFinal {
					o = f.r.explain(t.Context(), s, in, o)
				}
				reconciler.Summarise(f.env, o)
				return meta.FindStatusCondition(f.env.Status.Conditions, v1alpha1.ConditionReady).Message
			}
			if message := reconcile(); !strings.Contains(message, "was deleted and has been created again") {
				t.Error(message)
			}
			f.must(f.api.Get(t.Context(), client.ObjectKeyFromObject(secret), secret))
			restarted := f.restarted()
			if len(restarted) != 2 {
				t.Errorf("restarted %v", restarted)
			}
			if message := reconcile(); strings.Contains(message, "created again") || !maps.Equal(f.restarted(), restarted) {
				t.Errorf("with the secret: %s; restarted %v", message, f.restarted())
			}
			f.apply()
			if !maps.Equal(f.restarted(), restarted) {
				t.Errorf("the next apply restarted %v", f.restarted())
			}
		})
	}
}

// pod creates an API pod of a template with a status.
func (f *fixture) pod(template string, status corev1.PodStatus) {
	f.t.Helper()
	pod := podWith("sales-production-api-1", template, "", "")
	pod.Namespace, pod.Spec.Containers = f.env.Namespace, []corev1.Container{{Name: "api", Image: "cube"}}
	f.must(f.api.Create(f.t.Context(), pod))
	created := pod.DeepCopy()
	pod.Status = status
	f.must(f.api.Status().Patch(f.t.Context(), pod, client.StrategicMergeFrom(created)))
}

// restarted returns when the pods of each workload were restarted, of those whose pods were.
func (f *fixture) restarted() map[string]string {
	f.t.Helper()
	times := map[string]string{}
	for name, obj := range f.objects() {
		var template corev1.PodTemplateSpec
		switch w := obj.(type) {
		case *appsv1.Deployment:
			template = w.Spec.Template
		case *appsv1.StatefulSet:
			template = w.Spec.Template
		}
		if at := template.Annotations[annotationRestarted]; at != "" {
			times[name] = at
		}
	}
	return times
}

// TestSecretsOfAnEarlierEnvironmentAreNotUsed: the garbage collector, which the test does not have, deletes them with their
// owner.
func TestSecretsOfAnEarlierEnvironmentAreNotUsed(t *testing.T) {
	f := newFixture(t)
	in, err := engine.InputsFor(f.account, f.deployment, f.env, nil, f.options)
	f.must(err)
	c := f.api
	create := func() error {
		s := &scope{Client: kube.NewClient(c, c, FieldManager), Object: f.env}
		return (&environmentReconciler{}).credentials(t.Context(), s, in)
	}
	f.must(create())
	f.must(f.api.Delete(t.Context(), f.env))
	f.env = &v1alpha1.Environment{ObjectMeta: metav1.ObjectMeta{Namespace: f.env.Namespace, Name: f.env.Name}, Spec: f.env.Spec}
	f.must(f.api.Create(t.Context(), f.env))
	for _, name := range []string{"sales-production-credentials", "sales-production-gateway"} {
		if err := create(); !errors.Is(err, errEarlierSecret) || f.env.Status.CredentialsSecret != "" {
			t.Errorf("%s exists: %v, status.credentialsSecret is %q", name, err, f.env.Status.CredentialsSecret)
		}
		f.must(f.api.Delete(t.Context(), &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: f.env.Namespace, Name: name}}))
	}
	f.must(create())
	secret := &corev1.Secret{}
	f.must(f.api.Get(t.Context(), client.ObjectKey{Namespace: f.env.Namespace, Name: "sales-production-gateway"}, secret))
	if !metav1.IsControlledBy(secret, f.env) || f.env.Status.CredentialsSecret == "" {
		t.Errorf("owners %v, status.credentialsSecret is %q", secret.OwnerReferences, f.env.Status.CredentialsSecret)
	}
	// Without the permission to read them, existing secrets are used.
	f.env.Status.CredentialsSecret, f.env.UID = "", "other"
	c = interceptor.NewClient(f.api, interceptor.Funcs{
		Get: func(_ context.Context, _ client.WithWatch, key client.ObjectKey, _ client.Object, _ ...client.GetOption) error {
			return apierrors.NewForbidden(corev1.Resource("secrets"), key.Name, errors.New("rbac"))
		},
	})
	f.must(create())
}
