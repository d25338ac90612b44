package provider

import (
	"context"
	"encoding/json"
	"encoding/pem"
	"errors"
	"fmt"
	"io"
	"iter"
	"log"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/quoin-dev/quoin/internal/agent/model"
	"github.com/quoin-dev/quoin/internal/turns"
)

const key = "sk-secret-of-the-test"

// paths are those of the requests of the protocols.
var paths = map[Protocol]string{OpenAI: "/v1/chat/completions", Anthropic: "/v1/messages"}

// server answers as a provider does.
type server struct {
	*httptest.Server
	mu       sync.Mutex
	requests []map[string]any
	headers  []http.Header
}

func serve(t *testing.T, protocol Protocol, answer http.HandlerFunc) *server {
	t.Helper()
	s := &server{}
	s.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body := map[string]any{}
		if err := json.NewDecoder(r.Body).Decode(&body); err != nil || r.URL.Path != paths[protocol] || r.Method != http.MethodPost {
			t.Errorf("%s %s: %v", r.Method, r.URL, err)
		}
		s.mu.Lock()
		s.requests, s.headers = append(s.requests, body), append(s.headers, r.Header)
		s.mu.Unlock()
		answer(w, r)
	}))
	t.Cleanup(s.Close)
	return s
}

func (s *server) config(protocol Protocol) Config {
	return Config{Protocol: protocol, BaseURL: s.URL + "/v1", Model: "m", APIKey: key, Tries: 1}
}

func newModel(t *testing.T, c Config) model.Model {
	t.Helper()
	m, err := New(c)
	if err != nil {
		t.Fatal(err)
	}
	return m
}

// recorded returns a recorded stream of a protocol.
func recorded(t testing.TB, protocol Protocol, name string) []byte {
	t.Helper()
	text, err := os.ReadFile(filepath.Join("testdata", strings.ToLower(string(protocol))+"-"+name+".sse"))
	if err != nil {
		t.Fatal(err)
	}
	return text
}

func streams(text []byte) http.HandlerFunc {
	return func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "text/event-stream; charset=utf-8")
		_, _ = w.Write(text)
	}
}

// both runs a test for both protocols.
func both(t *testing.T, test func(t *testing.T, protocol Protocol)) {
	for protocol := range paths {
		t.Run(string(protocol), func(t *testing.T) { test(t, protocol) })
	}
}

func TestAnswer(t *testing.T) {
	both(t, func(t *testing.T, protocol Protocol) {
		s := serve(t, protocol, streams(recorded(t, protocol, "text")))
		var texts, thoughts []string
		collector := &model.Collector{}
		for e, err := range newModel(t, s.config(protocol)).Stream(t.Context(), question()) {
			if err != nil {
				t.Fatal(err)
			}
			if e.Text != "" {
				texts = append(texts, e.Text)
			}
			if e.Thinking != "" {
				thoughts = append(thoughts, e.Thinking)
			}
			collector.Add(e)
		}
		if diff := cmp.Diff([]string{"Twelve ", "orders."}, texts); diff != "" {
			t.Error(diff)
		}
		if diff := cmp.Diff([]string{"Count ", "them."}, thoughts); diff != "" {
			t.Error(diff)
		}
		want := &model.Reply{
			Message: model.Message{Role: model.Assistant, Text: "Twelve orders.", Thinking: []model.Thought{{Text: "Count them."}}},
			Usage:   model.Usage{Input: 30, CachedInput: 20, Output: 7}, Stop: model.StopEnd,
		}
		if protocol == Anthropic {
			want.Message.Thinking = []model.Thought{{Text: "Count them.", Signature: "c2ln"}, {Signature: "redacted:ZW5j"}}
		}
		if diff := cmp.Diff(want, collector.Reply()); diff != "" {
			t.Error(diff)
		}
	})
}

