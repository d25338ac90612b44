package workspace_test

import (
	"fmt"
	"net/url"
	"strings"
	"testing"

	"github.com/quoin-dev/quoin/apiserver/directory/number"
	"github.com/quoin-dev/quoin/test/internal/apiclient"
)

const (
	deploymentPath = "/api/v1/deployments/1"
	workbooksPath  = deploymentPath + "/workbooks"
)

// folder creates a folder of ada and returns its id.
func folder(t *testing.T, name string) string {
	t.Helper()
	return acme.call(t, acme.ada, "POST", deploymentPath+"/folders", map[string]any{"name": name}).Is(200).ID()
}

func TestWorkbooksHaveTheDocumentedShapes(t *testing.T) {
	in := folder(t, "Shapes of workbooks")
	created := acme.call(t, acme.ada, "POST", workbooksPath, map[string]any{
		"name": "Sales", "folderId": number64(t, in), "meta": map[string]any{"color": "red", "dashboardDraft": map[string]any{"widgets": []any{
			map[string]any{"type": "TEXT", "position": map[string]any{"x": 0, "y": 0, "w": 6, "h": 2}, "config": map[string]any{"markdown": "# Hi", "later": 1}},
		}}},
	}).Is(200)
	path := workbooksPath + "/" + created.ID()
	ada := fmt.Sprint(number.Of("User", "ada"))
	for _, a := range []*apiclient.Answer{created, acme.call(t, acme.reader, "GET", path, nil).Is(200)} {
		a.Want(map[string]string{
			"name": `"Sales"`, "type": `"WORKBOOK"`, "deploymentId": "1", "folderId": in, "folderPath": `[{"id":` + in + `,"name":"Shapes of workbooks"}]`,
			"meta.color": `"red"`, "calculatedFields": "{}", "userId": ada, "createdBy": ada, "user.id": ada, "user.email": `"ada@example.com"`, "user.firstName": `"Ada"`,
			"dashboardDraft.widgets.0.id": `"w1"`, "meta.dashboardDraft.widgets.0.config": `{"later":1,"markdown":"# Hi"}`, "slug": "null",
		})
	}
	// meta is replaced by id and merged by slug; null is the root.
	acme.call(t, acme.admin, "PUT", path, map[string]any{"slug": " Sales ", "folderId": nil}).Is(200).
		Want(map[string]string{"slug": `"sales"`, "folderId": "null", "folderPath": "[]", "meta.color": `"red"`})
	acme.call(t, acme.admin, "PUT", workbooksPath+"/by-slug/SALES", map[string]any{"meta": map[string]any{"size": 3}}).Is(200).
		Want(map[string]string{"id": created.ID(), "meta.color": `"red"`, "meta.size": "3", "dashboardDraft.widgets.length": "1"})
	acme.call(t, acme.admin, "PUT", path, map[string]any{"meta": map[string]any{"size": 4}}).Is(200).
		Want(map[string]string{"meta": `{"size":4}`, "dashboardDraft": "null", "name": `"Sales"`})
	acme.call(t, acme.admin, "PUT", path, nil).Is(200).Want(map[string]string{"meta": `{"size":4}`})
	acme.call(t, acme.admin, "PUT", path+"/dashboard", map[string]any{"dashboardDraft": map[string]any{"title": "T"}}).Is(200).
		Want(map[string]string{"dashboardDraft": `{"title":"T"}`})
	acme.call(t, acme.admin, "GET", path, nil).Is(200).Want(map[string]string{"meta": `{"dashboardDraft":{"title":"T"},"size":4}`})
	acme.call(t, acme.admin, "PUT", path+"/dashboard", map[string]any{}).Is(200).Want(map[string]string{"dashboardDraft": `{"title":"T"}`})
	acme.call(t, acme.admin, "PUT", path+"/dashboard", map[string]any{"dashboardDraft": nil}).Is(200).Want(map[string]string{"dashboardDraft": "null"})

	copied := acme.call(t, acme.editor, "POST", path+"/duplicate", nil).Is(200)
	copied.Want(map[string]string{"name": `"Copy of Sales"`, "slug": "null", "meta": `{"size":4}`, "user.email": `"editor@acme.example.com"`})
	acme.call(t, acme.editor, "POST", path+"/duplicate", map[string]any{"shared": true}).Rejected(403, "shared", "embed")

	acme.call(t, acme.admin, "DELETE", path, nil).Is(200).Want(map[string]string{"success": "true"})
	acme.call(t, acme.admin, "GET", path, nil).Rejected(404, "workbook "+created.ID()+" does not exist")
}

func number64(t *testing.T, id string) (n int64) {
	t.Helper()
	if _, err := fmt.Sscan(id, &n); err != nil {
		t.Fatal(err)
	}
	return n
}

