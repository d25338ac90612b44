package version

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// scenario is a random set of channels and runs, small enough that versions, images and
// names often coincide.
type scenario struct {
	*rand.Rand
	channels []Channel
	runs     []Run
}

const scenarioCount = 1000

// forEachScenario runs a check for many scenarios. The seed is the name of the subtest, so that a
// single scenario can be run again.
func forEachScenario(t *testing.T, check func(t *testing.T, s *scenario)) {
	t.Helper()
	for seed := range uint64(scenarioCount) {
		s := newScenario(seed)
		if !t.Run(fmt.Sprint(seed), func(t *testing.T) { check(t, s) }) {
			t.FailNow()
		}
	}
}

func newScenario(seed uint64) *scenario {
	s := &scenario{Rand: rand.New(rand.NewPCG(seed, 2026))}
	for _, name := range []string{"latest", "release", "beta", "lts"}[:1+s.IntN(4)] {
		channel := Channel{Name: name, Repository: s.repository()}
		for range s.IntN(9) {
			channel.Releases = append(channel.Releases, s.release(channel.Repository))
		}
		s.channels = append(s.channels, NewChannel(channel.Name, channel.Repository, channel.Releases))
	}
	for range s.IntN(8) {
		s.runs = append(s.runs, s.run())
	}
	return s
}

func (s *scenario) repository() string {
	return []string{repository, repository, otherRepository, "old.test/cube"}[s.IntN(4)]
}

func (s *scenario) text() string {
	text := fmt.Sprintf("%d.%d.%d", 1+s.IntN(2), s.IntN(3), s.IntN(3))
	if s.IntN(6) == 0 {
		text += fmt.Sprintf("-rc.%d", s.IntN(3))
	}
	return text
}

func (s *scenario) release(repository string) Release {
	r := release(repository, s.text())
	switch s.IntN(6) {
	case 0:
		r.Digest = ""
	case 1:
		r.Digest += "/again"
	case 2:
		r.StoreImage = "store.test/cubestore:" + r.Version.Tag() + "@sha256:store"
	}
	return r
}

func (s *scenario) run() Run {
	return Run{Release: s.release(s.repository()), Channel: []string{"latest", "release", "beta", "lts", "gone"}[s.IntN(5)]}
}

func (s *scenario) current() *Run {
	switch s.IntN(4) {
	case 0:
		return nil
	case 1:
		if len(s.runs) > 0 {
			return &s.runs[s.IntN(len(s.runs))]
		}
	}
	return ptr(s.run())
}

func (s *scenario) hold() *bool { return []*bool{nil, ptr(true), ptr(false)}[s.IntN(3)] }

func (s *scenario) upgrade() UpgradePolicy {
	return []UpgradePolicy{"", UpgradeLatest, UpgradeMinor, UpgradePatch}[s.IntN(4)]
}

func (s *scenario) request() Request {
	request := Request{
		Channel: s.channels[s.IntN(len(s.channels))].Name,
		Hold:    s.hold(),
		Upgrade: s.upgrade(),
		Current: s.current(),
	}
	if s.IntN(3) > 0 {
		v := mustParse(s.text())
		request.Pin = []string{v.String(), v.Tag(), v.Image(s.repository())}[s.IntN(3)]
	}
	switch s.IntN(4) {
	case 0:
		request.Observed = &ObservedPin{}
	case 1:
		request.Observed = &ObservedPin{Written: request.Pin, ChannelHead: s.text()}
	case 2:
		request.Observed = &ObservedPin{Written: request.Pin}
	}
	return request
}

// allowed returns, independently of Resolve, the releases that a request may resolve to, as channel and image.
func (s *scenario) allowed(request Request) map[string]bool {
	allowed := map[string]bool{}
	runs := slices.Clone(s.runs)
	if request.Current != nil {
		runs = append(runs, *request.Current)
	}
	for _, run := range runs {
		allowed[run.Channel+" "+run.Image] = true
	}
	for _, channel := range s.channels {
		for i, r := range channel.Releases { // newest first
			hasRun := slices.ContainsFunc(runs, func(run Run) bool { return run.Channel == channel.Name && run.Version == r.Version })
			if channel.Name == request.Channel || i == 0 || hasRun {
				allowed[channel.Name+" "+r.Image] = true
			}
		}
	}
	return allowed
}

// next returns the request after the decision was applied and stored.
func (r Request) next(d Decision) Request {
	r.Current = &Run{Release: d.Target, Channel: d.Channel}
	r.Observed = &d.Observed
	return r
}

