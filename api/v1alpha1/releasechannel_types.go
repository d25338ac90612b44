package v1alpha1

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// VersionPolicy selects versions among the tags of the repository.
type VersionPolicy struct {
	// range is a semantic version range such as ">=1.2.0 <2" or "~1.6"; all versions when absent.
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=256
	// +optional
	Range string `json:"range,omitempty"`

	// preReleases includes versions such as 1.3.0-rc.1; false when absent.
	// +optional
	PreReleases *bool `json:"preReleases,omitempty"`

	// keep is the number of versions in status, newest first; 50 when absent.
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=200
	// +optional
	Keep *int32 `json:"keep,omitempty"`
}

// ListedVersion is a version of an explicit list.
type ListedVersion struct {
	// version without a prefix, such as 1.2.3.
	// +kubebuilder:validation:MinLength=5
	// +kubebuilder:validation:MaxLength=128
	// +kubebuilder:validation:XValidation:rule="self.matches('^(0|[1-9][0-9]*)[.](0|[1-9][0-9]*)[.](0|[1-9][0-9]*)(-[0-9A-Za-z-]+([.][0-9A-Za-z-]+)*)?$')",message="must be a version such as 1.2.3, without a prefix"
	// +required
	Version string `json:"version"`

	// digest of the image; read from the registry when absent. If all versions have one, the registry is not needed.
	// +kubebuilder:validation:MaxLength=71
	// +kubebuilder:validation:Pattern=`^sha256:[0-9a-f]{64}$`
	// +optional
	Digest string `json:"digest,omitempty"`

	// storeDigest of the image in storeImageRepository; read from the registry when absent.
	// +kubebuilder:validation:MaxLength=71
	// +kubebuilder:validation:Pattern=`^sha256:[0-9a-f]{64}$`
	// +optional
	StoreDigest string `json:"storeDigest,omitempty"`
}

// ChannelRolloutPolicy stops a version that fails on the first deployments that try it.
//
// +kubebuilder:validation:XValidation:rule="!has(self.failureThreshold) || self.failureThreshold <= (has(self.firstDeployments) ? self.firstDeployments : 10)",message="failureThreshold must not be greater than firstDeployments, which is 10 when absent"
type ChannelRolloutPolicy struct {
	// failureThreshold is the number of deployments, among the first that try a version, on which it
	// has to fail to be stopped; 3 or firstDeployments, whichever is less, when absent; 0 stops none.
	// +kubebuilder:validation:Minimum=0
	// +kubebuilder:validation:Maximum=1000
	// +optional
	FailureThreshold *int32 `json:"failureThreshold,omitempty"`

	// firstDeployments is the number of deployments whose results decide whether a version is accepted
	// or stopped; 10 when absent. Until then, automatic rollouts in progress and failed ones are
	// together at most as many.
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=1000
	// +optional
	FirstDeployments *int32 `json:"firstDeployments,omitempty"`

	// resumeVersion is a version, such as 1.2.3, that is accepted although it failed. Other versions are
	// not affected.
	// +kubebuilder:validation:MinLength=5
	// +kubebuilder:validation:MaxLength=128
	// +kubebuilder:validation:XValidation:rule="self.matches('^(0|[1-9][0-9]*)[.](0|[1-9][0-9]*)[.](0|[1-9][0-9]*)(-[0-9A-Za-z-]+([.][0-9A-Za-z-]+)*)?$')",message="must be a version such as 1.2.3, without a prefix"
	// +optional
	ResumeVersion string `json:"resumeVersion,omitempty"`
}

