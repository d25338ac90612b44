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
	"context"
	"encoding/json"
	"errors"
	"iter"
	"net/http"

	client "github.com/openai/openai-go/v3"
	"github.com/openai/openai-go/v3/option"
	"github.com/openai/openai-go/v3/packages/ssestream"

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
	return func(yield func(model.Event, error) bool) {
		ctx, cancel := context.WithCancel(ctx)
		defer cancel()
		chunks, err := m.open(ctx, in)
		if err != nil {
			yield(model.Event{}, err)
			return
		}
		defer chunks.Close()
		a := &answer{yield: yield}
		for chunks.Next() {
			c := chunks.Current()
			if err := a.add(&c); err != nil {
				if !a.stopped {
					yield(model.Event{}, err)
				}
				return
			}
		}
		if err := m.failure(ctx, chunks.Err()); err != nil {
			yield(model.Event{}, err)
			return
		}
		if err := a.end(); err != nil && !a.stopped {
			yield(model.Event{}, err)
		}
	}
}

// open sends a request. The error is one of the request; those of the server are in the stream. It is a function of its own because
// the parameters are large, and a stack with them would be kept while the answer is received.
func (m *Model) open(ctx context.Context, in *model.Request) (*ssestream.Stream[chunk], error) {
	params, err := m.params(in)
	if err != nil {
		return nil, err
	}
	var response *http.Response
	err = (&client.Client{Options: m.options()}).Post(ctx, "chat/completions", params, &response, option.WithJSONSet("stream", true))
	return ssestream.NewStream[chunk](ssestream.NewDecoder(response), err), nil
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

// failure returns the error of a stream; nil if it has none.
func (m *Model) failure(ctx context.Context, err error) error {
	var (
		reported *ssestream.StreamError
		syntax   *json.SyntaxError
		wrongly  *json.UnmarshalTypeError
	)
	switch {
	case err == nil:
		return nil
	case context.Cause(ctx) == nil && errors.As(err, &reported):
		return transport.Event(reported.Event.Data, m.Key)
	case context.Cause(ctx) == nil && (errors.As(err, &syntax) || errors.As(err, &wrongly)):
		return transport.Malformed("an event is not the JSON of a chunk")
	}
	return transport.Failure(ctx, err)
}
