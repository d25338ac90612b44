package version

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// observed returns d with the pin's state.
func (d Decision) observed(written, channelHead string) Decision {
	d.Observed = ObservedPin{Written: written, ChannelHead: channelHead}
	return d
}

var (
	pinChannels = []Channel{
		channelOf("release", repository, "1.6.1", "1.6.0"),
		channelOf("beta", otherRepository, "3.0.0", "2.9.0"),
		channelOf("latest", repository, "2.1.0", "2.0.0", "1.7.0"),
	}
	pinRuns = []Run{
		runOf("latest", repository, "1.5.0"), runOf("release", repository, "1.4.0"),
		runOf("beta", otherRepository, "1.3.0"), runOf("latest", "old.test/cube", "1.2.0"),
	}
)

const pinAvailable = "; available: mirror.test/cube:v3.0.0, 2.1.0, 2.0.0, 1.7.0, 1.6.1, 1.5.0, 1.4.0, mirror.test/cube:v1.3.0, 1.2.0"

func requestPin(pin string) Request { return Request{Channel: "latest", Pin: pin} }

func TestResolvePinned(t *testing.T) {
	unknown := func(pin string) resolveCase {
		return resolveCase{request: requestPin(pin), channels: pinChannels, runs: pinRuns,
			wantError: fmt.Sprintf(`version %q is not available to deployments of release channel "latest"`, pin) + pinAvailable}
	}
	found := func(pin, channel, repository, text string) resolveCase {
		want := Decision{Target: release(repository, text), Channel: channel, Hold: true, Reason: ReasonPinned}
		return resolveCase{request: requestPin(pin), channels: pinChannels, runs: pinRuns, want: want.observed(pin, "2.1.0")}
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
		"older release of another channel":                       unknown("1.6.0"),
		"older release of another channel with other images":     unknown(otherRepository + ":v2.9.0"),
		"has run":           found("1.5.0", "latest", repository, "1.5.0"),
		"has run, as image": found(repository+":v1.5.0", "latest", repository, "1.5.0"),
		"has run from another channel with the same images":            found("1.4.0", "release", repository, "1.4.0"),
		"has run with other images":                                    found(otherRepository+":v1.3.0", "beta", otherRepository, "1.3.0"),
		"has run with other images, as version":                        unknown("1.3.0"),
		"has run from the channel before it moved":                     found("1.2.0", "latest", "old.test/cube", "1.2.0"),
		"has run from the channel before it moved, as image":           found("old.test/cube:v1.2.0", "latest", "old.test/cube", "1.2.0"),
		"has run from the channel before it moved, with the new image": unknown(repository + ":v1.2.0"),
		"unknown version":             unknown("9.9.9"),
		"pre-release of a known one":  unknown("2.1.0-rc.1"),
		"image of another repository": unknown("evil.test/cube:v2.0.0"),
		"not a version": {request: requestPin("newest"), channels: pinChannels, runs: pinRuns,
			wantError: `version "newest" is not in an accepted form: write <version> (such as 1.2.3), v<version> or registry.test:5000/cube:v<version>` + pinAvailable},
		"digest": {request: requestPin(repository + ":v2.0.0@sha256:0123"), channels: pinChannels, runs: pinRuns,
			wantError: `version "registry.test:5000/cube:v2.0.0@sha256:0123" has a digest, which follows from the version and cannot be chosen: ` +
				`write <version> (such as 1.2.3), v<version> or registry.test:5000/cube:v<version>` + pinAvailable},
		"current version is a run": {
			request:  Request{Channel: "latest", Pin: "1.1.0", Current: ptr(runOf("latest", repository, "1.1.0"))},
			channels: pinChannels,
			want:     decision(ReasonPinned, "latest", "1.1.0", true).observed("1.1.0", "2.1.0"),
		},
	})
}

