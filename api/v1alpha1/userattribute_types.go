package v1alpha1

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// UserAttributeType is the type of the values of a UserAttribute.
// +kubebuilder:validation:Enum=string;number;boolean;string_array;number_array
type UserAttributeType string

// The types of user attributes.
const (
	UserAttributeString      UserAttributeType = "string"
	UserAttributeNumber      UserAttributeType = "number"
	UserAttributeBoolean     UserAttributeType = "boolean"
	UserAttributeStringArray UserAttributeType = "string_array"
	UserAttributeNumberArray UserAttributeType = "number_array"
)

// UserAttributeName is the name of a UserAttribute in data models and SCIM.
// +kubebuilder:validation:MinLength=1
// +kubebuilder:validation:MaxLength=63
// +kubebuilder:validation:Pattern=`^[A-Za-z]([A-Za-z0-9_]*[A-Za-z0-9])?$`
type UserAttributeName string

// Number is a decimal number as text, such as 12 or -0.5: JSON numbers are not exact.
// +kubebuilder:validation:MinLength=1
// +kubebuilder:validation:MaxLength=40
// +kubebuilder:validation:Pattern=`^-?(0|[1-9][0-9]{0,17})([.][0-9]{1,20})?$`
type Number string

// UserAttributeContent is a value: exactly one field is set, that of the type of the attribute.
type UserAttributeContent struct {
	// string is the value of an attribute of type string.
	// +kubebuilder:validation:MaxLength=512
	// +optional
	String *string `json:"string,omitempty"`

	// number is the value of an attribute of type number, as text such as "2.5".
	// +optional
	Number *Number `json:"number,omitempty"`

	// boolean is the value of an attribute of type boolean.
	// +optional
	Boolean *bool `json:"boolean,omitempty"`

	// stringArray is the value of an attribute of type string_array; it may be empty.
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=256
	// +kubebuilder:validation:items:MaxLength=128
	// +optional
	StringArray *[]string `json:"stringArray,omitempty"`

	// numberArray is the value of an attribute of type number_array; it may be empty.
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=256
	// +optional
	NumberArray *[]Number `json:"numberArray,omitempty"`
}

// UserAttributeValue is the value of a UserAttribute for a user.
//
// +kubebuilder:validation:XValidation:rule="[has(self.string), has(self.number), has(self.boolean), has(self.stringArray), has(self.numberArray)].filter(x, x).size() == 1",message="exactly one of string, number, boolean, stringArray and numberArray must be set: that of the type of the UserAttribute"
type UserAttributeValue struct {
	// name is spec.name of the UserAttribute.
	// +required
	Name UserAttributeName `json:"name"`

	UserAttributeContent `json:",inline"`
}

// UserAttributeSpec defines a user attribute.
//
// +kubebuilder:validation:XValidation:rule="!has(self.defaultValue) || (self.type == 'string' ? has(self.defaultValue.string) : self.type == 'number' ? has(self.defaultValue.number) : self.type == 'boolean' ? has(self.defaultValue.boolean) : self.type == 'string_array' ? has(self.defaultValue.stringArray) : has(self.defaultValue.numberArray))",message="defaultValue must have the field of the type: string, number, boolean, stringArray for string_array, numberArray for number_array",fieldPath=".defaultValue"
type UserAttributeSpec struct {
	// name of the attribute in data models, as in { userAttributes.region }, and in SCIM. It is unique in the
	// account, ignoring case.
	// +kubebuilder:validation:XValidation:rule="self == oldSelf",message="name is immutable: create another UserAttribute"
	// +required
	Name UserAttributeName `json:"name"`

	// type of the values.
	// +kubebuilder:validation:XValidation:rule="self == oldSelf",message="type is immutable: create another UserAttribute"
	// +required
	Type UserAttributeType `json:"type"`

	// displayName is the name in user interfaces; name when absent.
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=128
	// +kubebuilder:validation:XValidation:rule=`!self.matches(r'[\p{Cc}\x{2028}\x{2029}\x{061C}\x{200E}\x{200F}\x{202A}-\x{202E}\x{2066}-\x{2069}]')`,message="must not contain control characters, line separators or bidirectional formatting characters"
	// +optional
	DisplayName string `json:"displayName,omitempty"`

	// description of the attribute.
	// +kubebuilder:validation:MaxLength=1024
	// +optional
	Description string `json:"description,omitempty"`

	// defaultValue is the value for users without one. Without it, tokens of these users do not have the
	// attribute.
	// +kubebuilder:validation:XValidation:rule="[has(self.string), has(self.number), has(self.boolean), has(self.stringArray), has(self.numberArray)].filter(x, x).size() == 1",message="exactly one of string, number, boolean, stringArray and numberArray must be set: that of the type"
	// +optional
	DefaultValue *UserAttributeContent `json:"defaultValue,omitempty"`
}

// UserAttributeStatus is the observed state of a UserAttribute.
type UserAttributeStatus struct {
	CommonStatus `json:",inline"`

	// id is the number of the attribute in the REST API.
	// +optional
	ID int64 `json:"id,omitempty"`
}

// UserAttribute is an attribute of the users of an account, for access policies and row-level security of data
// models. Values are in spec.attributes of ScimUsers.
//
// +kubebuilder:object:root=true
// +kubebuilder:subresource:status
// +kubebuilder:resource:shortName=uattr,categories=quoin
// +kubebuilder:validation:XValidation:rule="self.metadata.name == self.spec.name.lowerAscii().replace('_', '-')",message="metadata.name must be spec.name in lower case, with - for _, so that names are unique in the account"
// +kubebuilder:selectablefield:JSONPath=`.spec.name`
// +kubebuilder:printcolumn:name="Attribute",type=string,JSONPath=`.spec.name`
// +kubebuilder:printcolumn:name="Type",type=string,JSONPath=`.spec.type`
// +kubebuilder:printcolumn:name="ID",type=integer,JSONPath=`.status.id`
// +kubebuilder:printcolumn:name="Ready",type=string,JSONPath=`.status.conditions[?(@.type=="Ready")].status`
// +kubebuilder:printcolumn:name="Reason",type=string,JSONPath=`.status.conditions[?(@.type=="Ready")].reason`
// +kubebuilder:printcolumn:name="Message",type=string,JSONPath=`.status.conditions[?(@.type=="Ready")].message`,priority=1
// +kubebuilder:printcolumn:name="Age",type=date,JSONPath=`.metadata.creationTimestamp`
type UserAttribute struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`

	// spec is the desired state.
	// +required
	Spec UserAttributeSpec `json:"spec"`

	// status is the observed state.
	// +kubebuilder:default={"observedGeneration":-1}
	// +optional
	Status UserAttributeStatus `json:"status,omitempty"`
}

// Common implements Object.
func (a *UserAttribute) Common() *CommonStatus { return &a.Status.CommonStatus }

// UserAttributeList is a list of UserAttributes.
//
// +kubebuilder:object:root=true
type UserAttributeList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`
	Items           []UserAttribute `json:"items"`
}
