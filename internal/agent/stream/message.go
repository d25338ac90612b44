package stream

import "strings"

// Message is what the lines of an id amount to.
type Message struct {
	ID       string    `json:"id"`
	Role     Role      `json:"role"`
	Content  string    `json:"content,omitempty"`
	Thinking string    `json:"thinking,omitempty"`
	Path     []string  `json:"graphPath,omitempty"`
	ToolCall *ToolCall `json:"toolCall,omitempty"`
	// InProcess reports whether the message has not ended.
	InProcess bool `json:"isInProcess,omitempty"`
	// Sort is that of the last line.
	Sort int64 `json:"sort"`
}

// Messages collects the messages of a stream, in the order of their first lines. The zero value is empty.
type Messages struct {
	all []Message
	// texts has the bytes of the texts of all: they are not copied with each line.
	texts []*texts
	byID  map[string]int
	// err is the text of the error line; "" if there is none.
	err string
}

// texts are the texts of a message.
type texts struct{ content, thinking strings.Builder }

// Add adds a line: it appends to the message of its id, or replaces it.
func (m *Messages) Add(l *Line) {
	switch {
	case l.Error != "":
		m.err = l.Error
		return
	case l.ID == IDCutoff || l.ID == IDState:
		return
	}
	at, known := m.byID[l.ID]
	if !known {
		if m.byID == nil {
			m.byID = map[string]int{}
		}
		at = len(m.all)
		m.byID[l.ID], m.all, m.texts = at, append(m.all, Message{ID: l.ID}), append(m.texts, &texts{})
	}
	message, text := &m.all[at], m.texts[at]
	if !l.Delta() {
		text.content = strings.Builder{}
		if l.Thinking != "" { // otherwise the line has the answer only
			text.thinking = strings.Builder{}
		}
	}
	message.Role, message.Path, message.ToolCall, message.Sort = l.Role, l.GraphPath, l.ToolCall, l.Sort
	message.InProcess = l.IsInProcess != nil && *l.IsInProcess
	text.thinking.WriteString(l.Thinking)
	if l.Content != nil {
		text.content.WriteString(*l.Content)
	}
	message.Content, message.Thinking = text.content.String(), text.thinking.String()
}

// All returns the messages. The caller must not change them.
func (m *Messages) All() []Message { return m.all }

// Err returns the text of the error line; "" if there is none.
func (m *Messages) Err() string { return m.err }

// Answer returns the text of the last message whose path begins with PathFinal, and whether there is one.
func (m *Messages) Answer() (string, bool) {
	answer, sort, found := "", int64(-1), false
	for i := range m.all {
		message := &m.all[i]
		if message.Role == RoleAssistant && len(message.Path) > 0 && message.Path[0] == PathFinal && message.Sort >= sort {
			answer, sort, found = message.Content, message.Sort, true
		}
	}
	return answer, found
}

// Line returns a message as one line that replaces what a client has of it, as for the history of a thread.
func (m *Message) Line() Line {
	l := Line{ID: m.ID, Role: m.Role, Thinking: m.Thinking, GraphPath: m.Path, IsDelta: new(bool), Sort: m.Sort, ToolCall: m.ToolCall}
	if m.ToolCall == nil {
		l.Content = &m.Content
	}
	if m.Role == RoleAssistant {
		l.IsInProcess = &m.InProcess
	}
	return l
}
