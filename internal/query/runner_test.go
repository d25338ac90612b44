package query_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/quoin-dev/quoin/internal/query"
	"github.com/quoin-dev/quoin/internal/query/controls"
)

// dataAPI is a server that answers as the data plane behind the gateway.
type dataAPI struct {
	*httptest.Server
	handle func(w http.ResponseWriter, r *http.Request, body map[string]any)

	mu       sync.Mutex
	requests []string // method, path and id
	bodies   []string
}

func serve(t *testing.T, handle func(w http.ResponseWriter, r *http.Request, body map[string]any)) *dataAPI {
	t.Helper()
	d := &dataAPI{handle: handle}
	d.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		text, _ := io.ReadAll(r.Body)
		d.mu.Lock()
		d.requests = append(d.requests, r.Method+" "+r.URL.Path+" "+r.Header.Get("X-Request-Id"))
		d.bodies = append(d.bodies, string(text))
		d.mu.Unlock()
		if r.Header.Get("Authorization") != "the token" {
			w.WriteHeader(http.StatusForbidden)
			return
		}
		body := map[string]any{}
		_ = json.Unmarshal(text, &body)
		d.handle(w, r, body)
	}))
	t.Cleanup(d.Close)
	return d
}

func (d *dataAPI) target() query.Target {
	return query.Target{URL: d.URL + "/cubejs-api", Identity: "ada", Token: func(context.Context) (string, error) { return "the token", nil }}
}

func (d *dataAPI) runner() *query.Runner {
	return &query.Runner{HTTP: query.NewClient(d.Client().Transport)}
}

func (d *dataAPI) run(t *testing.T, q query.Query) (*query.Result, error) {
	t.Helper()
	return d.runner().Run(t.Context(), q, d.target(), query.DefaultLimits)
}

// seen returns the requests, without the id that a run has chosen.
func (d *dataAPI) seen() []string {
	d.mu.Lock()
	defer d.mu.Unlock()
	var out []string
	for _, r := range d.requests {
		path, id, _ := strings.Cut(r, " /cubejs-api")
		route, span, _ := strings.Cut(id, " ")
		if strings.HasPrefix(route, "/v1/running-query/") {
			route = "/v1/running-query/"
		}
		_, n, _ := strings.Cut(span, "-span-")
		out = append(out, path+" "+route+" "+n)
	}
	return out
}

const sqlStream = `{"schema":[{"name":"status","column_type":"String"},{"name":"n","column_type":"Int64"},{"name":"share","column_type":"Double"},{"name":"at","column_type":"Timestamp"},{"name":"paid","column_type":"Boolean"}],"lastRefreshTime":"2026-11-23T12:00:00.000Z"}
{"data":[["shipped","12","0.25","2026-01-01T00:00:00.000",true]]}
{"data":[[null,null,null,null,null],["","-3","NaN","2026-01-02T00:00:00.000",false]]}
`

func answer(text string) func(http.ResponseWriter, *http.Request, map[string]any) {
	return func(w http.ResponseWriter, _ *http.Request, _ map[string]any) { _, _ = io.WriteString(w, text) }
}

func TestSQL(t *testing.T) {
	d := serve(t, answer(sqlStream))
	got, err := d.run(t, query.Query{SQL: "SELECT 1", TimeZone: "Europe/Zurich"})
	want := &query.Result{
		Columns: []query.Column{{Name: "status", Type: query.String}, {Name: "n", Type: query.Integer}, {Name: "share", Type: query.Number}, {Name: "at", Type: query.Time}, {Name: "paid", Type: query.Boolean}},
		Rows: [][]any{
			{"shipped", json.Number("12"), json.Number("0.25"), "2026-01-01T00:00:00.000", true},
			{nil, nil, nil, nil, nil},
			{"", json.Number("-3"), nil, "2026-01-02T00:00:00.000", false},
		},
		LastRefresh: time.Date(2026, 11, 23, 12, 0, 0, 0, time.UTC), TimeZone: "Europe/Zurich",
	}
	if diff := cmp.Diff(want, got, cmpopts.IgnoreUnexported(query.Result{})); diff != "" || err != nil {
		t.Error(err, diff)
	}
	if want := `{"query":"SELECT 1","cache":"stale-if-slow","timezone":"Europe/Zurich","throwContinueWait":true}`; d.bodies[0] != want {
		t.Errorf("sent %s, want %s", d.bodies[0], want)
	}
}

