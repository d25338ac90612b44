package version

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// observed is d with what is remembered of the pin.
func (d Decision) observed(written, channelHead string) Decision {
	d.Observed = ObservedPin{Written: written, ChannelHead: channelHead}
	return d
}

func TestResolvePinned(t *testing.T) {
	latest := channelOf("latest", repository, "2.1.0", "2.0.0", "1.7.0")
	stable := channelOf("release", repository, "1.6.1", "1.6.0")
	beta := channelOf("beta", otherRepository, "3.0.0", "2.9.0")
	channels := []Channel{stable, beta, latest}
	runs := []Run{
		runOf("latest", repository, "1.5.0"), runOf("release", repository, "1.4.0"),
		runOf("beta", otherRepository, "1.3.0"), runOf("latest", "old.test/cube", "1.2.0"),
	}
	available := "; available: mirror.test/cube:v3.0.0, 2.1.0, 2.0.0, 1.7.0, 1.6.1, 1.5.0, 1.4.0, mirror.test/cube:v1.3.0, 1.2.0"
	pinned := func(pin string) Request { return Request{Channel: "latest", Pin: pin} }
	unknown := func(pin string) resolveCase {
		return resolveCase{request: pinned(pin), channels: channels, runs: runs,
			wantError: fmt.Sprintf(`version %q is not available to deployments of release channel "latest"`, pin) + available}
	}
	found := func(pin, channel, repository, text string) resolveCase {
		want := Decision{Target: release(repository, text), Channel: channel, Hold: true, Reason: ReasonPinned}
		return resolveCase{request: pinned(pin), channels: channels, runs: runs, want: want.observed(pin, "2.1.0")}
	}
	runResolveCases(t, map[string]resolveCase{
		"version":                       found("2.0.0", "latest", repository, "2.0.0"),
		"v version":                     found("v2.0.0", "latest", repository, "2.0.0"),
		"image":                         found(repository+":v2.0.0", "latest", repository, "2.0.0"),
		"head":                          found("2.1.0", "latest", repository, "2.1.0"),
		"oldest release that never ran": found("1.7.0", "latest", repository, "1.7.0"),
		"head of another channel with the same images":           found("1.6.1", "release", repository, "1.6.1"),
		"head of another channel with the same images, as image": found(repository+":v1.6.1", "release", repository, "1.6.1"),
		"head of another channel with other images":              found(otherRepository+":v3.0.0", "beta", otherRepository, "3.0.0"),
		"head of another channel with other images, as version":  unknown("3.0.0"),
		"no head of another channel":                             unknown("1.6.0"),
		"no head of another channel with other images":           unknown(otherRepository + ":v2.9.0"),
		"has run":           found("1.5.0", "latest", repository, "1.5.0"),
		"has run, as image": found(repository+":v1.5.0", "latest", repository, "1.5.0"),
		"has run from another channel with the same images":    found("1.4.0", "release", repository, "1.4.0"),
		"has run with other images":                            found(otherRepository+":v1.3.0", "beta", otherRepository, "1.3.0"),
		"has run with other images, as version":                unknown("1.3.0"),
		"has run from the channel before it moved":             found("1.2.0", "latest", "old.test/cube", "1.2.0"),
		"has run from the channel before it moved, as image":   found("old.test/cube:v1.2.0", "latest", "old.test/cube", "1.2.0"),
		"has run before the channel moved, as it would be now": unknown(repository + ":v1.2.0"),
		"never heard of":               unknown("9.9.9"),
		"pre-release of what is there": unknown("2.1.0-rc.1"),
		"image of another repository":  unknown("evil.test/cube:v2.0.0"),
		"no version": {request: pinned("newest"), channels: channels, runs: runs,
			wantError: `version "newest" is not in an accepted form: write <version> (such as 1.2.3), v<version> or registry.test:5000/cube:v<version>` + available},
		"digest": {request: pinned(repository + ":v2.0.0@sha256:0123"), channels: channels, runs: runs,
			wantError: `version "registry.test:5000/cube:v2.0.0@sha256:0123" has a digest, which follows from the version and cannot be chosen: ` +
				`write <version> (such as 1.2.3), v<version> or registry.test:5000/cube:v<version>` + available},
		"what runs counts as having run": {
			request:  Request{Channel: "latest", Pin: "1.1.0", Current: ptr(runOf("latest", repository, "1.1.0"))},
			channels: channels,
			want:     decision(ReasonPinned, "latest", "1.1.0", true).observed("1.1.0", "2.1.0"),
		},
		"own release rather than a run of the same version": {
			request: pinned("2.0.0"), channels: channels, runs: []Run{runOf("latest", "old.test/cube", "2.0.0"), runOf("beta", repository, "2.0.0")},
			want: decision(ReasonPinned, "latest", "2.0.0", true).observed("2.0.0", "2.1.0"),
		},
		"run from the own channel rather than from another": {
			request: pinned("1.5.0"), channels: channels, runs: []Run{runOf("beta", repository, "1.5.0"), runOf("latest", repository, "1.5.0")},
			want: decision(ReasonPinned, "latest", "1.5.0", true).observed("1.5.0", "2.1.0"),
		},
		"head of another channel rather than a run from a third": {
			request: pinned("1.6.1"), channels: channels, runs: []Run{runOf("gone", repository, "1.6.1")},
			want: decision(ReasonPinned, "release", "1.6.1", true).observed("1.6.1", "2.1.0"),
		},
		"what runs rather than another run of the same version": {
			request:  Request{Channel: "latest", Pin: "1.2.0", Current: ptr(runOf("latest", "old.test/cube", "1.2.0"))},
			channels: channels, runs: []Run{runOf("latest", "a.test/cube", "1.2.0"), runOf("latest", repository, "1.2.0")},
			want: Decision{Target: release("old.test/cube", "1.2.0"), Channel: "latest", Hold: true, Reason: ReasonPinned}.observed("1.2.0", "2.1.0"),
		},
		"held although the upgrade policy would allow more": {
			request:  Request{Channel: "latest", Pin: "2.0.0", Upgrade: UpgradeMinor, Hold: ptr(true), Current: ptr(runOf("latest", repository, "2.0.0"))},
			channels: channels,
			want:     decision(ReasonPinned, "latest", "2.0.0", true).observed("2.0.0", "2.1.0"),
		},
		"a fresh cluster, older than the head": {
			request: pinned("1.7.0"), channels: []Channel{latest},
			want: decision(ReasonPinned, "latest", "1.7.0", true).observed("1.7.0", "2.1.0"),
		},
	})
}

