package version

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// resolveCase is one row of the tables of Resolve. Versions are of repository, unless
// the row names another one.
type resolveCase struct {
	request  Request
	channels []Channel
	runs     []Run
	want     Decision
	// wantError is the error expected instead of want.
	wantError string
}

func runResolveCases(t *testing.T, cases map[string]resolveCase) {
	t.Helper()
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			got, err := Resolve(tc.request, tc.channels, tc.runs)
			if tc.wantError != "" {
				if err == nil || err.Error() != tc.wantError {
					t.Errorf("got %+v, error %v\nwant error %s", got, err, tc.wantError)
				}
			} else if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(tc.want, got); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}

// decision returns the decision for a release of repository in a channel.
func decision(reason Reason, channel, text string, hold bool) Decision {
	return Decision{Target: release(repository, text), Channel: channel, Reason: reason, Hold: hold}
}

func TestResolveUnknownChannelOrPolicy(t *testing.T) {
	var many []Channel
	for i := range 22 {
		many = append(many, channelOf(fmt.Sprintf("c%02d", 21-i), repository, "1.0.0"))
	}
	running := ptr(runOf("latest", repository, "1.6.0"))
	empty := []Channel{channelOf("latest", repository)}
	runResolveCases(t, map[string]resolveCase{
		"no channels": {
			request: Request{Channel: "latest"}, wantError: `release channel "latest" does not exist; there are no release channels`,
		},
		"sorted names": {
			request: Request{Channel: "x"}, channels: []Channel{channelOf("release", repository), channelOf("latest", repository)},
			wantError: `release channel "x" does not exist; existing: latest, release`,
		},
		"the first twenty names": {
			request: Request{Channel: "x"}, channels: many,
			wantError: `release channel "x" does not exist; existing: c00, c01, c02, c03, c04, c05, c06, c07, c08, c09, c10, c11, c12, c13, c14, c15, c16, c17, c18, c19 and 2 more`,
		},
		"empty name": {
			request: Request{}, channels: empty, wantError: `release channel "" does not exist; existing: latest`,
		},
		"unknown channel is an error even if held": {
			request: Request{Channel: "x", Hold: ptr(true), Current: running}, channels: empty,
			wantError: `release channel "x" does not exist; existing: latest`,
		},
		"unknown upgrade policy": {
			request: Request{Channel: "latest", Upgrade: "minor"}, channels: empty,
			wantError: `upgrade policy "minor" does not exist; existing: Latest, Minor, Patch`,
		},
	})
}

func TestResolveEmptyChannel(t *testing.T) {
	running := ptr(runOf("latest", repository, "1.6.0"))
	empty := []Channel{channelOf("latest", repository)}
	runResolveCases(t, map[string]resolveCase{
		"empty, nothing runs": {
			request: Request{Channel: "latest"}, channels: empty, wantError: `release channel "latest" has no releases yet`,
		},
		"empty, held, nothing runs": {
			request: Request{Channel: "latest", Hold: ptr(true)}, channels: empty, wantError: `release channel "latest" has no releases yet`,
		},
		"empty, current stays": {
			request: Request{Channel: "latest", Current: running}, channels: empty,
			want: decision(ReasonChannelEmpty, "latest", "1.6.0", false),
		},
		"empty, current from another channel stays there": {
			request: Request{Channel: "latest", Current: ptr(runOf("release", repository, "1.6.0"))}, channels: empty,
			want: decision(ReasonChannelEmpty, "release", "1.6.0", false),
		},
		"empty, held": {
			request: Request{Channel: "latest", Hold: ptr(true), Current: running}, channels: empty,
			want: decision(ReasonHeld, "latest", "1.6.0", true),
		},
		"empty, pin that has run": {
			request: Request{Channel: "latest", Pin: "1.5.0", Current: running}, channels: empty,
			runs: []Run{runOf("latest", repository, "1.5.0")},
			want: decision(ReasonPinned, "latest", "1.5.0", true),
		},
		"empty, unknown pin, current stays": {
			request: Request{Channel: "latest", Pin: "1.5.0", Current: running}, channels: empty,
			want: decision(ReasonChannelEmpty, "latest", "1.6.0", true),
		},
		"empty, unknown pin, nothing runs": {
			request: Request{Channel: "latest", Pin: "1.5.0"}, channels: empty, wantError: `release channel "latest" has no releases yet`,
		},
		"empty, pin that is not a version": {
			request: Request{Channel: "latest", Pin: "newest", Current: running}, channels: empty,
			wantError: `version "newest" is not in an accepted form: write <version> (such as 1.2.3), v<version> or registry.test:5000/cube:v<version>; available: 1.6.0`,
		},
	})
}

