package version

import (
	"errors"
	"fmt"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func entryOf(channel, repository, text string, isHead, isCurrent bool) Entry {
	v := mustParse(text)
	return Entry{ReleaseChannelVersion: v.Image(repository), Version: v, ReleaseChannel: channel, IsLatestInChannel: isHead, IsCurrent: isCurrent}
}

func ptr[T any](value T) *T { return &value }

// Arguments of entryOf.
const head, current = true, true

var listCases = map[string]struct {
	channels []Channel
	runs     []Run
	current  *Run
	want     []Entry
}{
	"no channels": {want: []Entry{}},
	"heads by channel name, without older releases that never ran": {
		channels: []Channel{channelOf("release", repository, "1.6.0", "1.5.0"), channelOf("latest", repository, "1.7.0", "1.6.9")},
		want:     []Entry{entryOf("latest", repository, "1.7.0", head, !current), entryOf("release", repository, "1.6.0", head, !current)},
	},
	"empty channel has no entry": {
		channels: []Channel{channelOf("latest", repository), channelOf("release", repository, "1.6.0")},
		want:     []Entry{entryOf("release", repository, "1.6.0", head, !current)},
	},
	"runs newest first after the head of their channel": {
		channels: []Channel{channelOf("latest", repository, "1.7.0"), channelOf("release", repository, "1.6.0")},
		runs: []Run{runOf("latest", repository, "1.2.0"), runOf("release", repository, "1.5.0"), runOf("latest", repository, "1.10.0"),
			runOf("latest", repository, "1.3.0")},
		want: []Entry{
			entryOf("latest", repository, "1.7.0", head, !current),
			entryOf("latest", repository, "1.10.0", !head, !current), // withdrawn from the channel, so not its head
			entryOf("latest", repository, "1.3.0", !head, !current),
			entryOf("latest", repository, "1.2.0", !head, !current),
			entryOf("release", repository, "1.6.0", head, !current),
			entryOf("release", repository, "1.5.0", !head, !current),
		},
	},
	"a version once a channel": {
		channels: []Channel{channelOf("latest", repository, "1.7.0")},
		runs:     []Run{runOf("latest", repository, "1.7.0"), runOf("latest", repository, "1.2.0"), runOf("latest", repository, "1.2.0")},
		current:  ptr(runOf("latest", repository, "1.2.0")),
		want:     []Entry{entryOf("latest", repository, "1.7.0", head, !current), entryOf("latest", repository, "1.2.0", !head, current)},
	},
	"head of two channels is listed for both, current only in its own": {
		channels: []Channel{channelOf("latest", repository, "1.7.0"), channelOf("release", repository, "1.7.0")},
		runs:     []Run{runOf("latest", repository, "1.7.0")},
		current:  ptr(runOf("release", repository, "1.7.0")),
		want:     []Entry{entryOf("latest", repository, "1.7.0", head, !current), entryOf("release", repository, "1.7.0", head, current)},
	},
	"current is listed although it is not among the runs": {
		channels: []Channel{channelOf("latest", repository, "1.7.0")},
		current:  ptr(runOf("latest", repository, "1.6.0")),
		want:     []Entry{entryOf("latest", repository, "1.7.0", head, !current), entryOf("latest", repository, "1.6.0", !head, current)},
	},
	"current from a deleted channel": {
		channels: []Channel{channelOf("latest", repository, "1.7.0")},
		current:  ptr(runOf("gone", repository, "1.7.0")),
		want:     []Entry{entryOf("gone", repository, "1.7.0", !head, current), entryOf("latest", repository, "1.7.0", head, !current)},
	},
	"current from an unknown channel marks the first entry of its version": {
		channels: []Channel{channelOf("release", repository, "1.7.0"), channelOf("latest", repository, "1.7.0")},
		current:  ptr(runOf("", repository, "1.7.0")),
		want:     []Entry{entryOf("latest", repository, "1.7.0", head, current), entryOf("release", repository, "1.7.0", head, !current)},
	},
	"current from an unknown channel, version in no channel": {
		channels: []Channel{channelOf("latest", repository, "1.7.0")},
		current:  ptr(runOf("", repository, "1.6.0")),
		want:     []Entry{entryOf("", repository, "1.6.0", !head, current), entryOf("latest", repository, "1.7.0", head, !current)},
	},
	"channel that moved to another repository": {
		channels: []Channel{channelOf("latest", otherRepository, "1.7.0", "1.6.0")},
		runs:     []Run{runOf("latest", repository, "1.6.0"), runOf("latest", repository, "1.5.0")},
		current:  ptr(runOf("latest", repository, "1.7.0")),
		want: []Entry{
			entryOf("latest", otherRepository, "1.7.0", head, current),
			entryOf("latest", otherRepository, "1.6.0", !head, !current), // the channel still offers it
			entryOf("latest", repository, "1.5.0", !head, !current),
		},
	},
}

func TestList(t *testing.T) {

	for name, tc := range listCases {
		t.Run(name, func(t *testing.T) {
			if diff := cmp.Diff(tc.want, List(tc.channels, tc.runs, tc.current)); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}

func TestListed(t *testing.T) {
	latest := channelOf("latest", repository, "1.7.0", "1.6.9", "1.6.0")
	stable := channelOf("release", repository, "1.6.0")
	beta := channelOf("beta", otherRepository, "2.0.0")
	entries := List(
		[]Channel{latest, stable, beta},
		[]Run{runOf("latest", repository, "1.5.0"), runOf("beta", otherRepository, "1.5.0"), runOf("gone", "old.test/cube", "1.4.0"), runOf("missing", "old.test/cube2", "1.4.0")},
		ptr(runOf("release", repository, "1.6.0")),
	)
	cases := map[string]struct {
		written   string
		channel   Channel
		want      string // channel and image; empty: rejected
		wantError string
	}{
		"version":                    {written: "1.7.0", channel: latest, want: "latest " + repository + ":v1.7.0"},
		"v version":                  {written: "v1.7.0", channel: latest, want: "latest " + repository + ":v1.7.0"},
		"image":                      {written: repository + ":v1.7.0", channel: latest, want: "latest " + repository + ":v1.7.0"},
		"older version that ran":     {written: "1.5.0", channel: latest, want: "latest " + repository + ":v1.5.0"},
		"own channel first":          {written: "1.5.0", channel: beta, want: "beta " + otherRepository + ":v1.5.0"},
		"same image next":            {written: "1.5.0", channel: stable, want: "latest " + repository + ":v1.5.0"},
		"image outranks channel":     {written: repository + ":v1.5.0", channel: beta, want: "latest " + repository + ":v1.5.0"},
		"head of another channel":    {written: "2.0.0", channel: latest, want: "beta " + otherRepository + ":v2.0.0"},
		"first of other channels":    {written: "1.4.0", channel: latest, want: "gone old.test/cube:v1.4.0"},
		"image of a deleted channel": {written: "old.test/cube2:v1.4.0", channel: latest, want: "missing old.test/cube2:v1.4.0"},
		"current":                    {written: "1.6.0", channel: latest, want: "release " + repository + ":v1.6.0"},
		"release that is not a head": {written: "1.6.9", channel: latest},
		"image, other repository":    {written: otherRepository + ":v1.7.0", channel: latest},
		"unknown version":            {written: "9.9.9", channel: latest, wantError: `version "9.9.9" is not available to deployments of release channel "latest"; available: mirror.test/cube:v2.0.0, 1.7.0, 1.6.0, 1.5.0, mirror.test/cube:v1.5.0, old.test/cube2:v1.4.0, old.test/cube:v1.4.0`},
		"not a version": {written: "newest", channel: latest, wantError: `version "newest" is not in an accepted form: write <version> (such as 1.2.3), v<version> or registry.test:5000/cube:v<version>; ` +
			`available: mirror.test/cube:v2.0.0, 1.7.0, 1.6.0, 1.5.0, mirror.test/cube:v1.5.0, old.test/cube2:v1.4.0, old.test/cube:v1.4.0`},
		"digest": {written: repository + ":v1.7.0@sha256:0123", channel: latest},
		"empty":  {written: "", channel: latest},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			got, err := Listed(tc.written, entries, tc.channel)
			if tc.want != "" {
				if found := got.ReleaseChannel + " " + got.ReleaseChannelVersion; err != nil || found != tc.want {
					t.Errorf("got %q, %v, want %q", found, err, tc.want)
				}
				return
			}
			if unknown := (*UnknownVersionError)(nil); !errors.As(err, &unknown) || unknown.Given != tc.written {
				t.Fatalf("got %v, %v, want an *UnknownVersionError", got, err)
			}
			if tc.wantError != "" && err.Error() != tc.wantError {
				t.Errorf("got error  %s\nwant       %s", err, tc.wantError)
			}
		})
	}
	t.Run("empty list", func(t *testing.T) {
		_, err := Listed("1.2.3", nil, latest)
		if want := `version "1.2.3" is not available to deployments of release channel "latest"; no version is available`; err == nil || err.Error() != want {
			t.Errorf("got %v, want %s", err, want)
		}
	})
}

func TestHoldForChoice(t *testing.T) {
	latest := channelOf("latest", repository, "1.7.0", "1.6.0")
	cases := map[string]struct {
		chosen    string
		channel   Channel
		requested *bool
		want      bool
	}{
		"newest":                    {chosen: "1.7.0", channel: latest, want: false},
		"older":                     {chosen: "1.6.0", channel: latest, want: true},
		"newer than all releases":   {chosen: "1.8.0", channel: latest, want: true},
		"channel without releases":  {chosen: "1.7.0", channel: channelOf("latest", repository), want: true},
		"newest, hold requested":    {chosen: "1.7.0", channel: latest, requested: ptr(true), want: true},
		"older, hold declined":      {chosen: "1.6.0", channel: latest, requested: ptr(false), want: false},
		"newest, hold declined":     {chosen: "1.7.0", channel: latest, requested: ptr(false), want: false},
		"pre-release of the newest": {chosen: "1.7.0-rc.1", channel: latest, want: true},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			if got := HoldForChoice(mustParse(tc.chosen), tc.channel, tc.requested); got != tc.want {
				t.Errorf("got %t, want %t", got, tc.want)
			}
		})
	}
}

func ExampleList() {
	cube := func(text string) Release {
		v, _ := Parse(text)
		return Release{Version: v, Image: v.Image("cubejs/cube")}
	}
	channels := []Channel{
		NewChannel("latest", "cubejs/cube", []Release{cube("1.7.19"), cube("1.7.20")}),
		NewChannel("release", "cubejs/cube", []Release{cube("1.6.60")}),
	}
	current := Run{Release: cube("1.7.11"), Channel: "latest"}
	for _, entry := range List(channels, []Run{current}, &current) {
		fmt.Println(entry.ReleaseChannelVersion, entry.ReleaseChannel, entry.IsLatestInChannel, entry.IsCurrent)
	}
	// Output:
	// cubejs/cube:v1.7.20 latest true false
	// cubejs/cube:v1.7.11 latest false true
	// cubejs/cube:v1.6.60 release true false
}
