package version

import (
	"cmp"
	"slices"
)

// Release is a version and its images, pinned by digest.
type Release struct {
	Version Version
	// Image is the reference with its tag: <repository>:v<version>.
	Image string
	// Digest of the image, such as sha256:…; empty while it is unknown.
	Digest string
	// StoreImage is the image of the pre-aggregation store for the version, with its digest;
	// empty if the channel has none.
	StoreImage string
}

// Pinned returns the image reference to run: with the digest, or without it while it is
// unknown.
func (r Release) Pinned() string {
	if r.Digest == "" {
		return r.Image
	}
	return r.Image + "@" + r.Digest
}

// Run is a release that a deployment of the account has run. It includes the digest, so that
// it can run again after its tag was deleted from the registry.
type Run struct {
	Release
	// Channel that the release came from.
	Channel string
}

// Channel is a release channel and its releases.
type Channel struct {
	Name string
	// Repository is the image repository that the channel follows, without a tag.
	Repository string
	// StoreRepository is the repository of the store's images, without a tag; empty if the channel
	// has none.
	StoreRepository string
	// Releases of the channel. NewChannel sorts them newest first.
	Releases []Release
	// Stopped are releases to which deployments are not upgraded by themselves.
	Stopped []Version
	// Accepted are releases that ran on the first deployments that tried them.
	Accepted []Version
	// Places is the number of deployments that may try a release until it is accepted; 0 for no limit.
	Places int
	// Proven is the newest release that a deployment of the channel has run and that is not stopped;
	// nil if there is none.
	Proven *Version
}

// NewChannel returns a channel with the releases sorted newest first, without duplicate
// versions. Of several releases of one version, one with a digest is kept; beyond that the
// choice is arbitrary, but does not depend on their order.
func NewChannel(name, repository string, releases []Release) Channel {
	sorted := slices.SortedFunc(slices.Values(releases), compareReleases)
	sorted = slices.CompactFunc(sorted, func(a, b Release) bool { return a.Version == b.Version })
	return Channel{Name: name, Repository: repository, Releases: sorted}
}

// Head returns the newest release of the channel, or false if it has none.
func (c Channel) Head() (Release, bool) {
	return c.newest(func(Version) bool { return true })
}

// newest returns the newest release whose version matches.
func (c Channel) newest(matches func(Version) bool) (newest Release, ok bool) {
	for _, release := range c.Releases {
		if matches(release.Version) && (!ok || release.Version.Compare(newest.Version) > 0) {
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

// compareReleases orders by version, newest first, then those with a digest. The other fields
// only make the order total.
func compareReleases(a, b Release) int {
	return cmp.Or(
		b.Version.Compare(a.Version),
		TrueFirst(a.Digest != "", b.Digest != ""),
		cmp.Compare(a.Image, b.Image),
		cmp.Compare(a.Digest, b.Digest),
		cmp.Compare(a.StoreImage, b.StoreImage),
	)
}

// TrueFirst compares two values for sorting: true is before false.
func TrueFirst(a, b bool) int {
	switch {
	case a == b:
		return 0
	case a:
		return -1
	}
	return 1
}
