package workspace

import (
	"context"
	"errors"
	"fmt"
	"testing"

	"github.com/google/go-cmp/cmp"
	"k8s.io/utils/ptr"

	"github.com/quoin-dev/quoin/internal/content"
	"github.com/quoin-dev/quoin/internal/content/access"
	"github.com/quoin-dev/quoin/internal/content/contenttest"
	"github.com/quoin-dev/quoin/internal/content/folder"
	"github.com/quoin-dev/quoin/internal/content/managed"
	"github.com/quoin-dev/quoin/internal/store"
)

// ofGit is who changes content as an object defines it.
var ofGit = Caller{Principal: "Workbook:sales", Owner: "Workbook:sales", Access: access.Everything}

// sales is the object that manages the workbook sales; its generation is 1.
var sales = managed.Object{Kind: managed.Workbook, Namespace: "demo", Name: "sales", UID: "u1", Generation: 1}

// definition returns a workbook with two reports, of which the dashboard shows the first.
func definition() Definition {
	return Definition{
		Slug: "sales", Name: "Sales", Publish: true, Meta: object(`{"theme":{"dark":true}}`),
		Draft: object(`{"title":"Sales","widgets":[{"type":"CHART","position":{"x":0,"y":0,"w":6,"h":4},"config":{"reportPublicId":"AAAAAAAAAAA1"}}]}`),
		Reports: []DefinedReport{
			{PublicID: "AAAAAAAAAAA1", Name: "By status", JSONQuery: `{"measures":["orders.count"]}`, Meta: object(`{"kind":"table"}`)},
			{PublicID: "AAAAAAAAAAA2", Name: "All", SQLQuery: "SELECT 1", PivotItems: object(`{"x":["a"]}`)},
		},
	}
}

// apply applies a definition, and returns the result.
func (w *world) apply(of managed.Options, in Definition) *Applied {
	w.Helper()
	out, err := w.content.Apply(w.Context(), demo, ofGit, of, in)
	if err != nil {
		w.Fatal(err)
	}
	return out
}

// byPublicID returns a report.
func (w *world) byPublicID(id string) (r *Report) {
	w.Helper()
	err := w.store.Read(w.Context(), func(q store.Querier) (err error) {
		r, err = reportByPublicID(w.Context(), q, demo, id)
		return err
	})
	if err != nil || r == nil {
		w.Fatalf("%s: %+v, %v", id, r, err)
	}
	return r
}

// contentRows returns the numbers of rows, which events and new versions change.
func (w *world) contentRows() (out []int) {
	w.Helper()
	for _, table := range []string{"workbook", "report", "dashboard", "dashboard_version", "report_snapshot", "managed_content", "audit_event"} {
		out = append(out, contenttest.Count(w, w.store, table))
	}
	return out
}

// failsWrites is a database that only reads.
type failsWrites struct{ content.Database }

func (failsWrites) Tx(context.Context, func(*store.Tx) error) error { return errors.New("a write") }

