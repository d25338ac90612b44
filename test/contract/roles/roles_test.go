package roles_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/quoin-dev/quoin/api/v1alpha1"
	"github.com/quoin-dev/quoin/apiserver/directory/number"
	"github.com/quoin-dev/quoin/test/internal/apiclient"
)

const (
	rolesPath = "/api/v1/roles"
	usersPath = "/api/v1/users"
)

// object is a JSON object.
type object = map[string]any

// policy is a policy of a request.
func policy(resourceType string, actions []string, resources ...string) object {
	return object{"resourceType": resourceType, "actions": actions, "resources": resources}
}

// onAnalytics is a policy on the deployment analytics.
func onAnalytics(actions ...string) []object { return []object{policy("Deployment", actions, "1")} }

// userPath returns the path of an assignment.
func userPath(role, user string) string {
	return fmt.Sprintf("%s/%s/users/%d", rolesPath, role, number.Of("User", user))
}

func TestRolesAreManagedOverREST(t *testing.T) {
	globex.call(t, globex.admin, "GET", rolesPath, nil).Is(200).Want(map[string]string{"items": "[]", "data": "[]", "pageInfo.hasNextPage": "false"})
	body := object{"name": "Analyst", "description": "Reads.", "policies": []object{
		policy("Deployment", []string{"DeploymentRead", "DeploymentRead", "All"}, "1", "99", "1"), policy("Global", []string{"AuditLogManage"}, "All"),
	}}
	created := acme.call(t, acme.admin, "POST", rolesPath, body).Is(200).Want(map[string]string{
		"name": `"Analyst"`, "description": `"Reads."`, "policies.length": "2", "policies.0.resources": `["1","99"]`, "policies.0.actions": `["DeploymentRead","All"]`,
	})
	id := created.ID()
	other := acme.role(t, object{"name": "None", "policies": []object{}})
	acme.call(t, acme.admin, "GET", rolesPath, nil).Is(200).Want(map[string]string{"items.0.id": other, "items.1.id": id, "items.0.policies": "[]", "data.length": "2"})
	next, _ := acme.call(t, acme.admin, "GET", rolesPath+"?first=1", nil).Is(200).Want(map[string]string{"items.length": "1", "pageInfo.hasNextPage": "true"}).At("pageInfo.endCursor").(string)
	acme.call(t, acme.admin, "GET", rolesPath+"?first=1&after="+next, nil).Is(200).Want(map[string]string{"items.0.id": id})

	path := rolesPath + "/" + id
	acme.call(t, acme.admin, "PUT", path, object{}).Is(200).Want(map[string]string{"name": `"Analyst"`, "policies.length": "2"})
	acme.call(t, acme.admin, "PUT", path, nil).Is(200).Want(map[string]string{"name": `"Analyst"`})
	acme.call(t, acme.admin, "PUT", path, object{"description": nil, "name": "ANALYST"}).Is(200).Want(map[string]string{"name": `"ANALYST"`, "description": "null", "policies.length": "2"})
	acme.call(t, acme.admin, "PUT", path, object{"policies": []object{}}).Is(200).Want(map[string]string{"policies": "[]", "name": `"ANALYST"`})
	acme.call(t, acme.admin, "PUT", path, object{"name": "none"}).Rejected(409, "name", "none")
	acme.call(t, acme.admin, "POST", rolesPath, object{"name": "analyst", "policies": []object{}}).Rejected(409, "name", "analyst")
	for body, words := range map[string][]string{
		`{"name":null}`: {"name"}, `{"policies":null}`: {"policies"}, `{"name":"Admin"}`: {"name", "Admin", "reserved"}, `{"name":""}`: {"name"}, `{"id":7}`: {"id"},
		`{"policies":[{"resourceType":"Global","actions":["BillingRead"],"resources":["All"]}]}`: {"policies[0].actions", "BillingRead", "not used here"},
	} {
		acme.call(t, acme.admin, "PUT", path, body).Rejected(400, words...)
	}
	acme.call(t, acme.admin, "GET", path, nil).Is(200).Want(map[string]string{"name": `"ANALYST"`, "policies": "[]"})
	globex.call(t, globex.admin, "GET", path, nil).Rejected(404, id)
	acme.call(t, acme.admin, "DELETE", path, nil).Is(204)
	acme.call(t, acme.admin, "DELETE", path, nil).Rejected(404, id)
	acme.call(t, acme.admin, "GET", path, nil).Rejected(404, id)
}

