package semantic

import (
	"fmt"
	"strings"
	"testing"
)

// TestTables: evaluations get all rows of each query that has succeeded, also those that clients and models do not get.
func TestTables(t *testing.T) {
	w := newWorld(t)
	var got []*Table
	w.OnTable = func(table *Table) { got = append(got, table) }
	rows := make([]string, 150)
	for i := range rows {
		rows[i] = fmt.Sprintf(`["%d",null]`, i)
	}
	w.rows(`{"name":"n","column_type":"Int64"},{"name":"status","column_type":"String"}`, rows...)
	for tool, input := range map[string]any{"cubeSqlApi": map[string]any{"sqlQuery": "SELECT 1"}, "certifiedQueries": map[string]any{"name": "revenue"}} {
		got = nil
		if _, err := w.call(tool, input); err != nil {
			t.Fatal(err)
		}
		if len(got) != 1 || len(got[0].Rows) != 150 || got[0].Cut || strings.Join(got[0].Columns, " ") != "n status" || *got[0].Rows[149][0] != "149" || got[0].Rows[0][1] != nil {
			t.Errorf("%s: %+v", tool, got)
		}
		if want := map[string]string{"cubeSqlApi": "SELECT 1", "certifiedQueries": "SELECT MEASURE(revenue) FROM orders"}[tool]; got[0].SQL != want {
			t.Errorf("%s: the query is %q", tool, got[0].SQL)
		}
	}
	got = nil
	w.answer = `{"error":"no such table"}` + "\n"
	if _, err := w.call("cubeSqlApi", map[string]any{"sqlQuery": "SELECT 1"}); err == nil || len(got) != 0 {
		t.Errorf("a query that fails has %v, %v", got, err)
	}
	long := fmt.Sprintf(`[%q]`, strings.Repeat("x", maxCell))
	rows = rows[:0]
	for range maxTable/maxCell + 1 {
		rows = append(rows, long)
	}
	w.Limits.Rows, w.Limits.Bytes = 10_000, 16<<20
	w.rows(`{"name":"text","column_type":"String"}`, rows...)
	if _, err := w.callWith("cubeSqlApi", map[string]any{"sqlQuery": "SELECT 1"}, 10_000); err != nil || len(got) != 1 || !got[0].Cut || len(got[0].Rows) >= len(rows) {
		t.Errorf("a result that is too large: %v, %d rows, cut: %t", err, len(got[0].Rows), got[0].Cut)
	}
}
