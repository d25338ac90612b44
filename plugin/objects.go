package plugin

import (
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/quoin-dev/quoin/api/v1alpha1"
)

// eachObject calls do with the objects with conditions of a list.
func eachObject(list client.ObjectList, do func(v1alpha1.Object)) error {
	return meta.EachListItem(list, func(item runtime.Object) error {
		if o, ok := item.(v1alpha1.Object); ok {
			do(o)
		}
		return nil
	})
}
