package contentcode_test

import (
	"context"
	"database/sql"
	"fmt"
	"path/filepath"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/quoin-dev/quoin/api/v1alpha1"
	"github.com/quoin-dev/quoin/test/internal/apiclient"
)

// salesSpec is the spec of a Workbook with a published dashboard; its report has a public id of the test.
func salesSpec(slug, publicID string) string {
	return fmt.Sprintf(`
slug: %s
name: Sales
publish: true
definition:
  meta: {theme: {dark: true}}
  reports:
  - publicId: %[2]s
    name: Orders by status
    jsonQuery: '{"measures":["orders.count"]}'
    meta: {kind: table}
  dashboardDraft:
    title: Sales
    widgets:
    - type: CHART
      position: {x: 0, "y": 0, w: 6, h: 4}
      config: {reportPublicId: %[2]s}
`, slug, publicID)
}

func TestWorkbooksAndFoldersAreApplied(t *testing.T) {
	// Objects are applied in any order.
	w := workbook(t, "sales", salesSpec("sales", "SalesReport1")+"folderRef: {name: q1}\n")
	child := folder(t, "q1", "{name: Q1, parentRef: {name: finance}}")
	parent := folder(t, "finance", "{name: Finance, position: 3}")
	ready(t, parent)
	ready(t, child)
	ready(t, w)
	path := fmt.Sprint(workbooksPath, "/", w.Status.WorkbookID)
	call(t, "GET", path, nil).Is(200).Want(map[string]string{
		"name": `"Sales"`, "slug": `"sales"`, "folderId": fmt.Sprint(child.Status.FolderID), "folderPath.0.name": `"Finance"`, "folderPath.1.name": `"Q1"`,
		"meta.theme.dark": "true", "publishedDashboard.versionNumber": "1", "publishedDashboard.title": `"Sales"`, "publishedDashboard.allowEmbed": "false",
		"publishedDashboard.reportSnapshots.0.name": `"Orders by status"`, "user.email": `"sales@localhost"`,
	})
	if w.Status.PublishedVersion != 1 || len(w.Status.DashboardPublicID) != 12 || meta.FindStatusCondition(w.Status.Conditions, v1alpha1.ConditionDrifted) != nil {
		t.Errorf("the status is %+v", w.Status)
	}
	events := call(t, "GET", "/api/v1/audit-logs/export", nil).Is(200)
	for _, name := range []string{"Created folder", "Created workbook", "Created report", "Published dashboard"} {
		if !strings.Contains(string(events.Body), name) {
			t.Errorf("the audit log has no event %q", name)
		}
	}

	// The same content again is not a new version; other content is one.
	change(t, w, func() { w.Spec.Prune = ptr.To(true) })
	if ready(t, w); w.Status.PublishedVersion != 1 {
		t.Errorf("the same content has version %d", w.Status.PublishedVersion)
	}
	change(t, w, func() { w.Spec.Name, w.Spec.FolderRef, w.Spec.Definition.Reports[0].Name = "All sales", nil, "Orders" })
	if ready(t, w); w.Status.PublishedVersion != 2 {
		t.Errorf("other content has version %d", w.Status.PublishedVersion)
	}
	call(t, "GET", path, nil).Is(200).Want(map[string]string{
		"name": `"All sales"`, "folderId": "null", "publishedDashboard.versionNumber": "2", "publishedDashboard.reportSnapshots.0.name": `"Orders"`,
	})
	change(t, child, func() { child.Spec.ParentRef, child.Spec.Name = nil, "First quarter" })
	ready(t, child)
	call(t, "GET", foldersPath, nil).Is(200).Want(map[string]string{"items.0.name": `"Finance"`, "items.0.position": "3", "items.1.name": `"First quarter"`})
	remove(t, w)
	remove(t, child) // a folder waits for those in it
}

