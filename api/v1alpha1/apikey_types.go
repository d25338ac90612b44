package v1alpha1

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// ScimProfile is the SCIM client that responses are adapted to.
// +kubebuilder:validation:Enum=RFC;Okta;EntraID
type ScimProfile string

// ApiKeyOwner is the user that a key acts on behalf of.
type ApiKeyOwner struct {
	// scimUser is the name of the ScimUser.
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=253
	// +required
	ScimUser string `json:"scimUser"`

	// issuer is the URL of the OIDC issuer of the account at which the user had signed in who created the
	// key over REST.
	// +kubebuilder:validation:MaxLength=512
	// +optional
	Issuer string `json:"issuer,omitempty"`

	// groups of the user at the issuer when the key was created, of those in adminGroups and groupRoles of
	// the issuer. They grant the key what the issuer of the account gives them now.
	// +listType=set
	// +kubebuilder:validation:MaxItems=160
	// +kubebuilder:validation:items:MinLength=1
	// +kubebuilder:validation:items:MaxLength=256
	// +optional
	Groups []string `json:"groups,omitempty"`
}

// ApiKeyToken identifies a token by its hash.
type ApiKeyToken struct {
	// id is the public part of the token, which identifies the key.
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

// ApiKeySpec is the desired state of an ApiKey.
//
// +kubebuilder:validation:XValidation:rule="has(self.token) == has(oldSelf.token) && (!has(self.token) || self.token == oldSelf.token)",message="token is immutable: create another ApiKey",fieldPath=".token"
// +kubebuilder:validation:XValidation:rule="!(has(oldSelf.revoked) && oldSelf.revoked) || (has(self.revoked) && self.revoked)",message="revoked cannot be unset: create another ApiKey",fieldPath=".revoked"
// +kubebuilder:validation:XValidation:rule="!has(oldSelf.owner) || (has(self.owner) && self.owner == oldSelf.owner)",message="owner cannot be changed or removed: create another ApiKey",fieldPath=".owner"
type ApiKeySpec struct {
	// displayName is the name in user interfaces; the object's name when absent.
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=128
	// +kubebuilder:validation:XValidation:rule=`!self.matches(r'[\p{Cc}\x{2028}\x{2029}\x{061C}\x{200E}\x{200F}\x{202A}-\x{202E}\x{2066}-\x{2069}]')`,message="must not contain control characters, line separators or bidirectional formatting characters"
	// +optional
	DisplayName string `json:"displayName,omitempty"`

	// owner is the user that the key acts on behalf of; the account itself when absent. The key is
	// rejected while its owner is not active. A key that a user creates over REST, or with such a key,
	// has this user as its owner, and an owner reference to it: it is deleted with the user, and not
	// valid for a later user of the same name.
	// +optional
	Owner *ApiKeyOwner `json:"owner,omitempty"`

	// permissions of the key; Admin when absent.
	// +listType=set
	// +kubebuilder:validation:MinItems=1
	// +kubebuilder:validation:MaxItems=16
	// +optional
	Permissions []Permission `json:"permissions,omitempty"`

	// deployments that the key is limited to, by object name or by id in the REST API; all when absent. An id
	// is never used again, and the name of a deployment that is created again is. Keys that are created over
	// REST have ids.
	// +listType=set
	// +kubebuilder:validation:MinItems=1
	// +kubebuilder:validation:MaxItems=256
	// +kubebuilder:validation:items:MinLength=1
	// +kubebuilder:validation:items:MaxLength=32
	// +optional
	Deployments []string `json:"deployments,omitempty"`

	// expirationTime after which the key is rejected; never when absent.
	// +optional
	ExpirationTime *metav1.Time `json:"expirationTime,omitempty"`

	// scimProfile is the SCIM client that responses are adapted to; detected from the request when
	// absent.
	// +optional
	ScimProfile ScimProfile `json:"scimProfile,omitempty"`

	// token is the hash of a token that was generated elsewhere, such as by the REST API. When absent,
	// the controller generates a token and stores it in a Secret once.
	// +optional
	Token *ApiKeyToken `json:"token,omitempty"`

	// tokenSecretName is the name of the Secret in which the controller stores a generated token;
	// <name>-token when absent.
	// +kubebuilder:validation:MaxLength=253
	// +optional
	TokenSecretName string `json:"tokenSecretName,omitempty"`

	// revoked disables the key immediately and permanently.
	// +optional
	Revoked *bool `json:"revoked,omitempty"`
}

// ApiKeyStatus is the observed state of an ApiKey.
type ApiKeyStatus struct {
	CommonStatus `json:",inline"`

	// token is the hash of the valid token.
	// +optional
	Token *ApiKeyToken `json:"token,omitempty"`

	// lastUsedTime is the time of the last use, to the hour.
	// +optional
	LastUsedTime *metav1.Time `json:"lastUsedTime,omitempty"`
}

// ApiKey is a credential for programs and identity providers that call the account's APIs.
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

	// spec is the desired state.
	// +required
	Spec ApiKeySpec `json:"spec"`

	// status is the observed state.
	// +kubebuilder:default={"observedGeneration":-1}
	// +optional
	Status ApiKeyStatus `json:"status,omitempty"`
}

// Token returns the hash of the valid token, nil if there is none.
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
