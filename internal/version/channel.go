package version

import (
	"cmp"
	"slices"
)

// Release is a version that can be run: its images, pinned by digest.
type Release struct {
	Version Version
	// Image is the reference with its tag: <repository>:v<version>.
	Image string
	// Digest of the image, such as sha256:…; empty while it is not known.
	Digest string
	// StoreImage is the image of the pre-aggregation store that belongs to the version, with
	// its digest; empty when the channel has none.
	StoreImage string
}

// Pinned is the reference to run: the image with its digest, or without one while it is
// not known.
func (r Release) Pinned() string {
	if r.Digest == "" {
		return r.Image
	}
	return r.Image + "@" + r.Digest
}

// Run is a release that a deployment of the account has run. It carries its digest, so that
// it can be run again when the registry's tag is gone.
type Run struct {
	Release
	// Channel that the release came from.
	Channel string
}

// Channel is a release channel and what it offers.
type Channel struct {
	Name string
	// Repository is the image repository that the channel follows, without a tag.
	Repository string
	// Releases that the channel offers. NewChannel puts the newest first.
	Releases []Release
}

// NewChannel returns a channel with the releases sorted newest first and each version once.
// Of several releases of one version, one with a digest is kept; beyond that the choice is
// arbitrary, but does not depend on their order.
func NewChannel(name, repository string, releases []Release) Channel {
	sorted := slices.SortedFunc(slices.Values(releases), compareReleases)
	sorted = slices.CompactFunc(sorted, func(a, b Release) bool { return a.Version == b.Version })
	return Channel{Name: name, Repository: repository, Releases: sorted}
}

// Head is the newest release of the channel; false when it has none.
func (c Channel) Head() (Release, bool) {
	return c.newest(func(Version) bool { return true })
}

// newest is the newest release among those whose version is wanted.
func (c Channel) newest(wanted func(Version) bool) (newest Release, ok bool) {
	for _, release := range c.Releases {
		if wanted(release.Version) && (!ok || release.Version.Compare(newest.Version) > 0) {
			newest, ok = release, true
		}
	}
	return newest, ok
}

func (c Channel) release(v Version) (Release, bool) {
	for _, release := range c.Releases {
		if release.Version == v {
			return release, true
		}
	}
	return Release{}, false
}

func findChannel(channels []Channel, name string) (Channel, bool) {
	for _, channel := range channels {
		if channel.Name == name {
			return channel, true
		}
	}
	return Channel{}, false
}

// compareReleases puts the newest first, then those with a digest. The rest only makes the
// order total.
func compareReleases(a, b Release) int {
	return cmp.Or(
		b.Version.Compare(a.Version),
		compareTrueFirst(a.Digest != "", b.Digest != ""),
		cmp.Compare(a.Image, b.Image),
		cmp.Compare(a.Digest, b.Digest),
		cmp.Compare(a.StoreImage, b.StoreImage),
	)
}

func compareTrueFirst(a, b bool) int {
	switch {
	case a == b:
		return 0
	case a:
		return -1
	}
	return 1
}