func TestManagedContentIsNotChangedOverREST(t *testing.T) {
	f := ready(t, folder(t, "managed", "{name: Managed}"))
	w := ready(t, workbook(t, "managed", salesSpec("managed", "ManagedRepo1")+"folderRef: {name: managed}\n"))
	list := call(t, "GET", fmt.Sprint(reportsPath, "?workbookId=", w.Status.WorkbookID), nil).Is(200)
	report := fmt.Sprintf("%s/%.0f", reportsPath, list.At("items.0.id"))
	book, place := fmt.Sprint(workbooksPath, "/", w.Status.WorkbookID), fmt.Sprint(foldersPath, "/", f.Status.FolderID)
	other := call(t, "POST", workbooksPath, map[string]any{"name": "Other"}).Is(200).ID()
	before := string(call(t, "GET", book, nil).Is(200).Body)
	for _, c := range []struct {
		method, path string
		body         any
		owner        string
	}{
		{"PUT", book, map[string]any{"name": "Mine"}, "Workbook acme/managed"},
		{"PUT", workbooksPath + "/by-slug/managed", map[string]any{"name": "Mine"}, "Workbook acme/managed"},
		{"PUT", workbooksPath + "/" + other, map[string]any{"slug": "managed", "slugTakeover": true}, "Workbook acme/managed"},
		{"PUT", book + "/dashboard", map[string]any{"dashboardDraft": nil}, "Workbook acme/managed"},
		{"POST", book + "/publish", map[string]any{"workbookId": w.Status.WorkbookID}, "Workbook acme/managed"},
		{"POST", book + "/versions/1/restore", nil, "Workbook acme/managed"},
		{"DELETE", book, nil, "Workbook acme/managed"},
		{"POST", reportsPath, map[string]any{"workbookId": w.Status.WorkbookID}, "Workbook acme/managed"},
		{"PUT", report, map[string]any{"name": "Mine"}, "Workbook acme/managed"},
		{"DELETE", report, nil, "Workbook acme/managed"},
		{"PUT", place, map[string]any{"name": "Mine"}, "Folder acme/managed"},
		{"DELETE", place, nil, "Folder acme/managed"},
	} {
		call(t, c.method, c.path, c.body).Rejected(409, c.owner)
	}
	if after := string(call(t, "GET", book, nil).Is(200).Body); after != before {
		t.Errorf("it was %s, it is %s", before, after)
	}
	copied := call(t, "POST", book+"/duplicate", nil).Is(200).ID()
	call(t, "PUT", workbooksPath+"/"+copied, map[string]any{"name": "Mine", "folderId": f.Status.FolderID}).Is(200)
	call(t, "DELETE", workbooksPath+"/"+copied, nil).Is(200)
}

func TestContentOfUsersIsAdopted(t *testing.T) {
	id := call(t, "PUT", workbooksPath+"/by-slug/adopted", map[string]any{"name": "Mine"}).Is(200).ID()
	w := awaitReason(t, workbook(t, "adopted", salesSpec("adopted", "AdoptedRepo1")), v1alpha1.ReasonConflict)
	if !strings.Contains(message(w), "spec.adopt") || !meta.IsStatusConditionTrue(w.Status.Conditions, v1alpha1.ConditionStalled) || w.Status.ObservedGeneration != w.Generation {
		t.Errorf("the status is %+v", w.Status)
	}
	call(t, "GET", workbooksPath+"/"+id, nil).Is(200).Want(map[string]string{"name": `"Mine"`})
	change(t, w, func() { w.Spec.Adopt = ptr.To(true) })
	if ready(t, w); fmt.Sprint(w.Status.WorkbookID) != id {
		t.Errorf("workbook %d, not %s", w.Status.WorkbookID, id)
	}
	call(t, "GET", workbooksPath+"/"+id, nil).Is(200).Want(map[string]string{"name": `"Sales"`})
}

// TestTheOldestHasTheSlug: the others get it when it is deleted.
func TestTheOldestHasTheSlug(t *testing.T) {
	first := ready(t, workbook(t, "first", salesSpec("shared", "SharedRepor1")))
	second := awaitReason(t, workbook(t, "second", salesSpec("shared", "SharedRepor1")), v1alpha1.ReasonConflict)
	if !strings.Contains(message(second), `Workbook "first"`) {
		t.Error(message(second))
	}
	remove(t, first)
	ready(t, second)
	finance := ready(t, folder(t, "a-first", "{name: Shared}"))
	other := awaitReason(t, folder(t, "b-second", "{name: SHARED}"), v1alpha1.ReasonConflict)
	remove(t, finance)
	ready(t, other)
}

