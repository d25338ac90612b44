package fold

import (
	"strings"
	"testing"
	"unicode"
	"unicode/utf8"
)

func TestCase(t *testing.T) {
	for a, b := range map[string]string{"Straße": "STRAẞE", "ΣΑΣ": "σας", "Kelvin": "\u212Aelvin", "ÄÖÅ": "äöå", "ABCxyz019@": "abcXYZ019@"} {
		if Case(a) != Case(b) || !strings.EqualFold(a, b) {
			t.Errorf("%q and %q: got %q and %q", a, b, Case(a), Case(b))
		}
	}
	if Case("admİn") == Case("admin") {
		t.Error("İ is folded to i")
	}
	if got := Case("Bärbel"); got != "bärbel" {
		t.Errorf("got %q", got)
	}
	// All runes that differ only in case fold to one of them.
	for r := rune(0); r <= unicode.MaxRune; r++ {
		folded, same := foldRune(r), false
		for next := unicode.SimpleFold(r); !same; next = unicode.SimpleFold(next) {
			if foldRune(next) != folded {
				t.Fatalf("%q folds to %q, %q to %q", r, folded, next, foldRune(next))
			}
			if same = next == folded; next == r {
				break
			}
		}
		if !same {
			t.Fatalf("%q folds to %q", r, folded)
		}
	}
}

func FuzzCase(f *testing.F) {
	for _, s := range []string{"Ann", "Straße", "İ", "ŉ", "ᾳ"} {
		f.Add(s, strings.ToUpper(s))
	}
	f.Fuzz(func(t *testing.T, a, b string) {
		if !utf8.ValidString(a) || !utf8.ValidString(b) {
			return
		}
		if once := Case(a); Case(once) != once {
			t.Errorf("%q folds to %q and that to %q", a, once, Case(once))
		}
		if (Case(a) == Case(b)) != strings.EqualFold(a, b) {
			t.Errorf("%q and %q", a, b)
		}
	})
}
