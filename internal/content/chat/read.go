package chat

import (
	"bytes"
	"context"
	"database/sql"
	"errors"
	"fmt"
	"time"

	"github.com/quoin-dev/quoin/internal/agent/stream"
	"github.com/quoin-dev/quoin/internal/content"
	"github.com/quoin-dev/quoin/internal/store"
)

// MaxHistory is the number of lines before a run that its conversation, and the line __state__, are made of.
const MaxHistory = 5000

// HistoryStart returns the sort after which the history through a sort begins.
func HistoryStart(through int64) int64 { return max(0, through-MaxHistory) }

const threadColumns = "id, deployment_uid, agent_id, chat_id, owner, title, last_sort, run_id, created_at, updated_at"

type scanner interface{ Scan(values ...any) error }

func scanThread(row scanner) (*Thread, error) {
	t := &Thread{}
	var created, updated int64
	if err := row.Scan(&t.ID, &t.deploymentUID, &t.Agent, &t.ChatID, &t.Owner, &t.Title, &t.LastSort, &t.RunID, &created, &updated); err != nil {
		return nil, err
	}
	t.CreatedAt, t.UpdatedAt = timeOf(created), timeOf(updated)
	return t, nil
}

func timeOf(micro int64) time.Time {
	if micro == 0 {
		return time.Time{}
	}
	return time.UnixMicro(micro).UTC()
}

func findThread(ctx context.Context, q store.Querier, s content.Scope, agent int64, chatID string) (*Thread, error) {
	if content.CheckText("chatId", chatID) != nil { // no thread has it, and PostgreSQL rejects the query
		return nil, ErrUnknown
	}
	const query = "SELECT " + threadColumns + " FROM chat_thread WHERE account_uid = $1 AND agent_id = $2 AND chat_id = $3 AND deployment_uid = $4"
	t, err := scanThread(q.QueryRowContext(ctx, query, s.Account.UID, agent, chatID, s.Deployment.UID))
	if errors.Is(err, sql.ErrNoRows) {
		return nil, ErrUnknown
	}
	return t, err
}

const runColumns = "id, message_id, state, after_sort, last_sort, created_at, ended_at"

func findRun(ctx context.Context, q store.Querier, accountUID string, thread int64, messageID string) (*Run, error) {
	const query = "SELECT " + runColumns + " FROM chat_run WHERE account_uid = $1 AND thread_id = $2 AND message_id = $3"
	return scanRun(q.QueryRowContext(ctx, query, accountUID, thread, messageID))
}

func scanRun(row scanner) (*Run, error) {
	r := &Run{}
	var created, ended int64
	err := row.Scan(&r.ID, &r.MessageID, &r.State, &r.After, &r.Last, &created, &ended)
	if errors.Is(err, sql.ErrNoRows) {
		return nil, ErrUnknown
	}
	if err != nil {
		return nil, err
	}
	r.CreatedAt, r.EndedAt = timeOf(created), timeOf(ended)
	return r, nil
}

// Find returns the thread of a chat. The errors are ErrUnknown and ErrForeign.
func (t *Threads) Find(ctx context.Context, s content.Scope, agent int64, chatID, owner string) (found *Thread, err error) {
	err = t.DB.Read(ctx, func(q store.Querier) error {
		found, err = findThread(ctx, q, s, agent, chatID)
		return err
	})
	if err != nil {
		return nil, fmt.Errorf("find a chat: %w", err)
	}
	if found.Owner != owner {
		return nil, ErrForeign
	}
	return found, nil
}

// Run returns a run of a thread. The error is ErrUnknown if there is none.
func (t *Threads) Run(ctx context.Context, accountUID string, thread, run int64) (found *Run, err error) {
	err = t.DB.Read(ctx, func(q store.Querier) error {
		const query = "SELECT " + runColumns + " FROM chat_run WHERE account_uid = $1 AND thread_id = $2 AND id = $3"
		found, err = scanRun(q.QueryRowContext(ctx, query, accountUID, thread, run))
		return err
	})
	if err != nil {
		return nil, fmt.Errorf("find a run: %w", err)
	}
	return found, nil
}

