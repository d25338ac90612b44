package kube

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"maps"
	"reflect"

	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/apiutil"

	"github.com/quoin-dev/quoin/api/v1alpha1"
)

// annotationApplied is the hash of the applied fields, on every object that Apply writes. It
// distinguishes a field that is no longer desired from one that another manager has set.
const annotationApplied = v1alpha1.Group + "/applied-hash"

// Apply writes desired by server-side apply with force: its fields are then owned by this client's
// field manager. Nothing is written if the object has these fields already, so a reconciliation
// without changes costs no request. desired is a typed object with the desired fields only. Apply
// returns the current object and whether it was written.
func Apply[T client.Object](ctx context.Context, c *Client, desired T) (T, bool, error) {
	live, _ := reflect.New(reflect.TypeOf(desired).Elem()).Interface().(T)
	hash, err := stamp(desired)
	if err != nil {
		return live, false, err
	}
	u, err := toUnstructured(c.Scheme(), desired)
	if err != nil {
		return live, false, err
	}
	err = c.Get(ctx, client.ObjectKeyFromObject(desired), live)
	if client.IgnoreNotFound(err) != nil {
		return live, false, fmt.Errorf("read %s: %w", describe(c, desired), err)
	}
	if err == nil && live.GetAnnotations()[annotationApplied] == hash {
		if same, err := holds(live, u); same || err != nil {
			return live, false, err
		}
	}
	if err := c.Client.Apply(ctx, client.ApplyConfigurationFromUnstructured(u), c.owner, client.ForceOwnership); err != nil {
		return live, false, fmt.Errorf("apply %s: %w", describe(c, desired), err)
	}
	c.tracker.Wrote(c.id(desired, client.ObjectKeyFromObject(desired)), u.GetResourceVersion())
	if err := runtime.DefaultUnstructuredConverter.FromUnstructured(u.Object, live); err != nil {
		return live, false, fmt.Errorf("decode %s: %w", describe(c, desired), err)
	}
	return live, true, nil
}

// stamp sets the hash annotation of desired and returns the hash. The annotation of an earlier Apply
// of the same value is not hashed.
func stamp(desired client.Object) (string, error) {
	annotations := maps.Clone(desired.GetAnnotations())
	delete(annotations, annotationApplied)
	desired.SetAnnotations(annotations)
	data, err := json.Marshal(desired)
	if err != nil {
		return "", fmt.Errorf("encode %T: %w", desired, err)
	}
	sum := sha256.Sum256(data)
	hash := hex.EncodeToString(sum[:8])
	if annotations == nil {
		annotations = map[string]string{}
	}
	annotations[annotationApplied] = hash
	desired.SetAnnotations(annotations)
	return hash, nil
}

// holds reports whether live has all fields of desired. Defaults and fields of other managers are
// ignored.
func holds(live client.Object, desired *unstructured.Unstructured) (bool, error) {
	have, err := runtime.DefaultUnstructuredConverter.ToUnstructured(live)
	if err != nil {
		return false, fmt.Errorf("encode %T: %w", live, err)
	}
	for key, want := range desired.Object {
		// Cached objects have no type meta.
		if key != "apiVersion" && key != "kind" && !within(want, have[key]) {
			return false, nil
		}
	}
	return true, nil
}

// within reports whether have contains all values of want. Lists are compared item by item.
func within(want, have any) bool {
	switch want := want.(type) {
	case nil:
		return true
	case map[string]any:
		have, _ := have.(map[string]any)
		for key, value := range want {
			if !within(value, have[key]) {
				return false
			}
		}
		return true
	case []any:
		have, _ := have.([]any)
		if len(want) != len(have) {
			return false
		}
		for i := range want {
			if !within(want[i], have[i]) {
				return false
			}
		}
		return true
	}
	return want == have
}

// toUnstructured returns the fields of a typed object to apply: without status and empty metadata.
func toUnstructured(scheme *runtime.Scheme, obj client.Object) (*unstructured.Unstructured, error) {
	gvk, err := apiutil.GVKForObject(obj, scheme)
	if err != nil {
		return nil, err
	}
	content, err := runtime.DefaultUnstructuredConverter.ToUnstructured(obj)
	if err != nil {
		return nil, fmt.Errorf("encode %T: %w", obj, err)
	}
	u := &unstructured.Unstructured{Object: content}
	u.SetGroupVersionKind(gvk)
	unstructured.RemoveNestedField(u.Object, "status")
	for _, path := range [][]string{
		{"metadata"}, {"spec", "template", "metadata"}, {"spec", "jobTemplate", "metadata"},
	} {
		unstructured.RemoveNestedField(u.Object, append(path, "creationTimestamp")...)
	}
	return u, nil
}

func describe(c *Client, obj client.Object) string {
	gvk, err := apiutil.GVKForObject(obj, c.Scheme())
	if err != nil {
		return obj.GetName()
	}
	return gvk.Kind + " " + obj.GetName()
}

// PatchStatus writes the status of obj if it differs from that of before. The write is rejected with
// a conflict if the object has changed since before was read: a status is never computed from one
// version and written to another.
func PatchStatus(ctx context.Context, c *Client, before, obj client.Object) (bool, error) {
	if equality.Semantic.DeepEqual(before, obj) {
		return false, nil
	}
	patch := client.MergeFromWithOptions(before, client.MergeFromWithOptimisticLock{})
	if err := c.Status().Patch(ctx, obj, patch); err != nil {
		return false, fmt.Errorf("patch status of %s: %w", describe(c, obj), err)
	}
	return true, nil
}

// PatchMetadata writes labels and annotations of obj that differ from before, with the same
// precondition.
func PatchMetadata(ctx context.Context, c *Client, before, obj client.Object) error {
	if equality.Semantic.DeepEqual(before, obj) {
		return nil
	}
	patch := client.MergeFromWithOptions(before, client.MergeFromWithOptimisticLock{})
	if err := c.Patch(ctx, obj, patch); err != nil {
		return fmt.Errorf("patch %s: %w", describe(c, obj), err)
	}
	return nil
}