func TestToolCallsInPieces(t *testing.T) {
	both(t, func(t *testing.T, protocol Protocol) {
		s := serve(t, protocol, streams(recorded(t, protocol, "tools")))
		reply, err := model.Collect(newModel(t, s.config(protocol)).Stream(t.Context(), question()))
		want := &model.Reply{
			Message: model.Message{Role: model.Assistant, Text: "I look.", Calls: []model.ToolCall{
				{ID: "call_a", Name: "cubeMeta", Input: json.RawMessage(`{"searchQuery":"orders"}`)},
				{ID: "call_b", Name: "skills", Input: json.RawMessage(`{}`), Invalid: "the input is not a JSON object"},
			}},
			Usage: model.Usage{Input: 30, Output: 7}, Stop: model.StopTools,
		}
		if diff := cmp.Diff(want, reply); err != nil || diff != "" {
			t.Error(err, diff)
		}
	})
}

// question is a request with everything that requests can have.
func question() *model.Request {
	return &model.Request{
		System: "Be brief.", MaxTokens: 500, Thinking: 2000,
		Tools: []model.Tool{{Name: "cubeMeta", Description: "Finds members.", Schema: json.RawMessage(`{"type":"object","properties":{"searchQuery":{"type":"string"}},"additionalProperties":false}`)}},
		Messages: []model.Message{
			{Role: model.User, Text: "How many?", Images: []model.Image{{MimeType: "image/png", Data: "aW1n"}}},
			{
				Role: model.Assistant, Text: "I look.", Thinking: []model.Thought{{Text: "t", Signature: "c2ln"}, {Signature: "redacted:ZW5j"}, {Text: "unsigned"}},
				Calls: []model.ToolCall{{ID: "a", Name: "cubeMeta", Input: json.RawMessage(`{"searchQuery":"x"}`)}, {ID: "b", Name: "cubeMeta", Input: json.RawMessage(`{}`)}},
			},
			{Role: model.User, Results: []model.ToolResult{{CallID: "a", Text: "none"}, {CallID: "b", Text: "refused", Failed: true}}},
			{Role: model.User},
		},
	}
}

func TestRequest(t *testing.T) {
	want := map[Protocol]string{
		OpenAI: `{"model":"m","stream":true,"stream_options":{"include_usage":true},"max_tokens":500,"reasoning_effort":"low",
			"tools":[{"type":"function","function":{"name":"cubeMeta","description":"Finds members.","parameters":{"type":"object","properties":{"searchQuery":{"type":"string"}},"additionalProperties":false}}}],
			"messages":[{"role":"system","content":"Be brief."},
			{"role":"user","content":[{"type":"text","text":"How many?"},{"type":"image_url","image_url":{"url":"data:image/png;base64,aW1n"}}]},
			{"role":"assistant","content":"I look.","tool_calls":[{"id":"a","type":"function","function":{"name":"cubeMeta","arguments":"{\"searchQuery\":\"x\"}"}},{"id":"b","type":"function","function":{"name":"cubeMeta","arguments":"{}"}}]},
			{"role":"tool","tool_call_id":"a","content":"none"},{"role":"tool","tool_call_id":"b","content":"refused"},{"role":"user","content":""}]}`,
		Anthropic: `{"model":"m","stream":true,"max_tokens":2500,"thinking":{"type":"enabled","budget_tokens":2000},
			"system":[{"type":"text","text":"Be brief.","cache_control":{"type":"ephemeral"}}],
			"tools":[{"name":"cubeMeta","description":"Finds members.","input_schema":{"type":"object","properties":{"searchQuery":{"type":"string"}},"additionalProperties":false}}],
			"messages":[{"role":"user","content":[{"type":"image","source":{"type":"base64","media_type":"image/png","data":"aW1n"}},{"type":"text","text":"How many?"}]},
			{"role":"assistant","content":[{"type":"thinking","thinking":"t","signature":"c2ln"},{"type":"redacted_thinking","data":"ZW5j"},{"type":"text","text":"I look."},
				{"type":"tool_use","id":"a","name":"cubeMeta","input":{"searchQuery":"x"}},{"type":"tool_use","id":"b","name":"cubeMeta","input":{}}]},
			{"role":"user","content":[{"type":"tool_result","tool_use_id":"a","is_error":false,"content":[{"type":"text","text":"none"}]},
				{"type":"tool_result","tool_use_id":"b","is_error":true,"content":[{"type":"text","text":"refused"}],"cache_control":{"type":"ephemeral"}}]}]}`,
	}
	t.Setenv("OPENAI_API_KEY", "of the environment")
	t.Setenv("OPENAI_ORG_ID", "of the environment")
	t.Setenv("ANTHROPIC_API_KEY", "of the environment")
	t.Setenv("ANTHROPIC_AUTH_TOKEN", "of the environment")
	both(t, func(t *testing.T, protocol Protocol) {
		s := serve(t, protocol, streams(recorded(t, protocol, "text")))
		if _, err := model.Collect(newModel(t, s.config(protocol)).Stream(t.Context(), question())); err != nil {
			t.Fatal(err)
		}
		expected := map[string]any{}
		if err := json.Unmarshal([]byte(want[protocol]), &expected); err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(expected, s.requests[0]); diff != "" {
			t.Error(diff)
		}
		h := s.headers[0]
		if got, want := h.Get("Authorization")+h.Get("X-Api-Key"), map[Protocol]string{OpenAI: "Bearer " + key, Anthropic: key}[protocol]; got != want {
			t.Errorf("the key is sent as %q, want %q", got, want)
		}
		if strings.Contains(fmt.Sprint(h), "of the environment") {
			t.Error("a header comes from the environment")
		}
	})
}