var followedChannels = []Channel{
	channelOf("release", repository, "1.6.1", "1.6.0"),
	channelOf("latest", repository, "2.1.0", "2.0.0", "1.7.1", "1.7.0", "1.6.2", "1.6.1", "1.6.0"),
}

func running(channel, text string) *Run { return ptr(runOf(channel, repository, text)) }

func TestResolveFollowsChannelByUpgradePolicy(t *testing.T) {
	runResolveCases(t, map[string]resolveCase{
		"first install": {
			request: Request{Channel: "latest"}, channels: followedChannels,
			want: decision(ReasonChannelHead, "latest", "2.1.0", false),
		},
		"first install, by patch": {
			request: Request{Channel: "latest", Upgrade: UpgradePatch}, channels: followedChannels,
			want: decision(ReasonChannelHead, "latest", "2.1.0", false),
		},
		"first install, held": {
			request: Request{Channel: "latest", Hold: ptr(true)}, channels: followedChannels,
			want: decision(ReasonChannelHead, "latest", "2.1.0", true),
		},
		"no policy is Latest": {
			request: Request{Channel: "latest", Current: running("latest", "1.6.0")}, channels: followedChannels,
			want: decision(ReasonChannelHead, "latest", "2.1.0", false),
		},
		"Latest": {
			request: Request{Channel: "latest", Upgrade: UpgradeLatest, Current: running("latest", "1.6.0")}, channels: followedChannels,
			want: decision(ReasonChannelHead, "latest", "2.1.0", false),
		},
		"hold false is as hold unset": {
			request: Request{Channel: "latest", Hold: ptr(false), Current: running("latest", "1.6.0")}, channels: followedChannels,
			want: decision(ReasonChannelHead, "latest", "2.1.0", false),
		},
		"Minor stays in the major": {
			request: Request{Channel: "latest", Upgrade: UpgradeMinor, Current: running("latest", "1.6.0")}, channels: followedChannels,
			want: decision(ReasonPolicyHead, "latest", "1.7.1", false),
		},
		"Minor reaches the head in its major": {
			request: Request{Channel: "latest", Upgrade: UpgradeMinor, Current: running("latest", "2.0.0")}, channels: followedChannels,
			want: decision(ReasonChannelHead, "latest", "2.1.0", false),
		},
		"Patch stays in the minor": {
			request: Request{Channel: "latest", Upgrade: UpgradePatch, Current: running("latest", "1.6.0")}, channels: followedChannels,
			want: decision(ReasonPolicyHead, "latest", "1.6.2", false),
		},
		"Patch at the newest of the minor stays": {
			request: Request{Channel: "latest", Upgrade: UpgradePatch, Current: running("latest", "1.7.1")}, channels: followedChannels,
			want: decision(ReasonPolicyHead, "latest", "1.7.1", false),
		},
		"same minor of another major is another minor": {
			request:  Request{Channel: "latest", Upgrade: UpgradePatch, Current: running("latest", "1.6.0")},
			channels: []Channel{channelOf("latest", repository, "2.6.9", "1.6.1", "1.6.0")},
			want:     decision(ReasonPolicyHead, "latest", "1.6.1", false),
		},
		"at the head": {
			request: Request{Channel: "latest", Current: running("latest", "2.1.0")}, channels: followedChannels,
			want: decision(ReasonChannelHead, "latest", "2.1.0", false),
		},
		"a removed pin leaves no state": {
			request:  Request{Channel: "latest", Current: running("latest", "1.6.0"), Observed: &ObservedPin{Written: "1.6.0", ChannelHead: "2.0.0"}},
			channels: followedChannels,
			want:     decision(ReasonChannelHead, "latest", "2.1.0", false),
		},
	})
}

func TestResolveChannelChanged(t *testing.T) {
	runResolveCases(t, map[string]resolveCase{
		"channel changed to an older one": {
			request: Request{Channel: "release", Current: running("latest", "2.1.0")}, channels: followedChannels,
			want: decision(ReasonChannelHead, "release", "1.6.1", false),
		},
		"channel changed, Patch does not apply": {
			request: Request{Channel: "latest", Upgrade: UpgradePatch, Current: running("release", "1.6.1")}, channels: followedChannels,
			want: decision(ReasonChannelHead, "latest", "2.1.0", false),
		},
		"channel of current does not exist": {
			request: Request{Channel: "release", Upgrade: UpgradePatch, Current: running("gone", "1.6.9")}, channels: followedChannels,
			want: decision(ReasonChannelHead, "release", "1.6.1", false),
		},
	})
}

