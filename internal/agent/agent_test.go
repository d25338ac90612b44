package agent

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"iter"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/quoin-dev/quoin/internal/agent/model"
	"github.com/quoin-dev/quoin/internal/agent/stream"
)

// reply is what a scripted model sends: events, and then an error or, with wait, nothing until the context ends.
type reply struct {
	events []model.Event
	err    error
	wait   bool
}

// scripted answers each request with the next of its replies, and repeats the last one.
type scripted struct {
	replies  []reply
	requests []*model.Request
}

func (s *scripted) Stream(ctx context.Context, in *model.Request) iter.Seq2[model.Event, error] {
	r := s.replies[min(len(s.requests), len(s.replies)-1)]
	s.requests = append(s.requests, in)
	return func(yield func(model.Event, error) bool) {
		for _, e := range r.events {
			if !yield(e, nil) {
				return
			}
		}
		if r.wait {
			<-ctx.Done()
			r.err = context.Cause(ctx)
		}
		if r.err != nil {
			yield(model.Event{}, r.err)
		}
	}
}

func says(texts ...string) reply {
	var r reply
	for _, t := range texts {
		r.events = append(r.events, model.Event{Text: t})
	}
	r.events = append(r.events, model.Event{Stop: model.StopEnd, Usage: &model.Usage{Input: 10, Output: 5}})
	return r
}

// calls is a reply with calls, each of which is <tool> <input>.
func calls(all ...string) reply {
	var r reply
	for i, text := range all {
		name, input, _ := strings.Cut(text, " ")
		r.events = append(r.events, model.Event{ToolCall: &model.ToolCall{ID: fmt.Sprint("call_", i), Name: name, Input: json.RawMessage(input)}})
	}
	r.events = append(r.events, model.Event{Stop: model.StopTools, Usage: &model.Usage{Input: 10, Output: 5}})
	return r
}

// world is a run and what it has done.
type world struct {
	*testing.T
	run   *Run
	model *scripted

	mu     sync.Mutex
	lines  []stream.Line
	events []string
	// onLine is called with each line; beforeErr and afterErr are the errors of the audit log, appendErr that of the log.
	onLine                         func(l stream.Line)
	beforeErr, afterErr, appendErr error
}

func (w *world) Append(ctx context.Context, l stream.Line) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	if ctx.Err() != nil || w.appendErr != nil {
		return errors.Join(ctx.Err(), w.appendErr)
	}
	l.Sort = int64(len(w.lines) + 1)
	w.lines = append(w.lines, l)
	if w.onLine != nil {
		w.onLine(l)
	}
	return nil
}

func (w *world) Before(_ context.Context, c Call) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.events = append(w.events, fmt.Sprintf("before %s %s", c.Tool, c.Input))
	return w.beforeErr
}

func (w *world) After(_ context.Context, c Call, o Outcome) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.events = append(w.events, strings.TrimSpace(fmt.Sprintf("after %s %d %s", c.Tool, o.Rows, o.Failed)))
	return w.afterErr
}

func newWorld(t *testing.T, replies ...reply) *world {
	t.Helper()
	w := &world{T: t, model: &scripted{replies: replies}}
	ids := 0
	w.run = &Run{
		Model: w.model, System: "You are an agent.", Log: w, Audit: w, Fence: FenceOf("MARK"),
		Limits: Limits{Turns: 5, Calls: 10, Parallel: 4, Tokens: 1000, Answer: 100, Rows: 100, Time: time.Minute, Context: 100_000},
		NewID:  func() string { ids++; return fmt.Sprint("m", ids) },
		Tools: []Tool{w.tool("query", func(context.Context, Input) (*Result, error) {
			return &Result{Wire: json.RawMessage(`[["12"]]`), Rows: 1}, nil
		})},
	}
	return w
}

func (w *world) tool(name string, run func(ctx context.Context, in Input) (*Result, error)) Tool {
	return Tool{Tool: model.Tool{Name: name, Description: "A tool.", Schema: json.RawMessage(`{"type":"object"}`)}, Run: run}
}

var question = []model.Message{{Role: model.User, Text: "How many?"}}

// shown returns the lines without what is the same in all of them.
func (w *world) shown() string {
	w.mu.Lock()
	defer w.mu.Unlock()
	var out []string
	for _, l := range w.lines {
		text := l.ID
		switch {
		case l.ToolCall != nil && l.ToolCall.Result != nil:
			text += " " + l.ToolCall.Name + " = " + *l.ToolCall.Result
		case l.ToolCall != nil:
			text += " " + l.ToolCall.Name + " " + l.ToolCall.Input
		case l.Delta():
			text += " +" + *l.Content
		default:
			text += " " + l.GraphPath[0] + " " + *l.Content
		}
		if l.Thinking != "" {
			text += " thinking " + l.Thinking
		}
		out = append(out, text)
	}
	return strings.Join(out, "\n")
}

