package tenancy_test

import (
	"cmp"
	"encoding/json"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// families are the parts of paths of workspace content.
var families = regexp.MustCompile(`/(folders|report-folders|workbooks|reports|workspace|shared-workspace|resource-policies)(/|$)`)

// secret is in the name of everything that only acme may see.
const secret = "Confidential"

// thing is content of acme, which names the parameters of paths and the fields of bodies.
type thing struct {
	folder, workbook, report float64
	publicID, slug           string
}

// requests are valid bodies by operation. The folder, the workbook and the report are those of acme.
func (c *thing) requests() map[string]any {
	policy := object{"resourceType": "Workbook", "resourceId": c.workbook, "action": "WorkbookRead"}
	ofGroup := maps.Clone(policy)
	ofGroup["groupId"] = 1
	placement := object{"externalWorkbookId": "book", "resultLocation": "S!A1"}
	dashboard := object{"dashboardDraft": object{"widgets": []any{}}}
	item := []any{object{"type": "WORKBOOK", "id": c.workbook}}
	return map[string]any{
		"createFolder": object{"name": "x", "parentId": c.folder}, "updateFolder": object{"name": "x"},
		"createWorkbook": object{"folderId": c.folder}, "upsertWorkbookBySlug": object{"folderId": c.folder}, "updateWorkbook": object{"name": "x"},
		"updateWorkbookDashboard": dashboard, "updatePublishedDashboardAiWidgetThread": object{"widgetId": "w", "threadId": "t"}, "publishDashboard": object{"workbookId": c.workbook, "config": object{}},
		"createReport": object{"workbookId": c.workbook}, "upsertReportByPublicId": object{"workbookId": c.workbook}, "updateReport": object{"name": "x"},
		"connectReportToWorkbook": placement, "disconnectReportFromWorkbook": placement, "refreshReport": placement,
		"setUserResourcePolicy": policy, "setGroupResourcePolicy": ofGroup,
		"runReport": object{}, "runDashboardReport": object{},
		"moveWorkspaceObject": object{"type": "WORKBOOK", "id": c.workbook}, "bulkMoveWorkspaceObjects": object{"items": item}, "bulkDeleteWorkspaceObjects": object{"items": item},
	}
}

// statuses are those of operations that are not answered 404: lists have nothing, bulk operations have the failure of each item, and
// the shared workspace is for embed sessions.
var statuses = map[string]int{
	"getFolders": 200, "getWorkbooks": 200, "getReports": 200, "getReportFolders": 200, "workspaceObjects": 200,
	"bulkMoveWorkspaceObjects": 200, "bulkDeleteWorkspaceObjects": 200, "sharedWorkspaceObjects": 403,
}

// operation is an operation of the document.
type operation struct{ id, method, path string }

func operations(t *testing.T) (all []operation) {
	t.Helper()
	var document struct {
		Paths map[string]map[string]struct {
			OperationID string `json:"operationId"`
		} `json:"paths"`
	}
	if err := json.Unmarshal(acme.call(t, 0, "GET", "/api/v1/spec", nil).Is(200).Body, &document); err != nil {
		t.Fatal(err)
	}
	for path, methods := range document.Paths {
		for method, op := range methods {
			if families.MatchString(path) {
				all = append(all, operation{op.OperationID, strings.ToUpper(method), path})
			}
		}
	}
	slices.SortFunc(all, func(a, b operation) int { return strings.Compare(a.id, b.id) })
	return all
}

// create creates content of acme.
func create(t *testing.T) *thing {
	t.Helper()
	const base = "/api/v1/deployments/1"
	number := func(value any) float64 { n, _ := value.(float64); return n }
	c := &thing{slug: "confidential"}
	c.folder = number(acme.call(t, 0, "POST", base+"/folders", object{"name": secret}).Is(200).At("id"))
	c.workbook = number(acme.call(t, 0, "PUT", base+"/workbooks/by-slug/"+c.slug, object{"name": secret, "folderId": c.folder}).Is(200).At("id"))
	report := acme.call(t, 0, "POST", base+"/reports", object{"name": secret, "workbookId": c.workbook, "sqlQuery": "SELECT 1"}).Is(200)
	c.report = number(report.At("id"))
	c.publicID, _ = report.At("publicId").(string)
	config := object{"widgets": []any{object{
		"id": "c1", "type": "CHART", "position": object{"x": 0, "y": 0, "w": 1, "h": 1}, "config": object{"reportPublicId": c.publicID},
	}}}
	acme.call(t, 0, "POST", fmt.Sprintf("%s/workbooks/%.0f/publish", base, c.workbook), object{"workbookId": c.workbook, "config": config}).Is(200)
	return c
}

// state returns what acme sees of its content.
func (c *thing) state(t *testing.T) (out string) {
	t.Helper()
	const base = "/api/v1/deployments/1"
	for _, path := range []string{
		base + "/folders", base + "/workbooks", base + "/reports", fmt.Sprintf("%s/workbooks/%.0f", base, c.workbook), fmt.Sprintf("%s/workbooks/%.0f/versions", base, c.workbook),
		fmt.Sprintf("/api/v1/resource-policies?resourceType=Workbook&resourceId=%.0f", c.workbook),
	} {
		out += string(acme.call(t, 0, "GET", path, nil).Is(200).Body) + "\n"
	}
	return out
}

// TestEveryOperationOfAnotherTenant sends each operation with ids of acme's deployment 1, as globex and to acme's deployment 2. It
// answers as if they did not exist, and changes nothing of acme's.
func TestEveryOperationOfAnotherTenant(t *testing.T) {
	c := create(t)
	before, requests := c.state(t), c.requests()
	for _, foreign := range []struct {
		of         *account
		deployment string
	}{{globex, "1"}, {acme, "2"}} {
		for _, op := range operations(t) {
			if foreign.of == acme && !strings.Contains(op.path, "{deploymentId}") {
				continue // they find the deployment by the object
			}
			path := strings.NewReplacer(
				"{deploymentId}", foreign.deployment, "{folderId}", fmt.Sprintf("%.0f", c.folder), "{workbookId}", fmt.Sprintf("%.0f", c.workbook),
				"{reportId}", fmt.Sprintf("%.0f", c.report), "{slug}", c.slug, "{publicId}", c.publicID, "{versionNumber}", "1", "{snapshotId}", "1",
			).Replace(op.path)
			if op.id == "getResourcePolicies" {
				path += fmt.Sprintf("?resourceType=Workbook&resourceId=%.0f", c.workbook)
			}
			got, want := foreign.of.call(t, 0, op.method, path, requests[op.id]), cmp.Or(statuses[op.id], 404)
			if got.Status != want || strings.Contains(string(got.Body), secret) || strings.Contains(path, "{") {
				t.Errorf("%s: %s %s of %s is answered %d, want %d: %s", op.id, op.method, path, foreign.of.name, got.Status, want, got.Body)
			}
		}
	}
	acme.call(t, 0, "PUT", "/api/v1/deployments/2/reports/by-public-id/"+c.publicID, object{"name": "x"}).Rejected(409, "another deployment")
	if after := c.state(t); after != before {
		t.Errorf("the content is\n%s\nit was\n%s", after, before)
	}
}
