package version

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// world is a random but small set of channels and runs: small enough that versions, images
// and names meet often.
type world struct {
	*rand.Rand
	channels []Channel
	runs     []Run
}

const worlds = 1000

// inWorlds runs a check in many worlds. The seed is in the test's name, so that one of them
// can be run again by itself.
func inWorlds(t *testing.T, check func(t *testing.T, w *world)) {
	t.Helper()
	for seed := range uint64(worlds) {
		w := newWorld(seed)
		if !t.Run(fmt.Sprint(seed), func(t *testing.T) { check(t, w) }) {
			t.FailNow()
		}
	}
}

func newWorld(seed uint64) *world {
	w := &world{Rand: rand.New(rand.NewPCG(seed, 2026))}
	for _, name := range []string{"latest", "release", "beta", "lts"}[:1+w.IntN(4)] {
		channel := Channel{Name: name, Repository: w.repository()}
		for range w.IntN(9) {
			channel.Releases = append(channel.Releases, w.release(channel.Repository))
		}
		w.channels = append(w.channels, NewChannel(channel.Name, channel.Repository, channel.Releases))
	}
	for range w.IntN(8) {
		w.runs = append(w.runs, w.run())
	}
	return w
}

func (w *world) repository() string {
	return []string{repository, repository, otherRepository, "old.test/cube"}[w.IntN(4)]
}

func (w *world) text() string {
	text := fmt.Sprintf("%d.%d.%d", 1+w.IntN(2), w.IntN(3), w.IntN(3))
	if w.IntN(6) == 0 {
		text += fmt.Sprintf("-rc.%d", w.IntN(3))
	}
	return text
}

func (w *world) release(repository string) Release {
	r := release(repository, w.text())
	switch w.IntN(6) {
	case 0:
		r.Digest = ""
	case 1:
		r.Digest += "/again"
	case 2:
		r.StoreImage = "store.test/cubestore:" + r.Version.Tag() + "@sha256:store"
	}
	return r
}

func (w *world) run() Run {
	return Run{Release: w.release(w.repository()), Channel: []string{"latest", "release", "beta", "lts", "gone"}[w.IntN(5)]}
}

func (w *world) current() *Run {
	switch w.IntN(4) {
	case 0:
		return nil
	case 1:
		if len(w.runs) > 0 {
			return &w.runs[w.IntN(len(w.runs))]
		}
	}
	return ptr(w.run())
}

func (w *world) hold() *bool { return []*bool{nil, ptr(true), ptr(false)}[w.IntN(3)] }

func (w *world) upgrade() UpgradePolicy {
	return []UpgradePolicy{"", UpgradeLatest, UpgradeMinor, UpgradePatch}[w.IntN(4)]
}

func (w *world) request() Request {
	request := Request{
		Channel: w.channels[w.IntN(len(w.channels))].Name,
		Hold:    w.hold(),
		Upgrade: w.upgrade(),
		Current: w.current(),
	}
	if w.IntN(3) > 0 {
		v := mustParse(w.text())
		request.Pin = []string{v.String(), v.Tag(), v.Image(w.repository())}[w.IntN(3)]
	}
	switch w.IntN(4) {
	case 0:
		request.Observed = &ObservedPin{}
	case 1:
		request.Observed = &ObservedPin{Written: request.Pin, ChannelHead: w.text()}
	case 2:
		request.Observed = &ObservedPin{Written: request.Pin}
	}
	return request
}

// allowed is, written independently of Resolve, what may be run in a channel, as channel and image.
func (w *world) allowed(request Request) map[string]bool {
	allowed := map[string]bool{}
	runs := slices.Clone(w.runs)
	if request.Current != nil {
		runs = append(runs, *request.Current)
	}
	for _, run := range runs {
		allowed[run.Channel+" "+run.Image] = true
	}
	for _, channel := range w.channels {
		for i, r := range channel.Releases { // newest first
			hasRun := slices.ContainsFunc(runs, func(run Run) bool { return run.Channel == channel.Name && run.Version == r.Version })
			if channel.Name == request.Channel || i == 0 || hasRun {
				allowed[channel.Name+" "+r.Image] = true
			}
		}
	}
	return allowed
}

// next is the request after the decision was carried out and kept.
func (r Request) next(d Decision) Request {
	r.Current = &Run{Release: d.Target, Channel: d.Channel}
	r.Observed = &d.Observed
	return r
}

func TestResolveStaysAmongTheAllowed(t *testing.T) {
	decided := 0
	inWorlds(t, func(t *testing.T, w *world) {
		request := w.request()
		decision, err := Resolve(request, w.channels, w.runs)
		if err != nil {
			return
		}
		decided++
		if target := decision.Channel + " " + decision.Target.Image; !w.allowed(request)[target] {
			t.Errorf("%+v: got %s, which is not allowed", request, target)
		}
	})
	if decided < worlds/2 {
		t.Errorf("only %d of %d requests were decided: the worlds are too poor", decided, worlds)
	}
}

