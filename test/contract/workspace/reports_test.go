package workspace_test

import (
	"fmt"
	"net/url"
	"strings"
	"testing"

	"github.com/quoin-dev/quoin/apiserver/directory/number"
	"github.com/quoin-dev/quoin/test/internal/apiclient"
)

const reportsPath = deploymentPath + "/reports"

func TestReportsHaveTheDocumentedShapes(t *testing.T) {
	in := folder(t, "Shapes of reports")
	created := acme.call(t, acme.ada, "POST", reportsPath, map[string]any{
		"name": "Orders", "title": "All orders", "publicId": "Shapes000001", "folderId": number64(t, in), "jsonQuery": `{"measures":["orders.count"]}`,
		"sqlQuery": "SELECT MEASURE(count) FROM orders", "source": "EXCEL", "meta": map[string]any{"kind": "table", "later": 1},
		"pivotItems":         map[string]any{"rows": []string{"a"}, "columns": []string{}, "measures": []string{}, "filters": []string{}, "displayScale": "thousands"},
		"externalWorkbookId": "book", "resultLocation": "Sheet1!A1", "endResultCell": "C9", "host": "EXCEL", "workbookName": "Orders.xlsx",
		"resultChecksum": map[string]any{"v": 1, "chunks": []any{map[string]any{"from": 0, "hash": "abc"}}},
	}).Is(200)
	path := reportsPath + "/" + created.ID()
	ada := fmt.Sprint(number.Of("User", "ada"))
	for _, a := range []*apiclient.Answer{created, acme.call(t, acme.ada, "GET", path, nil).Is(200)} {
		a.Want(map[string]string{
			"name": `"Orders"`, "title": `"All orders"`, "type": `"REPORT"`, "publicId": `"Shapes000001"`, "deploymentId": "1", "folderId": in, "workbookId": "null",
			"folderPath": `[{"id":` + in + `,"name":"Shapes of reports"}]`, "jsonQuery": `"{\"measures\":[\"orders.count\"]}"`, "source": `"EXCEL"`, "version": "1",
			"meta": `{"kind":"table","later":1}`, "userId": ada, "createdBy": ada, "user.email": `"ada@example.com"`, "refreshedBy": ada, "refreshedByUser.id": ada,
			"pivotItems": `{"columns":[],"displayScale":"thousands","filters":[],"measures":[],"rows":["a"]}`, "canEdit": "true", "canManage": "true",
			"externalWorkbookPlacements.length": "1", "externalWorkbookPlacements.0.workbookId": `"book"`, "externalWorkbookPlacements.0.sheetName": `"Sheet1"`,
			"externalWorkbookPlacements.0.anchorCell": `"A1"`, "externalWorkbookPlacements.0.syncStatus": `"UP_TO_DATE"`,
			"externalWorkbookPlacements.0.resultChecksum": `{"chunks":[{"from":0,"hash":"abc"}],"v":1}`, "externalWorkbookPlacements.0.placedByUserId": ada,
			"externalWorkbookId": `"book"`, "resultLocation": `"Sheet1!A1"`, "endResultCell": `"C9"`,
		})
	}
	// Absent properties stay, and null removes them.
	acme.call(t, acme.admin, "PUT", path, nil).Is(200).Want(map[string]string{"version": "1", "name": `"Orders"`})
	acme.call(t, acme.admin, "PUT", path, map[string]any{"title": nil, "pivotItems": nil, "meta": nil, "folderId": nil, "sqlQuery": "SELECT 1"}).Is(200).Want(map[string]string{
		"title": "null", "pivotItems": "null", "meta": "{}", "folderId": "null", "folderPath": "[]", "name": `"Orders"`, "version": "2",
		"externalWorkbookPlacements.0.syncStatus": `"CHANGED"`,
	})
	// Spreadsheets are connected by who may read.
	acme.call(t, acme.reader, "PUT", path+"/connect-workbook", map[string]any{"externalWorkbookId": "other", "resultLocation": "'Q 2'!$B$2", "addressOnly": true}).Is(200).Want(map[string]string{
		"externalWorkbookPlacements.length": "2", "externalWorkbookPlacements.1.sheetName": `"Q 2"`, "externalWorkbookPlacements.1.syncStatus": `"UNKNOWN"`,
		"externalWorkbookPlacements.1.refreshedAt": "null", "canEdit": "false", "version": "2",
	})
	acme.call(t, acme.reader, "PUT", path+"/refresh", nil).Is(200).Want(map[string]string{
		"refreshedByUser.email": `"reader@acme.example.com"`, "externalWorkbookPlacements.0.syncStatus": `"CHANGED"`,
	})
	acme.call(t, acme.reader, "PUT", path+"/refresh", map[string]any{"externalWorkbookId": "book", "sheetName": "Sheet1", "anchorCell": "A1"}).Is(200).Want(map[string]string{
		"externalWorkbookPlacements.0.syncStatus": `"UP_TO_DATE"`,
	})
	for _, none := range []any{nil, map[string]any{"externalWorkbookId": "other"}, map[string]any{"placementId": "x"}, map[string]any{"sheetName": "Q 2", "anchorCell": "B2", "sheetId": "9"}} {
		acme.call(t, acme.reader, "DELETE", path+"/connect-workbook", none).Is(200).Want(map[string]string{"externalWorkbookPlacements.length": "2"})
	}
	acme.call(t, acme.reader, "DELETE", path+"/connect-workbook", map[string]any{"externalWorkbookId": "other", "resultLocation": "'Q 2'!B2"}).Is(200).
		Want(map[string]string{"externalWorkbookPlacements.length": "1"})
	acme.call(t, acme.admin, "DELETE", path, nil).Is(200).Want(map[string]string{"success": "true"})
	acme.call(t, acme.admin, "GET", path, nil).Rejected(404, "report "+created.ID()+" does not exist")
}

