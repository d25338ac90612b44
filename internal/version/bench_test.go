package version

import (
	"fmt"
	"testing"
)

// largeAccount returns the largest supported account: 5 channels with 200 releases each and
// 1,000 runs.
func largeAccount() ([]Channel, []Run) {
	var channels []Channel
	var runs []Run
	for i := range 5 {
		var releases []Release
		for j := range 200 {
			releases = append(releases, release(repository, fmt.Sprintf("%d.%d.%d", 1+i, j/20, j%20)))
		}
		channel := NewChannel(fmt.Sprintf("channel-%d", i), repository, releases)
		channels = append(channels, channel)
		for _, r := range channel.Releases {
			runs = append(runs, Run{Release: r, Channel: channel.Name})
		}
	}
	return channels, runs
}

func BenchmarkResolve(b *testing.B) {
	channels, runs := largeAccount()
	current := &runs[900]
	for _, bench := range []struct {
		name    string
		request Request
	}{
		{"Latest", Request{Channel: "channel-4", Current: current}},
		{"Patch", Request{Channel: "channel-4", Current: current, Upgrade: UpgradePatch}},
		{"Held", Request{Channel: "channel-4", Current: current, Hold: ptr(true)}},
		{"Pinned", Request{Channel: "channel-4", Current: current, Pin: "5.0.0"}},
		{"PinnedToRunOfAnotherChannel", Request{Channel: "channel-4", Current: current, Pin: repository + ":v1.0.0"}},
	} {
		b.Run(bench.name, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				if _, err := Resolve(bench.request, channels, runs); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
	b.Run("Unknown", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			if _, err := Resolve(Request{Channel: "channel-4", Current: current, Pin: "9.9.9"}, channels, runs); err == nil {
				b.Fatal("found")
			}
		}
	})
}

func BenchmarkList(b *testing.B) {
	channels, runs := largeAccount()
	b.ReportAllocs()
	for b.Loop() {
		List(channels, runs, &runs[900])
	}
}
