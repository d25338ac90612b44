// Package contenttest has what the tests of the resources of the content store share.
package contenttest

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/quoin-dev/quoin/internal/content"
	"github.com/quoin-dev/quoin/internal/content/managed"
	"github.com/quoin-dev/quoin/internal/store"
)

// Rejects checks the reason of an error and a part of its message.
func Rejects(t testing.TB, err error, reason content.Reason, part string) {
	t.Helper()
	var rejected *content.Error
	if !errors.As(err, &rejected) || rejected.Reason != reason || !strings.Contains(rejected.Message, part) {
		t.Errorf("got %v, want %s with %q", err, reason, part)
	}
}

// Owners returns the owners of a database that Open opens: with that of managed content, which each change of folders and workbooks reads.
func Owners(owners []store.Owner) []store.Owner {
	isManaged := func(o store.Owner) bool { return o.Name == managed.Owner.Name }
	if slices.ContainsFunc(owners, isManaged) {
		return owners
	}
	return append(slices.Clone(owners), managed.Owner)
}

// Open opens a database, which is closed at the end of the test.
func Open(t testing.TB, url string, owners ...store.Owner) *store.Store {
	t.Helper()
	s, err := store.Open(t.Context(), url, nil, Owners(owners)...)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = s.Close() })
	return s
}

// Count returns the number of rows of a table.
func Count(t testing.TB, s *store.Store, table string) (n int) {
	t.Helper()
	if err := s.Reader().QueryRowContext(t.Context(), "SELECT COUNT(*) FROM "+table).Scan(&n); err != nil {
		t.Fatal(err)
	}
	return n
}

// Plan returns the lines of the plan of a query.
func Plan(t testing.TB, s *store.Store, query string, args ...any) (plan string) {
	t.Helper()
	explain := "EXPLAIN QUERY PLAN "
	if s.Dialect() == store.PostgreSQL {
		explain = "EXPLAIN "
	}
	rows, err := s.Reader().QueryContext(t.Context(), explain+query, args...)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = rows.Close() }()
	for rows.Next() {
		columns, _ := rows.Columns()
		values := make([]any, len(columns))
		for i := range values {
			values[i] = new(any)
		}
		if err := rows.Scan(values...); err != nil {
			t.Fatal(err)
		}
		plan += fmt.Sprintln(*values[len(values)-1].(*any))
	}
	if err := rows.Err(); err != nil {
		t.Fatal(err)
	}
	return plan
}

// Exec runs a statement in a transaction.
func Exec(t testing.TB, s *store.Store, statement string, args ...any) {
	t.Helper()
	err := s.Tx(t.Context(), func(tx *store.Tx) error {
		_, err := tx.ExecContext(t.Context(), statement, args...)
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
}
