package v1alpha1

import (
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// ScimName is the name of a user (RFC 7643 section 4.1.1).
type ScimName struct {
	// formatted is the full name.
	// +kubebuilder:validation:MaxLength=512
	// +kubebuilder:validation:XValidation:rule=`!self.matches(r'[\p{Cc}\x{2028}\x{2029}\x{061C}\x{200E}\x{200F}\x{202A}-\x{202E}\x{2066}-\x{2069}]')`,message="must not contain control characters, line separators or bidirectional formatting characters"
	// +optional
	Formatted string `json:"formatted,omitempty"`
	// familyName is the last name.
	// +kubebuilder:validation:MaxLength=256
	// +kubebuilder:validation:XValidation:rule=`!self.matches(r'[\p{Cc}\x{2028}\x{2029}\x{061C}\x{200E}\x{200F}\x{202A}-\x{202E}\x{2066}-\x{2069}]')`,message="must not contain control characters, line separators or bidirectional formatting characters"
	// +optional
	FamilyName string `json:"familyName,omitempty"`
	// givenName is the first name.
	// +kubebuilder:validation:MaxLength=256
	// +kubebuilder:validation:XValidation:rule=`!self.matches(r'[\p{Cc}\x{2028}\x{2029}\x{061C}\x{200E}\x{200F}\x{202A}-\x{202E}\x{2066}-\x{2069}]')`,message="must not contain control characters, line separators or bidirectional formatting characters"
	// +optional
	GivenName string `json:"givenName,omitempty"`
	// middleName of the user.
	// +kubebuilder:validation:MaxLength=256
	// +kubebuilder:validation:XValidation:rule=`!self.matches(r'[\p{Cc}\x{2028}\x{2029}\x{061C}\x{200E}\x{200F}\x{202A}-\x{202E}\x{2066}-\x{2069}]')`,message="must not contain control characters, line separators or bidirectional formatting characters"
	// +optional
	MiddleName string `json:"middleName,omitempty"`
	// honorificPrefix such as Ms.
	// +kubebuilder:validation:MaxLength=64
	// +optional
	HonorificPrefix string `json:"honorificPrefix,omitempty"`
	// honorificSuffix such as III.
	// +kubebuilder:validation:MaxLength=64
	// +optional
	HonorificSuffix string `json:"honorificSuffix,omitempty"`
}

// ScimMultiValue is an item of a multi-valued attribute (RFC 7643 section 2.4).
type ScimMultiValue struct {
	// value of the item.
	// +kubebuilder:validation:MaxLength=8192
	// +optional
	Value string `json:"value,omitempty"`
	// display is the text in user interfaces.
	// +kubebuilder:validation:MaxLength=512
	// +optional
	Display string `json:"display,omitempty"`
	// type such as work or home.
	// +kubebuilder:validation:MaxLength=128
	// +optional
	Type string `json:"type,omitempty"`
	// primary is true for at most one item.
	// +optional
	Primary *bool `json:"primary,omitempty"`
}

// ScimAddress is a postal address (RFC 7643 section 4.1.2).
type ScimAddress struct {
	// formatted is the full address.
	// +kubebuilder:validation:MaxLength=1024
	// +optional
	Formatted string `json:"formatted,omitempty"`
	// streetAddress with house number.
	// +kubebuilder:validation:MaxLength=512
	// +optional
	StreetAddress string `json:"streetAddress,omitempty"`
	// locality is the city.
	// +kubebuilder:validation:MaxLength=256
	// +optional
	Locality string `json:"locality,omitempty"`
	// region is the state.
	// +kubebuilder:validation:MaxLength=256
	// +optional
	Region string `json:"region,omitempty"`
	// postalCode of the address.
	// +kubebuilder:validation:MaxLength=64
	// +optional
	PostalCode string `json:"postalCode,omitempty"`
	// country as an ISO 3166-1 alpha-2 code. Names are accepted, because some clients send them.
	// +kubebuilder:validation:MaxLength=128
	// +optional
	Country string `json:"country,omitempty"`
	// type such as work or home.
	// +kubebuilder:validation:MaxLength=128
	// +optional
	Type string `json:"type,omitempty"`
	// primary is true for at most one address.
	// +optional
	Primary *bool `json:"primary,omitempty"`
}

// ScimManager is the manager of a user (RFC 7643 section 4.3).
type ScimManager struct {
	// value is the id of the manager's user.
	// +kubebuilder:validation:MaxLength=253
	// +optional
	Value string `json:"value,omitempty"`
	// displayName of the manager.
	// +kubebuilder:validation:MaxLength=256
	// +kubebuilder:validation:XValidation:rule=`!self.matches(r'[\p{Cc}\x{2028}\x{2029}\x{061C}\x{200E}\x{200F}\x{202A}-\x{202E}\x{2066}-\x{2069}]')`,message="must not contain control characters, line separators or bidirectional formatting characters"
	// +optional
	DisplayName string `json:"displayName,omitempty"`
}

// ScimEnterprise is the enterprise extension (RFC 7643 section 4.3).
type ScimEnterprise struct {
	// employeeNumber in the organisation.
	// +kubebuilder:validation:MaxLength=256
	// +optional
	EmployeeNumber string `json:"employeeNumber,omitempty"`
	// costCenter of the user.
	// +kubebuilder:validation:MaxLength=256
	// +optional
	CostCenter string `json:"costCenter,omitempty"`
	// organization of the user.
	// +kubebuilder:validation:MaxLength=256
	// +optional
	Organization string `json:"organization,omitempty"`
	// division of the user.
	// +kubebuilder:validation:MaxLength=256
	// +optional
	Division string `json:"division,omitempty"`
	// department of the user.
	// +kubebuilder:validation:MaxLength=256
	// +optional
	Department string `json:"department,omitempty"`
	// manager of the user.
	// +optional
	Manager *ScimManager `json:"manager,omitempty"`
}

// ScimExtension contains the attributes of an additional schema.
type ScimExtension struct {
	// schema is the URN of the schema.
	// +kubebuilder:validation:MinLength=5
	// +kubebuilder:validation:MaxLength=256
	// +kubebuilder:validation:Pattern=`^[uU][rR][nN]:[A-Za-z0-9][A-Za-z0-9-]{0,31}:.+$`
	// +required
	Schema string `json:"schema"`
	// attributes of the schema, as a JSON object.
	// +required
	Attributes apiextensionsv1.JSON `json:"attributes"`
}

// SheetsSettings are a user's settings of spreadsheet add-ons. Quoin keeps them for these clients.
type SheetsSettings struct {
	// autoRunQueryOnChange runs a query when it is changed.
	// +optional
	AutoRunQueryOnChange *bool `json:"autoRunQueryOnChange,omitempty"`
	// openExplorationFromSheet opens the exploration of a report from its sheet.
	// +optional
	OpenExplorationFromSheet *bool `json:"openExplorationFromSheet,omitempty"`
	// revealSheetOnOpen shows the sheet of a report when the report is opened.
	// +optional
	RevealSheetOnOpen *bool `json:"revealSheetOnOpen,omitempty"`
	// showAppliedFilters shows the filters of a report in its sheet.
	// +optional
	ShowAppliedFilters *bool `json:"showAppliedFilters,omitempty"`
	// suppressDuplicateValues shows only the first of equal values in a column.
	// +optional
	SuppressDuplicateValues *bool `json:"suppressDuplicateValues,omitempty"`
}

// UserSettings are a user's settings of clients. Quoin keeps them for these clients.
type UserSettings struct {
	// alternatingRowColors gives the rows of tables alternating colors.
	// +optional
	AlternatingRowColors *bool `json:"alternatingRowColors,omitempty"`
	// defaultDeploymentId is the id of the deployment that clients show first. It need not exist.
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=9007199254740991
	// +optional
	DefaultDeploymentID *int64 `json:"defaultDeploymentId,omitempty"`
	// locale of clients, such as en-US. The attribute locale of SCIM is spec.locale.
	// +kubebuilder:validation:MaxLength=64
	// +kubebuilder:validation:Pattern=`^[A-Za-z0-9][A-Za-z0-9_.+/:@ -]{0,63}$`
	// +optional
	Locale string `json:"locale,omitempty"`
	// sheets are settings of spreadsheet add-ons.
	// +optional
	Sheets *SheetsSettings `json:"sheets,omitempty"`
	// theme of clients, such as dark.
	// +kubebuilder:validation:MaxLength=64
	// +kubebuilder:validation:Pattern=`^[A-Za-z0-9][A-Za-z0-9_.+/:@ -]{0,63}$`
	// +optional
	Theme string `json:"theme,omitempty"`
	// timezone of clients, such as America/Los_Angeles. The attribute timezone of SCIM is spec.timezone.
	// +kubebuilder:validation:MaxLength=64
	// +kubebuilder:validation:Pattern=`^[A-Za-z0-9][A-Za-z0-9_.+/:@ -]{0,63}$`
	// +optional
	Timezone string `json:"timezone,omitempty"`
}

// ScimUserSpec is the desired state of a ScimUser: a SCIM 2.0 User (RFC 7643 section 4.1).
type ScimUserSpec struct {
	// userName is unique in the account, ignoring case.
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=320
	// +required
	UserName string `json:"userName"`
	// externalId is the identifier of the provisioning client.
	// +kubebuilder:validation:MaxLength=512
	// +optional
	ExternalID string `json:"externalId,omitempty"`
	// name of the user.
	// +optional
	Name *ScimName `json:"name,omitempty"`
	// displayName is the name in user interfaces.
	// +kubebuilder:validation:MaxLength=512
	// +kubebuilder:validation:XValidation:rule=`!self.matches(r'[\p{Cc}\x{2028}\x{2029}\x{061C}\x{200E}\x{200F}\x{202A}-\x{202E}\x{2066}-\x{2069}]')`,message="must not contain control characters, line separators or bidirectional formatting characters"
	// +optional
	DisplayName string `json:"displayName,omitempty"`
	// nickName of the user.
	// +kubebuilder:validation:MaxLength=256
	// +kubebuilder:validation:XValidation:rule=`!self.matches(r'[\p{Cc}\x{2028}\x{2029}\x{061C}\x{200E}\x{200F}\x{202A}-\x{202E}\x{2066}-\x{2069}]')`,message="must not contain control characters, line separators or bidirectional formatting characters"
	// +optional
	NickName string `json:"nickName,omitempty"`
	// profileUrl is the URL of the user's profile page.
	// +kubebuilder:validation:MaxLength=2048
	// +optional
	ProfileURL string `json:"profileUrl,omitempty"`
	// title such as Vice President.
	// +kubebuilder:validation:MaxLength=256
	// +kubebuilder:validation:XValidation:rule=`!self.matches(r'[\p{Cc}\x{2028}\x{2029}\x{061C}\x{200E}\x{200F}\x{202A}-\x{202E}\x{2066}-\x{2069}]')`,message="must not contain control characters, line separators or bidirectional formatting characters"
	// +optional
	Title string `json:"title,omitempty"`
	// userType such as Employee.
	// +kubebuilder:validation:MaxLength=256
	// +optional
	UserType string `json:"userType,omitempty"`
	// preferredLanguage such as en-US.
	// +kubebuilder:validation:MaxLength=64
	// +optional
	PreferredLanguage string `json:"preferredLanguage,omitempty"`
	// locale such as en-US.
	// +kubebuilder:validation:MaxLength=64
	// +optional
	Locale string `json:"locale,omitempty"`
	// timezone such as America/Los_Angeles.
	// +kubebuilder:validation:MaxLength=64
	// +optional
	Timezone string `json:"timezone,omitempty"`
	// active is false if the user is deactivated: API keys and tokens of the user are rejected; true when absent.
	// +optional
	Active *bool `json:"active,omitempty"`
	// deprovisionTime is when a SCIM client deactivated the user. While it is set the user is inactive,
	// whatever active is. It is written over SCIM only: manifests must not contain it.
	// +optional
	DeprovisionTime *metav1.Time `json:"deprovisionTime,omitempty"`
	// admin is whether access tokens of the user have the permission Admin; false when absent. It is written over
	// REST and with kubectl, and is no attribute of SCIM. A SCIM client that changes userName removes it.
	// +optional
	Admin *bool `json:"admin,omitempty"`
	// accountRoles of the user: names of AccountRole objects and of built-in roles. They are no attribute of SCIM;
	// those of its groups apply too. A role that does not exist has no effect.
	// +listType=set
	// +kubebuilder:validation:MaxItems=64
	// +optional
	AccountRoles []AccountRoleReference `json:"accountRoles,omitempty"`
	// settings of the user in clients, written over REST. They are no attributes of SCIM.
	// +optional
	Settings *UserSettings `json:"settings,omitempty"`
	// emails of the user.
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=32
	// +kubebuilder:validation:XValidation:rule="self.filter(e, has(e.primary) && e.primary).size() <= 1",message="at most one of emails can be primary"
	// +kubebuilder:validation:XValidation:rule=`!self.exists(e, has(e.value) && e.value.matches(r'[\p{Cc}\x{2028}\x{2029}\x{061C}\x{200E}\x{200F}\x{202A}-\x{202E}\x{2066}-\x{2069}]'))`,message="must not contain control characters, line separators or bidirectional formatting characters"
	// +optional
	Emails []ScimMultiValue `json:"emails,omitempty"`
	// phoneNumbers of the user.
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=32
	// +kubebuilder:validation:XValidation:rule="self.filter(e, has(e.primary) && e.primary).size() <= 1",message="at most one of phoneNumbers can be primary"
	// +optional
	PhoneNumbers []ScimMultiValue `json:"phoneNumbers,omitempty"`
	// ims are instant messaging addresses.
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=32
	// +kubebuilder:validation:XValidation:rule="self.filter(e, has(e.primary) && e.primary).size() <= 1",message="at most one of ims can be primary"
	// +optional
	IMs []ScimMultiValue `json:"ims,omitempty"`
	// photos are URLs of pictures.
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=16
	// +kubebuilder:validation:XValidation:rule="self.filter(e, has(e.primary) && e.primary).size() <= 1",message="at most one of photos can be primary"
	// +optional
	Photos []ScimMultiValue `json:"photos,omitempty"`
	// addresses of the user.
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=16
	// +kubebuilder:validation:XValidation:rule="self.filter(e, has(e.primary) && e.primary).size() <= 1",message="at most one of addresses can be primary"
	// +optional
	Addresses []ScimAddress `json:"addresses,omitempty"`
	// entitlements of the user.
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=64
	// +kubebuilder:validation:XValidation:rule="self.filter(e, has(e.primary) && e.primary).size() <= 1",message="at most one of entitlements can be primary"
	// +optional
	Entitlements []ScimMultiValue `json:"entitlements,omitempty"`
	// roles of the user. They assign AccountRoles only if spec.scim.assignRoles of the Account is true.
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=64
	// +kubebuilder:validation:XValidation:rule="self.filter(e, has(e.primary) && e.primary).size() <= 1",message="at most one of roles can be primary"
	// +optional
	Roles []ScimMultiValue `json:"roles,omitempty"`
	// x509Certificates of the user.
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=8
	// +kubebuilder:validation:XValidation:rule="self.filter(e, has(e.primary) && e.primary).size() <= 1",message="at most one of x509Certificates can be primary"
	// +optional
	X509Certificates []ScimMultiValue `json:"x509Certificates,omitempty"`
	// enterprise is the enterprise extension.
	// +optional
	Enterprise *ScimEnterprise `json:"enterprise,omitempty"`
	// attributes are the values of UserAttributes for the user. They replace the defaults.
	// +listType=map
	// +listMapKey=name
	// +kubebuilder:validation:MaxItems=64
	// +optional
	Attributes []UserAttributeValue `json:"attributes,omitempty"`
	// extensions are attributes of additional schemas.
	// +listType=map
	// +listMapKey=schema
	// +kubebuilder:validation:MaxItems=16
	// +optional
	Extensions []ScimExtension `json:"extensions,omitempty"`
}

// ScimUserStatus is the observed state of a ScimUser.
type ScimUserStatus struct {
	CommonStatus `json:",inline"`

	// active is whether keys and tokens of the user are accepted: spec.active, and no
	// spec.deprovisionTime.
	// +optional
	Active *bool `json:"active,omitempty"`
	// deprovisionTime is spec.deprovisionTime as a SCIM client wrote it. If the object is replaced by one
	// without it, such as with kubectl replace, the user stays inactive, and spec.deprovisionTime is restored.
	// +optional
	DeprovisionTime *metav1.Time `json:"deprovisionTime,omitempty"`
	// lastModified is the time of the last change of an attribute.
	// +optional
	LastModified *metav1.Time `json:"lastModified,omitempty"`
}

// ScimUser is a user of an account. Its name is the SCIM id.
//
// +kubebuilder:object:root=true
// +kubebuilder:subresource:status
// +kubebuilder:resource:shortName=suser,categories=quoin
// +kubebuilder:selectablefield:JSONPath=`.spec.userName`
// +kubebuilder:selectablefield:JSONPath=`.spec.externalId`
// +kubebuilder:printcolumn:name="User",type=string,JSONPath=`.spec.userName`
// +kubebuilder:printcolumn:name="Active",type=boolean,JSONPath=`.status.active`
// +kubebuilder:printcolumn:name="Ready",type=string,JSONPath=`.status.conditions[?(@.type=="Ready")].status`
// +kubebuilder:printcolumn:name="Reason",type=string,JSONPath=`.status.conditions[?(@.type=="Ready")].reason`
// +kubebuilder:printcolumn:name="Message",type=string,JSONPath=`.status.conditions[?(@.type=="Ready")].message`,priority=1
// +kubebuilder:printcolumn:name="External",type=string,JSONPath=`.spec.externalId`,priority=1
// +kubebuilder:printcolumn:name="Age",type=date,JSONPath=`.metadata.creationTimestamp`
type ScimUser struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`

	// spec is the desired state.
	// +required
	Spec ScimUserSpec `json:"spec"`

	// status is the observed state.
	// +kubebuilder:default={"observedGeneration":-1}
	// +optional
	Status ScimUserStatus `json:"status,omitempty"`
}

// Common implements Object.
func (u *ScimUser) Common() *CommonStatus { return &u.Status.CommonStatus }

// IsActive reports whether keys and tokens of the user are accepted: neither the manifest nor a SCIM
// client has deactivated it, and it is not being deleted, which may take as long as another program's finalizer
// is not removed.
func (u *ScimUser) IsActive() bool {
	return u.DeletionTimestamp.IsZero() && u.Spec.IsActive() && !u.LostDeprovisionTime()
}

// LostDeprovisionTime reports whether a SCIM client has deactivated the user and the object was then
// replaced by one without spec.deprovisionTime.
func (u *ScimUser) LostDeprovisionTime() bool {
	return u.Status.DeprovisionTime != nil && u.Spec.DeprovisionTime == nil && !HasSCIMWrite(u)
}

// HasSCIMWrite reports whether an object has the annotation of the last write over SCIM. A replacement by a
// manifest removes it together with the fields that only SCIM clients write; a patch, an apply, and a SCIM
// client that removes such a field keep it. So it distinguishes a field that was lost from one that was
// removed.
func HasSCIMWrite(obj metav1.Object) bool { return obj.GetAnnotations()[AnnotationModified] != "" }

// IsAdmin reports whether access tokens of the user have the permission Admin.
func (s *ScimUserSpec) IsAdmin() bool { return s.Admin != nil && *s.Admin }

// IsActive reports whether the spec contains no deactivation. ScimUser.IsActive decides what is accepted.
func (s *ScimUserSpec) IsActive() bool {
	return s.DeprovisionTime == nil && (s.Active == nil || *s.Active)
}

// ScimUserList is a list of ScimUsers.
//
// +kubebuilder:object:root=true
type ScimUserList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`
	Items           []ScimUser `json:"items"`
}
