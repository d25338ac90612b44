package workspace_test

import (
	"fmt"
	"net/url"
	"strings"
	"testing"

	"github.com/quoin-dev/quoin/apiserver/directory/number"
)

// book creates a workbook with a report, and returns their ids.
func book(t *testing.T, name string) (workbook, report string) {
	t.Helper()
	workbook = acme.call(t, acme.ada, "POST", workbooksPath, map[string]any{"name": name}).Is(200).ID()
	report = acme.call(t, acme.ada, "POST", reportsPath, map[string]any{
		"name": name + ": orders", "workbookId": number64(t, workbook), "sqlQuery": "SELECT 1",
		"meta": map[string]any{"kind": "vega", "spec": map[string]any{"mark": "bar"}, "columnFormats": map[string]any{"a": map[string]any{"type": "percent"}}, "fillMissingRows": nil},
	}).Is(200).ID()
	return workbook, report
}

// dashboardOf returns a config with a chart of a report.
func dashboardOf(t *testing.T, report, title string) map[string]any {
	t.Helper()
	return map[string]any{"title": title, "widgets": []any{map[string]any{
		"id": "c1", "type": "CHART", "position": map[string]any{"x": 0, "y": 0, "w": 6, "h": 4}, "config": map[string]any{"reportId": number64(t, report), "later": true},
	}}}
}

func TestDashboardsArePublished(t *testing.T) {
	workbook, report := book(t, "Published")
	path, id := workbooksPath+"/"+workbook, number64(t, workbook)
	first := acme.call(t, acme.ada, "POST", path+"/publish", map[string]any{"workbookId": id, "config": dashboardOf(t, report, "First"), "description": "D"}).Is(200)
	first.Want(map[string]string{
		"workbookId": workbook, "deploymentId": "1", "versionNumber": "1", "status": `"published"`, "allowEmbed": "false", "title": `"First"`, "description": `"D"`,
		"config.widgets.0.config.reportId": report, "config.widgets.0.config.later": "true", "reportSnapshots.length": "1", "reportSnapshots.0.reportId": report,
		"reportSnapshots.0.versionNumber": "1", "reportSnapshots.0.kind": `"vega"`, "reportSnapshots.0.spec": `{"mark":"bar"}`, "reportSnapshots.0.sqlQuery": `"SELECT 1"`,
		"reportSnapshots.0.preferences": `{"columnFormats":{"a":{"type":"percent"}}}`, "reportSnapshots.0.fillMissingRows": "null",
	})
	again := map[string]any{"workbookId": id, "config": first.At("config")}
	if same := acme.call(t, acme.ada, "POST", path+"/publish", again).Is(200); string(same.Body) != string(first.Body) {
		t.Errorf("the same request again answers %s, first %s", same.Body, first.Body)
	}
	acme.call(t, acme.reader, "GET", path, nil).Is(200).Want(map[string]string{
		"publishedDashboard.versionNumber": "1", "publishedDashboard.reportSnapshots.length": "1", "dashboardPublished.title": `"First"`, "dashboardDraft": "null",
	})
	// The draft is published without a config, with the reports as they are now.
	acme.call(t, acme.ada, "PUT", path+"/dashboard", map[string]any{"dashboardDraft": dashboardOf(t, report, "Second")}).Is(200).Want(map[string]string{"dashboardPublished.title": `"First"`})
	acme.call(t, acme.ada, "PUT", reportsPath+"/"+report, map[string]any{"sqlQuery": "SELECT 2"}).Is(200)
	acme.call(t, acme.reader, "GET", path, nil).Is(200).Want(map[string]string{"publishedDashboard.reportSnapshots.0.sqlQuery": `"SELECT 1"`})
	acme.call(t, acme.editor, "POST", path+"/publish", map[string]any{"workbookId": id, "allowEmbed": true}).Is(200).Want(map[string]string{
		"versionNumber": "2", "title": `"Second"`, "description": `"D"`, "allowEmbed": "true", "reportSnapshots.0.sqlQuery": `"SELECT 2"`, "reportSnapshots.0.versionNumber": "2",
		"id": fmt.Sprintf("%.0f", first.At("id")), "publicId": fmt.Sprintf("%q", first.At("publicId")),
	})
	list := acme.call(t, acme.reader, "GET", path+"/versions?first=1", nil).Is(200)
	list.Want(map[string]string{"items.length": "1", "items.0.versionNumber": "2", "items.0.title": `"Second"`, "items.0.user.email": `"editor@acme.example.com"`, "pageInfo.hasNextPage": "true"})
	acme.call(t, acme.reader, "GET", path+"/versions?first=1&after="+url.QueryEscape(fmt.Sprint(list.At("pageInfo.endCursor"))), nil).Is(200).Want(map[string]string{
		"items.0.versionNumber": "1", "items.0.user.id": fmt.Sprint(number.Of("User", "ada")), "pageInfo.hasNextPage": "false",
	})
	acme.call(t, acme.reader, "GET", path+"/versions/1", nil).Is(200).Want(map[string]string{"versionNumber": "1", "reportSnapshots.0.sqlQuery": `"SELECT 1"`, "title": `"First"`})
	acme.call(t, acme.editor, "POST", path+"/versions/1/restore", nil).Is(200).Want(map[string]string{"versionNumber": "3", "title": `"First"`, "reportSnapshots.0.sqlQuery": `"SELECT 1"`, "allowEmbed": "true"})
	acme.call(t, acme.reader, "GET", reportsPath+"/"+report, nil).Is(200).Want(map[string]string{"sqlQuery": `"SELECT 1"`})
	acme.call(t, acme.reader, "GET", path, nil).Is(200).Want(map[string]string{"dashboardDraft.title": `"First"`, "publishedDashboard.versionNumber": "3"})
	copied := acme.call(t, acme.ada, "POST", path+"/duplicate", nil).Is(200)
	copied.Want(map[string]string{"publishedDashboard.allowEmbed": "false", "publishedDashboard.versionNumber": "1", "publishedDashboard.title": `"First"`})
	if copied.At("publishedDashboard.publicId") == first.At("publicId") {
		t.Error("the copy has the public id of the original")
	}
	csv := string(acme.call(t, acme.admin, "GET", "/api/v1/audit-logs/export?search=Published", nil).Is(200).Body)
	if n := strings.Count(csv, "Restored dashboard version"); n != 1 {
		t.Errorf("the restoration is recorded %d times:\n%s", n, csv)
	}
	acme.call(t, acme.admin, "DELETE", path, nil).Is(200)
	acme.call(t, acme.reader, "GET", path+"/versions", nil).Rejected(404, "workbook "+workbook)
}

