package semantic

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"

	"github.com/quoin-dev/quoin/internal/agent"
	"github.com/quoin-dev/quoin/internal/query"
)

const (
	// maxQuery is the maximum length of a query in bytes, and maxField that of the other fields of an input.
	maxQuery, maxField = 16 << 10, 2 << 10
	// maxRows is the number of rows of a query that are counted.
	maxRows = 10_000
)

// queryInput is the input of the tools that run queries.
type queryInput struct {
	SQLQuery    string          `json:"sqlQuery"`
	Query       json.RawMessage `json:"query"`
	QueryTitle  string          `json:"queryTitle"`
	Description string          `json:"description"`
	UserRequest string          `json:"userRequest"`
	MemoryID    string          `json:"memoryId"`
	VegaSpec    json.RawMessage `json:"vegaSpec"`
}

// fields returns the schema of the fields that all queries have.
func fields(more map[string]any) map[string]any {
	out := map[string]any{
		"queryTitle":  text("A short title of the result, for the user."),
		"description": text("What the query returns, in a sentence."),
		"userRequest": text("The question of the user that the query answers."),
		"vegaSpec":    text("Optional: a Vega-Lite v5 specification of a chart of the result, as JSON text without data. Its fields are the names of the columns."),
	}
	for name, schema := range more {
		out[name] = schema
	}
	return out
}

// The schemas of the inputs of the tools that run a query.
var (
	sqlSchema  = inputSchema(fields(map[string]any{"sqlQuery": text("One SELECT statement, in the dialect of PostgreSQL.")}), "sqlQuery")
	jsonSchema = inputSchema(fields(map[string]any{"query": querySchema()}), "query")
)

// querySchema returns the schema of a JSON query.
func querySchema() map[string]any {
	names := map[string]any{"type": "array", "items": map[string]any{"type": "string"}}
	objects := map[string]any{"type": "array", "items": map[string]any{"type": "object"}}
	return map[string]any{
		"type": "object", "description": "A JSON query of Cube.", "properties": map[string]any{
			"measures": names, "dimensions": names, "segments": names, "timeDimensions": objects, "filters": objects,
			"order": map[string]any{"type": "object"}, "limit": map[string]any{"type": "integer"}, "offset": map[string]any{"type": "integer"},
			"timezone": map[string]any{"type": "string"}, "ungrouped": map[string]any{"type": "boolean"},
		},
	}
}

func (t *tools) sqlTool() agent.Tool {
	return tool(SQLTool, "Runs a SELECT on the semantic model and returns at most 100 rows, and the number of all. "+
		"Tables are views; columns are their members without the name of the view. Measures are written MEASURE(name), and every other column is in GROUP BY. "+
		"Use only members that cubeMeta has returned. Aggregate, filter and limit in the query.", sqlSchema, t.sql)
}

func (t *tools) jsonTool() agent.Tool {
	description := "Runs a query on the semantic model and returns at most 100 rows, and the number of all. Use only members that cubeMeta has returned, with the name of their cube and a dot."
	if t.SQL {
		description += " Prefer cubeSqlApi, unless it has reported that the server has no SQL."
	}
	return tool("cubeJsonQuery", description, jsonSchema, t.json)
}

// sql runs cubeSqlApi. An older form of its input has the statement in the field query.
func (t *tools) sql(ctx context.Context, in agent.Input) (*agent.Result, error) {
	input, err := readInput(in)
	if err != nil {
		return nil, err
	}
	if input.SQLQuery == "" && len(input.Query) > 0 && json.Unmarshal(input.Query, &input.SQLQuery) != nil {
		return nil, badRequest("query: expected SQL")
	}
	return t.runSQL(ctx, in.MaxRows, input)
}

// runSQL runs the SQL of an input.
func (t *tools) runSQL(ctx context.Context, rows int, input *queryInput) (*agent.Result, error) {
	spec, err := checkVega(input.VegaSpec)
	if err != nil {
		return nil, err
	}
	s, err := checkSQL(input.SQLQuery)
	if err != nil {
		return nil, err
	}
	result, err := t.run(ctx, rows, query.Query{SQL: input.SQLQuery}, func() string { return t.hiddenInSQL(ctx, s) })
	if err != nil {
		return nil, err
	}
	defer result.Release()
	t.observe(input, result)
	return t.result(input, spec, result)
}

