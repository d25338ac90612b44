package version

import (
	"fmt"
	"slices"
)

// UpgradePolicy limits the newer releases of its channel that a deployment is upgraded to.
type UpgradePolicy string

const (
	// UpgradeLatest upgrades to the newest release. It is the default.
	UpgradeLatest UpgradePolicy = "Latest"
	// UpgradeMinor upgrades to the newest release with the same major number.
	UpgradeMinor UpgradePolicy = "Minor"
	// UpgradePatch upgrades to the newest release with the same major and minor numbers.
	UpgradePatch UpgradePolicy = "Patch"
)

// Reason is why a release was chosen.
type Reason string

const (
	// ReasonPinned: the spec names the version.
	ReasonPinned Reason = "Pinned"
	// ReasonPinOvertaken: the spec names a version without a hold, and the channel has moved past it.
	ReasonPinOvertaken Reason = "PinOvertaken"
	// ReasonHeld: the current release is held.
	ReasonHeld Reason = "Held"
	// ReasonChannelHead: the newest release of the channel.
	ReasonChannelHead Reason = "ChannelHead"
	// ReasonPolicyHead: the newest release of the channel that the upgrade policy allows.
	ReasonPolicyHead Reason = "PolicyHead"
	// ReasonProven: the newest release that a deployment of the channel has run, for a first install
	// while the head is stopped.
	ReasonProven Reason = "Proven"
	// ReasonKeptByPolicy: the upgrade policy allows none of the channel's newer releases.
	ReasonKeptByPolicy Reason = "KeptByPolicy"
	// ReasonChannelEmpty: the channel has no releases, so the current release stays.
	ReasonChannelEmpty Reason = "ChannelEmpty"
)

// Request is the desired version of a deployment and its present state.
type Request struct {
	// Channel is the name of the release channel that the deployment follows.
	Channel string
	// Pin is a version in any written form; empty for none.
	Pin string
	// Hold as requested. If nil, a pin is held and anything else is not.
	Hold *bool
	// Upgrade policy; UpgradeLatest if empty.
	Upgrade UpgradePolicy
	// Current is what production runs; nil before the first install.
	Current *Run
	// Rollout is the release of the rollout in progress; nil if there is none.
	Rollout *Release
	// Observed is the Observed of the last decision. nil means no state: the deployment is new, or
	// its status was lost. See ObservedPin for the difference.
	Observed *ObservedPin
}

// Decision is the release that a deployment should run.
type Decision struct {
	Target Release
	// Channel of the target. It differs from the requested channel while the deployment is held
	// on, or pinned to, a release of another channel.
	Channel string
	// Hold in effect.
	Hold   bool
	Reason Reason
	// Skipped is the stopped release that would be the target otherwise; nil if there is none.
	Skipped *Release
	// Fallback is the release to run if the first install of the target fails; nil if there is none,
	// or if this is not a first install.
	Fallback *Release
	// Places is the number of deployments that may try the target until it is accepted; 0 if there is
	// no limit.
	Places int
	// Observed must be stored, even if it is empty, and passed to the next Resolve.
	Observed ObservedPin
}

// Resolve returns the release that a deployment should run, among the releases of the channels and
// those that the account has run. The rules are in docs/decisions/0003-versions-pin-and-hold.md.
//
// Errors: *UnknownChannelError; *EmptyChannelError if the channel is empty and nothing runs;
// *StoppedError if all its releases are stopped and nothing runs; *UnknownVersionError for a pin that
// is not available; an untyped error for an unknown upgrade policy. On error, the current release
// should keep running.
func Resolve(req Request, channels []Channel, runs []Run) (Decision, error) {
	channel, ok := findChannel(channels, req.Channel)
	if !ok {
		return Decision{}, newUnknownChannelError(req.Channel, channels)
	}
	switch req.Upgrade {
	case "", UpgradeLatest, UpgradeMinor, UpgradePatch:
	default:
		return Decision{}, fmt.Errorf("upgrade policy %s does not exist; existing: Latest, Minor, Patch", quote(string(req.Upgrade)))
	}
	r := resolution{Request: req, channel: channel, channels: channels, runs: runs, hold: req.Pin != ""}
	if req.Hold != nil {
		r.hold = *req.Hold
	}
	choose := r.unpinned
	if req.Pin != "" {
		choose = r.pinned
	}
	decision, err := choose()
	if err != nil {
		return Decision{}, err
	}
	decision.Hold = r.hold
	return decision, nil
}

