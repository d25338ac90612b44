package v1alpha1

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// DbtGitSource is a dbt project in a Git repository.
type DbtGitSource struct {
	// url of the repository: https:// or ssh://, without password. http:// requires the controller
	// flag --allow-insecure-git.
	// +kubebuilder:validation:MinLength=9
	// +kubebuilder:validation:MaxLength=1024
	// +kubebuilder:validation:XValidation:rule="self.matches('^(https|http|ssh)://[^ @/?#]+(@[^ @/?#]+)?/[^ ?#]+$') && !self.matches('^(https?://[^/]*@|ssh://[^/@]*:[^/@]*@)')",message="must be a URL such as https://git.example.com/team/dbt.git, without password, and without user name unless the scheme is ssh"
	// +required
	URL string `json:"url"`
	// ref is a branch or tag, not a commit; the remote's default branch when absent.
	// +kubebuilder:validation:MaxLength=244
	// +kubebuilder:validation:XValidation:rule=`!self.matches(r'[[:cntrl:] ~^:?*\[\\]|^[-/.]|/[./]|[.][.]|@[{]|[.]lock(/|$)|[/.]$|^@$')`,message="must be the name of a branch or tag such as main or v1.2.3"
	// +optional
	Ref string `json:"ref,omitempty"`
	// path of the dbt project in the repository; its root when absent.
	// +kubebuilder:validation:MaxLength=512
	// +kubebuilder:validation:XValidation:rule="!self.startsWith('/') && !self.split('/').exists(p, p == '..')",message="must be a relative path in the repository, without .."
	// +optional
	Path string `json:"path,omitempty"`
	// secretRef names a Secret in the same namespace, with the same keys as that of a Deployment.
	// +optional
	SecretRef *LocalReference `json:"secretRef,omitempty"`
	// selector selects models, in dbt's node selection syntax.
	// +kubebuilder:validation:MaxLength=1024
	// +kubebuilder:validation:Pattern=`^[^\x00-\x1f\x7f]*$`
	// +optional
	Selector string `json:"selector,omitempty"`
	// target of the profile; dev when absent.
	// +kubebuilder:validation:MaxLength=64
	// +kubebuilder:validation:Pattern=`^[A-Za-z0-9_][A-Za-z0-9_-]*$`
	// +optional
	Target string `json:"target,omitempty"`
	// schema into which dbt builds the models; that of the profiles.yml of the project when absent. If it is
	// set, Quoin generates the profile, for the CUBEJS_DB_TYPE of the deployment.
	// +kubebuilder:validation:MaxLength=255
	// +kubebuilder:validation:Pattern=`^[^\x00-\x1f\x7f]*$`
	// +optional
	Schema string `json:"schema,omitempty"`
	// database (or project, or catalog) of the schema; CUBEJS_DB_NAME of the deployment when absent.
	// +kubebuilder:validation:MaxLength=255
	// +kubebuilder:validation:Pattern=`^[^\x00-\x1f\x7f]*$`
	// +optional
	Database string `json:"database,omitempty"`
}

// DbtManifestSource is a compiled manifest.json.
type DbtManifestSource struct {
	// configMapRef names a ConfigMap with the key manifest.json (or manifest.json.gz).
	// +required
	ConfigMapRef LocalReference `json:"configMapRef"`
}

// DbtSource is the source of a dbt project.
//
// +kubebuilder:validation:XValidation:rule="has(self.git) != has(self.manifest)",message="must set exactly one of git and manifest"
type DbtSource struct {
	// git is a dbt project in a Git repository.
	// +optional
	Git *DbtGitSource `json:"git,omitempty"`
	// manifest is a compiled manifest.
	// +optional
	Manifest *DbtManifestSource `json:"manifest,omitempty"`
}

// DbtOptions configure the generated model.
type DbtOptions struct {
	// outputPath of the generated files; model/cubes/dbt when absent.
	// +kubebuilder:validation:MaxLength=512
	// +kubebuilder:validation:XValidation:rule="!self.split('/').exists(p, p == '..')",message="must not contain the segment .."
	// +optional
	OutputPath string `json:"outputPath,omitempty"`
	// namePrefix of the cubes; dbt_ when absent.
	// +kubebuilder:validation:MaxLength=64
	// +optional
	NamePrefix *string `json:"namePrefix,omitempty"`
	// titlePrefix of the cubes; "(dbt) " when absent.
	// +kubebuilder:validation:MaxLength=64
	// +optional
	TitlePrefix *string `json:"titlePrefix,omitempty"`
	// martsOnly excludes models that are not marts.
	// +optional
	MartsOnly *bool `json:"martsOnly,omitempty"`
	// primaryKeySuffix is the suffix of key columns; _id when absent.
	// +kubebuilder:validation:MaxLength=64
	// +optional
	PrimaryKeySuffix *string `json:"primaryKeySuffix,omitempty"`
	// defaultMeasures adds a count and sums; true when absent.
	// +optional
	DefaultMeasures *bool `json:"defaultMeasures,omitempty"`
	// joins adds joins from relationship tests and foreign keys; true when absent.
	// +optional
	Joins *bool `json:"joins,omitempty"`
	// reverseJoins adds joins in the opposite direction; false when absent.
	// +optional
	ReverseJoins *bool `json:"reverseJoins,omitempty"`
	// typesFromCatalog takes the types of columns whose type is not declared from the data source, to which dbt
	// connects with the variables of the deployment; false when absent.
	// +optional
	TypesFromCatalog *bool `json:"typesFromCatalog,omitempty"`
}

