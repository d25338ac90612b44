package contract_test

import (
	"fmt"
	"net/url"
	"strings"
	"testing"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/quoin-dev/quoin/api/v1alpha1"
	"github.com/quoin-dev/quoin/test/internal/apiclient"
)

// foldersOf returns the path of the folders of a deployment.
func foldersOf(deployment string) string { return "/api/v1/deployments/" + deployment + "/folders" }

// createFolder creates a folder and returns its id as text.
func createFolder(t *testing.T, a *account, deployment string, body map[string]any) string {
	t.Helper()
	id, _ := a.as(a.admin).call(t, "POST", foldersOf(deployment), body).is(200).at("id").(float64)
	return fmt.Sprint(int64(id))
}

func TestFoldersHaveTheDocumentedShapes(t *testing.T) {
	admin, deployment := acme.as(acme.admin), create(t, acme, "Folders")
	top := admin.call(t, "POST", foldersOf(deployment), map[string]any{"name": "Reports"}).is(200)
	top.want("name", "Reports").want("type", "FOLDER").want("position", 0.0)
	if len(top.list("folderPath")) != 0 || top.at("parentId") != nil || fmt.Sprint(top.at("deploymentId")) != deployment {
		t.Errorf("%s", top.raw)
	}
	inner := admin.call(t, "POST", foldersOf(deployment), map[string]any{"name": "2026", "parentId": top.at("id"), "position": 3}).is(200)
	inner.want("parentId", top.at("id")).want("position", 3.0).want("folderPath.0.name", "Reports").want("folderPath.0.id", top.at("id"))
	path := fmt.Sprintf("%s/%v", foldersOf(deployment), inner.at("id"))

	list := admin.call(t, "GET", fmt.Sprintf("%s?parentId=%v", foldersOf(deployment), top.at("id")), nil).is(200)
	list.want("items.0.name", "2026").want("data.0.name", "2026").want("count", 1.0).want("pageInfo.hasNextPage", false).want("pageInfo.hasPreviousPage", false)
	admin.call(t, "PUT", path, map[string]any{"name": "2027"}).is(200).want("name", "2027").want("position", 3.0).want("folderPath.0.name", "Reports")
	admin.call(t, "PUT", path, nil).is(200).want("name", "2027")
	ancestors := admin.call(t, "GET", path+"/ancestors", nil).is(200)
	ancestors.want("0.name", "Reports").want("1.name", "2027").want("1.folderPath.0.name", "Reports")
	admin.call(t, "DELETE", fmt.Sprintf("%s/%v", foldersOf(deployment), top.at("id")), nil).rejected(400, "folderId", "contains 1 folders", "without sub-folders")
	admin.call(t, "DELETE", path, nil).is(200).want("success", true)
	admin.call(t, "GET", path+"/ancestors", nil).rejected(404, "does not exist")
}

