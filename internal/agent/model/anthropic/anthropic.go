// Package anthropic asks models of servers that speak the messages protocol of Anthropic, through the official client.
//
//	anthropic.go   a request and its stream
//	request.go     the parameters of a request
//	answer.go      events of the protocol as those of package model
//
// Source: https://docs.anthropic.com/en/api/messages-streaming.
package anthropic

import (
	"context"
	"encoding/json"
	"errors"
	"iter"
	"net/http"
	"strings"

	client "github.com/anthropics/anthropic-sdk-go"
	"github.com/anthropics/anthropic-sdk-go/option"
	"github.com/anthropics/anthropic-sdk-go/packages/ssestream"

	"github.com/quoin-dev/quoin/internal/agent/model"
	"github.com/quoin-dev/quoin/internal/agent/model/transport"
)

// DefaultBaseURL is that of the service.
const DefaultBaseURL = "https://api.anthropic.com"

// Model is a model of a server.
type Model struct {
	// BaseURL is the address of the server, such as https://llm.example.com; the path /v1 at its end may be present. DefaultBaseURL if
	// it is empty.
	BaseURL string
	// Name of the model.
	Name string
	// Key is sent in X-Api-Key, unless it is empty.
	Key string
	// HTTP sends the requests; it is that of package transport.
	HTTP *http.Client
}

// Stream implements model.Model.
func (m *Model) Stream(ctx context.Context, in *model.Request) iter.Seq2[model.Event, error] {
	return func(yield func(model.Event, error) bool) {
		ctx, cancel := context.WithCancel(ctx)
		defer cancel()
		events, err := m.open(ctx, in)
		if err != nil {
			yield(model.Event{}, err)
			return
		}
		defer events.Close()
		a := &answer{yield: yield}
		for !a.ended && events.Next() {
			event := events.Current()
			if err := a.add(&event); err != nil {
				if !a.stopped {
					yield(model.Event{}, err)
				}
				return
			}
		}
		if err := m.failure(ctx, events.Err()); err != nil {
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
func (m *Model) open(ctx context.Context, in *model.Request) (*ssestream.Stream[client.MessageStreamEventUnion], error) {
	params, err := m.params(in)
	if err != nil {
		return nil, err
	}
	service := client.NewMessageService(m.options()...)
	return service.NewStreaming(ctx, *params), nil
}

// options returns all options of the client: none of them comes from the environment. Spans of the client are off, because they can
// have the text of conversations.
func (m *Model) options() []option.RequestOption {
	base := strings.TrimSuffix(strings.TrimSuffix(m.BaseURL, "/"), "/v1")
	if base == "" {
		base = DefaultBaseURL
	}
	out := []option.RequestOption{option.WithBaseURL(base), option.WithHTTPClient(m.HTTP), option.WithMaxRetries(0), option.WithoutOpenTelemetry()}
	if m.Key != "" {
		out = append(out, option.WithAPIKey(m.Key))
	}
	return out
}

// failure returns the error of a stream; nil if it has none.
func (m *Model) failure(ctx context.Context, err error) error {
	var (
		reported *client.Error
		syntax   *json.SyntaxError
		wrongly  *json.UnmarshalTypeError
	)
	switch {
	case err == nil:
		return nil
	case context.Cause(ctx) == nil && errors.As(err, &reported):
		return transport.Event([]byte(reported.RawJSON()), m.Key)
	case context.Cause(ctx) == nil && (errors.As(err, &syntax) || errors.As(err, &wrongly)):
		return transport.Malformed("an event is not the JSON of the protocol")
	}
	return transport.Failure(ctx, err)
}
