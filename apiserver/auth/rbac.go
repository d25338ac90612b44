package auth

import "github.com/quoin-dev/quoin/api/v1alpha1"

// grants are verbs and what they give, the most first: see the package's documentation.
var grants = []struct {
	verb        string
	permissions []v1alpha1.Permission
}{
	{"delete", []v1alpha1.Permission{v1alpha1.PermissionAdmin}},
	{"update", []v1alpha1.Permission{"DeploymentRead", "SchemaRead", v1alpha1.PermissionDeploymentsManage}},
	{"get", []v1alpha1.Permission{"DeploymentRead", "SchemaRead"}},
}

// Granted are the permissions of somebody of Kubernetes in an account: those of the first verb
// that the cluster's RBAC allows them on the account's proxy; nil when it allows none.
func Granted(may func(verb string) (bool, error)) ([]v1alpha1.Permission, error) {
	for _, grant := range grants {
		allowed, err := may(grant.verb)
		if err != nil {
			return nil, err
		}
		if allowed {
			return grant.permissions, nil
		}
	}
	return nil, nil
}
