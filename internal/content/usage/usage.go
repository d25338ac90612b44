// Package usage has what agents use: tokens, money and time, a row for each run.
//
//	usage.go     the model, recording, retention
//	report.go    sums by day, agent, endpoint, caller and user
//	spent.go     the tokens of a day, for limits
//	cost.go      what tokens cost
//	forget.go    the usage of users who are deleted
//	migrations/  the table
//
// A run is recorded with its sums so far, after each request to the model. Recording the same again changes nothing, so a call whose
// outcome is unknown is repeated, and a killed process loses the request in progress at most.
package usage

import (
	"context"
	"embed"
	"fmt"
	"log/slog"
	"time"

	"github.com/quoin-dev/quoin/internal/content"
	"github.com/quoin-dev/quoin/internal/store"
)

//go:embed migrations/*.sql
var migrations embed.FS

// Owner has the table of usage.
var Owner = store.Owner{
	Name: "agent_usage", Migrations: migrations, Tables: []string{"agent_usage"},
	Purge: store.PurgeTable("agent_usage", "account_uid, deployment_uid, source, run"),
}

const (
	// Retention is how long usage is kept.
	Retention = 400 * 24 * time.Hour
	// maxText is the maximum length of the texts of a run, in bytes.
	maxText = 512
	// expireBatch is the maximum number of rows that one transaction of Expire deletes.
	expireBatch = 500
)

// Source is where a run was started.
type Source string

// The sources.
const (
	Chat       Source = "chat"
	MCP        Source = "mcp"
	Evaluation Source = "evaluation"
)

// Amounts are what is used.
type Amounts struct {
	// InputTokens include CachedTokens.
	InputTokens, CachedTokens, OutputTokens int64
	// Requests are those to the model.
	Requests  int64
	ToolCalls int64
	Duration  time.Duration
	// Cost is in millionths of the currency.
	Cost int64
}

// Run is the answer to one message or question.
type Run struct {
	Source Source
	// ID is unique in the deployment and source, for instance <thread>/<run>.
	ID        string
	StartedAt time.Time
	// Agent is its number, and Endpoint the name of its ModelEndpoint.
	Agent    int64
	Endpoint string
	// Caller is the principal: <kind>:<id>. User is ScimUser:<name> of the user on whose behalf it runs; empty if there is none.
	Caller, User string
	// Currency is that of Cost; empty if the endpoint has no price.
	Currency string
	// Amounts are the sums since the run began.
	Amounts Amounts
}

// Recorder records the usage of runs. Record is called with the sums so far after each request to the model.
type Recorder interface {
	Record(ctx context.Context, s content.Scope, r Run) error
}

// Usage is the usage of all deployments. It implements Recorder.
type Usage struct{ DB content.Database }

var _ Recorder = &Usage{}

// record writes the sums of a run. Sums do not decrease, so that an earlier call that arrives late changes nothing.
const record = `INSERT INTO agent_usage (account_uid, deployment_uid, source, run, day, agent_id, endpoint, caller, user_name, currency,
		cost, input_tokens, cached_tokens, output_tokens, requests, tool_calls, milliseconds)
	VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13, $14, $15, $16, $17)
	ON CONFLICT (account_uid, deployment_uid, source, run) DO UPDATE SET cost = excluded.cost, input_tokens = excluded.input_tokens,
		cached_tokens = excluded.cached_tokens, output_tokens = excluded.output_tokens, requests = excluded.requests,
		tool_calls = excluded.tool_calls, milliseconds = excluded.milliseconds
	WHERE agent_usage.requests <= excluded.requests AND agent_usage.tool_calls <= excluded.tool_calls`

// Record implements Recorder.
func (u *Usage) Record(ctx context.Context, s content.Scope, r Run) error {
	for field, text := range map[string]string{"source": string(r.Source), "id": r.ID, "endpoint": r.Endpoint, "caller": r.Caller, "user": r.User, "currency": r.Currency} {
		if len(text) > maxText {
			return fmt.Errorf("record usage: %s has %d bytes; allowed: %d", field, len(text), maxText)
		}
	}
	a := r.Amounts
	err := u.DB.TxAsync(ctx, func(tx *store.Tx) error {
		if err := tx.LockDeployment(ctx, s.Account, s.Deployment); err != nil {
			return err
		}
		_, err := tx.ExecContext(ctx, record, s.Account.UID, s.Deployment.UID, string(r.Source), r.ID, dayOf(r.StartedAt).UnixMicro(), r.Agent,
			r.Endpoint, r.Caller, r.User, r.Currency, a.Cost, a.InputTokens, a.CachedTokens, a.OutputTokens, a.Requests, a.ToolCalls, a.Duration.Milliseconds())
		return err
	})
	if err != nil {
		return fmt.Errorf("record usage: %w", err)
	}
	return nil
}

// dayOf returns the beginning of a day, UTC.
func dayOf(t time.Time) time.Time { return t.UTC().Truncate(24 * time.Hour) }

// Expire deletes the usage of days before a time. Any number of replicas may run it.
func Expire(ctx context.Context, s *store.Store, before time.Time) error {
	const statement = `DELETE FROM agent_usage WHERE (account_uid, deployment_uid, source, run) IN
		(SELECT account_uid, deployment_uid, source, run FROM agent_usage WHERE day <= $1 LIMIT $2)`
	return s.DeleteBefore(ctx, statement, before, expireBatch)
}

// RunExpiry deletes usage older than Retention, at an interval, until the context ends.
func RunExpiry(ctx context.Context, s *store.Store, interval time.Duration, log *slog.Logger) error {
	return store.Repeat(ctx, interval, log, "Old usage of agents could not be deleted", func(ctx context.Context) error {
		return Expire(ctx, s, time.Now().Add(-Retention))
	})
}
