package chat

import (
	"bytes"
	"context"
	"database/sql"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/quoin-dev/quoin/internal/agent/stream"
	"github.com/quoin-dev/quoin/internal/store"
)

const (
	// rowLines and rowBytes are the maximum number of lines that are stored as one row, and their length. A longer line is a row of
	// its own.
	rowLines = 100
	rowBytes = 32 << 10
	// renewBefore is how long before its end a lease is renewed. Other appends do not change what is indexed.
	renewBefore = 2 * Lease / 3
)

// Batch is lines that are appended to a run.
type Batch struct {
	Lease  *RunLease
	Bodies [][]byte
	// Err is ErrLost if another replica has taken over or ended the run.
	Err error
}

// Append adds lines to a run and renews its lease. The sort of the first one is l.LastSort+1. It does not wait for the disk: if the
// database server fails, lines may be lost, and the run with them. Append may be called again with the same lines after an error
// other than ErrLost. A line must not have a line break.
func (t *Threads) Append(ctx context.Context, l *RunLease, bodies ...[]byte) error {
	b := &Batch{Lease: l, Bodies: bodies}
	if err := t.AppendAll(ctx, b); err != nil {
		return err
	}
	return b.Err
}

// AppendAll appends to several runs in one transaction, as Append does. With an error it may be called again with the same batches.
func (t *Threads) AppendAll(ctx context.Context, batches ...*Batch) error {
	all := make([]*appending, len(batches))
	for i, b := range batches {
		all[i] = &appending{Batch: b, last: b.Lease.LastSort + int64(len(b.Bodies))}
	}
	if err := t.DB.TxAsync(ctx, func(tx *store.Tx) error { return t.appendAll(ctx, tx, all, "") }); err != nil {
		return fmt.Errorf("append to chats: %w", err)
	}
	for _, a := range all {
		a.done()
	}
	return nil
}

// End adds the last lines of a run, whose state must not be Running, and ends it. It may be called again as Append may.
func (t *Threads) End(ctx context.Context, l *RunLease, state State, bodies ...[]byte) error {
	a := &appending{Batch: &Batch{Lease: l, Bodies: bodies}, last: l.LastSort + int64(len(bodies))}
	err := t.DB.Tx(ctx, func(tx *store.Tx) error {
		if err := t.appendAll(ctx, tx, []*appending{a}, state); err != nil || a.lost || a.repeated {
			return err
		}
		return l.end(ctx, tx, state, a.last, t.now().UnixMicro())
	})
	if err != nil {
		return fmt.Errorf("end a run: %w", err)
	}
	a.done()
	return a.Err
}

// appending is a batch in a transaction.
type appending struct {
	*Batch
	// last is the sort of the last line, and until when the lease expires.
	last  int64
	until time.Time
	// abort is 1 if the end of the run was requested.
	abort int64
	// lost means that the run is another replica's, and repeated that an earlier call, whose outcome was unknown, has stored the lines.
	lost, repeated bool
}

// done sets the outcome of a transaction that is committed.
func (a *appending) done() {
	if a.lost {
		a.Err = ErrLost
		return
	}
	a.Err = nil
	a.Lease.LastSort, a.Lease.Abort, a.Lease.until = a.last, a.abort != 0, a.until
}

// buffers are for the rows of a transaction: a driver keeps no argument of a statement that has ended. Large ones are not kept.
var buffers = sync.Pool{New: func() any { return &bytes.Buffer{} }}

const keptBuffer = 1 << 20

func release(rows *bytes.Buffer) {
	if rows.Cap() <= keptBuffer {
		rows.Reset()
		buffers.Put(rows)
	}
}

// appendAll appends batches. They are those of an end if end is a state.
func (t *Threads) appendAll(ctx context.Context, tx *store.Tx, all []*appending, end State) error {
	now := t.now()
	rows, ok := buffers.Get().(*bytes.Buffer)
	if !ok {
		panic("the pool has other values") // it has none
	}
	defer release(rows)
	var statements, updates []*store.Statement
	for _, a := range all {
		update := a.update(now, end != "")
		updates = append(updates, update)
		statements = append(append(statements, update), a.inserts(rows)...)
	}
	if err := tx.Batch(ctx, statements...); err != nil {
		return err
	}
	for i, a := range all {
		a.lost, a.repeated = false, false
		if updates[i].Rows > 0 {
			continue
		}
		var err error
		if a.lost, err = a.Lease.isLost(ctx, tx, a.last, end); err != nil {
			return err
		}
		a.repeated = !a.lost
	}
	return nil
}

