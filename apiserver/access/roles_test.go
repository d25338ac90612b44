package access_test

import (
	"fmt"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	toolscache "k8s.io/client-go/tools/cache"

	"github.com/quoin-dev/quoin/api/v1alpha1"
	"github.com/quoin-dev/quoin/apiserver/access"
	"github.com/quoin-dev/quoin/internal/permission"
)

func informer(of client) toolscache.SharedIndexInformer {
	return toolscache.NewSharedIndexInformer(&toolscache.ListWatch{}, of, 0, toolscache.Indexers{})
}

type client = v1alpha1.Object

func policy(resourceType v1alpha1.AccountRoleResourceType, actions []v1alpha1.AccountRoleAction, resources ...string) v1alpha1.AccountRolePolicy {
	return v1alpha1.AccountRolePolicy{ResourceType: resourceType, Actions: actions, Resources: resources}
}

func role(name string, policies ...v1alpha1.AccountRolePolicy) *v1alpha1.AccountRole {
	return &v1alpha1.AccountRole{ObjectMeta: metav1.ObjectMeta{Namespace: "acme", Name: name}, Spec: v1alpha1.AccountRoleSpec{Name: name, Policies: policies}}
}

func deployment(name, id string) *v1alpha1.Deployment {
	return &v1alpha1.Deployment{ObjectMeta: metav1.ObjectMeta{Namespace: "acme", Name: name, Labels: map[string]string{v1alpha1.LabelID: id}}}
}

// TestRolesGrant: what policies grant, on which deployments.
func TestRolesGrant(t *testing.T) {
	all := make([]v1alpha1.Permission, 0)
	for _, name := range permission.OnDeployments() {
		if name != "DeploymentRead" && name != "SchemaRead" && name != "SchemaUpdateDevBranches" { // implied
			all = append(all, v1alpha1.Permission(name))
		}
	}
	read := []v1alpha1.AccountRoleAction{"DeploymentRead"}
	roles, deployments := informer(&v1alpha1.AccountRole{}), informer(&v1alpha1.Deployment{})
	r, err := access.NewRoles(roles, deployments, nil)
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		role *v1alpha1.AccountRole
		want access.Grants
	}{
		{role("empty"), nil},
		{role("on-all", policy("Deployment", read, "All")), access.OnAll("DeploymentRead")},
		{role("by-name", policy("Deployment", read, "sales", "other")), access.On([]string{"other", "sales"}, "DeploymentRead")},
		{role("by-id", policy("Deployment", read, "7", "sales")), access.On([]string{"sales"}, "DeploymentRead")},
		{role("no-such-id", policy("Deployment", read, "8")), nil},
		{role("everything", policy("Deployment", []v1alpha1.AccountRoleAction{"All"}, "7")), access.On([]string{"sales"}, all...)},
		{role("global", policy("Global", []v1alpha1.AccountRoleAction{"AuditLogManage", "SchemaRead", "SchemaUpdate"}, "All")), access.OnAll("AuditLogManage", "SchemaUpdate")},
		{role("folders", policy("Folder", []v1alpha1.AccountRoleAction{"FolderEdit"}, "All")), access.OnAll("FolderEdit")},
		{role("of-another-version", policy("Deployment", []v1alpha1.AccountRoleAction{"BillingRead", "Admin", "AuditLogManage"}, "All")), nil},
		{role("merged", policy("Deployment", read, "a", "b"), policy("Deployment", []v1alpha1.AccountRoleAction{"SchemaRead"}, "b", "a")), access.On([]string{"a", "b"}, "DeploymentRead", "SchemaRead")},
	} {
		if err := roles.GetIndexer().Add(c.role); err != nil {
			t.Fatal(err)
		}
		if err := deployments.GetIndexer().Add(deployment("sales", "7")); err != nil {
			t.Fatal(err)
		}
		fresh, err := access.NewRoles(roles, deployments, nil)
		if err != nil {
			t.Fatal(err)
		}
		got := fresh.Of("acme").Grants([]v1alpha1.AccountRoleReference{v1alpha1.AccountRoleReference(c.role.Name)})
		if diff := cmp.Diff(c.want, got); diff != "" {
			t.Errorf("%s (-want +got):\n%s", c.role.Name, diff)
		}
	}
	if got := r.Of("other").Grants([]v1alpha1.AccountRoleReference{"by-name"}); got != nil {
		t.Errorf("roles of another account grant %v", got)
	}
	if got := r.Of("acme").Grants([]v1alpha1.AccountRoleReference{"Admin", "admin", ""}); got != nil || r.Of("acme").HasAny([]v1alpha1.AccountRoleReference{"Admin"}) {
		t.Errorf("Admin grants %v", got)
	}
	if developer := r.Of("acme").Grants([]v1alpha1.AccountRoleReference{"Developer"}); !developer.MayOn("SchemaUpdate", "sales") || developer.May("ScimManage") || developer.May("AuditLogManage") {
		t.Errorf("Developer: %v", developer)
	}
}

