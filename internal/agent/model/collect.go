package model

import (
	"iter"
	"strings"
)

// Reply is what the events of an answer amount to. It must not be copied after the first Add.
type Reply struct {
	Message Message
	Usage   Usage
	Stop    Stop

	// text has the bytes of Message.Text, and thinking those of the last thought: they are not copied with each event.
	text, thinking strings.Builder
}

// Add adds an event.
func (r *Reply) Add(e Event) {
	m := &r.Message
	m.Role = Assistant
	if e.Text != "" {
		r.text.Grow(len(e.Text)) // doubles the capacity; WriteString adds a quarter, and would copy a long text many times
		r.text.WriteString(e.Text)
		m.Text = r.text.String()
	}
	if e.Thinking != "" {
		if n := len(m.Thinking); n == 0 || m.Thinking[n-1].Signature != "" {
			m.Thinking = append(m.Thinking, Thought{})
			r.thinking = strings.Builder{}
		}
		r.thinking.WriteString(e.Thinking)
		m.Thinking[len(m.Thinking)-1].Text = r.thinking.String()
	}
	if e.Signature != "" {
		if n := len(m.Thinking); n == 0 || m.Thinking[n-1].Signature != "" { // providers may withhold the text
			m.Thinking = append(m.Thinking, Thought{})
		}
		m.Thinking[len(m.Thinking)-1].Signature = e.Signature
	}
	if e.ToolCall != nil {
		m.Calls = append(m.Calls, *e.ToolCall)
	}
	if e.Usage != nil {
		r.Usage = *e.Usage
	}
	if e.Stop != "" {
		r.Stop = e.Stop
	}
}

// Collect reads a stream to its end. With an error it returns what was received before.
func Collect(events iter.Seq2[Event, error]) (*Reply, error) {
	r := &Reply{}
	for e, err := range events {
		if err != nil {
			return r, err
		}
		r.Add(e)
	}
	return r, nil
}