func TestInvalidRolesAreRejected(t *testing.T) {
	for name, c := range map[string]struct {
		role  string
		words []string
	}{
		"no name":            {`{"policies":[]}`, []string{"name"}},
		"no policies":        {`{"name":"x"}`, []string{"policies"}},
		"null policies":      {`{"name":"x","policies":null}`, []string{"policies"}},
		"built-in":           {`{"name":"viewer","policies":[]}`, []string{"name", "viewer"}},
		"reserved":           {`{"name":"EmbedUser","policies":[]}`, []string{"name", "EmbedUser"}},
		"space":              {`{"name":" x","policies":[]}`, []string{"name", "space"}},
		"control character":  {`{"name":"a\u0000","policies":[]}`, []string{"name"}},
		"long":               {`{"name":"` + strings.Repeat("x", 256) + `","policies":[]}`, []string{"name", "255"}},
		"no actions":         {`{"name":"x","policies":[{"resourceType":"Global","actions":[],"resources":["All"]}]}`, []string{"policies[0].actions"}},
		"no resources":       {`{"name":"x","policies":[{"resourceType":"Deployment","actions":["All"],"resources":[]}]}`, []string{"policies[0].resources"}},
		"name of deployment": {`{"name":"x","policies":[{"resourceType":"Deployment","actions":["All"],"resources":["analytics"]}]}`, []string{"policies[0].resources[0]", "analytics", "number"}},
		"not used":           {`{"name":"x","policies":[{"resourceType":"Global","actions":["AIBIView"],"resources":["All"]}]}`, []string{"policies[0].actions", "AIBIView", "not used here"}},
		"unknown action":     {`{"name":"x","policies":[{"resourceType":"Global","actions":["Admin"],"resources":["All"]}]}`, []string{"policies[0].actions[0]", "Admin"}},
		"SCIM":               {`{"name":"x","policies":[{"resourceType":"Global","actions":["ScimManage"],"resources":["All"]}]}`, []string{"policies[0].actions[0]", "ScimManage"}},
		"other resources":    {`{"name":"x","policies":[{"resourceType":"Agent","actions":["All"],"resources":["All"]}]}`, []string{"policies[0].resourceType", "Agent", "not used here"}},
		"All with others":    {`{"name":"x","policies":[{"resourceType":"Deployment","actions":["All"],"resources":["All","1"]}]}`, []string{"policies[0].resources", "All"}},
		"Global on one":      {`{"name":"x","policies":[{"resourceType":"Global","actions":["SchemaRead"],"resources":["1"]}]}`, []string{"policies[0].resources", "All"}},
		"account-wide":       {`{"name":"x","policies":[{"resourceType":"Deployment","actions":["DeploymentCreate"],"resources":["1"]}]}`, []string{"policies[0].actions", "DeploymentCreate", "SchemaRead"}},
	} {
		t.Run(name, func(t *testing.T) {
			acme.call(t, acme.admin, "POST", rolesPath, c.role).Rejected(400, c.words...)
		})
	}
	many := make([]object, 201)
	for i := range many {
		many[i] = policy("Global", []string{"SchemaRead"}, "All")
	}
	acme.call(t, acme.admin, "POST", rolesPath, object{"name": "many", "policies": many}).Rejected(400, "policies", "200")
	acme.role(t, object{"name": "many", "policies": many[:200]})
	acme.call(t, acme.reader, "GET", rolesPath, nil).Rejected(403, "Admin")
}

