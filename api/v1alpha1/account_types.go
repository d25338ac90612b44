package v1alpha1

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// Plan is the service level of an account.
// +kubebuilder:validation:Enum=Standard;Enterprise
type Plan string

// The plans. The audit log requires the Enterprise plan.
const (
	PlanStandard   Plan = "Standard"
	PlanEnterprise Plan = "Enterprise"
)

// OIDCIssuer is an OpenID Connect issuer whose access tokens are accepted for the account.
//
// +kubebuilder:validation:XValidation:rule="!has(self.clientSecretRef) || has(self.clientID)",message="clientSecretRef requires clientID",fieldPath=".clientSecretRef"
// +kubebuilder:validation:XValidation:rule="!has(self.displayName) || has(self.clientID)",message="displayName requires clientID",fieldPath=".displayName"
type OIDCIssuer struct {
	// url of the issuer, without /.well-known/openid-configuration.
	// +kubebuilder:validation:MinLength=9
	// +kubebuilder:validation:MaxLength=512
	// +kubebuilder:validation:XValidation:rule="isURL(self) && url(self).getScheme() == 'https' && !self.contains('?') && !self.contains('#')",message="must be an https:// URL without query and fragment"
	// +required
	URL string `json:"url"`

	// audiences that are accepted: a token must have at least one of them.
	// +listType=set
	// +kubebuilder:validation:MinItems=1
	// +kubebuilder:validation:MaxItems=16
	// +kubebuilder:validation:items:MinLength=1
	// +kubebuilder:validation:items:MaxLength=256
	// +required
	Audiences []string `json:"audiences"`

	// userNameClaim is the claim with the user's name; email when absent.
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=128
	// +optional
	UserNameClaim string `json:"userNameClaim,omitempty"`

	// groupsClaim is the claim with the names of the user's groups; groups when absent.
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=128
	// +optional
	GroupsClaim string `json:"groupsClaim,omitempty"`

	// adminGroups are the groups whose members have the permission Admin.
	// +listType=set
	// +kubebuilder:validation:MaxItems=32
	// +kubebuilder:validation:items:MinLength=1
	// +kubebuilder:validation:items:MaxLength=256
	// +optional
	AdminGroups []string `json:"adminGroups,omitempty"`

	// clientID is the id of Quoin as a client of the issuer, for sign-in with a browser. Users cannot sign
	// in at the issuer when absent.
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=256
	// +optional
	ClientID string `json:"clientID,omitempty"`

	// clientSecretRef refers to the client's secret, in a Secret in the account's namespace. A public
	// client when absent.
	// +optional
	ClientSecretRef *SecretKeyReference `json:"clientSecretRef,omitempty"`

	// displayName is the name on the page where users choose an issuer; the host of the URL when absent.
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=128
	// +kubebuilder:validation:XValidation:rule=`!self.matches(r'[\p{Cc}\x{2028}\x{2029}\x{061C}\x{200E}\x{200F}\x{202A}-\x{202E}\x{2066}-\x{2069}]')`,message="must not contain control characters, line separators or bidirectional formatting characters"
	// +optional
	DisplayName string `json:"displayName,omitempty"`

	// groupRoles are the roles of the members of groups, in addition to those that the users have.
	// +listType=map
	// +listMapKey=group
	// +kubebuilder:validation:MaxItems=128
	// +optional
	GroupRoles []OIDCGroupRoles `json:"groupRoles,omitempty"`
}

// OIDCGroupRoles are the roles of the members of a group of an issuer.
type OIDCGroupRoles struct {
	// group is the name of the group in the claim of tokens.
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=256
	// +required
	Group string `json:"group"`

	// roles of the members: names of AccountRole objects and of built-in roles. One that does not exist has no effect.
	// +listType=set
	// +kubebuilder:validation:MinItems=1
	// +kubebuilder:validation:MaxItems=16
	// +required
	Roles []AccountRoleReference `json:"roles"`
}

// AuditLog configures the account's audit log.
type AuditLog struct {
	// enabled records events and allows exporting them. It requires the Enterprise plan.
	// +optional
	Enabled *bool `json:"enabled,omitempty"`

	// retentionDays is the number of days that events are kept; 30 when absent.
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=3650
	// +optional
	RetentionDays *int32 `json:"retentionDays,omitempty"`

	// maxEvents is the number of events that are kept; the oldest are deleted first. Unlimited when absent.
	// +kubebuilder:validation:Minimum=1000
	// +kubebuilder:validation:Maximum=1000000000
	// +optional
	MaxEvents *int64 `json:"maxEvents,omitempty"`
}

