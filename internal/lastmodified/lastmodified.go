// Package lastmodified tells when an object's spec last changed, without a field that
// somebody would have to write: the API server keeps it in metadata.managedFields.
//
// Managed fields are larger than many an object, so a cache of a hundred thousand users must
// not hold them. Transform reduces them to the one time that matters.
package lastmodified

import (
	"bytes"
	"encoding/json"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	toolscache "k8s.io/client-go/tools/cache"
)

// Of is when somebody last changed the spec, to the second; when the object was made where
// the managed fields do not say. obj is as the API server gives it or as Transform leaves it.
// Labels that the same manager changes count too: they share a time with its part of the spec.
func Of(obj metav1.Object) time.Time {
	latest := obj.GetCreationTimestamp().Time
	for _, entry := range obj.GetManagedFields() {
		if entry.Time != nil && entry.Time.After(latest) && (reduced(entry) || ownsSpec(entry)) {
			latest = entry.Time.Time
		}
	}
	return latest
}

// Transform is for caches: it leaves of the managed fields one entry, with the time that Of
// returns and nothing else.
func Transform() toolscache.TransformFunc {
	return func(in any) (any, error) {
		// What is no object, such as the mark of a deletion that was missed, stays as it is.
		if obj, err := meta.Accessor(in); err == nil && len(obj.GetManagedFields()) > 0 {
			obj.SetManagedFields([]metav1.ManagedFieldsEntry{{Time: new(metav1.NewTime(Of(obj)))}})
		}
		return in, nil
	}
}

// reduced tells the entry that Transform leaves: one of the API server has fields.
func reduced(entry metav1.ManagedFieldsEntry) bool {
	return entry.FieldsV1 == nil && entry.Manager == "" && entry.Subresource == ""
}

// ownsSpec tells whether an entry is of a manager that wrote something of the spec.
func ownsSpec(entry metav1.ManagedFieldsEntry) bool {
	if entry.Subresource != "" || entry.FieldsV1 == nil {
		return false
	}
	// Most entries are settled without decoding.
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
