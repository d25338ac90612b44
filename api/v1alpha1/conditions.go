package v1alpha1

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
)

// Condition types. Ready is always present once a controller has seen the object.
// Reconciling and Stalled are present only while True, and never both (kstatus).
const (
	// ConditionReady is True when the object's spec is fully in effect.
	ConditionReady = "Ready"
	// ConditionReconciling is True while the controller works towards the spec and
	// expects to get there without anybody's help.
	ConditionReconciling = "Reconciling"
	// ConditionStalled is True when the spec cannot take effect until somebody changes
	// something; the reason and message say what.
	ConditionStalled = "Stalled"
	// ConditionAvailable is True while the data plane answers, whatever version it runs.
	ConditionAvailable = "Available"
	// ConditionMembersFound is True while every member of a group exists. A group is in effect
	// without it: who is not there (yet) is no member.
	ConditionMembersFound = "MembersFound"
)

// PodModelCompiled is the readiness gate of API pods: True once the pod has compiled its data
// model. A pod that cannot compile it gets no requests, and replaces none that can.
const PodModelCompiled = Group + "/model-compiled"

// Reasons of conditions and events. They are part of the API: stable, one meaning each.
const (
	// ReasonSucceeded: the spec is in effect.
	ReasonSucceeded = "Succeeded"
	// ReasonProgressing: work is under way.
	ReasonProgressing = "Progressing"
	// ReasonSuspended: reconciliation is suspended by spec.suspend.
	ReasonSuspended = "Suspended"
	// ReasonError: an API call or another dependency failed; it is tried again.
	ReasonError = "ReconcileError"

	// ReasonNamespaceNotFound: the account's namespace does not exist.
	ReasonNamespaceNotFound = "NamespaceNotFound"
	// ReasonNamespaceTaken: an older account uses the same namespace.
	ReasonNamespaceTaken = "NamespaceTaken"
	// ReasonHostTaken: an older account answers on the same host.
	ReasonHostTaken = "HostTaken"
	// ReasonTerminating: the account's objects are being removed.
	ReasonTerminating = "Terminating"

	// ReasonScanFailed: the registry could not be read; the last good list is kept.
	ReasonScanFailed = "ScanFailed"
	// ReasonNoVersions: nothing in the repository satisfies the version policy.
	ReasonNoVersions = "NoVersions"
	// ReasonInvalidPolicy: the version policy cannot be parsed.
	ReasonInvalidPolicy = "InvalidPolicy"
	// ReasonPullSecretUnreadable: the pull secret is missing, malformed or not permitted.
	ReasonPullSecretUnreadable = "PullSecretUnreadable"
	// ReasonDigestChanged: a tag was pushed again with other content; the digest first seen is kept.
	ReasonDigestChanged = "DigestChanged"

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
	// ReasonInvalidSpec: a field that the schema cannot judge is wrong; the message names it.
	ReasonInvalidSpec = "InvalidSpec"
	// ReasonModelNotFound: the data model's config map or branch does not exist.
	ReasonModelNotFound = "ModelNotFound"
	// ReasonGitFailed: the model's Git repository could not be read.
	ReasonGitFailed = "GitFailed"
	// ReasonGitSecretUnreadable: the Git secret is missing, malformed or not permitted.
	ReasonGitSecretUnreadable = "GitSecretUnreadable"
	// ReasonWaitingForSlot: the fleet's limit of rollouts at once is reached.
	ReasonWaitingForSlot = "WaitingForSlot"
	// ReasonRollingOut: an image is being rolled out.
	ReasonRollingOut = "RollingOut"
	// ReasonRollingBack: the version before is being put back.
	ReasonRollingBack = "RollingBack"
	// ReasonRolloutFailed: the rollout missed its deadline and the version before is back.
	ReasonRolloutFailed = "RolloutFailed"
	// ReasonDeadlineExceeded: the first version, or a change that has no version to go back
	// to, did not become ready in time.
	ReasonDeadlineExceeded = "ProgressDeadlineExceeded"

	// ReasonDeploymentNotFound: the referenced deployment does not exist.
	ReasonDeploymentNotFound = "DeploymentNotFound"
	// ReasonBranchNotFound: the remote repository has no such branch.
	ReasonBranchNotFound = "BranchNotFound"
	// ReasonWorkloadsNotReady: workloads of the environment are not ready yet.
	ReasonWorkloadsNotReady = "WorkloadsNotReady"
	// ReasonAsleep: the environment is scaled to nothing on purpose.
	ReasonAsleep = "Asleep"

	// ReasonWarmingUp: new pods compile the data model; those of before serve meanwhile.
	ReasonWarmingUp = "WarmingUp"
	// ReasonModelBroken: the data model does not compile; the message is the compiler's. What ran
	// before goes on serving.
	ReasonModelBroken = "ModelBroken"
	// ReasonCredentialsUnreadable: the environment's Secret, with which a pod is asked whether it
	// has compiled the data model, is missing or not permitted.
	ReasonCredentialsUnreadable = "CredentialsUnreadable"

	// ReasonRevoked: the API key was revoked; it never works again.
	ReasonRevoked = "Revoked"
	// ReasonExpired: the API key's expirationTime has passed.
	ReasonExpired = "Expired"
	// ReasonOwnerNotFound: the user that the API key acts for does not exist.
	ReasonOwnerNotFound = "OwnerNotFound"
	// ReasonOwnerInactive: the user that the API key acts for is not active.
	ReasonOwnerInactive = "OwnerInactive"
	// ReasonSecretTaken: the Secret for the API key's token exists and belongs to somebody else.
	ReasonSecretTaken = "SecretTaken"
	// ReasonTokenUnreadable: the Secret with the API key's token may not be read, or what it
	// holds is no token.
	ReasonTokenUnreadable = "TokenUnreadable"

	// ReasonMembersFound: every member of the group exists.
	ReasonMembersFound = "MembersFound"
	// ReasonMemberNotFound: the group names users or groups that do not exist.
	ReasonMemberNotFound = "MemberNotFound"
	// ReasonChunkMissing: a chunk with members of the group does not exist.
	ReasonChunkMissing = "ChunkMissing"
)

// Object is what every kind here offers to the code that writes conditions.
//
// +kubebuilder:object:generate=false
type Object interface {
	metav1.Object
	runtime.Object
	// Common returns the part of the status that all kinds share, to read and to change.
	Common() *CommonStatus
}

// CommonStatus is the part of the status that every kind has.
type CommonStatus struct {
	// conditions say how far the controller is: Ready, Reconciling, Stalled and those
	// that the kind adds.
	// +listType=map
	// +listMapKey=type
	// +kubebuilder:validation:MaxItems=8
	// +optional
	Conditions []metav1.Condition `json:"conditions,omitempty"`

	// observedGeneration is the generation of the spec that was last handled in full.
	// It is -1 until then, so that a fresh object never reads as ready.
	// +optional
	ObservedGeneration int64 `json:"observedGeneration,omitempty"`
}