func TestInvalidFoldersAreRejected(t *testing.T) {
	admin, deployment := acme.as(acme.admin), create(t, acme, "Invalid folders")
	id := createFolder(t, acme, deployment, map[string]any{"name": "a"})
	for name, c := range map[string]struct {
		method, path string
		body         any
		status       int
		words        []string
	}{
		"no body":             {"POST", "", nil, 400, nil},
		"no name":             {"POST", "", map[string]any{}, 400, []string{"name"}},
		"an empty name":       {"POST", "", map[string]any{"name": ""}, 400, []string{"name"}},
		"a long name":         {"POST", "", map[string]any{"name": strings.Repeat("x", 256)}, 400, []string{"name", "255"}},
		"white space":         {"POST", "", map[string]any{"name": " x"}, 400, []string{"name", "white space"}},
		"a control character": {"POST", "", map[string]any{"name": "x\u0007"}, 400, []string{"name", "control"}},
		"the name of another": {"POST", "", map[string]any{"name": "A"}, 409, []string{"name", `"A"`}},
		"an unknown parent":   {"POST", "", map[string]any{"name": "x", "parentId": 99999}, 404, []string{"parentId", "99999"}},
		"a negative position": {"POST", "", map[string]any{"name": "x", "position": -1}, 400, []string{"position"}},
		"a field of another":  {"POST", "", map[string]any{"name": "x", "color": "red"}, 400, []string{"color"}},
		"parentId in update":  {"PUT", "/" + id, map[string]any{"parentId": 1}, 400, []string{"parentId"}},
		"an unknown folder":   {"PUT", "/99999", map[string]any{"name": "x"}, 404, []string{"99999"}},
		"no number":           {"DELETE", "/abc", nil, 400, []string{"folderId"}},
		"an unknown level":    {"GET", "?parentId=99999", nil, 404, []string{"parentId", "99999"}},
		"first is 0":          {"GET", "?first=0", nil, 400, []string{"first"}},
		"no cursor":           {"GET", "?after=x", nil, 400, []string{"after"}},
		"an unknown filter":   {"GET", "?search=x", nil, 400, []string{"search"}},
	} {
		t.Run(name, func(t *testing.T) {
			admin.call(t, c.method, foldersOf(deployment)+c.path, c.body).rejected(c.status, c.words...)
		})
	}
	parent := any(nil)
	for level := range 10 {
		parent = admin.call(t, "POST", foldersOf(deployment), map[string]any{"name": fmt.Sprint("level ", level), "parentId": parent}).is(200).at("id")
	}
	admin.call(t, "POST", foldersOf(deployment), map[string]any{"name": "too deep", "parentId": parent}).rejected(400, "parentId", "11 folders", "allowed: 10")
}

func TestFolderPagesAndTheirCursors(t *testing.T) {
	admin, deployment := acme.as(acme.admin), create(t, acme, "Folder pages")
	parent := createFolder(t, acme, deployment, map[string]any{"name": "parent"})
	for i := range 5 {
		createFolder(t, acme, deployment, map[string]any{"name": fmt.Sprint("f", i), "parentId": mustNumber(t, parent)})
	}
	list, cursor := foldersOf(deployment)+"?parentId="+parent, ""
	var names []string
	for {
		page := admin.call(t, "GET", list+"&first=2&after="+url.QueryEscape(cursor), nil).is(200)
		for _, f := range page.list("items") {
			names = append(names, f["name"].(string))
		}
		page.want("count", 5.0).want("pageInfo.hasPreviousPage", cursor != "")
		if page.at("pageInfo.hasNextPage") == false {
			break
		}
		cursor, _ = page.at("pageInfo.endCursor").(string)
	}
	if got := strings.Join(names, " "); got != "f0 f1 f2 f3 f4" {
		t.Errorf("the pages have %s", got)
	}
	other := create(t, acme, "Folder pages 2")
	createFolder(t, globex, globex.id, map[string]any{"name": "of globex"})
	// The folders at the root, of another deployment, and another kind of list.
	for _, path := range []string{foldersOf(deployment), foldersOf(other), "/api/v1/deployments"} {
		admin.call(t, "GET", path+"?first=2&after="+url.QueryEscape(cursor), nil).rejected(400, "after", "cursor")
	}
	globex.as(globex.admin).call(t, "GET", foldersOf(globex.id)+"?after="+url.QueryEscape(cursor), nil).rejected(400, "after", "cursor")
}

func mustNumber(t *testing.T, text string) (n int64) {
	t.Helper()
	if _, err := fmt.Sscan(text, &n); err != nil {
		t.Fatal(err)
	}
	return n
}

