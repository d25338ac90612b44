package workspace_test

import (
	"cmp"
	"encoding/json"
	"fmt"
	"net/http"
	"net/url"
	"os"
	"regexp"
	"strings"
	"testing"

	"github.com/quoin-dev/quoin/test/internal/apiclient"
)

const workspacePath = deploymentPath + "/workspace"

// item is the body of requests that name an item.
func item(t *testing.T, kind, id string) map[string]any {
	t.Helper()
	return map[string]any{"type": kind, "id": number64(t, id)}
}

// post creates something and returns its id.
func post(t *testing.T, path string, body map[string]any) string {
	t.Helper()
	return acme.call(t, acme.admin, "POST", deploymentPath+path, body).Is(200).ID()
}

// names returns the names of the items of a response, in their order.
func names(a *apiclient.Answer) string {
	items, _ := a.At("items").([]any)
	out := make([]string, len(items))
	for i := range items {
		out[i] = fmt.Sprint(a.At(fmt.Sprintf("items.%d.name", i)))
	}
	return strings.Join(out, " ")
}

func TestWorkspaceIsListed(t *testing.T) {
	in := folder(t, "Feed")
	inID := number64(t, in)
	post(t, "/folders", map[string]any{"name": "feed-z", "parentId": inID, "position": 0})
	inner := post(t, "/folders", map[string]any{"name": "feed-y", "parentId": inID, "position": 1})
	workbook := post(t, "/workbooks", map[string]any{"name": "feed-b", "folderId": inID})
	report := post(t, "/reports", map[string]any{"name": "feed-a", "folderId": inID})
	post(t, "/reports", map[string]any{"name": "feed-in-workbook", "workbookId": number64(t, workbook)})
	post(t, "/workbooks", map[string]any{"name": "feed-c", "folderId": number64(t, inner)})
	list := workspacePath + "?folderId=" + in
	for query, want := range map[string]string{
		"":                         "feed-z feed-y feed-a feed-b",
		"&orderByDirection=DESC":   "feed-z feed-y feed-b feed-a",
		"&orderByField=created_at": "feed-z feed-y feed-b feed-a",
		"&orderByField=updated_at&orderByDirection=DESC": "feed-z feed-y feed-a feed-b",
		"&types=WORKBOOK": "feed-b",
		"&types=REPORT&types=WORKBOOK&orderByField=name": "feed-a feed-b",
		"&search=FEED-":                 "feed-z feed-y feed-a feed-b feed-c",
		"&search=feed-c&types=WORKBOOK": "feed-c",
		"&search=feed-in":               "",
		"&types=FOLDER&types=FOLDER&orderByField=viewer_last_viewed_at": "feed-z feed-y",
	} {
		if got := names(acme.call(t, acme.reader, "GET", list+query, nil).Is(200)); got != want {
			t.Errorf("%s: %s, want %s", query, got, want)
		}
	}
	acme.call(t, acme.reader, "GET", list, nil).Is(200).Want(map[string]string{
		"items.0.type": `"FOLDER"`, "items.0.parentId": in, "items.0.position": "0", "items.0.meta": "{}", "items.0.calculatedFields": "{}",
		"items.2.type": `"REPORT"`, "items.2.id": report, "items.2.folderId": in, "items.2.folderPath": `[{"id":` + in + `,"name":"Feed"}]`, "items.2.user.email": `"admin@acme.example.com"`,
		"items.3.type": `"WORKBOOK"`, "items.3.isFavorite": "false", "items.3.deploymentId": "1", "pageInfo.hasNextPage": "false", "pageInfo.hasPreviousPage": "false",
	})
	var got []string
	for cursor := ""; ; {
		page := acme.call(t, acme.reader, "GET", list+"&first=1&after="+url.QueryEscape(cursor), nil).Is(200)
		got = append(got, names(page))
		if page.At("pageInfo.hasNextPage") == false {
			break
		}
		cursor, _ = page.At("pageInfo.endCursor").(string)
		acme.call(t, acme.reader, "GET", workspacePath+"?after="+url.QueryEscape(cursor), nil).Rejected(400, "after", "cursor")
	}
	if want := "feed-z feed-y feed-a feed-b"; strings.Join(got, " ") != want {
		t.Errorf("the pages have %v, want %s", got, want)
	}
	for query, words := range map[string][]string{
		"?types=DASHBOARD": {"types", "WORKBOOK"}, "?orderByField=size": {"orderByField", "viewer_last_viewed_at"}, "?orderByDirection=up": {"orderByDirection", "DESC"},
		"?first=0": {"first"}, "?folderId=x": {"folderId"}, "?color=red": {"color"},
	} {
		acme.call(t, acme.reader, "GET", workspacePath+query, nil).Rejected(400, words...)
	}
	acme.call(t, acme.reader, "GET", workspacePath+"?folderId=99999", nil).Rejected(404, "folderId", "99999")
	acme.call(t, acme.other, "GET", workspacePath, nil).Rejected(403, "FolderRead", "WorkbookRead", "ReportRead")
	acme.call(t, acme.workbooks, "GET", list, nil).Is(200).Want(map[string]string{"items.length": "1", "items.0.name": `"feed-b"`})
	if got := globex.call(t, globex.admin, "GET", workspacePath+"?search=feed-", nil).Is(200); names(got) != "" {
		t.Errorf("another account sees %s", got.Body)
	}
}

