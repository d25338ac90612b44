package version

import (
	"errors"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// mustParse parses a version that is known to be valid.
func mustParse(text string) Version {
	v, err := Parse(text)
	if err != nil {
		panic(err)
	}
	return v
}

var longestTag = "v1.2.3-" + strings.Repeat("a", MaxTagLength-len("v1.2.3-"))

var parseTagCases = map[string]struct {
	tag        string
	wantString string // empty: rejected
	wantPre    bool
}{
	"release":                             {tag: "v1.2.3", wantString: "1.2.3"},
	"zeros":                               {tag: "v0.0.0", wantString: "0.0.0"},
	"several digits":                      {tag: "v10.200.3000", wantString: "10.200.3000"},
	"largest numbers":                     {tag: "v18446744073709551615.0.18446744073709551615", wantString: "18446744073709551615.0.18446744073709551615"},
	"pre-release":                         {tag: "v1.2.3-rc.1", wantString: "1.2.3-rc.1", wantPre: true},
	"pre-release with hyphens":            {tag: "v1.2.3--a-.-", wantString: "1.2.3--a-.-", wantPre: true},
	"pre-release 0":                       {tag: "v1.2.3-0", wantString: "1.2.3-0", wantPre: true},
	"pre-release that begins with a zero": {tag: "v1.2.3-0a", wantString: "1.2.3-0a", wantPre: true},
	"variant reads as pre-release":        {tag: "v1.2.3-jdk", wantString: "1.2.3-jdk", wantPre: true},
	"longest":                             {tag: longestTag, wantString: longestTag[1:], wantPre: true},
	"too long":                            {tag: longestTag + "a"},
	"empty":                               {tag: ""},
	"only v":                              {tag: "v"},
	"latest":                              {tag: "latest"},
	"no v":                                {tag: "1.2.3"},
	"upper-case V":                        {tag: "V1.2.3"},
	"two v":                               {tag: "vv1.2.3"},
	"two components":                      {tag: "v1.2"},
	"two components and a pre-release":    {tag: "v1.2-rc.1"},
	"four components":                     {tag: "v1.2.3.4"},
	"empty component":                     {tag: "v1..3"},
	"trailing dot":                        {tag: "v1.2.3."},
	"leading zero":                        {tag: "v1.02.3"},
	"negative":                            {tag: "v1.-2.3"},
	"plus sign":                           {tag: "v+1.2.3"},
	"number too large":                    {tag: "v1.2.18446744073709551616"},
	"build metadata":                      {tag: "v1.2.3+build"},
	"build metadata with hyphen":          {tag: "v1.2.3+build-1"},
	"build metadata behind a pre-release": {tag: "v1.2.3-rc.1+build"},
	"empty pre-release":                   {tag: "v1.2.3-"},
	"empty pre-release identifier":        {tag: "v1.2.3-rc..1"},
	"leading zero in pre-release":         {tag: "v1.2.3-rc.01"},
	"underscore":                          {tag: "v1.2.3-rc_1"},
	"leading space":                       {tag: " v1.2.3"},
	"newline":                             {tag: "v1.2.3\n"},
	"digits of another script":            {tag: "v١.2.3"},
	"letters of another script":           {tag: "v1.2.3-β"},
	"digest":                              {tag: "v1.2.3@sha256"},
	"image reference":                     {tag: "cube:v1.2.3"},
}

func TestParseTag(t *testing.T) {

	for name, tc := range parseTagCases {
		t.Run(name, func(t *testing.T) {
			got, err := ParseTag(tc.tag)
			if wantErr := tc.wantString == ""; (err != nil) != wantErr {
				t.Fatalf("ParseTag(%q) = %v, %v, want error %t", tc.tag, got, err, wantErr)
			}
			if err != nil {
				return
			}
			if got.String() != tc.wantString || got.Tag() != tc.tag || got.IsPreRelease() != tc.wantPre {
				t.Errorf("String %q, Tag %q, IsPreRelease %t", got.String(), got.Tag(), got.IsPreRelease())
			}
			again, err := Parse(got.String())
			if err != nil || again != got {
				t.Errorf("Parse(%q) = %v, %v, want the same version", got.String(), again, err)
			}
		})
	}
}

func TestParse(t *testing.T) {
	if _, err := Parse("v1.2.3"); err == nil {
		t.Error("Parse accepts a leading v")
	}
	_, err := Parse("one")
	if want := `"one" is not a version such as 1.2.3`; err == nil || err.Error() != want {
		t.Errorf("got %v, want %s", err, want)
	}
}

func TestCompare(t *testing.T) {
	// The first eight are the example of semver.org 2.0.0, item 11, after its first release.
	ascending := []string{
		"0.0.0-0", "0.0.0", "0.9.12", "0.10.0",
		"1.0.0-alpha", "1.0.0-alpha.1", "1.0.0-alpha.beta", "1.0.0-beta", "1.0.0-beta.2",
		"1.0.0-beta.11", "1.0.0-rc.1", "1.0.0",
		"1.0.1-0", "1.0.1-9", "1.0.1-10", "1.0.1-10.0", "1.0.1-18446744073709551615",
		"1.0.1-99999999999999999999999", "1.0.1-100000000000000000000000", "1.0.1--", "1.0.1-A", "1.0.1-a", "1.0.1-a.a", "1.0.1-a-", "1.0.1-a-b", "1.0.1",
		"1.2.0", "1.10.0", "2.0.0", "10.0.0",
	}
	for i, a := range ascending {
		for j, b := range ascending {
			got, want := mustParse(a).Compare(mustParse(b)), 0
			switch {
			case i < j:
				want = -1
			case i > j:
				want = 1
			}
			if got != want {
				t.Errorf("%s.Compare(%s) = %d, want %d", a, b, got, want)
			}
			if (mustParse(a) == mustParse(b)) != (want == 0) || mustParse(a).Equal(mustParse(b)) != (want == 0) {
				t.Errorf("%s and %s: == and Equal disagree with precedence", a, b)
			}
		}
	}
	shuffled := slices.Sorted(slices.Values(ascending))
	slices.SortFunc(shuffled, func(a, b string) int { return mustParse(a).Compare(mustParse(b)) })
	if diff := cmp.Diff(ascending, shuffled); diff != "" {
		t.Errorf("sorted (-want +got):\n%s", diff)
	}
}

var parseWrittenCases = map[string]struct {
	written    string
	repository string
	want       string // empty: rejected
	wantError  string
}{
	"version":                      {written: "1.2.3", repository: "cubejs/cube", want: "1.2.3"},
	"v version":                    {written: "v1.2.3", repository: "cubejs/cube", want: "1.2.3"},
	"image":                        {written: "cubejs/cube:v1.2.3", repository: "cubejs/cube", want: "1.2.3"},
	"image of a pre-release":       {written: "cubejs/cube:v1.2.3-rc.1", repository: "cubejs/cube", want: "1.2.3-rc.1"},
	"repository with a port":       {written: "127.0.0.1:15000/cube:v1.2.3", repository: "127.0.0.1:15000/cube", want: "1.2.3"},
	"repository named as a tag":    {written: "v1.2.3:v4.5.6", repository: "v1.2.3", want: "4.5.6"},
	"version, no repository known": {written: "v1.2.3", want: "1.2.3"},
	"image, no repository known": {written: "cubejs/cube:v1.2.3",
		wantError: `version "cubejs/cube:v1.2.3" is not in an accepted form: write <version> (such as 1.2.3), v<version> or <image_repo>:v<version>`},
	"other repository": {written: "other/cube:v1.2.3", repository: "cubejs/cube",
		wantError: `version "other/cube:v1.2.3" is not in an accepted form: write <version> (such as 1.2.3), v<version> or cubejs/cube:v<version>`},
	"part of the repository":     {written: "cube:v1.2.3", repository: "cubejs/cube"},
	"repository with registry":   {written: "docker.io/cubejs/cube:v1.2.3", repository: "cubejs/cube"},
	"repository in another case": {written: "Cubejs/cube:v1.2.3", repository: "cubejs/cube"},
	"missing port":               {written: "127.0.0.1/cube:v1.2.3", repository: "127.0.0.1:15000/cube"},
	"image without v":            {written: "cubejs/cube:1.2.3", repository: "cubejs/cube"},
	"image without tag":          {written: "cubejs/cube", repository: "cubejs/cube"},
	"port and no tag":            {written: "127.0.0.1:15000/cube", repository: "127.0.0.1:15000/cube"},
	"empty tag":                  {written: "cubejs/cube:", repository: "cubejs/cube"},
	"no repository before colon": {written: ":v1.2.3", repository: "cubejs/cube"},
	"no repository on either side": {written: ":v1.2.3",
		wantError: `version ":v1.2.3" is not in an accepted form: write <version> (such as 1.2.3), v<version> or <image_repo>:v<version>`},
	"scheme":             {written: "https://cubejs/cube:v1.2.3", repository: "cubejs/cube"},
	"floating tag":       {written: "latest", repository: "cubejs/cube"},
	"image floating tag": {written: "cubejs/cube:latest", repository: "cubejs/cube"},
	"two components":     {written: "1.2", repository: "cubejs/cube"},
	"range":              {written: "^1.2.3", repository: "cubejs/cube"},
	"leading space":      {written: " 1.2.3", repository: "cubejs/cube"},
	"two v":              {written: "vv1.2.3", repository: "cubejs/cube"},
	"upper-case V":       {written: "V1.2.3", repository: "cubejs/cube"},
	"build metadata":     {written: "1.2.3+4", repository: "cubejs/cube"},
	"empty": {written: "", repository: "cubejs/cube",
		wantError: `version "" is not in an accepted form: write <version> (such as 1.2.3), v<version> or cubejs/cube:v<version>`},
	"digest": {written: "cubejs/cube:v1.2.3@sha256:0123", repository: "cubejs/cube",
		wantError: `version "cubejs/cube:v1.2.3@sha256:0123" has a digest, which follows from the version and cannot be chosen: write <version> (such as 1.2.3), v<version> or cubejs/cube:v<version>`},
	"digest without tag": {written: "cubejs/cube@sha256:0123", repository: "cubejs/cube",
		wantError: `version "cubejs/cube@sha256:0123" has a digest, which follows from the version and cannot be chosen: write <version> (such as 1.2.3), v<version> or cubejs/cube:v<version>`},
	"digest on a version": {written: "1.2.3@sha256:0123", repository: "cubejs/cube"},
	"too long":            {written: "1.2.3-" + strings.Repeat("a", 5000), repository: "cubejs/cube"},
}

func TestParseWritten(t *testing.T) {
	for name, tc := range parseWrittenCases {
		t.Run(name, func(t *testing.T) {
			got, err := ParseWritten(tc.written, tc.repository)
			if tc.want != "" {
				if err != nil || got.String() != tc.want {
					t.Fatalf("got %v, %v, want %s", got, err, tc.want)
				}
				return
			}
			if formError := (*FormError)(nil); !errors.As(err, &formError) || formError.Given != tc.written {
				t.Fatalf("got %v, %v, want a *FormError", got, err)
			}
			if tc.wantError != "" && err.Error() != tc.wantError {
				t.Errorf("got error  %s\nwant       %s", err, tc.wantError)
			}
			if len(err.Error()) > 1024 {
				t.Errorf("error of %d bytes", len(err.Error()))
			}
		})
	}
}

func TestQuote(t *testing.T) {
	cases := map[string]struct {
		text string
		want string
	}{
		"short":             {text: "1.2", want: `"1.2"`},
		"at the limit":      {text: strings.Repeat("a", maxQuoted), want: `"` + strings.Repeat("a", maxQuoted) + `"`},
		"above the limit":   {text: strings.Repeat("a", maxQuoted+1), want: `"` + strings.Repeat("a", maxQuoted) + `…"`},
		"rune at the limit": {text: strings.Repeat("a", maxQuoted-1) + "ßa", want: `"` + strings.Repeat("a", maxQuoted-1) + `…"`},
		"not UTF-8":         {text: "\x00\xff\n", want: `"\x00\xff\n"`},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			if diff := cmp.Diff(tc.want, quote(tc.text)); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}
