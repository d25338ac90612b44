package backup

import (
	"bytes"
	"context"
	"io"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
)

// TestNamespacesAreCounted: a namespace that the restore creates did not exist.
func TestNamespacesAreCounted(t *testing.T) {
	scheme := runtime.NewScheme()
	if err := corev1.AddToScheme(scheme); err != nil {
		t.Fatal(err)
	}
	namespace := &unstructured.Unstructured{Object: map[string]any{"metadata": map[string]any{"name": "demo", "uid": "old"}}}
	namespace.SetGroupVersionKind(namespaceKind)
	c := fake.NewClientBuilder().WithScheme(scheme).Build()
	for i, want := range []Summary{{Objects: 1}, {Existing: 1}} {
		r := &Restore{Client: c, mapped: newMapping()}
		if err := r.restore(t.Context(), namespace); err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(want, r.summary); diff != "" {
			t.Errorf("restore %d (-want +got):\n%s", i+1, diff)
		}
	}
}

// empty is content that may be loaded.
type empty struct{ loaded }

func (empty) Check(context.Context, string) error { return nil }

// TestContentWithoutItsObjects: a restore names the objects that it leaves out, because the content belongs to their UIDs.
func TestContentWithoutItsObjects(t *testing.T) {
	for _, objects := range []bool{true, false} {
		var archive bytes.Buffer
		if err := sendContent(&archive, Header{Format: Format, ID: "one", Objects: objects, Content: true}, records(1)); err != nil {
			t.Fatal(err)
		}
		var want []string
		if objects {
			want = []string{objectsLeftOut}
		}
		r := &Restore{Content: empty{}}
		summary, err := r.Run(t.Context(), func() (io.ReadCloser, error) { return io.NopCloser(bytes.NewReader(archive.Bytes())), nil })
		if diff := cmp.Diff(want, summary.Skipped); err != nil || diff != "" {
			t.Errorf("a file with objects (%v): %v (-want +got):\n%s", objects, err, diff)
		}
		summary, err = LoadOnly(t.Context(), &archive, empty{})
		if diff := cmp.Diff(want, summary.Skipped); err != nil || diff != "" {
			t.Errorf("the standard input with objects (%v): %v (-want +got):\n%s", objects, err, diff)
		}
	}
}
