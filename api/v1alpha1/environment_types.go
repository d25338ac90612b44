package v1alpha1

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// EnvironmentSpec is the desired state of an Environment. The Deployment and Branch controllers
// create Environments. Settings that all environments of a deployment share (model source,
// variables, size) are read from the Deployment.
//
// +kubebuilder:validation:XValidation:rule="self.type == 'production' || has(self.branchRef)",message="branchRef is required unless type is production",fieldPath=".branchRef"
// +kubebuilder:validation:XValidation:rule="!has(self.idleSeconds) || self.type != 'production'",message="idleSeconds must not be set for type production",fieldPath=".idleSeconds"
// +kubebuilder:validation:XValidation:rule="has(self.branchRef) == has(oldSelf.branchRef)",message="branchRef cannot be added or removed",fieldPath=".branchRef"
type EnvironmentSpec struct {
	// deploymentRef names the Deployment.
	// +kubebuilder:validation:XValidation:rule="self == oldSelf",message="deploymentRef is immutable"
	// +required
	DeploymentRef LocalReference `json:"deploymentRef"`

	// type of the environment.
	// +kubebuilder:validation:XValidation:rule="self == oldSelf",message="type is immutable"
	// +required
	Type EnvironmentType `json:"type"`

	// branchRef names the Branch that is served; absent for production of a deployment whose model is
	// a ConfigMap.
	// +kubebuilder:validation:XValidation:rule="self == oldSelf",message="branchRef is immutable"
	// +optional
	BranchRef *LocalReference `json:"branchRef,omitempty"`

	// deploymentGeneration is the generation of the Deployment whose settings must be applied before
	// the environment is ready.
	// +kubebuilder:validation:Minimum=0
	// +optional
	DeploymentGeneration int64 `json:"deploymentGeneration,omitempty"`

	// version to run, without a prefix.
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=128
	// +required
	Version string `json:"version"`

	// image to run, with its digest.
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=512
	// +required
	Image string `json:"image"`

	// storeImage is the image of the pre-aggregation store, with its digest.
	// +kubebuilder:validation:MaxLength=512
	// +optional
	StoreImage string `json:"storeImage,omitempty"`

	// modelCommit is the commit of a data model in Git.
	// +kubebuilder:validation:MaxLength=64
	// +kubebuilder:validation:Pattern=`^([0-9a-f]{40}|[0-9a-f]{64})$`
	// +optional
	ModelCommit string `json:"modelCommit,omitempty"`

	// idleSeconds is the time without use after which the environment sleeps until the next use; it
	// never sleeps when absent.
	// +kubebuilder:validation:Minimum=600
	// +kubebuilder:validation:Maximum=604800
	// +optional
	IdleSeconds *int32 `json:"idleSeconds,omitempty"`
}

// RESTCredentials is the address of the REST data API.
type RESTCredentials struct {
	// url of the REST data API.
	// +kubebuilder:validation:MaxLength=1024
	// +required
	URL string `json:"url"`
}

// SQLCredentials is the address of the SQL API.
type SQLCredentials struct {
	// host of the SQL API.
	// +kubebuilder:validation:MaxLength=512
	// +required
	Host string `json:"host"`

	// port of the SQL API.
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=65535
	// +required
	Port int32 `json:"port"`
}

// APICredentials are the addresses of the environment's data APIs.
type APICredentials struct {
	// rest is the REST data API.
	// +required
	REST RESTCredentials `json:"rest"`

	// sql is the SQL API.
	// +required
	SQL SQLCredentials `json:"sql"`
}

