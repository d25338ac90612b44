package folder

import (
	"context"
	"database/sql"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	_ "modernc.org/sqlite" // the driver "sqlite"

	"github.com/quoin-dev/quoin/internal/audit"
	"github.com/quoin-dev/quoin/internal/content/contenttest"
	"github.com/quoin-dev/quoin/internal/store/postgrestest"
	"github.com/quoin-dev/quoin/internal/store/storetest"
)

// TestSQLiteBackup copies the file while it is written to, as `sqlite3 quoin.db ".backup …"` does:
// with a transaction of another process.
func TestSQLiteBackup(t *testing.T) {
	file, copied := filepath.Join(t.TempDir(), "quoin.db"), filepath.Join(t.TempDir(), "copy.db")
	testBackup(t, "sqlite://"+file, func() {
		pool, err := sql.Open("sqlite", file)
		if err != nil {
			t.Fatal(err)
		}
		defer func() { _ = pool.Close() }()
		if _, err := pool.ExecContext(t.Context(), "VACUUM INTO $1", copied); err != nil {
			t.Fatal(err)
		}
	}, func() {
		for _, suffix := range []string{"-wal", "-shm"} {
			_ = os.Remove(file + suffix) // it may not exist
		}
		if err := os.Rename(copied, file); err != nil {
			t.Fatal(err)
		}
	})
}

// TestPostgreSQLBackup uses the commands of docs/operations/backup.md.
func TestPostgreSQLBackup(t *testing.T) {
	server := postgrestest.StartServer(t)
	url, dump := server.Database(t), filepath.Join(t.TempDir(), "quoin.dump")
	run := func(program string, args ...string) {
		t.Helper()
		if output, err := exec.Command(server.Program(program), args...).CombinedOutput(); err != nil {
			t.Fatalf("%s: %v\n%s", program, err, output)
		}
	}
	testBackup(t, url, func() { run("pg_dump", "--format=custom", "--file="+dump, url) },
		func() { run("pg_restore", "--clean", "--if-exists", "--no-owner", "--dbname="+url, dump) })
}

// testBackup restores a backup over a database that has changed since.
func testBackup(t *testing.T, url string, back, restore func()) {
	w := openWorld(t, url)
	w.createPath("kept", 2)
	deleted := w.create("deleted before the backup", Root)
	if err := w.folders.Delete(t.Context(), demo, by, deleted.ID); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	writing := make(chan struct{})
	go func() { // in another account, during the backup
		defer close(writing)
		for i := 0; ctx.Err() == nil; i++ {
			_, _ = w.folders.Create(ctx, scope("a2", "d2"), by, New{Name: fmt.Sprint("f", i)})
		}
	}()
	back()
	cancel()
	<-writing
	w.create("made after the backup", Root)
	if err := w.store.Close(); err != nil {
		t.Fatal(err)
	}

	restore()
	w = openWorld(t, url)
	if got := w.names(demo, Root); got != "kept" {
		t.Errorf("the folders are %q", got)
	}
	l := audit.NewLog(w.store, audit.Options{})
	defer l.Close()
	events, err := l.Query(t.Context(), audit.Filter{Account: "demo", Search: "kept"})
	if err != nil {
		t.Fatal(err)
	}
	n := 0
	for range events {
		n++
	}
	if n != 2 {
		t.Errorf("%d events are left, want 2", n)
	}
	// The id of the folder that was deleted before the backup is not issued again.
	if f := w.create("new", Root); f.ID != deleted.ID+1 {
		t.Errorf("the id is %d, want %d", f.ID, deleted.ID+1)
	}
}

// TestContentIsAssignedToARestoredAccount runs the statements of docs/operations/backup.md for
// objects that were restored with other UIDs.
func TestContentIsAssignedToARestoredAccount(t *testing.T) {
	storetest.ForEach(t, func(t *testing.T, newDatabase func(testing.TB) string) {
		w := openWorld(t, newDatabase(t))
		w.createPath("kept", 2)
		contenttest.Exec(w, w.store, "UPDATE account SET uid = 'a1-restored', absent_since = 0 WHERE uid = 'a1'")
		contenttest.Exec(w, w.store, "UPDATE deployment SET uid = 'd1-restored', absent_since = 0 WHERE uid = 'd1'")
		restored := scope("a1-restored", "d1-restored")
		if got := w.names(restored, Root); got != "kept" {
			t.Errorf("the folders are %q", got)
		}
		if path, err := w.folders.Create(t.Context(), restored, by, New{Name: "new"}); err != nil || path[0].ID != 3 {
			t.Errorf("%+v, %v", path, err)
		}
	})
}
