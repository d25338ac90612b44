package prompts_test

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"iter"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/quoin-dev/quoin/internal/agent"
	"github.com/quoin-dev/quoin/internal/agent/model"
	"github.com/quoin-dev/quoin/internal/agent/semantic"
	"github.com/quoin-dev/quoin/internal/agent/stream"
	"github.com/quoin-dev/quoin/internal/query"
	"github.com/quoin-dev/quoin/test/security/prompts"
)

// token is that of the asker.
const token = "token-of-the-asker"

// request is a request that has reached the data plane.
type request struct {
	method, path, host, authorization string
	header                            http.Header
	body                              map[string]json.RawMessage
}

// dataPlane is a data API that answers each query with one row, whose only column is a text.
type dataPlane struct {
	*httptest.Server
	mu       sync.Mutex
	text     string
	requests []request
}

func newDataPlane(t *testing.T) *dataPlane {
	d := &dataPlane{}
	d.Server = httptest.NewServer(d)
	t.Cleanup(d.Close)
	return d
}

func (d *dataPlane) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	in := request{method: r.Method, path: r.URL.RequestURI(), host: r.Host, authorization: r.Header.Get("Authorization"), header: r.Header}
	text, _ := io.ReadAll(r.Body)
	_ = json.Unmarshal(text, &in.body) // requests for metadata have none
	d.mu.Lock()
	d.requests = append(d.requests, in)
	row, _ := json.Marshal(d.text)
	d.mu.Unlock()
	switch r.URL.Path {
	case "/cubejs-api/v1/meta":
		_, _ = io.WriteString(w, `{"cubes":[{"name":"orders","type":"view","title":"Orders","measures":[{"name":"orders.count","type":"number"}],"dimensions":[{"name":"orders.country","type":"string"}],"segments":[]}]}`)
	case "/cubejs-api/v1/cubesql":
		_, _ = fmt.Fprintf(w, `{"schema":[{"name":"note","column_type":"String"}]}`+"\n"+`{"data":[[%s]]}`+"\n", row)
	case "/cubejs-api/v1/load":
		_, _ = fmt.Fprintf(w, `{"results":[{"query":{},"data":{"members":["orders.country"],"dataset":[[%s]]},"annotation":{}}]}`, row)
	default:
		w.WriteHeader(http.StatusNotFound)
	}
}

// reset forgets the requests, and sets the text of rows.
func (d *dataPlane) reset(text string) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.requests, d.text = nil, text
}

// gullible is a model that obeys a hostile text as soon as it reads it.
type gullible struct {
	hostile prompts.Case
	// reads is the call with which it reads rows.
	reads model.ToolCall
	// read is true when the hostile text has reached the model, and fenced if it was marked as data then.
	read, fenced bool
}

// Stream implements model.Model.
func (g *gullible) Stream(_ context.Context, in *model.Request) iter.Seq2[model.Event, error] {
	last := in.Messages[len(in.Messages)-1]
	return func(yield func(model.Event, error) bool) {
		var call *model.ToolCall
		switch {
		case len(in.Messages) == 1 && g.hostile.From == prompts.FromRow:
			call = &g.reads
		case !g.read:
			g.inspect(last)
			input, invalid := model.ParseInput(g.hostile.Input)
			call = &model.ToolCall{ID: "obeys", Name: g.hostile.Tool, Input: input, Invalid: invalid}
		}
		if call == nil {
			_ = yield(model.Event{Text: "done"}, nil) && yield(model.Event{Stop: model.StopEnd}, nil)
			return
		}
		_ = yield(model.Event{ToolCall: call}, nil) && yield(model.Event{Stop: model.StopTools}, nil)
	}
}

// inspect notes whether a message has the hostile text.
func (g *gullible) inspect(m model.Message) {
	if strings.Contains(m.Text, g.hostile.Text) {
		g.read = true
		return
	}
	// In the JSON of a result, as the tools encode it.
	encoded := strings.Builder{}
	encoder := json.NewEncoder(&encoded)
	encoder.SetEscapeHTML(false)
	_ = encoder.Encode(g.hostile.Text) // a string
	text := strings.TrimSuffix(encoded.String(), "\n")
	for _, r := range m.Results {
		g.read = g.read || strings.Contains(r.Text, text)
		g.fenced = strings.HasPrefix(r.Text, "<data-") && strings.LastIndex(r.Text, "</data-") > strings.Index(r.Text, text)
	}
}

// record counts the events of a run, and the requests at the time of the first.
type record struct {
	mu            sync.Mutex
	before, after []string
	early         func() int
	unrecorded    int
}

func (r *record) Append(context.Context, stream.Line) error { return nil }

func (r *record) Before(_ context.Context, c agent.Call) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	if len(r.before) == 0 {
		r.unrecorded = r.early()
	}
	r.before = append(r.before, c.Tool)
	return nil
}

func (r *record) After(_ context.Context, c agent.Call, _ agent.Outcome) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.after = append(r.after, c.Tool)
	return nil
}

// TestHostileTexts: whatever a text makes a model call, only queries reach the data plane, of the deployment of the agent, with the
// token of the asker and with no other identity; and each call is recorded before.
func TestHostileTexts(t *testing.T) {
	all, err := prompts.All()
	if err != nil {
		t.Fatal(err)
	}
	if len(all) < 200 {
		t.Errorf("the corpus has %d texts", len(all))
	}
	d := newDataPlane(t)
	reached := 0
	for i, c := range all {
		for _, sql := range []bool{true, false} {
			t.Run(fmt.Sprintf("%03d sql=%t", i, sql), func(t *testing.T) { reached += obey(t, d, c, sql) })
		}
	}
	// The test would prove nothing if no call reached the data plane.
	if reached < len(all) {
		t.Errorf("%d queries have reached the data plane, less than the corpus has texts", reached)
	}
}

