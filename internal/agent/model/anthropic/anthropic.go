// Package anthropic asks models of servers that speak the messages protocol of Anthropic, through the official client.
//
//	anthropic.go   a request and its stream
//	request.go     the parameters of a request
//	event.go       what is read of an event
//	answer.go      events of the protocol as those of package model
//
// Source: https://docs.anthropic.com/en/api/messages-streaming.
package anthropic

import (
	"bytes"
	"context"
	"io"
	"iter"
	"net/http"
	"strings"

	client "github.com/anthropics/anthropic-sdk-go"
	"github.com/anthropics/anthropic-sdk-go/option"

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
	return transport.Stream(ctx, func(ctx context.Context, send transport.Send) error {
		a := &answer{send: send}
		if err := m.receive(ctx, in, a); err != nil {
			return err
		}
		return a.end()
	})
}

// receive sends a request and adds the events of the answer.
func (m *Model) receive(ctx context.Context, in *model.Request, a *answer) error {
	body, err := m.open(ctx, in)
	if err != nil {
		return err
	}
	defer body.Close()
	events := transport.NewEvents(body)
	next := &event{}
	for !a.ended && events.Next() {
		data := events.Data()
		if len(bytes.TrimSpace(data)) == 0 {
			continue
		}
		if err := next.decode(data); err != nil {
			return transport.Malformed("an event is not the JSON of the protocol")
		}
		if next.Type == "error" {
			return transport.Event(data, m.Key)
		}
		if err := a.add(next); err != nil {
			return err
		}
	}
	if err := events.Err(); err != nil && !a.ended {
		return transport.Failure(ctx, err)
	}
	return nil
}

// open sends a request, and returns the body of the response. It is a function of its own because the parameters are large, and a
// stack with them would be kept while the answer is received.
func (m *Model) open(ctx context.Context, in *model.Request) (io.ReadCloser, error) {
	params, err := m.params(in)
	if err != nil {
		return nil, err
	}
	var response *http.Response
	if err := (&client.Client{Options: m.options()}).Post(ctx, "v1/messages", params, &response, option.WithJSONSet("stream", true)); err != nil {
		return nil, transport.Failure(ctx, err)
	}
	return response.Body, nil
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
