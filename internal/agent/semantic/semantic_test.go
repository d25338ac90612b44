package semantic

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"net/http"
	"net/http/httptest"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/quoin-dev/quoin/internal/agent"
	"github.com/quoin-dev/quoin/internal/query"
)

const metadata = `{"cubes":[
	{"name":"raw_orders","type":"cube","title":"Raw Orders","measures":[{"name":"raw_orders.count","title":"Raw Orders Count","shortTitle":"Count","type":"number","aggType":"count"}],"dimensions":[],"segments":[]},
	{"name":"orders","type":"view","title":"Orders","description":"Orders of the shop.","meta":{"ai_context":"Use completed orders for revenue."},
		"measures":[{"name":"orders.count","title":"Orders Count","shortTitle":"Count","type":"number","aggType":"count"},
			{"name":"orders.revenue","title":"Orders Revenue","shortTitle":"Revenue","description":"Without tax.","type":"number","aggType":"sum","meta":{"ai_context":7}}],
		"dimensions":[{"name":"orders.status","title":"Orders Status","shortTitle":"Status","type":"string","meta":{"ai_context":"new or done"}}],"segments":[]},
	{"name":"customers","type":"view","title":"Customers","meta":["odd"],"measures":[],"dimensions":[{"name":"customers.city","title":"Customers City","shortTitle":"City","type":"string"}],
		"segments":[{"name":"customers.active","title":"Customers Active","shortTitle":"Active"}]}]}`

// probe is a query for one member, and hidden are the members that exist and that the asker does not see.
var (
	probe  = regexp.MustCompile(`"(?:dimensions":\["([a-z_.]+)"\],"limit":1|limit":1,"measures":\["([a-z_.]+)"\])[,}]`)
	hidden = []string{"orders.margin", "salaries.amount", "salaries.name"}
)

// emptyHidden is a hidden member for which the server returns no rows instead of an error, as some versions do, and noRows its response.
const (
	emptyHidden = "orders.cost"
	noRows      = `{"results":[{"query":{},"data":{"members":[],"dataset":[]},"annotation":{}}]}`
)

// world is a data API and what was asked of it.
type world struct {
	*testing.T
	*httptest.Server
	Options
	mu       sync.Mutex
	requests []string
	// meta is the response to /v1/meta, and answer that to a query, with its status.
	meta, answer string
	status       int
}

func newWorld(t *testing.T) *world {
	w := &world{T: t, meta: metadata, status: http.StatusOK}
	w.Server = httptest.NewServer(http.HandlerFunc(func(out http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		w.mu.Lock()
		defer w.mu.Unlock()
		w.requests = append(w.requests, strings.TrimSpace(fmt.Sprintf("%s %s %s %s", r.Header.Get("Authorization"), r.Method, r.URL.Path, body)))
		if strings.HasSuffix(r.URL.Path, "/v1/meta") {
			_, _ = io.WriteString(out, w.meta)
			return
		}
		if probed := probe.FindSubmatch(body); probed != nil {
			member := string(probed[1]) + string(probed[2])
			if member == emptyHidden {
				_, _ = io.WriteString(out, noRows)
				return
			}
			out.WriteHeader(http.StatusInternalServerError)
			if slices.Contains(hidden, member) {
				_, _ = fmt.Fprintf(out, `{"error":"Error: You requested hidden member: '%s'. Please make it visible"}`, member)
			} else {
				_, _ = io.WriteString(out, `{"error":"Error: it is not found for path"}`)
			}
			return
		}
		out.WriteHeader(w.status)
		_, _ = io.WriteString(out, w.answer)
	}))
	t.Cleanup(w.Server.Close)
	ids := 0
	w.Options = Options{
		Runner: &query.Runner{HTTP: query.NewClient(w.Client().Transport)},
		Target: query.Target{URL: w.URL + "/cubejs-api", Identity: "ada", Token: func(context.Context) (string, error) { return "token-of-ada", nil }},
		Limits: query.Limits{Rows: 1000, Bytes: 1 << 20, Duration: time.Minute}, SQL: true, TimeZone: "UTC",
		CertifiedQueries: []CertifiedQuery{
			{Name: "revenue", UserRequest: "What is the revenue?", SQL: "SELECT MEASURE(revenue) FROM orders"},
			{Name: "cities", UserRequest: "Which cities are there?", Description: "By name", SQL: "SELECT city FROM customers GROUP BY 1"},
		},
		Skills: []Skill{{Name: "weekly", Title: "Weekly report", Description: "How to report", Instructions: "Begin with the revenue."}},
		NewID:  func() string { ids++; return fmt.Sprint("id-", ids) },
	}
	return w
}

