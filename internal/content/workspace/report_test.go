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
	"github.com/quoin-dev/quoin/internal/store"
)

const firstID = "AAAAAAAAAAA1"

// report creates a report.
func (w *world) report(in ReportChange) *Report {
	w.Helper()
	r, err := w.content.CreateReport(w.Context(), demo, ada, in)
	if err != nil {
		w.Fatal(err)
	}
	return r
}

func testReports(w *world) {
	in, wb := w.folder("in", 0), w.workbook("book")
	begin := w.clock
	got := w.report(ReportChange{
		PublicID: ptr.To(firstID), Name: ptr.To("Orders"), Title: ptr.To("All"), FolderID: &in, JSONQuery: ptr.To(`{"b":1,"a":2}`), SQLQuery: ptr.To("SELECT 1"),
		PivotItems: object(`{"rows":["a"]}`), HasPivotItems: true, Meta: object(`{"z":1,"kind":"table"}`), HasMeta: true, Source: "D3",
	})
	want := &Report{
		ID: 1, FolderID: in, PathID: in, PublicID: firstID, Name: "Orders", Title: "All", JSONQuery: `{"b":1,"a":2}`, SQLQuery: "SELECT 1",
		PivotItems: `{"rows":["a"]}`, Meta: `{"kind":"table","z":1}`, Source: "D3", Checksum: got.Checksum, Version: 1, Level: access.Manage, Owner: ada.Owner, RefreshedBy: ada.Owner,
		CreatedAt: begin.Add(time.Second), UpdatedAt: begin.Add(time.Second), CreatedBy: ada.Principal, UpdatedBy: ada.Principal,
	}
	if diff := cmp.Diff(want, got); diff != "" || len(got.Checksum) != 64 {
		w.Error(diff)
	}
	// The same again, with the query in another notation, is a change of the text but not of the checksum.
	again, err := w.content.UpdateReport(w.Context(), demo, bob, 1, ReportChange{Name: ptr.To("Orders"), SQLQuery: ptr.To("SELECT 1")})
	if diff := cmp.Diff(want, again); diff != "" || err != nil {
		w.Error(diff, err)
	}
	again, err = w.content.UpdateReport(w.Context(), demo, bob, 1, ReportChange{JSONQuery: ptr.To(`{ "a": 2, "b": 1 }`), Version: 1})
	if err != nil || again.Checksum != want.Checksum || again.Version != 2 {
		w.Errorf("%+v, %v", again, err)
	}
	// It is in a workbook or in a folder.
	moved, err := w.content.UpdateReport(w.Context(), demo, bob, 1, ReportChange{WorkbookID: &wb.ID, FolderID: ptr.To(Root), SQLQuery: ptr.To("")})
	if err != nil || moved.WorkbookID != wb.ID || moved.FolderID != Root || moved.PathID != Root || moved.Checksum == want.Checksum {
		w.Errorf("%+v, %v", moved, err)
	}
	if _, err := w.content.Update(w.Context(), demo, ada, wb.ID, Change{FolderID: &in}); err != nil {
		w.Fatal(err)
	}
	stored, err := w.content.Report(w.Context(), demo, ada, 1)
	if err != nil || stored.PathID != in || stored.FolderID != Root {
		w.Errorf("%+v, %v", stored, err)
	}
	for _, c := range []struct {
		in                   ReportChange
		wantFolder, workbook int64
	}{
		{ReportChange{FolderID: ptr.To(Root)}, Root, wb.ID}, {ReportChange{FolderID: &in}, in, 0}, {ReportChange{WorkbookID: ptr.To(int64(0))}, in, 0},
		{ReportChange{FolderID: ptr.To(Root)}, Root, 0}, {ReportChange{WorkbookID: &wb.ID}, Root, wb.ID}, {ReportChange{WorkbookID: ptr.To(int64(0))}, Root, 0},
	} {
		got, err := w.content.UpdateReport(w.Context(), demo, bob, 1, c.in)
		if err != nil || got.FolderID != c.wantFolder || got.WorkbookID != c.workbook {
			w.Errorf("%+v: %+v, %v", c.in, got, err)
		}
	}
	if err := w.content.DeleteReport(w.Context(), demo, ada, 1); err != nil {
		w.Error(err)
	}
	for _, err := range []error{
		errorOf(w.content.Report(w.Context(), demo, ada, 1)), w.content.DeleteReport(w.Context(), demo, ada, 1), errorOf(w.content.Connect(w.Context(), demo, ada, 1, PlacementChange{})),
		errorOf(w.content.UpdateReport(w.Context(), demo, ada, 1, ReportChange{})), errorOf(w.content.Refresh(w.Context(), demo, ada, 1, Address{}, nil)),
		errorOf(w.content.Disconnect(w.Context(), demo, ada, 1, Address{})),
	} {
		contenttest.Rejects(w, err, content.NotFound, "report 1 does not exist")
	}
	if random := w.report(ReportChange{}); random.Name != UntitledReport || checkPublicID(random.PublicID) != nil || random.ID != 2 {
		w.Errorf("%+v", random)
	}
}

