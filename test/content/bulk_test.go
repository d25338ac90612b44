package content_test

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	"github.com/quoin-dev/quoin/api/v1alpha1"
	granted "github.com/quoin-dev/quoin/apiserver/access"
	"github.com/quoin-dev/quoin/apiserver/auth"
	"github.com/quoin-dev/quoin/apiserver/recording"
	"github.com/quoin-dev/quoin/apiserver/rest"
	restcontent "github.com/quoin-dev/quoin/apiserver/rest/content"
	"github.com/quoin-dev/quoin/internal/audit"
	"github.com/quoin-dev/quoin/internal/content"
	"github.com/quoin-dev/quoin/internal/content/access"
	"github.com/quoin-dev/quoin/internal/content/workspace"
)

// deployments has the deployment of the tests under every id.
type deployments struct{}

func (deployments) Find(context.Context, string, string) (*v1alpha1.Deployment, error) {
	return &v1alpha1.Deployment{ObjectMeta: metav1.ObjectMeta{
		Namespace: demo.Deployment.Namespace, Name: demo.Deployment.Name, UID: "d1", Labels: map[string]string{v1alpha1.LabelID: "1"},
	}}, nil
}

func (d deployments) FindCached(ctx context.Context, namespace, id string) (*v1alpha1.Deployment, error) {
	return d.Find(ctx, namespace, id)
}

// newAPI returns the REST API of the content of a world. Groups have the members of its model.
func newAPI(w *world) *rest.API {
	api, err := rest.New(rest.Options{Deployments: deployments{}}, restcontent.New(restcontent.Options{
		Database: w.store,
		Groups: func(_ context.Context, _, user string) (names, uids []string) {
			return slices.Sorted(maps.Keys(w.model.members[user])), nil
		},
	})...)
	if err != nil {
		panic(err)
	}
	return api
}

// principal returns a caller as REST sees it.
func (c caller) principal() *auth.Principal {
	permissions := []v1alpha1.Permission{v1alpha1.PermissionFolderEdit, v1alpha1.PermissionWorkbookEdit, v1alpha1.PermissionReportEdit}
	switch {
	case c.program && c.max == access.Manage:
		permissions = []v1alpha1.Permission{v1alpha1.PermissionAdmin}
	case c.max == access.View:
		permissions = []v1alpha1.Permission{v1alpha1.PermissionFolderRead, v1alpha1.PermissionWorkbookRead, v1alpha1.PermissionReportRead}
	}
	p := &auth.Principal{Kind: auth.KindAPIKey, ID: c.name, Grants: granted.OnAll(permissions...)}
	if !c.program {
		p.User, p.UserUID = c.name, c.name
	}
	return p
}

// itemRef is an item of a bulk request.
type itemRef struct {
	Type string `json:"type"`
	ID   int64  `json:"id"`
}

// bulkAnswer is the body of a response: what was done, and what was not.
type bulkAnswer struct {
	Moved, Deleted []itemRef
	Failed         []struct {
		itemRef
		Error struct{ Status int }
	}
}

// bulk moves or deletes several items with one request. Each has the outcome that a request of its own after those before has: the
// model is changed item by item.
func (w *world) bulk(o operation, what string, c caller) (outcome, error) {
	items := []itemRef{{"WORKBOOK", o.id}, {"FOLDER", o.id}, {"REPORT", o.id}, {"WORKBOOK", o.n%o.id + 1}, {"FOLDER", o.n%o.id + 1}, {"WORKBOOK", o.id}}
	body := map[string]any{"items": items}
	if what == "move" {
		body["folderId"] = o.to
	}
	answer, err := w.post("/workspace/bulk-"+what, body, c)
	if err != nil {
		return outcome{}, err
	}
	got := map[itemRef]int{}
	for _, ref := range slices.Concat(answer.Moved, answer.Deleted) {
		got[ref] = http.StatusOK
	}
	for _, failure := range answer.Failed {
		got[failure.itemRef] = failure.Error.Status
	}
	want := map[itemRef]int{}
	for _, ref := range items {
		if _, repeated := want[ref]; repeated {
			continue
		}
		expected := w.model.bulkItem(c, what, ref, o.to)
		if want[ref] = statuses[expected.reason]; expected.reason == "" {
			expected.then()
		}
	}
	if diff := cmp.Diff(want, got); diff != "" {
		return outcome{different: "the statuses of the items differ (-model +response):\n" + diff}, nil
	}
	return outcome{}, nil
}

// statuses are those of rejections.
var statuses = map[content.Reason]int{
	"": http.StatusOK, content.Invalid: http.StatusBadRequest, content.Forbidden: http.StatusForbidden, content.NotFound: http.StatusNotFound, content.Conflict: http.StatusConflict,
}

// bulkItem returns the outcome of moving or deleting one item. Who may only read is rejected before anything is read.
func (m *model) bulkItem(c caller, what string, ref itemRef, to int64) outcome {
	if c.max < access.Edit {
		return rejected(content.Forbidden)
	}
	switch what + " " + ref.Type {
	case "move FOLDER":
		return m.moved(c, m.find(access.Folder, ref.ID), operation{id: ref.ID, to: to})
	case "move WORKBOOK":
		in, target := workspace.Change{FolderID: &to, Name: new(string)}, m.find(access.Workbook, ref.ID)
		if target != nil {
			in.Name = &target.name
		}
		return m.updatedWorkbook(c, target, in, content.NotFound)
	case "move REPORT":
		in, target := workspace.ReportChange{FolderID: &to, WorkbookID: ptr.To[int64](0), SQLQuery: new(string)}, m.find(access.Report, ref.ID)
		if target != nil {
			in.SQLQuery = &target.sql
		}
		return m.updatedReport(c, target, in, content.NotFound)
	case "delete FOLDER":
		return m.deletedFolder(c, ref.ID)
	case "delete WORKBOOK":
		return m.deletedWorkbook(c, ref.ID)
	}
	return m.deletedReport(c, ref.ID)
}

// post sends a request of a caller.
func (w *world) post(path string, body any, c caller) (*bulkAnswer, error) {
	text, err := json.Marshal(body)
	if err != nil {
		return nil, err
	}
	account := &v1alpha1.Account{ObjectMeta: metav1.ObjectMeta{Name: demo.Account.Name, UID: "a1"}, Spec: v1alpha1.AccountSpec{Host: "demo.example.com", Plan: v1alpha1.PlanEnterprise}}
	p := c.principal()
	ctx := recording.NewRequest(w.ctx, nil, account, p, audit.SourceREST).With(w.ctx)
	r := httptest.NewRequestWithContext(ctx, http.MethodPost, "/api/v1/deployments/1"+path, strings.NewReader(string(text)))
	r.Header.Set("Content-Type", "application/json")
	response := httptest.NewRecorder()
	w.api.ServeHTTP(response, r, account, p)
	if response.Code != http.StatusOK {
		return nil, fmt.Errorf("POST %s: %d %s", path, response.Code, response.Body)
	}
	answer := &bulkAnswer{}
	return answer, json.Unmarshal(response.Body.Bytes(), answer)
}
