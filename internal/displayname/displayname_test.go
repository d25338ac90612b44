package displayname_test

import (
	"regexp"
	"strings"
	"testing"
	"unicode"

	"github.com/quoin-dev/quoin/internal/displayname"
)

func TestCheck(t *testing.T) {
	for _, name := range []string{"", "Sales & Märkte", "日本語", "مبيعات", "👩‍💻", "a b", "\uFFFD"} {
		if err := displayname.Check(name); err != nil {
			t.Errorf("%q: %v", name, err)
		}
	}
	for _, name := range []string{"a\x00", "a\nb", "\x1b[31mred", "\u0085", "Sales\u202Etxt.exe", "\u2066a\u2069", "\u061C", "\u200F", "a\u2028b", "\xff"} {
		if displayname.Check(name) == nil {
			t.Errorf("%q is allowed", name)
		}
	}
}

// The pattern of schemas and the function have the same rule.
func TestPatternIsTheRule(t *testing.T) {
	pattern := regexp.MustCompile(displayname.Pattern)
	for char := rune(0); char <= unicode.MaxRune; char++ {
		if char >= 0xD800 && char <= 0xDFFF {
			continue // not a character
		}
		text := string(char)
		allowed := displayname.Check(text) == nil
		for _, name := range []string{text, "a" + text, text + "a", "a" + text + "b"} {
			if pattern.MatchString(name) != (allowed && strings.TrimSpace(name) == name) {
				t.Fatalf("%q: the pattern and Check differ", name)
			}
		}
		mustNot := unicode.In(char, unicode.Cc, unicode.Zl, unicode.Zp, unicode.Bidi_Control)
		if allowed == mustNot {
			t.Fatalf("%U: allowed is %t", char, allowed)
		}
	}
	if strings.ContainsAny(displayname.Pattern, `\`) {
		t.Error("the pattern has escapes, which RE2 and ECMA 262 write differently")
	}
}
