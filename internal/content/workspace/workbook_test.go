package workspace

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"k8s.io/utils/ptr"

	"github.com/quoin-dev/quoin/internal/content"
	"github.com/quoin-dev/quoin/internal/content/access"
	"github.com/quoin-dev/quoin/internal/content/contenttest"
	"github.com/quoin-dev/quoin/internal/content/folder"
	"github.com/quoin-dev/quoin/internal/store"
)

func testWorkbooks(w *world) {
	begin, top := w.clock, w.folder("top", 0)
	inner := w.folder("inner", top)
	got, err := w.content.Create(w.Context(), demo, ada, Change{Name: ptr.To("Sales"), FolderID: &inner, Meta: object(`{"z":1,"a":"<&>"}`)})
	if err != nil {
		w.Fatal(err)
	}
	want := &Workbook{
		ID: 1, FolderID: inner, Name: "Sales", Meta: `{"a":"<&>","z":1}`, Version: 1, Level: access.Manage, Owner: ada.Owner,
		CreatedAt: begin.Add(time.Second), UpdatedAt: begin.Add(time.Second), CreatedBy: ada.Principal, UpdatedBy: ada.Principal,
	}
	if diff := cmp.Diff(want, got); diff != "" {
		w.Error(diff)
	}
	if path, err := w.content.Path(w.Context(), demo, inner); err != nil || fmt.Sprint(path) != "[{1 top} {2 inner}]" {
		w.Error(path, err)
	}
	got, err = w.content.Update(w.Context(), demo, bob, 1, Change{Name: ptr.To("Revenue"), FolderID: ptr.To(int64(0)), Slug: ptr.To(" Revenue "), Version: 1})
	want.Name, want.FolderID, want.Slug, want.Version, want.UpdatedBy, want.UpdatedAt = "Revenue", 0, "revenue", 2, bob.Principal, begin.Add(2*time.Second)
	if diff := cmp.Diff(want, got); diff != "" || err != nil {
		w.Error(diff, err)
	}
	// The same again is no change.
	got, err = w.content.Update(w.Context(), demo, ada, 1, Change{Name: ptr.To("Revenue"), Slug: ptr.To("revenue"), Meta: object(`{"a":"<&>","z":1}`)})
	if diff := cmp.Diff(want, got); diff != "" || err != nil {
		w.Error(diff, err)
	}
	contenttest.Rejects(w, errorOf(w.content.Update(w.Context(), demo, ada, 1, Change{Name: ptr.To("x"), Version: 1})), content.Conflict, "has version 2, not 1")
	got, err = w.content.Workbook(w.Context(), demo, ada, 1)
	if diff := cmp.Diff(want, got); diff != "" || err != nil {
		w.Error(diff, err)
	}
	if err := w.content.Delete(w.Context(), demo, ada, 1); err != nil {
		w.Error(err)
	}
	if untitled, err := w.content.Create(w.Context(), demo, ada, Change{}); err != nil || untitled.Name != Untitled || untitled.ID != 2 || untitled.Meta != "{}" {
		w.Errorf("%+v, %v", untitled, err)
	}
	for _, err := range []error{
		errorOf(w.content.Workbook(w.Context(), demo, ada, 1)), w.content.Delete(w.Context(), demo, ada, 1),
		errorOf(w.content.Update(w.Context(), demo, ada, 1, Change{})), errorOf(w.content.Duplicate(w.Context(), demo, ada, 1)),
	} {
		contenttest.Rejects(w, err, content.NotFound, "workbook 1 does not exist")
	}
}

func testInvalidWorkbooks(w *world) {
	wb := w.workbook("a")
	for name, c := range map[string]struct {
		in     Change
		reason content.Reason
		part   string
	}{
		"an empty name":     {rename(""), content.Invalid, "name: "},
		"a long name":       {rename(strings.Repeat("x", 256)), content.Invalid, "256 characters"},
		"an unknown folder": {Change{FolderID: ptr.To(int64(7))}, content.NotFound, "folderId: folder 7"},
		"a slug with /":     {Change{Slug: ptr.To("a/b")}, content.Invalid, `slug: "a/b"`},
		"a slug with - end": {Change{Slug: ptr.To("a-")}, content.Invalid, "at both ends"},
		"a long slug":       {Change{Slug: ptr.To(strings.Repeat("x", 129))}, content.Invalid, "1 to 128"},
		"a large meta":      {Change{Meta: Object{"x": strings.Repeat("x", MaxObject)}}, content.Invalid, "meta: it has 1048584 bytes; allowed: 1048576"},
		"a wrong draft":     {Change{Meta: object(`{"dashboardDraft":[]}`)}, content.Invalid, "meta.dashboardDraft: got array, want object"},
	} {
		w.Run(name, func(t *testing.T) {
			contenttest.Rejects(t, errorOf(w.content.Update(t.Context(), demo, ada, wb.ID, c.in)), c.reason, c.part)
			contenttest.Rejects(t, errorOf(w.content.Create(t.Context(), demo, ada, c.in)), c.reason, c.part)
		})
	}
	if n := contenttest.Count(w, w.store, "workbook"); n != 1 {
		w.Errorf("%d workbooks", n)
	}
}

