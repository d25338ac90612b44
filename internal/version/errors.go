package version

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"unicode/utf8"
)

// maxNamed is the number of choices that an error names at most, and maxQuoted the number of
// bytes of the input that it quotes: the messages appear in conditions and HTTP responses.
const (
	maxNamed  = 20
	maxQuoted = 256
)

// FormError reports a text that is not one of the written forms of a version.
type FormError struct {
	// Given is the text.
	Given string
	// ImageRepository is the repository that the third form must name.
	ImageRepository string
}

func (e *FormError) Error() string {
	problem := "is not in an accepted form"
	if strings.Contains(e.Given, "@") {
		problem = "has a digest, which follows from the version and cannot be chosen"
	}
	return fmt.Sprintf("version %s %s: write <version> (such as 1.2.3), v<version> or %s:v<version>",
		quote(e.Given), problem, cmp.Or(e.ImageRepository, "<image_repo>"))
}

// UnknownVersionError reports a version that a deployment cannot choose.
type UnknownVersionError struct {
	// Given is the version as written.
	Given string
	// Channel of the deployment.
	Channel string
	// Allowed lists the available versions, newest first, at most 20. Each is in an
	// accepted written form: <version> where that is unambiguous.
	Allowed []string
	// More is the number of available versions that are not in Allowed.
	More int
	// Form is set if the text is not a version.
	Form *FormError
}

func (e *UnknownVersionError) Error() string {
	problem := fmt.Sprintf("version %s is not available to deployments of release channel %q", quote(e.Given), e.Channel)
	if e.Form != nil {
		problem = e.Form.Error()
	}
	if len(e.Allowed) == 0 {
		return problem + "; no version is available"
	}
	return problem + "; available: " + enumerate(e.Allowed, e.More)
}

// Unwrap returns the *FormError, or nil.
func (e *UnknownVersionError) Unwrap() error {
	if e.Form == nil {
		return nil
	}
	return e.Form
}

// UnknownChannelError reports a release channel that does not exist.
type UnknownChannelError struct {
	Channel string
	// Existing lists the names of the existing channels, sorted, at most 20.
	Existing []string
	// More is the number of channels that are not in Existing.
	More int
}

func (e *UnknownChannelError) Error() string {
	problem := fmt.Sprintf("release channel %s does not exist", quote(e.Channel))
	if len(e.Existing) == 0 {
		return problem + "; there are no release channels"
	}
	return problem + "; existing: " + enumerate(e.Existing, e.More)
}

// EmptyChannelError reports that a release channel has no releases, so that a deployment that
// runs nothing yet cannot be installed.
type EmptyChannelError struct {
	Channel string
}

func (e *EmptyChannelError) Error() string {
	return fmt.Sprintf("release channel %q has no releases yet", e.Channel)
}

// StoppedError reports that all releases of a channel are stopped, so that a deployment that runs
// nothing yet cannot be installed.
type StoppedError struct {
	Channel string
	// Version is the newest of the releases.
	Version Version
}

func (e *StoppedError) Error() string {
	return fmt.Sprintf("release channel %q has stopped version %s, and no other can be installed; release a newer one, or resume it with spec.rollout.resumeVersion of the channel",
		e.Channel, e.Version)
}

// choice is an available version, in a written form that names it.
type choice struct {
	version Version
	written string
}

func newUnknownVersionError(given string, channel Channel, isVersion bool, choices []choice) *UnknownVersionError {
	slices.SortFunc(choices, func(a, b choice) int {
		return cmp.Or(b.version.Compare(a.version), cmp.Compare(a.written, b.written))
	})
	choices = slices.Compact(choices)
	err := &UnknownVersionError{Given: given, Channel: channel.Name}
	if !isVersion {
		err.Form = &FormError{Given: given, ImageRepository: channel.Repository}
	}
	for _, c := range choices[:min(len(choices), maxNamed)] {
		err.Allowed = append(err.Allowed, c.written)
	}
	err.More = len(choices) - len(err.Allowed)
	return err
}

func newUnknownChannelError(given string, channels []Channel) *UnknownChannelError {
	names := make([]string, 0, len(channels))
	for _, channel := range channels {
		names = append(names, channel.Name)
	}
	slices.Sort(names)
	names = slices.Compact(names)
	named := names[:min(len(names), maxNamed)]
	return &UnknownChannelError{Channel: given, Existing: named, More: len(names) - len(named)}
}

func enumerate(named []string, more int) string {
	text := strings.Join(named, ", ")
	if more > 0 {
		text += fmt.Sprintf(" and %d more", more)
	}
	return text
}

// quote quotes at most maxQuoted bytes of the text, without splitting a rune.
func quote(text string) string {
	if len(text) <= maxQuoted {
		return fmt.Sprintf("%q", text)
	}
	cut := maxQuoted
	for cut > maxQuoted-utf8.UTFMax && !utf8.RuneStart(text[cut]) {
		cut--
	}
	return fmt.Sprintf("%q", text[:cut]+"…")
}
