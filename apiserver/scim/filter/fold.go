package filter

import (
	"strings"
	"unicode"
	"unicode/utf8"
)

// Fold is the form of a text in which values of attributes that are not caseExact are compared,
// sorted and indexed: Fold(a) == Fold(b) exactly when strings.EqualFold(a, b).
//
// Lower case alone would not do: it takes "İ" for "i", which EqualFold does not, and so would
// have one person's name find another's.
func Fold(s string) string {
	for i := range len(s) {
		if s[i] >= utf8.RuneSelf {
			return strings.Map(foldRune, s)
		}
	}
	return strings.ToLower(s)
}

// foldRune is the same for all runes that differ in case only: the lower case of the smallest.
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
