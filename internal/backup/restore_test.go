package backup

import (
	"bytes"
	"context"
	"errors"
	"io"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/utils/ptr"
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

// TestActiveProcesses: nothing is restored while one of them holds its lease.
func TestActiveProcesses(t *testing.T) {
	now := time.Now()
	scheme := runtime.NewScheme()
	if err := coordinationv1.AddToScheme(scheme); err != nil {
		t.Fatal(err)
	}
	for name, tc := range map[string]struct {
		lease, holder string
		renewed       time.Duration
		want          string
	}{
		"none":                        {"other", "pod-1", 0, ""},
		"controller":                  {"quoin-controller", "pod-1", 0, "pod-1 holds lease quoin-system/quoin-controller; stop it first: kubectl -n quoin-system scale deployment/quoin-controller"},
		"server":                      {"quoin-apiserver-content", "pod-1", -14 * time.Second, "pod-1 holds lease quoin-system/quoin-apiserver-content; stop it first: kubectl -n quoin-system scale deployment/quoin-apiserver"},
		"server that was killed":      {"quoin-apiserver-content", "pod-1", -16 * time.Second, ""},
		"server that was stopped":     {"quoin-apiserver-content", "", 0, ""},
		"controller that was stopped": {"quoin-controller", "", 0, ""},
	} {
		lease := &coordinationv1.Lease{ObjectMeta: metav1.ObjectMeta{Namespace: "quoin-system", Name: tc.lease}, Spec: coordinationv1.LeaseSpec{
			HolderIdentity: ptr.To(tc.holder), LeaseDurationSeconds: ptr.To(int32(15)), RenewTime: ptr.To(metav1.NewMicroTime(now.Add(tc.renewed))),
		}}
		c := fake.NewClientBuilder().WithScheme(scheme).WithObjects(lease).Build()
		r := &Restore{Client: c, Clock: func() time.Time { return now }, header: Header{Namespace: "quoin-system"}}
		err := r.checkInactive(t.Context())
		if errors.Is(err, ErrActive) != (tc.want != "") || tc.want != "" && !strings.Contains(err.Error(), tc.want) || tc.want == "" && err != nil {
			t.Errorf("%s: %v, want %q", name, err, tc.want)
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
