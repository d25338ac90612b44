package chat

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/google/uuid"

	"github.com/quoin-dev/quoin/internal/audit"
	"github.com/quoin-dev/quoin/internal/content"
	"github.com/quoin-dev/quoin/internal/store"
)

// Message is a message that begins a run.
type Message struct {
	// Agent is the number of the agent; ChatID the id of the chat, of which there may be no thread yet; Owner the author.
	Agent  int64
	ChatID string
	Owner  string
	// ID is the idempotency key.
	ID string
	// Title is that of a new thread.
	Title string
}

// RunLease is the right to append to a run. It is not safe for concurrent use.
type RunLease struct {
	Account  store.Account
	Thread   int64
	Run      int64
	Agent    int64
	ChatID   string
	Owner    string
	LastSort int64
	// Abort is true if the last call with the lease found that an abort of the run was requested.
	Abort bool

	deploymentUID, holder string
	// until is when the lease expires.
	until time.Time
}

// Begin begins a run for a message, in its thread, which is created if there is none. If there is a run for the message already,
// in progress or ended, it returns that one without a lease. The errors are ErrForeign, ErrInProgress and ErrFull.
func (t *Threads) Begin(ctx context.Context, s content.Scope, m Message, holder string) (thread *Thread, run *Run, lease *RunLease, err error) {
	if err := m.check(); err != nil {
		return nil, nil, nil, err
	}
	var rejected error
	err = t.DB.Tx(ctx, func(tx *store.Tx) (err error) {
		thread, run, lease, rejected = nil, nil, nil, nil
		if err := tx.LockDeployment(ctx, s.Account, s.Deployment); err != nil {
			return err
		}
		thread, err = findThread(ctx, tx, s, m.Agent, m.ChatID)
		if errors.Is(err, ErrUnknown) {
			thread, err = t.insertThread(ctx, tx, s, m)
		}
		if err != nil {
			return err
		}
		if run, err = findRun(ctx, tx, s.Account.UID, thread.ID, m.ID); errors.Is(err, ErrUnknown) {
			run, err = nil, nil
		}
		switch {
		case err != nil:
		case thread.Owner != m.Owner:
			rejected = ErrForeign
		case run != nil:
		case thread.RunID != 0:
			rejected = ErrInProgress
		case thread.LastSort >= MaxLines:
			rejected = ErrFull
		default:
			run, lease, err = t.insertRun(ctx, tx, s.Account, thread, m, holder)
		}
		return err
	})
	if err != nil {
		return nil, nil, nil, fmt.Errorf("begin a run: %w", err)
	}
	if rejected != nil {
		return nil, nil, nil, rejected
	}
	return thread, run, lease, nil
}

func (m *Message) check() error {
	for field, value := range map[string]string{"chatId": m.ChatID, "messageId": m.ID, "owner": m.Owner} {
		if value == "" || len(value) > MaxID || strings.ContainsRune(value, 0) {
			return content.Errorf(content.Invalid, "%s: must have 1 to %d bytes, none of which is 0", field, MaxID)
		}
	}
	return nil
}

func (t *Threads) insertThread(ctx context.Context, tx *store.Tx, s content.Scope, m Message) (*Thread, error) {
	now := t.now()
	if err := freeChatID(ctx, tx, s.Account.UID, m, now); err != nil {
		return nil, err
	}
	id, err := tx.NextID(ctx, s.Account.UID, "chat_thread")
	if err != nil {
		return nil, err
	}
	title := strings.ReplaceAll(m.Title, "\x00", "")
	title = strings.ToValidUTF8(title[:min(len(title), MaxTitle)], "")
	const insert = `INSERT INTO chat_thread (account_uid, deployment_uid, id, agent_id, chat_id, owner, title, last_sort, run_id, holder, lease_until, abort, created_at, updated_at)
		VALUES ($1, $2, $3, $4, $5, $6, $7, 0, 0, '', 0, 0, $8, $8)`
	_, err = tx.ExecContext(ctx, insert, s.Account.UID, s.Deployment.UID, id, m.Agent, m.ChatID, m.Owner, title, now.UnixMicro())
	return &Thread{ID: id, Agent: m.Agent, ChatID: m.ChatID, Owner: m.Owner, Title: title, CreatedAt: now, UpdatedAt: now, deploymentUID: s.Deployment.UID}, err
}