// A server without a key gets no key, also not one of the environment.
func TestNoKey(t *testing.T) {
	t.Setenv("OPENAI_API_KEY", "of the environment")
	t.Setenv("ANTHROPIC_API_KEY", "of the environment")
	both(t, func(t *testing.T, protocol Protocol) {
		s := serve(t, protocol, streams(recorded(t, protocol, "text")))
		c := s.config(protocol)
		c.APIKey = " \n"
		if _, err := model.Collect(newModel(t, c).Stream(t.Context(), question())); err != nil {
			t.Fatal(err)
		}
		if h := s.headers[0]; h.Get("Authorization")+h.Get("X-Api-Key") != "" {
			t.Error(h)
		}
	})
}

// A model whose tool choice is unreliable answers with JSON text of a schema.
func TestByText(t *testing.T) {
	both(t, func(t *testing.T, protocol Protocol) {
		answer := recorded(t, protocol, "text")
		answer = []byte(strings.NewReplacer("Twelve ", `{\"tool\":\"cubeMeta\",`, "orders.", `\"input\":{\"searchQuery\":\"x\"}}`).Replace(string(answer)))
		s := serve(t, protocol, streams(answer))
		c := s.config(protocol)
		c.ToolCalls = Text
		reply, err := model.Collect(newModel(t, c).Stream(t.Context(), question()))
		if err != nil || len(reply.Message.Calls) != 1 || string(reply.Message.Calls[0].Input) != `{"searchQuery":"x"}` || reply.Stop != model.StopTools {
			t.Errorf("%v: %+v", err, reply)
		}
		r := s.requests[0]
		if r["tools"] != nil || r["response_format"] == nil && r["output_config"] == nil {
			t.Errorf("%v", r)
		}
	})
}

// fail answers with a status, a header field and a body.
func fail(status int, header, body string) http.HandlerFunc {
	return func(w http.ResponseWriter, _ *http.Request) {
		if name, value, ok := strings.Cut(header, ": "); ok {
			w.Header().Set(name, value)
		}
		w.WriteHeader(status)
		_, _ = io.WriteString(w, body)
	}
}

