package folder

import (
	"bufio"
	"context"
	"fmt"
	"log/slog"
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"k8s.io/utils/clock"

	"github.com/quoin-dev/quoin/internal/audit"
	"github.com/quoin-dev/quoin/internal/store"
	"github.com/quoin-dev/quoin/internal/store/postgrestest"
)

// childURL makes the test binary a process that purges the account a2, and reports each transaction
// on standard output.
const childURL = "QUOIN_FOLDER_CHILD_URL"

func TestMain(m *testing.M) {
	if url := os.Getenv(childURL); url != "" {
		if err := purgeSlowly(url); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		os.Exit(0)
	}
	os.Exit(m.Run())
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
	for name, url := range map[string]string{"SQLite": "sqlite://" + filepath.Join(t.TempDir(), "content.db"), "PostgreSQL": postgrestest.Start(t)} {
		t.Run(name, func(t *testing.T) {
			const rows = 500
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
			if n := w.count("folder") - 1; n == 0 || n == rows || w.count("account") != 2 {
				t.Fatalf("%d of %d folders and %d accounts are left: the purge was not killed half-way", n, rows, w.count("account"))
			}
			if err := newPurger(w.store).Scan(t.Context()); err != nil {
				t.Error(err)
			}
			if got := w.names(demo, Root); got != "kept" || w.count("folder") != 1 || w.count("account") != 1 || w.count("account_sequence") != 1 {
				t.Errorf("%q is left, %d folders, %d accounts", got, w.count("folder"), w.count("account"))
			}
		})
	}
}

// killPurge runs the child and kills it after a few transactions.
func killPurge(t *testing.T, url string) {
	t.Helper()
	child := exec.Command(os.Args[0])
	child.Env = append(os.Environ(), childURL+"="+url)
	child.Stderr = os.Stderr
	output, err := child.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := child.Start(); err != nil {
		t.Fatal(err)
	}
	transactions := 0
	for lines := bufio.NewScanner(output); lines.Scan(); {
		if transactions++; transactions == 5 {
			_ = child.Process.Kill()
		}
	}
	if err := child.Wait(); err == nil || transactions < 5 {
		t.Fatalf("the child exited after %d transactions: %v", transactions, err)
	}
}