// ScimAttributeType is the data type of an attribute (RFC 7643 section 2.3).
// +kubebuilder:validation:Enum=string;boolean;decimal;integer;dateTime;reference
type ScimAttributeType string

// ScimAttribute is an attribute of a ScimSchema.
//
// +kubebuilder:validation:XValidation:rule="!has(self.caseExact) || self.type in ['string', 'reference']",message="caseExact requires type string or reference",fieldPath=".caseExact"
type ScimAttribute struct {
	// name of the attribute.
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=64
	// +kubebuilder:validation:Pattern=`^[A-Za-z][A-Za-z0-9_-]*$`
	// +required
	Name string `json:"name"`

	// type of the values.
	// +required
	Type ScimAttributeType `json:"type"`

	// multiValued attributes have a list of values.
	// +optional
	MultiValued *bool `json:"multiValued,omitempty"`

	// required attributes must have a value in every resource that has the schema.
	// +optional
	Required *bool `json:"required,omitempty"`

	// caseExact makes comparisons case-sensitive.
	// +optional
	CaseExact *bool `json:"caseExact,omitempty"`

	// immutable attributes cannot be changed once they have a value.
	// +optional
	Immutable *bool `json:"immutable,omitempty"`

	// description in user interfaces.
	// +kubebuilder:validation:MaxLength=512
	// +optional
	Description string `json:"description,omitempty"`
}

// ScimSchema is an extension of SCIM resources, such as one for custom user attributes (RFC 7643
// section 3.3).
type ScimSchema struct {
	// id is the URN of the schema.
	// +kubebuilder:validation:MinLength=5
	// +kubebuilder:validation:MaxLength=256
	// +kubebuilder:validation:Pattern=`^[uU][rR][nN]:[A-Za-z0-9][A-Za-z0-9-]{0,31}:[A-Za-z0-9._:-]+$`
	// +kubebuilder:validation:XValidation:rule="!self.lowerAscii().startsWith('urn:ietf:params:scim:') || (self.lowerAscii().startsWith('urn:ietf:params:scim:schemas:extension:') && self.lowerAscii() != 'urn:ietf:params:scim:schemas:extension:enterprise:2.0:user')",message="must not be one of the standard schemas"
	// +required
	ID string `json:"id"`

	// resourceType that the schema extends.
	// +required
	ResourceType ScimMemberType `json:"resourceType"`

	// name in user interfaces; the last segment of the URN when absent.
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=128
	// +optional
	Name string `json:"name,omitempty"`

	// description in user interfaces.
	// +kubebuilder:validation:MaxLength=512
	// +optional
	Description string `json:"description,omitempty"`

	// attributes of the schema.
	// +listType=map
	// +listMapKey=name
	// +kubebuilder:validation:MinItems=1
	// +kubebuilder:validation:MaxItems=64
	// +required
	Attributes []ScimAttribute `json:"attributes"`
}

// Scim configures the provisioning of users and groups.
type Scim struct {
	// schemas are extensions of users and groups in addition to the standard ones.
	// +listType=map
	// +listMapKey=id
	// +kubebuilder:validation:MaxItems=16
	// +optional
	Schemas []ScimSchema `json:"schemas,omitempty"`

	// assignRoles makes the SCIM attribute roles of users assign roles: AccountRoles by spec.name, ignoring case, and the
	// built-in roles Developer, Explorer and Viewer; false when absent, because identity providers also send roles that
	// mean something else.
	// +optional
	AssignRoles *bool `json:"assignRoles,omitempty"`
}

// AccountGitHub configures the account's access to GitHub.
type AccountGitHub struct {
	// installationIds are the ids of the installations of Quoin's GitHub App whose repositories the account
	// may use. Only list those of organizations that belong to the account.
	// +listType=set
	// +kubebuilder:validation:MinItems=1
	// +kubebuilder:validation:MaxItems=32
	// +kubebuilder:validation:items:Minimum=1
	// +kubebuilder:validation:items:Maximum=9007199254740991
	// +required
	InstallationIDs []int64 `json:"installationIds"`
}

