package filter

import (
	"encoding/json"
	"strings"
	"unicode/utf8"

	"github.com/quoin-dev/quoin/apiserver/scim/scimerror"
)

// lexer cuts a text into words, strings and single characters. A word is whatever may stand in
// a path, a number or a value without quotes: which of these it is depends on where it stands.
type lexer struct {
	text string
	pos  int
	// fault is the scimType of errors.
	fault scimerror.Type
}

// isWord tells whether a byte is part of a word. Those that no attribute name has are for URIs.
func isWord(c byte) bool {
	return 'a' <= c && c <= 'z' || 'A' <= c && c <= 'Z' || '0' <= c && c <= '9' || strings.IndexByte("-_.:$@+/#%~", c) >= 0
}

// space skips spaces.
func (l *lexer) space() {
	for l.pos < len(l.text) && (l.text[l.pos] == ' ' || l.text[l.pos] == '\t') {
		l.pos++
	}
}

// peek is the next byte, 0 at the end.
func (l *lexer) peek() byte {
	if l.pos == len(l.text) {
		return 0
	}
	return l.text[l.pos]
}

// take goes past a byte if that is the next one.
func (l *lexer) take(c byte) bool {
	if l.pos == len(l.text) || l.text[l.pos] != c {
		return false
	}
	l.pos++
	return true
}

// word is the word that begins here, without going past it; empty when none does.
func (l *lexer) word() string {
	end := l.pos
	for end < len(l.text) && isWord(l.text[end]) {
		end++
	}
	return l.text[l.pos:end]
}

// keyword goes past a word if that is the next one, in any case.
func (l *lexer) keyword(keyword string) bool {
	word := l.word()
	if !strings.EqualFold(word, keyword) {
		return false
	}
	l.pos += len(word)
	return true
}

// quoted reads the JSON string that begins here. One without escapes is a part of the text.
func (l *lexer) quoted() (string, error) {
	start, escapes := l.pos, false
	for end := start + 1; end < len(l.text); end++ {
		switch c := l.text[end]; {
		case c == '"':
			l.pos = end + 1
			return l.unquote(start, escapes)
		case c == '\\':
			escapes = true
			end++
		case c < 0x20:
			return "", l.unexpected(end, "a character that is not a control character (those are written with a backslash)")
		}
	}
	return "", l.unexpected(len(l.text), `a " that ends the string`)
}

func (l *lexer) unquote(start int, escapes bool) (string, error) {
	raw := l.text[start:l.pos]
	if !utf8.ValidString(raw) {
		return "", l.wrong(start, "the string is not UTF-8")
	}
	if !escapes {
		return raw[1 : len(raw)-1], nil
	}
	var s string
	if err := json.Unmarshal([]byte(raw), &s); err != nil {
		return "", l.wrong(start, "the string has an escape that JSON does not know")
	}
	return s, nil
}

// unexpected is an error that tells what stands at a place, and what should.
func (l *lexer) unexpected(pos int, want string) error {
	return l.wrong(pos, "found %s, expected %s", l.found(pos), want)
}

// wrong is an error at a place. To people, the first byte is number 1.
func (l *lexer) wrong(pos int, format string, args ...any) error {
	return scimerror.Bad(l.fault, "at position %d: "+format, append([]any{pos + 1}, args...)...)
}

func (l *lexer) found(pos int) string {
	if pos >= len(l.text) {
		return "the end"
	}
	at := lexer{text: l.text, pos: pos}
	if word := at.word(); word != "" {
		return scimerror.Quote(word)
	}
	if at.peek() == '"' {
		if _, err := at.quoted(); err == nil {
			return "the string " + scimerror.Quote(at.text[pos+1:at.pos-1])
		}
	}
	_, size := utf8.DecodeRuneInString(l.text[pos:])
	return scimerror.Quote(l.text[pos : pos+size])
}
