package access_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/quoin-dev/quoin/api/v1alpha1"
	"github.com/quoin-dev/quoin/apiserver/directory/number"
	"github.com/quoin-dev/quoin/test/internal/apiclient"
)

// names returns the names of the items of a list, and checks its count.
func names(t *testing.T, a *apiclient.Answer) []string {
	t.Helper()
	items, _ := a.Is(200).At("items").([]any)
	var out []string
	for _, item := range items {
		o, _ := item.(object)
		out = append(out, fmt.Sprint(o["name"]))
	}
	if count := a.At("count"); count != nil && fmt.Sprint(count) != fmt.Sprint(len(out)) {
		t.Errorf("count is %v with %q", count, out)
	}
	slices.Sort(out)
	return out
}

// TestListsHaveWhatIsReachable: lists and counts of vic, to whom nothing else was granted than here, and of folders on the way.
func TestListsHaveWhatIsReachable(t *testing.T) {
	ready(t)
	folder := func(name string, in any) string {
		return call(t, ada, "POST", foldersPath, object{"name": name, "parentId": in}).Is(200).ID()
	}
	top := folder("Top", nil)
	way, hidden := folder("Way", id64(t, top)), folder("Hidden", id64(t, top))
	shared := folder("Shared", id64(t, way))
	inside := folder("Inside", id64(t, shared))
	for name, in := range map[string]string{"In way": way, "In hidden": hidden, "In shared": shared, "In inside": inside} {
		call(t, ada, "POST", workbooksPath, object{"name": name, "folderId": id64(t, in)}).Is(200)
		call(t, ada, "POST", reportsPath, object{"name": "R " + name, "folderId": id64(t, in)}).Is(200)
	}
	direct := call(t, ada, "POST", reportsPath, object{"name": "Direct", "folderId": id64(t, way)}).Is(200).ID()
	before := names(t, call(t, vic, "GET", workbooksPath+"?first=100", nil))
	grant(t, "vic", "Folder", shared, "Read")
	grant(t, "vic", "Report", direct, "Read")
	for _, c := range []struct{ path, want string }{
		{foldersPath + "?parentId=" + top, "[Way]"}, {foldersPath + "?parentId=" + way, "[Shared]"}, {foldersPath + "?parentId=" + shared, "[Inside]"},
		{workbooksPath + "?folderId=" + way, "[]"}, {workbooksPath + "?folderId=" + shared, "[In shared]"}, {workbooksPath + "?folderId=" + inside, "[In inside]"},
		{reportsPath + "?folderId=" + way, "[Direct]"}, {reportsPath + "?folderId=" + inside, "[R In inside]"}, {reportsPath + "?search=r+in+", "[R In inside R In shared]"},
	} {
		if got := fmt.Sprint(names(t, call(t, vic, "GET", c.path, nil))); got != c.want {
			t.Errorf("%s: %s, want %s", c.path, got, c.want)
		}
	}
	after := names(t, call(t, vic, "GET", workbooksPath+"?first=100", nil))
	if want := append(slices.Clone(before), "In inside", "In shared"); !slices.Equal(after, slices.Sorted(slices.Values(want))) {
		t.Errorf("all workbooks: %q, before %q", after, before)
	}
	if roots := names(t, call(t, vic, "GET", foldersPath+"?first=1000", nil)); !slices.Contains(roots, "Top") {
		t.Errorf("the root has %q", roots)
	}
	counts := map[string]string{}
	items, _ := call(t, vic, "GET", deploymentPath+"/report-folders?first=1000", nil).Is(200).At("items").([]any)
	for _, item := range items {
		o, _ := item.(object)
		counts[fmt.Sprint(o["name"])] = fmt.Sprint(o["reportsCount"])
	}
	for name, want := range map[string]string{"Top": "0", "Way": "1", "Shared": "1", "Inside": "1", "Hidden": ""} {
		if counts[name] != want {
			t.Errorf("%s has %q reports, want %q", name, counts[name], want)
		}
	}
	// What is on the way is shown, and cannot be changed.
	ancestors := call(t, vic, "GET", foldersPath+"/"+inside+"/ancestors", nil).Is(200)
	if text := string(ancestors.Body); strings.Count(text, `"type":"FOLDER"`) != 4 || strings.Contains(text, "Hidden") {
		t.Errorf("ancestors: %s", text)
	}
	grant(t, "bob", "Folder", shared, "Manage")
	call(t, bob, "PUT", foldersPath+"/"+way, object{"name": "x"}).Rejected(403, "folder "+way+": the level edit is needed; the caller has none")
	call(t, bob, "POST", foldersPath, object{"name": "x", "parentId": id64(t, way)}).Rejected(403, "parentId: folder "+way)
	call(t, bob, "DELETE", foldersPath+"/"+top, nil).Rejected(403, "the caller has none")
	call(t, bob, "PUT", foldersPath+"/"+hidden, object{"name": "x"}).Rejected(404, "folder "+hidden+" does not exist")
	call(t, bob, "GET", foldersPath+"?parentId="+hidden, nil).Rejected(404, "parentId: folder "+hidden+" does not exist")
	// Deleted grants end it.
	grant(t, "vic", "Folder", shared, "")
	grant(t, "vic", "Report", direct, "")
	call(t, vic, "GET", foldersPath+"?parentId="+top, nil).Rejected(404)
}

