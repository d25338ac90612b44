// Package lastmodified returns when an object's spec was last changed: from metadata.managedFields, which the
// Kubernetes API server maintains in seconds, and from an annotation in milliseconds, which Stamp writes.
//
// Managed fields may be larger than the rest of an object, so a cache of a hundred thousand users
// must not store them. Transform reduces them to a single time.
package lastmodified

import (
	"bytes"
	"encoding/json"
	"fmt"
	"maps"
	"strconv"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	toolscache "k8s.io/client-go/tools/cache"

	"github.com/quoin-dev/quoin/api/v1alpha1"
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

// Stamp records the time of a change of the spec in an annotation, which is written together with the change:
// managed fields have the time in seconds only. obj is the object as it was read, for its generation. The time is
// later than that of the previous change, whatever the clock.
func Stamp(obj metav1.Object, now time.Time) {
	if last := Precise(obj); !now.After(last) {
		now = last.Add(time.Millisecond)
	}
	annotations := maps.Clone(obj.GetAnnotations())
	if annotations == nil {
		annotations = map[string]string{}
	}
	annotations[v1alpha1.AnnotationModified] = fmt.Sprintf("%d %s", obj.GetGeneration()+1, now.UTC().Truncate(time.Millisecond).Format(time.RFC3339Nano))
	obj.SetAnnotations(annotations)
}

// Precise is like Of, in milliseconds if the last change was recorded by Stamp. After other changes it is at least
// one millisecond later than the recorded one.
func Precise(obj metav1.Object) time.Time {
	latest := Of(obj)
	generation, at, ok := stamped(obj)
	switch {
	case !ok || generation > obj.GetGeneration(): // none, or restored from a backup
		return latest
	case generation == obj.GetGeneration():
		return at
	case !latest.After(at):
		return at.Add(time.Millisecond)
	}
	return latest
}

// stamped returns what Stamp recorded.
func stamped(obj metav1.Object) (generation int64, at time.Time, ok bool) {
	recorded := obj.GetAnnotations()[v1alpha1.AnnotationModified]
	if recorded == "" {
		return 0, time.Time{}, false
	}
	number, text, _ := strings.Cut(recorded, " ")
	generation, err := strconv.ParseInt(number, 10, 64)
	if err != nil {
		return 0, time.Time{}, false
	}
	at, err = time.Parse(time.RFC3339Nano, text)
	return generation, at, err == nil
}

// Transform returns a transform function for caches. It replaces the managed fields by one entry,
// with only the time that Of returns, and by none if that is the creation time.
func Transform() toolscache.TransformFunc {
	return func(in any) (any, error) {
		// Other types, such as DeletedFinalStateUnknown, are not modified.
		if obj, err := meta.Accessor(in); err == nil && len(obj.GetManagedFields()) > 0 {
			last := Of(obj)
			obj.SetManagedFields(nil)
			if last.After(obj.GetCreationTimestamp().Time) {
				obj.SetManagedFields([]metav1.ManagedFieldsEntry{{Time: new(metav1.NewTime(last))}})
			}
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
