package v1alpha1

import (
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// UpgradePolicy says which newer versions of the channel a deployment takes by itself.
// +kubebuilder:validation:Enum=Latest;Minor;Patch
type UpgradePolicy string

// The upgrade policies.
const (
	// UpgradeLatest takes the newest version of the channel. It is what silence means.
	UpgradeLatest UpgradePolicy = "Latest"
	// UpgradeMinor takes the newest version with the same major number.
	UpgradeMinor UpgradePolicy = "Minor"
	// UpgradePatch takes the newest version with the same major and minor number.
	UpgradePatch UpgradePolicy = "Patch"
)

// Size says which parts a production environment consists of.
// +kubebuilder:validation:Enum=Shared;Dedicated
type Size string

// The sizes.
const (
	// SizeShared is one kind of pod that answers queries and keeps its cache in memory.
	SizeShared Size = "Shared"
	// SizeDedicated adds a refresh worker and a pre-aggregation store.
	SizeDedicated Size = "Dedicated"
)

// GitSource is a data model in a Git repository.
type GitSource struct {
	// url of the repository: https:// or ssh://, without password. http:// is read only where
	// the controller was started with permission to do so.
	// +kubebuilder:validation:MinLength=9
	// +kubebuilder:validation:MaxLength=1024
	// +kubebuilder:validation:XValidation:rule="self.matches('^(https|http|ssh)://[^ @/?#]+(@[^ @/?#]+)?/[^ ?#]+$')",message="must be a URL such as https://git.example.com/team/model.git or ssh://git@git.example.com/team/model.git"
	// +kubebuilder:validation:XValidation:rule="!self.matches('^(https?://[^/]*@|ssh://[^/@]*:[^/@]*@)')",message="must not hold a password, nor a user name unless over ssh: put them into a Secret and name it in secretRef"
	// +required
	URL string `json:"url"`

	// branch that production runs; the remote's default branch when absent.
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=244
	// +kubebuilder:validation:XValidation:rule=`!self.matches(r'[[:cntrl:] ~^:?*\[\\]|^[/.]|/[./]|[.][.]|@[{]|[.]lock(/|$)|[/.]$|^@$')`,message="must be a valid Git branch name such as main or feature/orders"
	// +optional
	Branch string `json:"branch,omitempty"`

	// path of the folder with the model inside the repository; its root when absent.
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=512
	// +kubebuilder:validation:XValidation:rule="!self.startsWith('/') && !self.split('/').exists(p, p == '..')",message="must be a path below the repository's root, without .."
	// +optional
	Path string `json:"path,omitempty"`

	// secretRef names a Secret in the same namespace: username and password, bearerToken,
	// or identity and known_hosts; ca.crt for a private certificate authority.
	// +optional
	SecretRef *LocalReference `json:"secretRef,omitempty"`

	// interval between two looks at the remote's branches; 1m when absent.
	// +kubebuilder:validation:XValidation:rule="duration(self) >= duration('1s') && duration(self) <= duration('24h')",message="interval must be between 1s and 24h"
	// +kubebuilder:validation:Pattern=`^([0-9]+(\.[0-9]+)?(ms|s|m|h))+$`
	// +kubebuilder:validation:MaxLength=32
	// +kubebuilder:validation:Type=string
	// +optional
	Interval *metav1.Duration `json:"interval,omitempty"`

	// webhookSecretRef names the Secret, in the same namespace, that the Git host signs its push
	// hooks with, at least 16 bytes; a hook has the branches read at once; no hook is taken when
	// absent.
	// +optional
	WebhookSecretRef *SecretKeyReference `json:"webhookSecretRef,omitempty"`
}

// ModelSource is where the data model comes from.
//
// +kubebuilder:validation:XValidation:rule="has(self.git) != has(self.configMapRef)",message="exactly one source of the model is needed: git or configMapRef"
type ModelSource struct {
	// git reads the model from a Git repository, at a commit.
	// +optional
	Git *GitSource `json:"git,omitempty"`

	// configMapRef names a ConfigMap in the same namespace whose keys are the model's files,
	// for small models without folders.
	// +optional
	ConfigMapRef *LocalReference `json:"configMapRef,omitempty"`
}

// EnvVarSource is where the value of a variable comes from.
type EnvVarSource struct {
	// secretKeyRef takes the value from a Secret in the same namespace.
	// +required
	SecretKeyRef SecretKeyReference `json:"secretKeyRef"`
}

// EnvVar is an environment variable of the data plane.
//
// +kubebuilder:validation:XValidation:rule="has(self.value) != has(self.valueFrom)",message="exactly one of value and valueFrom is needed"
type EnvVar struct {
	// name of the variable. Names that the platform itself sets are refused, see status.
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=256
	// +kubebuilder:validation:Pattern=`^[A-Za-z_][A-Za-z0-9_]*$`
	// +required
	Name string `json:"name"`

	// value of the variable. Keep secrets in a Secret and use valueFrom.
	// +kubebuilder:validation:MaxLength=32768
	// +optional
	Value *string `json:"value,omitempty"`

	// valueFrom takes the value from elsewhere.
	// +optional
	ValueFrom *EnvVarSource `json:"valueFrom,omitempty"`
}

// ResourceList gives quantities to resources such as cpu and memory.
// +kubebuilder:validation:MaxProperties=8
type ResourceList map[corev1.ResourceName]resource.Quantity

// Resources are the requests and limits of a container.
type Resources struct {
	// requests are what is set aside.
	// +optional
	Requests ResourceList `json:"requests,omitempty"`

	// limits are what may be used.
	// +optional
	Limits ResourceList `json:"limits,omitempty"`
}

// ComponentResources gives resources to the parts of an environment; the sizes that
// docs/kinds/deployment.md names when absent.
type ComponentResources struct {
	// api is the part that answers queries.
	// +optional
	API *Resources `json:"api,omitempty"`

	// refreshWorker is the part that builds pre-aggregations in the background.
	// +optional
	RefreshWorker *Resources `json:"refreshWorker,omitempty"`

	// storeRouter is the entry of the pre-aggregation store.
	// +optional
	StoreRouter *Resources `json:"storeRouter,omitempty"`

	// storeWorker is a worker of the pre-aggregation store.
	// +optional
	StoreWorker *Resources `json:"storeWorker,omitempty"`
}

// Store configures the pre-aggregation store of a Dedicated deployment.
//
// +kubebuilder:validation:XValidation:rule="!has(self.workers) || self.workers == 0 || has(self.remoteClaimRef) || (has(self.env) && self.env.size() > 0)",message="workers need a place they share: remoteClaimRef, or env with the settings of a bucket",fieldPath=".workers"
type Store struct {
	// workers is the number of store workers; 0 when absent: the router does all the work.
	// +kubebuilder:validation:Minimum=0
	// +kubebuilder:validation:Maximum=32
	// +optional
	Workers *int32 `json:"workers,omitempty"`

	// remoteClaimRef names a PersistentVolumeClaim that all parts of the store can mount
	// at once; it keeps the pre-aggregations.
	// +optional
	RemoteClaimRef *LocalReference `json:"remoteClaimRef,omitempty"`

	// env are settings of the store such as those of a bucket.
	// +listType=map
	// +listMapKey=name
	// +kubebuilder:validation:MaxItems=64
	// +optional
	Env []EnvVar `json:"env,omitempty"`
}

// DataAPI configures the address of the deployment's data API.
type DataAPI struct {
	// customDomain is a host of its own for the data API.
	// +optional
	CustomDomain Host `json:"customDomain,omitempty"`

	// basePath under which the data API is served; /cubejs-api when absent.
	// +kubebuilder:validation:MinLength=2
	// +kubebuilder:validation:MaxLength=128
	// +kubebuilder:validation:Pattern=`^(/[A-Za-z0-9._~-]+)+$`
	// +kubebuilder:validation:XValidation:rule="!self.split('/').exists(p, p == '.' || p == '..')",message="must not hold . or .. as a segment"
	// +optional
	BasePath string `json:"basePath,omitempty"`
}

// RolloutPolicy says how a new version is brought in.
type RolloutPolicy struct {
	// progressDeadlineSeconds is how long a rollout may take before the version before it
	// is put back; 600 when absent.
	// +kubebuilder:validation:Minimum=5
	// +kubebuilder:validation:Maximum=86400
	// +optional
	ProgressDeadlineSeconds *int32 `json:"progressDeadlineSeconds,omitempty"`
}

// OnDemandRole is the role of branches whose environments are woken by use.
// +kubebuilder:validation:Enum=shared;personal
type OnDemandRole string

// OnDemand describes environments that are woken by use and sleep when nobody uses them.
type OnDemand struct {
	// roles of the branches that have such an environment: shared ones a staging environment,
	// also without stagingEnvironmentEnabled, which keeps it awake; personal ones a development
	// environment.
	// +listType=set
	// +kubebuilder:validation:MinItems=1
	// +kubebuilder:validation:MaxItems=2
	// +required
	Roles []OnDemandRole `json:"roles"`

	// idleSeconds without use after which an environment sleeps; 1800 when absent. Use is noted
	// every five minutes, so it cannot be shorter than ten.
	// +kubebuilder:validation:Minimum=600
	// +kubebuilder:validation:Maximum=604800
	// +optional
	IdleSeconds *int32 `json:"idleSeconds,omitempty"`
}

// DeploymentSpec is what is wanted of an analytics deployment.
//
// +kubebuilder:validation:XValidation:rule="!has(self.onDemand) || has(self.model.git)",message="onDemand needs branches: model.git",fieldPath=".onDemand"
// +kubebuilder:validation:XValidation:rule="!has(self.store) || (has(self.size) && self.size == 'Dedicated')",message="store needs size: Dedicated",fieldPath=".store"
type DeploymentSpec struct {
	// displayName is the name shown to people, unique in the account; the object's name when absent.
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=128
	// +kubebuilder:validation:XValidation:rule="self == self.trim()",message="must not begin or end with white space"
	// +optional
	DisplayName string `json:"displayName,omitempty"`

	// releaseChannel is the name of the ReleaseChannel that the deployment follows.
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=63
	// +required
	ReleaseChannel string `json:"releaseChannel"`

	// releaseChannelVersion pins a version, written as 1.2.3, v1.2.3 or
	// <image repository>:v1.2.3. It stays until it is changed or, with hold: false, until
	// the channel moves.
	// +kubebuilder:validation:MinLength=5
	// +kubebuilder:validation:MaxLength=400
	// +kubebuilder:validation:XValidation:rule="self.matches('^([a-z0-9][-a-z0-9._:/]*:v|v)?(0|[1-9][0-9]*)[.](0|[1-9][0-9]*)[.](0|[1-9][0-9]*)(-[0-9A-Za-z-]+([.][0-9A-Za-z-]+)*)?$')",message="releaseChannelVersion must be written as 1.2.3, v1.2.3 or <image repository>:v1.2.3"
	// +optional
	ReleaseChannelVersion string `json:"releaseChannelVersion,omitempty"`

	// hold true keeps the version that runs, whatever the channel does; false lets the
	// channel move the deployment. When absent, a pinned version is held and anything else is not.
	// +optional
	Hold *bool `json:"hold,omitempty"`

	// upgradePolicy says which newer versions are taken; Latest when absent.
	// +optional
	UpgradePolicy UpgradePolicy `json:"upgradePolicy,omitempty"`

	// model is where the data model comes from.
	// +required
	Model ModelSource `json:"model"`

	// env are environment variables of the data plane, such as those of the data source.
	// +listType=map
	// +listMapKey=name
	// +kubebuilder:validation:MaxItems=256
	// +optional
	Env []EnvVar `json:"env,omitempty"`

	// envFrom names Secrets whose keys all become environment variables.
	// +listType=map
	// +listMapKey=name
	// +kubebuilder:validation:MaxItems=16
	// +optional
	EnvFrom []LocalReference `json:"envFrom,omitempty"`

	// imagePullSecrets are used by the pods to pull the image.
	// +listType=map
	// +listMapKey=name
	// +kubebuilder:validation:MaxItems=8
	// +optional
	ImagePullSecrets []LocalReference `json:"imagePullSecrets,omitempty"`

	// size says which parts production consists of; Shared when absent.
	// +optional
	Size Size `json:"size,omitempty"`

	// replicas is the number of API pods in production; 1 for Shared, 2 for Dedicated when absent.
	// +kubebuilder:validation:Minimum=0
	// +kubebuilder:validation:Maximum=100
	// +optional
	Replicas *int32 `json:"replicas,omitempty"`

	// resources of the parts.
	// +optional
	Resources *ComponentResources `json:"resources,omitempty"`

	// store configures the pre-aggregation store.
	// +optional
	Store *Store `json:"store,omitempty"`

	// dataAPI configures the address of the data API.
	// +optional
	DataAPI *DataAPI `json:"dataAPI,omitempty"`

	// rollout says how a new version is brought in.
	// +optional
	Rollout *RolloutPolicy `json:"rollout,omitempty"`

	// onDemand gives branches environments that are woken by use and sleep when nobody uses
	// them; no branch has one when absent.
	// +optional
	OnDemand *OnDemand `json:"onDemand,omitempty"`

	// suspend leaves everything as it is: nothing is changed until it is taken back.
	// +optional
	Suspend *bool `json:"suspend,omitempty"`
}

// VersionRun is a version that the deployment has run.
type VersionRun struct {
	// version is the number without a prefix.
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=128
	// +required
	Version string `json:"version"`

	// releaseChannel it came from.
	// +kubebuilder:validation:MaxLength=63
	// +optional
	ReleaseChannel string `json:"releaseChannel,omitempty"`

	// image is the reference with its tag: <repository>:v<version>.
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=400
	// +required
	Image string `json:"image"`

	// digest of the image.
	// +kubebuilder:validation:MaxLength=128
	// +optional
	Digest string `json:"digest,omitempty"`

	// storeImage that ran beside it, with its digest.
	// +kubebuilder:validation:MaxLength=512
	// +optional
	StoreImage string `json:"storeImage,omitempty"`

	// completionTime is when its rollout finished.
	// +optional
	CompletionTime metav1.Time `json:"completionTime,omitempty"`
}

// Pinned is the image with its digest, as far as it is known.
func (v VersionRun) Pinned() string {
	if v.Digest == "" {
		return v.Image
	}
	return v.Image + "@" + v.Digest
}

// RolloutStatus is a rollout that is under way.
type RolloutStatus struct {
	// to is the version being brought in.
	// +required
	To VersionRun `json:"to"`

	// startTime is when it began; absent while it waits for its turn.
	// +optional
	StartTime *metav1.Time `json:"startTime,omitempty"`
}

// FailedRollout is a version that did not become ready. It is not tried again until the
// spec or the channel changes.
type FailedRollout struct {
	// version that failed.
	// +required
	Version VersionRun `json:"version"`

	// generation of the spec with which it failed.
	// +required
	Generation int64 `json:"generation"`

	// reason is ModelBroken for a version that cannot compile the data model; absent for one that
	// missed its deadline.
	// +kubebuilder:validation:MaxLength=128
	// +optional
	Reason string `json:"reason,omitempty"`

	// message says what was wrong when it was given up.
	// +kubebuilder:validation:MaxLength=1024
	// +optional
	Message string `json:"message,omitempty"`

	// time of the failure.
	// +optional
	Time metav1.Time `json:"time,omitempty"`
}

// FailedModel is a commit of the data model that production could not serve. It is not tried
// again until the spec, the version or the commit changes.
type FailedModel struct {
	// commit that failed.
	// +kubebuilder:validation:MaxLength=64
	// +required
	Commit string `json:"commit"`

	// image with which it failed, with its digest.
	// +kubebuilder:validation:MaxLength=512
	// +required
	Image string `json:"image"`

	// generation of the spec with which it failed.
	// +required
	Generation int64 `json:"generation"`

	// reason of the failure: ModelBroken when it does not compile.
	// +kubebuilder:validation:MaxLength=128
	// +required
	Reason string `json:"reason"`

	// message says what was wrong; of a model that does not compile it is the compiler's.
	// +kubebuilder:validation:MaxLength=1024
	// +optional
	Message string `json:"message,omitempty"`

	// time of the failure.
	// +optional
	Time metav1.Time `json:"time,omitempty"`
}

// ObservedPin is the pin as it was first seen, and the newest version of the channel then.
type ObservedPin struct {
	// releaseChannelVersion as written in the spec.
	// +kubebuilder:validation:MaxLength=400
	// +required
	ReleaseChannelVersion string `json:"releaseChannelVersion"`

	// channelHead is the newest version of the channel when the pin was first seen.
	// +kubebuilder:validation:MaxLength=128
	// +optional
	ChannelHead string `json:"channelHead,omitempty"`
}

// DeploymentStatus is what is known of an analytics deployment.
type DeploymentStatus struct {
	CommonStatus `json:",inline"`

	// id is the deployment's number in its account.
	// +kubebuilder:validation:MaxLength=20
	// +optional
	ID string `json:"id,omitempty"`

	// url is the base address of the deployment's data API.
	// +kubebuilder:validation:MaxLength=1024
	// +optional
	URL string `json:"url,omitempty"`

	// currentVersion is what production runs: it changes when a rollout has finished.
	// +kubebuilder:validation:MaxLength=128
	// +optional
	CurrentVersion string `json:"currentVersion,omitempty"`

	// releaseChannelVersion is the image of the current version with its tag.
	// +kubebuilder:validation:MaxLength=400
	// +optional
	ReleaseChannelVersion string `json:"releaseChannelVersion,omitempty"`

	// currentImage is the image of the current version with its digest.
	// +kubebuilder:validation:MaxLength=512
	// +optional
	CurrentImage string `json:"currentImage,omitempty"`

	// targetVersion is the version that the spec and the channel ask for.
	// +kubebuilder:validation:MaxLength=128
	// +optional
	TargetVersion string `json:"targetVersion,omitempty"`

	// hold is the hold in effect.
	// +kubebuilder:default=false
	// +optional
	Hold bool `json:"hold,omitempty"`

	// pin is the pin as first seen.
	// +optional
	Pin *ObservedPin `json:"pin,omitempty"`

	// history holds the versions that production has run, newest first.
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=20
	// +optional
	History []VersionRun `json:"history,omitempty"`

	// rollout is the rollout under way.
	// +optional
	Rollout *RolloutStatus `json:"rollout,omitempty"`

	// failed is the last version that did not become ready, while it is still what is asked for.
	// +optional
	Failed *FailedRollout `json:"failed,omitempty"`

	// modelCommit is the commit of the data model that production last served, when the model is
	// in Git. It is what production goes back to when a newer one fails.
	// +kubebuilder:validation:MaxLength=64
	// +optional
	ModelCommit string `json:"modelCommit,omitempty"`

	// failedModel is the last commit that production could not serve, while it is still what the
	// branch points at.
	// +optional
	FailedModel *FailedModel `json:"failedModel,omitempty"`

	// lastHandledReconcileAt is the value of the annotation
	// platform.quoin.dev/reconcile-requested-at that was last dealt with: of a model in Git, the
	// repository has been read since.
	// +kubebuilder:validation:MaxLength=64
	// +optional
	LastHandledReconcileAt string `json:"lastHandledReconcileAt,omitempty"`

	// replicas is the number of API pods of production.
	// +optional
	Replicas int32 `json:"replicas,omitempty"`

	// readyReplicas is how many of them are ready.
	// +optional
	ReadyReplicas int32 `json:"readyReplicas,omitempty"`

	// selector of the API pods, for the scale subresource.
	// +kubebuilder:validation:MaxLength=512
	// +optional
	Selector string `json:"selector,omitempty"`
}

// Deployment is an analytics deployment that follows a release channel.
//
// +kubebuilder:object:root=true
// +kubebuilder:subresource:status
// +kubebuilder:subresource:scale:specpath=.spec.replicas,statuspath=.status.replicas,selectorpath=.status.selector
// +kubebuilder:resource:path=deployments,shortName=qdep,categories=quoin;all
// +kubebuilder:selectablefield:JSONPath=`.spec.displayName`
// +kubebuilder:selectablefield:JSONPath=`.spec.releaseChannel`
// +kubebuilder:printcolumn:name="ID",type=string,JSONPath=`.status.id`
// +kubebuilder:printcolumn:name="Channel",type=string,JSONPath=`.spec.releaseChannel`
// +kubebuilder:printcolumn:name="Version",type=string,JSONPath=`.status.currentVersion`
// +kubebuilder:printcolumn:name="Target",type=string,JSONPath=`.status.targetVersion`
// +kubebuilder:printcolumn:name="Hold",type=boolean,JSONPath=`.status.hold`
// +kubebuilder:printcolumn:name="Ready",type=string,JSONPath=`.status.conditions[?(@.type=="Ready")].status`
// +kubebuilder:printcolumn:name="Reason",type=string,JSONPath=`.status.conditions[?(@.type=="Ready")].reason`
// +kubebuilder:printcolumn:name="URL",type=string,JSONPath=`.status.url`,priority=1
// +kubebuilder:printcolumn:name="Message",type=string,JSONPath=`.status.conditions[?(@.type=="Ready")].message`,priority=1
// +kubebuilder:printcolumn:name="Age",type=date,JSONPath=`.metadata.creationTimestamp`
// +kubebuilder:validation:XValidation:rule="self.metadata.name.matches('^[a-z]([-a-z0-9]*[a-z0-9])?$') && self.metadata.name.size() <= 32",message="metadata.name must be 1 to 32 lower-case letters, digits and hyphens, beginning with a letter: it becomes a host name"
type Deployment struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`

	// spec is what is wanted.
	// +required
	Spec DeploymentSpec `json:"spec"`

	// status is what is.
	// +kubebuilder:default={"observedGeneration":-1}
	// +optional
	Status DeploymentStatus `json:"status,omitempty"`
}

// Common implements Object.
func (d *Deployment) Common() *CommonStatus { return &d.Status.CommonStatus }

// DisplayName is the name shown to people.
func (d *Deployment) DisplayName() string {
	if d.Spec.DisplayName != "" {
		return d.Spec.DisplayName
	}
	return d.Name
}

// DeploymentList is a list of Deployments.
//
// +kubebuilder:object:root=true
type DeploymentList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`
	Items           []Deployment `json:"items"`
}
