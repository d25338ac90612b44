// Package content_test makes thousands of random changes of workspace content as different callers, and compares the database and
// every caller's lists with a model after each, on both databases. Concurrent writers are checked by the rules that no order of
// changes may break.
//
// A failure prints the seed and the shortest sequence of operations that was found. -seed and -steps make other sequences:
//
//	go test ./test/content -run TestRandomChanges -args -seed 7 -steps 5000
package content_test

import (
	"database/sql"
	"errors"
	"flag"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/quoin-dev/quoin/internal/content"
	"github.com/quoin-dev/quoin/internal/content/access"
	"github.com/quoin-dev/quoin/internal/content/contenttest"
	"github.com/quoin-dev/quoin/internal/content/workspace"
	"github.com/quoin-dev/quoin/internal/store"
	"github.com/quoin-dev/quoin/internal/store/storetest"
)

var (
	seed  = flag.Uint64("seed", 1, "the seed of the operations")
	steps = flag.Int("steps", 800, "the number of operations")
)

const (
	// listsEvery is the number of operations between two comparisons of all lists.
	listsEvery = 10
	// maxReplays is the maximum number of sequences that are tried to shorten one that fails.
	maxReplays = 100
)

func TestRandomChanges(t *testing.T) {
	storetest.ForEach(t, func(t *testing.T, newDatabase func(testing.TB) string) {
		random := rand.New(rand.NewPCG(*seed, 0))
		operations := make([]operation, *steps)
		for i := range operations {
			operations[i] = randomOperation(random, i)
		}
		failed, accepted, err := play(t, newDatabase(t), operations)
		if err == nil {
			if accepted < *steps/4 {
				t.Errorf("only %d of %d operations were accepted", accepted, *steps)
			}
			return
		}
		t.Logf("seed %d, operation %d: %v", *seed, failed, err)
		short := shorten(t, newDatabase, operations[:failed+1])
		_, _, err = play(t, newDatabase(t), short)
		text := ""
		for _, o := range short {
			text += "\n" + o.String()
		}
		t.Errorf("%v\nafter the operations%s", err, text)
	})
}

// shorten returns a part of a sequence of operations that fails too.
func shorten(t *testing.T, newDatabase func(testing.TB) string, failing []operation) []operation {
	t.Helper()
	replays := 0
	for size := len(failing) / 2; size > 0; size /= 2 {
		for at := 0; at+size < len(failing) && replays < maxReplays; {
			replays++
			without := slices.Concat(failing[:at], failing[at+size:])
			if failed, _, err := play(t, newDatabase(t), without); err != nil {
				failing = without[:failed+1]
			} else {
				at += size
			}
		}
	}
	return failing
}

// play makes changes and compares the database with the model after each. It returns the number of the operation that fails, and
// how many were accepted.
func play(t *testing.T, url string, operations []operation) (failed, accepted int, err error) {
	t.Helper()
	s, err := store.Open(t.Context(), url, nil, owners...)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { err = errors.Join(err, s.Close()) }()
	w := newWorld(t.Context(), s)
	for i, o := range operations {
		want, err := w.do(o)
		if reason, err := reasonOf(err); err != nil || reason != want.reason {
			return i, accepted, fmt.Errorf("%s: the reason of the rejection is %q, want %q: %v", o, reason, want.reason, err) //nolint:errorlint // it may be nil
		}
		if want.different != "" {
			return i, accepted, fmt.Errorf("%s: %s", o, want.different)
		}
		if err == nil {
			accepted++
			if want.then != nil {
				want.then()
			}
		}
		if err := w.compare(); err != nil {
			return i, accepted, fmt.Errorf("%s: %w", o, err)
		}
		if i%listsEvery == 0 || i == len(operations)-1 {
			if err := w.compareLists(); err != nil {
				return i, accepted, fmt.Errorf("%s: %w", o, err)
			}
		}
	}
	return 0, accepted, nil
}

// reasonOf returns the reason of a rejection; empty without one. Other errors are returned.
func reasonOf(err error) (content.Reason, error) {
	var rejection *content.Error
	if errors.As(err, &rejection) {
		return rejection.Reason, nil
	}
	return "", err
}

// compare returns an error if the database has anything else than the model.
func (w *world) compare() error {
	stored, err := w.load()
	if err != nil {
		return err
	}
	if diff := cmp.Diff(w.model.text(), stored.text()); diff != "" {
		return fmt.Errorf("the database differs (-model +database):\n%s", diff)
	}
	return stored.check()
}

