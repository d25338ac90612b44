package workspace

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"
	"k8s.io/utils/ptr"

	"github.com/quoin-dev/quoin/internal/content"
	"github.com/quoin-dev/quoin/internal/content/contenttest"
	"github.com/quoin-dev/quoin/internal/store"
)

// chart returns a dashboard with a chart for each config.
func chart(configs ...string) Object {
	var widgets []string
	for i, c := range configs {
		widgets = append(widgets, fmt.Sprintf(`{"id":"c%d","type":"CHART","position":{"x":0,"y":%d,"w":1,"h":1},"config":%s}`, i, i, c))
	}
	return object(`{"title":"T","widgets":[` + strings.Join(widgets, ",") + `]}`)
}

// published makes a workbook with two reports whose dashboard is published.
func (w *world) published() (*Workbook, *Dashboard) {
	w.Helper()
	wb := w.workbook("book")
	w.report(ReportChange{WorkbookID: &wb.ID, PublicID: ptr.To(firstID), Name: ptr.To("one"), SQLQuery: ptr.To("SELECT 1"), Meta: object(`{"kind":"kpi"}`), HasMeta: true})
	w.report(ReportChange{WorkbookID: &wb.ID, PublicID: ptr.To("AAAAAAAAAAA2"), Name: ptr.To("two")})
	d, err := w.content.Publish(w.Context(), demo, ada, wb.ID, Publication{Config: chart(`{"reportId":2}`, `{"reportPublicId":"`+firstID+`"}`, `{"reportId":2}`)})
	if err != nil {
		w.Fatal(err)
	}
	return wb, d
}

func testPublish(w *world) {
	wb, first := w.published()
	const config = `{"title":"T","widgets":[{"config":{"reportId":2,"reportPublicId":"AAAAAAAAAAA2"},"id":"c0","position":{"h":1,"w":1,"x":0,"y":0},"type":"CHART"},` +
		`{"config":{"reportId":1,"reportPublicId":"AAAAAAAAAAA1"},"id":"c1","position":{"h":1,"w":1,"x":0,"y":1},"type":"CHART"},` +
		`{"config":{"reportId":2,"reportPublicId":"AAAAAAAAAAA2"},"id":"c2","position":{"h":1,"w":1,"x":0,"y":2},"type":"CHART"}]}`
	if first.Config != config || first.Number != 1 || first.Title != "T" || first.AllowEmbed || len(first.Snapshots) != 2 || first.Snapshots[1].SQLQuery != "SELECT 1" ||
		first.Snapshots[1].Meta != `{"kind":"kpi"}` || first.Snapshots[1].Number != 1 || checkPublicID(first.PublicID) != nil {
		w.Errorf("%+v", first)
	}
	publish := func(in Publication) *Dashboard {
		w.Helper()
		d, err := w.content.Publish(w.Context(), demo, bob, wb.ID, in)
		if err != nil {
			w.Fatal(err)
		}
		stored, err := w.content.Published(w.Context(), demo, wb.ID)
		if diff := cmp.Diff(d, stored); diff != "" || err != nil {
			w.Error(diff, err)
		}
		return d
	}
	// The same content is no new version, also from the draft and from another notation.
	again := Publication{Config: object(config)}
	if diff := cmp.Diff(first, publish(again)); diff != "" {
		w.Error(diff)
	}
	if _, err := w.content.Update(w.Context(), demo, ada, wb.ID, Change{Draft: object(config), HasDraft: true}); err != nil {
		w.Fatal(err)
	}
	if diff := cmp.Diff(first, publish(Publication{DashboardID: first.ID})); diff != "" {
		w.Error(diff)
	}
	embedded := publish(Publication{AllowEmbed: ptr.To(true)})
	if embedded.Number != 1 || !embedded.AllowEmbed {
		w.Errorf("%+v", embedded)
	}
	// A changed report is a new version, which counts the states of each report; the old version stays.
	if _, err := w.content.UpdateReport(w.Context(), demo, ada, 1, ReportChange{SQLQuery: ptr.To("SELECT 2")}); err != nil {
		w.Fatal(err)
	}
	if stored, err := w.content.Published(w.Context(), demo, wb.ID); err != nil || stored.Snapshots[1].SQLQuery != "SELECT 1" {
		w.Errorf("%+v, %v", stored, err)
	}
	second := publish(Publication{})
	if second.Number != 2 || !second.AllowEmbed || second.PublicID != first.PublicID || second.ID != first.ID || second.Snapshots[0].Number != 1 || second.Snapshots[1].Number != 2 ||
		second.Owner != bob.Owner {
		w.Errorf("%+v", second)
	}
	if third := publish(Publication{Title: ptr.To("New")}); third.Number != 3 || third.Title != "New" || third.Snapshots[1].Number != 2 {
		w.Errorf("%+v", third)
	}
	w.wantVersions(wb, config)
}

