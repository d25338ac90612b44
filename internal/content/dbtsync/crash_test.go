package dbtsync

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/go-git/go-git/v5/plumbing/object"

	"github.com/quoin-dev/quoin/internal/audit"
	"github.com/quoin-dev/quoin/internal/content"
	"github.com/quoin-dev/quoin/internal/content/contenttest"
	"github.com/quoin-dev/quoin/internal/content/repository"
	"github.com/quoin-dev/quoin/internal/store"
	"github.com/quoin-dev/quoin/internal/store/storetest"
)

// childURL makes the test binary a process that works on a sync, and stops at a point.
const childURL = "QUOIN_DBTSYNC_CHILD_URL"

func TestMain(m *testing.M) {
	storetest.Main(m, map[string]func(argument string) error{childURL: workAndStop})
}

// recordRow stores an event as a row, which a child process leaves behind.
func recordRow(ctx context.Context, tx *store.Tx, e audit.Event) error {
	e.Account, e.Source, e.Actor = "demo", audit.SourceREST, audit.Actor{Kind: audit.ActorKey, ID: "k1"}
	return audit.RecordTx(ctx, tx, e)
}

// workOn works on one sync. It has a point before each time that it stores its progress, and those of the
// transaction that ends it. It returns the number of points.
func (w *world) workOn(stop int) (int, error) {
	d := &contenttest.Stepping{Database: w.store, Stop: stop}
	worker := w.worker()
	worker.Record = recordRow
	worker.Repositories = &repository.Repositories{DB: d, Record: recordRow, Now: w.syncs.Now}
	worker.interrupt = func(string) error { d.Point(); return nil }
	worker.Moved = func(context.Context, content.Scope) error { d.Point(); return nil }
	found, err := worker.Step(context.Background())
	if err == nil && !found {
		err = fmt.Errorf("there is no sync")
	}
	return d.Points, err
}

func workAndStop(argument string) error {
	stop, values, err := contenttest.ParseArguments(argument)
	if err != nil {
		return err
	}
	s, err := store.Open(context.Background(), values[0], nil, audit.Owner, repository.Owner, Owner)
	if err != nil {
		return err
	}
	w := newWorld(nil, s)
	w.clock = w.clock.Add(time.Second) // after the start
	_, err = w.workOn(stop)
	return err
}

// TestSyncIsKilled kills the process at each point of a sync to a branch: the branch is the old or the
// new one. When the lease has expired, another worker completes the sync, unless it was complete: then
// there is one commit and one event.
func TestSyncIsKilled(t *testing.T) {
	storetest.ForEach(t, func(t *testing.T, newDatabase func(testing.TB) string) {
		w := openWorld(t, newDatabase(t))
		w.start(toBranch("review", "orders", "customers"))
		points, err := w.workOn(0)
		if err != nil || points < 6 {
			t.Fatalf("%d points, %v", points, err)
		}
		for point := 1; point <= points; point++ {
			t.Run(fmt.Sprint(point), func(t *testing.T) { testSyncKilled(t, newDatabase(t), point) })
		}
	})
}

func testSyncKilled(t *testing.T, url string, point int) {
	w := openWorld(t, url)
	w.commit("review", map[string]string{"old": "old"})
	before, s := w.head("review"), w.start(toBranch("review", "orders", "customers"))
	w.must(w.store.Close())
	storetest.KillChild(t, childURL, contenttest.Arguments(point, url), func(line string) bool { return line == contenttest.Stopped })

	reopened, err := store.Open(t.Context(), url, nil, audit.Owner, repository.Owner, Owner)
	w.must(err)
	t.Cleanup(func() { _ = reopened.Close() })
	w = newWorld(t, reopened)
	w.clock = w.clock.Add(2 * time.Second)
	ended := w.get(s.ID).Status == Completed
	if moved := w.head("review") != before; moved != ended {
		t.Fatalf("the sync has ended: %t; the branch has moved: %t", ended, moved)
	}
	w.clock = w.clock.Add(2 * lease)
	if !ended {
		if _, err := w.workOn(0); err != nil {
			t.Fatal(err)
		}
	}
	if found, err := w.worker().Step(t.Context()); found || err != nil {
		t.Errorf("there is another sync: %v", err)
	}
	if s = w.get(s.ID); s.Status != Completed || len(s.Phases) != 3 || w.filesOf("review") != "model/cubes/dbt/customers.yml model/cubes/dbt/orders.yml old" {
		t.Errorf("%+v; the branch has %q", s, w.filesOf("review"))
	}
	commit, err := object.GetCommit(w.repositories.Session(t.Context(), demo), w.head("review"))
	w.must(err)
	if len(commit.ParentHashes) != 1 || commit.ParentHashes[0] != before {
		t.Errorf("the commit is on %v, want %s", commit.ParentHashes, before)
	}
	var events int
	w.must(w.store.Reader().QueryRowContext(t.Context(), "SELECT COUNT(*) FROM audit_event").Scan(&events))
	if events != 1 {
		t.Errorf("%d events", events)
	}
}