func TestInvalidPublicationsAreRejected(t *testing.T) {
	workbook, report := book(t, "Not published")
	path, id := workbooksPath+"/"+workbook, number64(t, workbook)
	outside := acme.call(t, acme.admin, "POST", reportsPath, nil).Is(200).ID()
	for name, c := range map[string]struct {
		token, method, path string
		body                any
		status              int
		words               []string
	}{
		"no body":               {acme.admin, "POST", "/publish", nil, 400, []string{"body"}},
		"another workbook":      {acme.admin, "POST", "/publish", map[string]any{"workbookId": 99999}, 400, []string{"workbookId", "99999", workbook}},
		"no draft":              {acme.admin, "POST", "/publish", map[string]any{"workbookId": id}, 400, []string{"config", "draft"}},
		"another dashboard":     {acme.admin, "POST", "/publish", map[string]any{"workbookId": id, "dashboardId": 99999, "config": map[string]any{}}, 404, []string{"dashboardId", "99999"}},
		"another report":        {acme.admin, "POST", "/publish", map[string]any{"workbookId": id, "config": dashboardOf(t, outside, "x")}, 400, []string{"config.widgets[0].config.reportId", outside}},
		"an unknown field":      {acme.admin, "POST", "/publish", map[string]any{"workbookId": id, "color": "red"}, 400, []string{"color"}},
		"a config":              {acme.admin, "POST", "/publish", map[string]any{"workbookId": id, "config": []any{}}, 400, []string{"config"}},
		"an unknown version":    {acme.admin, "GET", "/versions/7", nil, 404, []string{"version 7"}},
		"no number":             {acme.admin, "GET", "/versions/x", nil, 400, []string{"versionNumber"}},
		"an unknown to restore": {acme.admin, "POST", "/versions/7/restore", nil, 404, []string{"version 7"}},
		"a reader":              {acme.reader, "POST", "/publish", map[string]any{"workbookId": id, "config": dashboardOf(t, report, "x")}, 403, []string{"WorkbookEdit"}},
		"a reader restores":     {acme.reader, "POST", "/versions/1/restore", nil, 403, []string{"WorkbookEdit"}},
		"who may not read":      {acme.other, "GET", "/versions", nil, 403, []string{"WorkbookRead"}},
	} {
		t.Run(name, func(t *testing.T) {
			acme.call(t, c.token, c.method, path+c.path, c.body).Rejected(c.status, c.words...)
		})
	}
	acme.call(t, acme.admin, "GET", path, nil).Is(200).Want(map[string]string{"publishedDashboard": "null"})
	for _, c := range []struct {
		of         *account
		deployment string
	}{{acme, "2"}, {globex, "1"}} {
		other := "/api/v1/deployments/" + c.deployment + "/workbooks/" + workbook
		c.of.call(t, c.of.admin, "POST", other+"/publish", map[string]any{"workbookId": id, "config": map[string]any{}}).Rejected(404)
		c.of.call(t, c.of.admin, "GET", other+"/versions", nil).Rejected(404)
		c.of.call(t, c.of.admin, "GET", other+"/versions/1", nil).Rejected(404)
		c.of.call(t, c.of.admin, "POST", other+"/versions/1/restore", nil).Rejected(404)
	}
}