// TestPolicies reads and changes grants.
func TestPolicies(t *testing.T) {
	ready(t)
	x := makeThings(t)
	path := policiesPath + "?resourceType=Workbook&resourceId=" + x.workbook
	grant(t, "sales", "Folder", x.folder, "Edit")
	first := grant(t, "bob", "Workbook", x.workbook, "Read")
	first.Want(map[string]string{
		"resourceType": `"Workbook"`, "resourceId": x.workbook, "deploymentId": "1", "items.length": "3",
		"items.0.action": `"WorkbookManage"`, "items.0.isOwner": "true", "items.0.user.email": `"ada@example.com"`, "items.0.inheritedFrom": "null",
		"items.1.action": `"WorkbookRead"`, "items.1.isOwner": "false", "items.1.userId": fmt.Sprint(number.Of("User", "bob")), "items.1.inheritedFrom": "null",
		"items.2.action": `"WorkbookEdit"`, "items.2.groupId": fmt.Sprint(number.Of("Group", "sales")), "items.2.group.name": `"Sales"`,
		"items.2.inheritedFrom.resourceType": `"Folder"`, "items.2.inheritedFrom.resourceId": x.folder,
	})
	if again := grant(t, "bob", "Workbook", x.workbook, "Read"); string(again.Body) != string(first.Body) {
		t.Errorf("the same again: %s", again.Body)
	}
	call(t, ada, "GET", path, nil).Is(200)
	grant(t, "everyone", "Workbook", x.workbook, "Read").Want(map[string]string{"items.1.organization": "true", "items.1.userId": "null"})
	grant(t, "bob", "Workbook", x.workbook, "").Want(map[string]string{"items.length": "3", "items.1.organization": "true"})
	csv := string(call(t, admin, "GET", "/api/v1/audit-logs/export?search=ScimUser:bob", nil).Is(200).Body)
	granted, revoked := 0, 0
	for line := range strings.SplitSeq(csv, "\n") {
		if !strings.Contains(line, "Workbook") || !strings.Contains(line, ","+x.workbook+",") && !strings.Contains(line, x.workbook) {
			continue
		}
		granted += strings.Count(line, "Granted access")
		revoked += strings.Count(line, "Revoked access")
	}
	if granted < 1 || revoked < 1 {
		t.Errorf("the audit log has\n%s", csv)
	}
	// The deletion of the workbook deletes its grants.
	call(t, ada, "DELETE", workbooksPath+"/"+x.workbook, nil).Is(200)
	call(t, admin, "GET", path, nil).Rejected(404, "workbook "+x.workbook+" does not exist")
}

