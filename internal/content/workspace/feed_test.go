package workspace

import (
	"cmp"
	"context"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"k8s.io/utils/ptr"

	"github.com/quoin-dev/quoin/internal/content"
	"github.com/quoin-dev/quoin/internal/content/access"
	"github.com/quoin-dev/quoin/internal/content/contenttest"
	"github.com/quoin-dev/quoin/internal/content/folder"
	"github.com/quoin-dev/quoin/internal/content/subject"
	"github.com/quoin-dev/quoin/internal/store"
)

// everything are all types.
var everything = []ItemType{FolderItem, WorkbookItem, ReportItem}

// userOf returns a user.
func userOf(name string) subject.User { return subject.User{Name: name, UID: name + "-uid"} }

// views returns views of users who exist.
func (w *world) views(names ...string) *Views {
	w.Helper()
	users := &subject.Users{DB: w.store}
	for _, name := range names {
		if err := users.Use(w.Context(), demo.Account, userOf(name)); err != nil {
			w.Fatal(err)
		}
	}
	return &Views{}
}

// fillFeed makes folders, workbooks and reports with random names, some of which are equal, and lets ada read some of them.
// It returns all items that feeds can have.
func fillFeed(w *world) (all []Item) {
	w.Helper()
	r := rand.New(rand.NewPCG(1, 2))
	name := func(kind string) string { return fmt.Sprintf("%s %c", kind, 'A'+rune(r.IntN(4))) }
	folders, views := []int64{Root}, w.views("ada", "bob")
	for i := range 6 {
		parent := folders[r.IntN(len(folders))]
		path, err := w.folders.Create(w.Context(), demo, ada, folder.New{Name: fmt.Sprint(name("Folder"), i), ParentID: parent, Position: ptr.To(int64(r.IntN(2)))})
		if err != nil {
			w.Fatal(err)
		}
		f := path[len(path)-1]
		folders = append(folders, f.ID)
		all = append(all, Item{Type: FolderItem, ID: f.ID, FolderID: parent, Name: f.Name, Position: f.Position, CreatedAt: f.CreatedAt, UpdatedAt: f.UpdatedAt})
	}
	for range 12 {
		in := folders[r.IntN(3)]
		wb, err := w.content.Create(w.Context(), demo, ada, Change{Name: ptr.To(name("Item")), FolderID: &in})
		if err != nil {
			w.Fatal(err)
		}
		report := w.report(ReportChange{Name: ptr.To(name("Item")), FolderID: &in})
		w.report(ReportChange{Name: ptr.To("Item in a workbook"), WorkbookID: &wb.ID})
		items := []Item{
			{Type: WorkbookItem, ID: wb.ID, FolderID: in, Name: wb.Name, CreatedAt: wb.CreatedAt, UpdatedAt: wb.UpdatedAt},
			{Type: ReportItem, ID: report.ID, FolderID: in, Name: report.Name, CreatedAt: report.CreatedAt, UpdatedAt: report.UpdatedAt},
		}
		for i := range items {
			if item := &items[i]; r.IntN(2) == 0 {
				item.ViewedAt = w.clock.Add(time.Duration(r.IntN(3)) * time.Minute)
				views.Note(demo, userOf("ada"), item.Type, item.ID, item.ViewedAt)
				views.Note(demo, userOf("bob"), item.Type, item.ID, w.clock)
			}
		}
		all = append(all, items...)
	}
	if err := views.Flush(w.Context(), w.store); err != nil {
		w.Fatal(err)
	}
	return all
}

// sortFeed orders items as a feed does.
func sortFeed(items []Item, order string, descending bool) {
	slices.SortFunc(items, func(a, b Item) int {
		if a.Type == FolderItem || b.Type == FolderItem {
			return cmp.Or(cmp.Compare(min(1, slices.Index(itemTypes, a.Type)), min(1, slices.Index(itemTypes, b.Type))), cmp.Compare(a.Position, b.Position), cmp.Compare(a.ID, b.ID))
		}
		by := 0
		switch order {
		case ByName:
			by = strings.Compare(NameKey(a.Name), NameKey(b.Name))
		case ByCreatedAt:
			by = a.CreatedAt.Compare(b.CreatedAt)
		case ByUpdatedAt:
			by = a.UpdatedAt.Compare(b.UpdatedAt)
		case ByViewedAt:
			by = a.ViewedAt.Compare(b.ViewedAt)
		}
		by = cmp.Or(by, cmp.Compare(slices.Index(itemTypes, a.Type), slices.Index(itemTypes, b.Type)), cmp.Compare(a.ID, b.ID))
		if descending {
			return -by
		}
		return by
	})
}

