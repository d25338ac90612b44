package store

import (
	"errors"
	"strings"

	"github.com/jackc/pgx/v5/pgconn"
	"github.com/pressly/goose/v3"
	"modernc.org/sqlite"
	sqlite3 "modernc.org/sqlite/lib"
)

// Dialect is one of the two databases: everything in which they differ. Both take $1 for a
// parameter, ON CONFLICT, comparisons of rows, and LIMIT.
type Dialect string

// The two databases.
const (
	PostgreSQL Dialect = "postgres"
	SQLite     Dialect = "sqlite"
)

// goose is what the library of migrations calls it.
func (d Dialect) goose() goose.Dialect {
	if d == SQLite {
		return goose.DialectSQLite3
	}
	return goose.DialectPostgres
}

// RowsPerInsert is how many rows one INSERT may carry. A round trip to PostgreSQL costs more
// than a row; SQLite has none, and its driver binds many parameters slowly.
func (d Dialect) RowsPerInsert() int {
	if d == SQLite {
		return 1
	}
	return 256
}

// ForUpdateSkipLocked ends a SELECT whose rows are then deleted: rows that others are at are left
// out, so that it waits for nobody and nobody deadlocks. SQLite has one writer.
func (d Dialect) ForUpdateSkipLocked() string {
	if d == SQLite {
		return ""
	}
	return " FOR UPDATE SKIP LOCKED"
}

// Matching is FROM and WHERE of a search for rows of a table whose column words holds all the
// words of Terms, given as the parameter. In SQLite the words are indexed in <table>_words.
func (d Dialect) Matching(table, parameter string) string {
	if d == SQLite {
		// CROSS JOIN: the index comes first, whatever the planner believes.
		words := table + "_words"
		return "FROM " + words + " CROSS JOIN " + table + " ON " + table + ".number = " + words + ".rowid WHERE " + words + " MATCH " + parameter
	}
	return "FROM " + table + " WHERE words @@ CAST(" + parameter + " AS tsquery)"
}

// Terms is what Matching's parameter has to be, for rows in which all of the words begin a word.
// Words are letters and digits only, so nothing in them has a meaning in either language.
func (d Dialect) Terms(words []string) string {
	if d == SQLite {
		return `"` + strings.Join(words, `"* AND "`) + `"*`
	}
	return "'" + strings.Join(words, "':* & '") + "':*"
}

// Refused tells whether the database refuses the rows themselves: they would not be stored at
// another time either.
func (d Dialect) Refused(err error) bool {
	var fromPostgreSQL *pgconn.PgError
	if errors.As(err, &fromPostgreSQL) {
		class, _, _ := strings.Cut(fromPostgreSQL.Code+"  ", "  ")
		return strings.HasPrefix(class, "22") || strings.HasPrefix(class, "23") // data exception, integrity
	}
	var fromSQLite *sqlite.Error
	if errors.As(err, &fromSQLite) {
		switch fromSQLite.Code() & 0xff {
		case sqlite3.SQLITE_CONSTRAINT, sqlite3.SQLITE_TOOBIG, sqlite3.SQLITE_MISMATCH:
			return true
		}
	}
	return false
}
