package v1alpha1

import (
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// HTTPSEndpoint is the https:// URL of an endpoint.
// +kubebuilder:validation:MinLength=9
// +kubebuilder:validation:MaxLength=1024
// +kubebuilder:validation:XValidation:rule="self.matches('^https://[A-Za-z0-9]([A-Za-z0-9.-]*[A-Za-z0-9])?(:[1-9][0-9]{0,4})?([/?][!-\"$-~]*)?$')",message="must be an https:// URL with a host name, without credentials and fragment"
type HTTPSEndpoint string

// OAuthClientAuthentication is how a client authenticates at a token endpoint (RFC 6749, section 2.3.1).
// +kubebuilder:validation:Enum=Basic;Post
type OAuthClientAuthentication string

// The ways to authenticate at a token endpoint.
const (
	// OAuthClientBasic sends id and secret in the header Authorization.
	OAuthClientBasic OAuthClientAuthentication = "Basic"
	// OAuthClientPost sends id and secret in the body.
	OAuthClientPost OAuthClientAuthentication = "Post"
)

// OAuthIntegrationSpec is the desired state of an OAuthIntegration.
type OAuthIntegrationSpec struct {
	// displayName is the name in user interfaces; the object's name when absent.
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=128
	// +kubebuilder:validation:XValidation:rule=`!self.matches(r'[\p{Cc}\x{2028}\x{2029}\x{061C}\x{200E}\x{200F}\x{202A}-\x{202E}\x{2066}-\x{2069}]')`,message="must not contain control characters, line separators or bidirectional formatting characters"
	// +optional
	DisplayName string `json:"displayName,omitempty"`

	// type of the system, such as databricks or snowflake. Data tokens have the access token of a person below
	// this name.
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=64
	// +kubebuilder:validation:Pattern=`^[A-Za-z0-9]([A-Za-z0-9_-]*[A-Za-z0-9])?$`
	// +required
	Type string `json:"type"`

	// authorizationURL is the authorization endpoint of the provider, at which people give their consent.
	// +required
	AuthorizationURL HTTPSEndpoint `json:"authorizationURL"`

	// tokenURL is the token endpoint of the provider.
	// +required
	TokenURL HTTPSEndpoint `json:"tokenURL"`

	// revocationURL is the revocation endpoint of the provider (RFC 7009). Tokens that are deleted are not
	// revoked at the provider when absent.
	// +optional
	RevocationURL HTTPSEndpoint `json:"revocationURL,omitempty"`

	// clientID is the id of Quoin as a client of the provider.
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=512
	// +kubebuilder:validation:Pattern=`^[\x20-\x7E]+$`
	// +required
	ClientID string `json:"clientID"`

	// clientSecretRef refers to the client's secret, in a Secret in the account's namespace.
	// +required
	ClientSecretRef SecretKeyReference `json:"clientSecretRef"`

	// clientAuthentication is how Quoin sends the client's secret: Basic in the header Authorization, Post in the
	// body; Basic when absent.
	// +optional
	ClientAuthentication OAuthClientAuthentication `json:"clientAuthentication,omitempty"`

	// scopes that are requested; those of the provider when absent.
	// +listType=set
	// +kubebuilder:validation:MaxItems=64
	// +kubebuilder:validation:items:MinLength=1
	// +kubebuilder:validation:items:MaxLength=256
	// +kubebuilder:validation:items:Pattern=`^[\x21\x23-\x5B\x5D-\x7E]+$`
	// +optional
	Scopes []string `json:"scopes,omitempty"`

	// authorizationParameters are further parameters of authorization requests, such as access_type: offline.
	// +kubebuilder:validation:MaxProperties=16
	// +kubebuilder:validation:XValidation:rule="self.all(k, k.matches('^[A-Za-z0-9_.-]{1,64}$') && self[k].size() <= 1024)",message="must have names of 1 to 64 letters, digits, _, . and -, and values of at most 1024 characters"
	// +kubebuilder:validation:XValidation:rule="!self.exists(k, k in ['client_id', 'client_secret', 'code_challenge', 'code_challenge_method', 'redirect_uri', 'request', 'request_uri', 'response_mode', 'response_type', 'scope', 'state'])",message="must not have a parameter that Quoin sets: client_id, client_secret, code_challenge, code_challenge_method, redirect_uri, request, request_uri, response_mode, response_type, scope and state"
	// +optional
	AuthorizationParameters map[string]OAuthParameter `json:"authorizationParameters,omitempty"`

	// redirectURL is the redirect URI that is registered at the provider: the path /auth/integrations/callback, or
	// one segment below it, on a host of the account; https://<host>/auth/integrations/callback when absent.
	// +kubebuilder:validation:MinLength=9
	// +kubebuilder:validation:MaxLength=512
	// +kubebuilder:validation:XValidation:rule="self.matches('^https://[a-z0-9]([a-z0-9.-]*[a-z0-9])?(:[1-9][0-9]{0,4})?/auth/integrations/callback(/[A-Za-z0-9_-]{1,64})?$')",message="must be https://<host of the account>/auth/integrations/callback, or one segment below it"
	// +optional
	RedirectURL string `json:"redirectURL,omitempty"`

	// config has further settings, which are kept and shown for clients of the REST API. It must not contain
	// secrets.
	// +kubebuilder:validation:MaxProperties=32
	// +optional
	Config map[string]apiextensionsv1.JSON `json:"config,omitempty"`
}

// OAuthParameter is the value of a parameter.
// +kubebuilder:validation:MaxLength=1024
type OAuthParameter string

// OAuthIntegrationStatus is the observed state of an OAuthIntegration.
type OAuthIntegrationStatus struct {
	CommonStatus `json:",inline"`

	// id is the number of the integration in the REST API.
	// +optional
	ID int64 `json:"id,omitempty"`

	// redirectURL is the redirect URI to register at the provider.
	// +kubebuilder:validation:MaxLength=512
	// +optional
	RedirectURL string `json:"redirectURL,omitempty"`
}

// OAuthIntegration is a system, such as a data source, that people authorize Quoin to use on their behalf.
//
// +kubebuilder:object:root=true
// +kubebuilder:subresource:status
// +kubebuilder:resource:shortName=oauthint,categories=quoin
// +kubebuilder:validation:XValidation:rule="self.metadata.name.matches('^[a-z0-9]([a-z0-9-]*[a-z0-9])?$') && self.metadata.name.size() <= 63",message="metadata.name must have no more than 63 characters, of which each is a lower-case letter, a digit or -"
// +kubebuilder:printcolumn:name="Type",type=string,JSONPath=`.spec.type`
// +kubebuilder:printcolumn:name="Client",type=string,JSONPath=`.spec.clientID`
// +kubebuilder:printcolumn:name="ID",type=integer,JSONPath=`.status.id`
// +kubebuilder:printcolumn:name="Ready",type=string,JSONPath=`.status.conditions[?(@.type=="Ready")].status`
// +kubebuilder:printcolumn:name="Reason",type=string,JSONPath=`.status.conditions[?(@.type=="Ready")].reason`
// +kubebuilder:printcolumn:name="Redirect",type=string,JSONPath=`.status.redirectURL`,priority=1
// +kubebuilder:printcolumn:name="Message",type=string,JSONPath=`.status.conditions[?(@.type=="Ready")].message`,priority=1
// +kubebuilder:printcolumn:name="Age",type=date,JSONPath=`.metadata.creationTimestamp`
type OAuthIntegration struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`

	// spec is the desired state.
	// +required
	Spec OAuthIntegrationSpec `json:"spec"`

	// status is the observed state.
	// +kubebuilder:default={"observedGeneration":-1}
	// +optional
	Status OAuthIntegrationStatus `json:"status,omitempty"`
}

// Common implements Object.
func (i *OAuthIntegration) Common() *CommonStatus { return &i.Status.CommonStatus }

// OAuthIntegrationList is a list of OAuthIntegrations.
//
// +kubebuilder:object:root=true
type OAuthIntegrationList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`
	Items           []OAuthIntegration `json:"items"`
}
