package store

import (
	"bytes"
	"context"
	"database/sql"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"testing/fstest"

	"github.com/quoin-dev/quoin/internal/store/postgrestest"
	"github.com/quoin-dev/quoin/internal/store/storetest"
)

// cases run on both databases; fresh is the URL of an empty one.
var cases = []struct {
	name string
	run  func(t *testing.T, fresh string)
}{
	{"opens, answers, opens again", testOpen},
	{"a transaction is committed whole or not at all", testTx},
	{"a panic rolls a transaction back", testPanic},
	{"missing migrations are applied", testMigrate},
	{"a newer schema is rejected", testNewer},
	{"a changed migration is rejected", testChangedMigration},
	{"a failed migration changes nothing", testBrokenMigration},
	{"owners migrate independently", testOwners},
	{"invalid owners are rejected", testInvalidOwners},
	{"a database of the first release is upgraded", testFirstRelease},
	{"rejected rows are distinguished from other failures", testRefused},
	{"a cancelled context", testCancelled},
	{"transactions that collide are retried", testRetries},
	{"transactions on one account are serialized", testLock},
	{"a commit waits for the disk if it has to", testWaitsForDisk},
	{"a batch of statements", testBatch},
	{"a statement alone in a transaction", testAlone},
	{"ids are never reused", testNextID},
	{"pages in both directions and orders", testPages},
	{"pages of a list that changes", testChangingList},
	{"a purge deletes only content of absent objects", testPurge},
	{"a purge waits for the delay", testPurgeDelay},
	{"a purge that failed half-way continues", testPurgeContinues},
	{"a purge keeps the record while rows are left", testPurgeKeepsRecord},
	{"a database opens in the background", testDatabase},
	{"a job that others need ends after them", testNeededJobs},
}

func TestDatabases(t *testing.T) {
	storetest.ForEach(t, func(t *testing.T, newDatabase func(testing.TB) string) {
		for _, c := range cases {
			t.Run(c.name, func(t *testing.T) { c.run(t, newDatabase(t)) })
		}
	})
}

func TestPostgreSQL(t *testing.T) {
	server := postgrestest.StartServer(t)
	t.Run("replicas start at the same time", func(t *testing.T) { testReplicas(t, server.Database(t)) })
	t.Run("the database must be UTF-8", func(t *testing.T) { testEncoding(t, server.Database(t)) })
	t.Run("commits wait for the disk", func(t *testing.T) { testSynchronousCommit(t, server.Database(t)) })
	t.Run("the password is never shown", func(t *testing.T) { testPassword(t, server) })
}

// owner returns the owner "test" with migrations of these texts.
func owner(texts ...string) Owner { return ownerNamed("test", texts...) }

func ownerNamed(name string, texts ...string) Owner {
	folder := fstest.MapFS{}
	for i, text := range texts {
		folder[fmt.Sprintf("migrations/%04d_step.sql", i+1)] = &fstest.MapFile{Data: []byte(text)}
	}
	return Owner{Name: name, Migrations: folder}
}

func mustOpen(t testing.TB, url string, owners ...Owner) *Store {
	t.Helper()
	s, err := Open(t.Context(), url, nil, owners...)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = s.Close() })
	return s
}