// wantVersions checks the three versions of a dashboard, whose first was published by ada with a config, and deletes it.
func (w *world) wantVersions(wb *Workbook, config string) {
	w.Helper()
	old, err := w.content.DashboardVersion(w.Context(), demo, ada, wb.ID, 1)
	if err != nil || old.Config != config || old.Snapshots[1].SQLQuery != "SELECT 1" {
		w.Errorf("%+v, %v", old, err)
	}
	page, err := w.content.Versions(w.Context(), demo, ada, wb.ID, store.PageRequest{Limit: 2})
	if err != nil || len(page.Items) != 2 || page.Items[0].Number != 3 || page.Items[1].Owner != bob.Owner || !page.HasNext {
		w.Errorf("%+v, %v", page, err)
	}
	if page, err = w.content.Versions(w.Context(), demo, ada, wb.ID, store.PageRequest{Limit: 2, After: page.Last}); err != nil || len(page.Items) != 1 || page.Items[0].Number != 1 {
		w.Errorf("%+v, %v", page, err)
	}
	if err := w.content.Delete(w.Context(), demo, ada, wb.ID); err != nil {
		w.Error(err)
	}
	for _, table := range []string{"dashboard", "dashboard_version", "report_snapshot"} {
		if n := contenttest.Count(w, w.store, table); n != 0 {
			w.Errorf("%d rows of %s are left", n, table)
		}
	}
}

func testInvalidPublications(w *world) {
	wb, _ := w.published()
	outside := w.report(ReportChange{PublicID: ptr.To("BBBBBBBBBBB1")})
	container := func(children string) Object {
		return object(`{"widgets":[{"id":"a","type":"CONTAINER","position":{"x":0,"y":0,"w":1,"h":1},"config":{"children":` + children + `}},
			{"id":"b","type":"CONTAINER","position":{"x":0,"y":0,"w":1,"h":1},"config":{"children":["a"]}}]}`)
	}
	for name, c := range map[string]struct {
		in     Publication
		reason content.Reason
		part   string
	}{
		"no draft":            {Publication{}, content.Invalid, "config: it is absent, and workbook 1 has no draft"},
		"another dashboard":   {Publication{DashboardID: 9, Config: chart()}, content.NotFound, "dashboardId: dashboard 9"},
		"no report":           {Publication{Config: chart(`{"title":"x"}`)}, content.Invalid, "config.widgets[0].config.reportPublicId: it is absent"},
		"another workbook's":  {Publication{Config: chart(`{"reportId":1}`, fmt.Sprintf(`{"reportId":%d}`, outside.ID))}, content.Invalid, "config.widgets[1].config.reportId: the workbook has no report 3"},
		"an unknown report":   {Publication{Config: chart(`{"reportPublicId":"BBBBBBBBBBB1"}`)}, content.Invalid, `config.widgets[0].config.reportPublicId: the workbook has no report "BBBBBBBBBBB1"`},
		"two reports":         {Publication{Config: chart(`{"reportId":2,"reportPublicId":"` + firstID + `"}`)}, content.Invalid, "report 2 is not that of"},
		"a widget without id": {Publication{Config: object(`{"widgets":[{"type":"SPACER","position":{"x":0,"y":0,"w":1,"h":1}}]}`)}, content.Invalid, "config.widgets[0].id: it is absent"},
		"a place":             {Publication{Config: object(`{"widgets":[{"id":"a","type":"SPACER","position":{"x":0,"y":0,"w":"1","h":1}}]}`)}, content.Invalid, "config.widgets[0].position.w"},
		"an unknown child":    {Publication{Config: container(`["c"]`)}, content.Invalid, `config.widgets[0].config.children[0]: there is no widget "c"`},
		"two parents":         {Publication{Config: container(`["a"]`)}, content.Invalid, `config.widgets[1].config.children[0]: widget "a" is in container "a" already`},
		"a cycle":             {Publication{Config: container(`[{"tabId":"t","widgetId":"b"}]`)}, content.Invalid, "is in more than 4 containers"},
		"a NUL in a title":    {Publication{Config: object(`{"title":"a\u0000"}`)}, content.Invalid, "title: it has a NUL"},
		"a long title":        {Publication{Config: chart(), Title: ptr.To(strings.Repeat("x", 256))}, content.Invalid, "title: it has 256"},
		"a long description":  {Publication{Config: chart(), Description: ptr.To(strings.Repeat("x", 4097))}, content.Invalid, "description: it has 4097"},
	} {
		w.Run(name, func(t *testing.T) {
			contenttest.Rejects(t, errorOf(w.content.Publish(t.Context(), demo, ada, wb.ID, c.in)), c.reason, c.part)
		})
	}
	contenttest.Rejects(w, errorOf(w.content.Publish(w.Context(), demo, ada, 9, Publication{})), content.NotFound, "workbook 9")
	contenttest.Rejects(w, errorOf(w.content.DashboardVersion(w.Context(), demo, ada, wb.ID, 2)), content.NotFound, "has no version 2")
	contenttest.Rejects(w, errorOf(w.content.Restore(w.Context(), demo, ada, wb.ID, 2)), content.NotFound, "has no version 2")
	if n := contenttest.Count(w, w.store, "dashboard_version"); n != 1 {
		w.Errorf("%d versions", n)
	}
	// A number of another installation has no effect beside the public id.
	if _, err := w.content.Publish(w.Context(), demo, ada, wb.ID, Publication{Config: chart(`{"reportId":77,"reportPublicId":"` + firstID + `"}`)}); err != nil {
		w.Error(err)
	}
	for _, other := range []content.Scope{scope("a1", "d2"), scope("a2", "d1")} {
		for _, err := range []error{
			errorOf(w.content.Publish(w.Context(), other, ada, wb.ID, Publication{Config: chart()})), errorOf(w.content.Versions(w.Context(), other, ada, wb.ID, store.PageRequest{Limit: 1})),
			errorOf(w.content.DashboardVersion(w.Context(), other, ada, wb.ID, 1)), errorOf(w.content.Restore(w.Context(), other, ada, wb.ID, 1)),
		} {
			contenttest.Rejects(w, err, content.NotFound, "workbook 1 does not exist")
		}
		if d, err := w.content.Published(w.Context(), other, wb.ID); d != nil || err != nil {
			w.Errorf("%+v, %v", d, err)
		}
	}
}

