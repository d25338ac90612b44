package releasechannel

import (
	"cmp"
	"fmt"
	"slices"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/quoin-dev/quoin/api/v1alpha1"
	"github.com/quoin-dev/quoin/internal/version"
)

// defaultKeep is the number of versions of a channel when spec.policy.keep is not set.
const defaultKeep = 50

// selection selects the tags of the repository that belong to the channel.
type selection struct {
	spec   *v1alpha1.ReleaseChannelSpec
	policy version.Policy
	keep   int
	// listed are the versions of an explicit list; nil for a policy.
	listed map[version.Version]v1alpha1.ListedVersion
}

func newSelection(spec *v1alpha1.ReleaseChannelSpec) (*selection, error) {
	s := &selection{spec: spec, keep: defaultKeep}
	if len(spec.Versions) > 0 {
		s.listed = map[version.Version]v1alpha1.ListedVersion{}
		s.keep = len(spec.Versions)
		for _, v := range spec.Versions {
			parsed, err := version.Parse(v.Version)
			if err != nil {
				return nil, fmt.Errorf("spec.versions: %w", err)
			}
			s.listed[parsed] = v
		}
		return s, nil
	}
	policy := v1alpha1.VersionPolicy{}
	if spec.Policy != nil {
		policy = *spec.Policy
	}
	if policy.Keep != nil {
		s.keep = int(*policy.Keep)
	}
	var err error
	if s.policy, err = version.ParsePolicy(policy.Range, policy.PreReleases != nil && *policy.PreReleases); err != nil {
		return nil, fmt.Errorf("spec.policy.range: %w", err)
	}
	return s, nil
}

// needsTags reports whether the versions depend on the tags of the repository: a listed version with a digest does not.
func (s *selection) needsTags() bool {
	for _, v := range s.listed {
		if v.Digest == "" {
			return true
		}
	}
	return s.listed == nil
}

// of returns the versions of the channel, newest first: those among tags that belong to it, and listed ones with a digest.
func (s *selection) of(tags []string) []version.Version {
	var versions []version.Version
	for v, listed := range s.listed {
		if listed.Digest != "" {
			versions = append(versions, v)
		}
	}
	for _, tag := range tags {
		v, err := version.ParseTag(tag)
		if err != nil {
			continue // not a version: latest, v1, v1.2, …
		}
		if s.matches(v) {
			versions = append(versions, v)
		}
	}
	slices.SortFunc(versions, func(a, b version.Version) int { return b.Compare(a) })
	versions = slices.Compact(versions)
	return versions[:min(len(versions), s.keep)]
}

func (s *selection) matches(v version.Version) bool {
	if s.listed != nil {
		_, ok := s.listed[v]
		return ok
	}
	return s.policy.Matches(v)
}

// describe returns a description of the selection for messages.
func (s *selection) describe() string {
	if s.listed != nil {
		return "spec.versions"
	}
	return "spec.policy: " + cmp.Or(s.policy.String(), "every release")
}

// scanResult is the result of a scan.
type scanResult struct {
	spec *v1alpha1.ReleaseChannelSpec
	// selected are the versions of the channel, newest first.
	selected []version.Version
	// listed are the versions of an explicit list, with the digests that they specify.
	listed map[version.Version]v1alpha1.ListedVersion
	// digests are those that were read, by version; that of the newest version always is.
	digests map[version.Version]string
	// storeDigests are the digests of the store's images that were read, by version.
	storeDigests map[version.Version]string
	// missing are the versions of an explicit list that the repository does not have.
	missing []string
	// storeErr is why the store's images could not be read although all versions are known.
	storeErr error
}

// versions merges the result with the known versions: a version keeps its first digest. It also
// returns the tag of the newest version if its content has changed.
func (f *scanResult) versions(known []v1alpha1.ChannelVersion, now metav1.Time) (versions []v1alpha1.ChannelVersion, repushed string) {
	before := map[string]v1alpha1.ChannelVersion{}
	for _, k := range known {
		before[k.Image] = k
	}
	for _, v := range f.selected {
		entry, ok := before[v.Image(f.spec.ImageRepository)]
		if !ok {
			entry = v1alpha1.ChannelVersion{Version: v.String(), Image: v.Image(f.spec.ImageRepository), FirstSeen: now}
		}
		read := f.digests[v]
		if entry.Digest != "" && read != "" && read != entry.Digest && len(versions) == 0 {
			repushed = v.Tag()
		}
		entry.Digest = cmp.Or(f.listed[v].Digest, entry.Digest, read)
		entry.StoreImage = f.storeImage(entry.StoreImage, v)
		versions = append(versions, entry)
	}
	return versions, repushed
}

// storeImage returns the store's image of a version: the specified one, or the known one unless the repository has changed.
func (f *scanResult) storeImage(known string, v version.Version) string {
	if f.spec.StoreImageRepository == "" {
		return ""
	}
	image := v.Image(f.spec.StoreImageRepository)
	if digest := f.listed[v].StoreDigest; digest != "" {
		return image + "@" + digest
	}
	if hasImage(known, image) {
		return known
	}
	if digest := f.storeDigests[v]; digest != "" {
		return image + "@" + digest
	}
	return ""
}

// withoutStore returns the selected versions whose image of the store has to be read.
func (f *scanResult) withoutStore(known []v1alpha1.ChannelVersion) []version.Version {
	if f.spec.StoreImageRepository == "" {
		return nil
	}
	images := map[string]string{}
	for _, k := range known {
		images[k.Version] = k.StoreImage
	}
	return slices.DeleteFunc(slices.Clone(f.selected), func(v version.Version) bool { return f.storeImage(images[v.String()], v) != "" })
}

// hasImage reports whether a pinned reference refers to the image.
func hasImage(pinned, image string) bool {
	return len(pinned) > len(image) && pinned[:len(image)] == image && pinned[len(image)] == '@'
}
