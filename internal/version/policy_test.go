package version

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

var policyCases = map[string]struct {
	rangeText   string
	preReleases bool
	want        []string
	wantNot     []string
}{
	"empty matches every release": {
		want:    []string{"0.0.0", "0.0.1", "1.2.3", "10.0.0"},
		wantNot: []string{"1.2.3-rc.1", "0.0.0-0"},
	},
	"empty with pre-releases matches everything": {
		preReleases: true,
		want:        []string{"0.0.0", "1.2.3", "1.2.3-rc.1", "0.0.0-0"},
	},
	"star": {
		rangeText: "*",
		want:      []string{"0.0.0", "1.2.3"}, wantNot: []string{"1.2.3-rc.1"},
	},
	"star with pre-releases": {
		rangeText: "*", preReleases: true,
		want: []string{"0.0.0", "0.0.0-0", "1.2.3-rc.1"},
	},
	"bounds": {
		rangeText: ">=1.2.0 <2",
		want:      []string{"1.2.0", "1.99.99"},
		wantNot:   []string{"1.1.99", "2.0.0", "1.3.0-rc.1", "2.0.0-rc.1"},
	},
	"bounds with pre-releases": {
		rangeText: ">=1.2.0, <2", preReleases: true,
		want:    []string{"1.2.0", "1.2.0-rc.1", "1.3.0-rc.1", "1.99.99"},
		wantNot: []string{"1.1.99", "1.1.99-rc.1", "2.0.0-0", "2.0.0-rc.1", "2.0.0"},
	},
	"tilde": {
		rangeText: "~1.6",
		want:      []string{"1.6.0", "1.6.60"}, wantNot: []string{"1.5.9", "1.7.0", "1.6.1-rc.1"},
	},
	"tilde with pre-releases": {
		rangeText: "~1.6.2", preReleases: true,
		want: []string{"1.6.2-rc.1", "1.6.2", "1.6.3-rc.1"}, wantNot: []string{"1.6.1", "1.6.1-rc.1", "1.7.0-rc.1"},
	},
	"caret": {
		rangeText: "^1.6.2",
		want:      []string{"1.6.2", "1.7.0"}, wantNot: []string{"1.6.1", "2.0.0"},
	},
	"caret with pre-releases": {
		rangeText: "^1.6.2", preReleases: true,
		want: []string{"1.6.2-0", "1.7.0-rc.1"}, wantNot: []string{"2.0.0-rc.1"},
	},
	"alternatives": {
		rangeText: "~1.4 || ~1.6",
		want:      []string{"1.4.9", "1.6.0"}, wantNot: []string{"1.5.0", "1.7.0"},
	},
	"hyphen": {
		rangeText: "1.2.0 - 1.4.0",
		want:      []string{"1.2.0", "1.4.0"}, wantNot: []string{"1.1.9", "1.4.1"},
	},
	"hyphen with pre-releases": {
		rangeText: "1.2.0 - 1.4.0", preReleases: true,
		want: []string{"1.2.0-rc.1", "1.4.0-rc.1"}, wantNot: []string{"1.4.1-rc.1"},
	},
	"exact with pre-releases matches the release and its pre-releases": {
		rangeText: "=1.2.3", preReleases: true,
		want: []string{"1.2.3", "1.2.3-rc.1"}, wantNot: []string{"1.2.4-rc.1", "1.2.2"},
	},
	"excluded release excludes its pre-releases": {
		rangeText: "^1.2 !=1.3.0", preReleases: true,
		want: []string{"1.2.9", "1.3.1-rc.1"}, wantNot: []string{"1.3.0", "1.3.0-rc.1"},
	},
	"range that names a pre-release does not enable pre-releases": {
		rangeText: ">=1.2.0-rc.2",
		want:      []string{"1.2.0", "1.3.0"}, wantNot: []string{"1.2.0-rc.2", "1.2.0-rc.3", "1.3.0-rc.1"},
	},
	"pre-release as lower bound": {
		rangeText: ">=1.2.0-rc.2 <2.0.0", preReleases: true,
		want:    []string{"1.2.0-rc.2", "1.2.0-rc.10", "1.2.0", "1.9.0-rc.1"},
		wantNot: []string{"1.2.0-rc.1", "1.1.0", "2.0.0-rc.1"},
	},
	"pre-release as upper bound": {
		rangeText: "<=2.0.0-rc.1", preReleases: true,
		want: []string{"2.0.0-beta", "2.0.0-rc.1", "1.9.9"}, wantNot: []string{"2.0.0-rc.2", "2.0.0"},
	},
	"exact pre-release": {
		rangeText: "=2.0.0-rc.1", preReleases: true,
		want: []string{"2.0.0-rc.1"}, wantNot: []string{"2.0.0-rc.2", "2.0.0"},
	},
	"excluded pre-release": {
		rangeText: ">=1.2.0 !=1.3.0-rc.1", preReleases: true,
		want: []string{"1.3.0-rc.2", "1.3.0", "1.2.0-rc.1"}, wantNot: []string{"1.3.0-rc.1"},
	},
	"pre-release in one alternative only": {
		rangeText: "=1.2.0-rc.1 || ~1.4", preReleases: true,
		want: []string{"1.2.0-rc.1", "1.4.0-rc.1"}, wantNot: []string{"1.2.0-rc.2", "1.2.0"},
	},
	"hyphen in build metadata is not a pre-release": {
		rangeText: ">=1.2.0+build-5", preReleases: true,
		want: []string{"1.2.0-rc.1", "1.2.0"}, wantNot: []string{"1.1.9"},
	},
}

func TestPolicyMatches(t *testing.T) {
	for name, tc := range policyCases {
		t.Run(name, func(t *testing.T) {
			policy, err := ParsePolicy(tc.rangeText, tc.preReleases)
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(tc.rangeText, policy.String()); diff != "" {
				t.Errorf("String (-want +got):\n%s", diff)
			}
			for _, text := range tc.want {
				if !policy.Matches(mustParse(text)) {
					t.Errorf("%q does not match %s", tc.rangeText, text)
				}
			}
			for _, text := range tc.wantNot {
				if policy.Matches(mustParse(text)) {
					t.Errorf("%q matches %s", tc.rangeText, text)
				}
			}
		})
	}
}

func TestParsePolicyErrors(t *testing.T) {
	for name, text := range map[string]string{
		"word": "latest", "space": " ", "open": ">=", "two operators": ">=<1.2", "open alternative": "1.2 ||",
		"letters": "1.y", "negative": "-1", "too long": strings.Repeat("1.2.3 ", 200),
	} {
		t.Run(name, func(t *testing.T) {
			policy, err := ParsePolicy(text, false)
			if err == nil {
				t.Fatalf("parsed as %v", policy)
			}
			if !strings.HasPrefix(err.Error(), `version range "`) || len(err.Error()) > 2048 {
				t.Errorf("got %v", err)
			}
		})
	}
}

func TestZeroPolicyMatchesEveryRelease(t *testing.T) {
	if !(Policy{}).Matches(mustParse("1.2.3")) || (Policy{}).Matches(mustParse("1.2.3-rc.1")) {
		t.Error("the zero policy does not match exactly the releases")
	}
}