func testApply(w *world) {
	of := managed.Options{Object: sales}
	first := w.apply(of, definition())
	if first.Workbook.Name != "Sales" || first.Dashboard.Number != 1 || first.Corrected || first.Extra != nil || first.Workbook.Owner != "Workbook:sales" {
		w.Errorf("%+v", first)
	}
	rows := w.contentRows()
	w.content.DB = failsWrites{w.store}
	again := w.apply(of, definition())
	w.content.DB = w.store
	if diff := cmp.Diff(first, again); diff != "" {
		w.Errorf("the same again (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff(rows, w.contentRows()); diff != "" {
		w.Errorf("rows (-want +got):\n%s", diff)
	}

	// Another generation with the same content stores only the generation.
	of.Object.Generation = 2
	if got := w.apply(of, definition()); got.Dashboard.Number != 1 || got.Workbook.Version != 1 || got.Corrected {
		w.Errorf("%+v", got)
	}
	if diff := cmp.Diff(rows, w.contentRows()); diff != "" {
		w.Errorf("rows (-want +got):\n%s", diff)
	}
	old := managed.Options{Object: sales}
	if _, err := w.content.Apply(w.Context(), demo, ofGit, old, definition()); !errors.Is(err, managed.ErrOutdated) {
		w.Errorf("an old generation: %v", err)
	}

	changed := definition()
	changed.Name, changed.Draft, changed.Meta = "All sales", object(`{"widgets":[]}`), nil
	changed.Reports[1].Title, changed.Reports[1].PivotItems = "Everything", nil
	got := w.apply(of, changed)
	if got.Workbook.Name != "All sales" || got.Workbook.Meta != `{"dashboardDraft":{"widgets":[]}}` || got.Dashboard.Number != 2 || got.Dashboard.Title != "" || got.Corrected {
		w.Errorf("%+v", got)
	}
	report := w.byPublicID("AAAAAAAAAAA2")
	if report.Title != "Everything" || report.PivotItems != "" || report.Version != 2 {
		w.Errorf("%+v", report)
	}
}

func testApplyCorrects(w *world) {
	of := managed.Options{Object: sales}
	first := w.apply(of, definition())
	for _, statement := range []string{
		"UPDATE workbook SET name = 'Mine'",
		"UPDATE workbook SET slug = ''",
		"UPDATE report SET sql_query = 'SELECT 2' WHERE public_id = 'AAAAAAAAAAA2'",
		"DELETE FROM report WHERE public_id = 'AAAAAAAAAAA1'",
		"UPDATE dashboard SET allow_embed = TRUE",
		"UPDATE workbook SET meta = '{}'",
	} {
		contenttest.Exec(w, w.store, statement)
		if got := w.apply(of, definition()); !got.Corrected || got.Workbook.ID != first.Workbook.ID || got.Workbook.Meta != first.Workbook.Meta || got.Workbook.Slug != "sales" {
			w.Errorf("%s: %+v", statement, got)
		}
		if got := w.apply(of, definition()); got.Corrected {
			w.Errorf("%s: it is corrected twice", statement)
		}
	}
	contenttest.Exec(w, w.store, "DELETE FROM report")
	contenttest.Exec(w, w.store, "DELETE FROM workbook")
	if got := w.apply(of, definition()); !got.Corrected || got.Workbook.ID == first.Workbook.ID {
		w.Errorf("a new workbook: %+v", got)
	}
}

// testApplyEmbedding: a dashboard that was published before may be embedded only while the object permits it, also if the object does not
// publish any more.
func testApplyEmbedding(w *world) {
	of, in := managed.Options{Object: sales}, definition()
	in.AllowEmbed = true
	published := w.apply(of, in).Dashboard
	in.Publish = false
	for _, allow := range []bool{true, false, true, false} {
		in.AllowEmbed = allow
		of.Object.Generation++
		got := w.apply(of, in)
		if d := got.Dashboard; d.AllowEmbed != allow || d.Number != 1 || d.PublicID != published.PublicID || got.Corrected {
			w.Errorf("embedding is allowed: %t; %+v", allow, got)
		}
		w.content.DB = failsWrites{w.store}
		if d := w.apply(of, in).Dashboard; d.AllowEmbed != allow {
			w.Errorf("the same again: %+v", d)
		}
		w.content.DB = w.store
	}
}

func testApplyExtra(w *world) {
	first := w.apply(managed.Options{Object: sales}, definition())
	less := definition()
	less.Reports = less.Reports[:1]
	next := sales
	next.Generation = 2
	got := w.apply(managed.Options{Object: next}, less)
	if len(got.Extra) != 1 || got.Extra[0].PublicID != "AAAAAAAAAAA2" || got.Dashboard.Number != first.Dashboard.Number {
		w.Errorf("%+v", got)
	}
	less.Prune = true
	if got = w.apply(managed.Options{Object: next}, less); len(got.Extra) != 0 {
		w.Errorf("%+v", got.Extra)
	}
	if n := contenttest.Count(w, w.store, "report"); n != 1 {
		w.Errorf("%d reports", n)
	}
}

// always takes over content of other objects.
func always(managed.Object) bool { return true }

func testAdoption(w *world) {
	wb, err := w.content.Create(w.Context(), demo, ada, Change{Name: ptr.To("mine"), Slug: ptr.To("sales")})
	if err != nil {
		w.Fatal(err)
	}
	elsewhere := w.report(ReportChange{PublicID: ptr.To("AAAAAAAAAAA2"), Name: ptr.To("elsewhere")})
	refused := func(of managed.Options, parts ...string) {
		w.Helper()
		_, err := w.content.Apply(w.Context(), demo, ofGit, of, definition())
		for _, part := range parts {
			contenttest.Rejects(w, err, content.Conflict, part)
		}
	}
	before := w.contentRows()
	refused(managed.Options{Object: sales}, "slug: \"sales\"", fmt.Sprint("workbook ", wb.ID), "spec.adopt")
	if diff := cmp.Diff(before, w.contentRows()); diff != "" {
		w.Errorf("rows (-want +got):\n%s", diff)
	}
	got := w.apply(managed.Options{Object: sales, Adopt: true}, definition())
	if got.Workbook.ID != wb.ID || got.Workbook.Name != "Sales" || got.Workbook.Owner != ada.Owner || got.Corrected {
		w.Errorf("%+v", got)
	}
	report, err := w.content.Report(w.Context(), demo, ada, elsewhere.ID)
	if err != nil || report.WorkbookID != wb.ID {
		w.Errorf("%+v, %v", report, err)
	}

	// Another object gets it only if the caller knows that it may.
	other := managed.Object{Kind: managed.Workbook, Namespace: "demo", Name: "other", UID: "u2", Generation: 1}
	refused(managed.Options{Object: other, Adopt: true}, "Workbook demo/sales")
	if got := w.apply(managed.Options{Object: other, Replace: always}, definition()); got.Workbook.ID != wb.ID {
		w.Errorf("%+v", got)
	}
	refused(managed.Options{Object: sales, Adopt: true}, "Workbook demo/other")

	// The report of a workbook that another object manages is not moved.
	third := managed.Object{Kind: managed.Workbook, Namespace: "demo", Name: "third", UID: "u3", Generation: 1}
	moved := definition()
	moved.Slug = "third"
	_, err = w.content.Apply(w.Context(), demo, ofGit, managed.Options{Object: third, Adopt: true}, moved)
	contenttest.Rejects(w, err, content.Conflict, "Workbook demo/other")
	// An object of the same name with another UID is its successor.
	again := other
	again.UID = "u4"
	if got := w.apply(managed.Options{Object: again}, definition()); got.Workbook.ID != wb.ID {
		w.Errorf("%+v", got)
	}
}

// testManagedContent: only its object changes it, and everything else about it can be changed.
func testManagedContent(w *world) {
	wb := w.apply(managed.Options{Object: sales}, definition()).Workbook
	report := w.byPublicID("AAAAAAAAAAA1")
	free := w.report(ReportChange{Name: ptr.To("free")})
	root := w.folder("Finance", Root)
	before := w.contentRows()
	ctx := w.Context()
	for name, err := range map[string]error{
		"update":            errorOf(w.content.Update(ctx, demo, ada, wb.ID, rename("mine"))),
		"move":              errorOf(w.content.Update(ctx, demo, ada, wb.ID, Change{FolderID: &root})),
		"draft":             errorOf(w.content.Update(ctx, demo, ada, wb.ID, Change{HasDraft: true})),
		"the same":          errorOf(w.content.Update(ctx, demo, ada, wb.ID, rename("Sales"))),
		"upsert":            errorOf(w.content.Upsert(ctx, demo, ada, "sales", rename("mine"))),
		"takeover":          errorOf(w.content.Create(ctx, demo, ada, Change{Slug: ptr.To("sales"), Takeover: true})),
		"publish":           errorOf(w.content.Publish(ctx, demo, ada, wb.ID, Publication{})),
		"restore":           errorOf(w.content.Restore(ctx, demo, ada, wb.ID, 1)),
		"delete":            w.content.Delete(ctx, demo, ada, wb.ID),
		"report: create":    errorOf(w.content.CreateReport(ctx, demo, ada, ReportChange{WorkbookID: &wb.ID})),
		"report: update":    errorOf(w.content.UpdateReport(ctx, demo, ada, report.ID, ReportChange{Name: ptr.To("mine")})),
		"report: upsert":    errorOf(w.content.UpsertReport(ctx, demo, ada, report.PublicID, ReportChange{Name: ptr.To("mine")})),
		"report: move out":  errorOf(w.content.UpdateReport(ctx, demo, ada, report.ID, ReportChange{FolderID: &root})),
		"report: move in":   errorOf(w.content.UpdateReport(ctx, demo, ada, free.ID, ReportChange{WorkbookID: &wb.ID})),
		"report: delete":    w.content.DeleteReport(ctx, demo, ada, report.ID),
		"report: by upsert": errorOf(w.content.UpsertReport(ctx, demo, ada, "CCCCCCCCCCC1", ReportChange{WorkbookID: &wb.ID})),
	} {
		w.Run(name, func(t *testing.T) { contenttest.Rejects(t, err, content.Conflict, "managed by Workbook demo/sales") })
	}
	if diff := cmp.Diff(before, w.contentRows()); diff != "" {
		w.Errorf("rows (-want +got):\n%s", diff)
	}
	placed := ReportChange{Placement: &PlacementChange{ExternalWorkbook: "x", ResultLocation: "S!A1"}}
	for name, err := range map[string]error{
		"copy":      errorOf(w.content.Duplicate(ctx, demo, ada, wb.ID)),
		"placement": errorOf(w.content.UpdateReport(ctx, demo, ada, report.ID, placed)),
	} {
		if err != nil {
			w.Errorf("%s: %v", name, err)
		}
	}
}

func testReleasedContent(w *world) {
	first := w.apply(managed.Options{Object: sales}, definition())
	if err := w.content.Release(w.Context(), demo, sales, true); err != nil {
		w.Fatal(err)
	}
	if _, err := w.content.Update(w.Context(), demo, ada, first.Workbook.ID, rename("mine")); err != nil {
		w.Errorf("released: %v", err)
	}
	w.apply(managed.Options{Object: sales, Adopt: true}, definition())
	for range 2 { // the second time there is nothing to do
		if err := w.content.Release(w.Context(), demo, sales, false); err != nil {
			w.Fatal(err)
		}
	}
	if diff := cmp.Diff([]int{0, 0, 0, 0, 0, 0}, w.contentRows()[:6]); diff != "" {
		w.Errorf("rows (-want +got):\n%s", diff)
	}
}

func testManagedFolders(w *world) {
	of := managed.Options{Object: managed.Object{Kind: managed.Folder, Namespace: "demo", Name: "finance", UID: "u9", Generation: 1}}
	apply := func(of managed.Options, in folder.Definition) (*folder.Applied, error) {
		return w.folders.Apply(w.Context(), demo, ofGit, of, in)
	}
	mine := w.folder("Finance", Root)
	_, err := apply(of, folder.Definition{Name: "finance"})
	contenttest.Rejects(w, err, content.Conflict, "spec.adopt")
	of.Adopt = true
	got, err := apply(of, folder.Definition{Name: "finance"})
	if err != nil || got.Folder.ID != mine || got.Folder.Name != "finance" {
		w.Fatalf("%+v, %v", got, err)
	}
	rows := w.contentRows()
	w.folders.DB = failsWrites{w.store}
	again, err := apply(of, folder.Definition{Name: "finance"})
	w.folders.DB = w.store
	if err != nil || cmp.Diff(got, again) != "" || cmp.Diff(rows, w.contentRows()) != "" {
		w.Errorf("%+v, %v", again, err)
	}
	contenttest.Exec(w, w.store, "UPDATE folder SET name = 'Mine', name_key = 'mine'")
	if got, err = apply(of, folder.Definition{Name: "finance"}); err != nil || !got.Corrected || got.Folder.Name != "finance" {
		w.Errorf("%+v, %v", got, err)
	}
	ctx := w.Context()
	for name, err := range map[string]error{
		"update": errorOf(w.folders.Update(ctx, demo, ada, mine, folder.Update{Position: ptr.To(int64(4))})),
		"move":   errorOf(w.folders.Move(ctx, demo, ada, mine, w.folder("Other", Root))),
		"delete": w.folders.Delete(ctx, demo, ada, mine),
	} {
		w.Run(name, func(t *testing.T) { contenttest.Rejects(t, err, content.Conflict, "managed by Folder demo/finance") })
	}
	child := w.folder("child", mine) // users create content in it
	if got, err = apply(of, folder.Definition{Name: "Money", Position: ptr.To(int64(7))}); err != nil || got.Folder.ID != mine || got.Folder.Position != 7 || got.Corrected {
		w.Errorf("%+v, %v", got, err)
	}
	// Another object gets it only if that has no right to it.
	other := managed.Options{Object: managed.Object{Kind: managed.Folder, Namespace: "demo", Name: "other", UID: "u8", Generation: 1}, Adopt: true}
	_, err = apply(other, folder.Definition{Name: "money"})
	contenttest.Rejects(w, err, content.Conflict, "Folder demo/finance")
	other.Replace = always
	if got, err = apply(other, folder.Definition{Name: "money"}); err != nil || got.Folder.ID != mine || got.Folder.Name != "money" || got.Corrected {
		w.Errorf("%+v, %v", got, err)
	}
	_, err = apply(of, folder.Definition{Name: "Money"})
	contenttest.Rejects(w, err, content.Conflict, "Folder demo/other")
	of.Replace = always
	if got, err = apply(of, folder.Definition{Name: "Money"}); err != nil || got.Folder.ID != mine {
		w.Errorf("%+v, %v", got, err)
	}
	_, err = apply(of, folder.Definition{Name: "Money", ParentID: child})
	contenttest.Rejects(w, err, content.Invalid, "is to be moved")
	contenttest.Rejects(w, w.folders.Release(ctx, demo, of.Object, false), content.Invalid, "contains 1 folders")
	if err := errors.Join(w.folders.Delete(ctx, demo, ada, child), w.folders.Release(ctx, demo, of.Object, false), w.folders.Release(ctx, demo, of.Object, false)); err != nil {
		w.Error(err)
	}
	if n := contenttest.Count(w, w.store, "managed_content"); n != 0 {
		w.Errorf("%d rows of managed content", n)
	}
}
