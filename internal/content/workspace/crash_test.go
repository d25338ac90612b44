package workspace

import (
	"context"
	"log/slog"
	"testing"

	"k8s.io/utils/clock"
	"k8s.io/utils/ptr"

	"github.com/quoin-dev/quoin/internal/audit"
	"github.com/quoin-dev/quoin/internal/content"
	"github.com/quoin-dev/quoin/internal/content/contenttest"
	"github.com/quoin-dev/quoin/internal/content/folder"
	"github.com/quoin-dev/quoin/internal/store"
	"github.com/quoin-dev/quoin/internal/store/storetest"
)

// childURL makes the test binary a process that takes the slug of a workbook for a new one, and stops at a point.
const childURL = "QUOIN_WORKSPACE_CHILD_URL"

func TestMain(m *testing.M) {
	storetest.Main(m, map[string]func(argument string) error{childURL: takeSlug})
}

func takeSlug(argument string) error {
	stop, values, err := contenttest.ParseArguments(argument)
	if err != nil {
		return err
	}
	s, err := store.Open(context.Background(), values[0], nil, audit.Owner, folder.Owner, Owner)
	if err != nil {
		return err
	}
	stepping := &contenttest.Stepping{Database: s, Stop: stop}
	record := func(ctx context.Context, tx *store.Tx, e audit.Event) error {
		stepping.Point()
		e.Account, e.Source, e.Actor = "demo", audit.SourceREST, audit.Actor{Kind: audit.ActorKey, ID: "k1"}
		return audit.RecordTx(ctx, tx, e)
	}
	w := &Workspace{DB: stepping, Record: record}
	_, err = w.Create(context.Background(), demo, bob, Change{Name: ptr.To("second"), Slug: ptr.To("sales"), Takeover: true})
	return err
}

// TestChangesAreKilled kills the process at each point of a change of two workbooks: before each of its events, before the
// commit, and after it. All of it is stored, or nothing.
func TestChangesAreKilled(t *testing.T) {
	storetest.ForEach(t, func(t *testing.T, newDatabase func(testing.TB) string) {
		const points, committed = 4, 4
		for stop := 1; stop <= points; stop++ {
			url := newDatabase(t)
			w := openWorld(t, url)
			first, err := w.content.Create(w.Context(), demo, ada, Change{Name: ptr.To("first"), Slug: ptr.To("sales")})
			if err != nil {
				t.Fatal(err)
			}
			if err := w.store.Close(); err != nil {
				t.Fatal(err)
			}
			storetest.KillChild(t, childURL, contenttest.Arguments(stop, url), func(line string) bool { return line == contenttest.Stopped })
			w = openWorld(t, url)
			wantWorkbooks, wantEvents, wantSlug := 1, 1, "sales"
			if stop >= committed {
				wantWorkbooks, wantEvents, wantSlug = 2, 3, ""
			}
			got, err := w.content.Workbook(t.Context(), demo, first.ID)
			if n := contenttest.Count(w, w.store, "workbook"); n != wantWorkbooks || err != nil || got.Slug != wantSlug || len(w.events()) != wantEvents {
				t.Errorf("killed at point %d: %d workbooks, %+v, %v, events %q", stop, n, got, err, w.events())
			}
			// The next change succeeds, and no id is issued twice.
			if next, err := w.content.Upsert(t.Context(), demo, ada, "sales", Change{}); err != nil || stop < committed && next.ID != first.ID {
				t.Errorf("%+v, %v", next, err)
			}
		}
	})
}

// purgedCluster has no deployment d2 and no account a2.
type purgedCluster struct{}

func (purgedCluster) AccountExists(_ context.Context, a store.Account) (bool, error) {
	return a.UID != "a2", nil
}

func (purgedCluster) DeploymentExists(_ context.Context, d store.Deployment) (bool, error) {
	return d.UID != "d2", nil
}

func testPurge(w *world) {
	for _, s := range []content.Scope{demo, scope("a1", "d2"), scope("a2", "d3")} {
		for range 3 {
			if _, err := w.content.Create(w.Context(), s, ada, Change{}); err != nil {
				w.Fatal(err)
			}
		}
	}
	purger := &store.Purger{Store: w.store, Cluster: purgedCluster{}, Clock: clock.RealClock{}, Log: slog.New(slog.DiscardHandler)}
	if err := purger.Scan(w.Context()); err != nil {
		w.Error(err)
	}
	list, err := w.content.Workbooks(w.Context(), demo, nil, store.PageRequest{Limit: 10})
	if err != nil || list.Total != 3 || contenttest.Count(w, w.store, "workbook") != 3 || contenttest.Count(w, w.store, "deployment") != 1 {
		w.Errorf("%d workbooks are left, %v", contenttest.Count(w, w.store, "workbook"), err)
	}
}
