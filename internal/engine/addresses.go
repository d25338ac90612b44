package engine

import (
	"net"
	"net/url"

	"github.com/quoin-dev/quoin/api/v1alpha1"
	"github.com/quoin-dev/quoin/internal/tenant"
)

// sqlPort is the port of the SQL interface that users see: PostgreSQL's own.
const sqlPort = 5432

// URL is the base address of a deployment's data API, such as
// https://sales.data.example.com:8443.
func URL(account *v1alpha1.Account, d *v1alpha1.Deployment) string {
	return "https://" + dataHost(account, d)
}

// Addresses says where the data APIs of an environment are. branch is the Git branch that a
// staging or development environment serves; it is one segment of the path whatever is in
// it (feature/a becomes feature%2Fa). Production has no branch in its address.
//
// Below a data domain the SQL interface has a host of its own, <deployment>.sql.<domain>:
// the PostgreSQL protocol carries no path, and one wildcard certificate and DNS record for
// *.sql.<domain> serve all deployments. A custom domain serves both under the one name that
// its owner has pointed here.
func Addresses(account *v1alpha1.Account, d *v1alpha1.Deployment, e *v1alpha1.Environment, branch string) v1alpha1.APICredentials {
	base := BasePathOf(d)
	if e.Spec.Type != v1alpha1.EnvironmentProduction {
		base = PathDevMode + url.PathEscape(branch) + base
	}
	return v1alpha1.APICredentials{
		REST: v1alpha1.RESTCredentials{URL: URL(account, d) + base},
		SQL:  v1alpha1.SQLCredentials{Host: sqlHost(account, d), Port: sqlPort},
	}
}

// PathDevMode begins the path of a branch's data API: it is followed by the branch, escaped
// as one segment, and the base path.
const PathDevMode = "/dev-mode/"

// BasePathOf is the path under which the data API of a deployment is served.
func BasePathOf(d *v1alpha1.Deployment) string {
	if d.Spec.DataAPI != nil && d.Spec.DataAPI.BasePath != "" {
		return d.Spec.DataAPI.BasePath
	}
	return BasePath
}

// Host is the host, without a port, that a deployment has below its account's data domain,
// whether or not it has a domain of its own too.
func Host(account *v1alpha1.Account, d *v1alpha1.Deployment) string {
	return d.Name + "." + withoutPort(tenant.DataDomain(account))
}

// SQLHost is the host of the SQL interface below the account's data domain.
func SQLHost(account *v1alpha1.Account, d *v1alpha1.Deployment) string {
	return d.Name + "." + SQLDomain(account)
}

// SQLDomain is the domain below which the SQL interfaces of an account's deployments are.
func SQLDomain(account *v1alpha1.Account) string {
	return "sql." + withoutPort(tenant.DataDomain(account))
}

// DataDomain is the domain of an account's data APIs without a port.
func DataDomain(account *v1alpha1.Account) string { return withoutPort(tenant.DataDomain(account)) }

// CustomHost is the deployment's own domain without a port; empty when it has none.
func CustomHost(d *v1alpha1.Deployment) string { return withoutPort(customDomain(d)) }

// dataHost is the host of the data API, with the port where it is not the usual one.
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

func customDomain(d *v1alpha1.Deployment) string {
	if d.Spec.DataAPI == nil {
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