// rows calls scan for each row of a query.
func (w *world) rows(query string, scan func(row *sql.Rows) error) error {
	rows, err := w.store.Reader().QueryContext(w.ctx, query)
	if err != nil {
		return err
	}
	defer func() { _ = rows.Close() }()
	for rows.Next() {
		if err := scan(rows); err != nil {
			return err
		}
	}
	return rows.Err()
}

// load returns what the database has.
func (w *world) load() (*model, error) {
	m := newModel()
	m.members = w.model.members
	add := func(kind access.Kind) func(row *sql.Rows) error {
		return func(row *sql.Rows) error {
			o := &object{Object: access.Object{Kind: kind}}
			err := row.Scan(&o.ID, &o.folder, &o.workbook, &o.name, &o.slug, &o.publicID, &o.sql, &o.owner)
			m.add(o)
			return err
		}
	}
	err := errors.Join(
		w.rows("SELECT id, parent_id, 0, name, '', '', '', owner FROM folder", add(access.Folder)),
		w.rows("SELECT id, folder_id, 0, name, slug, '', '', owner FROM workbook", add(access.Workbook)),
		w.rows("SELECT id, folder_id, workbook_id, name, '', public_id, sql_query, owner FROM report", add(access.Report)),
		w.rows("SELECT object_kind, object_id, subject, level FROM access_grant", func(row *sql.Rows) error {
			var kind, who string
			var id int64
			var level access.Level
			if err := row.Scan(&kind, &id, &who, &level); err != nil {
				return err
			}
			o := m.find(access.Kind(kind), id)
			if o == nil {
				return fmt.Errorf("%s %d has a grant and does not exist", kind, id)
			}
			o.grants[who] = level
			return nil
		}),
		w.rows(`SELECT d.workbook_id, v.number, v.id = d.version_id FROM dashboard_version v JOIN dashboard d ON d.account_uid = v.account_uid AND d.id = v.dashboard_id
			ORDER BY v.dashboard_id, v.number`, func(row *sql.Rows) error {
			var id, number int64
			var isShown bool
			if err := row.Scan(&id, &number, &isShown); err != nil {
				return err
			}
			o := m.find(access.Workbook, id)
			if o == nil {
				return fmt.Errorf("workbook %d has a version and does not exist", id)
			}
			o.versions = append(o.versions, version{number: number})
			return nil
		}),
	)
	return m, errors.Join(err, w.loadSnapshots(m))
}

// loadSnapshots reads what the versions show. Snapshots of a version that does not exist, and versions of a dashboard that does not
// exist, are errors.
func (w *world) loadSnapshots(m *model) error {
	var orphans int
	count := `SELECT (SELECT COUNT(*) FROM report_snapshot WHERE version_id NOT IN (SELECT id FROM dashboard_version))
		+ (SELECT COUNT(*) FROM dashboard_version WHERE dashboard_id NOT IN (SELECT id FROM dashboard))
		+ (SELECT COUNT(*) FROM dashboard WHERE version_id NOT IN (SELECT MAX(id) FROM dashboard_version GROUP BY dashboard_id))
		+ (SELECT COUNT(*) FROM dashboard WHERE workbook_id NOT IN (SELECT id FROM workbook))`
	err := w.rows(count, func(row *sql.Rows) error { return row.Scan(&orphans) })
	if err != nil || orphans > 0 {
		return errors.Join(err, fmt.Errorf("%d rows of dashboards belong to nothing, or the newest version is not shown", orphans))
	}
	return w.rows(`SELECT d.workbook_id, v.number, s.report_id, s.public_id, s.name, s.sql_query FROM report_snapshot s
		JOIN dashboard_version v ON v.account_uid = s.account_uid AND v.id = s.version_id JOIN dashboard d ON d.account_uid = v.account_uid AND d.id = v.dashboard_id
		ORDER BY s.id`, func(row *sql.Rows) error {
		r := object{}
		var id, number int64
		if err := row.Scan(&id, &number, &r.ID, &r.publicID, &r.name, &r.sql); err != nil {
			return err
		}
		o := m.find(access.Workbook, id)
		for i := range o.versions {
			if v := &o.versions[i]; v.number == number {
				v.reports = append(v.reports, r.state())
			}
		}
		return nil
	})
}

// everything is a page that has all items of a list.
var everything = store.PageRequest{Limit: 10_000}

