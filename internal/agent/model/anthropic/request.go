package anthropic

import (
	"encoding/json"
	"fmt"
	"strings"

	client "github.com/anthropics/anthropic-sdk-go"
	"github.com/anthropics/anthropic-sdk-go/packages/param"

	"github.com/quoin-dev/quoin/internal/agent/model"
)

const (
	// defaultMaxTokens is the limit of an answer without one, because the protocol requires it.
	defaultMaxTokens = 4096
	// minThinking is the smallest number of tokens for thinking that the protocol allows.
	minThinking = 1024
	// redacted precedes the data of thinking that is encrypted, in the signature of a thought. Signatures have no colon.
	redacted = "redacted:"
)

// params returns the parameters of a request. The provider caches the tools and the system prompt, and the conversation so far.
func (m *Model) params(in *model.Request) (*client.MessageNewParams, error) {
	out := &client.MessageNewParams{Model: m.Name, MaxTokens: in.MaxTokens}
	if out.MaxTokens <= 0 {
		out.MaxTokens = defaultMaxTokens
	}
	if in.System != "" {
		out.System = []client.TextBlockParam{{Text: in.System, CacheControl: client.NewCacheControlEphemeralParam()}}
	}
	for _, t := range in.Tools {
		if object := map[string]json.RawMessage{}; json.Unmarshal(t.Schema, &object) != nil {
			return nil, &model.Error{Kind: model.Rejected, Message: fmt.Sprintf("the schema of the tool %q is not a JSON object", t.Name)}
		}
		out.Tools = append(out.Tools, client.ToolUnionParam{OfTool: &client.ToolParam{
			Name: t.Name, Description: client.String(t.Description), InputSchema: param.Override[client.ToolInputSchemaParam](t.Schema),
		}})
	}
	for i := range in.Messages {
		if blocks := content(&in.Messages[i]); len(blocks) > 0 {
			out.Messages = append(out.Messages, client.MessageParam{Role: client.MessageParamRole(in.Messages[i].Role), Content: blocks})
		}
	}
	if n := len(out.Messages); n > 0 {
		cache(out.Messages[n-1].Content)
	}
	if in.Temperature != nil {
		out.Temperature = client.Float(*in.Temperature)
	}
	if in.Thinking >= minThinking {
		out.Thinking = client.ThinkingConfigParamOfEnabled(in.Thinking)
		out.MaxTokens += in.Thinking // the limit includes the thinking
		out.Temperature = param.Opt[float64]{}
	}
	return out, schema(in, out)
}

// schema sets the schema of the answer.
func schema(in *model.Request, out *client.MessageNewParams) error {
	if len(in.Schema) == 0 {
		return nil
	}
	object := map[string]any{}
	if json.Unmarshal(in.Schema, &object) != nil {
		return &model.Error{Kind: model.Rejected, Message: "the schema of the answer is not a JSON object"}
	}
	out.OutputConfig.Format.Schema = object
	return nil
}

// content returns the blocks of a message; none if it is empty. Thinking comes first, and results come before text, as the protocol
// requires.
func content(in *model.Message) []client.ContentBlockParamUnion {
	var out []client.ContentBlockParamUnion
	for _, t := range in.Thinking {
		switch data, isRedacted := strings.CutPrefix(t.Signature, redacted); {
		case isRedacted:
			out = append(out, client.NewRedactedThinkingBlock(data))
		case t.Signature != "": // the provider does not accept thinking that it has not signed
			out = append(out, client.NewThinkingBlock(t.Signature, t.Text))
		}
	}
	for _, r := range in.Results {
		out = append(out, client.NewToolResultBlock(r.CallID, r.Text, r.Failed))
	}
	for _, i := range in.Images {
		out = append(out, client.NewImageBlockBase64(i.MimeType, i.Data))
	}
	if strings.TrimSpace(in.Text) != "" {
		out = append(out, client.NewTextBlock(in.Text))
	}
	for _, c := range in.Calls {
		out = append(out, client.NewToolUseBlock(c.ID, c.Input, c.Name))
	}
	return out
}

// cache makes the provider cache the conversation to the last of the blocks.
func cache(blocks []client.ContentBlockParamUnion) {
	if control := blocks[len(blocks)-1].GetCacheControl(); control != nil {
		*control = client.NewCacheControlEphemeralParam()
	}
}