// TestCopiedNumber: the YAML of a deployment was copied with its number. The number is that of the deployment that has it in its status,
// whatever the order is in which the cache has them.
func TestCopiedNumber(t *testing.T) {
	roles, deployments := informer(&v1alpha1.AccountRole{}), informer(&v1alpha1.Deployment{})
	r, err := access.NewRoles(roles, deployments, nil)
	if err != nil {
		t.Fatal(err)
	}
	real := deployment("sales", "7")
	real.Status.ID = "7"
	for _, d := range []*v1alpha1.Deployment{deployment("copy-1", "7"), real, deployment("copy-2", "7")} {
		if err := deployments.GetIndexer().Add(d); err != nil {
			t.Fatal(err)
		}
	}
	if got := r.Of("acme").Deployments([]string{"7", "8", "other"}); !slices.Equal(got, []string{"sales", "other"}) {
		t.Errorf("deployments %v", got)
	}
}

// TestRolesTogether: several roles grant what each of them grants, whatever was asked before.
func TestRolesTogether(t *testing.T) {
	roles, deployments := informer(&v1alpha1.AccountRole{}), informer(&v1alpha1.Deployment{})
	for _, r := range []*v1alpha1.AccountRole{
		role("a", policy("Deployment", []v1alpha1.AccountRoleAction{"DeploymentRead"}, "sales")),
		role("b", policy("Deployment", []v1alpha1.AccountRoleAction{"SchemaRead"}, "hr")),
		role("ab", policy("Folder", []v1alpha1.AccountRoleAction{"FolderEdit"}, "All")),
	} {
		if err := roles.GetIndexer().Add(r); err != nil {
			t.Fatal(err)
		}
	}
	r, err := access.NewRoles(roles, deployments, nil)
	if err != nil {
		t.Fatal(err)
	}
	set := r.Of("acme")
	both := access.Grants{access.On([]string{"hr"}, "SchemaRead")[0], access.On([]string{"sales"}, "DeploymentRead")[0]}
	for range 2 {
		for i := range 1500 { // more than are kept
			set.Grants([]v1alpha1.AccountRoleReference{"a", v1alpha1.AccountRoleReference(fmt.Sprint(i))})
		}
		for _, assigned := range [][]v1alpha1.AccountRoleReference{{"a", "b"}, {"b", "a"}, {"a", "b", "a"}, {"a", "none", "b"}} {
			if diff := cmp.Diff(both, set.Grants(assigned)); diff != "" {
				t.Errorf("%v (-want +got):\n%s", assigned, diff)
			}
		}
		if diff := cmp.Diff(access.OnAll("FolderEdit"), set.Grants([]v1alpha1.AccountRoleReference{"ab", ""})); diff != "" {
			t.Errorf("ab (-want +got):\n%s", diff)
		}
	}
}

// TestWithin: a key has what both its own permissions and those of its owner allow.
func TestWithin(t *testing.T) {
	for name, c := range map[string]struct{ key, owner, want access.Grants }{
		"all of the owner's":           {access.OnAll("Admin"), access.OnAll("SchemaUpdate"), access.OnAll("SchemaUpdate")},
		"an administrator's":           {access.OnAll("SchemaRead"), access.OnAll("Admin"), access.OnAll("SchemaRead")},
		"nothing shared":               {access.OnAll("SchemaRead"), access.OnAll("FolderRead"), nil},
		"what both imply":              {access.OnAll("DeploymentUpdate"), access.OnAll("DeploymentDelete"), access.OnAll("DeploymentRead")},
		"an owner without permissions": {access.OnAll("Admin"), nil, nil},
		"deployments of the owner":     {access.OnAll("Admin"), access.On([]string{"sales"}, "SchemaRead"), access.On([]string{"sales"}, "SchemaRead")},
		"deployments of the key":       {access.On([]string{"sales"}, "Admin"), access.OnAll("SchemaRead"), access.On([]string{"sales"}, "SchemaRead")},
		"deployments of both":          {access.On([]string{"sales", "hr"}, "Admin"), access.On([]string{"hr", "it"}, "SchemaRead"), access.On([]string{"hr"}, "SchemaRead")},
		"no deployment of both":        {access.On([]string{"sales"}, "Admin"), access.On([]string{"hr"}, "SchemaRead"), nil},
	} {
		if diff := cmp.Diff(c.want, c.key.Within(c.owner)); diff != "" {
			t.Errorf("%s (-want +got):\n%s", name, diff)
		}
	}
}