func TestReportsAreListed(t *testing.T) {
	in := folder(t, "Lists of reports")
	book := acme.call(t, acme.admin, "POST", workbooksPath, map[string]any{"folderId": number64(t, in)}).Is(200).ID()
	for i, name := range []string{"Listed b", "Listed a", "Listed c"} {
		place := map[string]any{"name": name, "folderId": number64(t, in)}
		if i == 2 {
			place = map[string]any{"name": name, "workbookId": number64(t, book), "externalWorkbookId": "listed", "resultLocation": "S!A1"}
		}
		acme.call(t, acme.admin, "POST", reportsPath, place).Is(200)
	}
	names := func(query string) string {
		t.Helper()
		var out []string
		for cursor := ""; ; {
			page := acme.call(t, acme.reader, "GET", reportsPath+"?first=2&after="+url.QueryEscape(cursor)+"&"+query, nil).Is(200)
			items, _ := page.At("items").([]any)
			for i := range items {
				out = append(out, strings.TrimPrefix(fmt.Sprint(page.At(fmt.Sprintf("items.%d.name", i))), "Listed "))
			}
			page.Want(map[string]string{"data.length": fmt.Sprint(len(items))})
			if page.At("pageInfo.hasNextPage") == false {
				page.Want(map[string]string{"count": fmt.Sprint(len(out))})
				return strings.Join(out, " ")
			}
			cursor, _ = page.At("pageInfo.endCursor").(string)
		}
	}
	for query, want := range map[string]string{
		"folderId=" + in: "b a", "workbookId=" + book: "c", "externalWorkbookId=listed": "c", "search=LISTED": "b a c", "search=listed&sortBy=name": "a b c",
		"search=listed&sortBy=name&sortDirection=DESC": "c b a", "search=listed&sortBy=createdAt": "b a c", "search=listed&sortBy=updatedAt&sortDirection=DESC": "c a b",
		"search=list%25": "",
	} {
		if got := names(query); got != want {
			t.Errorf("%s: %q, want %q", query, got, want)
		}
	}
	list := reportsPath + "?search=listed&sortBy=name"
	acme.call(t, acme.reader, "GET", list+"&limit=2&page=1", nil).Is(200).Want(map[string]string{"items.0.name": `"Listed a"`, "items.length": "2", "count": "3", "pageInfo.hasNextPage": "true"})
	acme.call(t, acme.reader, "GET", list+"&limit=2&page=2", nil).Is(200).Want(map[string]string{"items.0.name": `"Listed c"`, "items.length": "1", "pageInfo.hasPreviousPage": "true"})
	acme.call(t, acme.reader, "GET", list+"&limit=2&page=9", nil).Is(200).Want(map[string]string{"items": "[]", "count": "3"})
	acme.call(t, acme.reader, "GET", list+"&limit=2&first=2", nil).Rejected(400, "one style of paging")
	first, _ := acme.call(t, acme.reader, "GET", list+"&limit=2&page=1", nil).Is(200).At("pageInfo.endCursor").(string)
	acme.call(t, acme.reader, "GET", list+"&after="+url.QueryEscape(first), nil).Is(200).Want(map[string]string{"items.0.name": `"Listed c"`, "items.length": "1"})
	acme.call(t, acme.reader, "GET", list+"&sortDirection=UP", nil).Rejected(400, "sortDirection", "ASC")
	cursor, _ := acme.call(t, acme.reader, "GET", list+"&first=1", nil).Is(200).At("pageInfo.endCursor").(string)
	acme.call(t, acme.reader, "GET", reportsPath+"?search=listed&after="+url.QueryEscape(cursor), nil).Rejected(400, "after")
	acme.call(t, acme.reader, "GET", reportsPath+"?folderId=99999", nil).Rejected(404, "folderId")
	acme.call(t, acme.reader, "GET", reportsPath+"?workbookId=99999", nil).Rejected(404, "workbookId")

	folders := acme.call(t, acme.reader, "GET", deploymentPath+"/report-folders", nil).Is(200)
	if want := `{"id":` + in + `,"name":"Lists of reports","reportsCount":2}`; !strings.Contains(string(folders.Body), want) {
		t.Errorf("%s is not in %s", want, folders.Body)
	}
	// What a deleted folder contains moves to the root, and reports are deleted with their workbook.
	acme.call(t, acme.admin, "DELETE", deploymentPath+"/folders/"+in, nil).Is(200)
	acme.call(t, acme.admin, "DELETE", workbooksPath+"/"+book, nil).Is(200)
	if got := names("search=listed&sortBy=name"); got != "a b" {
		t.Errorf("left are %q", got)
	}
}