func TestTheSharedWorkspaceIsForEmbedSessions(t *testing.T) {
	for _, token := range []string{acme.admin, acme.ada, acme.reader} {
		acme.call(t, token, "GET", deploymentPath+"/shared-workspace?types=WORKBOOK", nil).Rejected(403, "shared workspace", "embed sessions")
	}
}

func TestItemsAreMoved(t *testing.T) {
	from, to := folder(t, "Move from"), folder(t, "Move to")
	fromID, toID := number64(t, from), number64(t, to)
	inner := post(t, "/folders", map[string]any{"name": "moved folder", "parentId": fromID})
	workbook := post(t, "/workbooks", map[string]any{"name": "moved workbook", "folderId": fromID})
	report := post(t, "/reports", map[string]any{"name": "moved report", "workbookId": number64(t, workbook)})
	move := func(kind, id string, to any) *apiclient.Answer {
		body := item(t, kind, id)
		if body["folderId"] = to; to == "" {
			delete(body, "folderId")
		}
		return acme.call(t, acme.admin, "POST", workspacePath+"/move", body)
	}
	path := `[{"id":` + to + `,"name":"Move to"}]`
	move("FOLDER", inner, toID).Is(200).Want(map[string]string{"id": inner, "type": `"FOLDER"`, "parentId": to, "folderPath": path})
	move("WORKBOOK", workbook, toID).Is(200).Want(map[string]string{"id": workbook, "type": `"WORKBOOK"`, "folderId": to, "folderPath": path})
	move("REPORT", report, nil).Is(200).Want(map[string]string{"id": report, "folderId": "null"})
	acme.call(t, acme.admin, "GET", deploymentPath+"/reports/"+report, nil).Is(200).Want(map[string]string{"workbookId": "null"})
	move("REPORT", report, toID).Is(200).Want(map[string]string{"folderPath": path})
	move("WORKBOOK", workbook, "").Is(200).Want(map[string]string{"folderId": "null", "folderPath": "[]"})

	move("FOLDER", to, number64(t, inner)).Rejected(400, "folderId", inner, to)
	move("FOLDER", inner, 99999).Rejected(404, "folderId", "99999")
	move("WORKBOOK", workbook, 99999).Rejected(404, "folderId", "99999")
	for _, kind := range []string{"FOLDER", "WORKBOOK", "REPORT"} {
		move(kind, "99999", toID).Rejected(404, strings.ToLower(kind)+" 99999 does not exist")
		globex.call(t, globex.admin, "POST", workspacePath+"/move", map[string]any{"type": kind, "id": 1 << 40}).Rejected(404)
		acme.call(t, acme.reader, "POST", workspacePath+"/move", map[string]any{"type": kind, "id": 1}).Rejected(403, "permission")
	}
	for _, body := range []any{nil, map[string]any{}, map[string]any{"type": "REPORT"}, map[string]any{"type": "DASHBOARD", "id": 1}, map[string]any{"type": "REPORT", "id": 0}} {
		acme.call(t, acme.admin, "POST", workspacePath+"/move", body).Rejected(400)
	}
}

