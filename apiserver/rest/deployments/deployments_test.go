package deployments

import (
	"regexp"
	"strings"
	"testing"
)

// FuzzObjectName: the object name of a display name is a DNS label, for it is part of host names.
func FuzzObjectName(f *testing.F) {
	for _, seed := range []string{"Sales", "", "-", "2026", "ÄÖ", strings.Repeat("a-", 40), "a" + strings.Repeat(" ", 31) + "b"} {
		f.Add(seed)
	}
	valid := regexp.MustCompile(`^[a-z]([-a-z0-9]*[a-z0-9])?-?$`)
	f.Fuzz(func(t *testing.T, shown string) {
		if name := objectName(shown); !valid.MatchString(name) || len(name) > maxObjectName {
			t.Errorf("%q becomes %q", shown, name)
		}
	})
}
