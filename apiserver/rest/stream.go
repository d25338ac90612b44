package rest

import (
	"bufio"
	"bytes"
	"encoding/json"
	"io"
)

// Streamed is a large body of a response. It is written piece by piece, so that its JSON is never in memory as
// a whole.
type Streamed interface{ StreamJSON(s *Stream) }

// Stream writes JSON. After an error it writes nothing.
type Stream struct {
	out     *bufio.Writer
	buffer  bytes.Buffer
	encoder *json.Encoder
	err     error
}

// streamBytes is how much of a Streamed is sent at once.
const streamBytes = 32 << 10

// stream writes a body, as strictJSON encodes it.
func stream(w io.Writer, body Streamed) error {
	s := &Stream{out: bufio.NewWriterSize(w, streamBytes)}
	s.encoder = json.NewEncoder(&s.buffer)
	s.encoder.SetEscapeHTML(false)
	body.StreamJSON(s)
	s.Text("\n")
	if s.err != nil {
		return s.err
	}
	return s.out.Flush()
}

// Text writes a part of the JSON, such as a bracket.
func (s *Stream) Text(text string) {
	if s.err == nil {
		_, s.err = s.out.WriteString(text)
	}
}

// Value writes a value.
func (s *Stream) Value(v any) { s.write(v, "") }

// Open writes an object without its closing brace. It must have a field.
func (s *Stream) Open(v any) { s.write(v, "}") }

func (s *Stream) write(v any, without string) {
	if s.err != nil {
		return
	}
	s.buffer.Reset()
	if s.err = s.encoder.Encode(v); s.err == nil {
		_, s.err = s.out.Write(bytes.TrimSuffix(s.buffer.Bytes(), []byte(without+"\n")))
	}
}

// Items writes an array.
func Items[T any](s *Stream, items []T, write func(item T)) {
	s.Text("[")
	for i, item := range items {
		if i > 0 {
			s.Text(",")
		}
		write(item)
	}
	s.Text("]")
}
