package chat

import (
	"bufio"
	"context"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"

	"github.com/quoin-dev/quoin/apiserver/metering"
	"github.com/quoin-dev/quoin/apiserver/rest"
	"github.com/quoin-dev/quoin/internal/agent/stream"
	"github.com/quoin-dev/quoin/internal/agent/stream/streamtest"
	"github.com/quoin-dev/quoin/internal/content/chat"
	"github.com/quoin-dev/quoin/internal/content/usage"
)

// TestAnswer: the lines of a response are those that clients know, and a replay has the same bytes.
func TestAnswer(t *testing.T) {
	w := newWorld(t)
	r := w.start(0)
	status, body := r.text("input", "count", "chat", "c", "message", messageID(1))
	if status != 200 {
		t.Fatal(status, body)
	}
	lines := w.lines(body)
	first, echo, last := lines[0], lines[1], lines[len(lines)-1]
	if first.ID != stream.IDCutoff || first.Sort != 0 || string(first.State) != `{"chatId":"c","isStreaming":true}` {
		t.Error("first line:", body)
	}
	if echo.ID != messageID(1) || echo.Role != stream.RoleUser || *echo.Content != "count" || echo.Delta() || echo.Sort != 1 {
		t.Error("echo:", body)
	}
	if last.ID != stream.IDState || !strings.Contains(string(last.State), "There are twelve.") {
		t.Error("last line:", body)
	}
	for i, l := range lines {
		if l.Sort != int64(i) {
			t.Errorf("line %d has the sort %d", i, l.Sort)
		}
	}
	answer := lines[len(lines)-2]
	if answer.Delta() || answer.GraphPath[0] != stream.PathFinal || *answer.Content != "There are twelve." || *answer.IsInProcess {
		t.Error("answer:", body)
	}
	if got := strings.Join(w.events, ", "); !strings.HasPrefix(got, "before ") || !strings.Contains(got, ", after ") {
		t.Error(got)
	}
	chunks := strings.SplitAfter(body, "\n")
	for name, client := range streamtest.Clients {
		if got, err := client(chunks); err != nil || got != "There are twelve." {
			t.Errorf("client %s: %q %v", name, got, err)
		}
	}
	if got := streamtest.AppendDeltas(chunks); got != "I count.There are twelve." {
		t.Errorf("all deltas: %q", got)
	}
	for _, on := range []*replica{r, w.start(0)} {
		if _, again := on.text("input", "count", "chat", "c", "message", messageID(1)); again != body {
			t.Errorf("the replay differs:\n%s\n%s", again, body)
		}
	}
	if len(w.asked) != 2 {
		t.Errorf("the model was asked %d times", len(w.asked))
	}
}

// TestConversation: a chat goes on, and is read as messages.
func TestConversation(t *testing.T) {
	w := newWorld(t)
	r := w.start(0)
	_, first := r.text("input", "hello", "chat", "c", "message", messageID(1))
	_, second := r.text("input", "there", "chat", "c", "message", messageID(2))
	before, after := w.lines(first), w.lines(second)
	if after[1].Sort <= before[len(before)-2].Sort {
		t.Error("sort does not grow")
	}
	if asked := w.asked[1].Messages; len(asked) != 3 || asked[0].Text != "hello" || asked[1].Text != "You said hello" || asked[2].Text != "there" {
		t.Errorf("%+v", asked)
	}
	status, history := r.text("chat", "c")
	lines := w.lines(history)
	if status != 200 || len(lines) != 6 || string(lines[0].State) != `{"chatId":"c","isStreaming":false}` || *lines[4].Content != "You said there" || lines[4].Delta() {
		t.Error(status, history)
	}
	if _, again := r.text("input", "hello", "chat", "c", "message", messageID(1)); again != first {
		t.Error("the replay of the first message has changed")
	}
	for name, want := range map[string]struct {
		status int
		text   string
		values []string
	}{
		"another's chat":          {403, "another user", []string{"chat", "c", "user", "u2"}},
		"a message to it":         {403, "another user", []string{"input", "hello", "chat", "c", "message", messageID(9), "user", "u2"}},
		"the message of another":  {403, "another user", []string{"input", "hello", "chat", "c", "message", messageID(1), "user", "u2"}},
		"an abort of another":     {403, "another user", []string{"chat", "c", "user", "u2", "abort", "1"}},
		"unknown":                 {404, "no such chat", []string{"chat", "x"}},
		"an abort of an unknown":  {404, "no such chat", []string{"chat", "x", "abort", "1"}},
		"an abort after the end":  {204, "", []string{"chat", "c", "abort", "1"}},
		"a new chat of another":   {200, `"chatId":"d"`, []string{"input", "hello", "chat", "d", "user", "u2"}},
		"a chat without an id":    {200, `"chatId":`, []string{"input", "hello"}},
		"a model that refuses it": {200, `{"error":"the model failed: the key is not accepted"}` + "\n", []string{"input", "fail", "chat", "c"}},
		"the chat after it":       {200, "You said there", []string{"chat", "c"}},
	} {
		if name == "the chat after it" {
			continue
		}
		if status, body := r.text(want.values...); status != want.status || !strings.Contains(body, want.text) {
			t.Errorf("%s: %d %s", name, status, body)
		}
	}
	if status, body := r.text("chat", "c"); status != 200 || !strings.Contains(body, "You said there") || !strings.Contains(body, `"content":"fail"`) {
		t.Error("after a failure:", status, body)
	}
}

