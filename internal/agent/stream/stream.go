// Package stream is the wire format of the chat stream of the AI API: newline-delimited JSON, one object a line. Each line is
// flushed on its own, because known clients parse each chunk that they receive by itself. An empty line keeps a connection alive.
//
// The lines of a response are, in this order: __cutoff__ with the id of the thread, the message of the user, lines of the
// assistant and of its tools, and __state__ with the messages of the thread. A line {"error": …} ends a response that has failed.
//
// A line with isDelta appends its text to the message of its id; one without it replaces the message. The answer is the last line
// whose graphPath begins with "final".
//
//	stream.go   lines
//	writer.go   writes lines to a response
//	reader.go   reads them
//	delta.go    the encoding of lines that append text
//	message.go  messages: what the lines of an id amount to
package stream

import (
	"bytes"
	"encoding/json"
	"fmt"
	"sync"
)

// The ids of the first and of the last line of a response. Clients do not show them.
const (
	IDCutoff = "__cutoff__"
	IDState  = "__state__"
)

// Role is the author of a message.
type Role string

// The roles.
const (
	RoleUser      Role = "user"
	RoleAssistant Role = "assistant"
)

// The elements of graphPath.
const (
	PathFinal = "final"
	PathAgent = "data_agent"
	PathTools = "tools"
)

// MaxLine is the maximum length of a line in bytes, without the line break.
const MaxLine = 1 << 20

// MaxDelta is the maximum length of the text of a delta in bytes. Some clients parse each chunk of a response by itself, and
// net/http writes up to 4 KiB at once: also with escapes, such a line is shorter.
const MaxDelta = 600

// Line is a line of a stream. Fields that are nil or empty are absent, except where the kind of the line needs them.
type Line struct {
	ID   string `json:"id"`
	Role Role   `json:"role"`
	// Content and Thinking are text of the message.
	Content  *string `json:"content,omitempty"`
	Thinking string  `json:"thinking,omitempty"`
	// GraphPath is the node that has written the line; its first element is PathFinal for the answer.
	GraphPath []string `json:"graphPath,omitempty"`
	// IsDelta reports whether the text is appended to the message; nil for IDCutoff.
	IsDelta *bool `json:"isDelta,omitempty"`
	// IsInProcess reports whether more lines of the id follow; nil for lines that are not of the assistant.
	IsInProcess *bool `json:"isInProcess,omitempty"`
	// Sort grows with each line of a thread. It is 0 for IDCutoff.
	Sort     int64     `json:"sort"`
	ToolCall *ToolCall `json:"toolCall,omitempty"`
	// State is set for IDCutoff and IDState only.
	State json.RawMessage `json:"state,omitempty"`
	// Error is the message of an error line, which has nothing else.
	Error string `json:"-"`
}

// ToolCall is a call of a tool. Input and Result are JSON texts.
type ToolCall struct {
	Name   string  `json:"name"`
	Input  string  `json:"input"`
	Result *string `json:"result,omitempty"`
}

// CutoffState is the state of the line IDCutoff.
type CutoffState struct {
	ChatID      string `json:"chatId"`
	IsStreaming bool   `json:"isStreaming"`
}

// Cutoff returns the first line of a response.
func Cutoff(chatID string, streaming bool) Line {
	state, _ := json.Marshal(CutoffState{chatID, streaming}) // a string and a bool
	return Line{ID: IDCutoff, Role: RoleAssistant, State: state}
}

// User returns the line of a message of the user.
func User(id, text string) Line {
	return Line{ID: id, Role: RoleUser, Content: &text, IsDelta: new(bool)}
}

// Delta returns a line that appends text to a message of the assistant.
func Delta(id, text string, path ...string) Line {
	return assistant(Line{ID: id, Content: &text, GraphPath: path}, true, true)
}

// Thinking returns a line that appends to the thinking of a message.
func Thinking(id, text string, path ...string) Line {
	return assistant(Line{ID: id, Content: new(string), Thinking: text, GraphPath: path}, true, true)
}

// Whole returns the line that replaces a message of the assistant with its whole text and ends it.
func Whole(id, text string, path ...string) Line {
	return assistant(Line{ID: id, Content: &text, GraphPath: path}, false, false)
}

