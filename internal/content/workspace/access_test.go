package workspace

import (
	"fmt"
	"strings"

	"k8s.io/utils/ptr"

	"github.com/quoin-dev/quoin/internal/content"
	"github.com/quoin-dev/quoin/internal/content/access"
	"github.com/quoin-dev/quoin/internal/content/contenttest"
	"github.com/quoin-dev/quoin/internal/store"
)

// eve is a user who has what was granted.
var eve = Caller{
	Principal: "ApiKey:eve-key", Owner: access.User("eve"),
	Access: access.Subject{Max: access.Manage, Owner: access.User("eve"), Groups: []string{access.Group("sales")}},
}

// grant grants a level on an object.
func (w *world) grant(kind access.Kind, id int64, subject string, level access.Level) {
	w.Helper()
	err := w.store.Tx(w.Context(), func(tx *store.Tx) error {
		_, err := access.Set(w.Context(), tx, demo, access.Grant{Object: access.Object{Kind: kind, ID: id}, Subject: subject, Level: level})
		return err
	})
	if err != nil {
		w.Fatal(err)
	}
}

// seen returns what a caller sees as text: workbooks and reports with their levels, folders with their reports.
func (w *world) seen(by Caller) string {
	w.Helper()
	var out []string
	for page := (store.PageRequest{Limit: 1}); ; { // pages of one, to compare keys and counts
		list, err := w.content.Workbooks(w.Context(), demo, by, nil, page)
		if err != nil {
			w.Fatal(err)
		}
		for _, wb := range list.Items {
			out = append(out, fmt.Sprint(wb.Name, " ", wb.Level, "/", list.Total))
		}
		if page.After = list.Last; !list.HasNext {
			break
		}
	}
	for _, order := range []string{ByID, ByName, ByUpdatedAt} {
		list, err := w.content.Reports(w.Context(), demo, by, ReportFilter{Search: "r", Order: order, Descending: true}, store.PageRequest{Limit: 100})
		if err != nil || len(list.Items) != list.Total {
			w.Fatal(list, err)
		}
		for _, r := range list.Items {
			if order == ByID {
				out = append(out, fmt.Sprint(r.Name, " ", r.Level))
			}
		}
	}
	folders, err := w.content.ReportFolders(w.Context(), demo, by, store.PageRequest{Limit: 100})
	if err != nil {
		w.Fatal(err)
	}
	for _, f := range folders.Items {
		out = append(out, fmt.Sprint(f.Name, ":", f.Reports))
	}
	return strings.Join(out, ", ")
}

