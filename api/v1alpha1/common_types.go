package v1alpha1

// LocalReference refers to an object in the same namespace.
type LocalReference struct {
	// name of the object.
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=253
	// +required
	Name string `json:"name"`
}

// SecretKeyReference refers to a key of a Secret in the same namespace.
type SecretKeyReference struct {
	// name of the Secret.
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=253
	// +required
	Name string `json:"name"`

	// key in the Secret's data.
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=253
	// +required
	Key string `json:"key"`
}

// Host is a host name in lower case with an optional port.
// +kubebuilder:validation:MinLength=1
// +kubebuilder:validation:MaxLength=259
// +kubebuilder:validation:XValidation:rule="self.matches('^[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?([.][a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?)*(:([1-9][0-9]{0,3}|[1-5][0-9]{4}|6[0-4][0-9]{3}|65[0-4][0-9]{2}|655[0-2][0-9]|6553[0-5]))?$')",message="must be a host name in lower case such as analytics.example.com, with an optional port such as :8443"
type Host string

// DomainName is a host name in lower case without a port.
// +kubebuilder:validation:MinLength=1
// +kubebuilder:validation:MaxLength=253
// +kubebuilder:validation:XValidation:rule="self.matches('^[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?([.][a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?)*$')",message="must be a domain name in lower case such as example.com"
type DomainName string

// EnvironmentType is the purpose of an environment.
// +kubebuilder:validation:Enum=production;staging;development
type EnvironmentType string

// The types of an environment.
const (
	// EnvironmentProduction serves the deployment's production branch.
	EnvironmentProduction EnvironmentType = "production"
	// EnvironmentStaging serves a shared branch.
	EnvironmentStaging EnvironmentType = "staging"
	// EnvironmentDevelopment serves one user's personal branch.
	EnvironmentDevelopment EnvironmentType = "development"
)

// Labels and annotations that the controllers write. They are part of the API.
const (
	// LabelID is the number of an object in its account: decimal digits, ascending, never reused. It
	// is stored before the number is returned anywhere. A label survives backup and restore; status
	// may not.
	LabelID = Group + "/id"
	// LabelDeployment names the Deployment that an object belongs to.
	LabelDeployment = Group + "/deployment"
	// LabelEnvironment names the Environment that a workload object belongs to.
	LabelEnvironment = Group + "/environment"
	// LabelBranch names the Branch object that an object belongs to. A name of more than 63 characters is
	// shortened, and ends in a hash.
	LabelBranch = Group + "/branch"
	// LabelRemote is "true" on Branches that follow a ref of the remote repository: the Deployment
	// controller creates them, and deletes them when the ref is deleted.
	LabelRemote = Group + "/from-remote"

	// LabelWarmUp, on API pods that compile the data model before they are ready, is the hash of the
	// inputs that they were rendered from. It distinguishes current pods from outdated ones.
	LabelWarmUp = Group + "/warm-up"

	// AnnotationIssuedIDs, on Accounts, is the ledger of issued numbers, such as
	// "deployments=12,environments=30,branches=7". It is an annotation because it must survive a
	// restore without status.
	AnnotationIssuedIDs = Group + "/issued-ids"
	// AnnotationEnvironmentID, on Deployments and Branches, is the number of their Environment. It
	// stays the same when the Environment is deleted and created again.
	AnnotationEnvironmentID = Group + "/environment-id"
	// AnnotationCommit, on Branches, is the commit that the remote's ref points at, or CommitMissing
	// if the remote has no such ref.
	AnnotationCommit = Group + "/remote-commit"
	// CommitMissing is the value of AnnotationCommit if the remote repository has no such branch.
	CommitMissing = "missing"
	// AnnotationSource, on Branches and Environments, is the URL of the repository that has their commit, or the path of
	// one that Quoin keeps.
	AnnotationSource = Group + "/source-url"
	// AnnotationReconcile triggers a reconciliation when its value changes.
	AnnotationReconcile = Group + "/reconcile-requested-at"
	// AnnotationRetry, on Deployments, retries a version or commit that failed when its value changes.
	AnnotationRetry = Group + "/retry-requested-at"
	// AnnotationWakeRequested, on Environments, is the time (RFC 3339) of the gateway's last request
	// to wake the environment.
	AnnotationWakeRequested = Group + "/wake-requested-at"
	// AnnotationLastUsed, on staging and development Environments, is the time (RFC 3339) of the last
	// request that the gateway forwarded. It lags by up to 5 minutes.
	AnnotationLastUsed = Group + "/last-used-at"
	// AnnotationRollout, on production Environments, is the rollout that began with the version of the spec: a
	// RolloutStatus in JSON. It counts until the status of the Deployment has the rollout or its result.
	AnnotationRollout = Group + "/rollout"
	// AnnotationUsed, on ScimMemberChunks, is the time of the last write that referred to the chunk. A
	// new value protects it from collection as unused; see controllers/scimgroup.
	AnnotationUsed = Group + "/used-at"
	// AnnotationModified, on ScimUsers and ScimGroups, is the generation that was written over SCIM last, and
	// the time of that write in milliseconds (RFC 3339). See internal/lastmodified.
	AnnotationModified = Group + "/modified-at"
	// AnnotationAdminConfirmed, on ScimUsers with spec.admin, is the time (RFC 3339) at which a request over REST
	// relied on this administrator to remove another one. Writing it makes a concurrent removal of this one
	// conflict; see apiserver/directory.
	AnnotationAdminConfirmed = Group + "/admin-confirmed-at"
	// AnnotationCreationStep, AnnotationCreationMethod, AnnotationDeployMode and AnnotationTargetPlatform, on Deployments,
	// are values of REST clients, which Quoin stores and returns.
	AnnotationCreationStep   = Group + "/creation-step"
	AnnotationCreationMethod = Group + "/creation-method"
	AnnotationDeployMode     = Group + "/deploy-mode"
	AnnotationTargetPlatform = Group + "/target-platform"
	// AnnotationSyncJobID, on DbtSyncs that were started over REST, is their syncJobId.
	AnnotationSyncJobID = Group + "/sync-job-id"
	// AnnotationInputs, on workload objects, is the hash of the inputs that they were rendered from.
	AnnotationInputs = Group + "/inputs-hash"
	// AnnotationRevision, on workload objects, is the revision of the renderer.
	AnnotationRevision = Group + "/renderer-revision"

	// FinalizerAccount delays the deletion of an Account until its objects are deleted.
	FinalizerAccount = Group + "/account-teardown"
	// FinalizerContent delays the deletion of a Workbook or a Folder until its content is deleted or released.
	FinalizerContent = Group + "/content"
)