func TestFoldersOfOtherTenantsDoNotExist(t *testing.T) {
	admin, one, two := acme.as(acme.admin), create(t, acme, "Tenant 1"), create(t, acme, "Tenant 2")
	id := createFolder(t, acme, one, map[string]any{"name": "mine"})
	for _, c := range []caller{globex.as(globex.admin), admin} {
		deployment := two
		if c.host == globex.host {
			deployment = globex.id
		}
		for _, f := range c.call(t, "GET", foldersOf(deployment), nil).is(200).list("items") {
			if f["name"] == "mine" {
				t.Errorf("%s lists %v", c.host, f)
			}
		}
		c.call(t, "PUT", foldersOf(deployment)+"/"+id, map[string]any{"name": "x"}).rejected(404, id)
		c.call(t, "DELETE", foldersOf(deployment)+"/"+id, nil).rejected(404, id)
		c.call(t, "GET", foldersOf(deployment)+"/"+id+"/ancestors", nil).rejected(404, id)
		c.call(t, "POST", foldersOf(deployment), map[string]any{"name": "x", "parentId": mustNumber(t, id)}).rejected(404, "parentId", id)
	}
	a := admin.call(t, "POST", "/api/v1/api-keys", map[string]any{"permissions": []string{"FolderManage"}, "deploymentIds": []string{two}}).is(200)
	token, _ := a.at("token").(string)
	scoped := acme.as(token)
	scoped.call(t, "GET", foldersOf(two), nil).is(200)
	scoped.call(t, "GET", foldersOf(one), nil).rejected(403)
	scoped.call(t, "DELETE", foldersOf(one)+"/"+id, nil).rejected(403)
	admin.call(t, "DELETE", fmt.Sprintf("/api/v1/api-keys/%v", a.at("id")), nil).is(200)
}

func TestFolderChangesAreInTheAuditLog(t *testing.T) {
	admin, deployment := acme.as(acme.admin), create(t, acme, "Audited folders")
	id := createFolder(t, acme, deployment, map[string]any{"name": "Audited"})
	admin.call(t, "PUT", foldersOf(deployment)+"/"+id, map[string]any{"name": "Audited again"}).is(200)
	admin.call(t, "PUT", foldersOf(deployment)+"/"+id, map[string]any{"name": ""}).rejected(400)
	admin.call(t, "DELETE", foldersOf(deployment)+"/"+id, nil).is(200)
	csv := string(admin.call(t, "GET", "/api/v1/audit-logs/export?search=Audited", nil).is(200).raw)
	for _, event := range []string{"Created folder", "Updated folder", "Deleted folder"} {
		if n := strings.Count(csv, event); n != 1 {
			t.Errorf("%q is recorded %d times:\n%s", event, n, csv)
		}
	}
	if !strings.Contains(csv, deployment+",Audited folders,Folder/Audited,succeeded,rest") {
		t.Errorf("the event has no deployment:\n%s", csv)
	}
}

// TestRecreatedDeploymentHasNoFolders checks that content belongs to an object, not to its name. Accounts are identified in
// the same way.
func TestRecreatedDeploymentHasNoFolders(t *testing.T) {
	admin, deployment := acme.as(acme.admin), create(t, acme, "Recreated")
	id := createFolder(t, acme, deployment, map[string]any{"name": "old"})
	name := object(t, acme, deployment).Name
	admin.call(t, "DELETE", "/api/v1/deployments/"+deployment, nil).is(200)
	apiclient.Soon(t, func() error {
		err := k8s.Get(t.Context(), client.ObjectKey{Namespace: acme.name, Name: name}, &v1alpha1.Deployment{})
		if apierrors.IsNotFound(err) {
			return nil
		}
		return fmt.Errorf("the deployment still exists: %w", err)
	})
	again := create(t, acme, "Recreated")
	if object(t, acme, again).Name != name {
		t.Fatal("the deployment has another name")
	}
	list := admin.call(t, "GET", foldersOf(again), nil).is(200)
	if len(list.list("items")) != 0 {
		t.Errorf("%s", list.raw)
	}
	if next := createFolder(t, acme, again, map[string]any{"name": "old"}); mustNumber(t, next) <= mustNumber(t, id) {
		t.Errorf("the id %s is issued after %s", next, id)
	}
}
