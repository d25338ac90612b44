package auth

import (
	"github.com/quoin-dev/quoin/api/v1alpha1"
	"github.com/quoin-dev/quoin/apiserver/access"
	"github.com/quoin-dev/quoin/internal/permission"
)

// Granted returns what Kubernetes RBAC grants in an account, on the whole of it; nil if there is nothing. allowed reports
// whether RBAC grants a verb on the subresource "proxy" of the account; its errors are returned as they are.
func Granted(allowed func(verb string) (bool, error)) (access.Grants, error) {
	names, err := permission.Granted(allowed)
	if err != nil || names == nil {
		return nil, err
	}
	granted := make([]v1alpha1.Permission, len(names))
	for i, name := range names {
		granted[i] = v1alpha1.Permission(name)
	}
	return access.OnAll(granted...), nil
}
