package openai

import (
	"encoding/json"
	"fmt"

	client "github.com/openai/openai-go/v3"
	"github.com/openai/openai-go/v3/packages/param"
	"github.com/openai/openai-go/v3/shared"

	"github.com/quoin-dev/quoin/internal/agent/model"
)

// params returns the parameters of a request.
func (m *Model) params(in *model.Request) (*client.ChatCompletionNewParams, error) {
	out := &client.ChatCompletionNewParams{Model: m.Name, StreamOptions: client.ChatCompletionStreamOptionsParam{IncludeUsage: client.Bool(true)}}
	if in.System != "" {
		out.Messages = append(out.Messages, client.SystemMessage(in.System))
	}
	for i := range in.Messages {
		out.Messages = append(out.Messages, messages(&in.Messages[i])...)
	}
	for _, t := range in.Tools {
		schema := shared.FunctionParameters{}
		if err := json.Unmarshal(t.Schema, &schema); err != nil {
			return nil, &model.Error{Kind: model.Rejected, Message: fmt.Sprintf("the schema of the tool %q is not a JSON object", t.Name)}
		}
		out.Tools = append(out.Tools, client.ChatCompletionFunctionTool(shared.FunctionDefinitionParam{
			Name: t.Name, Description: client.String(t.Description), Parameters: schema,
		}))
	}
	if in.MaxTokens > 0 {
		// The service has replaced the name of this limit, and other servers know the previous one.
		if m.BaseURL == "" || m.BaseURL == DefaultBaseURL {
			out.MaxCompletionTokens = client.Int(in.MaxTokens)
		} else {
			out.MaxTokens = client.Int(in.MaxTokens)
		}
	}
	if in.Temperature != nil {
		out.Temperature = client.Float(*in.Temperature)
	}
	out.ReasoningEffort = effort(in.Thinking)
	if len(in.Schema) > 0 {
		out.ResponseFormat.OfJSONSchema = &shared.ResponseFormatJSONSchemaParam{
			JSONSchema: shared.ResponseFormatJSONSchemaJSONSchemaParam{Name: "answer", Schema: in.Schema},
		}
	}
	return out, nil
}

// effort returns the level for a number of tokens for thinking: the protocol has no number.
func effort(tokens int64) shared.ReasoningEffort {
	const low, medium = 2048, 8192
	switch {
	case tokens <= 0:
		return ""
	case tokens <= low:
		return shared.ReasoningEffortLow
	case tokens <= medium:
		return shared.ReasoningEffortMedium
	}
	return shared.ReasoningEffortHigh
}

// messages returns the messages of the protocol for one: each result of a tool is its own.
func messages(in *model.Message) []client.ChatCompletionMessageParamUnion {
	if in.Role == model.Assistant {
		return []client.ChatCompletionMessageParamUnion{{OfAssistant: assistant(in)}}
	}
	var out []client.ChatCompletionMessageParamUnion
	for _, r := range in.Results {
		out = append(out, client.ToolMessage(r.Text, r.CallID))
	}
	switch {
	case len(in.Images) > 0:
		parts := []client.ChatCompletionContentPartUnionParam{client.TextContentPart(in.Text)}
		for _, i := range in.Images {
			parts = append(parts, client.ImageContentPart(client.ChatCompletionContentPartImageImageURLParam{URL: "data:" + i.MimeType + ";base64," + i.Data}))
		}
		out = append(out, client.UserMessage(parts))
	case in.Text != "" || len(out) == 0:
		out = append(out, client.UserMessage(in.Text))
	}
	return out
}

// assistant returns a message of the assistant. The protocol has no place for its thinking.
func assistant(in *model.Message) *client.ChatCompletionAssistantMessageParam {
	out := &client.ChatCompletionAssistantMessageParam{}
	if in.Text != "" || len(in.Calls) == 0 {
		out.Content.OfString = param.NewOpt(in.Text)
	}
	for _, c := range in.Calls {
		out.ToolCalls = append(out.ToolCalls, client.ChatCompletionMessageToolCallUnionParam{OfFunction: &client.ChatCompletionMessageFunctionToolCallParam{
			ID: c.ID, Function: client.ChatCompletionMessageFunctionToolCallFunctionParam{Name: c.Name, Arguments: string(c.Input)},
		}})
	}
	return out
}
