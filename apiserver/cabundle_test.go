package apiserver

import (
	"context"
	"encoding/base64"
	"errors"
	"log/slog"
	"strings"
	"testing"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"
)

// apiService returns the APIService with its Service in a namespace.
func apiService(namespace string) *unstructured.Unstructured {
	return &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": "apiregistration.k8s.io/v1", "kind": "APIService",
		"metadata": map[string]any{"name": apiServiceName},
		"spec": map[string]any{
			"group": "api.platform.quoin.dev", "versionPriority": int64(10),
			"service": map[string]any{"name": "quoin-apiserver", "namespace": namespace, "port": int64(443)},
		},
	}}
}

// bundleTest is a caBundle that records its writes.
type bundleTest struct {
	*caBundle
	writes int
	fail   error // error of the next calls
	log    strings.Builder
	pem    string // the CA
}

func newBundleTest(objects ...client.Object) *bundleTest {
	b := &bundleTest{pem: "first"}
	scheme := runtime.NewScheme()
	scheme.AddKnownTypeWithName(schema.GroupVersionKind{Group: "apiregistration.k8s.io", Version: "v1", Kind: "APIService"}, &unstructured.Unstructured{})
	kube := fake.NewClientBuilder().WithScheme(scheme).WithObjects(objects...).WithInterceptorFuncs(interceptor.Funcs{
		Get: func(ctx context.Context, c client.WithWatch, key client.ObjectKey, o client.Object, opts ...client.GetOption) error {
			if b.fail != nil {
				return b.fail
			}
			return c.Get(ctx, key, o, opts...)
		},
		Patch: func(ctx context.Context, c client.WithWatch, o client.Object, p client.Patch, opts ...client.PatchOption) error {
			b.writes++
			return c.Patch(ctx, o, p, opts...)
		},
	}).Build()
	b.caBundle = &caBundle{
		client: kube, namespace: "quoin-system",
		ca:  func() []byte { return []byte(b.pem) },
		log: slog.New(slog.NewTextHandler(&b.log, nil)),
	}
	return b
}

// holds returns the CA in the APIService.
func (b *bundleTest) holds(t *testing.T) string {
	t.Helper()
	o := apiService("")
	if err := b.client.Get(t.Context(), client.ObjectKeyFromObject(o), o); err != nil {
		t.Fatal(err)
	}
	text, _, _ := unstructured.NestedString(o.Object, "spec", "caBundle")
	pem, err := base64.StdEncoding.DecodeString(text)
	if err != nil {
		t.Fatal(err)
	}
	if priority, _, _ := unstructured.NestedInt64(o.Object, "spec", "versionPriority"); priority != 10 {
		t.Errorf("another field changed: %v", o.Object)
	}
	return string(pem)
}

func TestCABundleIsWrittenWhenItDiffers(t *testing.T) {
	b := newBundleTest()
	sync := func(wantWrites int) {
		t.Helper()
		for range 3 {
			if err := b.sync(t.Context()); err != nil {
				t.Fatal(err)
			}
		}
		if b.writes != wantWrites {
			t.Fatalf("%d writes, want %d", b.writes, wantWrites)
		}
	}
	sync(0) // there is no APIService
	if err := b.client.Create(t.Context(), apiService("quoin-system")); err != nil {
		t.Fatal(err)
	}
	sync(1)
	if got := b.holds(t); got != "first" {
		t.Errorf("CA %q", got)
	}
	b.pem = "second"
	sync(2)
	if got := b.holds(t); got != "second" {
		t.Errorf("CA %q", got)
	}
}

func TestCABundleLeavesForeignAPIServicesAlone(t *testing.T) {
	b := newBundleTest(apiService("other"))
	if err := b.sync(t.Context()); !errors.Is(err, errForeign) || b.writes > 0 {
		t.Errorf("%v, %d writes", err, b.writes)
	}
}

func TestCABundleFailuresAreLoggedOnce(t *testing.T) {
	b := newBundleTest(apiService("quoin-system"))
	failing := apierrors.NewForbidden(schema.GroupResource{Group: "apiregistration.k8s.io", Resource: "apiservices"}, apiServiceName, errors.New("no role"))
	for range 2 {
		b.fail = failing
		b.report(t.Context(), b.sync(t.Context()))
		b.report(t.Context(), b.sync(t.Context()))
		b.fail = nil
		b.report(t.Context(), b.sync(t.Context()))
	}
	if got := strings.Count(b.log.String(), "level=ERROR"); got != 2 {
		t.Errorf("%d errors, want one for each first failure:\n%s", got, &b.log)
	}
	// The end of the context is not a failure.
	ended, end := context.WithCancel(t.Context())
	end()
	b.report(ended, context.Canceled)
	if strings.Contains(b.log.String(), "canceled") {
		t.Error(b.log.String())
	}
}

func TestCABundleRunEndsWithItsContext(t *testing.T) {
	b := newBundleTest(apiService("quoin-system"))
	ctx, end := context.WithCancel(t.Context())
	end()
	if err := b.run(ctx); err != nil {
		t.Error(err)
	}
}
