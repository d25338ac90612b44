package recording

import (
	"fmt"
	"testing"
	"time"

	"github.com/google/uuid"
	admissionv1 "k8s.io/api/admission/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/quoin-dev/quoin/api/v1alpha1"
)

// TestCreationsWithKubectl checks that the event of a creation through the Kubernetes API gets the number that the deployment
// gets later, and that a deployment that is created again with the same manifest has an event of its own.
func TestCreationsWithKubectl(t *testing.T) {
	f := newFixture(t)
	a := &Admission{Log: f.log, Reader: f.api, Live: f.api, Namespace: "quoin-system"}
	create := func(uid types.UID) {
		t.Helper()
		r := review("bob", "", "", func(r *admissionv1.AdmissionRequest) {
			r.Operation, r.OldObject, r.Name = admissionv1.Create, runtime.RawExtension{}, "new"
			r.Object = runtime.RawExtension{Raw: fmt.Appendf(nil, `{"metadata":{"name":"new","namespace":"acme","uid":%q},"spec":{"displayName":"New"}}`, uid)}
		})
		if got := a.Review(t.Context(), r); len(got.Warnings) > 0 {
			t.Fatal(got.Warnings)
		}
	}
	create("uid-1")
	create("uid-1") // a retry
	create("uid-2") // after its deletion
	event := func(id string) string {
		return fmt.Sprintf(`Created deployment: Deployment acme/new succeeded [%s New]  {"spec.displayName":{"after":"New"}}`, id)
	}
	f.want(event(""), event(""))
	now := time.Now()
	v := &Versions{Log: f.log, Reader: f.api, Now: func() time.Time { return now }}
	d := &v1alpha1.Deployment{ObjectMeta: metav1.ObjectMeta{Namespace: "acme", Name: "new", UID: "uid-2", CreationTimestamp: metav1.NewTime(now)}}
	d.Spec.DisplayName = "New"
	known := map[uuid.UUID]time.Time{}
	for _, number := range []string{"", "8", "9"} { // a number does not change
		if number != "" {
			d.Labels = map[string]string{v1alpha1.LabelID: number}
		}
		ok(t, v.identify(t.Context(), "acme", d, now.Add(-remembered), known))
	}
	f.want(event(""), event("8"))
}

// TestRequestsAreRecorded checks that a change of only an annotation with which a user requests something is recorded, with its
// value, and that of another annotation is not.
func TestRequestsAreRecorded(t *testing.T) {
	f := newFixture(t)
	a := &Admission{Log: f.log, Reader: f.api, Live: f.api, Namespace: "quoin-system"}
	for _, name := range []string{v1alpha1.AnnotationRetry, "example.com/note"} {
		a.Review(t.Context(), review("bob", "Sales", "Sales", func(r *admissionv1.AdmissionRequest) {
			r.Object = runtime.RawExtension{Raw: fmt.Appendf(nil, `{"metadata":{"name":"sales","namespace":"acme","resourceVersion":"5","labels":{"platform.quoin.dev/id":"7"},
				"annotations":{%q:"now"}},"spec":{"displayName":"Sales","env":[{"name":"CUBEJS_DB_PASS","value":"hunter2"}]}}`, name)}
		}))
	}
	r, ctx := f.request()
	d := &v1alpha1.Deployment{}
	ok(t, f.api.Get(ctx, client.ObjectKey{Namespace: "acme", Name: "sales"}, d))
	before := d.DeepCopy()
	d.Annotations = map[string]string{v1alpha1.AnnotationReconcile: "later"}
	ok(t, f.client.Patch(ctx, d, edit{client.MergeFrom(before), before}))
	ok(t, r.settle(ctx))
	f.want(
		`Updated deployment configuration: Deployment acme/sales succeeded [7 Sales]  {"metadata.annotations.platform.quoin.dev/retry-requested-at":{"after":"now"}}`,
		`Updated deployment configuration: Deployment acme/sales succeeded [7 Sales]  {"metadata.annotations.platform.quoin.dev/reconcile-requested-at":{"after":"later"}}`,
	)
}
