package v1alpha1

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
)

// Condition types. Ready is present after the first reconciliation. Reconciling and Stalled are
// present only while True, and never both (kstatus).
const (
	// ConditionReady is True when the object's spec is fully in effect.
	ConditionReady = "Ready"
	// ConditionReconciling is True while the controller works towards the spec and
	// needs no action by a user.
	ConditionReconciling = "Reconciling"
	// ConditionStalled is True when the spec cannot take effect without a change by a user; reason and
	// message describe it.
	ConditionStalled = "Stalled"
	// ConditionAvailable is True while at least one API pod is ready, whatever its version.
	ConditionAvailable = "Available"
	// ConditionMembersFound is True while every member of a group exists. It does not affect Ready:
	// members that do not exist yet are ignored.
	ConditionMembersFound = "MembersFound"
	// ConditionMembersRemoved is True while a SCIM client has removed members that spec.members of the
	// group lists. It is present only while True.
	ConditionMembersRemoved = "MembersRemoved"
	// ConditionDeprovisioned is True while a SCIM client has deactivated the user. It is present only
	// while True.
	ConditionDeprovisioned = "Deprovisioned"
	// ConditionVersionStopped is True while the newest version of a channel is stopped, and otherwise
	// absent. It does not affect Ready.
	ConditionVersionStopped = "VersionStopped"
	// ConditionDrifted is True while a workbook contains reports that its definition does not have. It is present
	// only while True, and does not affect Ready.
	ConditionDrifted = "Drifted"
	// ConditionReachable is True while the server of a model endpoint answers with the API key, and Unknown if it is
	// not probed. It does not affect Ready.
	ConditionReachable = "Reachable"
)

// ConditionFilesRead is True while the files of the data model that configure an agent have no errors, and Unknown while they cannot
// be read. It does not affect Ready: what has an error is left out.
const ConditionFilesRead = "FilesRead"

// PodModelCompiled is the readiness gate of API pods: True once the pod has compiled its data
// model. A pod that cannot compile it receives no requests and does not replace a ready pod.
const PodModelCompiled = Group + "/model-compiled"

