package workspace

import (
	"context"
	"fmt"
	"testing"
	"time"

	"k8s.io/utils/ptr"

	"github.com/quoin-dev/quoin/internal/audit"
	"github.com/quoin-dev/quoin/internal/content"
	"github.com/quoin-dev/quoin/internal/content/access"
	"github.com/quoin-dev/quoin/internal/content/contenttest"
	"github.com/quoin-dev/quoin/internal/content/folder"
	"github.com/quoin-dev/quoin/internal/content/subject"
	"github.com/quoin-dev/quoin/internal/store"
	"github.com/quoin-dev/quoin/internal/store/storetest"
)

// world is a database with the tables of the workspace, of folders and of the audit log, empty at first.
type world struct {
	*testing.T
	store   *store.Store
	content *Workspace
	folders *folder.Folders
	// failing is returned instead of recording an event.
	failing error
	clock   time.Time
}

// cases run on both databases.
var cases = []struct {
	name string
	run  func(w *world)
}{
	{"workbooks: create, get, update, delete", testWorkbooks},
	{"workbooks: invalid changes", testInvalidWorkbooks},
	{"workbooks: slugs", testSlugs},
	{"workbooks: upsert", testUpsert},
	{"workbooks: concurrent upserts", testConcurrentUpserts},
	{"workbooks: meta is replaced or merged", testMeta},
	{"workbooks: drafts", testDrafts},
	{"workbooks: pages", testPages},
	{"workbooks: copies", testCopies},
	{"reports: create, get, update, delete", testReports},
	{"reports: invalid changes", testInvalidReports},
	{"reports: upsert", testUpsertReports},
	{"reports: placements", testPlacements},
	{"reports: lists", testReportLists},
	{"reports: pages of large ones", testLargeReports},
	{"reports: pages of large placements", testLargePlacements},
	{"reports: of workbooks", testReportsOfWorkbooks},
	{"reports: another account or deployment sees nothing", testReportTenants},
	{"reports: a new deployment of the name", testNewDeployment},
	{"dashboards: publish", testPublish},
	{"dashboards: invalid publications", testInvalidPublications},
	{"dashboards: restore", testRestore},
	{"dashboards: old versions are deleted", testVersionsAreKept},
	{"dashboards: concurrent publications", testConcurrentPublications},
	{"dashboards: copies", testCopiedDashboards},
	{"managed: what is applied already is not written", testApply},
	{"managed: drift is corrected", testApplyCorrects},
	{"managed: reports that are not defined", testApplyExtra},
	{"managed: embedding of what was published before", testApplyEmbedding},
	{"managed: adoption", testAdoption},
	{"managed: changes by others", testManagedContent},
	{"managed: release", testReleasedContent},
	{"managed: folders", testManagedFolders},
	{"feed: pages", testFeed},
	{"feed: items", testFeedItems},
	{"feed: what a reader reaches", testFeedAccess},
	{"favorites", testFavorites},
	{"lists of many items", testLongLists},
	{"views", testViews},
	{"the content of a deleted folder moves to the root", testDeletedFolder},
	{"another account or deployment sees nothing", testTenants},
	{"access: lists, counts and single objects", testAccess},
	{"access: copies of what a caller may only view", testCopiesOfViewers},
	{"a change and its event are one transaction", testEvents},
	{"a purge deletes the content of a deleted deployment only", testPurge},
}

func TestDatabases(t *testing.T) {
	storetest.ForEach(t, func(t *testing.T, newDatabase func(testing.TB) string) {
		for _, c := range cases {
			t.Run(c.name, func(t *testing.T) { c.run(openWorld(t, newDatabase(t))) })
		}
	})
}

func openWorld(t *testing.T, url string) *world {
	t.Helper()
	s := contenttest.Open(t, url, audit.Owner, folder.Owner, access.Owner, subject.Owner, Owner)
	w := &world{T: t, store: s, clock: time.Date(2026, 11, 21, 12, 0, 0, 0, time.UTC)}
	w.content = &Workspace{DB: s, Record: w.record, Now: func() time.Time { w.clock = w.clock.Add(time.Second); return w.clock }}
	w.folders = &folder.Folders{DB: s, Record: w.record, Deleted: FolderDeleted}
	return w
}

