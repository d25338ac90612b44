package query_test

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"runtime"
	"slices"
	"strings"
	"testing"

	"github.com/quoin-dev/quoin/internal/query"
)

// rows is a sink that keeps rows.
type rows struct {
	begun  int
	result query.Result
	err    error
}

func (r *rows) Begin(result *query.Result) error {
	r.begun++
	r.result = *result
	r.result.Rows = nil
	return nil
}

func (r *rows) Row(row []any) error {
	r.result.Rows = append(r.result.Rows, slices.Clone(row))
	return r.err
}

func (d *dataAPI) stream(t *testing.T, q query.Query, to query.Sink) error {
	t.Helper()
	return d.runner().Stream(t.Context(), &query.Plan{Query: q}, d.target(), query.DefaultLimits, to)
}

const (
	numbers = `{"schema":[{"name":"n","column_type":"Int32"}],"lastRefreshTime":"2026-11-23T12:00:00.000Z"}` + "\n"
	two     = numbers + `{"data":[["1"],["x"]]}` + "\n"
)

// TestStreamsOfRows: rows reach the sink once, whatever happens after the first of them.
func TestStreamsOfRows(t *testing.T) {
	for name, tc := range map[string]struct {
		responses []string
		want      string // rows
		err       string
		requests  int
	}{
		"complete":                   {[]string{two}, "[[1] [x]]", "", 1},
		"no rows":                    {[]string{numbers}, "[]", "", 1},
		"waits first":                {[]string{`{"error":"Continue wait"}`, numbers + `{"error":"Continue wait"}`, two}, "[[1] [x]]", "", 3},
		"broken before the first":    {[]string{`{"sch`, two}, "", "malformed", 1},
		"refused":                    {[]string{`{"error":"no such table"}`}, "", "no such table", 1},
		"an error after rows":        {[]string{two + `{"error":"connection lost"}`, two}, "[[1] [x]]", "connection lost", 1},
		"waits after rows":           {[]string{two + `{"error":"Continue wait"}`, two}, "[[1] [x]]", "Continue wait", 1},
		"ends within a line":         {[]string{two + `{"data":[["3`, two}, "[[1] [x]]", "malformed", 1},
		"the connection ends":        {[]string{two + "ABORT", two}, "[[1] [x]]", "ended the response before the end", 1},
		"the connection ends before": {[]string{numbers + "ABORT", two}, "[[1] [x]]", "", 2},
		"a row of another width":     {[]string{two + `{"data":[["1","2"]]}`, two}, "[[1] [x]]", "a row has 2 values", 1},
	} {
		t.Run(name, func(t *testing.T) {
			n := 0
			d := serve(t, func(w http.ResponseWriter, _ *http.Request, _ map[string]any) {
				text, aborts := strings.CutSuffix(tc.responses[min(n, len(tc.responses)-1)], "ABORT")
				n++
				_, _ = io.WriteString(w, text)
				if aborts {
					_ = http.NewResponseController(w).Flush()
					panic(http.ErrAbortHandler)
				}
			})
			got := &rows{}
			err := d.stream(t, query.Query{SQL: "SELECT 1"}, got)
			if (err == nil) != (tc.err == "") || err != nil && !strings.Contains(err.Error(), tc.err) {
				t.Errorf("error %v, want %q", err, tc.err)
			}
			if got.begun > 1 || (got.begun == 1) != (tc.want != "") {
				t.Errorf("began %d times", got.begun)
			}
			if shown := fmt.Sprint(got.result.Rows); tc.want != "" && shown != tc.want {
				t.Errorf("rows %s, want %s", shown, tc.want)
			}
			if seen := d.seen(); len(seen) != tc.requests {
				t.Errorf("requests %q", seen)
			}
		})
	}
}

// TestSinkThatFails: the query ends in the data plane when no caller reads its rows.
func TestSinkThatFails(t *testing.T) {
	d := serve(t, answer(two))
	err := d.stream(t, query.Query{SQL: "SELECT 1"}, &rows{err: errFull})
	if seen := d.seen(); !errors.Is(err, errFull) || len(seen) != 2 || !strings.HasPrefix(seen[1], "DELETE /v1/running-query/") {
		t.Error(err, seen)
	}
}

// TestFirst: a caller may want the first rows only.
func TestFirst(t *testing.T) {
	d := serve(t, answer(two))
	for first, want := range map[int]string{1: "[[1]] true 2", 2: "[[1] [x]] true 1", 3: "[[1] [x]] false 1"} {
		d.requests = nil
		got, err := d.run(t, query.Query{SQL: "SELECT 1", First: first})
		if err != nil {
			t.Fatal(err)
		}
		if shown := fmt.Sprint(got.Rows, got.LimitReached, len(d.seen())); shown != want {
			t.Errorf("first %d: %s, want %s", first, shown, want)
		}
		sent := &rows{}
		if err := d.stream(t, query.Query{SQL: "SELECT 1", First: first}, sent); err != nil || len(sent.result.Rows) != len(got.Rows) {
			t.Error(sent.result.Rows, err)
		}
	}
	d.handle = answer(loaded)
	for own, want := range map[string]string{`{}`: `"limit":2`, `{"limit":1}`: `"limit":1`, `{"limit":7}`: `"limit":2`, `{"limit":null}`: `"limit":2`} {
		d.bodies = nil
		if _, err := d.run(t, query.Query{JSON: json.RawMessage(own), First: 2}); err != nil || !strings.Contains(d.bodies[0], want) {
			t.Errorf("%s: %v, sent %s", own, err, d.bodies[0])
		}
	}
}