func testInvalidReports(w *world) {
	r, wb := w.report(ReportChange{PublicID: ptr.To(firstID)}), w.workbook("book")
	other := scope("a1", "d2")
	other.Deployment.Name = "other"
	elsewhere, err := w.content.CreateReport(w.Context(), other, ada, ReportChange{PublicID: ptr.To("BBBBBBBBBBB1")})
	if err != nil {
		w.Fatal(err)
	}
	meta := func(text string) ReportChange { return ReportChange{Meta: object(text), HasMeta: true} }
	for name, c := range map[string]struct {
		in     ReportChange
		reason content.Reason
		part   string
	}{
		"an empty name":        {ReportChange{Name: ptr.To("")}, content.Invalid, "name: "},
		"a long title":         {ReportChange{Title: ptr.To(strings.Repeat("x", 256))}, content.Invalid, "title: it has 256 characters"},
		"a NUL in a title":     {ReportChange{Title: ptr.To("a\x00b")}, content.Invalid, "title: it has a NUL"},
		"a NUL in SQL":         {ReportChange{SQLQuery: ptr.To("SELECT '\x00'")}, content.Invalid, "sqlQuery: it has a NUL"},
		"a NUL in a placement": {ReportChange{Placement: &PlacementChange{ExternalWorkbook: "b", ResultLocation: "A\x00"}}, content.Invalid, "resultLocation: it has a NUL"},
		"an unknown folder":    {ReportChange{FolderID: ptr.To(int64(7))}, content.NotFound, "folderId: folder 7"},
		"an unknown workbook":  {ReportChange{WorkbookID: ptr.To(int64(7))}, content.NotFound, "workbookId: workbook 7"},
		"both places":          {ReportChange{WorkbookID: &wb.ID, FolderID: ptr.To(int64(1))}, content.Invalid, "folderId: 1 goes with workbookId 1"},
		"no JSON":              {ReportChange{JSONQuery: ptr.To(`{"a"`)}, content.Invalid, "jsonQuery: "},
		"two queries":          {ReportChange{JSONQuery: ptr.To(`{} {}`)}, content.Invalid, "jsonQuery: there is text after"},
		"a number as query":    {ReportChange{JSONQuery: ptr.To(`[1]`)}, content.Invalid, "jsonQuery: [0] is no object"},
		"a kind":               {meta(`{"kind":"pie"}`), content.Invalid, "meta.kind: value must be one of 'vega'"},
		"a place in the meta":  {meta(`{"periodComparisons":[{"measure":"m","timeDimension":"t","offset":{"amount":"1","unit":"day"}}]}`), content.Invalid, "meta.periodComparisons[0].offset.amount"},
		"data from elsewhere":  {meta(`{"spec":{"layer":[{"data":{"url":"https://example.com"}}]}}`), content.Invalid, "meta.spec.layer[0].data.url"},
		"half of a placement":  {ReportChange{Placement: &PlacementChange{ResultLocation: "A1"}}, content.Invalid, "externalWorkbookId: \"\" goes with"},
		"an unknown placement": {ReportChange{Placement: &PlacementChange{ID: 99, ExternalWorkbook: "b", ResultLocation: "A1"}}, content.NotFound, "placementId"},
	} {
		w.Run(name, func(t *testing.T) {
			contenttest.Rejects(t, errorOf(w.content.UpdateReport(t.Context(), demo, ada, r.ID, c.in)), c.reason, c.part)
			contenttest.Rejects(t, errorOf(w.content.CreateReport(t.Context(), demo, ada, c.in)), c.reason, c.part)
		})
	}
	for id, c := range map[string]struct {
		err    error
		reason content.Reason
		part   string
	}{
		"short":        {errorOf(w.content.UpsertReport(w.Context(), demo, ada, "short", ReportChange{})), content.Invalid, `publicId: "short"`},
		"changed":      {errorOf(w.content.UpdateReport(w.Context(), demo, ada, r.ID, ReportChange{PublicID: ptr.To("AAAAAAAAAAA2")})), content.Invalid, "cannot be changed"},
		"another":      {errorOf(w.content.UpsertReport(w.Context(), demo, ada, firstID, ReportChange{PublicID: ptr.To("AAAAAAAAAAA2")})), content.Invalid, "the id in the path"},
		"taken":        {errorOf(w.content.CreateReport(w.Context(), demo, ada, ReportChange{PublicID: ptr.To(firstID)})), content.Conflict, "is the id of report 1"},
		"elsewhere":    {errorOf(w.content.UpsertReport(w.Context(), demo, ada, elsewhere.PublicID, ReportChange{})), content.Conflict, "of another deployment"},
		"the version":  {errorOf(w.content.UpdateReport(w.Context(), demo, ada, r.ID, ReportChange{Version: 3})), content.Conflict, "has version 1, not 3"},
		"NUL search":   {errorOf(w.content.Reports(w.Context(), demo, ada, ReportFilter{Search: "\x00"}, store.PageRequest{Limit: 1})), content.Invalid, "search: it has a NUL"},
		"no UTF-8":     {errorOf(w.content.Reports(w.Context(), demo, ada, ReportFilter{ExternalWorkbook: "\xff"}, store.PageRequest{Limit: 1})), content.Invalid, "externalWorkbookId: "},
		"NUL feed":     {errorOf(w.content.Feed(w.Context(), demo, FeedRequest{By: ada, Types: []ItemType{ReportItem}, Search: "\x00", Order: ByName, Limit: 1})), content.Invalid, "search: it has a NUL"},
		"wrong filter": {errorOf(w.content.Reports(w.Context(), demo, ada, ReportFilter{WorkbookID: ptr.To(int64(9))}, store.PageRequest{Limit: 1})), content.NotFound, "workbookId: workbook 9"},
	} {
		w.Run(id, func(t *testing.T) { contenttest.Rejects(t, c.err, c.reason, c.part) })
	}
	if n, events := contenttest.Count(w, w.store, "report"), len(w.events()); n != 2 || events != 3 {
		w.Errorf("%d reports, %d events", n, events)
	}
	if n := contenttest.Count(w, w.store, "report_placement"); n != 0 {
		w.Errorf("%d placements", n)
	}
}

