package semantic

import (
	"encoding/json"

	"github.com/quoin-dev/quoin/internal/query"
)

const (
	// maxTable is the maximum size of the rows of a table in memory in bytes, of which each value takes valueBytes and its text.
	maxTable, valueBytes = 4 << 20, 24
)

// Table is the result of a query beyond the rows that clients and models get.
type Table struct {
	// SQL or JSON is the query.
	SQL     string
	JSON    json.RawMessage
	Columns []string
	// Rows have a value for each column; nil is null.
	Rows [][]*string
	// Cut is true if the result has more rows, or may have.
	Cut bool
}

// observe calls OnTable.
func (t *tools) observe(input *queryInput, from *query.Result) {
	if t.OnTable == nil {
		return
	}
	out := &Table{SQL: input.SQLQuery, Rows: make([][]*string, 0, len(from.Rows)), Cut: from.LimitReached}
	if out.SQL == "" {
		out.JSON = input.Query
	}
	for _, c := range from.Columns {
		out.Columns = append(out.Columns, c.Name)
	}
	left := maxTable
	for _, row := range from.Rows {
		cells := make([]*string, len(row))
		for i, v := range row {
			cells[i] = cell(v)
			if left -= valueBytes; cells[i] != nil {
				left -= len(*cells[i])
			}
		}
		if left < 0 {
			out.Cut = true
			break
		}
		out.Rows = append(out.Rows, cells)
	}
	t.OnTable(out)
}
