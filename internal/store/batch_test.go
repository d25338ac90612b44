package store

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/quoin-dev/quoin/internal/store/storetest"
)

const numbers = "CREATE TABLE number (name TEXT PRIMARY KEY, value BIGINT NOT NULL)"

func testBatch(t *testing.T, fresh string) {
	s := mustOpen(t, fresh, owner(numbers))
	const insert = "INSERT INTO number (name, value) VALUES ($1, $2) ON CONFLICT DO NOTHING"
	const add = "UPDATE number SET value = value + $2 WHERE name = $1 RETURNING value, name"
	var value, other int64
	var name string
	batch := []*Statement{
		{Query: insert, Args: []any{"a", 1}},
		{Query: insert, Args: []any{"a", 2}},
		{Query: add, Args: []any{"a", 10}, Into: []any{&value, &name}},
		{Query: add, Args: []any{"a", 20}, Into: []any{&value, &name}},
		{Query: add, Args: []any{"b", 10}, Into: []any{&other, &name}},
		{Query: "UPDATE number SET value = value + $1", Args: []any{100}},
	}
	for i, transact := range []func(func(tx *Tx) error) error{
		func(work func(tx *Tx) error) error { return s.Tx(t.Context(), work) },
		func(work func(tx *Tx) error) error { return s.TxAsync(t.Context(), work) },
	} {
		err := transact(func(tx *Tx) error { return tx.Batch(t.Context(), batch...) })
		var rows []int64
		for _, statement := range batch {
			rows = append(rows, statement.Rows)
		}
		inserted := int64(1 - i)
		if want := []int64{inserted, 0, 1, 1, 0, 1}; err != nil || !slices.Equal(rows, want) {
			t.Errorf("%v rows, want %v, %v", rows, want, err)
		}
		if want := int64(31 + i*130); value != want || name != "a" || other != 0 {
			t.Errorf("%d, %q, %d, want %d", value, name, other, want)
		}
	}
	// The first error ends a batch, and the transaction changes nothing.
	err := s.Tx(t.Context(), func(tx *Tx) error {
		return tx.Batch(t.Context(), batch[5], &Statement{Query: "INSERT INTO number (name, value) VALUES ($1, NULL)", Args: []any{"c"}}, batch[5])
	})
	if err == nil || !s.Dialect().Refused(err) {
		t.Errorf("%v, want an error of the second statement", err)
	}
	if err := s.Reader().QueryRowContext(t.Context(), "SELECT value FROM number WHERE name = $1", "a").Scan(&value); err != nil || value != 261 {
		t.Errorf("%d, %v, want 261", value, err)
	}
	// So does the end of the context.
	ctx, cancel := context.WithCancelCause(t.Context())
	cancel(errors.New("another error"))
	if err := s.Tx(t.Context(), func(tx *Tx) error { return tx.Batch(ctx, batch[5]) }); !errors.Is(err, context.Canceled) {
		t.Errorf("a context that has ended: %v", err)
	}
	if err := s.Reader().QueryRowContext(t.Context(), "SELECT value FROM number WHERE name = $1", "a").Scan(&value); err != nil || value != 261 {
		t.Errorf("after the end of the context: %d, %v, want 261", value, err)
	}
}

func testAlone(t *testing.T, fresh string) {
	s := mustOpen(t, fresh, owner(numbers))
	account := Account{UID: "a1", Name: "demo"}
	insert := func(name string) *Statement {
		return &Statement{Query: "INSERT INTO number (name, value) VALUES ($1, 1)", Args: []any{name}}
	}
	if s.Dialect() == SQLite {
		if err := s.TxAsync(t.Context(), func(tx *Tx) error { return tx.Alone(t.Context(), account, insert("a")) }); err == nil {
			t.Error("SQLite has no statement alone, and there is no error")
		}
		return
	}
	refused := errors.New("refused")
	err := s.TxAsync(t.Context(), func(tx *Tx) error {
		err := tx.Alone(t.Context(), account, insert("committed"))
		if err := tx.Alone(t.Context(), account, insert("committed")); !s.Dialect().Refused(err) {
			t.Errorf("%v, want the name to be taken", err)
		}
		if err := tx.Batch(t.Context(), insert("rolled back")); err != nil {
			t.Error(err)
		}
		if err := tx.Alone(t.Context(), account, insert("late")); err == nil {
			t.Error("the transaction has begun, and there is no error")
		}
		return errors.Join(err, refused)
	})
	if !errors.Is(err, refused) {
		t.Error(err)
	}
	if err := s.Tx(t.Context(), func(tx *Tx) error { return tx.Alone(t.Context(), account, insert("without more")) }); err != nil {
		t.Error(err)
	}
	checkNames(t, s, "committed, without more")
	testAloneWaits(t, s, account, insert("waits"))
}

