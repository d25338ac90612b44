// Package predicates selects the events that trigger a reconciliation.
package predicates

import (
	"sigs.k8s.io/controller-runtime/pkg/builder"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/predicate"

	"github.com/quoin-dev/quoin/api/v1alpha1"
)

// Spec selects changes by users: of the spec, the reconcile request, the deletion timestamp and
// the ID. Changes of the status are ignored.
func Spec() builder.Predicates { return builder.WithPredicates(spec) }

// SpecOr selects the same, and changes of annotations.
func SpecOr(annotations ...string) builder.Predicates {
	selected := []predicate.Predicate{spec}
	for _, name := range annotations {
		selected = append(selected, Changed(func(o client.Object) string { return o.GetAnnotations()[name] }))
	}
	return builder.WithPredicates(predicate.Or(selected...))
}

// SpecOrChanged selects the same as Spec, and changes of a value.
func SpecOrChanged(value func(client.Object) string) builder.Predicates {
	return builder.WithPredicates(predicate.Or(spec, Changed(value)))
}

// Changed selects changes of a value.
func Changed(value func(client.Object) string) predicate.Predicate {
	return predicate.Funcs{
		CreateFunc:  func(event.CreateEvent) bool { return false },
		DeleteFunc:  func(event.DeleteEvent) bool { return false },
		GenericFunc: func(event.GenericEvent) bool { return false },
		UpdateFunc:  func(e event.UpdateEvent) bool { return value(e.ObjectOld) != value(e.ObjectNew) },
	}
}

// Existence selects creations and deletions.
func Existence() builder.Predicates { return builder.WithPredicates(existence) }

// Deletion selects deletions.
func Deletion() builder.Predicates { return builder.WithPredicates(deletion) }

var spec = predicate.Or(predicate.GenerationChangedPredicate{}, predicate.Funcs{
	UpdateFunc: func(e event.UpdateEvent) bool {
		before, after := e.ObjectOld, e.ObjectNew
		return before.GetAnnotations()[v1alpha1.AnnotationReconcile] != after.GetAnnotations()[v1alpha1.AnnotationReconcile] ||
			before.GetLabels()[v1alpha1.LabelID] != after.GetLabels()[v1alpha1.LabelID] ||
			before.GetDeletionTimestamp().IsZero() != after.GetDeletionTimestamp().IsZero()
	},
})

var existence = predicate.Funcs{
	UpdateFunc: func(e event.UpdateEvent) bool {
		return e.ObjectOld.GetDeletionTimestamp().IsZero() != e.ObjectNew.GetDeletionTimestamp().IsZero()
	},
	GenericFunc: func(event.GenericEvent) bool { return false },
}

var deletion = predicate.Funcs{
	CreateFunc:  func(event.CreateEvent) bool { return false },
	UpdateFunc:  func(event.UpdateEvent) bool { return false },
	GenericFunc: func(event.GenericEvent) bool { return false },
}