func testSlugs(w *world) {
	first, second := w.workbook("first"), w.workbook("second")
	slug := Change{Slug: ptr.To("sales")}
	if _, err := w.content.Update(w.Context(), demo, ada, first.ID, slug); err != nil {
		w.Fatal(err)
	}
	contenttest.Rejects(w, errorOf(w.content.Update(w.Context(), demo, ada, second.ID, slug)), content.Conflict, `slug: "sales" is the slug of workbook 1`)
	contenttest.Rejects(w, errorOf(w.content.Create(w.Context(), demo, ada, slug)), content.Conflict, "workbook 1")
	if other, err := w.content.Create(w.Context(), scope("a1", "d2"), ada, slug); err != nil || other.Slug != "sales" {
		w.Error("a slug is unique in its deployment only:", err)
	}
	slug.Takeover = true
	if got, err := w.content.Update(w.Context(), demo, ada, second.ID, slug); err != nil || got.Slug != "sales" {
		w.Fatalf("%+v, %v", got, err)
	}
	if got, err := w.content.Workbook(w.Context(), demo, ada, first.ID); err != nil || got.Slug != "" || got.Version != 3 {
		w.Errorf("%+v, %v", got, err)
	}
	if got, err := w.content.Update(w.Context(), demo, ada, second.ID, Change{Slug: ptr.To("")}); err != nil || got.Slug != "" {
		w.Errorf("%+v, %v", got, err)
	}
}

func testUpsert(w *world) {
	in := Change{Meta: object(`{"a":1,"b":2}`)}
	first, err := w.content.Upsert(w.Context(), demo, ada, " Sales ", in)
	if err != nil || first.Slug != "sales" || first.Name != "sales" {
		w.Fatalf("%+v, %v", first, err)
	}
	for range 2 {
		again, err := w.content.Upsert(w.Context(), demo, bob, "SALES", in)
		if diff := cmp.Diff(first, again); diff != "" || err != nil {
			w.Error(diff, err)
		}
	}
	merged, err := w.content.Upsert(w.Context(), demo, bob, "sales", Change{Name: ptr.To("Sales"), Meta: object(`{"b":null,"c":{"d":[1]}}`)})
	if err != nil || merged.Meta != `{"a":1,"c":{"d":[1]}}` || merged.Name != "Sales" || merged.Owner != ada.Owner || merged.Version != 2 {
		w.Errorf("%+v, %v", merged, err)
	}
	contenttest.Rejects(w, errorOf(w.content.Upsert(w.Context(), demo, ada, "ä", in)), content.Invalid, "slug: ")
	if n := len(w.events()); n != 2 {
		w.Errorf("%d events, want 2", n)
	}
}

// testConcurrentUpserts upserts the same slug, while the workbook is deleted.
func testConcurrentUpserts(w *world) {
	w.content.Now = nil
	for round := range 5 {
		slug := fmt.Sprint("s", round)
		var all sync.WaitGroup
		for i := range 4 {
			all.Go(func() {
				if _, err := w.content.Upsert(context.Background(), demo, ada, slug, Change{Meta: Object{fmt.Sprint("k", i): i}}); err != nil {
					w.Error(err)
				}
			})
		}
		all.Wait()
		wb, err := w.content.Upsert(w.Context(), demo, ada, slug, Change{})
		if err != nil || wb.Meta != `{"k0":0,"k1":1,"k2":2,"k3":3}` || wb.Version != 4 {
			w.Errorf("%+v, %v", wb, err)
		}
	}
	if n := contenttest.Count(w, w.store, "workbook"); n != 5 {
		w.Errorf("%d workbooks, want 5", n)
	}
}

