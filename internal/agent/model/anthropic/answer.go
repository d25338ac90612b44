package anthropic

import (
	"fmt"

	client "github.com/anthropics/anthropic-sdk-go"

	"github.com/quoin-dev/quoin/internal/agent/model"
	"github.com/quoin-dev/quoin/internal/agent/model/transport"
)

// maxCalls is the maximum number of tool calls of an answer.
const maxCalls = 128

// answer is an answer that is being received.
type answer struct {
	send transport.Send
	// open is the tool call of the block that is being received; nil for other blocks.
	open   *call
	calls  int
	usage  model.Usage
	reason client.StopReason
	// ended reports whether the last event was received.
	ended bool
}

// call is a tool call, whose input comes in pieces.
type call struct {
	id, name string
	input    []byte
}

// add adds an event of the protocol. Events that it does not know are ignored.
func (a *answer) add(e *event) error {
	switch e.Type {
	case "message_start":
		a.count(&e.Message.Usage)
	case "content_block_start":
		return a.start(&e.ContentBlock)
	case "content_block_delta":
		return a.delta(&e.Delta)
	case "content_block_stop":
		return a.finish()
	case "message_delta":
		a.count(&e.Usage)
		a.reason = e.Delta.StopReason
	case "message_stop":
		a.ended = true
	}
	return nil
}

// count keeps the usage: later numbers replace earlier ones, and may be absent.
func (a *answer) count(u *usage) {
	if total := u.Input + u.CacheRead + u.CacheWritten; total > 0 {
		a.usage.Input, a.usage.CachedInput = total, u.CacheRead
	}
	if u.Output > 0 {
		a.usage.Output = u.Output
	}
}

// start begins a block. It may have text already.
func (a *answer) start(b *block) error {
	a.open = nil
	switch b.Type {
	case "text":
		if b.Text != "" {
			return a.send(model.Event{Text: b.Text})
		}
	case "thinking":
		if b.Thinking != "" {
			return a.send(model.Event{Thinking: b.Thinking})
		}
	case "redacted_thinking":
		return a.send(model.Event{Signature: redacted + b.Data})
	case "tool_use":
		if a.calls++; a.calls > maxCalls {
			return transport.Malformed(fmt.Sprintf("it has more than %d tool calls", maxCalls))
		}
		a.open = &call{id: b.ID, name: b.Name}
		if b.Input.Compact() == nil && b.Input.Kind() == '{' && len(b.Input) > len("{}") {
			a.open.input = b.Input // a server that does not send pieces
		}
	}
	return nil
}

func (a *answer) delta(d *delta) error {
	switch d.Type {
	case "text_delta":
		if d.Text != "" {
			return a.send(model.Event{Text: d.Text})
		}
	case "thinking_delta":
		if d.Thinking != "" {
			return a.send(model.Event{Thinking: d.Thinking})
		}
	case "signature_delta":
		if d.Signature != "" {
			return a.send(model.Event{Signature: d.Signature})
		}
	case "input_json_delta":
		if a.open == nil {
			return transport.Malformed("the input of a tool call comes outside its block")
		}
		a.open.input = append(a.open.input, d.PartialJSON...)
	}
	return nil
}

// finish ends a block.
func (a *answer) finish() error {
	if a.open == nil {
		return nil
	}
	out := &model.ToolCall{ID: a.open.id, Name: a.open.name}
	out.Input, out.Invalid = model.ParseInput(a.open.input)
	a.open = nil
	return a.send(model.Event{ToolCall: out})
}

// end sends the usage and the reason.
func (a *answer) end() error {
	if a.reason == "" {
		return transport.Malformed("it ends without a reason")
	}
	if err := a.finish(); err != nil { // a block that the server has not ended
		return err
	}
	stop := model.StopEnd
	switch {
	case a.reason == client.StopReasonMaxTokens, a.reason == client.StopReasonModelContextWindowExceeded:
		stop = model.StopLength
	case a.reason == client.StopReasonRefusal:
		stop = model.StopRefused
	case a.calls > 0:
		stop = model.StopTools
	}
	used := a.usage.Valid()
	return a.send(model.Event{Usage: &used, Stop: stop})
}
