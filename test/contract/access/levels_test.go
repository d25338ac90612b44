package access_test

import (
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"

	"github.com/quoin-dev/quoin/apiserver/directory/number"
	"github.com/quoin-dev/quoin/test/internal/apiclient"
)

// levels are the levels in order, as actions end.
var levels = []string{"", "Read", "Edit", "Manage"}

// operation is an operation on an object of a kind, which needs a level.
type operation struct {
	name, kind, needs string
	method            string
	// path and body of the request, in which {f}, {w}, {i} and {r} are the ids of the folder, the workbook, its report and the other
	// report.
	path, body string
	// hidden is the status for a caller who does not see the object; 404 if 0.
	hidden int
}

var operations = []operation{
	{name: "list folders", kind: "Folder", needs: "Read", method: "GET", path: foldersPath + "?parentId={f}"},
	{name: "list workbooks", kind: "Folder", needs: "Read", method: "GET", path: workbooksPath + "?folderId={f}"},
	{name: "list reports", kind: "Folder", needs: "Read", method: "GET", path: reportsPath + "?folderId={f}"},
	{name: "ancestors", kind: "Folder", needs: "Read", method: "GET", path: foldersPath + "/{f}/ancestors"},
	{name: "workbook in the folder", kind: "Folder", needs: "Read", method: "GET", path: workbooksPath + "/{w}"},
	{name: "report in the workbook", kind: "Folder", needs: "Read", method: "GET", path: reportsPath + "/{i}"},
	{name: "create a folder", kind: "Folder", needs: "Edit", method: "POST", path: foldersPath, body: `{"name":"x","parentId":{f}}`},
	{name: "update a folder", kind: "Folder", needs: "Edit", method: "PUT", path: foldersPath + "/{f}", body: `{"position":7}`},
	{name: "create a workbook", kind: "Folder", needs: "Edit", method: "POST", path: workbooksPath, body: `{"folderId":{f}}`},
	{name: "create a report", kind: "Folder", needs: "Edit", method: "POST", path: reportsPath, body: `{"folderId":{f}}`},
	{name: "delete a folder", kind: "Folder", needs: "Manage", method: "DELETE", path: foldersPath + "/{f}"},

	{name: "get a workbook", kind: "Workbook", needs: "Read", method: "GET", path: workbooksPath + "/{w}"},
	{name: "get its report", kind: "Workbook", needs: "Read", method: "GET", path: reportsPath + "/{i}"},
	{name: "list its reports", kind: "Workbook", needs: "Read", method: "GET", path: reportsPath + "?workbookId={w}"},
	{name: "copy a workbook", kind: "Workbook", needs: "Read", method: "POST", path: workbooksPath + "/{w}/duplicate", body: "{}"},
	{name: "rename a workbook", kind: "Workbook", needs: "Edit", method: "PUT", path: workbooksPath + "/{w}", body: `{"name":"y"}`},
	{name: "upsert a workbook", kind: "Workbook", needs: "Edit", method: "PUT", path: workbooksPath + "/by-slug/book-{n}", body: `{"name":"z"}`, hidden: 409},
	{name: "set the draft", kind: "Workbook", needs: "Edit", method: "PUT", path: workbooksPath + "/{w}/dashboard", body: `{"dashboardDraft":null}`},
	{name: "publish", kind: "Workbook", needs: "Edit", method: "POST", path: workbooksPath + "/{w}/publish", body: `{"workbookId":{w}}`},
	{name: "list versions", kind: "Workbook", needs: "Edit", method: "GET", path: workbooksPath + "/{w}/versions"},
	{name: "get a version", kind: "Workbook", needs: "Edit", method: "GET", path: workbooksPath + "/{w}/versions/1"},
	{name: "restore a version", kind: "Workbook", needs: "Edit", method: "POST", path: workbooksPath + "/{w}/versions/1/restore"},
	{name: "create a report in it", kind: "Workbook", needs: "Edit", method: "POST", path: reportsPath, body: `{"workbookId":{w}}`},
	{name: "update its report", kind: "Workbook", needs: "Edit", method: "PUT", path: reportsPath + "/{i}", body: `{"title":"t"}`},
	{name: "move a workbook", kind: "Workbook", needs: "Manage", method: "PUT", path: workbooksPath + "/{w}", body: `{"folderId":null}`},
	{name: "delete its report", kind: "Workbook", needs: "Manage", method: "DELETE", path: reportsPath + "/{i}"},
	{name: "delete a workbook", kind: "Workbook", needs: "Manage", method: "DELETE", path: workbooksPath + "/{w}"},

	{name: "get a report", kind: "Report", needs: "Read", method: "GET", path: reportsPath + "/{r}"},
	{name: "connect a report", kind: "Report", needs: "Read", method: "PUT", path: reportsPath + "/{r}/connect-workbook", body: `{"externalWorkbookId":"b","resultLocation":"S!A1"}`},
	{name: "disconnect a report", kind: "Report", needs: "Read", method: "DELETE", path: reportsPath + "/{r}/connect-workbook", body: `{"resultLocation":"S!A1"}`},
	{name: "refresh a report", kind: "Report", needs: "Read", method: "PUT", path: reportsPath + "/{r}/refresh"},
	{name: "update a report", kind: "Report", needs: "Edit", method: "PUT", path: reportsPath + "/{r}", body: `{"title":"t"}`},
	{name: "delete a report", kind: "Report", needs: "Manage", method: "DELETE", path: reportsPath + "/{r}"},

	{name: "set the chat of a widget", kind: "Workbook", needs: "Edit", method: "POST", path: workbooksPath + "/{w}/dashboard/ai-widget-thread", body: `{"widgetId":"s","threadId":"t"}`},
	{name: "list the workspace", kind: "Folder", needs: "Read", method: "GET", path: workspacePath + "?folderId={f}"},
	{name: "move a folder", kind: "Folder", needs: "Manage", method: "POST", path: workspacePath + "/move", body: `{"type":"FOLDER","id":{f},"folderId":null}`},
	{name: "move a workbook in the workspace", kind: "Workbook", needs: "Manage", method: "POST", path: workspacePath + "/move", body: `{"type":"WORKBOOK","id":{w}}`},
	{name: "move a report in the workspace", kind: "Report", needs: "Manage", method: "POST", path: workspacePath + "/move", body: `{"type":"REPORT","id":{r}}`},
	{name: "mark a workbook", kind: "Workbook", needs: "Read", method: "PUT", path: workbooksPath + "/{w}/favorite"},
	{name: "policies of a folder", kind: "Folder", needs: "Manage", method: "GET", path: policiesPath + "?resourceType=Folder&resourceId={f}"},
	{name: "policies of a workbook", kind: "Workbook", needs: "Manage", method: "GET", path: policiesPath + "/?resourceType=Workbook&resourceId={w}"},
	{name: "policies of a report", kind: "Report", needs: "Manage", method: "GET", path: policiesPath + "?resourceType=Report&resourceId={r}"},
	{name: "share a workbook", kind: "Workbook", needs: "Manage", method: "PUT", path: policiesPath + "/user", body: `{"resourceType":"Workbook","resourceId":{w},"action":"WorkbookRead"}`},
	{name: "share a report", kind: "Report", needs: "Manage", method: "PUT", path: policiesPath + "/group/", body: `{"resourceType":"Report","resourceId":{r},"groupId":{g},"action":"ReportRead"}`},
}

