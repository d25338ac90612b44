package version

import (
	"cmp"
	"slices"
)

// Entry is one entry of the documented list (spec "Deployment version entry").
type Entry struct {
	// ReleaseChannelVersion is the image reference: <image_repo>:v<version>.
	ReleaseChannelVersion string
	Version               Version
	// ReleaseChannel is the channel's name.
	ReleaseChannel    string
	IsLatestInChannel bool
	// IsCurrent is true for the entry that production runs; at most one.
	IsCurrent bool
}

// List returns the documented list of versions: the head of each channel and the versions that
// the account has run. current is what production of the deployment runs, nil before the first
// install.
//
// A channel lists a version once; a version that is the head of two channels is listed for
// both. Entries are sorted by channel name; in each channel the head is first, then the newest.
//
// The ReleaseChannelVersion of every entry is a pin that Resolve accepts in every channel.
func List(channels []Channel, runs []Run, current *Run) []Entry {
	entries := make([]Entry, 0, len(channels)+len(runs))
	heads := make(map[listKey]bool, len(channels))
	for _, channel := range channels {
		head, ok := channel.Head()
		if key := (listKey{channel.Name, head.Version}); ok {
			heads[key] = true
			entries = append(entries, key.entry(head.Image, true))
		}
	}
	for key, image := range runImages(channels, runs, current) {
		if !heads[key] {
			entries = append(entries, key.entry(image, false))
		}
	}
	entries = withoutUnknownChannels(entries)
	slices.SortFunc(entries, func(a, b Entry) int {
		return cmp.Or(
			cmp.Compare(a.ReleaseChannel, b.ReleaseChannel),
			TrueFirst(a.IsLatestInChannel, b.IsLatestInChannel),
			b.Version.Compare(a.Version),
		)
	})
	if i := indexCurrent(entries, current); i >= 0 {
		entries[i].IsCurrent = true
	}
	return entries
}

// Listed returns the entry of a version, in any written form, on the documented list. channel is
// the channel that the deployment will follow: of several matching entries, that of the channel is
// preferred, then one with the image that the version would have in the channel. Errors are of
// type *UnknownVersionError.
//
// Callers should store the entry's ReleaseChannelVersion rather than the written form: it means
// the same in every channel.
func Listed(written string, entries []Entry, channel Channel) (Entry, error) {
	v, repository, isVersion := parseWritten(written)
	own := v.Image(channel.Repository)
	var found Entry
	best := -1
	for _, entry := range entries {
		if !isVersion || entry.Version != v || (repository != "" && entry.ReleaseChannelVersion != written) {
			continue
		}
		rank := 0
		switch {
		case entry.ReleaseChannel == channel.Name:
			rank = 2
		case entry.ReleaseChannelVersion == own:
			rank = 1
		}
		if rank > best {
			found, best = entry, rank
		}
	}
	if best >= 0 {
		return found, nil
	}
	choices := make([]choice, 0, len(entries))
	for _, entry := range entries {
		choices = append(choices, channel.choice(entry.Version, entry.ReleaseChannelVersion, entry.ReleaseChannel))
	}
	return Entry{}, newUnknownVersionError(written, channel, isVersion, choices)
}

// HoldForChoice returns whether to hold a version that was chosen from the list: as requested, or,
// without a request, if it is not the head of the channel. Otherwise the channel would replace it
// at once.
func HoldForChoice(chosen Version, channel Channel, requested *bool) bool {
	if requested != nil {
		return *requested
	}
	head, ok := channel.Head()
	return !ok || chosen != head.Version
}

// listKey identifies an entry of the documented list.
type listKey struct {
	channel string
	version Version
}

func (k listKey) entry(image string, isHead bool) Entry {
	return Entry{ReleaseChannelVersion: image, Version: k.version, ReleaseChannel: k.channel, IsLatestInChannel: isHead}
}

// runImages returns the image of every version that has run: the channel's image if the channel
// still has the version.
func runImages(channels []Channel, runs []Run, current *Run) map[listKey]string {
	images := make(map[listKey]string, len(runs)+1)
	add := func(run Run) {
		key := listKey{run.Channel, run.Version}
		if image, ok := images[key]; !ok || run.Image < image {
			images[key] = run.Image
		}
	}
	for _, run := range runs {
		add(run)
	}
	if current != nil {
		add(*current)
	}
	for _, channel := range channels {
		for _, release := range channel.Releases {
			key := listKey{channel.Name, release.Version}
			if _, hasRun := images[key]; hasRun {
				images[key] = release.Image
			}
		}
	}
	return images
}

// withoutUnknownChannels drops the entries without a channel whose version is listed for a
// channel.
func withoutUnknownChannels(entries []Entry) []Entry {
	named := make(map[Version]bool, len(entries))
	for _, entry := range entries {
		if entry.ReleaseChannel != "" {
			named[entry.Version] = true
		}
	}
	return slices.DeleteFunc(entries, func(e Entry) bool { return e.ReleaseChannel == "" && named[e.Version] })
}

// indexCurrent returns the index of the entry for current: the one of its channel, or else the
// first of its version; -1 if nothing runs.
func indexCurrent(entries []Entry, current *Run) int {
	if current == nil {
		return -1
	}
	i := slices.IndexFunc(entries, func(e Entry) bool {
		return e.ReleaseChannel == current.Channel && e.Version == current.Version
	})
	if i < 0 {
		i = slices.IndexFunc(entries, func(e Entry) bool { return e.Version == current.Version })
	}
	return i
}