func shownItems(items []Item) string {
	var out []string
	for _, i := range items {
		out = append(out, fmt.Sprintf("%s %d %q", i.Type, i.ID, i.Name))
	}
	return strings.Join(out, "\n")
}

// readPages reads all pages of a feed.
func (w *world) readPages(r FeedRequest) (items []Item) {
	w.Helper()
	for {
		page, err := w.content.Feed(w.Context(), demo, r)
		if err != nil {
			w.Fatal(err)
		}
		if len(page.Items) > r.Limit || page.HasNext && len(page.Items) == 0 {
			w.Fatalf("a page of at most %d items has %d, and more follow: %v", r.Limit, len(page.Items), page.HasNext)
		}
		items = append(items, page.Items...)
		if !page.HasNext {
			return items
		}
		r.After = ptr.To(page.Items[len(page.Items)-1].Key())
	}
}

func testFeed(w *world) {
	all := fillFeed(w)
	for _, order := range []string{ByName, ByCreatedAt, ByUpdatedAt, ByViewedAt} {
		for _, descending := range []bool{false, true} {
			for _, r := range []FeedRequest{
				{Types: everything}, {Types: everything, FolderID: 1}, {Types: everything, Search: "A"}, {Types: everything, Search: "item b"},
				{Types: everything, Search: "%"}, {Types: everything, Search: "folder"}, {Types: []ItemType{FolderItem}}, {Types: []ItemType{WorkbookItem, ReportItem}, FolderID: 2},
				{Types: []ItemType{ReportItem}, Search: "item"}, {},
			} {
				r.By, r.Order, r.Descending = ada, order, descending
				var want []Item
				for _, i := range all {
					if slices.Contains(r.Types, i.Type) && (r.Search == "" && i.FolderID == r.FolderID || r.Search != "" && strings.Contains(NameKey(i.Name), NameKey(r.Search))) {
						want = append(want, i)
					}
				}
				sortFeed(want, order, descending)
				for _, r.Limit = range []int{1, 4, 100} {
					got := w.readPages(r)
					if shownItems(got) != shownItems(want) {
						w.Fatalf("%+v:\n%s\n\nwant:\n%s", r, shownItems(got), shownItems(want))
					}
					for i := range got {
						if !got[i].ViewedAt.Equal(want[i].ViewedAt) || got[i].FolderID != want[i].FolderID || !got[i].UpdatedAt.Equal(want[i].UpdatedAt) {
							w.Errorf("%+v, want %+v", got[i], want[i])
						}
					}
				}
			}
		}
	}
	_, err := w.content.Feed(w.Context(), demo, FeedRequest{By: ada, Types: everything, FolderID: 99, Order: ByName, Limit: 1})
	contenttest.Rejects(w, err, content.NotFound, "folderId: folder 99 does not exist")
	for _, s := range []content.Scope{scope("a1", "d2"), scope("a2", "d1")} {
		page, err := w.content.Feed(w.Context(), s, FeedRequest{By: ada, Types: everything, Search: "e", Order: ByName, Limit: 100})
		if err != nil || len(page.Items) > 0 {
			w.Errorf("%v: %d items, %v", s, len(page.Items), err)
		}
	}
}