func testMeta(w *world) {
	wb, err := w.content.Create(w.Context(), demo, ada, Change{Meta: object(`{"a":{"x":1},"b":12345678901234567890,"n":null}`)})
	if err != nil || wb.Meta != `{"a":{"x":1},"b":12345678901234567890,"n":null}` {
		w.Fatalf("%+v, %v", wb, err)
	}
	for _, c := range []struct {
		merge    bool
		in, want string
	}{
		{true, `{"a":{"y":2}}`, `{"a":{"y":2},"b":12345678901234567890,"n":null}`},
		{true, `{"b":null,"n":"\u0000"}`, `{"a":{"y":2},"n":"\u0000"}`},
		{false, `{"c":true}`, `{"c":true}`},
		{false, `{}`, `{}`},
	} {
		wb, err = w.content.Update(w.Context(), demo, ada, wb.ID, Change{Meta: object(c.in), Merge: c.merge})
		if err != nil || wb.Meta != c.want {
			w.Errorf("%s: %+v, %v", c.in, wb, err)
		}
	}
}

func testDrafts(w *world) {
	wb, err := w.content.Create(w.Context(), demo, ada, Change{Meta: object(`{"other":1}`)})
	if err != nil || wb.Draft() != nil {
		w.Fatal(wb, err)
	}
	set := func(draft any) (*Workbook, error) {
		return w.content.Update(w.Context(), demo, ada, wb.ID, Change{Draft: draft, HasDraft: true})
	}
	text := `{"widgets":[{"type":"TEXT","position":{"x":0,"y":0,"w":6,"h":2}},{"id":"w1","type":"CHART","position":{"x":0,"y":0,"w":1,"h":1},"config":{"unknown":{"kept":1}}}],"future":true}`
	for range 2 {
		got, err := set(object(text))
		if err != nil || got.Version != 2 {
			w.Fatal(got, err)
		}
		const want = `{"future":true,"widgets":[{"id":"w2","position":{"h":2,"w":6,"x":0,"y":0},"type":"TEXT"},` +
			`{"config":{"unknown":{"kept":1}},"id":"w1","position":{"h":1,"w":1,"x":0,"y":0},"type":"CHART"}]}`
		if draft := got.Draft(); draft == nil || *draft != want {
			w.Error(got.Meta)
		}
		if got.Meta != `{"dashboardDraft":`+want+`,"other":1}` {
			w.Error(got.Meta)
		}
	}
	for draft, part := range map[string]string{
		`{"widgets":[{"type":"TEXT","position":{"x":0,"y":0,"w":"6","h":2}}]}`: "dashboardDraft.widgets[0].position.w: got string, want integer",
		`{"widgets":[{"type":"PIE","position":{"x":0,"y":0,"w":6,"h":2}}]}`:    "dashboardDraft.widgets[0].type: value must be one of 'CHART'",
		`{"widgets":[{"type":"TEXT"}]}`:                                        "dashboardDraft.widgets[0]: missing property 'position'",
		`{"widgets":[{"id":"a","type":"SPACER","position":{"x":0,"y":0,"w":1,"h":1}},{"id":"a","type":"SPACER","position":{"x":0,"y":0,"w":1,"h":1}}]}`: `widgets[1].id: "a" is the id of another`,
		`{"widgets":[{"type":"CHART","position":{"x":0,"y":0,"w":1,"h":1},"config":{"reportPublicId":"short"}}]}`:                                       "dashboardDraft.widgets[0].config.reportPublicId",
		`{"layout":{"cols":{"lg":"12"}}}`: "dashboardDraft.layout.cols.lg: got string",
		`{"app":{"files":{"a.js":1}}}`:    "dashboardDraft.app.files.a.js: got number",
		`{"widgets":[` + strings.TrimSuffix(strings.Repeat(`{"type":"SPACER","position":{"x":0,"y":0,"w":1,"h":1}},`, 201), ",") + `]}`: "got 201, want 200",
	} {
		contenttest.Rejects(w, errorOf(set(object(draft))), content.Invalid, part)
	}
	got, err := set(nil)
	if err != nil || got.Meta != `{"other":1}` || got.Draft() != nil {
		w.Error(got, err)
	}
}

