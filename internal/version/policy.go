package version

import (
	"fmt"
	"strings"

	"github.com/Masterminds/semver/v3"
)

// Policy selects the versions of an image repository that belong to a channel: those in a range,
// with pre-releases only if they are enabled. The zero value matches every release.
//
// Pre-releases never match unless they are enabled, whatever the range. If they are enabled, each
// comparator of the range is applied separately:
//
//   - A comparator without a pre-release compares the release that the pre-release precedes:
//     >=1.2.0 matches 1.2.0-rc.1, and <2.0.0 does not match 2.0.0-rc.1.
//   - A comparator with a pre-release compares by precedence: >=1.2.0-rc.2 does not match
//     1.2.0-rc.1.
//
// So >=1.2.0 needs no -0 suffix to include pre-releases, and <2.0.0 excludes the release
// candidates of 2.0.0.
type Policy struct {
	text        string
	preReleases bool
	// alternatives are the parts between ||; a version matches if all comparators of one of them
	// match. Empty means any version.
	alternatives [][]comparator
}

// comparator is one bound of a range, such as >=1.2.0.
type comparator struct {
	constraint    *semver.Constraints
	hasPreRelease bool
}

// ParsePolicy parses a range in the syntax of github.com/Masterminds/semver, such as
// ">=1.2.0 <2" or "~1.6 || ^2.1". An empty range matches any version.
func ParsePolicy(rangeText string, preReleases bool) (Policy, error) {
	policy := Policy{text: rangeText, preReleases: preReleases}
	if rangeText == "" {
		return policy, nil
	}
	whole, err := semver.NewConstraint(rangeText)
	if err != nil {
		return Policy{}, fmt.Errorf("version range %s: %w", quote(rangeText), err)
	}
	// The library handles pre-releases for a whole range at once. Its normal form has exactly
	// one separator between alternatives and between comparators, so it can be split.
	for alternative := range strings.SplitSeq(whole.String(), " || ") {
		var comparators []comparator
		for text := range strings.SplitSeq(alternative, " ") {
			constraint, err := semver.NewConstraint(text)
			if err != nil {
				return Policy{}, fmt.Errorf("version range %s: %w", quote(rangeText), err)
			}
			number, _, _ := strings.Cut(text, "+")
			comparators = append(comparators, comparator{constraint, strings.Contains(number, "-")})
		}
		policy.alternatives = append(policy.alternatives, comparators)
	}
	return policy, nil
}

// String returns the range as it was passed to ParsePolicy.
func (p Policy) String() string { return p.text }

// Matches reports whether the policy selects the version.
func (p Policy) Matches(v Version) bool {
	if v.IsPreRelease() && !p.preReleases {
		return false
	}
	if len(p.alternatives) == 0 {
		return true
	}
	release := semver.New(v.major, v.minor, v.patch, "", "")
	whole := release
	if v.IsPreRelease() {
		whole = semver.New(v.major, v.minor, v.patch, v.preRelease, "")
	}
	for _, comparators := range p.alternatives {
		if allMatch(comparators, release, whole) {
			return true
		}
	}
	return false
}

func allMatch(comparators []comparator, release, whole *semver.Version) bool {
	for _, c := range comparators {
		subject := release
		if c.hasPreRelease {
			subject = whole
		}
		if !c.constraint.Check(subject) {
			return false
		}
	}
	return true
}