// DbtTrigger is the origin of a sync.
// +kubebuilder:validation:Enum=manual;api;webhook;agent
type DbtTrigger string

// DbtSyncSpec is the desired state of a DbtSync. Apart from cancelled it is immutable.
//
// +kubebuilder:validation:XValidation:rule="has(self.branch) == has(oldSelf.branch) && (!has(self.branch) || self.branch == oldSelf.branch)",message="branch is immutable: create another DbtSync",fieldPath=".branch"
// +kubebuilder:validation:XValidation:rule="!has(self.options) || !has(self.options.typesFromCatalog) || !self.options.typesFromCatalog || has(self.source.git)",message="typesFromCatalog needs source.git: a manifest has no catalog",fieldPath=".options.typesFromCatalog"
// +kubebuilder:validation:XValidation:rule="has(self.options) == has(oldSelf.options) && (!has(self.options) || self.options == oldSelf.options)",message="options are immutable: create another DbtSync",fieldPath=".options"
// +kubebuilder:validation:XValidation:rule="has(self.trigger) == has(oldSelf.trigger) && (!has(self.trigger) || self.trigger == oldSelf.trigger)",message="trigger is immutable: create another DbtSync",fieldPath=".trigger"
// +kubebuilder:validation:XValidation:rule="!(has(oldSelf.cancelled) && oldSelf.cancelled) || (has(self.cancelled) && self.cancelled)",message="cancelled cannot be unset: create another DbtSync",fieldPath=".cancelled"
type DbtSyncSpec struct {
	// deploymentRef names the Deployment.
	// +kubebuilder:validation:XValidation:rule="self == oldSelf",message="deploymentRef is immutable: create another DbtSync"
	// +required
	DeploymentRef LocalReference `json:"deploymentRef"`
	// branch that receives the generated model; a new dbt-sync/… branch when absent.
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=244
	// +kubebuilder:validation:XValidation:rule=`!self.matches(r'[[:cntrl:] ~^:?*\[\\]|^[/.]|/[./]|[.][.]|@[{]|[.]lock(/|$)|[/.]$|^@$')`,message="must be a valid Git branch name such as main or feature/orders"
	// +optional
	Branch string `json:"branch,omitempty"`
	// source of the dbt project.
	// +kubebuilder:validation:XValidation:rule="self == oldSelf",message="source is immutable: create another DbtSync"
	// +required
	Source DbtSource `json:"source"`
	// options configure the generated model.
	// +optional
	Options *DbtOptions `json:"options,omitempty"`
	// trigger that started the sync; manual when absent.
	// +optional
	Trigger DbtTrigger `json:"trigger,omitempty"`
	// cancelled stops the run. It cannot be unset.
	// +optional
	Cancelled *bool `json:"cancelled,omitempty"`
}

// DbtPhase is one phase of a sync.
type DbtPhase struct {
	// name such as repo-clone or dbt-deps.
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=64
	// +required
	Name string `json:"name"`
	// outcome of the phase.
	// +kubebuilder:validation:Enum=running;ok;failed;cancelled
	// +required
	Outcome string `json:"outcome"`
	// startTime of the phase.
	// +optional
	StartTime *metav1.Time `json:"startTime,omitempty"`
	// durationMilliseconds of the phase.
	// +optional
	DurationMilliseconds int64 `json:"durationMilliseconds,omitempty"`
	// message describes a failure.
	// +kubebuilder:validation:MaxLength=4096
	// +optional
	Message string `json:"message,omitempty"`
}