// id returns the id of the object of a kind.
func (x things) id(kind string) string {
	return map[string]string{"Folder": x.folder, "Workbook": x.workbook, "Report": x.report}[kind]
}

// send sends an operation on objects.
func (o *operation) send(t *testing.T, token string, x things) *apiclient.Answer {
	t.Helper()
	fill := strings.NewReplacer("{f}", x.folder, "{w}", x.workbook, "{i}", x.inner, "{r}", x.report, "{n}", fmt.Sprint(made), "{g}", fmt.Sprint(number.Of("Group", "others")))
	if o.body == "" {
		return call(t, token, o.method, fill.Replace(o.path), nil)
	}
	return call(t, token, o.method, fill.Replace(o.path), fill.Replace(o.body))
}

// check sends an operation as a caller who has a level on the object, and compares the status.
func (o *operation) check(t *testing.T, token string, x things, level, limit string) {
	t.Helper()
	got := o.send(t, token, x)
	has := slices.Index(levels, level)
	want, words := http.StatusOK, []string{}
	switch {
	case has == 0:
		if want = http.StatusNotFound; o.hidden != 0 {
			want = o.hidden
		}
	case min(has, slices.Index(levels, limit)) < slices.Index(levels, o.needs):
		want = http.StatusForbidden
		if limit == "Manage" {
			name := map[string]string{"Read": "view", "Edit": "edit", "Manage": "manage"}
			words = []string{"the level " + name[o.needs] + " is needed; the caller has " + name[level]}
		}
	}
	if got.Status != want {
		t.Errorf("%s with the level %q: %d %s, want %d", o.name, level, got.Status, got.Body, want)
		return
	}
	if want != http.StatusOK {
		got.Rejected(want, words...)
	}
}