// freeChatID takes the id of a chat from the thread of a deleted deployment of the same name, which may have it until it is purged: an
// agent outlives its deployment. A run in progress ends, because readers of another replica would wait for its end.
func freeChatID(ctx context.Context, tx *store.Tx, accountUID string, m Message, now time.Time) error {
	// The thread first, as in other changes.
	const free = `UPDATE chat_thread SET chat_id = $4, run_id = 0, holder = '', lease_until = 0, abort = 0 WHERE account_uid = $1 AND agent_id = $2 AND chat_id = $3
		RETURNING id, last_sort`
	var thread, last int64
	err := tx.QueryRowContext(ctx, free, accountUID, m.Agent, m.ChatID, uuid.NewString()).Scan(&thread, &last)
	if errors.Is(err, sql.ErrNoRows) {
		return nil
	}
	if err != nil {
		return err
	}
	const end = "UPDATE chat_run SET state = $3, last_sort = $4, ended_at = $5 WHERE account_uid = $1 AND thread_id = $2 AND state = 'running'"
	_, err = tx.ExecContext(ctx, end, accountUID, thread, string(Failed), last, now.UnixMicro())
	return err
}

func (t *Threads) insertRun(ctx context.Context, tx *store.Tx, a store.Account, thread *Thread, m Message, holder string) (*Run, *RunLease, error) {
	id, err := tx.NextID(ctx, a.UID, "chat_run")
	if err != nil {
		return nil, nil, err
	}
	now := t.now()
	const insert = `INSERT INTO chat_run (account_uid, deployment_uid, thread_id, id, message_id, after_sort, last_sort, state, created_at, ended_at)
		VALUES ($1, $2, $3, $4, $5, $6, 0, $7, $8, 0)`
	if _, err := tx.ExecContext(ctx, insert, a.UID, thread.deploymentUID, thread.ID, id, m.ID, thread.LastSort, string(Running), now.UnixMicro()); err != nil {
		return nil, nil, err
	}
	const update = `UPDATE chat_thread SET run_id = $3, holder = $4, lease_until = $5, abort = 0, updated_at = $6 WHERE account_uid = $1 AND id = $2`
	if _, err := tx.ExecContext(ctx, update, a.UID, thread.ID, id, holder, now.Add(Lease).UnixMicro(), now.UnixMicro()); err != nil {
		return nil, nil, err
	}
	thread.RunID, thread.UpdatedAt = id, now
	return &Run{ID: id, MessageID: m.ID, State: Running, After: thread.LastSort, CreatedAt: now}, leaseOf(a, thread, holder, now), nil
}

func leaseOf(a store.Account, thread *Thread, holder string, now time.Time) *RunLease {
	return &RunLease{
		Account: a, Thread: thread.ID, Run: thread.RunID, Agent: thread.Agent, ChatID: thread.ChatID, Owner: thread.Owner, LastSort: thread.LastSort,
		deploymentUID: thread.deploymentUID, holder: holder, until: now.Add(Lease),
	}
}

// findOwned returns a thread of an owner, or the reason for which there is none: ErrUnknown or ErrForeign.
func findOwned(ctx context.Context, q store.Querier, s content.Scope, agent int64, chatID, owner string) (thread *Thread, reason, err error) {
	thread, err = findThread(ctx, q, s, agent, chatID)
	switch {
	case errors.Is(err, ErrUnknown):
		return nil, err, nil
	case err == nil && thread.Owner != owner:
		return nil, ErrForeign, nil
	}
	return thread, nil, err
}

// Abort requests the end of the run of a thread. It reports whether one is in progress; the replica that works on it learns of
// the request when it appends or renews its lease. The errors are ErrUnknown and ErrForeign.
func (t *Threads) Abort(ctx context.Context, s content.Scope, agent int64, chatID, owner string) (active bool, err error) {
	var rejected error
	err = t.DB.Tx(ctx, func(tx *store.Tx) error {
		thread, reason, err := findOwned(ctx, tx, s, agent, chatID, owner)
		if rejected = reason; rejected != nil || err != nil {
			return err
		}
		result, err := tx.ExecContext(ctx, "UPDATE chat_thread SET abort = 1 WHERE account_uid = $1 AND id = $2 AND run_id <> 0", s.Account.UID, thread.ID)
		if err != nil {
			return err
		}
		changed, err := result.RowsAffected()
		active = changed > 0
		return err
	})
	if err != nil {
		return false, fmt.Errorf("abort a run: %w", err)
	}
	return active, rejected
}

