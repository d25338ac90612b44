package deployments

import (
	"slices"
	"strings"
	"testing"

	"github.com/quoin-dev/quoin/internal/version"
)

// entriesOf returns a list of versions from "channel version" and, for heads, "channel version head".
func entriesOf(t *testing.T, lines ...string) []version.Entry {
	t.Helper()
	entries := make([]version.Entry, len(lines))
	for i, line := range lines {
		words := strings.Fields(line)
		v, err := version.Parse(words[1])
		if err != nil {
			t.Fatal(err)
		}
		entries[i] = version.Entry{ReleaseChannel: words[0], Version: v, IsLatestInChannel: len(words) == 3}
	}
	return entries
}

// TestPageAfterAVersion: a change of the list between two pages repeats and skips no entry that is in both lists.
func TestPageAfterAVersion(t *testing.T) {
	for name, c := range map[string]struct {
		list  []string
		after versionKey
		want  string
	}{
		"the head":                     {[]string{"a 1.3.0 head", "a 1.2.0", "b 1.0.0 head"}, versionKey{"a", "1.3.0", true}, "a 1.2.0"},
		"a head that was replaced":     {[]string{"a 1.4.0 head", "a 1.3.0", "a 1.2.0"}, versionKey{"a", "1.3.0", true}, "a 1.2.0"},
		"a head that is gone":          {[]string{"a 1.4.0 head", "a 1.2.0"}, versionKey{"a", "1.3.0", true}, "a 1.2.0"},
		"a head older than others":     {[]string{"a 1.3.0 head", "a 1.5.0", "a 1.2.0"}, versionKey{"a", "1.3.0", true}, "a 1.5.0"},
		"a version, with a new head":   {[]string{"a 1.4.0 head", "a 1.3.0", "a 1.2.0", "a 1.1.0"}, versionKey{Channel: "a", Version: "1.2.0"}, "a 1.1.0"},
		"a version that is gone":       {[]string{"a 1.4.0 head", "a 1.3.0", "a 1.1.0"}, versionKey{Channel: "a", Version: "1.2.0"}, "a 1.1.0"},
		"the last one of a channel":    {[]string{"a 1.4.0 head", "a 1.3.0", "b 2.0.0 head"}, versionKey{Channel: "a", Version: "1.3.0"}, "b 2.0.0"},
		"a channel that is gone":       {[]string{"a 1.4.0 head", "c 2.0.0 head"}, versionKey{"b", "1.0.0", true}, "c 2.0.0"},
		"the last one":                 {[]string{"a 1.4.0 head", "a 1.3.0"}, versionKey{Channel: "a", Version: "1.3.0"}, ""},
		"what is not a version":        {[]string{"a 1.4.0 head", "a 1.3.0"}, versionKey{Channel: "a", Version: "x"}, ""},
		"a pre-release of the version": {[]string{"a 1.4.0 head", "a 1.3.0-rc.1"}, versionKey{Channel: "a", Version: "1.3.0"}, "a 1.3.0-rc.1"},
	} {
		t.Run(name, func(t *testing.T) {
			entries := entriesOf(t, c.list...)
			got := ""
			if i := slices.IndexFunc(entries, c.after.isBefore); i >= 0 {
				got = entries[i].ReleaseChannel + " " + entries[i].Version.String()
			}
			if got != c.want {
				t.Errorf("%q follows, want %q", got, c.want)
			}
		})
	}
}
