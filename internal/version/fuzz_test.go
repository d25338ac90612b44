package version

import (
	"errors"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/Masterminds/semver/v3"
)

func FuzzParseTag(f *testing.F) {
	for _, seed := range []string{"v1.2.3", "v1.2.3-rc.1", "v0.0.0-0", "latest", "v1.2", "1.2.3", "v1.2.3+4", "v01.2.3", "v1.2.3-01", "v18446744073709551616.0.0", "v1.2.3--"} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, tag string) {
		v, err := ParseTag(tag)
		number, hasV := strings.CutPrefix(tag, "v")
		_, strictErr := semver.StrictNewVersion(number)
		want := hasV && strictErr == nil && !strings.Contains(tag, "+") && len(tag) <= MaxTagLength
		if (err == nil) != want {
			t.Fatalf("ParseTag(%q): got %v, %v, want accepted %t", tag, v, err, want)
		}
		if err != nil {
			if len(err.Error()) > 4*maxQuoted+128 || !utf8.ValidString(err.Error()) {
				t.Errorf("error is too long or not UTF-8: %q", err)
			}
			return
		}
		if v.Tag() != tag || "v"+v.String() != tag {
			t.Errorf("ParseTag(%q) prints as %q and %q", tag, v.Tag(), v.String())
		}
		if v.Compare(v) != 0 || v.Compare(Version{}) < 0 && v.preRelease == "" {
			t.Errorf("%q is not ordered by precedence", tag)
		}
	})
}

func FuzzParseWritten(f *testing.F) {
	for _, seed := range [][2]string{
		{"1.2.3", "cubejs/cube"},
		{"v1.2.3-rc.1", ""},
		{"cubejs/cube:v1.2.3", "cubejs/cube"},
		{"127.0.0.1:15000/cube:v1.2.3", "127.0.0.1:15000/cube"},
		{"cubejs/cube:v1.2.3@sha256:0123", "cubejs/cube"},
		{":v1.2.3", ""},
		{"a:b:v1.2.3", "a:b"},
	} {
		f.Add(seed[0], seed[1])
	}
	f.Fuzz(func(t *testing.T, written, repository string) {
		v, err := ParseWritten(written, repository)
		if err != nil {
			if form := (*FormError)(nil); !errors.As(err, &form) || form.Given != written || form.ImageRepository != repository {
				t.Fatalf("ParseWritten(%q, %q): got %#v", written, repository, err)
			}
			return
		}
		forms := []string{v.String(), v.Tag()}
		if repository != "" {
			forms = append(forms, v.Image(repository))
		}
		identical := false
		for _, form := range forms {
			identical = identical || form == written
			if again, err := ParseWritten(form, repository); err != nil || again != v {
				t.Errorf("ParseWritten(%q, %q) = %v, %v, want %v", form, repository, again, err, v)
			}
		}
		if !identical {
			t.Errorf("%q was accepted, which is none of %q", written, forms)
		}
	})
}

func FuzzParsePolicy(f *testing.F) {
	for _, seed := range []struct {
		rangeText string
		tag       string
	}{
		{">=1.2.0 <2", "v1.3.0"}, {"~1.6 || ^2.1", "v2.2.0-rc.1"}, {"1.2 - 1.4", "v1.4.9"}, {"*", "v0.0.0-0"}, {"", "v1.2.3"},
		{"!=1.3.0-rc.1, >1", "v1.3.0-rc.1"}, {"=>1.x.x", "v1.0.0"}, {"1.2.3+a-b", "v1.2.3"}, {"~>0.0.0", "v5.0.0"}, {">=1.2.0-0", "v1.2.0-rc.1"},
	} {
		f.Add(seed.rangeText, seed.tag)
	}
	f.Fuzz(func(t *testing.T, rangeText, tag string) {
		releases, err := ParsePolicy(rangeText, false)
		all, errAll := ParsePolicy(rangeText, true)
		if (err == nil) != (errAll == nil) {
			t.Fatalf("%q: %v, with pre-releases %v", rangeText, err, errAll)
		}
		library, libraryErr := semver.NewConstraint(rangeText)
		if want := rangeText == "" || libraryErr == nil; (err == nil) != want {
			t.Fatalf("%q: got %v, the library returns %v", rangeText, err, libraryErr)
		}
		v, tagErr := ParseTag(tag)
		if err != nil || tagErr != nil {
			return
		}
		if releases.String() != rangeText {
			t.Errorf("%q prints as %q", rangeText, releases)
		}
		if v.IsPreRelease() {
			if releases.Matches(v) {
				t.Errorf("%q matches %v", rangeText, v)
			}
			return
		}
		want := rangeText == "" || library.Check(semver.MustParse(v.String()))
		if releases.Matches(v) != want || all.Matches(v) != want {
			t.Errorf("%q and %v: got %t, with pre-releases %t, want %t", rangeText, v, releases.Matches(v), all.Matches(v), want)
		}
	})
}
