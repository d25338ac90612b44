package model

import (
	"context"
	"encoding/json"
	"errors"
	"iter"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

// scripted answers each request with the next of its answers.
type scripted struct {
	requests []*Request
	answers  []answer
}

type answer struct {
	events []Event
	err    error
}

func (s *scripted) Stream(_ context.Context, in *Request) iter.Seq2[Event, error] {
	a := s.answers[len(s.requests)]
	s.requests = append(s.requests, in)
	return func(yield func(Event, error) bool) {
		for _, e := range a.events {
			if !yield(e, nil) {
				return
			}
		}
		if a.err != nil {
			yield(Event{}, a.err)
		}
	}
}

func TestCollect(t *testing.T) {
	call := ToolCall{ID: "c", Name: "query", Input: json.RawMessage(`{}`)}
	m := &scripted{answers: []answer{{events: []Event{
		{Thinking: "a"}, {Thinking: "b"}, {Signature: "s"}, {Thinking: "c"}, {Text: "x"}, {Text: "y"}, {ToolCall: &call}, {Usage: &Usage{3, 1, 2}, Stop: StopTools},
	}, err: errors.New("late")}}}
	got, err := Collect(m.Stream(t.Context(), &Request{}))
	want := &Reply{
		Message: Message{Role: Assistant, Text: "xy", Thinking: []Thought{{"ab", "s"}, {Text: "c"}}, Calls: []ToolCall{call}},
		Usage:   Usage{3, 1, 2}, Stop: StopTools,
	}
	if diff := cmp.Diff(want, got); diff != "" || err == nil || err.Error() != "late" {
		t.Errorf("%v: %s", err, diff)
	}
	if got := (Usage{1, 2, 3}).Add(Usage{10, 20, 30}); got != (Usage{11, 22, 33}) {
		t.Errorf("the sum is %+v", got)
	}
}

func TestParseInput(t *testing.T) {
	for text, want := range map[string]struct {
		input string
		valid bool
	}{
		"": {"{}", true}, " \n": {"{}", true}, ` {"a": 1} `: {`{"a": 1}`, true}, "{": {"{}", false}, "[]": {"{}", false}, "null": {"{}", false}, `"a"`: {"{}", false},
	} {
		if input, invalid := ParseInput([]byte(text)); string(input) != want.input || (invalid == "") != want.valid {
			t.Errorf("%q: %s, %q", text, input, invalid)
		}
	}
}

func TestRetry(t *testing.T) {
	limited, rejected := &Error{Kind: RateLimited, Message: "limited", RetryAfter: 3 * time.Second}, &Error{Kind: KeyRejected, Message: "key"}
	down, patient := &Error{Kind: Unavailable, Message: "down"}, &Error{Kind: RateLimited, Message: "tomorrow", RetryAfter: time.Hour}
	done := answer{events: []Event{{Text: "x"}, {Stop: StopEnd}}}
	for name, c := range map[string]struct {
		answers  []answer
		requests int
		err      error
		text     string
	}{
		"no failure":                 {[]answer{done}, 1, nil, "x"},
		"failures before an answer":  {[]answer{{err: down}, {err: limited}, done}, 3, nil, "x"},
		"too many failures":          {[]answer{{err: down}, {err: down}, {err: down}, done}, 3, down, ""},
		"a failure that stays":       {[]answer{{err: rejected}, done}, 1, rejected, ""},
		"a failure after an event":   {[]answer{{events: []Event{{Text: "a"}}, err: down}, done}, 1, down, "a"},
		"a pause that is too long":   {[]answer{{err: patient}, done}, 1, patient, ""},
		"an error of something else": {[]answer{{err: context.Canceled}, done}, 1, context.Canceled, ""},
	} {
		t.Run(name, func(t *testing.T) {
			m := &scripted{answers: c.answers}
			var pauses []time.Duration
			r := &Retry{Model: m, Tries: 3, Pause: time.Second, MaxPause: 10 * time.Second, Sleep: func(_ context.Context, d time.Duration) error {
				pauses = append(pauses, d)
				return nil
			}}
			got, err := Collect(r.Stream(t.Context(), &Request{}))
			if !errors.Is(err, c.err) || got.Message.Text != c.text || len(m.requests) != c.requests || len(pauses) != c.requests-1 {
				t.Errorf("%d requests, pauses %v, text %q: %v", len(m.requests), pauses, got.Message.Text, err)
			}
			for i, p := range pauses {
				if p < 500*time.Millisecond<<i || p > 10*time.Second {
					t.Errorf("pause %d is %s", i, p)
				}
			}
			if c.requests == 3 && c.err == nil && pauses[1] < 3*time.Second {
				t.Errorf("the provider asks for %s, the pause is %s", limited.RetryAfter, pauses[1])
			}
		})
	}
}

// TestRetryEnds: ending the iteration or the context ends the retries.
func TestRetryEnds(t *testing.T) {
	m := &scripted{answers: []answer{{events: []Event{{Text: "a"}, {Text: "b"}}}}}
	for e := range (&Retry{Model: m, Tries: 3}).Stream(t.Context(), &Request{}) {
		if e.Text == "a" {
			break
		}
	}
	ctx, cancel := context.WithCancelCause(t.Context())
	aborted := errors.New("aborted")
	cancel(aborted)
	m = &scripted{answers: []answer{{err: &Error{Kind: Unavailable}}}}
	if _, err := Collect((&Retry{Model: m, Tries: 3, Pause: time.Hour, MaxPause: time.Hour}).Stream(ctx, &Request{})); !errors.Is(err, aborted) {
		t.Errorf("got %v", err)
	}
}

var query = Tool{Name: "query", Description: "Runs a query.", Schema: json.RawMessage(`{"type":"object","properties":{"sql":{"type":"string"}}}`)}

func TestByText(t *testing.T) {
	for text, want := range map[string][]Event{
		`{"tool":"query","input":{"sql":"SELECT 1 < 2"}}`: {{ToolCall: &ToolCall{ID: "call_0", Name: "query", Input: json.RawMessage(`{"sql":"SELECT 1 < 2"}`)}}, {Stop: StopTools}},
		"```json\n{\"tool\":\"query\",\"input\":{}}\n```": {{ToolCall: &ToolCall{ID: "call_0", Name: "query", Input: json.RawMessage(`{}`)}}, {Stop: StopTools}},
		`{"tool":"query","input":[]}`:                     {{ToolCall: &ToolCall{ID: "call_0", Name: "query", Input: json.RawMessage(`{}`), Invalid: "the input is not a JSON object"}}, {Stop: StopTools}},
		`{"tool":"answer","answer":"Twelve."}`:            {{Text: "Twelve."}, {Stop: StopEnd}},
		`{"tool":"answer","answer":""}`:                   {{Stop: StopEnd}},
		`{"tool":"drop","input":{}}`:                      {{Text: `{"tool":"drop","input":{}}`}, {Stop: StopEnd}},
		"Twelve.":                                         {{Text: "Twelve."}, {Stop: StopEnd}},
	} {
		m := &scripted{answers: []answer{{events: []Event{{Thinking: "hm"}, {Text: text[:3]}, {Text: text[3:]}, {Stop: StopEnd, Usage: &Usage{Input: 5}}}}}}
		var got []Event
		for e, err := range (&ByText{m}).Stream(t.Context(), &Request{Tools: []Tool{query}}) {
			if err != nil {
				t.Fatal(err)
			}
			got = append(got, e)
		}
		want = append([]Event{{Thinking: "hm"}}, want...)
		want[len(want)-1].Usage = &Usage{Input: 5}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("%s: %s", text, diff)
		}
	}
}