// TestStreams has responses of /v1/cubesql that are complete or not.
func TestStreams(t *testing.T) {
	const schema = `{"schema":[{"name":"a","column_type":"Int32"}]}` + "\n"
	const malformed = "the data API's response is malformed: "
	for name, tc := range map[string]struct{ stream, want string }{
		"no rows":                    {schema + `{"data":[]}` + "\n", ""},
		"no line with rows":          {schema, ""},
		"no line end at the end":     {schema + `{"data":[["1"]]}`, ""},
		"empty lines":                {"\n" + schema + "\r\n\n" + `{"data":[[1]]}` + "\n\n", ""},
		"decimals of an integer":     {schema + `{"data":[["1.50"],[null]]}`, ""},
		"an error at once":           {`{"error":"Error: no such table","requestId":"x"}` + "\n", "the data API answered: Error: no such table (request id "},
		"an error after rows":        {schema + `{"data":[["1"]]}` + "\n" + `{"error":"connection lost"}` + "\n", "the data API answered: connection lost (request id "},
		"an error without a text":    {schema + `{"error":""}`, "the data API answered:  (request id "},
		"a line that is cut off":     {schema + `{"data":[["1`, malformed + "a line is not the JSON of a schema, rows or an error"},
		"nothing":                    {"", malformed + "it has no schema"},
		"HTML":                       {"<html>", malformed + "a line is not"},
		"rows before the schema":     {`{"data":[]}` + "\n" + schema, malformed + "rows come before the schema"},
		"two schemas":                {schema + schema, malformed + "it has two schemas"},
		"an unknown line":            {schema + `{"rows":[]}`, malformed + "a line has neither schema nor data nor error"},
		"two values in a line":       {schema + `{"data":[]} {"data":[]}`, malformed + "a line has more than one value"},
		"a row that is too long":     {schema + `{"data":[[1,2]]}`, malformed + "a row has 2 values and the schema 1 columns"},
		"data that are not in a row": {schema + `{"data":[1]}`, malformed + "a line is not"},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := serve(t, answer(tc.stream)).run(t, query.Query{SQL: "SELECT 1"})
			if tc.want == "" && err != nil || tc.want != "" && (err == nil || !strings.HasPrefix(err.Error(), tc.want)) {
				t.Errorf("got %v, want %q", err, tc.want)
			}
		})
	}
}

// TestColumnsWhoseValuesAreOfAnotherType: the value decides, and all rows of a column have one type.
func TestColumnsWhoseValuesAreOfAnotherType(t *testing.T) {
	d := serve(t, answer(`{"schema":[{"name":"a","column_type":"Int32"},{"name":"b","column_type":"Double"},{"name":"c","column_type":"Boolean"},{"name":"d","column_type":{"Decimal":[38,10]}},{"name":"e","column_type":{"Interval":"DayTime"}},{"name":"f","column_type":{"List":{}}}]}
{"data":[["1","1","t","007","1 day",["x"]],["1.5","n/a",2,"-0.50",null,null]]}`))
	got, err := d.run(t, query.Query{SQL: "SELECT 1"})
	want := &query.Result{
		Columns: []query.Column{{Name: "a", Type: query.Number}, {Name: "b", Type: query.String}, {Name: "c", Type: query.String}, {Name: "d", Type: query.Number}, {Name: "e", Type: query.String}, {Name: "f", Type: query.String}},
		Rows: [][]any{
			{json.Number("1"), "1", "true", json.Number("7"), "1 day", `["x"]`},
			{json.Number("1.5"), "n/a", "2", json.Number("-0.50"), nil, nil},
		},
		TimeZone: "UTC",
	}
	if diff := cmp.Diff(want, got, cmpopts.IgnoreUnexported(query.Result{})); diff != "" || err != nil {
		t.Error(err, diff)
	}
}