// rows sets the answer to SQL.
func (w *world) rows(schema string, rows ...string) {
	w.answer = `{"schema":[` + schema + `]}` + "\n" + `{"data":[` + strings.Join(rows, ",") + `]}` + "\n"
}

// call runs a tool.
func (w *world) call(name string, input any) (*agent.Result, error) {
	w.Helper()
	return w.callWith(name, input, 500)
}

// callWith runs a tool that may read a number of rows.
func (w *world) callWith(name string, input any, rows int) (*agent.Result, error) {
	w.Helper()
	text, err := json.Marshal(input)
	if err != nil {
		w.Fatal(err)
	}
	for _, t := range Tools(w.Options) {
		if t.Name == name {
			return t.Run(w.Context(), agent.Input{JSON: text, MaxRows: rows})
		}
	}
	w.Fatalf("there is no tool %s", name)
	return nil, nil
}

// refused runs a tool that must fail with a class and with a part of a message, and returns the message.
func (w *world) refused(name string, input any, class, says string) {
	w.Helper()
	result, err := w.call(name, input)
	failed := &agent.ToolError{}
	if !errors.As(err, &failed) || failed.Class != class || !strings.Contains(failed.Message, says) {
		w.Errorf("%s(%v): %v %v; want %s: … %s", name, input, result, err, class, says)
	}
}

type object = map[string]any

// names returns the names of the cubes of a result and of their members.
func names(t *testing.T, r *agent.Result) (out []string) {
	t.Helper()
	var result metaResult
	if err := json.Unmarshal(r.Wire, &result); err != nil {
		t.Fatal(err)
	}
	for _, c := range result.Cubes {
		out = append(out, c.Name)
		for _, m := range c.Members {
			out = append(out, m.Name)
		}
	}
	return out
}

func TestMeta(t *testing.T) {
	w := newWorld(t)
	result, err := w.call("cubeMeta", object{"searchQuery": "order status", "securityContext": object{"tenant": "other"}})
	if err != nil {
		t.Fatal(err)
	}
	want := `{"cubes":[{"name":"orders","type":"view","title":"Orders","description":"Orders of the shop.","aiContext":"Use completed orders for revenue.","members":[
		{"name":"orders.status","title":"Orders Status","description":"","type":"string","aiContext":"new or done","memberType":"dimension"},
		{"name":"orders.count","title":"Orders Count","description":"","type":"number","aggType":"count","memberType":"measure"},
		{"name":"orders.revenue","title":"Orders Revenue","description":"Without tax.","type":"number","aggType":"sum","memberType":"measure"}]}],"searchQuery":"order status"}`
	if diff := cmp.Diff(parsed(t, want), parsed(t, string(result.Wire))); diff != "" {
		t.Error(diff)
	}
	if got := strings.Join(w.requests, "\n"); got != "token-of-ada GET /cubejs-api/v1/meta" {
		t.Error(got)
	}
	for search, want := range map[string]string{
		"":                "customers customers.city customers.active orders orders.count orders.revenue orders.status",
		"  ?!":            "customers customers.city customers.active orders orders.count orders.revenue orders.status",
		"CITIES by city":  "customers customers.city customers.active",
		"revenue":         "orders orders.revenue orders.count orders.status",
		"completed tax":   "orders orders.revenue orders.count orders.status",
		"customersActive": "customers customers.active customers.city",
		"weather":         "",
	} {
		result, err := w.call("cubeMeta", object{"searchQuery": search})
		if err != nil {
			t.Errorf("%s: %v", search, err)
			continue
		}
		if got := strings.Join(names(t, result), " "); got != want {
			t.Errorf("%q: %s; want %s", search, got, want)
		}
	}
	// Without a match, the names of the views are shown.
	if result, err := w.call("cubeMeta", object{"searchQuery": "weather"}); err != nil || !strings.Contains(string(result.Wire), `"otherNames":["orders","customers"]`) {
		t.Error(result, err)
	}
	w.AccessibleViews = []string{"orders"}
	if result, err := w.call("cubeMeta", object{"searchQuery": ""}); err != nil || strings.Contains(string(result.Wire), "customers") {
		t.Error(result, err)
	}
	w.AccessibleViews, w.meta = nil, strings.ReplaceAll(metadata, `"type":"view",`, "")
	if result, err := w.call("cubeMeta", object{"searchQuery": "raw"}); err != nil || !slices.Contains(names(t, result), "raw_orders") {
		t.Error("a model without views has cubes:", result, err)
	}
	w.refused("cubeMeta", object{"searchQuery": 7}, agent.BadRequestError, "searchQuery")
	w.refused("cubeMeta", object{"searchQuery": strings.Repeat("x", 1001)}, agent.BadRequestError, "1001 bytes; allowed: 1000")
	w.meta = "<html>"
	w.refused("cubeMeta", object{"searchQuery": ""}, agent.UnavailableError, "malformed")
}

