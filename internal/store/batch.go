package store

import (
	"context"
	"errors"
	"fmt"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
)

// Statement is one of the statements of a batch.
type Statement struct {
	Query string
	Args  []any
	// Into has pointers for the columns of the row that the statement returns, as database/sql takes them for
	// int64, string, bool and []byte. Without a row they are not changed. It is nil for a statement that
	// returns none.
	Into []any
	// Rows is the number of rows that the statement has changed or returned.
	Rows int64
}

// Batch runs statements one after the other: with PostgreSQL in one round trip. The first error ends it. The end of the context does
// not interrupt a statement on SQLite, but those after it do not run.
func (t *Tx) Batch(ctx context.Context, statements ...*Statement) error {
	if t.dialect == PostgreSQL {
		return t.conn.Raw(func(connection any) error {
			c, ok := connection.(*lazyConn)
			if !ok {
				return fmt.Errorf("connections to PostgreSQL are %T", connection)
			}
			return c.batch(ctx, statements...)
		})
	}
	uninterrupted := context.WithoutCancel(ctx) // to interrupt a statement takes a goroutine for each
	for _, s := range statements {
		if err := ctx.Err(); err != nil {
			return err
		}
		if err := t.run(uninterrupted, s); err != nil {
			return err
		}
	}
	return nil
}

// Alone locks a recorded account and runs a statement, as a transaction of their own that is committed when Alone
// returns: all in one round trip. It is only for PostgreSQL, and before the first statement of t, which can follow.
// It waits for the disk only if t does.
func (t *Tx) Alone(ctx context.Context, a Account, s *Statement) error {
	const lock = "SELECT 1 FROM account WHERE uid = $1 FOR NO KEY UPDATE"
	return t.conn.Raw(func(connection any) error {
		c, ok := connection.(*lazyConn)
		if !ok || c.first == nil {
			return fmt.Errorf("a statement cannot be alone in a transaction that has begun, on a connection that is %T", connection)
		}
		all := []*Statement{{Query: lock, Args: []any{a.UID}}, s}
		if c.async {
			all = append([]*Statement{{Query: "SELECT set_config('synchronous_commit', 'off', true)"}}, all...)
		}
		// Without BEGIN, the statements of a pipeline are one transaction.
		err := pipeline(ctx, c.Conn.Conn(), all)
		if err != nil && sqlState(err) == "" && !pgconn.SafeToRetry(err) {
			return fmt.Errorf("%w: %w: %w", ErrUnavailable, ErrUnknownOutcome, err)
		}
		return err
	})
}

// pipeline sends statements, and then reads their results.
func pipeline(ctx context.Context, c *pgx.Conn, statements []*Statement) (err error) {
	batch := &pgx.Batch{}
	for _, s := range statements {
		batch.Queue(s.Query, s.Args...)
	}
	results := c.SendBatch(ctx, batch)
	defer func() { err = errors.Join(err, results.Close()) }()
	for _, s := range statements {
		rows, err := results.Query()
		if err != nil {
			return err
		}
		if rows.Next() && s.Into != nil {
			err = rows.Scan(s.Into...)
		}
		rows.Close()
		if err := errors.Join(err, rows.Err()); err != nil {
			return err
		}
		s.Rows = rows.CommandTag().RowsAffected()
	}
	return nil
}

// run runs one statement.
func (t *Tx) run(ctx context.Context, s *Statement) (err error) {
	if s.Into == nil {
		result, err := t.ExecContext(ctx, s.Query, s.Args...)
		if err != nil {
			return err
		}
		s.Rows, err = result.RowsAffected()
		return err
	}
	rows, err := t.QueryContext(ctx, s.Query, s.Args...)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, rows.Close()) }()
	for s.Rows = 0; rows.Next(); s.Rows++ {
		if err := rows.Scan(s.Into...); err != nil {
			return err
		}
	}
	return rows.Err()
}