const loaded = `{"queryType":"regularQuery","results":[{"query":{"dimensions":["orders.status"],"timeDimensions":[{"dimension":"orders.at","granularity":"month"}],"limit":2,"rowLimit":2},
"data":{"members":["orders.status","orders.at.month","orders.count","orders.at"],"dataset":[["a","2026-01-01T00:00:00.000","5","2026-01-01T00:00:00.000"],["b",null,7,null]]},
"annotation":{"measures":{"orders.count":{"type":"number"}},"dimensions":{"orders.status":{"type":"string"}},"timeDimensions":{"orders.at.month":{"type":"time"},"orders.at":{"type":"time"}}},
"lastRefreshTime":"2026-11-23T12:00:00.000Z","slowQuery":true}]}`

func TestLoad(t *testing.T) {
	waits := 0
	d := serve(t, func(w http.ResponseWriter, _ *http.Request, _ map[string]any) {
		if waits++; waits < 3 {
			_, _ = io.WriteString(w, `{"error":"Continue wait","stage":"x"}`)
			return
		}
		_, _ = io.WriteString(w, loaded)
	})
	got, err := d.run(t, query.Query{JSON: json.RawMessage(`{"measures":["orders.count"], "timezone": null}`)})
	want := &query.Result{
		Columns: []query.Column{{Name: "orders.status", Type: query.String}, {Name: "orders.at.month", Type: query.Time}, {Name: "orders.count", Type: query.Number}},
		Rows: [][]any{
			{"a", "2026-01-01T00:00:00.000", json.Number("5")},
			{"b", nil, json.Number("7")},
		},
		LastRefresh: time.Date(2026, 11, 23, 12, 0, 0, 0, time.UTC), Stale: true, LimitReached: true, TimeZone: "UTC",
	}
	if diff := cmp.Diff(want, got, cmpopts.IgnoreUnexported(query.Result{})); diff != "" || err != nil {
		t.Error(err, diff)
	}
	if diff := cmp.Diff([]string{"POST /v1/load 1", "POST /v1/load 2", "POST /v1/load 3"}, d.seen()); diff != "" {
		t.Error(diff)
	}
	const body = `{"query":{"measures":["orders.count"],"responseFormat":"compact","timezone":"UTC"},"cache":"stale-if-slow","queryType":"multi"}`
	if d.bodies[0] != body || d.bodies[1] != body {
		t.Errorf("sent %s and %s, want %s", d.bodies[0], d.bodies[1], body)
	}
	if got, err := d.run(t, query.Query{JSON: json.RawMessage(`{"limit": 2}`)}); err != nil || got.LimitReached {
		t.Error("the limit is that of the query", err, got)
	}
}

func TestLoadOfSeveralRanges(t *testing.T) {
	d := serve(t, answer(`{"results":[{"data":{"members":["orders.count"],"dataset":[["1"]]},"lastRefreshTime":"2026-11-23T12:00:00.000Z"},{"data":{"members":["orders.count"],"dataset":[["2"]]},"lastRefreshTime":"2026-11-23T11:00:00.000Z"}]}`))
	got, err := d.run(t, query.Query{JSON: json.RawMessage(`{}`)})
	if err != nil || len(got.Rows) != 2 || got.LastRefresh.Hour() != 11 {
		t.Error(got, err)
	}
}