func TestDeletedObjects(t *testing.T) {
	w := ready(t, workbook(t, "deleted", salesSpec("deleted", "DeletedRepo1")))
	path := fmt.Sprint(workbooksPath, "/", w.Status.WorkbookID)
	remove(t, w)
	call(t, "GET", path, nil).Is(404)

	w = ready(t, workbook(t, "retained", salesSpec("retained", "RetainedRep1")+"deletionPolicy: Retain\n"))
	path = fmt.Sprint(workbooksPath, "/", w.Status.WorkbookID)
	remove(t, w)
	call(t, "PUT", path, map[string]any{"name": "Mine"}).Is(200)
	call(t, "DELETE", path, nil).Is(200)

	parent := ready(t, folder(t, "parent", "{name: Parent}"))
	child := call(t, "POST", foldersPath, map[string]any{"name": "Child", "parentId": parent.Status.FolderID}).Is(200).ID()
	if err := k8s.Delete(t.Context(), parent); err != nil {
		t.Fatal(err)
	}
	awaitReason(t, parent, v1alpha1.ReasonFolderNotEmpty)
	call(t, "DELETE", foldersPath+"/"+child, nil).Is(200)
	gone(t, parent)
}

// TestDeletedDeployments: objects do not wait for the content of a deployment that is deleted.
func TestDeletedDeployments(t *testing.T) {
	d := newDeployment("temporary", 77)
	if err := k8s.Create(t.Context(), d); err != nil {
		t.Fatal(err)
	}
	w := &v1alpha1.Workbook{}
	w.Namespace, w.Name, w.Spec.DeploymentRef.Name = namespace, "temporary", "temporary"
	ready(t, create(t, w, &w.Spec, salesSpec("temporary", "TemporaryRe1")))
	if err := k8s.Delete(t.Context(), d); err != nil {
		t.Fatal(err)
	}
	awaitReason(t, w, v1alpha1.ReasonDeploymentNotFound)
	remove(t, w)
}

func TestInvalidDefinitions(t *testing.T) {
	for name, c := range map[string]struct{ spec, message string }{
		"a widget": {
			`{slug: invalid, definition: {dashboardDraft: {widgets: [{type: TEXT, position: {x: 0, "y": 0, w: 0, h: 1}}]}}}`,
			"spec.definition.dashboardDraft.widgets[0].position.w: minimum: got 0, want 1",
		},
		"a chart without its report": {
			`{slug: invalid, publish: true, definition: {dashboardDraft: {widgets: [{type: CHART, position: {x: 0, "y": 0, w: 1, h: 1}, config: {reportPublicId: NotDefined01}}]}}}`,
			"spec.definition.dashboardDraft.widgets[0].config.reportPublicId: the workbook has no report",
		},
		"a query": {
			"{slug: invalid, definition: {reports: [{publicId: InvalidRepo1, name: a, jsonQuery: '{'}]}}",
			"spec.definition.reports[0]: jsonQuery:",
		},
		"a draft in the meta": {
			"{slug: invalid, definition: {meta: {dashboardDraft: {}}}}",
			"spec.definition.meta.dashboardDraft: it is not allowed",
		},
	} {
		t.Run(name, func(t *testing.T) {
			w := awaitReason(t, workbook(t, "invalid", c.spec), v1alpha1.ReasonInvalidSpec)
			if !strings.HasPrefix(message(w), c.message) {
				t.Errorf("the message is %q", message(w))
			}
		})
	}
	first := folder(t, "loop-a", "{name: A, parentRef: {name: loop-b}}")
	folder(t, "loop-b", "{name: B, parentRef: {name: loop-a}}")
	awaitReason(t, first, v1alpha1.ReasonInvalidSpec)
}

// TestUndefinedReports: they are a condition, and are deleted on request only.
func TestUndefinedReports(t *testing.T) {
	w := ready(t, workbook(t, "extra", salesSpec("extra", "ExtraReport1")))
	change(t, w, func() {
		w.Spec.Definition.Reports[0].PublicID = "ExtraReport2"
		w.Spec.Definition.DashboardDraft.Raw = []byte(`{"widgets":[]}`)
	})
	drifted := func(want bool) {
		t.Helper()
		apiclient.Soon(t, func() error {
			ready(t, w)
			c := meta.FindStatusCondition(w.Status.Conditions, v1alpha1.ConditionDrifted)
			if (c != nil) != want || want && (c.Status != "True" || !strings.Contains(c.Message, "ExtraReport1 (Orders by status)")) {
				return fmt.Errorf("Drifted is %+v", c)
			}
			return nil
		})
	}
	drifted(true)
	change(t, w, func() { w.Spec.Prune = ptr.To(true) })
	drifted(false)
	list := call(t, "GET", fmt.Sprint(reportsPath, "?workbookId=", w.Status.WorkbookID), nil).Is(200)
	list.Want(map[string]string{"items.length": "1", "items.0.publicId": `"ExtraReport2"`})
}

