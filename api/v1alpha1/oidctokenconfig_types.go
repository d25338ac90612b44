package v1alpha1

import (
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// OidcAudienceType is the system that accepts the tokens of an OidcTokenConfig. It determines the default audience.
// +kubebuilder:validation:Enum=AWS;GCP;Azure;Snowflake;Custom
type OidcAudienceType string

// The systems that accept tokens.
const (
	OidcAudienceAWS       OidcAudienceType = "AWS"
	OidcAudienceGCP       OidcAudienceType = "GCP"
	OidcAudienceAzure     OidcAudienceType = "Azure"
	OidcAudienceSnowflake OidcAudienceType = "Snowflake"
	OidcAudienceCustom    OidcAudienceType = "Custom"
)

// OidcClaim is a claim of tokens.
type OidcClaim struct {
	// name of the claim. It cannot be one of those that every token has.
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=128
	// +kubebuilder:validation:XValidation:rule="!(self in ['iss', 'sub', 'aud', 'exp', 'nbf', 'iat', 'jti', 'platform.quoin.dev'])",message="must not be a claim that Quoin sets: iss, sub, aud, exp, nbf, iat, jti and platform.quoin.dev"
	// +required
	Name string `json:"name"`

	// value of the claim, any JSON value but null.
	// +required
	Value apiextensionsv1.JSON `json:"value"`
}

// OidcTokenConfigSpec is the desired state of an OidcTokenConfig.
//
// +kubebuilder:validation:XValidation:rule="self.audienceType != 'Custom' || has(self.audience)",message="is required if audienceType is Custom",fieldPath=".audience"
type OidcTokenConfigSpec struct {
	// name of the file with the token; the name of the object when absent. It is unique in the deployments that both
	// apply to.
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=63
	// +kubebuilder:validation:Pattern=`^[a-z0-9]([a-z0-9-]*[a-z0-9])?$`
	// +optional
	Name string `json:"name,omitempty"`

	// audienceType is the system that accepts the tokens. Immutable.
	// +kubebuilder:validation:XValidation:rule="self == oldSelf",message="audienceType is immutable: create another OidcTokenConfig"
	// +required
	AudienceType OidcAudienceType `json:"audienceType"`

	// audience is the claim aud. When absent, it is sts.amazonaws.com for AWS, api://AzureADTokenExchange for Azure,
	// snowflakecomputing.com for Snowflake, and the issuer for GCP.
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=512
	// +kubebuilder:validation:Pattern=`^[\x21-\x7E]+$`
	// +optional
	Audience string `json:"audience,omitempty"`

	// subjectFormat is the claim sub, in which {deployment_id}, {component} and {region} are replaced;
	// deployment:{deployment_id} when absent. The components are api and refresh-worker.
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=200
	// +kubebuilder:validation:Pattern=`^([A-Za-z0-9:_-]|\{(deployment_id|component|region)\})+$`
	// +optional
	SubjectFormat string `json:"subjectFormat,omitempty"`

	// customClaims are further claims.
	// +listType=map
	// +listMapKey=name
	// +kubebuilder:validation:MaxItems=16
	// +optional
	CustomClaims []OidcClaim `json:"customClaims,omitempty"`

	// targetEnvVar is the environment variable with the path of the file, such as AWS_WEB_IDENTITY_TOKEN_FILE; none when
	// absent.
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=128
	// +kubebuilder:validation:Pattern=`^[A-Z_][A-Z0-9_]*$`
	// +optional
	TargetEnvVar string `json:"targetEnvVar,omitempty"`

	// deployments whose pods have the token; all of the account when absent.
	// +listType=map
	// +listMapKey=name
	// +kubebuilder:validation:MinItems=1
	// +kubebuilder:validation:MaxItems=256
	// +optional
	Deployments []LocalReference `json:"deployments,omitempty"`

	// suspend removes the tokens from the deployments.
	// +optional
	Suspend *bool `json:"suspend,omitempty"`
}

// OidcTokenConfigStatus is the observed state of an OidcTokenConfig.
type OidcTokenConfigStatus struct {
	CommonStatus `json:",inline"`

	// id is the number of the configuration in the REST API.
	// +optional
	ID int64 `json:"id,omitempty"`

	// issuer is the claim iss: the URL of the issuer that systems have to trust.
	// +kubebuilder:validation:MaxLength=512
	// +optional
	Issuer string `json:"issuer,omitempty"`

	// audience is the claim aud that is in effect.
	// +kubebuilder:validation:MaxLength=512
	// +optional
	Audience string `json:"audience,omitempty"`

	// mounted reports whether pods mount the tokens. It is set when all deployments have a token for the first time, so
	// that no pod waits for tokens that cannot be issued.
	// +optional
	Mounted bool `json:"mounted,omitempty"`
}

// OidcTokenConfig configures OpenID Connect tokens with which deployments authenticate to data sources and clouds.
//
// +kubebuilder:object:root=true
// +kubebuilder:subresource:status
// +kubebuilder:resource:shortName=oidctoken,categories=quoin
// +kubebuilder:validation:XValidation:rule="self.metadata.name.matches('^[a-z0-9]([a-z0-9-]*[a-z0-9])?$') && self.metadata.name.size() <= 63",message="metadata.name must have no more than 63 characters, of which each is a lower-case letter, a digit or -"
// +kubebuilder:printcolumn:name="Audience",type=string,JSONPath=`.status.audience`
// +kubebuilder:printcolumn:name="Variable",type=string,JSONPath=`.spec.targetEnvVar`
// +kubebuilder:printcolumn:name="ID",type=integer,JSONPath=`.status.id`
// +kubebuilder:printcolumn:name="Ready",type=string,JSONPath=`.status.conditions[?(@.type=="Ready")].status`
// +kubebuilder:printcolumn:name="Reason",type=string,JSONPath=`.status.conditions[?(@.type=="Ready")].reason`
// +kubebuilder:printcolumn:name="Issuer",type=string,JSONPath=`.status.issuer`,priority=1
// +kubebuilder:printcolumn:name="Message",type=string,JSONPath=`.status.conditions[?(@.type=="Ready")].message`,priority=1
// +kubebuilder:printcolumn:name="Age",type=date,JSONPath=`.metadata.creationTimestamp`
type OidcTokenConfig struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`

	// spec is the desired state.
	// +required
	Spec OidcTokenConfigSpec `json:"spec"`

	// status is the observed state.
	// +kubebuilder:default={"observedGeneration":-1}
	// +optional
	Status OidcTokenConfigStatus `json:"status,omitempty"`
}

// Common implements Object.
func (c *OidcTokenConfig) Common() *CommonStatus { return &c.Status.CommonStatus }

// OidcTokenConfigList is a list of OidcTokenConfigs.
//
// +kubebuilder:object:root=true
type OidcTokenConfigList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`
	Items           []OidcTokenConfig `json:"items"`
}
