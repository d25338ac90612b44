package openai

import (
	"fmt"

	"github.com/quoin-dev/quoin/internal/agent/model"
	"github.com/quoin-dev/quoin/internal/agent/model/transport"
)

// maxCalls is the maximum number of tool calls of an answer.
const maxCalls = 128

// answer is an answer that is being received.
type answer struct {
	send    transport.Send
	calls   []call
	usage   *model.Usage
	finish  string
	refused bool
}

// call is a tool call, which comes in pieces.
type call struct {
	index     int64
	id, name  string
	arguments []byte
}

// add adds a chunk. The last one may have the usage only.
func (a *answer) add(next *chunk) error {
	if u := next.Usage; u.PromptTokens > 0 || u.CompletionTokens > 0 {
		used := model.Usage{Input: u.PromptTokens, CachedInput: u.PromptTokensDetails.CachedTokens, Output: u.CompletionTokens}.Valid()
		a.usage = &used
	}
	for i := range next.Choices {
		c := &next.Choices[i]
		if c.Index != 0 {
			continue
		}
		if err := a.delta(&c.Delta); err != nil {
			return err
		}
		if c.FinishReason != "" {
			a.finish = c.FinishReason
		}
	}
	return nil
}

func (a *answer) delta(d *delta) error {
	if text := d.thinking(); text != "" {
		if err := a.send(model.Event{Thinking: text}); err != nil {
			return err
		}
	}
	a.refused = a.refused || d.Refusal != ""
	if text := d.Content + d.Refusal; text != "" {
		if err := a.send(model.Event{Text: text}); err != nil {
			return err
		}
	}
	for i := range d.ToolCalls {
		if err := a.piece(&d.ToolCalls[i]); err != nil {
			return err
		}
	}
	return nil
}

// piece adds a piece of a tool call. The index identifies it; some servers send whole calls that all have the index 0.
func (a *answer) piece(p *callPiece) error {
	at := -1
	for i := range a.calls {
		if a.calls[i].index == p.Index {
			at = i
		}
	}
	if at < 0 || p.ID != "" && a.calls[at].id != "" && p.ID != a.calls[at].id {
		if len(a.calls) == maxCalls {
			return transport.Malformed(fmt.Sprintf("it has more than %d tool calls", maxCalls))
		}
		a.calls, at = append(a.calls, call{index: p.Index}), len(a.calls)
	}
	c := &a.calls[at]
	if p.ID != "" {
		c.id = p.ID
	}
	if c.name == "" {
		c.name = p.Function.Name
	}
	c.arguments = append(c.arguments, p.Function.Arguments...)
	return nil
}

// end sends what is known at the end of the stream only.
func (a *answer) end() error {
	stop, err := a.stop()
	if err != nil {
		return err
	}
	for i := range a.calls {
		c := &a.calls[i]
		if c.id == "" {
			c.id = fmt.Sprintf("call_%d", i)
		}
		out := &model.ToolCall{ID: c.id, Name: c.name}
		out.Input, out.Invalid = model.ParseInput(c.arguments)
		if err := a.send(model.Event{ToolCall: out}); err != nil {
			return err
		}
	}
	return a.send(model.Event{Usage: a.usage, Stop: stop})
}

// stop returns why the answer has ended.
func (a *answer) stop() (model.Stop, error) {
	switch {
	case a.finish == "":
		return "", transport.Malformed("it ends without a reason")
	case a.finish == "length":
		return model.StopLength, nil
	case a.finish == "content_filter", a.refused:
		return model.StopRefused, nil
	case len(a.calls) > 0: // some servers report the reason stop
		return model.StopTools, nil
	}
	return model.StopEnd, nil
}