func (w *world) linesAre(want ...string) {
	w.Helper()
	if diff := cmp.Diff(strings.Join(want, "\n"), w.shown()); diff != "" {
		w.Error(diff)
	}
}

func (w *world) eventsAre(want ...string) {
	w.Helper()
	if diff := cmp.Diff(want, w.events); diff != "" {
		w.Error(diff)
	}
}

func (w *world) answer() (*Summary, error) { return w.run.Answer(w.Context(), question) }

func TestAnswer(t *testing.T) {
	first := calls(`query {"sql":"SELECT 1"}`)
	first.events = append([]model.Event{{Thinking: "hidden"}, {Text: "Let me look."}}, first.events...)
	w := newWorld(t, first, says("Twelve", " orders."))
	got, err := w.answer()
	if err != nil {
		t.Fatal(err)
	}
	w.linesAre("m1 +Let me look.", "m1 data_agent Let me look.", `m2 query {"sql":"SELECT 1"}`, `m2 query = [["12"]]`, "m3 +Twelve", "m3 + orders.", "m3 final Twelve orders.")
	w.eventsAre(`before query {"sql":"SELECT 1"}`, "after query 1")
	if got.Turns != 2 || got.Calls != 1 || got.Rows != 1 || got.Usage != (model.Usage{Input: 20, Output: 10}) {
		t.Errorf("the summary is %+v", got)
	}
	want := []model.Message{
		question[0],
		{Role: model.Assistant, Text: "Let me look.", Thinking: []model.Thought{{Text: "hidden"}}, Calls: []model.ToolCall{{ID: "call_0", Name: "query", Input: json.RawMessage(`{"sql":"SELECT 1"}`)}}},
		{Role: model.User, Results: []model.ToolResult{{CallID: "call_0", Text: "<data-MARK source=\"query\">\n[[\"12\"]]\n</data-MARK>"}}},
	}
	if diff := cmp.Diff(want, w.model.requests[1].Messages); diff != "" {
		t.Error(diff)
	}
	if diff := cmp.Diff(append(want[1:], model.Message{Role: model.Assistant, Text: "Twelve orders."}), got.Messages); diff != "" {
		t.Error(diff)
	}
	if in := w.model.requests[0]; !strings.HasPrefix(in.System, "You are an agent.") || !strings.Contains(in.System, "MARK") || len(in.Tools) != 1 || in.MaxTokens != 100 {
		t.Errorf("the request is %+v", in)
	}
}

func TestThinkingIsShown(t *testing.T) {
	r := says("Twelve.")
	r.events = append([]model.Event{{Thinking: "Hm."}}, r.events...)
	w := newWorld(t, r)
	w.run.ShowThinking = true
	if _, err := w.answer(); err != nil {
		t.Fatal(err)
	}
	w.linesAre("m1 + thinking Hm.", "m1 +Twelve.", "m1 final Twelve. thinking Hm.")
}

func TestCallsAreParallel(t *testing.T) {
	w := newWorld(t, calls("query 1", "query 2", "query 3"), says("x"))
	var together sync.WaitGroup
	together.Add(3)
	w.run.Tools = []Tool{w.tool("query", func(_ context.Context, in Input) (*Result, error) {
		together.Done()
		together.Wait() // forever, if they were not in parallel
		return &Result{Wire: in.JSON}, nil
	})}
	if _, err := w.answer(); err != nil {
		t.Fatal(err)
	}
	for i, r := range w.model.requests[1].Messages[2].Results {
		if want := fmt.Sprint("call_", i); r.CallID != want || !strings.Contains(r.Text, fmt.Sprint("\n", i+1, "\n")) {
			t.Errorf("result %d is %+v", i, r)
		}
	}
	w = newWorld(t, calls("query 1", "query 2"), says("x"))
	w.run.Limits.Parallel = 1
	if _, err := w.answer(); err != nil {
		t.Fatal(err)
	}
	w.eventsAre("before query 1", "after query 1", "before query 2", "after query 1")
}