func testUpsertReports(w *world) {
	in := ReportChange{Name: ptr.To("Orders"), SQLQuery: ptr.To("SELECT 1"), Source: "EXCEL", Placement: &PlacementChange{ExternalWorkbook: "b", ResultLocation: "S!A1"}}
	first, err := w.content.UpsertReport(w.Context(), demo, ada, firstID, in)
	if err != nil || first.PublicID != firstID {
		w.Fatalf("%+v, %v", first, err)
	}
	in.Source = "D3"
	again, err := w.content.UpsertReport(w.Context(), demo, bob, firstID, in)
	if diff := cmp.Diff(first, again); diff != "" || err != nil {
		w.Error(diff, err)
	}
	if events := w.events(); len(events) != 2 {
		w.Error(events)
	}
	// Of concurrent requests, one creates it.
	w.content.Now = nil
	var all sync.WaitGroup
	for i := range 8 {
		all.Go(func() {
			if _, err := w.content.UpsertReport(context.Background(), demo, ada, "CCCCCCCCCCC1", ReportChange{Title: ptr.To(fmt.Sprint(i))}); err != nil {
				w.Error(err)
			}
		})
	}
	all.Wait()
	if r, err := w.content.UpsertReport(w.Context(), demo, ada, "CCCCCCCCCCC1", ReportChange{}); err != nil || r.Version != 8 || contenttest.Count(w, w.store, "report") != 2 {
		w.Errorf("%+v, %v", r, err)
	}
}