func testAccess(w *world) {
	top := w.folder("top", 0)
	in := w.folder("in", top)
	create := func(name string, folder int64) *Workbook {
		wb, err := w.content.Create(w.Context(), demo, ada, Change{Name: &name, FolderID: &folder})
		if err != nil {
			w.Fatal(err)
		}
		return wb
	}
	a, b := create("a", in), create("b", top)
	inner := w.report(ReportChange{Name: ptr.To("r inner"), WorkbookID: &b.ID})
	beside := w.report(ReportChange{Name: ptr.To("r beside"), FolderID: &in})
	for _, c := range []struct {
		grant func()
		want  string
	}{
		{func() {}, ""},
		{func() { w.grant(access.Report, inner.ID, access.Group("sales"), access.View) }, "r inner view, top:0"},
		{func() { w.grant(access.Folder, in, eve.Owner, access.Edit) }, "a edit/1, r beside edit, r inner view, top:0, in:1"},
		{func() { w.grant(access.Workbook, a.ID, access.Everyone, access.View) }, "a view/1, r beside edit, r inner view, top:0, in:1"},
		{func() { w.grant(access.Workbook, b.ID, eve.Owner, access.Manage) }, "a view/2, b manage/2, r beside edit, r inner view, top:0, in:1"},
		{func() { w.grant(access.Folder, in, eve.Owner, access.None) }, "a view/2, b manage/2, r inner view, top:0, in:0"},
	} {
		c.grant()
		if got := w.seen(eve); got != c.want {
			w.Errorf("%s, want %s", got, c.want)
		}
	}
	limited := eve
	limited.Access.Max = access.View
	if got := w.seen(limited); got != "a view/2, b view/2, r inner view, top:0, in:0" {
		w.Error(got)
	}
	contenttest.Rejects(w, errorOf(w.content.Report(w.Context(), demo, eve, beside.ID)), content.NotFound, "does not exist")
	contenttest.Rejects(w, errorOf(w.content.Workbooks(w.Context(), scope("a1", "d2"), eve, &in, store.PageRequest{Limit: 1})), content.NotFound, "folderId: ")
	contenttest.Rejects(w, w.content.Delete(w.Context(), demo, eve, a.ID), content.Forbidden, "the level manage is needed; the caller has view")
	contenttest.Rejects(w, w.content.DeleteReport(w.Context(), demo, eve, inner.ID), content.Forbidden, "the level manage")
	manager := eve
	manager.ManagesReports = true
	contenttest.Rejects(w, w.content.DeleteReport(w.Context(), demo, manager, inner.ID), content.Forbidden, "the level edit is needed; the caller has view")
	w.grant(access.Report, inner.ID, eve.Owner, access.Edit)
	own, err := w.content.Create(w.Context(), demo, eve, Change{})
	if err != nil {
		w.Fatal(err)
	}
	move := ReportChange{WorkbookID: &own.ID}
	contenttest.Rejects(w, errorOf(w.content.UpdateReport(w.Context(), demo, eve, inner.ID, move)), content.Forbidden, "the level manage is needed; the caller has edit")
	contenttest.Rejects(w, errorOf(w.content.UpsertReport(w.Context(), demo, eve, inner.PublicID, move)), content.Forbidden, "the level manage")
	if err := errorOf(w.content.UpdateReport(w.Context(), demo, manager, inner.ID, move)); err != nil {
		w.Error(err)
	}
	if err := w.content.DeleteReport(w.Context(), demo, manager, inner.ID); err != nil {
		w.Error(err)
	}
	// Deleted objects leave no grants.
	if err := w.content.Delete(w.Context(), demo, eve, b.ID); err != nil {
		w.Error(err)
	}
	if n := contenttest.Count(w, w.store, "access_grant"); n != 1 {
		w.Errorf("%d grants are left, want that on a", n)
	}
}

// testCopiesOfViewers: a caller who does not see the draft gets the published dashboard as the draft, at the root.
func testCopiesOfViewers(w *world) {
	in := w.folder("in", 0)
	draft := func(title string) Change {
		return Change{FolderID: &in, Meta: object(fmt.Sprintf(`{"kept":1,"dashboardDraft":{"title":%q}}`, title))}
	}
	wb, err := w.content.Create(w.Context(), demo, ada, draft("published"))
	if err != nil {
		w.Fatal(err)
	}
	w.grant(access.Folder, in, eve.Owner, access.View)
	copied := func() *Workbook {
		c, err := w.content.Duplicate(w.Context(), demo, eve, wb.ID)
		if err != nil {
			w.Fatal(err)
		}
		return c
	}
	if c := copied(); c.Meta != `{"kept":1}` || c.FolderID != Root || c.Level != access.Manage {
		w.Errorf("%+v", c)
	}
	if _, err := w.content.Publish(w.Context(), demo, ada, wb.ID, Publication{}); err != nil {
		w.Fatal(err)
	}
	if _, err := w.content.Update(w.Context(), demo, ada, wb.ID, draft("secret")); err != nil {
		w.Fatal(err)
	}
	if c := copied(); !strings.Contains(c.Meta, `"published"`) || strings.Contains(c.Meta, "secret") {
		w.Errorf("%+v", c)
	}
	w.grant(access.Folder, in, eve.Owner, access.Edit)
	if c := copied(); !strings.Contains(c.Meta, "secret") || c.FolderID != in {
		w.Errorf("%+v", c)
	}
}