// TestDriftIsCorrected: content that was changed in the database, as a restored copy of it is, becomes what is defined again. An event
// of each object says so, once.
func TestDriftIsCorrected(t *testing.T) {
	f := ready(t, folder(t, "drifting", "{name: Drifting}"))
	w := ready(t, workbook(t, "drifting", salesSpec("drifting", "DriftReport1")+"folderRef: {name: drifting}\n"))
	path := fmt.Sprint(workbooksPath, "/", w.Status.WorkbookID)
	db, err := sql.Open("sqlite", "file:"+filepath.Join(cluster.Folder, "quoin.db")+"?_pragma=busy_timeout(10000)")
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = db.Close() }()
	for statement, id := range map[string]int64{
		"UPDATE folder SET name = 'Changed', name_key = 'changed' WHERE id = $1":    f.Status.FolderID,
		"UPDATE workbook SET name = 'Changed', folder_id = 0 WHERE id = $1":         w.Status.WorkbookID,
		"UPDATE report SET name = 'Changed', name_key = 'c' WHERE workbook_id = $1": w.Status.WorkbookID,
	} {
		if _, err := db.ExecContext(t.Context(), statement, id); err != nil {
			t.Fatal(err)
		}
	}
	call(t, "GET", path, nil).Is(200).Want(map[string]string{"name": `"Changed"`})
	for i, obj := range []v1alpha1.Object{f, w} {
		for range 2 { // the second time there is nothing to correct
			change[client.Object](t, obj, func() {
				obj.SetAnnotations(map[string]string{v1alpha1.AnnotationReconcile: fmt.Sprint(time.Now())})
			})
			apiclient.Soon(t, func() error {
				reasons, err := eventsOf(t.Context(), obj)
				if n := reasons[v1alpha1.ReasonDriftCorrected]; err == nil && n != 1 {
					err = fmt.Errorf("object %d: %d events, want 1: %v", i, n, reasons)
				}
				return err
			})
		}
	}
	call(t, "GET", path, nil).Is(200).Want(map[string]string{"name": `"Sales"`, "folderId": fmt.Sprint(f.Status.FolderID), "folderPath.0.name": `"Drifting"`})
	call(t, "GET", fmt.Sprint(reportsPath, "?workbookId=", w.Status.WorkbookID), nil).Is(200).Want(map[string]string{"items.0.name": `"Orders by status"`})
	if ready(t, w); w.Status.PublishedVersion != 1 {
		t.Errorf("version %d is shown", w.Status.PublishedVersion)
	}
	remove(t, w)
}

// TestReadyHasOneEvent: what is reported is reported once.
func TestReadyHasOneEvent(t *testing.T) {
	w := ready(t, workbook(t, "reported", salesSpec("reported", "ReportedRep1")))
	apiclient.Soon(t, func() error {
		reasons, err := eventsOf(t.Context(), w)
		if err == nil && (len(reasons) != 1 || reasons[v1alpha1.ReasonSucceeded] != 1) {
			err = fmt.Errorf("the events are %v", reasons)
		}
		return err
	})
}

// eventsOf returns how often the events of an object were, by reason.
func eventsOf(ctx context.Context, obj client.Object) (reasons map[string]int, err error) {
	list := &corev1.EventList{}
	reasons = map[string]int{}
	err = k8s.List(ctx, list, client.InNamespace(obj.GetNamespace()))
	for i := range list.Items {
		e := &list.Items[i]
		if e.InvolvedObject.UID != obj.GetUID() {
			continue
		}
		reasons[e.Reason]++
		if e.Series != nil {
			reasons[e.Reason] += int(e.Series.Count) - 1
		}
	}
	return reasons, err
}
