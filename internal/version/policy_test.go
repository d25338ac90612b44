package version

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestPolicyMatches(t *testing.T) {
	cases := map[string]struct {
		rangeText   string
		preReleases bool
		want        []string
		wantNot     []string
	}{
		"empty takes every release": {
			want:    []string{"0.0.0", "0.0.1", "1.2.3", "10.0.0"},
			wantNot: []string{"1.2.3-rc.1", "0.0.0-0"},
		},
		"empty with pre-releases takes everything": {
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
		"exact with pre-releases means the release and what leads to it": {
			rangeText: "=1.2.3", preReleases: true,
			want: []string{"1.2.3", "1.2.3-rc.1"}, wantNot: []string{"1.2.4-rc.1", "1.2.2"},
		},
		"exception takes the pre-releases of the excepted away too": {
			rangeText: "^1.2 !=1.3.0", preReleases: true,
			want: []string{"1.2.9", "1.3.1-rc.1"}, wantNot: []string{"1.3.0", "1.3.0-rc.1"},
		},
		"a range that names a pre-release does not ask for them": {
			rangeText: ">=1.2.0-rc.2",
			want:      []string{"1.2.0", "1.3.0"}, wantNot: []string{"1.2.0-rc.2", "1.2.0-rc.3", "1.3.0-rc.1"},
		},
		"lower bound that is a pre-release": {
			rangeText: ">=1.2.0-rc.2 <2.0.0", preReleases: true,
			want:    []string{"1.2.0-rc.2", "1.2.0-rc.10", "1.2.0", "1.9.0-rc.1"},
			wantNot: []string{"1.2.0-rc.1", "1.1.0", "2.0.0-rc.1"},
		},
		"upper bound that is a pre-release": {
			rangeText: "<=2.0.0-rc.1", preReleases: true,
			want: []string{"2.0.0-beta", "2.0.0-rc.1", "1.9.9"}, wantNot: []string{"2.0.0-rc.2", "2.0.0"},
		},
		"exactly a pre-release": {
			rangeText: "=2.0.0-rc.1", preReleases: true,
			want: []string{"2.0.0-rc.1"}, wantNot: []string{"2.0.0-rc.2", "2.0.0"},
		},
		"except a pre-release": {
			rangeText: ">=1.2.0 !=1.3.0-rc.1", preReleases: true,
			want: []string{"1.3.0-rc.2", "1.3.0", "1.2.0-rc.1"}, wantNot: []string{"1.3.0-rc.1"},
		},
		"pre-release in one alternative only": {
			rangeText: "=1.2.0-rc.1 || ~1.4", preReleases: true,
			want: []string{"1.2.0-rc.1", "1.4.0-rc.1"}, wantNot: []string{"1.2.0-rc.2", "1.2.0"},
		},
		"hyphen in build metadata names no pre-release": {
			rangeText: ">=1.2.0+build-5", preReleases: true,
			want: []string{"1.2.0-rc.1", "1.2.0"}, wantNot: []string{"1.1.9"},
		},
	}
	for name, tc := range cases {
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
					t.Errorf("%q leaves out %s", tc.rangeText, text)
				}
			}
			for _, text := range tc.wantNot {
				if policy.Matches(mustParse(text)) {
					t.Errorf("%q takes %s", tc.rangeText, text)
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
				t.Fatalf("taken as %v", policy)
			}
			if !strings.HasPrefix(err.Error(), `version range "`) || len(err.Error()) > 2048 {
				t.Errorf("got %v", err)
			}
		})
	}
}

func TestZeroPolicyTakesEveryRelease(t *testing.T) {
	if !(Policy{}).Matches(mustParse("1.2.3")) || (Policy{}).Matches(mustParse("1.2.3-rc.1")) {
		t.Error("the zero policy takes something else")
	}
}
