// Package strictjson reads JSON that means one thing: one value, no name twice in an object,
// bounded depth. Two readers can then not take the same body for different ones.
package strictjson

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strings"
	"unicode/utf8"
)

// Options say what is allowed.
type Options struct {
	// MaxDepth bounds the nesting; 32 when zero.
	MaxDepth int
	// FoldNames takes names that differ only in case for the same.
	FoldNames bool
}

// Decode returns the value: map[string]any, []any, string, json.Number, bool or nil. Work
// and memory are bounded by the length of the data. Errors say where, and are fit to be shown.
func Decode(data []byte, options Options) (any, error) {
	if !utf8.Valid(data) {
		return nil, errors.New("not JSON: it is not UTF-8")
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
		return nil, errors.New("something follows the JSON value")
	}
	return value, nil
}

type reader struct {
	Options
	tokens *json.Decoder
	path   []string
	depth  int
}

func (r *reader) token() (json.Token, error) {
	token, err := r.tokens.Token()
	if errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) {
		return nil, errors.New("not JSON: it ends too early")
	}
	if err != nil {
		return nil, fmt.Errorf("not JSON: %w", err)
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
		return nil, fmt.Errorf("nested more than %d deep", r.MaxDepth)
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
			return nil, errors.New("not JSON: an object has something else than a name")
		}
		_, twice := object[name]
		if r.FoldNames {
			lower := strings.ToLower(name)
			twice = folded[lower]
			folded[lower] = true
		}
		r.path = append(r.path, name)
		if twice {
			return nil, fmt.Errorf("%s: the name is there twice", clip(strings.Join(r.path, ".")))
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

// clip keeps what is shown of a caller's body short.
func clip(s string) string {
	const most = 80
	if len(s) <= most {
		return s
	}
	return strings.ToValidUTF8(s[:most], "") + "..."
}