// A role takes effect with the response: on the deployments of its policies, and until it is removed, changed or deleted.
func TestAssignments(t *testing.T) {
	key := acme.user(t, "ann")
	analyst := acme.role(t, object{"name": "Analyst", "policies": onAnalytics("SchemaUpdate")})
	may := func(want bool) {
		t.Helper()
		status := 403
		if want {
			status = 404 // the branch does not exist
		}
		if got := acme.call(t, key, "DELETE", "/build/api/v1/deployments/1/branches", object{"branchName": "x"}); (got.Status == 403) == want {
			t.Errorf("got %d %s, want %d", got.Status, got.Body, status)
		}
		acme.call(t, key, "DELETE", "/build/api/v1/deployments/3/branches", object{"branchName": "x"}).Is(403)
	}
	may(false)
	for range 2 { // idempotent
		acme.call(t, acme.admin, "PUT", userPath(analyst, "ann"), nil).Is(204)
		may(true)
	}
	user := fmt.Sprintf("%s/%d", usersPath, number.Of("User", "ann"))
	acme.call(t, acme.admin, "GET", user, nil).Is(200).Want(map[string]string{"defaultRoles": `["Analyst"]`, "isAdmin": "false"})
	acme.call(t, key, "GET", usersPath+"/me", nil).Is(200).Want(map[string]string{
		"userPolicies": `[{"actions":["SchemaUpdate"],"resourceType":"Deployment","resources":["1"]}]`, "isAdmin": "false",
	})
	for range 2 {
		acme.call(t, acme.admin, "DELETE", userPath(analyst, "ann"), nil).Is(204)
		may(false)
	}
	// A change of the role is one of all users with it.
	acme.call(t, acme.admin, "PUT", userPath(analyst, "ann"), nil).Is(204)
	acme.call(t, acme.admin, "PUT", rolesPath+"/"+analyst, object{"policies": []object{}}).Is(200)
	may(false)
	acme.call(t, acme.admin, "PUT", rolesPath+"/"+analyst, object{"policies": onAnalytics("All")}).Is(200)
	may(true)
	// Another role of the same name is not the one that the user had.
	acme.call(t, acme.admin, "DELETE", rolesPath+"/"+analyst, nil).Is(204)
	may(false)
	acme.role(t, object{"name": "Analyst", "policies": onAnalytics("All")})
	may(false)
	acme.call(t, acme.admin, "GET", user, nil).Is(200).Want(map[string]string{"defaultRoles": "null"})

	gone := userPath(analyst, "ann")
	acme.call(t, acme.admin, "PUT", gone, nil).Rejected(404, analyst)
	acme.call(t, acme.admin, "PUT", userPath(analyst, "nobody"), nil).Is(404)
	acme.call(t, acme.reader, "PUT", gone, nil).Rejected(403, "Admin")
}

// The built-in roles can be assigned, and neither read nor changed; Admin cannot be assigned.
func TestBuiltInRoles(t *testing.T) {
	const developer, viewer, unused = "9007199254740001", "9007199254740003", "9007199254740000"
	key := acme.user(t, "bob")
	acme.call(t, acme.admin, "PUT", userPath(developer, "bob"), nil).Is(204)
	acme.call(t, key, "PUT", "/api/v1/deployments/3", object{"name": "Sales"}).Is(200)
	acme.call(t, acme.admin, "PUT", userPath(viewer, "bob"), nil).Is(204)
	acme.call(t, acme.admin, "DELETE", userPath(developer, "bob"), nil).Is(204)
	acme.call(t, key, "PUT", "/api/v1/deployments/3", object{"name": "Sales"}).Rejected(403, "DeploymentUpdate")
	acme.call(t, key, "GET", "/api/v1/deployments/3", nil).Is(200)
	for _, path := range []string{rolesPath + "/" + viewer, rolesPath + "/" + unused} {
		acme.call(t, acme.admin, "GET", path, nil).Is(404)
		acme.call(t, acme.admin, "PUT", path, object{"name": "x"}).Is(404)
		acme.call(t, acme.admin, "DELETE", path, nil).Is(404)
	}
	acme.call(t, acme.admin, "PUT", userPath(unused, "bob"), nil).Is(404)
	acme.call(t, acme.admin, "GET", rolesPath, nil).Is(200).Want(map[string]string{"items": "[]"})
}

// Roles of groups, and of groups in which they are, are those of the members; a role that does not exist has no effect.
func TestRolesOfGroups(t *testing.T) {
	key := acme.user(t, "carol", "gone")
	acme.add(t, &v1alpha1.AccountRole{ObjectMeta: meta("secrets"), Spec: v1alpha1.AccountRoleSpec{Name: "Secrets", Policies: []v1alpha1.AccountRolePolicy{
		{ResourceType: "Deployment", Actions: []v1alpha1.AccountRoleAction{"SecretsManage"}, Resources: []string{"sales"}},
	}}})
	acme.add(t, &v1alpha1.ScimGroup{ObjectMeta: meta("inner"), Spec: v1alpha1.ScimGroupSpec{DisplayName: "Inner", Members: []v1alpha1.ScimMember{{Value: "carol"}}}})
	outer := &v1alpha1.ScimGroup{ObjectMeta: meta("outer"), Spec: v1alpha1.ScimGroupSpec{
		DisplayName: "Outer", Members: []v1alpha1.ScimMember{{Value: "inner", Type: "Group"}}, AccountRoles: []v1alpha1.AccountRoleReference{"secrets"},
	}}
	acme.add(t, outer)
	soon := func(want bool, deployment string) {
		t.Helper()
		apiclient.Soon(t, func() error { // kubectl does not wait for the server
			got := acme.call(t, key, "PUT", "/api/v1/deployments/"+deployment+"/env-vars", object{"env_variables": 7})
			if (got.Status != 403) != want {
				return fmt.Errorf("%d %s", got.Status, got.Body)
			}
			return nil
		})
	}
	soon(true, "3")
	soon(false, "1")
	acme.call(t, key, "GET", "/api/v1/deployments", nil).Is(403) // a user with a role has no others than the role's
	before := outer.DeepCopy()
	outer.Spec.AccountRoles = nil
	if err := k8s.Patch(t.Context(), outer, client.MergeFrom(before)); err != nil {
		t.Fatal(err)
	}
	soon(false, "3")
	acme.call(t, key, "GET", "/api/v1/deployments", nil).Is(200) // as every user without a role
}