// The metadata of a large model do not fit: the best matches are shown, and the names of others.
func TestLargeMeta(t *testing.T) {
	w := newWorld(t)
	var cubes []string
	for i := range 300 {
		cubes = append(cubes, fmt.Sprintf(`{"name":"view%d","type":"view","title":"View","description":%q,"measures":[{"name":"view%d.total","title":"Total","description":%q,"type":"number"}]}`,
			i, strings.Repeat("é", 5000), i, strings.Repeat("x", 5000)))
	}
	w.meta = `{"cubes":[` + strings.Join(cubes, ",") + `]}`
	w.Limits.Bytes = 32 << 20
	result, err := w.call("cubeMeta", object{"searchQuery": "view250"})
	if err != nil {
		t.Fatal(err)
	}
	var got metaResult
	if err := json.Unmarshal(result.Wire, &got); err != nil {
		t.Fatal(err)
	}
	if len(result.Wire) > 32<<10 || !got.Truncated || got.Cubes[0].Name != "view250" || len(got.OtherNames) != maxNames {
		t.Errorf("%d bytes, %v, %s, %d other names", len(result.Wire), got.Truncated, got.Cubes[0].Name, len(got.OtherNames))
	}
}

func TestSQL(t *testing.T) {
	w := newWorld(t)
	w.rows(`{"name":"status","column_type":"String"},{"name":"count","column_type":"Int64"},{"name":"at","column_type":"Timestamp"},{"name":"paid","column_type":"Boolean"},{"name":"share","column_type":"Double"}`,
		`["<done>","12","2026-03-25T00:00:00.000",true,0.5]`, `[null,3,null,"false","1.25"]`)
	result, err := w.call("cubeSqlApi", object{
		"sqlQuery": "SELECT status FROM orders", "queryTitle": "T", "description": "D", "userRequest": "R", "memoryId": "M", "vegaSpec": `{"mark":"bar"}`,
	})
	if err != nil {
		t.Fatal(err)
	}
	want := `{"sqlQuery":"SELECT status FROM orders","queryTitle":"T","description":"D","userRequest":"R","memoryId":"M","vegaSpec":"{\"mark\":\"bar\"}","uuid":"id-1","totalRows":2,
		"schema":[{"name":"status","column_type":"String"},{"name":"count","column_type":"Int64"},{"name":"at","column_type":"Timestamp"},{"name":"paid","column_type":"Boolean"},{"name":"share","column_type":"Double"}],
		"data":[["<done>","12","2026-03-25T00:00:00.000","true","0.5"],[null,"3",null,"false","1.25"]]}`
	if diff := cmp.Diff(parsed(t, want), parsed(t, string(result.Wire))); diff != "" || result.Rows != 2 || !strings.Contains(string(result.Wire), "<done>") {
		t.Error(result.Rows, diff)
	}
	if want := `{"columns":["status","count","at","paid","share"],"rows":[["<done>","12","2026-03-25T00:00:00.000","true","0.5"],[null,"3",null,"false","1.25"]],"totalRows":2}`; result.Text != want {
		t.Errorf("the model gets %s", result.Text)
	}
	if got := w.requests[0]; !strings.HasPrefix(got, "token-of-ada POST /cubejs-api/v1/cubesql ") || !strings.Contains(got, `"query":"SELECT status FROM orders"`) {
		t.Error(got)
	}
	if _, err := w.call("cubeSqlApi", object{"query": "SELECT 1"}); err != nil {
		t.Errorf("the older form of the input: %v", err)
	}
}

