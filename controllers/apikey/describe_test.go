package apikey

import (
	"testing"

	"github.com/quoin-dev/quoin/api/v1alpha1"
)

// The condition of a valid key describes what it allows: one without permissions allows everything.
func TestReadyDescribesWhatTheKeyAllows(t *testing.T) {
	for want, spec := range map[string]v1alpha1.ApiKeySpec{
		"Has the permission Admin, because spec.permissions is absent: it allows everything, on all deployments of the account": {},
		"Has the permission Admin: it allows everything, on all deployments of the account":                                     {Permissions: []v1alpha1.Permission{v1alpha1.PermissionAdmin, "ScimManage"}},
		"Has the permission ScimManage, on all deployments of the account":                                                      {Permissions: []v1alpha1.Permission{"ScimManage"}},
		"Has the permissions DeploymentRead, SchemaRead, on 1 deployment of the account":                                        {Permissions: []v1alpha1.Permission{"SchemaRead", "DeploymentRead"}, Deployments: []string{"sales"}},
		"Has the permission DeploymentRead, on 2 deployments of the account":                                                    {Permissions: []v1alpha1.Permission{"DeploymentRead"}, Deployments: []string{"sales", "hr"}},
		`Has the permission DeploymentRead, on all deployments of the account; of that, it allows what user "ann" may do`:       {Permissions: []v1alpha1.Permission{"DeploymentRead"}, Owner: &v1alpha1.ApiKeyOwner{ScimUser: "ann"}},
	} {
		if got := describe(&spec); got != want {
			t.Errorf("got  %q\nwant %q", got, want)
		}
	}
}
