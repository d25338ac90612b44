package openai

import (
	"github.com/go-json-experiment/json/jsontext"

	"github.com/quoin-dev/quoin/internal/agent/model/transport"
)

// chunk is what is read of a chunk. The type of the client keeps the JSON of all fields, and encoding/json makes new values for each
// piece of text: both take several times as long.
type chunk struct {
	Choices []choice       `json:"choices"`
	Usage   usage          `json:"usage"`
	Error   jsontext.Value `json:"error"`
}

type choice struct {
	Index        int64  `json:"index"`
	Delta        delta  `json:"delta"`
	FinishReason string `json:"finish_reason"`
}

type delta struct {
	Content   string      `json:"content"`
	Refusal   string      `json:"refusal"`
	ToolCalls []callPiece `json:"tool_calls"`
	// Servers use two names for thinking.
	ReasoningContent jsontext.Value `json:"reasoning_content"`
	Reasoning        jsontext.Value `json:"reasoning"`
}

// callPiece is a piece of a tool call.
type callPiece struct {
	Index    int64  `json:"index"`
	ID       string `json:"id"`
	Function struct {
		Name      string `json:"name"`
		Arguments string `json:"arguments"`
	} `json:"function"`
}

type usage struct {
	PromptTokens        int64 `json:"prompt_tokens"`
	CompletionTokens    int64 `json:"completion_tokens"`
	PromptTokensDetails struct {
		CachedTokens int64 `json:"cached_tokens"`
	} `json:"prompt_tokens_details"`
}

// decode replaces a chunk with that of a JSON text.
func (c *chunk) decode(data []byte) error {
	*c = chunk{Choices: c.Choices[:0]}
	return transport.Decode(data, c)
}

// failed reports whether it is the error with which a server ends a stream.
func (c *chunk) failed() bool { return len(c.Error) > 0 && c.Error.Kind() != 'n' }

// thinking returns the thinking of a chunk; "" if there is none, or if it is no text.
func (d *delta) thinking() string {
	if text := textOf(d.ReasoningContent); text != "" {
		return text
	}
	return textOf(d.Reasoning)
}

// textOf returns a value that is a text; "" for others.
func textOf(value jsontext.Value) string {
	if len(value) == 0 {
		return ""
	}
	text := ""
	if transport.Decode(value, &text) != nil {
		return ""
	}
	return text
}