// A result has at most 100 rows and has the number of all.
func TestManyRows(t *testing.T) {
	w := newWorld(t)
	many := slices.Repeat([]string{`["` + strings.Repeat("x", 2000) + `"]`}, 300)
	w.rows(`{"name":"a","column_type":"String"}`, many...)
	var got queryResult
	result, err := w.call("cubeSqlApi", object{"sqlQuery": "SELECT a FROM orders"})
	if err != nil || json.Unmarshal(result.Wire, &got) != nil {
		t.Fatal(err)
	}
	if got.TotalRows != 300 || got.LimitReached || len(got.Data) > 100 || len(got.Data) < 50 || len(result.Wire) > 256<<10 || len(result.Text) > 32<<10 || result.Rows != 300 {
		t.Errorf("%d rows of %d, %d and %d bytes", len(got.Data), got.TotalRows, len(result.Wire), len(result.Text))
	}
	if !strings.Contains(result.Text, "of 300 rows") {
		t.Error(result.Text[len(result.Text)-200:])
	}
	w.rows(`{"name":"a","column_type":"String"}`, slices.Repeat([]string{`["x"]`}, 501)...)
	result, err = w.call("cubeSqlApi", object{"sqlQuery": "SELECT a FROM orders"})
	if err != nil || json.Unmarshal(result.Wire, &got) != nil || got.TotalRows != 500 || !got.LimitReached || !strings.Contains(result.Text, "at least 500 rows") {
		t.Errorf("%v: %d rows", err, got.TotalRows)
	}
}

func TestJSON(t *testing.T) {
	w := newWorld(t)
	w.SQL = false
	w.answer = `{"results":[{"query":{},"data":{"members":["orders.status","orders.count"],"dataset":[["done","12"]]},"annotation":{"measures":{"orders.count":{"type":"number"}},"dimensions":{"orders.status":{"type":"string"}}}}]}`
	result, err := w.call("cubeJsonQuery", object{"query": object{"measures": []string{"orders.count"}, "dimensions": []string{"orders.status"}}, "queryTitle": "T"})
	if err != nil {
		t.Fatal(err)
	}
	want := `{"query":{"measures":["orders.count"],"dimensions":["orders.status"]},"queryTitle":"T","schema":[{"name":"orders.status","column_type":"String"},{"name":"orders.count","column_type":"Double"}],"data":[["done","12"]],"totalRows":1,"uuid":"id-1"}`
	if diff := cmp.Diff(parsed(t, want), parsed(t, string(result.Wire))); diff != "" {
		t.Error(diff)
	}
	if got := w.requests[0]; !strings.HasPrefix(got, "token-of-ada POST /cubejs-api/v1/load ") || !strings.Contains(got, `"limit":500`) {
		t.Error(got)
	}
	w.refused("cubeJsonQuery", object{}, agent.BadRequestError, "object is required")
	w.refused("cubeJsonQuery", object{"query": object{"securityContext": 1}}, agent.BadRequestError, `"securityContext" is not allowed; allowed: measures`)
	w.refused("cubeJsonQuery", object{"query": object{"measures": []string{strings.Repeat("x", 17<<10)}}}, agent.BadRequestError, "allowed: 16384")
	deep := json.RawMessage(strings.Repeat(`[`, 40) + strings.Repeat(`]`, 40))
	w.refused("cubeJsonQuery", object{"query": object{"filters": deep}}, agent.BadRequestError, "levels")
	w.answer = `{"error":"Cannot read member"}`
	w.status = http.StatusBadRequest
	w.refused("cubeJsonQuery", object{"query": object{"filters": []any{object{"or": []any{object{"member": "salaries.amount"}}}}}}, agent.ForbiddenError, `"salaries.amount" exists`)
	w.refused("cubeJsonQuery", object{"query": object{"order": object{"orders.margin": "asc"}}}, agent.ForbiddenError, `"orders.margin" exists`)
	w.refused("cubeJsonQuery", object{"query": object{"measures": []string{"orders.nothing"}}}, agent.BadRequestError, "Cannot read member")
}

