package backup

import (
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"

	"github.com/quoin-dev/quoin/api/v1alpha1"
)

// TestSecretsOfQuoin: the Secrets that Quoin has created are copied, also those without its label.
func TestSecretsOfQuoin(t *testing.T) {
	scheme := runtime.NewScheme()
	for _, add := range []func(*runtime.Scheme) error{v1alpha1.AddToScheme, corev1.AddToScheme} {
		if err := add(scheme); err != nil {
			t.Fatal(err)
		}
	}
	secret := func(name string, labels map[string]string, owners ...metav1.OwnerReference) *corev1.Secret {
		return &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: "demo", Name: name, Labels: labels, OwnerReferences: owners}}
	}
	owner := func(apiVersion, kind string, controls bool) metav1.OwnerReference {
		return metav1.OwnerReference{APIVersion: apiVersion, Kind: kind, Name: "sales", UID: "u", Controller: ptr.To(controls)}
	}
	quoin := v1alpha1.GroupVersion.String()
	account := &v1alpha1.Account{ObjectMeta: metav1.ObjectMeta{Name: "demo"}}
	account.Spec.Namespace = "demo"
	c := fake.NewClientBuilder().WithScheme(scheme).WithObjects(
		&corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "quoin-system"}},
		account,
		secret("labelled", map[string]string{"app.kubernetes.io/managed-by": "quoin"}),
		secret("variables", map[string]string{v1alpha1.LabelDeployment: "sales"}, owner(quoin, "Deployment", true)),
		secret("integration", nil, owner(quoin, "OAuthIntegration", true)),
		secret("users", nil),
		secret("helped", nil, owner(quoin, "Deployment", false)),
		secret("certificate", nil, owner("cert-manager.io/v1", "Certificate", true)),
	).Build()
	var names []string
	o := &objects{reader: c, namespace: "quoin-system", secrets: true, write: func(obj *unstructured.Unstructured) error {
		if obj.GetKind() == secretKind.Kind {
			names = append(names, obj.GetName())
		}
		return nil
	}}
	if err := o.writeAll(t.Context()); err != nil {
		t.Fatal(err)
	}
	slices.Sort(names)
	if diff := cmp.Diff([]string{"integration", "labelled", "variables"}, names); diff != "" {
		t.Errorf("Secrets (-want +got):\n%s", diff)
	}
}

// TestKindsOfQuoin: objects of every kind are copied.
func TestKindsOfQuoin(t *testing.T) {
	scheme := runtime.NewScheme()
	for _, add := range []func(*runtime.Scheme) error{v1alpha1.AddToScheme, corev1.AddToScheme} {
		if err := add(scheme); err != nil {
			t.Fatal(err)
		}
	}
	existing := []client.Object{&corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "quoin-system"}}}
	want := []string{"Namespace"}
	for _, kind := range v1alpha1.Kinds {
		obj, ok := kind.Object.DeepCopyObject().(client.Object)
		if !ok {
			t.Fatalf("%s is not an object", kind.Name())
		}
		obj.SetName("one")
		if !kind.Cluster {
			obj.SetNamespace("demo")
		}
		if account, ok := obj.(*v1alpha1.Account); ok {
			account.Spec.Namespace = "demo"
		}
		existing, want = append(existing, obj), append(want, kind.Name())
	}
	var kinds []string
	o := &objects{
		reader: fake.NewClientBuilder().WithScheme(scheme).WithObjects(existing...).Build(), namespace: "quoin-system",
		write: func(obj *unstructured.Unstructured) error {
			kinds = append(kinds, obj.GetKind())
			return nil
		},
	}
	if err := o.writeAll(t.Context()); err != nil {
		t.Fatal(err)
	}
	slices.Sort(kinds)
	slices.Sort(want)
	if diff := cmp.Diff(want, kinds); diff != "" {
		t.Errorf("kinds (-want +got):\n%s", diff)
	}
}

// TestNamespaceOfQuoinIsRequired: a copy without the namespace of Quoin would lack the claims of hosts.
func TestNamespaceOfQuoinIsRequired(t *testing.T) {
	scheme := runtime.NewScheme()
	for _, add := range []func(*runtime.Scheme) error{v1alpha1.AddToScheme, corev1.AddToScheme} {
		if err := add(scheme); err != nil {
			t.Fatal(err)
		}
	}
	installed := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "platform"}}
	account := &v1alpha1.Account{ObjectMeta: metav1.ObjectMeta{Name: "demo"}}
	account.Spec.Namespace = "demo" // does not exist yet
	o := &objects{
		reader: fake.NewClientBuilder().WithScheme(scheme).WithObjects(installed, account).Build(),
		write:  func(*unstructured.Unstructured) error { return nil },
	}
	for namespace, want := range map[string]string{"platform": "", "quoin-system": `the namespace "quoin-system" does not exist`} {
		o.namespace = namespace
		err := o.writeAll(t.Context())
		if (err == nil) != (want == "") || err != nil && !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %q", namespace, err, want)
		}
	}
}