func TestFailures(t *testing.T) {
	for name, c := range map[string]struct {
		answer http.HandlerFunc
		want   model.Error
		// says is a part of the message.
		says string
	}{
		"refused key": {
			fail(401, "", `{"error":{"message":"Incorrect API key provided: `+key+`","type":"invalid_request_error","code":"invalid_api_key"}}`),
			model.Error{Kind: model.KeyRejected, Status: 401}, "does not accept the key",
		},
		"no permission":      {fail(403, "", `{"type":"error","error":{"type":"permission_error","message":"no"}}`), model.Error{Kind: model.KeyRejected, Status: 403}, ""},
		"rate limit":         {fail(429, "Retry-After: 7", `{"type":"error","error":{"type":"rate_limit_error","message":"slow down"}}`), model.Error{Kind: model.RateLimited, Status: 429, RetryAfter: 7 * time.Second}, ""},
		"rate limit by date": {fail(429, "Retry-After: Mon, 02 Jan 2006 15:04:05 GMT", `{}`), model.Error{Kind: model.RateLimited, Status: 429}, ""},
		"rate limit in ms":   {fail(429, "Retry-After-Ms: 250", ``), model.Error{Kind: model.RateLimited, Status: 429, RetryAfter: 250 * time.Millisecond}, ""},
		"absurd rate limit":  {fail(429, "Retry-After: 1e300", ``), model.Error{Kind: model.RateLimited, Status: 429, RetryAfter: 24 * time.Hour}, ""},
		"negative wait":      {fail(429, "Retry-After: -5", ``), model.Error{Kind: model.RateLimited, Status: 429}, ""},
		"no budget":          {fail(429, "", `{"error":{"message":"You exceeded your current quota","type":"insufficient_quota","code":"insufficient_quota"}}`), model.Error{Kind: model.RateLimited, Status: 429}, ""},
		"overloaded":         {fail(529, "", `{"type":"error","error":{"type":"overloaded_error","message":"Overloaded"}}`), model.Error{Kind: model.Unavailable, Status: 529}, ""},
		"loading":            {fail(503, "", `{"error":{"code":503,"message":"Loading model","type":"unavailable_error"}}`), model.Error{Kind: model.Unavailable, Status: 503}, ""},
		"proxy":              {fail(502, "", `<html>Bad Gateway</html>`), model.Error{Kind: model.Unavailable, Status: 502}, ""},
		"too long, service":  {fail(400, "", `{"error":{"message":"This model's maximum context length is 8192 tokens","type":"invalid_request_error","code":"context_length_exceeded"}}`), model.Error{Kind: model.TooLong, Status: 400}, ""},
		"too long, messages": {fail(400, "", `{"type":"error","error":{"type":"invalid_request_error","message":"prompt is too long: 210000 tokens > 200000 maximum"}}`), model.Error{Kind: model.TooLong, Status: 400}, ""},
		"too long, llama":    {fail(400, "", `{"error":{"code":400,"message":"the request exceeds the available context size","type":"exceed_context_size_error","n_ctx":512}}`), model.Error{Kind: model.TooLong, Status: 400}, ""},
		"too long, proxy":    {fail(413, "", ``), model.Error{Kind: model.TooLong, Status: 413}, ""},
		"bad request":        {fail(400, "", `{"error":"the parameter x\u0000 of `+key+` is unknown"}`), model.Error{Kind: model.Rejected, Status: 400}, "the parameter x  of … is unknown"},
		"no model":           {fail(404, "", `{"object":"error","message":"The model m does not exist"}`), model.Error{Kind: model.Rejected, Status: 404}, "does not exist"},
		"redirect":           {fail(307, "Location: http://127.0.0.1:1/", ``), model.Error{Kind: model.Rejected, Status: 307}, "base URL"},
		"a page":             {fail(200, "Content-Type: text/html", `<html>Sign in</html>`), model.Error{Kind: model.Malformed}, "text/html"},
		"failure in a 200":   {fail(200, "Content-Type: application/json", `{"error":{"message":"no","type":"overloaded_error"}}`), model.Error{Kind: model.Unavailable}, ""},
		"no answer": {func(w http.ResponseWriter, _ *http.Request) {
			panic(http.ErrAbortHandler)
		}, model.Error{Kind: model.Unavailable}, "connection closed"},
	} {
		t.Run(name, func(t *testing.T) {
			both(t, func(t *testing.T, protocol Protocol) {
				s := serve(t, protocol, c.answer)
				_, err := model.Collect(newModel(t, s.config(protocol)).Stream(t.Context(), question()))
				got := &model.Error{}
				if !errors.As(err, &got) {
					t.Fatalf("%T: %v", err, err)
				}
				if diff := cmp.Diff(&c.want, got, cmpopts.IgnoreFields(model.Error{}, "Message")); diff != "" || got.Message == "" || !strings.Contains(got.Message, c.says) {
					t.Errorf("%s: %s", got.Message, diff)
				}
				if strings.Contains(fmt.Sprintf("%v %+v %#v", err, err, err), key) {
					t.Error("the error has the key")
				}
				s.mu.Lock()
				defer s.mu.Unlock()
				if len(s.requests) != 1 {
					t.Errorf("%d requests", len(s.requests))
				}
			})
		})
	}
}

