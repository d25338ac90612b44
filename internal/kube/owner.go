package kube

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// IsOfEarlier reports whether an object is controlled by an earlier object of the kind and name of owner. It is then being
// garbage-collected, although one of its name may be needed again.
func IsOfEarlier(o metav1.Object, kind string, owner client.Object) bool {
	controller := metav1.GetControllerOfNoCopy(o)
	return controller != nil && controller.Kind == kind && controller.Name == owner.GetName() && controller.UID != owner.GetUID()
}
