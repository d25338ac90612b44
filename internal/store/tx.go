package store

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"math/rand/v2"
	"time"
)

// The bounds of retries of a transaction.
const (
	maxTries   = 8
	firstPause = 5 * time.Millisecond
	maxPause   = 200 * time.Millisecond
)

// Querier runs statements that change nothing.
type Querier interface {
	QueryContext(ctx context.Context, query string, args ...any) (*sql.Rows, error)
	QueryRowContext(ctx context.Context, query string, args ...any) *sql.Row
}

// Tx is a transaction.
type Tx struct {
	tx          *sql.Tx
	conn        *sql.Conn
	dialect     Dialect
	afterCommit []func()
}

// Dialect returns which of the two databases it is.
func (t *Tx) Dialect() Dialect { return t.dialect }

// ExecContext runs a statement.
func (t *Tx) ExecContext(ctx context.Context, query string, args ...any) (sql.Result, error) {
	return t.tx.ExecContext(ctx, query, args...)
}

// PrepareContext prepares a statement, which the caller closes.
func (t *Tx) PrepareContext(ctx context.Context, query string) (*sql.Stmt, error) {
	return t.tx.PrepareContext(ctx, query)
}

// QueryContext implements Querier.
func (t *Tx) QueryContext(ctx context.Context, query string, args ...any) (*sql.Rows, error) {
	return t.tx.QueryContext(ctx, query, args...)
}

// QueryRowContext implements Querier.
func (t *Tx) QueryRowContext(ctx context.Context, query string, args ...any) *sql.Row {
	return t.tx.QueryRowContext(ctx, query, args...)
}

// AfterCommit registers a function that is called once the transaction is committed.
func (t *Tx) AfterCommit(f func()) { t.afterCommit = append(t.afterCommit, f) }

// Tx runs work in a transaction and commits it. Without an error the transaction is durable. Work
// is run again, a bounded number of times, after a serialization failure, a deadlock or a lock
// timeout, so it must have no other effects.
//
// Errors of work are returned as they are. Those of the database are ErrUnavailable where that is
// the reason, and ErrUnknownOutcome too if the transaction may have been committed.
//
// PostgreSQL runs it with READ COMMITTED. LockAccount and LockDeployment make transactions on the
// same account wait for each other, as all do in SQLite.
func (s *Store) Tx(ctx context.Context, work func(tx *Tx) error) error {
	return observe(ctx, operationWrite, func() error { return s.tryTx(ctx, work) })
}

// TxAsync is Tx for a transaction that does not wait for the disk. Others see it at once, and it survives the
// end of the process. If the database server or the machine fails, it can be lost with all that followed it,
// until a transaction that waits makes both durable.
func (s *Store) TxAsync(ctx context.Context, work func(tx *Tx) error) error {
	return s.Tx(context.WithValue(ctx, asyncKey{}, true), work)
}

// asyncKey is the key of the context of TxAsync.
type asyncKey struct{}

func isAsync(ctx context.Context) bool { return ctx.Value(asyncKey{}) != nil }

func (s *Store) tryTx(ctx context.Context, work func(tx *Tx) error) error {
	for try, pause := 1, firstPause; ; try, pause = try+1, min(2*pause, maxPause) {
		err := s.transact(ctx, work)
		if err == nil || try == maxTries || !retryable(err) {
			return classify(ctx, err)
		}
		select {
		case <-ctx.Done():
			return err
		case <-time.After(pause/2 + rand.N(pause)): //nolint:gosec // jitter
		}
	}
}

func (s *Store) transact(ctx context.Context, work func(tx *Tx) error) error {
	conn, err := s.write.Conn(ctx)
	if err != nil {
		return fmt.Errorf("begin transaction: %w", err)
	}
	defer func() { _ = conn.Close() }()
	tx, err := conn.BeginTx(ctx, nil)
	if err != nil {
		return fmt.Errorf("begin transaction: %w", err)
	}
	// After a panic in work too: SQLite has one connection for writing.
	defer func() { _ = tx.Rollback() }()
	t := &Tx{tx: tx, conn: conn, dialect: s.dialect}
	if err := work(t); err != nil {
		return err
	}
	if err := tx.Commit(); err != nil {
		err = fmt.Errorf("commit: %w", err)
		if sqlState(err) == "" && sqliteCode(err) == 0 && !errors.Is(err, sql.ErrTxDone) {
			return fmt.Errorf("%w: %w: %w", ErrUnavailable, ErrUnknownOutcome, err)
		}
		return err
	}
	for _, f := range t.afterCommit {
		f()
	}
	return nil
}

// Read runs work that changes nothing. Errors of the database are ErrUnavailable where that is the
// reason.
func (s *Store) Read(ctx context.Context, work func(q Querier) error) error {
	return observe(ctx, operationRead, func() error { return classify(ctx, work(s.read)) })
}