// TestProgress: while an answer is in progress, another message waits, the same one reads it, on any replica, and an abort ends it.
func TestProgress(t *testing.T) {
	for name, sameReplica := range map[string]bool{"on the replica": true, "on another replica": false} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t)
			r := w.start(0)
			other := r
			if !sameReplica {
				other = w.start(0)
			}
			response := r.get(t.Context(), "input", "wait", "chat", "c", "message", messageID(1))
			defer response.Body.Close()
			reading := bufio.NewReader(response.Body)
			until(t, reading, "One, ")
			<-w.begun
			if status, body := other.text("input", "more", "chat", "c", "message", messageID(2)); status != 409 || !strings.Contains(body, "Streaming for thread is in progress") {
				t.Error(status, body)
			}
			again := other.get(t.Context(), "input", "wait", "chat", "c", "message", messageID(1))
			defer again.Body.Close()
			joined := bufio.NewReader(again.Body)
			head := until(t, joined, `"content":"One, "`)
			history := other.get(t.Context(), "chat", "c")
			defer history.Body.Close()
			read := bufio.NewReader(history.Body)
			loaded := until(t, read, `"content":"One, "`)
			w.more <- struct{}{}
			until(t, reading, stream.IDState)
			for _, c := range []struct {
				name, head string
				rest       *bufio.Reader
			}{{"the same message", head, joined}, {"the history", loaded, read}} {
				body := c.head + until(t, c.rest, stream.IDState)
				for client, show := range streamtest.Clients {
					if got, err := show(strings.SplitAfter(body, "\n")); err != nil || got != "One, two, three." {
						t.Errorf("%s, client %s: %q %v in %s", c.name, client, got, err, body)
					}
				}
			}
		})
	}
}

// TestAbort: an abort ends the request to the model, from any replica, and what was said remains.
func TestAbort(t *testing.T) {
	for name, sameReplica := range map[string]bool{"on the replica": true, "on another replica": false} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t)
			r := w.start(0)
			other := r
			if !sameReplica {
				other = w.start(0)
			}
			response := r.get(t.Context(), "input", "wait", "chat", "c", "message", messageID(1))
			defer response.Body.Close()
			reading := bufio.NewReader(response.Body)
			head := until(t, reading, "One, ")
			<-w.begun
			if status, body := other.text("chat", "c", "abort", "1"); status != 204 {
				t.Error(status, body)
			}
			<-w.ended
			body := head + until(t, reading, stream.IDState)
			for client, show := range streamtest.Clients {
				if got, err := show(strings.SplitAfter(body, "\n")); err != nil || got != "One, " {
					t.Errorf("client %s: %q %v", client, got, err)
				}
			}
			if status, body := r.text("input", "hello", "chat", "c", "message", messageID(2)); status != 200 || !strings.Contains(body, "You said hello") {
				t.Error("the next message:", status, body)
			}
		})
	}
}

// TestLostConnection: a run goes on without its client.
func TestLostConnection(t *testing.T) {
	w := newWorld(t)
	r := w.start(0)
	ctx, disconnect := context.WithCancel(t.Context())
	response := r.get(ctx, "input", "wait", "chat", "c", "message", messageID(1))
	<-w.begun
	disconnect()
	_ = response.Body.Close()
	w.more <- struct{}{}
	if _, body := r.text("input", "wait", "chat", "c", "message", messageID(1)); !strings.Contains(body, `"content":"One, two, three."`) {
		t.Error(body)
	}
}

// TestStop: a server that stops ends its answers with an error that tells users what to do, and begins none.
func TestStop(t *testing.T) {
	w := newWorld(t)
	r := w.start(0)
	response := r.get(t.Context(), "input", "wait", "chat", "c", "message", messageID(1))
	defer response.Body.Close()
	<-w.begun
	r.stop()
	until(t, bufio.NewReader(response.Body), `{"error":"the server is restarting: send the message again"}`)
	if status, body := r.text("input", "hello"); status != 503 {
		t.Error(status, body)
	}
	if got := w.stored(r, "c"); len(got) == 0 || !strings.Contains(string(got[len(got)-1].Body), "restarting") {
		t.Error(got)
	}
}

