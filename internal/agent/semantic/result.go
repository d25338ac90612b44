package semantic

import (
	"bytes"
	"encoding/json"
	"fmt"
	"strconv"

	"github.com/quoin-dev/quoin/internal/agent"
	"github.com/quoin-dev/quoin/internal/query"
)

const (
	// maxData is the number of rows that a result has.
	maxData = 100
	// maxCell is the maximum length of a value in bytes.
	maxCell = 4 << 10
	// maxWireData is the maximum length of the rows of a result in bytes, and maxModelData that of the rows that the model gets.
	maxWireData, maxModelData = 128 << 10, 24 << 10
)

// queryResult is the result of a query, as the known clients read it. Data are those of the first rows.
type queryResult struct {
	SQLQuery    string          `json:"sqlQuery,omitempty"`
	Query       json.RawMessage `json:"query,omitempty"`
	QueryTitle  string          `json:"queryTitle,omitempty"`
	Description string          `json:"description,omitempty"`
	UserRequest string          `json:"userRequest,omitempty"`
	MemoryID    string          `json:"memoryId,omitempty"`
	Schema      []schemaColumn  `json:"schema"`
	// Data are rows of strings; null is null.
	Data      [][]*string `json:"data"`
	TotalRows int         `json:"totalRows"`
	// LimitReached is true if there may be more rows than TotalRows.
	LimitReached bool   `json:"limitReached,omitempty"`
	UUID         string `json:"uuid"`
	VegaSpec     string `json:"vegaSpec,omitempty"`
}

type schemaColumn struct {
	Name       string `json:"name"`
	ColumnType string `json:"column_type"`
}

// columnTypes are the types of the data plane.
var columnTypes = map[query.Type]string{
	query.String: "String", query.Integer: "Int64", query.Number: "Double", query.Boolean: "Boolean", query.Time: "Timestamp",
}

// modelResult is what the model gets.
type modelResult struct {
	Columns   []string    `json:"columns"`
	Rows      [][]*string `json:"rows"`
	TotalRows int         `json:"totalRows"`
	Note      string      `json:"note,omitempty"`
}

// result returns a result for the client and for the model.
func (t *tools) result(input *queryInput, vega string, from *query.Result) (*agent.Result, error) {
	out := queryResult{
		QueryTitle: input.QueryTitle, Description: input.Description, UserRequest: input.UserRequest, MemoryID: input.MemoryID, VegaSpec: vega,
		Schema: []schemaColumn{}, Data: rowsWithin(from.Rows, maxWireData), TotalRows: len(from.Rows), LimitReached: from.LimitReached, UUID: t.NewID(),
	}
	if input.SQLQuery != "" {
		out.SQLQuery = input.SQLQuery
	} else {
		out.Query = input.Query
	}
	short := modelResult{Columns: []string{}, Rows: rowsWithin(from.Rows, maxModelData), TotalRows: len(from.Rows)}
	for _, c := range from.Columns {
		out.Schema = append(out.Schema, schemaColumn{c.Name, columnTypes[c.Type]})
		short.Columns = append(short.Columns, c.Name)
	}
	switch {
	case from.LimitReached:
		short.Note = fmt.Sprintf("there are at least %d rows; these are the first %d: aggregate or filter in the query", len(from.Rows), len(short.Rows))
	case len(short.Rows) < len(from.Rows):
		short.Note = fmt.Sprintf("these are the first %d of %d rows: aggregate or filter in the query", len(short.Rows), len(from.Rows))
	}
	wire, err := encode(out)
	if err != nil {
		return nil, err
	}
	forModel, err := encode(short)
	if err != nil {
		return nil, err
	}
	return &agent.Result{Wire: wire, Text: string(forModel), Rows: len(from.Rows)}, nil
}

// rowsWithin returns the first rows as strings, at most maxData and as many as fit.
func rowsWithin(rows [][]any, size int) [][]*string {
	out := [][]*string{}
	for _, row := range rows[:min(len(rows), maxData)] {
		cells := make([]*string, len(row))
		for i, v := range row {
			cells[i] = cell(v)
		}
		if size -= sizeOf(cells); size < 0 {
			break
		}
		out = append(out, cells)
	}
	return out
}

// cell returns a value as a string; nil for null.
func cell(v any) *string {
	text := ""
	switch v := v.(type) {
	case nil:
		return nil
	case string:
		text = v
	case json.Number:
		text = v.String()
	case bool:
		text = strconv.FormatBool(v)
	default:
		text = fmt.Sprint(v)
	}
	text = head(text, maxCell)
	return &text
}

// encode returns JSON in which < and & are as they are.
func encode(v any) (json.RawMessage, error) {
	var out bytes.Buffer
	encoder := json.NewEncoder(&out)
	encoder.SetEscapeHTML(false)
	err := encoder.Encode(v)
	return bytes.TrimSpace(out.Bytes()), err
}
