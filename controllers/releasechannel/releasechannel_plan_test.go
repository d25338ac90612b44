package releasechannel

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	"github.com/quoin-dev/quoin/api/v1alpha1"
	"github.com/quoin-dev/quoin/internal/version"
)

const (
	repository = "registry.example.com/cube"
	store      = "registry.example.com/cubestore"
)

// tags are those of an image repository.
var tags = []string{
	"latest", "dev", "v1", "v1.2", "1.2.3", "v01.2.3", "v1.2.3+build", "V1.2.3", "v1.2.3.4", "v1.2.3-",
	"v1.2.3", "v1.2.10", "v1.2.9", "v1.3.0-rc.1", "v1.3.0-rc.10", "v1.3.0-rc.2", "v1.1.0", "v2.0.0", "v1.2.3-jdk", "v1.2.3",
}

func TestSelectedVersions(t *testing.T) {
	policy := func(r string, preReleases bool, keep *int32) v1alpha1.ReleaseChannelSpec {
		return v1alpha1.ReleaseChannelSpec{Policy: &v1alpha1.VersionPolicy{Range: r, PreReleases: &preReleases, Keep: keep}}
	}
	listed := func(versions ...string) v1alpha1.ReleaseChannelSpec {
		spec := v1alpha1.ReleaseChannelSpec{}
		for _, v := range versions {
			spec.Versions = append(spec.Versions, v1alpha1.ListedVersion{Version: v})
		}
		return spec
	}
	cases := map[string]struct {
		spec v1alpha1.ReleaseChannelSpec
		want []string
		text string
	}{
		"every release":               {v1alpha1.ReleaseChannelSpec{}, []string{"2.0.0", "1.2.10", "1.2.9", "1.2.3", "1.1.0"}, "every release"},
		"empty policy":                {v1alpha1.ReleaseChannelSpec{Policy: &v1alpha1.VersionPolicy{}}, []string{"2.0.0", "1.2.10", "1.2.9", "1.2.3", "1.1.0"}, "every release"},
		"range":                       {policy("~1.2", false, nil), []string{"1.2.10", "1.2.9", "1.2.3"}, "~1.2"},
		"range with pre-releases":     {policy(">=1.3.0-0 <2", true, nil), []string{"1.3.0-rc.10", "1.3.0-rc.2", "1.3.0-rc.1"}, ">=1.3.0-0 <2"},
		"all pre-releases":            {policy("", true, nil), []string{"2.0.0", "1.3.0-rc.10", "1.3.0-rc.2", "1.3.0-rc.1", "1.2.10", "1.2.9", "1.2.3", "1.2.3-jdk", "1.1.0"}, ""},
		"keep two":                    {policy("", false, ptr.To(int32(2))), []string{"2.0.0", "1.2.10"}, ""},
		"keep more than exist":        {policy("", false, ptr.To(int32(200))), []string{"2.0.0", "1.2.10", "1.2.9", "1.2.3", "1.1.0"}, ""},
		"nothing in range":            {policy(">=3", false, nil), nil, ">=3"},
		"explicit list":               {listed("1.2.3", "2.0.0"), []string{"2.0.0", "1.2.3"}, "spec.versions"},
		"explicit list, some missing": {listed("1.2.3", "9.9.9"), []string{"1.2.3"}, "spec.versions"},
		"explicit pre-release":        {listed("1.3.0-rc.2"), []string{"1.3.0-rc.2"}, "spec.versions"},
		"explicit digest without tag": {v1alpha1.ReleaseChannelSpec{Versions: []v1alpha1.ListedVersion{{Version: "1.2.3"}, {Version: "9.9.9", Digest: "sha256:9"}, {Version: "9.9.8"}}}, []string{"9.9.9", "1.2.3"}, "spec.versions"},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			s, err := newSelection(&tc.spec)
			if err != nil {
				t.Fatal(err)
			}
			var got []string
			for _, v := range s.of(tags) {
				got = append(got, v.String())
			}
			if diff := cmp.Diff(tc.want, got); diff != "" {
				t.Errorf("versions (-want +got):\n%s", diff)
			}
			if !strings.Contains(s.describe(), tc.text) {
				t.Errorf("described as %q, without %q", s.describe(), tc.text)
			}
		})
	}
}

// TestSelectionKeepsFiftyVersions by default.
func TestSelectionKeepsFiftyVersions(t *testing.T) {
	s, err := newSelection(&v1alpha1.ReleaseChannelSpec{})
	if err != nil {
		t.Fatal(err)
	}
	var many []string
	for i := range 120 {
		many = append(many, fmt.Sprintf("v1.%d.0", i))
	}
	if got := s.of(many); len(got) != defaultKeep {
		t.Errorf("%d versions are kept", len(got))
	}
}