// A document that is not complete is no answer: its text is not shown.
func TestByTextBroken(t *testing.T) {
	for stop, kind := range map[Stop]Kind{StopLength: "", StopEnd: Malformed} {
		m := &scripted{answers: []answer{{events: []Event{{Text: `{"tool":"answer","answer":"Twe`}, {Stop: stop}}}}}
		reply, err := Collect((&ByText{m}).Stream(t.Context(), &Request{Tools: []Tool{query}}))
		var failed *Error
		if reply.Message.Text != "" || (err != nil) != (kind != "") || err != nil && (!errors.As(err, &failed) || failed.Kind != kind) || err == nil && reply.Stop != StopLength {
			t.Errorf("%s: %+v, %v", stop, reply.Message, err)
		}
	}
}

func TestByTextRequest(t *testing.T) {
	m := &scripted{answers: []answer{{}, {}}}
	in := &Request{System: "You are an agent.", Tools: []Tool{query}, Messages: []Message{
		{Role: User, Text: "How many?"},
		{Role: Assistant, Text: "Let me look.", Calls: []ToolCall{{ID: "c", Name: "query", Input: json.RawMessage(`{"sql":"a < b"}`)}}},
		{Role: User, Results: []ToolResult{{CallID: "c", Text: "12"}}},
		{Role: Assistant, Text: "Twelve."},
	}}
	if _, err := Collect((&ByText{m}).Stream(t.Context(), in)); err != nil {
		t.Fatal(err)
	}
	got := m.requests[0]
	if len(got.Tools) != 0 || !strings.HasPrefix(got.System, in.System) || !strings.Contains(got.System, "query: Runs a query.") || !json.Valid(got.Schema) || !strings.Contains(string(got.Schema), `"const":"query"`) {
		t.Errorf("the request is %+v", got)
	}
	want := []Message{
		{Role: User, Text: "How many?"},
		{Role: Assistant, Text: "{\"input\":{\"sql\":\"a < b\"},\"tool\":\"query\"}\n\nLet me look."},
		{Role: User, Text: "Result of the tool:\n12"},
		{Role: Assistant, Text: `{"answer":"Twelve.","tool":"answer"}`},
	}
	if diff := cmp.Diff(want, got.Messages); diff != "" {
		t.Error(diff)
	}
	if len(in.Messages[2].Results) != 1 || len(in.Tools) != 1 {
		t.Error("the request of the caller has changed")
	}
	// Without tools the request is sent as it is.
	plain := &Request{System: "s"}
	if _, err := Collect((&ByText{m}).Stream(t.Context(), plain)); err != nil || !slices.Contains(m.requests, plain) {
		t.Errorf("%v", err)
	}
	if _, err := Collect((&ByText{m}).Stream(t.Context(), &Request{Tools: []Tool{{Name: "t", Schema: json.RawMessage("{")}}})); err == nil {
		t.Error("a schema that is not JSON is accepted")
	}
}

func TestValidUsage(t *testing.T) {
	for name, tc := range map[string]struct{ sent, want Usage }{
		"as documented":                   {Usage{10, 4, 2}, Usage{10, 4, 2}},
		"all of it cached":                {Usage{10, 10, 2}, Usage{10, 10, 2}},
		"cached tokens beside the input":  {Usage{10, 500, 2}, Usage{510, 500, 2}},
		"negative numbers":                {Usage{-10, -4, -2}, Usage{}},
		"numbers whose sums can overflow": {Usage{1 << 62, 1, 1 << 62}, Usage{maxTokens, 1, maxTokens}},
	} {
		if got := tc.sent.Valid(); got != tc.want {
			t.Errorf("%s: %v, want %v", name, got, tc.want)
		}
	}
}
