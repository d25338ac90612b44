package audit

import (
	"crypto/sha256"
	"encoding/base32"
	"fmt"
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/quoin-dev/quoin/internal/fold"
	"github.com/quoin-dev/quoin/internal/store"
)

// A search is by words: runs of letters and digits, case-insensitive. An event matches if each word
// of the search is a prefix of one of its words.
//
// The databases index the words as Go has split them. The index only proposes events, possibly too
// many, because it holds prefixes of long words; matches decides. So both databases find the same.

// The limits of a search.
const (
	maxSearch      = 512 // bytes
	maxSearchWords = 16
)

// maxIndexed is the number of bytes of a word that the index holds.
const maxIndexed = 48

// minIndexed is the minimum length in bytes of a word for which the index is used. Shorter prefixes
// match so many words that reading all events is faster.
const minIndexed = 3

// texts returns the searchable texts of an event, the changes last.
func (e *Event) texts() [12]string {
	return [...]string{
		e.Name, e.Actor.ID, e.Actor.Email, e.Deployment.ID, e.Deployment.Name,
		e.Object.Kind, e.Object.Namespace, e.Object.Name, e.Object.ID, e.IP, e.RequestID, string(e.Changes),
	}
}

// indexed returns the words of an event as the index holds them, separated by blanks.
func (e *Event) indexed() string {
	prefix := indexPrefix(e.Account)
	var all []string
	texts := e.texts()
	for i, text := range texts {
		eachWord(text, i == len(texts)-1, func(word string) bool {
			all = append(all, prefix+indexedPart(word))
			return true
		})
	}
	slices.Sort(all)
	return strings.Join(slices.Compact(all), " ")
}

// indexPrefix returns the prefix of every word of an account in the index. It makes the cost of a
// search independent of the events of other accounts.
func indexPrefix(account string) string {
	sum := sha256.Sum256([]byte(account))
	return strings.ToLower(base32.StdEncoding.EncodeToString(sum[:5])[:6])
}

func indexedPart(word string) string {
	if len(word) <= maxIndexed {
		return word
	}
	end := maxIndexed
	for !utf8.RuneStart(word[end]) {
		end--
	}
	return word[:end]
}

// searchWords returns the words of a search; none for an empty one.
func searchWords(search string) ([]string, error) {
	if strings.TrimSpace(search) == "" {
		return nil, nil
	}
	if len(search) > maxSearch {
		return nil, fmt.Errorf("%w search: it has %d bytes, at most %d are allowed", ErrInvalid, len(search), maxSearch)
	}
	var words []string
	eachWord(search, false, func(word string) bool {
		words = append(words, strings.Clone(word))
		return true
	})
	slices.Sort(words)
	words = slices.Compact(words)
	if len(words) == 0 {
		return nil, fmt.Errorf("%w search: there is no letter and no digit in it", ErrInvalid)
	}
	if len(words) > maxSearchWords {
		return nil, fmt.Errorf("%w search: it has %d words, at most %d are allowed", ErrInvalid, len(words), maxSearchWords)
	}
	return words, nil
}

// hasWords reports whether each word is a prefix of a word of the event.
func (e *Event) hasWords(words []string) bool {
	if len(words) == 0 {
		return true
	}
	var found uint64 // a bit for each word; there are at most maxSearchWords
	all := uint64(1)<<len(words) - 1
	texts := e.texts()
	for i, text := range texts {
		eachWord(text, i == len(texts)-1, func(word string) bool {
			for j, prefix := range words {
				if strings.HasPrefix(word, prefix) {
					found |= 1 << j
				}
			}
			return found != all
		})
		if found == all {
			return true
		}
	}
	return false
}

// eachWord calls visit for the folded words of a text until it returns false. In the JSON of encode
// an escape never stands for a letter, so it ends a word. A word is valid during the call only.
func eachWord(text string, isJSON bool, visit func(word string) bool) {
	for i := 0; i < len(text); {
		start, ascii, lower := i, true, true
		for i < len(text) {
			b := text[i]
			if b >= utf8.RuneSelf {
				r, size := utf8.DecodeRuneInString(text[i:])
				if !unicode.IsLetter(r) && !unicode.IsDigit(r) {
					break
				}
				ascii = false
				i += size
				continue
			}
			if !isASCIIWord[b] {
				break
			}
			lower = lower && (b < 'A' || b > 'Z')
			i++
		}
		if i > start {
			word := text[start:i]
			if !ascii || !lower {
				word = fold.Case(word)
			}
			if !visit(word) {
				return
			}
		}
		i += gap(text[i:], isJSON)
	}
}

// gap returns the number of leading bytes that cannot belong to a word.
func gap(text string, isJSON bool) int {
	switch {
	case text == "":
		return 0
	case isJSON && strings.HasPrefix(text, `\u`):
		return min(len(`\u0000`), len(text))
	case isJSON && text[0] == '\\':
		return min(len(`\n`), len(text))
	}
	_, size := utf8.DecodeRuneInString(text)
	return size
}

var isASCIIWord = func() (is [utf8.RuneSelf]bool) {
	for b := range is {
		r := rune(b)
		is[b] = unicode.IsLetter(r) || unicode.IsDigit(r)
	}
	return is
}()

// matching returns FROM and WHERE of a search for the events that have all the words of $1, in the
// form of terms. In SQLite the words are indexed in a table of their own.
func matching(d store.Dialect) string {
	if d == store.SQLite {
		// CROSS JOIN makes the planner read the index first.
		return "FROM audit_event_words CROSS JOIN audit_event ON audit_event.number = audit_event_words.rowid WHERE audit_event_words MATCH $1"
	}
	return "FROM audit_event WHERE words @@ CAST($1 AS tsquery)"
}

// terms returns the parameter of matching for events in which each word is the prefix of a word.
// Words are letters and digits only, so they contain nothing of either query language.
func terms(d store.Dialect, words []string) string {
	if d == store.SQLite {
		return `"` + strings.Join(words, `"* AND "`) + `"*`
	}
	return "'" + strings.Join(words, "':* & '") + "':*"
}
