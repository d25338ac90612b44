package audit

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/google/uuid"

	"github.com/quoin-dev/quoin/internal/store"
	"github.com/quoin-dev/quoin/internal/store/postgrestest"
	"github.com/quoin-dev/quoin/internal/store/storetest"
)

// childURL makes the test binary a process that records changes and reports them on standard output
// until it is killed.
const childURL = "QUOIN_AUDIT_CHILD_URL"

const (
	childChanges = 10_000
	childCallers = 64
)

func TestMain(m *testing.M) {
	storetest.Main(m, map[string]func(url string) error{childURL: recordChanges, childContentURL: changeContent})
}

func recordChanges(url string) error {
	s, err := store.Open(context.Background(), url, nil, Owner)
	if err != nil {
		return err
	}
	l := NewLog(s, Options{Timeout: longTimeout})
	var all sync.WaitGroup
	var next atomic.Int64
	var failed atomic.Value
	for range childCallers {
		all.Go(func() {
			for next.Add(1) <= childChanges {
				if err := recordChange(context.Background(), l, report); err != nil {
					failed.Store(err)
				}
			}
		})
	}
	all.Wait()
	err, _ = failed.Load().(error)
	return err
}

// recordChange reports each step before it begins and after it is acknowledged.
func recordChange(ctx context.Context, l *Log, report func(step string, id uuid.UUID)) error {
	id := uuid.Must(uuid.NewV7())
	outcome := []Outcome{Succeeded, Failed}[id[15]%2]
	report("begins", id)
	a, err := l.Begin(ctx, Event{ID: id, Account: "demo", Name: CreatedDeployment, Source: SourceREST, Actor: Actor{Kind: ActorKey}})
	if err != nil {
		return err
	}
	report("attempted", id)
	if err := a.End(ctx, outcome, Details{Object: Object{Name: id.String()}}); err != nil {
		return err
	}
	report(string(outcome), id)
	return nil
}

// report writes a line with one call, so that it survives the process.
func report(step string, id uuid.UUID) { _, _ = os.Stdout.WriteString(step + " " + id.String() + "\n") }

// reported has the last step that each change has reported.
type reported map[string]string

func (all reported) count(steps ...string) (n int) {
	for _, last := range all {
		for _, step := range steps {
			if last == step {
				n++
			}
		}
	}
	return n
}

// check compares the reports with the stored events.
func (all reported) check(t *testing.T, w *world) {
	t.Helper()
	rows, err := w.store.Reader().QueryContext(t.Context(), "SELECT id, outcome FROM audit_event")
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = rows.Close() }()
	stored := map[string]string{}
	for rows.Next() {
		var id, outcome string
		if err := rows.Scan(&id, &outcome); err != nil {
			t.Fatal(err)
		}
		stored[id] = outcome
		if all[id] == "" {
			t.Errorf("event %s belongs to no attempt", id)
		}
	}
	if err := rows.Err(); err != nil {
		t.Fatal(err)
	}
	for id, last := range all {
		switch last {
		case "begins":
		case "attempted":
			if stored[id] == "" {
				t.Errorf("the attempt %s was acknowledged and is not stored", id)
			}
		default:
			if stored[id] != last {
				t.Errorf("the change %s was acknowledged as %s, stored is %q", id, last, stored[id])
			}
		}
	}
}

// TestKill kills the recording process three times, on the same database.
func TestKill(t *testing.T) {
	storetest.ForEach(t, func(t *testing.T, newDatabase func(testing.TB) string) {
		url, all := newDatabase(t), reported{}
		for _, after := range []int{1, 300, 2000} {
			ended := 0
			storetest.KillChild(t, childURL, url, func(line string) bool {
				step, id, _ := strings.Cut(line, " ")
				all[id] = step
				if step != "begins" && step != "attempted" {
					ended++
				}
				return ended == after
			})
			w := openWorld(t, url)
			all.check(t, w)
			if err := w.store.Close(); err != nil {
				t.Fatal(err)
			}
		}
		t.Logf("%d changes were acknowledged, %d attempts without outcome, %d had begun", all.count("succeeded", "failed"), all.count("attempted"), all.count("begins"))
	})
}

// recorder records changes in this process until it is stopped.
type recorder struct {
	log         *Log
	mu          sync.Mutex
	all         reported
	ended       atomic.Int64
	unavailable atomic.Int64
	others      atomic.Value
	stop        atomic.Bool
	callers     sync.WaitGroup
}