func TestResolveCurrentWithdrawn(t *testing.T) {
	runResolveCases(t, map[string]resolveCase{
		"current was withdrawn, Latest goes back to the head": {
			request: Request{Channel: "latest", Current: running("latest", "2.2.0")}, channels: followedChannels,
			want: decision(ReasonChannelHead, "latest", "2.1.0", false),
		},
		"current was withdrawn, Minor goes back in its major": {
			request: Request{Channel: "latest", Upgrade: UpgradeMinor, Current: running("latest", "1.8.0")}, channels: followedChannels,
			want: decision(ReasonPolicyHead, "latest", "1.7.1", false),
		},
		"current was withdrawn, Patch goes back in its minor": {
			request: Request{Channel: "latest", Upgrade: UpgradePatch, Current: running("latest", "1.7.2")}, channels: followedChannels,
			want: decision(ReasonPolicyHead, "latest", "1.7.1", false),
		},
		"all releases of the major and later were withdrawn, Minor goes back to the head": {
			request: Request{Channel: "latest", Upgrade: UpgradeMinor, Current: running("latest", "3.0.0")}, channels: followedChannels,
			want: decision(ReasonChannelHead, "latest", "2.1.0", false),
		},
		"all releases of the minor and later were withdrawn, Patch goes back to the head": {
			request: Request{Channel: "latest", Upgrade: UpgradePatch, Current: running("latest", "2.2.0")}, channels: followedChannels,
			want: decision(ReasonChannelHead, "latest", "2.1.0", false),
		},
		"only newer minors are left, Patch stays": {
			request: Request{Channel: "latest", Upgrade: UpgradePatch, Current: running("latest", "1.5.9")}, channels: followedChannels,
			want: decision(ReasonKeptByPolicy, "latest", "1.5.9", false),
		},
		"only newer majors are left, Minor stays": {
			request: Request{Channel: "latest", Upgrade: UpgradeMinor, Current: running("latest", "0.9.0")}, channels: followedChannels,
			want: decision(ReasonKeptByPolicy, "latest", "0.9.0", false),
		},
		"only newer majors are left, Latest takes the head": {
			request: Request{Channel: "latest", Current: running("latest", "0.9.0")}, channels: followedChannels,
			want: decision(ReasonChannelHead, "latest", "2.1.0", false),
		},
		"Patch upgrades a pre-release to its release": {
			request: Request{Channel: "latest", Upgrade: UpgradePatch, Current: running("latest", "2.1.0-rc.1")}, channels: followedChannels,
			want: decision(ReasonChannelHead, "latest", "2.1.0", false),
		},
	})
}

func TestResolveHeld(t *testing.T) {
	latest := channelOf("latest", repository, "2.1.0", "2.0.0")
	stable := channelOf("release", repository, "1.6.1")
	channels := []Channel{latest, stable}
	held := func(channel string, current *Run) Request {
		return Request{Channel: channel, Hold: ptr(true), Current: current}
	}
	repushed := runOf("latest", repository, "2.0.0")
	repushed.Digest = "sha256:before"
	runResolveCases(t, map[string]resolveCase{
		"stays": {
			request: held("latest", ptr(runOf("latest", repository, "2.0.0"))), channels: channels,
			want: decision(ReasonHeld, "latest", "2.0.0", true),
		},
		"stays, with its own channel, when the channel is changed": {
			request: held("release", ptr(runOf("latest", repository, "2.0.0"))), channels: channels,
			want: decision(ReasonHeld, "latest", "2.0.0", true),
		},
		"stays when the release was withdrawn": {
			request: held("latest", ptr(runOf("latest", repository, "2.2.0"))), channels: channels,
			want: decision(ReasonHeld, "latest", "2.2.0", true),
		},
		"stays when the tag was pushed again": {
			request: held("latest", &repushed), channels: channels,
			want: Decision{Target: repushed.Release, Channel: "latest", Hold: true, Reason: ReasonHeld},
		},
		"stays when its channel does not exist": {
			request: held("latest", ptr(runOf("gone", otherRepository, "0.1.0"))), channels: channels,
			want: Decision{Target: release(otherRepository, "0.1.0"), Channel: "gone", Hold: true, Reason: ReasonHeld},
		},
	})
}