// ReleaseChannelSpec is the desired state of a ReleaseChannel.
//
// +kubebuilder:validation:XValidation:rule="!(has(self.policy) && has(self.versions))",message="policy and versions are mutually exclusive: set a range of versions or an explicit list"
type ReleaseChannelSpec struct {
	// imageRepository of the data-plane image, without tag and scheme: registry.example.com/cube.
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=255
	// +kubebuilder:validation:XValidation:rule="self.matches('^[a-z0-9]([-a-z0-9._]*[a-z0-9])?(:[0-9]{1,5})?(/[a-z0-9]+([._-]+[a-z0-9]+)*)*$')",message="must be an image repository such as registry.example.com/team/cube, without scheme, tag and digest"
	// +required
	ImageRepository string `json:"imageRepository"`

	// storeImageRepository of the image of the pre-aggregation store, which has the same tag. It is
	// required for deployments of size Dedicated.
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=255
	// +kubebuilder:validation:XValidation:rule="self.matches('^[a-z0-9]([-a-z0-9._]*[a-z0-9])?(:[0-9]{1,5})?(/[a-z0-9]+([._-]+[a-z0-9]+)*)*$')",message="must be an image repository such as registry.example.com/team/cubestore, without scheme, tag and digest"
	// +optional
	StoreImageRepository string `json:"storeImageRepository,omitempty"`

	// policy selects versions among the tags of the repository. All releases are selected if neither
	// policy nor versions is set.
	// +optional
	Policy *VersionPolicy `json:"policy,omitempty"`

	// versions is an explicit list of the versions of the channel.
	// +listType=map
	// +listMapKey=version
	// +kubebuilder:validation:MinItems=1
	// +kubebuilder:validation:MaxItems=200
	// +optional
	Versions []ListedVersion `json:"versions,omitempty"`

	// rollout configures when a version that fails is stopped.
	// +optional
	Rollout *ChannelRolloutPolicy `json:"rollout,omitempty"`

	// interval between two scans of the registry; 5m when absent.
	// +kubebuilder:validation:XValidation:rule="duration(self) >= duration('1s') && duration(self) <= duration('24h')",message="interval must be between 1s and 24h"
	// +kubebuilder:validation:Pattern=`^([0-9]+(\.[0-9]+)?(ms|s|m|h))+$`
	// +kubebuilder:validation:MaxLength=32
	// +kubebuilder:validation:Type=string
	// +optional
	Interval *metav1.Duration `json:"interval,omitempty"`

	// pullSecretRef names a Secret of type kubernetes.io/dockerconfigjson in the namespace of the
	// controller, which it uses to scan the registry.
	// +optional
	PullSecretRef *LocalReference `json:"pullSecretRef,omitempty"`

	// caBundle is a PEM bundle of the certificate authorities of the registry.
	// +kubebuilder:validation:MaxLength=65536
	// +optional
	CABundle string `json:"caBundle,omitempty"`

	// insecure uses HTTP without TLS. It is not needed for registries on loopback addresses.
	// +optional
	Insecure *bool `json:"insecure,omitempty"`

	// suspend stops scanning; the versions in status are kept.
	// +optional
	Suspend *bool `json:"suspend,omitempty"`
}

// ChannelVersion is a version that the channel offers.
type ChannelVersion struct {
	// version without a prefix.
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=128
	// +required
	Version string `json:"version"`

	// image is the reference with its tag: <repository>:v<version>.
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=400
	// +required
	Image string `json:"image"`

	// digest of the image when the version was first scanned.
	// +kubebuilder:validation:MaxLength=128
	// +optional
	Digest string `json:"digest,omitempty"`

	// storeImage is the image of the pre-aggregation store, with its digest.
	// +kubebuilder:validation:MaxLength=512
	// +optional
	StoreImage string `json:"storeImage,omitempty"`

	// firstSeen is the time of the first scan that found the version.
	// +optional
	FirstSeen metav1.Time `json:"firstSeen,omitempty"`
}

// VersionState is the state of a version in its rollout to the deployments of the channel.
// +kubebuilder:validation:Enum=Candidate;Accepted;Stopped
type VersionState string

// The states of versions.
const (
	// VersionCandidate: the results of the first deployments are not complete.
	VersionCandidate VersionState = "Candidate"
	// VersionAccepted: the first deployments run the version, or it was resumed.
	VersionAccepted VersionState = "Accepted"
	// VersionStopped: the version failed on too many of the first deployments.
	VersionStopped VersionState = "Stopped"
)