// What is hidden from the asker is not the same as what does not exist, and is no empty result.
func TestForbidden(t *testing.T) {
	w := newWorld(t)
	unknown := func(sql, class, says string) {
		t.Helper()
		w.refused("cubeSqlApi", object{"sqlQuery": sql}, class, says)
	}
	w.status, w.answer = http.StatusBadRequest, `{"error":"Table not found"}`
	unknown("SELECT amount FROM salaries", agent.ForbiddenError, `"salaries.amount" exists`)
	unknown(`SELECT s.x, amount FROM "salaries" AS s`, agent.ForbiddenError, `"salaries.amount" exists`)
	unknown("SELECT c.city FROM customers c LEFT JOIN salaries ON true WHERE name = 'x'", agent.ForbiddenError, `"salaries.name" exists`)
	unknown("SELECT Orders.MARGIN FROM ORDERS", agent.ForbiddenError, `"orders.margin" exists`)
	unknown("SELECT x FROM nothing", agent.BadRequestError, "Table not found")
	unknown("SELECT status FROM orders WHERE status = 'margin' -- margin\n/* margin /* x */ */", agent.BadRequestError, "Table not found")
	unknown("SELECT $$margin$$, $x$ margin $x$ FROM orders", agent.BadRequestError, "Table not found")
	unknown("SELECT amount FROM orders", agent.BadRequestError, "Table not found")
	// A few members are looked for, and not all words of a text.
	w.requests = nil
	unknown("SELECT "+strings.Repeat("a, b, c, d, e, f, g, h, i, j, k, l, ", 3)+"z FROM orders", agent.BadRequestError, "Table not found")
	if n := len(w.requests); n != 2+2*maxProbes { // the query and the metadata too
		t.Errorf("%d requests", n)
	}
	w.status = http.StatusOK
	w.rows(`{"name":"amount","column_type":"Int64"}`)
	w.requests = nil
	if _, err := w.call("cubeSqlApi", object{"sqlQuery": "SELECT count AS amount FROM orders"}); err != nil || len(w.requests) != 1 {
		t.Errorf("no rows are no error: %v, %d requests", err, len(w.requests))
	}
	w.answer = `{"error":"You requested hidden member: orders.margin"}`
	unknown("SELECT 1", agent.ForbiddenError, "may not see")
	w.status = http.StatusForbidden
	unknown("SELECT 1", agent.ForbiddenError, "may not see")
}

// Some versions of the server return no rows for a hidden member.
func TestHiddenWithoutRows(t *testing.T) {
	w := newWorld(t)
	w.answer = noRows
	w.refused("cubeJsonQuery", object{"query": object{"measures": []string{emptyHidden}}}, agent.ForbiddenError, `"orders.cost" exists`)
	filter := object{"query": object{"measures": []string{"orders.count"}, "filters": []object{{"member": "orders.status", "operator": "equals", "values": []string{"example.com"}}}}}
	if result, err := w.call("cubeJsonQuery", filter); err != nil {
		t.Errorf("no rows are no error: %v, %v", result, err)
	}
	w.status, w.answer = http.StatusBadRequest, `{"error":"Column not found"}`
	w.refused("cubeSqlApi", object{"sqlQuery": "SELECT MEASURE(cost) FROM orders"}, agent.ForbiddenError, `"orders.cost" exists`)
}

