package folder

import (
	"context"
	"fmt"
	"log/slog"
	"testing"

	"k8s.io/utils/clock"

	"github.com/quoin-dev/quoin/internal/audit"
	"github.com/quoin-dev/quoin/internal/content/contenttest"
	"github.com/quoin-dev/quoin/internal/store"
	"github.com/quoin-dev/quoin/internal/store/storetest"
)

// childURL makes the test binary a process that purges the account a2, and reports each transaction
// on standard output.
const childURL = "QUOIN_FOLDER_CHILD_URL"

func TestMain(m *testing.M) {
	storetest.Main(m, map[string]func(url string) error{childURL: purgeSlowly})
}

func purgeSlowly(url string) error {
	ctx := context.Background()
	slow := Owner
	slow.Purge = func(ctx context.Context, tx *store.Tx, of store.Deleted, _ int) (bool, error) {
		tx.AfterCommit(func() { fmt.Println("purged") })
		return Owner.Purge(ctx, tx, of, 10)
	}
	s, err := store.Open(ctx, url, nil, audit.Owner, slow)
	if err != nil {
		return err
	}
	return newPurger(s).Scan(ctx)
}

func newPurger(s *store.Store) *store.Purger {
	return &store.Purger{Store: s, Cluster: purgedCluster{}, Clock: clock.RealClock{}, Log: slog.New(slog.DiscardHandler)}
}

func TestPurgeIsKilled(t *testing.T) {
	storetest.ForEach(t, func(t *testing.T, newDatabase func(testing.TB) string) {
		const rows = 500
		url := newDatabase(t)
		w := openWorld(t, url)
		w.create("kept", Root)
		for i := range rows {
			if _, err := w.folders.Create(t.Context(), scope("a2", "d3"), by, New{Name: fmt.Sprint("f", i)}); err != nil {
				t.Fatal(err)
			}
		}
		if err := w.store.Close(); err != nil {
			t.Fatal(err)
		}
		for range 2 {
			killPurge(t, url)
		}
		w = openWorld(t, url)
		if n := contenttest.Count(w, w.store, "folder") - 1; n == 0 || n == rows || contenttest.Count(w, w.store, "account") != 2 {
			t.Fatalf("%d of %d folders and %d accounts are left: the purge was not killed half-way", n, rows, contenttest.Count(w, w.store, "account"))
		}
		if err := newPurger(w.store).Scan(t.Context()); err != nil {
			t.Error(err)
		}
		if got := w.names(demo, Root); got != "kept" || contenttest.Count(w, w.store, "folder") != 1 || contenttest.Count(w, w.store, "account") != 1 || contenttest.Count(w, w.store, "account_sequence") != 1 {
			t.Errorf("%q is left, %d folders, %d accounts", got, contenttest.Count(w, w.store, "folder"), contenttest.Count(w, w.store, "account"))
		}
	})
}

// killPurge runs the child and kills it after a few transactions.
func killPurge(t *testing.T, url string) {
	t.Helper()
	transactions := 0
	storetest.KillChild(t, childURL, url, func(string) bool {
		transactions++
		return transactions == 5
	})
}