// VersionRollout is the rollout of a version to the deployments of the channel.
type VersionRollout struct {
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

	// state is Candidate until the first deployments have tried the version, then Accepted or Stopped.
	// +required
	State VersionState `json:"state"`

	// tried is the number of deployments on which the first rollouts of the version have ended.
	// +required
	Tried int32 `json:"tried"`

	// failed is the number of those on which it did not become ready.
	// +required
	Failed int32 `json:"failed"`
}

// ReleaseChannelStatus is the observed state of a ReleaseChannel.
type ReleaseChannelStatus struct {
	CommonStatus `json:",inline"`

	// latestVersion is the newest version of the channel.
	// +kubebuilder:validation:MaxLength=128
	// +optional
	LatestVersion string `json:"latestVersion,omitempty"`

	// provenVersion is the newest version that a deployment of the channel has run and that is not
	// stopped. First installs fall back to it.
	// +kubebuilder:validation:MaxLength=128
	// +optional
	ProvenVersion string `json:"provenVersion,omitempty"`

	// stoppedVersion is the newest version of the channel, while it is stopped.
	// +kubebuilder:validation:MaxLength=128
	// +optional
	StoppedVersion string `json:"stoppedVersion,omitempty"`

	// rollouts of versions of the channel that deployments have tried, newest first.
	// +listType=map
	// +listMapKey=version
	// +kubebuilder:validation:MaxItems=200
	// +optional
	Rollouts []VersionRollout `json:"rollouts,omitempty"`

	// versions of the channel, newest first.
	// +listType=map
	// +listMapKey=version
	// +kubebuilder:validation:MaxItems=200
	// +optional
	Versions []ChannelVersion `json:"versions,omitempty"`

	// lastChangeTime is the time of the last change of versions.
	// +optional
	LastChangeTime *metav1.Time `json:"lastChangeTime,omitempty"`
}

// ReleaseChannel is a list of versions of the data plane in an image repository.
//
// +kubebuilder:object:root=true
// +kubebuilder:subresource:status
// +kubebuilder:resource:scope=Cluster,shortName=relch,categories=quoin
// +kubebuilder:printcolumn:name="Repository",type=string,JSONPath=`.spec.imageRepository`
// +kubebuilder:printcolumn:name="Latest",type=string,JSONPath=`.status.latestVersion`
// +kubebuilder:printcolumn:name="Proven",type=string,JSONPath=`.status.provenVersion`
// +kubebuilder:printcolumn:name="Stopped",type=string,JSONPath=`.status.stoppedVersion`
// +kubebuilder:printcolumn:name="Ready",type=string,JSONPath=`.status.conditions[?(@.type=="Ready")].status`
// +kubebuilder:printcolumn:name="Reason",type=string,JSONPath=`.status.conditions[?(@.type=="Ready")].reason`
// +kubebuilder:printcolumn:name="Message",type=string,JSONPath=`.status.conditions[?(@.type=="Ready")].message`,priority=1
// +kubebuilder:printcolumn:name="Changed",type=date,JSONPath=`.status.lastChangeTime`
// +kubebuilder:printcolumn:name="Age",type=date,JSONPath=`.metadata.creationTimestamp`
// +kubebuilder:validation:XValidation:rule="self.metadata.name.size() <= 63",message="metadata.name must be no more than 63 characters"
type ReleaseChannel struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`

	// spec is the desired state.
	// +required
	Spec ReleaseChannelSpec `json:"spec"`

	// status is the observed state.
	// +kubebuilder:default={"observedGeneration":-1}
	// +optional
	Status ReleaseChannelStatus `json:"status,omitempty"`
}

// Common implements Object.
func (c *ReleaseChannel) Common() *CommonStatus { return &c.Status.CommonStatus }

// ReleaseChannelList is a list of ReleaseChannels.
//
// +kubebuilder:object:root=true
type ReleaseChannelList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`
	Items           []ReleaseChannel `json:"items"`
}