// TestChatsOfWidgetsAreSet: the chat of an AI widget is a new version of the published dashboard, which is otherwise what it was.
func TestChatsOfWidgetsAreSet(t *testing.T) {
	workbook, report := book(t, "Summarized")
	path, id := workbooksPath+"/"+workbook, number64(t, workbook)
	thread := path + "/dashboard/ai-widget-thread"
	body := map[string]any{"widgetId": "s1", "threadId": "chat-1", "checksum": "abc"}
	acme.call(t, acme.ada, "POST", thread, body).Rejected(404, "workbook "+workbook, "no published dashboard")
	config := dashboardOf(t, report, "Summarized")
	config["widgets"] = append(config["widgets"].([]any), map[string]any{
		"id": "s1", "type": "AI", "position": map[string]any{"x": 6, "y": 0, "w": 6, "h": 4}, "config": map[string]any{"prompt": "What changed?"},
	})
	acme.call(t, acme.ada, "PUT", path+"/dashboard", map[string]any{"dashboardDraft": config}).Is(200)
	acme.call(t, acme.ada, "POST", path+"/publish", map[string]any{"workbookId": id}).Is(200)
	acme.call(t, acme.ada, "PUT", reportsPath+"/"+report, map[string]any{"sqlQuery": "SELECT 2"}).Is(200)
	set := acme.call(t, acme.ada, "POST", thread, body).Is(200)
	set.Want(map[string]string{
		"versionNumber": "2", "title": `"Summarized"`, "config.widgets.1.config": `{"checksum":"abc","prompt":"What changed?","threadId":"chat-1"}`,
		"reportSnapshots.length": "1", "reportSnapshots.0.sqlQuery": `"SELECT 1"`, "reportSnapshots.0.versionNumber": "1",
	})
	if again := acme.call(t, acme.ada, "POST", thread, body).Is(200); string(again.Body) != string(set.Body) {
		t.Errorf("the same request again answers %s, first %s", again.Body, set.Body)
	}
	acme.call(t, acme.reader, "GET", path, nil).Is(200).Want(map[string]string{
		"publishedDashboard.versionNumber": "2", "dashboardDraft.widgets.1.config.threadId": `"chat-1"`, "dashboardDraft.widgets.0.config.reportId": report,
	})
	for name, c := range map[string]struct {
		token  string
		body   any
		status int
		words  []string
	}{
		"no body":        {acme.ada, nil, 400, []string{"body"}},
		"no widget":      {acme.ada, map[string]any{"threadId": "x"}, 400, []string{"widgetId"}},
		"no chat":        {acme.ada, map[string]any{"widgetId": "s1"}, 400, []string{"threadId"}},
		"an empty chat":  {acme.ada, map[string]any{"widgetId": "s1", "threadId": ""}, 400, []string{"threadId"}},
		"unknown widget": {acme.ada, map[string]any{"widgetId": "s2", "threadId": "x"}, 404, []string{"widgetId", "s2"}},
		"a chart":        {acme.ada, map[string]any{"widgetId": "c1", "threadId": "x"}, 400, []string{"widgetId", "c1", "CHART", "AI"}},
		"a reader":       {acme.reader, body, 403, []string{"WorkbookEdit"}},
	} {
		t.Run(name, func(t *testing.T) { acme.call(t, c.token, "POST", thread, c.body).Rejected(c.status, c.words...) })
	}
	for _, c := range []struct {
		of         *account
		deployment string
	}{{acme, "2"}, {globex, "1"}} {
		c.of.call(t, c.of.admin, "POST", "/api/v1/deployments/"+c.deployment+"/workbooks/"+workbook+"/dashboard/ai-widget-thread", body).Rejected(404)
	}
	acme.call(t, acme.reader, "GET", path+"/versions", nil).Is(200).Want(map[string]string{"items.length": "2"})
}
