package engine

import (
	"net"
	"net/url"

	"github.com/quoin-dev/quoin/api/v1alpha1"
	"github.com/quoin-dev/quoin/internal/tenant"
)

// URL returns the base address of a deployment's data API, such as
// https://sales.data.example.com:8443.
func URL(account *v1alpha1.Account, d *v1alpha1.Deployment) string {
	return "https://" + dataHost(account, d)
}

// Addresses returns the addresses of an environment's data APIs. branch is the Git branch of a
// staging or development environment; it is escaped as one segment of the path (feature/a becomes
// feature%2Fa). Production has no branch in its address.
//
// Below a data domain, the SQL interface has a host of its own, <deployment>.sql.<domain>: the
// PostgreSQL protocol has no path, and one wildcard certificate and DNS record for *.sql.<domain>
// cover all deployments. A custom domain serves both APIs under its single name. sqlPort is the port
// of all SQL interfaces as clients see it, that of the gateway's Service.
func Addresses(account *v1alpha1.Account, d *v1alpha1.Deployment, e *v1alpha1.Environment, branch string, sqlPort int32) v1alpha1.APICredentials {
	base := BasePathOf(d)
	address := URL(account, d)
	if e.Spec.Type != v1alpha1.EnvironmentProduction {
		address = BranchURL(account, d, branch)
	}
	return v1alpha1.APICredentials{
		REST: v1alpha1.RESTCredentials{URL: address + base},
		SQL:  v1alpha1.SQLCredentials{Host: sqlHost(account, d), Port: sqlPort},
	}
}

// BranchURL returns the base address of the data API of a branch, to which the base path is appended.
func BranchURL(account *v1alpha1.Account, d *v1alpha1.Deployment, branch string) string {
	return URL(account, d) + PathDevMode + url.PathEscape(branch)
}

// PathDevMode is the prefix of the path of a branch's data API. The branch, escaped as one segment,
// and the base path follow it.
const PathDevMode = "/dev-mode/"

// BasePathOf returns the base path of a deployment's data API.
func BasePathOf(d *v1alpha1.Deployment) string {
	if d.Spec.DataAPI != nil && d.Spec.DataAPI.BasePath != "" {
		return d.Spec.DataAPI.BasePath
	}
	return BasePath
}

// Host returns the host of a deployment below its account's data domain, without a port. A custom
// domain does not change it.
func Host(account *v1alpha1.Account, d *v1alpha1.Deployment) string {
	return d.Name + "." + withoutPort(tenant.DataDomain(account))
}

// SQLHost returns the host of the SQL interface below the account's data domain.
func SQLHost(account *v1alpha1.Account, d *v1alpha1.Deployment) string {
	return d.Name + "." + SQLDomain(account)
}

// SQLDomain returns the parent domain of the SQL hosts of an account's deployments.
func SQLDomain(account *v1alpha1.Account) string {
	return "sql." + withoutPort(tenant.DataDomain(account))
}

// DataDomain returns the domain of an account's data APIs, without a port.
func DataDomain(account *v1alpha1.Account) string { return withoutPort(tenant.DataDomain(account)) }

// dataHost returns the host of the data API, with a port unless it is the default.
func dataHost(account *v1alpha1.Account, d *v1alpha1.Deployment) string {
	if custom := customDomain(d); custom != "" {
		return custom
	}
	return d.Name + "." + tenant.DataDomain(account)
}

func sqlHost(account *v1alpha1.Account, d *v1alpha1.Deployment) string {
	if custom := customDomain(d); custom != "" {
		return withoutPort(custom)
	}
	return SQLHost(account, d)
}

// customDomain returns the custom domain of a deployment with its port, or empty. A domain that the
// deployment does not hold may be served by another tenant, to which clients must not send tokens.
func customDomain(d *v1alpha1.Deployment) string {
	if tenant.HeldDomain(d) == "" {
		return ""
	}
	return string(d.Spec.DataAPI.CustomDomain)
}

func withoutPort(host string) string {
	if name, _, err := net.SplitHostPort(host); err == nil {
		return name
	}
	return host
}