// update returns the statement that moves the end of the log. It changes no row unless the lease is that of the holder, and the end
// of the log is where the holder left it.
func (a *appending) update(now time.Time, renew bool) *store.Statement {
	l := a.Lease
	const (
		set   = "UPDATE chat_thread SET last_sort = $6"
		where = " WHERE account_uid = $1 AND id = $2 AND run_id = $3 AND holder = $4 AND last_sort = $5 RETURNING abort"
	)
	args := []any{l.Account.UID, l.Thread, l.Run, l.holder, l.LastSort, a.last}
	if a.until = l.until; !renew && l.until.Sub(now) > renewBefore {
		return &store.Statement{Query: set + where, Args: args, Into: []any{&a.abort}}
	}
	a.until = now.Add(Lease)
	return &store.Statement{
		Query: set + ", lease_until = $7, updated_at = $8" + where, Args: append(args, a.until.UnixMicro(), now.UnixMicro()), Into: []any{&a.abort},
	}
}

// inserts returns the statements that insert the lines after the update, whose rows it adds to a buffer. They insert nothing if the
// update has changed nothing, and no line twice.
func (a *appending) inserts(rows *bytes.Buffer) (out []*store.Statement) {
	const insert = `INSERT INTO chat_line (account_uid, deployment_uid, thread_id, sort, body, deltas)
		SELECT account_uid, deployment_uid, id, CAST($6 AS BIGINT), CAST($7 AS TEXT), CAST($8 AS BOOLEAN) FROM chat_thread
		WHERE account_uid = $1 AND id = $2 AND run_id = $3 AND holder = $4 AND last_sort = $5 ON CONFLICT DO NOTHING`
	l := a.Lease
	for first := 0; first < len(a.Bodies); {
		next, size, deltas := first+1, len(a.Bodies[first]), stream.IsDelta(a.Bodies[first])
		for ; next < len(a.Bodies) && next-first < rowLines && size+len(a.Bodies[next]) < rowBytes && stream.IsDelta(a.Bodies[next]) == deltas; next++ {
			size += 1 + len(a.Bodies[next])
		}
		row := addRow(rows, a.Bodies[first:next])
		out = append(out, &store.Statement{Query: insert, Args: []any{l.Account.UID, l.Thread, l.Run, l.holder, a.last, l.LastSort + int64(next), row, deltas}})
		first = next
	}
	return out
}

// addRow adds lines with line breaks between them to a buffer, and returns them.
func addRow(rows *bytes.Buffer, lines [][]byte) []byte {
	begin := rows.Len()
	for i, line := range lines {
		if i > 0 {
			rows.WriteByte('\n')
		}
		rows.Write(line)
	}
	return rows.Bytes()[begin:]
}

func (l *RunLease) end(ctx context.Context, tx *store.Tx, state State, last, now int64) error {
	const endRun = `UPDATE chat_run SET state = $4, last_sort = $5, ended_at = $6 WHERE account_uid = $1 AND thread_id = $2 AND id = $3`
	const endLease = `UPDATE chat_thread SET run_id = 0, holder = '', lease_until = 0, abort = 0 WHERE account_uid = $1 AND id = $2`
	return tx.Batch(ctx,
		&store.Statement{Query: endRun, Args: []any{l.Account.UID, l.Thread, l.Run, string(state), last, now}},
		&store.Statement{Query: endLease, Args: []any{l.Account.UID, l.Thread}},
	)
}

// isLost reports whether lines were not stored because another replica has the run. Otherwise an earlier call, whose outcome was
// unknown, has stored them.
func (l *RunLease) isLost(ctx context.Context, tx *store.Tx, last int64, end State) (bool, error) {
	if end != "" {
		var state string
		var sort int64
		const query = "SELECT state, last_sort FROM chat_run WHERE account_uid = $1 AND thread_id = $2 AND id = $3"
		err := tx.QueryRowContext(ctx, query, l.Account.UID, l.Thread, l.Run).Scan(&state, &sort)
		if errors.Is(err, sql.ErrNoRows) {
			return true, nil
		}
		return State(state) != end || sort != last, err
	}
	var run, sort int64
	var holder string
	const query = "SELECT run_id, holder, last_sort FROM chat_thread WHERE account_uid = $1 AND id = $2"
	err := tx.QueryRowContext(ctx, query, l.Account.UID, l.Thread).Scan(&run, &holder, &sort)
	if errors.Is(err, sql.ErrNoRows) {
		return true, nil
	}
	return run != l.Run || holder != l.holder || sort != last, err
}
