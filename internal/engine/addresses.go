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
	base := BasePath
	if d.Spec.DataAPI != nil && d.Spec.DataAPI.BasePath != "" {
		base = d.Spec.DataAPI.BasePath
	}
	if e.Spec.Type != v1alpha1.EnvironmentProduction {
		base = "/dev-mode/" + url.PathEscape(branch) + base
	}
	return v1alpha1.APICredentials{
		REST: v1alpha1.RESTCredentials{URL: URL(account, d) + base},
		SQL:  v1alpha1.SQLCredentials{Host: sqlHost(account, d), Port: sqlPort},
	}
}

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
	return d.Name + ".sql." + withoutPort(tenant.DataDomain(account))
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