// compareLists returns an error if a caller's lists differ from the model.
func (w *world) compareLists() error {
	for _, c := range callers {
		want, by := w.wantList(c), w.model.asked(c)
		var got []string
		folders, err := w.listFolders(by, 0)
		if err != nil {
			return fmt.Errorf("%s lists folders: %w", c.name, err)
		}
		workbooks, err := w.content.Workbooks(w.ctx, demo, by, nil, everything)
		if err != nil {
			return fmt.Errorf("%s lists workbooks: %w", c.name, err)
		}
		reports, err := w.content.Reports(w.ctx, demo, by, workspace.ReportFilter{}, everything)
		if err != nil {
			return fmt.Errorf("%s lists reports: %w", c.name, err)
		}
		if len(workbooks.Items) != workbooks.Total || len(reports.Items) != reports.Total {
			return fmt.Errorf("%s lists %d of %d workbooks, %d of %d reports", c.name, len(workbooks.Items), workbooks.Total, len(reports.Items), reports.Total)
		}
		for _, id := range folders {
			got = append(got, fmt.Sprint("Folder ", id))
		}
		for i := range workbooks.Items {
			got = append(got, fmt.Sprint("Workbook ", workbooks.Items[i].ID, " ", workbooks.Items[i].Level))
		}
		for i := range reports.Items {
			got = append(got, fmt.Sprint("Report ", reports.Items[i].ID, " ", reports.Items[i].Level))
		}
		if diff := cmp.Diff(want, got); diff != "" {
			return fmt.Errorf("the lists of %s differ (-model +lists):\n%s", c.name, diff)
		}
	}
	return nil
}

// wantList returns what a caller has to see, with the levels.
func (w *world) wantList(c caller) (want []string) {
	for _, kind := range []access.Kind{access.Folder, access.Workbook, access.Report} {
		for _, o := range w.model.all(kind) {
			switch {
			case !w.model.shown(c, o):
			case kind == access.Folder:
				want = append(want, fmt.Sprint("Folder ", o.ID))
			default:
				want = append(want, fmt.Sprint(kind, " ", o.ID, " ", w.model.level(c, o)))
			}
		}
	}
	return want
}

// listFolders returns the ids of the folders that a caller finds below a folder, in order.
func (w *world) listFolders(by access.Caller, parent int64) (ids []int64, err error) {
	level, err := w.folders.List(w.ctx, demo, by, parent, everything)
	if err != nil {
		return nil, err
	}
	if level.Total != len(level.Items) {
		return nil, fmt.Errorf("folder %d has %d of %d folders", parent, len(level.Items), level.Total)
	}
	for i := range level.Items {
		below, err := w.listFolders(by, level.Items[i].ID)
		if err != nil {
			return nil, err
		}
		ids = append(append(ids, level.Items[i].ID), below...)
	}
	slices.Sort(ids)
	return ids, nil
}

// TestConcurrentChanges makes random changes from several goroutines. What is in the database then follows the rules, and lists have
// what it says.
func TestConcurrentChanges(t *testing.T) {
	const writers = 4
	storetest.ForEach(t, func(t *testing.T, newDatabase func(testing.TB) string) {
		s := contenttest.Open(t, newDatabase(t), owners...)
		var group sync.WaitGroup
		for i := range writers {
			group.Go(func() {
				random, w := rand.New(rand.NewPCG(*seed, uint64(i+1))), newWorld(t.Context(), s)
				for step := range *steps / writers {
					if err := w.change(randomOperation(random, step)); err != nil {
						t.Error(err)
						return
					}
				}
			})
		}
		group.Wait()
		w := newWorld(t.Context(), s)
		stored, err := w.load()
		if err != nil {
			t.Fatal(err)
		}
		w.model = stored
		if err := errors.Join(stored.check(), w.compareLists()); err != nil {
			t.Errorf("seed %d: %v", *seed, err)
		}
		if n := len(stored.objects); n < 20 {
			t.Errorf("there are only %d objects", n)
		}
	})
}

// change makes a change with others at the same time: what it results in depends on theirs.
func (w *world) change(o operation) error {
	m, err := w.load()
	// The reads of load see different states.
	if err != nil && !strings.Contains(err.Error(), "exist") && !strings.Contains(err.Error(), "belong to nothing") {
		return err
	}
	w.model = m
	if _, err := reasonOf(func() error { _, err := w.do(o); return err }()); err != nil {
		return fmt.Errorf("%s: %w", o, err)
	}
	return nil
}
