// Package edit writes objects on behalf of callers: it changes the current object of the Kubernetes
// API server without losing concurrent changes, and never a field that is owned by a program such as
// Argo CD (docs/decisions/0014). A write returns when the caches of this process have observed it.
package edit

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"reflect"
	"slices"
	"strings"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/structured-merge-diff/v6/fieldpath"

	"github.com/quoin-dev/quoin/internal/freshness"
	"github.com/quoin-dev/quoin/internal/kube"
)

// Manager is the field manager of the writes of quoin apiserver.
const Manager = "quoin-apiserver"

// Timeout is how long a request waits for the effects of its write.
const Timeout = 20 * time.Second

// Attempts of a change in the case of conflicts, and the longest pause before one. Forty clients that
// add a member to one group at the same time all succeed.
const (
	attempts     = 30
	longestPause = 250 * time.Millisecond
)

// interactive are the field managers of interactive clients, whose fields may be changed. All others
// are authoritative: they would set their value again.
var interactive = []string{Manager, "kubectl-edit", "kubectl-patch", "kubectl-scale", "kubectl-label", "kubectl-annotate", "kubectl-create"}

// ErrDeleted is returned if the object of a change has been deleted since it was read.
var ErrDeleted = errors.New("the object has been deleted")

// OwnedError is returned for a change of a field that an authoritative manager owns.
type OwnedError struct {
	// Field as a path, such as spec.displayName.
	Field string
	// Manager is the field manager that owns the field.
	Manager string
}

// Error implements error.
func (e *OwnedError) Error() string {
	return fmt.Sprintf("%s: %q owns this field and would set it back: change it where that is written, such as in Git", e.Field, e.Manager)
}

// Spec edits the spec and the annotations of the object with a key, in one write, and returns the
// object as it is afterwards and whether it was written. edit is called with the current object of the Kubernetes API server and
// modifies a copy; it is called again after a conflict. Nothing is written if edit changes nothing,
// fails, or changes a field that an authoritative manager owns, which is an *OwnedError.
//
// Spec does not wait for the cache: see Change.
func Spec[T client.Object](ctx context.Context, c *kube.Client, key client.ObjectKey, edit func(live, edited T) error) (T, bool, error) {
	for attempt := 1; ; attempt++ {
		live := newOf[T]()
		if err := c.Live().Get(ctx, key, live); err != nil {
			return live, false, err
		}
		edited, _ := live.DeepCopyObject().(T)
		if err := edit(live, edited); err != nil {
			return live, false, err
		}
		changed, err := changedFields(live, edited)
		if err != nil || len(changed) == 0 {
			return live, false, err
		}
		if err := permitted(live.GetManagedFields(), changed); err != nil {
			return live, false, err
		}
		patch := mergePatch{Patch: client.MergeFromWithOptions(live, client.MergeFromWithOptimisticLock{}), before: live}
		// Not recorded for reads of the cache: writers wait for it instead.
		err = c.Client.Patch(ctx, edited, patch, client.FieldOwner(Manager))
		if apierrors.IsConflict(err) && attempt < attempts {
			if err := pause(ctx, attempt); err != nil {
				return live, false, err
			}
			continue
		}
		if err != nil {
			return live, false, err
		}
		return edited, true, nil
	}
}

// Change edits the spec and the annotations of an object that was read before, waits until the cache has the change, and
// returns the object as written. Nothing is written if edit changes nothing.
func Change[T client.Object](ctx context.Context, c *kube.Client, obj T, edit func(T) error) (T, error) {
	w := c.Expect(obj)
	defer w.Stop()
	edited, written, err := Spec(ctx, c, client.ObjectKeyFromObject(obj), func(live, edited T) error {
		if live.GetUID() != obj.GetUID() || !live.GetDeletionTimestamp().IsZero() {
			return ErrDeleted
		}
		return edit(edited)
	})
	if err != nil || !written {
		return edited, err
	}
	return edited, settled(w.Version(ctx, Timeout, edited.GetResourceVersion()))
}

// Create creates an object, which has a name, and waits until the cache has it.
func Create(ctx context.Context, c *kube.Client, obj client.Object) error {
	w := c.Expect(obj)
	defer w.Stop()
	if err := c.Create(ctx, obj); err != nil {
		return err
	}
	return settled(w.Version(ctx, Timeout, obj.GetResourceVersion()))
}

// Delete deletes an object that was read before and waits until the cache no longer has it. It is no
// error if the object does not exist.
func Delete(ctx context.Context, c *kube.Client, obj client.Object) error {
	w := c.Expect(obj)
	defer w.Stop()
	uid := obj.GetUID()
	if err := c.Delete(ctx, obj, client.Preconditions{UID: &uid}); err != nil {
		return client.IgnoreNotFound(err)
	}
	return settled(w.Absence(ctx, Timeout, uid))
}

// Annotate sets an annotation of an object and waits until the cache has it.
func Annotate(ctx context.Context, c *kube.Client, obj client.Object, name, value string) error {
	w := c.Expect(obj)
	defer w.Stop()
	before, _ := obj.DeepCopyObject().(client.Object)
	annotations := maps.Clone(obj.GetAnnotations())
	if annotations == nil {
		annotations = map[string]string{}
	}
	annotations[name] = value
	obj.SetAnnotations(annotations)
	if err := c.Patch(ctx, obj, mergePatch{client.MergeFrom(before), before}, client.FieldOwner(Manager)); err != nil {
		return fmt.Errorf("set annotation %s: %w", name, err)
	}
	return settled(w.Version(ctx, Timeout, obj.GetResourceVersion()))
}

// settled returns the error of a wait after a write that succeeded: a slow cache or a caller that has
// gone do not make the write fail.
func settled(err error) error {
	if errors.Is(err, freshness.ErrTimeout) || errors.Is(err, context.Canceled) || errors.Is(err, context.DeadlineExceeded) {
		return nil
	}
	return err
}