func TestAbort(t *testing.T) {
	speaking := reply{events: []model.Event{{Text: "Twe"}}, wait: true}
	for name, c := range map[string]struct {
		reply reply
		// on is the line at which the run is aborted.
		on   string
		want []string
	}{
		"before the first token":      {reply{wait: true}, "", nil},
		"in mid-token":                {speaking, "m1", []string{"m1 +Twe", "m1 final Twe"}},
		"in a tool":                   {calls("slow {}"), "m1", []string{"m1 slow {}", `m1 slow = {"error":"Error: AbortError: the run has ended"}`}},
		"in a tool that does not end": {calls("stuck {}"), "m1", []string{"m1 stuck {}", `m1 stuck = {"error":"Error: AbortError: the run has ended"}`}},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t, c.reply)
			release := make(chan struct{})
			defer close(release)
			w.run.Tools = []Tool{
				w.tool("slow", func(ctx context.Context, _ Input) (*Result, error) { <-ctx.Done(); return nil, ctx.Err() }),
				w.tool("stuck", func(context.Context, Input) (*Result, error) { <-release; return nil, nil }),
			}
			ctx, cancel := context.WithCancelCause(t.Context())
			w.onLine = func(l stream.Line) {
				if l.ID == c.on {
					cancel(ErrAborted)
				}
			}
			if c.on == "" {
				cancel(ErrAborted)
			}
			if _, err := w.run.Answer(ctx, question); !errors.Is(err, ErrAborted) {
				t.Errorf("the error is %v", err)
			}
			w.linesAre(c.want...)
			if len(w.events)%2 != 0 {
				t.Errorf("a call has no outcome: %v", w.events)
			}
		})
	}
}

func TestLimits(t *testing.T) {
	looping := calls(`query {"again":true}`)
	for name, c := range map[string]struct {
		limits func(l *Limits)
		reply  reply
		want   string
	}{
		"turns":             {func(l *Limits) { l.Turns = 3 }, looping, "3 turns"},
		"calls":             {func(l *Limits) { l.Calls = 2 }, looping, "2 tool calls"},
		"tokens":            {func(l *Limits) { l.Tokens = 30 }, looping, "30 tokens"},
		"time":              {func(l *Limits) { l.Time = time.Millisecond }, reply{wait: true}, "1ms"},
		"a long answer":     {func(*Limits) {}, says(strings.Repeat("x", maxText), "y"), "131072 bytes of an answer"},
		"a cut call":        {func(*Limits) {}, reply{events: []model.Event{{Text: "a"}, {ToolCall: &model.ToolCall{ID: "c", Name: "query"}}, {Stop: model.StopLength}}}, "100 tokens of an answer"},
		"no room to answer": {func(*Limits) {}, reply{events: []model.Event{{Stop: model.StopLength}}}, "100 tokens of an answer"},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t, c.reply)
			c.limits(&w.run.Limits)
			_, err := w.answer()
			var limit *LimitReached
			if !errors.As(err, &limit) || limit.Message != "the agent has reached its limit of "+c.want {
				t.Errorf("got %v", err)
			}
			if len(w.events)%2 != 0 {
				t.Errorf("the events are %v", w.events)
			}
		})
	}
}

// TestToolEndsRun: after a call that ends the run, the model is not asked again. The calls have their outcomes.
func TestToolEndsRun(t *testing.T) {
	reason := errors.New("the credential was revoked")
	w := newWorld(t, calls("query {}", "query {}"), says("x"))
	w.run.Tools = []Tool{w.tool("query", func(context.Context, Input) (*Result, error) {
		return nil, fmt.Errorf("query: %w", &Ended{reason})
	})}
	w.run.OnInternal = func(_ string, err error) { t.Errorf("it is reported as a defect: %v", err) }
	if _, err := w.answer(); !errors.Is(err, reason) || len(w.model.requests) != 1 {
		t.Errorf("%v after %d requests", err, len(w.model.requests))
	}
	if n := strings.Count(w.shown(), `= {"error":"Error: AbortError: the run has ended"}`); n != 2 || len(w.events) != 4 {
		t.Errorf("%s\n%v", w.shown(), w.events)
	}
	w = newWorld(t)
	w.run.Tools = []Tool{w.tool("query", func(context.Context, Input) (*Result, error) { return nil, &Ended{reason} })}
	if err := w.run.Call(t.Context(), "query", json.RawMessage(`{}`)); !errors.Is(err, reason) {
		t.Error(err)
	}
}