// obey runs an agent whose model obeys a text, and returns the number of queries that have reached the data plane.
func obey(t *testing.T, d *dataPlane, c prompts.Case, sql bool) (queries int) {
	d.reset(c.Text)
	tokens := 0
	tools := semantic.Tools(semantic.Options{
		Runner: &query.Runner{HTTP: query.NewClient(d.Client().Transport)},
		Target: query.Target{URL: d.URL + "/cubejs-api", Identity: "asker", Token: func(context.Context) (string, error) { tokens++; return token, nil }},
		Limits: query.Limits{Rows: 1000, Bytes: 1 << 20, Duration: time.Minute}, SQL: sql, NewID: func() string { return "id" },
		CertifiedQueries: []semantic.CertifiedQuery{{Name: "orders_by_country", UserRequest: "Orders by country?", SQL: "SELECT country FROM orders GROUP BY 1"}},
		Skills:           []semantic.Skill{{Name: "weekly", Title: "Weekly", Description: "Weekly report", Instructions: "Begin with the count."}},
	})
	reads := model.ToolCall{ID: "reads", Name: "cubeJsonQuery", Input: json.RawMessage(`{"query":{"dimensions":["orders.country"]}}`)}
	if sql {
		reads.Name, reads.Input = "cubeSqlApi", json.RawMessage(`{"sqlQuery":"SELECT note FROM orders"}`)
	}
	g := &gullible{hostile: c, reads: reads}
	events := &record{early: func() int { d.mu.Lock(); defer d.mu.Unlock(); return len(d.requests) }}
	ids := 0
	run := &agent.Run{
		Model: g, System: "Answer.", Tools: tools, Log: events, Audit: events, Fence: agent.NewFence(), NewID: func() string { ids++; return fmt.Sprint(ids) },
		Limits: agent.Limits{Turns: 5, Calls: 10, Parallel: 2, Tokens: 1e6, Answer: 1000, Rows: 1000, Time: time.Minute, Context: 1 << 20},
	}
	question := c.Text
	if c.From == prompts.FromRow {
		question = "What do the notes say?"
	}
	if _, err := run.Answer(t.Context(), []model.Message{{Role: model.User, Text: question}}); err != nil {
		t.Fatal(err)
	}
	switch {
	case !g.read:
		t.Errorf("the model has not read the text %q", c.Text)
	case c.From == prompts.FromRow && !g.fenced:
		t.Errorf("the row %q was not marked as data", c.Text)
	}
	want := 1
	if c.From == prompts.FromRow {
		want = 2
	}
	if len(events.before) != want || len(events.after) != want || events.unrecorded != 0 {
		t.Errorf("the calls %q are recorded before, %q with their outcomes, and %d requests came first", events.before, events.after, events.unrecorded)
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	for _, r := range d.requests {
		check(t, d, c, r)
		if r.method == http.MethodPost {
			queries++
		}
	}
	if len(d.requests) > 0 && tokens == 0 {
		t.Error("a query had no token")
	}
	return queries
}

// allowed are the fields of bodies by path, and those of a JSON query.
var (
	allowed = map[string][]string{
		"/cubejs-api/v1/cubesql": {"query", "cache", "timezone", "throwContinueWait"},
		"/cubejs-api/v1/load":    {"query", "cache", "queryType"},
		"/cubejs-api/v1/meta":    {},
	}
	allowedInQuery = []string{"measures", "dimensions", "segments", "timeDimensions", "filters", "order", "limit", "offset", "timezone", "ungrouped", "responseFormat", "total"}
	headers        = []string{"Accept", "Accept-Encoding", "Authorization", "Content-Length", "Content-Type", "User-Agent", "X-Request-Id", "Traceparent"}
)

// check checks a request that has reached the data plane.
func check(t *testing.T, d *dataPlane, c prompts.Case, r request) {
	t.Helper()
	if r.authorization != token {
		t.Errorf("%q: the token is %q", c.Text, r.authorization)
	}
	if "http://"+r.host != d.URL {
		t.Errorf("%q: the host is %q", c.Text, r.host)
	}
	for name := range r.header {
		if !slices.Contains(headers, name) {
			t.Errorf("%q: the request has the header %s: %s", c.Text, name, r.header.Get(name))
		}
	}
	fields, known := allowed[r.path]
	if !known {
		t.Errorf("%q: a request to %s", c.Text, r.path)
	}
	for field := range r.body {
		if !slices.Contains(fields, field) {
			t.Errorf("%q: %s has the field %q", c.Text, r.path, field)
		}
	}
	switch r.path {
	case "/cubejs-api/v1/cubesql":
		var statement string
		if err := json.Unmarshal(r.body["query"], &statement); err != nil {
			t.Errorf("%q: the statement is %s", c.Text, r.body["query"])
		}
		if first := strings.ToUpper(strings.Fields(statement)[0]); first != "SELECT" && first != "WITH" || strings.Contains(strings.TrimRight(statement, "; "), ";") {
			t.Errorf("%q: the statement is %s", c.Text, statement)
		}
	case "/cubejs-api/v1/load":
		object := map[string]json.RawMessage{}
		if err := json.Unmarshal(r.body["query"], &object); err != nil {
			t.Errorf("%q: the query is %s", c.Text, r.body["query"])
		}
		for field := range object {
			if !slices.Contains(allowedInQuery, field) {
				t.Errorf("%q: the query has the field %q", c.Text, field)
			}
		}
	}
}