// Aborts returns the runs of a holder whose end was requested, by the UIDs of their accounts.
func (t *Threads) Aborts(ctx context.Context, holder string) (runs map[string][]int64, err error) {
	err = t.DB.Read(ctx, func(q store.Querier) error {
		runs = map[string][]int64{}
		rows, err := q.QueryContext(ctx, "SELECT account_uid, run_id FROM chat_thread WHERE holder = $1 AND abort = 1", holder)
		if err != nil {
			return err
		}
		defer func() { _ = rows.Close() }()
		for rows.Next() {
			var account string
			var run int64
			if err := rows.Scan(&account, &run); err != nil {
				return err
			}
			runs[account] = append(runs[account], run)
		}
		return rows.Err()
	})
	if err != nil {
		return nil, fmt.Errorf("find aborts of runs: %w", err)
	}
	return runs, nil
}

// TakeOver leases runs whose leases have expired, of all accounts: their replicas were killed. The caller ends them.
func (t *Threads) TakeOver(ctx context.Context, limit int, holder string) (out []*RunLease, err error) {
	type expired struct {
		account store.Account
		thread  int64
	}
	var all []expired
	err = t.DB.Read(ctx, func(q store.Querier) error {
		all = nil
		const query = `SELECT a.uid, a.name, t.id FROM chat_thread t JOIN account a ON a.uid = t.account_uid
			WHERE t.lease_until > 0 AND t.lease_until <= $1 ORDER BY t.lease_until LIMIT $2`
		rows, err := q.QueryContext(ctx, query, t.now().UnixMicro(), limit)
		if err != nil {
			return err
		}
		defer func() { _ = rows.Close() }()
		for rows.Next() {
			var e expired
			if err := rows.Scan(&e.account.UID, &e.account.Name, &e.thread); err != nil {
				return err
			}
			all = append(all, e)
		}
		return rows.Err()
	})
	for i := 0; i < len(all) && err == nil; i++ {
		var l *RunLease
		if l, err = t.takeOver(ctx, all[i].account, all[i].thread, holder); l != nil {
			out = append(out, l)
		}
	}
	if err != nil {
		return out, fmt.Errorf("take over runs: %w", err)
	}
	return out, nil
}

// takeOver leases the run of a thread; nil if another replica has.
func (t *Threads) takeOver(ctx context.Context, a store.Account, thread int64, holder string) (l *RunLease, err error) {
	err = t.DB.Tx(ctx, func(tx *store.Tx) error {
		now := t.now()
		const update = `UPDATE chat_thread SET holder = $3, lease_until = $4 WHERE account_uid = $1 AND id = $2 AND lease_until > 0 AND lease_until <= $5 RETURNING ` + threadColumns
		found, err := scanThread(tx.QueryRowContext(ctx, update, a.UID, thread, holder, now.Add(Lease).UnixMicro(), now.UnixMicro()))
		if l = nil; errors.Is(err, sql.ErrNoRows) {
			return nil
		}
		if err == nil {
			l = leaseOf(a, found, holder, now)
		}
		return err
	})
	return l, err
}

// Delete deletes a thread with its lines, and records the event. A run in progress is lost. The errors are ErrUnknown and
// ErrForeign.
func (t *Threads) Delete(ctx context.Context, s content.Scope, agent int64, chatID, owner string) error {
	var rejected error
	err := t.DB.Tx(ctx, func(tx *store.Tx) error {
		if err := tx.LockDeployment(ctx, s.Account, s.Deployment); err != nil {
			return err
		}
		thread, reason, err := findOwned(ctx, tx, s, agent, chatID, owner)
		if rejected = reason; rejected != nil || err != nil {
			return err
		}
		// The thread first: its row is what appends wait for.
		for _, statement := range []string{
			"DELETE FROM chat_thread WHERE account_uid = $1 AND id = $2",
			"DELETE FROM chat_run WHERE account_uid = $1 AND thread_id = $2",
			"DELETE FROM chat_line WHERE account_uid = $1 AND thread_id = $2",
		} {
			if _, err := tx.ExecContext(ctx, statement, s.Account.UID, thread.ID); err != nil {
				return err
			}
		}
		id := strconv.FormatInt(thread.ID, 10)
		return t.Record(ctx, tx, audit.Event{Name: deletedThread, Object: audit.Object{Kind: "ChatThread", Namespace: s.Deployment.Namespace, Name: thread.ChatID, ID: id}})
	})
	if err != nil {
		return fmt.Errorf("delete a chat: %w", err)
	}
	return rejected
}