// outcomes are the answers to a bulk request.
type outcomes struct {
	Moved, Deleted []struct {
		Type string
		ID   int64
	}
	Failed []struct {
		Type  string
		ID    int64
		Error struct {
			Status  int
			Message string
		}
	}
}

// tree is what bulk requests are about: a folder with items, of which some do not exist.
type tree struct {
	refs []map[string]any
	// destination is a folder in one of the items.
	destination int64
	// names are what items are called in messages instead of their kinds and ids. An id alone names no item: a folder and a report
	// can have the same.
	names map[string]string
}

var mentioned = regexp.MustCompile(`\b(folder|workbook|report) \d+`)

// readable returns a message without the ids of the tree.
func (tr *tree) readable(message string) string {
	return mentioned.ReplaceAllStringFunc(message, func(item string) string { return cmp.Or(tr.names[item], item) })
}

func newTree(t *testing.T, name string) tree {
	t.Helper()
	top := number64(t, folder(t, name))
	leaf := post(t, "/folders", map[string]any{"name": "leaf", "parentId": top})
	parent := post(t, "/folders", map[string]any{"name": "parent", "parentId": top})
	child := post(t, "/folders", map[string]any{"name": "child", "parentId": number64(t, parent)})
	workbook, report := post(t, "/workbooks", map[string]any{"folderId": top}), post(t, "/reports", map[string]any{"folderId": number64(t, leaf)})
	return tree{[]map[string]any{
		item(t, "WORKBOOK", workbook), item(t, "FOLDER", parent), item(t, "REPORT", "99999"), item(t, "REPORT", report), item(t, "FOLDER", leaf), item(t, "WORKBOOK", "99999"), item(t, "FOLDER", "99999"),
	}, number64(t, child), map[string]string{
		"folder " + parent: "<parent>", "folder " + child: "<child>", "folder " + leaf: "<leaf>", "workbook " + workbook: "<workbook>", "report " + report: "<report>",
	}}
}

// single moves or deletes one item and returns the error, or nothing.
func (tr *tree) single(t *testing.T, token, action string, ref map[string]any) string {
	t.Helper()
	var a *apiclient.Answer
	if action == "bulk-move" {
		a = acme.call(t, token, "POST", workspacePath+"/move", map[string]any{"type": ref["type"], "id": ref["id"], "folderId": tr.destination})
	} else {
		a = acme.call(t, token, "DELETE", fmt.Sprintf("%s/%ss/%d", deploymentPath, strings.ToLower(fmt.Sprint(ref["type"])), ref["id"]), nil)
	}
	if a.Status == 200 {
		return ""
	}
	return fmt.Sprint(a.Status, " ", tr.readable(fmt.Sprint(a.At("error"))))
}