// TestLevels sends each operation as an Explorer with each level.
func TestLevels(t *testing.T) {
	ready(t)
	for i := range operations {
		o := &operations[i]
		for _, level := range levels {
			x := makeThings(t)
			if level != "" {
				grant(t, "bob", o.kind, x.id(o.kind), level)
			}
			o.check(t, bob, x, level, "Manage")
		}
		x := makeThings(t)
		if got := o.send(t, admin, x); got.Status != http.StatusOK {
			t.Errorf("%s as an administrator: %d %s", o.name, got.Status, got.Body)
		}
		x = makeThings(t)
		if got := o.send(t, ada, x); got.Status != http.StatusOK {
			t.Errorf("%s as the owner: %d %s", o.name, got.Status, got.Body)
		}
	}
}

// TestWaysToALevel grants levels to a group, to everyone, and on folders above.
func TestWaysToALevel(t *testing.T) {
	ready(t)
	get, rename, remove := operations[11], operations[15], operations[26]
	for _, c := range []struct {
		to, kind string
	}{{"sales", "Workbook"}, {"everyone", "Workbook"}, {"bob", "Folder"}, {"sales", "Folder"}, {"everyone", "Folder"}} {
		for _, level := range levels[1:] {
			for _, o := range []operation{get, rename, remove} {
				x := makeThings(t)
				grant(t, c.to, c.kind, x.id(c.kind), level)
				o.check(t, bob, x, level, "Manage")
			}
		}
	}
	// A nearer grant replaces one further up, and the highest of one object applies.
	x := makeThings(t)
	grant(t, "bob", "Folder", x.folder, "Manage")
	grant(t, "sales", "Workbook", x.workbook, "Read")
	rename.check(t, bob, x, "Read", "Manage")
	grant(t, "everyone", "Workbook", x.workbook, "Edit")
	rename.check(t, bob, x, "Edit", "Manage")
	remove.check(t, bob, x, "Edit", "Manage")
	grant(t, "everyone", "Workbook", x.workbook, "")
	grant(t, "sales", "Workbook", x.workbook, "")
	remove.check(t, bob, x, "Manage", "Manage")
}

