// Package model is the interface to language models: a request is answered by a stream of events. Providers implement it.
//
//	model.go      requests and events
//	error.go      failures of providers
//	collect.go    the reply that a stream of events amounts to
//	retry.go      repeats requests that have failed before their first event
//	bytext.go     tool calls as JSON text, for servers whose tool choice is unreliable
package model

import (
	"bytes"
	"context"
	"encoding/json"
	"iter"
)

// Model answers requests. It is safe for concurrent use.
type Model interface {
	// Stream sends a request and returns the events of the answer. The last one has a Stop. An error ends the stream; it is an
	// *Error, or that of the context. Ending the iteration or the context ends the request.
	Stream(ctx context.Context, in *Request) iter.Seq2[Event, error]
}

// Request is a question to a model.
type Request struct {
	// System is the system prompt.
	System   string
	Messages []Message
	Tools    []Tool
	// MaxTokens is the maximum number of tokens of the answer.
	MaxTokens int64
	// Temperature is that of the provider if it is nil.
	Temperature *float64
	// Thinking is the number of tokens for thinking; 0 for none, or for the default of the provider.
	Thinking int64
	// Schema, if there is one, is the JSON schema of the answer.
	Schema json.RawMessage
}

// Role is the author of a message.
type Role string

// The roles.
const (
	User      Role = "user"
	Assistant Role = "assistant"
)

// Message is a part of a conversation. Messages of the user have text, images and results of tools; those of the assistant text,
// thinking and tool calls.
type Message struct {
	Role     Role         `json:"role"`
	Text     string       `json:"text,omitempty"`
	Images   []Image      `json:"images,omitempty"`
	Thinking []Thought    `json:"thinking,omitempty"`
	Calls    []ToolCall   `json:"calls,omitempty"`
	Results  []ToolResult `json:"results,omitempty"`
}

// Size returns the number of bytes of the texts, calls and results, without images and what protocols add.
func (m *Message) Size() int {
	n := len(m.Text)
	for _, t := range m.Thinking {
		n += len(t.Text)
	}
	for _, c := range m.Calls {
		n += len(c.Name) + len(c.Input)
	}
	for _, r := range m.Results {
		n += len(r.Text)
	}
	return n
}

// Image is an image in base64.
type Image struct {
	MimeType string `json:"mimeType"`
	Data     string `json:"data"`
}

// Thought is thinking of the model. Signature is how the provider recognizes it as its own.
type Thought struct {
	Text      string `json:"text"`
	Signature string `json:"signature,omitempty"`
}

// Tool is a tool that the model may call.
type Tool struct {
	Name, Description string
	// Schema is the JSON schema of the input, an object.
	Schema json.RawMessage
}

// ToolCall is a call of a tool. Input is a JSON object.
type ToolCall struct {
	ID    string          `json:"id"`
	Name  string          `json:"name"`
	Input json.RawMessage `json:"input"`
	// Invalid is why the input that the model has sent cannot be used; Input is then {}.
	Invalid string `json:"invalid,omitempty"`
}

// ToolResult is the result of a call.
type ToolResult struct {
	CallID string `json:"callId"`
	Text   string `json:"text"`
	Failed bool   `json:"failed,omitempty"`
}

// Event is a part of an answer. One of the fields is set; Usage may be set together with Stop.
type Event struct {
	Text     string
	Thinking string
	// Signature ends a thought, which may have no text.
	Signature string
	ToolCall  *ToolCall
	Usage     *Usage
	Stop      Stop
}

// Usage is the number of tokens of a request. Cached ones are a part of Input.
type Usage struct {
	Input       int64 `json:"input"`
	CachedInput int64 `json:"cachedInput,omitempty"`
	Output      int64 `json:"output"`
}

// maxTokens bounds the numbers of a request, so that sums of them do not overflow.
const maxTokens = 1 << 40

// Valid returns the usage as it is counted. Servers that implement the protocol of another one have sent negative numbers, and cached
// tokens beside the input instead of as a part of it.
func (u Usage) Valid() Usage {
	bounded := func(n int64) int64 { return min(max(n, 0), maxTokens) }
	v := Usage{bounded(u.Input), bounded(u.CachedInput), bounded(u.Output)}
	if v.CachedInput > v.Input {
		v.Input += v.CachedInput
	}
	return v
}

// Add returns the sum.
func (u Usage) Add(other Usage) Usage {
	return Usage{u.Input + other.Input, u.CachedInput + other.CachedInput, u.Output + other.Output}
}

// Stop is why an answer has ended.
type Stop string

// The reasons.
const (
	// StopEnd: the answer is complete.
	StopEnd Stop = "end"
	// StopTools: the model waits for the results of its tool calls.
	StopTools Stop = "tools"
	// StopLength: the limit of tokens is reached.
	StopLength Stop = "length"
	// StopRefused: the model or a filter of the provider has refused to answer.
	StopRefused Stop = "refused"
)

// ParseInput returns the input of a tool call, and why it cannot be used; it is then {}. Without text it is {} too.
func ParseInput(text []byte) (input json.RawMessage, invalid string) {
	text = bytes.TrimSpace(text)
	var object map[string]json.RawMessage
	switch {
	case len(text) == 0:
		return json.RawMessage("{}"), ""
	case json.Unmarshal(text, &object) != nil || object == nil:
		return json.RawMessage("{}"), "the input is not a JSON object"
	}
	return json.RawMessage(bytes.Clone(text)), ""
}
