package kube

import (
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/quoin-dev/quoin/api/v1alpha1"
	"github.com/quoin-dev/quoin/internal/apitest"
)

// workload returns a typed object with the desired fields only.
func (f *fixture) workload() *appsv1.Deployment {
	labels := map[string]string{"app.kubernetes.io/instance": "sales"}
	return &appsv1.Deployment{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: f.key.Namespace, Name: "sales-api",
			Labels: labels, Annotations: map[string]string{v1alpha1.AnnotationInputs: "1"},
		},
		Spec: appsv1.DeploymentSpec{
			Replicas: ptr.To(int32(0)),
			Selector: &metav1.LabelSelector{MatchLabels: labels},
			Strategy: appsv1.DeploymentStrategy{RollingUpdate: &appsv1.RollingUpdateDeployment{MaxSurge: ptr.To(intstr.FromString("25%"))}},
			Template: corev1.PodTemplateSpec{
				ObjectMeta: metav1.ObjectMeta{Labels: labels},
				Spec: corev1.PodSpec{Containers: []corev1.Container{{
					Name: "api", Image: "cube:v1",
					Env: []corev1.EnvVar{{Name: "A", Value: "1"}, {Name: "B", Value: "2"}},
					Resources: corev1.ResourceRequirements{Requests: corev1.ResourceList{
						corev1.ResourceCPU: resource.MustParse("0.5"), corev1.ResourceMemory: resource.MustParse("1024Mi"),
					}},
				}}},
			},
		},
	}
}

// apply applies a workload and reports whether Apply wrote it. It compares the result of Apply with the
// requests that were sent.
func (f *fixture) apply(desired *appsv1.Deployment) (*appsv1.Deployment, bool) {
	f.t.Helper()
	f.sent.writes = 0
	live, written, err := Apply(f.t.Context(), f.k, desired)
	f.must(err)
	if written != (f.sent.writes == 1) || f.sent.writes > 1 {
		f.t.Errorf("Apply returned written %v and sent %d requests", written, f.sent.writes)
	}
	return live, written
}

// as returns a client of another field manager, such as kubectl or an autoscaler.
func (f *fixture) as(manager string) client.Client { return client.WithFieldOwner(f.api, manager) }

func (f *fixture) mergeWorkload(patch string) {
	f.t.Helper()
	d := &appsv1.Deployment{ObjectMeta: metav1.ObjectMeta{Namespace: f.key.Namespace, Name: "sales-api"}}
	f.must(f.as("kubectl").Patch(f.t.Context(), d, client.RawPatch("application/strategic-merge-patch+json", []byte(patch))))
}

// TestApplyWritesOnce: an object that has all desired fields is not written again, even if the API
// server has added others.
func TestApplyWritesOnce(t *testing.T) {
	f := newFixture(t)
	first, written := f.apply(f.workload())
	if !written {
		t.Error("the object was not created")
	}
	if first.ResourceVersion == "" || first.Spec.Template.Spec.Containers[0].ImagePullPolicy == "" {
		t.Errorf("Apply returned another object than the current one: %+v", first)
	}
	second, written := f.apply(f.workload())
	if written {
		t.Error("the same object was written again")
	}
	ignored := cmpopts.IgnoreTypes(metav1.TypeMeta{})
	if diff := cmp.Diff(first, second, ignored); diff != "" {
		t.Errorf("the two results differ (-first +second):\n%s", diff)
	}
	f.mergeWorkload(`{"metadata":{"labels":{"team":"x"}},"spec":{"template":{"spec":{"nodeSelector":{"disk":"fast"}}}}}`)
	if _, written := f.apply(f.workload()); written {
		t.Error("fields of another manager caused a write")
	}
}

func TestApplySameValueTwice(t *testing.T) {
	f := newFixture(t)
	desired := f.workload()
	f.apply(desired)
	if _, written := f.apply(desired); written {
		t.Error("the same value was written again")
	}
}

