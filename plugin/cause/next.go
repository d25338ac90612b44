package cause

import (
	"strings"

	"github.com/quoin-dev/quoin/api/v1alpha1"
	"github.com/quoin-dev/quoin/plugin/view"
)

// steps are what to do for a reason, with {namespace}, {name}, {channel} and {pod} in place of the
// names. docs/operations/troubleshoot.md has the same advice with more context.
var steps = map[string][]string{
	"ImagePullBackOff":           {"check that the image exists and that spec.imagePullSecrets of the Deployment name a Secret that may pull it: the channel's pull secret is for scanning only"},
	"ErrImagePull":               {"check that the image exists and that spec.imagePullSecrets of the Deployment name a Secret that may pull it: the channel's pull secret is for scanning only"},
	"InvalidImageName":           {"correct spec.imageRepository of the ReleaseChannel {channel}"},
	"CreateContainerConfigError": {"create the Secret or key that the message names, or correct spec.env of the Deployment"},
	"CrashLoopBackOff":           {"kubectl logs {pod} -n {namespace} --previous"},
	"Error":                      {"kubectl logs {pod} -n {namespace} --previous"},
	"OOMKilled":                  {"raise the memory limit in spec.resources of the Deployment"},
	"Unschedulable":              {"add nodes, or lower spec.resources of the Deployment"},
	"FailedCreate":               {"the namespace refuses the pods: check its quota, Pod Security labels and admission webhooks"},
	"FailedScheduling":           {"add nodes, or lower spec.resources of the Deployment"},
	"NotReady":                   {"kubectl logs {pod} -n {namespace}"},
	"NotReported":                {"check that the controller runs: kubectl quoin status"},

	v1alpha1.ReasonAccountNotFound:       {"create an Account with spec.namespace: {namespace}, or use the namespace of one: kubectl get acct"},
	v1alpha1.ReasonNameTaken:             {"choose another spec.displayName: another object of the account has it"},
	v1alpha1.ReasonHostTaken:             {"choose another spec.dataAPI.customDomain; kubectl get qclaim -n quoin-system -o wide shows the holder"},
	v1alpha1.ReasonDomainNotAllowed:      {"choose a domain that spec.domainSuffixes of the Account allow"},
	v1alpha1.ReasonChannelNotFound:       {"name an existing channel in spec.releaseChannel: kubectl get relch"},
	v1alpha1.ReasonChannelEmpty:          {"wait for the first scan of the channel, or push an image with a tag such as v1.2.3: kubectl describe relch {channel}"},
	v1alpha1.ReasonNoVersions:            {"push an image with a tag such as v1.2.3, widen spec.policy.range, or correct spec.imageRepository of the ReleaseChannel {channel}"},
	v1alpha1.ReasonScanFailed:            {"check the address of the registry, the network, spec.caBundle and spec.insecure of the ReleaseChannel {channel}"},
	v1alpha1.ReasonStoreScanFailed:       {"check the registry of spec.storeImageRepository of the ReleaseChannel {channel}, or set spec.versions[].storeDigest"},
	v1alpha1.ReasonInvalidPolicy:         {"correct spec.policy.range of the ReleaseChannel {channel}"},
	v1alpha1.ReasonPullSecretUnreadable:  {"create the Secret of spec.pullSecretRef in the namespace of the controller, of type kubernetes.io/dockerconfigjson"},
	v1alpha1.ReasonUnknownVersion:        {"pin one of the versions in the message: kubectl quoin pin {name} VERSION -n {namespace}", "or follow the channel: kubectl quoin follow {name} -n {namespace}"},
	v1alpha1.ReasonStoreImageMissing:     {"set spec.storeImageRepository of the ReleaseChannel {channel}, or push the version's tag to it"},
	v1alpha1.ReasonInvalidSpec:           {"correct the field that the message names"},
	v1alpha1.ReasonModelNotFound:         {"create the ConfigMap, or push the branch, that the message names"},
	v1alpha1.ReasonGitRepositoryNotFound: {"correct spec.model.git.url, or set secretRef if the repository is private"},
	v1alpha1.ReasonGitAccessDenied:       {"correct the Secret of spec.model.git.secretRef: its keys, and the permissions and expiry of the token"},
	v1alpha1.ReasonGitFailed:             {"check the network and the Git server; the message names what to correct"},
	v1alpha1.ReasonGitSecretUnreadable:   {"create the Secret of spec.model.git.secretRef and the RoleBinding quoin-account in the namespace {namespace}: kubectl quoin check"},
	v1alpha1.ReasonRepositoryUnavailable: {"check quoin apiserver, its database and the RoleBinding quoin-account-apiserver: kubectl quoin check"},
	v1alpha1.ReasonCredentialsUnreadable: {"create the RoleBinding quoin-account in the namespace {namespace}: kubectl quoin check"},
	v1alpha1.ReasonBranchNotFound:        {"push the branch, or delete its Branch object"},
	v1alpha1.ReasonModelBroken:           {"correct the data model as the message says, and push; production keeps serving the last good commit"},
	v1alpha1.ReasonRolloutFailed:         {"correct the cause and retry: kubectl quoin retry {name} -n {namespace}", "or run another version: kubectl quoin pin {name} VERSION -n {namespace}"},
	v1alpha1.ReasonDeadlineExceeded:      {"correct the cause in the message; pods that become ready end this state"},
	v1alpha1.ReasonVersionStopped:        {"release a corrected version, or run this one anyway: kubectl quoin pin {name} VERSION -n {namespace}"},
	v1alpha1.ReasonTooManyFailures:       {"read the causes: kubectl quoin versions {channel}; release a corrected version, or resume this one: kubectl quoin promote VERSION --channel {channel}"},
	v1alpha1.ReasonWaitingForSlot:        {"wait: other deployments roll out; a pin does not wait: kubectl quoin pin {name} VERSION -n {namespace}"},
	v1alpha1.ReasonWaitingForWindow:      {"wait; a pin does not: kubectl quoin pin {name} VERSION -n {namespace}"},
	v1alpha1.ReasonError:                 {"if it persists, read the log of the controller: kubectl logs -n quoin-system deployment/quoin-controller"},
	v1alpha1.ReasonTerminating:           {"wait until it is deleted; if it stays, read its metadata.finalizers"},
	v1alpha1.ReasonRollingOut:            {"wait: kubectl quoin get {name} -n {namespace} -w"},
	v1alpha1.ReasonRollingBack:           {"wait: kubectl quoin get {name} -n {namespace} -w"},
	v1alpha1.ReasonProgressing:           {"wait: kubectl quoin get {name} -n {namespace} -w"},
	v1alpha1.ReasonWorkloadsNotReady:     {"wait: kubectl quoin get {name} -n {namespace} -w"},
	v1alpha1.ReasonWarmingUp:             {"wait: new pods compile the data model, for at most 15 minutes"},
	v1alpha1.ReasonDeploymentNotFound:    {"wait: the environment is deleted"},
}

// addNext adds what to do about the deepest finding for which that is known, and about a failed
// rollout how to retry it.
func (r *Report) addNext(v *view.View) {
	if r.Ready && len(r.Chain) == 1 {
		return
	}
	d := v.Deployment
	pod := "POD"
	for _, f := range r.Chain {
		if f.Kind == "Pod" {
			pod = f.Name
		}
	}
	names := strings.NewReplacer("{namespace}", d.Namespace, "{name}", d.Name, "{channel}", d.Spec.ReleaseChannel, "{pod}", pod)
	for i := len(r.Chain) - 1; i >= 0 && len(r.Next) == 0; i-- {
		for _, step := range steps[r.Chain[i].Reason] {
			r.Next = append(r.Next, names.Replace(step))
		}
	}
	if r.Chain[0].Reason == v1alpha1.ReasonRolloutFailed && r.Chain[len(r.Chain)-1].Reason != v1alpha1.ReasonRolloutFailed {
		r.Next = append(r.Next, names.Replace(steps[v1alpha1.ReasonRolloutFailed][0]))
	}
}
