package filter

import (
	"strings"
	"testing"
	"unicode"
)

func TestFold(t *testing.T) {
	for a, b := range map[string]string{"Straße": "STRAẞE", "ΣΑΣ": "σας", "Kelvin": "\u212Aelvin", "ÄÖÅ": "äöå", "ABCxyz019@": "abcXYZ019@"} {
		if Fold(a) != Fold(b) || !strings.EqualFold(a, b) {
			t.Errorf("%q and %q: got %q and %q", a, b, Fold(a), Fold(b))
		}
	}
	if Fold("admİn") == Fold("admin") {
		t.Error("a dotted capital I is no i")
	}
	if got := Fold("Bärbel"); got != "bärbel" {
		t.Errorf("got %q", got)
	}
	// A rune folds to one that differs from it in case only, and all such to the same.
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
