package v1alpha1

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// ScimProfile says how a provisioning client wants to be answered.
// +kubebuilder:validation:Enum=RFC;Okta;EntraID
type ScimProfile string

// ApiKeyOwner is the user that a key acts for.
type ApiKeyOwner struct {
	// scimUser is the name of the ScimUser.
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=253
	// +required
	ScimUser string `json:"scimUser"`
}

// ApiKeyToken is what is kept of a token: not the token.
type ApiKeyToken struct {
	// id is the public part of the token, by which the key is found.
	// +kubebuilder:validation:Pattern=`^[0-9A-Za-z]{12}$`
	// +kubebuilder:validation:MaxLength=12
	// +required
	ID string `json:"id"`

	// sha256 of the whole token, in hexadecimal.
	// +kubebuilder:validation:Pattern=`^[0-9a-f]{64}$`
	// +kubebuilder:validation:MaxLength=64
	// +required
	SHA256 string `json:"sha256"`
}

// ApiKeySpec is what is wanted of an API key.
//
// +kubebuilder:validation:XValidation:rule="has(self.token) == has(oldSelf.token) && (!has(self.token) || self.token == oldSelf.token)",message="token cannot be changed: make a new key",fieldPath=".token"
// +kubebuilder:validation:XValidation:rule="!(has(oldSelf.revoked) && oldSelf.revoked) || (has(self.revoked) && self.revoked)",message="a revoked key cannot be given back: make a new one",fieldPath=".revoked"
type ApiKeySpec struct {
	// displayName shown to people; the object's name when absent.
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=128
	// +optional
	DisplayName string `json:"displayName,omitempty"`

	// owner is the user that the key acts for; the account itself when absent. A key whose
	// owner is not active does not work.
	// +optional
	Owner *ApiKeyOwner `json:"owner,omitempty"`

	// permissions of the key; Admin when absent.
	// +listType=set
	// +kubebuilder:validation:MinItems=1
	// +kubebuilder:validation:MaxItems=16
	// +optional
	Permissions []Permission `json:"permissions,omitempty"`

	// deployments that the key is confined to, by object name; all when absent.
	// +listType=set
	// +kubebuilder:validation:MinItems=1
	// +kubebuilder:validation:MaxItems=256
	// +kubebuilder:validation:items:MinLength=1
	// +kubebuilder:validation:items:MaxLength=32
	// +optional
	Deployments []string `json:"deployments,omitempty"`

	// expirationTime after which the key does not work; never when absent.
	// +optional
	ExpirationTime *metav1.Time `json:"expirationTime,omitempty"`

	// scimProfile is how SCIM requests with this key are answered; told from the client's
	// own marks when absent.
	// +optional
	ScimProfile ScimProfile `json:"scimProfile,omitempty"`

	// token is given when the token was made elsewhere, such as over REST:
	// only its hash is kept. When absent, the controller makes a token and
	// puts it into a Secret once.
	// +optional
	Token *ApiKeyToken `json:"token,omitempty"`

	// tokenSecretName is the Secret into which the token is put once, when the key is made
	// by YAML; <name>-token when absent.
	// +kubebuilder:validation:MaxLength=253
	// +optional
	TokenSecretName string `json:"tokenSecretName,omitempty"`

	// revoked makes the key useless at once and for ever.
	// +optional
	Revoked *bool `json:"revoked,omitempty"`
}

// ApiKeyStatus is what is known of an API key.
type ApiKeyStatus struct {
	CommonStatus `json:",inline"`

	// token that works, by its hash.
	// +optional
	Token *ApiKeyToken `json:"token,omitempty"`

	// lastUsedTime is when the key was last used, to the hour.
	// +optional
	LastUsedTime *metav1.Time `json:"lastUsedTime,omitempty"`
}

// ApiKey lets a program or an identity provider call the account's APIs.
//
// +kubebuilder:object:root=true
// +kubebuilder:subresource:status
// +kubebuilder:resource:shortName=qkey,categories=quoin
// +kubebuilder:selectablefield:JSONPath=`.status.token.id`
// +kubebuilder:selectablefield:JSONPath=`.spec.token.id`
// +kubebuilder:printcolumn:name="Display name",type=string,JSONPath=`.spec.displayName`
// +kubebuilder:printcolumn:name="Expires",type=string,JSONPath=`.spec.expirationTime`
// +kubebuilder:printcolumn:name="Last used",type=date,JSONPath=`.status.lastUsedTime`
// +kubebuilder:printcolumn:name="Ready",type=string,JSONPath=`.status.conditions[?(@.type=="Ready")].status`
// +kubebuilder:printcolumn:name="Reason",type=string,JSONPath=`.status.conditions[?(@.type=="Ready")].reason`
// +kubebuilder:printcolumn:name="Age",type=date,JSONPath=`.metadata.creationTimestamp`
type ApiKey struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`

	// spec is what is wanted.
	// +required
	Spec ApiKeySpec `json:"spec"`

	// status is what is.
	// +kubebuilder:default={"observedGeneration":-1}
	// +optional
	Status ApiKeyStatus `json:"status,omitempty"`
}

// Token is the hash of the token that works; nil while there is none.
func (k *ApiKey) Token() *ApiKeyToken {
	if k.Spec.Token != nil {
		return k.Spec.Token
	}
	return k.Status.Token
}

// Common implements Object.
func (k *ApiKey) Common() *CommonStatus { return &k.Status.CommonStatus }

// ApiKeyList is a list of ApiKeys.
//
// +kubebuilder:object:root=true
type ApiKeyList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`
	Items           []ApiKey `json:"items"`
}