// testFeedItems checks what items have, and that pages of large ones are short.
func testFeedItems(w *world) {
	outer := w.folder("Outer", Root)
	inner := w.folder("Inner", outer)
	large := Object{"text": strings.Repeat("x", 900_000)}
	for i := range 12 {
		if _, err := w.content.Create(w.Context(), demo, ada, Change{Name: ptr.To(fmt.Sprint("w", i)), Slug: ptr.To(fmt.Sprint("slug", i)), FolderID: &inner, Meta: large}); err != nil {
			w.Fatal(err)
		}
	}
	r := FeedRequest{By: ada, FolderID: inner, Types: everything, Order: ByCreatedAt, Limit: 100}
	page, err := w.content.Feed(w.Context(), demo, r)
	if err != nil || len(page.Items) != 9 || !page.HasNext {
		w.Errorf("the first page of 12 large items has %d, %v", len(page.Items), err)
	}
	if got := w.readPages(r); len(got) != 12 || got[11].Code != "slug11" || len(got[11].Meta) < 900_000 {
		w.Errorf("the pages have %d items", len(got))
	}
	if path := page.Paths[inner]; len(path) != 2 || path[0].Name != "Outer" || path[1].ID != inner {
		w.Errorf("the path is %v", path)
	}
	report := w.report(ReportChange{Name: ptr.To("r"), PublicID: ptr.To("AAAAAAAAAAA1"), FolderID: &outer, HasMeta: true, Meta: object(`{"kind":"table"}`)})
	item, path, err := w.content.Item(w.Context(), demo, ada, ReportItem, report.ID)
	if err != nil || item.Code != "AAAAAAAAAAA1" || item.Meta != `{"kind":"table"}` || item.Owner != ada.Owner || len(path) != 1 {
		w.Errorf("%+v %v, %v", item, path, err)
	}
	item, path, err = w.content.Item(w.Context(), demo, ada, FolderItem, outer)
	if err != nil || item.Name != "Outer" || item.Meta != "{}" || len(path) != 0 {
		w.Errorf("%+v %v, %v", item, path, err)
	}
	_, _, err = w.content.Item(w.Context(), demo, ada, WorkbookItem, 99)
	contenttest.Rejects(w, err, content.NotFound, "workbook 99 does not exist")
}

func testFavorites(w *world) {
	wb, other := w.workbook("a"), w.workbook("b")
	set := func(by Caller, id int64, isFavorite bool) {
		w.Helper()
		for range 2 { // again changes nothing
			if err := w.content.SetFavorite(w.Context(), demo, by, id, isFavorite); err != nil {
				w.Fatal(err)
			}
		}
	}
	marked := func(by Caller) string {
		w.Helper()
		found, err := w.content.Favorites(w.Context(), demo, by.Owner, wb.ID, other.ID)
		if err != nil {
			w.Fatal(err)
		}
		item, _, err := w.content.Item(w.Context(), demo, by, WorkbookItem, wb.ID)
		if err != nil || item.IsFavorite != found[wb.ID] {
			w.Errorf("the feed says %v, %v", item.IsFavorite, err)
		}
		return fmt.Sprint(found)
	}
	set(ada, wb.ID, true)
	set(bob, other.ID, true)
	if got := marked(ada) + marked(bob); got != "map[1:true]map[2:true]" {
		w.Errorf("favorites are %s", got)
	}
	set(ada, wb.ID, false)
	if got := marked(ada); got != "map[]" {
		w.Errorf("favorites are %s", got)
	}
	// A person who can no longer see a workbook removes the mark, and learns nothing of others.
	set(ada, wb.ID, true)
	stranger := ada
	stranger.Access = access.Subject{Owner: access.User("eve"), Max: access.Manage}
	contenttest.Rejects(w, w.content.SetFavorite(w.Context(), demo, stranger, wb.ID, true), content.NotFound, "workbook 1")
	if err := w.content.SetFavorite(w.Context(), demo, stranger, wb.ID, false); err != nil || marked(ada) != "map[]" {
		w.Error(err)
	}
	contenttest.Rejects(w, w.content.SetFavorite(w.Context(), demo, stranger, other.ID, false), content.NotFound, "workbook 2")
	contenttest.Rejects(w, w.content.SetFavorite(w.Context(), demo, ada, 99, true), content.NotFound, "workbook 99")
	contenttest.Rejects(w, w.content.SetFavorite(w.Context(), scope("a1", "d2"), ada, wb.ID, true), content.NotFound, "workbook 1")
	contenttest.Exec(w, w.store, `WITH RECURSIVE n (i) AS (SELECT 100 UNION ALL SELECT i + 1 FROM n WHERE i < 1099)
		INSERT INTO favorite (account_uid, deployment_uid, owner, workbook_id, created_at) SELECT 'a1', 'd1', 'ScimUser:ada', i, 0 FROM n`)
	contenttest.Rejects(w, w.content.SetFavorite(w.Context(), demo, ada, wb.ID, true), content.Conflict, "1000")
}