// A server without SQL is queried with JSON, also by those who may write SQL.
func TestServerWithoutSQL(t *testing.T) {
	w := newWorld(t)
	w.status, w.answer = http.StatusNotFound, "Cannot POST /cubejs-api/v1/cubesql"
	w.refused("cubeSqlApi", object{"sqlQuery": "SELECT MEASURE(count) FROM orders"}, agent.BadRequestError, "use cubeJsonQuery")
	w.refused("certifiedQueries", object{"name": "revenue"}, agent.BadRequestError, "use cubeJsonQuery")
	w.status, w.answer = http.StatusOK, `{"results":[{"query":{},"data":{"members":["orders.count"],"dataset":[["12"]]},"annotation":{}}]}`
	if result, err := w.call("cubeJsonQuery", object{"query": object{"measures": []string{"orders.count"}}}); err != nil || !strings.Contains(string(result.Wire), `"12"`) {
		t.Error(result, err)
	}
}

func TestRefusedSQL(t *testing.T) {
	w := newWorld(t)
	for sql, says := range map[string]string{
		"":                                     "required",
		" \n":                                  "required",
		"SELECT 1; DROP TABLE x":               "more than one statement",
		"DELETE FROM orders":                   `begins with "delete"`,
		"-- SELECT\nSET x = 1":                 `begins with "set"`,
		"SELECT 'a":                            "no end",
		"SELECT /* x":                          "no end",
		"SELECT $a$ x":                         "no end",
		"SELECT " + strings.Repeat("1+", 9000): "allowed: 16384",
	} {
		w.refused("cubeSqlApi", object{"sqlQuery": sql}, agent.BadRequestError, says)
	}
	w.refused("cubeSqlApi", object{"sqlQuery": "SELECT 1", "queryTitle": strings.Repeat("x", 3000)}, agent.BadRequestError, "queryTitle")
	if len(w.requests) > 0 {
		t.Errorf("%s were sent", w.requests)
	}
	w.rows(`{"name":"a","column_type":"String"}`, `["x"]`)
	for _, sql := range []string{"SELECT 1;", "( select 1 ) ; -- end", "WITH x AS (SELECT 1) SELECT 'it''s; ok', \"a\"\"b\", `c`, $1 FROM x"} {
		if _, err := w.call("cubeSqlApi", object{"sqlQuery": sql}); err != nil {
			t.Errorf("%s: %v", sql, err)
		}
	}
}

func TestFailures(t *testing.T) {
	w := newWorld(t)
	for _, c := range []struct {
		status       int
		answer       string
		class, shown string
	}{
		{400, `{"error":"no column x"}`, agent.BadRequestError, "no column x"},
		{200, "{\"schema\":[]}\n{\"error\":\"division by zero\"}\n", agent.BadRequestError, "division by zero"},
		{401, `{"error":"Invalid token"}`, agent.InternalError, ""},
		{500, `{"error":"boom"}`, agent.BadRequestError, "boom"},
		{200, `<html>`, agent.UnavailableError, "malformed"},
		{200, "{\"schema\":[{\"name\":\"a\",\"column_type\":\"String\"}]}\n{\"data\":[[\"" + strings.Repeat("x", 2<<20) + "\"]]}\n", agent.LimitError, "bytes"},
	} {
		w.status, w.answer = c.status, c.answer
		w.refused("cubeSqlApi", object{"sqlQuery": "SELECT 1"}, c.class, c.shown)
	}
	w.Target.Token = func(context.Context) (string, error) { return "", errors.New("secret of the token") }
	_, err := w.call("cubeSqlApi", object{"sqlQuery": "SELECT 1"})
	if failed := (*agent.ToolError)(nil); err == nil || errors.As(err, &failed) {
		t.Errorf("an error of the token is not for the model: %v", err)
	}
}