// What was received before a stream fails is kept, and the error says why.
func TestFailuresInStreams(t *testing.T) {
	for name, c := range map[string]struct {
		openAI, anthropic string
		// abort ends the connection within the answer.
		abort bool
		want  model.Kind
	}{
		"reported": {
			`data: {"error":{"message":"of ` + key + `","type":"server_error"}}`,
			"event: error\ndata: {\"type\":\"error\",\"error\":{\"type\":\"overloaded_error\",\"message\":\"Overloaded\"}}", false, model.Unavailable,
		},
		"reported refusal": {
			`data: {"error":{"code":400,"message":"bad grammar","type":"invalid_request_error"}}`,
			"event: error\ndata: {\"type\":\"error\",\"error\":{\"type\":\"invalid_request_error\",\"message\":\"bad grammar\"}}", false, model.Rejected,
		},
		"not JSON":      {"data: {\"choices\":[", "event: content_block_delta\ndata: {\"type\":", false, model.Malformed},
		"not an object": {"data: 7", "event: content_block_delta\ndata: 7", false, model.Malformed},
		"no end":        {": nothing more", ": nothing more", false, model.Malformed},
		"disconnected":  {"data: {\"choices\":[", "event: content_block_delta\ndata: {", true, model.Unavailable},
	} {
		t.Run(name, func(t *testing.T) {
			both(t, func(t *testing.T, protocol Protocol) {
				tail := map[Protocol]string{OpenAI: c.openAI, Anthropic: c.anthropic}[protocol]
				begin, _, _ := strings.Cut(string(recorded(t, protocol, "text")), map[Protocol]string{
					OpenAI: `data: {"id":"chatcmpl-1","object":"chat.completion.chunk","created":1795316968,"model":"m","choices":[{"index":0,"delta":{"content":"orders."}`, Anthropic: "event: content_block_delta\ndata: {\"type\":\"content_block_delta\",\"index\":2,\"delta\":{\"type\":\"text_delta\",\"text\":\"orders",
				}[protocol])
				s := serve(t, protocol, func(w http.ResponseWriter, _ *http.Request) {
					if !c.abort {
						tail += "\n\n"
					}
					streams([]byte(begin+tail))(w, nil)
					if c.abort {
						_ = http.NewResponseController(w).Flush()
						panic(http.ErrAbortHandler)
					}
				})
				reply, err := model.Collect(newModel(t, s.config(protocol)).Stream(t.Context(), question()))
				failed := &model.Error{}
				if !errors.As(err, &failed) || failed.Kind != c.want || reply.Message.Text != "Twelve " {
					t.Errorf("%T %v after %q, want %s", err, err, reply.Message.Text, c.want)
				}
				if strings.Contains(fmt.Sprintf("%#v", err), key) {
					t.Error("the error has the key")
				}
			})
		})
	}
}