// resolution is the state of one call of Resolve.
type resolution struct {
	Request
	channel  Channel
	channels []Channel
	runs     []Run
	hold     bool
}

func (r *resolution) unpinned() (Decision, error) {
	if r.hold && r.Current != nil {
		return r.stay(ReasonHeld), nil
	}
	return r.follow()
}

// follow returns the newest release of the channel that is not stopped and that the upgrade policy
// allows.
func (r *resolution) follow() (Decision, error) {
	decision, err := r.followIn(r.channel)
	if err != nil {
		return decision, err
	}
	if skipped := decision.Target; decision.Channel == r.channel.Name && r.isStopped(skipped) {
		if decision, err = r.followWithout(skipped); err != nil {
			return decision, err
		}
		decision.Skipped = &skipped
	}
	if !slices.Contains(r.channel.Accepted, decision.Target.Version) {
		decision.Places = r.channel.Places
	}
	if proven, ok := r.channel.proven(); ok && r.Current == nil && proven.Version != decision.Target.Version {
		decision.Fallback = &proven
	}
	return decision, nil
}

// followWithout returns the decision when the channel has stopped a release.
func (r *resolution) followWithout(skipped Release) (Decision, error) {
	if proven, ok := r.channel.proven(); ok && r.Current == nil {
		return r.moveTo(proven, ReasonProven), nil
	}
	open := r.open()
	if len(open.Releases) == 0 && r.Current == nil {
		return Decision{}, &StoppedError{Channel: r.channel.Name, Version: skipped.Version}
	}
	return r.followIn(open)
}

// followIn returns the newest release of a channel that the upgrade policy allows.
func (r *resolution) followIn(channel Channel) (Decision, error) {
	head, ok := channel.Head()
	switch {
	case !ok:
		return r.emptyChannel()
	case r.Current == nil || r.Current.Channel != r.channel.Name:
		// An upgrade policy applies within a channel; an install and a change of channel go to the head.
		return r.moveTo(head, ReasonChannelHead), nil
	}
	newest, ok := channel.newest(r.allowedByUpgrade)
	switch {
	case ok && newest.Version == head.Version:
		return r.moveTo(head, ReasonChannelHead), nil
	case ok:
		// It is older than the current release only if the channel has withdrawn the latter.
		return r.moveTo(newest, ReasonPolicyHead), nil
	case head.Version.Compare(r.Current.Version) < 0:
		// The channel has withdrawn all allowed releases and is authoritative.
		return r.moveTo(head, ReasonChannelHead), nil
	}
	return r.stay(ReasonKeptByPolicy), nil
}

// allowedByUpgrade reports whether the upgrade policy allows an upgrade from the current version
// to v, if v is newer.
func (r *resolution) allowedByUpgrade(v Version) bool {
	current := r.Current.Version
	switch r.Upgrade {
	case UpgradePatch:
		return v.major == current.major && v.minor == current.minor
	case UpgradeMinor:
		return v.major == current.major
	}
	return true
}

func (r *resolution) emptyChannel() (Decision, error) {
	if r.Current == nil {
		return Decision{}, &EmptyChannelError{Channel: r.channel.Name}
	}
	return r.stay(ReasonChannelEmpty), nil
}

// moveTo returns the decision for a release of the channel, including a new digest of the current
// version.
func (r *resolution) moveTo(release Release, reason Reason) Decision {
	if release.Digest == "" && r.runsImage(release.Image) {
		// The channel does not know the digest: keep the current one.
		release = r.running()
	}
	return Decision{Target: release, Channel: r.channel.Name, Reason: reason}
}

func (r *resolution) stay(reason Reason) Decision {
	return Decision{Target: r.running(), Channel: r.Current.Channel, Reason: reason}
}

// runsImage reports whether production runs this image, pinned by digest.
func (r *resolution) runsImage(image string) bool {
	return r.Current != nil && r.Current.Image == image && r.Current.Digest != ""
}

// running returns the current release. If it has no store image but its channel now has one for
// the version, that is added: a store can be added to a held deployment.
func (r *resolution) running() Release {
	release := r.Current.Release
	if release.StoreImage != "" {
		return release
	}
	if channel, ok := findChannel(r.channels, r.Current.Channel); ok {
		if offered, ok := channel.release(release.Version); ok {
			release.StoreImage = offered.StoreImage
		}
	}
	return release
}
