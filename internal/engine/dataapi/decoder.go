package dataapi

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"
)

// decoder reads the server's metadata as a stream: only one value, such as a member of a cube, is in memory.
type decoder struct {
	*json.Decoder
	source *limitedReader
}

// limitedReader limits how much is read, and how much of that the decoder has not processed yet: the value, name or
// white space that it buffers.
type limitedReader struct {
	io.Reader
	decoder *json.Decoder
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
	d := &decoder{json.NewDecoder(source), source}
	source.decoder = d.Decoder
	err := d.object(func(name string) error {
		if name != "cubes" {
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

// object calls field with the name of each field of an object, or of none for null. field must read the value.
func (d *decoder) object(field func(name string) error) error {
	return d.delimited('{', '}', func() error {
		name, err := d.Token()
		if err != nil {
			return err
		}
		text, _ := name.(string) // the decoder accepts only strings here
		return field(text)
	})
}

// list calls element for each element of a list, or for none for null. element must read the element.
func (d *decoder) list(element func() error) error { return d.delimited('[', ']', element) }

func (d *decoder) delimited(begin, end json.Delim, next func() error) error {
	first, err := d.Token()
	if err != nil || first == nil {
		return err
	}
	if first != begin {
		return ErrMalformed
	}
	for d.More() {
		if err := next(); err != nil {
			return err
		}
	}
	last, err := d.Token()
	if err == nil && last != end {
		err = ErrMalformed
	}
	return err
}

// skipped is a value that is not stored. The decoder checks its syntax and limits its depth.
type skipped struct{}

// UnmarshalJSON implements json.Unmarshaler.
func (*skipped) UnmarshalJSON([]byte) error { return nil }

func (d *decoder) skip() error { return d.Decode(&skipped{}) }

// entity reads a cube or a view. It calls member with the section and the JSON of each member; nil skips members.
func (d *decoder) entity(member func(section int, json []byte) error) (Entity, error) {
	e := Entity{}
	err := d.object(func(name string) error {
		switch name {
		case "name":
			return d.Decode(&e.Name)
		case "title":
			return d.Decode(&e.Title)
		case "description":
			return d.Decode(&e.Description)
		case "type":
			return d.Decode(&e.Type)
		case "dataSource":
			return d.Decode(&e.DataSource)
		}
		section := slices.Index(sections[:], name)
		if section < 0 {
			return d.skip()
		}
		return d.list(func() error { return d.member(section, member) })
	})
	e.Type = cmp.Or(e.Type, "cube") // servers before 0.32 have no type
	return e, err
}

func (d *decoder) member(section int, use func(section int, json []byte) error) error {
	if use == nil {
		return d.skip()
	}
	m := Member{}
	if err := d.Decode(&m); err != nil {
		return err
	}
	text, err := json.Marshal(m)
	if err != nil {
		return err
	}
	return use(section, text)
}