func TestStopReasons(t *testing.T) {
	for reason, want := range map[string]model.Stop{
		"length max_tokens": model.StopLength, "length model_context_window_exceeded": model.StopLength, "content_filter refusal": model.StopRefused,
		"stop stop_sequence": model.StopEnd, "stop pause_turn": model.StopEnd,
	} {
		both(t, func(t *testing.T, protocol Protocol) {
			names := strings.Fields(reason)
			text := strings.NewReplacer(`"finish_reason":"stop"`, `"finish_reason":"`+names[0]+`"`, "end_turn", names[1]).Replace(string(recorded(t, protocol, "text")))
			s := serve(t, protocol, streams([]byte(text)))
			reply, err := model.Collect(newModel(t, s.config(protocol)).Stream(t.Context(), question()))
			if err != nil || reply.Stop != want {
				t.Errorf("%s: %v, %s; want %s", reason, err, reply.Stop, want)
			}
		})
	}
}

// A cancelled request ends at once, before and after its first event, and the server sees its end.
func TestCancel(t *testing.T) {
	aborted := errors.New("aborted by its user")
	for _, begun := range []bool{false, true} {
		both(t, func(t *testing.T, protocol Protocol) {
			received, ended := make(chan struct{}), make(chan struct{})
			s := serve(t, protocol, func(w http.ResponseWriter, r *http.Request) {
				defer close(ended)
				if begun {
					text, _, _ := strings.Cut(string(recorded(t, protocol, "text")), "orders.")
					streams([]byte(text[:strings.LastIndex(text, "\n\n")+2]))(w, r)
					_ = http.NewResponseController(w).Flush()
				}
				close(received)
				<-r.Context().Done()
			})
			ctx, cancel := context.WithCancelCause(t.Context())
			defer cancel(nil)
			go func() {
				<-received
				if !begun {
					cancel(aborted)
				}
			}()
			collector := &model.Collector{}
			var failed error
			for e, err := range newModel(t, s.config(protocol)).Stream(ctx, question()) {
				if collector.Add(e); e.Text != "" {
					cancel(aborted)
				}
				failed = err
			}
			if text := collector.Reply().Message.Text; !errors.Is(failed, aborted) || begun != (text == "Twelve ") {
				t.Errorf("%v after %q", failed, text)
			}
			<-ended
		})
	}
}

// A caller that wants no more events ends the request.
func TestBreak(t *testing.T) {
	both(t, func(t *testing.T, protocol Protocol) {
		ended := make(chan struct{})
		s := serve(t, protocol, func(w http.ResponseWriter, r *http.Request) {
			defer close(ended)
			streams(recorded(t, protocol, "tools")[:900])(w, r)
			_ = http.NewResponseController(w).Flush()
			<-r.Context().Done()
		})
		for range newModel(t, s.config(protocol)).Stream(t.Context(), question()) {
			break
		}
		<-ended
	})
}

func TestTimeout(t *testing.T) {
	both(t, func(t *testing.T, protocol Protocol) {
		s := serve(t, protocol, func(_ http.ResponseWriter, r *http.Request) { <-r.Context().Done() })
		c := s.config(protocol)
		c.Timeout = 100 * time.Millisecond // the server receives the whole request before
		_, err := model.Collect(newModel(t, c).Stream(t.Context(), question()))
		failed := &model.Error{}
		if !errors.As(err, &failed) || failed.Kind != model.Unavailable || !strings.Contains(failed.Message, " 100ms") {
			t.Error(err)
		}
	})
}

// An answer has a maximum length, in total and in one event.
func TestLargeAnswers(t *testing.T) {
	both(t, func(t *testing.T, protocol Protocol) {
		for _, end := range []string{"\n\n", ""} {
			s := serve(t, protocol, func(w http.ResponseWriter, _ *http.Request) {
				streams([]byte(": comment\n"))(w, nil)
				part := []byte("data: " + strings.Repeat("x", 1<<20) + end)
				if end != "" {
					part = []byte(":" + strings.Repeat("x", 1<<20) + end)
				}
				for range 20 {
					if _, err := w.Write(part); err != nil {
						return
					}
				}
			})
			_, err := model.Collect(newModel(t, s.config(protocol)).Stream(t.Context(), question()))
			failed := &model.Error{}
			if !errors.As(err, &failed) || failed.Kind != model.Malformed || !strings.Contains(failed.Message, "bytes") {
				t.Error(err)
			}
		}
	})
}

