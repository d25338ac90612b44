// Package chat has the threads of chats with agents: an append-only log of lines for each thread. The sort of a line is its place
// in the log, and the cursor of readers.
//
// The answer to a message is a run. A run is not tied to a connection: the replica that has begun it holds a lease and appends
// lines, any replica reads them, and a request with the same message id finds the run, in progress or ended. A run whose lease
// has expired, because its replica was killed, is leased by another replica, which ends it.
//
//	chat.go        the model, purge and retention
//	run.go         runs: begin, abort, leases
//	append.go      the lines of runs, and the ends of runs
//	read.go        threads, runs and lines
//	forget.go      the threads of users who are deleted
//	migrations/    the tables
package chat

import (
	"context"
	"embed"
	"errors"
	"log/slog"
	"time"

	"github.com/quoin-dev/quoin/internal/audit"
	"github.com/quoin-dev/quoin/internal/content"
	"github.com/quoin-dev/quoin/internal/store"
)

//go:embed migrations/*.sql
var migrations embed.FS

// Owner has the tables of threads.
var Owner = store.Owner{Name: "chat", Migrations: migrations, Tables: []string{"chat_thread", "chat_run", "chat_line"}, Purge: purge}

// deletedThread is the name of an event.
var deletedThread = audit.Declare("Deleted chat thread")

const (
	// Lease is the time for which a replica works on a run without appending to it or renewing the lease.
	Lease = 30 * time.Second
	// MaxID is the maximum length of the id of a chat, a message and an owner, in bytes.
	MaxID = 256
	// MaxTitle is the maximum length of the title of a thread, in bytes.
	MaxTitle = 200
	// MaxLines is the maximum number of lines of a thread.
	MaxLines = 200_000
	// expireBatch is the maximum number of rows that one transaction of Expire deletes.
	expireBatch = 500
)

var (
	// ErrUnknown is returned for a thread that does not exist.
	ErrUnknown = errors.New("there is no such chat")
	// ErrForeign is returned for a thread of another owner.
	ErrForeign = errors.New("the chat is that of another user")
	// ErrInProgress is returned for another message while a run of the thread is in progress.
	ErrInProgress = errors.New("Streaming for thread is in progress") //nolint:staticcheck // the documented text
	// ErrFull is returned for a thread that has MaxLines lines.
	ErrFull = errors.New("the chat is too long; begin another one")
	// ErrLost is returned if another replica has taken over or ended a run.
	ErrLost = errors.New("the lease of the run is lost")
)

// State is the state of a run.
type State string

// The states.
const (
	Running State = "running"
	Done    State = "done"
	Failed  State = "failed"
	Aborted State = "aborted"
)

// Thread is a thread.
type Thread struct {
	// ID is its number in the account.
	ID int64
	// Agent is the number of the agent, and ChatID the id that the client uses.
	Agent  int64
	ChatID string
	// Owner is the person or program that the thread belongs to: ScimUser:<name> for a user.
	Owner string
	// Title is the beginning of the first message.
	Title string
	// LastSort is the sort of the last line.
	LastSort int64
	// RunID is the run in progress; 0 if there is none.
	RunID                int64
	CreatedAt, UpdatedAt time.Time

	deploymentUID string
}

// Run is the answer to a message.
type Run struct {
	ID        int64
	MessageID string
	State     State
	// After is the sort of the last line before those of the run, and Last that of its last line; 0 while it is in progress.
	After, Last        int64
	CreatedAt, EndedAt time.Time
}

// Line is a line of a thread.
type Line struct {
	Sort int64
	Body []byte
}

// Threads has the threads of all accounts.
type Threads struct {
	DB     content.Database
	Record content.Record
	// Now is the clock; time.Now if nil.
	Now func() time.Time
}

func (t *Threads) now() time.Time {
	now := time.Now
	if t.Now != nil {
		now = t.Now
	}
	return now().UTC().Truncate(time.Microsecond)
}

// purge is Owner.Purge.
var purge = store.PurgeInOrder(
	store.PurgeTable("chat_line", "account_uid, thread_id, sort"),
	store.PurgeTable("chat_run", "account_uid, thread_id, id"),
	store.PurgeTable("chat_thread", "account_uid, id"),
)

// Expire deletes threads without a run in progress that were last changed at a time or before. Any number of replicas may run it.
func Expire(ctx context.Context, s *store.Store, before time.Time) error {
	const expired = `SELECT account_uid, id FROM chat_thread WHERE updated_at <= $1 AND run_id = 0`
	for _, statement := range []string{
		`DELETE FROM chat_line WHERE (account_uid, thread_id, sort) IN (SELECT l.account_uid, l.thread_id, l.sort FROM chat_line l
			JOIN (` + expired + `) t ON t.account_uid = l.account_uid AND t.id = l.thread_id LIMIT $2)`,
		`DELETE FROM chat_run WHERE (account_uid, thread_id, id) IN (SELECT r.account_uid, r.thread_id, r.id FROM chat_run r
			JOIN (` + expired + `) t ON t.account_uid = r.account_uid AND t.id = r.thread_id LIMIT $2)`,
		// The conditions of the row are checked again if another transaction has changed it: it may have begun a run.
		`DELETE FROM chat_thread WHERE updated_at <= $1 AND run_id = 0 AND (account_uid, id) IN (` + expired + ` LIMIT $2)`,
	} {
		if err := s.DeleteBefore(ctx, statement, before, expireBatch); err != nil {
			return err
		}
	}
	return nil
}

// RunExpiry deletes threads that were not changed for a time, at an interval, until the context ends.
func RunExpiry(ctx context.Context, s *store.Store, retention, interval time.Duration, log *slog.Logger) error {
	return store.Repeat(ctx, interval, log, "Expired chats could not be deleted", func(ctx context.Context) error {
		return Expire(ctx, s, time.Now().Add(-retention))
	})
}
