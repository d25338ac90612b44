package dataapi

import (
	"cmp"
	"errors"
	"fmt"
	"io"

	"github.com/go-json-experiment/json/jsontext"
)

// decoder reads the server's metadata as a stream: only one value, such as the name of a member, is in memory.
type decoder struct {
	*jsontext.Decoder
	source *limitedReader
	// unquoted is the memory of a string.
	unquoted []byte
}

// limitedReader limits how much is read, and how much of that the decoder has not processed yet: the value, name or
// white space that it buffers.
type limitedReader struct {
	io.Reader
	decoder *jsontext.Decoder
	read    int64
	err     error
}

// Read implements io.Reader.
func (l *limitedReader) Read(p []byte) (int, error) {
	if l.read > maxMetadata || l.read-l.decoder.InputOffset() > maxValue {
		l.err = ErrTooLarge
		return 0, l.err
	}
	n, err := l.Reader.Read(p)
	l.read += int64(n)
	if err != nil && err != io.EOF {
		l.err = err
	}
	return n, err
}

// readCubes calls cube for each element of the list cubes. It returns ErrTooLarge, ErrMalformed, or the error of the
// reader or of cube.
func readCubes(meta io.Reader, cube func(*decoder) error) error {
	source := &limitedReader{Reader: meta}
	d := &decoder{Decoder: &jsontext.Decoder{}, source: source}
	source.decoder = d.Decoder
	d.Reset(source, jsontext.AllowDuplicateNames(true), jsontext.AllowInvalidUTF8(true))
	err := d.object(func(name []byte) error {
		if string(name) != "cubes" {
			return d.skip()
		}
		return d.list(func() error { return cube(d) })
	})
	if err == nil || errors.Is(err, ErrTooLarge) {
		return err
	}
	if err := cmp.Or(source.err, err); errors.Is(err, ErrMalformed) || source.err != nil {
		return err
	}
	return fmt.Errorf("%w: %w", ErrMalformed, err)
}

// object calls field with the name of each field of an object, or of none for null. field must read the value; it must
// not use the name after that.
func (d *decoder) object(field func(name []byte) error) error {
	return d.delimited('{', '}', func() error {
		name, err := d.ReadValue()
		if err != nil {
			return err
		}
		return field(name[1 : len(name)-1])
	})
}

// list calls element for each element of a list, or for none for null. element must read the element.
func (d *decoder) list(element func() error) error { return d.delimited('[', ']', element) }

func (d *decoder) delimited(begin, end jsontext.Kind, next func() error) error {
	first, err := d.ReadToken()
	if err != nil || first.Kind() == 'n' {
		return err
	}
	if first.Kind() != begin {
		return ErrMalformed
	}
	for kind := d.PeekKind(); kind != end && kind != 0; kind = d.PeekKind() {
		if err := next(); err != nil {
			return err
		}
	}
	_, err = d.ReadToken() // the end, or what prevents the decoder from reading it
	return err
}

// skip reads a value that is not stored. It is buffered, so its length is limited.
func (d *decoder) skip() error {
	_, err := d.ReadValue()
	return err
}

// field is a field of cubes, views or members that a listing has too.
type field struct {
	name string
	// kind is that of its value: '"' for a string and 't' for a boolean.
	kind jsontext.Kind
	// required means that the listing has it even if it is empty.
	required bool
}

// fields reads an object, and stores the values of some fields as JSON: that of the i-th field in values[i], whose memory
// is used again. A field that is absent, null, empty or false has none. other reads the value of another field.
func (d *decoder) fields(fields []field, values [][]byte, other func(name []byte) error) error {
	for i := range values {
		values[i] = values[i][:0]
	}
	return d.object(func(name []byte) (err error) {
		for i, f := range fields {
			if f.name == string(name) {
				values[i], err = d.scalar(values[i][:0], f.kind)
				return err
			}
		}
		return other(name)
	})
}

// scalar appends a value of a kind as JSON, or nothing for null, "" and false.
func (d *decoder) scalar(dst []byte, kind jsontext.Kind) ([]byte, error) {
	value, err := d.ReadValue()
	if err != nil {
		return dst, err
	}
	switch got := value.Kind(); {
	case got == 'n', got == 'f' && kind == 't':
		return dst, nil
	case got != kind:
		return dst, ErrMalformed
	case len(value) == len(`""`):
		return dst, nil
	case got == '"' && !isPlain(value):
		// The errors are those of invalid UTF-8, which is replaced.
		d.unquoted, _ = jsontext.AppendUnquote(d.unquoted[:0], value)
		dst, _ = jsontext.AppendQuote(dst, d.unquoted)
		return dst, nil
	}
	return append(dst, value...), nil
}

// isPlain reports whether a string as JSON is ASCII without escape sequences.
func isPlain(value []byte) bool {
	for _, b := range value {
		if b == '\\' || b >= 0x80 {
			return false
		}
	}
	return true
}

// appendFields appends an object as JSON without its end, with the fields that have a value.
func appendFields(dst []byte, fields []field, values [][]byte) []byte {
	dst = append(dst, '{')
	for i, f := range fields {
		value := values[i]
		if len(value) == 0 {
			if !f.required {
				continue
			}
			value = []byte(`""`)
		}
		if dst[len(dst)-1] != '{' {
			dst = append(dst, ',')
		}
		dst = append(dst, '"')
		dst = append(dst, f.name...)
		dst = append(dst, `":`...)
		dst = append(dst, value...)
	}
	return dst
}
