// Package tenants finds the account of a request: by its host, or by name for requests through the
// aggregated API.
package tenants

import (
	"context"
	"errors"
	"fmt"
	"net"
	"strings"

	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/quoin-dev/quoin/api/v1alpha1"
	"github.com/quoin-dev/quoin/internal/tenant"
)

// indexHost is the index of Accounts by host.
const indexHost = "hosts"

// AddIndexes adds the indexes that this package needs.
func AddIndexes(ctx context.Context, indexer client.FieldIndexer) error {
	hosts := func(o client.Object) []string {
		if account, ok := o.(*v1alpha1.Account); ok {
			return tenant.Hosts(account)
		}
		return nil
	}
	if err := indexer.IndexField(ctx, &v1alpha1.Account{}, indexHost, hosts); err != nil {
		return fmt.Errorf("index accounts by host: %w", err)
	}
	namespace := func(o client.Object) []string {
		if account, ok := o.(*v1alpha1.Account); ok {
			return []string{account.Spec.Namespace}
		}
		return nil
	}
	if err := indexer.IndexField(ctx, &v1alpha1.Account{}, tenant.IndexNamespace, namespace); err != nil {
		return fmt.Errorf("index accounts by namespace: %w", err)
	}
	return nil
}

// Tenants finds accounts in a cache with the indexes.
type Tenants struct {
	Reader client.Reader
	// Namespaces are those whose accounts are served.
	Namespaces tenant.Namespaces
}

// ByHost returns the account with a host, with or without port; nil if there is none. Of several
// accounts with the same host it returns the oldest.
func (t Tenants) ByHost(ctx context.Context, host string) (*v1alpha1.Account, error) {
	name := strings.ToLower(strings.TrimSuffix(withoutPort(host), "."))
	if name == "" {
		return nil, nil
	}
	list := &v1alpha1.AccountList{}
	if err := t.Reader.List(ctx, list, client.MatchingFields{indexHost: name}, client.UnsafeDisableDeepCopy); err != nil {
		return nil, fmt.Errorf("find the account of a host: %w", err)
	}
	var found *v1alpha1.Account
	for i := range list.Items {
		if found == nil || hasPrecedence(&list.Items[i], found, name) {
			found = &list.Items[i]
		}
	}
	return t.served(ctx, found)
}

// hasPrecedence reports whether a is the account of a host rather than b: it holds the host, or the
// controller has not decided yet and it is older.
func hasPrecedence(a, b *v1alpha1.Account, host string) bool {
	if holds := tenant.HoldsHost(a, host); holds != tenant.HoldsHost(b, host) {
		return holds
	}
	return tenant.Older(a, b)
}

// ByName returns the account with a name, nil if there is none.
func (t Tenants) ByName(ctx context.Context, name string) (*v1alpha1.Account, error) {
	account := &v1alpha1.Account{}
	if err := t.Reader.Get(ctx, client.ObjectKey{Name: name}, account); err != nil {
		return nil, client.IgnoreNotFound(err)
	}
	return t.served(ctx, account)
}

// served returns nil for an account that is being deleted, with a namespace that Quoin does not work in, or whose
// namespace belongs to an older account, whose objects it must not expose.
func (t Tenants) served(ctx context.Context, account *v1alpha1.Account) (*v1alpha1.Account, error) {
	if account == nil || !account.DeletionTimestamp.IsZero() || !t.Namespaces.Include(account.Spec.Namespace) {
		return nil, nil
	}
	owner, err := tenant.Of(ctx, t.Reader, account.Spec.Namespace)
	if errors.Is(err, tenant.ErrNoAccount) || err == nil && owner.UID != account.UID {
		return nil, nil
	}
	return account, err
}

// withoutPort returns a host without its port. IPv6 addresses are not hosts of accounts.
func withoutPort(host string) string {
	if name, _, err := net.SplitHostPort(host); err == nil {
		return name
	}
	return host
}