func testViews(w *world) {
	wb, views := w.workbook("a"), w.views("ada", "bob", "cleo")
	r := w.report(ReportChange{WorkbookID: &wb.ID})
	flush := func() {
		w.Helper()
		if err := views.Flush(w.Context(), w.store); err != nil {
			w.Fatal(err)
		}
	}
	stored := func() (n, times, last int64) {
		w.Helper()
		if err := w.store.Reader().QueryRowContext(w.Context(), "SELECT COUNT(*), COALESCE(SUM(views), 0), COALESCE(MAX(viewed_at), 0) FROM view_event").Scan(&n, &times, &last); err != nil {
			w.Fatal(err)
		}
		return n, times, last
	}
	at := w.clock
	for i := range 3 {
		views.Note(demo, userOf("ada"), WorkbookItem, wb.ID, at.Add(-time.Duration(i)*time.Hour))
	}
	views.Note(demo, userOf("ada"), ReportItem, r.ID, at)
	views.Note(demo, userOf("ada"), WorkbookItem, 99, at) // it does not exist
	views.Note(demo, userOf("deleted"), WorkbookItem, wb.ID, at)
	flush()
	flush()
	views.Note(demo, userOf("ada"), WorkbookItem, wb.ID, at.Add(-time.Minute))
	flush()
	if n, times, last := stored(); n != 2 || times != 5 || last != at.UnixMicro() {
		w.Errorf("%d rows with %d views, the last at %d", n, times, last)
	}
	// Those that cannot be stored are stored later, and no more than the maximum wait.
	views.Note(demo, userOf("bob"), WorkbookItem, wb.ID, at)
	if err := views.Flush(w.Context(), store.NewDatabase("postgres://127.0.0.1:1/quoin", nil)); err == nil {
		w.Error("a database that is away stores views")
	}
	for i := range 2 * maxPendingViews {
		views.Note(demo, userOf("bob"), ReportItem, int64(i+100), at)
	}
	if len(views.pending) != maxPendingViews {
		w.Errorf("%d views wait", len(views.pending))
	}
	flush()
	if n, times, _ := stored(); n != 3 || times != 6 {
		w.Errorf("%d rows with %d views", n, times)
	}
	// The newest are kept.
	contenttest.Exec(w, w.store, `WITH RECURSIVE n (i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 1200)
		INSERT INTO view_event (account_uid, deployment_uid, viewer, object_type, object_id, viewed_at, views) SELECT 'a1', 'd1', 'ScimUser:cleo', 'REPORT', i + 100, i, 1 FROM n`)
	views.Note(demo, userOf("cleo"), WorkbookItem, wb.ID, at)
	flush()
	if n, _, _ := stored(); n != 3+keptViews {
		w.Errorf("%d rows are kept", n)
	}
	// What is deleted has no views.
	if err := w.content.Delete(w.Context(), demo, ada, wb.ID); err != nil {
		w.Fatal(err)
	}
	if n, _, _ := stored(); n != keptViews-1 {
		w.Errorf("%d rows are left", n)
	}
}

// TestViewsAreStoredAtShutdown: Run stores what waits when it ends.
func TestViewsAreStoredAtShutdown(t *testing.T) {
	w := openWorld(t, "sqlite://"+t.TempDir()+"/content.db")
	wb, views := w.workbook("a"), w.views("ada")
	views.Note(demo, userOf("ada"), WorkbookItem, wb.ID, w.clock)
	ended := canceled(t)
	if err := views.Run(ended, w.store, slog.New(slog.DiscardHandler)); err != nil {
		t.Fatal(err)
	}
	if n := contenttest.Count(t, w.store, "view_event"); n != 1 {
		t.Errorf("%d views are stored", n)
	}
}