// Reasons of conditions and events. They are part of the API.
const (
	// ReasonSucceeded: the spec is in effect.
	ReasonSucceeded = "Succeeded"
	// ReasonProgressing: reconciliation is in progress.
	ReasonProgressing = "Progressing"
	// ReasonSuspended: reconciliation is suspended by spec.suspend, or an agent by spec.suspended.
	ReasonSuspended = "Suspended"
	// ReasonError: an API call or another dependency failed; the controller retries.
	ReasonError = "ReconcileError"

	// ReasonNamespaceNotFound: the account's namespace does not exist.
	ReasonNamespaceNotFound = "NamespaceNotFound"
	// ReasonNamespaceTaken: an older account uses the same namespace.
	ReasonNamespaceTaken = "NamespaceTaken"
	// ReasonNamespaceReserved: the namespace is that of Quoin itself.
	ReasonNamespaceReserved = "NamespaceReserved"
	// ReasonNamespaceNotWatched: Quoin is restricted to other namespaces.
	ReasonNamespaceNotWatched = "NamespaceNotWatched"
	// ReasonHostTaken: another account or deployment holds the host, or it is below the data domain of
	// another account.
	ReasonHostTaken = "HostTaken"
	// ReasonDomainNotAllowed: the account's domainSuffixes do not allow the custom domain.
	ReasonDomainNotAllowed = "DomainNotAllowed"
	// ReasonTerminating: the account's objects are being deleted.
	ReasonTerminating = "Terminating"

	// ReasonScanFailed: scanning the registry failed; the last list, if any, is kept.
	ReasonScanFailed = "ScanFailed"
	// ReasonStoreScanFailed: scanning the registry for images of the store failed; all versions are known.
	ReasonStoreScanFailed = "StoreScanFailed"
	// ReasonNoVersions: no tag of the repository satisfies the version policy.
	ReasonNoVersions = "NoVersions"
	// ReasonInvalidPolicy: the version policy cannot be parsed.
	ReasonInvalidPolicy = "InvalidPolicy"
	// ReasonPullSecretUnreadable: the pull secret is missing or malformed, or reading it is forbidden.
	ReasonPullSecretUnreadable = "PullSecretUnreadable"
	// ReasonDigestChanged: a tag was moved to other content; the first digest is kept.
	ReasonDigestChanged = "DigestChanged"

	// ReasonTooManyFailures: a version failed on too many of the first deployments that tried it.
	ReasonTooManyFailures = "TooManyFailures"
	// ReasonVersionStopped: the channel has stopped the version that would be the next.
	ReasonVersionStopped = "VersionStopped"
	// ReasonVersionResumed: a stopped version was resumed.
	ReasonVersionResumed = "VersionResumed"

	// ReasonAccountNotFound: no account uses the object's namespace.
	ReasonAccountNotFound = "AccountNotFound"
	// ReasonNameTaken: another object of the account holds the same unique name.
	ReasonNameTaken = "NameTaken"
	// ReasonChannelNotFound: the release channel does not exist.
	ReasonChannelNotFound = "ReleaseChannelNotFound"
	// ReasonChannelEmpty: the release channel has no version yet.
	ReasonChannelEmpty = "ReleaseChannelEmpty"
	// ReasonUnknownVersion: releaseChannelVersion is not one of the allowed versions.
	ReasonUnknownVersion = "UnknownVersion"
	// ReasonStoreImageMissing: the deployment needs a store image that its channel does not have; the
	// message names what is missing.
	ReasonStoreImageMissing = "StoreImageMissing"
	// ReasonInvalidSpec: a field is invalid that the schema cannot validate; the message names it.
	ReasonInvalidSpec = "InvalidSpec"
	// ReasonLimitExceeded: the account has more objects of the kind than are in effect.
	ReasonLimitExceeded = "LimitExceeded"
	// ReasonTokenSecretInaccessible: the Secret with the tokens of a deployment cannot be read or written.
	ReasonTokenSecretInaccessible = "TokenSecretInaccessible"
	// ReasonClientSecretUnreadable: the Secret with the secret of an OAuth client is missing or has no such key, or
	// reading it is forbidden.
	ReasonClientSecretUnreadable = "ClientSecretUnreadable"
	// ReasonModelNotFound: the data model's ConfigMap or branch does not exist.
	ReasonModelNotFound = "ModelNotFound"
	// ReasonGitFailed: reading the model's Git repository failed.
	ReasonGitFailed = "GitFailed"
	// ReasonGitRepositoryNotFound: the model's Git repository does not exist, or the server hides it.
	ReasonGitRepositoryNotFound = "GitRepositoryNotFound"
	// ReasonGitAccessDenied: the server of the model's Git repository rejected the credentials, or
	// requires some.
	ReasonGitAccessDenied = "GitAccessDenied"
	// ReasonGitSecretUnreadable: the Git secret is missing or malformed, or reading it is forbidden.
	ReasonGitSecretUnreadable = "GitSecretUnreadable"
	// ReasonRepositoryUnavailable: the repository that Quoin keeps for the deployment cannot be served: a
	// flag of quoin controller or the database of quoin apiserver is missing, or the latter is starting.
	ReasonRepositoryUnavailable = "RepositoryUnavailable"
	// ReasonWaitingForSlot: the limit of concurrent rollouts is reached.
	ReasonWaitingForSlot = "WaitingForSlot"
	// ReasonWaitingForWindow: a newer version waits for the maintenance window of the account; the
	// deployment is ready.
	ReasonWaitingForWindow = "WaitingForMaintenanceWindow"
	// ReasonRollingOut: an image is being rolled out.
	ReasonRollingOut = "RollingOut"
	// ReasonRolloutStarted: the rollout of a version has started.
	ReasonRolloutStarted = "RolloutStarted"
	// ReasonRollingBack: the previous version is being rolled out again.
	ReasonRollingBack = "RollingBack"
	// ReasonRolloutFailed: the rollout missed its deadline and was rolled back.
	ReasonRolloutFailed = "RolloutFailed"
	// ReasonDeadlineExceeded: a rollout without a previous version to roll back to missed its
	// deadline.
	ReasonDeadlineExceeded = "ProgressDeadlineExceeded"

	// ReasonDeploymentNotFound: the referenced deployment does not exist.
	ReasonDeploymentNotFound = "DeploymentNotFound"
	// ReasonBranchNotFound: the remote repository has no such branch.
	ReasonBranchNotFound = "BranchNotFound"
	// ReasonWorkloadsNotReady: workloads of the environment are not ready yet.
	ReasonWorkloadsNotReady = "WorkloadsNotReady"
	// ReasonAsleep: the environment is scaled to zero because it is idle.
	ReasonAsleep = "Asleep"

	// ReasonWarmingUp: new pods compile the data model; the previous pods serve meanwhile.
	ReasonWarmingUp = "WarmingUp"
	// ReasonModelBroken: the data model does not compile; the message is the compiler's. The previous
	// pods continue to serve.
	ReasonModelBroken = "ModelBroken"
	// ReasonCredentialsUnreadable: the environment's Secret, which is needed to ask a pod whether it
	// has compiled the data model, is missing, or reading it is forbidden.
	ReasonCredentialsUnreadable = "CredentialsUnreadable"

	// ReasonDbtImageMissing: no image with dbt is configured.
	ReasonDbtImageMissing = "DbtImageMissing"
	// ReasonDbtSyncFailed: the dbt sync has failed; the message has the text of the failed phase.
	ReasonDbtSyncFailed = "DbtSyncFailed"
	// ReasonDbtSyncCancelled: the dbt sync was cancelled.
	ReasonDbtSyncCancelled = "DbtSyncCancelled"

	// ReasonConflict: content that the object would manage belongs to another object, or was created by a user and
	// is not adopted.
	ReasonConflict = "Conflict"
	// ReasonFolderNotFound: the referenced Folder does not exist, or belongs to another deployment.
	ReasonFolderNotFound = "FolderNotFound"
	// ReasonFolderNotReady: the referenced Folder has no folder in the content store yet.
	ReasonFolderNotReady = "FolderNotReady"
	// ReasonFolderNotEmpty: a folder whose object was deleted contains other folders.
	ReasonFolderNotEmpty = "FolderNotEmpty"
	// ReasonContentStoreUnavailable: quoin apiserver has no content store, or cannot reach it.
	ReasonContentStoreUnavailable = "ContentStoreUnavailable"
	// ReasonDriftCorrected: content had been changed elsewhere, and is what its object defines again.
	ReasonDriftCorrected = "DriftCorrected"
	// ReasonUndefinedReports: a workbook contains reports that its definition does not have.
	ReasonUndefinedReports = "UndefinedReports"

	// ReasonModelSecretUnreadable: a Secret of a model endpoint is missing, has no such key or no certificates, or
	// reading it is forbidden.
	ReasonModelSecretUnreadable = "ModelSecretUnreadable"
	// ReasonReachable: the server of a model endpoint has answered.
	ReasonReachable = "Reachable"
	// ReasonUnreachable: the server of a model endpoint does not answer, or answers with a failure.
	ReasonUnreachable = "Unreachable"
	// ReasonAPIKeyRejected: the server of a model endpoint has rejected the API key.
	ReasonAPIKeyRejected = "APIKeyRejected"
	// ReasonModelNotListed: the server of a model endpoint answers, and its list of models does not have the model.
	ReasonModelNotListed = "ModelNotListed"
	// ReasonNotProbed: the server of a model endpoint is not probed; the message says why.
	ReasonNotProbed = "NotProbed"
	// ReasonInvalidFiles: the files of the data model that configure an agent have errors.
	ReasonInvalidFiles = "InvalidFiles"
	// ReasonNotDeclared: the files of the data model do not have the agent.
	ReasonNotDeclared = "NotDeclared"
	// ReasonModelEndpointNotFound: the referenced model endpoint does not exist.
	ReasonModelEndpointNotFound = "ModelEndpointNotFound"
	// ReasonModelEndpointNotAllowed: the referenced model endpoint is not for the agent's account.
	ReasonModelEndpointNotAllowed = "ModelEndpointNotAllowed"
	// ReasonModelEndpointNotReady: the referenced model endpoint is not ready.
	ReasonModelEndpointNotReady = "ModelEndpointNotReady"

	// ReasonRevoked: the API key is revoked permanently.
	ReasonRevoked = "Revoked"
	// ReasonExpired: the API key's expirationTime has passed.
	ReasonExpired = "Expired"
	// ReasonOwnerNotFound: the user that the API key acts for does not exist.
	ReasonOwnerNotFound = "OwnerNotFound"
	// ReasonOwnerInactive: the user that the API key acts for is not active.
	ReasonOwnerInactive = "OwnerInactive"
	// ReasonSecretTaken: the Secret for the API key's token exists and has another owner.
	ReasonSecretTaken = "SecretTaken"
	// ReasonTokenUnreadable: the Secret with the API key's token contains no token, or reading it is
	// forbidden.
	ReasonTokenUnreadable = "TokenUnreadable"

	// ReasonMembersFound: every member of the group exists.
	ReasonMembersFound = "MembersFound"
	// ReasonMemberNotFound: the group names users or groups that do not exist.
	ReasonMemberNotFound = "MemberNotFound"
	// ReasonRemovedOverSCIM: a SCIM client has removed members that the manifest of the group lists.
	ReasonRemovedOverSCIM = "RemovedOverSCIM"
	// ReasonDeactivatedOverSCIM: a SCIM client has deactivated the user.
	ReasonDeactivatedOverSCIM = "DeactivatedOverSCIM"
	// ReasonChunkMissing: a chunk with members of the group does not exist.
	ReasonChunkMissing = "ChunkMissing"
)

// Object is an object of a kind with conditions.
//
// +kubebuilder:object:generate=false
type Object interface {
	metav1.Object
	runtime.Object
	// Common returns a pointer to the part of the status that all kinds share.
	Common() *CommonStatus
}

// CommonStatus is the part of the status that kinds share.
type CommonStatus struct {
	// conditions of the object: Ready, Reconciling, Stalled and conditions of the kind.
	// +listType=map
	// +listMapKey=type
	// +kubebuilder:validation:MaxItems=8
	// +optional
	Conditions []metav1.Condition `json:"conditions,omitempty"`

	// observedGeneration is the generation that the controller last reconciled completely; -1 before
	// that, so that a new object is never mistaken for a ready one.
	// +optional
	ObservedGeneration int64 `json:"observedGeneration,omitempty"`
}