func testPlacements(w *world) {
	r := w.report(ReportChange{SQLQuery: ptr.To("SELECT 1")})
	connect, placements := w.placementsOf(r)
	at := PlacementChange{ExternalWorkbook: "book", ResultLocation: "'It''s'!$B$2", Host: ptr.To("EXCEL"), ResultChecksum: object(`{"v":1,"chunks":[]}`)}
	connect(at)
	first := placements()[0]
	want := Placement{
		ID: 1, ReportID: r.ID, ExternalWorkbook: "book", ResultLocation: at.ResultLocation, QueryChecksum: r.Checksum, PlacedAt: first.PlacedAt,
		RefreshedAt: first.PlacedAt, PlacedBy: bob.Owner, RefreshedBy: bob.Owner,
		Details: Details{Host: "EXCEL", SheetName: "It's", AnchorCell: "B2", ResultChecksum: `{"chunks":[],"v":1}`},
	}
	if diff := cmp.Diff(want, first); diff != "" {
		w.Error(diff)
	}
	connect(at)
	if diff := cmp.Diff([]Placement{first}, placements()); diff != "" {
		w.Error("the same again:", diff)
	}
	if _, err := w.content.UpdateReport(w.Context(), demo, ada, r.ID, ReportChange{SQLQuery: ptr.To("SELECT 2")}); err != nil {
		w.Fatal(err)
	}
	// A result that has moved is not read again.
	connect(PlacementChange{ID: 1, ExternalWorkbook: "book", ResultLocation: "Q2!C3", AddressOnly: true})
	if p := placements(); len(p) != 1 || p[0].SheetName != "Q2" || p[0].QueryChecksum != r.Checksum || p[0].RefreshedAt != first.RefreshedAt || p[0].Host != "EXCEL" {
		w.Errorf("%+v", p)
	}
	connect(PlacementChange{ExternalWorkbook: "other", ResultLocation: "Q2!C3", AddressOnly: true})
	contenttest.Rejects(w, errorOf(w.content.Connect(w.Context(), demo, bob, r.ID, PlacementChange{ID: 1, ExternalWorkbook: "other", ResultLocation: "Q2!C3"})), content.Conflict, "that of placement 2")
	if p := placements()[1]; p.QueryChecksum != "" || !p.RefreshedAt.IsZero() {
		w.Errorf("%+v", p)
	}
	// A refresh without an address concerns the report, one with an address its placement.
	got, err := w.content.Refresh(w.Context(), demo, ada, r.ID, Address{}, nil)
	if p := placements(); err != nil || got.RefreshedBy != ada.Owner || p[0].QueryChecksum == got.Checksum || p[1].QueryChecksum != "" {
		w.Errorf("%+v, %+v, %v", got, p, err)
	}
	got, err = w.content.Refresh(w.Context(), demo, ada, r.ID, Address{ExternalWorkbook: "other", ResultLocation: "Q2!C3"}, object(`{"v":2,"chunks":[]}`))
	if p := placements(); err != nil || p[0].QueryChecksum == got.Checksum || p[1].QueryChecksum != got.Checksum || p[1].ResultChecksum != `{"chunks":[],"v":2}` {
		w.Errorf("%+v, %+v, %v", got, p, err)
	}
	contenttest.Rejects(w, errorOf(w.content.Refresh(w.Context(), demo, ada, r.ID, Address{SheetName: "no", AnchorCell: "A1"}, nil)), content.NotFound, "no placement at this address")
	w.disconnect(r, at)
}

// placementsOf returns functions that connect a report and return its placements.
func (w *world) placementsOf(r *Report) (connect func(in PlacementChange), placements func() []Placement) {
	connect = func(in PlacementChange) {
		w.Helper()
		if _, err := w.content.Connect(w.Context(), demo, bob, r.ID, in); err != nil {
			w.Fatal(err)
		}
	}
	return connect, func() []Placement {
		w.Helper()
		all, err := w.content.Placements(w.Context(), demo, r.ID)
		if err != nil {
			w.Fatal(err)
		}
		return all
	}
}

