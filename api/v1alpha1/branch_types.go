package v1alpha1

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// BranchRole is the purpose of a branch.
// +kubebuilder:validation:Enum=production;shared;personal
type BranchRole string

// The roles of a branch.
const (
	// BranchProduction is the branch that production serves.
	BranchProduction BranchRole = "production"
	// BranchShared is a branch that several users work on; it may have a staging environment.
	BranchShared BranchRole = "shared"
	// BranchPersonal is one user's development branch.
	BranchPersonal BranchRole = "personal"
)

// BranchSpec is the desired state of a Branch.
//
// +kubebuilder:validation:XValidation:rule="!has(self.stagingEnvironmentEnabled) || !self.stagingEnvironmentEnabled || self.role == 'shared'",message="stagingEnvironmentEnabled requires role: shared; a personal or production branch cannot have a staging environment",fieldPath=".stagingEnvironmentEnabled"
type BranchSpec struct {
	// deploymentRef names the Deployment.
	// +kubebuilder:validation:XValidation:rule="self == oldSelf",message="deploymentRef is immutable"
	// +required
	DeploymentRef LocalReference `json:"deploymentRef"`

	// name of the branch in the repository.
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=244
	// +kubebuilder:validation:XValidation:rule="self == oldSelf",message="name is immutable"
	// +kubebuilder:validation:XValidation:rule=`!self.matches(r'[[:cntrl:] ~^:?*\[\\]|^[/.]|/[./]|[.][.]|@[{]|[.]lock(/|$)|[/.]$|^@$')`,message="must be a valid Git branch name such as main or feature/orders"
	// +required
	Name string `json:"name"`

	// parentBranch is the branch that this branch was created from.
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=244
	// +optional
	ParentBranch string `json:"parentBranch,omitempty"`

	// role of the branch.
	// +required
	Role BranchRole `json:"role"`

	// stagingEnvironmentEnabled keeps a staging environment of the branch active. Otherwise the
	// deployment's onDemand decides whether the branch has one that wakes on use.
	// +optional
	StagingEnvironmentEnabled *bool `json:"stagingEnvironmentEnabled,omitempty"`
}

// BranchStatus is the observed state of a Branch.
type BranchStatus struct {
	CommonStatus `json:",inline"`

	// id is the branch's number in its account.
	// +optional
	ID int64 `json:"id,omitempty"`

	// lastHash is the commit that the branch points at.
	// +kubebuilder:validation:MaxLength=64
	// +optional
	LastHash string `json:"lastHash,omitempty"`

	// environment is the name of the branch's Environment.
	// +kubebuilder:validation:MaxLength=253
	// +optional
	Environment string `json:"environment,omitempty"`
}

// Branch is a branch of a deployment's data model.
//
// +kubebuilder:object:root=true
// +kubebuilder:subresource:status
// +kubebuilder:resource:path=branches,shortName=qbr,categories=quoin
// +kubebuilder:selectablefield:JSONPath=`.spec.deploymentRef.name`
// +kubebuilder:selectablefield:JSONPath=`.spec.name`
// +kubebuilder:printcolumn:name="ID",type=integer,JSONPath=`.status.id`
// +kubebuilder:printcolumn:name="Deployment",type=string,JSONPath=`.spec.deploymentRef.name`
// +kubebuilder:printcolumn:name="Branch",type=string,JSONPath=`.spec.name`
// +kubebuilder:printcolumn:name="Role",type=string,JSONPath=`.spec.role`
// +kubebuilder:printcolumn:name="Staging",type=boolean,JSONPath=`.spec.stagingEnvironmentEnabled`
// +kubebuilder:printcolumn:name="Commit",type=string,JSONPath=`.status.lastHash`,priority=1
// +kubebuilder:printcolumn:name="Ready",type=string,JSONPath=`.status.conditions[?(@.type=="Ready")].status`
// +kubebuilder:printcolumn:name="Reason",type=string,JSONPath=`.status.conditions[?(@.type=="Ready")].reason`
// +kubebuilder:printcolumn:name="Message",type=string,JSONPath=`.status.conditions[?(@.type=="Ready")].message`,priority=1
// +kubebuilder:printcolumn:name="Age",type=date,JSONPath=`.metadata.creationTimestamp`
type Branch struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`

	// spec is the desired state.
	// +required
	Spec BranchSpec `json:"spec"`

	// status is the observed state.
	// +kubebuilder:default={"observedGeneration":-1}
	// +optional
	Status BranchStatus `json:"status,omitempty"`
}

// Common implements Object.
func (b *Branch) Common() *CommonStatus { return &b.Status.CommonStatus }

// BranchList is a list of Branches.
//
// +kubebuilder:object:root=true
type BranchList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`
	Items           []Branch `json:"items"`
}
