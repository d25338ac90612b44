package version

import "cmp"

// ObservedPin is what has to be remembered of a pin between two calls of Resolve.
//
// Its zero value says that no pin is there. That is not the same as nothing being remembered
// (a nil Request.Observed): a pin that replaces no pin is new, so it is run even if it is
// older than what runs; a pin found on a deployment whose status was lost may have been
// overtaken long ago, so it is not.
type ObservedPin struct {
	// Written is the pin's text.
	Written string
	// ChannelHead was the newest version of the channel when the pin was first seen. It is
	// empty once the channel has moved past it and taken the deployment along.
	ChannelHead string
}

// Overtaken tells whether the channel has taken the deployment away from the pin.
func (o ObservedPin) Overtaken() bool { return o.Written != "" && o.ChannelHead == "" }

func (r *resolution) pinned() (Decision, error) {
	v, repository, isVersion := parseWritten(r.Pin)
	if !isVersion {
		return Decision{}, newUnknownVersionError(r.Pin, r.channel, false, r.choices())
	}
	observed := r.observe(v)
	decision, err := r.pinnedTo(v, repository, observed)
	decision.Observed = observed
	return decision, err
}

func (r *resolution) pinnedTo(v Version, repository string, observed ObservedPin) (Decision, error) {
	if !r.hold && observed.Overtaken() {
		// The pin is not looked up: it may have gone from everywhere meanwhile.
		decision, err := r.follow()
		decision.Reason = ReasonPinOvertaken
		return decision, err
	}
	found, ok := r.find(v, repository)
	switch {
	case !ok && len(r.channel.Releases) == 0:
		return r.emptyChannel()
	case !ok:
		return Decision{}, newUnknownVersionError(r.Pin, r.channel, true, r.choices())
	}
	if r.runsImage(found.Image) {
		// A version that is pinned stays as it is, even if somebody pushes its tag again.
		found.Release = r.running()
	}
	return Decision{Target: found.Release, Channel: found.Channel, Reason: ReasonPinned}, nil
}

// observe gives what is to be remembered of the pin after this decision.
func (r *resolution) observe(pin Version) ObservedPin {
	head, ok := r.channel.Head()
	overtaken := ObservedPin{Written: r.Pin}
	if r.Observed == nil && !r.hold && r.Current != nil &&
		r.Current.Channel == r.channel.Name && r.Current.Version.Compare(pin) > 0 {
		return overtaken
	}
	if r.Observed != nil && r.Observed.Written == r.Pin {
		if r.Observed.Overtaken() {
			return *r.Observed
		}
		if first, err := Parse(r.Observed.ChannelHead); err == nil {
			if !r.hold && ok && head.Version.Compare(first) > 0 {
				return overtaken
			}
			return *r.Observed
		}
	}
	if !ok {
		// Without a head there is nothing to move past: the pin counts as seen once there is one.
		return ObservedPin{}
	}
	return ObservedPin{Written: r.Pin, ChannelHead: head.Version.String()}
}

// Where a pin may come from, best first.
const (
	fromOwnChannel = iota
	fromCurrent
	fromOwnRun
	fromOtherHead
	fromOtherRun
	fromNowhere
)

// find looks for a version where a pin may come from. Without a repository it is meant as a
// version of the deployment's channel: one that the channel offers, one that came from it, or
// one from elsewhere that is the image this channel would have.
func (r *resolution) find(v Version, repository string) (Run, bool) {
	var found Run
	best := fromNowhere
	image := v.Image(cmp.Or(repository, r.channel.Repository))
	offer := func(release Release, channel string, from int) {
		if release.Image != image && (repository != "" || channel != r.channel.Name) {
			return
		}
		if run := (Run{release, channel}); from < best || from == best && compareRuns(run, found) < 0 {
			found, best = run, from
		}
	}
	offerRun := func(run Run, from int) {
		if run.Version != v {
			return
		}
		if run.Channel != r.channel.Name {
			from = fromOtherRun
		}
		offer(run.Release, run.Channel, from)
		// The list shows a run with the image that its channel has for it now.
		if channel, ok := findChannel(r.channels, run.Channel); ok {
			if release, ok := channel.release(v); ok {
				offer(release, run.Channel, from)
			}
		}
	}
	if release, ok := r.channel.release(v); ok {
		offer(release, r.channel.Name, fromOwnChannel)
	}
	if best == fromOwnChannel {
		return found, true
	}
	if r.Current != nil {
		offerRun(*r.Current, fromCurrent)
	}
	for _, run := range r.runs {
		offerRun(run, fromOwnRun)
	}
	for _, channel := range r.channels {
		if head, ok := channel.Head(); ok && head.Version == v {
			offer(head, channel.Name, fromOtherHead)
		}
	}
	return found, best < fromNowhere
}

// compareRuns only makes the choice between equally good runs independent of their order.
func compareRuns(a, b Run) int {
	return cmp.Or(cmp.Compare(a.Channel, b.Channel), compareReleases(a.Release, b.Release))
}

// choices are the versions that a pin may name.
func (r *resolution) choices() []choice {
	var choices []choice
	for _, release := range r.channel.Releases {
		choices = append(choices, r.channel.choice(release.Version, release.Image, r.channel.Name))
	}
	for _, channel := range r.channels {
		if head, ok := channel.Head(); ok {
			choices = append(choices, r.channel.choice(head.Version, head.Image, channel.Name))
		}
	}
	for _, run := range r.runs {
		choices = append(choices, r.channel.choice(run.Version, run.Image, run.Channel))
	}
	if r.Current != nil {
		choices = append(choices, r.channel.choice(r.Current.Version, r.Current.Image, r.Current.Channel))
	}
	return choices
}

// choice writes a version for a deployment of this channel as briefly as it can be written.
func (c Channel) choice(v Version, image, from string) choice {
	if from == c.Name || image == v.Image(c.Repository) {
		return choice{version: v, written: v.String()}
	}
	return choice{version: v, written: image}
}