func TestResolveReturnsAllowedReleases(t *testing.T) {
	resolved := 0
	forEachScenario(t, func(t *testing.T, s *scenario) {
		request := s.request()
		decision, err := Resolve(request, s.channels, s.runs)
		if err != nil {
			return
		}
		resolved++
		if target := decision.Channel + " " + decision.Target.Image; !s.allowed(request)[target] {
			t.Errorf("%+v: got %s, which is not allowed", request, target)
		}
	})
	if resolved < scenarioCount/2 {
		t.Errorf("only %d of %d requests were resolved: the scenarios are not varied enough", resolved, scenarioCount)
	}
}

func TestResolveHoldKeepsCurrent(t *testing.T) {
	forEachScenario(t, func(t *testing.T, s *scenario) {
		request := s.request()
		request.Hold, request.Pin, request.Current = ptr(true), "", ptr(s.run())
		decision, err := Resolve(request, s.channels, s.runs)
		if err != nil {
			t.Fatal(err)
		}
		want := *request.Current
		if want.StoreImage == "" {
			want.StoreImage = decision.Target.StoreImage
		}
		if diff := cmp.Diff(want, Run{Release: decision.Target, Channel: decision.Channel}); diff != "" || !decision.Hold {
			t.Errorf("hold %t, (-want +got):\n%s", decision.Hold, diff)
		}
	})
}

// A deployment that runs the target is not changed again: otherwise it would be rolled out forever.
func TestResolveIsStable(t *testing.T) {
	forEachScenario(t, func(t *testing.T, s *scenario) {
		request := s.request()
		first, err := Resolve(request, s.channels, s.runs)
		if err != nil {
			return
		}
		request = request.next(first)
		second, err := Resolve(request, s.channels, s.runs)
		if err != nil {
			t.Fatalf("%+v: %v", request, err)
		}
		first.Reason, second.Reason = "", ""
		if diff := cmp.Diff(first, second); diff != "" {
			t.Errorf("%+v: the second decision differs (-first +second):\n%s", request, diff)
		}
	})
}

// Channels and runs come from caches, which return them in any order.
func TestResolveIgnoresOrder(t *testing.T) {
	forEachScenario(t, func(t *testing.T, s *scenario) {
		request := s.request()
		decision, err := Resolve(request, s.channels, s.runs)
		entries := List(s.channels, s.runs, request.Current)
		shuffled := &scenario{Rand: s.Rand, runs: slices.Clone(s.runs)}
		for _, channel := range s.channels {
			releases := slices.Clone(channel.Releases)
			s.Shuffle(len(releases), func(i, j int) { releases[i], releases[j] = releases[j], releases[i] })
			// Without NewChannel, which sorts: the order in a channel must not matter either.
			shuffled.channels = append(shuffled.channels, Channel{Name: channel.Name, Repository: channel.Repository, Releases: releases})
		}
		for _, swap := range []struct {
			n    int
			swap func(i, j int)
		}{
			{len(shuffled.channels), func(i, j int) {
				shuffled.channels[i], shuffled.channels[j] = shuffled.channels[j], shuffled.channels[i]
			}},
			{len(shuffled.runs), func(i, j int) { shuffled.runs[i], shuffled.runs[j] = shuffled.runs[j], shuffled.runs[i] }},
		} {
			s.Shuffle(swap.n, swap.swap)
		}
		again, errAgain := Resolve(request, shuffled.channels, shuffled.runs)
		if fmt.Sprint(err) != fmt.Sprint(errAgain) {
			t.Errorf("got errors\n%v\n%v", err, errAgain)
		}
		if diff := cmp.Diff(decision, again); diff != "" {
			t.Errorf("%+v (-first +shuffled):\n%s", request, diff)
		}
		if diff := cmp.Diff(entries, List(shuffled.channels, shuffled.runs, request.Current)); diff != "" {
			t.Errorf("list (-first +shuffled):\n%s", diff)
		}
	})
}

