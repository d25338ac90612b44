package environment

import (
	"context"
	"fmt"
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
)

// house is an environment on a real API server.
type house struct {
	t          *testing.T
	api        client.WithWatch
	r          *environmentReconciler
	account    *v1alpha1.Account
	deployment *v1alpha1.Deployment
	env        *v1alpha1.Environment
	options    engine.Options
	// written are the objects that were written or deleted since the last look.
	written []string
}

// newHouse is a large environment, which has every kind of object: two store workers and
// three API pods.
func newHouse(t *testing.T) *house {
	t.Helper()
	api, namespace := apitest.Direct(t)
	ref := v1alpha1.LocalReference{Name: "sales"}
	h := &house{
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
	if err := api.Create(t.Context(), h.env); err != nil {
		t.Fatal(err)
	}
	return h
}

// apply applies the environment as a fresh controller does, and returns what that wrote.
func (h *house) apply() []string {
	h.t.Helper()
	h.written = nil
	note := func(verb string, kind string, obj string) { h.written = append(h.written, verb+" "+kind+" "+obj) }
	c := interceptor.NewClient(h.api, interceptor.Funcs{
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
	in, err := engine.InputsFor(h.account, h.deployment, h.env, nil, h.options)
	if err != nil {
		h.t.Fatal(err)
	}
	s := &scope{Client: kube.NewClient(c, h.api, "quoin-controller").As(FieldManager), Object: h.env, Clock: clocktesting.NewFakePassiveClock(time.Now())}
	if _, err := h.r.apply(h.t.Context(), s, in); err != nil {
		h.t.Fatal(err)
	}
	slices.Sort(h.written)
	return h.written
}

// objects are those of the environment by kind and name.
func (h *house) objects() map[string]client.Object {
	h.t.Helper()
	all := map[string]client.Object{}
	for _, kind := range childKinds() {
		list, _ := kind.list.DeepCopyObject().(client.ObjectList)
		if err := h.api.List(h.t.Context(), list, client.InNamespace(h.env.Namespace)); err != nil {
			h.t.Fatal(err)
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

func (h *house) names() []string {
	h.t.Helper()
	var names []string
	for name := range h.objects() {
		names = append(names, name)
	}
	slices.Sort(names)
	return names
}

func (h *house) must(err error) {
	h.t.Helper()
	if err != nil {
		h.t.Fatal(err)
	}
}

func (h *house) patch(obj client.Object, patch string) {
	h.t.Helper()
	h.must(h.api.Patch(h.t.Context(), obj, client.RawPatch("application/merge-patch+json", []byte(patch)), client.FieldOwner("kubectl")))
}

// TestApplyOfEveryKind: every kind of object is written once, belongs to the environment, is
// put back when somebody changes it, and made again when somebody deletes it.
func TestApplyOfEveryKind(t *testing.T) {
	h := newHouse(t)
	first := h.apply()
	objects := h.objects()
	if len(first) != len(objects) || len(objects) < 12 {
		t.Errorf("%d writes made %d objects", len(first), len(objects))
	}
	if again := h.apply(); len(again) != 0 {
		t.Errorf("the second time wrote %v", again)
	}
	for name, obj := range objects {
		if !metav1.IsControlledBy(obj, h.env) {
			t.Errorf("%s does not go with the environment", name)
		}
		before := obj.GetLabels()["app.kubernetes.io/name"]
		h.patch(obj, `{"metadata":{"labels":{"app.kubernetes.io/name":"evil","team":"x"}}}`)
		if wrote := h.apply(); len(wrote) != 1 || !strings.HasSuffix(wrote[0], " "+obj.GetName()) {
			t.Errorf("%s was changed; wrote %v", name, wrote)
		}
		healed := h.objects()[name].GetLabels()
		if healed["app.kubernetes.io/name"] != before || healed["team"] != "x" {
			t.Errorf("%s has labels %v", name, healed)
		}
		if again := h.apply(); len(again) != 0 {
			t.Errorf("%s has a label of somebody else; wrote %v", name, again)
		}
	}
	for _, obj := range objects {
		h.must(h.api.Delete(t.Context(), obj, client.PropagationPolicy(metav1.DeletePropagationBackground)))
	}
	if wrote := h.apply(); len(wrote) != len(objects) {
		t.Errorf("all were deleted; wrote %v", wrote)
	}
}

// TestPrune: what the environment no longer has goes, and nothing that is not its own.
func TestPrune(t *testing.T) {
	h := newHouse(t)
	h.apply()
	large := h.names()
	labels := map[string]string{v1alpha1.LabelEnvironment: h.env.Name, "app.kubernetes.io/managed-by": "quoin"}
	port := []corev1.ServicePort{{Port: 80}}
	orphan := &corev1.Service{ObjectMeta: metav1.ObjectMeta{Namespace: h.env.Namespace, Name: "no-owner", Labels: labels}, Spec: corev1.ServiceSpec{Ports: port}}
	other := h.env.DeepCopy()
	other.ResourceVersion, other.UID, other.Name = "", "", "other-production"
	h.must(h.api.Create(t.Context(), other))
	theirs := orphan.DeepCopy()
	theirs.Name, theirs.OwnerReferences = "of-another", []metav1.OwnerReference{*metav1.NewControllerRef(other, v1alpha1.GroupVersion.WithKind("Environment"))}
	unlabelled := orphan.DeepCopy()
	unlabelled.Name, unlabelled.Labels = "not-labelled", nil
	unlabelled.OwnerReferences = []metav1.OwnerReference{*metav1.NewControllerRef(h.env, v1alpha1.GroupVersion.WithKind("Environment"))}
	for _, obj := range []client.Object{orphan, theirs, unlabelled} {
		h.must(h.api.Create(t.Context(), obj))
	}
	h.deployment.Spec.Size, h.deployment.Spec.Store, h.deployment.Spec.Replicas = v1alpha1.SizeShared, nil, nil
	h.env.Spec.StoreImage = ""
	h.apply()
	want := []string{
		"v1.Deployment sales-production-api", "v1.NetworkPolicy sales-production-api", "v1.Service no-owner", "v1.Service not-labelled",
		"v1.Service of-another", "v1.Service sales-production-api", "v1.ServiceAccount sales-production",
	}
	if diff := cmp.Diff(want, h.names()); diff != "" {
		t.Errorf("objects that are left of %v (-want +got):\n%s", large, diff)
	}
	if again := h.apply(); len(again) != 0 {
		t.Errorf("the second time wrote %v", again)
	}
}

// TestScalingToOneTakesTheBudgetAway: it would keep the node of the one pod from being drained.
func TestScalingToOneTakesTheBudgetAway(t *testing.T) {
	h := newHouse(t)
	h.apply()
	budgets := func() int {
		list := &policyv1.PodDisruptionBudgetList{}
		h.must(h.api.List(t.Context(), list, client.InNamespace(h.env.Namespace)))
		return len(list.Items)
	}
	before := budgets()
	h.deployment.Spec.Replicas = ptr.To(int32(1))
	h.apply()
	if after := budgets(); before != 1 || after != 0 {
		t.Errorf("%d budgets before, %d after", before, after)
	}
}

// workloads are the pod templates of the environment's workloads: other ones are rolled out.
func (h *house) workloads() map[string]corev1.PodTemplateSpec {
	h.t.Helper()
	found := map[string]corev1.PodTemplateSpec{}
	for name, obj := range h.objects() {
		switch w := obj.(type) {
		case *appsv1.Deployment:
			found[name] = w.Spec.Template
		case *appsv1.StatefulSet:
			found[name] = w.Spec.Template
		}
	}
	return found
}

// TestNewReleaseRestartsNothing: what another revision of the renderer made stays as it is,
// and there is nothing to roll out.
func TestNewReleaseRestartsNothing(t *testing.T) {
	h := newHouse(t)
	h.apply()
	for name, obj := range h.objects() {
		if _, isWorkload := h.workloads()[name]; isWorkload {
			// As a release before would have rendered it: it had a variable that this one has not.
			h.patch(obj, `{"metadata":{"annotations":{"`+v1alpha1.AnnotationRevision+`":"0"}},"spec":{"template":{"metadata":{"annotations":{"of":"before"}},"spec":{"priorityClassName":"before"}}}}`)
		}
	}
	before := h.workloads()
	h.options.QuoinImage = "quoin:v2"
	h.apply()
	if diff := cmp.Diff(before, h.workloads()); diff != "" {
		t.Errorf("workloads were changed (-before +after):\n%s", diff)
	}
	if again := h.apply(); len(again) != 0 {
		t.Errorf("the second time wrote %v", again)
	}

	h.env.Spec.Image = "cube@sha256:" + strings.Repeat("3", 64)
	h.apply()
	after := h.workloads()
	for name, was := range before {
		runsCube := strings.HasPrefix(was.Spec.Containers[0].Image, "cube@")
		if diff := cmp.Diff(was, after[name]); (diff != "") != runsCube {
			t.Errorf("%s (-was +is):\n%s", name, diff)
		}
	}
	for name, obj := range h.objects() {
		if d, ok := obj.(*appsv1.Deployment); ok && (d.Annotations[v1alpha1.AnnotationRevision] == "0" || !strings.Contains(fmt.Sprint(d.Spec.Template.Spec.InitContainers), "quoin:v2")) {
			t.Errorf("%s changed its image and was not rendered anew: revision %s", name, d.Annotations[v1alpha1.AnnotationRevision])
		}
	}
}

// TestKeepTemplate: which template a workload gets, by what is the same.
func TestKeepTemplate(t *testing.T) {
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
	live := workload("i1", "r1", "made-before")
	live.Namespace = namespace
	if err := api.Create(t.Context(), live); err != nil {
		t.Fatal(err)
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			desired := workload(tc.inputs, tc.revision, "rendered-now")
			desired.Namespace = namespace
			desired.Spec.Template.Spec.PriorityClassName = "rendered-now"
			if err := keepTemplate(t.Context(), s, desired); err != nil {
				t.Fatal(err)
			}
			spec := desired.Spec.Template.Spec
			if kept := spec.Containers[0].Image == "made-before"; kept != tc.kept || (spec.PriorityClassName == "") != tc.kept {
				t.Errorf("image %s, priority class %s", spec.Containers[0].Image, spec.PriorityClassName)
			}
			want := tc.revision
			if tc.kept {
				want = "r1"
			}
			if got := desired.Annotations[v1alpha1.AnnotationRevision]; got != want {
				t.Errorf("revision %s, want %s: it says what the template was rendered by", got, want)
			}
		})
	}
	t.Run("there is none yet", func(t *testing.T) {
		desired := workload("i1", "r2", "rendered-now")
		desired.Namespace, desired.Name = namespace, "new"
		if err := keepTemplate(t.Context(), s, desired); err != nil || desired.Spec.Template.Spec.Containers[0].Image != "rendered-now" {
			t.Errorf("got %v, %v", err, desired.Spec.Template.Spec.Containers)
		}
	})
}

// TestCredentials: the secrets are made once, and never changed.
func TestCredentials(t *testing.T) {
	h := newHouse(t)
	in, err := engine.InputsFor(h.account, h.deployment, h.env, nil, h.options)
	h.must(err)
	makeThem := func() {
		t.Helper()
		s := &scope{Client: kube.NewClient(h.api, h.api, FieldManager), Object: h.env}
		h.must((&environmentReconciler{}).credentials(t.Context(), s, in))
	}
	read := func(name string) *corev1.Secret {
		t.Helper()
		secret := &corev1.Secret{}
		h.must(h.api.Get(t.Context(), client.ObjectKey{Namespace: h.env.Namespace, Name: name}, secret))
		return secret
	}
	makeThem()
	if h.env.Status.CredentialsSecret != "sales-production-credentials" {
		t.Errorf("status.credentialsSecret is %q", h.env.Status.CredentialsSecret)
	}
	pods, gateway := read("sales-production-credentials"), read("sales-production-gateway")
	if !metav1.IsControlledBy(pods, h.env) || !metav1.IsControlledBy(gateway, h.env) {
		t.Error("they do not go with the environment")
	}
	h.env.Status.CredentialsSecret = "" // a status that was lost
	h.must(h.api.Delete(t.Context(), gateway))
	makeThem()
	if again := read(pods.Name); again.ResourceVersion != pods.ResourceVersion {
		t.Error("a secret that was there was changed")
	}
	if again := read(gateway.Name); string(again.Data[engine.KeyMetadata]) == string(gateway.Data[engine.KeyMetadata]) {
		t.Error("the secret made anew is the old one")
	}
	if err := h.api.Get(t.Context(), client.ObjectKey{Namespace: h.env.Namespace, Name: "other"}, &corev1.Secret{}); !apierrors.IsNotFound(err) {
		t.Error(err)
	}
}