func testRestore(w *world) {
	wb, first := w.published()
	if err := w.content.DeleteReport(w.Context(), demo, ada, 2); err != nil {
		w.Fatal(err)
	}
	if _, err := w.content.UpdateReport(w.Context(), demo, ada, 1, ReportChange{SQLQuery: ptr.To("SELECT 2"), Name: ptr.To("other")}); err != nil {
		w.Fatal(err)
	}
	if d, err := w.content.Publish(w.Context(), demo, ada, wb.ID, Publication{Config: chart(`{"reportId":1}`), AllowEmbed: ptr.To(true)}); err != nil || d.Number != 2 {
		w.Fatalf("%+v, %v", d, err)
	}
	d, err := w.content.Restore(w.Context(), demo, bob, wb.ID, 1)
	if err != nil || d.Number != 3 || !d.AllowEmbed || d.Title != "T" || len(d.Snapshots) != 2 || d.Snapshots[1].Hash != first.Snapshots[1].Hash || d.Snapshots[0].ReportID != 3 {
		w.Fatalf("%+v, %v", d, err)
	}
	r, err := w.content.Report(w.Context(), demo, ada, 1)
	if err != nil || r.SQLQuery != "SELECT 1" || r.Name != "one" || r.Meta != `{"kind":"kpi"}` {
		w.Errorf("%+v, %v", r, err)
	}
	stored, err := w.content.Workbook(w.Context(), demo, ada, wb.ID)
	if err != nil || stored.Draft() == nil || *stored.Draft() != d.Config || !strings.Contains(d.Config, `"reportId":3,"reportPublicId":"AAAAAAAAAAA2"`) {
		w.Errorf("%+v, %v", stored, err)
	}
	// The version that is shown is restored without a new one.
	if again, err := w.content.Restore(w.Context(), demo, bob, wb.ID, 3); err != nil || again.Number != 3 {
		w.Errorf("%+v, %v", again, err)
	}
	other := w.workbook("other")
	if _, err := w.content.UpdateReport(w.Context(), demo, ada, 1, ReportChange{WorkbookID: &other.ID}); err != nil {
		w.Fatal(err)
	}
	contenttest.Rejects(w, errorOf(w.content.Restore(w.Context(), demo, bob, wb.ID, 1)), content.Conflict, "report 1, which the version shows, is not in workbook 1")
	w.failing = errors.New("the event cannot be stored")
	if _, err := w.content.Publish(w.Context(), demo, ada, wb.ID, Publication{Config: chart()}); !errors.Is(err, w.failing) || contenttest.Count(w, w.store, "dashboard_version") != 3 {
		w.Error(err)
	}
}

