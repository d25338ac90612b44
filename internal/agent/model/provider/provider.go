// Package provider returns the model of a configuration: the client of its protocol, with retries, limits, and the mode of its tool
// calls.
package provider

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"net/http"
	"net/url"
	"strings"
	"time"

	"github.com/quoin-dev/quoin/internal/agent/model"
	"github.com/quoin-dev/quoin/internal/agent/model/anthropic"
	"github.com/quoin-dev/quoin/internal/agent/model/openai"
	"github.com/quoin-dev/quoin/internal/agent/model/transport"
	"github.com/quoin-dev/quoin/internal/turns"
)

// Protocol is what a server speaks. The values are those of the kind ModelEndpoint.
type Protocol string

// The protocols.
const (
	OpenAI    Protocol = "OpenAI"
	Anthropic Protocol = "Anthropic"
)

// ToolCalls is how a model calls tools. The values are those of the kind ModelEndpoint.
type ToolCalls string

// The modes.
const (
	// Native calls are those of the protocol.
	Native ToolCalls = "Native"
	// Text calls are JSON text of a schema, for servers whose tool choice is unreliable.
	Text ToolCalls = "Text"
)

// Config configures a model.
type Config struct {
	Protocol Protocol
	// BaseURL is that of the service of the protocol if it is empty.
	BaseURL string
	// Model is the name of the model.
	Model string
	// APIKey is empty for servers that need none.
	APIKey string
	// CA has certificate authorities in PEM, which are trusted instead of those of the system.
	CA []byte
	// ToolCalls is Native if it is empty.
	ToolCalls ToolCalls
	// MaxConcurrent is the number of requests at a time, for which others wait, in turns between accounts; 0 for no limit.
	MaxConcurrent int
	// Timeout limits a request with its whole answer; 0 for no limit.
	Timeout time.Duration
	// Tries is the maximum number of requests if the first one fails before its first event; 3 if it is 0.
	Tries int
	// Transport sends the requests, for tests; nil for connections.
	Transport http.RoundTripper
}

const (
	// defaultTries, pause and maxPause are those of model.Retry.
	defaultTries = 3
	pause        = 500 * time.Millisecond
	maxPause     = 10 * time.Second
)

// New returns a model, which is used for all requests with this configuration. Errors name the field, and have no secret.
func New(c Config) (model.Model, error) {
	c.APIKey = strings.TrimSpace(c.APIKey)
	if err := c.validate(); err != nil {
		return nil, err
	}
	client, err := transport.New(transport.Options{CA: c.CA, Key: c.APIKey, Base: c.Transport})
	if err != nil {
		return nil, fmt.Errorf("ca: %w", err)
	}
	var out model.Model
	if c.Protocol == Anthropic {
		out = &anthropic.Model{BaseURL: c.BaseURL, Name: c.Model, Key: c.APIKey, HTTP: client}
	} else {
		out = &openai.Model{BaseURL: c.BaseURL, Name: c.Model, Key: c.APIKey, HTTP: client}
	}
	b := &bounded{Model: out, timeout: c.Timeout}
	if c.MaxConcurrent > 0 {
		b.places = turns.NewPlaces[string](c.MaxConcurrent, c.MaxConcurrent)
	}
	if c.Tries == 0 {
		c.Tries = defaultTries
	}
	out = &model.Retry{Model: b, Tries: c.Tries, Pause: pause, MaxPause: maxPause}
	if c.ToolCalls == Text {
		out = &model.ByText{Model: out}
	}
	return out, nil
}

func (c *Config) validate() error {
	switch {
	case c.Protocol != OpenAI && c.Protocol != Anthropic:
		return fmt.Errorf("protocol: %q; allowed: %s, %s", c.Protocol, OpenAI, Anthropic)
	case c.ToolCalls != "" && c.ToolCalls != Native && c.ToolCalls != Text:
		return fmt.Errorf("toolCalls: %q; allowed: %s, %s", c.ToolCalls, Native, Text)
	case c.Model == "":
		return errors.New("model: a name is required")
	case strings.ContainsFunc(c.APIKey, func(r rune) bool { return r <= ' ' || r > '~' }):
		return errors.New("the API key has characters that an HTTP header cannot have")
	case c.MaxConcurrent < 0, c.Timeout < 0, c.Tries < 0:
		return errors.New("limits must not be negative")
	case c.BaseURL == "":
		return nil
	}
	u, err := url.Parse(c.BaseURL)
	if err != nil || u.Scheme != "https" && u.Scheme != "http" || u.Host == "" || u.User != nil || u.RawQuery != "" || u.Fragment != "" {
		return errors.New("baseURL: expected https://host/path or http://host/path, without user, query and fragment")
	}
	return nil
}

// bounded limits the duration and the number of requests.
type bounded struct {
	model.Model
	timeout time.Duration
	// places are those of the requests in progress; nil for no limit.
	places *turns.Places[string]
}

// Stream implements model.Model. The time that a request waits for others counts.
func (b *bounded) Stream(ctx context.Context, in *model.Request) iter.Seq2[model.Event, error] {
	return func(yield func(model.Event, error) bool) { b.stream(ctx, in, yield) }
}

func (b *bounded) stream(ctx context.Context, in *model.Request, yield func(model.Event, error) bool) {
	if b.timeout > 0 {
		late := &model.Error{Kind: model.Unavailable, Message: fmt.Sprintf("the model has not answered within %s", b.timeout)}
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeoutCause(ctx, b.timeout, late)
		defer cancel()
	}
	if b.places != nil {
		release, err := b.places.Acquire(ctx, turns.Account(ctx))
		if err != nil {
			yield(model.Event{}, context.Cause(ctx))
			return
		}
		defer release()
	}
	for e, err := range b.Model.Stream(ctx, in) {
		if !yield(e, err) || err != nil {
			return
		}
	}
}
