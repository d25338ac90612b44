package filter

import (
	"encoding/json"
	"strings"
	"unicode/utf8"

	"github.com/quoin-dev/quoin/apiserver/scim/scimerror"
)

// lexer splits a source into words, strings and single characters. A word is a sequence of characters that
// may occur in a path, a number or an unquoted value, depending on the context.
type lexer struct {
	text string
	pos  int
	// errorType is the scimType of errors.
	errorType scimerror.Type
}

// isWord reports whether a byte is part of a word. Characters that are not allowed in attribute names occur
// in URIs.
func isWord(c byte) bool {
	return 'a' <= c && c <= 'z' || 'A' <= c && c <= 'Z' || '0' <= c && c <= '9' || strings.IndexByte("-_.:$@+/#%~", c) >= 0
}

// space skips spaces.
func (l *lexer) space() {
	for l.pos < len(l.text) && (l.text[l.pos] == ' ' || l.text[l.pos] == '\t') {
		l.pos++
	}
}

// peek returns the next byte, or 0 at the end.
func (l *lexer) peek() byte {
	if l.pos == len(l.text) {
		return 0
	}
	return l.text[l.pos]
}

// take consumes the next byte if it is c.
func (l *lexer) take(c byte) bool {
	if l.pos == len(l.text) || l.text[l.pos] != c {
		return false
	}
	l.pos++
	return true
}

// word returns the next word without consuming it; empty if there is none.
func (l *lexer) word() string {
	end := l.pos
	for end < len(l.text) && isWord(l.text[end]) {
		end++
	}
	return l.text[l.pos:end]
}

// keyword consumes the next word if it equals a keyword, ignoring case.
func (l *lexer) keyword(keyword string) bool {
	word := l.word()
	if !strings.EqualFold(word, keyword) {
		return false
	}
	l.pos += len(word)
	return true
}

// quoted consumes a JSON string. A string without escapes is a substring of the source.
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
		return "", l.errorAt(start, "the string is not UTF-8")
	}
	if !escapes {
		return raw[1 : len(raw)-1], nil
	}
	var s string
	if err := json.Unmarshal([]byte(raw), &s); err != nil {
		return "", l.errorAt(start, "the string has an invalid escape")
	}
	return s, nil
}

// unexpected returns an error with the found and the expected token at a position.
func (l *lexer) unexpected(pos int, want string) error {
	return l.errorAt(pos, "found %s, expected %s", l.found(pos), want)
}

// errorAt returns an error at a position. Positions in messages are 1-based.
func (l *lexer) errorAt(pos int, format string, args ...any) error {
	return scimerror.Bad(l.errorType, "at position %d: "+format, append([]any{pos + 1}, args...)...)
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