func testPages(w *world) {
	in := w.folder("in", 0)
	for i := range 5 {
		wb := w.workbook(fmt.Sprint("w", i))
		if i%2 == 0 {
			if _, err := w.content.Update(w.Context(), demo, ada, wb.ID, Change{FolderID: &in}); err != nil {
				w.Fatal(err)
			}
		}
	}
	read := func(of *int64, limit int) (names []string, total int) {
		page := store.PageRequest{Limit: limit}
		for {
			list, err := w.content.Workbooks(w.Context(), demo, ada, of, page)
			if err != nil {
				w.Fatal(err)
			}
			for _, wb := range list.Items {
				names = append(names, wb.Name)
				if wb.FolderID == in && fmt.Sprint(list.Paths[in]) != "[{1 in}]" || wb.FolderID == 0 && list.Paths[0] != nil {
					w.Errorf("the path of %s is %v", wb.Name, list.Paths)
				}
			}
			if total = list.Total; !list.HasNext {
				return names, total
			}
			page.After = list.Last
		}
	}
	for _, c := range []struct {
		of   *int64
		want string
	}{{nil, "w0 w1 w2 w3 w4"}, {&in, "w0 w2 w4"}, {ptr.To(int64(0)), "w1 w3"}} {
		names, total := read(c.of, 2)
		if got := strings.Join(names, " "); got != c.want || total != len(names) {
			w.Errorf("%v: %s, %d", c.of, got, total)
		}
	}
	contenttest.Rejects(w, errorOf(w.content.Workbooks(w.Context(), demo, ada, ptr.To(int64(9)), store.PageRequest{Limit: 1})), content.NotFound, "folderId: folder 9")
	// Pages end before the opaque parts are too large together.
	large := Object{"x": strings.Repeat("x", MaxObject-100)}
	for i := range 12 {
		if _, err := w.content.Create(w.Context(), demo, ada, Change{Name: ptr.To(fmt.Sprint("large", i)), Meta: large}); err != nil {
			w.Fatal(err)
		}
	}
	list, err := w.content.Workbooks(w.Context(), demo, ada, nil, store.PageRequest{Limit: 100})
	if err != nil || len(list.Items) != 5+8 || !list.HasNext || list.Total != 17 {
		w.Error(len(list.Items), list.HasNext, list.Total, err)
	}
	if names, _ := read(nil, 1000); len(names) != 17 {
		w.Error(names)
	}
}

func testCopies(w *world) {
	in := w.folder("in", 0)
	source, err := w.content.Create(w.Context(), demo, ada, Change{Name: ptr.To("a"), Slug: ptr.To("a"), FolderID: &in, Meta: object(`{"x":1}`)})
	if err != nil {
		w.Fatal(err)
	}
	for _, name := range []string{"Copy of a", "Copy of a"} {
		got, err := w.content.Duplicate(w.Context(), demo, bob, source.ID)
		if err != nil || got.Name != name || got.Slug != "" || got.FolderID != in || got.Meta != source.Meta || got.Owner != bob.Owner || got.Version != 1 {
			w.Errorf("%+v, %v", got, err)
		}
	}
	long := w.workbook(strings.Repeat("é", content.MaxName))
	if got, err := w.content.Duplicate(w.Context(), demo, bob, long.ID); err != nil || got.Name != "Copy of "+strings.Repeat("é", content.MaxName-8) {
		w.Errorf("%+v, %v", got, err)
	}
}

func testDeletedFolder(w *world) {
	if maxDepth != folder.MaxDepth || Root != folder.Root {
		w.Error("the constants are not those of folders")
	}
	in, other := w.folder("in", 0), w.folder("other", 0)
	var ids []int64
	for _, of := range []int64{in, other} {
		wb, err := w.content.Create(w.Context(), demo, ada, Change{FolderID: &of})
		if err != nil {
			w.Fatal(err)
		}
		ids = append(ids, wb.ID)
	}
	w.failing = errors.New("the event cannot be stored")
	if err := w.folders.Delete(w.Context(), demo, ada, in); !errors.Is(err, w.failing) {
		w.Error(err)
	}
	if wb, err := w.content.Workbook(w.Context(), demo, ada, ids[0]); err != nil || wb.FolderID != in {
		w.Errorf("%+v, %v", wb, err)
	}
	w.failing = nil
	if err := w.folders.Delete(w.Context(), demo, ada, in); err != nil {
		w.Fatal(err)
	}
	for i, want := range []int64{0, other} {
		if wb, err := w.content.Workbook(w.Context(), demo, ada, ids[i]); err != nil || wb.FolderID != want {
			w.Errorf("%+v, %v", wb, err)
		}
	}
	// The root has a limit as other folders have.
	contenttest.Exec(w, w.store, fmt.Sprintf(`WITH RECURSIVE n (i) AS (SELECT 1000 UNION ALL SELECT i + 1 FROM n WHERE i < %d)
		INSERT INTO workbook (account_uid, deployment_uid, id, folder_id, owner, name, slug, meta, version, created_at, created_by, updated_at, updated_by)
		SELECT 'a1', 'd1', i, 0, '', 'x', '', '{}', 1, 0, '', 0, '' FROM n`, 1000+MaxInFolder-2))
	contenttest.Rejects(w, w.folders.Delete(w.Context(), demo, ada, other), content.Conflict, "contains 1 workbooks, which would move to the root, and there are 10000 already")
	contenttest.Exec(w, w.store, "DELETE FROM workbook WHERE id = 1000")
	if err := w.folders.Delete(w.Context(), demo, ada, other); err != nil {
		w.Error(err)
	}
}