// mergePatch is a patch that knows the object before the change.
type mergePatch struct {
	client.Patch
	before client.Object
}

// Before returns the object without the change.
func (p mergePatch) Before() client.Object { return p.before }

// pause waits for a random time that grows with the attempts, so that concurrent callers spread.
func pause(ctx context.Context, attempt int) error {
	most := min(longestPause, time.Millisecond<<min(attempt+1, 10))
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-time.After(rand.N(most)): //nolint:gosec // not security-relevant
		return nil
	}
}

func newOf[T client.Object]() T {
	var none T
	made, _ := reflect.New(reflect.TypeOf(none).Elem()).Interface().(T)
	return made
}

// Owner returns the authoritative field manager that applies the spec of an object; empty if there is
// none.
func Owner(o client.Object) string {
	for _, entry := range o.GetManagedFields() {
		if entry.Subresource == "" && entry.Operation == metav1.ManagedFieldsOperationApply && !slices.Contains(interactive, entry.Manager) &&
			!strings.HasPrefix(entry.Manager, "quoin-") && entry.FieldsV1 != nil && strings.Contains(entry.FieldsV1.GetRawString(), `"f:spec"`) {
			return entry.Manager
		}
	}
	return ""
}

// FieldOwner returns the authoritative field manager that owns a field of an object, or one below it; empty
// if there is none. path are the names of the field and its parents.
func FieldOwner(o client.Object, path ...any) (string, error) {
	field, err := fieldpath.MakePath(path...)
	if err != nil {
		return "", fmt.Errorf("invalid field %v: %w", path, err)
	}
	var owned *OwnedError
	err = permitted(o.GetManagedFields(), []fieldpath.Path{field})
	if errors.As(err, &owned) {
		return owned.Manager, nil
	}
	return "", err
}

// permitted returns an *OwnedError if an authoritative manager owns a changed field.
func permitted(entries []metav1.ManagedFieldsEntry, changed []fieldpath.Path) error {
	for _, entry := range entries {
		if entry.Subresource != "" || entry.FieldsV1 == nil || slices.Contains(interactive, entry.Manager) {
			continue
		}
		owned := fieldpath.NewSet()
		if err := owned.FromJSON(entry.FieldsV1.GetRawReader()); err != nil {
			return fmt.Errorf("read managed fields: %w", err)
		}
		for _, path := range changed {
			if ownsAny(owned, path) {
				return &OwnedError{Field: strings.TrimPrefix(path.String(), "."), Manager: entry.Manager}
			}
		}
	}
	return nil
}

// ownsAny reports whether a set has a path or one below it.
func ownsAny(owned *fieldpath.Set, path fieldpath.Path) bool {
	if owned.Has(path) {
		return true
	}
	found := false
	owned.Iterate(func(p fieldpath.Path) {
		if len(p) > len(path) && p[:len(path)].Equals(path) {
			found = true
		}
	})
	return found
}

// changedFields returns the paths of the deepest fields in which the specs and the annotations of two
// objects differ.
func changedFields(before, after client.Object) ([]fieldpath.Path, error) {
	x, err := specOf(before)
	if err != nil {
		return nil, err
	}
	y, err := specOf(after)
	if err != nil {
		return nil, err
	}
	var changed []fieldpath.Path
	compare(fieldpath.MakePathOrDie("spec"), x, y, &changed)
	compare(fieldpath.MakePathOrDie("metadata", "annotations"), annotationsOf(before), annotationsOf(after), &changed)
	return changed, nil
}

func annotationsOf(o client.Object) map[string]any {
	annotations := make(map[string]any, len(o.GetAnnotations()))
	for name, value := range o.GetAnnotations() {
		annotations[name] = value
	}
	return annotations
}

func specOf(o client.Object) (map[string]any, error) {
	all, err := runtime.DefaultUnstructuredConverter.ToUnstructured(o)
	if err != nil {
		return nil, fmt.Errorf("encode %T: %w", o, err)
	}
	spec, _ := all["spec"].(map[string]any)
	return spec, nil
}

func compare(at fieldpath.Path, x, y any, changed *[]fieldpath.Path) {
	if reflect.DeepEqual(x, y) {
		return
	}
	if xs, ys, ok := both[map[string]any](x, y); ok {
		for _, name := range names(xs, ys) {
			compare(append(at.Copy(), fieldpath.PathElement{FieldName: &name}), xs[name], ys[name], changed)
		}
		return
	}
	if xs, ys, ok := both[[]any](x, y); ok {
		if xn, yn, ok := both[map[string]any](byName(xs), byName(ys)); ok {
			for _, name := range names(xn, yn) {
				compare(append(at.Copy(), fieldpath.KeyElementByFields("name", name)), xn[name], yn[name], changed)
			}
			return
		}
	}
	*changed = append(*changed, at.Copy())
}

// both returns two values as one type; an absent value is empty.
func both[T map[string]any | []any](x, y any) (T, T, bool) {
	xs, okX := x.(T)
	ys, okY := y.(T)
	return xs, ys, (okX || x == nil) && (okY || y == nil) && (okX || okY)
}

// byName returns a list whose items have names as a map; 0 for another list.
func byName(list []any) any {
	items := map[string]any{}
	for _, item := range list {
		fields, _ := item.(map[string]any)
		name, ok := fields["name"].(string)
		if !ok {
			return 0 // not a map
		}
		items[name] = item
	}
	return items
}

func names(maps ...map[string]any) []string {
	var all []string
	for _, m := range maps {
		for name := range m {
			all = append(all, name)
		}
	}
	slices.Sort(all)
	return slices.Compact(all)
}