func TestReportsAreUpsertedByPublicID(t *testing.T) {
	path := reportsPath + "/by-public-id/Upsert000001"
	body := map[string]any{"name": "Upserted", "sqlQuery": "SELECT 1", "source": "D3"}
	first := acme.call(t, acme.editor, "PUT", path, body).Is(200)
	first.Want(map[string]string{"publicId": `"Upsert000001"`, "source": `"D3"`})
	body["source"] = "EXCEL"
	if again := acme.call(t, acme.editor, "PUT", path, body).Is(200); string(again.Body) != string(first.Body) {
		t.Errorf("the same request again answers %s, first %s", again.Body, first.Body)
	}
	acme.call(t, acme.editor, "PUT", path, nil).Is(200).Want(map[string]string{"id": first.ID(), "version": "1"})
	acme.call(t, acme.admin, "PUT", "/api/v1/deployments/2/reports/by-public-id/Upsert000001", nil).Rejected(409, "publicId", "another deployment")
	globex.call(t, globex.admin, "PUT", path, nil).Is(200)
	acme.call(t, acme.editor, "PUT", path, map[string]any{"publicId": "Upsert000002"}).Rejected(400, "publicId", "the id in the path")
	acme.call(t, acme.editor, "POST", reportsPath, map[string]any{"publicId": "Upsert000001"}).Rejected(409, "publicId", first.ID())
	acme.call(t, acme.editor, "PUT", reportsPath+"/"+first.ID(), map[string]any{"publicId": "Upsert000002"}).Rejected(400, "publicId", "cannot be changed")
	acme.call(t, acme.editor, "PUT", reportsPath+"/"+first.ID(), map[string]any{"publicId": "Upsert000001"}).Is(200)
}

func TestInvalidReportsAreRejected(t *testing.T) {
	in, book := folder(t, "Invalid reports"), acme.call(t, acme.admin, "POST", workbooksPath, nil).Is(200).ID()
	id := acme.call(t, acme.admin, "POST", reportsPath, nil).Is(200).ID()
	for name, c := range map[string]struct {
		method, path string
		body         any
		status       int
		words        []string
	}{
		"an empty name":        {"POST", "", map[string]any{"name": ""}, 400, []string{"name"}},
		"both places":          {"POST", "", map[string]any{"folderId": number64(t, in), "workbookId": number64(t, book)}, 400, []string{"folderId", "workbookId"}},
		"an unknown folder":    {"POST", "", map[string]any{"folderId": 99999}, 404, []string{"folderId", "99999"}},
		"an unknown workbook":  {"POST", "", map[string]any{"workbookId": 99999}, 404, []string{"workbookId", "99999"}},
		"a short id":           {"POST", "", map[string]any{"publicId": "short"}, 400, []string{"publicId"}},
		"a query as an object": {"POST", "", map[string]any{"jsonQuery": map[string]any{}}, 400, []string{"jsonQuery"}},
		"no query":             {"POST", "", map[string]any{"jsonQuery": "{"}, 400, []string{"jsonQuery", "JSON object"}},
		"half of pivot items":  {"POST", "", map[string]any{"pivotItems": map[string]any{"rows": []string{}}}, 400, []string{"pivotItems"}},
		"a source":             {"POST", "", map[string]any{"source": "FAX"}, 400, []string{"source", "EXCEL"}},
		"a kind":               {"PUT", "/" + id, map[string]any{"meta": map[string]any{"kind": "pie"}}, 400, []string{"meta.kind", "vega"}},
		"half of a placement":  {"PUT", "/" + id, map[string]any{"resultLocation": "S!A1"}, 400, []string{"externalWorkbookId"}},
		"an unknown field":     {"PUT", "/" + id, map[string]any{"color": "red"}, 400, []string{"color"}},
		"a source by id":       {"PUT", "/" + id, map[string]any{"source": "EXCEL"}, 400, []string{"source"}},
		"an unknown id":        {"PUT", "/99999", map[string]any{"name": "x"}, 404, []string{"99999"}},
		"no number":            {"DELETE", "/abc", nil, 400, []string{"reportId"}},
		"no address":           {"PUT", "/" + id + "/connect-workbook", map[string]any{"externalWorkbookId": "x"}, 400, []string{"resultLocation"}},
		"an unknown placement": {"PUT", "/" + id + "/connect-workbook", map[string]any{"externalWorkbookId": "x", "resultLocation": "S!A1", "placementId": "99"}, 404, []string{"placementId"}},
		"a refresh of nothing": {"PUT", "/" + id + "/refresh", map[string]any{"placementId": "99"}, 404, []string{"placement"}},
		"an order":             {"GET", "?sortBy=size", nil, 400, []string{"sortBy", "lastViewedAt"}},
	} {
		t.Run(name, func(t *testing.T) {
			acme.call(t, acme.admin, c.method, reportsPath+c.path, c.body).Rejected(c.status, c.words...)
		})
	}
}

