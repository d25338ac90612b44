package v1alpha1

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// ModelProtocol is the API of a model server.
// +kubebuilder:validation:Enum=OpenAI;Anthropic
type ModelProtocol string

// The protocols.
const (
	// ModelOpenAI is the chat completions API of OpenAI, which many servers implement.
	ModelOpenAI ModelProtocol = "OpenAI"
	// ModelAnthropic is the messages API of Anthropic.
	ModelAnthropic ModelProtocol = "Anthropic"
)

// Base URLs of the providers, which apply when spec.baseURL of a ModelEndpoint is absent.
const (
	DefaultOpenAIBaseURL    = "https://api.openai.com/v1"
	DefaultAnthropicBaseURL = "https://api.anthropic.com"
)

// Values of a ModelEndpoint that apply when its spec has none.
const (
	DefaultModelMaxOutputTokens       int64 = 8192
	DefaultModelContextTokens         int64 = 131072
	DefaultModelMaxConcurrentRequests int32 = 16
	DefaultModelRequestTimeoutSeconds int32 = 300
)

// ModelBaseURL is the URL below which a model server has its API.
// +kubebuilder:validation:MinLength=9
// +kubebuilder:validation:MaxLength=1024
// +kubebuilder:validation:XValidation:rule="self.matches('^(https://([A-Za-z0-9]([A-Za-z0-9.-]*[A-Za-z0-9])?|[[][0-9a-fA-F:.]+[]])|http://(localhost|127[.]0[.]0[.]1|[[]::1[]]|[a-z0-9]([-a-z0-9]*[a-z0-9])?[.][a-z0-9]([-a-z0-9]*[a-z0-9])?[.]svc([.]cluster[.]local)?))(:[1-9][0-9]{0,4})?(/[!\"$->@-~]*)?$')",message="must be an https:// URL with a host name, without credentials, query and fragment; http:// is allowed for localhost and for Services of the cluster such as http://llama.models.svc:8080/v1"
type ModelBaseURL string

// ModelToolCalls is how a model calls tools.
// +kubebuilder:validation:Enum=Native;Text
type ModelToolCalls string

// The ways to call tools.
const (
	// ModelToolCallsNative uses the tool calls of the protocol.
	ModelToolCallsNative ModelToolCalls = "Native"
	// ModelToolCallsText has the model answer with a JSON document that is a tool call or the answer, for servers whose
	// tool calls are unreliable.
	ModelToolCallsText ModelToolCalls = "Text"
)

// ModelLimits limits the requests to a model server.
type ModelLimits struct {
	// maxConcurrentRequests is the number of requests that one replica of quoin apiserver sends at a time; 16 when absent.
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=1000
	// +optional
	MaxConcurrentRequests *int32 `json:"maxConcurrentRequests,omitempty"`

	// requestTimeoutSeconds is the time limit of one request, with its whole answer; 300 when absent.
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=3600
	// +optional
	RequestTimeoutSeconds *int32 `json:"requestTimeoutSeconds,omitempty"`
}

// TokenPrice is an amount of money for a million tokens, as a decimal number such as 2.50.
// +kubebuilder:validation:MinLength=1
// +kubebuilder:validation:MaxLength=16
// +kubebuilder:validation:Pattern=`^(0|[1-9][0-9]{0,6})(\.[0-9]{1,6})?$`
type TokenPrice string

// ModelPrice is what a model costs, for the list of usage.
type ModelPrice struct {
	// currency is an ISO 4217 code such as USD.
	// +kubebuilder:validation:MinLength=3
	// +kubebuilder:validation:MaxLength=3
	// +kubebuilder:validation:Pattern=`^[A-Z]{3}$`
	// +required
	Currency string `json:"currency"`

	// inputPerMillionTokens is the price of a million tokens of requests.
	// +required
	InputPerMillionTokens TokenPrice `json:"inputPerMillionTokens"`

	// cachedInputPerMillionTokens is the price of a million tokens of requests that the provider had cached;
	// inputPerMillionTokens when absent.
	// +optional
	CachedInputPerMillionTokens TokenPrice `json:"cachedInputPerMillionTokens,omitempty"`

	// outputPerMillionTokens is the price of a million tokens of answers.
	// +required
	OutputPerMillionTokens TokenPrice `json:"outputPerMillionTokens"`
}