func startRecorder(t *testing.T, l *Log) *recorder {
	r := &recorder{log: l, all: reported{}}
	for range 16 {
		r.callers.Go(func() {
			for !r.stop.Load() {
				err := recordChange(context.Background(), l, r.report)
				switch {
				case err == nil:
					r.ended.Add(1)
				case errors.Is(err, ErrUnavailable):
					r.unavailable.Add(1)
					time.Sleep(time.Millisecond) // it fails immediately
				default:
					r.others.Store(err)
				}
			}
		})
	}
	t.Cleanup(r.end)
	return r
}

func (r *recorder) end() {
	r.stop.Store(true)
	r.callers.Wait()
}

func (r *recorder) report(step string, id uuid.UUID) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.all[id.String()] = step
}

// more waits until n more changes have been acknowledged.
func (r *recorder) more(t *testing.T, n int64) {
	t.Helper()
	before := r.ended.Load()
	eventually(t, "changes are recorded", func() bool { return r.ended.Load() >= before+n })
}

func (r *recorder) check(t *testing.T, w *world) {
	t.Helper()
	r.end()
	if err := r.others.Load(); err != nil {
		t.Errorf("a caller got %v", err)
	}
	r.all.check(t, w)
	t.Logf("%d changes were acknowledged, %d calls got ErrUnavailable", r.ended.Load(), r.unavailable.Load())
}

func TestPostgreSQLIsKilledAndRestarted(t *testing.T) {
	server := postgrestest.StartServer(t)
	w := openWorld(t, server.Database(t))
	l := w.log(t, Options{})
	r := startRecorder(t, l)
	for range 2 {
		r.more(t, 300)
		server.Kill(t)
		if _, err := l.Begin(t.Context(), at(1)); !errors.Is(err, ErrUnavailable) {
			t.Error("while it is down:", err)
		}
		if _, err := l.Query(t.Context(), Filter{Account: "demo"}); !errors.Is(err, ErrUnavailable) {
			t.Error("a query while it is down:", err)
		}
		if err := w.store.Ping(t.Context()); err == nil {
			t.Error("Ping succeeds while the server is down")
		}
		before := r.unavailable.Load()
		eventually(t, "callers get errors", func() bool { return r.unavailable.Load() >= before+50 })
		server.Restart(t)
	}
	r.more(t, 300)
	r.check(t, w)
	eventually(t, "it answers", func() bool { return w.store.Ping(t.Context()) == nil })
}

// TestFullSQLite forbids the database to grow.
func TestFullSQLite(t *testing.T) {
	w := openWorld(t, "sqlite://"+filepath.Join(t.TempDir(), "content.db"))
	r := startRecorder(t, w.log(t, Options{}))
	r.more(t, 100)
	w.exec(t, "PRAGMA max_page_count = 1") // SQLite raises it to the current number
	checkFull(t, w, r)
	w.exec(t, "PRAGMA max_page_count = 1000000")
	r.more(t, 300)
	r.check(t, w)
}

// TestFullDisk fills a file system that the test has created.
func TestFullDisk(t *testing.T) {
	folder := t.TempDir()
	if err := syscall.Mount("tmpfs", folder, "tmpfs", 0, "size=16m"); err != nil {
		t.Skipf("SKIPPED LOUDLY: a small file system needs root: %v", err)
	}
	t.Cleanup(func() {
		if err := syscall.Unmount(folder, syscall.MNT_DETACH); err != nil {
			t.Error(err)
		}
	})
	w := openWorld(t, "sqlite://"+filepath.Join(folder, "content.db"))
	r := startRecorder(t, w.log(t, Options{}))
	r.more(t, 100)
	filler := filepath.Join(folder, "filler")
	if err := os.WriteFile(filler, make([]byte, 16<<20), 0o600); !errors.Is(err, syscall.ENOSPC) {
		t.Fatal("the disk is not full:", err)
	}
	checkFull(t, w, r)
	if err := os.Remove(filler); err != nil {
		t.Fatal(err)
	}
	r.more(t, 300)
	r.check(t, w)
}

// checkFull waits until callers get errors, and checks that reads still succeed.
func checkFull(t *testing.T, w *world, r *recorder) {
	t.Helper()
	eventually(t, "callers get errors", func() bool { return r.unavailable.Load() >= 50 })
	if err := w.store.Ping(t.Context()); err != nil {
		t.Error(err)
	}
	if got := find(t, r.log, Filter{}); len(got) < 100 {
		t.Errorf("%d events can be read", len(got))
	}
}
