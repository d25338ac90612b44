// Package fold says which texts differ only in case. Everything that compares names without
// regard to case uses it: claims on unique names, indexes, filters. Two answers to that question
// would let two objects have one name, or hide one of them.
package fold

import (
	"strings"
	"unicode"
	"unicode/utf8"
)

// Case is the form in which texts are compared without regard to case: Case(a) == Case(b) exactly
// when strings.EqualFold(a, b). It is stable: the form of a form is the same.
//
// Lower case alone would not do: it takes "İ" for "i", which EqualFold does not, and so would
// have one person's name find another's. Full folding, which takes "ß" for "ss", would make two
// names one that people write in two ways.
func Case(s string) string {
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
