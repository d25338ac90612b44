// Package tenants finds the account of a request: by its host, or by name for requests through the
// aggregated API.
package tenants

import (
	"fmt"
	"net"
	"strings"

	toolscache "k8s.io/client-go/tools/cache"

	"github.com/quoin-dev/quoin/api/v1alpha1"
	"github.com/quoin-dev/quoin/internal/cacheindex"
	"github.com/quoin-dev/quoin/internal/tenant"
)

// Indexes of Accounts.
const (
	indexHost      = "tenants.host"
	indexNamespace = "tenants.namespace"
)

// indexers are the indexes of Accounts by their hosts and namespaces. Each request reads them: an index of the client of a cache
// copies what it finds into a list.
var indexers = toolscache.Indexers{
	indexHost:      cacheindex.By(tenant.Hosts),
	indexNamespace: cacheindex.By(func(a *v1alpha1.Account) []string { return []string{a.Spec.Namespace} }),
}

// Tenants finds accounts in a cache. Create it with New.
type Tenants struct {
	accounts   toolscache.Indexer
	namespaces tenant.Namespaces
}

// New returns the Tenants of an informer of Accounts, to which it adds indexes. Only accounts with namespaces are served.
func New(accounts toolscache.SharedIndexInformer, namespaces tenant.Namespaces) (*Tenants, error) {
	if err := accounts.AddIndexers(indexers); err != nil {
		return nil, fmt.Errorf("index accounts: %w", err)
	}
	return &Tenants{accounts: accounts.GetIndexer(), namespaces: namespaces}, nil
}

// ByHost returns the account with a host, with or without port; nil if there is none. Of several
// accounts with the same host it returns the oldest. The account is shared and must not be modified.
func (t *Tenants) ByHost(host string) (*v1alpha1.Account, error) {
	name := strings.ToLower(strings.TrimSuffix(withoutPort(host), "."))
	if name == "" {
		return nil, nil
	}
	found, err := t.first(indexHost, name, func(a, b *v1alpha1.Account) bool { return hasPrecedence(a, b, name) })
	if err != nil {
		return nil, err
	}
	return t.served(found)
}

// first returns the account with a value of an index that has precedence over the others; nil if there is none.
func (t *Tenants) first(index, value string, hasPrecedence func(a, b *v1alpha1.Account) bool) (*v1alpha1.Account, error) {
	accounts, err := cacheindex.Find[*v1alpha1.Account](t.accounts, index, value)
	if err != nil {
		return nil, fmt.Errorf("find an account: %w", err)
	}
	var found *v1alpha1.Account
	for _, account := range accounts {
		if found == nil || hasPrecedence(account, found) {
			found = account
		}
	}
	return found, nil
}

// hasPrecedence reports whether a is the account of a host rather than b: it holds the host, or the
// controller has not decided yet and it is older.
func hasPrecedence(a, b *v1alpha1.Account, host string) bool {
	if holds := tenant.HoldsHost(a, host); holds != tenant.HoldsHost(b, host) {
		return holds
	}
	return tenant.Older(a, b)
}

// ByName returns the account with a name, nil if there is none. It is shared and must not be modified.
func (t *Tenants) ByName(name string) (*v1alpha1.Account, error) {
	found, _, err := t.accounts.GetByKey(name)
	if err != nil {
		return nil, fmt.Errorf("find an account: %w", err)
	}
	account, _ := found.(*v1alpha1.Account)
	return t.served(account)
}

// served returns nil for an account that is being deleted, with a namespace that Quoin does not work in, or whose
// namespace belongs to an older account, whose objects it must not expose.
func (t *Tenants) served(account *v1alpha1.Account) (*v1alpha1.Account, error) {
	if account == nil || !account.DeletionTimestamp.IsZero() || !t.namespaces.Include(account.Spec.Namespace) {
		return nil, nil
	}
	owner, err := t.first(indexNamespace, account.Spec.Namespace, tenant.Older)
	if err != nil || owner == nil || owner.UID != account.UID {
		return nil, err
	}
	return account, nil
}

// withoutPort returns a host without its port. IPv6 addresses are not hosts of accounts.
func withoutPort(host string) string {
	if name, _, err := net.SplitHostPort(host); err == nil {
		return name
	}
	return host
}