// TestBulkRequestsAnswerAsSingleOnes moves and deletes the items of a tree in a bulk request, and those of an equal tree one by
// one: the outcomes are the same for all callers.
func TestBulkRequestsAnswerAsSingleOnes(t *testing.T) {
	callers := []struct{ name, token string }{
		{"editor", acme.editor}, {"admin", acme.admin}, {"reader", acme.reader}, {"ada", acme.ada}, {"workbooks", acme.workbooks}, {"other", acme.other},
	}
	for _, action := range []string{"bulk-move", "bulk-delete"} {
		for _, caller := range callers {
			name, token := caller.name, caller.token
			t.Run(action+" by "+name, func(t *testing.T) {
				one, all := newTree(t, action+" one "+name), newTree(t, action+" all "+name)
				var want, wantDone []string
				for _, ref := range one.refs {
					outcome := one.single(t, token, action, ref)
					if outcome == "" {
						wantDone = append(wantDone, fmt.Sprint(ref["type"]))
					} else {
						want = append(want, fmt.Sprint(ref["type"], " ", outcome))
					}
				}
				body := map[string]any{"items": append(all.refs, all.refs...)}
				if action == "bulk-move" {
					body["folderId"] = all.destination
				}
				var out outcomes
				if err := json.Unmarshal(acme.call(t, token, "POST", workspacePath+"/"+action, body).Is(200).Body, &out); err != nil {
					t.Fatal(err)
				}
				var got, done []string
				for _, f := range out.Failed {
					got = append(got, fmt.Sprint(f.Type, " ", f.Error.Status, " ", all.readable(f.Error.Message)))
				}
				for _, i := range append(out.Moved, out.Deleted...) {
					done = append(done, i.Type)
				}
				if strings.Join(got, "\n") != strings.Join(want, "\n") || strings.Join(done, " ") != strings.Join(wantDone, " ") {
					t.Errorf("done: %v, want %v; failed:\n%s\n\nwant:\n%s", done, wantDone, strings.Join(got, "\n"), strings.Join(want, "\n"))
				}
				if name == "admin" && (len(done) != 3 || len(got) != 4) {
					t.Errorf("%v and %v", done, got)
				}
			})
		}
	}
}

func TestInvalidBulkRequestsAreRejected(t *testing.T) {
	many := make([]any, 101)
	for i := range many {
		many[i] = map[string]any{"type": "REPORT", "id": i + 1}
	}
	for _, action := range []string{"bulk-move", "bulk-delete"} {
		for name, body := range map[string]any{
			"no body": nil, "no items": map[string]any{}, "an empty list": map[string]any{"items": []any{}}, "101 items": map[string]any{"items": many},
			"a type": map[string]any{"items": []any{map[string]any{"type": "X", "id": 1}}}, "no id": map[string]any{"items": []any{map[string]any{"type": "REPORT"}}},
		} {
			t.Run(action+": "+name, func(t *testing.T) {
				acme.call(t, acme.admin, "POST", workspacePath+"/"+action, body).Rejected(400)
			})
		}
	}
}

func TestFavorites(t *testing.T) {
	id := post(t, "/workbooks", map[string]any{"name": "Favorite workbook"})
	path := workbooksPath + "/" + id
	marked := func(token string) [3]any {
		return [3]any{
			acme.call(t, token, "GET", path, nil).Is(200).At("isFavorite"),
			acme.call(t, token, "GET", workspacePath+"?search=favorite+workbook", nil).Is(200).At("items.0.isFavorite"),
			strings.Contains(string(acme.call(t, token, "GET", workbooksPath, nil).Is(200).Body), `"isFavorite":true`),
		}
	}
	for range 2 {
		acme.call(t, acme.reader, "PUT", path+"/favorite", nil).Is(200).Want(map[string]string{"success": "true"})
	}
	if got := marked(acme.reader); got != [3]any{true, true, true} {
		t.Errorf("the workbook is marked: %v", got)
	}
	if got := marked(acme.editor); got != [3]any{false, false, false} {
		t.Errorf("it is marked for another caller: %v", got)
	}
	for range 2 {
		acme.call(t, acme.reader, "DELETE", path+"/favorite", nil).Is(200)
	}
	if got := marked(acme.reader); got != [3]any{false, false, false} {
		t.Errorf("the mark is removed: %v", got)
	}
	acme.call(t, acme.reader, "PUT", workbooksPath+"/99999/favorite", nil).Rejected(404, "99999")
	acme.call(t, acme.other, "PUT", path+"/favorite", nil).Rejected(403, "WorkbookRead")
	globex.call(t, globex.admin, "PUT", path+"/favorite", nil).Rejected(404)
}