func (w *world) record(ctx context.Context, tx *store.Tx, e audit.Event) error {
	if w.failing != nil {
		return w.failing
	}
	e.Account, e.Source, e.Actor = "demo", audit.SourceREST, audit.Actor{Kind: audit.ActorKey, ID: "k1"}
	return audit.RecordTx(ctx, tx, e)
}

// testLongLists: the work for an item does not grow with the number of items of a page.
func testLongLists(w *world) {
	const items = 300
	for i := range items {
		w.workbook(fmt.Sprint(i))
		w.report(ReportChange{Placement: &PlacementChange{ExternalWorkbook: "x", ResultLocation: "S!A1"}})
	}
	if err := w.content.SetFavorite(w.Context(), demo, ada, items, true); err != nil {
		w.Fatal(err)
	}
	list := func(limit int) float64 {
		return testing.AllocsPerRun(3, func() {
			reports, err := w.content.Reports(w.Context(), demo, ada, ReportFilter{}, store.PageRequest{Limit: limit})
			if err != nil || len(reports.Items) != limit || len(reports.Placements) != limit {
				w.Fatalf("%d reports with %d placements, %v", len(reports.Items), len(reports.Placements), err)
			}
			workbooks, err := w.content.Workbooks(w.Context(), demo, ada, nil, store.PageRequest{Limit: limit})
			if err != nil {
				w.Fatal(err)
			}
			ids := make([]int64, limit)
			for i := range workbooks.Items {
				ids[i] = workbooks.Items[i].ID
			}
			if marked, err := w.content.Favorites(w.Context(), demo, ada.Owner, ids...); err != nil || marked[items] != (limit == items) {
				w.Fatalf("%v, %v", marked, err)
			}
		}) / float64(limit)
	}
	if few, many := list(60), list(items); many > 1.2*few {
		w.Errorf("%.0f allocations an item of %d, %.0f of 60", many, items, few)
	}
}

// scope returns a deployment of an account, by their UIDs.
func scope(account, deployment string) content.Scope {
	return content.Scope{Account: store.Account{UID: account, Name: "demo"}, Deployment: store.Deployment{UID: deployment, Namespace: "demo", Name: "sales"}}
}

var (
	demo = scope("a1", "d1")
	// ada is a user whose key makes changes.
	ada = Caller{Principal: "ApiKey:ada-key", Owner: access.User("ada"), Access: access.Everything, ManagesReports: true}
	bob = Caller{Principal: "ApiKey:bob-key", Owner: access.User("bob"), Access: access.Everything, ManagesReports: true}
)

// workbook creates a workbook at the root.
func (w *world) workbook(name string) *Workbook {
	w.Helper()
	wb, err := w.content.Create(w.Context(), demo, ada, Change{Name: &name})
	if err != nil {
		w.Fatal(err)
	}
	return wb
}

// folder creates a folder and returns its id.
func (w *world) folder(name string, parent int64) int64 {
	w.Helper()
	path, err := w.folders.Create(w.Context(), demo, ada, folder.New{Name: name, ParentID: parent})
	if err != nil {
		w.Fatal(err)
	}
	return path[len(path)-1].ID
}

// object parses a JSON object.
func object(text string) Object {
	o, err := Decode([]byte(text))
	if err != nil {
		panic(fmt.Sprintf("%s: %v", text, err))
	}
	return o
}

func errorOf[T any](_ T, err error) error { return err }

func rename(name string) Change { return Change{Name: ptr.To(name)} }

// events returns the events of the audit log as text, the oldest first.
func (w *world) events() (out []string) {
	w.Helper()
	l := audit.NewLog(w.store, audit.Options{})
	defer l.Close()
	events, err := l.Query(w.Context(), audit.Filter{Account: "demo"})
	if err != nil {
		w.Fatal(err)
	}
	for e, err := range events {
		if err != nil {
			w.Fatal(err)
		}
		out = append(out, fmt.Sprintf("%s %s %s %s", e.Name, e.Object, e.Object.ID, e.Changes))
	}
	return out
}
