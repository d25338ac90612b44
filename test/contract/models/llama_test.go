package models_test

import (
	"context"
	"encoding/json"
	"errors"
	"strings"
	"testing"

	"github.com/quoin-dev/quoin/internal/agent/model"
	"github.com/quoin-dev/quoin/internal/agent/model/provider"
	"github.com/quoin-dev/quoin/test/internal/modelserver"
)

// withoutKey is the configuration of a server that needs no key.
func withoutKey(c *provider.Config) { c.APIKey = "" }

// A real model streams, is aborted within an answer, ends at its limits, refuses what is too long, and answers with JSON of a schema.
// Its words are not tested.
func TestLlama(t *testing.T) {
	url := modelserver.Start(t, 512)
	for _, protocol := range protocols {
		t.Run(string(protocol), func(t *testing.T) {
			m := newModel(t, url, protocol, withoutKey)
			long := ask("Write a long story about a river, with all its towns.")

			texts, received := 0, &model.Collector{}
			long.MaxTokens = 24
			for e, err := range m.Stream(t.Context(), long) {
				if err != nil {
					t.Fatal(err)
				}
				if received.Add(e); e.Text != "" {
					texts++
				}
			}
			reply := received.Reply()
			if texts < 10 || reply.Stop != model.StopLength || reply.Usage.Output != 24 || reply.Usage.Input < 10 {
				t.Errorf("%d events, %s, %+v", texts, reply.Stop, reply.Usage)
			}

			aborted := errors.New("aborted")
			ctx, cancel := context.WithCancelCause(t.Context())
			defer cancel(nil)
			received, texts, long.MaxTokens = &model.Collector{}, 0, 400
			var failed error
			for e, err := range m.Stream(ctx, long) {
				if received.Add(e); e.Text != "" {
					if texts++; texts == 5 {
						cancel(aborted)
					}
				}
				failed = err
			}
			if !errors.Is(failed, aborted) || texts != 5 || received.Reply().Stop != "" {
				t.Errorf("%v after %d events", failed, texts)
			}

			_, err := model.Collect(m.Stream(t.Context(), ask(strings.Repeat("word ", 900))))
			if got := (*model.Error)(nil); !errors.As(err, &got) || got.Kind != model.TooLong {
				t.Errorf("a conversation that is too long: %v", err)
			}
		})
	}
	t.Run("tool calls as JSON text", func(t *testing.T) { testToolCallsAsText(t, url) })
}

// The model answers with JSON of the schema of tool calls.
func testToolCallsAsText(t *testing.T, url string) {
	t.Helper()
	zero := 0.0
	m := newModel(t, url, provider.OpenAI, withoutKey, func(c *provider.Config) { c.ToolCalls = provider.Text })
	in := ask("Call cubeMeta to find orders.")
	in.Temperature = &zero
	in.Tools = []model.Tool{{
		Name: "cubeMeta", Description: "Finds members.",
		Schema: json.RawMessage(`{"type":"object","properties":{"searchQuery":{"type":"string","maxLength":40}},"required":["searchQuery"],"additionalProperties":false}`),
	}}
	in.MaxTokens = 200
	reply, err := model.Collect(m.Stream(t.Context(), in))
	if err != nil {
		t.Fatal(err)
	}
	switch calls := reply.Message.Calls; {
	case len(calls) == 1 && calls[0].Invalid == "" && calls[0].Name == "cubeMeta" && reply.Stop == model.StopTools:
	case len(calls) == 0 && reply.Message.Text != "" && !strings.HasPrefix(reply.Message.Text, "{"):
	default:
		t.Errorf("neither a call nor an answer: %+v", reply)
	}
}