func TestResolvePinNotHeld(t *testing.T) {
	channels := []Channel{channelOf("latest", repository, "2.1.0", "2.0.0", "1.7.1", "1.7.0"), channelOf("release", repository, "1.7.1", "1.7.0")}
	pin := func(pin string, current *Run, observed *ObservedPin) Request {
		return Request{Channel: "latest", Pin: pin, Hold: ptr(false), Current: current, Observed: observed}
	}
	on := func(text string) *Run { return ptr(runOf("latest", repository, text)) }
	seen := func(head string) *ObservedPin { return &ObservedPin{Written: "1.7.0", ChannelHead: head} }
	overtaken := &ObservedPin{Written: "1.7.0"}
	toPin := decision(ReasonPinned, "latest", "1.7.0", false)
	toHead := decision(ReasonPinOvertaken, "latest", "2.1.0", false).observed("1.7.0", "")
	by := func(policy UpgradePolicy, request Request) Request {
		request.Upgrade = policy
		return request
	}
	held := func(hold *bool, request Request) Request {
		request.Hold = hold
		return request
	}
	to := func(channel string, request Request) Request {
		request.Channel = channel
		return request
	}
	runResolveCases(t, map[string]resolveCase{
		"first install": {request: pin("1.7.0", nil, nil), channels: channels, want: toPin.observed("1.7.0", "2.1.0")},
		"new pin on a deployment that runs something newer": {
			request: pin("1.7.0", on("2.1.0"), &ObservedPin{}), channels: channels, want: toPin.observed("1.7.0", "2.1.0"),
		},
		"new pin in place of another": {
			request: pin("1.7.0", on("2.1.0"), &ObservedPin{Written: "2.0.0"}), channels: channels, want: toPin.observed("1.7.0", "2.1.0"),
		},
		"the same version written otherwise is a new pin": {
			request: pin("v1.7.0", on("2.1.0"), overtaken), channels: channels, want: toPin.observed("v1.7.0", "2.1.0"),
		},
		"channel has not moved": {request: pin("1.7.0", on("1.7.0"), seen("2.1.0")), channels: channels, want: toPin.observed("1.7.0", "2.1.0")},
		"channel has not moved, still on the way to the pin": {
			request: pin("1.7.0", on("2.1.0"), seen("2.1.0")), channels: channels, want: toPin.observed("1.7.0", "2.1.0"),
		},
		"channel has moved": {request: pin("1.7.0", on("1.7.0"), seen("2.0.0")), channels: channels, want: toHead},
		"channel has moved before anything ran": {
			request: pin("1.7.0", nil, seen("2.0.0")), channels: channels, want: toHead,
		},
		"channel has moved from a pre-release to its release": {
			request: pin("1.7.0", on("1.7.0"), seen("2.1.0-rc.1")), channels: channels, want: toHead,
		},
		"channel has gone back": {request: pin("1.7.0", on("1.7.0"), seen("3.0.0")), channels: channels, want: toPin.observed("1.7.0", "3.0.0")},
		"overtaken, by Patch": {
			request: by(UpgradePatch, pin("1.7.0", on("1.7.0"), seen("2.0.0"))), channels: channels,
			want: decision(ReasonPinOvertaken, "latest", "1.7.1", false).observed("1.7.0", ""),
		},
		"overtaken, by Minor at the newest of its major": {
			request: by(UpgradeMinor, pin("1.7.0", on("1.7.1"), overtaken)), channels: channels,
			want: decision(ReasonPinOvertaken, "latest", "1.7.1", false).observed("1.7.0", ""),
		},
		"overtaken, by Patch with nothing left of its line": {
			request: by(UpgradePatch, pin("1.7.0", on("1.6.0"), overtaken)), channels: channels,
			want: decision(ReasonPinOvertaken, "latest", "1.6.0", false).observed("1.7.0", ""),
		},
		"overtaken stays overtaken": {request: pin("1.7.0", on("2.0.0"), overtaken), channels: channels, want: toHead},
		"overtaken stays overtaken when the channel goes back": {
			request: pin("1.7.0", on("3.0.0"), overtaken), channels: channels, want: toHead,
		},
		"overtaken stays overtaken when the channel is changed": {
			request: to("release", pin("1.7.0", on("2.1.0"), overtaken)), channels: channels,
			want: decision(ReasonPinOvertaken, "release", "1.7.1", false).observed("1.7.0", ""),
		},
		"overtaken stays overtaken when the channel is empty": {
			request: pin("1.7.0", on("2.0.0"), overtaken), channels: []Channel{channelOf("latest", repository)},
			want: decision(ReasonPinOvertaken, "latest", "2.0.0", false).observed("1.7.0", ""),
		},
		"overtaken, nothing runs, and the channel is empty": {
			request: pin("1.7.0", nil, overtaken), channels: []Channel{channelOf("latest", repository)},
			wantError: `release channel "latest" has no releases yet`,
		},
		"overtaken, and the pinned version is gone from everywhere": {
			request: pin("1.7.0", on("2.0.0"), overtaken), channels: []Channel{channelOf("latest", repository, "2.1.0")}, want: toHead,
		},
		"channel changed to one that is ahead of what was seen": {
			request: pin("1.7.0", ptr(runOf("release", repository, "1.7.0")), seen("1.7.1")), channels: channels, want: toHead,
		},
		"channel changed to one that is behind what was seen": {
			request: to("release", pin("1.7.0", on("1.7.0"), seen("2.1.0"))), channels: channels,
			want: decision(ReasonPinned, "release", "1.7.0", false).observed("1.7.0", "2.1.0"),
		},
		"pin on the head": {
			request: pin("2.1.0", on("2.1.0"), &ObservedPin{}), channels: channels,
			want: decision(ReasonPinned, "latest", "2.1.0", false).observed("2.1.0", "2.1.0"),
		},

		"status lost, what runs is newer": {request: pin("1.7.0", on("2.0.0"), nil), channels: channels, want: toHead},
		"status lost, what runs is the pin": {
			request: pin("1.7.0", on("1.7.0"), nil), channels: channels, want: toPin.observed("1.7.0", "2.1.0"),
		},
		"status lost, what runs is older": {
			request: pin("1.7.0", on("1.6.0"), nil), channels: channels, want: toPin.observed("1.7.0", "2.1.0"),
		},
		"status lost, what runs is newer but from another channel": {
			request: pin("1.7.0", ptr(runOf("release", repository, "1.7.1")), nil), channels: channels, want: toPin.observed("1.7.0", "2.1.0"),
		},
		"status lost, what runs is newer, but the pin is held": {
			request: held(nil, pin("1.7.0", on("2.0.0"), nil)), channels: channels,
			want: decision(ReasonPinned, "latest", "1.7.0", true).observed("1.7.0", "2.1.0"),
		},
		"status holds what is no version": {
			request: pin("1.7.0", on("1.7.0"), seen("newest")), channels: channels, want: toPin.observed("1.7.0", "2.1.0"),
		},

		"held while the channel moves, nothing is forgotten": {
			request: held(ptr(true), pin("1.7.0", on("1.7.0"), seen("2.0.0"))), channels: channels,
			want: decision(ReasonPinned, "latest", "1.7.0", true).observed("1.7.0", "2.0.0"),
		},
		"held after it was overtaken goes to the pin, and remembers": {
			request: held(ptr(true), pin("1.7.0", on("2.1.0"), overtaken)), channels: channels,
			want: decision(ReasonPinned, "latest", "1.7.0", true).observed("1.7.0", ""),
		},
		"channel without releases: the pin counts as seen when there are some": {
			request:  pin("1.7.0", on("1.7.0"), &ObservedPin{}),
			channels: []Channel{channelOf("latest", repository)}, want: toPin,
		},
	})
}

