package v1alpha1

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// ClaimHolder is the object that a unique value belongs to.
type ClaimHolder struct {
	// kind of the holder.
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=63
	// +required
	Kind string `json:"kind"`

	// name of the holder, in the claim's namespace.
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=253
	// +required
	Name string `json:"name"`

	// uid of the holder; empty when the claim was made before the holder: it then belongs to
	// whoever has the name.
	// +kubebuilder:validation:MaxLength=128
	// +optional
	UID string `json:"uid,omitempty"`
}

// ClaimSpec says who holds a unique value.
type ClaimSpec struct {
	// attribute that is unique in the namespace, as Kind.field: Deployment.displayName.
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=128
	// +kubebuilder:validation:XValidation:rule="self == oldSelf",message="attribute cannot be changed"
	// +required
	Attribute string `json:"attribute"`

	// holder of the value.
	// +required
	Holder ClaimHolder `json:"holder"`
}

// Claim makes a value unique in a namespace: its name is derived from a hash of the value,
// so that only one can exist. It is created before its holder takes the value, goes with
// the holder or soon after it, and is taken over when the holder no longer exists. People
// never write one.
//
// +kubebuilder:object:root=true
// +kubebuilder:resource:shortName=qclaim
// +kubebuilder:selectablefield:JSONPath=`.spec.holder.name`
// +kubebuilder:printcolumn:name="Attribute",type=string,JSONPath=`.spec.attribute`
// +kubebuilder:printcolumn:name="Kind",type=string,JSONPath=`.spec.holder.kind`
// +kubebuilder:printcolumn:name="Holder",type=string,JSONPath=`.spec.holder.name`
// +kubebuilder:printcolumn:name="Age",type=date,JSONPath=`.metadata.creationTimestamp`
type Claim struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`

	// spec says who holds the value.
	// +required
	Spec ClaimSpec `json:"spec"`
}

// ClaimList is a list of Claims.
//
// +kubebuilder:object:root=true
type ClaimList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`
	Items           []Claim `json:"items"`
}