// TestApplyRestoresChangedFields: Apply restores its fields after a change by another manager.
func TestApplyRestoresChangedFields(t *testing.T) {
	cases := map[string]string{
		"changed image":       `{"spec":{"template":{"spec":{"containers":[{"name":"api","image":"evil:v1"}]}}}}`,
		"changed variable":    `{"spec":{"template":{"spec":{"containers":[{"name":"api","env":[{"name":"A","value":"9"}]}]}}}}`,
		"removed variable":    `{"spec":{"template":{"spec":{"containers":[{"name":"api","env":[{"name":"B","$patch":"delete"}]}]}}}}`,
		"changed quantity":    `{"spec":{"template":{"spec":{"containers":[{"name":"api","resources":{"requests":{"cpu":"501m"}}}]}}}}`,
		"changed zero":        `{"spec":{"replicas":3}}`,
		"removed label":       `{"metadata":{"labels":{"app.kubernetes.io/instance":null}}}`,
		"removed annotation":  `{"metadata":{"annotations":{"` + v1alpha1.AnnotationInputs + `":null}}}`,
		"removed hash":        `{"metadata":{"annotations":{"` + annotationApplied + `":null}}}`,
		"changed surge":       `{"spec":{"strategy":{"rollingUpdate":{"maxSurge":1}}}}`,
		"removed annotations": `{"metadata":{"annotations":null}}`,
	}
	for name, patch := range cases {
		t.Run(name, func(t *testing.T) {
			f := newFixture(t)
			want, _ := f.apply(f.workload())
			f.mergeWorkload(patch)
			got, written := f.apply(f.workload())
			if !written {
				t.Error("nothing was written")
			}
			ignored := cmpopts.IgnoreFields(metav1.ObjectMeta{}, "ResourceVersion", "Generation", "ManagedFields")
			if diff := cmp.Diff(want, got, ignored); diff != "" {
				t.Errorf("not restored (-want +got):\n%s", diff)
			}
		})
	}
}

// TestApplyKeepsFieldsOfOtherManagers: a write changes the desired fields only.
func TestApplyKeepsFieldsOfOtherManagers(t *testing.T) {
	f := newFixture(t)
	f.apply(f.workload())
	f.mergeWorkload(`{"metadata":{"labels":{"team":"x"}},"spec":{"template":{"spec":{"nodeSelector":{"disk":"fast"}}}}}`)
	desired := f.workload()
	desired.Spec.Template.Spec.Containers[0].Image = "cube:v2"
	got, written := f.apply(desired)
	if !written || got.Spec.Template.Spec.Containers[0].Image != "cube:v2" {
		t.Error("the change was not written")
	}
	if got.Labels["team"] != "x" || got.Spec.Template.Spec.NodeSelector["disk"] != "fast" {
		t.Errorf("fields of other managers are missing: %v, %v", got.Labels, got.Spec.Template.Spec.NodeSelector)
	}
}