// TestSelectionErrorsNameTheField.
func TestSelectionErrorsNameTheField(t *testing.T) {
	cases := map[string]struct {
		spec v1alpha1.ReleaseChannelSpec
		text string
	}{
		"range":             {v1alpha1.ReleaseChannelSpec{Policy: &v1alpha1.VersionPolicy{Range: "newest"}}, "spec.policy.range: "},
		"version in a list": {v1alpha1.ReleaseChannelSpec{Versions: []v1alpha1.ListedVersion{{Version: "1.2.3-01"}}}, `spec.versions: "1.2.3-01" is not a version`},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			if _, err := newSelection(&tc.spec); err == nil || !strings.HasPrefix(err.Error(), tc.text) {
				t.Errorf("got %v, want %s…", err, tc.text)
			}
		})
	}
}

func parsed(t *testing.T, text string) version.Version {
	t.Helper()
	v, err := version.Parse(text)
	if err != nil {
		t.Fatal(err)
	}
	return v
}

// earlier is the time of the known versions, later that of the scan.
var earlier, later = metav1.NewTime(time.Unix(100, 0)), metav1.NewTime(time.Unix(200, 0))

func entry(v, repo, digest, storeImage string, firstSeen metav1.Time) v1alpha1.ChannelVersion {
	return v1alpha1.ChannelVersion{Version: v, Image: repo + ":v" + v, Digest: digest, StoreImage: storeImage, FirstSeen: firstSeen}
}

type mergeCase struct {
	known              []v1alpha1.ChannelVersion
	store              string
	selected           []string
	specified, digests map[string]string
	specifiedStores    map[string]string
	stores             map[string]string
	want               []v1alpha1.ChannelVersion
	repushed           string
}

var mergeCases = map[string]mergeCase{
	"first scan": {
		selected: []string{"1.2.4", "1.2.3"}, digests: map[string]string{"1.2.4": "sha256:4", "1.2.3": "sha256:3"},
		want: []v1alpha1.ChannelVersion{entry("1.2.4", repository, "sha256:4", "", later), entry("1.2.3", repository, "sha256:3", "", later)},
	},
	"new version": {
		known:    []v1alpha1.ChannelVersion{entry("1.2.3", repository, "sha256:3", "", earlier)},
		selected: []string{"1.2.4", "1.2.3"}, digests: map[string]string{"1.2.4": "sha256:4"},
		want: []v1alpha1.ChannelVersion{entry("1.2.4", repository, "sha256:4", "", later), entry("1.2.3", repository, "sha256:3", "", earlier)},
	},
	"deleted version": {
		known:    []v1alpha1.ChannelVersion{entry("1.2.4", repository, "sha256:4", "", earlier), entry("1.2.3", repository, "sha256:3", "", earlier)},
		selected: []string{"1.2.3"}, digests: map[string]string{"1.2.3": "sha256:3"},
		want: []v1alpha1.ChannelVersion{entry("1.2.3", repository, "sha256:3", "", earlier)},
	},
	"no versions": {
		known: []v1alpha1.ChannelVersion{entry("1.2.4", repository, "sha256:4", "", earlier)},
	},
	"newest version pushed again": {
		known:    []v1alpha1.ChannelVersion{entry("1.2.3", repository, "sha256:3", "", earlier)},
		selected: []string{"1.2.3"}, digests: map[string]string{"1.2.3": "sha256:other"},
		want:     []v1alpha1.ChannelVersion{entry("1.2.3", repository, "sha256:3", "", earlier)},
		repushed: "v1.2.3",
	},
	"another repository": {
		known:    []v1alpha1.ChannelVersion{entry("1.2.3", "other.example.com/cube", "sha256:old", "other.example.com/cubestore:v1.2.3@sha256:s", earlier)},
		store:    store,
		selected: []string{"1.2.3"}, digests: map[string]string{"1.2.3": "sha256:3"}, stores: map[string]string{"1.2.3": "sha256:5"},
		want: []v1alpha1.ChannelVersion{entry("1.2.3", repository, "sha256:3", store+":v1.2.3@sha256:5", later)},
	},
	"specified digest": {
		selected: []string{"1.2.4", "1.2.3"}, specified: map[string]string{"1.2.4": "sha256:specified"}, digests: map[string]string{"1.2.3": "sha256:3"},
		want: []v1alpha1.ChannelVersion{entry("1.2.4", repository, "sha256:specified", "", later), entry("1.2.3", repository, "sha256:3", "", later)},
	},
	"digest of the store specified": {
		known: []v1alpha1.ChannelVersion{entry("1.2.3", repository, "sha256:3", store+":v1.2.3@sha256:s3", earlier)},
		store: store, selected: []string{"1.2.3"}, specifiedStores: map[string]string{"1.2.3": "sha256:specified"},
		want: []v1alpha1.ChannelVersion{entry("1.2.3", repository, "sha256:3", store+":v1.2.3@sha256:specified", earlier)},
	},
	"digest specified later": {
		known:    []v1alpha1.ChannelVersion{entry("1.2.3", repository, "sha256:3", "", earlier)},
		selected: []string{"1.2.3"}, specified: map[string]string{"1.2.3": "sha256:specified"},
		want: []v1alpha1.ChannelVersion{entry("1.2.3", repository, "sha256:specified", "", earlier)},
	},
	"store images": {
		known:    []v1alpha1.ChannelVersion{entry("1.2.3", repository, "sha256:3", store+":v1.2.3@sha256:s3", earlier)},
		store:    store,
		selected: []string{"1.2.5", "1.2.4", "1.2.3"}, digests: map[string]string{"1.2.5": "sha256:5", "1.2.4": "sha256:4"},
		stores: map[string]string{"1.2.4": "sha256:s4", "1.2.3": "sha256:pushed-again"},
		want: []v1alpha1.ChannelVersion{
			entry("1.2.5", repository, "sha256:5", "", later),
			entry("1.2.4", repository, "sha256:4", store+":v1.2.4@sha256:s4", later),
			entry("1.2.3", repository, "sha256:3", store+":v1.2.3@sha256:s3", earlier),
		},
	},
	"store repository removed": {
		known:    []v1alpha1.ChannelVersion{entry("1.2.3", repository, "sha256:3", store+":v1.2.3@sha256:s3", earlier)},
		selected: []string{"1.2.3"},
		want:     []v1alpha1.ChannelVersion{entry("1.2.3", repository, "sha256:3", "", earlier)},
	},
	"store repository added": {
		known:    []v1alpha1.ChannelVersion{entry("1.2.3", repository, "sha256:3", "", earlier)},
		store:    store,
		selected: []string{"1.2.3"}, stores: map[string]string{"1.2.3": "sha256:s3"},
		want: []v1alpha1.ChannelVersion{entry("1.2.3", repository, "sha256:3", store+":v1.2.3@sha256:s3", earlier)},
	},
}

