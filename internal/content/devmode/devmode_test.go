package devmode

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/quoin-dev/quoin/internal/content"
	"github.com/quoin-dev/quoin/internal/content/contenttest"
	"github.com/quoin-dev/quoin/internal/store"
	"github.com/quoin-dev/quoin/internal/store/storetest"
)

const ada, bob = "User:ada", "User:bob"

var now = time.Date(2026, 11, 22, 12, 0, 0, 0, time.UTC)

func scope(account, deployment string) content.Scope {
	return content.Scope{Account: store.Account{UID: account, Name: "demo"}, Deployment: store.Deployment{UID: deployment, Namespace: "demo", Name: "sales"}}
}

var sales = scope("a1", "d1")

// world is an open database.
type world struct {
	t     *testing.T
	store *store.Store
}

func TestDatabases(t *testing.T) {
	storetest.ForEach(t, func(t *testing.T, newDatabase func(testing.TB) string) {
		open := func(t *testing.T) *world {
			t.Helper()
			s := contenttest.Open(t, newDatabase(t), Owner)
			return &world{t, s}
		}
		t.Run("each principal has one active branch in a deployment", func(t *testing.T) { testSessions(open(t)) })
		t.Run("a deleted branch leaves its children and users to its parent", func(t *testing.T) { testDelete(open(t)) })
		t.Run("rows of branches that a push has deleted are removed", func(t *testing.T) { testRetain(open(t)) })
		t.Run("sessions are bounded", func(t *testing.T) { testBound(open(t)) })
		t.Run("rows of deleted deployments are purged", func(t *testing.T) { testPurge(open(t)) })
		t.Run("a change that fails changes nothing", func(t *testing.T) { testRollback(open(t)) })
	})
}

// change runs a change in a transaction.
func (w *world) change(s content.Scope, work func(ctx context.Context, tx *store.Tx) error) error {
	w.t.Helper()
	return w.store.Tx(w.t.Context(), func(tx *store.Tx) error {
		if err := tx.LockDeployment(w.t.Context(), s.Account, s.Deployment); err != nil {
			return err
		}
		return work(w.t.Context(), tx)
	})
}

func (w *world) must(err error) {
	w.t.Helper()
	if err != nil {
		w.t.Fatal(err)
	}
}

func (w *world) put(s content.Scope, b Branch) {
	w.t.Helper()
	w.must(w.change(s, func(ctx context.Context, tx *store.Tx) error { return Put(ctx, tx, s, b) }))
}

func (w *world) enter(s content.Scope, principal, branch string) {
	w.t.Helper()
	w.must(w.change(s, func(ctx context.Context, tx *store.Tx) error { return Enter(ctx, tx, s, principal, branch, now) }))
}

// want checks the state of a deployment for a principal.
func (w *world) want(s content.Scope, principal, active string, branches ...Branch) {
	w.t.Helper()
	got, err := (&DevMode{DB: w.store}).State(w.t.Context(), s, principal)
	w.must(err)
	want := State{Active: active, Branches: map[string]Branch{}}
	for _, b := range branches {
		want.Branches[b.Name] = b
	}
	if diff := cmp.Diff(want, got); diff != "" {
		w.t.Errorf("for %s (-want +got):\n%s", principal, diff)
	}
}

func testSessions(w *world) {
	w.want(sales, ada, "")
	other := scope("a2", "d2")
	dev := Branch{Name: "dev-ada", Parent: "main", Owner: ada}
	w.put(sales, dev)
	w.enter(sales, ada, "dev-ada")
	w.enter(other, ada, "next")
	w.want(sales, ada, "dev-ada", dev)
	w.want(sales, bob, "", dev)
	w.want(other, ada, "next")
	w.enter(sales, ada, "next")
	dev.Parent = "next"
	w.put(sales, dev)
	w.want(sales, ada, "next", dev)
	for range 2 { // idempotent
		w.must(w.change(sales, func(ctx context.Context, tx *store.Tx) error { return Leave(ctx, tx, sales, ada) }))
		w.want(sales, ada, "", dev)
	}
	w.want(other, ada, "next")
}

