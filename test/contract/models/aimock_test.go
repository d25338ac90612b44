// Package models_test asks models of servers that Quoin's authors have not written, with the clients that agents use: the scripted
// one of the npm package @copilotkit/aimock, and llama.cpp with a small model.
package models_test

import (
	"context"
	"encoding/json"
	"errors"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/quoin-dev/quoin/internal/agent"
	"github.com/quoin-dev/quoin/internal/agent/model"
	"github.com/quoin-dev/quoin/internal/agent/model/provider"
	"github.com/quoin-dev/quoin/internal/agent/stream"
	"github.com/quoin-dev/quoin/test/internal/aimock"
)

var protocols = []provider.Protocol{provider.OpenAI, provider.Anthropic}

func newModel(t *testing.T, url string, protocol provider.Protocol, change ...func(c *provider.Config)) model.Model {
	t.Helper()
	c := provider.Config{Protocol: protocol, BaseURL: url, Model: "m", APIKey: "sk-test-of-aimock", Tries: 1}
	if protocol == provider.OpenAI {
		c.BaseURL += "/v1"
	}
	for _, f := range change {
		f(&c)
	}
	m, err := provider.New(c)
	if err != nil {
		t.Fatal(err)
	}
	return m
}

func ask(text string) *model.Request {
	return &model.Request{MaxTokens: 64, Messages: []model.Message{{Role: model.User, Text: text}}}
}

// record keeps the lines and events of a run.
type record struct {
	mu     sync.Mutex
	lines  []stream.Line
	events []string
}

// Append implements agent.Log.
func (r *record) Append(_ context.Context, line stream.Line) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.lines = append(r.lines, line)
	return nil
}

// Before implements agent.Audit.
func (r *record) Before(_ context.Context, c agent.Call) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.events = append(r.events, c.Tool+" "+string(c.Input))
	return nil
}

// After implements agent.Audit.
func (r *record) After(context.Context, agent.Call, agent.Outcome) error { return nil }

// A conversation with tools has exact turns: two parallel calls in pieces, their results, and the answer.
func TestScriptedConversation(t *testing.T) {
	server := aimock.Start(t, "testdata/fixtures.json")
	for _, protocol := range protocols {
		t.Run(string(protocol), func(t *testing.T) {
			r := &record{}
			run := func(name string) agent.Tool {
				return agent.Tool{
					Tool: model.Tool{Name: name, Description: name, Schema: json.RawMessage(`{"type":"object"}`)},
					Run: func(_ context.Context, in agent.Input) (*agent.Result, error) {
						return &agent.Result{Wire: json.RawMessage(`{"of":` + string(in.JSON) + `}`)}, nil
					},
				}
			}
			ids, before := 0, len(server.Requests(t))
			answer := agent.Run{
				Model: newModel(t, server.URL, protocol), System: "Answer from the model.", Tools: []agent.Tool{run("cubeMeta"), run("cubeSqlApi")}, Log: r, Audit: r,
				Limits: agent.Limits{Turns: 4, Calls: 8, Parallel: 1, Tokens: 1e6, Answer: 100, Rows: 10, Time: time.Minute, Context: 1 << 20},
				NewID:  func() string { ids++; return string(rune('a' + ids)) },
			}
			summary, err := answer.Answer(t.Context(), []model.Message{{Role: model.User, Text: "How many orders are there?"}})
			if err != nil || summary.Turns != 2 || summary.Calls != 2 {
				t.Fatalf("%v: %+v", err, summary)
			}
			if diff := cmp.Diff([]string{`cubeMeta {"searchQuery":"orders"}`, `cubeSqlApi {"sqlQuery":"SELECT MEASURE(count) FROM orders"}`}, r.events); diff != "" {
				t.Error(diff)
			}
			messages := stream.Messages{}
			for i := range r.lines {
				r.lines[i].Sort = int64(i + 1)
				messages.Add(&r.lines[i])
			}
			if text, ok := messages.Answer(); !ok || text != "There are twelve orders." {
				t.Errorf("the answer is %q", text)
			}
			requests := server.Requests(t)[before:]
			if len(requests) != 2 {
				t.Fatalf("%d requests", len(requests))
			}
			text, err := json.Marshal(requests[1].Body)
			if err != nil || !strings.Contains(string(text), "call_meta") || !strings.Contains(string(text), "call_sql") || !strings.Contains(string(text), "SELECT MEASURE(count)") {
				t.Errorf("the second request has not the calls and their results: %s", text)
			}
		})
	}
}

