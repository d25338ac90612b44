package version

import "cmp"

// ObservedPin is the state of a pin between two calls of Resolve.
//
// Its zero value means that there was no pin. That differs from no state (a nil
// Request.Observed): a pin that is set where none was is new, and applies even if it is a
// downgrade; a pin of a deployment whose status was lost may have been overtaken, so it does
// not downgrade.
type ObservedPin struct {
	// Written is the pin's text.
	Written string
	// ChannelHead is the head of the channel when the pin was first observed. It is empty once
	// the channel has moved past it and the pin no longer applies.
	ChannelHead string
}

// Overtaken reports whether the channel has moved past the pin, so that the pin no longer applies.
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
		// The pin is not looked up: its version may no longer be available.
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
		// A pinned version keeps its digest, even if its tag is pushed again.
		found.Release = r.running()
	}
	return Decision{Target: found.Release, Channel: found.Channel, Reason: ReasonPinned}, nil
}

// observe returns the state of the pin after this decision.
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
		// Without a head there is nothing to move past: the pin is observed once there is one.
		return ObservedPin{}
	}
	return ObservedPin{Written: r.Pin, ChannelHead: head.Version.String()}
}

// Sources of a pinned release, in order of preference.
const (
	fromOwnChannel = iota
	fromCurrent
	fromOwnRun
	fromOtherHead
	fromOtherRun
	fromNowhere
)

// find returns the release that a pin names. A version without a repository is a version of the
// deployment's channel: a release of the channel, a run from it, or a release from another
// source with the image that the version would have in this channel.
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
		// The list shows a run with its channel's present image.
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

// compareRuns makes the choice between runs of equal preference independent of their order.
func compareRuns(a, b Run) int {
	return cmp.Or(cmp.Compare(a.Channel, b.Channel), compareReleases(a.Release, b.Release))
}

// choices returns the versions that a pin may name.
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

// choice returns a version in the shortest form that names it for a deployment of this channel.
func (c Channel) choice(v Version, image, from string) choice {
	if from == c.Name || image == v.Image(c.Repository) {
		return choice{version: v, written: v.String()}
	}
	return choice{version: v, written: image}
}
