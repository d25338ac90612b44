package audit

import (
	"errors"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestEachWord(t *testing.T) {
	for text, want := range map[string][]string{
		"":                             nil,
		" \t.,-'\"*:()&|!<>\x00 ":      nil,
		"Updated deployment":           {"updated", "deployment"},
		"ada.Lovelace@Example.com":     {"ada", "lovelace", "example", "com"},
		"10.0.0.1":                     {"10", "0", "0", "1"},
		"v1_2":                         {"v1", "2"},
		"Größe ÄRGER":                  {"größe", "ärger"},
		"ΣΊΣΥΦΟΣ":                      {"σίσυφοσ"},
		"日本語 テスト":                      {"日本語", "テスト"},
		"a\U0001F600b":                 {"a", "b"},
		"\xffa\xff":                    {"a"},
		"٣٤ ½ Ⅷ":                       {"٣٤"},
		"NEAR(a b) AND \"c\" OR -d e*": {"near", "a", "b", "and", "c", "or", "d", "e"},
	} {
		var got []string
		eachWord(text, false, func(word string) bool { got = append(got, strings.Clone(word)); return true })
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("words of %q: %s", text, diff)
		}
	}
}

func TestJSONEscapesEndWords(t *testing.T) {
	var got []string
	eachWord(`{"a\nb":"c\u0000d\"e\\f\t","g":12}`, true, func(word string) bool { got = append(got, word); return true })
	if diff := cmp.Diff([]string{"a", "b", "c", "d", "e", "f", "g", "12"}, got); diff != "" {
		t.Error(diff)
	}
	for _, text := range []string{`\`, `\u`, `\u00`, `a\`} {
		eachWord(text, true, func(word string) bool {
			if word != "a" {
				t.Errorf("%q has the word %q", text, word)
			}
			return true
		})
	}
}

func TestSearchIsBounded(t *testing.T) {
	for search, want := range map[string]string{
		strings.Repeat("x", 10<<10):           "bytes",
		strings.Repeat("x", maxSearch+1):      "bytes",
		"a b c d e f g h i j k l m n o p q r": "18 words",
		"***":                                 "no letter",
		"\U0001F600":                          "no letter",
		"\x00":                                "no letter",
	} {
		if _, err := searchWords(search); !errors.Is(err, ErrInvalid) || !strings.Contains(err.Error(), want) {
			t.Errorf("%.20q: %v, want %q", search, err, want)
		}
	}
	for search, want := range map[string][]string{"": nil, " \n": nil, "b a B": {"a", "b"}} {
		if got, err := searchWords(search); err != nil || !slices.Equal(got, want) {
			t.Errorf("%q: %q, %v", search, got, err)
		}
	}
}

// TestIndexHasTheWordsOfMatchingSearches checks that the index proposes every match.
func TestIndexHasTheWordsOfMatchingSearches(t *testing.T) {
	long := strings.Repeat("é", maxIndexed)
	e := Event{Account: "demo", Name: CreatedUser, Actor: Actor{ID: long + "z"}}
	indexed := strings.Fields(e.indexed())
	for _, search := range []string{"cre", "created", "USER", long, long + "Z", long[:10]} {
		words, err := searchWords(search)
		if err != nil {
			t.Fatal(err)
		}
		if !e.hasWords(words) {
			t.Errorf("%q does not match", search)
		}
		prefix := indexPrefix("demo") + indexedPart(words[0])
		if !slices.ContainsFunc(indexed, func(word string) bool { return strings.HasPrefix(word, prefix) }) {
			t.Errorf("%q is not in the index %q", prefix, indexed)
		}
	}
	if words, _ := searchWords(long + "y"); e.hasWords(words) {
		t.Error("a word that differs after the indexed prefix matches")
	}
	for _, word := range indexed {
		if len(word) > 60 {
			t.Errorf("the word %q is too long for an index", word)
		}
	}
}

func TestKnownNamesAreATable(t *testing.T) {
	sorted := slices.Sorted(slices.Values(Names()))
	if compact := slices.Compact(slices.Clone(sorted)); len(compact) != len(sorted) {
		t.Error("duplicate name")
	}
	if Known("") || Known("created user") || !Known("Updated deployment configuration") || !Known(CreatedAPIKey) {
		t.Error("Known is wrong")
	}
	Names()[0] = "changed"
	if Known("changed") {
		t.Error("callers can change the table")
	}
}