func TestResolvePinPrefersTheOwnChannel(t *testing.T) {
	runResolveCases(t, map[string]resolveCase{
		"own release rather than a run of the same version": {
			request: requestPin("2.0.0"), channels: pinChannels, runs: []Run{runOf("latest", "old.test/cube", "2.0.0"), runOf("beta", repository, "2.0.0")},
			want: decision(ReasonPinned, "latest", "2.0.0", true).observed("2.0.0", "2.1.0"),
		},
		"run from the own channel rather than from another": {
			request: requestPin("1.5.0"), channels: pinChannels, runs: []Run{runOf("beta", repository, "1.5.0"), runOf("latest", repository, "1.5.0")},
			want: decision(ReasonPinned, "latest", "1.5.0", true).observed("1.5.0", "2.1.0"),
		},
		"head of another channel rather than a run from a third": {
			request: requestPin("1.6.1"), channels: pinChannels, runs: []Run{runOf("gone", repository, "1.6.1")},
			want: decision(ReasonPinned, "release", "1.6.1", true).observed("1.6.1", "2.1.0"),
		},
		"current rather than another run of the same version": {
			request:  Request{Channel: "latest", Pin: "1.2.0", Current: ptr(runOf("latest", "old.test/cube", "1.2.0"))},
			channels: pinChannels, runs: []Run{runOf("latest", "a.test/cube", "1.2.0"), runOf("latest", repository, "1.2.0")},
			want: Decision{Target: release("old.test/cube", "1.2.0"), Channel: "latest", Hold: true, Reason: ReasonPinned}.observed("1.2.0", "2.1.0"),
		},
		"held although the upgrade policy allows a newer release": {
			request:  Request{Channel: "latest", Pin: "2.0.0", Upgrade: UpgradeMinor, Hold: ptr(true), Current: ptr(runOf("latest", repository, "2.0.0"))},
			channels: pinChannels,
			want:     decision(ReasonPinned, "latest", "2.0.0", true).observed("2.0.0", "2.1.0"),
		},
		"new cluster, older than the head": {
			request: requestPin("1.7.0"), channels: []Channel{pinChannels[2]},
			want: decision(ReasonPinned, "latest", "1.7.0", true).observed("1.7.0", "2.1.0"),
		},
	})
}

// The deployment of the tests below follows latest and pins 1.7.0 without a hold.
var (
	unheldChannels = []Channel{channelOf("latest", repository, "2.1.0", "2.0.0", "1.7.1", "1.7.0"), channelOf("release", repository, "1.7.1", "1.7.0")}
	overtaken      = &ObservedPin{Written: "1.7.0"}
	toPin          = decision(ReasonPinned, "latest", "1.7.0", false)
	toHead         = decision(ReasonPinOvertaken, "latest", "2.1.0", false).observed("1.7.0", "")
)

func unheldPin(pin string, current *Run, observed *ObservedPin) Request {
	return Request{Channel: "latest", Pin: pin, Hold: ptr(false), Current: current, Observed: observed}
}

func onLatest(text string) *Run { return ptr(runOf("latest", repository, text)) }

func pinObservedAt(head string) *ObservedPin {
	return &ObservedPin{Written: "1.7.0", ChannelHead: head}
}

func (r Request) withUpgrade(policy UpgradePolicy) Request {
	r.Upgrade = policy
	return r
}

func (r Request) withHold(hold *bool) Request {
	r.Hold = hold
	return r
}

func (r Request) withChannel(channel string) Request {
	r.Channel = channel
	return r
}

