package directory

import (
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	toolscache "k8s.io/client-go/tools/cache"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/quoin-dev/quoin/api/v1alpha1"
	"github.com/quoin-dev/quoin/internal/claims"
	"github.com/quoin-dev/quoin/internal/lastmodified"
)

// CacheOptions returns the options of a cache for a Directory: it keeps only the fields that a
// Directory reads, because there may be hundreds of thousands of objects. Reads that bypass the cache
// return complete objects.
func CacheOptions() map[client.Object]cache.ByObject {
	return map[client.Object]cache.ByObject{
		&v1alpha1.ScimUser{}:        {Transform: slim()},
		&v1alpha1.ScimGroup{}:       {Transform: slim()},
		&v1alpha1.ScimMemberChunk{}: {Transform: slimChunk},
	}
}

// slim returns a transform that keeps, of metadata and status, only the time of the last change of the
// spec and whether the object lost its name.
func slim() toolscache.TransformFunc {
	reduce := lastmodified.Transform()
	return func(in any) (any, error) {
		out, err := reduce(in)
		o, ok := out.(v1alpha1.Object)
		if !ok || err != nil {
			return out, err
		}
		slimMetadata(o)
		lost, common := claims.IsNameTaken(o), o.Common()
		common.Conditions = nil
		if lost {
			common.Conditions = []metav1.Condition{{Type: v1alpha1.ConditionReady, Status: metav1.ConditionFalse, Reason: v1alpha1.ReasonNameTaken}}
		}
		return out, nil
	}
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