func TestLoadThatFails(t *testing.T) {
	for name, tc := range map[string]struct {
		status     int
		body, want string
		forbidden  bool
	}{
		"a refusal":         {403, `{"error":"this token is for metadata only"}`, "the data API answered: this token is for metadata only", true},
		"a hidden member":   {500, `{"error":"You requested hidden member: 'orders__id'. Please"}`, "the data API answered: You requested hidden member: 'orders__id'.", true},
		"its class before":  {500, `{"error":"Error: You requested hidden member: 'orders__id'. Please"}`, "the data API answered: Error: You requested hidden member: 'orders__id'.", true},
		"a compile error":   {500, `{"error":"Compile errors:\n\u0007bad"}`, "the data API answered: Compile errors:\n bad", false},
		"HTML":              {400, `<html>`, "the data API answered: 400 Bad Request", false},
		"an error with 200": {200, `{"error":"lost"}`, "the data API answered: lost", false},
		"no results":        {200, `{}`, "the data API's response is malformed: it has no results", false},
		"no JSON":           {200, `{"results":[`, "the data API did not answer: connection closed", false},
		"wrong JSON":        {200, `{"results":1}`, "the data API's response is malformed: it is not the JSON of /v1/load", false},
		"other columns":     {200, `{"results":[{"data":{"members":["a"]}},{"data":{"members":["b"]}}]}`, "the data API's response is malformed: its results have different columns", false},
		"a short row":       {200, `{"results":[{"data":{"members":["a","b"],"dataset":[[1]]}}]}`, "the data API's response is malformed: a row has 1 values", false},
		"no such path":      {404, `404 page not found`, "the data API answered: 404 Not Found: the pods of the deployment do not serve /cubejs-api/v1/load (request id ", false},
		"no such host":      {404, `{"error":"no deployment has this host"}`, "the data API answered: no deployment has this host (request id ", false},
		"a redirect":        {302, ``, "the data API answered: 302 Found", false},
	} {
		t.Run(name, func(t *testing.T) {
			d := serve(t, func(w http.ResponseWriter, _ *http.Request, _ map[string]any) {
				w.Header().Set("Location", "/elsewhere")
				w.WriteHeader(tc.status)
				_, _ = io.WriteString(w, tc.body)
			})
			_, err := d.run(t, query.Query{JSON: json.RawMessage(`{}`)})
			if err == nil || !strings.HasPrefix(err.Error(), tc.want) || strings.Contains(err.Error(), "the token") {
				t.Errorf("got %v, want %s", err, tc.want)
			}
			var refused *query.ServerError
			if errors.As(err, &refused) && refused.Forbidden() != tc.forbidden {
				t.Errorf("forbidden: %t", refused.Forbidden())
			}
		})
	}
}

// TestFailuresOfTheWay: what the query is not to blame for is tried again, with the next request id.
func TestFailuresOfTheWay(t *testing.T) {
	n := 0
	d := serve(t, func(w http.ResponseWriter, _ *http.Request, _ map[string]any) {
		switch n++; n {
		case 1:
			w.WriteHeader(http.StatusBadGateway)
		case 2:
			w.Header().Set("Retry-After", "0")
			w.WriteHeader(http.StatusServiceUnavailable)
		case 3: // the connection ends after the first rows
			_, _ = io.WriteString(w, sqlStream[:len(sqlStream)-5])
			_ = http.NewResponseController(w).Flush()
			panic(http.ErrAbortHandler)
		case 4:
			_, _ = io.WriteString(w, `{"error":"continue wait"}`+"\n")
		default:
			_, _ = io.WriteString(w, sqlStream)
		}
	})
	got, err := d.run(t, query.Query{SQL: "SELECT 1"})
	if err != nil || len(got.Rows) != 3 || n != 5 {
		t.Errorf("%v, %v after %d requests", got, err, n)
	}

	d = serve(t, func(w http.ResponseWriter, _ *http.Request, _ map[string]any) { w.WriteHeader(http.StatusBadGateway) })
	if _, err := d.run(t, query.Query{SQL: "SELECT 1"}); err == nil || !strings.Contains(err.Error(), "502 Bad Gateway") || len(d.seen()) != 5 {
		t.Errorf("%v after %d requests", err, len(d.seen()))
	}
	d.Close()
	if _, err := d.run(t, query.Query{SQL: "SELECT 1"}); err == nil || err.Error() != "the data API did not answer: connection refused" {
		t.Error(err)
	}
}

func TestLimits(t *testing.T) {
	d := serve(t, answer(sqlStream))
	run := func(q query.Query, l query.Limits) string {
		_, err := d.runner().Run(t.Context(), q, d.target(), l)
		return fmt.Sprint(err)
	}
	sql := query.Query{SQL: "SELECT 1"}
	rows, bytes := query.Limits{Rows: 2, Bytes: 1 << 20, Duration: time.Minute}, query.Limits{Rows: 100, Bytes: 100, Duration: time.Minute}
	if got := run(sql, rows); got != "the result has more than 2 rows, the limit: narrow it with filters or a smaller LIMIT" {
		t.Error(got)
	}
	if got := run(sql, bytes); got != "the result has more than 100 bytes, the limit: narrow it with filters or a smaller LIMIT" {
		t.Error(got)
	}
	d.handle = answer(loaded)
	asJSON := query.Query{JSON: json.RawMessage(`{}`)}
	if got := run(asJSON, query.Limits{Rows: 1, Bytes: 1 << 20, Duration: time.Minute}); !strings.Contains(got, "more than 1 rows") {
		t.Error(got)
	}
	if got := run(asJSON, bytes); !strings.Contains(got, "more than 100 bytes") {
		t.Error(got)
	}
	d.handle = answer(`{"error":"Continue wait"}`)
	if got := run(asJSON, query.Limits{Rows: 1, Bytes: 1000, Duration: 300 * time.Millisecond}); !strings.HasPrefix(got, "the query was cancelled after 300ms, the limit") {
		t.Error(got)
	}
	if seen := d.seen(); !strings.HasPrefix(seen[len(seen)-1], "DELETE /v1/running-query/") {
		t.Errorf("the query goes on in the data plane: %q", seen)
	}
}