// checkSQL reads a statement that may run.
func checkSQL(sql string) (*statement, error) {
	switch {
	case strings.TrimSpace(sql) == "":
		return nil, badRequest("sqlQuery: a SELECT statement is required")
	case len(sql) > maxQuery:
		return nil, badRequest("sqlQuery: %d bytes; allowed: %d", len(sql), maxQuery)
	}
	s, err := readSQL(sql)
	if err != nil {
		return nil, badRequest("sqlQuery: %s", err)
	}
	if s.first != "select" && s.first != "with" {
		return nil, badRequest("sqlQuery: it begins with %.20q; allowed: SELECT, WITH", s.first)
	}
	return s, nil
}

// json runs cubeJsonQuery.
func (t *tools) json(ctx context.Context, in agent.Input) (*agent.Result, error) {
	input, err := readInput(in)
	if err != nil {
		return nil, err
	}
	spec, err := checkVega(input.VegaSpec)
	if err != nil {
		return nil, err
	}
	names, err := checkJSON(input.Query)
	if err != nil {
		return nil, err
	}
	result, err := t.run(ctx, in.MaxRows, query.Query{JSON: input.Query}, func() string { return t.hiddenInJSON(ctx, names) })
	if err != nil {
		return nil, err
	}
	defer result.Release()
	t.observe(input, result)
	return t.result(input, spec, result)
}

// checkJSON returns the names in a query that may run.
func checkJSON(text json.RawMessage) (map[string]bool, error) {
	if len(text) > maxQuery {
		return nil, badRequest("query: %d bytes; allowed: %d", len(text), maxQuery)
	}
	var object map[string]json.RawMessage
	if json.Unmarshal(text, &object) != nil || object == nil {
		return nil, badRequest("query: a JSON object is required")
	}
	for name := range object {
		if !slices.Contains(queryFields, name) {
			return nil, badRequest("query: the field %.100q is not allowed; allowed: %s", name, strings.Join(queryFields, ", "))
		}
	}
	return namesIn(text)
}

func readInput(in agent.Input) (*queryInput, error) {
	input := &queryInput{}
	if err := decode(in, input); err != nil {
		return nil, err
	}
	for name, value := range map[string]string{
		"queryTitle": input.QueryTitle, "description": input.Description, "userRequest": input.UserRequest, "memoryId": input.MemoryID,
	} {
		if len(value) > maxField {
			return nil, badRequest("%s: %d bytes; allowed: %d", name, len(value), maxField)
		}
	}
	return input, nil
}

// run runs a query as the asker. hidden returns what the query names that is hidden from the asker; it is asked if the query fails, and
// if a JSON query has no rows. SQL is planned with what the asker sees, so without rows it has hidden nothing.
func (t *tools) run(ctx context.Context, rows int, q query.Query, hidden func() string) (*query.Result, error) {
	q.TimeZone = t.TimeZone
	limits := t.Limits
	q.First = min(rows, maxRows)
	limits.Rows = q.First
	result, err := t.Runner.Run(ctx, q, t.Target, limits)
	var refused *query.ServerError
	switch {
	case err == nil && (len(result.Rows) > 0 || q.SQL != ""):
		return result, nil
	case err == nil:
		if name := hidden(); name != "" {
			result.Release()
			return nil, mayNotSee(name)
		}
		return result, nil
	case q.SQL != "" && errors.As(err, &refused) && refused.Status == http.StatusNotFound:
		return nil, badRequest("the server of this deployment has no SQL: use cubeJsonQuery with the same members")
	case errors.As(err, &refused) && classOf(refused) == agent.BadRequestError:
		if name := hidden(); name != "" {
			return nil, mayNotSee(name)
		}
	}
	if err = failure(err); isForbidden(err) {
		return nil, forbidden("the user may not see what the query asks for: %s", err)
	}
	return nil, err
}

func mayNotSee(name string) error {
	return forbidden("%s exists, but the user may not see it. Do not say that there are no data", fmt.Sprintf("%.200q", name))
}
