package agent

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/quoin-dev/quoin/internal/agent/model"
	"github.com/quoin-dev/quoin/internal/agent/stream"
)

const (
	// maxText is the maximum length of the text of an answer in bytes. Its line is shorter than stream.MaxLine.
	maxText = 128 << 10
	// maxThinking is the maximum length of the thinking that is shown, in bytes.
	maxThinking = 32 << 10
)

// turn asks the model once. It retries with a shorter conversation if this one is too long for the model.
func (s *state) turn(ctx context.Context) (*model.Message, error) {
	s.Turns++
	limit := s.Limits.Context
	for {
		sent := Cut(s.messages, limit)
		reply, err := s.ask(ctx, sent)
		var failed *model.Error
		if errors.As(err, &failed) && failed.Kind == model.TooLong && reply == nil {
			if shorter := size(sent) / 2; shorter > 0 && size(Cut(s.messages, shorter)) < size(sent) {
				limit = shorter
				continue
			}
		}
		if err != nil {
			return nil, err
		}
		s.add(*reply)
		return reply, nil
	}
}

// message is a message of the assistant that is being received.
type message struct {
	id string
	// shown is the number of bytes of the text that are shown, and thinking what is shown of the thinking.
	shown    int
	thinking strings.Builder
}

// ask sends a conversation, and streams the text of the reply. With an error it returns a reply if a part of it was streamed.
func (s *state) ask(ctx context.Context, messages []model.Message) (*model.Message, error) {
	in := &model.Request{
		System: s.System + s.Fence.Rules(), Messages: messages, MaxTokens: s.Limits.Answer, Temperature: s.Temperature, Thinking: s.Thinking,
		Tools: make([]model.Tool, 0, len(s.Tools)),
	}
	for i := range s.Tools {
		in.Tools = append(in.Tools, s.Tools[i].Tool)
	}
	received, m := &model.Collector{}, &message{}
	for e, err := range s.Model.Stream(ctx, in) {
		if err == nil {
			received.Add(e)
			err = s.show(ctx, m, e)
		}
		if err != nil {
			return s.broken(ctx, m, received.Reply(), err)
		}
	}
	reply := received.Reply()
	s.Usage = s.Usage.Add(reply.Usage)
	return s.received(ctx, m, reply)
}

// show appends the lines of an event.
func (s *state) show(ctx context.Context, m *message, e model.Event) error {
	if cause := context.Cause(ctx); cause != nil {
		return cause
	}
	for text := e.Thinking; text != "" && s.ShowThinking && m.thinking.Len() < maxThinking; {
		m.begin(s.NewID)
		part := head(text, min(stream.MaxDelta, maxThinking-m.thinking.Len()))
		text = text[len(part):]
		m.thinking.WriteString(part)
		if err := s.append(ctx, stream.Thinking(m.id, part, stream.PathFinal)); err != nil {
			return err
		}
	}
	for text := e.Text; text != ""; {
		m.begin(s.NewID)
		part := head(text, stream.MaxDelta)
		text = text[len(part):]
		if m.shown+len(part) > maxText {
			return limitReached("%d bytes of an answer", maxText)
		}
		m.shown += len(part)
		if err := s.append(ctx, stream.Delta(m.id, part, stream.PathFinal)); err != nil {
			return err
		}
	}
	return nil
}

// head returns the beginning of a text of at most a number of bytes, without a part of a character; at least one character.
func head(text string, n int) string {
	if len(text) <= n {
		return text
	}
	for cut := n; cut > 0; cut-- {
		if text[cut]&0xC0 != 0x80 {
			return text[:cut]
		}
	}
	return text
}

func (m *message) begin(newID func() string) {
	if m.id == "" {
		m.id = newID()
	}
}

// end appends the line that ends a message. Deltas are those of an answer; this line moves the message elsewhere if it is none.
func (s *state) end(ctx context.Context, m *message, reply *model.Reply, path string) error {
	if m.id == "" {
		return nil
	}
	l := stream.Whole(m.id, reply.Message.Text[:m.shown], path)
	l.Thinking = m.thinking.String()
	return s.append(ctx, l)
}

// broken ends the message of a reply that is not complete: what was said remains.
func (s *state) broken(ctx context.Context, m *message, reply *model.Reply, err error) (*model.Message, error) {
	s.Usage = s.Usage.Add(reply.Usage)
	if cause := context.Cause(ctx); cause != nil {
		err = cause
	}
	if m.id == "" {
		return nil, err
	}
	if ended := s.end(ctx, m, reply, stream.PathFinal); ended != nil {
		return nil, errors.Join(err, ended)
	}
	reply.Message.Calls = nil
	s.add(reply.Message)
	return &reply.Message, err
}

// received ends the message of a complete reply.
func (s *state) received(ctx context.Context, m *message, reply *model.Reply) (*model.Message, error) {
	path := stream.PathFinal
	if len(reply.Message.Calls) > 0 {
		path = stream.PathAgent
	}
	if err := s.end(ctx, m, reply, path); err != nil {
		return &reply.Message, err
	}
	switch empty := m.shown == 0; {
	case reply.Stop == "":
		return &reply.Message, &model.Error{Kind: model.Malformed, Message: "the answer of the model has no end"}
	case reply.Stop == model.StopLength && (empty || len(reply.Message.Calls) > 0):
		return &reply.Message, limitReached("%d tokens of an answer", s.Limits.Answer)
	case reply.Stop == model.StopRefused && empty:
		return &reply.Message, &model.Error{Kind: model.Rejected, Message: "the model refuses to answer"}
	case empty && len(reply.Message.Calls) == 0:
		return &reply.Message, &model.Error{Kind: model.Malformed, Message: "the model has sent no answer"}
	}
	for _, c := range reply.Message.Calls {
		if c.ID == "" || c.Name == "" {
			return &reply.Message, &model.Error{Kind: model.Malformed, Message: fmt.Sprintf("a tool call of the model has the id %.100q and the name %.100q", c.ID, c.Name)}
		}
	}
	return &reply.Message, nil
}