// TestOneRunAtATime: callers of the same query share a run, which ends when the last one has gone.
func TestOneRunAtATime(t *testing.T) {
	begun, ended := make(chan struct{}, 10), make(chan struct{}, 10)
	d := serve(t, func(w http.ResponseWriter, r *http.Request, _ map[string]any) {
		if r.Method == http.MethodDelete {
			ended <- struct{}{}
			return
		}
		begun <- struct{}{}
		<-r.Context().Done()
	})
	runner, target := d.runner(), d.target()
	begin := func(ctx context.Context, who string, q query.Query) chan error {
		done := make(chan error, 1)
		target := target
		target.Identity = who
		go func() {
			_, err := runner.Run(ctx, q, target, query.DefaultLimits)
			done <- err
		}()
		return done
	}
	q := query.Query{SQL: "SELECT 1"}
	first, endFirst := context.WithCancel(t.Context())
	second, endSecond := context.WithCancel(t.Context())
	a := begin(first, "ada", q)
	<-begun
	b := begin(second, "ada", q)
	other := begin(second, "ben", q)
	<-begun // that of ben
	waitForCallers(t, runner, 3)
	endFirst()
	if err := <-a; !errors.Is(err, context.Canceled) {
		t.Error(err)
	}
	select {
	case <-ended:
		t.Error("the run ended while a caller waits")
	default:
	}
	endSecond()
	for _, done := range []chan error{b, other} {
		if err := <-done; !errors.Is(err, context.Canceled) {
			t.Error(err)
		}
		<-ended // in the data plane too
	}
	if got := len(begun); got != 0 {
		t.Errorf("%d further runs", got)
	}
}

func waitForCallers(t *testing.T, runner *query.Runner, n int) {
	t.Helper()
	for query.Waiting(runner) != n {
		select {
		case <-t.Context().Done():
			t.Fatal("the callers do not wait")
		case <-time.After(time.Millisecond):
		}
	}
}

func TestResultsAreShared(t *testing.T) {
	release := make(chan struct{})
	d := serve(t, func(w http.ResponseWriter, _ *http.Request, _ map[string]any) {
		<-release
		_, _ = io.WriteString(w, sqlStream)
	})
	runner, results := d.runner(), make(chan *query.Result, 5)
	for range cap(results) {
		go func() {
			got, err := runner.Run(t.Context(), query.Query{SQL: "SELECT 1"}, d.target(), query.DefaultLimits)
			if err != nil {
				t.Error(err)
			}
			results <- got
		}()
	}
	waitForCallers(t, runner, cap(results))
	close(release)
	for range cap(results) {
		if got := <-results; got == nil || len(got.Rows) != 3 {
			t.Error(got)
		}
	}
	if seen := d.seen(); len(seen) != 1 {
		t.Errorf("%q", seen)
	}
	if _, err := runner.Run(t.Context(), query.Query{SQL: "SELECT 1"}, d.target(), query.DefaultLimits); err != nil || len(d.seen()) != 2 {
		t.Error("a later run is another one", err, d.seen())
	}
}