// TestScanIsMergedWithKnownVersions of the status.
func TestScanIsMergedWithKnownVersions(t *testing.T) {
	for name, tc := range mergeCases {
		t.Run(name, tc.run)
	}
}

func (tc mergeCase) run(t *testing.T) {
	byVersion := func(texts map[string]string) map[version.Version]string {
		m := map[version.Version]string{}
		for text, digest := range texts {
			m[parsed(t, text)] = digest
		}
		return m
	}
	f := scanResult{
		spec:   &v1alpha1.ReleaseChannelSpec{ImageRepository: repository, StoreImageRepository: tc.store},
		listed: map[version.Version]v1alpha1.ListedVersion{}, digests: byVersion(tc.digests), storeDigests: byVersion(tc.stores),
	}
	for _, text := range tc.selected {
		f.selected = append(f.selected, parsed(t, text))
		f.listed[parsed(t, text)] = v1alpha1.ListedVersion{Version: text, Digest: tc.specified[text], StoreDigest: tc.specifiedStores[text]}
	}
	got, repushed := f.versions(tc.known, later)
	if diff := cmp.Diff(tc.want, got, cmpopts.EquateEmpty()); diff != "" {
		t.Errorf("versions (-want +got):\n%s", diff)
	}
	if repushed != tc.repushed {
		t.Errorf("pushed again: %q, want %q", repushed, tc.repushed)
	}
}

func TestHasImage(t *testing.T) {
	cases := map[string]struct {
		pinned string
		want   bool
	}{
		"pinned":        {store + ":v1.2.3@sha256:1", true},
		"not pinned":    {store + ":v1.2.3", false},
		"longer tag":    {store + ":v1.2.30@sha256:1", false},
		"other":         {"other:v1.2.3@sha256:1", false},
		"empty":         {"", false},
		"pre-release":   {store + ":v1.2.3-rc.1@sha256:1", false},
		"shorter image": {store, false},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			if got := hasImage(tc.pinned, store+":v1.2.3"); got != tc.want {
				t.Errorf("hasImage(%q) = %v", tc.pinned, got)
			}
		})
	}
}

func TestOnLoopback(t *testing.T) {
	for repository, want := range map[string]bool{
		"localhost/cube": true, "localhost:5000/cube": true, "127.0.0.1:5000/a/b": true, "127.1.2.3/cube": true,
		"localhost.example.com/cube": false, "registry.example.com/localhost": false, "10.0.0.1:5000/cube": false, "cube": false, "": false,
	} {
		if got := onLoopback(repository); got != want {
			t.Errorf("onLoopback(%q) = %v", repository, got)
		}
	}
}

// TestFailedScanNamesTheListThatIsKept, if there is one: the message of a first scan that fails does
// not refer to a list.
func TestFailedScanNamesTheListThatIsKept(t *testing.T) {
	reg := &images{
		repos: map[string]map[string]string{repository: {"v1.2.3": "sha256:3"}},
		errs:  map[string]error{repository: errors.New("connection refused")},
	}
	w := newFixture(t, following(), reg)
	c, _ := w.scan()
	expectReady(t, c, "False ScanFailed", "connection refused; the channel has no versions yet")
	reg.errs = nil
	w.scan()
	reg.errs = map[string]error{repository: errors.New("connection refused")}
	c, _ = w.scan()
	expectReady(t, c, "False ScanFailed", "connection refused; the list of the last successful scan is kept")
}
