package model

import (
	"iter"
	"strings"
)

// Reply is what the events of an answer amount to.
type Reply struct {
	Message Message
	Usage   Usage
	Stop    Stop
}

// Collector collects the events of an answer. Its zero value has none. It must not be copied after the first Add.
type Collector struct {
	reply Reply
	// text has Message.Text of the reply, and thought the text of its last thought.
	text, thought text
}

// Add adds an event.
func (c *Collector) Add(e Event) {
	m := &c.reply.Message
	m.Role = Assistant
	c.text.add(e.Text)
	if e.Thinking != "" {
		c.think()
		c.thought.add(e.Thinking)
	}
	if e.Signature != "" {
		c.think() // providers may withhold the text
		m.Thinking[len(m.Thinking)-1] = Thought{c.thought.String(), e.Signature}
		c.thought = text{}
	}
	if e.ToolCall != nil {
		m.Calls = append(m.Calls, *e.ToolCall)
	}
	if e.Usage != nil {
		c.reply.Usage = *e.Usage
	}
	if e.Stop != "" {
		c.reply.Stop = e.Stop
	}
}

// think begins a thought unless the last one has no signature yet.
func (c *Collector) think() {
	m := &c.reply.Message
	if n := len(m.Thinking); n == 0 || m.Thinking[n-1].Signature != "" {
		m.Thinking = append(m.Thinking, Thought{})
	}
}

// Reply returns what was received.
func (c *Collector) Reply() *Reply {
	r := c.reply
	r.Message.Text = c.text.String()
	if n := len(r.Message.Thinking); n > 0 && r.Message.Thinking[n-1].Signature == "" {
		r.Message.Thinking[n-1].Text = c.thought.String()
	}
	return &r
}

// Collect reads a stream to its end. With an error it returns what was received before.
func Collect(events iter.Seq2[Event, error]) (*Reply, error) {
	c := &Collector{}
	for e, err := range events {
		if err != nil {
			return c.Reply(), err
		}
		c.Add(e)
	}
	return c.Reply(), nil
}

// text is text that is received in pieces. It is copied once, by String; a strings.Builder copies all of it each time it grows.
type text struct {
	full   []string
	last   strings.Builder
	length int
}

// The sizes of the parts of a text in bytes: each is as long as those before it together, in this range.
const minPart, maxPart = 256, 4 << 10

func (t *text) add(piece string) {
	if t.last.Len()+len(piece) > t.last.Cap() {
		if t.last.Len() > 0 {
			t.full = append(t.full, t.last.String())
			t.last.Reset()
		}
		t.last.Grow(max(len(piece), min(max(t.length, minPart), maxPart)))
	}
	t.last.WriteString(piece)
	t.length += len(piece)
}

func (t *text) String() string { return strings.Join(append(t.full, t.last.String()), "") }
