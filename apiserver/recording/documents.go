package recording

import (
	"encoding/json"
	"maps"
	"slices"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/quoin-dev/quoin/api/v1alpha1"
	"github.com/quoin-dev/quoin/internal/audit"
)

// document is the part of an object that events contain.
type document struct {
	metav1.PartialObjectMetadata
	Spec map[string]any `json:"spec"`
}

// beforeAndAfter is an object before and after a change; nil for created and deleted objects.
type beforeAndAfter [2]*document

// shown returns the object that describes the change: the new one unless it was deleted.
func (b beforeAndAfter) shown() *document {
	if b[1] != nil {
		return b[1]
	}
	return b[0]
}

// documentsOf returns the documents of two objects, of which one may be nil.
func documentsOf(before, after client.Object) (beforeAndAfter, error) {
	var texts [2][]byte
	for i, o := range []client.Object{before, after} {
		if o == nil {
			continue
		}
		var err error
		if texts[i], err = json.Marshal(o); err != nil {
			return beforeAndAfter{}, err
		}
	}
	return parse(texts[0], texts[1])
}

// parse parses two objects, of which one may be empty.
func parse(before, after []byte) (b beforeAndAfter, err error) {
	for i, text := range [][]byte{before, after} {
		if len(text) == 0 {
			continue
		}
		b[i] = &document{}
		if err := json.Unmarshal(text, b[i]); err != nil {
			return beforeAndAfter{}, err
		}
	}
	return b, nil
}

// recordedAnnotations are the annotations with which users request something of a controller, and those with values of clients.
var recordedAnnotations = []string{
	v1alpha1.AnnotationReconcile, v1alpha1.AnnotationRetry,
	v1alpha1.AnnotationCreationStep, v1alpha1.AnnotationCreationMethod, v1alpha1.AnnotationDeployMode, v1alpha1.AnnotationTargetPlatform,
}

// marks are the annotations with which Quoin coordinates its own requests. A patch of nothing else is no event.
var marks = []string{v1alpha1.AnnotationAdminConfirmed}

// isMark reports whether an object differs in marks and in nothing that events contain.
func isMark(documents beforeAndAfter, changes map[string]any) bool {
	if documents[0] == nil || documents[1] == nil || len(changes) > 0 {
		return false
	}
	return slices.ContainsFunc(marks, func(name string) bool {
		return documents[0].Annotations[name] != documents[1].Annotations[name]
	})
}

// difference returns the changed fields by path: those of the spec, the owners, with which the garbage
// collector deletes the object, and recordedAnnotations.
func (k *recordedKind) difference(documents beforeAndAfter) (map[string]any, error) {
	var fields [2]any
	for i, d := range documents {
		if d == nil {
			continue
		}
		shown := map[string]any{"spec": d.Spec}
		metadata := map[string]any{}
		if len(d.OwnerReferences) > 0 {
			metadata["ownerReferences"] = d.OwnerReferences
		}
		annotations := maps.Clone(d.Annotations)
		maps.DeleteFunc(annotations, func(name, _ string) bool { return !slices.Contains(recordedAnnotations, name) })
		if len(annotations) > 0 {
			metadata["annotations"] = annotations
		}
		if len(metadata) > 0 {
			shown["metadata"] = metadata
		}
		fields[i] = shown
	}
	return audit.Diff(fields[0], fields[1])
}