func TestInvalidQueries(t *testing.T) {
	for want, q := range map[string]query.Query{
		"query: exactly one of SQL and JSON is required":                                            {},
		"query: exactly one of SQL and JSON is required ":                                           {SQL: "SELECT 1", JSON: json.RawMessage(`{}`)},
		"query: 262145 bytes; the maximum is 262144":                                                {SQL: strings.Repeat("x", 256<<10+1)},
		"sql: not valid UTF-8":                                                                      {SQL: "\xff"},
		"timezone: \"Mars\"; expected a name of the IANA time zone database":                        {SQL: "SELECT 1", TimeZone: "Mars"},
		"timezone: \"Local\"; expected":                                                             {SQL: "SELECT 1", TimeZone: "Local"},
		"timezone: \"../etc/passwd\"; expected":                                                     {SQL: "SELECT 1", TimeZone: "../etc/passwd"},
		"cache: \"always\"; allowed: stale-if-slow, stale-while-revalidate, must-revalidate, no-ca": {SQL: "SELECT 1", Cache: "always"},
		"json: expected a JSON object":                                                              {JSON: json.RawMessage(`[{}]`)},
		"json: expected a JSON object ":                                                             {JSON: json.RawMessage(`null`)},
		"json.timezone: expected a string":                                                          {JSON: json.RawMessage(`{"timezone":1}`)},
		"timezone: \"x\"; expected a name":                                                          {JSON: json.RawMessage(`{"timezone":"x"}`)},
	} {
		d := serve(t, answer(sqlStream))
		if _, err := d.run(t, q); err == nil || !strings.HasPrefix(err.Error(), strings.TrimSpace(want)) || len(d.seen()) != 0 {
			t.Errorf("got %v, want %s", err, want)
		}
	}
}

func TestTokenThatCannotBeIssued(t *testing.T) {
	d := serve(t, answer(sqlStream))
	target, refused := d.target(), errors.New("the person is deactivated")
	target.Token = func(context.Context) (string, error) { return "", refused }
	if _, err := d.runner().Run(t.Context(), query.Query{SQL: "SELECT 1"}, target, query.DefaultLimits); !errors.Is(err, refused) || len(d.seen()) != 0 {
		t.Error(err, d.seen())
	}
}

// TestTokensOfAnotherCaller: a run whose caller gets no tokens any more ends for that caller only; others run the query again.
func TestTokensOfAnotherCaller(t *testing.T) {
	begun, proceed, requests := make(chan struct{}), make(chan struct{}), 0
	d := serve(t, func(w http.ResponseWriter, _ *http.Request, _ map[string]any) {
		if requests++; requests > 1 {
			_, _ = io.WriteString(w, loaded)
			return
		}
		begun <- struct{}{}
		<-proceed
		_, _ = io.WriteString(w, `{"error":"Continue wait"}`)
	})
	runner, revoked := d.runner(), errors.New("the credential was revoked")
	begin := func(token func(context.Context) (string, error)) chan error {
		target, done := d.target(), make(chan error, 1)
		target.Token = token
		go func() {
			_, err := runner.Run(t.Context(), query.Query{JSON: json.RawMessage(`{}`)}, target, query.DefaultLimits)
			done <- err
		}()
		return done
	}
	issued := 0
	first := begin(func(context.Context) (string, error) {
		if issued++; issued > 1 {
			return "", revoked
		}
		return "the token", nil
	})
	<-begun
	second := begin(d.target().Token)
	waitForCallers(t, runner, 2)
	close(proceed)
	if err := <-first; !errors.Is(err, revoked) {
		t.Errorf("the caller without tokens: %v", err)
	}
	if err := <-second; err != nil {
		t.Errorf("another caller: %v", err)
	}
	if diff := cmp.Diff([]string{"POST /v1/load 1", "POST /v1/load 1"}, d.seen()); diff != "" {
		t.Error(diff)
	}
}

// serveControls answers all requests of a query with controls: converted is the answer to its conversion, and ran gets what
// is run.
func serveControls(t *testing.T, converted *string, ran *[]string) *dataAPI {
	return serve(t, func(w http.ResponseWriter, r *http.Request, body map[string]any) {
		switch strings.TrimPrefix(r.URL.Path, "/cubejs-api/v1/") {
		case "convert-query":
			_, _ = io.WriteString(w, *converted)
		case "meta":
			if r.Method != http.MethodGet {
				w.WriteHeader(http.StatusNotFound)
				return
			}
			_, _ = io.WriteString(w, `{"cubes":[{"measures":[{"name":"orders.count","type":"number"}],"dimensions":[{"name":"orders.status","type":"string"},{"name":"orders.country","type":"string"}]}]}`)
		case "load":
			text, _ := json.Marshal(body["query"])
			*ran = append(*ran, string(text))
			_, _ = io.WriteString(w, `{"results":[{"data":{"members":["orders.country"],"dataset":[["CH"]]}}]}`)
		case "cubesql":
			*ran = append(*ran, fmt.Sprint(body["query"]))
			_, _ = io.WriteString(w, sqlStream)
		}
	})
}

