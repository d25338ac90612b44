package store

import (
	"context"
	"database/sql/driver"
	"errors"
	"fmt"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/stdlib"
)

// lazyConnector makes connections that begin a transaction with its first statement.
type lazyConnector struct{ driver.Connector }

// Connect implements driver.Connector.
func (c lazyConnector) Connect(ctx context.Context) (driver.Conn, error) {
	opened, err := c.Connector.Connect(ctx)
	if err != nil {
		return nil, err
	}
	conn, ok := opened.(*stdlib.Conn)
	if !ok {
		return nil, errors.Join(fmt.Errorf("connections to PostgreSQL are %T", opened), opened.Close())
	}
	return &lazyConn{Conn: conn}, nil
}

// lazyConn is a connection to PostgreSQL on which a transaction begins with its first statement: a batch is
// sent together with it.
type lazyConn struct {
	*stdlib.Conn
	// first are the statements that begin the transaction, if it has not begun.
	first []*Statement
	// async reports whether the transaction does not wait for the disk.
	async bool
}

// BeginTx implements driver.ConnBeginTx.
func (c *lazyConn) BeginTx(ctx context.Context, options driver.TxOptions) (driver.Tx, error) {
	if options != (driver.TxOptions{}) {
		return c.Conn.BeginTx(ctx, options)
	}
	if c.Conn.Conn().IsClosed() {
		return nil, driver.ErrBadConn
	}
	c.first, c.async = []*Statement{{Query: "BEGIN"}}, isAsync(ctx)
	if c.async {
		c.first = append(c.first, &Statement{Query: "SET LOCAL synchronous_commit = off"})
	}
	return lazyTx{c, ctx}, nil
}

// batch runs statements in one round trip, after those that begin the transaction.
func (c *lazyConn) batch(ctx context.Context, statements ...*Statement) error {
	statements = append(c.first[:len(c.first):len(c.first)], statements...)
	c.first = nil
	if len(statements) == 0 {
		return nil
	}
	return pipeline(ctx, c.Conn.Conn(), statements)
}

// ExecContext implements driver.ExecerContext.
func (c *lazyConn) ExecContext(ctx context.Context, query string, args []driver.NamedValue) (driver.Result, error) {
	if err := c.batch(ctx); err != nil {
		return nil, err
	}
	return c.Conn.ExecContext(ctx, query, args)
}

// QueryContext implements driver.QueryerContext.
func (c *lazyConn) QueryContext(ctx context.Context, query string, args []driver.NamedValue) (driver.Rows, error) {
	if err := c.batch(ctx); err != nil {
		return nil, err
	}
	return c.Conn.QueryContext(ctx, query, args)
}

// PrepareContext implements driver.ConnPrepareContext.
func (c *lazyConn) PrepareContext(ctx context.Context, query string) (driver.Stmt, error) {
	if err := c.batch(ctx); err != nil {
		return nil, err
	}
	return c.Conn.PrepareContext(ctx, query)
}

// lazyTx is a transaction that begins with its first statement.
type lazyTx struct {
	c   *lazyConn
	ctx context.Context //nolint:containedctx // of the transaction, as driver.Tx has none
}

// Commit implements driver.Tx.
func (t lazyTx) Commit() error {
	if t.c.first != nil {
		t.c.first = nil
		return nil
	}
	conn := t.c.Conn.Conn()
	tag, err := conn.Exec(t.ctx, "commit")
	switch {
	case err != nil && conn.PgConn().TxStatus() != 'I':
		return errors.Join(err, conn.Close(t.ctx))
	case err == nil && tag.String() == "ROLLBACK":
		return pgx.ErrTxCommitRollback
	}
	return err
}

// Rollback implements driver.Tx.
func (t lazyTx) Rollback() error {
	if t.c.first != nil {
		t.c.first = nil
		return nil
	}
	conn := t.c.Conn.Conn()
	_, err := conn.Exec(t.ctx, "rollback")
	if err != nil {
		return errors.Join(err, conn.Close(t.ctx))
	}
	return nil
}