// TestGrantsOfADeletedGroup: a later group of the same name does not have them.
func TestGrantsOfADeletedGroup(t *testing.T) {
	ready(t)
	x := makeThings(t)
	path, policies := workbooksPath+"/"+x.workbook, policiesPath+"?resourceType=Workbook&resourceId="+x.workbook
	team := func() *v1alpha1.ScimGroup {
		g := &v1alpha1.ScimGroup{ObjectMeta: metav1.ObjectMeta{Namespace: account, Name: "team"}}
		g.Spec.DisplayName, g.Spec.Members = "Team", []v1alpha1.ScimMember{{Value: "vic"}}
		return g
	}
	body := object{"resourceType": "Workbook", "resourceId": id64(t, x.workbook), "groupId": number.Of("Group", "team"), "action": "WorkbookRead"}
	// grantTeam waits until the server knows the group.
	grantTeam := func() {
		t.Helper()
		apiclient.Soon(t, func() error {
			if a := call(t, admin, "PUT", policiesPath+"/group", body); a.Status != 200 {
				return fmt.Errorf("%d %s", a.Status, a.Body)
			}
			return nil
		})
	}
	status := func(want int) {
		t.Helper()
		apiclient.Soon(t, func() error {
			if a := call(t, vic, "GET", path, nil); a.Status != want {
				return fmt.Errorf("%d %s, want %d", a.Status, a.Body, want)
			}
			return nil
		})
	}
	first, second := team(), team()
	if err := k8s.Create(t.Context(), first); err != nil {
		t.Fatal(err)
	}
	grantTeam()
	status(200)
	if err := k8s.Delete(t.Context(), first); err != nil {
		t.Fatal(err)
	}
	status(404)
	call(t, admin, "GET", policies, nil).Is(200).Want(map[string]string{"items.length": "1"})
	if err := k8s.Create(t.Context(), second); err != nil {
		t.Fatal(err)
	}
	// Vic gets what is granted to the second group on another object, so the server knows it.
	other := body["resourceId"]
	body["resourceType"], body["resourceId"], body["action"] = "Report", id64(t, x.report), "ReportRead"
	grantTeam()
	call(t, vic, "GET", reportsPath+"/"+x.report, nil).Is(200)
	call(t, vic, "GET", path, nil).Rejected(404)
	call(t, admin, "GET", policies, nil).Is(200).Want(map[string]string{"items.length": "1"})
	body["resourceType"], body["resourceId"], body["action"] = "Workbook", other, "WorkbookRead"
	grantTeam()
	call(t, vic, "GET", path, nil).Is(200)
	call(t, admin, "GET", policies, nil).Is(200).Want(map[string]string{"items.length": "2", "items.1.group.name": `"Team"`})
}

// TestInvalidPolicies has requests that change nothing.
func TestInvalidPolicies(t *testing.T) {
	ready(t)
	x := makeThings(t)
	user, group := policiesPath+"/user", policiesPath+"/group"
	of := func(more object) object {
		body := object{"resourceType": "Workbook", "resourceId": id64(t, x.workbook)}
		for name, value := range more {
			body[name] = value
		}
		return body
	}
	for _, c := range []struct {
		token, method, path string
		body                any
		status              int
		word                string
	}{
		{admin, "GET", policiesPath, nil, 400, "resourceType"},
		{admin, "GET", policiesPath + "?resourceType=Dashboard&resourceId=1", nil, 400, "resourceType"},
		{admin, "GET", policiesPath + "?resourceType=Workbook&resourceId=x", nil, 400, "resourceId"},
		{admin, "GET", policiesPath + "?resourceType=Workbook&resourceId=999999", nil, 404, "workbook 999999 does not exist"},
		{elsewhere, "GET", policiesPath + "?resourceType=Workbook&resourceId=" + x.workbook, nil, 404, "workbook " + x.workbook + " does not exist"},
		{bob, "GET", policiesPath + "?resourceType=Workbook&resourceId=" + x.workbook, nil, 404, "does not exist"},
		{admin, "PUT", user, of(object{"action": "FolderRead"}), 400, "is not an action with resourceType Workbook; allowed: WorkbookRead"},
		{admin, "PUT", user, of(object{"action": "read"}), 400, "WorkbookManage"},
		{admin, "PUT", user, of(object{"userId": 12345, "action": "WorkbookRead"}), 404, "userId: user 12345 does not exist"},
		{admin, "PUT", user, of(object{"userId": number.Of("Group", "sales"), "action": "WorkbookRead"}), 404, "userId: "},
		{admin, "PUT", user, of(object{"userId": "x"}), 400, "userId"},
		{admin, "PUT", group, of(object{"groupId": 12345, "action": "WorkbookRead"}), 404, "groupId: group 12345 does not exist"},
		{admin, "PUT", group, of(object{"action": "WorkbookRead"}), 400, "groupId"},
		{admin, "PUT", group, object{"resourceId": 1}, 400, "resourceType"},
		{bob, "PUT", user, of(object{"action": "nonsense"}), 404, "does not exist"}, // before the input is judged
	} {
		call(t, c.token, c.method, c.path, c.body).Rejected(c.status, c.word)
	}
	call(t, admin, "GET", policiesPath+"?resourceType=Workbook&resourceId="+x.workbook, nil).Is(200).Want(map[string]string{"items.length": "1"})
}