func TestRows(t *testing.T) {
	w := newWorld(t, calls("query 60"), calls("query 60"), calls("query 1"), says("x"))
	var left []int
	w.run.Tools = []Tool{w.tool("query", func(_ context.Context, in Input) (*Result, error) {
		left = append(left, in.MaxRows)
		n := 0
		_ = json.Unmarshal(in.JSON, &n)
		return &Result{Wire: in.JSON, Rows: n}, nil
	})}
	got, err := w.answer()
	if diff := cmp.Diff([]int{100, 40}, left); diff != "" || err != nil || got.Rows != 120 {
		t.Errorf("%+v, %v: %s", got, err, diff)
	}
	w.eventsAre("before query 60", "after query 60", "before query 60", "after query 60", "before query 1", "after query 0 LimitError")
}

// TestRowsOfParallelCalls: the calls of a turn read no more rows together than are left, and what they do not read is left for others.
func TestRowsOfParallelCalls(t *testing.T) {
	for name, c := range map[string]struct {
		turns []reply
		// left are the rows that calls might read, sorted; read is the sum of those that they have.
		left []int
		read int
	}{
		"all":          {[]reply{calls("query 60", "query 60", "query 60"), calls("query 1")}, []int{33, 33, 34}, 100},
		"some":         {[]reply{calls("query 10", "query 10", "query 60"), calls("query 90")}, []int{33, 33, 34, 47}, 100},
		"few":          {[]reply{calls("query 1", "query 1", "query 1")}, []int{33, 33, 34}, 3},
		"one of three": {[]reply{calls("query 99"), calls("query 1", "query 1", "query 1")}, []int{1, 100}, 100},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t, append(c.turns, says("x"))...)
			var mu sync.Mutex
			var left []int
			var together sync.WaitGroup
			together.Add(len(c.turns[0].events) - 1)
			w.run.Tools = []Tool{w.tool("query", func(_ context.Context, in Input) (*Result, error) {
				mu.Lock()
				left = append(left, in.MaxRows)
				isFirst := len(left) < len(c.turns[0].events)
				mu.Unlock()
				if isFirst { // none of the first turn ends before all have begun
					together.Done()
					together.Wait()
				}
				n := 0
				_ = json.Unmarshal(in.JSON, &n)
				return &Result{Wire: in.JSON, Rows: min(n, in.MaxRows)}, nil
			})}
			got, err := w.answer()
			slices.Sort(left)
			if diff := cmp.Diff(c.left, left); diff != "" || err != nil || got.Rows != c.read {
				t.Errorf("%+v, %v: %s", got, err, diff)
			}
		})
	}
}

func TestFailuresOfTools(t *testing.T) {
	secret := errors.New("dial 10.0.0.1: password hunter2")
	for name, c := range map[string]struct {
		run   func(context.Context, Input) (*Result, error)
		call  string
		want  string
		hides bool
	}{
		"unknown": {nil, "drop {}", `BadRequestError: there is no tool \"drop\"; the tools are: query`, false},
		"forbidden": {func(context.Context, Input) (*Result, error) {
			return nil, &ToolError{ForbiddenError, "orders.margin is hidden"}
		}, "query {}", "ForbiddenError: orders.margin is hidden", false},
		"wrapped": {func(context.Context, Input) (*Result, error) {
			return nil, fmt.Errorf("query: %w", &ToolError{BadRequestError, "no"})
		}, "query {}", "BadRequestError: no", false},
		"internal":     {func(context.Context, Input) (*Result, error) { return nil, secret }, "query {}", "InternalError: the tool has failed", true},
		"nothing":      {func(context.Context, Input) (*Result, error) { return nil, nil }, "query {}", "InternalError: the tool has failed", true},
		"panic":        {func(context.Context, Input) (*Result, error) { panic("hunter2") }, "query {}", "InternalError: the tool has failed", true},
		"invalid JSON": {func(context.Context, Input) (*Result, error) { return &Result{Wire: json.RawMessage("{")}, nil }, "query {}", "InternalError: the tool has failed", true},
		"a large result": {func(context.Context, Input) (*Result, error) {
			return &Result{Wire: make(json.RawMessage, maxWire+1)}, nil
		}, "query {}", "LimitError: the result has 262145 bytes; allowed: 262144: ask for fewer rows or columns", false},
		"a large input": {nil, `query {"a":"` + strings.Repeat("x", maxInput) + `"}`, "BadRequestError: the input has 65544 bytes; allowed: 65536", false},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t, calls(c.call), says("Sorry."))
			hidden := 0
			w.run.OnInternal = func(string, error) { hidden++ }
			if c.run != nil {
				w.run.Tools[0].Run = c.run
			}
			if _, err := w.answer(); err != nil {
				t.Fatal(err)
			}
			want := `{"error":"Error: ` + c.want + `"}`
			if got := *w.lines[1].ToolCall.Result; got != want {
				t.Errorf("the client gets %s, want %s", got, want)
			}
			result := w.model.requests[1].Messages[2].Results[0]
			if !result.Failed || !strings.Contains(result.Text, want) || !strings.HasPrefix(result.Text, "<data-MARK ") {
				t.Errorf("the model gets %+v", result)
			}
			class, _, _ := strings.Cut(c.want, ":")
			if last := w.events[len(w.events)-1]; !strings.HasSuffix(last, " 0 "+class) {
				t.Errorf("the last event is %q", last)
			}
			if c.hides != (hidden == 1) || strings.Contains(w.shown(), "hunter2") {
				t.Errorf("%d errors are reported; the lines are %s", hidden, w.shown())
			}
		})
	}
}