// testAloneWaits: a statement that is alone waits for the transactions of its account, and sees what they changed.
func testAloneWaits(t *testing.T, s *Store, a Account, count *Statement) {
	count.Query = "INSERT INTO number (name, value) SELECT $1, COUNT(*) FROM number"
	lock := func(tx *Tx) error { return tx.LockAccount(t.Context(), a) }
	if err := s.Tx(t.Context(), lock); err != nil { // records it
		t.Fatal(err)
	}
	done := make(chan error, 1)
	err := s.Tx(t.Context(), func(tx *Tx) error {
		if err := lock(tx); err != nil {
			return err
		}
		go func() {
			done <- s.Tx(t.Context(), func(tx *Tx) error { return tx.Alone(t.Context(), a, count) })
		}()
		const waiting = "SELECT COUNT(*) FROM pg_stat_activity WHERE datname = current_database() AND wait_event_type = 'Lock'"
		for deadline := time.Now().Add(time.Minute); number(t, s, waiting) == 0; time.Sleep(time.Millisecond) {
			if time.Now().After(deadline) {
				return errors.New("the statement does not wait for the lock")
			}
		}
		return tx.Batch(t.Context(), &Statement{Query: "INSERT INTO number (name, value) VALUES ('before', 1)"})
	})
	if err != nil {
		t.Fatal(err)
	}
	if err := <-done; err != nil {
		t.Fatal(err)
	}
	if n := number(t, s, "SELECT value FROM number WHERE name = 'waits'"); n != 3 {
		t.Errorf("%d rows were counted, want 3", n)
	}
}

// checkNames checks the names of all numbers.
func checkNames(t *testing.T, s *Store, want string) {
	t.Helper()
	var got string
	if err := s.Reader().QueryRowContext(t.Context(), "SELECT STRING_AGG(name, ', ' ORDER BY name) FROM number").Scan(&got); err != nil || got != want {
		t.Errorf("%s, want %s, %v", got, want, err)
	}
}

// TestSQLiteStatements uses prepared statements again, also while they are in use, after errors, and more of
// them than are kept.
func TestSQLiteStatements(t *testing.T) {
	s := mustOpen(t, storetest.SQLiteURL(t), owner(numbers))
	const insert = "INSERT INTO number (name, value) VALUES ($1, $2)"
	const query = "SELECT value FROM number WHERE value >= $1 ORDER BY value"
	err := s.Tx(t.Context(), func(tx *Tx) error {
		for i := range 3 {
			if _, err := tx.ExecContext(t.Context(), insert, fmt.Sprint(i), i); err != nil {
				return err
			}
			if _, err := tx.ExecContext(t.Context(), insert, fmt.Sprint(i), i); !tx.Dialect().Refused(err) {
				return errors.Join(errors.New("the name is taken"), err)
			}
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	err = s.Tx(t.Context(), func(tx *Tx) error {
		got := ""
		outer, err := tx.QueryContext(t.Context(), query, 0)
		if err != nil {
			return err
		}
		defer func() { _ = outer.Close() }()
		for outer.Next() {
			var value, least int64
			if err := outer.Scan(&value); err != nil {
				return err
			}
			if err := tx.QueryRowContext(t.Context(), query, value).Scan(&least); err != nil {
				return err
			}
			got += fmt.Sprint(value, "=", least, " ")
		}
		if got != "0=0 1=1 2=2 " {
			t.Errorf("%s", got)
		}
		return outer.Err()
	})
	if err != nil {
		t.Fatal(err)
	}
	testKeptStatements(t, s)
}

// testKeptStatements uses more statements than a connection keeps.
func testKeptStatements(t *testing.T, s *Store) {
	for i := range 3 * maxPrepared {
		var n int
		text := fmt.Sprintf("SELECT COUNT(*) + %d FROM number WHERE value > $1", i)
		if i%7 == 0 {
			text += " OR name = '" + strings.Repeat("x", maxPreparedText) + "'"
		}
		for range 2 {
			if err := s.Tx(t.Context(), func(tx *Tx) error { return tx.QueryRowContext(t.Context(), text, 0).Scan(&n) }); err != nil || n != i+2 {
				t.Fatalf("%d, %v, want %d", n, err, i+2)
			}
		}
	}
	conn, err := s.write.Conn(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = conn.Close() }()
	err = conn.Raw(func(c any) error {
		if kept := len(c.(*preparingConn).prepared); kept == 0 || kept > maxPrepared {
			t.Errorf("%d statements are kept, want at most %d", kept, maxPrepared)
		}
		return nil
	})
	if err != nil {
		t.Error(err)
	}
}

// TestSQLiteStatementsWithManyArguments: arguments are bound by their numbers, in any order and more than once, and the work for
// one does not grow with their number.
func TestSQLiteStatementsWithManyArguments(t *testing.T) {
	s := mustOpen(t, storetest.SQLiteURL(t), owner(numbers))
	query := func(n int) float64 {
		args, text := make([]any, n), make([]string, 0, n)
		for i := range args {
			args[i] = i
			text = append(text, fmt.Sprintf("$%d", n-i))
		}
		statement := fmt.Sprintf("SELECT $2 || ',' || $%d || ',' || $2, %d IN (%s)", n, n-1, strings.Join(text, ", "))
		return testing.AllocsPerRun(3, func() {
			var got string
			var found bool
			err := s.Reader().QueryRowContext(t.Context(), statement, args...).Scan(&got, &found)
			if want := fmt.Sprintf("1,%d,1", n-1); err != nil || got != want || !found {
				t.Fatalf("%d arguments: %s, %v, %v, want %s", n, got, found, err, want)
			}
		}) / float64(n)
	}
	if few, many := query(50), query(800); many > 2*few {
		t.Errorf("%.0f allocations for each of 800 arguments, %.0f for each of 50", many, few)
	}
}
