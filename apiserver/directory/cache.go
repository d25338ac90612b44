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

// CacheOptions make the cache of a process keep of the objects only what is read here, for there
// may be a hundred thousand. What is read of them with other clients than the cache's is whole.
func CacheOptions() map[client.Object]cache.ByObject {
	return map[client.Object]cache.ByObject{
		&v1alpha1.ScimUser{}:        {Transform: slim()},
		&v1alpha1.ScimGroup{}:       {Transform: slim()},
		&v1alpha1.ScimMemberChunk{}: {Transform: slimChunk},
	}
}

// slim keeps of metadata and status when the spec changed and whether the name was lost.
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

// slimChunk keeps the members of a chunk.
func slimChunk(in any) (any, error) {
	if chunk, ok := in.(*v1alpha1.ScimMemberChunk); ok {
		slimMetadata(chunk)
		chunk.ManagedFields = nil
	}
	return in, nil
}

// slimMetadata drops what every object repeats: its kind, which the cache knows, and what kubectl
// apply has written down.
func slimMetadata(o client.Object) {
	o.GetObjectKind().SetGroupVersionKind(schema.GroupVersionKind{})
	annotations := o.GetAnnotations()
	delete(annotations, corev1.LastAppliedConfigAnnotation)
	if len(annotations) == 0 {
		o.SetAnnotations(nil)
	}
}
