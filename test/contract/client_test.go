package contract_test

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/quoin-dev/quoin/api/v1alpha1"
)

// commandLineRequests are the requests that the upstream command-line client sends, and the fields that it reads from each
// response. It accepts any 2xx status, reads rows from items or else from data, and sends writes without a body with
// Content-Length: 0.
var commandLineRequests = []struct {
	command, method, path, body string
	fields                      []string
}{
	{"whoami", "GET", "/api/v1/users/me", "", []string{"email", "username", "id", "isAdmin"}},
	{"deployments list", "GET", "/api/v1/deployments/", "", []string{"items.0.id", "items.0.name", "items.0.deploymentUrl", "items.0.creationStep"}},
	{"deployments list --offset 0 --limit 5", "GET", "/api/v1/deployments/?offset=0&limit=5", "", []string{"items.0.id"}},
	{"deployments list --first 2 --after ''", "GET", "/api/v1/deployments/?first=2&after=", "", []string{"items.0.id"}},
	{"deployments list --creation-step ready", "GET", "/api/v1/deployments/?creationStep=ready&creationStep=project", "", []string{"items.0.id"}},
	{"deployments get", "GET", "/api/v1/deployments/{id}", "", []string{"deploymentUrl"}},
	{"deployments update", "PUT", "/api/v1/deployments/{id}", `{"name":"Command line","releaseChannel":"latest","releaseChannelVersion":"v1.2.3"}`, []string{"releaseChannelVersion"}},
	{"deployments update", "PUT", "/api/v1/deployments/{id}", `{}`, []string{"id"}},
	{"deployments settings", "GET", "/api/v1/deployments/{id}/settings", "", []string{"id", "releaseChannel"}},
	{"deployments versions", "GET", "/api/v1/deployments/{id}/versions", "", []string{"items.0.version", "items.0.releaseChannel", "items.0.isLatestInChannel", "items.0.isCurrent", "items.0.releaseChannelVersion"}},
	{"deployments token", "POST", "/api/v1/deployments/{id}/token", "", []string{"cubeApiToken"}},
	{"deployments build-status", "GET", "/api/v1/deployments/{id}/build-status", "", []string{"status"}},
	{"deployments advance-step", "POST", "/api/v1/deployments/{id}/creation-step/advance", `{"creationStep":"schema"}`, []string{"creationStep"}},
	{"deployments reset-step", "POST", "/api/v1/deployments/{id}/creation-step/reset", "", []string{"creationStep"}},
	{"regions", "GET", "/api/v1/regions", "", []string{"items.0.id", "items.0.name", "items.0.title", "items.0.provider"}},
	{"environments list", "GET", "/api/v1/deployments/{id}/environments", "", []string{"items.0.id", "items.0.type"}},
	{"environments list --type ''", "GET", "/api/v1/deployments/{id}/environments?type=", "", []string{"items.0.id"}},
	{"environments list", "GET", "/api/v1/deployments/{git}/environments", "", []string{"items.0.branch"}},
	{"environments create-token", "POST", "/api/v1/deployments/{id}/environments/{env}/tokens", `{"security_context":{},"expires_in":60}`, []string{"data.token"}},
	{"environments create-token --meta-sync", "POST", "/api/v1/deployments/{id}/environments/{env}/tokens-for-meta-sync", `{"security_context":{}}`, []string{"data.token"}},
	{"environments tokens", "GET", "/api/v1/deployments/{id}/environments/{env}/tokens", "", []string{"items", "data", "pageInfo"}},
	{"environments tokens --offset 0 --limit 5", "GET", "/api/v1/deployments/{id}/environments/{env}/tokens?offset=0&limit=5", "", []string{"items", "data"}},
	{"variables set", "PUT", "/api/v1/deployments/{id}/env-vars", `{"env_variables":[{"name":"A","value":"1"}]}`, []string{"items.0.name"}},
	{"variables list", "GET", "/api/v1/deployments/{id}/env-vars", "", []string{"items.0.name", "items.0.value"}},
	{"data-model branches", "GET", "/build/api/v1/deployments/{git}/branches", "", []string{"items.0.name", "items.0.isStagingEnvironmentEnabled", "items.0.parentBranch"}},
	{"data-model create-branch", "POST", "/build/api/v1/deployments/{git}/branches", `{"name":"cli","enterDevMode":false}`, []string{"branchName"}},
	{"data-model delete-branch --remove-on-upstream", "DELETE", "/build/api/v1/deployments/{git}/branches?branchName=cli&removeOnUpstream=true", "", nil},
	{"data-model disable-branch", "PUT", "/build/api/v1/deployments/{git}/branches/staging-environment", `{"branchName":"next","enabled":false}`, nil},
	{"data-model pull", "POST", "/build/api/v1/deployments/{git}/pull", "", nil},
	{"data-model pull --branch next", "POST", "/build/api/v1/deployments/{git}/pull", `{"branchName":"next"}`, nil},
	{"data-model create-branch --dev-mode", "POST", "/build/api/v1/deployments/{id}/branches", `{"name":"cli","enterDevMode":true}`, []string{"branchName"}},
	{"data-model dev-mode", "POST", "/build/api/v1/deployments/{id}/dev-mode", `{"branchName":"cli"}`, []string{"branchName"}},
	{"data-model branches", "GET", "/build/api/v1/deployments/{id}/branches?first=2&after=", "", []string{"items.0.name", "items.0.isStagingEnvironmentEnabled", "items.1.parentBranch"}},
	{"validate", "GET", "/build/api/v1/deployments/{id}/data-model/validate", "", []string{"valid", "branchName", "errors"}},
	{"validate --branch", "GET", "/build/api/v1/deployments/{id}/data-model/validate?branchName=main", "", []string{"valid", "branchName"}},
	{"validate --dev-mode", "GET", "/build/api/v1/deployments/{id}/data-model/validate?devMode=true", "", []string{"valid", "branchName"}},
	{"data-model commit", "POST", "/build/api/v1/deployments/{id}/commit", `{}`, nil},
	{"data-model commit -m", "POST", "/build/api/v1/deployments/{id}/commit", `{"message":"Change"}`, nil},
	{"data-model pull", "POST", "/build/api/v1/deployments/{id}/pull", "", []string{"buildTriggered"}},
	{"data-model pull --branch cli", "POST", "/build/api/v1/deployments/{id}/pull", `{"branchName":"cli"}`, []string{"buildTriggered"}},
	{"data-model merge", "POST", "/build/api/v1/deployments/{id}/merge", `{"squashCommits":false,"switchToParentBranch":false,"deleteBranch":false}`, []string{"merged"}},
	{"data-model enable-branch", "PUT", "/build/api/v1/deployments/{id}/branches/staging-environment", `{"branchName":"cli","enabled":true}`, nil},
	{"data-model merge-to-default", "POST", "/build/api/v1/deployments/{id}/merge-to-default", `{"removeBranchAfterMerge":false,"branchName":"cli"}`, []string{"merged"}},
	{"data-model exit-dev-mode", "DELETE", "/build/api/v1/deployments/{id}/dev-mode", "", nil},
	{"data-model delete-branch", "DELETE", "/build/api/v1/deployments/{id}/branches?branchName=cli", "", nil},
	{"deployments build-status --branch", "GET", "/api/v1/deployments/{id}/build-status?branchName=main", "", []string{"status", "branchName"}},
	{"folders create", "POST", "/api/v1/deployments/{id}/folders", `{"name":"Reports"}`, []string{"id"}},
	{"folders create --parent --position", "POST", "/api/v1/deployments/{id}/folders", `{"name":"Reports 2","parentId":{folder},"position":1}`, []string{"id", "parentId"}},
	{"folders list", "GET", "/api/v1/deployments/{id}/folders", "", []string{"items.0.id", "items.0.name", "items.0.position", "items.0.updatedAt"}},
	{"folders list --parent", "GET", "/api/v1/deployments/{id}/folders?parentId={folder}&first=5", "", []string{"items.0.id", "items.0.parentId"}},
	{"folders update", "PUT", "/api/v1/deployments/{id}/folders/{folder}", `{"name":"Top","position":2}`, []string{"id"}},
	{"folders ancestors", "GET", "/api/v1/deployments/{id}/folders/{folder}/ancestors", "", []string{"0.id", "0.name", "0.position", "0.updatedAt"}},
	{"workbooks create", "POST", "/api/v1/deployments/{id}/workbooks", `{"name":"Sales","folderId":{folder}}`, []string{"id"}},
	{"workbooks list --folder", "GET", "/api/v1/deployments/{id}/workbooks?folderId={folder}", "", []string{"items.0.id", "items.0.name", "items.0.folderId", "items.0.user.email", "items.0.updatedAt"}},
	{"workbooks get", "GET", "/api/v1/deployments/{id}/workbooks/{workbook}", "", []string{"id", "meta"}},
	{"workbooks update --folder 0 --slug", "PUT", "/api/v1/deployments/{id}/workbooks/{workbook}", `{"name":"Revenue","slug":"revenue","folderId":null}`, []string{"id", "slug"}},
	{"workbooks dashboard", "PUT", "/api/v1/deployments/{id}/workbooks/{workbook}/dashboard", `{"dashboardDraft":{"widgets":[]}}`, []string{"dashboardDraft"}},
	{"workbooks publish", "POST", "/api/v1/deployments/{id}/workbooks/{workbook}/publish", `{"workbookId":{workbook}}`, []string{"id", "versionNumber"}},
	{"workbooks dashboard", "PUT", "/api/v1/deployments/{id}/workbooks/{workbook}/dashboard", `{"dashboardDraft":{"widgets":[{"id":"w1","type":"AI","position":{"x":0,"y":0,"w":1,"h":1}}]}}`, []string{"dashboardDraft"}},
	{"workbooks publish", "POST", "/api/v1/deployments/{id}/workbooks/{workbook}/publish", `{"workbookId":{workbook}}`, []string{"id", "versionNumber"}},
	{"workbooks ai-thread", "POST", "/api/v1/deployments/{id}/workbooks/{workbook}/dashboard/ai-widget-thread", `{"widgetId":"w1","threadId":"chat"}`, []string{"id", "versionNumber"}},
	{"workbooks duplicate", "POST", "/api/v1/deployments/{id}/workbooks/{workbook}/duplicate", "", []string{"id"}},
	{"reports create", "POST", "/api/v1/deployments/{id}/reports", `{"name":"Orders","workbookId":{workbook},"jsonQuery":"{\"measures\":[\"orders.count\"]}","sqlQuery":"SELECT 1"}`, []string{"id"}},
	{"reports list --workbook --sort-by --limit --page", "GET", "/api/v1/deployments/{id}/reports?workbookId={workbook}&sortBy=name&sortDirection=DESC&limit=5&page=1", "", []string{"items.0.id", "items.0.name", "items.0.publicId", "items.0.workbookId", "items.0.user.email", "items.0.updatedAt"}},
	{"reports get", "GET", "/api/v1/deployments/{id}/reports/{report}", "", []string{"id", "publicId"}},
	{"reports update", "PUT", "/api/v1/deployments/{id}/reports/{report}", `{"name":"Orders 2","folderId":{folder}}`, []string{"id", "folderId"}},
	{"reports refresh", "PUT", "/api/v1/deployments/{id}/reports/{report}/refresh", "", []string{"refreshedByUser.id"}},
	{"reports connect-workbook", "PUT", "/api/v1/deployments/{id}/reports/{report}/connect-workbook", `{"externalWorkbookId":"book","resultLocation":"Sheet1!A1","endResultCell":"C9"}`, []string{"externalWorkbookPlacements.0.id"}},
	{"reports list --external-workbook", "GET", "/api/v1/deployments/{id}/reports?externalWorkbookId=book&first=5", "", []string{"items.0.id"}},
	{"reports folders", "GET", "/api/v1/deployments/{id}/report-folders", "", []string{"items.0.id", "items.0.name", "items.0.reportsCount"}},
	{"reports delete", "DELETE", "/api/v1/deployments/{id}/reports/{report}", "", nil},
	{"policies set-user", "PUT", "/api/v1/resource-policies/user", `{"resourceType":"Workbook","resourceId":{workbook},"action":"WorkbookRead"}`, nil},
	{"policies get", "GET", "/api/v1/resource-policies/?resourceType=Workbook&resourceId={workbook}", "", []string{"items.0.action"}},
	{"policies set-user, clear", "PUT", "/api/v1/resource-policies/user", `{"resourceType":"Workbook","resourceId":{workbook}}`, nil},
	{"workbooks delete", "DELETE", "/api/v1/deployments/{id}/workbooks/{workbook}", "", nil},
	{"folders delete", "DELETE", "/api/v1/deployments/{id}/folders/{empty}", "", nil},
	{"api-keys list", "GET", "/api/v1/api-keys", "", []string{"items.0.id", "items.0.name"}},
	{"spec", "GET", "/api/v1/spec", "", []string{"openapi", "info", "servers", "security", "components.schemas", "components.securitySchemes", "paths"}},
	{"deployments delete", "DELETE", "/api/v1/deployments/{id}", "", nil},
}

