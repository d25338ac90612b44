package predicates

import (
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/predicate"

	"github.com/quoin-dev/quoin/api/v1alpha1"
)

// TestSelectedUpdates by Spec and Existence.
func TestSelectedUpdates(t *testing.T) {
	cases := map[string]struct {
		change              func(d *v1alpha1.Deployment)
		isSpec, isExistence bool
	}{
		"resync":               {func(*v1alpha1.Deployment) {}, false, false},
		"spec":                 {func(d *v1alpha1.Deployment) { d.Generation = 2 }, true, false},
		"status":               {func(d *v1alpha1.Deployment) { d.Status.ID, d.ResourceVersion = "7", "2" }, false, false},
		"request to reconcile": {func(d *v1alpha1.Deployment) { d.Annotations = map[string]string{v1alpha1.AnnotationReconcile: "now"} }, true, false},
		"other annotation":     {func(d *v1alpha1.Deployment) { d.Annotations = map[string]string{"team": "x"} }, false, false},
		"ID":                   {func(d *v1alpha1.Deployment) { d.Labels = map[string]string{v1alpha1.LabelID: "7"} }, true, false},
		"other label":          {func(d *v1alpha1.Deployment) { d.Labels = map[string]string{"team": "x"} }, false, false},
		"deletion":             {func(d *v1alpha1.Deployment) { now := metav1.Now(); d.DeletionTimestamp = &now }, true, true},
		"finalizers":           {func(d *v1alpha1.Deployment) { d.Finalizers = []string{"x"} }, false, false},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			before := &v1alpha1.Deployment{ObjectMeta: metav1.ObjectMeta{Name: "sales", Generation: 1, ResourceVersion: "1"}}
			after := before.DeepCopy()
			tc.change(after)
			update := event.UpdateEvent{ObjectOld: before, ObjectNew: after}
			if got := spec.Update(update); got != tc.isSpec {
				t.Errorf("Spec: %v", got)
			}
			if got := existence.Update(update); got != tc.isExistence {
				t.Errorf("Existence: %v", got)
			}
		})
	}
}

// TestCreationsAndDeletionsAreSelected always.
func TestCreationsAndDeletionsAreSelected(t *testing.T) {
	d := &v1alpha1.Deployment{}
	for name, p := range map[string]predicate.Predicate{"Spec": spec, "Existence": existence} {
		if !p.Create(event.CreateEvent{Object: d}) || !p.Delete(event.DeleteEvent{Object: d}) {
			t.Errorf("%s: a creation or deletion is ignored", name)
		}
	}
}