func TestListHasOneHeadPerChannelAndOneCurrent(t *testing.T) {
	forEachScenario(t, func(t *testing.T, s *scenario) {
		current := s.current()
		entries := List(s.channels, s.runs, current)
		heads, currents := map[string]int{}, 0
		seen := map[string]bool{}
		for _, entry := range entries {
			if entry.IsLatestInChannel {
				heads[entry.ReleaseChannel]++
			}
			if entry.IsCurrent {
				currents++
				if entry.Version != current.Version {
					t.Errorf("current is %v, marked is %v", current.Version, entry.Version)
				}
			}
			key := entry.ReleaseChannel + " " + entry.Version.String()
			if seen[key] {
				t.Errorf("%s is listed twice", key)
			}
			seen[key] = true
		}
		for _, channel := range s.channels {
			if want := min(len(channel.Releases), 1); heads[channel.Name] != want {
				t.Errorf("channel %s has %d heads, want %d", channel.Name, heads[channel.Name], want)
			}
		}
		if want := map[bool]int{true: 1}[current != nil]; currents != want {
			t.Errorf("%d current entries, want %d", currents, want)
		}
		for _, run := range s.runs {
			if !seen[run.Channel+" "+run.Version.String()] {
				t.Errorf("%s has run and is not listed", run.Image)
			}
		}
	})
}

// Every entry of the list can be chosen over REST and named as a pin.
func TestListedVersionsCanBePinned(t *testing.T) {
	forEachScenario(t, func(t *testing.T, s *scenario) {
		current := s.current()
		entries := List(s.channels, s.runs, current)
		for _, entry := range entries {
			channel := s.channels[s.IntN(len(s.channels))]
			for _, written := range []string{entry.ReleaseChannelVersion, entry.Version.String(), entry.Version.Tag()} {
				listed, err := Listed(written, entries, channel)
				if err != nil || listed.Version != entry.Version {
					t.Fatalf("Listed(%s) = %+v, %v", written, listed, err)
				}
				decision, err := Resolve(Request{Channel: channel.Name, Pin: listed.ReleaseChannelVersion, Current: current}, s.channels, s.runs)
				if err != nil || decision.Target.Image != listed.ReleaseChannelVersion || decision.Reason != ReasonPinned {
					t.Fatalf("pin %s in %s: got %+v, %v", listed.ReleaseChannelVersion, channel.Name, decision, err)
				}
			}
		}
	})
}

// Every version that an error suggests is accepted.
func TestSuggestedVersionsAreAccepted(t *testing.T) {
	suggested := 0
	forEachScenario(t, func(t *testing.T, s *scenario) {
		request := Request{Channel: s.channels[0].Name, Pin: "9.9.9", Current: s.current()}
		_, err := Resolve(request, s.channels, s.runs)
		var unknown *UnknownVersionError
		if !errors.As(err, &unknown) {
			return
		}
		for _, written := range unknown.Allowed {
			suggested++
			request.Pin = written
			if _, err := Resolve(request, s.channels, s.runs); err != nil {
				t.Errorf("%s was suggested, but: %v", written, err)
			}
		}
	})
	if suggested < scenarioCount {
		t.Errorf("only %d versions were suggested: the scenarios are not varied enough", suggested)
	}
}

// While channels only grow and the request stays the same, no deployment is downgraded: not by
// any upgrade policy, and not to a pin that was overtaken.
func TestGrowingChannelsNeverDowngrade(t *testing.T) {
	moved := 0
	forEachScenario(t, func(t *testing.T, s *scenario) {
		name := s.channels[0].Name
		s.channels[0].Releases = append(s.channels[0].Releases, s.release(s.channels[0].Repository))
		request := Request{Channel: name, Upgrade: s.upgrade()}
		if s.IntN(2) == 0 {
			request.Pin, request.Hold = s.channels[0].Releases[0].Version.String(), ptr(false)
		}
		overtaken := false
		for range 8 {
			decision, err := Resolve(request, s.channels, s.runs)
			if err != nil {
				t.Fatal(err)
			}
			if request.Current != nil && decision.Target.Version.Compare(request.Current.Version) < 0 {
				t.Fatalf("%+v: downgraded to %v", request, decision.Target.Version)
			}
			if overtaken && decision.Reason == ReasonPinned {
				t.Fatalf("%+v: returned to the pin", request)
			}
			if request.Upgrade != UpgradeMinor && request.Upgrade != UpgradePatch && decision.Reason != ReasonPinned {
				head, _ := s.channels[0].Head()
				if decision.Target.Version != head.Version {
					t.Fatalf("%+v: got %v, want the head %v", request, decision.Target.Version, head.Version)
				}
			}
			if request.Current != nil && decision.Target.Version != request.Current.Version {
				moved++
			}
			overtaken = overtaken || decision.Reason == ReasonPinOvertaken
			request = request.next(decision)
			for i, channel := range s.channels {
				s.channels[i] = NewChannel(channel.Name, channel.Repository, append(channel.Releases, s.release(channel.Repository)))
			}
		}
	})
	if moved < scenarioCount/4 {
		t.Errorf("only %d upgrades: the scenarios are not varied enough", moved)
	}
}
