package transport

import (
	"bufio"
	"bytes"
	"io"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
)

// Events reads the events of a response, with one buffer: the decoders of the official clients have a new one for each event.
//
// Source: https://html.spec.whatwg.org/multipage/server-sent-events.html#parsing-an-event-stream.
type Events struct {
	lines *bufio.Scanner
	data  []byte
}

// NewEvents returns the events of the body of a response.
func NewEvents(body io.Reader) *Events {
	lines := bufio.NewScanner(body)
	lines.Buffer(make([]byte, 0, 1<<10), MaxStream+1) // the limit of the body is reached first, and has an error of its own
	return &Events{lines: lines}
}

// Next reads the next event that has data. It returns false at the end of the stream, and after an error.
func (e *Events) Next() bool {
	e.data = e.data[:0]
	for e.lines.Scan() {
		line := e.lines.Bytes()
		if len(line) == 0 && len(e.data) > 0 {
			e.data = e.data[:len(e.data)-1]
			return true
		}
		name, value, _ := bytes.Cut(line, []byte(":"))
		if string(name) != "data" { // a comment, or another field: the data has the kind of the event too
			continue
		}
		e.data = append(append(e.data, bytes.TrimPrefix(value, []byte(" "))...), '\n')
	}
	return false
}

// Data returns the data of the event, until the next call of Next.
func (e *Events) Data() []byte { return e.data }

// Err returns the error that has ended the stream; nil at its end.
func (e *Events) Err() error { return e.lines.Err() }

// lenient reads what encoding/json reads of servers: the last one of fields with the same name, and texts that are not UTF-8.
var lenient = json.JoinOptions(jsontext.AllowDuplicateNames(true), jsontext.AllowInvalidUTF8(true))

// Decode decodes a JSON text of a server. Names of fields are those of their tags, with the same case.
func Decode(text []byte, into any) error { return json.Unmarshal(text, into, lenient) }