// TestControls: controls apply to the query that SQL is converted to.
func TestControls(t *testing.T) {
	converted := `{"status":"ok","query":{"measures":["orders.count"],"dimensions":["orders.status"]}}`
	var ran []string
	d := serveControls(t, &converted, &ran)
	run := func(c controls.Controls) (*query.Result, []controls.Outcome) {
		ran = nil
		got, outcomes, err := d.runner().RunWith(t.Context(), query.Query{SQL: "SELECT 1"}, c, d.target(), query.DefaultLimits)
		if err != nil {
			t.Fatal(err)
		}
		return got, outcomes
	}
	c := controls.Controls{
		Filters:   []controls.Filter{{Member: "orders.status", Value: "shipped"}, {Member: "users.name", Value: "x"}},
		Switchers: []controls.Switcher{{Member: "orders.status", Selected: "country"}},
	}
	got, outcomes := run(c)
	if diff := cmp.Diff([]query.Column{{Name: "orders.status", Type: query.String}}, got.Columns); diff != "" {
		t.Error(diff)
	}
	if diff := cmp.Diff([]string{`{"dimensions":["orders.country"],"filters":[{"member":"orders.status","operator":"equals","values":["shipped"]}],"measures":["orders.count"],"responseFormat":"compact","timezone":"UTC"}`}, ran); diff != "" {
		t.Error(diff)
	}
	want := []controls.Outcome{
		{Control: "memberSwitchers[0]", Member: "orders.status", Applied: true},
		{Control: "filters[0]", Member: "orders.status", Applied: true},
		{Control: "filters[1]", Member: "users.name", Reason: "the query does not use users"},
	}
	if diff := cmp.Diff(want, outcomes); diff != "" {
		t.Error(diff)
	}
	if _, outcomes := run(controls.Controls{Filters: c.Filters[1:]}); len(outcomes) != 1 || cmp.Diff([]string{"SELECT 1"}, ran) != "" {
		t.Error("SQL that no control applies to runs as it is", outcomes, ran)
	}
	if _, outcomes := run(controls.Controls{}); outcomes != nil || len(ran) != 1 {
		t.Error(outcomes, ran)
	}
	for _, converted = range []string{
		`{"status":"error","error":"Provided sql query can not be converted to rest query."}`,
		`{"status":"ok","query":{"measures":["{\"expression\": 1}"]}}`,
	} {
		if _, outcomes := run(c); len(outcomes) != 3 || outcomes[0].Applied || !strings.HasPrefix(outcomes[0].Reason, "the SQL cannot be converted to a JSON query: ") || len(ran) != 1 {
			t.Error(outcomes, ran)
		}
	}
}

func FuzzStream(f *testing.F) {
	f.Add([]byte(sqlStream))
	f.Add([]byte(`{"schema":[{"name":"a","column_type":{"Decimal":[1,2]}}]}` + "\n" + `{"data":[["1e400"],[-0.0],["00"],["-"],[{}],[[]],[true]]}`))
	f.Add([]byte(`{"error":"late"}`))
	f.Fuzz(func(t *testing.T, stream []byte) {
		limits := query.Limits{Rows: 100, Bytes: 10_000}
		result, err := query.ReadStream(strings.NewReader(string(stream)), limits)
		if err != nil {
			return
		}
		if len(result.Rows) > limits.Rows || int64(len(stream)) > limits.Bytes {
			t.Fatalf("%d rows of %d bytes", len(result.Rows), len(stream))
		}
		// Every result is JSON and CSV, with as many values in each row as there are columns.
		if _, err := json.Marshal(result); err != nil {
			t.Fatal(err)
		}
		checkCSV(t, result)
	})
}
