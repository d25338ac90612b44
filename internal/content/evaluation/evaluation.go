// Package evaluation has the evaluations of agents and their results: of questions with known answers, and of chats that are
// replayed (docs/decisions/0094-evaluations-and-replays.md).
//
// The replica that has started an evaluation holds a lease and stores a result for each question or message. If it is killed, another
// replica finds the expired lease and ends the evaluation: it is not continued, because the credential of its caller was in the
// memory of the first one.
//
//	evaluation.go  the model, purge and retention
//	run.go         start, results, leases, end
//	read.go        evaluations and their results
//	migrations/    the tables
package evaluation

import (
	"context"
	"embed"
	"encoding/json"
	"errors"
	"log/slog"
	"time"

	"github.com/quoin-dev/quoin/internal/agent/grading"
	"github.com/quoin-dev/quoin/internal/audit"
	"github.com/quoin-dev/quoin/internal/content"
	"github.com/quoin-dev/quoin/internal/content/subject"
	"github.com/quoin-dev/quoin/internal/store"
)

//go:embed migrations/*.sql
var migrations embed.FS

// Owner has the tables of evaluations.
var Owner = store.Owner{Name: "evaluation", Migrations: migrations, Tables: []string{"evaluation", "evaluation_result"}, Purge: purge}

// OfUsers is what names users: see subject.Users. Results have data of the person, and are deleted with the user.
var OfUsers = []subject.Part{
	{Name: "evaluationsInProgress", Do: interrupted},
	{Name: "evaluationResults", Do: removeResults},
	subject.Removed("evaluations", "evaluation", "account_uid, id", "owner"),
}

// Names of events.
var (
	started = audit.Declare("Started agent evaluation")
	ended   = audit.Declare("Ended agent evaluation")
)

const (
	// Lease is the time for which a replica works on an evaluation without renewing the lease.
	Lease = 30 * time.Second
	// MaxItems is the maximum number of questions or messages.
	MaxItems = 200
	// MaxBody is the maximum length of the body of a result, in bytes.
	MaxBody = 128 << 10
	// maxText is the maximum length of other texts, in bytes.
	maxText = 4 << 10
	// expireBatch is the maximum number of rows that one transaction of Expire deletes.
	expireBatch = 500
)

var (
	// ErrUnknown is returned for an evaluation that does not exist.
	ErrUnknown = errors.New("there is no such evaluation")
	// ErrEnded is returned for a change of an evaluation that has ended.
	ErrEnded = errors.New("the evaluation has ended")
	// ErrLost is returned if another replica has taken over or ended an evaluation, or if it is deleted.
	ErrLost = errors.New("the lease of the evaluation is lost")
)

// Kind is what is evaluated.
type Kind string

// The kinds.
const (
	Questions Kind = "questions"
	Replay    Kind = "replay"
)

// State is the state of an evaluation.
type State string

// The states.
const (
	Running   State = "running"
	Completed State = "completed"
	Failed    State = "failed"
)

// New is an evaluation that is started.
type New struct {
	Kind Kind
	// Agent is the number of the agent.
	Agent int64
	// Owner is the person on whose behalf it runs: ScimUser:<name> for a user. Caller is the principal: <kind>:<id>.
	Owner, Caller string
	// Request has what was asked for, as JSON.
	Request json.RawMessage
	// Total is the number of questions or messages.
	Total int
}

// Evaluation is an evaluation.
type Evaluation struct {
	New
	// ID is its number in the account.
	ID    int64
	State State
	// Failure is why it has failed; empty otherwise.
	Failure string
	// Counts are the numbers of results.
	Counts             Counts
	StartedAt, EndedAt time.Time
}

// Counts are numbers of results by verdict.
type Counts struct{ Pass, Fail, Review, Errors int }

// Done is the number of results.
func (c Counts) Done() int { return c.Pass + c.Fail + c.Review + c.Errors }

// counters are the columns of the numbers of results by verdict.
var counters = map[grading.Verdict]string{grading.Pass: "passed", grading.Fail: "failed", grading.Review: "for_review", grading.Errored: "errors"}

// Result is the result of a question or a message.
type Result struct {
	// Number is that of the question or message in its evaluation, from 1.
	Number  int
	Verdict grading.Verdict
	// Body is JSON.
	Body json.RawMessage
}

// Evaluations has the evaluations of all accounts.
type Evaluations struct {
	DB     content.Database
	Record content.Record
	// Now is the clock; time.Now if nil.
	Now func() time.Time
}

func (e *Evaluations) now() time.Time {
	now := time.Now
	if e.Now != nil {
		now = e.Now
	}
	return now().UTC().Truncate(time.Microsecond)
}

// purge is Owner.Purge.
var purge = store.PurgeInOrder(
	store.PurgeTable("evaluation_result", "account_uid, evaluation_id, number"),
	store.PurgeTable("evaluation", "account_uid, id"),
)

// interrupted takes the leases of evaluations in progress away, so that nothing is added while the results are deleted.
func interrupted(ctx context.Context, tx *store.Tx, accountUID, user, _ string, limit int) (int, error) {
	const statement = `UPDATE evaluation SET state = 'failed', holder = '', lease_until = 0 WHERE (account_uid, id) IN
		(SELECT account_uid, id FROM evaluation WHERE account_uid = $1 AND owner = $2 AND state = 'running' LIMIT $3)`
	return subject.Changed(tx.ExecContext(ctx, statement, accountUID, user, limit))
}

// removeResults deletes results of the evaluations of a user.
func removeResults(ctx context.Context, tx *store.Tx, accountUID, user, _ string, limit int) (int, error) {
	const statement = `DELETE FROM evaluation_result WHERE (account_uid, evaluation_id, number) IN
		(SELECT account_uid, evaluation_id, number FROM evaluation_result WHERE account_uid = $1
		AND evaluation_id IN (SELECT id FROM evaluation WHERE account_uid = $1 AND owner = $2) LIMIT $3)`
	return subject.Changed(tx.ExecContext(ctx, statement, accountUID, user, limit))
}

// Expire deletes evaluations that have ended at a time or before. Any number of replicas may run it.
func Expire(ctx context.Context, s *store.Store, before time.Time) error {
	const expired = `SELECT account_uid, id FROM evaluation WHERE ended_at > 0 AND ended_at <= $1`
	for _, statement := range []string{
		`DELETE FROM evaluation_result WHERE (account_uid, evaluation_id, number) IN (SELECT r.account_uid, r.evaluation_id, r.number FROM evaluation_result r
			JOIN (` + expired + `) e ON e.account_uid = r.account_uid AND e.id = r.evaluation_id LIMIT $2)`,
		`DELETE FROM evaluation WHERE (account_uid, id) IN (` + expired + ` LIMIT $2)`,
	} {
		if err := s.DeleteBefore(ctx, statement, before, expireBatch); err != nil {
			return err
		}
	}
	return nil
}

// RunExpiry deletes evaluations that have ended some time ago, at an interval, until the context ends.
func RunExpiry(ctx context.Context, s *store.Store, retention, interval time.Duration, log *slog.Logger) error {
	return store.Repeat(ctx, interval, log, "Old evaluations could not be deleted", func(ctx context.Context) error {
		return Expire(ctx, s, time.Now().Add(-retention))
	})
}