func TestWorkbooksAreListed(t *testing.T) {
	in := folder(t, "Lists of workbooks")
	var ids []string
	for i := range 5 {
		ids = append(ids, acme.call(t, acme.admin, "POST", workbooksPath, map[string]any{"name": fmt.Sprint("w", i), "folderId": number64(t, in)}).Is(200).ID())
	}
	list, cursor := workbooksPath+"?folderId="+in, ""
	var got []string
	for {
		page := acme.call(t, acme.reader, "GET", list+"&first=2&after="+url.QueryEscape(cursor), nil).Is(200)
		items, _ := page.At("items").([]any)
		for i := range items {
			got = append(got, fmt.Sprintf("%.0f", page.At(fmt.Sprintf("items.%d.id", i))))
		}
		page.Want(map[string]string{"count": "5", "data.length": fmt.Sprint(len(items)), "pageInfo.hasPreviousPage": fmt.Sprint(cursor != ""), "items.0.folderPath.0.id": in})
		if page.At("pageInfo.hasNextPage") == false {
			break
		}
		cursor, _ = page.At("pageInfo.endCursor").(string)
	}
	if strings.Join(got, " ") != strings.Join(ids, " ") {
		t.Errorf("the pages have %v, want %v", got, ids)
	}
	for _, path := range []string{workbooksPath, workbooksPath + "?folderId=0", "/api/v1/deployments/2/workbooks"} {
		acme.call(t, acme.reader, "GET", path+strings.Repeat("&", strings.Count(path, "?"))+strings.Repeat("?", 1-strings.Count(path, "?"))+"after="+url.QueryEscape(cursor), nil).
			Rejected(400, "after", "cursor")
	}
	acme.call(t, acme.reader, "GET", workbooksPath+"?folderId=99999", nil).Rejected(404, "folderId", "99999")
	// What a deleted folder contains moves to the root.
	acme.call(t, acme.admin, "DELETE", deploymentPath+"/folders/"+in, nil).Is(200)
	acme.call(t, acme.reader, "GET", workbooksPath+"/"+ids[0], nil).Is(200).Want(map[string]string{"folderId": "null"})
}

func TestWorkbooksAreUpsertedBySlug(t *testing.T) {
	path := workbooksPath + "/by-slug/"
	first := acme.call(t, acme.editor, "PUT", path+"%20Weekly%20", map[string]any{"meta": map[string]any{"a": 1}}).Is(200)
	first.Want(map[string]string{"slug": `"weekly"`, "name": `"weekly"`, "meta": `{"a":1}`})
	for _, slug := range []string{"weekly", "WEEKLY"} {
		again := acme.call(t, acme.editor, "PUT", path+slug, map[string]any{"meta": map[string]any{"a": 1}}).Is(200)
		if string(again.Body) != string(first.Body) {
			t.Errorf("the same request again answers %s, first %s", again.Body, first.Body)
		}
	}
	acme.call(t, acme.editor, "PUT", path+"weekly", nil).Is(200)
	if other := acme.call(t, acme.admin, "PUT", "/api/v1/deployments/2/workbooks/by-slug/weekly", nil).Is(200); other.ID() == first.ID() {
		t.Error("the slug is that of another deployment")
	}
	second := acme.call(t, acme.editor, "POST", workbooksPath, nil).Is(200)
	second.Want(map[string]string{"name": `"Untitled workbook"`})
	other := workbooksPath + "/" + second.ID()
	acme.call(t, acme.editor, "PUT", other, map[string]any{"slug": "weekly"}).Rejected(409, "slug", "weekly", first.ID())
	acme.call(t, acme.editor, "PUT", other, map[string]any{"slug": "weekly", "slugTakeover": true}).Is(200).Want(map[string]string{"slug": `"weekly"`})
	acme.call(t, acme.editor, "GET", workbooksPath+"/"+first.ID(), nil).Is(200).Want(map[string]string{"slug": "null"})
	acme.call(t, acme.editor, "PUT", path+"weekly", nil).Is(200).Want(map[string]string{"id": second.ID()})
}

