// Package semantic has the tools with which agents read the semantic model and query it. All of them act as the asker: metadata and
// queries are those of the asker's own token, which no input of a tool can change.
//
//	semantic.go    the tools of a run
//	meta.go        cubeMeta: searches the metadata that the asker sees
//	search.go      ranking by the words of a search
//	query.go       cubeSqlApi and cubeJsonQuery: run a query
//	result.go      the result of a query, for the client and for the model
//	table.go       the whole result of a query, for evaluations
//	vega.go        checks chart specifications
//	sql.go         reads names and statements of SQL
//	members.go     reads names of members of JSON queries
//	forbidden.go   distinguishes what is hidden from the asker from what does not exist
//	authors.go     certifiedQueries and skills
package semantic

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"sync"

	"github.com/quoin-dev/quoin/internal/agent"
	"github.com/quoin-dev/quoin/internal/agent/model"
	"github.com/quoin-dev/quoin/internal/query"
)

// The names of tools that other packages know.
const (
	// SQLTool runs SQL.
	SQLTool = "cubeSqlApi"
	// SkillsTool returns texts of the authors of the agent, and no data.
	SkillsTool = "skills"
)

// Options are what the tools of a run use.
type Options struct {
	// Runner connects to the gateway, and Target is the environment with the tokens of the asker.
	Runner *query.Runner
	Target query.Target
	// Limits of a query. The rows of the run are a limit too.
	Limits query.Limits
	// AccessibleViews are the views that cubeMeta offers; all if it is empty. They do not limit queries.
	AccessibleViews []string
	// SQL reports whether the asker may write SQL. Without it, queries are JSON, as they are for servers without the semantic SQL API.
	SQL bool
	// TimeZone of queries; UTC if empty.
	TimeZone string
	// CertifiedQueries and Skills are those of the authors of the agent.
	CertifiedQueries []CertifiedQuery
	Skills           []Skill
	// NewID returns the ids of results.
	NewID func() string
	// OnTable is called with the result of each query that has succeeded, in the order in which they end; it may be nil. Calls may be
	// concurrent.
	OnTable func(*Table)
}

// CertifiedQuery is a query that the authors of an agent have checked.
type CertifiedQuery struct {
	Name string `json:"name"`
	// UserRequest is the question that it answers.
	UserRequest string `json:"userRequest"`
	Description string `json:"description,omitempty"`
	SQL         string `json:"sqlQuery"`
}

// Skill is a text of the authors of an agent that describes how to do a task.
type Skill struct {
	Name         string `json:"name"`
	Title        string `json:"title"`
	Description  string `json:"description"`
	Instructions string `json:"-"`
}

// tools are those of a run.
type tools struct {
	Options
	mu sync.Mutex
	// cubes are the metadata of the asker; nil before they are read.
	cubes []query.Cube
}

// Tools returns the tools of a run, which use the metadata as they are when the first tool needs them.
func Tools(o Options) []agent.Tool {
	t := &tools{Options: o}
	out := []agent.Tool{t.metaTool()}
	if o.SQL {
		out = append(out, t.sqlTool())
	}
	out = append(out, t.jsonTool())
	if o.SQL && len(o.CertifiedQueries) > 0 {
		out = append(out, t.certifiedTool())
	}
	if len(o.Skills) > 0 {
		out = append(out, t.skillsTool())
	}
	return out
}

// inputSchema returns the schema of the input of a tool: its fields and those that are required. It is made once for all runs.
func inputSchema(fields map[string]any, required ...string) json.RawMessage {
	schema, _ := json.Marshal(map[string]any{ // strings, lists and maps of them
		"type": "object", "properties": fields, "required": append([]string{}, required...), "additionalProperties": false,
	})
	return schema
}

// tool returns a tool.
func tool(name, description string, schema json.RawMessage, run func(ctx context.Context, in agent.Input) (*agent.Result, error)) agent.Tool {
	return agent.Tool{Tool: model.Tool{Name: name, Description: description, Schema: schema}, Run: run}
}

// text is the schema of a string.
func text(description string) map[string]any {
	return map[string]any{"type": "string", "description": description}
}

// decode reads an input. Fields that a tool does not know are ignored.
func decode(in agent.Input, to any) error {
	err := json.Unmarshal(in.JSON, to)
	var wrongly *json.UnmarshalTypeError
	switch {
	case err == nil:
		return nil
	case errors.As(err, &wrongly):
		return badRequest("%s: a JSON %s; expected a %s", wrongly.Field, wrongly.Value, wrongly.Type)
	}
	return badRequest("the input is not a JSON object")
}

func badRequest(format string, args ...any) error {
	return &agent.ToolError{Class: agent.BadRequestError, Message: fmt.Sprintf(format, args...)}
}

// metadata returns the cubes and views that the asker sees.
func (t *tools) metadata(ctx context.Context) ([]query.Cube, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.cubes == nil {
		cubes, err := t.Runner.Cubes(ctx, t.Target, t.Limits)
		if err != nil {
			return nil, failure(err)
		}
		t.cubes = append([]query.Cube{}, cubes...)
	}
	return t.cubes, nil
}

// failure returns the error of a tool for one of a query.
func failure(err error) error {
	var (
		invalid     *query.InvalidError
		limit       *query.LimitError
		server      *query.ServerError
		unavailable *query.UnavailableError
	)
	class := ""
	switch {
	case errors.As(err, &invalid):
		class, err = agent.BadRequestError, invalid
	case errors.As(err, &limit):
		class, err = agent.LimitError, limit
	case errors.Is(err, query.ErrBusy):
		class, err = agent.UnavailableError, query.ErrBusy
	case errors.As(err, &unavailable):
		class, err = agent.UnavailableError, unavailable
	case errors.As(err, &server):
		class, err = classOf(server), server
	default: // of the token or of the context: it is not shown
		return err
	}
	return &agent.ToolError{Class: class, Message: err.Error()}
}

// classOf returns the class of a refusal or failure of the data plane.
func classOf(e *query.ServerError) string {
	switch {
	case e.Forbidden():
		return agent.ForbiddenError
	case e.Status == http.StatusTooManyRequests, e.Status >= http.StatusInternalServerError && e.Status != http.StatusInternalServerError:
		return agent.UnavailableError
	case e.Status == http.StatusUnauthorized, e.Status == http.StatusNotFound: // the request is Quoin's
		return agent.InternalError
	}
	return agent.BadRequestError
}