// AccountMCP configures the account's endpoint for clients of the Model Context Protocol, /api/mcp.
type AccountMCP struct {
	// deployments that clients reach: names of Deployment objects in the account's namespace. None when absent: the endpoint
	// is off. A name without an object has no effect.
	// +listType=set
	// +kubebuilder:validation:MaxItems=256
	// +kubebuilder:validation:items:MinLength=1
	// +kubebuilder:validation:items:MaxLength=63
	// +optional
	Deployments []string `json:"deployments,omitempty"`

	// redirectURIs are the addresses to which users are redirected who sign in with a client in the web; clients on the
	// user's computer need none.
	// +listType=set
	// +kubebuilder:validation:MaxItems=32
	// +kubebuilder:validation:items:MinLength=9
	// +kubebuilder:validation:items:MaxLength=512
	// +kubebuilder:validation:items:Pattern=`^https://[A-Za-z0-9.-]+(:[0-9]{1,5})?/[A-Za-z0-9._~%!$&'()*+,;=:@/-]*$`
	// +optional
	RedirectURIs []string `json:"redirectURIs,omitempty"`
}

// AccountSpec is the desired state of an Account.
//
// +kubebuilder:validation:XValidation:rule="!has(self.customDomains) || !self.customDomains.exists(d, d.split(':')[0] == self.host.split(':')[0])",message="must not contain the host of spec.host",fieldPath=".customDomains"
// +kubebuilder:validation:XValidation:rule="!has(self.auditLog) || !has(self.auditLog.enabled) || !self.auditLog.enabled || (has(self.plan) && self.plan == 'Enterprise')",message="auditLog.enabled requires plan: Enterprise",fieldPath=".auditLog.enabled"
type AccountSpec struct {
	// displayName is the name in user interfaces; the object's name when absent.
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=128
	// +kubebuilder:validation:XValidation:rule=`!self.matches(r'[\p{Cc}\x{2028}\x{2029}\x{061C}\x{200E}\x{200F}\x{202A}-\x{202E}\x{2066}-\x{2069}]')`,message="must not contain control characters, line separators or bidirectional formatting characters"
	// +optional
	DisplayName string `json:"displayName,omitempty"`

	// host is the tenant host: requests to it are served for this account.
	// +required
	Host Host `json:"host"`

	// customDomains are additional hosts of the account. The first one replaces the tenant host in
	// URLs that the APIs return.
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=16
	// +kubebuilder:validation:XValidation:rule="self.map(d, d.split(':')[0]).all(h, self.exists_one(d, d.split(':')[0] == h))",message="must not contain a host twice"
	// +optional
	CustomDomains []Host `json:"customDomains,omitempty"`

	// domainSuffixes limit the custom domains of the account's deployments: each must be one of them or
	// below one of them; any domain is allowed when absent.
	// +listType=set
	// +kubebuilder:validation:MinItems=1
	// +kubebuilder:validation:MaxItems=32
	// +optional
	DomainSuffixes []DomainName `json:"domainSuffixes,omitempty"`

	// dataDomain is the parent domain of the data API hosts, <deployment>.<dataDomain>; data.<host>
	// when absent.
	// +optional
	DataDomain Host `json:"dataDomain,omitempty"`

	// namespace of the account's objects. It must exist and must not be shared with another account.
	// Immutable.
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=63
	// +kubebuilder:validation:Pattern=`^[a-z0-9]([-a-z0-9]*[a-z0-9])?$`
	// +kubebuilder:validation:XValidation:rule="self == oldSelf",message="namespace is immutable: create another Account"
	// +kubebuilder:validation:XValidation:rule="self != 'default' && !self.startsWith('kube-')",message="must not be a namespace of Kubernetes: default, or one whose name begins with kube-"
	// +required
	Namespace string `json:"namespace"`

	// plan is the service level; Standard when absent.
	// +optional
	Plan Plan `json:"plan,omitempty"`

	// auditLog configures the audit log.
	// +optional
	AuditLog *AuditLog `json:"auditLog,omitempty"`

	// oidcIssuers are the OpenID Connect issuers whose access tokens are accepted.
	// +listType=map
	// +listMapKey=url
	// +kubebuilder:validation:MaxItems=8
	// +optional
	OIDCIssuers []OIDCIssuer `json:"oidcIssuers,omitempty"`

	// defaultRole is the role of users without any other: the name of an AccountRole object or of a built-in role. When
	// absent, they may read deployments and data models. A role that does not exist grants nothing.
	// +optional
	DefaultRole AccountRoleReference `json:"defaultRole,omitempty"`

	// scim configures the provisioning of users and groups.
	// +optional
	Scim *Scim `json:"scim,omitempty"`

	// settings are those that the REST API shows as the settings of the tenant.
	// +optional
	Settings *AccountSettings `json:"settings,omitempty"`

	// theme is the look of clients.
	// +optional
	Theme *AccountTheme `json:"theme,omitempty"`

	// github configures the account's access to GitHub with Quoin's GitHub App; none when absent.
	// +optional
	GitHub *AccountGitHub `json:"github,omitempty"`

	// mcp configures the endpoint for clients of the Model Context Protocol; it is off when absent.
	// +optional
	MCP *AccountMCP `json:"mcp,omitempty"`
}

