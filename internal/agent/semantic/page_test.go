package semantic

import (
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/quoin-dev/quoin/internal/agent"
)

// page runs loadQueryResults.
func (w *world) page(input any) (*agent.Result, error) {
	w.Helper()
	text, err := json.Marshal(input)
	if err != nil {
		w.Fatal(err)
	}
	return PageTool(w.Options).Run(w.Context(), agent.Input{JSON: text, MaxRows: maxRows})
}

// TestPages: the pages of a result have each row once.
func TestPages(t *testing.T) {
	w := newWorld(t)
	var rows []string
	for i := range 25 {
		rows = append(rows, fmt.Sprintf(`["%d"]`, i))
	}
	w.rows(`{"name":"n","column_type":"Int64"}`, rows...)
	var seen []string
	offset, pages := 0, 0
	for next := &offset; next != nil; pages++ {
		result, err := w.page(object{"sqlQuery": "SELECT n FROM orders ORDER BY 1", "offset": *next, "limit": 10})
		if err != nil {
			t.Fatal(err)
		}
		var got pageResult
		if err := json.Unmarshal(result.Wire, &got); err != nil {
			t.Fatal(err)
		}
		if got.Offset != *next || len(got.Schema) != 1 || result.Rows != len(got.Data) || pages > 3 {
			t.Fatalf("page %d is %s", pages, result.Wire)
		}
		for _, row := range got.Data {
			seen = append(seen, *row[0])
		}
		next = got.NextOffset
	}
	if len(seen) != 25 || seen[0] != "0" || seen[24] != "24" {
		t.Errorf("the rows are %q", seen)
	}
	for _, r := range w.requests {
		// Rows after the page are not read: the rest of the query is cancelled.
		if !strings.HasPrefix(r, "token-of-ada POST /cubejs-api/v1/cubesql") && !strings.HasPrefix(r, "token-of-ada DELETE /cubejs-api/v1/running-query/") {
			t.Error(r)
		}
	}
}

// TestPageOfALongRow: a page has at least one row, or it is an error: a client that follows nextOffset would read it forever.
func TestPageOfALongRow(t *testing.T) {
	w := newWorld(t)
	const columns = 40
	text, schema, row := strings.Repeat("x", maxCell), make([]string, columns), make([]string, columns)
	for i := range columns {
		schema[i], row[i] = fmt.Sprintf(`{"name":"c%d","column_type":"String"}`, i), `"`+text+`"`
	}
	w.rows(strings.Join(schema, ","), "["+strings.Join(row, ",")+"]")
	_, err := w.page(object{"sqlQuery": "SELECT * FROM orders"})
	if failed := (&agent.ToolError{}); !errors.As(err, &failed) || failed.Class != agent.LimitError || !strings.Contains(failed.Message, "row 0 has more than") {
		t.Error(err)
	}
}

// TestPagesThatAreRejected: the same statements are rejected as in other tools.
func TestPagesThatAreRejected(t *testing.T) {
	w := newWorld(t)
	for says, input := range map[string]object{
		"exactly one of sqlQuery and query": {"offset": 0},
		"sqlQuery: exactly one":             {"sqlQuery": "SELECT 1", "query": object{"measures": []string{"orders.count"}}},
		"offset: -1":                        {"sqlQuery": "SELECT 1", "offset": -1},
		"offset: 10000":                     {"sqlQuery": "SELECT 1", "offset": 10000},
		"limit: 0":                          {"sqlQuery": "SELECT 1", "limit": 0},
		"limit: 1001":                       {"sqlQuery": "SELECT 1", "limit": 1001},
		`it begins with "drop"`:             {"sqlQuery": "DROP TABLE orders"},
		"the field \"securityContext\"":     {"query": object{"securityContext": object{}}},
	} {
		_, err := w.page(input)
		failed := &agent.ToolError{}
		if !errors.As(err, &failed) || failed.Class != agent.BadRequestError || !strings.Contains(failed.Message, says) {
			t.Errorf("%v: %v; want %s", input, err, says)
		}
	}
	w.SQL = false
	_, err := w.page(object{"sqlQuery": "SELECT 1"})
	if failed := (&agent.ToolError{}); !errors.As(err, &failed) || failed.Class != agent.ForbiddenError {
		t.Errorf("SQL of a person who may not write it: %v", err)
	}
	if len(w.requests) != 0 {
		t.Errorf("requests: %q", w.requests)
	}
}
