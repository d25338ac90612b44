package recording

import (
	"context"
	"fmt"
	"strconv"
	"strings"
	"testing"
	"time"

	admissionv1 "k8s.io/api/admission/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/quoin-dev/quoin/api/v1alpha1"
)

// reviewed is an object whose changes are reviewed as the Kubernetes API server does it. It is the reader of the current object.
type reviewed struct {
	*fixture
	client.Reader
	admission *Admission
	// live is the current object; nil after its deletion.
	live *v1alpha1.Deployment
	// writes is the number of writes, and the second of the last one.
	writes int
}

func newReviewed(t *testing.T) *reviewed {
	t.Helper()
	f := newFixture(t)
	r := &reviewed{fixture: f, live: &v1alpha1.Deployment{}}
	r.admission = &Admission{Log: f.log, Reader: f.api, Live: r, Namespace: "quoin-system"}
	ok(t, f.api.Get(t.Context(), client.ObjectKey{Namespace: "acme", Name: "sales"}, r.live))
	r.live.ManagedFields = []metav1.ManagedFieldsEntry{{Manager: "kubectl"}, {Manager: "quoin-controller", Subresource: "status"}}
	r.write(0, 1)
	return r
}

// Get implements client.Reader.
func (r *reviewed) Get(_ context.Context, key client.ObjectKey, o client.Object, _ ...client.GetOption) error {
	got, isMetadata := o.(*metav1.PartialObjectMetadata)
	if !isMetadata || got.Kind != "Deployment" || key != (client.ObjectKey{Namespace: "acme", Name: "sales"}) {
		r.t.Errorf("reads %T %s", o, key)
	}
	if r.live == nil {
		return apierrors.NewNotFound(v1alpha1.GroupVersion.WithResource("deployments").GroupResource(), key.Name)
	}
	r.live.ObjectMeta.DeepCopyInto(&got.ObjectMeta)
	return nil
}

// write writes the object with the manager of an index, and increases its generation.
func (r *reviewed) write(manager int, generations int64) {
	r.live = r.live.DeepCopy()
	r.writes++
	r.live.ManagedFields[manager].Time = &metav1.Time{Time: time.Unix(1_790_000_000+int64(r.writes), 0)}
	r.live.ResourceVersion = strconv.Itoa(1000 + r.writes)
	r.live.Generation += generations
}

// writeStatus writes the status of the object.
func (r *reviewed) writeStatus() { r.write(1, 0) }

// review reviews a change of an object; of the subresource scale if isScale is set.
func (r *reviewed) review(before *v1alpha1.Deployment, change string, isScale bool) {
	r.t.Helper()
	object := func(d *v1alpha1.Deployment, metadata, spec string) runtime.RawExtension {
		if isScale { // it has no generation and no managed fields
			return runtime.RawExtension{Raw: fmt.Appendf(nil, `{"metadata":{"namespace":"acme","name":"sales","resourceVersion":%q},"spec":{%s}}`, d.ResourceVersion, spec)}
		}
		return runtime.RawExtension{Raw: fmt.Appendf(nil, `{"metadata":{"namespace":"acme","name":"sales","resourceVersion":%q,"generation":%d%s},"spec":{%s}}`,
			d.ResourceVersion, d.Generation, metadata, spec)}
	}
	request := review("bob", "", "", func(a *admissionv1.AdmissionRequest) {
		switch {
		case isScale:
			a.Kind.Kind, a.SubResource, a.Resource.Resource = "Scale", "scale", "deployments"
			a.OldObject, a.Object = object(before, "", `"replicas":2`), object(before, "", `"replicas":`+change)
		case strings.HasPrefix(change, "request"):
			a.OldObject, a.Object = object(before, "", ""), object(before, fmt.Sprintf(`,"annotations":{%q:%q}`, v1alpha1.AnnotationRetry, change), "")
		default:
			a.OldObject, a.Object = object(before, "", `"replicas":2`), object(before, "", `"replicas":`+change)
		}
	})
	if got := r.admission.Review(r.t.Context(), request); !got.Allowed || len(got.Warnings) > 0 {
		r.t.Errorf("%+v", got)
	}
}

// TestRepeatedReviews: the Kubernetes API server repeats the review of a change that conflicts with another write, and that of a
// change of an outdated object in its cache. Each is one event; the same change of a later time is another one.
func TestRepeatedReviews(t *testing.T) {
	for name, c := range map[string]struct {
		change  string
		isScale bool
	}{
		"a change of the spec":       {"3", false},
		"the subresource scale":      {"3", true},
		"a request in an annotation": {"request 1", false},
	} {
		t.Run(name, func(t *testing.T) {
			r := newReviewed(t)
			outdated := r.live
			want := func(step string, n int) {
				t.Helper()
				if events := r.events(); len(events) != n {
					t.Errorf("%s: %d events, want %d: %q", step, len(events), n, events)
				}
			}
			r.write(0, 1)
			r.review(outdated, c.change, c.isScale)
			want("an outdated object", 0)
			for range 3 {
				r.review(r.live, c.change, c.isScale)
				r.writeStatus()
			}
			want("conflicts with writes of the status", 1)
			generations := int64(1)
			if strings.HasPrefix(c.change, "request") {
				generations = 0
			}
			r.write(0, generations) // the change itself
			r.write(0, generations) // the opposite
			r.review(r.live, c.change, c.isScale)
			want("the same change again", 2)
			last := r.live
			r.live = nil
			r.review(last, c.change, c.isScale)
			want("a deleted object", 2)
		})
	}
}