func TestUpstreamCommandLineClientIsServed(t *testing.T) {
	id := create(t, acme, "Command line")
	runs(t, acme, id, "1.2.3")
	admin := caller{acme.host, "Api-Key " + acme.admin} // its scheme for keys that begin with sk-
	environment, _ := admin.call(t, "GET", "/api/v1/deployments/"+id+"/environments", nil).is(200).at("items.0.id").(string)
	path := strings.NewReplacer("{id}", id, "{git}", acme.id, "{env}", environment,
		"{folder}", createFolder(t, acme, id, map[string]any{"name": "folder"}), "{empty}", createFolder(t, acme, id, map[string]any{"name": "empty"}),
		"{report}", fmt.Sprint(admin.call(t, "POST", "/api/v1/deployments/"+id+"/reports", nil).is(200).at("id")),
		"{workbook}", fmt.Sprint(admin.call(t, "POST", "/api/v1/deployments/"+id+"/workbooks", nil).is(200).at("id")))
	for _, c := range commandLineRequests {
		t.Run(c.command, func(t *testing.T) {
			var body any
			if c.body != "" {
				body = path.Replace(c.body)
			}
			a := admin.call(t, c.method, path.Replace(c.path), body)
			if a.status/100 != 2 {
				t.Fatalf("%s: %d %s", a.what, a.status, a.raw)
			}
			for _, field := range c.fields {
				if a.at(field) == nil {
					t.Errorf("%s: no %s: %s", a.what, field, a.raw)
				}
			}
		})
	}
}

