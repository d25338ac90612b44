package store

import (
	"context"
	"database/sql"
	"database/sql/driver"
	"errors"
	"fmt"
	"io"
	"net"
	"strings"

	"github.com/jackc/pgx/v5/pgconn"
	"github.com/pressly/goose/v3"
	"modernc.org/sqlite"
	sqlite3 "modernc.org/sqlite/lib"
)

// Dialect is one of the two databases, with everything in which they differ. Both take $1 for a
// parameter, ON CONFLICT, RETURNING, comparisons of rows, and LIMIT.
type Dialect string

// The two databases.
const (
	PostgreSQL Dialect = "postgres"
	SQLite     Dialect = "sqlite"
)

func (d Dialect) goose() goose.Dialect {
	if d == SQLite {
		return goose.DialectSQLite3
	}
	return goose.DialectPostgres
}

// RowsPerInsert returns how many rows one INSERT should carry at most. A round trip to PostgreSQL
// costs more than a row; SQLite has none, and its driver binds many parameters slowly.
func (d Dialect) RowsPerInsert() int {
	if d == SQLite {
		return 1
	}
	return 256
}

// ForUpdateSkipLocked returns the end of a SELECT whose rows are then deleted: rows that other
// transactions have locked are left out, so that it neither waits nor deadlocks. SQLite has one
// writer.
func (d Dialect) ForUpdateSkipLocked() string {
	if d == SQLite {
		return ""
	}
	return " FOR UPDATE SKIP LOCKED"
}

// Refused reports whether the database rejected the rows themselves, so that a retry fails too.
func (d Dialect) Refused(err error) bool {
	state := sqlState(err)
	if strings.HasPrefix(state, "22") || strings.HasPrefix(state, "23") { // data exception, integrity
		return true
	}
	switch sqliteCode(err) {
	case sqlite3.SQLITE_CONSTRAINT, sqlite3.SQLITE_TOOBIG, sqlite3.SQLITE_MISMATCH:
		return true
	}
	return false
}

// retryable reports whether a transaction was rolled back because of others that ran at the same
// time: a serialization failure, a deadlock, or a lock that was not acquired in time.
func retryable(err error) bool {
	switch sqlState(err) {
	case "40001", "40P01", "55P03":
		return true
	}
	code := sqliteCode(err)
	return code == sqlite3.SQLITE_BUSY || code == sqlite3.SQLITE_LOCKED
}

// unavailable reports whether the database could not be reached or could not do its work, as
// opposed to a rejected statement.
func unavailable(err error) bool {
	if state := sqlState(err); state != "" {
		// Connection, resources, operator intervention, system error; a read-only standby.
		for _, class := range []string{"08", "53", "57", "58", "25006"} {
			if strings.HasPrefix(state, class) {
				return true
			}
		}
		return retryable(err)
	}
	switch sqliteCode(err) {
	case sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED, sqlite3.SQLITE_IOERR, sqlite3.SQLITE_FULL, sqlite3.SQLITE_CANTOPEN, sqlite3.SQLITE_READONLY, sqlite3.SQLITE_NOMEM:
		return true
	}
	var connecting *pgconn.ConnectError
	var network net.Error
	return errors.As(err, &connecting) || errors.As(err, &network) || pgconn.SafeToRetry(err) ||
		errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) || errors.Is(err, driver.ErrBadConn) || errors.Is(err, sql.ErrConnDone)
}

// classify wraps an error of the database as ErrUnavailable if it is one. Other errors, and those
// of a caller who has gone, are returned as they are.
func classify(ctx context.Context, err error) error {
	if err == nil || ctx.Err() != nil || errors.Is(err, ErrUnavailable) || !unavailable(err) {
		return err
	}
	return fmt.Errorf("%w: %w", ErrUnavailable, err)
}

// sqlState returns the SQLSTATE of an error of PostgreSQL, or "".
func sqlState(err error) string {
	var failure *pgconn.PgError
	if errors.As(err, &failure) {
		return failure.Code
	}
	return ""
}

// sqliteCode returns the primary result code of an error of SQLite, or 0.
func sqliteCode(err error) int {
	var failure *sqlite.Error
	if errors.As(err, &failure) {
		return failure.Code() & 0xff
	}
	return 0
}
