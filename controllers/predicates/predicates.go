// Package predicates says which events are worth a reconciliation.
package predicates

import (
	"sigs.k8s.io/controller-runtime/pkg/builder"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/predicate"

	"github.com/quoin-dev/quoin/api/v1alpha1"
)

// Spec lets through what a user did to an object: a new spec, a request to reconcile now, a
// deletion, a changed number. Status writes, our own among them, are left out.
func Spec() builder.Predicates { return builder.WithPredicates(spec) }

// SpecOr lets through the same, and new values of an annotation.
func SpecOr(annotation string) builder.Predicates {
	return builder.WithPredicates(predicate.Or(spec, predicate.Funcs{
		CreateFunc:  func(event.CreateEvent) bool { return false },
		DeleteFunc:  func(event.DeleteEvent) bool { return false },
		GenericFunc: func(event.GenericEvent) bool { return false },
		UpdateFunc: func(e event.UpdateEvent) bool {
			return e.ObjectOld.GetAnnotations()[annotation] != e.ObjectNew.GetAnnotations()[annotation]
		},
	}))
}

// Existence lets through that an object came or went.
func Existence() builder.Predicates { return builder.WithPredicates(existence) }

// Deletion lets through that an object is gone.
func Deletion() builder.Predicates { return builder.WithPredicates(deletion) }

var spec = predicate.Or(predicate.GenerationChangedPredicate{}, predicate.Funcs{
	UpdateFunc: func(e event.UpdateEvent) bool {
		was, is := e.ObjectOld, e.ObjectNew
		return was.GetAnnotations()[v1alpha1.AnnotationReconcile] != is.GetAnnotations()[v1alpha1.AnnotationReconcile] ||
			was.GetLabels()[v1alpha1.LabelID] != is.GetLabels()[v1alpha1.LabelID] ||
			was.GetDeletionTimestamp().IsZero() != is.GetDeletionTimestamp().IsZero()
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
