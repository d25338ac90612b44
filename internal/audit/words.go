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

// Search is over words: runs of letters and digits, without regard to case. An event is found
// when each word of the search begins one of its words.
//
// The databases index the words that Go has found. That index only proposes events: some may be
// too many, because it holds the beginnings of long words, and matches decides. So both find the
// same.

// The bounds of a search.
const (
	mostSearch      = 512 // bytes
	mostSearchWords = 16
)

// mostIndexed is how many bytes of a word the index holds.
const mostIndexed = 48

// leastIndexed is how many bytes a word of a search must have for the index to be asked: so many
// words begin with less that it would be slower than to read all events.
const leastIndexed = 3

// texts are everything that is searched for words, the changes last.
func (e *Event) texts() [12]string {
	return [...]string{
		e.Name, e.Actor.ID, e.Actor.Email, e.Deployment.ID, e.Deployment.Name,
		e.Object.Kind, e.Object.Namespace, e.Object.Name, e.Object.ID, e.IP, e.RequestID, string(e.Changes),
	}
}

// indexed are the words of an event as the index holds them, parted by blanks.
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

// indexPrefix is before every word of an account in the index, so that a search takes as long as
// the account is large, however many events others have.
func indexPrefix(account string) string {
	sum := sha256.Sum256([]byte(account))
	return strings.ToLower(base32.StdEncoding.EncodeToString(sum[:5])[:6])
}

func indexedPart(word string) string {
	if len(word) <= mostIndexed {
		return word
	}
	end := mostIndexed
	for !utf8.RuneStart(word[end]) {
		end--
	}
	return word[:end]
}

// searchWords are the words of a search, none for an empty one.
func searchWords(search string) ([]string, error) {
	if strings.TrimSpace(search) == "" {
		return nil, nil
	}
	if len(search) > mostSearch {
		return nil, fmt.Errorf("%w search: it has %d bytes, at most %d are allowed", ErrInvalid, len(search), mostSearch)
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
	if len(words) > mostSearchWords {
		return nil, fmt.Errorf("%w search: it has %d words, at most %d are allowed", ErrInvalid, len(words), mostSearchWords)
	}
	return words, nil
}

// hasWords tells whether each word begins one of the event's.
func (e *Event) hasWords(words []string) bool {
	if len(words) == 0 {
		return true
	}
	var found uint64 // a bit for each word; there are at most mostSearchWords
	all := uint64(1)<<len(words) - 1
	texts := e.texts()
	for i, text := range texts {
		eachWord(text, i == len(texts)-1, func(word string) bool {
			for j, wanted := range words {
				if strings.HasPrefix(word, wanted) {
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

// eachWord visits the words of a text, folded, until visit returns false. In JSON as we write it
// an escape stands for no letter: it ends a word. The word is valid during the visit only.
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

// gap is how many bytes at the beginning belong to no word, for sure.
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
