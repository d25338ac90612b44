// Package strictjson decodes unambiguous JSON: a single value without duplicate names, of limited
// depth. Different parsers interpret it in the same way.
package strictjson

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strconv"
	"strings"
	"unicode/utf16"
	"unicode/utf8"
)

// Options configure Decode.
type Options struct {
	// MaxDepth is the maximum nesting depth; 32 if zero.
	MaxDepth int
	// FoldNames rejects names of an object that differ only in case.
	FoldNames bool
}

// Decode returns the value: map[string]any, []any, string, json.Number, bool or nil. Time and
// memory are proportional to the length of the data. Errors name the position and may be shown to
// callers.
func Decode(data []byte, options Options) (any, error) {
	if !utf8.Valid(data) {
		return nil, errors.New("not JSON: invalid UTF-8")
	}
	if hasLoneSurrogate(data) {
		return nil, ErrSurrogate
	}
	if options.MaxDepth == 0 {
		options.MaxDepth = 32
	}
	r := &reader{Options: options, tokens: json.NewDecoder(bytes.NewReader(data))}
	r.tokens.UseNumber()
	value, err := r.value()
	if err != nil {
		return nil, err
	}
	if _, err := r.tokens.Token(); !errors.Is(err, io.EOF) {
		return nil, errors.New("data after the JSON value")
	}
	return value, nil
}

// ErrSurrogate is the error for a string with half of a surrogate pair, such as "\ud800": no text contains it,
// and parsers replace it by different characters.
var ErrSurrogate = errors.New("a string contains half of a surrogate pair")

// hasLoneSurrogate reports whether an escape of a surrogate is not one of a pair. In valid JSON a backslash
// begins an escape, in strings only.
func hasLoneSurrogate(data []byte) bool {
	for {
		next := bytes.IndexByte(data, '\\')
		if next < 0 {
			return false
		}
		data = data[next:]
		unit, ok := escapedUnit(data)
		length := 2
		if ok {
			length = 6
		}
		if utf16.IsSurrogate(unit) {
			low, _ := escapedUnit(data[length:])
			if utf16.DecodeRune(unit, low) == utf8.RuneError {
				return true
			}
			length = 12
		}
		data = data[min(length, len(data)):]
	}
}

// escapedUnit returns the UTF-16 code unit at the beginning of data; false if there is no such escape.
func escapedUnit(data []byte) (rune, bool) {
	if len(data) < 6 || data[0] != '\\' || data[1] != 'u' {
		return 0, false
	}
	unit, err := strconv.ParseUint(string(data[2:6]), 16, 16)
	return rune(unit), err == nil
}

type reader struct {
	Options
	tokens *json.Decoder
	path   []string
	depth  int
}

var errUnexpectedEnd = errors.New("not JSON: unexpected end")

// token returns the next token. Errors have no text of package json, which describes its parser.
func (r *reader) token() (json.Token, error) {
	token, err := r.tokens.Token()
	if errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) {
		return nil, errUnexpectedEnd
	}
	var syntax *json.SyntaxError
	switch {
	case errors.As(err, &syntax):
		return nil, fmt.Errorf("not JSON: unexpected character near byte %d", syntax.Offset)
	case err != nil:
		return nil, errors.New("not JSON")
	}
	return token, nil
}

func (r *reader) value() (any, error) {
	token, err := r.token()
	if err != nil {
		return nil, err
	}
	delim, ok := token.(json.Delim)
	if !ok {
		return token, nil
	}
	if r.depth == r.MaxDepth {
		return nil, fmt.Errorf("nested more than %d levels deep", r.MaxDepth)
	}
	r.depth++
	defer func() { r.depth-- }()
	if delim == '{' {
		return r.object()
	}
	return r.array()
}

func (r *reader) object() (any, error) {
	object := map[string]any{}
	var folded map[string]bool
	if r.FoldNames {
		folded = map[string]bool{}
	}
	for r.tokens.More() {
		token, err := r.token()
		if err != nil {
			return nil, err
		}
		name, ok := token.(string)
		if !ok {
			return nil, errors.New("not JSON: an object key is not a string")
		}
		_, duplicate := object[name]
		if r.FoldNames {
			lower := strings.ToLower(name)
			duplicate = folded[lower]
			folded[lower] = true
		}
		r.path = append(r.path, name)
		if duplicate {
			return nil, fmt.Errorf("%s: duplicate name", clip(strings.Join(r.path, ".")))
		}
		value, err := r.value()
		if err != nil {
			return nil, err
		}
		object[name] = value
		r.path = r.path[:len(r.path)-1]
	}
	_, err := r.token() // the end of the object
	return object, err
}

func (r *reader) array() (any, error) {
	list := []any{}
	for r.tokens.More() {
		value, err := r.value()
		if err != nil {
			return nil, err
		}
		list = append(list, value)
	}
	_, err := r.token() // the end of the array
	return list, err
}

// clip truncates a part of the body for error messages.
func clip(s string) string {
	const maxBytes = 80
	if len(s) <= maxBytes {
		return s
	}
	return strings.ToValidUTF8(s[:maxBytes], "") + "..."
}
