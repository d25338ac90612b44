package v1alpha1

import (
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// UpgradePolicy restricts the versions of the channel that a deployment upgrades to automatically.
// +kubebuilder:validation:Enum=Latest;Minor;Patch
type UpgradePolicy string

// The upgrade policies.
const (
	// UpgradeLatest upgrades to the newest version of the channel. It is the default.
	UpgradeLatest UpgradePolicy = "Latest"
	// UpgradeMinor upgrades to the newest version with the same major number.
	UpgradeMinor UpgradePolicy = "Minor"
	// UpgradePatch upgrades to the newest version with the same major and minor number.
	UpgradePatch UpgradePolicy = "Patch"
)

// Size selects the components of a production environment.
// +kubebuilder:validation:Enum=Shared;Dedicated
type Size string

// The sizes.
const (
	// SizeShared runs API pods only; they keep the cache in memory.
	SizeShared Size = "Shared"
	// SizeDedicated adds a refresh worker and a pre-aggregation store.
	SizeDedicated Size = "Dedicated"
)

// GitSource is a data model in a Git repository.
//
// +kubebuilder:validation:XValidation:rule="!has(self.githubInstallationId) || has(self.secretRef)",message="githubInstallationId requires secretRef, the Secret in which the token is stored",fieldPath=".githubInstallationId"
type GitSource struct {
	// url of the repository: https:// or ssh://, without password. http:// requires the controller
	// flag --allow-insecure-git.
	// +kubebuilder:validation:MinLength=9
	// +kubebuilder:validation:MaxLength=1024
	// +kubebuilder:validation:XValidation:rule="self.matches('^(https|http|ssh)://[^ @/?#]+(@[^ @/?#]+)?/[^ ?#]+$')",message="must be a URL such as https://git.example.com/team/model.git or ssh://git@git.example.com/team/model.git"
	// +kubebuilder:validation:XValidation:rule=`isURL(self)`,message="must be a valid URL: check the port and the percent-encoding"
	// +kubebuilder:validation:XValidation:rule=`!self.matches(r'[\p{Cc}\p{Z}]|%([01][0-9A-Fa-f]|7[Ff])')`,message="must not contain white space or control characters"
	// +kubebuilder:validation:XValidation:rule="!self.matches('^(https?://[^/]*@|ssh://[^/@]*:[^/@]*@)')",message="must not contain a password, or a user name unless the scheme is ssh: store them in a Secret and set secretRef"
	// +required
	URL string `json:"url"`

	// branch that production serves; the remote's default branch when absent.
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=244
	// +kubebuilder:validation:XValidation:rule=`!self.matches(r'[[:cntrl:] ~^:?*\[\\]|^[/.]|/[./]|[.][.]|@[{]|[.]lock(/|$)|[/.]$|^@$')`,message="must be a valid Git branch name such as main or feature/orders"
	// +optional
	Branch string `json:"branch,omitempty"`

	// path of the directory with the model in the repository; its root when absent. A directory that has
	// cube.js, cube.py, cube.ts or docker-compose.yml beside a directory model is a project: that directory is the
	// model, and the project is the working directory of the server, which reads its configuration from it.
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=512
	// +kubebuilder:validation:Pattern=`^[^\x00-\x1f\x7f]*$`
	// +kubebuilder:validation:XValidation:rule="!self.startsWith('/') && !self.split('/').exists(p, p == '..')",message="must be a relative path in the repository, without .."
	// +optional
	Path string `json:"path,omitempty"`

	// secretRef names a Secret in the same namespace with the keys username and password, bearerToken,
	// or identity and known_hosts, and ca.crt for a private certificate authority.
	// +optional
	SecretRef *LocalReference `json:"secretRef,omitempty"`

	// githubInstallationId is the id of an installation of Quoin's GitHub App that has access to the
	// repository. quoin apiserver stores tokens of it in the Secret of secretRef, and renews them. The
	// Account must list the installation.
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=9007199254740991
	// +optional
	GitHubInstallationID *int64 `json:"githubInstallationId,omitempty"`

	// interval at which the branches of the remote are polled; 1m when absent.
	// +kubebuilder:validation:XValidation:rule="duration(self) >= duration('1s') && duration(self) <= duration('24h')",message="interval must be between 1s and 24h"
	// +kubebuilder:validation:Pattern=`^([0-9]+(\.[0-9]+)?(ms|s|m|h))+$`
	// +kubebuilder:validation:MaxLength=32
	// +kubebuilder:validation:Type=string
	// +optional
	Interval *metav1.Duration `json:"interval,omitempty"`

	// webhookSecretRef names the Secret with which the Git host signs push webhooks, at least 16 bytes.
	// A webhook triggers an immediate poll. Webhooks are rejected when absent.
	// +optional
	WebhookSecretRef *SecretKeyReference `json:"webhookSecretRef,omitempty"`
}

// DefaultBranch is the branch that production serves if a RepositorySource has none.
const DefaultBranch = "main"

// RepositorySource is a data model in a Git repository that Quoin keeps for the deployment.
type RepositorySource struct {
	// branch that production serves, and that clients clone; main when absent.
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=244
	// +kubebuilder:validation:XValidation:rule=`!self.matches(r'[[:cntrl:] ~^:?*\[\\]|^[/.]|/[./]|[.][.]|@[{]|[.]lock(/|$)|[/.]$|^@$')`,message="must be a valid Git branch name such as main or feature/orders"
	// +optional
	Branch string `json:"branch,omitempty"`

	// path of the directory with the model in the repository; its root when absent. A directory that has
	// cube.js, cube.py, cube.ts or docker-compose.yml beside a directory model is a project: that directory is the
	// model, and the project is the working directory of the server, which reads its configuration from it.
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=512
	// +kubebuilder:validation:Pattern=`^[^\x00-\x1f\x7f]*$`
	// +kubebuilder:validation:XValidation:rule="!self.startsWith('/') && !self.split('/').exists(p, p == '..')",message="must be a relative path in the repository, without .."
	// +optional
	Path string `json:"path,omitempty"`
}

// BranchName returns the branch that production serves.
func (s *RepositorySource) BranchName() string {
	if s.Branch != "" {
		return s.Branch
	}
	return DefaultBranch
}

// ModelSource is the source of the data model.
//
// +kubebuilder:validation:XValidation:rule="[has(self.git), has(self.repository), has(self.configMapRef)].exists_one(set, set)",message="must set exactly one of git, repository and configMapRef"
type ModelSource struct {
	// git is a model in a Git repository.
	// +optional
	Git *GitSource `json:"git,omitempty"`

	// repository is a model in a Git repository that Quoin keeps: clients push to it over HTTPS, or change
	// its files over REST.
	// +optional
	Repository *RepositorySource `json:"repository,omitempty"`

	// configMapRef names a ConfigMap in the same namespace whose keys are the files of the model, for
	// small models without directories.
	// +optional
	ConfigMapRef *LocalReference `json:"configMapRef,omitempty"`
}

// EnvVarSource is the source of the value of a variable.
type EnvVarSource struct {
	// secretKeyRef selects a key of a Secret in the same namespace.
	// +required
	SecretKeyRef SecretKeyReference `json:"secretKeyRef"`
}

// EnvVar is an environment variable of the data plane.
//
// +kubebuilder:validation:XValidation:rule="has(self.value) != has(self.valueFrom)",message="must set exactly one of value and valueFrom"
type EnvVar struct {
	// name of the variable. Names that Quoin sets are rejected, see the conditions.
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=256
	// +kubebuilder:validation:Pattern=`^[A-Za-z_][A-Za-z0-9_]*$`
	// +required
	Name string `json:"name"`

	// value of the variable, without the character NUL, which no process can receive. Use valueFrom for
	// secrets.
	// +kubebuilder:validation:MaxLength=32768
	// +kubebuilder:validation:Pattern=`^[^\x00]*$`
	// +optional
	Value *string `json:"value,omitempty"`

	// valueFrom is the source of the value.
	// +optional
	ValueFrom *EnvVarSource `json:"valueFrom,omitempty"`
}

// ResourceList is a set of quantities of resources such as cpu and memory.
// +kubebuilder:validation:MaxProperties=8
type ResourceList map[corev1.ResourceName]resource.Quantity

// Resources are the requests and limits of a container.
type Resources struct {
	// requests are the reserved resources.
	// +optional
	Requests ResourceList `json:"requests,omitempty"`

	// limits are the maximum resources.
	// +optional
	Limits ResourceList `json:"limits,omitempty"`
}

// ComponentResources are the resources of the components of an environment; those in
// docs/kinds/deployment.md when absent.
type ComponentResources struct {
	// api pods answer queries.
	// +optional
	API *Resources `json:"api,omitempty"`

	// refreshWorker builds pre-aggregations in the background.
	// +optional
	RefreshWorker *Resources `json:"refreshWorker,omitempty"`

	// storeRouter is the router of the pre-aggregation store.
	// +optional
	StoreRouter *Resources `json:"storeRouter,omitempty"`

	// storeWorker is a worker of the pre-aggregation store.
	// +optional
	StoreWorker *Resources `json:"storeWorker,omitempty"`
}

// Store configures the pre-aggregation store of a Dedicated deployment.
//
// +kubebuilder:validation:XValidation:rule="!has(self.workers) || self.workers == 0 || has(self.remoteClaimRef) || (has(self.env) && self.env.size() > 0)",message="workers require shared storage: remoteClaimRef, or env with the settings of a bucket",fieldPath=".workers"
type Store struct {
	// workers is the number of store workers; 0 when absent: the router does all work.
	// +kubebuilder:validation:Minimum=0
	// +kubebuilder:validation:Maximum=32
	// +optional
	Workers *int32 `json:"workers,omitempty"`

	// remoteClaimRef names a ReadWriteMany PersistentVolumeClaim in which the store keeps
	// pre-aggregations.
	// +optional
	RemoteClaimRef *LocalReference `json:"remoteClaimRef,omitempty"`

	// env are environment variables of the store, such as the settings of a bucket.
	// +listType=map
	// +listMapKey=name
	// +kubebuilder:validation:MaxItems=64
	// +optional
	Env []EnvVar `json:"env,omitempty"`
}

// DataAPI configures the address of the deployment's data API.
type DataAPI struct {
	// customDomain is an additional host of the data API. No other deployment or account of the cluster
	// may have it; status.customDomain shows whether this deployment holds it.
	// +optional
	CustomDomain Host `json:"customDomain,omitempty"`

	// basePath is the path prefix of the data API; /cubejs-api when absent.
	// +kubebuilder:validation:MinLength=2
	// +kubebuilder:validation:MaxLength=128
	// +kubebuilder:validation:Pattern=`^(/[A-Za-z0-9._~-]+)+$`
	// +kubebuilder:validation:XValidation:rule="!self.split('/').exists(p, p == '.' || p == '..')",message="must not contain the segments . and .."
	// +optional
	BasePath string `json:"basePath,omitempty"`
}

// RolloutPolicy configures rollouts.
type RolloutPolicy struct {
	// progressDeadlineSeconds is the time after which a rollout that is not complete is rolled back;
	// 600 when absent.
	// +kubebuilder:validation:Minimum=5
	// +kubebuilder:validation:Maximum=86400
	// +optional
	ProgressDeadlineSeconds *int32 `json:"progressDeadlineSeconds,omitempty"`
}

// OnDemandRole is the role of a branch with an environment that wakes on use.
// +kubebuilder:validation:Enum=shared;personal
type OnDemandRole string

// OnDemand configures environments that wake on use and sleep when idle.
type OnDemand struct {
	// roles of the branches that have such an environment: a staging environment for shared branches,
	// unless stagingEnvironmentEnabled keeps one active; a development environment for personal
	// branches.
	// +listType=set
	// +kubebuilder:validation:MinItems=1
	// +kubebuilder:validation:MaxItems=2
	// +required
	Roles []OnDemandRole `json:"roles"`

	// idleSeconds is the time without use after which an environment sleeps; 1800 when absent. Use is
	// recorded every five minutes, so the minimum is 600.
	// +kubebuilder:validation:Minimum=600
	// +kubebuilder:validation:Maximum=604800
	// +optional
	IdleSeconds *int32 `json:"idleSeconds,omitempty"`
}

// DeploymentSpec is the desired state of a Deployment.
//
// +kubebuilder:validation:XValidation:rule="!has(self.onDemand) || has(self.model.git) || has(self.model.repository)",message="onDemand requires model.git or model.repository",fieldPath=".onDemand"
// +kubebuilder:validation:XValidation:rule="!has(self.store) || (has(self.size) && self.size == 'Dedicated')",message="store requires size: Dedicated",fieldPath=".store"
type DeploymentSpec struct {
	// displayName is the name in user interfaces, unique in the account; the object's name when absent.
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=128
	// +kubebuilder:validation:XValidation:rule="self == self.trim()",message="must not begin or end with white space"
	// +kubebuilder:validation:XValidation:rule=`!self.matches(r'[\p{Cc}\x{2028}\x{2029}\x{061C}\x{200E}\x{200F}\x{202A}-\x{202E}\x{2066}-\x{2069}]')`,message="must not contain control characters, line separators or bidirectional formatting characters"
	// +optional
	DisplayName string `json:"displayName,omitempty"`

	// releaseChannel is the name of the ReleaseChannel that the deployment follows.
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=63
	// +required
	ReleaseChannel string `json:"releaseChannel"`

	// releaseChannelVersion pins a version, written as 1.2.3, v1.2.3 or <image repository>:v1.2.3.
	// The pin applies until it is changed or, with hold: false, until the channel has a newer version.
	// +kubebuilder:validation:MinLength=5
	// +kubebuilder:validation:MaxLength=400
	// +kubebuilder:validation:XValidation:rule="self.matches('^([a-z0-9][-a-z0-9._:/]*:v|v)?(0|[1-9][0-9]*)[.](0|[1-9][0-9]*)[.](0|[1-9][0-9]*)(-[0-9A-Za-z-]+([.][0-9A-Za-z-]+)*)?$')",message="releaseChannelVersion must be written as 1.2.3, v1.2.3 or <image repository>:v1.2.3"
	// +optional
	ReleaseChannelVersion string `json:"releaseChannelVersion,omitempty"`

	// hold disables automatic upgrades if true and enables them if false. When absent, a pinned version
	// is held and other versions are not.
	// +optional
	Hold *bool `json:"hold,omitempty"`

	// upgradePolicy restricts automatic upgrades; Latest when absent.
	// +optional
	UpgradePolicy UpgradePolicy `json:"upgradePolicy,omitempty"`

	// model is the source of the data model.
	// +required
	Model ModelSource `json:"model"`

	// env are environment variables of the data plane, such as those of the data source.
	// +listType=map
	// +listMapKey=name
	// +kubebuilder:validation:MaxItems=256
	// +optional
	Env []EnvVar `json:"env,omitempty"`

	// envFrom names Secrets whose keys become environment variables of the data plane.
	// +listType=map
	// +listMapKey=name
	// +kubebuilder:validation:MaxItems=16
	// +optional
	EnvFrom []LocalReference `json:"envFrom,omitempty"`

	// imagePullSecrets are the pull secrets of the pods.
	// +listType=map
	// +listMapKey=name
	// +kubebuilder:validation:MaxItems=8
	// +optional
	ImagePullSecrets []LocalReference `json:"imagePullSecrets,omitempty"`

	// size selects the components of production; Shared when absent.
	// +optional
	Size Size `json:"size,omitempty"`

	// replicas is the number of API pods in production; 1 for Shared, 2 for Dedicated when absent.
	// +kubebuilder:validation:Minimum=0
	// +kubebuilder:validation:Maximum=100
	// +optional
	Replicas *int32 `json:"replicas,omitempty"`

	// resources of the components.
	// +optional
	Resources *ComponentResources `json:"resources,omitempty"`

	// store configures the pre-aggregation store.
	// +optional
	Store *Store `json:"store,omitempty"`

	// dataAPI configures the address of the data API.
	// +optional
	DataAPI *DataAPI `json:"dataAPI,omitempty"`

	// rollout configures rollouts.
	// +optional
	Rollout *RolloutPolicy `json:"rollout,omitempty"`

	// onDemand creates environments for branches that wake on use and sleep when idle; none when
	// absent.
	// +optional
	OnDemand *OnDemand `json:"onDemand,omitempty"`

	// oauthIntegrations are the OAuthIntegrations whose access tokens data tokens of people have, if the person has
	// authorized them. Of several with the same type, the first one applies.
	// +listType=map
	// +listMapKey=name
	// +kubebuilder:validation:MaxItems=16
	// +optional
	OAuthIntegrations []LocalReference `json:"oauthIntegrations,omitempty"`

	// dbt has the settings of dbt syncs with source git that are started over REST.
	// +optional
	Dbt *DbtSettings `json:"dbt,omitempty"`

	// suspend stops reconciliation of the deployment.
	// +optional
	Suspend *bool `json:"suspend,omitempty"`
}

// VersionRun is a version that production has run.
type VersionRun struct {
	// version without a prefix.
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=128
	// +required
	Version string `json:"version"`

	// releaseChannel that offered the version.
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

	// storeImage is the image of the pre-aggregation store that ran with it, with its digest.
	// +kubebuilder:validation:MaxLength=512
	// +optional
	StoreImage string `json:"storeImage,omitempty"`

	// completionTime of the rollout.
	// +optional
	CompletionTime metav1.Time `json:"completionTime,omitempty"`
}

// Pinned returns the image with its digest, or with its tag only if the digest is unknown.
func (v VersionRun) Pinned() string {
	if v.Digest == "" {
		return v.Image
	}
	return v.Image + "@" + v.Digest
}

// RolloutStatus is a rollout in progress.
type RolloutStatus struct {
	// to is the version that is being rolled out.
	// +required
	To VersionRun `json:"to"`

	// startTime of the rollout; absent while it waits for a rollout slot.
	// +optional
	StartTime *metav1.Time `json:"startTime,omitempty"`
}

// FailedRollout is a version that did not become ready. It is not retried until the version, the
// model, the variables or the resources change, or a retry is requested.
type FailedRollout struct {
	// version that failed.
	// +required
	Version VersionRun `json:"version"`

	// generation of the spec at the time of the failure.
	// +required
	Generation int64 `json:"generation"`

	// attemptHash is a hash of what decided the outcome: the model, the variables, the size, the
	// store, the resources, the pull secrets, the deadline and the last requested retry. The same
	// attempt is not repeated.
	// +kubebuilder:validation:MaxLength=64
	// +optional
	AttemptHash string `json:"attemptHash,omitempty"`

	// reason is ModelBroken if the version cannot compile the data model; absent if the rollout missed
	// its deadline.
	// +kubebuilder:validation:MaxLength=128
	// +optional
	Reason string `json:"reason,omitempty"`

	// message describes the failure.
	// +kubebuilder:validation:MaxLength=1024
	// +optional
	Message string `json:"message,omitempty"`

	// time of the failure.
	// +optional
	Time metav1.Time `json:"time,omitempty"`
}

// FailedVersion is a version that did not become ready and has not run since.
type FailedVersion struct {
	// version without a prefix.
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=128
	// +required
	Version string `json:"version"`

	// image of the version, with its digest.
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=512
	// +required
	Image string `json:"image"`

	// message describes the failure.
	// +kubebuilder:validation:MaxLength=1024
	// +optional
	Message string `json:"message,omitempty"`

	// time of the failure.
	// +optional
	Time metav1.Time `json:"time,omitempty"`
}

// FailedModel is a commit of the data model that production could not serve. It is not retried until
// the version, the commit, the variables or the resources change, or a retry is requested.
type FailedModel struct {
	// commit that failed.
	// +kubebuilder:validation:MaxLength=64
	// +required
	Commit string `json:"commit"`

	// image that could not serve it, with its digest.
	// +kubebuilder:validation:MaxLength=512
	// +required
	Image string `json:"image"`

	// generation of the spec at the time of the failure.
	// +required
	Generation int64 `json:"generation"`

	// attemptHash is a hash of what decided the outcome: the model, the variables, the size, the
	// store, the resources, the pull secrets, the deadline and the last requested retry. The same
	// attempt is not repeated.
	// +kubebuilder:validation:MaxLength=64
	// +optional
	AttemptHash string `json:"attemptHash,omitempty"`

	// reason of the failure: ModelBroken if the model does not compile.
	// +kubebuilder:validation:MaxLength=128
	// +required
	Reason string `json:"reason"`

	// message describes the failure: the compiler's message if the model does not compile.
	// +kubebuilder:validation:MaxLength=1024
	// +optional
	Message string `json:"message,omitempty"`

	// time of the failure.
	// +optional
	Time metav1.Time `json:"time,omitempty"`
}

// ObservedPin is the pin and the newest version of the channel at the time the pin was observed.
type ObservedPin struct {
	// releaseChannelVersion as in the spec.
	// +kubebuilder:validation:MaxLength=400
	// +required
	ReleaseChannelVersion string `json:"releaseChannelVersion"`

	// channelHead is the newest version of the channel at that time.
	// +kubebuilder:validation:MaxLength=128
	// +optional
	ChannelHead string `json:"channelHead,omitempty"`
}

// DeploymentStatus is the observed state of a Deployment.
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

	// customDomain is the custom domain that the deployment holds, without a port. It is served while it
	// is that of the spec.
	// +kubebuilder:validation:MaxLength=253
	// +optional
	CustomDomain string `json:"customDomain,omitempty"`

	// currentVersion is the version that production runs. It changes when a rollout is complete.
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

	// targetVersion is the version that spec and channel select.
	// +kubebuilder:validation:MaxLength=128
	// +optional
	TargetVersion string `json:"targetVersion,omitempty"`

	// hold reports whether automatic upgrades are disabled.
	// +kubebuilder:default=false
	// +optional
	Hold bool `json:"hold,omitempty"`

	// pin is the observed pin.
	// +optional
	Pin *ObservedPin `json:"pin,omitempty"`

	// history lists the versions that production has run, newest first.
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=20
	// +optional
	History []VersionRun `json:"history,omitempty"`

	// rollout is the rollout in progress.
	// +optional
	Rollout *RolloutStatus `json:"rollout,omitempty"`

	// failed is the last version that did not become ready, while it is still the target.
	// +optional
	Failed *FailedRollout `json:"failed,omitempty"`

	// failures lists the versions that did not become ready and have not run since, newest first. The
	// channel stops a version that fails on too many deployments.
	// +listType=map
	// +listMapKey=image
	// +kubebuilder:validation:MaxItems=10
	// +optional
	Failures []FailedVersion `json:"failures,omitempty"`

	// modelCommit is the last commit of a data model in Git that production served. Production is
	// rolled back to it if a newer one fails.
	// +kubebuilder:validation:MaxLength=64
	// +optional
	ModelCommit string `json:"modelCommit,omitempty"`

	// failedModel is the last commit that production could not serve, while it is still the head of
	// the branch.
	// +optional
	FailedModel *FailedModel `json:"failedModel,omitempty"`

	// lastHandledReconcileAt is the last value of the annotation
	// platform.quoin.dev/reconcile-requested-at that was handled. A Git repository has been polled
	// since.
	// +kubebuilder:validation:MaxLength=64
	// +optional
	LastHandledReconcileAt string `json:"lastHandledReconcileAt,omitempty"`

	// replicas is the number of API pods of production.
	// +optional
	Replicas int32 `json:"replicas,omitempty"`

	// readyReplicas is the number of ready API pods.
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

	// spec is the desired state.
	// +required
	Spec DeploymentSpec `json:"spec"`

	// status is the observed state.
	// +kubebuilder:default={"observedGeneration":-1}
	// +optional
	Status DeploymentStatus `json:"status,omitempty"`
}

// Common implements Object.
func (d *Deployment) Common() *CommonStatus { return &d.Status.CommonStatus }

// IsReferredToBy reports whether a reference by name or by id is one to the deployment.
func (d *Deployment) IsReferredToBy(reference string) bool {
	if IsDeploymentID(reference) {
		return d.Labels[LabelID] == reference
	}
	return d.Name == reference
}

// IsDeploymentID reports whether a reference to a deployment is an id and not a name, which begins with a letter.
func IsDeploymentID(reference string) bool {
	return reference != "" && reference[0] >= '0' && reference[0] <= '9'
}

// DisplayName returns spec.displayName, or the object's name if it is empty.
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
