package v1alpha1

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// AccountRoleReference names a role: the name of an AccountRole object, or one of the built-in roles.
// +kubebuilder:validation:MinLength=1
// +kubebuilder:validation:MaxLength=63
// +kubebuilder:validation:XValidation:rule="self.matches('^(Developer|Explorer|Viewer|[a-z0-9]([-a-z0-9.]*[a-z0-9])?)$')",message="must be the name of an AccountRole object, or one of the built-in roles Developer, Explorer and Viewer; Admin is not assigned as a role"
type AccountRoleReference string

// AccountRoleResourceType is the type of the resources of a policy.
// +kubebuilder:validation:Enum=Global;Deployment;Folder;Workbook;Report
type AccountRoleResourceType string

// The types of resources.
const (
	// AccountRoleGlobal policies apply to the whole account and to all deployments.
	AccountRoleGlobal AccountRoleResourceType = "Global"
	// AccountRoleDeployment policies apply to deployments.
	AccountRoleDeployment AccountRoleResourceType = "Deployment"
	// AccountRoleFolder policies apply to folders.
	AccountRoleFolder AccountRoleResourceType = "Folder"
	// AccountRoleWorkbook policies apply to workbooks.
	AccountRoleWorkbook AccountRoleResourceType = "Workbook"
	// AccountRoleReport policies apply to reports.
	AccountRoleReport AccountRoleResourceType = "Report"
)

// AccountRoleAll is the action with all permissions on deployments, and the resource that stands for all.
const AccountRoleAll = "All"

// AccountRolePolicy grants permissions on resources.
//
// +kubebuilder:validation:XValidation:rule="self.resourceType == 'Deployment' || self.resources == ['All']",message="must be All, except for resourceType Deployment",fieldPath=".resources"
// +kubebuilder:validation:XValidation:rule="self.resourceType != 'Global' || !('All' in self.actions)",message="All is an action on deployments: with resourceType Global, list the actions",fieldPath=".actions"
// +kubebuilder:validation:XValidation:rule="self.resourceType != 'Deployment' || !self.actions.exists(a, a in ['AuditLogManage', 'OAuthIntegrationsManage', 'DeploymentsManage', 'DeploymentCreate', 'FolderRead', 'FolderEdit', 'FolderManage', 'WorkbookRead', 'WorkbookEdit', 'WorkbookManage', 'ReportRead', 'ReportEdit', 'ReportManage'])",message="AuditLogManage, OAuthIntegrationsManage, DeploymentsManage, DeploymentCreate and the actions on folders, workbooks and reports do not act on certain deployments: use resourceType Global",fieldPath=".actions"
// +kubebuilder:validation:XValidation:rule="self.resourceType != 'Folder' || self.actions.all(a, a in ['FolderRead', 'FolderEdit', 'FolderManage'])",message="must be FolderRead, FolderEdit or FolderManage with resourceType Folder",fieldPath=".actions"
// +kubebuilder:validation:XValidation:rule="self.resourceType != 'Workbook' || self.actions.all(a, a in ['WorkbookRead', 'WorkbookEdit', 'WorkbookManage'])",message="must be WorkbookRead, WorkbookEdit or WorkbookManage with resourceType Workbook",fieldPath=".actions"
// +kubebuilder:validation:XValidation:rule="self.resourceType != 'Report' || self.actions.all(a, a in ['ReportRead', 'ReportEdit', 'ReportManage'])",message="must be ReportRead, ReportEdit or ReportManage with resourceType Report",fieldPath=".actions"
type AccountRolePolicy struct {
	// resourceType is the type of the resources.
	// +required
	ResourceType AccountRoleResourceType `json:"resourceType"`

	// actions that the policy grants. Actions that nothing in Quoin needs are rejected.
	// +listType=set
	// +kubebuilder:validation:MinItems=1
	// +kubebuilder:validation:MaxItems=32
	// +required
	Actions []AccountRoleAction `json:"actions"`

	// resources are All, or deployments: names of Deployment objects, or their ids in the REST API. One that does not
	// exist grants nothing.
	// +listType=set
	// +kubebuilder:validation:MinItems=1
	// +kubebuilder:validation:MaxItems=256
	// +kubebuilder:validation:items:MinLength=1
	// +kubebuilder:validation:items:MaxLength=32
	// +kubebuilder:validation:items:Pattern=`^(All|[1-9][0-9]{0,15}|[a-z]([-a-z0-9]*[a-z0-9])?)$`
	// +kubebuilder:validation:XValidation:rule="!('All' in self) || self.size() == 1",message="All must be the only resource"
	// +required
	Resources []string `json:"resources"`
}

