package releasechannel

import (
	"slices"

	"github.com/quoin-dev/quoin/api/v1alpha1"
	"github.com/quoin-dev/quoin/internal/channels"
	"github.com/quoin-dev/quoin/internal/version"
)

// states are the states of versions in the API.
var states = map[version.State]v1alpha1.VersionState{
	version.Candidate: v1alpha1.VersionCandidate,
	version.Accepted:  v1alpha1.VersionAccepted,
	version.Stopped:   v1alpha1.VersionStopped,
}

// judge sets the rollouts of a channel, the proven and the stopped version in its status, from what
// its deployments have run and from their failures. It is a pure function of both: a restart
// forgets nothing.
func judge(channel *v1alpha1.ReleaseChannel, deployments []v1alpha1.Deployment) {
	status := &channel.Status
	attempts := attemptsOf(deployments)
	resume := ""
	if r := channel.Spec.Rollout; r != nil {
		resume = r.ResumeVersion
	}
	var rollouts []v1alpha1.VersionRollout
	var newest v1alpha1.VersionRollout
	proven := ""
	for i, v := range status.Versions {
		image := pinned(v)
		tried := attempts[image]
		last := resultOf(recorded(status, v.Version, image))
		verdict := version.Judge(tried, channels.Policy(channel), last, v.Version == resume)
		if proven == "" && verdict.State != version.Stopped && (hasRun(tried) || status.ProvenVersion == v.Version) {
			proven = v.Version
		}
		if len(tried) == 0 && last.State == version.Candidate {
			continue
		}
		entry := v1alpha1.VersionRollout{
			Version: v.Version, Image: image, State: states[verdict.State],
			Tried: int32(verdict.Tried), Failed: int32(verdict.Failed), // #nosec G115 -- at most 1000
		}
		rollouts = append(rollouts, entry)
		if i == 0 {
			newest = entry
		}
	}
	status.Rollouts, status.ProvenVersion = rollouts, proven
	setCondition(channel, newest)
}

func hasRun(attempts []version.Attempt) bool {
	return slices.ContainsFunc(attempts, func(a version.Attempt) bool { return !a.Failed })
}

// recorded returns the rollout of a version and image in a status; empty if there is none.
func recorded(status *v1alpha1.ReleaseChannelStatus, name, image string) v1alpha1.VersionRollout {
	for _, r := range status.Rollouts {
		if r.Version == name && r.Image == image {
			return r
		}
	}
	return v1alpha1.VersionRollout{}
}

// resultOf returns a recorded rollout as the result of version.Judge.
func resultOf(r v1alpha1.VersionRollout) version.Rollout {
	last := version.Rollout{Tried: int(r.Tried), Failed: int(r.Failed)}
	for state, name := range states {
		if name == r.State {
			last.State = state
		}
	}
	return last
}

// attemptsOf returns the last attempts of deployments by image.
func attemptsOf(deployments []v1alpha1.Deployment) map[string][]version.Attempt {
	all := map[string][]version.Attempt{}
	for i := range deployments {
		d := &deployments[i]
		last := map[string]version.Attempt{}
		add := func(image string, a version.Attempt) {
			if other, ok := last[image]; !ok || a.Time.After(other.Time) {
				last[image] = a
			}
		}
		for _, f := range d.Status.Failures {
			add(f.Image, version.Attempt{Deployment: d.Namespace + "/" + d.Name, Time: f.Time.Time, Failed: true})
		}
		for _, h := range d.Status.History {
			add(h.Pinned(), version.Attempt{Deployment: d.Namespace + "/" + d.Name, Time: h.CompletionTime.Time})
		}
		for image, a := range last {
			all[image] = append(all[image], a)
		}
	}
	return all
}

// pinned returns the image of a version with its digest, as deployments run it.
func pinned(v v1alpha1.ChannelVersion) string {
	return v1alpha1.VersionRun{Image: v.Image, Digest: v.Digest}.Pinned()
}