// DbtSyncStatus is the observed state of a DbtSync.
type DbtSyncStatus struct {
	CommonStatus `json:",inline"`

	// stage of the run, as in the documented API.
	// +kubebuilder:validation:Enum=INITIALIZING;CREATING_SANDBOX;UPLOADING_PROJECT;INSTALLING_DEPENDENCIES;RUNNING_DBT_DEPS;COMPILING_DBT;PROCESSING_MANIFEST;WRITING_CUBE_FILES;FINALIZING;COMPLETED;FAILED
	// +optional
	Stage string `json:"stage,omitempty"`
	// branch that received the model.
	// +kubebuilder:validation:MaxLength=244
	// +optional
	Branch string `json:"branch,omitempty"`
	// phases with times and outcome.
	// +listType=map
	// +listMapKey=name
	// +kubebuilder:validation:MaxItems=32
	// +optional
	Phases []DbtPhase `json:"phases,omitempty"`
	// generatedFiles is the number of generated files.
	// +optional
	GeneratedFiles int32 `json:"generatedFiles,omitempty"`
	// startTime of the run.
	// +optional
	StartTime *metav1.Time `json:"startTime,omitempty"`
	// completionTime of the run.
	// +optional
	CompletionTime *metav1.Time `json:"completionTime,omitempty"`
	// error is why the run failed.
	// +kubebuilder:validation:MaxLength=4096
	// +optional
	Error string `json:"error,omitempty"`
	// syncJobId of the run in the REST API.
	// +kubebuilder:validation:MaxLength=64
	// +optional
	SyncJobID string `json:"syncJobId,omitempty"`
}

// The stages of a run.
const (
	DbtStageInitializing    = "INITIALIZING"
	DbtStageCreatingSandbox = "CREATING_SANDBOX"
	DbtStageCloning         = "UPLOADING_PROJECT"
	DbtStageDeps            = "RUNNING_DBT_DEPS"
	DbtStageCompiling       = "COMPILING_DBT"
	DbtStageProcessing      = "PROCESSING_MANIFEST"
	DbtStageCompleted       = "COMPLETED"
	DbtStageFailed          = "FAILED"
)

// DbtCancelled is the error of a run that was cancelled.
const DbtCancelled = "the sync was cancelled"

// Ended reports whether the run has ended.
func (s *DbtSyncStatus) Ended() bool {
	return s.Stage == DbtStageCompleted || s.Stage == DbtStageFailed
}

// InSandbox reports whether a Job has been created for the run, whose pod has not delivered the manifest
// yet.
func (s *DbtSyncStatus) InSandbox() bool {
	switch s.Stage {
	case DbtStageCreatingSandbox, DbtStageCloning, DbtStageDeps, DbtStageCompiling:
		return true
	}
	return false
}

// The outcomes of a phase.
const (
	DbtPhaseRunning = "running"
	DbtPhaseOK      = "ok"
	DbtPhaseFailed  = "failed"
)

// DbtSettings are the settings of dbt syncs that are started over REST.
type DbtSettings struct {
	// git is the dbt project.
	// +required
	Git DbtGitSource `json:"git"`
	// options configure the generated model.
	// +optional
	Options *DbtOptions `json:"options,omitempty"`
	// webhookSecretRef names the Secret with which the Git host of the dbt project signs push webhooks, at
	// least 16 bytes. A push to the ref of git starts a sync. Webhooks are rejected when absent.
	// +optional
	WebhookSecretRef *SecretKeyReference `json:"webhookSecretRef,omitempty"`
}

// DbtSync is a run that generates a data model from a dbt project.
//
// +kubebuilder:object:root=true
// +kubebuilder:subresource:status
// +kubebuilder:resource:shortName=dbtsync,categories=quoin
// +kubebuilder:selectablefield:JSONPath=`.spec.deploymentRef.name`
// +kubebuilder:printcolumn:name="Deployment",type=string,JSONPath=`.spec.deploymentRef.name`
// +kubebuilder:printcolumn:name="Branch",type=string,JSONPath=`.status.branch`
// +kubebuilder:printcolumn:name="Stage",type=string,JSONPath=`.status.stage`
// +kubebuilder:printcolumn:name="Ready",type=string,JSONPath=`.status.conditions[?(@.type=="Ready")].status`
// +kubebuilder:printcolumn:name="Reason",type=string,JSONPath=`.status.conditions[?(@.type=="Ready")].reason`
// +kubebuilder:printcolumn:name="Age",type=date,JSONPath=`.metadata.creationTimestamp`
type DbtSync struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`

	// spec is the desired state.
	// +required
	Spec DbtSyncSpec `json:"spec"`

	// status is the observed state.
	// +kubebuilder:default={"observedGeneration":-1}
	// +optional
	Status DbtSyncStatus `json:"status,omitempty"`
}

// Common implements Object.
func (s *DbtSync) Common() *CommonStatus { return &s.Status.CommonStatus }

// DbtSyncList is a list of DbtSyncs.
//
// +kubebuilder:object:root=true
type DbtSyncList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`
	Items           []DbtSync `json:"items"`
}
