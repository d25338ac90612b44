package access_test

import (
	"testing"

	"github.com/quoin-dev/quoin/api/v1alpha1"
	"github.com/quoin-dev/quoin/apiserver/access"
)

// TestGrants: a permission is held where one grant has it, not where one grant has the permission and another one the
// deployment.
func TestGrants(t *testing.T) {
	sales := []string{"sales"}
	for name, c := range map[string]struct {
		grants             access.Grants
		needed             v1alpha1.Permission
		deployment         string
		may, mayOn, lacked bool
	}{
		"none":                         {nil, "SchemaRead", "sales", false, false, false},
		"none needed":                  {nil, "", "", true, false, false},
		"held":                         {access.OnAll("SchemaRead"), "SchemaRead", "sales", true, true, false},
		"another one":                  {access.OnAll("SchemaRead"), "SchemaUpdate", "sales", false, false, false},
		"implied":                      {access.OnAll("SchemaUpdate"), "SchemaRead", "sales", true, true, false},
		"on it":                        {access.On(sales, "SchemaRead"), "SchemaRead", "sales", true, true, false},
		"on another one":               {access.On(sales, "SchemaRead"), "SchemaRead", "hr", true, false, false},
		"on certain ones, not all":     {access.On(sales, "SchemaRead"), "SchemaRead", "", true, false, false},
		"Admin on it":                  {access.On(sales, "Admin"), "SchemaRead", "sales", true, true, false},
		"Admin on it, account-wide":    {access.On(sales, "Admin"), "AuditLogManage", "", true, false, true},
		"Admin":                        {access.OnAll("Admin"), "AuditLogManage", "", true, true, false},
		"on no deployment":             {access.On([]string{}, "SchemaRead"), "SchemaRead", "sales", true, false, false},
		"union":                        {append(access.On(sales, "SchemaUpdate"), access.OnAll("DeploymentRead")...), "SchemaUpdate", "sales", true, true, false},
		"another grant's deployment":   {append(access.On(sales, "SchemaUpdate"), access.OnAll("DeploymentRead")...), "SchemaUpdate", "hr", true, false, false},
		"another grant's permission":   {append(access.On(sales, "SchemaUpdate"), access.On([]string{"hr"}, "SecretsManage")...), "SecretsManage", "sales", true, false, false},
		"account-wide, only elsewhere": {append(access.On(sales, "Admin"), access.OnAll("DeploymentRead")...), "ScimManage", "", true, false, true},
	} {
		if may, mayOn := c.grants.May(c.needed), c.grants.MayOn(c.needed, c.deployment); may != c.may || mayOn != c.mayOn {
			t.Errorf("%s: may %t, may on %q %t", name, may, c.deployment, mayOn)
		}
		if lacked := c.grants.May(c.needed) && c.grants.LimitedFor(c.needed); lacked != c.lacked {
			t.Errorf("%s: limited for it: %t", name, lacked)
		}
	}
}

func TestReach(t *testing.T) {
	both := append(access.On([]string{"sales"}, "SchemaRead"), access.On([]string{"hr"}, "DeploymentRead")...)
	if !both.Reaches("sales") || !both.Reaches("hr") || both.Reaches("it") || !both.IsLimited() {
		t.Errorf("%+v", both)
	}
	if all := append(both, access.OnAll("FolderRead")...); !all.Reaches("it") || all.IsLimited() {
		t.Errorf("%+v", all)
	}
	if none := (access.Grants{}); none.Reaches("sales") || none.IsLimited() {
		t.Error("nothing is granted")
	}
}
