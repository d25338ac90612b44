package workspace

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
	"k8s.io/utils/clock"
	"k8s.io/utils/ptr"

	"github.com/quoin-dev/quoin/internal/audit"
	"github.com/quoin-dev/quoin/internal/content"
	"github.com/quoin-dev/quoin/internal/content/contenttest"
	"github.com/quoin-dev/quoin/internal/content/folder"
	"github.com/quoin-dev/quoin/internal/content/managed"
	"github.com/quoin-dev/quoin/internal/store"
	"github.com/quoin-dev/quoin/internal/store/storetest"
)

// childURL makes the test binary a process that makes a change, and stops at a point.
const childURL = "QUOIN_WORKSPACE_CHILD_URL"

func TestMain(m *testing.M) {
	storetest.Main(m, map[string]func(argument string) error{childURL: change})
}

// changes are what the process does: each is one transaction with several rows. They begin with workbook 1, which has a slug
// and two reports.
var changes = map[string]struct {
	run func(ctx context.Context, w *Workspace) error
	// events is the number of its events; rows are those of the tables after it.
	events int
	rows   rows
	// prepare makes what the change needs in addition; nil for nothing.
	prepare func(w *world)
}{
	"slug": {func(ctx context.Context, w *Workspace) error {
		return errorOf(w.Create(ctx, demo, bob, Change{Name: ptr.To("second"), Slug: ptr.To("sales"), Takeover: true}))
	}, 2, rows{2, 2, 0, 1, 1, 2}, nil},
	"upsert": {func(ctx context.Context, w *Workspace) error {
		in := ReportChange{Placement: &PlacementChange{ExternalWorkbook: "x", ResultLocation: "S!A1"}}
		return errorOf(w.UpsertReport(ctx, demo, bob, "CCCCCCCCCCC1", in))
	}, 2, rows{1, 3, 1, 1, 1, 2}, nil},
	"copy": {func(ctx context.Context, w *Workspace) error {
		return errorOf(w.Duplicate(ctx, demo, bob, 1))
	}, 4, rows{2, 4, 0, 2, 2, 4}, nil},
	"delete": {func(ctx context.Context, w *Workspace) error {
		return w.Delete(ctx, demo, ada, 1)
	}, 3, rows{}, nil},
	"publish": {func(ctx context.Context, w *Workspace) error {
		return errorOf(w.Publish(ctx, demo, bob, 1, Publication{Config: chart(`{"reportId":1}`)}))
	}, 1, rows{1, 2, 0, 1, 2, 3}, nil},
	"restore": {func(ctx context.Context, w *Workspace) error {
		return errorOf(w.Restore(ctx, demo, bob, 1, 1))
	}, 5, rows{1, 2, 0, 1, 3, 5}, changedSince},
	"thread": {func(ctx context.Context, w *Workspace) error {
		return errorOf(w.SetWidgetThread(ctx, demo, bob, 1, WidgetThread{WidgetID: "s1", ThreadID: "chat"}))
	}, 2, rows{1, 2, 0, 1, 3, 2}, withSummary},
	"apply": {func(ctx context.Context, w *Workspace) error {
		return errorOf(w.Apply(ctx, demo, ofGit, managed.Options{Object: sales, Adopt: true}, definition()))
	}, 4, rows{1, 4, 0, 1, 2, 3}, nil},
}

func change(argument string) error {
	stepping, values, err := contenttest.OpenChild(argument, audit.Owner, folder.Owner, Owner)
	if err != nil {
		return err
	}
	record := func(ctx context.Context, tx *store.Tx, e audit.Event) error {
		stepping.Point()
		e.Account, e.Source, e.Actor = "demo", audit.SourceREST, audit.Actor{Kind: audit.ActorKey, ID: "k1"}
		return audit.RecordTx(ctx, tx, e)
	}
	return changes[values[1]].run(context.Background(), &Workspace{DB: stepping, Record: record})
}

// rows are the numbers of rows of the tables.
type rows [6]int

// beforeChange makes what the changes begin with.
func beforeChange(w *world) {
	w.Helper()
	wb, err := w.content.Create(w.Context(), demo, ada, Change{Name: ptr.To("first"), Slug: ptr.To("sales")})
	if err != nil {
		w.Fatal(err)
	}
	for range 2 {
		w.report(ReportChange{WorkbookID: &wb.ID})
	}
	if _, err := w.content.Publish(w.Context(), demo, ada, wb.ID, Publication{Config: chart(`{"reportId":1}`, `{"reportId":2}`)}); err != nil {
		w.Fatal(err)
	}
}

// changedSince changes one of the reports, deletes the other one, and publishes that.
func changedSince(w *world) {
	w.Helper()
	sql := "SELECT 2"
	if _, err := w.content.UpdateReport(w.Context(), demo, ada, 1, ReportChange{SQLQuery: &sql}); err != nil {
		w.Fatal(err)
	}
	if err := w.content.DeleteReport(w.Context(), demo, ada, 2); err != nil {
		w.Fatal(err)
	}
	if _, err := w.content.Publish(w.Context(), demo, ada, 1, Publication{Config: chart(`{"reportId":1}`)}); err != nil {
		w.Fatal(err)
	}
}

