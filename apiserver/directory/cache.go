package directory

import (
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	toolscache "k8s.io/client-go/tools/cache"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/quoin-dev/quoin/api/v1alpha1"
	"github.com/quoin-dev/quoin/apiserver/directory/compact"
	"github.com/quoin-dev/quoin/internal/claims"
	"github.com/quoin-dev/quoin/internal/fieldowner"
	"github.com/quoin-dev/quoin/internal/lastmodified"
)

// CacheOptions returns the options of a cache for a Directory: it keeps users and groups in compact form, and only the fields
// that a Directory reads, because there may be hundreds of thousands of objects. Reads that bypass the cache return complete
// objects.
func CacheOptions() map[client.Object]cache.ByObject {
	return map[client.Object]cache.ByObject{
		&v1alpha1.ScimUser{}:        {Transform: compactUser},
		&v1alpha1.ScimGroup{}:       {Transform: compactGroup},
		&v1alpha1.ScimMemberChunk{}: {Transform: slimChunk},
	}
}

// compactUser and compactGroup are transforms to the compact form of an object.
var (
	compactUser  = compactForm(&v1alpha1.ScimUser{}, displayOfUser)
	compactGroup = compactForm(&v1alpha1.ScimGroup{}, displayOfGroup)
)

// compactForm returns a transform for objects of a type, whose summaries have the text that display returns. Of metadata and
// status it keeps only the time of the last change of the spec, who owns fields of a group, whether the object lost its name,
// and since when a user is deprovisioned.
func compactForm[T v1alpha1.Object](of T, display func(T) string) toolscache.TransformFunc {
	codec, reduce := compact.NewCodec(of), lastmodified.Transform()
	return func(in any) (any, error) {
		o, ok := in.(T)
		if !ok { // in compact form already
			return in, nil
		}
		restoreLost(o)
		owners := ownersOf(o)
		if _, err := reduce(o); err != nil {
			return nil, err
		}
		o.SetManagedFields(append(o.GetManagedFields(), owners...))
		slimMetadata(o)
		slimStatus(o)
		return codec.Encode(o, compact.Summary{
			Namespace: o.GetNamespace(), Name: o.GetName(), Created: o.GetCreationTimestamp().Time, Visible: isVisible(o), Display: display(o),
		}), nil
	}
}

// ownersOf returns the managed fields that edits of a cached object need. Users are only edited as the API server has them:
// there are too many to keep their owners.
func ownersOf(o v1alpha1.Object) (owners []metav1.ManagedFieldsEntry) {
	if _, isGroup := o.(*v1alpha1.ScimGroup); !isGroup {
		return nil
	}
	for _, entry := range o.GetManagedFields() {
		if fieldowner.IsAuthoritative(entry) {
			owners = append(owners, entry)
		}
	}
	return owners
}

// slimStatus removes the status, except that the object lost its name, and since when a user is deprovisioned: a user whose
// object was replaced by one without that time is inactive.
func slimStatus(o v1alpha1.Object) {
	lost := claims.IsNameTaken(o)
	switch o := o.(type) {
	case *v1alpha1.ScimUser:
		o.Status = v1alpha1.ScimUserStatus{DeprovisionTime: o.Status.DeprovisionTime}
	case *v1alpha1.ScimGroup:
		o.Status = v1alpha1.ScimGroupStatus{}
	}
	if lost {
		o.Common().Conditions = []metav1.Condition{{Type: v1alpha1.ConditionReady, Status: metav1.ConditionFalse, Reason: v1alpha1.ReasonNameTaken}}
	}
}

// decoded returns a cached object as it was; nil if it is nil or of another kind.
func decoded[T v1alpha1.Object](cached any) T {
	var none T
	o, ok := cached.(*compact.Object)
	if !ok || o == nil {
		return none
	}
	object, _ := o.Decode().(T)
	return object
}

// state is an object in the cache and as it was; both are nil if there is none.
type state[T v1alpha1.Object] struct {
	cached *compact.Object
	object T
}

func stateOf[T v1alpha1.Object](event any) state[T] {
	cached, _ := event.(*compact.Object)
	return state[T]{cached, decoded[T](cached)}
}

// any returns the object as an interface, which is nil if there is none.
func (s state[T]) any() v1alpha1.Object {
	if s.cached == nil {
		return nil
	}
	return s.object
}

// slimChunk is a transform that keeps only the members of a chunk, as a list: they are read more often
// than they are written. The list shares the memory of the string.
func slimChunk(in any) (any, error) {
	if chunk, ok := in.(*v1alpha1.ScimMemberChunk); ok {
		slimMetadata(chunk)
		chunk.ManagedFields = nil
		chunk.Spec = v1alpha1.ScimMemberChunkSpec{Members: chunk.Spec.AllMembers()}
	}
	return in, nil
}

// slimMetadata removes the kind, which the cache knows, and the annotation of kubectl apply.
func slimMetadata(o client.Object) {
	o.GetObjectKind().SetGroupVersionKind(schema.GroupVersionKind{})
	annotations := o.GetAnnotations()
	delete(annotations, corev1.LastAppliedConfigAnnotation)
	if len(annotations) == 0 {
		o.SetAnnotations(nil)
	}
}