// TestApplyRemovesFieldsThatAreNoLongerDesired: a field of the last Apply that this one does not have is
// removed, although the object has all desired fields.
func TestApplyRemovesFieldsThatAreNoLongerDesired(t *testing.T) {
	f := newFixture(t)
	f.apply(f.workload())
	f.mergeWorkload(`{"metadata":{"annotations":{"team":"x"}}}`)
	desired := f.workload()
	desired.Annotations = nil
	desired.Spec.Replicas = nil
	desired.Spec.Template.Spec.Containers[0].Env = desired.Spec.Template.Spec.Containers[0].Env[:1]
	got, written := f.apply(desired)
	if !written {
		t.Error("nothing was written")
	}
	keys := []string{}
	for key := range got.Annotations {
		keys = append(keys, key)
	}
	slices.Sort(keys)
	if diff := cmp.Diff([]string{annotationApplied, "team"}, keys); diff != "" {
		t.Errorf("annotations (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff([]corev1.EnvVar{{Name: "A", Value: "1"}}, got.Spec.Template.Spec.Containers[0].Env); diff != "" {
		t.Errorf("variables (-want +got):\n%s", diff)
	}
	if *got.Spec.Replicas != 1 {
		t.Errorf("%d replicas; want the default of Kubernetes", *got.Spec.Replicas)
	}
	if _, written := f.apply(desired.DeepCopy()); written {
		t.Error("the second Apply wrote it again")
	}
}

// TestApplyWithStaleCache: an object that is not in the cache yet is not written twice.
func TestApplyWithStaleCache(t *testing.T) {
	f := newFixture(t)
	f.cache.freeze(f.key, nil)
	desired := func() *v1alpha1.Deployment { return newDeployment(f.key.Namespace, f.key.Name) }
	for i, want := range []int{1, 0} {
		f.sent.writes = 0
		if _, _, err := Apply(t.Context(), f.k, desired()); err != nil {
			t.Fatal(err)
		}
		if f.sent.writes != want {
			t.Errorf("time %d: %d writes, want %d", i+1, f.sent.writes, want)
		}
	}
}

// TestApplyTakesOwnership: a desired field that kubectl has set before is owned by the controller
// afterwards.
func TestApplyTakesOwnership(t *testing.T) {
	f := newFixture(t)
	theirs := f.workload()
	theirs.Spec.Template.Spec.Containers[0].Image = "theirs:v1"
	f.must(f.as("kubectl").Create(t.Context(), theirs))
	got, written := f.apply(f.workload())
	if !written || got.Spec.Template.Spec.Containers[0].Image != "cube:v1" {
		t.Errorf("image is %q", got.Spec.Template.Spec.Containers[0].Image)
	}
	managed := slices.IndexFunc(got.ManagedFields, func(m metav1.ManagedFieldsEntry) bool {
		return m.Manager == "quoin-test" && m.Operation == metav1.ManagedFieldsOperationApply
	})
	if managed < 0 {
		t.Errorf("quoin-test owns no field: %v", got.ManagedFields)
	}
}

// TestApplyErrorsNameTheObject: errors contain the kind and name of the object, and wrap the cause.
func TestApplyErrorsNameTheObject(t *testing.T) {
	f := newFixture(t)
	desired := f.workload()
	desired.Spec.Selector.MatchLabels = map[string]string{"other": "label"}
	_, _, err := Apply(t.Context(), f.k, desired)
	if !apierrors.IsInvalid(err) {
		t.Fatalf("got %v, want invalid", err)
	}
	if want := "apply Deployment sales-api: "; len(err.Error()) < len(want) || err.Error()[:len(want)] != want {
		t.Errorf("got %q, want it to begin with %q", err, want)
	}
}

func TestPatchStatus(t *testing.T) {
	t.Run("unchanged", func(t *testing.T) {
		f := newFixture(t)
		d := f.created()
		written, err := PatchStatus(t.Context(), f.k, d.DeepCopy(), d)
		if written || err != nil || f.sent.writes != 0 {
			t.Errorf("written %v, %v, %d writes", written, err, f.sent.writes)
		}
	})
	t.Run("writes the status only", func(t *testing.T) {
		f := newFixture(t)
		d := f.created()
		before := d.DeepCopy()
		d.Status.ID, d.Spec.DisplayName = "7", "Not to be written"
		written, err := PatchStatus(t.Context(), f.k, before, d)
		f.must(err)
		got, err := f.get()
		f.must(err)
		if !written || got.Status.ID != "7" || got.Spec.DisplayName != "Sales" || got.Generation != before.Generation {
			t.Errorf("written %v: status.id %q, spec.displayName %q", written, got.Status.ID, got.Spec.DisplayName)
		}
	})
	t.Run("removes fields", func(t *testing.T) {
		f := newFixture(t)
		d := f.created()
		before := d.DeepCopy()
		d.Status.Rollout = &v1alpha1.RolloutStatus{To: v1alpha1.VersionRun{Version: "1.2.3", Image: "cube:v1.2.3"}}
		_, err := PatchStatus(t.Context(), f.k, before, d)
		f.must(err)
		before = d.DeepCopy()
		d.Status.Rollout = nil
		_, err = PatchStatus(t.Context(), f.k, before, d)
		f.must(err)
		got, err := f.get()
		f.must(err)
		if got.Status.Rollout != nil {
			t.Errorf("status.rollout is %+v", got.Status.Rollout)
		}
	})
	t.Run("stale", func(t *testing.T) {
		f := newFixture(t)
		d := f.created()
		before := d.DeepCopy()
		f.merge(f.api, `{"spec":{"displayName":"Marketing"}}`)
		d.Status.ID = "7"
		written, err := PatchStatus(t.Context(), f.k, before, d)
		if written || !apierrors.IsConflict(err) {
			t.Errorf("written %v, %v; want a conflict", written, err)
		}
	})
}

func TestPatchMetadata(t *testing.T) {
	f := newFixture(t)
	d := f.created()
	f.must(PatchMetadata(t.Context(), f.k, d.DeepCopy(), d))
	if f.sent.writes != 0 {
		t.Errorf("%d writes without a change", f.sent.writes)
	}
	before := d.DeepCopy()
	f.merge(f.api, `{"metadata":{"labels":{"other":"x"}}}`)
	d.Labels = map[string]string{"mine": "y"}
	if err := PatchMetadata(t.Context(), f.k, before, d); !apierrors.IsConflict(err) {
		t.Errorf("got %v, want a conflict: the object has changed since", err)
	}
}

func TestWithin(t *testing.T) {
	type object = map[string]any
	cases := map[string]struct {
		want, have any
		ok         bool
	}{
		"same":                   {object{"a": int64(1)}, object{"a": int64(1)}, true},
		"additional field":       {object{"a": int64(1)}, object{"a": int64(1), "b": "x"}, true},
		"other value":            {object{"a": int64(1)}, object{"a": int64(2)}, false},
		"missing":                {object{"a": int64(1)}, object{}, false},
		"no object":              {object{"a": int64(1)}, nil, false},
		"null is not desired":    {object{"a": nil}, object{}, true},
		"false is desired":       {object{"a": false}, object{}, false},
		"zero is desired":        {object{"a": int64(0)}, object{}, false},
		"empty map":              {object{"a": object{}}, object{}, true},
		"empty list":             {object{"a": []any{}}, object{}, true},
		"shorter list":           {[]any{"a", "b"}, []any{"a"}, false},
		"longer list":            {[]any{"a"}, []any{"a", "b"}, false},
		"other order":            {[]any{"a", "b"}, []any{"b", "a"}, false},
		"items with more fields": {[]any{object{"n": "a"}}, []any{object{"n": "a", "m": "x"}}, true},
		"other type":             {object{"a": "1"}, object{"a": int64(1)}, false},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			if got := within(tc.want, tc.have); got != tc.ok {
				t.Errorf("within(%v, %v) = %v", tc.want, tc.have, got)
			}
		})
	}
}

// TestToUnstructured: neither status nor creation timestamp is applied, because the field manager would
// own them.
func TestToUnstructured(t *testing.T) {
	f := &fixture{t: t, key: client.ObjectKey{Namespace: "acme"}}
	u, err := toUnstructured(apitest.Scheme(t), f.workload())
	if err != nil {
		t.Fatal(err)
	}
	if u.GetKind() != "Deployment" || u.GetAPIVersion() != "apps/v1" {
		t.Errorf("kind is %s of %s", u.GetKind(), u.GetAPIVersion())
	}
	for _, path := range [][]string{{"status"}, {"metadata", "creationTimestamp"}, {"spec", "template", "metadata", "creationTimestamp"}} {
		if _, found, _ := unstructured.NestedFieldNoCopy(u.Object, path...); found {
			t.Errorf("%v was applied", path)
		}
	}
}
