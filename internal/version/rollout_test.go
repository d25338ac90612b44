package version

import (
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

// attempts returns attempts that ended in this order: "s" succeeded, "f" failed.
func attempts(results string) []Attempt {
	all := make([]Attempt, 0, len(results))
	for i, result := range results {
		all = append(all, Attempt{Deployment: fmt.Sprintf("d%03d", i), Time: time.Unix(int64(1000+i/2), 0), Failed: result == 'f'})
	}
	return all
}

func TestJudge(t *testing.T) {
	usual := StopPolicy{Failures: 3, First: 5}
	cases := map[string]struct {
		results string
		policy  StopPolicy
		last    Rollout
		resumed bool
		want    Rollout
	}{
		"no attempt":                         {"", usual, Rollout{}, false, Rollout{Candidate, 0, 0}},
		"below both numbers":                 {"fsfs", usual, Rollout{}, false, Rollout{Candidate, 4, 2}},
		"third failure":                      {"fsff", usual, Rollout{}, false, Rollout{Stopped, 4, 3}},
		"third failure is the last":          {"sfsff", usual, Rollout{}, false, Rollout{Stopped, 5, 3}},
		"third failure is too late":          {"sfsfsf", usual, Rollout{}, false, Rollout{Accepted, 5, 2}},
		"first deployments run it":           {"sssss", usual, Rollout{}, false, Rollout{Accepted, 5, 0}},
		"accepted remains so":                {"fff", usual, Rollout{Accepted, 5, 1}, false, Rollout{Accepted, 5, 1}},
		"stopped remains so":                 {"", usual, Rollout{Stopped, 3, 3}, false, Rollout{Stopped, 3, 3}},
		"rollouts in progress end after it":  {"ffff", usual, Rollout{Stopped, 3, 3}, false, Rollout{Stopped, 4, 4}},
		"resumed":                            {"fff", usual, Rollout{Stopped, 3, 3}, true, Rollout{Accepted, 3, 3}},
		"resumed before it is stopped":       {"f", usual, Rollout{}, true, Rollout{Accepted, 1, 1}},
		"stops disabled":                     {"fff", StopPolicy{0, 5}, Rollout{}, false, Rollout{Accepted, 3, 3}},
		"stops disabled after a stop":        {"fff", StopPolicy{0, 5}, Rollout{Stopped, 3, 3}, false, Rollout{Accepted, 3, 3}},
		"other numbers do not undo the stop": {"fff", StopPolicy{4, 5}, Rollout{Stopped, 3, 3}, false, Rollout{Stopped, 3, 3}},
		"one of one":                         {"f", StopPolicy{1, 1}, Rollout{}, false, Rollout{Stopped, 1, 1}},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			want := tc.want
			for seed := range uint64(20) {
				all := attempts(tc.results)
				rand.New(rand.NewPCG(seed, 1)).Shuffle(len(all), func(i, j int) { all[i], all[j] = all[j], all[i] })
				if got := Judge(all, tc.policy, tc.last, tc.resumed); got != want {
					t.Errorf("seed %d: %+v, want %+v", seed, got, want)
				}
			}
		})
	}
}

// stopping returns the channel latest with 1.2.3 to 1.2.5, of which some are stopped and one is proven.
func stopping(proven string, stopped ...string) []Channel {
	c := channelOf("latest", repository, "1.2.3", "1.2.4", "1.2.5")
	for _, text := range stopped {
		c.Stopped = append(c.Stopped, release(repository, text).Version)
	}
	if proven != "" {
		c.Proven = ptr(release(repository, proven).Version)
	}
	c.Places = 10
	c.Accepted = []Version{release(repository, "1.2.3").Version}
	return []Channel{c}
}

// withStop returns a decision with the release that it skips, the one that it falls back to, and the
// places of the candidate.
func withStop(d Decision, skipped, fallback string, places int) Decision {
	if skipped != "" {
		d.Skipped = ptr(release(repository, skipped))
	}
	if fallback != "" {
		d.Fallback = ptr(release(repository, fallback))
	}
	d.Places = places
	return d
}

