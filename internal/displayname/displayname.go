// Package displayname has the rule for names that users see: no characters that hide, reorder or
// break the text around them. CEL rules of the kinds have the same rule (test/api).
package displayname

import (
	"errors"
	"slices"
	"strings"
	"unicode/utf8"
)

// Rule describes the allowed names in error messages.
const Rule = "must not contain control characters, line separators or bidirectional formatting characters"

// ErrInvalid is the error for a name with a character that is not allowed.
var ErrInvalid = errors.New(Rule)

type span struct{ first, last rune }

// forbidden are the characters that are not allowed: control characters (Cc), line and paragraph
// separators, and the characters with the Unicode property Bidi_Control.
var forbidden = []span{
	{0x00, 0x1F}, {0x7F, 0x9F}, {0x061C, 0x061C}, {0x200E, 0x200F}, {0x2028, 0x2029}, {0x202A, 0x202E}, {0x2066, 0x2069},
}

// white are the characters of white space that are not forbidden.
var white = []span{{' ', ' '}, {0xA0, 0xA0}, {0x1680, 0x1680}, {0x2000, 0x200A}, {0x202F, 0x202F}, {0x205F, 0x205F}, {0x3000, 0x3000}}

// Pattern is a regular expression, valid in RE2 and in ECMA 262 (JSON Schema), for names without such
// characters that are not empty and do not begin or end with white space.
var Pattern = func() string {
	inner, outer := except(forbidden), except(slices.Concat(forbidden, white))
	return "^" + outer + "(" + inner + "*" + outer + ")?$"
}()

// PatternDescription describes Pattern in error messages.
const PatternDescription = "text without control characters, line separators and bidirectional formatting characters that does not begin or end with white space"

// except returns the class of the characters that are not in spans. Characters are not escaped,
// because RE2 and ECMA 262 write them differently.
func except(spans []span) string {
	var class strings.Builder
	for _, s := range spans {
		class.WriteRune(s.first)
		class.WriteByte('-')
		class.WriteRune(s.last)
	}
	return "[^" + class.String() + "]"
}

// Check returns ErrInvalid if a name has a character that is not allowed, or is not UTF-8.
func Check(name string) error {
	if !utf8.ValidString(name) || strings.ContainsFunc(name, isForbidden) {
		return ErrInvalid
	}
	return nil
}

func isForbidden(char rune) bool {
	for _, r := range forbidden {
		if r.first <= char && char <= r.last {
			return true
		}
	}
	return false
}