// TestViewers sends each operation as a Viewer to whom all was granted.
func TestViewers(t *testing.T) {
	ready(t)
	for i := range operations {
		o := &operations[i]
		if o.name == "copy a workbook" {
			continue // it needs the permission WorkbookEdit
		}
		x := makeThings(t)
		grant(t, "sales", o.kind, x.id(o.kind), "Manage")
		o.check(t, vic, x, "Manage", "Read")
	}
	x := makeThings(t)
	call(t, vic, "GET", workbooksPath+"/"+x.workbook, nil).Rejected(404)
	grant(t, "vic", "Workbook", x.workbook, "Manage")
	shown := call(t, vic, "GET", workbooksPath+"/"+x.workbook, nil).Is(200)
	shown.Want(map[string]string{"dashboardDraft": "null", "meta": "{}", "publishedDashboard.title": `"T"`, "publishedDashboard.reportSnapshots.0.sqlQuery": "null"})
	call(t, vic, "GET", reportsPath+"/"+x.inner, nil).Is(200).Want(map[string]string{"sqlQuery": "null", "canEdit": "false", "canManage": "false"})
	if list := call(t, vic, "GET", reportsPath+"?workbookId="+x.workbook, nil).Is(200); strings.Contains(string(list.Body), "SELECT") {
		t.Errorf("a Viewer reads %s", list.Body)
	}
	// An Explorer with the level view sees queries, and no draft.
	grant(t, "bob", "Workbook", x.workbook, "Read")
	call(t, bob, "GET", workbooksPath+"/"+x.workbook, nil).Is(200).Want(map[string]string{"dashboardDraft": "null", "publishedDashboard.reportSnapshots.0.sqlQuery": `"SELECT 1"`})
	call(t, bob, "GET", reportsPath+"/"+x.inner, nil).Is(200).Want(map[string]string{"sqlQuery": `"SELECT 1"`, "canEdit": "false", "canManage": "false"})
	grant(t, "bob", "Workbook", x.workbook, "Edit")
	call(t, bob, "GET", reportsPath+"/"+x.inner, nil).Is(200).Want(map[string]string{"canEdit": "true", "canManage": "false"})
	if got := call(t, bob, "GET", workbooksPath+"/"+x.workbook, nil).Is(200); got.At("dashboardDraft") == nil {
		t.Errorf("who may edit sees no draft: %s", got.Body)
	}
}

// TestDestinations puts things into folders that the caller may not edit.
func TestDestinations(t *testing.T) {
	ready(t)
	x := makeThings(t)
	mine := call(t, bob, "POST", workbooksPath, object{"name": "Of bob"}).Is(200).ID()
	report := call(t, bob, "POST", reportsPath, object{}).Is(200).ID()
	into := func() []*apiclient.Answer {
		in := object{"folderId": id64(t, x.folder)}
		return []*apiclient.Answer{
			call(t, bob, "PUT", workbooksPath+"/"+mine, in), call(t, bob, "PUT", reportsPath+"/"+report, in), call(t, bob, "POST", workbooksPath, in),
		}
	}
	for _, a := range into() {
		a.Rejected(404, "folderId: folder "+x.folder+" does not exist")
	}
	grant(t, "bob", "Folder", x.folder, "Read")
	for _, a := range into() {
		a.Rejected(403, "folderId: folder "+x.folder+": the level edit is needed; the caller has view")
	}
	copied := call(t, bob, "POST", workbooksPath+"/"+x.workbook+"/duplicate", nil).Is(200)
	copied.Want(map[string]string{"folderId": "null", "dashboardDraft.title": `"T"`, "user.email": `"bob@example.com"`})
	grant(t, "bob", "Folder", x.folder, "Edit")
	for _, a := range into() {
		a.Is(200)
	}
	call(t, bob, "POST", workbooksPath+"/"+x.workbook+"/duplicate", nil).Is(200).Want(map[string]string{"folderId": x.folder})
	// The slug of what bob does not see.
	other := makeThings(t)
	call(t, bob, "PUT", workbooksPath+"/"+mine, object{"slug": fmt.Sprint("book-", made), "slugTakeover": true}).Rejected(409, "does not see")
	grant(t, "bob", "Workbook", other.workbook, "Read")
	call(t, bob, "PUT", workbooksPath+"/"+mine, object{"slug": fmt.Sprint("book-", made), "slugTakeover": true}).Rejected(403, "slugTakeover: ")
	grant(t, "bob", "Workbook", other.workbook, "Edit")
	call(t, bob, "PUT", workbooksPath+"/"+mine, object{"slug": fmt.Sprint("book-", made), "slugTakeover": true}).Is(200)
}