// Changes of roles and assignments are in the audit log, under the documented names.
func TestChangesAreRecorded(t *testing.T) {
	acme.user(t, "dave")
	id := acme.role(t, object{"name": "Recorded", "policies": onAnalytics("SchemaRead")})
	acme.call(t, acme.admin, "PUT", rolesPath+"/"+id, object{"description": "changed"}).Is(200)
	acme.call(t, acme.admin, "PUT", userPath(id, "dave"), nil).Is(204)
	acme.call(t, acme.admin, "PUT", userPath(id, "dave"), nil).Is(204) // no change, no event
	acme.call(t, acme.admin, "DELETE", userPath(id, "dave"), nil).Is(204)
	acme.call(t, acme.admin, "DELETE", rolesPath+"/"+id, nil).Is(204)
	for event, want := range map[string]struct {
		search string
		n      int
	}{
		"Created role": {"Recorded", 1}, "Updated role": {"changed", 1}, "Assigned role to user": {"dave", 1}, "Removed role from user": {"dave", 1}, "Deleted role": {"Recorded", 1},
	} {
		path := "/api/v1/audit-logs/export?" + strings.ReplaceAll("eventName="+event+"&search="+want.search, " ", "%20")
		if rows := acme.call(t, acme.admin, "GET", path, nil).Is(200); strings.Count(string(rows.Body), event) != want.n {
			t.Errorf("%s: %s", event, rows.Body)
		}
	}
}

// A program that applies a role or the roles of a user keeps them.
func TestOwners(t *testing.T) {
	apply := client.FieldOwner("argocd-controller")
	r := &v1alpha1.AccountRole{ObjectMeta: meta("from-git")}
	manifest := &unstructured.Unstructured{Object: object{
		"apiVersion": v1alpha1.GroupVersion.String(), "kind": "AccountRole", "metadata": object{"namespace": acme.name, "name": r.Name}, "spec": object{"name": "From Git"},
	}}
	if err := k8s.Apply(t.Context(), client.ApplyConfigurationFromUnstructured(manifest), apply); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = k8s.Delete(context.Background(), r) })
	var id string
	apiclient.Soon(t, func() error {
		if err := k8s.Get(t.Context(), client.ObjectKeyFromObject(r), r); err != nil {
			return err
		}
		if id = r.Labels[v1alpha1.LabelID]; id == "" {
			return errors.New("the role has no number")
		}
		return nil
	})
	path := rolesPath + "/" + id
	apiclient.Soon(t, func() error {
		if got := acme.call(t, acme.admin, "GET", path, nil); got.Status != 200 {
			return fmt.Errorf("%d %s", got.Status, got.Body)
		}
		return nil
	})
	acme.call(t, acme.admin, "PUT", path, object{"name": "Over REST"}).Rejected(409, "argocd-controller")
	acme.call(t, acme.admin, "DELETE", path, nil).Rejected(409, "argocd-controller", "Git")
	acme.user(t, "erin")
	u := &v1alpha1.ScimUser{ObjectMeta: meta("erin")}
	if err := k8s.Patch(t.Context(), u, client.RawPatch(types.MergePatchType, []byte(`{"spec":{"accountRoles":["from-git"]}}`)), apply); err != nil {
		t.Fatal(err)
	}
	acme.call(t, acme.admin, "DELETE", userPath(id, "erin"), nil).Rejected(409, "argocd-controller")
}
