package mcp

import (
	"context"
	"encoding/json"
	"errors"
	"net/http"

	"github.com/quoin-dev/quoin/apiserver/rest"
	"github.com/quoin-dev/quoin/internal/agent"
	"github.com/quoin-dev/quoin/internal/agent/semantic"
	"github.com/quoin-dev/quoin/internal/agent/stream"
)

const (
	// maxRows is the number of rows that a call may read.
	maxRows = 10_000
	// Concurrent queries of a caller, of an account and of this process.
	maxOfCaller  = 8
	maxOfAccount = 32
	maxAll       = 64
)

// semanticTools returns the tools of agents that query the semantic model, as tools of the endpoint.
func (s *Server) semanticTools() []*tool {
	var all []*tool
	for _, of := range []struct {
		title string
		make  func(semantic.Options) agent.Tool
	}{
		{"Search the semantic model", func(o semantic.Options) agent.Tool { return named(o, "cubeMeta", true) }},
		{"Query with SQL", func(o semantic.Options) agent.Tool { return named(o, "cubeSqlApi", true) }},
		{"Query with JSON", func(o semantic.Options) agent.Tool { return named(o, "cubeJsonQuery", false) }},
		{"Load more rows", semantic.PageTool},
	} {
		all = append(all, s.semanticTool(of.title, of.make))
	}
	return all
}

// named returns the tool of agents with a name, for servers with SQL or without.
func named(o semantic.Options, name string, sql bool) agent.Tool {
	o.SQL = sql
	for _, t := range semantic.Tools(o) {
		if t.Name == name {
			return t
		}
	}
	return agent.Tool{}
}

func (s *Server) semanticTool(title string, of func(semantic.Options) agent.Tool) *tool {
	declared := of(semantic.Options{})
	var schema struct {
		Properties map[string]any `json:"properties"`
		Required   []string       `json:"required"`
	}
	if err := json.Unmarshal(declared.Schema, &schema); err != nil || declared.Name == "" {
		panic("a tool of package semantic has no schema: " + title)
	}
	return &tool{
		name: declared.Name, title: title, description: declared.Description, properties: schema.Properties, required: schema.Required, locate: s.deploymentOf,
		run: func(ctx context.Context, args json.RawMessage) (*outcome, error) {
			release, err := s.acquire(ctx)
			if err != nil {
				return nil, err
			}
			defer release()
			options, err := s.Agents.Direct(ctx)
			if err != nil {
				return nil, err
			}
			if declared.Name == "cubeSqlApi" && !options.SQL {
				return refused(&agent.ToolError{Class: agent.ForbiddenError, Message: "the user may not write SQL: use cubeJsonQuery"}), nil
			}
			t := of(options)
			result, err := t.Run(ctx, agent.Input{JSON: args, MaxRows: maxRows})
			var failed *agent.ToolError
			switch {
			case errors.As(err, &failed):
				return refused(failed), nil
			case err != nil:
				return nil, err
			}
			return &outcome{value: result.Wire, rows: result.Rows}, nil
		},
	}
}

// refused returns a failure as chats show it.
func refused(err *agent.ToolError) *outcome {
	return &outcome{value: json.RawMessage(stream.ToolError(err.Class, err.Message)), failed: err.Class}
}

// acquire takes places for a query of the caller. They are released once.
func (s *Server) acquire(ctx context.Context) (release func(), err error) {
	scope := rest.ScopeFrom(ctx)
	who := scope.Caller()
	if p := scope.Principal; p.User != "" {
		who = "ScimUser:" + p.User // with all keys and sessions
	}
	account := string(scope.Account.UID)
	own := s.callers.Acquire(account + "/" + who)
	if own == nil {
		return nil, rest.NewProblem(http.StatusTooManyRequests, "%d queries of %q are running; allowed: %d at a time", maxOfCaller, scope.Principal.Name, maxOfCaller)
	}
	ofAccount := s.accounts.Acquire(account)
	if ofAccount == nil {
		own()
		return nil, rest.NewProblem(http.StatusTooManyRequests, "%d queries of the account are running; allowed: %d at a time", maxOfAccount, maxOfAccount)
	}
	all := s.all.Acquire(struct{}{})
	if all == nil {
		ofAccount()
		own()
		return nil, rest.Unavailable("too many queries are running: try again later")
	}
	return func() { all(); ofAccount(); own() }, nil
}
