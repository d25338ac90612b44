package model

import "iter"

// Reply is what the events of an answer amount to.
type Reply struct {
	Message Message
	Usage   Usage
	Stop    Stop
}

// Add adds an event.
func (r *Reply) Add(e Event) {
	m := &r.Message
	m.Role = Assistant
	m.Text += e.Text
	if e.Thinking != "" {
		if n := len(m.Thinking); n == 0 || m.Thinking[n-1].Signature != "" {
			m.Thinking = append(m.Thinking, Thought{})
		}
		m.Thinking[len(m.Thinking)-1].Text += e.Thinking
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