func TestScriptedThinking(t *testing.T) {
	server := aimock.Start(t, "testdata/fixtures.json")
	for _, protocol := range protocols {
		reply, err := model.Collect(newModel(t, server.URL, protocol).Stream(t.Context(), ask("Think first")))
		if err != nil || reply.Message.Text != "Done." || len(reply.Message.Thinking) != 1 || reply.Message.Thinking[0].Text != "First this, then that." || reply.Stop != model.StopEnd {
			t.Errorf("%s: %v %+v", protocol, err, reply)
		}
	}
}

func TestScriptedFailures(t *testing.T) {
	server := aimock.Start(t, "testdata/fixtures.json")
	for _, protocol := range protocols {
		for text, want := range map[string]model.Error{
			"Refuse the key": {Kind: model.KeyRejected, Status: 401},
			"Too long":       {Kind: model.TooLong, Status: 400},
			"Overloaded":     {Kind: model.Unavailable, Status: 529},
			"Limit me":       {Kind: model.RateLimited, Status: 429, RetryAfter: time.Second},
			"Drop me":        {Kind: model.Unavailable, Status: 500},
			"Garble":         {Kind: model.Malformed},
			"Disconnect":     {Kind: model.Unavailable},
			"Break off":      {Kind: model.Unavailable},
		} {
			_, err := model.Collect(newModel(t, server.URL, protocol).Stream(t.Context(), ask(text)))
			got := &model.Error{}
			if !errors.As(err, &got) || strings.Contains(got.Message, "sk-test-of-aimock") {
				t.Errorf("%s, %s: %T %v", protocol, text, err, err)
				continue
			}
			want.Message = got.Message
			if diff := cmp.Diff(&want, got); diff != "" {
				t.Errorf("%s, %s: %s", protocol, text, diff)
			}
		}
	}
}

// A rate limit is waited for, and the request is repeated.
func TestScriptedRetry(t *testing.T) {
	server := aimock.Start(t, "testdata/fixtures.json")
	for _, protocol := range protocols {
		before := len(server.Requests(t))
		_, err := model.Collect(newModel(t, server.URL, protocol, func(c *provider.Config) { c.Tries = 2 }).Stream(t.Context(), ask("Limit me")))
		if got := (*model.Error)(nil); !errors.As(err, &got) || got.Kind != model.RateLimited || len(server.Requests(t)) != before+2 {
			t.Errorf("%s: %v after %d requests", protocol, err, len(server.Requests(t))-before)
		}
	}
}

// An answer that is aborted between two pieces keeps the first ones.
func TestScriptedAbort(t *testing.T) {
	server := aimock.Start(t, "testdata/fixtures.json")
	aborted := errors.New("aborted")
	for _, protocol := range protocols {
		ctx, cancel := context.WithCancelCause(t.Context())
		received := &model.Collector{}
		var failed error
		for e, err := range newModel(t, server.URL, protocol).Stream(ctx, ask("Slowly")) {
			if received.Add(e); e.Text != "" {
				cancel(aborted)
			}
			failed = err
		}
		cancel(nil)
		if text := received.Reply().Message.Text; !errors.Is(failed, aborted) || !strings.HasPrefix("This answer takes", text) || text == "" {
			t.Errorf("%s: %v after %q", protocol, failed, text)
		}
	}
}
