package tenancy_test

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"
	"testing"

	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/quoin-dev/quoin/api/v1alpha1"
	"github.com/quoin-dev/quoin/apiserver"
	"github.com/quoin-dev/quoin/internal/agent/grading"
	"github.com/quoin-dev/quoin/internal/audit"
	"github.com/quoin-dev/quoin/internal/content"
	"github.com/quoin-dev/quoin/internal/content/evaluation"
	"github.com/quoin-dev/quoin/internal/store"
)

// families are the parts of paths of workspace content and of evaluations.
var families = regexp.MustCompile(`/(folders|report-folders|workbooks|reports|workspace|shared-workspace|resource-policies|evaluations|chat-replays)(/|$)`)

// secret is in the name of everything that only acme may see.
const secret = "Confidential"

// thing is content of acme, which names the parameters of paths and the fields of bodies.
type thing struct {
	folder, workbook, report float64
	publicID, slug           string
	evaluation               int64
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
		"startEvaluation": object{"agentName": "analyst"}, "startChatReplay": object{"agentId": 1, "chatId": "c1", "toolResults": "live"},
		"moveWorkspaceObject": object{"type": "WORKBOOK", "id": c.workbook}, "bulkMoveWorkspaceObjects": object{"items": item}, "bulkDeleteWorkspaceObjects": object{"items": item},
	}
}

// statuses are those of operations that are not answered 404: lists have nothing, bulk operations have the failure of each item, and
// the shared workspace is for embed sessions.
var statuses = map[string]int{
	"getFolders": 200, "getWorkbooks": 200, "getReports": 200, "getReportFolders": 200, "workspaceObjects": 200, "listEvaluations": 200,
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
	c.evaluation = acme.evaluate(t)
	return c
}

// evaluate stores an evaluation of acme, as quoin apiserver does, with a result. It returns its number.
func (a *account) evaluate(t *testing.T) int64 {
	t.Helper()
	of, d := &v1alpha1.Account{}, &v1alpha1.Deployment{}
	if err := errors.Join(k8s.Get(t.Context(), client.ObjectKey{Name: a.name}, of), k8s.Get(t.Context(), client.ObjectKey{Namespace: a.name, Name: "analytics"}, d)); err != nil {
		t.Fatal(err)
	}
	s, err := store.Open(t.Context(), databaseURL, nil, apiserver.ContentOwners()...)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = s.Close() }()
	e := &evaluation.Evaluations{DB: s, Record: func(context.Context, *store.Tx, audit.Event) error { return nil }}
	scope := content.Scope{Account: store.Account{UID: string(of.UID), Name: a.name}, Deployment: store.Deployment{UID: string(d.UID), Namespace: a.name, Name: d.Name}}
	request, err := json.Marshal(object{"agentName": secret, "modelEndpoint": "claude", "maxTokens": 1000})
	if err != nil {
		t.Fatal(err)
	}
	started, lease, err := e.Start(t.Context(), scope, evaluation.New{Kind: evaluation.Questions, Agent: 1, Owner: "ApiKey:other", Caller: "ApiKey:other", Request: request, Total: 1}, "test")
	if err != nil {
		t.Fatal(err)
	}
	body := fmt.Appendf(nil, `{"id":1,"verdict":"pass","questionTextSnapshot":%q}`, secret)
	if err := errors.Join(e.Add(t.Context(), lease, evaluation.Result{Number: 1, Verdict: grading.Pass, Body: body}), e.End(t.Context(), lease, "")); err != nil {
		t.Fatal(err)
	}
	return started.ID
}

// state returns what acme sees of its content.
func (c *thing) state(t *testing.T) (out string) {
	t.Helper()
	const base = "/api/v1/deployments/1"
	for _, path := range []string{
		base + "/folders", base + "/workbooks", base + "/reports", fmt.Sprintf("%s/workbooks/%.0f", base, c.workbook), fmt.Sprintf("%s/workbooks/%.0f/versions", base, c.workbook),
		fmt.Sprintf("/api/v1/resource-policies?resourceType=Workbook&resourceId=%.0f", c.workbook), base + "/evaluations", fmt.Sprintf("%s/evaluations/%d/results", base, c.evaluation),
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
	known := map[string]bool{}
	for _, op := range operations(t) {
		known[op.id] = true
	}
	for _, id := range slices.Concat(slices.Collect(maps.Keys(requests)), slices.Collect(maps.Keys(statuses))) {
		if !known[id] {
			t.Errorf("the document has no operation %s", id)
		}
	}
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
				"{reportId}", fmt.Sprintf("%.0f", c.report), "{slug}", c.slug, "{publicId}", c.publicID, "{versionNumber}", "1", "{snapshotId}", "1", "{evaluationId}", fmt.Sprint(c.evaluation),
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
