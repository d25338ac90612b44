// Package fieldowner finds the owners of fields of objects, so that clients do not change fields that a
// program such as Argo CD would set back (docs/decisions/0014).
package fieldowner

import (
	"context"
	"errors"
	"fmt"
	"reflect"
	"slices"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/structured-merge-diff/v6/fieldpath"
)

// The field managers of Quoin's own clients.
const (
	// APIServer is the field manager of the writes of quoin apiserver.
	APIServer = "quoin-apiserver"
	// SCIM is the field manager of the writes of quoin apiserver on behalf of SCIM clients, such as an identity
	// provider. Its fields may be changed by other clients than the REST API: see CheckManager.
	SCIM = "quoin-scim"
	// AdminGuard is the field manager of v1alpha1.AnnotationAdminConfirmed. It is another one than APIServer so
	// that the time of its writes is not that of a change of the spec.
	AdminGuard = "quoin-apiserver-admin-guard"
	// Plugin is the field manager of the kubectl plugin.
	Plugin = "kubectl-quoin"
)

// interactive are the field managers of interactive clients, whose fields may be changed. All others
// are authoritative: they would set their value again.
var interactive = []string{
	APIServer, SCIM, AdminGuard, Plugin, "kubectl-edit", "kubectl-patch", "kubectl-scale", "kubectl-label", "kubectl-annotate", "kubectl-create",
	"quoin-scimuser", "quoin-scimgroup", // controllers that restore what the API server has written
}

type contextKey struct{}

// With returns a context for writes of quoin apiserver under a field manager.
func With(ctx context.Context, manager string) context.Context {
	return context.WithValue(ctx, contextKey{}, manager)
}

// From returns the field manager of a context; APIServer if it has none.
func From(ctx context.Context) string {
	if manager, ok := ctx.Value(contextKey{}).(string); ok {
		return manager
	}
	return APIServer
}

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

// OfSpec returns the authoritative field manager that applies the spec of an object; empty if there is
// none.
func OfSpec(o client.Object) string {
	for _, entry := range o.GetManagedFields() {
		if IsAuthoritative(entry) && isApply(entry) && !strings.HasPrefix(entry.Manager, "quoin-") && strings.Contains(entry.FieldsV1.GetRawString(), `"f:spec"`) {
			return entry.Manager
		}
	}
	return ""
}

// isApply reports whether an entry of the managed fields is that of an apply. A client-side apply, which is the default of
// kubectl and Argo CD, is an update that also writes the annotation with the last applied configuration.
func isApply(entry metav1.ManagedFieldsEntry) bool {
	return entry.Operation == metav1.ManagedFieldsOperationApply || strings.Contains(entry.FieldsV1.GetRawString(), `"f:kubectl.kubernetes.io/last-applied-configuration"`)
}

// Of returns the authoritative field manager that owns a field of an object, or one below it; empty
// if there is none. path are the names of the field and its parents.
func Of(o client.Object, path ...any) (string, error) {
	return ownerOf(func(field []fieldpath.Path) error { return Check(o, field) }, path)
}

// OfManager returns a manager if it owns a field of an object, or one below it; else the empty string.
func OfManager(o client.Object, manager string, path ...any) (string, error) {
	return ownerOf(func(field []fieldpath.Path) error { return CheckManager(o, field, manager) }, path)
}

func ownerOf(check func([]fieldpath.Path) error, path []any) (string, error) {
	field, err := fieldpath.MakePath(path...)
	if err != nil {
		return "", fmt.Errorf("invalid field %v: %w", path, err)
	}
	var owned *OwnedError
	err = check([]fieldpath.Path{field})
	if errors.As(err, &owned) {
		return owned.Manager, nil
	}
	return "", err
}

// IsAuthoritative reports whether an entry of the managed fields has fields that an authoritative manager owns.
func IsAuthoritative(entry metav1.ManagedFieldsEntry) bool {
	return entry.Subresource == "" && entry.FieldsV1 != nil && !slices.Contains(interactive, entry.Manager)
}

// Check returns an *OwnedError if an authoritative manager owns a changed field of an object.
func Check(o client.Object, changed []fieldpath.Path) error {
	return check(o, changed, IsAuthoritative)
}

// CheckChange returns the fields in which an edited object differs from the live one, as Changed does, and an *OwnedError if an
// authoritative manager owns one of them.
func CheckChange(live, edited client.Object) ([]fieldpath.Path, error) {
	changed, err := Changed(live, edited)
	if err != nil {
		return nil, err
	}
	return changed, Check(live, changed)
}

// CheckManager returns an *OwnedError if a manager owns a changed field of an object.
func CheckManager(o client.Object, changed []fieldpath.Path, manager string) error {
	return check(o, changed, func(entry metav1.ManagedFieldsEntry) bool {
		return entry.Subresource == "" && entry.FieldsV1 != nil && entry.Manager == manager
	})
}

func check(o client.Object, changed []fieldpath.Path, blocks func(metav1.ManagedFieldsEntry) bool) error {
	for _, entry := range o.GetManagedFields() {
		if !blocks(entry) {
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

// Changed returns the paths of the deepest fields in which the specs and the annotations of two
// objects differ.
func Changed(before, after client.Object) ([]fieldpath.Path, error) {
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