// ToolStarted returns the line of a tool that is called. input is a JSON text.
func ToolStarted(id, name, input string) Line {
	return assistant(Line{ID: id, GraphPath: []string{PathAgent, PathTools}, ToolCall: &ToolCall{Name: name, Input: input}}, false, true)
}

// ToolEnded returns the line of a tool that has returned a result, which is a JSON text.
func ToolEnded(id, name, input, result string) Line {
	return assistant(Line{ID: id, GraphPath: []string{PathAgent, PathTools}, ToolCall: &ToolCall{name, input, &result}}, false, false)
}

// ToolError returns the result of a tool that has failed.
func ToolError(class, message string) string {
	text, _ := json.Marshal(map[string]string{"error": "Error: " + class + ": " + message}) // strings
	return string(text)
}

func assistant(l Line, delta, inProcess bool) Line {
	l.Role, l.IsDelta, l.IsInProcess = RoleAssistant, &delta, &inProcess
	return l
}

// State returns the last line of a response, with messages of the thread as JSON texts.
func State(messages ...[]byte) Line {
	state := append([]byte(`{"messages":[`), bytes.Join(messages, []byte(","))...)
	return Line{ID: IDState, Role: RoleAssistant, IsDelta: new(bool), State: append(state, "]}"...)}
}

// Error returns the line that ends a response with an error.
func Error(message string) Line { return Line{Error: message} }

// IsFinal reports whether the line has a part of the answer.
func (l *Line) IsFinal() bool {
	return l.Role == RoleAssistant && len(l.GraphPath) > 0 && l.GraphPath[0] == PathFinal
}

// Delta reports whether the line appends to its message.
func (l *Line) Delta() bool { return l.IsDelta != nil && *l.IsDelta }

// isDelta is in the lines that append text. In texts, quotation marks have a backslash before them.
var isDelta = []byte(`"isDelta":true`)

// IsDelta reports whether a line as Encode has returned it appends to its message.
func IsDelta(line []byte) bool { return bytes.Contains(line, isDelta) }

// fields has the fields of a line that is not an error.
type fields Line

// MarshalJSON implements json.Marshaler.
func (l Line) MarshalJSON() ([]byte, error) {
	if l.Error != "" {
		return json.Marshal(failure{l.Error})
	}
	return json.Marshal(fields(l))
}

type failure struct {
	Error string `json:"error"`
}

// UnmarshalJSON implements json.Unmarshaler. Fields that it does not know are ignored.
func (l *Line) UnmarshalJSON(data []byte) error {
	in := struct {
		*fields
		Error string `json:"error"`
	}{fields: (*fields)(l)}
	*l = Line{}
	if err := json.Unmarshal(data, &in); err != nil {
		return err
	}
	l.Error = in.Error
	return nil
}

// encoder encodes lines.
type encoder struct {
	out  bytes.Buffer
	json *json.Encoder
}

// encoders are encoders for reuse, with buffers of at most keptBuffer bytes.
var encoders = sync.Pool{New: func() any {
	e := &encoder{}
	e.json = json.NewEncoder(&e.out)
	e.json.SetEscapeHTML(false)
	return e
}}

const keptBuffer = 16 << 10

// Encode returns a line without its line break. It contains none. The error names the id of a line that is longer than MaxLine.
func (l *Line) Encode() ([]byte, error) { return l.AppendTo(nil) }

// AppendTo appends what Encode returns to a buffer. With an error it appends nothing.
func (l *Line) AppendTo(to []byte) ([]byte, error) {
	if line, ok := l.appendDelta(to); ok {
		return line, nil
	}
	e, ok := encoders.Get().(*encoder)
	if !ok {
		panic("the pool has other values") // it has none
	}
	defer func() {
		if e.out.Cap() <= keptBuffer {
			e.out.Reset()
			encoders.Put(e)
		}
	}()
	var err error
	if l.Error != "" {
		err = e.json.Encode(failure{l.Error})
	} else {
		err = e.json.Encode((*fields)(l))
	}
	if err != nil {
		return to, fmt.Errorf("line %q: %w", l.ID, err)
	}
	line := bytes.TrimSuffix(e.out.Bytes(), []byte("\n"))
	if len(line) > MaxLine {
		return to, fmt.Errorf("line %q has %d bytes; allowed: %d", l.ID, len(line), MaxLine)
	}
	return append(to, line...), nil
}
