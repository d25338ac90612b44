package model

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"iter"
	"strings"
)

// ByText calls tools of models whose tool choice is unreliable: the answer of the model is one JSON document with a schema, which is a
// tool call or the text of the answer. The text is not streamed: it is one event.
type ByText struct{ Model }

// document is an answer.
type document struct {
	Tool   string          `json:"tool"`
	Input  json.RawMessage `json:"input"`
	Answer string          `json:"answer"`
}

// answerTool is the value of the field tool for an answer.
const answerTool = "answer"

// Stream implements Model.
func (m *ByText) Stream(ctx context.Context, in *Request) iter.Seq2[Event, error] {
	if len(in.Tools) == 0 {
		return m.Model.Stream(ctx, in)
	}
	return func(yield func(Event, error) bool) {
		request, err := byText(in)
		if err != nil {
			yield(Event{}, err)
			return
		}
		received := &Collector{}
		for e, err := range m.Model.Stream(ctx, request) {
			if err != nil {
				yield(Event{}, err)
				return
			}
			if e.Thinking != "" && !yield(Event{Thinking: e.Thinking}, nil) {
				return
			}
			received.Add(e)
		}
		events, err := parts(received.Reply(), in.Tools)
		for _, e := range events {
			if !yield(e, nil) {
				return
			}
		}
		if err != nil {
			yield(Event{}, err)
		}
	}
}

// byText returns a request without tools.
func byText(in *Request) (*Request, error) {
	var prompt strings.Builder
	prompt.WriteString(in.System)
	prompt.WriteString("\n\nAnswer with one JSON object and nothing else. To call a tool: {\"tool\": <name>, \"input\": <its input>}. " +
		"To answer the user: {\"tool\": \"" + answerTool + "\", \"answer\": <text>}. The tools are:\n")
	alternatives := []any{alternative(answerTool, "answer", map[string]any{"type": "string"})}
	for _, t := range in.Tools {
		fmt.Fprintf(&prompt, "\n%s: %s\nSchema of the input: %s\n", t.Name, t.Description, t.Schema)
		if !json.Valid(t.Schema) {
			return nil, &Error{Kind: Rejected, Message: "the schema of the tool " + t.Name + " is not a JSON object"}
		}
		alternatives = append(alternatives, alternative(t.Name, "input", t.Schema))
	}
	schema, err := json.Marshal(map[string]any{"anyOf": alternatives})
	if err != nil {
		return nil, err
	}
	out := *in
	out.System, out.Tools, out.Schema, out.Messages = prompt.String(), nil, schema, nil
	for i := range in.Messages {
		out.Messages = append(out.Messages, asText(&in.Messages[i]))
	}
	return &out, nil
}

// alternative returns the schema of a document with a tool.
func alternative(tool, field string, schema any) map[string]any {
	return map[string]any{
		"type": "object", "required": []string{"tool", field}, "additionalProperties": false,
		"properties": map[string]any{"tool": map[string]any{"const": tool}, field: schema},
	}
}

// asText returns a message without calls and results, which it has as text.
func asText(m *Message) Message {
	out := Message{Role: m.Role, Text: m.Text, Images: m.Images}
	var texts []string
	for _, r := range m.Results {
		texts = append(texts, "Result of the tool:\n"+r.Text)
	}
	if m.Role == Assistant {
		for _, c := range m.Calls {
			texts = append(texts, encoded(map[string]any{"tool": c.Name, "input": c.Input}))
		}
		if len(m.Calls) == 0 {
			out.Text = encoded(map[string]any{"tool": answerTool, "answer": m.Text})
		}
	}
	if len(texts) > 0 {
		out.Text = strings.TrimSpace(strings.Join(append(texts, m.Text), "\n\n"))
	}
	return out
}

func encoded(document map[string]any) string {
	var out bytes.Buffer
	encoder := json.NewEncoder(&out)
	encoder.SetEscapeHTML(false)
	_ = encoder.Encode(document) // strings and valid JSON
	return strings.TrimSpace(out.String())
}

// parts returns the events of a reply. Text that is no JSON is the answer itself. A document that is not complete is none: it ends
// the reply without text if the limit of tokens was reached, and otherwise with an error.
func parts(r *Reply, tools []Tool) ([]Event, error) {
	end := Event{Stop: r.Stop, Usage: &r.Usage}
	d, text := document{}, unfenced(r.Message.Text)
	switch err := json.Unmarshal([]byte(text), &d); {
	case err == nil:
	case !strings.HasPrefix(text, "{"):
		return append(textEvents(r.Message.Text), end), nil
	case r.Stop == StopLength:
		return []Event{end}, nil
	default:
		return []Event{{Usage: &r.Usage}}, &Error{Kind: Malformed, Message: "the model has not answered with a JSON document of the schema"}
	}
	for _, t := range tools {
		if t.Name == d.Tool && d.Tool != answerTool {
			call := ToolCall{ID: "call_0", Name: d.Tool}
			call.Input, call.Invalid = ParseInput(d.Input)
			end.Stop = StopTools
			return []Event{{ToolCall: &call}, end}, nil
		}
	}
	if d.Tool == answerTool || d.Answer != "" {
		return append(textEvents(d.Answer), end), nil
	}
	return append(textEvents(r.Message.Text), end), nil
}

func textEvents(text string) []Event {
	if text == "" {
		return nil
	}
	return []Event{{Text: text}}
}

// unfenced returns a text without the fence of a Markdown code block around it.
func unfenced(text string) string {
	text = strings.TrimSpace(text)
	if inner, ok := strings.CutPrefix(text, "```"); ok && strings.HasSuffix(inner, "```") {
		_, inner, _ = strings.Cut(strings.TrimSuffix(inner, "```"), "\n")
		return inner
	}
	return text
}