func TestResolveUnheldPinIsOvertakenWhenTheChannelMoves(t *testing.T) {
	runResolveCases(t, map[string]resolveCase{
		"first install": {request: unheldPin("1.7.0", nil, nil), channels: unheldChannels, want: toPin.observed("1.7.0", "2.1.0")},
		"new pin, current is newer": {
			request: unheldPin("1.7.0", onLatest("2.1.0"), &ObservedPin{}), channels: unheldChannels, want: toPin.observed("1.7.0", "2.1.0"),
		},
		"new pin in place of another": {
			request: unheldPin("1.7.0", onLatest("2.1.0"), &ObservedPin{Written: "2.0.0"}), channels: unheldChannels, want: toPin.observed("1.7.0", "2.1.0"),
		},
		"the same version in another form is a new pin": {
			request: unheldPin("v1.7.0", onLatest("2.1.0"), overtaken), channels: unheldChannels, want: toPin.observed("v1.7.0", "2.1.0"),
		},
		"channel has not moved": {request: unheldPin("1.7.0", onLatest("1.7.0"), pinObservedAt("2.1.0")), channels: unheldChannels, want: toPin.observed("1.7.0", "2.1.0")},
		"channel has not moved, pin not yet rolled out": {
			request: unheldPin("1.7.0", onLatest("2.1.0"), pinObservedAt("2.1.0")), channels: unheldChannels, want: toPin.observed("1.7.0", "2.1.0"),
		},
		"channel has moved": {request: unheldPin("1.7.0", onLatest("1.7.0"), pinObservedAt("2.0.0")), channels: unheldChannels, want: toHead},
		"channel has moved before anything ran": {
			request: unheldPin("1.7.0", nil, pinObservedAt("2.0.0")), channels: unheldChannels, want: toHead,
		},
		"channel has moved from a pre-release to its release": {
			request: unheldPin("1.7.0", onLatest("1.7.0"), pinObservedAt("2.1.0-rc.1")), channels: unheldChannels, want: toHead,
		},
		"channel has withdrawn its head": {request: unheldPin("1.7.0", onLatest("1.7.0"), pinObservedAt("3.0.0")), channels: unheldChannels, want: toPin.observed("1.7.0", "3.0.0")},
		"channel changed to one that is ahead of the observed head": {
			request: unheldPin("1.7.0", ptr(runOf("release", repository, "1.7.0")), pinObservedAt("1.7.1")), channels: unheldChannels, want: toHead,
		},
		"channel changed to one that is behind the observed head": {
			request: unheldPin("1.7.0", onLatest("1.7.0"), pinObservedAt("2.1.0")).withChannel("release"), channels: unheldChannels,
			want: decision(ReasonPinned, "release", "1.7.0", false).observed("1.7.0", "2.1.0"),
		},
		"pin on the head": {
			request: unheldPin("2.1.0", onLatest("2.1.0"), &ObservedPin{}), channels: unheldChannels,
			want: decision(ReasonPinned, "latest", "2.1.0", false).observed("2.1.0", "2.1.0"),
		},
	})
}

func TestResolveOvertakenPinStaysOvertaken(t *testing.T) {
	runResolveCases(t, map[string]resolveCase{
		"overtaken, by Patch": {
			request: unheldPin("1.7.0", onLatest("1.7.0"), pinObservedAt("2.0.0")).withUpgrade(UpgradePatch), channels: unheldChannels,
			want: decision(ReasonPinOvertaken, "latest", "1.7.1", false).observed("1.7.0", ""),
		},
		"overtaken, by Minor at the newest of its major": {
			request: unheldPin("1.7.0", onLatest("1.7.1"), overtaken).withUpgrade(UpgradeMinor), channels: unheldChannels,
			want: decision(ReasonPinOvertaken, "latest", "1.7.1", false).observed("1.7.0", ""),
		},
		"overtaken, by Patch without releases of its minor": {
			request: unheldPin("1.7.0", onLatest("1.6.0"), overtaken).withUpgrade(UpgradePatch), channels: unheldChannels,
			want: decision(ReasonPinOvertaken, "latest", "1.6.0", false).observed("1.7.0", ""),
		},
		"overtaken stays overtaken": {request: unheldPin("1.7.0", onLatest("2.0.0"), overtaken), channels: unheldChannels, want: toHead},
		"overtaken stays overtaken when the channel withdraws its head": {
			request: unheldPin("1.7.0", onLatest("3.0.0"), overtaken), channels: unheldChannels, want: toHead,
		},
		"overtaken stays overtaken when the channel is changed": {
			request: unheldPin("1.7.0", onLatest("2.1.0"), overtaken).withChannel("release"), channels: unheldChannels,
			want: decision(ReasonPinOvertaken, "release", "1.7.1", false).observed("1.7.0", ""),
		},
		"overtaken stays overtaken when the channel is empty": {
			request: unheldPin("1.7.0", onLatest("2.0.0"), overtaken), channels: []Channel{channelOf("latest", repository)},
			want: decision(ReasonPinOvertaken, "latest", "2.0.0", false).observed("1.7.0", ""),
		},
		"overtaken, nothing runs, and the channel is empty": {
			request: unheldPin("1.7.0", nil, overtaken), channels: []Channel{channelOf("latest", repository)},
			wantError: `release channel "latest" has no releases yet`,
		},
		"overtaken, and the pinned version is not available": {
			request: unheldPin("1.7.0", onLatest("2.0.0"), overtaken), channels: []Channel{channelOf("latest", repository, "2.1.0")}, want: toHead,
		},
	})
}