// AccountRoleSpec is the desired state of an AccountRole.
type AccountRoleSpec struct {
	// name in user interfaces, unique in the account, ignoring case.
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=255
	// +kubebuilder:validation:XValidation:rule=`!self.matches(r'[\p{Cc}\x{2028}\x{2029}\x{061C}\x{200E}\x{200F}\x{202A}-\x{202E}\x{2066}-\x{2069}]')`,message="must not contain control characters, line separators or bidirectional formatting characters"
	// +kubebuilder:validation:XValidation:rule="self.trim() == self",message="must not begin or end with a space"
	// +kubebuilder:validation:XValidation:rule="!(self.lowerAscii() in ['admin', 'developer', 'explorer', 'viewer', 'aibideveloper', 'd3user', 'aibiuser', 'aibiviewer', 'guest', 'embeduser'])",message="must not be a reserved name: Admin, Developer, Explorer, Viewer, AIBIDeveloper, D3User, AIBIUser, AIBIViewer, Guest, EmbedUser"
	// +required
	Name string `json:"name"`

	// description of the role.
	// +kubebuilder:validation:MaxLength=255
	// +optional
	Description string `json:"description,omitempty"`

	// policies grant permissions: the role has all that one of them grants.
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=200
	// +optional
	Policies []AccountRolePolicy `json:"policies,omitempty"`
}

// AccountRoleStatus is the observed state of an AccountRole.
type AccountRoleStatus struct {
	CommonStatus `json:",inline"`

	// id is the number of the role in the REST API.
	// +optional
	ID int64 `json:"id,omitempty"`
}

// AccountRole is a set of permissions in an account, which users have directly, as members of a group, or through a group of
// an OpenID Connect issuer.
//
// +kubebuilder:object:root=true
// +kubebuilder:subresource:status
// +kubebuilder:resource:shortName=arole,categories=quoin
// +kubebuilder:validation:XValidation:rule="self.metadata.name.size() <= 63",message="metadata.name must be no more than 63 characters"
// +kubebuilder:selectablefield:JSONPath=`.spec.name`
// +kubebuilder:printcolumn:name="Role",type=string,JSONPath=`.spec.name`
// +kubebuilder:printcolumn:name="ID",type=integer,JSONPath=`.status.id`
// +kubebuilder:printcolumn:name="Ready",type=string,JSONPath=`.status.conditions[?(@.type=="Ready")].status`
// +kubebuilder:printcolumn:name="Reason",type=string,JSONPath=`.status.conditions[?(@.type=="Ready")].reason`
// +kubebuilder:printcolumn:name="Message",type=string,JSONPath=`.status.conditions[?(@.type=="Ready")].message`,priority=1
// +kubebuilder:printcolumn:name="Age",type=date,JSONPath=`.metadata.creationTimestamp`
type AccountRole struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`

	// spec is the desired state.
	// +required
	Spec AccountRoleSpec `json:"spec"`

	// status is the observed state.
	// +kubebuilder:default={"observedGeneration":-1}
	// +optional
	Status AccountRoleStatus `json:"status,omitempty"`
}

// Common implements Object.
func (r *AccountRole) Common() *CommonStatus { return &r.Status.CommonStatus }

// AccountRoleList is a list of AccountRoles.
//
// +kubebuilder:object:root=true
type AccountRoleList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`
	Items           []AccountRole `json:"items"`
}