// TestKills: a process is killed before each of its writes. Another replica ends the run; no line is there twice, each tool call has
// its event, and the chat can go on.
func TestKills(t *testing.T) {
	for kill := 1; ; kill++ {
		w := newWorld(t)
		r, other := w.start(kill), w.start(0)
		ctx, cancel := context.WithCancel(t.Context())
		response := r.get(ctx, "input", "count", "chat", "c", "message", messageID(1))
		r.runs.working.Wait() // it does nothing more
		cancel()
		_ = response.Body.Close()
		r.mu.Lock()
		writes := r.writes
		r.mu.Unlock()
		w.expire()
		w.must(other.endExpired(t.Context()))
		lines := w.stored(other, "c")
		m := &stream.Messages{}
		ids := map[string]bool{}
		for _, l := range lines {
			decoded, err := stream.Decode(l.Body)
			w.must(err)
			m.Add(decoded)
			if decoded.ToolCall != nil {
				ids[decoded.ID] = true
			}
		}
		events := strings.Join(w.events, "\n")
		for id := range ids {
			if !strings.Contains(events, "before "+id) {
				t.Errorf("kill %d: the call %s has no event", kill, id)
			}
		}
		for _, message := range m.All() {
			if message.InProcess {
				t.Errorf("kill %d: the message %+v has no end", kill, message)
			}
		}
		if writes < kill { // it has ended before
			if m.Err() != "" || len(lines) == 0 {
				t.Errorf("without a kill: %q %d", m.Err(), len(lines))
			}
			return
		}
		if len(lines) > 0 && m.Err() != interrupted {
			t.Errorf("kill %d: the run ends with %q", kill, m.Err())
		}
		if status, body := other.text("input", "hello", "chat", "c", "message", messageID(2)); status != 200 || !strings.Contains(body, "You said hello") {
			t.Errorf("kill %d: the next message: %d %s", kill, status, body)
		}
		if len(lines) > 0 {
			if status, body := other.text("input", "count", "chat", "c", "message", messageID(1)); status != 200 || !strings.Contains(body, interrupted) {
				t.Errorf("kill %d: the message again: %d %s", kill, status, body)
			}
		}
		if kill > 50 {
			t.Fatal("the run does not end")
		}
	}
}

// TestLimitOfAsker: a person has a number of answers in progress.
func TestLimitOfAsker(t *testing.T) {
	w := newWorld(t)
	r := w.start(0)
	for range maxOfAsker {
		response := r.get(t.Context(), "input", "wait")
		defer response.Body.Close()
		<-w.begun
	}
	if status, body := r.text("input", "hello"); status != 429 || !strings.Contains(body, "allowed: 8") {
		t.Error(status, body)
	}
	if status, body := r.text("input", "hello", "user", "u2"); status != 200 {
		t.Error(status, body)
	}
	for range maxOfAsker {
		w.more <- struct{}{}
	}
}

// TestUsage: what answers use is recorded with its price, and limited by day.
func TestUsage(t *testing.T) {
	w := newWorld(t)
	w.tokens = metering.Limits{User: 40, Account: 60}
	r := w.start(0)
	r.text("input", "count") // two requests of 15 tokens
	day := usage.Request{From: time.Now().Add(-24 * time.Hour), To: time.Now().Add(24 * time.Hour), By: []usage.Dimension{usage.ByAgent, usage.ByCaller, usage.ByUser}}
	sums, err := r.Meter.Usage.Report(t.Context(), scopeOf((&rest.Scope{Account: w.account}).With(t.Context()), w.agent), day)
	if err != nil || len(sums) != 1 {
		t.Fatal(sums, err)
	}
	got := sums[0]
	if a := got.Amounts; got.Agent != 7 || got.Caller != "ApiKey:key" || got.User != "External:u1" || got.Runs != 1 || got.Currency != "USD" ||
		a.InputTokens != 20 || a.OutputTokens != 10 || a.Requests != 2 || a.ToolCalls != 1 || a.Cost != 40 {
		t.Errorf("%+v", got)
	}
	checkMetrics(t, r.Meter.Metrics, `
# HELP quoin_agent_cost_total What agents have cost, with the prices of their model endpoints.
# TYPE quoin_agent_cost_total counter
quoin_agent_cost_total{account="acme",agent="7",currency="USD"} 4e-05
# HELP quoin_agent_tokens_total Tokens of models by agent, and by kind: input, cached_input (a part of input), output.
# TYPE quoin_agent_tokens_total counter
quoin_agent_tokens_total{account="acme",agent="7",kind="cached_input"} 0
quoin_agent_tokens_total{account="acme",agent="7",kind="input"} 20
quoin_agent_tokens_total{account="acme",agent="7",kind="output"} 10
`)
	for _, c := range []struct{ user, want string }{
		{"u1", "You said hello"}, // 30 of 40 were used before
		{"u1", `{"error":"the limit of 40 tokens a day of the user is reached`},
		{"u2", "You said hello"},
		{"u2", `{"error":"the limit of 60 tokens a day of the account is reached`},
	} {
		if status, body := r.text("input", "hello", "user", c.user); status != 200 || !strings.Contains(body, c.want) {
			t.Errorf("%s: %d %s", c.user, status, body)
		}
	}
}

var _ log = &chat.Threads{}

// checkMetrics checks the metrics of agents.
func checkMetrics(t *testing.T, m *metering.Metrics, want string) {
	t.Helper()
	registry := prometheus.NewPedanticRegistry()
	registry.MustRegister(m.Collectors()...)
	if err := testutil.GatherAndCompare(registry, strings.NewReader(want)); err != nil {
		t.Error(err)
	}
}
