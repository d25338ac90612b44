// Package storetest runs tests on each supported database, and child processes that are killed.
package storetest

import (
	"path/filepath"
	"testing"

	"github.com/quoin-dev/quoin/internal/store/postgrestest"
)

// ForEach runs a test on SQLite and on PostgreSQL. newDatabase returns the URL of an empty database.
func ForEach(t *testing.T, test func(t *testing.T, newDatabase func(testing.TB) string)) {
	t.Helper()
	t.Run("SQLite", func(t *testing.T) { test(t, SQLiteURL) })
	t.Run("PostgreSQL", func(t *testing.T) { test(t, postgrestest.StartServer(t).Database) })
}

// SQLiteURL returns the URL of a database file that does not exist, in a directory that does not
// exist either.
func SQLiteURL(t testing.TB) string {
	return "sqlite://" + filepath.Join(t.TempDir(), "folder", "content.db")
}
