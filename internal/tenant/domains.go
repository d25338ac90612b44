package tenant

import (
	"slices"
	"strings"

	"github.com/quoin-dev/quoin/api/v1alpha1"
)

// RequestedDomain returns the custom domain of a deployment's spec without a port, or empty.
func RequestedDomain(d *v1alpha1.Deployment) string {
	if d.Spec.DataAPI == nil {
		return ""
	}
	return HostName(d.Spec.DataAPI.CustomDomain)
}

// HeldDomain returns the custom domain on which a deployment is served, without a port, or empty:
// the one that its status shows and its spec still requests.
func HeldDomain(d *v1alpha1.Deployment) string {
	if domain := RequestedDomain(d); domain == d.Status.CustomDomain {
		return domain
	}
	return ""
}

// HoldsHost reports whether an account holds a host, without a port, that its spec still has.
func HoldsHost(a *v1alpha1.Account, host string) bool {
	return slices.Contains(a.Status.Hosts, host) && slices.Contains(Hosts(a), host)
}

// AllowsDomain reports whether the suffixes of an account allow a custom domain, without a port, of
// its deployments.
func AllowsDomain(a *v1alpha1.Account, domain string) bool {
	return len(a.Spec.DomainSuffixes) == 0 || slices.ContainsFunc(a.Spec.DomainSuffixes, func(suffix v1alpha1.DomainName) bool {
		return isAtOrBelow(domain, string(suffix))
	})
}

// Owners returns the owner of each namespace: the oldest account with the namespace, unless it is
// being deleted.
func Owners(accounts []v1alpha1.Account) map[string]*v1alpha1.Account {
	owners := map[string]*v1alpha1.Account{}
	for i := range accounts {
		a := &accounts[i]
		if owner := owners[a.Spec.Namespace]; owner == nil || Older(a, owner) {
			owners[a.Spec.Namespace] = a
		}
	}
	for namespace, a := range owners {
		if !a.DeletionTimestamp.IsZero() {
			delete(owners, namespace)
		}
	}
	return owners
}

// IsForeign reports whether a host is at or below the data domain of other accounts only. Such a
// host is not served as a custom domain of own: it would get the requests of a future deployment of
// another tenant. Of nested domains, the longest decides.
func IsForeign(host string, owners map[string]*v1alpha1.Account, own *v1alpha1.Account) bool {
	longest, foreign := "", false
	for _, a := range owners {
		domain := HostName(v1alpha1.Host(DataDomain(a)))
		if !isAtOrBelow(host, domain) || len(domain) < len(longest) {
			continue
		}
		if domain != longest {
			longest, foreign = domain, true
		}
		foreign = foreign && a.Name != own.Name
	}
	return foreign
}

// isAtOrBelow reports whether a host is a domain or below it.
func isAtOrBelow(host, domain string) bool {
	return host == domain || strings.HasSuffix(host, "."+domain)
}