// Writes of kubectl are visible over REST immediately, and vice versa.
func TestKubectlAndRESTReadEachOthersWrites(t *testing.T) {
	admin := acme.as(acme.admin)
	id := create(t, acme, "Agreement")
	d := object(t, acme, id)
	for i := range 20 {
		name := fmt.Sprintf("Agreement %d", i)
		patch := client.RawPatch("application/merge-patch+json", fmt.Appendf(nil, `{"spec":{"displayName":%q}}`, name))
		if err := k8s.Patch(t.Context(), d, patch, client.FieldOwner("kubectl-patch")); err != nil {
			t.Fatal(err)
		}
		admin.call(t, "GET", "/api/v1/deployments/"+id, nil).is(200).want("name", name)
		name += " over REST"
		admin.call(t, "PUT", "/api/v1/deployments/"+id, map[string]any{"name": name}).is(200)
		if got := object(t, acme, id).Spec.DisplayName; got != name {
			t.Errorf("kubectl shows %q, want %q", got, name)
		}
		found := false
		for _, item := range admin.call(t, "GET", "/api/v1/deployments", nil).is(200).list("items") {
			found = found || item["name"] == name
		}
		if !found {
			t.Errorf("the list does not have %q", name)
		}
	}
}

// Decision 2: of concurrent creates with the same name, exactly one succeeds.
func TestConcurrentCreatesOfOneName(t *testing.T) {
	const many = 12
	statuses, ids := make([]int, many), make([]any, many)
	var all sync.WaitGroup
	for i := range many {
		all.Go(func() {
			a := globex.as(globex.admin).call(t, "POST", "/build/api/v1/deployments", creation("Contested"))
			if statuses[i] = a.status; a.status != 200 && a.status != 409 {
				t.Errorf("%d %s", a.status, a.raw)
			}
			ids[i] = a.at("id")
		})
	}
	all.Wait()
	succeeded, id := 0, ""
	for i, status := range statuses {
		if status == 200 {
			succeeded++
			id = fmt.Sprint(ids[i])
		}
	}
	if succeeded != 1 {
		t.Errorf("%d creates succeeded: %v", succeeded, statuses)
	}
	wantCreations(t, globex, "Contested", id)
	list := &v1alpha1.DeploymentList{}
	if err := k8s.List(t.Context(), list, client.InNamespace(globex.name)); err != nil {
		t.Fatal(err)
	}
	objects := 0
	for i := range list.Items {
		if list.Items[i].DisplayName() == "Contested" {
			objects++
			if err := k8s.Delete(t.Context(), &list.Items[i]); err != nil {
				t.Error(err)
			}
		}
	}
	if objects != 1 {
		t.Errorf("%d objects, want 1", objects)
	}
}

