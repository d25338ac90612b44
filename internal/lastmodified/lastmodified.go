// Package lastmodified returns when an object's spec was last changed, from metadata.managedFields,
// which the Kubernetes API server maintains.
//
// Managed fields may be larger than the rest of an object, so a cache of a hundred thousand users
// must not store them. Transform reduces them to a single time.
package lastmodified

import (
	"bytes"
	"encoding/json"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	toolscache "k8s.io/client-go/tools/cache"
)

// Of returns when the spec was last changed, in seconds, or the creation time if the managed fields
// have no later time. obj may have been reduced by Transform. Changes of labels by a manager of the
// spec count too: its managed fields have one time for both.
func Of(obj metav1.Object) time.Time {
	latest := obj.GetCreationTimestamp().Time
	for _, entry := range obj.GetManagedFields() {
		if entry.Time != nil && entry.Time.After(latest) && (reduced(entry) || ownsSpec(entry)) {
			latest = entry.Time.Time
		}
	}
	return latest
}

// Transform returns a transform function for caches. It replaces the managed fields by one entry,
// with only the time that Of returns.
func Transform() toolscache.TransformFunc {
	return func(in any) (any, error) {
		// Other types, such as DeletedFinalStateUnknown, are not modified.
		if obj, err := meta.Accessor(in); err == nil && len(obj.GetManagedFields()) > 0 {
			obj.SetManagedFields([]metav1.ManagedFieldsEntry{{Time: new(metav1.NewTime(Of(obj)))}})
		}
		return in, nil
	}
}

// reduced reports whether an entry was written by Transform: it has no fields.
func reduced(entry metav1.ManagedFieldsEntry) bool {
	return entry.FieldsV1 == nil && entry.Manager == "" && entry.Subresource == ""
}

// ownsSpec reports whether an entry contains fields of the spec.
func ownsSpec(entry metav1.ManagedFieldsEntry) bool {
	if entry.Subresource != "" || entry.FieldsV1 == nil {
		return false
	}
	// Avoids decoding most entries.
	raw := entry.FieldsV1.GetRawBytes()
	if !bytes.Contains(raw, []byte(`"f:spec"`)) {
		return false
	}
	var fields map[string]json.RawMessage
	if err := json.Unmarshal(raw, &fields); err != nil {
		return false
	}
	_, ok := fields["f:spec"]
	return ok
}
