// Package tenant finds the account that an object belongs to, and says what an account has
// to itself: its namespace and its hosts.
package tenant

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/quoin-dev/quoin/api/v1alpha1"
)

// IndexNamespace is the field by which the account of a namespace is found.
const IndexNamespace = "spec.namespace"

// ErrNoAccount says that no account uses a namespace.
var ErrNoAccount = errors.New("no account uses this namespace")

// Of returns the account that a namespace belongs to: the oldest one that names it.
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

// Older tells which of two accounts has what both want: the one that was made first, by
// name where both were made in the same second.
func Older(a, b *v1alpha1.Account) bool {
	if !a.CreationTimestamp.Equal(&b.CreationTimestamp) {
		return a.CreationTimestamp.Before(&b.CreationTimestamp)
	}
	return a.Name < b.Name
}

// Hosts are the names, without ports, on which an account answers.
func Hosts(a *v1alpha1.Account) []string {
	names := []string{HostName(a.Spec.Host)}
	for _, domain := range a.Spec.CustomDomains {
		names = append(names, HostName(domain))
	}
	return names
}

// HostName is a host without its port.
func HostName(h v1alpha1.Host) string {
	name, _, _ := strings.Cut(string(h), ":")
	return name
}

// URL is the base address of an account's APIs: a custom domain replaces the tenant host.
func URL(a *v1alpha1.Account) string {
	if len(a.Spec.CustomDomains) > 0 {
		return "https://" + string(a.Spec.CustomDomains[0])
	}
	return "https://" + string(a.Spec.Host)
}

// DataDomain is the domain below which the data APIs of an account's deployments are.
func DataDomain(a *v1alpha1.Account) string {
	if a.Spec.DataDomain != "" {
		return string(a.Spec.DataDomain)
	}
	return "data." + string(a.Spec.Host)
}
