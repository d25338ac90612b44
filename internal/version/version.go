package version

import (
	"cmp"
	"fmt"
	"strconv"
	"strings"
)

// MaxTagLength is the maximum length of a version written as a tag, including the leading v. It is
// the limit of the OCI distribution specification for tags.
const MaxTagLength = 128

// Version is a semantic version without build metadata (semver.org 2.0.0): three numbers
// and an optional pre-release. The zero value is 0.0.0.
//
// Each version has exactly one written form, so == holds exactly if neither version has
// precedence over the other, and a Version can be a map key.
//
// A variant such as v1.2.3-jdk is a pre-release: it precedes 1.2.3, and belongs only to channels
// with pre-releases.
type Version struct {
	major, minor, patch uint64
	preRelease          string
}

// Parse parses the form that String returns: 1.2.3 or 1.2.3-rc.1.
func Parse(text string) (Version, error) {
	v, ok := parse(text)
	if !ok {
		return Version{}, fmt.Errorf("%s is not a version such as 1.2.3", quote(text))
	}
	return v, nil
}

// ParseTag parses an image tag: v1.2.3 or v1.2.3-rc.1. Registries hold many other tags
// (latest, v1.2, dev), for which an error is expected.
func ParseTag(tag string) (Version, error) {
	v, ok := parseTag(tag)
	if !ok {
		return Version{}, fmt.Errorf("tag %s is not a version such as v1.2.3", quote(tag))
	}
	return v, nil
}

// ParseWritten parses a version in any written form: <version>, v<version> or
// <image_repo>:v<version> (spec "Update a deployment"). The repository must equal
// imageRepository; it may include a port. Errors are of type *FormError.
func ParseWritten(written, imageRepository string) (Version, error) {
	v, repository, ok := parseWritten(written)
	if !ok || (repository != "" && repository != imageRepository) {
		return Version{}, &FormError{Given: written, ImageRepository: imageRepository}
	}
	return v, nil
}

// String returns the version without a prefix: 1.2.3.
func (v Version) String() string { return string(v.append(make([]byte, 0, 32))) }

// Tag returns the version as an image tag: v1.2.3.
func (v Version) Tag() string { return string(v.append(append(make([]byte, 0, 32), 'v'))) }

// Image returns the version as an image reference: <repository>:v1.2.3.
func (v Version) Image(repository string) string { return repository + ":" + v.Tag() }

// IsPreRelease reports whether the version is a pre-release, such as 1.2.3-rc.1.
func (v Version) IsPreRelease() bool { return v.preRelease != "" }

// Equal reports whether v == other, for packages such as go-cmp that look for the method.
func (v Version) Equal(other Version) bool { return v == other }

// Compare compares by precedence (semver.org 2.0.0, item 11). The result is negative if v precedes
// other, 0 if they are equal, and positive if v follows other.
func (v Version) Compare(other Version) int {
	return cmp.Or(
		cmp.Compare(v.major, other.major),
		cmp.Compare(v.minor, other.minor),
		cmp.Compare(v.patch, other.patch),
		comparePreReleases(v.preRelease, other.preRelease),
	)
}

func (v Version) append(b []byte) []byte {
	b = strconv.AppendUint(b, v.major, 10)
	b = append(b, '.')
	b = strconv.AppendUint(b, v.minor, 10)
	b = append(b, '.')
	b = strconv.AppendUint(b, v.patch, 10)
	if v.preRelease != "" {
		b = append(b, '-')
		b = append(b, v.preRelease...)
	}
	return b
}

// parseWritten splits a written form; repository is empty if the form has none.
func parseWritten(written string) (v Version, repository string, ok bool) {
	colon := strings.LastIndexByte(written, ':')
	switch {
	case colon == 0:
		return Version{}, "", false
	case colon > 0:
		v, ok = parseTag(written[colon+1:])
		return v, written[:colon], ok
	}
	v, ok = parse(strings.TrimPrefix(written, "v"))
	return v, "", ok
}

func parseTag(tag string) (Version, bool) {
	number, ok := strings.CutPrefix(tag, "v")
	if !ok {
		return Version{}, false
	}
	return parse(number)
}

func parse(text string) (v Version, ok bool) {
	if len("v")+len(text) > MaxTagLength {
		return Version{}, false
	}
	core, preRelease, dash := strings.Cut(text, "-")
	if dash && !validPreRelease(preRelease) {
		return Version{}, false
	}
	major, rest, _ := strings.Cut(core, ".")
	minor, patch, _ := strings.Cut(rest, ".")
	v.preRelease = preRelease
	for _, part := range []struct {
		text   string
		number *uint64
	}{{major, &v.major}, {minor, &v.minor}, {patch, &v.patch}} {
		if *part.number, ok = parseNumber(part.text); !ok {
			return Version{}, false
		}
	}
	return v, true
}

// parseNumber rejects leading zeros, so that each version has exactly one written form.
func parseNumber(text string) (uint64, bool) {
	if !isNumeric(text) || hasLeadingZero(text) {
		return 0, false
	}
	n, err := strconv.ParseUint(text, 10, 64)
	return n, err == nil
}

func validPreRelease(text string) bool {
	for identifier := range strings.SplitSeq(text, ".") {
		if identifier == "" || (isNumeric(identifier) && hasLeadingZero(identifier)) {
			return false
		}
		for _, c := range []byte(identifier) {
			if !isDigit(c) && (c < 'a' || c > 'z') && (c < 'A' || c > 'Z') && c != '-' {
				return false
			}
		}
	}
	return true
}

// comparePreReleases compares identifier by identifier. Numbers are compared as text, by
// length first, because they may exceed every integer type.
func comparePreReleases(a, b string) int {
	switch {
	case a == b:
		return 0
	case a == "":
		return 1
	case b == "":
		return -1
	}
	for a != "" && b != "" {
		var x, y string
		x, a, _ = strings.Cut(a, ".")
		y, b, _ = strings.Cut(b, ".")
		if x == y {
			continue
		}
		switch xNumeric, yNumeric := isNumeric(x), isNumeric(y); {
		case xNumeric && yNumeric:
			return cmp.Or(cmp.Compare(len(x), len(y)), cmp.Compare(x, y))
		case xNumeric:
			return -1
		case yNumeric:
			return 1
		}
		return cmp.Compare(x, y)
	}
	return cmp.Compare(len(a), len(b))
}

func isNumeric(text string) bool {
	for i := range len(text) {
		if !isDigit(text[i]) {
			return false
		}
	}
	return text != ""
}

func isDigit(c byte) bool { return '0' <= c && c <= '9' }

func hasLeadingZero(text string) bool { return len(text) > 1 && text[0] == '0' }
