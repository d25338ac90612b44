package version

import "fmt"

// UpgradePolicy says which newer releases of its channel a deployment takes by itself.
type UpgradePolicy string

const (
	// UpgradeLatest takes the newest; it is meant when nothing is said.
	UpgradeLatest UpgradePolicy = "Latest"
	// UpgradeMinor takes the newest with the same major number.
	UpgradeMinor UpgradePolicy = "Minor"
	// UpgradePatch takes the newest with the same major and minor numbers.
	UpgradePatch UpgradePolicy = "Patch"
)

// Reason says why a release was chosen.
type Reason string

const (
	// ReasonPinned: the spec names the version.
	ReasonPinned Reason = "Pinned"
	// ReasonPinOvertaken: the spec names a version without holding it, and the channel has moved since.
	ReasonPinOvertaken Reason = "PinOvertaken"
	// ReasonHeld: what runs is held.
	ReasonHeld Reason = "Held"
	// ReasonChannelHead: it is the newest of the channel.
	ReasonChannelHead Reason = "ChannelHead"
	// ReasonPolicyHead: it is the newest of the channel that the upgrade policy allows.
	ReasonPolicyHead Reason = "PolicyHead"
	// ReasonKeptByPolicy: the channel only has newer releases that the upgrade policy forbids.
	ReasonKeptByPolicy Reason = "KeptByPolicy"
	// ReasonChannelEmpty: the channel has no releases, so what runs stays.
	ReasonChannelEmpty Reason = "ChannelEmpty"
)

// Request is what is asked for a deployment, and what is known of it.
type Request struct {
	// Channel is the name of the release channel that the deployment follows.
	Channel string
	// Pin is a version in any written form; empty when none is named.
	Pin string
	// Hold as asked for. When nil, a pin is held and anything else is not.
	Hold *bool
	// Upgrade policy; UpgradeLatest when empty.
	Upgrade UpgradePolicy
	// Current is what production runs now; nil before the first install.
	Current *Run
	// Observed is what the last decision gave to keep. nil means that nothing was kept: the
	// deployment is new, or its status was lost. It makes a difference: see ObservedPin.
	Observed *ObservedPin
}

// Decision is what a deployment shall run.
type Decision struct {
	Target Release
	// Channel that the target came from. It is not the channel asked for while the deployment
	// is held on, or pinned to, a release of another one.
	Channel string
	// Hold in effect.
	Hold   bool
	Reason Reason
	// Observed has to be kept, also when it is empty, and given to the next Resolve.
	Observed ObservedPin
}

// Resolve decides which release a deployment shall run, among those of the channels and those
// that the account has run. The rules are in docs/decisions/0003-versions-pin-and-hold.md.
//
// Errors: *UnknownChannelError; *EmptyChannelError when there is nothing to run and nothing
// runs; *UnknownVersionError for a pin that cannot be chosen; a plain error for an upgrade
// policy that does not exist. What runs should go on running then.
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

// resolution is one Resolve under way.
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

// follow gives the newest release of the channel that the upgrade policy allows.
func (r *resolution) follow() (Decision, error) {
	head, ok := r.channel.Head()
	switch {
	case !ok:
		return r.emptyChannel()
	case r.Current == nil || r.Current.Channel != r.channel.Name:
		// An upgrade policy speaks of steps within a channel; the first step into one goes to its head.
		return r.moveTo(head, ReasonChannelHead), nil
	}
	newest, ok := r.channel.newest(r.allowedByUpgrade)
	switch {
	case ok && newest.Version == head.Version:
		return r.moveTo(head, ReasonChannelHead), nil
	case ok:
		// It is older than what runs only if the channel has withdrawn what runs.
		return r.moveTo(newest, ReasonPolicyHead), nil
	case head.Version.Compare(r.Current.Version) < 0:
		// Everything new enough was withdrawn: the channel is the truth.
		return r.moveTo(head, ReasonChannelHead), nil
	}
	return r.stay(ReasonKeptByPolicy), nil
}

// allowedByUpgrade tells whether the upgrade policy lets the deployment go from what it runs
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

// moveTo goes along with the channel, so also to a new digest of the version that runs.
func (r *resolution) moveTo(release Release, reason Reason) Decision {
	if release.Digest == "" && r.runsImage(release.Image) {
		// The channel has not read the digest: no reason to let go of the one that runs.
		release = r.running()
	}
	return Decision{Target: release, Channel: r.channel.Name, Reason: reason}
}

func (r *resolution) stay(reason Reason) Decision {
	return Decision{Target: r.running(), Channel: r.Current.Channel, Reason: reason}
}

// runsImage tells whether production runs this image, by a digest.
func (r *resolution) runsImage(image string) bool {
	return r.Current != nil && r.Current.Image == image && r.Current.Digest != ""
}

// running is what production runs. If it ran without a store image and its channel has one
// for the version by now, that is added: a deployment that is held can still be given a store.
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