func TestResolveImages(t *testing.T) {
	with := func(change func(*Release)) Release {
		r := release(repository, "1.7.0")
		change(&r)
		return r
	}
	offered := release(repository, "1.7.0")
	withStore := with(func(r *Release) { r.StoreImage = "store.test/cubestore:v1.7.0@sha256:store" })
	withoutDigest := with(func(r *Release) { r.Digest = "" })
	before := with(func(r *Release) { r.Digest = "sha256:before" })
	beforeWithStore := with(func(r *Release) { r.Digest, r.StoreImage = "sha256:before", withStore.StoreImage })
	moved := release(otherRepository, "1.7.0")
	movedWithStore := moved
	movedWithStore.StoreImage = withStore.StoreImage
	cases := map[string]struct {
		current, offered Release
		wantFollowed     Release
		wantPinned       Release
		wantHeld         Release
	}{
		"the same":                            {current: offered, offered: offered, wantFollowed: offered, wantPinned: offered, wantHeld: offered},
		"tag pushed again":                    {current: before, offered: offered, wantFollowed: offered, wantPinned: before, wantHeld: before},
		"digest not known":                    {current: before, offered: withoutDigest, wantFollowed: before, wantPinned: before, wantHeld: before},
		"ran without digest":                  {current: withoutDigest, offered: offered, wantFollowed: offered, wantPinned: offered, wantHeld: withoutDigest},
		"channel has added a store":           {current: before, offered: withStore, wantFollowed: withStore, wantPinned: beforeWithStore, wantHeld: beforeWithStore},
		"channel has removed its store":       {current: beforeWithStore, offered: offered, wantFollowed: offered, wantPinned: beforeWithStore, wantHeld: beforeWithStore},
		"channel moved to another image":      {current: before, offered: moved, wantFollowed: moved, wantPinned: moved, wantHeld: before},
		"channel moved and has added a store": {current: before, offered: movedWithStore, wantFollowed: movedWithStore, wantPinned: movedWithStore, wantHeld: beforeWithStore},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			channels := []Channel{NewChannel("latest", strings.TrimSuffix(tc.offered.Image, ":v1.7.0"), []Release{tc.offered})}
			current := &Run{Release: tc.current, Channel: "latest"}
			for _, variant := range []struct {
				name string
				Request
				want Release
			}{
				{"followed", Request{}, tc.wantFollowed},
				{"pinned", Request{Pin: "1.7.0"}, tc.wantPinned},
				{"held", Request{Hold: ptr(true)}, tc.wantHeld},
			} {
				variant.Request.Channel, variant.Request.Current = "latest", current
				got, err := Resolve(variant.Request, channels, nil)
				if err != nil {
					t.Fatalf("%s: %v", variant.name, err)
				}
				if diff := cmp.Diff(variant.want, got.Target); diff != "" {
					t.Errorf("%s (-want +got):\n%s", variant.name, diff)
				}
			}
		})
	}
}

func TestResolveErrorTypes(t *testing.T) {
	channels := []Channel{channelOf("latest", repository, "1.7.0"), channelOf("empty", repository)}
	_, err := Resolve(Request{Channel: "x"}, channels, nil)
	if unknown := (*UnknownChannelError)(nil); !errors.As(err, &unknown) || unknown.Channel != "x" || unknown.More != 0 {
		t.Errorf("got %v, want an *UnknownChannelError", err)
	}
	_, err = Resolve(Request{Channel: "empty"}, channels, nil)
	if empty := (*EmptyChannelError)(nil); !errors.As(err, &empty) || empty.Channel != "empty" {
		t.Errorf("got %v, want an *EmptyChannelError", err)
	}
	_, err = Resolve(Request{Channel: "latest", Pin: "1.6.0"}, channels, nil)
	if unknown := (*UnknownVersionError)(nil); !errors.As(err, &unknown) || unknown.Channel != "latest" || unknown.Form != nil {
		t.Errorf("got %v, want an *UnknownVersionError", err)
	}
	if form := (*FormError)(nil); errors.As(err, &form) {
		t.Errorf("got %v, want no *FormError", err)
	}
	_, err = Resolve(Request{Channel: "latest", Pin: "1.6"}, channels, nil)
	if form := (*FormError)(nil); !errors.As(err, &form) || form.ImageRepository != repository {
		t.Errorf("got %v, want a *FormError", err)
	}
}
