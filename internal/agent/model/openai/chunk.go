package openai

import "encoding/json"

// chunk is what is read of a chunk. The type of the client keeps the JSON of all fields, which takes several times as long for each
// piece of text.
type chunk struct {
	Choices []choice
	Usage   usage
}

type choice struct {
	Index        int64
	Delta        delta
	FinishReason string `json:"finish_reason"`
}

type delta struct {
	Content, Refusal string
	ToolCalls        []callPiece `json:"tool_calls"`
	// Servers use two names for thinking.
	ReasoningContent json.RawMessage `json:"reasoning_content"`
	Reasoning        json.RawMessage
}

// callPiece is a piece of a tool call.
type callPiece struct {
	Index    int64
	ID       string
	Function struct{ Name, Arguments string }
}

type usage struct {
	PromptTokens        int64 `json:"prompt_tokens"`
	CompletionTokens    int64 `json:"completion_tokens"`
	PromptTokensDetails struct {
		CachedTokens int64 `json:"cached_tokens"`
	} `json:"prompt_tokens_details"`
}

// thinking returns the thinking of a chunk; "" if there is none, or if it is no text.
func (d *delta) thinking() string {
	if text := textOf(d.ReasoningContent); text != "" {
		return text
	}
	return textOf(d.Reasoning)
}

// textOf returns a value that is a text; "" for others.
func textOf(value json.RawMessage) string {
	if len(value) == 0 {
		return ""
	}
	text := ""
	if json.Unmarshal(value, &text) != nil {
		return ""
	}
	return text
}