func TestResolveHoldKeepsWhatRuns(t *testing.T) {
	inWorlds(t, func(t *testing.T, w *world) {
		request := w.request()
		request.Hold, request.Pin, request.Current = ptr(true), "", ptr(w.run())
		decision, err := Resolve(request, w.channels, w.runs)
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

// A deployment that runs what was decided is left alone: else it would be rolled forever.
func TestResolveComesToRest(t *testing.T) {
	inWorlds(t, func(t *testing.T, w *world) {
		request := w.request()
		first, err := Resolve(request, w.channels, w.runs)
		if err != nil {
			return
		}
		request = request.next(first)
		second, err := Resolve(request, w.channels, w.runs)
		if err != nil {
			t.Fatalf("%+v: %v", request, err)
		}
		first.Reason, second.Reason = "", ""
		if diff := cmp.Diff(first, second); diff != "" {
			t.Errorf("%+v: the second decision differs (-first +second):\n%s", request, diff)
		}
	})
}

// Channels and runs come from caches, which give them in any order.
func TestOrderDoesNotMatter(t *testing.T) {
	inWorlds(t, func(t *testing.T, w *world) {
		request := w.request()
		decision, err := Resolve(request, w.channels, w.runs)
		entries := List(w.channels, w.runs, request.Current)
		shuffled := &world{Rand: w.Rand, runs: slices.Clone(w.runs)}
		for _, channel := range w.channels {
			releases := slices.Clone(channel.Releases)
			w.Shuffle(len(releases), func(i, j int) { releases[i], releases[j] = releases[j], releases[i] })
			// Not by NewChannel: the order in a channel must not matter either.
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
			w.Shuffle(swap.n, swap.swap)
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

func TestListHasOneHeadAChannelAndOneCurrent(t *testing.T) {
	inWorlds(t, func(t *testing.T, w *world) {
		current := w.current()
		entries := List(w.channels, w.runs, current)
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
		for _, channel := range w.channels {
			if want := min(len(channel.Releases), 1); heads[channel.Name] != want {
				t.Errorf("channel %s has %d heads, want %d", channel.Name, heads[channel.Name], want)
			}
		}
		if want := map[bool]int{true: 1}[current != nil]; currents != want {
			t.Errorf("%d current entries, want %d", currents, want)
		}
		for _, run := range w.runs {
			if !seen[run.Channel+" "+run.Version.String()] {
				t.Errorf("%s has run and is not listed", run.Image)
			}
		}
	})
}

// Whatever the list shows can be chosen by the REST API and written down as a pin.
func TestWhatIsListedCanBePinned(t *testing.T) {
	inWorlds(t, func(t *testing.T, w *world) {
		current := w.current()
		entries := List(w.channels, w.runs, current)
		for _, entry := range entries {
			channel := w.channels[w.IntN(len(w.channels))]
			for _, written := range []string{entry.ReleaseChannelVersion, entry.Version.String(), entry.Version.Tag()} {
				listed, err := Listed(written, entries, channel)
				if err != nil || listed.Version != entry.Version {
					t.Fatalf("Listed(%s) = %+v, %v", written, listed, err)
				}
				decision, err := Resolve(Request{Channel: channel.Name, Pin: listed.ReleaseChannelVersion, Current: current}, w.channels, w.runs)
				if err != nil || decision.Target.Image != listed.ReleaseChannelVersion || decision.Reason != ReasonPinned {
					t.Fatalf("pin %s in %s: got %+v, %v", listed.ReleaseChannelVersion, channel.Name, decision, err)
				}
			}
		}
	})
}

// What an error offers instead is accepted.
func TestWhatAnErrorOffersIsAccepted(t *testing.T) {
	offered := 0
	inWorlds(t, func(t *testing.T, w *world) {
		request := Request{Channel: w.channels[0].Name, Pin: "9.9.9", Current: w.current()}
		_, err := Resolve(request, w.channels, w.runs)
		var unknown *UnknownVersionError
		if !errors.As(err, &unknown) {
			return
		}
		for _, written := range unknown.Allowed {
			offered++
			request.Pin = written
			if _, err := Resolve(request, w.channels, w.runs); err != nil {
				t.Errorf("%s was offered: %v", written, err)
			}
		}
	})
	if offered < worlds {
		t.Errorf("only %d versions were offered: the worlds are too poor", offered)
	}
}

// While channels only grow and nobody asks for something else, nothing ever goes back: not by
// any upgrade policy, and not to a pin that was overtaken.
func TestGrowingChannelsNeverGoBack(t *testing.T) {
	moved := 0
	inWorlds(t, func(t *testing.T, w *world) {
		name := w.channels[0].Name
		w.channels[0].Releases = append(w.channels[0].Releases, w.release(w.channels[0].Repository))
		request := Request{Channel: name, Upgrade: w.upgrade()}
		if w.IntN(2) == 0 {
			request.Pin, request.Hold = w.channels[0].Releases[0].Version.String(), ptr(false)
		}
		overtaken := false
		for range 8 {
			decision, err := Resolve(request, w.channels, w.runs)
			if err != nil {
				t.Fatal(err)
			}
			if request.Current != nil && decision.Target.Version.Compare(request.Current.Version) < 0 {
				t.Fatalf("%+v: went back to %v", request, decision.Target.Version)
			}
			if overtaken && decision.Reason == ReasonPinned {
				t.Fatalf("%+v: went back to the pin", request)
			}
			if request.Upgrade != UpgradeMinor && request.Upgrade != UpgradePatch && decision.Reason != ReasonPinned {
				head, _ := w.channels[0].Head()
				if decision.Target.Version != head.Version {
					t.Fatalf("%+v: got %v, want the head %v", request, decision.Target.Version, head.Version)
				}
			}
			if request.Current != nil && decision.Target.Version != request.Current.Version {
				moved++
			}
			overtaken = overtaken || decision.Reason == ReasonPinOvertaken
			request = request.next(decision)
			for i, channel := range w.channels {
				w.channels[i] = NewChannel(channel.Name, channel.Repository, append(channel.Releases, w.release(channel.Repository)))
			}
		}
	})
	if moved < worlds/4 {
		t.Errorf("only %d upgrades: the worlds are too poor", moved)
	}
}
