package version

import (
	"fmt"
	"strings"

	"github.com/Masterminds/semver/v3"
)

// Policy says which versions of an image repository belong to a channel: those in a range,
// and pre-releases only when asked for. The zero value takes every release.
//
// Pre-releases are left out unless the policy takes them, whatever the range says. When it
// takes them, each comparator of the range is applied by itself:
//
//   - One that names no pre-release looks at the release that the pre-release leads to:
//     >=1.2.0 takes 1.2.0-rc.1, and <2.0.0 leaves out 2.0.0-rc.1.
//   - One that names a pre-release compares by precedence: >=1.2.0-rc.2 leaves out
//     1.2.0-rc.1.
//
// So nobody has to write >=1.2.0-0 to be shown pre-releases, and nobody who keeps away from
// 2.0.0 gets its release candidates.
type Policy struct {
	text        string
	preReleases bool
	// alternatives are the parts between ||; one of them has to hold, with all of its
	// comparators. Empty means any version.
	alternatives [][]comparator
}

// comparator is one bound of a range, such as >=1.2.0.
type comparator struct {
	constraint       *semver.Constraints
	namesAPreRelease bool
}

// ParsePolicy reads a range in the syntax of github.com/Masterminds/semver, such as
// ">=1.2.0 <2" or "~1.6 || ^2.1". An empty range takes any version.
func ParsePolicy(rangeText string, preReleases bool) (Policy, error) {
	policy := Policy{text: rangeText, preReleases: preReleases}
	if rangeText == "" {
		return policy, nil
	}
	whole, err := semver.NewConstraint(rangeText)
	if err != nil {
		return Policy{}, fmt.Errorf("version range %s: %w", quote(rangeText), err)
	}
	// The library decides about pre-releases for a whole range at once. Its normal form has
	// one separator each between alternatives and comparators, which makes it safe to take apart.
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

// String is the range as it was given.
func (p Policy) String() string { return p.text }

// Matches tells whether the policy takes the version.
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
		if allHold(comparators, release, whole) {
			return true
		}
	}
	return false
}

func allHold(comparators []comparator, release, whole *semver.Version) bool {
	for _, c := range comparators {
		subject := release
		if c.namesAPreRelease {
			subject = whole
		}
		if !c.constraint.Check(subject) {
			return false
		}
	}
	return true
}