func TestInvalidWorkbooksAreRejected(t *testing.T) {
	id := acme.call(t, acme.admin, "POST", workbooksPath, nil).Is(200).ID()
	widget := func(properties map[string]any) map[string]any {
		properties["position"] = map[string]any{"x": 0, "y": 0, "w": 1, "h": 1}
		return map[string]any{"widgets": []any{properties}}
	}
	for name, c := range map[string]struct {
		method, path string
		body         any
		status       int
		words        []string
	}{
		"an empty name":      {"POST", "", map[string]any{"name": ""}, 400, []string{"name"}},
		"a control code":     {"POST", "", map[string]any{"name": "x\u0007"}, 400, []string{"name", "control"}},
		"white space":        {"POST", "", map[string]any{"name": " x"}, 400, []string{"name", "white space"}},
		"an unknown folder":  {"POST", "", map[string]any{"folderId": 99999}, 404, []string{"folderId", "99999"}},
		"an unknown field":   {"POST", "", map[string]any{"color": "red"}, 400, []string{"color"}},
		"a list as meta":     {"POST", "", map[string]any{"meta": []any{}}, 400, []string{"meta"}},
		"a large meta":       {"POST", "", map[string]any{"meta": map[string]any{"x": strings.Repeat("x", 1<<20)}}, 413, []string{"1048576"}},
		"a wrong draft":      {"POST", "", map[string]any{"meta": map[string]any{"dashboardDraft": widget(map[string]any{"type": "PIE"})}}, 400, []string{"meta.dashboardDraft.widgets[0].type", "CHART"}},
		"a draft":            {"PUT", "/" + id + "/dashboard", map[string]any{"dashboardDraft": widget(map[string]any{"type": "AI", "config": map[string]any{"prompt": strings.Repeat("x", 4097)}})}, 400, []string{"dashboardDraft.widgets[0].config.prompt", "4,096"}},
		"an unknown id":      {"PUT", "/99999", map[string]any{"name": "x"}, 404, []string{"99999"}},
		"no number":          {"DELETE", "/abc", nil, 400, []string{"workbookId"}},
		"a slug":             {"PUT", "/by-slug/a.", nil, 400, []string{"slug"}},
		"an unknown filter":  {"GET", "?search=x", nil, 400, []string{"search"}},
		"an unknown to copy": {"POST", "/99999/duplicate", nil, 404, []string{"99999"}},
	} {
		t.Run(name, func(t *testing.T) {
			acme.call(t, acme.admin, c.method, workbooksPath+c.path, c.body).Rejected(c.status, c.words...)
		})
	}
}

func TestWorkbooksOfOthersDoNotExist(t *testing.T) {
	id := acme.call(t, acme.admin, "POST", workbooksPath, map[string]any{"name": "mine"}).Is(200).ID()
	for _, c := range []struct {
		of         *account
		deployment string
	}{{acme, "2"}, {globex, "1"}} {
		list := "/api/v1/deployments/" + c.deployment + "/workbooks"
		if got := c.of.call(t, c.of.admin, "GET", list, nil).Is(200); strings.Contains(string(got.Body), `"mine"`) {
			t.Errorf("%s lists %s", c.of.name, got.Body)
		}
		for _, call := range []struct{ method, path string }{{"GET", ""}, {"PUT", ""}, {"DELETE", ""}, {"PUT", "/dashboard"}, {"POST", "/duplicate"}} {
			c.of.call(t, c.of.admin, call.method, list+"/"+id+call.path, nil).Rejected(404)
		}
	}
	for _, c := range []struct{ token, method, path, permission string }{
		{acme.other, "GET", "", "Read"}, {acme.other, "GET", "/" + id, "Read"}, {acme.reader, "POST", "", "Edit"}, {acme.reader, "PUT", "/by-slug/x", "Edit"},
		{acme.reader, "PUT", "/" + id, "Edit"}, {acme.reader, "PUT", "/" + id + "/dashboard", "Edit"}, {acme.reader, "POST", "/" + id + "/duplicate", "Edit"},
		{acme.editor, "DELETE", "/" + id, "Manage"},
	} {
		acme.call(t, c.token, c.method, workbooksPath+c.path, nil).Rejected(403, c.permission)
	}
}

func TestChangesOfWorkbooksAreRecorded(t *testing.T) {
	id := acme.call(t, acme.ada, "POST", workbooksPath, map[string]any{"name": "Recorded", "meta": map[string]any{"note": "not recorded"}}).Is(200).ID()
	acme.call(t, acme.ada, "PUT", workbooksPath+"/"+id, map[string]any{"name": "Recorded again"}).Is(200)
	acme.call(t, acme.ada, "PUT", workbooksPath+"/"+id, map[string]any{"name": ""}).Rejected(400)
	acme.call(t, acme.admin, "DELETE", workbooksPath+"/"+id, nil).Is(200)
	csv := string(acme.call(t, acme.admin, "GET", "/api/v1/audit-logs/export?search=Recorded", nil).Is(200).Body)
	for _, event := range []string{"Created workbook", "Updated workbook", "Deleted workbook"} {
		if n := strings.Count(csv, event); n != 1 {
			t.Errorf("%q is recorded %d times:\n%s", event, n, csv)
		}
	}
	if strings.Contains(csv, "not recorded") {
		t.Errorf("the events have the meta:\n%s", csv)
	}
}
