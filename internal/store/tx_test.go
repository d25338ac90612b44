package store

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgconn"

	"github.com/quoin-dev/quoin/internal/store/postgrestest"
)

func testRetries(t *testing.T, fresh string) {
	s := mustOpen(t, fresh)
	collision := &pgconn.PgError{Code: "40001"}
	tries := 0
	err := s.Tx(t.Context(), func(*Tx) error {
		if tries++; tries < 3 {
			return fmt.Errorf("wrapped: %w", collision)
		}
		return nil
	})
	if err != nil || tries != 3 {
		t.Errorf("%d tries, %v", tries, err)
	}
	tries = 0
	err = s.Tx(t.Context(), func(*Tx) error { tries++; return collision })
	if !errors.Is(err, ErrUnavailable) || tries != maxTries {
		t.Errorf("%d tries, %v", tries, err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	tries = 0
	err = s.Tx(ctx, func(*Tx) error { tries++; cancel(); return collision })
	if !errors.Is(err, collision) || tries != 1 {
		t.Errorf("%d tries, %v", tries, err)
	}
}

// testWaitsForDisk checks that a commit waits for the disk, unless the transaction does not need it; that one
// does not affect the next one on the same connection.
func testWaitsForDisk(t *testing.T, fresh string) {
	s := mustOpen(t, fresh)
	s.write.SetMaxOpenConns(1)
	query, on, off := "SELECT current_setting('synchronous_commit')", "on", "off"
	if s.dialect == SQLite {
		query, on, off = "PRAGMA synchronous", "2", "1"
	}
	for i, want := range []string{on, off, off, on, on, off, on} {
		transact := s.Tx
		if want == off {
			transact = s.TxAsync
		}
		err := transact(t.Context(), func(tx *Tx) error {
			if err := tx.LockAccount(t.Context(), Account{UID: "a", Name: "a"}); err != nil {
				return err
			}
			var got string
			if err := tx.QueryRowContext(t.Context(), query).Scan(&got); err != nil || got != want {
				t.Errorf("transaction %d: %q, %v, want %q", i, got, err, want)
			}
			return nil
		})
		if err != nil {
			t.Error(err)
		}
	}
}

// TestPostgreSQLDeadlockIsRetried makes two transactions lock two rows in opposite orders.
func TestPostgreSQLDeadlockIsRetried(t *testing.T) {
	s := mustOpen(t, postgrestest.Start(t), owner("CREATE TABLE a (b INTEGER PRIMARY KEY, c INTEGER); INSERT INTO a VALUES (1, 0), (2, 0)"))
	var first, all sync.WaitGroup
	first.Add(2)
	for i := range 2 {
		all.Go(func() {
			tries := 0
			err := s.Tx(t.Context(), func(tx *Tx) error {
				tries++
				for j := range 2 {
					if _, err := tx.ExecContext(t.Context(), "UPDATE a SET c = c + 1 WHERE b = $1", (i+j)%2+1); err != nil {
						return err
					}
					if tries == 1 && j == 0 {
						first.Done()
						first.Wait()
					}
				}
				return nil
			})
			if err != nil {
				t.Error(err)
			}
		})
	}
	all.Wait()
	if n := number(t, s, "SELECT SUM(c) FROM a"); n != 4 {
		t.Errorf("%d updates are committed, want 4", n)
	}
}

func TestPostgreSQLThatIsKilledIsUnavailable(t *testing.T) {
	server := postgrestest.StartServer(t)
	s := mustOpen(t, server.Database(t))
	work := func() error {
		return errors.Join(
			s.Tx(t.Context(), func(tx *Tx) error { return tx.LockAccount(t.Context(), Account{"u1", "demo"}) }),
			s.Read(t.Context(), func(q Querier) error {
				var n int
				return q.QueryRowContext(t.Context(), "SELECT COUNT(*) FROM account").Scan(&n)
			}))
	}
	if err := work(); err != nil {
		t.Fatal(err)
	}
	server.Kill(t)
	for range 3 {
		if err := work(); !errors.Is(err, ErrUnavailable) {
			t.Error(err)
		}
	}
	server.Restart(t)
	for deadline := time.Now().Add(time.Minute); ; time.Sleep(10 * time.Millisecond) {
		err := work()
		if err == nil {
			return
		}
		if time.Now().After(deadline) || !errors.Is(err, ErrUnavailable) {
			t.Fatal(err)
		}
	}
}

// testLock reads and then writes in many transactions at once.
func testLock(t *testing.T, fresh string) {
	s := mustOpen(t, fresh, owner("CREATE TABLE a (account TEXT, n INTEGER)"))
	const callers, each = 8, 10
	var all sync.WaitGroup
	for i := range callers {
		account := Account{UID: fmt.Sprint("u", i%2), Name: "demo"}
		all.Go(func() {
			for range each {
				err := s.Tx(t.Context(), func(tx *Tx) error {
					if err := tx.LockDeployment(t.Context(), account, Deployment{"d" + account.UID, "demo", "sales"}); err != nil {
						return err
					}
					var n int
					if err := tx.QueryRowContext(t.Context(), "SELECT COUNT(*) FROM a WHERE account = $1", account.UID).Scan(&n); err != nil {
						return err
					}
					_, err := tx.ExecContext(t.Context(), "INSERT INTO a VALUES ($1, $2)", account.UID, n)
					return err
				})
				if err != nil {
					t.Error(err)
				}
			}
		})
	}
	all.Wait()
	if n := number(t, s, "SELECT COUNT(*) FROM (SELECT DISTINCT account, n FROM a) AS d"); n != callers*each {
		t.Errorf("%d different rows, want %d", n, callers*each)
	}
	if n := number(t, s, "SELECT COUNT(*) FROM deployment"); n != 2 {
		t.Errorf("%d deployments are recorded, want 2", n)
	}
}

func testNextID(t *testing.T, fresh string) {
	s := mustOpen(t, fresh)
	next := func(uid, sequence string, rollBack bool) (id int64) {
		broken := errors.New("broken")
		err := s.Tx(t.Context(), func(tx *Tx) (err error) {
			if err := tx.LockAccount(t.Context(), Account{uid, "demo"}); err != nil {
				return err
			}
			if id, err = tx.NextID(t.Context(), uid, sequence); err == nil && rollBack {
				return broken
			}
			return err
		})
		if err != nil && !errors.Is(err, broken) {
			t.Fatal(err)
		}
		return id
	}
	got := []int64{
		next("u1", "folder", false), next("u1", "folder", false), next("u2", "folder", false), next("u1", "report", false),
		next("u1", "folder", true), next("u1", "folder", false),
	}
	if want := []int64{1, 2, 1, 1, 3, 3}; !slices.Equal(got, want) {
		t.Errorf("%v, want %v", got, want)
	}
	execute(t, s, "UPDATE account_sequence SET last = $1 WHERE account_uid = 'u2'", int64(MaxID))
	err := s.Tx(t.Context(), func(tx *Tx) error { _, err := tx.NextID(t.Context(), "u2", "folder"); return err })
	if err == nil {
		t.Error("an id is larger than JSON readers can represent")
	}
	if err := s.Tx(t.Context(), func(tx *Tx) error { _, err := tx.NextID(t.Context(), "unknown", "folder"); return err }); err == nil {
		t.Error("an account that is not recorded got an id")
	}
}

func testNeededJobs(t *testing.T, fresh string) {
	d := NewDatabase(fresh, nil)
	ctx, cancel := context.WithCancel(t.Context())
	record, gone := make(chan string), make(chan struct{})
	var recorded []string
	d.WhileUsed(func(ctx context.Context, _ *Store) error {
		defer close(gone)
		for {
			select {
			case text := <-record:
				recorded = append(recorded, text)
			case <-ctx.Done():
				return nil
			}
		}
	})
	d.WhileOpen(func(ctx context.Context, _ *Store) error {
		cancel()
		<-ctx.Done()
		for _, text := range []string{"stopping", "stopped"} {
			select {
			case record <- text:
			case <-gone:
			}
		}
		return nil
	})
	if err := d.Run(ctx); err != nil || !slices.Equal(recorded, []string{"stopping", "stopped"}) {
		t.Errorf("%v, recorded: %q", err, recorded)
	}
	failed := errors.New("failed")
	d = NewDatabase(fresh, nil)
	d.WhileUsed(func(context.Context, *Store) error { return failed })
	d.WhileOpen(func(ctx context.Context, _ *Store) error {
		<-ctx.Done()
		return nil
	})
	if err := d.serve(t.Context()); !errors.Is(err, failed) {
		t.Errorf("a job that others need has failed: %v", err)
	}
}

func testDatabase(t *testing.T, fresh string) {
	d := NewDatabase(fresh, nil, owner("CREATE TABLE a (b INTEGER)"))
	insert := func() error {
		return d.Tx(t.Context(), func(tx *Tx) error {
			_, err := tx.ExecContext(t.Context(), "INSERT INTO a VALUES (1)")
			return err
		})
	}
	if err := insert(); !errors.Is(err, ErrUnavailable) {
		t.Error(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	var ended bool
	d.WhileOpen(func(ctx context.Context, s *Store) error {
		<-ctx.Done()
		ended = s.Ping(context.Background()) == nil
		return nil
	})
	result := make(chan error)
	go func() { result <- d.Run(ctx) }()
	for insert() != nil {
		time.Sleep(time.Millisecond)
	}
	var n int
	err := d.Read(t.Context(), func(q Querier) error { return q.QueryRowContext(t.Context(), "SELECT COUNT(*) FROM a").Scan(&n) })
	if err != nil || n != 1 {
		t.Error(n, err)
	}
	cancel()
	if err := <-result; err != nil || !ended {
		t.Errorf("%v, the job ended before the store was closed: %v", err, ended)
	}
	if err := insert(); !errors.Is(err, ErrUnavailable) {
		t.Error(err)
	}
	_ = mustOpen(t, fresh, owner("CREATE TABLE a (b INTEGER)", "CREATE TABLE c (d INTEGER)")).Close()
	if err := d.Run(t.Context()); !errors.Is(err, ErrNewer) {
		t.Error(err)
	}
}
