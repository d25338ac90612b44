package strictjson

import (
	"bytes"
	"errors"
	"io"
	"unicode/utf8"
)

// ErrSurrogate is the error for a string with half of a surrogate pair, such as "\ud800": no text contains it,
// and parsers replace it by different characters.
var ErrSurrogate = errors.New("a string contains half of a surrogate pair")

// errUTF8 is the error for data that is not UTF-8.
var errUTF8 = errors.New("not JSON: invalid UTF-8")

// checkedReader passes data on that is UTF-8 without halves of surrogate pairs.
type checkedReader struct {
	source io.Reader
	// partial is the beginning of a character at the end of the data so far.
	partial []byte
	// escape is the number of bytes of an escape so far; unit are the digits of a \u escape.
	escape int
	unit   rune
	// high reports whether the last escape is a high surrogate.
	high bool
	// quoted is the number of bytes since the last quotation mark, and maxString its maximum, because
	// json.Decoder keeps a whole string in memory; 0 is unlimited.
	quoted, maxString int64
	err               error
}

// Read implements io.Reader.
func (c *checkedReader) Read(p []byte) (int, error) {
	if c.err != nil {
		return 0, c.err
	}
	n, err := c.source.Read(p)
	c.err = c.check(p[:n])
	switch {
	case c.err != nil:
		return 0, c.err
	case errors.Is(err, io.EOF) && len(c.partial) > 0:
		c.err = errUTF8
	case err != nil:
		c.err = err
	}
	return n, c.err
}

// check checks the next part of the data.
func (c *checkedReader) check(data []byte) error {
	for rest := data; len(rest) > 0; {
		next, err := c.scan(rest)
		if err != nil {
			return err
		}
		rest = rest[next:]
	}
	if len(c.partial) > 0 {
		data = append(c.partial, data...)
	}
	end := len(data)
	for end > 0 && len(data)-end < utf8.UTFMax && !utf8.RuneStart(data[end-1]) {
		end--
	}
	if end > 0 && !utf8.FullRune(data[end-1:]) {
		end--
	} else {
		end = len(data)
	}
	if !utf8.Valid(data[:end]) {
		return errUTF8
	}
	c.partial = bytes.Clone(data[end:])
	return nil
}

// scan checks the escapes at the beginning of data and returns how far it got. In valid JSON a backslash
// begins an escape, in strings only.
func (c *checkedReader) scan(data []byte) (int, error) {
	if c.escape == 0 && !c.high {
		n := bytes.IndexByte(data, '\\')
		if n < 0 {
			n = len(data)
		}
		if n > 0 {
			return n, c.measure(data[:n])
		}
	}
	b := data[0]
	c.quoted++
	switch {
	case c.escape == 0 && b == '\\':
		c.escape = 1
		return 1, nil
	case c.escape == 1 && b == 'u':
		c.escape, c.unit = 2, 0
		return 1, nil
	case c.escape >= 2:
		return 1, c.digit(b)
	case c.high: // followed by something else
		return 0, ErrSurrogate
	}
	c.escape = 0
	return 1, nil
}

// digit processes a hexadecimal digit of a \u escape. The decoder rejects others.
func (c *checkedReader) digit(b byte) error {
	c.unit <<= 4
	switch {
	case '0' <= b && b <= '9':
		c.unit |= rune(b - '0')
	case 'a' <= b|0x20 && b|0x20 <= 'f':
		c.unit |= rune(b|0x20-'a') + 10
	}
	if c.escape++; c.escape < 6 {
		return nil
	}
	c.escape = 0
	isLow := 0xDC00 <= c.unit && c.unit <= 0xDFFF
	if isLow != c.high {
		return ErrSurrogate
	}
	c.high = 0xD800 <= c.unit && c.unit < 0xDC00
	return nil
}

// measure rejects a string that is too long. Data between strings counts as one, too: it is short.
func (c *checkedReader) measure(data []byte) error {
	for c.maxString > 0 {
		n := bytes.IndexByte(data, '"')
		c.quoted += int64(max(n, 0))
		if n < 0 {
			c.quoted += int64(len(data))
		}
		if c.quoted > c.maxString {
			return ErrTooLarge
		}
		if n < 0 {
			break
		}
		c.quoted, data = 0, data[n+1:]
	}
	return nil
}