// wantCreations checks that the creation of the deployment with an id is the only one of its name that the audit log has as
// succeeded, and that none has an unknown outcome.
func wantCreations(t *testing.T, a *account, name, id string) {
	t.Helper()
	var succeeded []string
	for _, row := range eventsOf(t, a, "Created deployment", "") {
		if row["deployment_name"] == name && row["outcome"] != "failed" {
			t.Errorf("a creation without deployment: %v", row)
		}
	}
	for _, row := range eventsOf(t, a, "Created deployment", id) {
		succeeded = append(succeeded, row["deployment_name"]+", "+row["outcome"])
	}
	if want := []string{name + ", succeeded"}; !slices.Equal(succeeded, want) {
		t.Errorf("creations of deployment %s in the audit log: %q, want %q", id, succeeded, want)
	}
}

// The event of a creation has the deployment, which gets its number after the object is created.
func TestCreationsAreRecordedWithTheDeployment(t *testing.T) {
	wantCreations(t, acme, "Recorded", create(t, acme, "Recorded"))
}

// Concurrent updates of one deployment are all applied.
func TestConcurrentUpdatesAreNotLost(t *testing.T) {
	id := create(t, globex, "Concurrent")
	var all sync.WaitGroup
	for i := range 8 {
		all.Go(func() {
			body := map[string]any{"env_variables": []any{map[string]any{"name": fmt.Sprintf("V%d", i), "value": "x"}}}
			for {
				a := globex.as(globex.admin).call(t, "PUT", "/api/v1/deployments/"+id+"/env-vars", body)
				if a.status == 200 {
					return
				}
				if a.status != 409 { // too many conflicts: the client retries
					t.Errorf("%d %s", a.status, a.raw)
					return
				}
			}
		})
	}
	all.Wait()
	if env := object(t, globex, id).Spec.Env; len(env) != 8 {
		text, _ := json.Marshal(env)
		t.Errorf("%d variables, want 8: %s", len(env), text)
	}
}

// After concurrent updates of one secret, the Secret has only the last value.
func TestConcurrentUpdatesOfASecretKeepTheLastValue(t *testing.T) {
	id := create(t, globex, "Secrets")
	var all sync.WaitGroup
	for i := range 8 {
		all.Go(func() {
			body := map[string]any{"env_variables": []any{map[string]any{"name": "CUBEJS_DB_PASS", "value": fmt.Sprintf("v%d", i)}}}
			for {
				if a := globex.as(globex.admin).call(t, "PUT", "/api/v1/deployments/"+id+"/env-vars", body); a.status != 409 {
					a.is(200)
					return
				}
			}
		})
	}
	all.Wait()
	d := object(t, globex, id)
	secret := &corev1.Secret{}
	if err := k8s.Get(t.Context(), client.ObjectKey{Namespace: globex.name, Name: d.Name + "-variables"}, secret); err != nil {
		t.Fatal(err)
	}
	key := d.Spec.Env[0].ValueFrom.SecretKeyRef.Key
	if len(secret.Data[key]) == 0 || len(secret.Data) != 1 {
		t.Errorf("the spec refers to %s, the Secret has %d keys", key, len(secret.Data))
	}
}
