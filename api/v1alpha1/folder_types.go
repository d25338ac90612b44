package v1alpha1

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// FolderSpec is the desired state of a Folder.
type FolderSpec struct {
	// deploymentRef names the Deployment.
	// +kubebuilder:validation:XValidation:rule="self == oldSelf",message="deploymentRef is immutable: create another Folder"
	// +required
	DeploymentRef LocalReference `json:"deploymentRef"`

	// name of the folder, unique among the folders of its parent, ignoring case.
	// +required
	Name ContentName `json:"name"`

	// parentRef names the Folder that contains it; it is at the root when absent.
	// +optional
	ParentRef *LocalReference `json:"parentRef,omitempty"`

	// position orders the folders of one parent. When absent, a new folder is the last one.
	// +kubebuilder:validation:Minimum=0
	// +kubebuilder:validation:Maximum=2147483647
	// +optional
	Position *int64 `json:"position,omitempty"`

	// adopt takes over a folder that has the name, if a user has created it.
	// +optional
	Adopt *bool `json:"adopt,omitempty"`

	// deletionPolicy is what happens to the folder when this object is deleted; Delete when absent. The content of a
	// deleted folder moves to the root. A folder that contains others is not deleted.
	// +optional
	DeletionPolicy ContentDeletionPolicy `json:"deletionPolicy,omitempty"`
}

// FolderStatus is the observed state of a Folder.
type FolderStatus struct {
	CommonStatus `json:",inline"`

	// folderID is the id of the folder in the REST API.
	// +optional
	FolderID int64 `json:"folderID,omitempty"`
}

// Folder is a folder for the content of a deployment, kept as code.
//
// +kubebuilder:object:root=true
// +kubebuilder:subresource:status
// +kubebuilder:resource:shortName=qfld,categories=quoin
// +kubebuilder:selectablefield:JSONPath=".spec.deploymentRef.name"
// +kubebuilder:validation:XValidation:rule="self.metadata.name.matches('^[a-z0-9]([a-z0-9-]*[a-z0-9])?$') && self.metadata.name.size() <= 63",message="metadata.name must have no more than 63 characters, of which each is a lower-case letter, a digit or -"
// +kubebuilder:validation:XValidation:rule="!has(self.spec.parentRef) || self.spec.parentRef.name != self.metadata.name",message="spec.parentRef must name another Folder"
// +kubebuilder:printcolumn:name="Folder",type=string,JSONPath=`.spec.name`
// +kubebuilder:printcolumn:name="Deployment",type=string,JSONPath=`.spec.deploymentRef.name`
// +kubebuilder:printcolumn:name="Parent",type=string,JSONPath=`.spec.parentRef.name`
// +kubebuilder:printcolumn:name="Ready",type=string,JSONPath=`.status.conditions[?(@.type=="Ready")].status`
// +kubebuilder:printcolumn:name="Reason",type=string,JSONPath=`.status.conditions[?(@.type=="Ready")].reason`
// +kubebuilder:printcolumn:name="ID",type=integer,JSONPath=`.status.folderID`,priority=1
// +kubebuilder:printcolumn:name="Message",type=string,JSONPath=`.status.conditions[?(@.type=="Ready")].message`,priority=1
// +kubebuilder:printcolumn:name="Age",type=date,JSONPath=`.metadata.creationTimestamp`
type Folder struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`

	// spec is the desired state.
	// +required
	Spec FolderSpec `json:"spec"`

	// status is the observed state.
	// +kubebuilder:default={"observedGeneration":-1}
	// +optional
	Status FolderStatus `json:"status,omitempty"`
}

// Common implements Object.
func (f *Folder) Common() *CommonStatus { return &f.Status.CommonStatus }

// FolderList is a list of Folders.
//
// +kubebuilder:object:root=true
type FolderList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`
	Items           []Folder `json:"items"`
}
