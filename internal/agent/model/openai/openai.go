// Package openai asks models of servers that speak the chat completions protocol of OpenAI, through the official client: the service
// itself, vLLM, Ollama, llama.cpp and gateways.
//
//	openai.go    a request and its stream
//	request.go   the parameters of a request
//	answer.go    chunks of an answer as events
//	chunk.go     what is read of a chunk
//
// Source: https://platform.openai.com/docs/api-reference/chat-streaming.
package openai

import (
	"bytes"
	"context"
	"io"
	"iter"
	"net/http"

	client "github.com/openai/openai-go/v3"
	"github.com/openai/openai-go/v3/option"

	"github.com/quoin-dev/quoin/internal/agent/model"
	"github.com/quoin-dev/quoin/internal/agent/model/transport"
)

// DefaultBaseURL is that of the service.
const DefaultBaseURL = "https://api.openai.com/v1"

// Model is a model of a server.
type Model struct {
	// BaseURL is the address of the API, such as https://llm.example.com/v1. DefaultBaseURL if it is empty.
	BaseURL string
	// Name of the model.
	Name string
	// Key is sent as a bearer token, unless it is empty.
	Key string
	// HTTP sends the requests; it is that of package transport.
	HTTP *http.Client
}

// Stream implements model.Model.
func (m *Model) Stream(ctx context.Context, in *model.Request) iter.Seq2[model.Event, error] {
	return transport.Stream(ctx, func(ctx context.Context, send transport.Send) error {
		a := &answer{send: send}
		if err := m.receive(ctx, in, a); err != nil {
			return err
		}
		return a.end()
	})
}

// receive sends a request and adds the chunks of the answer.
func (m *Model) receive(ctx context.Context, in *model.Request, a *answer) error {
	body, err := m.open(ctx, in)
	if err != nil {
		return err
	}
	defer body.Close()
	events := transport.NewEvents(body)
	next := &chunk{}
	for events.Next() {
		data := events.Data()
		if bytes.HasPrefix(data, done) {
			return nil
		}
		if err := next.decode(data); err != nil {
			return transport.Malformed("an event is not the JSON of a chunk")
		}
		if next.failed() {
			return transport.Event(data, m.Key)
		}
		if err := a.add(next); err != nil {
			return err
		}
	}
	if err := events.Err(); err != nil {
		return transport.Failure(ctx, err)
	}
	return nil
}

// done is the data of the last event.
var done = []byte("[DONE]")

// open sends a request, and returns the body of the response. It is a function of its own because the parameters are large, and a
// stack with them would be kept while the answer is received.
func (m *Model) open(ctx context.Context, in *model.Request) (io.ReadCloser, error) {
	params, err := m.params(in)
	if err != nil {
		return nil, err
	}
	var response *http.Response
	if err := (&client.Client{Options: m.options()}).Post(ctx, "chat/completions", params, &response, option.WithJSONSet("stream", true)); err != nil {
		return nil, transport.Failure(ctx, err)
	}
	return response.Body, nil
}

// options returns all options of the client: none of them comes from the environment.
func (m *Model) options() []option.RequestOption {
	base := m.BaseURL
	if base == "" {
		base = DefaultBaseURL
	}
	out := []option.RequestOption{option.WithBaseURL(base), option.WithHTTPClient(m.HTTP), option.WithMaxRetries(0)}
	if m.Key != "" {
		out = append(out, option.WithAPIKey(m.Key))
	}
	return out
}