func TestVega(t *testing.T) {
	w := newWorld(t)
	w.rows(`{"name":"a","column_type":"String"}`, `["x"]`)
	for spec, says := range map[string]string{
		`"{}"`: "", `{"mark":"bar","encoding":{"x":{"field":"data"}}}`: "", `null`: "", `""`: "",
		`"bar"`: "JSON object", `"[]"`: "JSON object", `7`: "JSON object",
		`{"data":{"values":[1]}}`:                                         `"data"`,
		`{"layer":[{"data":{"url":"http://x"}}]}`:                         `"data"`,
		`{"datasets":{}}`:                                                 `"datasets"`,
		`{"encoding":{"href":{"field":"a"}}}`:                             `"href"`,
		`{"usermeta":{"embedOptions":{}}}`:                                `"usermeta"`,
		`{"mark":{"type":"image","url":"http:x"}}`:                        `"url"`,
		`{"a":"` + strings.Repeat("x", 33<<10) + `"}`:                     "allowed: 32768",
		`{"a":` + strings.Repeat("[", 50) + strings.Repeat("]", 50) + `}`: "levels",
	} {
		input := object{"sqlQuery": "SELECT 1", "vegaSpec": json.RawMessage(spec)}
		if says != "" {
			w.refused("cubeSqlApi", input, agent.BadRequestError, says)
		} else if _, err := w.call("cubeSqlApi", input); err != nil {
			t.Errorf("%s: %v", spec, err)
		}
	}
}

func TestCertifiedQueries(t *testing.T) {
	w := newWorld(t)
	result, err := w.call("certifiedQueries", object{"searchQuery": "Cities by name"})
	if err != nil || !strings.HasPrefix(string(result.Wire), `{"queries":[{"name":"cities","userRequest":"Which cities are there?","description":"By name","sqlQuery":"SELECT city`) || strings.Contains(string(result.Wire), `"revenue"`) {
		t.Error(result, err)
	}
	w.rows(`{"name":"revenue","column_type":"Double"}`, `["12.5"]`)
	result, err = w.call("certifiedQueries", object{"name": "revenue", "sqlQuery": "SELECT other FROM orders"})
	if err != nil || !strings.Contains(string(result.Wire), `"sqlQuery":"SELECT MEASURE(revenue) FROM orders"`) || !strings.Contains(string(result.Wire), `"userRequest":"What is the revenue?"`) {
		t.Error(result, err)
	}
	if got := w.requests[len(w.requests)-1]; !strings.HasPrefix(got, "token-of-ada ") || strings.Contains(got, "other") {
		t.Error(got)
	}
	w.refused("certifiedQueries", object{"name": "none"}, agent.BadRequestError, `"none"`)
}

func TestSkills(t *testing.T) {
	w := newWorld(t)
	result, err := w.call("skills", object{"name": "/weekly"})
	if err != nil || !result.Instructions || result.Text != "Begin with the revenue." || strings.Contains(string(result.Wire), "Begin") {
		t.Error(result, err)
	}
	if result, err = w.call("skills", object{}); err != nil || result.Instructions || !strings.Contains(string(result.Wire), "Weekly report") {
		t.Error(result, err)
	}
	w.refused("skills", object{"name": "none"}, agent.BadRequestError, `"none"`)
}

// No input of a tool has a field for an identity, and tools that do nothing are absent.
func TestSchemas(t *testing.T) {
	w := newWorld(t)
	for _, sql := range []bool{true, false} {
		w.SQL = sql
		for _, tool := range Tools(w.Options) {
			var schema struct {
				Type       string         `json:"type"`
				Properties map[string]any `json:"properties"`
				Additional *bool          `json:"additionalProperties"`
			}
			if err := json.Unmarshal(tool.Schema, &schema); err != nil || schema.Type != "object" || schema.Additional == nil || *schema.Additional {
				t.Errorf("%s: %v %s", tool.Name, err, tool.Schema)
			}
			for name := range schema.Properties {
				if !slices.Contains([]string{"searchQuery", "sqlQuery", "query", "queryTitle", "description", "userRequest", "vegaSpec", "name"}, name) {
					t.Errorf("%s has the field %s", tool.Name, name)
				}
			}
		}
	}
	tools := Tools(Options{SQL: true})
	if len(tools) != 3 || tools[0].Name != "cubeMeta" || tools[1].Name != "cubeSqlApi" || tools[2].Name != "cubeJsonQuery" {
		t.Error(tools)
	}
}

// Metadata are read once in a run, also by parallel calls.
func TestMetadataOnce(t *testing.T) {
	w := newWorld(t)
	meta := Tools(w.Options)[0]
	var group sync.WaitGroup
	for range 8 {
		group.Go(func() {
			if _, err := meta.Run(t.Context(), agent.Input{JSON: json.RawMessage(`{"searchQuery":"x"}`), MaxRows: 1}); err != nil {
				t.Error(err)
			}
		})
	}
	group.Wait()
	if len(w.requests) != 1 {
		t.Error(w.requests)
	}
}