// disconnect removes the placements 1 and 2 of a report, which have the same cell, and deletes it with another one.
func (w *world) disconnect(r *Report, last PlacementChange) {
	w.Helper()
	connect, placements := w.placementsOf(r)
	// Exactly one is removed; what does not exist is none.
	contenttest.Rejects(w, errorOf(w.content.Disconnect(w.Context(), demo, ada, r.ID, Address{SheetName: "Q2", AnchorCell: "C3"})), content.Conflict, "placements 1 and 2")
	for _, none := range []Address{{}, {ExternalWorkbook: "book"}, {SheetName: "Q2"}, {ID: 9}, {ID: -1}, {ResultLocation: "C3"}, {SheetName: "Q2", AnchorCell: "C3", SheetID: "7", ExternalWorkbook: "book"}} {
		if _, err := w.content.Disconnect(w.Context(), demo, ada, r.ID, none); err != nil || len(placements()) != 2 {
			w.Errorf("%+v: %v", none, err)
		}
	}
	for i, one := range []Address{{ExternalWorkbook: "book", ResultLocation: "Q2!C3"}, {ID: 2}} {
		if _, err := w.content.Disconnect(w.Context(), demo, ada, r.ID, one); err != nil || len(placements()) != 1-i {
			w.Errorf("%+v: %v", one, err)
		}
	}
	connect(last)
	if err := w.content.DeleteReport(w.Context(), demo, ada, r.ID); err != nil || contenttest.Count(w, w.store, "report_placement") != 0 {
		w.Error(err)
	}
}