func TestResolveWithStoppedReleases(t *testing.T) {
	old, current := ptr(runOf("latest", repository, "1.2.3")), ptr(runOf("latest", repository, "1.2.5"))
	runResolveCases(t, map[string]resolveCase{
		"upgrade to a candidate": {
			request: Request{Channel: "latest", Current: old}, channels: stopping("1.2.3"),
			want: withStop(decision(ReasonChannelHead, "latest", "1.2.5", false), "", "", 10),
		},
		"next release that is not stopped": {
			request: Request{Channel: "latest", Current: old}, channels: stopping("1.2.3", "1.2.5"),
			want: withStop(decision(ReasonChannelHead, "latest", "1.2.4", false), "1.2.5", "", 10),
		},
		"none but the current one": {
			request: Request{Channel: "latest", Current: old}, channels: stopping("1.2.3", "1.2.5", "1.2.4"),
			want: withStop(decision(ReasonChannelHead, "latest", "1.2.3", false), "1.2.5", "", 0),
		},
		"stays on a stopped release that it runs": {
			request: Request{Channel: "latest", Current: current}, channels: stopping("1.2.3", "1.2.5"),
			want: withStop(decision(ReasonChannelHead, "latest", "1.2.5", false), "", "", 10),
		},
		"completes a rollout of a stopped release": {
			request:  Request{Channel: "latest", Current: old, Rollout: ptr(release(repository, "1.2.5"))},
			channels: stopping("1.2.3", "1.2.5"),
			want:     withStop(decision(ReasonChannelHead, "latest", "1.2.5", false), "", "", 10),
		},
		"a pin is not stopped": {
			request: Request{Channel: "latest", Current: old, Pin: "1.2.5"}, channels: stopping("1.2.3", "1.2.5"),
			want: Decision{Target: release(repository, "1.2.5"), Channel: "latest", Reason: ReasonPinned, Hold: true,
				Observed: ObservedPin{Written: "1.2.5", ChannelHead: "1.2.5"}},
		},
		"a hold stays": {
			request: Request{Channel: "latest", Current: old, Hold: ptr(true)}, channels: stopping("1.2.3", "1.2.5"),
			want: decision(ReasonHeld, "latest", "1.2.3", true),
		},
		"first install of a candidate": {
			request: Request{Channel: "latest"}, channels: stopping("1.2.3"),
			want: withStop(decision(ReasonChannelHead, "latest", "1.2.5", false), "", "1.2.3", 10),
		},
		"first install without a proven release": {
			request: Request{Channel: "latest"}, channels: stopping("", "1.2.5"),
			want: withStop(decision(ReasonChannelHead, "latest", "1.2.4", false), "1.2.5", "", 10),
		},
		"first install begins with the proven release": {
			request: Request{Channel: "latest"}, channels: stopping("1.2.3", "1.2.5"),
			want: withStop(decision(ReasonProven, "latest", "1.2.3", false), "1.2.5", "", 0),
		},
		"first install when all are stopped": {
			request: Request{Channel: "latest"}, channels: stopping("", "1.2.5", "1.2.4", "1.2.3"),
			wantError: `release channel "latest" has stopped version 1.2.5, and no other can be installed; release a newer one, or resume it with spec.rollout.resumeVersion of the channel`,
		},
		"an upgrade policy chooses among the others": {
			request:  Request{Channel: "latest", Current: ptr(runOf("latest", repository, "1.1.0")), Upgrade: UpgradePatch},
			channels: stopping("1.2.3", "1.2.5"),
			want:     Decision{Target: release(repository, "1.1.0"), Channel: "latest", Reason: ReasonKeptByPolicy, Places: 10},
		},
	})
}

// TestStoppedReleasesAreNotStarted, whatever runs, is pinned or is held; and every decision that a
// stop does not concern is the same as without it.
func TestStoppedReleasesAreNotStarted(t *testing.T) {
	forEachScenario(t, func(t *testing.T, s *scenario) {
		request := s.request()
		before, err := Resolve(request, s.channels, s.runs)
		if err != nil {
			return
		}
		for i := range s.channels {
			for _, r := range s.channels[i].Releases {
				if s.IntN(3) == 0 {
					s.channels[i].Stopped = append(s.channels[i].Stopped, r.Version)
				}
			}
		}
		after, err := Resolve(request, s.channels, s.runs)
		if err != nil {
			return
		}
		if after.Skipped == nil {
			if diff := cmp.Diff(before.Target, after.Target); diff != "" {
				t.Errorf("another decision although nothing was skipped (-before +after):\n%s", diff)
			}
			return
		}
		channel, _ := findChannel(s.channels, request.Channel)
		stopped := false
		for _, v := range channel.Stopped {
			stopped = stopped || v == after.Target.Version
		}
		if runs := request.Current != nil && request.Current.Version == after.Target.Version; stopped && !runs {
			t.Errorf("%s is stopped and is started", after.Target.Version)
		}
	})
}
