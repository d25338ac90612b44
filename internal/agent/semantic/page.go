package semantic

import (
	"context"
	"encoding/json"
	"fmt"

	"github.com/quoin-dev/quoin/internal/agent"
	"github.com/quoin-dev/quoin/internal/query"
)

// maxPage is the number of rows of a page.
const maxPage = 1000

// pageInput is the input of loadQueryResults.
type pageInput struct {
	SQLQuery string          `json:"sqlQuery"`
	Query    json.RawMessage `json:"query"`
	Offset   int             `json:"offset"`
	Limit    *int            `json:"limit"`
}

// pageResult is a page of the result of a query.
type pageResult struct {
	Schema []schemaColumn `json:"schema"`
	// Data are rows of strings; null is null.
	Data   [][]*string `json:"data"`
	Offset int         `json:"offset"`
	// NextOffset is that of the next page; absent after the last row.
	NextOffset *int `json:"nextOffset,omitempty"`
}

var pageSchema = inputSchema(map[string]any{
	"sqlQuery": text("The statement."), "query": map[string]any{"type": "object", "description": "The JSON query."},
	"offset": number("The number of rows before the page; 0 without it.", 0, maxRows-1), "limit": number("The number of rows; 100 without it.", 1, maxPage),
})

// number returns the schema of an integer.
func number(description string, least, most int) map[string]any {
	return map[string]any{"type": "integer", "minimum": least, "maximum": most, "description": description}
}

// PageTool returns the tool loadQueryResults, which returns pages of the result of a query: those of the other tools have the first
// rows only.
func PageTool(o Options) agent.Tool {
	t := &tools{Options: o}
	return tool("loadQueryResults", "Returns a page of the rows of a query, in the order of the query: use ORDER BY. "+
		"Give sqlQuery or query as the result of cubeSqlApi or cubeJsonQuery has it; the data of those are the first 100 rows.", pageSchema, t.page)
}

// page runs loadQueryResults.
func (t *tools) page(ctx context.Context, in agent.Input) (*agent.Result, error) {
	var input pageInput
	if err := decode(in, &input); err != nil {
		return nil, err
	}
	limit := maxData
	if input.Limit != nil {
		limit = *input.Limit
	}
	switch {
	case (input.SQLQuery == "") == (len(input.Query) == 0):
		return nil, badRequest("sqlQuery: exactly one of sqlQuery and query is required")
	case input.Offset < 0 || input.Offset >= maxRows:
		return nil, badRequest("offset: %d; allowed: 0 to %d", input.Offset, maxRows-1)
	case limit < 1 || limit > maxPage:
		return nil, badRequest("limit: %d; allowed: 1 to %d", limit, maxPage)
	case input.SQLQuery != "" && !t.SQL:
		return nil, forbidden("the user may not write SQL: use query")
	}
	result, err := t.first(ctx, min(input.Offset+limit, maxRows, in.MaxRows), &input)
	if err != nil {
		return nil, err
	}
	defer result.Release()
	out := pageResult{Schema: []schemaColumn{}, Data: [][]*string{}, Offset: input.Offset}
	for _, c := range result.Columns {
		out.Schema = append(out.Schema, schemaColumn{c.Name, columnTypes[c.Type]})
	}
	size, end := maxWireData, min(input.Offset+limit, len(result.Rows))
	for i := input.Offset; i < end; i++ {
		cells := make([]*string, len(result.Rows[i]))
		for j, v := range result.Rows[i] {
			cells[j] = cell(v)
		}
		size -= sizeOf(cells)
		if size < 0 && len(out.Data) == 0 { // an empty page would be that of the next offset, too
			return nil, &agent.ToolError{Class: agent.LimitError, Message: fmt.Sprintf("row %d has more than %d bytes, the limit: select fewer columns", i, maxWireData)}
		}
		if size < 0 {
			break
		}
		out.Data = append(out.Data, cells)
	}
	if next := input.Offset + len(out.Data); next < len(result.Rows) || result.LimitReached && next < maxRows {
		out.NextOffset = &next
	}
	wire, err := encode(out)
	return &agent.Result{Wire: wire, Rows: len(out.Data)}, err
}

// first runs a query and returns its first rows.
func (t *tools) first(ctx context.Context, rows int, input *pageInput) (*query.Result, error) {
	if input.SQLQuery != "" {
		s, err := checkSQL(input.SQLQuery)
		if err != nil {
			return nil, err
		}
		return t.run(ctx, rows, query.Query{SQL: input.SQLQuery}, func() string { return t.hiddenInSQL(ctx, s) })
	}
	names, err := checkJSON(input.Query)
	if err != nil {
		return nil, err
	}
	return t.run(ctx, rows, query.Query{JSON: input.Query}, func() string { return t.hiddenInJSON(ctx, names) })
}