// Requests that fail before their first event are repeated, and only those.
func TestRetries(t *testing.T) {
	both(t, func(t *testing.T, protocol Protocol) {
		tries := 0
		s := serve(t, protocol, func(w http.ResponseWriter, r *http.Request) {
			if tries++; tries < 2 {
				w.WriteHeader(http.StatusServiceUnavailable)
				return
			}
			streams(recorded(t, protocol, "text"))(w, r)
		})
		c := s.config(protocol)
		c.Tries = 0
		reply, err := model.Collect(newModel(t, c).Stream(t.Context(), question()))
		if err != nil || reply.Message.Text != "Twelve orders." || tries != 2 {
			t.Errorf("%v after %d requests: %+v", err, tries, reply)
		}
	})
}

// Requests beyond the limit wait, and stop waiting when their context ends.
func TestConcurrency(t *testing.T) {
	both(t, func(t *testing.T, protocol Protocol) {
		arrived, proceed := make(chan struct{}, 4), make(chan struct{})
		s := serve(t, protocol, func(w http.ResponseWriter, r *http.Request) {
			arrived <- struct{}{}
			<-proceed
			streams(recorded(t, protocol, "text"))(w, r)
		})
		c := s.config(protocol)
		c.MaxConcurrent = 1
		m := newModel(t, c)
		done := make(chan error)
		go func() {
			_, err := model.Collect(m.Stream(t.Context(), question()))
			done <- err
		}()
		<-arrived
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		if _, err := model.Collect(m.Stream(ctx, question())); !errors.Is(err, context.Canceled) {
			t.Error(err)
		}
		close(proceed)
		if err := <-done; err != nil {
			t.Error(err)
		}
		if _, err := model.Collect(m.Stream(t.Context(), question())); err != nil || len(s.requests) != 2 {
			t.Error(err, len(s.requests))
		}
	})
}

// blocking is a model whose answers begin with a text in began, and end with proceed.
type blocking struct {
	began   chan string
	proceed chan struct{}
}

// Stream implements model.Model.
func (m *blocking) Stream(_ context.Context, in *model.Request) iter.Seq2[model.Event, error] {
	return func(yield func(model.Event, error) bool) {
		m.began <- in.System
		<-m.proceed
		yield(model.Event{Stop: model.StopEnd}, nil)
	}
}

// TestTurnsBetweenAccounts: an account with many requests to a model delays those of another one by one request.
func TestTurnsBetweenAccounts(t *testing.T) {
	m := &blocking{began: make(chan string), proceed: make(chan struct{})}
	b := &bounded{Model: m, places: turns.NewPlaces[string](1, 1)}
	var running sync.WaitGroup
	ask := func(account, text string) {
		running.Go(func() {
			for _, err := range b.Stream(turns.WithAccount(t.Context(), account), &model.Request{System: text}) {
				if err != nil {
					t.Error(err)
				}
			}
		})
	}
	ask("busy", "first")
	order := []string{<-m.began}
	for i, next := range []struct{ account, text string }{{"busy", "second"}, {"busy", "third"}, {"other", "of another account"}} {
		ask(next.account, next.text)
		for b.places.Waiting() <= i {
			runtime.Gosched()
		}
	}
	for range 3 {
		m.proceed <- struct{}{}
		order = append(order, <-m.began)
	}
	m.proceed <- struct{}{}
	running.Wait()
	if want := []string{"first", "second", "of another account", "third"}; !slices.Equal(order, want) {
		t.Errorf("the order is %q, want %q", order, want)
	}
}

