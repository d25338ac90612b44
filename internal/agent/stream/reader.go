package stream

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
)

// ErrLongLine is returned for a line that is longer than MaxLine.
var ErrLongLine = fmt.Errorf("a line is longer than %d bytes", MaxLine)

// Reader reads the lines of a stream.
type Reader struct{ lines *bufio.Scanner }

// NewReader returns a Reader.
func NewReader(from io.Reader) *Reader {
	lines := bufio.NewScanner(from)
	lines.Buffer(nil, MaxLine+2) // the line break may be \r\n
	return &Reader{lines}
}

// Next returns the next line; io.EOF after the last one. It skips empty lines.
func (r *Reader) Next() (*Line, error) {
	for r.lines.Scan() {
		text := bytes.TrimSpace(r.lines.Bytes())
		if len(text) == 0 {
			continue
		}
		return Decode(text)
	}
	if err := r.lines.Err(); err != nil {
		if errors.Is(err, bufio.ErrTooLong) {
			return nil, ErrLongLine
		}
		return nil, err
	}
	return nil, io.EOF
}

// Decode returns the line with a text. The error describes what no client could read: text that is not a JSON object, a line that
// has neither an id nor an error, tool calls whose input or result is not JSON.
func Decode(text []byte) (*Line, error) {
	l := &Line{}
	if err := json.Unmarshal(text, l); err != nil {
		return nil, fmt.Errorf("line: %w", err)
	}
	return l, l.check()
}

func (l *Line) check() error {
	switch {
	case l.Error != "":
		return nil
	case l.ID == "":
		return errors.New("line: id is missing")
	case l.Role != RoleUser && l.Role != RoleAssistant:
		return fmt.Errorf("line %q: role is %q; allowed: %s, %s", l.ID, l.Role, RoleUser, RoleAssistant)
	case l.Sort < 0:
		return fmt.Errorf("line %q: sort is negative", l.ID)
	case l.ToolCall != nil:
		return l.checkTool()
	}
	return nil
}

func (l *Line) checkTool() error {
	switch {
	case l.ToolCall.Name == "":
		return fmt.Errorf("line %q: toolCall.name is missing", l.ID)
	case l.Delta():
		return fmt.Errorf("line %q: a tool call must not have isDelta", l.ID)
	case !json.Valid([]byte(l.ToolCall.Input)):
		return fmt.Errorf("line %q: toolCall.input is not JSON", l.ID)
	case l.ToolCall.Result != nil && !json.Valid([]byte(*l.ToolCall.Result)):
		return fmt.Errorf("line %q: toolCall.result is not JSON", l.ID)
	}
	return nil
}