// TestPinOverTime follows one deployment: what is kept of one decision goes into the next.
func TestPinOverTime(t *testing.T) {
	offered := []string{"1.0.0"}
	request := Request{Channel: "latest"}
	var history []string
	step := func() {
		t.Helper()
		decision, err := Resolve(request, []Channel{channelOf("latest", repository, offered...)}, nil)
		if err != nil {
			t.Fatal(err)
		}
		request.Current = &Run{Release: decision.Target, Channel: decision.Channel}
		request.Observed = &decision.Observed
		history = append(history, fmt.Sprintf("%s %s", decision.Target.Version, decision.Reason))
	}
	step()
	offered = []string{"1.2.0", "1.1.0", "1.0.0"}
	step()
	request.Pin, request.Hold = "1.1.0", ptr(false) // a step back that the user asks for
	step()
	step()
	offered = []string{"1.3.0", "1.2.0", "1.1.0", "1.0.0"}
	step()
	step()
	offered = []string{"1.2.0", "1.1.0", "1.0.0"} // 1.3.0 was bad: not back to the pin
	step()
	offered = []string{"1.4.0"} // and now the pin is gone too
	step()
	request.Pin = ""
	step()
	want := []string{
		"1.0.0 ChannelHead", "1.2.0 ChannelHead",
		"1.1.0 Pinned", "1.1.0 Pinned",
		"1.3.0 PinOvertaken", "1.3.0 PinOvertaken", "1.2.0 PinOvertaken", "1.4.0 PinOvertaken",
		"1.4.0 ChannelHead",
	}
	if diff := cmp.Diff(want, history); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

func TestUnknownVersionErrorIsBoundedAndStable(t *testing.T) {
	var texts []string
	for i := range 30 {
		texts = append(texts, fmt.Sprintf("1.%d.0", i))
	}
	channels := []Channel{channelOf("latest", repository, texts...), channelOf("release", otherRepository, "1.5.0")}
	runs := []Run{runOf("latest", repository, "1.3.0"), runOf("gone", "old.test/cube", "1.28.0"), runOf("gone", "a.test/cube", "1.28.0")}
	want := `version "2.0.0" is not available to deployments of release channel "latest"; available: 1.29.0, 1.28.0, a.test/cube:v1.28.0, ` +
		`old.test/cube:v1.28.0, 1.27.0, 1.26.0, 1.25.0, 1.24.0, 1.23.0, 1.22.0, 1.21.0, 1.20.0, 1.19.0, 1.18.0, 1.17.0, 1.16.0, 1.15.0, 1.14.0, 1.13.0, 1.12.0 and 13 more`
	random := rand.New(rand.NewPCG(1, 2))
	for range 20 {
		random.Shuffle(len(channels), func(i, j int) { channels[i], channels[j] = channels[j], channels[i] })
		random.Shuffle(len(runs), func(i, j int) { runs[i], runs[j] = runs[j], runs[i] })
		_, err := Resolve(Request{Channel: "latest", Pin: "2.0.0"}, channels, runs)
		if err == nil || err.Error() != want {
			t.Fatalf("got  %v\nwant %s", err, want)
		}
		unknown := (*UnknownVersionError)(nil)
		if !errors.As(err, &unknown) || len(unknown.Allowed) != maxNamed || unknown.More != 13 {
			t.Fatalf("got %+v", unknown)
		}
	}
	_, err := Resolve(Request{Channel: "latest", Pin: strings.Repeat("é", 10000)}, channels, runs)
	if err == nil || len(err.Error()) > 1024 {
		t.Errorf("an error of %d bytes", len(err.Error()))
	}
}