func parsed(t *testing.T, text string) (out any) {
	t.Helper()
	if err := json.Unmarshal([]byte(text), &out); err != nil {
		t.Fatalf("%v: %s", err, text)
	}
	return out
}

// Two quotation marks in a quoted name are one.
func TestQuotedNames(t *testing.T) {
	s, err := readSQL("SELECT \"a\"\"b\", `c``d`, `e\"\"f`, G FROM \"T\"")
	if err != nil {
		t.Fatal(err)
	}
	want := []string{"T", "a\"b", "c`d", "e\"\"f", "from", "g", "select"}
	if got := slices.Sorted(maps.Keys(s.names)); !slices.Equal(got, want) || !s.tables["T"] {
		t.Errorf("names %q, want %q; tables %v", got, want, s.tables)
	}
}

// FuzzSQL reads SQL: names come from it, and strings and comments have none.
func FuzzSQL(f *testing.F) {
	for _, sql := range []string{"SELECT a.b FROM \"C\" WHERE x = 'y;z' -- n", "WITH x AS (SELECT $a$q$a$) /* /* */ */ SELECT `b`;", "'", "\"", "$a$", "é", "\xff", `"a""b""""" ` + "`c``d`"} {
		f.Add(sql)
	}
	f.Fuzz(func(t *testing.T, sql string) {
		s, err := readSQL(sql)
		if err != nil {
			return
		}
		for name := range s.names {
			isWritten := strings.Contains(strings.ToLower(sql), name) // a word
			for _, mark := range []string{`"`, "`"} {
				isWritten = isWritten || strings.Contains(sql, mark+strings.ReplaceAll(name, mark, mark+mark)+mark)
			}
			if !isWritten {
				t.Errorf("%q is not in %q", name, sql)
			}
		}
		hidden, err := readSQL("SELECT 'secret', " + "$q$secret$q$ /* secret */ -- secret\n;")
		if err != nil || hidden.names["secret"] {
			t.Error(hidden, err)
		}
	})
}

// FuzzInput runs the tools with any input: an error is for the model, and a result is JSON.
func FuzzInput(f *testing.F) {
	for _, input := range []string{`{}`, `{"sqlQuery":"SELECT 1","vegaSpec":{"mark":"bar"}}`, `{"query":{"filters":[{"or":[]}]}}`, `{"name":"weekly"}`, `{"searchQuery":"x"}`, `{"vegaSpec":"{\"data\":1}"}`} {
		f.Add(input)
	}
	refuses := roundTripper(func(*http.Request) (*http.Response, error) { return nil, io.ErrUnexpectedEOF })
	o := Options{
		Runner: &query.Runner{HTTP: query.NewClient(refuses)}, SQL: true, NewID: func() string { return "id" },
		Target:           query.Target{URL: "http://x", Token: func(context.Context) (string, error) { return "", errStop }},
		CertifiedQueries: []CertifiedQuery{{Name: "a", SQL: "SELECT 1"}}, Skills: []Skill{{Name: "weekly"}}, Limits: query.DefaultLimits,
	}
	all := Tools(o)
	o.SQL = false
	all = append(all, Tools(o)...)
	f.Fuzz(func(t *testing.T, input string) {
		if !json.Valid([]byte(input)) {
			return
		}
		for _, tool := range all {
			result, err := tool.Run(t.Context(), agent.Input{JSON: json.RawMessage(input), MaxRows: 10})
			if failed := (*agent.ToolError)(nil); err != nil && !errors.As(err, &failed) && !errors.Is(err, errStop) {
				t.Errorf("%s: %T %v", tool.Name, err, err)
			}
			if err == nil && !json.Valid(result.Wire) {
				t.Errorf("%s: %s", tool.Name, result.Wire)
			}
		}
	})
}

var errStop = errors.New("no token")

type roundTripper func(*http.Request) (*http.Response, error)

func (r roundTripper) RoundTrip(request *http.Request) (*http.Response, error) { return r(request) }