// canceled returns a context that has ended.
func canceled(t *testing.T) context.Context {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	return ctx
}

// testFeedAccess: a reader sees what was shared, and the folders that lead there.
func testFeedAccess(w *world) {
	cleo := Caller{Owner: access.User("cleo"), Access: access.Subject{Max: access.Edit, Owner: access.User("cleo"), Groups: []string{access.Group("sales")}}}
	top, hidden := w.folder("Top", Root), w.folder("Hidden", Root)
	way, beside := w.folder("Way", top), w.folder("Beside", top)
	create := func(name string, in int64) *Workbook {
		w.Helper()
		wb, err := w.content.Create(w.Context(), demo, ada, Change{Name: &name, FolderID: &in})
		if err != nil {
			w.Fatal(err)
		}
		return wb
	}
	shared, other := create("Shared", way), create("Not shared", way)
	draft := Change{Meta: object(`{"dashboardDraft":{"title":"Draft"},"color":"red"}`)}
	if _, err := w.content.Update(w.Context(), demo, ada, shared.ID, draft); err != nil {
		w.Fatal(err)
	}
	create("Also hidden", hidden)
	inWorkbook := w.report(ReportChange{Name: ptr.To("Report of another"), WorkbookID: &other.ID})
	report := w.report(ReportChange{Name: ptr.To("Report"), FolderID: &beside})
	w.grant(access.Workbook, shared.ID, access.Group("sales"), access.View)
	for _, c := range []struct {
		in     int64
		search string
		want   string
	}{
		{Root, "", `FOLDER 1 "Top"`}, {top, "", `FOLDER 3 "Way"`}, {way, "", `WORKBOOK 1 "Shared"`}, {Root, "s", `WORKBOOK 1 "Shared"`}, {Root, "e", `WORKBOOK 1 "Shared"`}, {Root, "hidden", ""},
	} {
		if got := shownItems(w.readPages(FeedRequest{By: cleo, Types: everything, FolderID: c.in, Search: c.search, Order: ByName, Limit: 1})); got != c.want {
			w.Errorf("%d %q: %s, want %s", c.in, c.search, got, c.want)
		}
	}
	for by, want := range map[*Caller]string{&cleo: `{"color":"red"}`, &ada: `{"color":"red","dashboardDraft":{"title":"Draft"}}`} {
		if item, _, err := w.content.Item(w.Context(), demo, *by, WorkbookItem, shared.ID); err != nil || item.Meta != want {
			w.Errorf("%s reads %s, %v", by.Owner, item.Meta, err)
		}
	}
	contenttest.Rejects(w, w.content.SetFavorite(w.Context(), demo, cleo, other.ID, true), content.NotFound, "does not exist")
	for _, id := range []int64{hidden, beside} {
		_, err := w.content.Feed(w.Context(), demo, FeedRequest{By: cleo, Types: everything, FolderID: id, Order: ByName, Limit: 1})
		contenttest.Rejects(w, err, content.NotFound, fmt.Sprintf("folderId: folder %d does not exist", id))
	}
	for id, t := range map[int64]ItemType{other.ID: WorkbookItem, inWorkbook.ID: ReportItem, hidden: FolderItem} {
		_, _, err := w.content.Item(w.Context(), demo, cleo, t, id)
		contenttest.Rejects(w, err, content.NotFound, fmt.Sprintf("%d does not exist", id))
	}
	w.grant(access.Folder, beside, cleo.Owner, access.View)
	if got := shownItems(w.readPages(FeedRequest{By: cleo, Types: everything, Search: "report", Order: ByViewedAt, Limit: 10})); got != fmt.Sprintf("REPORT %d %q", report.ID, "Report") {
		w.Errorf("after the folder is shared: %s", got)
	}
	cleo.Access.Max = access.None
	if got := w.readPages(FeedRequest{By: cleo, Types: everything, Order: ByName, Limit: 10}); len(got) != 0 {
		w.Errorf("without permissions: %s", shownItems(got))
	}
}