// EnvironmentStatus is the observed state of an Environment.
type EnvironmentStatus struct {
	CommonStatus `json:",inline"`

	// id is the environment's number in its account.
	// +kubebuilder:validation:MaxLength=20
	// +optional
	ID string `json:"id,omitempty"`

	// active reports whether pods serve the environment.
	// +kubebuilder:default=false
	// +optional
	Active bool `json:"active,omitempty"`

	// apiCredentials are the addresses of the data APIs.
	// +optional
	APICredentials *APICredentials `json:"apiCredentials,omitempty"`

	// credentialsSecret names the Secret with the API secret of the pods.
	// +kubebuilder:validation:MaxLength=253
	// +optional
	CredentialsSecret string `json:"credentialsSecret,omitempty"`

	// version that all pods run, without a prefix.
	// +kubebuilder:validation:MaxLength=128
	// +optional
	Version string `json:"version,omitempty"`

	// image that all pods run.
	// +kubebuilder:validation:MaxLength=512
	// +optional
	Image string `json:"image,omitempty"`

	// modelCommit that all pods serve.
	// +kubebuilder:validation:MaxLength=64
	// +optional
	ModelCommit string `json:"modelCommit,omitempty"`

	// modelHash is a hash of the files of a data model in a ConfigMap that the pods are given.
	// +kubebuilder:validation:MaxLength=64
	// +optional
	ModelHash string `json:"modelHash,omitempty"`

	// lastBuildTime is when the build of the current spec was ready or rejected, or the files of a
	// ConfigMap changed.
	// +optional
	LastBuildTime *metav1.Time `json:"lastBuildTime,omitempty"`

	// replicas is the number of API pods.
	// +optional
	Replicas int32 `json:"replicas,omitempty"`

	// readyReplicas is the number of ready API pods.
	// +optional
	ReadyReplicas int32 `json:"readyReplicas,omitempty"`

	// updatedReplicas is the number of API pods with the current template.
	// +optional
	UpdatedReplicas int32 `json:"updatedReplicas,omitempty"`

	// selector of the API pods.
	// +kubebuilder:validation:MaxLength=512
	// +optional
	Selector string `json:"selector,omitempty"`
}

// Environment is a data plane that serves one branch of a deployment.
//
// +kubebuilder:object:root=true
// +kubebuilder:subresource:status
// +kubebuilder:resource:shortName=qenv,categories=quoin
// +kubebuilder:selectablefield:JSONPath=`.spec.deploymentRef.name`
// +kubebuilder:selectablefield:JSONPath=`.spec.type`
// +kubebuilder:printcolumn:name="ID",type=string,JSONPath=`.status.id`
// +kubebuilder:printcolumn:name="Deployment",type=string,JSONPath=`.spec.deploymentRef.name`
// +kubebuilder:printcolumn:name="Type",type=string,JSONPath=`.spec.type`
// +kubebuilder:printcolumn:name="Version",type=string,JSONPath=`.status.version`
// +kubebuilder:printcolumn:name="Replicas",type=integer,JSONPath=`.status.readyReplicas`
// +kubebuilder:printcolumn:name="Active",type=boolean,JSONPath=`.status.active`
// +kubebuilder:printcolumn:name="Ready",type=string,JSONPath=`.status.conditions[?(@.type=="Ready")].status`
// +kubebuilder:printcolumn:name="Reason",type=string,JSONPath=`.status.conditions[?(@.type=="Ready")].reason`
// +kubebuilder:printcolumn:name="URL",type=string,JSONPath=`.status.apiCredentials.rest.url`,priority=1
// +kubebuilder:printcolumn:name="Message",type=string,JSONPath=`.status.conditions[?(@.type=="Ready")].message`,priority=1
// +kubebuilder:printcolumn:name="Age",type=date,JSONPath=`.metadata.creationTimestamp`
// +kubebuilder:validation:XValidation:rule="self.metadata.name.size() <= 50",message="metadata.name must be no more than 50 characters"
type Environment struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`

	// spec is the desired state.
	// +required
	Spec EnvironmentSpec `json:"spec"`

	// status is the observed state.
	// +kubebuilder:default={"observedGeneration":-1}
	// +optional
	Status EnvironmentStatus `json:"status,omitempty"`
}

// Common implements Object.
func (e *Environment) Common() *CommonStatus { return &e.Status.CommonStatus }

// EnvironmentList is a list of Environments.
//
// +kubebuilder:object:root=true
type EnvironmentList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`
	Items           []Environment `json:"items"`
}

// ProductionName is the name of a deployment's production Environment.
func ProductionName(deployment string) string { return deployment + "-production" }
