// Package strictjson decodes unambiguous JSON: a single value without duplicate names, of limited
// depth. Different parsers interpret it in the same way.
package strictjson

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strings"
)

// Options configure Decode.
type Options struct {
	// MaxDepth is the maximum nesting depth; 32 if zero.
	MaxDepth int
	// FoldNames rejects names of an object that differ only in case.
	FoldNames bool
	// Stream returns what receives the elements of the array at a path of names, one at a time; nil for an
	// array that is returned as a list. It may be nil. The path must not be retained.
	Stream func(path []string) Elements
	// MaxUnstreamed is the maximum length in bytes of the data that is in memory at a time: all except the
	// elements that Elements received. Zero is unlimited.
	MaxUnstreamed int64
}

// Elements receives the elements of a streamed array. It is the value of that array.
type Elements interface {
	// Add receives the next element.
	Add(element any) error
}

// ErrTooLarge is returned for more data than MaxUnstreamed.
var ErrTooLarge = errors.New("the data is too large")

// Decode returns the value: map[string]any, []any, string, json.Number, bool or nil. Time and
// memory are proportional to the length of the data. Errors name the position and may be shown to
// callers.
func Decode(data []byte, options Options) (any, error) {
	return DecodeFrom(bytes.NewReader(data), options)
}

// DecodeFrom is like Decode, and returns errors of the reader unchanged. With Options.Stream, the memory does
// not depend on the length of the streamed arrays.
func DecodeFrom(source io.Reader, options Options) (any, error) {
	if options.MaxDepth == 0 {
		options.MaxDepth = 32
	}
	checked := &checkedReader{source: source, maxString: options.MaxUnstreamed}
	r := &reader{Options: options, source: checked, tokens: json.NewDecoder(checked)}
	r.tokens.UseNumber()
	value, err := r.value()
	if err != nil {
		return nil, err
	}
	_, err = r.tokens.Token()
	switch {
	case checked.err != nil && !errors.Is(checked.err, io.EOF):
		return nil, checked.err
	case !errors.Is(err, io.EOF):
		return nil, errors.New("data after the JSON value")
	}
	return value, nil
}

type reader struct {
	Options
	source *checkedReader
	tokens *json.Decoder
	path   []string
	depth  int
	// streamed is the length of the elements that were streamed; streaming means within one.
	streamed  int64
	streaming bool
}

var errUnexpectedEnd = errors.New("not JSON: unexpected end")

// token returns the next token. Errors have no text of package json, which describes its parser.
func (r *reader) token() (json.Token, error) {
	token, err := r.tokens.Token()
	if err != nil && r.source.err != nil && !errors.Is(r.source.err, io.EOF) {
		return nil, r.source.err
	}
	if r.MaxUnstreamed > 0 && r.tokens.InputOffset()-r.streamed > r.MaxUnstreamed {
		return nil, ErrTooLarge
	}
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
	if r.Stream != nil && !r.streaming {
		if elements := r.Stream(r.path); elements != nil {
			return r.stream(elements)
		}
	}
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

// stream passes the elements of an array on.
func (r *reader) stream(elements Elements) (any, error) {
	r.streaming = true
	defer func() { r.streaming = false }()
	for r.tokens.More() {
		start := r.tokens.InputOffset()
		value, err := r.value()
		if err == nil {
			err = elements.Add(value)
		}
		if err != nil {
			return nil, err
		}
		r.streamed += r.tokens.InputOffset() - start
	}
	_, err := r.token() // the end of the array
	return elements, err
}

// clip truncates a part of the body for error messages.
func clip(s string) string {
	const maxBytes = 80
	if len(s) <= maxBytes {
		return s
	}
	return strings.ToValidUTF8(s[:maxBytes], "") + "..."
}