func testTenants(w *world) {
	in, mine := w.folder("in", 0), w.workbook("a")
	for _, other := range []content.Scope{scope("a1", "d2"), scope("a2", "d1"), scope("a2", "d3")} {
		list, err := w.content.Workbooks(w.Context(), other, ada, nil, store.PageRequest{Limit: 10})
		if err != nil || list.Total != 0 || len(list.Items) != 0 {
			w.Errorf("%+v lists %+v, %v", other, list, err)
		}
		for _, err := range []error{
			w.content.Delete(w.Context(), other, ada, mine.ID), errorOf(w.content.Workbook(w.Context(), other, ada, mine.ID)),
			errorOf(w.content.Update(w.Context(), other, ada, mine.ID, rename("x"))), errorOf(w.content.Duplicate(w.Context(), other, ada, mine.ID)),
			errorOf(w.content.Create(w.Context(), other, ada, Change{FolderID: &in})),
		} {
			contenttest.Rejects(w, err, content.NotFound, "does not exist")
		}
	}
}

func testEvents(w *world) {
	wb := w.workbook("a")
	if _, err := w.content.Update(w.Context(), demo, ada, wb.ID, Change{Name: ptr.To("b"), Meta: object(`{"secret":"x"}`)}); err != nil {
		w.Fatal(err)
	}
	if err := w.content.Delete(w.Context(), demo, ada, wb.ID); err != nil {
		w.Fatal(err)
	}
	events := strings.Join(w.events(), "\n")
	for _, want := range []string{"Created workbook Workbook/a 1 ", "Updated workbook Workbook/b 1 ", `"name":{"after":"b","before":"a"}`, "Deleted workbook Workbook/b 1 "} {
		if !strings.Contains(events, want) {
			w.Errorf("no %s in %s", want, events)
		}
	}
	if strings.Contains(events, "secret") {
		w.Errorf("the events have the meta: %s", events)
	}
	wb = w.workbook("c")
	w.failing = errors.New("the event cannot be stored")
	for _, err := range []error{
		w.content.Delete(w.Context(), demo, ada, wb.ID), errorOf(w.content.Update(w.Context(), demo, ada, wb.ID, rename("x"))),
		errorOf(w.content.Create(w.Context(), demo, ada, Change{})), errorOf(w.content.Upsert(w.Context(), demo, ada, "s", Change{})),
		errorOf(w.content.Duplicate(w.Context(), demo, ada, wb.ID)),
	} {
		if !errors.Is(err, w.failing) {
			w.Error(err)
		}
	}
	list, err := w.content.Workbooks(w.Context(), demo, ada, nil, store.PageRequest{Limit: 10})
	if err != nil || len(list.Items) != 1 || list.Items[0].Name != "c" {
		w.Errorf("%+v, %v", list, err)
	}
}

func FuzzDraft(f *testing.F) {
	f.Add(`{"widgets":[{"type":"TEXT","position":{"x":0,"y":0,"w":6,"h":2}},{"id":"w1","type":"SPACER","position":{"x":0,"y":0,"w":1,"h":1}}]}`)
	f.Add(`{"widgets":[null],"layout":{"margin":[1,2,3]}}`)
	f.Fuzz(func(t *testing.T, text string) {
		draft, err := Decode([]byte(text))
		if err != nil {
			return
		}
		if err := checkDraft("dashboardDraft", draft); err != nil {
			var rejected *content.Error
			if !errors.As(err, &rejected) || !strings.HasPrefix(rejected.Message, "dashboardDraft") {
				t.Fatal(err)
			}
			return
		}
		first, err := encode("dashboardDraft", draft)
		if err != nil {
			return
		}
		again, err := Decode([]byte(first))
		if err != nil {
			t.Fatal(err)
		}
		if err := checkDraft("dashboardDraft", again); err != nil {
			t.Fatalf("%s is not valid again: %v", first, err)
		}
		if second, _ := encode("dashboardDraft", again); second != first {
			t.Errorf("%s became %s", first, second)
		}
	})
}