// withSummary publishes a dashboard with an AI widget, which the draft has too.
func withSummary(w *world) {
	w.Helper()
	draft := object(`{"title":"T","widgets":[{"id":"s1","type":"AI","position":{"x":0,"y":0,"w":1,"h":1}}]}`)
	if _, err := w.content.Update(w.Context(), demo, ada, 1, Change{Draft: draft, HasDraft: true}); err != nil {
		w.Fatal(err)
	}
	if _, err := w.content.Publish(w.Context(), demo, ada, 1, Publication{}); err != nil {
		w.Fatal(err)
	}
}

// stored returns all that is stored, except when the account was last seen.
func (w *world) stored() (lines []string) {
	w.Helper()
	for _, table := range append([]string{"folder", "access_grant", "account_sequence", "audit_event"}, Owner.Tables...) {
		rows, err := w.store.Reader().QueryContext(w.Context(), "SELECT * FROM "+table)
		if err != nil {
			w.Fatal(err)
		}
		columns, _ := rows.Columns()
		for rows.Next() {
			values := make([]any, len(columns))
			for i := range values {
				values[i] = new(any)
			}
			if err := rows.Scan(values...); err != nil {
				w.Fatal(err)
			}
			line := table
			for i, value := range values {
				line += fmt.Sprintf(" %s=%v", columns[i], *value.(*any))
			}
			lines = append(lines, line)
		}
		if err := errors.Join(rows.Err(), rows.Close()); err != nil {
			w.Fatal(err)
		}
	}
	slices.Sort(lines)
	return lines
}

// TestChangesAreKilled kills the process at each point of a change: before each of its events, before the commit, and after it.
// All of it is stored, or nothing.
func TestChangesAreKilled(t *testing.T) {
	storetest.ForEach(t, func(t *testing.T, newDatabase func(testing.TB) string) {
		for name, c := range changes {
			t.Run(name, func(t *testing.T) {
				committed := c.events + 2
				for stop := 1; stop <= committed; stop++ {
					url := newDatabase(t)
					w := openWorld(t, url)
					beforeChange(w)
					if c.prepare != nil {
						c.prepare(w)
					}
					before, events := w.stored(), len(w.events())
					if err := w.store.Close(); err != nil {
						t.Fatal(err)
					}
					storetest.KillChild(t, childURL, contenttest.Arguments(stop, url, name), func(line string) bool { return line == contenttest.Stopped })
					w = openWorld(t, url)
					if after := w.stored(); stop < committed && !slices.Equal(after, before) {
						t.Errorf("killed at point %d: (-before +after)\n%s", stop, cmp.Diff(before, after))
					}
					if stop == committed {
						w.wantRows(c.rows)
						events += c.events
					}
					if got := w.events(); len(got) != events {
						t.Errorf("killed at point %d: events %q", stop, got)
					}
					// The same change can be made now, and no id is issued twice.
					if err := c.run(t.Context(), w.content); err != nil && stop < committed {
						t.Errorf("killed at point %d: %v", stop, err)
					}
				}
			})
		}
	})
}

// wantRows checks the numbers of rows of the tables.
func (w *world) wantRows(want rows) {
	w.Helper()
	var got rows
	for i, table := range []string{"workbook", "report", "report_placement", "dashboard", "dashboard_version", "report_snapshot"} {
		got[i] = contenttest.Count(w, w.store, table)
	}
	if got != want {
		w.Errorf("the tables have %v rows, want %v", got, want)
	}
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
			wb, err := w.content.Create(w.Context(), s, ada, Change{})
			if err != nil {
				w.Fatal(err)
			}
			in := ReportChange{WorkbookID: &wb.ID, Placement: &PlacementChange{ExternalWorkbook: "x", ResultLocation: "S!A1"}}
			r, err := w.content.CreateReport(w.Context(), s, ada, in)
			if err != nil {
				w.Fatal(err)
			}
			if _, err := w.content.Publish(w.Context(), s, ada, wb.ID, Publication{Config: chart(fmt.Sprintf(`{"reportId":%d}`, r.ID))}); err != nil {
				w.Fatal(err)
			}
		}
	}
	purger := &store.Purger{Store: w.store, Cluster: purgedCluster{}, Clock: clock.RealClock{}, Log: slog.New(slog.DiscardHandler)}
	if err := purger.Scan(w.Context()); err != nil {
		w.Error(err)
	}
	w.wantRows(rows{3, 3, 3, 3, 3, 3})
	list, err := w.content.Workbooks(w.Context(), demo, ada, nil, store.PageRequest{Limit: 10})
	if err != nil || list.Total != 3 || contenttest.Count(w, w.store, "deployment") != 1 {
		w.Errorf("%d workbooks are left, %v", contenttest.Count(w, w.store, "workbook"), err)
	}
}
