package v1alpha1

import (
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// ContentName is a name of workspace content that users see.
// +kubebuilder:validation:MinLength=1
// +kubebuilder:validation:MaxLength=255
// +kubebuilder:validation:XValidation:rule=`!self.matches(r'[\p{Cc}\x{2028}\x{2029}\x{061C}\x{200E}\x{200F}\x{202A}-\x{202E}\x{2066}-\x{2069}]|^\s|\s$')`,message="must not contain control characters, line separators or bidirectional formatting characters, and must not begin or end with white space"
type ContentName string

// ContentDeletionPolicy is what happens to content when its object is deleted.
// +kubebuilder:validation:Enum=Delete;Retain
type ContentDeletionPolicy string

// The policies.
const (
	// DeleteContent deletes the content.
	DeleteContent ContentDeletionPolicy = "Delete"
	// RetainContent keeps the content, which can then be changed over REST.
	RetainContent ContentDeletionPolicy = "Retain"
)

// WorkbookPivotItems are how a table shows the result of a report.
type WorkbookPivotItems struct {
	// rows are the members in rows.
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=1000
	// +kubebuilder:validation:items:MaxLength=1024
	// +required
	Rows []string `json:"rows"`

	// columns are the members in columns.
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=1000
	// +kubebuilder:validation:items:MaxLength=1024
	// +required
	Columns []string `json:"columns"`

	// measures that are shown.
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=1000
	// +kubebuilder:validation:items:MaxLength=1024
	// +required
	Measures []string `json:"measures"`

	// filters are the members that are filtered.
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=1000
	// +kubebuilder:validation:items:MaxLength=1024
	// +required
	Filters []string `json:"filters"`

	// measuresAxis is where the measures are.
	// +kubebuilder:validation:Enum=columns;rows
	// +optional
	MeasuresAxis *string `json:"measuresAxis,omitempty"`

	// measuresPosition is where the measures are beside the members of their axis.
	// +kubebuilder:validation:Enum=before;after
	// +optional
	MeasuresPosition *string `json:"measuresPosition,omitempty"`

	// displayScale is the scale of numbers.
	// +kubebuilder:validation:Enum=model;absolute;thousands;millions;billions
	// +optional
	DisplayScale *string `json:"displayScale,omitempty"`

	// showRowTotals shows totals of rows.
	// +optional
	ShowRowTotals *bool `json:"showRowTotals,omitempty"`

	// showColumnTotals shows totals of columns.
	// +optional
	ShowColumnTotals *bool `json:"showColumnTotals,omitempty"`

	// showAppliedFilters shows the filters.
	// +optional
	ShowAppliedFilters *bool `json:"showAppliedFilters,omitempty"`
}

// WorkbookReport is a report in a workbook.
type WorkbookReport struct {
	// publicId identifies the report in the account. Charts of the dashboard refer to it.
	// +kubebuilder:validation:MinLength=12
	// +kubebuilder:validation:MaxLength=12
	// +kubebuilder:validation:Pattern=`^[0-9A-Za-z]{12}$`
	// +required
	PublicID string `json:"publicId"`

	// name of the report.
	// +required
	Name ContentName `json:"name"`

	// title of the report.
	// +kubebuilder:validation:MaxLength=255
	// +optional
	Title string `json:"title,omitempty"`

	// sqlQuery is the query of the report in SQL. It is used if there is a jsonQuery too.
	// +kubebuilder:validation:MaxLength=1048576
	// +optional
	SQLQuery string `json:"sqlQuery,omitempty"`

	// jsonQuery is the query of the report for the data API: a JSON object as text, or a list of objects.
	// +kubebuilder:validation:MaxLength=1048576
	// +optional
	JSONQuery string `json:"jsonQuery,omitempty"`

	// pivotItems are how a table shows the result.
	// +optional
	PivotItems *WorkbookPivotItems `json:"pivotItems,omitempty"`

	// meta is how the result is shown: a JSON object that matches schema report.v1.
	// +kubebuilder:validation:Type=object
	// +optional
	Meta *apiextensionsv1.JSON `json:"meta,omitempty"`
}

// WorkbookDefinition is the content of a workbook.
type WorkbookDefinition struct {
	// dashboardDraft is the dashboard: a JSON object that matches schema dashboard.v1.
	// +kubebuilder:validation:Type=object
	// +optional
	DashboardDraft *apiextensionsv1.JSON `json:"dashboardDraft,omitempty"`

	// meta has other properties that clients store: any JSON object without dashboardDraft.
	// +kubebuilder:validation:Type=object
	// +optional
	Meta *apiextensionsv1.JSON `json:"meta,omitempty"`

	// reports in the workbook.
	// +listType=map
	// +listMapKey=publicId
	// +kubebuilder:validation:MaxItems=500
	// +optional
	Reports []WorkbookReport `json:"reports,omitempty"`
}

// WorkbookSpec is the desired state of a Workbook.
//
// +kubebuilder:validation:XValidation:rule="!has(self.publish) || !self.publish || !has(self.definition) || has(self.definition.dashboardDraft)",message="publish requires definition.dashboardDraft",fieldPath=".publish"
// +kubebuilder:validation:XValidation:rule="has(self.definition) != has(self.fromPath)",message="must set exactly one of definition and fromPath"
type WorkbookSpec struct {
	// deploymentRef names the Deployment.
	// +kubebuilder:validation:XValidation:rule="self == oldSelf",message="deploymentRef is immutable: create another Workbook"
	// +required
	DeploymentRef LocalReference `json:"deploymentRef"`

	// slug identifies the workbook in the deployment.
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=128
	// +kubebuilder:validation:Pattern=`^[a-z0-9]([a-z0-9_-]{0,126}[a-z0-9])?$`
	// +kubebuilder:validation:XValidation:rule="self == oldSelf",message="slug is immutable: create another Workbook"
	// +required
	Slug string `json:"slug"`

	// name of the workbook; the slug when absent.
	// +optional
	Name ContentName `json:"name,omitempty"`

	// folderRef names the Folder that contains the workbook; it is at the root when absent.
	// +optional
	FolderRef *LocalReference `json:"folderRef,omitempty"`

	// definition is the content of the workbook.
	// +optional
	Definition *WorkbookDefinition `json:"definition,omitempty"`

	// fromPath is the path of a file in the Git repository of the deployment, with the fields of definition in YAML or JSON.
	// It is read at the commit that the production environment serves.
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=512
	// +kubebuilder:validation:XValidation:rule="!self.startsWith('/') && !self.endsWith('/') && !self.split('/').exists(p, p == '..' || p == '.' || p == '')",message="must be a relative path in the repository, without . and .."
	// +optional
	FromPath string `json:"fromPath,omitempty"`

	// publish publishes the dashboard whenever its content changes.
	// +optional
	Publish *bool `json:"publish,omitempty"`

	// allowEmbed permits sessions that are signed for embedding to show the published dashboard.
	// +optional
	AllowEmbed *bool `json:"allowEmbed,omitempty"`

	// adopt takes over a workbook that has the slug, and reports that have the public ids, if users have created
	// them; they then become what this object defines.
	// +optional
	Adopt *bool `json:"adopt,omitempty"`

	// prune deletes reports in the workbook that are not in the definition.
	// +optional
	Prune *bool `json:"prune,omitempty"`

	// deletionPolicy is what happens to the workbook when this object is deleted; Delete when absent.
	// +optional
	DeletionPolicy ContentDeletionPolicy `json:"deletionPolicy,omitempty"`
}

// WorkbookStatus is the observed state of a Workbook.
type WorkbookStatus struct {
	CommonStatus `json:",inline"`

	// workbookID is the id of the workbook in the REST API.
	// +optional
	WorkbookID int64 `json:"workbookID,omitempty"`

	// commit from which the definition was read; absent without fromPath.
	// +kubebuilder:validation:MaxLength=64
	// +optional
	Commit string `json:"commit,omitempty"`

	// publishedVersion is the number of the version of the dashboard that is shown; absent before the first.
	// +optional
	PublishedVersion int64 `json:"publishedVersion,omitempty"`

	// dashboardPublicID identifies the published dashboard in the account.
	// +kubebuilder:validation:MaxLength=12
	// +optional
	DashboardPublicID string `json:"dashboardPublicID,omitempty"`
}

// Workbook is a workbook of a deployment with its reports and its dashboard, kept as code.
//
// +kubebuilder:object:root=true
// +kubebuilder:subresource:status
// +kubebuilder:resource:shortName=qwb,categories=quoin
// +kubebuilder:selectablefield:JSONPath=".spec.deploymentRef.name"
// +kubebuilder:validation:XValidation:rule="self.metadata.name.matches('^[a-z0-9]([a-z0-9-]*[a-z0-9])?$') && self.metadata.name.size() <= 63",message="metadata.name must have no more than 63 characters, of which each is a lower-case letter, a digit or -"
// +kubebuilder:printcolumn:name="Slug",type=string,JSONPath=`.spec.slug`
// +kubebuilder:printcolumn:name="Deployment",type=string,JSONPath=`.spec.deploymentRef.name`
// +kubebuilder:printcolumn:name="Published",type=integer,JSONPath=`.status.publishedVersion`
// +kubebuilder:printcolumn:name="Ready",type=string,JSONPath=`.status.conditions[?(@.type=="Ready")].status`
// +kubebuilder:printcolumn:name="Reason",type=string,JSONPath=`.status.conditions[?(@.type=="Ready")].reason`
// +kubebuilder:printcolumn:name="ID",type=integer,JSONPath=`.status.workbookID`,priority=1
// +kubebuilder:printcolumn:name="Message",type=string,JSONPath=`.status.conditions[?(@.type=="Ready")].message`,priority=1
// +kubebuilder:printcolumn:name="Age",type=date,JSONPath=`.metadata.creationTimestamp`
type Workbook struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`

	// spec is the desired state.
	// +required
	Spec WorkbookSpec `json:"spec"`

	// status is the observed state.
	// +kubebuilder:default={"observedGeneration":-1}
	// +optional
	Status WorkbookStatus `json:"status,omitempty"`
}

// Common implements Object.
func (w *Workbook) Common() *CommonStatus { return &w.Status.CommonStatus }

// WorkbookList is a list of Workbooks.
//
// +kubebuilder:object:root=true
type WorkbookList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`
	Items           []Workbook `json:"items"`
}
