package agent

import (
	"encoding/json"

	"github.com/quoin-dev/quoin/internal/agent/model"
	"github.com/quoin-dev/quoin/internal/agent/stream"
)

// removed is the text of a result that is cut from a conversation.
const removed = "(this result is removed, because the conversation is long: call the tool again if you need it)"

// Cut returns the end of a conversation with at most a number of bytes. It begins with a message of the user, and has each call
// with its results. The last message of the user and all after it remain; if they are too long, their results are removed, the
// oldest first.
func Cut(messages []model.Message, limit int) []model.Message {
	last := 0
	for i := range messages {
		if isQuestion(&messages[i]) {
			last = i
		}
	}
	begin := 0
	for size(messages[begin:]) > limit && begin < last {
		begin++
		for begin < last && !isQuestion(&messages[begin]) {
			begin++
		}
	}
	out := messages[begin:]
	if size(out) <= limit {
		return out
	}
	out = append([]model.Message(nil), out...)
	for i := range out {
		for r := range out[i].Results {
			if size(out) <= limit {
				return out
			}
			if len(out[i].Results[r].Text) <= len(removed) {
				continue
			}
			results := append([]model.ToolResult(nil), out[i].Results...)
			results[r].Text = removed
			out[i].Results = results
		}
	}
	return out
}

// isQuestion reports whether a message is one that the user has written.
func isQuestion(m *model.Message) bool { return m.Role == model.User && len(m.Results) == 0 }

// size returns the size of messages in bytes, without what protocols add.
func size(messages []model.Message) (n int) {
	for i := range messages {
		n += messages[i].Size()
		for _, image := range messages[i].Images {
			n += len(image.Data)
		}
	}
	return n
}

// Conversation returns the conversation with the messages of a thread. Calls without a result, of a run that was killed, have one
// that says so.
func Conversation(messages []stream.Message, fence Fence) (out []model.Message) {
	for i := range messages {
		m := &messages[i]
		switch {
		case m.ToolCall != nil:
			out = addCall(out, m, fence)
		case m.Content == "":
		case m.Role == stream.RoleUser:
			out = append(out, model.Message{Role: model.User, Text: m.Content})
		default:
			out = append(out, model.Message{Role: model.Assistant, Text: m.Content})
		}
	}
	return out
}

// addCall adds a call and its result: to the message of the assistant before it, or to one of their own.
func addCall(out []model.Message, m *stream.Message, fence Fence) []model.Message {
	n := len(out)
	switch {
	case n > 1 && len(out[n-1].Results) > 0: // calls that were made together
	case n > 0 && out[n-1].Role == model.Assistant:
		out = append(out, model.Message{Role: model.User})
	default:
		out = append(out, model.Message{Role: model.Assistant}, model.Message{Role: model.User})
	}
	calls, results := &out[len(out)-2], &out[len(out)-1]
	input, _ := model.ParseInput(json.RawMessage(m.ToolCall.Input))
	calls.Calls = append(calls.Calls, model.ToolCall{ID: m.ID, Name: m.ToolCall.Name, Input: input})
	result := model.ToolResult{CallID: m.ID}
	if m.ToolCall.Result == nil {
		result.Failed, result.Text = true, stream.ToolError(AbortError, "the run has ended")
	} else {
		result.Text = clipped(&Result{Wire: json.RawMessage(*m.ToolCall.Result)})
	}
	result.Text = fence.Around(m.ToolCall.Name, result.Text)
	results.Results = append(results.Results, result)
	return out
}