// TestReadsAreViews: what a person reads by id is ordered by it, for the person only.
func TestReadsAreViews(t *testing.T) {
	in := folder(t, "Views")
	inID := number64(t, in)
	create := func(path, name string) string {
		return acme.call(t, acme.ada, "POST", deploymentPath+path, map[string]any{"name": name}).Is(200).ID()
	}
	workbook, first, second := create("/workbooks", "view-w"), create("/reports", "view-a"), create("/reports", "view-b")
	for kind, id := range map[string]string{"/workbooks/": workbook, "/reports/": first} {
		acme.call(t, acme.admin, "PUT", deploymentPath+kind+id, map[string]any{"folderId": inID}).Is(200)
	}
	acme.call(t, acme.admin, "PUT", deploymentPath+"/reports/"+second, map[string]any{"folderId": inID}).Is(200)
	feed := workspacePath + "?search=view-&types=WORKBOOK&types=REPORT&orderByField=viewer_last_viewed_at&orderByDirection=DESC"
	for _, path := range []string{"/reports/" + second, "/workbooks/" + workbook, "/reports/" + first} {
		acme.call(t, acme.ada, "GET", deploymentPath+path, nil).Is(200)
		acme.call(t, acme.admin, "GET", deploymentPath+path, nil).Is(200) // no person
	}
	apiclient.Soon(t, func() error {
		if got := names(acme.call(t, acme.ada, "GET", feed, nil).Is(200)); got != "view-a view-w view-b" {
			return fmt.Errorf("the feed is %s", got)
		}
		return nil
	})
	acme.call(t, acme.admin, "GET", feed, nil).Is(200).Want(map[string]string{"items.length": "3", "items.0.lastViewedAt": "null"})
	list := deploymentPath + "/reports?search=view-&sortBy=lastViewedAt&sortDirection=DESC"
	acme.call(t, acme.ada, "GET", list, nil).Is(200).Want(map[string]string{"items.0.name": `"view-a"`, "items.1.name": `"view-b"`, "count": "2", "pageInfo.endCursor": "null"})
	acme.call(t, acme.ada, "GET", list+"&limit=1&page=2", nil).Is(200).Want(map[string]string{"items.length": "1", "items.0.name": `"view-b"`})
	for _, page := range []string{"&first=1", "&after=x"} {
		acme.call(t, acme.ada, "GET", list+page, nil).Rejected(400, "sortBy", "lastViewedAt", "limit")
	}
}

// TestCallsOfTheCommandLineClient: each call is answered, and a response has what the client reads. The one of embed sessions is
// a 403, which the client shows.
func TestCallsOfTheCommandLineClient(t *testing.T) {
	data, err := os.ReadFile("testdata/cli-calls.json")
	if err != nil {
		t.Fatal(err)
	}
	var calls []struct {
		Command, Method, Path string
		Query, Body, Reads    []string
	}
	if err := json.Unmarshal(data, &calls); err != nil || len(calls) != 3 {
		t.Fatalf("%v, %d calls", err, len(calls))
	}
	in := folder(t, "Command line")
	id := post(t, "/workbooks", map[string]any{"name": "cli", "folderId": number64(t, in)})
	query := url.Values{
		"folderId": {in}, "types": {"WORKBOOK", "FOLDER"}, "search": {"cli"}, "orderByField": {"updated_at"}, "orderByDirection": {"DESC"}, "first": {"50"},
	}
	body := item(t, "WORKBOOK", id)
	body["folderId"] = nil
	for _, call := range calls {
		path, want := strings.ReplaceAll(call.Path, "{deploymentId}", "1"), 200
		var sent any
		if call.Method == http.MethodPost {
			sent = body
		} else {
			path += "?" + query.Encode()
		}
		if call.Command == "workspace shared" {
			want = 403
		}
		got := acme.call(t, acme.admin, call.Method, path, sent).Is(want)
		for _, read := range call.Reads {
			if field := strings.TrimPrefix(read, "items[]."); got.At("items.0."+field) == nil {
				t.Errorf("%s: the first row has no %s: %s", call.Command, field, got.Body)
			}
		}
	}
}
