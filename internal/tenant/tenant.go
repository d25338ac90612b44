// Package tenant finds the account of a namespace and returns the hosts and URLs of an account.
package tenant

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/quoin-dev/quoin/api/v1alpha1"
)

// IndexNamespace is the index of Accounts by namespace.
const IndexNamespace = "spec.namespace"

// NamespaceOf returns the values of IndexNamespace of an Account.
func NamespaceOf(o client.Object) []string {
	account, ok := o.(*v1alpha1.Account)
	if !ok {
		return nil
	}
	return []string{account.Spec.Namespace}
}

// ErrNoAccount is returned if no account has the namespace.
var ErrNoAccount = errors.New("no account uses this namespace")

// Of returns the account of a namespace: the oldest one with that spec.namespace.
func Of(ctx context.Context, c client.Reader, namespace string) (*v1alpha1.Account, error) {
	list := &v1alpha1.AccountList{}
	if err := c.List(ctx, list, client.MatchingFields{IndexNamespace: namespace}); err != nil {
		return nil, fmt.Errorf("find account of namespace %q: %w", namespace, err)
	}
	var found *v1alpha1.Account
	for i := range list.Items {
		if found == nil || Older(&list.Items[i], found) {
			found = &list.Items[i]
		}
	}
	if found == nil {
		return nil, fmt.Errorf("namespace %q: %w", namespace, ErrNoAccount)
	}
	return found, nil
}

// Older reports whether a has precedence over b in a conflict: it was created first, or in the same
// second and its name sorts first.
func Older(a, b *v1alpha1.Account) bool {
	if !a.CreationTimestamp.Equal(&b.CreationTimestamp) {
		return a.CreationTimestamp.Before(&b.CreationTimestamp)
	}
	return a.Name < b.Name
}

// Hosts returns the hosts of an account without ports.
func Hosts(a *v1alpha1.Account) []string {
	names := []string{HostName(a.Spec.Host)}
	for _, domain := range a.Spec.CustomDomains {
		names = append(names, HostName(domain))
	}
	return names
}

// HostName returns a host without its port.
func HostName(h v1alpha1.Host) string {
	name, _, _ := strings.Cut(string(h), ":")
	return name
}

// URL returns the base URL of an account's APIs, with the first custom domain if there is one.
func URL(a *v1alpha1.Account) string {
	if len(a.Spec.CustomDomains) > 0 {
		return "https://" + string(a.Spec.CustomDomains[0])
	}
	return "https://" + string(a.Spec.Host)
}

// DataDomain returns the parent domain of the data API hosts of an account's deployments.
func DataDomain(a *v1alpha1.Account) string {
	if a.Spec.DataDomain != "" {
		return string(a.Spec.DataDomain)
	}
	return "data." + string(a.Spec.Host)
}