// ModelEndpointSpec is the desired state of a ModelEndpoint.
//
// +kubebuilder:validation:XValidation:rule="!has(self.maxOutputTokens) || self.maxOutputTokens < (has(self.contextTokens) ? self.contextTokens : 131072)",message="must be less than contextTokens, which is 131072 when absent",fieldPath=".maxOutputTokens"
// +kubebuilder:validation:XValidation:rule="has(self.maxOutputTokens) || !has(self.contextTokens) || self.contextTokens > 8192",message="must be greater than maxOutputTokens, which is 8192 when absent",fieldPath=".contextTokens"
type ModelEndpointSpec struct {
	// protocol is the API of the model server.
	// +required
	Protocol ModelProtocol `json:"protocol"`

	// baseURL is the URL below which the server has its API: chat/completions and models for OpenAI, v1/messages and
	// v1/models for Anthropic. It is that of the provider when absent: https://api.openai.com/v1, or
	// https://api.anthropic.com.
	// +optional
	BaseURL ModelBaseURL `json:"baseURL,omitempty"`

	// model is the name of the model.
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=256
	// +kubebuilder:validation:Pattern=`^[!-~]+$`
	// +required
	Model string `json:"model"`

	// apiKeySecretRef refers to the API key, in a Secret in Quoin's namespace. Requests have no key when absent.
	// +optional
	APIKeySecretRef *SecretKeyReference `json:"apiKeySecretRef,omitempty"`

	// caSecretRef refers to the certificates (PEM) of the authorities that the server's certificate may have, in a Secret
	// in Quoin's namespace; those of the system when absent.
	// +optional
	CASecretRef *SecretKeyReference `json:"caSecretRef,omitempty"`

	// toolCalls is how the model calls tools: Native uses those of the protocol, Text has the model answer with JSON, for
	// servers whose tool calls are unreliable; Native when absent.
	// +optional
	ToolCalls ModelToolCalls `json:"toolCalls,omitempty"`

	// maxOutputTokens is the maximum number of tokens of one answer; 8192 when absent.
	// +kubebuilder:validation:Minimum=16
	// +kubebuilder:validation:Maximum=1000000
	// +optional
	MaxOutputTokens *int64 `json:"maxOutputTokens,omitempty"`

	// contextTokens is the maximum number of tokens of a request and its answer; 131072 when absent.
	// +kubebuilder:validation:Minimum=512
	// +kubebuilder:validation:Maximum=10000000
	// +optional
	ContextTokens *int64 `json:"contextTokens,omitempty"`

	// limits of the requests to the server.
	// +optional
	Limits *ModelLimits `json:"limits,omitempty"`

	// price of the model; usage has no amounts of money when absent.
	// +optional
	Price *ModelPrice `json:"price,omitempty"`

	// allowedAccounts are the names of the Accounts whose Agents may use the model; all when empty.
	// +listType=set
	// +kubebuilder:validation:MaxItems=256
	// +kubebuilder:validation:items:MinLength=1
	// +kubebuilder:validation:items:MaxLength=63
	// +kubebuilder:validation:items:Pattern=`^[a-z0-9]([-a-z0-9.]*[a-z0-9])?$`
	// +optional
	AllowedAccounts []string `json:"allowedAccounts,omitempty"`
}

// ModelEndpointStatus is the observed state of a ModelEndpoint.
type ModelEndpointStatus struct {
	CommonStatus `json:",inline"`

	// baseURL that requests use.
	// +kubebuilder:validation:MaxLength=1024
	// +optional
	BaseURL string `json:"baseURL,omitempty"`
}

// ModelEndpoint is a language model that the Agents of accounts use.
//
// +kubebuilder:object:root=true
// +kubebuilder:subresource:status
// +kubebuilder:resource:scope=Cluster,shortName=modelep,categories=quoin
// +kubebuilder:validation:XValidation:rule="self.metadata.name.size() <= 63",message="metadata.name must be no more than 63 characters"
// +kubebuilder:printcolumn:name="Protocol",type=string,JSONPath=`.spec.protocol`
// +kubebuilder:printcolumn:name="Model",type=string,JSONPath=`.spec.model`
// +kubebuilder:printcolumn:name="Ready",type=string,JSONPath=`.status.conditions[?(@.type=="Ready")].status`
// +kubebuilder:printcolumn:name="Reason",type=string,JSONPath=`.status.conditions[?(@.type=="Ready")].reason`
// +kubebuilder:printcolumn:name="Reachable",type=string,JSONPath=`.status.conditions[?(@.type=="Reachable")].status`
// +kubebuilder:printcolumn:name="URL",type=string,JSONPath=`.status.baseURL`,priority=1
// +kubebuilder:printcolumn:name="Message",type=string,JSONPath=`.status.conditions[?(@.type=="Ready")].message`,priority=1
// +kubebuilder:printcolumn:name="Age",type=date,JSONPath=`.metadata.creationTimestamp`
type ModelEndpoint struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`

	// spec is the desired state.
	// +required
	Spec ModelEndpointSpec `json:"spec"`

	// status is the observed state.
	// +kubebuilder:default={"observedGeneration":-1}
	// +optional
	Status ModelEndpointStatus `json:"status,omitempty"`
}

// Common implements Object.
func (e *ModelEndpoint) Common() *CommonStatus { return &e.Status.CommonStatus }

// ModelEndpointList is a list of ModelEndpoints.
//
// +kubebuilder:object:root=true
type ModelEndpointList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`
	Items           []ModelEndpoint `json:"items"`
}