func testDelete(w *world) {
	other := scope("a1", "d2")
	for _, s := range []content.Scope{sales, other} {
		w.put(s, Branch{Name: "next", Parent: "release"})
		w.put(s, Branch{Name: "dev-ada", Parent: "next", Owner: ada})
		w.enter(s, bob, "next")
		w.enter(s, ada, "dev-ada")
	}
	w.must(w.change(sales, func(ctx context.Context, tx *store.Tx) error { return Delete(ctx, tx, sales, "next", "release") }))
	w.want(sales, bob, "", Branch{Name: "dev-ada", Parent: "release", Owner: ada})
	w.want(sales, ada, "dev-ada", Branch{Name: "dev-ada", Parent: "release", Owner: ada})
	w.want(other, bob, "next", Branch{Name: "next", Parent: "release"}, Branch{Name: "dev-ada", Parent: "next", Owner: ada})
}

func testRetain(w *world) {
	w.put(sales, Branch{Name: "next", Parent: "main"})
	w.put(sales, Branch{Name: "dev-ada", Parent: "next", Owner: ada})
	w.enter(sales, bob, "next")
	w.must(w.change(sales, func(ctx context.Context, tx *store.Tx) error {
		return Retain(ctx, tx, sales, []string{"main", "dev-ada"})
	}))
	w.want(sales, bob, "", Branch{Name: "dev-ada", Owner: ada})
}

func testBound(w *world) {
	w.enter(sales, ada, "first")
	w.must(w.change(sales, func(ctx context.Context, tx *store.Tx) error {
		_, err := tx.ExecContext(ctx, `WITH RECURSIVE n (i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < $1)
			INSERT INTO devmode_session SELECT 'a1', 'd1', 'ApiKey:k' || i, 'b', CAST($2 AS BIGINT) + i FROM n`, MaxSessions-1, now.UnixMicro())
		return err
	}))
	w.want(sales, ada, "first")
	w.must(w.change(sales, func(ctx context.Context, tx *store.Tx) error {
		return Enter(ctx, tx, sales, bob, "last", now.Add(time.Hour))
	}))
	w.want(sales, ada, "")
	w.want(sales, bob, "last")
}

func testPurge(w *world) {
	other := scope("a1", "d2")
	for i := range 15 {
		for _, s := range []content.Scope{sales, other} {
			w.put(s, Branch{Name: fmt.Sprint("b", i), Parent: "main"})
			w.enter(s, fmt.Sprint("User:", i), "main")
		}
	}
	for more := true; more; {
		w.must(w.store.Tx(w.t.Context(), func(tx *store.Tx) (err error) {
			more, err = Owner.Purge(w.t.Context(), tx, store.Deleted{AccountUID: "a1", DeploymentUID: "d1"}, 4)
			return err
		}))
	}
	w.want(sales, "User:1", "")
	state, err := (&DevMode{DB: w.store}).State(w.t.Context(), other, "User:1")
	w.must(err)
	if state.Active != "main" || len(state.Branches) != 15 {
		w.t.Errorf("%+v is left of another deployment", state)
	}
}

func testRollback(w *world) {
	w.put(sales, Branch{Name: "next", Parent: "main"})
	w.enter(sales, ada, "next")
	failure := fmt.Errorf("failure")
	err := w.change(sales, func(ctx context.Context, tx *store.Tx) error {
		if err := Delete(ctx, tx, sales, "next", "main"); err != nil {
			return err
		}
		return failure
	})
	if err != failure { //nolint:errorlint // errors of the work are returned as they are
		w.t.Errorf("got %v", err)
	}
	w.want(sales, ada, "next", Branch{Name: "next", Parent: "main"})
}
