// Package fold implements case-insensitive comparison. All case-insensitive comparisons of names use
// it: claims of unique names, indexes, filters. Different implementations could permit two objects
// with one name, or hide one of them.
package fold

import (
	"strings"
	"unicode"
	"unicode/utf8"
)

// Case returns the folded form of a string: Case(a) == Case(b) if and only if
// strings.EqualFold(a, b). It is idempotent.
//
// Lower case is not sufficient: it maps "İ" to "i", which EqualFold does not, and would match
// different names. Full case folding maps "ß" to "ss", and would match names with different
// spellings.
func Case(s string) string {
	for i := range len(s) {
		if s[i] >= utf8.RuneSelf {
			return strings.Map(foldRune, s)
		}
	}
	return strings.ToLower(s)
}

// foldRune returns the same rune for all runes that differ only in case: the lower case of the
// smallest.
func foldRune(r rune) rune {
	smallest := r
	for next := unicode.SimpleFold(r); next != r; next = unicode.SimpleFold(next) {
		smallest = min(smallest, next)
	}
	if smallest == r && unicode.SimpleFold(r) == r {
		return r
	}
	return unicode.ToLower(smallest)
}