// TestNoEventNoCall: a call that cannot be recorded does not run, and a result whose outcome cannot be recorded is not shown.
func TestNoEventNoCall(t *testing.T) {
	down := errors.New("the audit log is not available")
	w := newWorld(t, calls("query {}"))
	w.beforeErr = down
	w.run.Tools[0].Run = func(context.Context, Input) (*Result, error) { t.Error("the tool runs"); return nil, nil }
	if _, err := w.answer(); !errors.Is(err, down) {
		t.Errorf("got %v", err)
	}
	w.linesAre()
	w = newWorld(t, calls("query {}"))
	w.afterErr = down
	if _, err := w.answer(); !errors.Is(err, down) {
		t.Errorf("got %v", err)
	}
	w.linesAre("m1 query {}", `m1 query = {"error":"Error: InternalError: the outcome could not be recorded"}`)
	if len(w.model.requests) != 1 {
		t.Error("the model gets a result that is not recorded")
	}
}

func TestFailuresOfTheModel(t *testing.T) {
	down := &model.Error{Kind: model.Unavailable, Message: "down"}
	for name, c := range map[string]struct {
		reply reply
		want  string
		lines []string
	}{
		"at once":               {reply{err: down}, "down", nil},
		"in mid-answer":         {reply{events: []model.Event{{Text: "Twe"}}, err: down}, "down", []string{"m1 +Twe", "m1 final Twe"}},
		"no end":                {reply{events: []model.Event{{Text: "a"}}}, "the answer of the model has no end", []string{"m1 +a", "m1 final a"}},
		"no answer":             {reply{events: []model.Event{{Stop: model.StopEnd}}}, "the model has sent no answer", nil},
		"a refusal":             {reply{events: []model.Event{{Stop: model.StopRefused}}}, "the model refuses to answer", nil},
		"a call without a name": {calls(" {}"), `a tool call of the model has the id "call_0" and the name ""`, nil},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t, c.reply)
			_, err := w.answer()
			var failed *model.Error
			if !errors.As(err, &failed) || failed.Message != c.want {
				t.Errorf("got %v", err)
			}
			w.linesAre(c.lines...)
		})
	}
	w := newWorld(t, says("x"))
	w.appendErr = errors.New("the log is not available")
	if _, err := w.answer(); !errors.Is(err, w.appendErr) {
		t.Errorf("got %v", err)
	}
}

func TestTooLongConversation(t *testing.T) {
	tooLong := reply{err: &model.Error{Kind: model.TooLong, Message: "too long"}}
	w := newWorld(t, tooLong, says("x"))
	long := []model.Message{{Role: model.User, Text: strings.Repeat("a", 1000)}, {Role: model.Assistant, Text: "b"}, question[0]}
	if _, err := w.run.Answer(t.Context(), long); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(question, w.model.requests[1].Messages); diff != "" {
		t.Error(diff)
	}
	w = newWorld(t, tooLong)
	if _, err := w.answer(); err == nil || err.Error() != "too long" || len(w.model.requests) != 1 {
		t.Errorf("%d requests: %v", len(w.model.requests), err)
	}
}

func TestLongTextIsManyLines(t *testing.T) {
	text := strings.Repeat("ü", stream.MaxDelta)
	w := newWorld(t, says(text))
	if _, err := w.answer(); err != nil {
		t.Fatal(err)
	}
	joined := ""
	for _, l := range w.lines[:len(w.lines)-1] {
		if len(*l.Content) > stream.MaxDelta || !l.Delta() {
			t.Errorf("a delta has %d bytes", len(*l.Content))
		}
		joined += *l.Content
	}
	if last := w.lines[len(w.lines)-1]; joined != text || *last.Content != text || last.Delta() {
		t.Error("the text has changed")
	}
}
