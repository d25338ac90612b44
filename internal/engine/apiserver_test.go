package engine_test

import (
	"context"
	"os"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/envtest"

	"github.com/quoin-dev/quoin/internal/engine"
)

// TestAPIServerAccepts applies every environment to a Kubernetes API server twice, and creates its
// pods in a namespace that enforces the restricted Pod Security Standard.
func TestAPIServerAccepts(t *testing.T) {
	if os.Getenv("KUBEBUILDER_ASSETS") == "" {
		t.Skip("KUBEBUILDER_ASSETS is not set: run make test-unit")
	}
	c := startAPIServer(t)
	eachCase(t, func(t *testing.T, f fixture) {
		// A namespace for each environment, because their names are equal.
		f.account.Spec.Namespace = namespace(t, c)
		f.deployment.Namespace, f.environment.Namespace = f.account.Spec.Namespace, f.account.Spec.Namespace
		in := f.inputs(t)
		for i, obj := range engine.Render(in) {
			first := apply(t, c, obj)
			second := apply(t, c, engine.Render(in)[i])
			if diff := cmp.Diff(first.Object, second.Object); diff != "" {
				t.Errorf("the second apply of %s %s changes it (-first +second):\n%s", obj.GetObjectKind().GroupVersionKind().Kind, obj.GetName(), diff)
			}
		}
		for _, w := range templates(engine.Render(in)) {
			pod := &corev1.Pod{ObjectMeta: w.pod.ObjectMeta, Spec: w.pod.Spec}
			pod.Namespace, pod.Name = f.account.Spec.Namespace, w.name
			pod.Spec.SecurityContext.SeccompProfile = nil
			if err := c.Create(t.Context(), pod.DeepCopy(), client.DryRunAll); !apierrors.IsForbidden(err) {
				t.Fatalf("the namespace does not enforce the standard: %v", err)
			}
			pod.Spec.SecurityContext.SeccompProfile = &corev1.SeccompProfile{Type: corev1.SeccompProfileTypeRuntimeDefault}
			if err := c.Create(t.Context(), pod, client.DryRunAll); err != nil {
				t.Errorf("pod of %s: %v", w.name, err)
			}
		}
	})
}

func startAPIServer(t *testing.T) client.Client {
	t.Helper()
	server := &envtest.Environment{}
	config, err := server.Start()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := server.Stop(); err != nil {
			t.Error(err)
		}
	})
	c, err := client.New(config, client.Options{})
	if err != nil {
		t.Fatal(err)
	}
	return client.WithFieldOwner(c, "quoin-environment")
}

func namespace(t *testing.T, c client.Client) string {
	t.Helper()
	ns := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{
		GenerateName: "engine-",
		Labels:       map[string]string{"pod-security.kubernetes.io/enforce": "restricted"},
	}}
	if err := c.Create(t.Context(), ns); err != nil {
		t.Fatal(err)
	}
	return ns.Name
}

func apply(t *testing.T, c client.Client, obj client.Object) *unstructured.Unstructured {
	t.Helper()
	content, err := runtime.DefaultUnstructuredConverter.ToUnstructured(obj)
	if err != nil {
		t.Fatal(err)
	}
	unstructured.RemoveNestedField(content, "status")
	u := &unstructured.Unstructured{Object: content}
	if err := c.Apply(context.Background(), client.ApplyConfigurationFromUnstructured(u), client.ForceOwnership); err != nil {
		t.Fatalf("%s %s: %v", u.GetKind(), u.GetName(), err)
	}
	return u
}