func TestTLS(t *testing.T) {
	both(t, func(t *testing.T, protocol Protocol) {
		s := httptest.NewUnstartedServer(streams(recorded(t, protocol, "text")))
		s.Config.ErrorLog = log.New(io.Discard, "", 0)
		s.StartTLS()
		defer s.Close()
		c := Config{Protocol: protocol, BaseURL: s.URL, Model: "m", Tries: 1}
		_, err := model.Collect(newModel(t, c).Stream(t.Context(), question()))
		failed := &model.Error{}
		if !errors.As(err, &failed) || failed.Kind != model.Unavailable || !strings.Contains(failed.Message, "unknown authority") {
			t.Error(err)
		}
		c.CA = certificate(s)
		if _, err := model.Collect(newModel(t, c).Stream(t.Context(), question())); err != nil {
			t.Error(err)
		}
	})
}

func TestInvalidConfigs(t *testing.T) {
	valid := Config{Protocol: OpenAI, Model: "m"}
	for want, change := range map[string]func(c *Config){
		"protocol":   func(c *Config) { c.Protocol = "gRPC" },
		"toolCalls":  func(c *Config) { c.ToolCalls = "Guess" },
		"model":      func(c *Config) { c.Model = "" },
		"API key":    func(c *Config) { c.APIKey = "a\nb" },
		"ca":         func(c *Config) { c.CA = []byte("none") },
		"limits":     func(c *Config) { c.Timeout = -1 },
		"baseURL":    func(c *Config) { c.BaseURL = "file:///etc" },
		"without us": func(c *Config) { c.BaseURL = "https://user:pass@host" },
	} {
		c := valid
		change(&c)
		if _, err := New(c); err == nil || !strings.Contains(err.Error(), want) || strings.Contains(err.Error(), "a\nb") || strings.Contains(err.Error(), "pass@") {
			t.Errorf("%s: %v", want, err)
		}
	}
	if _, err := New(valid); err != nil {
		t.Error(err)
	}
}

// canned is a transport whose responses have a body.
type canned []byte

func (c canned) RoundTrip(r *http.Request) (*http.Response, error) {
	return &http.Response{
		StatusCode: http.StatusOK, Header: http.Header{"Content-Type": {"text/event-stream"}},
		Body: io.NopCloser(strings.NewReader(string(c))), Request: r,
	}, nil
}

// FuzzStream reads streams through the clients of both protocols: an answer ends with a reason, or with an *Error.
func FuzzStream(f *testing.F) {
	for protocol := range paths {
		for _, name := range []string{"text", "tools"} {
			f.Add(recorded(f, protocol, name))
		}
	}
	f.Add([]byte("event: content_block_delta\ndata: {\"type\":\"content_block_delta\",\"delta\":{\"type\":\"input_json_delta\",\"partial_json\":\"{\"}}\n\n"))
	f.Add([]byte("data: {\"error\":7}\n\n"))
	f.Add([]byte("event: error\ndata: \n\n"))
	f.Fuzz(func(t *testing.T, text []byte) {
		for protocol := range paths {
			m, err := New(Config{Protocol: protocol, Model: "m", Tries: 1, Transport: canned(text)})
			if err != nil {
				t.Fatal(err)
			}
			ended := 0
			for e, err := range m.Stream(t.Context(), &model.Request{Messages: []model.Message{{Role: model.User, Text: "?"}}}) {
				if failed := (*model.Error)(nil); err != nil && (!errors.As(err, &failed) || failed.Message == "") {
					t.Fatalf("%s: %T %v", protocol, err, err)
				}
				if ended > 0 {
					t.Fatalf("%s: an event after the end", protocol)
				}
				if err != nil || e.Stop != "" {
					ended++
				}
				if c := e.ToolCall; c != nil && !json.Valid(c.Input) {
					t.Fatalf("%s: the input %q", protocol, c.Input)
				}
				if e.Usage != nil && e.Stop != "" && !slices.Contains([]model.Stop{model.StopEnd, model.StopTools, model.StopLength, model.StopRefused}, e.Stop) {
					t.Fatalf("%s: %q", protocol, e.Stop)
				}
			}
			if ended != 1 {
				t.Fatalf("%s: the stream has %d ends", protocol, ended)
			}
		}
	})
}

// certificate returns that of a server, in PEM.
func certificate(s *httptest.Server) []byte {
	return pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: s.Certificate().Raw})
}