// TestMemoryOfResults: results that have not been released have a limit together.
func TestMemoryOfResults(t *testing.T) {
	d := serve(t, answer(two))
	runner := d.runner()
	runner.MaxHeld = int64(len(two)) * 3 / 2
	run := func(sql string) (*query.Result, error) {
		return runner.Run(t.Context(), query.Query{SQL: sql}, d.target(), query.DefaultLimits)
	}
	first, err := run("SELECT 1")
	if err != nil {
		t.Fatal(err)
	}
	if _, err := run("SELECT 2"); !errors.Is(err, query.ErrBusy) {
		t.Error(err)
	}
	d.handle = answer(loaded)
	if _, err := runner.Run(t.Context(), query.Query{JSON: json.RawMessage(`{}`)}, d.target(), query.DefaultLimits); !errors.Is(err, query.ErrBusy) {
		t.Error(err)
	}
	d.handle = answer(`{"error":"no"}`)
	if _, err := run("SELECT 3"); err == nil {
		t.Error("no error")
	}
	if held := query.Held(runner); held != int64(len(two)) {
		t.Errorf("%d bytes are held, want %d", held, len(two))
	}
	first.Release()
	if held := query.Held(runner); held != 0 {
		t.Errorf("%d bytes are held", held)
	}
}

// TestMemoryOfAnAccount: the results of an account leave memory for those of others.
func TestMemoryOfAnAccount(t *testing.T) {
	d := serve(t, answer(two))
	runner := d.runner()
	size := int64(len(two))
	runner.MaxHeld, runner.MaxHeldOfAccount = 3*size, 2*size
	run := func(account, sql string) (*query.Result, error) {
		target := d.target()
		target.Account, target.Identity = account, account
		return runner.Run(t.Context(), query.Query{SQL: sql}, target, query.DefaultLimits)
	}
	var all []*query.Result
	for _, of := range []struct{ account, sql string }{{"busy", "SELECT 1"}, {"busy", "SELECT 2"}, {"other", "SELECT 1"}} {
		if len(all) == 2 {
			if _, err := run("busy", "SELECT 3"); !errors.Is(err, query.ErrBusy) {
				t.Errorf("an account takes all memory: %v", err)
			}
		}
		result, err := run(of.account, of.sql)
		if err != nil {
			t.Fatal(of, err)
		}
		all = append(all, result)
	}
	for _, result := range all {
		result.Release()
	}
	if held := query.Held(runner); held != 0 {
		t.Errorf("%d bytes are held", held)
	}
	if _, err := run("busy", "SELECT 4"); err != nil {
		t.Errorf("the memory of an account is not free again: %v", err)
	}
}

// TestMemoryOfManyRows: the memory for a CSV file does not grow with its rows.
func TestMemoryOfManyRows(t *testing.T) {
	const all = 1_000_000
	d := serve(t, func(w http.ResponseWriter, _ *http.Request, _ map[string]any) {
		out := bufio.NewWriterSize(w, 64<<10)
		_, _ = out.WriteString(`{"schema":[{"name":"name","column_type":"String"},{"name":"n","column_type":"Int64"}]}` + "\n")
		for range all / 1000 {
			_, _ = out.WriteString(`{"data":[` + strings.TrimSuffix(strings.Repeat(`["a customer","12345"],`, 1000), ",") + "]}\n")
		}
		_ = out.Flush()
	})
	limits := query.DefaultLimits
	limits.Rows, limits.Bytes = all, 1<<30
	measured := &measuring{CSV: query.NewCSV(io.Discard)}
	if err := d.runner().Stream(t.Context(), &query.Plan{Query: query.Query{SQL: "SELECT 1"}}, d.target(), limits, measured); err != nil {
		t.Fatal(err)
	}
	if measured.rows != all || measured.most > 8<<20 {
		t.Errorf("%d rows, and %d bytes in memory beyond those at the first row", measured.rows, measured.most)
	}
	var after runtime.MemStats
	runtime.ReadMemStats(&after)
	if perRow := (after.TotalAlloc - measured.before.TotalAlloc) / all; perRow > 1000 {
		t.Errorf("%d bytes are allocated for a row", perRow)
	}
}

// measuring is a CSV file that measures the memory in use.
type measuring struct {
	*query.CSV
	rows   int
	before runtime.MemStats
	most   uint64
}

func (m *measuring) Row(row []any) error {
	if m.rows++; m.rows == 1 {
		runtime.GC()
		runtime.ReadMemStats(&m.before)
	}
	if m.rows%100_000 == 0 {
		runtime.GC()
		var now runtime.MemStats
		runtime.ReadMemStats(&now)
		m.most = max(m.most, now.HeapAlloc-min(now.HeapAlloc, m.before.HeapAlloc))
	}
	return m.CSV.Row(row)
}