func testReportLists(w *world) {
	in, wb := w.folder("in", 0), w.workbook("book")
	for i, name := range []string{"b_1", "A%", "c", "Ä"} {
		c := ReportChange{Name: &name}
		switch i {
		case 0:
			c.FolderID = &in
		case 1:
			c.WorkbookID = &wb.ID
		case 2:
			c.Placement = &PlacementChange{ExternalWorkbook: "x", ResultLocation: "S!A1"}
		}
		w.report(c)
	}
	if _, err := w.content.UpdateReport(w.Context(), demo, ada, 1, ReportChange{Title: ptr.To("new")}); err != nil {
		w.Fatal(err)
	}
	for _, c := range []struct {
		f    ReportFilter
		want string
	}{
		{ReportFilter{}, "b_1 A% c Ä"}, {ReportFilter{Descending: true}, "Ä c A% b_1"}, {ReportFilter{Order: ByName}, "A% b_1 c Ä"},
		{ReportFilter{Order: ByName, Descending: true}, "Ä c b_1 A%"}, {ReportFilter{Order: ByCreatedAt}, "b_1 A% c Ä"},
		{ReportFilter{Order: ByUpdatedAt}, "A% c Ä b_1"}, {ReportFilter{FolderID: &in}, "b_1"}, {ReportFilter{FolderID: ptr.To(Root)}, "c Ä"},
		{ReportFilter{WorkbookID: &wb.ID}, "A%"}, {ReportFilter{ExternalWorkbook: "x"}, "c"}, {ReportFilter{Search: "ä"}, "Ä"}, {ReportFilter{Search: "%"}, "A%"},
		{ReportFilter{Search: "_"}, "b_1"}, {ReportFilter{Search: `\`}, ""},
	} {
		var names []string
		for r := (store.PageRequest{Limit: 1}); ; {
			page, err := w.content.Reports(w.Context(), demo, ada, c.f, r)
			if err != nil {
				w.Fatal(err)
			}
			for _, r := range page.Items {
				names = append(names, r.Name)
			}
			if r.After = page.Last; !page.HasNext {
				if page.Total != len(names) {
					w.Errorf("%+v: %d, counted %d", c.f, len(names), page.Total)
				}
				break
			}
		}
		if got := strings.Join(names, " "); got != c.want {
			w.Errorf("%+v: %s, want %s", c.f, got, c.want)
		}
	}
	for offset, want := range map[int]int{1: 3, 3: 1, 4: 0, 9: 0} {
		page, err := w.content.Reports(w.Context(), demo, ada, ReportFilter{Order: ByName, Offset: offset}, store.PageRequest{Limit: 10})
		if err != nil || len(page.Items) != want || page.Total != 4 || !page.HasPrevious {
			w.Errorf("offset %d: %+v, %v", offset, page.Items, err)
		}
	}
	folders, err := w.content.ReportFolders(w.Context(), demo, ada, store.PageRequest{Limit: 10})
	if err != nil || fmt.Sprint(folders.Items) != "[{1 in 1}]" {
		w.Error(folders.Items, err)
	}
	page, err := w.content.Reports(w.Context(), demo, ada, ReportFilter{}, store.PageRequest{Limit: 10})
	if err != nil || len(page.Placements[3]) != 1 || fmt.Sprint(page.Paths[in]) != "[{1 in}]" {
		w.Error(page.Placements, page.Paths, err)
	}
}

// testLargeReports: of a list whose pages begin at an offset, no report is left out because those before it are large.
func testLargeReports(w *world) {
	large := Object{"text": strings.Repeat("x", 900_000)}
	for range 12 {
		w.report(ReportChange{Meta: large, HasMeta: true})
	}
	page, err := w.content.Reports(w.Context(), demo, ada, ReportFilter{}, store.PageRequest{Limit: 10})
	if err != nil || len(page.Items) != 9 || !page.HasNext {
		w.Errorf("the first page has %d, %v", len(page.Items), err)
	}
	contenttest.Rejects(w, errorOf(w.content.Reports(w.Context(), demo, ada, ReportFilter{Whole: true}, store.PageRequest{Limit: 10})), content.Invalid, "limit: 10 reports from there have more than 8388608 bytes together; allowed: at most 9")
	for offset, want := range map[int]int{0: 6, 6: 6} {
		page, err := w.content.Reports(w.Context(), demo, ada, ReportFilter{Whole: true, Offset: offset}, store.PageRequest{Limit: 6})
		if err != nil || len(page.Items) != want {
			w.Errorf("offset %d: %d, %v", offset, len(page.Items), err)
		}
	}
}

// testLargePlacements: what those who may only view reports store of them counts too.
func testLargePlacements(w *world) {
	for range 12 {
		w.report(ReportChange{Placement: &PlacementChange{ExternalWorkbook: "x", ResultLocation: "S!A1", ResultChecksum: Object{"text": strings.Repeat("x", 900_000)}}})
	}
	page, err := w.content.Reports(w.Context(), demo, ada, ReportFilter{}, store.PageRequest{Limit: 10})
	if err != nil || len(page.Items) != 9 || !page.HasNext {
		w.Errorf("the first page has %d, %v", len(page.Items), err)
	}
}

// testReportsOfWorkbooks deletes and copies a workbook with reports.
func testReportsOfWorkbooks(w *world) {
	wb := w.workbook("book")
	first := w.report(ReportChange{WorkbookID: &wb.ID, Name: ptr.To("one"), PublicID: ptr.To(firstID), Placement: &PlacementChange{ExternalWorkbook: "x", ResultLocation: "S!A1"}})
	w.report(ReportChange{WorkbookID: &wb.ID, Name: ptr.To("two")})
	outside := w.report(ReportChange{})
	draft := fmt.Sprintf(`{"widgets":[{"type":"CHART","position":{"x":0,"y":0,"w":1,"h":1},"config":{"reportId":%d}},
		{"type":"CHART","position":{"x":0,"y":1,"w":1,"h":1},"config":{"reportPublicId":%q,"reportId":%d}}]}`, first.ID, firstID, outside.ID)
	if _, err := w.content.Update(w.Context(), demo, ada, wb.ID, Change{Draft: object(draft), HasDraft: true}); err != nil {
		w.Fatal(err)
	}
	w.failing = errors.New("the event cannot be stored")
	if _, err := w.content.Duplicate(w.Context(), demo, bob, wb.ID); !errors.Is(err, w.failing) || contenttest.Count(w, w.store, "report") != 3 {
		w.Error(err)
	}
	w.failing = nil
	copied, err := w.content.Duplicate(w.Context(), demo, bob, wb.ID)
	if err != nil {
		w.Fatal(err)
	}
	page, err := w.content.Reports(w.Context(), demo, ada, ReportFilter{WorkbookID: &copied.ID}, store.PageRequest{Limit: 10})
	if err != nil || len(page.Items) != 2 || page.Items[0].Name != "one" || page.Items[0].Owner != bob.Owner || page.Items[0].PublicID == firstID || len(page.Placements) != 0 {
		w.Fatalf("%+v, %v", page, err)
	}
	stored, err := w.content.Workbook(w.Context(), demo, ada, copied.ID)
	for _, part := range []string{
		fmt.Sprintf(`{"config":{"reportId":%d}`, page.Items[0].ID), fmt.Sprintf(`{"config":{"reportId":%d,"reportPublicId":%q}`, outside.ID, page.Items[0].PublicID),
	} {
		if err != nil || !strings.Contains(stored.Meta, part) || stored.Meta != copied.Meta {
			w.Errorf("%s is not in %s, %v", part, stored.Meta, err)
		}
	}
	if err := w.content.Delete(w.Context(), demo, ada, wb.ID); err != nil || contenttest.Count(w, w.store, "report") != 3 || contenttest.Count(w, w.store, "report_placement") != 0 {
		w.Error(err)
	}
	contenttest.Rejects(w, errorOf(w.content.Report(w.Context(), demo, ada, first.ID)), content.NotFound, "report")
}

func testReportTenants(w *world) {
	r := w.report(ReportChange{PublicID: ptr.To(firstID), Placement: &PlacementChange{ExternalWorkbook: "x", ResultLocation: "S!A1"}})
	for _, other := range []content.Scope{scope("a1", "d2"), scope("a2", "d1"), scope("a2", "d3")} {
		for _, err := range []error{
			errorOf(w.content.Report(w.Context(), other, ada, r.ID)), errorOf(w.content.UpdateReport(w.Context(), other, ada, r.ID, ReportChange{})),
			w.content.DeleteReport(w.Context(), other, ada, r.ID), errorOf(w.content.Refresh(w.Context(), other, ada, r.ID, Address{}, nil)),
			errorOf(w.content.Connect(w.Context(), other, ada, r.ID, PlacementChange{ExternalWorkbook: "x", ResultLocation: "S!A1"})),
			errorOf(w.content.Disconnect(w.Context(), other, ada, r.ID, Address{ID: 1})),
		} {
			contenttest.Rejects(w, err, content.NotFound, "report 1 does not exist")
		}
		page, err := w.content.Reports(w.Context(), other, ada, ReportFilter{}, store.PageRequest{Limit: 10})
		placements, other := w.content.Placements(w.Context(), other, r.ID)
		if err != nil || len(page.Items)+page.Total+len(placements) != 0 || other != nil {
			w.Errorf("%+v, %v, %v", page, placements, err)
		}
	}
	if other, err := w.content.UpsertReport(w.Context(), scope("a2", "d3"), ada, firstID, ReportChange{}); err != nil || other.PublicID != firstID {
		w.Error("a public id is unique in its account only:", err)
	}
}

// testNewDeployment creates a report again after its deployment was deleted and created again, before the purge.
func testNewDeployment(w *world) {
	old, again := w.report(ReportChange{PublicID: ptr.To(firstID)}), scope("a1", "d2")
	r, err := w.content.UpsertReport(w.Context(), again, ada, firstID, ReportChange{Name: ptr.To("Orders")})
	if err != nil || r.PublicID != firstID || r.ID == old.ID {
		w.Fatalf("%+v, %v", r, err)
	}
	if before, err := w.content.Report(w.Context(), demo, ada, old.ID); err != nil || before.PublicID == firstID {
		w.Errorf("%+v, %v", before, err)
	}
}

// FuzzLocation: no location makes the split fail, and both parts are there or none.
func FuzzLocation(f *testing.F) {
	for _, seed := range []string{"", "A1", "S!A1", "'It''s'!$B$2", "'!A1", "a!b!c", "!A1", "S!"} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, location string) {
		if sheet, cell := splitLocation(location); sheet == "" && cell != "" {
			t.Errorf("%q: sheet %q, cell %q", location, sheet, cell)
		}
	})
}