func testVersionsAreKept(w *world) {
	wb, _ := w.published()
	for i := range MaxVersions + 2 {
		if _, err := w.content.Publish(w.Context(), demo, ada, wb.ID, Publication{Config: chart(`{"reportId":1}`), Title: ptr.To(fmt.Sprint(i))}); err != nil {
			w.Fatal(err)
		}
	}
	page, err := w.content.Versions(w.Context(), demo, ada, wb.ID, store.PageRequest{Limit: 1000})
	if err != nil || len(page.Items) != MaxVersions || page.Items[0].Number != MaxVersions+3 || contenttest.Count(w, w.store, "report_snapshot") != MaxVersions {
		w.Errorf("%d versions, %v", len(page.Items), err)
	}
}

func testConcurrentPublications(w *world) {
	wb, first := w.published()
	w.content.Now = nil
	var all sync.WaitGroup
	for i := range 6 {
		all.Go(func() {
			if _, err := w.content.Publish(context.Background(), demo, ada, wb.ID, Publication{Config: chart(`{"reportId":1}`), Title: ptr.To(fmt.Sprint(i % 3))}); err != nil {
				w.Error(err)
			}
		})
	}
	all.Wait()
	d, err := w.content.Published(w.Context(), demo, wb.ID)
	versions := int64(contenttest.Count(w, w.store, "dashboard_version"))
	if err != nil || d.ID != first.ID || d.Number != versions || versions < 4 || versions > 7 || contenttest.Count(w, w.store, "dashboard") != 1 {
		w.Errorf("%+v, %d versions, %v", d, versions, err)
	}
}

func testCopiedDashboards(w *world) {
	wb, first := w.published()
	if _, err := w.content.Publish(w.Context(), demo, ada, wb.ID, Publication{Config: object(first.Config), AllowEmbed: ptr.To(true)}); err != nil {
		w.Fatal(err)
	}
	// The copy shows what is published, not what the reports are now.
	if _, err := w.content.UpdateReport(w.Context(), demo, ada, 1, ReportChange{SQLQuery: ptr.To("SELECT 2")}); err != nil {
		w.Fatal(err)
	}
	copied, err := w.content.Duplicate(w.Context(), demo, bob, wb.ID)
	if err != nil {
		w.Fatal(err)
	}
	d, err := w.content.Published(w.Context(), demo, copied.ID)
	if err != nil || d == nil || d.AllowEmbed || d.Number != 1 || d.PublicID == first.PublicID || d.Owner != bob.Owner || len(d.Snapshots) != 2 {
		w.Fatalf("%+v, %v", d, err)
	}
	if n := d.Snapshots[1]; n.SQLQuery != "SELECT 1" || n.ReportID != 3 || n.PublicID == firstID || strings.Contains(d.Config, firstID) || !strings.Contains(d.Config, n.PublicID) {
		w.Errorf("%+v in %s", n, d.Config)
	}
	if again, err := w.content.Restore(w.Context(), demo, bob, copied.ID, 1); err != nil || again.Number != 1 {
		w.Errorf("%+v, %v", again, err)
	}
}

// FuzzContainers: no config makes the check of containers fail or run forever.
func FuzzContainers(f *testing.F) {
	for _, seed := range []string{`{}`, `{"widgets":[1]}`, `{"widgets":[{"id":"a","type":"CONTAINER","config":{"children":["a"]}}]}`} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, text string) {
		config, err := Decode([]byte(text))
		if err != nil {
			return
		}
		widgets, _ := config["widgets"].([]any)
		var rejected *content.Error
		if err := checkContainers("config", widgets); err != nil && !errors.As(err, &rejected) {
			t.Error(err)
		}
	})
}
