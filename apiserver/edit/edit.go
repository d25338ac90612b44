// Package edit changes the specs of objects on behalf of callers: as the API server has them
// now, without losing what others write at the same time, and never against a program that owns
// a field, such as Argo CD (docs/decisions/0014).
package edit

import (
	"context"
	"fmt"
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

	"github.com/quoin-dev/quoin/internal/kube"
)

// Manager is the field manager of the front end's writes.
const Manager = "quoin-apiserver"

// How often a change is made anew because the object has changed meanwhile, and the longest pause
// before: a group to which forty clients add a member at once takes them all, one after another.
const (
	tries        = 30
	longestPause = 250 * time.Millisecond
)

// interactive are the field managers of people at a keyboard: what they have set may be set
// again. Any other is a program that would set it back: its word counts.
var interactive = []string{Manager, "kubectl-edit", "kubectl-patch", "kubectl-scale", "kubectl-label", "kubectl-annotate", "kubectl-create"}

// OwnedError says that a field belongs to a program that would set it back.
type OwnedError struct {
	// Field as a path, such as spec.displayName.
	Field string
	// Manager is the program's field manager.
	Manager string
}

// Error implements error.
func (e *OwnedError) Error() string {
	return fmt.Sprintf("%s: %q owns this field and would set it back: change it where that is written, such as in Git", e.Field, e.Manager)
}

// Spec edits the spec of the object that a key names, and returns the object as it is then and
// whether it was written. edit sees the object as the API server has it and alters a copy; it is
// called anew when somebody else was faster. Nothing is written when it changes nothing, fails, or
// gives another value to a field that a program owns, which is an *OwnedError.
func Spec[T client.Object](ctx context.Context, c *kube.Client, key client.ObjectKey, edit func(live, edited T) error) (T, bool, error) {
	for try := 1; ; try++ {
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
		// Past the memory of writes, which is for those who read the cache.
		err = c.Client.Patch(ctx, edited, patch, client.FieldOwner(Manager))
		if apierrors.IsConflict(err) && try < tries {
			if err := pause(ctx, try); err != nil {
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

// mergePatch is a patch that still knows what it was made from.
type mergePatch struct {
	client.Patch
	before client.Object
}

// Before is the object without the change.
func (p mergePatch) Before() client.Object { return p.before }

// pause waits at random, longer with each try, so that those who wait do not come back together.
func pause(ctx context.Context, try int) error {
	most := min(longestPause, time.Millisecond<<min(try+1, 10))
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-time.After(rand.N(most)): //nolint:gosec // nothing is guarded by it
		return nil
	}
}

func newOf[T client.Object]() T {
	var none T
	made, _ := reflect.New(reflect.TypeOf(none).Elem()).Interface().(T)
	return made
}

// Owner names the program whose spec an object is, if it is that of one.
func Owner(o client.Object) string {
	for _, entry := range o.GetManagedFields() {
		if entry.Subresource == "" && entry.Operation == metav1.ManagedFieldsOperationApply && !slices.Contains(interactive, entry.Manager) &&
			!strings.HasPrefix(entry.Manager, "quoin-") && entry.FieldsV1 != nil && strings.Contains(entry.FieldsV1.GetRawString(), `"f:spec"`) {
			return entry.Manager
		}
	}
	return ""
}

// permitted refuses a change to fields that a program owns.
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

// ownsAny tells whether a set has a path or anything below it.
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

// changedFields lists the fields of two objects' specs that differ, as deep as they differ.
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
	return changed, nil
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

// both reads two values as one type; a value that is absent is empty.
func both[T map[string]any | []any](x, y any) (T, T, bool) {
	xs, okX := x.(T)
	ys, okY := y.(T)
	return xs, ys, (okX || x == nil) && (okY || y == nil) && (okX || okY)
}

// byName turns a list whose items have names into a map; nil when it is another list.
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
