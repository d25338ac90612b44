package semantic

import (
	"slices"
	"strings"
	"unicode"
)

const (
	// nameWeight is how much more a word of a name or a title counts than one of a description.
	nameWeight = 4
	// exact and prefix are what a word counts that is equal to one of the text, or begins as one does.
	exact, prefix = 3, 1
	// minPrefix is the smallest number of characters that words have in common.
	minPrefix = 3
	// maxWords is the maximum number of words of a search; others are ignored.
	maxWords = 32
)

// wordsOf returns the words of a text in lower case: letters and digits, also those of camelCase and snake_case. None is twice.
func wordsOf(text string) []string {
	var (
		out  []string
		word []rune
		last rune
	)
	end := func() {
		if w := strings.ToLower(string(word)); w != "" && len(out) < maxWords && !slices.Contains(out, w) {
			out = append(out, w)
		}
		word = word[:0]
	}
	for _, r := range text {
		isPart := unicode.IsLetter(r) || unicode.IsDigit(r)
		if !isPart || unicode.IsLower(last) && unicode.IsUpper(r) {
			end()
		}
		if isPart {
			word = append(word, r)
		}
		last = r
	}
	end()
	return out
}

// score returns how well texts match words.
func score(words []string, texts ...string) int {
	if len(words) == 0 {
		return 0
	}
	of, total := wordsOf(strings.Join(texts, " ")), 0
	for _, w := range words {
		best := 0
		for _, o := range of {
			switch {
			case w == o:
				best = exact
			case min(len(w), len(o)) >= minPrefix && (strings.HasPrefix(o, w) || strings.HasPrefix(w, o)): // also plurals
				best = max(best, prefix)
			}
		}
		total += best
	}
	return total
}