func TestReportsOfOthersDoNotExist(t *testing.T) {
	id := acme.call(t, acme.admin, "POST", reportsPath, map[string]any{"name": "only mine"}).Is(200).ID()
	for _, c := range []struct {
		of         *account
		deployment string
	}{{acme, "2"}, {globex, "1"}} {
		list := "/api/v1/deployments/" + c.deployment + "/reports"
		if got := c.of.call(t, c.of.admin, "GET", list, nil).Is(200); strings.Contains(string(got.Body), "only mine") {
			t.Errorf("%s lists %s", c.of.name, got.Body)
		}
		for _, call := range []struct {
			method, path string
			body         any
		}{
			{"GET", "", nil}, {"PUT", "", nil}, {"DELETE", "", nil}, {"PUT", "/refresh", nil}, {"DELETE", "/connect-workbook", nil},
			{"PUT", "/connect-workbook", map[string]any{"externalWorkbookId": "x", "resultLocation": "S!A1"}},
		} {
			c.of.call(t, c.of.admin, call.method, list+"/"+id+call.path, call.body).Rejected(404)
		}
	}
	for _, c := range []struct{ token, method, path, permission string }{
		{acme.other, "GET", "", "Read"}, {acme.other, "GET", "/" + id, "Read"}, {acme.other, "PUT", "/" + id + "/refresh", "Read"}, {acme.reader, "POST", "", "Edit"},
		{acme.reader, "PUT", "/by-public-id/Upsert000009", "Edit"}, {acme.reader, "PUT", "/" + id, "Edit"}, {acme.editor, "DELETE", "/" + id, "Manage"},
	} {
		acme.call(t, c.token, c.method, reportsPath+c.path, nil).Rejected(403, "Report"+c.permission)
	}
}

func TestChangesOfReportsAreRecorded(t *testing.T) {
	id := acme.call(t, acme.ada, "POST", reportsPath, map[string]any{"name": "Kept report", "sqlQuery": "SELECT 'not recorded'"}).Is(200).ID()
	acme.call(t, acme.ada, "PUT", reportsPath+"/"+id+"/connect-workbook", map[string]any{"externalWorkbookId": "b", "resultLocation": "S!A1"}).Is(200)
	acme.call(t, acme.ada, "PUT", reportsPath+"/"+id+"/refresh", nil).Is(200)
	acme.call(t, acme.ada, "DELETE", reportsPath+"/"+id+"/connect-workbook", map[string]any{"resultLocation": "S!A1"}).Is(200)
	acme.call(t, acme.ada, "PUT", reportsPath+"/"+id, map[string]any{"title": "T"}).Is(200)
	acme.call(t, acme.admin, "DELETE", reportsPath+"/"+id, nil).Is(200)
	csv := string(acme.call(t, acme.admin, "GET", "/api/v1/audit-logs/export?search="+url.QueryEscape("Kept report"), nil).Is(200).Body)
	for _, event := range []string{
		"Created report", "Updated report", "Deleted report", "Connected report to spreadsheet", "Refreshed report", "Disconnected report from spreadsheet",
	} {
		if n := strings.Count(csv, event); n != 1 {
			t.Errorf("%q is recorded %d times:\n%s", event, n, csv)
		}
	}
	if strings.Contains(csv, "not recorded") {
		t.Errorf("the events have the query:\n%s", csv)
	}
}