// AccountStatus is the observed state of an Account.
type AccountStatus struct {
	CommonStatus `json:",inline"`

	// url is the base address of the account's APIs.
	// +kubebuilder:validation:MaxLength=512
	// +optional
	URL string `json:"url,omitempty"`

	// hosts are those of spec.host and spec.customDomains that the account holds, without ports. No
	// other account or deployment of the cluster can get them.
	// +listType=set
	// +kubebuilder:validation:MaxItems=17
	// +kubebuilder:validation:items:MaxLength=253
	// +optional
	Hosts []string `json:"hosts,omitempty"`

	// dataDomain is the parent domain of the data API hosts that is in effect.
	// +kubebuilder:validation:MaxLength=259
	// +optional
	DataDomain string `json:"dataDomain,omitempty"`

	// oidcTokenKeys are the public keys that verify the tokens of the account's OidcTokenConfigs, the oldest first.
	// +listType=map
	// +listMapKey=number
	// +kubebuilder:validation:MaxItems=8
	// +optional
	OidcTokenKeys []OidcTokenKey `json:"oidcTokenKeys,omitempty"`
}

// OidcTokenKey is a public RSA key with the exponent 65537.
type OidcTokenKey struct {
	// number of the key. Numbers ascend; the private key is in the Secret <account>-oidc-key-<number> in Quoin's namespace.
	// +kubebuilder:validation:Minimum=1
	// +required
	Number int64 `json:"number"`

	// id is the key ID in the header of tokens: the thumbprint of the key (RFC 7638).
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=64
	// +required
	ID string `json:"id"`

	// modulus of the key, in base64url (RFC 7518 section 6.3.1.1).
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=1024
	// +required
	Modulus string `json:"modulus"`

	// publishTime is when the key was first listed. It signs tokens a day later, unless it is the only one.
	// +required
	PublishTime metav1.Time `json:"publishTime"`
}

// Account is a tenant, with its hosts, its namespace and its identity providers.
//
// +kubebuilder:object:root=true
// +kubebuilder:subresource:status
// +kubebuilder:resource:scope=Cluster,shortName=acct,categories=quoin
// +kubebuilder:selectablefield:JSONPath=`.spec.namespace`
// +kubebuilder:selectablefield:JSONPath=`.spec.host`
// +kubebuilder:printcolumn:name="URL",type=string,JSONPath=`.status.url`
// +kubebuilder:printcolumn:name="Namespace",type=string,JSONPath=`.spec.namespace`
// +kubebuilder:printcolumn:name="Plan",type=string,JSONPath=`.spec.plan`,priority=1
// +kubebuilder:printcolumn:name="Ready",type=string,JSONPath=`.status.conditions[?(@.type=="Ready")].status`
// +kubebuilder:printcolumn:name="Reason",type=string,JSONPath=`.status.conditions[?(@.type=="Ready")].reason`
// +kubebuilder:printcolumn:name="Message",type=string,JSONPath=`.status.conditions[?(@.type=="Ready")].message`,priority=1
// +kubebuilder:printcolumn:name="Age",type=date,JSONPath=`.metadata.creationTimestamp`
// +kubebuilder:validation:XValidation:rule="self.metadata.name.size() <= 63",message="metadata.name must be no more than 63 characters"
type Account struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`

	// spec is the desired state.
	// +required
	Spec AccountSpec `json:"spec"`

	// status is the observed state.
	// +kubebuilder:default={"observedGeneration":-1}
	// +optional
	Status AccountStatus `json:"status,omitempty"`
}

// Common implements Object.
func (a *Account) Common() *CommonStatus { return &a.Status.CommonStatus }

// AccountList is a list of Accounts.
//
// +kubebuilder:object:root=true
type AccountList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`
	Items           []Account `json:"items"`
}
