package v1alpha1

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// AgentMemoryMode is what an agent remembers across chats.
// +kubebuilder:validation:Enum=Disabled
type AgentMemoryMode string

// AgentMemoryDisabled remembers nothing: each chat begins without knowledge of others.
const AgentMemoryDisabled AgentMemoryMode = "Disabled"

// Limits of a run of an Agent that apply when its spec has none.
const (
	DefaultAgentTurns     int32 = 16
	DefaultAgentToolCalls int32 = 32
	DefaultAgentTokens    int64 = 500000
	DefaultAgentRows      int32 = 10000
	DefaultAgentSeconds   int32 = 300
)

// AgentLimits limits a run, which is the answer to one message.
type AgentLimits struct {
	// turns is the maximum number of requests to the model; 16 when absent.
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=100
	// +optional
	Turns *int32 `json:"turns,omitempty"`

	// toolCalls is the maximum number of tool calls; 32 when absent.
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=500
	// +optional
	ToolCalls *int32 `json:"toolCalls,omitempty"`

	// tokens is the number of tokens, of requests and answers together, after which no request is made; 500000 when absent.
	// +kubebuilder:validation:Minimum=1000
	// +kubebuilder:validation:Maximum=100000000
	// +optional
	Tokens *int64 `json:"tokens,omitempty"`

	// rows is the maximum number of rows that queries may return together; 10000 when absent.
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=1000000
	// +optional
	Rows *int32 `json:"rows,omitempty"`

	// seconds is the maximum duration; 300 when absent.
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=3600
	// +optional
	Seconds *int32 `json:"seconds,omitempty"`
}

// AgentSpec is the desired state of an Agent.
type AgentSpec struct {
	// deploymentRef names the Deployment whose data the agent answers from.
	// +kubebuilder:validation:XValidation:rule="self == oldSelf",message="deploymentRef is immutable: create another Agent"
	// +required
	DeploymentRef LocalReference `json:"deploymentRef"`

	// modelEndpointRef names the ModelEndpoint with the agent's model.
	// +required
	ModelEndpointRef ModelEndpointReference `json:"modelEndpointRef"`

	// displayName is the name in user interfaces; the object's name when absent.
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=128
	// +kubebuilder:validation:XValidation:rule=`!self.matches(r'[\p{Cc}\x{2028}\x{2029}\x{061C}\x{200E}\x{200F}\x{202A}-\x{202E}\x{2066}-\x{2069}]')`,message="must not contain control characters, line separators or bidirectional formatting characters"
	// +optional
	DisplayName string `json:"displayName,omitempty"`

	// description of the agent, for users and for other agents.
	// +kubebuilder:validation:MaxLength=1024
	// +optional
	Description string `json:"description,omitempty"`

	// configName is the name of the agent in the files of the data model (agents/config.yml); the object's name when absent.
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=128
	// +kubebuilder:validation:XValidation:rule=`!self.matches(r'[\p{Cc}\x{2028}\x{2029}\x{061C}\x{200E}\x{200F}\x{202A}-\x{202E}\x{2066}-\x{2069}]')`,message="must not contain control characters, line separators or bidirectional formatting characters"
	// +optional
	ConfigName string `json:"configName,omitempty"`

	// instructions are added to the system prompt.
	// +kubebuilder:validation:MaxLength=32768
	// +optional
	Instructions string `json:"instructions,omitempty"`

	// accessibleViews are the views that the agent is shown; all when empty. They are guidance for the model, not a
	// restriction: what a person may query is up to the access policies of the data model.
	// +listType=set
	// +kubebuilder:validation:MaxItems=256
	// +kubebuilder:validation:items:MinLength=1
	// +kubebuilder:validation:items:MaxLength=128
	// +kubebuilder:validation:items:Pattern=`^[A-Za-z_][A-Za-z0-9_]*$`
	// +optional
	AccessibleViews []string `json:"accessibleViews,omitempty"`

	// limits of a run.
	// +optional
	Limits *AgentLimits `json:"limits,omitempty"`

	// memoryMode is what the agent remembers across chats; Disabled when absent.
	// +optional
	MemoryMode AgentMemoryMode `json:"memoryMode,omitempty"`

	// allowEmbedding lists the agent for applications that embed chats.
	// +optional
	AllowEmbedding *bool `json:"allowEmbedding,omitempty"`

	// allowMCP lets MCP clients use the agent.
	// +optional
	AllowMCP *bool `json:"allowMCP,omitempty"`

	// suspended rejects messages to the agent. Chats can still be read.
	// +optional
	Suspended *bool `json:"suspended,omitempty"`
}

// ModelEndpointReference refers to a ModelEndpoint.
type ModelEndpointReference struct {
	// name of the ModelEndpoint.
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=63
	// +required
	Name string `json:"name"`
}

// AgentStatus is the observed state of an Agent.
type AgentStatus struct {
	CommonStatus `json:",inline"`

	// id is the number of the agent in the REST API and in the address of its chats.
	// +optional
	ID int64 `json:"id,omitempty"`
}

// Agent answers questions about the data of a deployment with a language model.
//
// +kubebuilder:object:root=true
// +kubebuilder:subresource:status
// +kubebuilder:resource:shortName=qagent,categories=quoin
// +kubebuilder:selectablefield:JSONPath=".spec.deploymentRef.name"
// +kubebuilder:selectablefield:JSONPath=".spec.modelEndpointRef.name"
// +kubebuilder:validation:XValidation:rule="self.metadata.name.matches('^[a-z0-9]([a-z0-9-]*[a-z0-9])?$') && self.metadata.name.size() <= 63",message="metadata.name must have no more than 63 characters, of which each is a lower-case letter, a digit or -"
// +kubebuilder:printcolumn:name="ID",type=integer,JSONPath=`.status.id`
// +kubebuilder:printcolumn:name="Deployment",type=string,JSONPath=`.spec.deploymentRef.name`
// +kubebuilder:printcolumn:name="Model",type=string,JSONPath=`.spec.modelEndpointRef.name`
// +kubebuilder:printcolumn:name="Ready",type=string,JSONPath=`.status.conditions[?(@.type=="Ready")].status`
// +kubebuilder:printcolumn:name="Reason",type=string,JSONPath=`.status.conditions[?(@.type=="Ready")].reason`
// +kubebuilder:printcolumn:name="Message",type=string,JSONPath=`.status.conditions[?(@.type=="Ready")].message`,priority=1
// +kubebuilder:printcolumn:name="Age",type=date,JSONPath=`.metadata.creationTimestamp`
type Agent struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`

	// spec is the desired state.
	// +required
	Spec AgentSpec `json:"spec"`

	// status is the observed state.
	// +kubebuilder:default={"observedGeneration":-1}
	// +optional
	Status AgentStatus `json:"status,omitempty"`
}

// Common implements Object.
func (a *Agent) Common() *CommonStatus { return &a.Status.CommonStatus }

// AgentList is a list of Agents.
//
// +kubebuilder:object:root=true
type AgentList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`
	Items           []Agent `json:"items"`
}
