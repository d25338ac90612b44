package engine_test

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/quoin-dev/quoin/api/v1alpha1"
	"github.com/quoin-dev/quoin/internal/engine"
)

var addressTests = []struct {
	name         string
	host, domain v1alpha1.Host
	api          *v1alpha1.DataAPI
	kind         v1alpha1.EnvironmentType
	branch       string
	url, rest    string
	sql          string
}{
	{
		name: "defaults", kind: v1alpha1.EnvironmentProduction, host: "acme.example.com",
		url:  "https://sales.data.acme.example.com",
		rest: "https://sales.data.acme.example.com/cubejs-api",
		sql:  "sales.sql.data.acme.example.com",
	},
	{
		name: "tenant host with a port", kind: v1alpha1.EnvironmentProduction, host: "acme.localhost:8443",
		url:  "https://sales.data.acme.localhost:8443",
		rest: "https://sales.data.acme.localhost:8443/cubejs-api",
		sql:  "sales.sql.data.acme.localhost",
	},
	{
		name: "data domain with a port", kind: v1alpha1.EnvironmentProduction, host: "acme.example.com", domain: "bi.example.com:9443",
		url:  "https://sales.bi.example.com:9443",
		rest: "https://sales.bi.example.com:9443/cubejs-api",
		sql:  "sales.sql.bi.example.com",
	},
	{
		name: "custom domain and base path", kind: v1alpha1.EnvironmentProduction, host: "acme.example.com",
		api:  &v1alpha1.DataAPI{CustomDomain: "metrics.acme.com:8443", BasePath: "/semantic"},
		url:  "https://metrics.acme.com:8443",
		rest: "https://metrics.acme.com:8443/semantic",
		sql:  "metrics.acme.com",
	},
	{
		name: "custom domain that it does not hold", kind: v1alpha1.EnvironmentProduction, host: "acme.example.com",
		api:  &v1alpha1.DataAPI{CustomDomain: "other.acme.com"},
		url:  "https://sales.data.acme.example.com",
		rest: "https://sales.data.acme.example.com/cubejs-api",
		sql:  "sales.sql.data.acme.example.com",
	},
	{
		name: "branch", kind: v1alpha1.EnvironmentStaging, branch: "feature/ä b", host: "acme.example.com",
		url:  "https://sales.data.acme.example.com",
		rest: "https://sales.data.acme.example.com/dev-mode/feature%2F%C3%A4%20b/cubejs-api",
		sql:  "sales.sql.data.acme.example.com",
	},
	{
		name: "personal branch, base path", kind: v1alpha1.EnvironmentDevelopment, branch: "dev-ann", host: "acme.example.com",
		api:  &v1alpha1.DataAPI{BasePath: "/a/b"},
		url:  "https://sales.data.acme.example.com",
		rest: "https://sales.data.acme.example.com/dev-mode/dev-ann/a/b",
		sql:  "sales.sql.data.acme.example.com",
	},
}

func TestAddresses(t *testing.T) {
	for _, tc := range addressTests {
		t.Run(tc.name, func(t *testing.T) {
			f := shared()
			f.account.Spec.Host, f.account.Spec.DataDomain = tc.host, tc.domain
			f.deployment.Spec.DataAPI, f.deployment.Status.CustomDomain = tc.api, "metrics.acme.com"
			f.environment.Spec.Type = tc.kind
			if got := engine.URL(f.account, f.deployment); got != tc.url {
				t.Errorf("URL = %q, want %q", got, tc.url)
			}
			want := v1alpha1.APICredentials{
				REST: v1alpha1.RESTCredentials{URL: tc.rest},
				SQL:  v1alpha1.SQLCredentials{Host: tc.sql, Port: 6432},
			}
			if diff := cmp.Diff(want, engine.Addresses(f.account, f.deployment, f.environment, tc.branch, 6432)); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}
