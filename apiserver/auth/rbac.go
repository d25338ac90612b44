package auth

import (
	"github.com/quoin-dev/quoin/api/v1alpha1"
	"github.com/quoin-dev/quoin/internal/permission"
)

// Granted returns the permissions of a Kubernetes user or ServiceAccount in an account, nil if it
// has none. It calls allowed to check whether RBAC allows a verb on the account's proxy
// subresource: see permission.Granted.
func Granted(allowed func(verb string) (bool, error)) ([]v1alpha1.Permission, error) {
	names, err := permission.Granted(allowed)
	if err != nil || names == nil {
		return nil, err
	}
	granted := make([]v1alpha1.Permission, len(names))
	for i, name := range names {
		granted[i] = v1alpha1.Permission(name)
	}
	return granted, nil
}