func execute(t testing.TB, s *Store, statement string, args ...any) {
	t.Helper()
	err := s.Tx(t.Context(), func(tx *Tx) error {
		_, err := tx.ExecContext(t.Context(), statement, args...)
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
}

func number(t testing.TB, s *Store, query string, args ...any) (n int) {
	t.Helper()
	if err := s.Reader().QueryRowContext(t.Context(), query, args...).Scan(&n); err != nil {
		t.Fatal(err)
	}
	return n
}

func testOpen(t *testing.T, fresh string) {
	for range 2 {
		s, err := Open(t.Context(), fresh, nil, owner("CREATE TABLE a (b INTEGER)"))
		if err != nil {
			t.Fatal(err)
		}
		if err := s.Ping(t.Context()); err != nil {
			t.Error(err)
		}
		if n := number(t, s, "SELECT MAX(version_id) FROM migration_test"); n != 1 {
			t.Errorf("the last migration is %d, want 1", n)
		}
		if s.Replicated() != (s.Dialect() == PostgreSQL) {
			t.Error("Replicated is wrong")
		}
		reader := s.NewReader(map[string]string{"enable_sort": "off"})
		if err := reader.PingContext(t.Context()); err != nil {
			t.Error(err)
		}
		if err := s.Close(); err != nil {
			t.Error(err)
		}
		if s.Ping(t.Context()) == nil || reader.PingContext(t.Context()) == nil {
			t.Error("it answers although it is closed")
		}
	}
}

func testTx(t *testing.T, fresh string) {
	s := mustOpen(t, fresh, owner("CREATE TABLE a (b INTEGER)"))
	broken := errors.New("broken")
	committed := 0
	err := s.Tx(t.Context(), func(tx *Tx) error {
		tx.AfterCommit(func() { committed++ })
		if _, err := tx.ExecContext(t.Context(), "INSERT INTO a VALUES (1)"); err != nil {
			return err
		}
		return broken
	})
	if !errors.Is(err, broken) || errors.Is(err, ErrUnavailable) || number(t, s, "SELECT COUNT(*) FROM a") != 0 || committed != 0 {
		t.Errorf("%v, or the row is there", err)
	}
	execute(t, s, "INSERT INTO a VALUES ($1)", 7)
	if number(t, s, "SELECT b FROM a") != 7 {
		t.Error("a committed row is not read")
	}
	if err := s.Tx(t.Context(), func(tx *Tx) error { tx.AfterCommit(func() { committed++ }); return nil }); err != nil || committed != 1 {
		t.Error(committed, err)
	}
}

func testPanic(t *testing.T, fresh string) {
	s := mustOpen(t, fresh, owner("CREATE TABLE a (b INTEGER)"))
	func() {
		defer func() { _ = recover() }()
		_ = s.Tx(t.Context(), func(tx *Tx) error {
			_, _ = tx.ExecContext(t.Context(), "INSERT INTO a VALUES (1)")
			panic("broken")
		})
	}()
	execute(t, s, "INSERT INTO a VALUES (2)") // it does not wait for the first one
	if number(t, s, "SELECT SUM(b) FROM a") != 2 {
		t.Error("the transaction was not rolled back")
	}
}

func testMigrate(t *testing.T, fresh string) {
	first, second := "CREATE TABLE a (b INTEGER); INSERT INTO a VALUES (1)", "ALTER TABLE a ADD COLUMN c INTEGER NOT NULL DEFAULT 5; UPDATE a SET b = b + 1"
	old := mustOpen(t, fresh, owner(first))
	if err := old.Close(); err != nil {
		t.Fatal(err)
	}
	for range 2 { // each migration is applied once
		s := mustOpen(t, fresh, owner(first, second))
		if b, c := number(t, s, "SELECT b FROM a"), number(t, s, "SELECT c FROM a"); b != 2 || c != 5 {
			t.Errorf("b is %d, c is %d", b, c)
		}
		if err := s.Close(); err != nil {
			t.Fatal(err)
		}
	}
}

func testNewer(t *testing.T, fresh string) {
	newer := mustOpen(t, fresh, owner("CREATE TABLE a (b INTEGER)", "CREATE TABLE c (d INTEGER)"))
	if err := newer.Close(); err != nil {
		t.Fatal(err)
	}
	if _, err := Open(t.Context(), fresh, nil, owner("CREATE TABLE a (b INTEGER)")); !errors.Is(err, ErrNewer) || !strings.Contains(err.Error(), "0002_step") {
		t.Error(err)
	}
}

// testChangedMigration checks that nothing is applied to a schema with other migrations.
func testChangedMigration(t *testing.T, fresh string) {
	s := mustOpen(t, fresh, owner("CREATE TABLE a (b INTEGER)"))
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	for _, changed := range []Owner{owner("CREATE TABLE a (b TEXT)"), owner("CREATE TABLE a (b TEXT)", "CREATE TABLE c (d INTEGER)")} {
		if _, err := Open(t.Context(), fresh, nil, changed); err == nil || !strings.Contains(err.Error(), "0001_step differs") {
			t.Error(err)
		}
	}
	s = mustOpen(t, fresh, owner("CREATE TABLE a (b INTEGER)"))
	if n := number(t, s, "SELECT MAX(version_id) FROM migration_test"); n != 1 {
		t.Errorf("the last migration is %d", n)
	}
}

func testBrokenMigration(t *testing.T, fresh string) {
	if _, err := Open(t.Context(), fresh, nil, owner("CREATE TABLE a (b INTEGER)", "CREATE TABLE c (d INTEGER); SELECT * FROM missing")); err == nil || !strings.Contains(err.Error(), "0002_step") {
		t.Fatal(err)
	}
	s := mustOpen(t, fresh, owner("CREATE TABLE a (b INTEGER)"))
	if n := number(t, s, "SELECT MAX(version_id) FROM migration_test"); n != 1 {
		t.Errorf("the last migration is %d", n)
	}
}

func testRefused(t *testing.T, fresh string) {
	s := mustOpen(t, fresh, owner("CREATE TABLE a (b INTEGER PRIMARY KEY CHECK (b < 10))"))
	for statement, want := range map[string]bool{
		"INSERT INTO a VALUES (10)":      true,
		"INSERT INTO a VALUES (1), (1)":  true,
		"INSERT INTO missing VALUES (1)": false,
	} {
		err := s.Tx(t.Context(), func(tx *Tx) error {
			_, err := tx.ExecContext(t.Context(), statement)
			return fmt.Errorf("wrapped: %w", err)
		})
		if s.Dialect().Refused(err) != want {
			t.Errorf("%s: %v, rejected %v", statement, err, !want)
		}
	}
	if s.Dialect().Refused(context.Canceled) {
		t.Error("a cancelled context is not a rejection")
	}
}

func testCancelled(t *testing.T, fresh string) {
	s := mustOpen(t, fresh)
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if err := s.Ping(ctx); !errors.Is(err, context.Canceled) {
		t.Error(err)
	}
	if err := s.Tx(ctx, func(*Tx) error { return nil }); !errors.Is(err, context.Canceled) {
		t.Error(err)
	}
	if _, err := Open(ctx, fresh, nil); err == nil {
		t.Error("opened")
	}
}

func testReplicas(t *testing.T, fresh string) {
	var all sync.WaitGroup
	for range 8 {
		all.Go(func() {
			s, err := Open(t.Context(), fresh, nil, owner("CREATE TABLE a (b INTEGER)"), ownerNamed("other", "CREATE TABLE c (d INTEGER)"))
			if err != nil {
				t.Error(err)
				return
			}
			if err := s.Close(); err != nil {
				t.Error(err)
			}
		})
	}
	all.Wait()
	if n := number(t, mustOpen(t, fresh), "SELECT COUNT(*) FROM migration_hash"); n != 3 {
		t.Errorf("%d migrations are recorded, want 3", n)
	}
}

func testEncoding(t *testing.T, fresh string) {
	s := mustOpen(t, fresh)
	if _, err := s.write.ExecContext(t.Context(), "CREATE DATABASE latin ENCODING 'LATIN1' LOCALE 'C' TEMPLATE template0"); err != nil {
		t.Fatal(err)
	}
	before, query, _ := strings.Cut(fresh, "?")
	if _, err := Open(t.Context(), before[:strings.LastIndex(before, "/")]+"/latin?"+query, nil); err == nil || !strings.Contains(err.Error(), "LATIN1, must be UTF8") {
		t.Error(err)
	}
}

func testSynchronousCommit(t *testing.T, fresh string) {
	setting := func(s *Store) (value string) {
		if err := s.write.QueryRowContext(t.Context(), "SHOW synchronous_commit").Scan(&value); err != nil {
			t.Fatal(err)
		}
		return value
	}
	for given, want := range map[string]string{"off": "on", "local": "local", "remote_apply": "remote_apply"} {
		if got := setting(mustOpen(t, fresh+"&options=-csynchronous_commit%3D"+given)); got != want {
			t.Errorf("synchronous_commit is %s, became %s, want %s", given, got, want)
		}
	}
}

// testPassword looks for the password in the errors and log lines that wrong URLs cause.
func testPassword(t *testing.T, server *postgrestest.Server) {
	const password = "hunter2secret"
	for _, url := range []string{
		"postgres://quoin:" + password + "@127.0.0.1:1/quoin", "postgres://quoin:" + password + "@/quoin?host=" + server.Folder() + "/missing",
		"postgres://quoin:" + password + "@/missing?host=" + server.Folder(), "postgres://nobody:" + password + "@/test1?host=" + server.Folder(),
		"postgres://quoin:pa#" + password + "@host/quoin", "postgres://quoin:pa/" + password + "@host/quoin", "postgres://quoin:%zz" + password + "@host/quoin",
		"postgres://quoin:pa?" + password + "@host:x/quoin", "postgres://host/quoin?password=" + password + "&sslmode=wrong", "postgres://[" + password, "postgres:" + password,
		"mysql://quoin:" + password + "@host/quoin", "sqlite://quoin:" + password + "@host/quoin", "sqlite:///x?password=" + password, password, "postgresql://host:" + password + "/x",
	} {
		var logs bytes.Buffer
		_, err := Open(t.Context(), url, slog.New(slog.NewTextHandler(&logs, nil)))
		if err == nil || strings.Contains(err.Error(), password) || strings.Contains(logs.String(), password) {
			t.Errorf("%s: %v %s", url, err, logs.String())
		}
	}
}

func TestWrongURLs(t *testing.T) {
	for _, url := range []string{"", "/var/lib/content.db", "sqlite:content.db", "sqlite://content.db", "sqlite:///", "sqlite:///folder/", "sqlite:///x?mode=ro", "sqlite:///x#y", "file:///x"} {
		if _, err := Open(t.Context(), url, nil); err == nil || !strings.Contains(err.Error(), "sqlite:///") {
			t.Errorf("%q: %v", url, err)
		}
	}
}

func TestSQLiteFilesArePrivate(t *testing.T) {
	url := storetest.SQLiteURL(t)
	file := strings.TrimPrefix(url, "sqlite://")
	for range 2 {
		s := mustOpen(t, url)
		execute(t, s, "CREATE TABLE IF NOT EXISTS a (b INTEGER)")
		for name, want := range map[string]fs.FileMode{filepath.Dir(file): fs.ModeDir | 0o700, file: 0o600, file + "-wal": 0o600, file + "-shm": 0o600, file + ".lock": 0o600} {
			if info, err := os.Stat(name); err != nil || info.Mode() != want {
				t.Errorf("%s: %v %v, want %v", name, info.Mode(), err, want)
			}
		}
		if err := s.Close(); err != nil {
			t.Fatal(err)
		}
		if err := os.Chmod(file, 0o664); err != nil { // as a volume with a group does
			t.Fatal(err)
		}
	}
}

func TestSQLiteIsDurable(t *testing.T) {
	s := mustOpen(t, storetest.SQLiteURL(t))
	for _, pool := range []*sql.DB{s.read, s.write} {
		for pragma, want := range map[string]string{"journal_mode": "wal", "synchronous": "2", "foreign_keys": "1", "busy_timeout": "2000"} {
			var got string
			if err := pool.QueryRowContext(t.Context(), "PRAGMA "+pragma).Scan(&got); err != nil || got != want {
				t.Errorf("%s is %s, want %s, %v", pragma, got, want, err)
			}
		}
	}
	if _, err := s.Reader().ExecContext(t.Context(), "CREATE TABLE a (b INTEGER)"); err == nil {
		t.Error("a reader can write")
	}
}

func TestSQLitePathWithSpecialCharacters(t *testing.T) {
	file := filepath.Join(t.TempDir(), "a b%20é", "con#tent'.db")
	s := mustOpen(t, "sqlite://"+strings.NewReplacer("%", "%25", "#", "%23", " ", "%20").Replace(file))
	if _, err := os.Stat(file); err != nil {
		t.Error(err)
	}
	if err := s.Ping(t.Context()); err != nil {
		t.Error(err)
	}
}

func TestNotADatabase(t *testing.T) {
	file := filepath.Join(t.TempDir(), "text")
	if err := os.WriteFile(file, []byte(strings.Repeat("no database ", 1000)), 0o600); err != nil {
		t.Fatal(err)
	}
	for range 2 { // the lock is released
		if _, err := Open(t.Context(), "sqlite://"+file, nil); err == nil || errors.Is(err, ErrInUse) {
			t.Error(err)
		}
	}
}

// childURL makes the test binary a process that opens a database and keeps it open.
const childURL = "QUOIN_STORE_CHILD_URL"

func TestMain(m *testing.M) {
	storetest.Main(m, map[string]func(url string) error{childURL: keepOpen})
}

func keepOpen(url string) error {
	if _, err := Open(context.Background(), url, nil); err != nil {
		return err
	}
	fmt.Println("open")
	select {}
}

func TestTwoProcessesOnOneSQLiteFile(t *testing.T) {
	url := storetest.SQLiteURL(t)
	storetest.KillChild(t, childURL, url, func(string) bool {
		if _, err := Open(t.Context(), url, nil); !errors.Is(err, ErrInUse) || !strings.Contains(err.Error(), "use PostgreSQL") {
			t.Error(err)
		}
		return true
	})
	// The lock ends with the process.
	if err := mustOpen(t, url).Ping(t.Context()); err != nil {
		t.Error(err)
	}
}