// Runs returns the runs of a thread that have ended, in their order, at most a number of them.
func (t *Threads) Runs(ctx context.Context, accountUID string, thread int64, limit int) (runs []*Run, err error) {
	err = t.DB.Read(ctx, func(q store.Querier) error {
		runs = nil
		const query = "SELECT " + runColumns + " FROM chat_run WHERE account_uid = $1 AND thread_id = $2 AND state <> 'running' ORDER BY id LIMIT $3"
		rows, err := q.QueryContext(ctx, query, accountUID, thread, limit)
		if err != nil {
			return err
		}
		defer func() { _ = rows.Close() }()
		for rows.Next() {
			r, err := scanRun(rows)
			if err != nil {
				return err
			}
			runs = append(runs, r)
		}
		return rows.Err()
	})
	if err != nil {
		return nil, fmt.Errorf("list runs: %w", err)
	}
	return runs, nil
}

// OfMessage returns the run of a message in a thread. The error is ErrUnknown if there is none.
func (t *Threads) OfMessage(ctx context.Context, accountUID string, thread int64, messageID string) (found *Run, err error) {
	err = t.DB.Read(ctx, func(q store.Querier) error {
		found, err = findRun(ctx, q, accountUID, thread, messageID)
		return err
	})
	if err != nil {
		return nil, fmt.Errorf("find a run: %w", err)
	}
	return found, nil
}

// Lines returns the lines of a thread after a sort, at most a number of them.
func (t *Threads) Lines(ctx context.Context, accountUID string, thread, after int64, limit int) ([]Line, error) {
	const query = "SELECT sort, body FROM chat_line WHERE account_uid = $1 AND thread_id = $2 AND sort > $3 ORDER BY sort LIMIT $4"
	return t.lines(ctx, after, limit, query, accountUID, thread, after, limit)
}

// Messages returns the messages of the lines of a thread after a sort, through another one. They must have ended: lines that append
// text are not read, because each message ends with a line that has the whole text.
func (t *Threads) Messages(ctx context.Context, accountUID string, thread, after, last int64) (*stream.Messages, error) {
	const limit = 200
	const query = "SELECT sort, body FROM chat_line WHERE account_uid = $1 AND thread_id = $2 AND sort > $3 AND sort < $5 AND NOT deltas ORDER BY sort LIMIT $4"
	m := &stream.Messages{}
	for after < last {
		// Rows of earlier releases can begin before the last line and end after it.
		lines, err := t.lines(ctx, after, limit, query, accountUID, thread, after, limit, last+rowLines)
		if err != nil {
			return nil, err
		}
		for _, l := range lines {
			if l.Sort > last {
				return m, nil
			}
			if stream.IsDelta(l.Body) { // rows of earlier releases have lines of both kinds
				continue
			}
			line, err := stream.Decode(l.Body)
			if err != nil {
				return nil, fmt.Errorf("read a chat: %w", err)
			}
			m.Add(line)
		}
		if len(lines) < limit {
			return m, nil
		}
		after = lines[len(lines)-1].Sort
	}
	return m, nil
}

// lines returns the lines after a sort in the rows of a query, at most a number of them.
func (t *Threads) lines(ctx context.Context, after int64, limit int, query string, args ...any) (lines []Line, err error) {
	err = t.DB.Read(ctx, func(q store.Querier) error {
		lines = nil
		rows, err := q.QueryContext(ctx, query, args...)
		if err != nil {
			return err
		}
		defer func() { _ = rows.Close() }()
		for rows.Next() {
			var last int64
			var row []byte
			if err := rows.Scan(&last, &row); err != nil {
				return err
			}
			if lines = appendRow(lines, last, row, after); len(lines) >= limit {
				lines = lines[:limit]
				return nil
			}
		}
		return rows.Err()
	})
	if err != nil {
		return nil, fmt.Errorf("read a chat: %w", err)
	}
	return lines, nil
}

// appendRow appends the lines of a row after a sort. last is the sort of the last one.
func appendRow(lines []Line, last int64, row []byte, after int64) []Line {
	sort := last - int64(bytes.Count(row, []byte("\n")))
	for body := range bytes.SplitSeq(row, []byte("\n")) {
		if sort > after {
			lines = append(lines, Line{sort, body})
		}
		sort++
	}
	return lines
}
