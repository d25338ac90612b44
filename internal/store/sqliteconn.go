package store

import (
	"context"
	"database/sql/driver"
	"errors"
	"fmt"
	"strconv"
)

const (
	// maxPrepared and maxPreparedText bound the prepared statements of a connection to SQLite.
	maxPrepared     = 64
	maxPreparedText = 1 << 10
)

// preparingConnector makes connections that keep prepared statements.
type preparingConnector struct{ driver.Connector }

// Connect implements driver.Connector.
func (c preparingConnector) Connect(ctx context.Context) (driver.Conn, error) {
	opened, err := c.Connector.Connect(ctx)
	if err != nil {
		return nil, err
	}
	conn, ok := opened.(sqliteConn)
	if !ok {
		return nil, errors.Join(fmt.Errorf("connections to SQLite are %T", opened), opened.Close())
	}
	return &preparingConn{sqliteConn: conn, prepared: map[string]sqliteStatement{}}, nil
}

// sqliteConn are the methods of a connection to SQLite.
type sqliteConn interface {
	driver.Conn
	driver.ConnBeginTx
	driver.ConnPrepareContext
	driver.ExecerContext
	driver.QueryerContext
	driver.Pinger
	driver.SessionResetter
	driver.Validator
}

// sqliteStatement are the methods of a prepared statement of SQLite.
type sqliteStatement interface {
	driver.Stmt
	driver.StmtExecContext
	driver.StmtQueryContext
}

// preparingConn is a connection to SQLite that keeps short statements prepared: to prepare one takes longer
// than to run most of them. database/sql uses it in one goroutine at a time.
type preparingConn struct {
	sqliteConn
	// prepared are the statements that are not in use.
	prepared map[string]sqliteStatement
	// async is true while commits do not wait for the disk.
	async bool
}

// take returns a prepared statement, which the caller returns with put; nil for one that is not kept. Scripts have
// no arguments.
func (c *preparingConn) take(ctx context.Context, query string, args []driver.NamedValue) (sqliteStatement, error) {
	if len(args) == 0 || len(query) > maxPreparedText {
		return nil, nil
	}
	if s := c.prepared[query]; s != nil {
		delete(c.prepared, query)
		return s, nil
	}
	prepared, err := c.PrepareContext(ctx, query)
	if err != nil {
		return nil, err
	}
	s, ok := prepared.(sqliteStatement)
	if !ok {
		return nil, errors.Join(fmt.Errorf("statements of SQLite are %T", prepared), prepared.Close())
	}
	return s, nil
}

// put keeps a statement, unless the same one was used twice at once.
func (c *preparingConn) put(query string, s sqliteStatement) error {
	if c.prepared == nil || c.prepared[query] != nil {
		return s.Close()
	}
	var err error
	if len(c.prepared) >= maxPrepared {
		err = c.forget()
		c.prepared = map[string]sqliteStatement{}
	}
	c.prepared[query] = s
	return err
}

// forget closes all statements that are not in use.
func (c *preparingConn) forget() (err error) {
	for _, s := range c.prepared {
		err = errors.Join(err, s.Close())
	}
	c.prepared = nil
	return err
}

// Close implements driver.Conn.
func (c *preparingConn) Close() error { return errors.Join(c.forget(), c.sqliteConn.Close()) }

// ExecContext implements driver.ExecerContext.
func (c *preparingConn) ExecContext(ctx context.Context, query string, args []driver.NamedValue) (driver.Result, error) {
	args = named(args)
	s, err := c.take(ctx, query, args)
	if err != nil {
		return nil, err
	}
	if s == nil {
		return c.sqliteConn.ExecContext(ctx, query, args)
	}
	result, err := s.ExecContext(ctx, args)
	return result, errors.Join(err, c.put(query, s))
}

// QueryContext implements driver.QueryerContext.
func (c *preparingConn) QueryContext(ctx context.Context, query string, args []driver.NamedValue) (driver.Rows, error) {
	args = named(args)
	s, err := c.take(ctx, query, args)
	if err != nil {
		return nil, err
	}
	if s == nil {
		return c.sqliteConn.QueryContext(ctx, query, args)
	}
	rows, err := s.QueryContext(ctx, args)
	if err != nil {
		return nil, errors.Join(err, c.put(query, s))
	}
	return &preparedRows{Rows: rows, close: func() error { return c.put(query, s) }}, nil
}

// fewArguments is the number of arguments that are not named: the driver formats small numbers without an allocation.
const fewArguments = 16

// named names arguments by their numbers. The driver looks for the argument of each parameter among all arguments, and would format
// the number of each one for the comparison.
func named(args []driver.NamedValue) []driver.NamedValue {
	if len(args) <= fewArguments {
		return args
	}
	out := make([]driver.NamedValue, len(args))
	for i, a := range args {
		out[i] = driver.NamedValue{Name: strconv.Itoa(a.Ordinal), Value: a.Value}
	}
	return out
}

// preparedRows are the rows of a prepared statement.
type preparedRows struct {
	driver.Rows
	close func() error
}

// Close implements driver.Rows.
func (r *preparedRows) Close() error {
	err := r.Rows.Close()
	if r.close != nil {
		err, r.close = errors.Join(err, r.close()), nil
	}
	return err
}

// BeginTx implements driver.ConnBeginTx. Whether commits wait for the disk cannot be changed in a
// transaction.
func (c *preparingConn) BeginTx(ctx context.Context, options driver.TxOptions) (driver.Tx, error) {
	if async := isAsync(ctx); async != c.async {
		statement := "PRAGMA synchronous(FULL)"
		if async {
			statement = "PRAGMA synchronous(NORMAL)"
		}
		if _, err := c.sqliteConn.ExecContext(ctx, statement, nil); err != nil {
			return nil, err
		}
		c.async = async
	}
	return c.sqliteConn.BeginTx(ctx, options)
}
