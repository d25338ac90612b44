package v1alpha1

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// ClaimHolder is the object that holds a unique value.
type ClaimHolder struct {
	// kind of the holder.
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=63
	// +required
	Kind string `json:"kind"`

	// namespace of the holder; the claim's namespace when absent. Empty for the holder of a host that has
	// no namespace.
	// +kubebuilder:validation:MaxLength=63
	// +optional
	Namespace string `json:"namespace,omitempty"`

	// name of the holder.
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=253
	// +required
	Name string `json:"name"`

	// uid of the holder; empty if the claim was created before its holder: it then belongs to the
	// object with the name.
	// +kubebuilder:validation:MaxLength=128
	// +optional
	UID string `json:"uid,omitempty"`

	// generation of the holder for which a host was claimed.
	// +kubebuilder:validation:Minimum=0
	// +optional
	Generation *int64 `json:"generation,omitempty"`
}

// ClaimSpec identifies the holder of a unique value.
type ClaimSpec struct {
	// attribute that is unique in the namespace, as Kind.field: Deployment.displayName; or host, which is
	// unique in the cluster.
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=128
	// +kubebuilder:validation:XValidation:rule="self == oldSelf",message="attribute is immutable"
	// +required
	Attribute string `json:"attribute"`

	// value that is claimed; shown only for hosts.
	// +kubebuilder:validation:MaxLength=253
	// +kubebuilder:validation:XValidation:rule="self == oldSelf",message="value is immutable"
	// +optional
	Value string `json:"value,omitempty"`

	// holder of the value.
	// +required
	Holder ClaimHolder `json:"holder"`
}

// Claim reserves a unique value in a namespace, or a host in the cluster. Its name is derived from a hash of the value, so that
// only one can exist. It is created before its holder uses the value, deleted with the holder or
// soon after it, and taken over if the holder no longer exists. Users do not write Claims.
//
// +kubebuilder:object:root=true
// +kubebuilder:resource:shortName=qclaim
// +kubebuilder:selectablefield:JSONPath=`.spec.holder.name`
// +kubebuilder:printcolumn:name="Attribute",type=string,JSONPath=`.spec.attribute`
// +kubebuilder:printcolumn:name="Kind",type=string,JSONPath=`.spec.holder.kind`
// +kubebuilder:printcolumn:name="Holder",type=string,JSONPath=`.spec.holder.name`
// +kubebuilder:printcolumn:name="Value",type=string,JSONPath=`.spec.value`
// +kubebuilder:printcolumn:name="Holder Namespace",type=string,JSONPath=`.spec.holder.namespace`,priority=1
// +kubebuilder:printcolumn:name="Age",type=date,JSONPath=`.metadata.creationTimestamp`
type Claim struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`

	// spec identifies the holder of the value.
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
