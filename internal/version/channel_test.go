package version

import (
	"math/rand/v2"
	"testing"

	"github.com/google/go-cmp/cmp"
)

const (
	repository      = "registry.test:5000/cube"
	otherRepository = "mirror.test/cube"
)

// release returns a release as a registry scan finds it.
func release(repository, text string) Release {
	v := mustParse(text)
	return Release{Version: v, Image: v.Image(repository), Digest: "sha256:" + repository + "/" + text}
}

func channelOf(name, repository string, texts ...string) Channel {
	var releases []Release
	for _, text := range texts {
		releases = append(releases, release(repository, text))
	}
	return NewChannel(name, repository, releases)
}

func runOf(channel, repository, text string) Run {
	return Run{Release: release(repository, text), Channel: channel}
}

func TestReleasePinned(t *testing.T) {
	r := Release{Version: mustParse("1.2.3"), Image: "cubejs/cube:v1.2.3"}
	if got, want := r.Pinned(), "cubejs/cube:v1.2.3"; got != want {
		t.Errorf("got %s, want %s", got, want)
	}
	r.Digest = "sha256:0123"
	if got, want := r.Pinned(), "cubejs/cube:v1.2.3@sha256:0123"; got != want {
		t.Errorf("got %s, want %s", got, want)
	}
}

func TestNewChannel(t *testing.T) {
	withoutDigest := release(repository, "1.2.0")
	withoutDigest.Digest = ""
	releases := []Release{
		withoutDigest,
		release(repository, "1.2.0"),
		release(repository, "1.10.0"),
		release(repository, "1.2.0-rc.1"),
		release(repository, "1.9.0"),
		release(repository, "1.10.0"),
	}
	want := []Release{
		release(repository, "1.10.0"),
		release(repository, "1.9.0"),
		release(repository, "1.2.0"),
		release(repository, "1.2.0-rc.1"),
	}
	random := rand.New(rand.NewPCG(1, 2))
	for range 50 {
		random.Shuffle(len(releases), func(i, j int) { releases[i], releases[j] = releases[j], releases[i] })
		before := append([]Release(nil), releases...)
		channel := NewChannel("latest", repository, releases)
		if diff := cmp.Diff(Channel{Name: "latest", Repository: repository, Releases: want}, channel); diff != "" {
			t.Fatalf("(-want +got):\n%s", diff)
		}
		if diff := cmp.Diff(before, releases); diff != "" {
			t.Fatalf("the argument was changed (-want +got):\n%s", diff)
		}
	}
}

func TestHead(t *testing.T) {
	cases := map[string]struct {
		channel Channel
		want    string // empty: no head
	}{
		"none":                      {channel: channelOf("latest", repository)},
		"zero":                      {},
		"one":                       {channel: channelOf("latest", repository, "1.2.3"), want: "1.2.3"},
		"by precedence, not text":   {channel: channelOf("latest", repository, "1.9.0", "1.10.0"), want: "1.10.0"},
		"release above pre-release": {channel: channelOf("latest", repository, "1.2.3-rc.1", "1.2.3"), want: "1.2.3"},
		"not sorted": {
			channel: Channel{Releases: []Release{release(repository, "1.0.0"), release(repository, "3.0.0"), release(repository, "2.0.0")}},
			want:    "3.0.0",
		},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			got, ok := tc.channel.Head()
			if ok != (tc.want != "") {
				t.Fatalf("got %v, %t", got, ok)
			}
			if ok && got.Version != mustParse(tc.want) {
				t.Errorf("got %v, want %s", got.Version, tc.want)
			}
		})
	}
}