func TestResolveUnheldPinWithoutStatus(t *testing.T) {
	runResolveCases(t, map[string]resolveCase{
		"status lost, current is newer": {request: unheldPin("1.7.0", onLatest("2.0.0"), nil), channels: unheldChannels, want: toHead},
		"status lost, current is the pin": {
			request: unheldPin("1.7.0", onLatest("1.7.0"), nil), channels: unheldChannels, want: toPin.observed("1.7.0", "2.1.0"),
		},
		"status lost, current is older": {
			request: unheldPin("1.7.0", onLatest("1.6.0"), nil), channels: unheldChannels, want: toPin.observed("1.7.0", "2.1.0"),
		},
		"status lost, current is newer but from another channel": {
			request: unheldPin("1.7.0", ptr(runOf("release", repository, "1.7.1")), nil), channels: unheldChannels, want: toPin.observed("1.7.0", "2.1.0"),
		},
		"status lost, current is newer, but the pin is held": {
			request: unheldPin("1.7.0", onLatest("2.0.0"), nil).withHold(nil), channels: unheldChannels,
			want: decision(ReasonPinned, "latest", "1.7.0", true).observed("1.7.0", "2.1.0"),
		},
		"status holds an invalid version": {
			request: unheldPin("1.7.0", onLatest("1.7.0"), pinObservedAt("newest")), channels: unheldChannels, want: toPin.observed("1.7.0", "2.1.0"),
		},
	})
}

func TestResolvePinStateSurvivesAHold(t *testing.T) {
	runResolveCases(t, map[string]resolveCase{
		"held while the channel moves keeps the observed head": {
			request: unheldPin("1.7.0", onLatest("1.7.0"), pinObservedAt("2.0.0")).withHold(ptr(true)), channels: unheldChannels,
			want: decision(ReasonPinned, "latest", "1.7.0", true).observed("1.7.0", "2.0.0"),
		},
		"held after it was overtaken returns to the pin, still overtaken": {
			request: unheldPin("1.7.0", onLatest("2.1.0"), overtaken).withHold(ptr(true)), channels: unheldChannels,
			want: decision(ReasonPinned, "latest", "1.7.0", true).observed("1.7.0", ""),
		},
		"channel without releases: the pin is not yet observed": {
			request:  unheldPin("1.7.0", onLatest("1.7.0"), &ObservedPin{}),
			channels: []Channel{channelOf("latest", repository)}, want: toPin,
		},
	})
}

// TestPinOverTime resolves one deployment repeatedly, with the pin state of the previous decision.
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
	request.Pin, request.Hold = "1.1.0", ptr(false) // a downgrade on request
	step()
	step()
	offered = []string{"1.3.0", "1.2.0", "1.1.0", "1.0.0"}
	step()
	step()
	offered = []string{"1.2.0", "1.1.0", "1.0.0"} // 1.3.0 is withdrawn: not to the pin
	step()
	offered = []string{"1.4.0"} // the pinned version is withdrawn too
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
		t.Errorf("error of %d bytes", len(err.Error()))
	}
}
