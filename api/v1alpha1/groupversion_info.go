// Package v1alpha1 holds the types of the kinds in the API group platform.quoin.dev.
//
// It contains types, constants and the table of kinds, and imports no other package of this module,
// so other modules can import it without the controllers.
//
// +kubebuilder:object:generate=true
// +groupName=platform.quoin.dev
package v1alpha1

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// Group is the API group of all kinds in this package.
const Group = "platform.quoin.dev"

// GroupVersion is the group and version of the kinds in this package.
var GroupVersion = schema.GroupVersion{Group: Group, Version: "v1alpha1"}

// AddToScheme registers the kinds of this package in a scheme.
func AddToScheme(s *runtime.Scheme) error {
	for _, k := range Kinds {
		s.AddKnownTypes(GroupVersion, k.Object, k.List)
	}
	metav1.AddToGroupVersion(s, GroupVersion)
	return nil
}
