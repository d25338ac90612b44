package api_test

import "strings"

const hostMessage = "must be a host name in lower case such as analytics.example.com, with an optional port such as :8443"

var accountTable = table{
	kind: "Account",
	spec: `{host: demo.example.com, namespace: demo}`,
	cases: []validationCase{
		{name: "host and namespace are enough"},
		{name: "everything", with: `
displayName: Demo
host: demo.example.com:8443
customDomains: [analytics.demo.example, bi.demo.example]
dataDomain: data.example.com:8444
plan: Enterprise
auditLog: {enabled: true, retentionDays: 90, maxEvents: 100000}
oidcIssuers:
- url: https://login.example.com/realms/demo
  audiences: [quoin]
  userNameClaim: preferred_username
  groupsClaim: roles
  adminGroups: [admins]
`},
		{name: "no host", with: `{host: null}`, field: "spec.host", message: "Required value"},
		{name: "no namespace", with: `{namespace: null}`, field: "spec.namespace", message: "Required value"},

		{name: "host: one label", with: `{host: localhost}`},
		{name: "host: address with port", with: `{host: "127.0.0.1:18443"}`},
		{name: "host: label of 63 characters", with: `{host: ` + strings.Repeat("a", 63) + `.example.com}`},
		{name: "host: label of 64 characters", with: `{host: ` + strings.Repeat("a", 64) + `.example.com}`, field: "spec.host", message: hostMessage},
		{name: "host: upper case", with: `{host: Demo.example.com}`, field: "spec.host", message: hostMessage},
		{name: "host: with scheme", with: `{host: "https://demo.example.com"}`, field: "spec.host", message: hostMessage},
		{name: "host: with path", with: `{host: demo.example.com/x}`, field: "spec.host", message: hostMessage},
		{name: "host: with white space", with: `{host: "demo.example.com "}`, field: "spec.host", message: hostMessage},
		{name: "host: with wildcard", with: `{host: "*.example.com"}`, field: "spec.host", message: hostMessage},
		{name: "host: empty label", with: `{host: demo..example.com}`, field: "spec.host", message: hostMessage},
		{name: "host: full stop at the end", with: `{host: demo.example.com.}`, field: "spec.host", message: hostMessage},
		{name: "host: hyphen at the end of a label", with: `{host: demo-.example.com}`, field: "spec.host", message: hostMessage},
		{name: "host: port 0", with: `{host: "demo.example.com:0"}`, field: "spec.host", message: hostMessage},
		{name: "host: port without number", with: `{host: "demo.example.com:"}`, field: "spec.host", message: hostMessage},
		{name: "host: with user", with: `{host: admin@example.com}`, field: "spec.host", message: hostMessage},
		{name: "customDomains: bad host", with: `{customDomains: [good.example.com, Bad_host]}`, field: "spec.customDomains[1]", message: hostMessage},
		{name: "dataDomain: bad host", with: `{dataDomain: data_domain}`, field: "spec.dataDomain", message: hostMessage},

		{name: "namespace: upper case", with: `{namespace: Demo}`, field: "spec.namespace", message: "should match '^[a-z0-9]([-a-z0-9]*[a-z0-9])?$'"},
		{name: "namespace: same again", then: `{displayName: Other, namespace: demo}`},
		{name: "namespace: changed", then: `{namespace: other}`, field: "spec.namespace", message: "namespace cannot be changed: make a new Account"},
		{name: "host: may change", then: `{host: other.example.com}`},

		{name: "plan: unknown", with: `{plan: Premium}`, field: "spec.plan", message: `supported values: "Standard", "Enterprise"`},
		{name: "auditLog: without plan", with: `{auditLog: {enabled: true}}`, field: "spec.auditLog.enabled", message: "auditLog.enabled needs plan: Enterprise"},
		{name: "auditLog: with Standard", with: `{plan: Standard, auditLog: {enabled: true}}`, field: "spec.auditLog.enabled", message: "auditLog.enabled needs plan: Enterprise"},
		{name: "auditLog: off with Standard", with: `{plan: Standard, auditLog: {enabled: false}}`},
		{name: "auditLog: settings alone with Standard", with: `{plan: Standard, auditLog: {retentionDays: 7}}`},
		{name: "auditLog: plan taken away", with: `{plan: Enterprise, auditLog: {enabled: true}}`, then: `{plan: Standard}`,
			field: "spec.auditLog.enabled", message: "auditLog.enabled needs plan: Enterprise"},

		{name: "scim.schemas: caseExact of a number", with: `{scim: {schemas: [{id: "urn:example:Badge", resourceType: User, attributes: [{name: number, type: integer, caseExact: true}]}]}}`,
			field: "spec.scim.schemas[0].attributes[0].caseExact", message: "caseExact is for strings and references"},
		{name: "scim.schemas: a standard one", with: `{scim: {schemas: [{id: "URN:ietf:params:scim:schemas:core:2.0:User", resourceType: User, attributes: [{name: number, type: integer}]}]}}`,
			field: "spec.scim.schemas[0].id", message: "must not be one of the standard schemas"},
		{name: "scim.schemas: the enterprise extension", with: `{scim: {schemas: [{id: "urn:ietf:params:scim:schemas:extension:Enterprise:2.0:User", resourceType: User, attributes: [{name: number, type: integer}]}]}}`,
			field: "spec.scim.schemas[0].id", message: "must not be one of the standard schemas"},
		{name: "scim.schemas: one as Entra ID names its own", with: `{scim: {schemas: [{id: "urn:ietf:params:scim:schemas:extension:contoso:2.0:User", resourceType: User, attributes: [{name: number, type: integer}]}]}}`},

		{name: "oidcIssuers: http", with: `{oidcIssuers: [{url: "http://login.example.com", audiences: [a]}]}`,
			field: "spec.oidcIssuers[0].url", message: "must be an https:// URL without query and fragment"},
		{name: "oidcIssuers: query", with: `{oidcIssuers: [{url: "https://login.example.com/?a=b", audiences: [a]}]}`,
			field: "spec.oidcIssuers[0].url", message: "must be an https:// URL without query and fragment"},
		{name: "oidcIssuers: fragment", with: `{oidcIssuers: [{url: "https://login.example.com/#a", audiences: [a]}]}`,
			field: "spec.oidcIssuers[0].url", message: "must be an https:// URL without query and fragment"},
		{name: "oidcIssuers: not a URL", with: `{oidcIssuers: [{url: "login.example.com", audiences: [a]}]}`,
			field: "spec.oidcIssuers[0].url", message: "must be an https:// URL without query and fragment"},
		{name: "oidcIssuers: the same twice", with: `{oidcIssuers: [{url: "https://a.example", audiences: [a]}, {url: "https://a.example", audiences: [b]}]}`,
			field: "spec.oidcIssuers[1]", message: "Duplicate value"},
		{name: "oidcIssuers: audience twice", with: `{oidcIssuers: [{url: "https://a.example", audiences: [a, a]}]}`,
			field: "spec.oidcIssuers[0].audiences[1]", message: "Duplicate value"},

		{name: "metadata.name: 63 characters", metadataName: strings.Repeat("a", 63)},
		{name: "metadata.name: 64 characters", metadataName: strings.Repeat("a", 64), field: "<nil>", message: "metadata.name must be no more than 63 characters"},
	},
}

const (
	repositoryMessage = "must be an image repository such as registry.example.com/team/cube, without scheme, tag and digest"
	storeMessage      = "must be an image repository such as registry.example.com/team/cubestore, without scheme, tag and digest"
	intervalMessage   = "interval must be between 1s and 24h"
	intervalPattern   = `should match '^([0-9]+(\.[0-9]+)?(ms|s|m|h))+$'`
	listedMessage     = "must be a version such as 1.2.3, without a prefix"
)

var releaseChannelTable = table{
	kind: "ReleaseChannel",
	spec: `{imageRepository: registry.example.com/team/cube}`,
	cases: []validationCase{
		{name: "a repository is enough"},
		{name: "everything with a policy", with: `
imageRepository: 127.0.0.1:15000/cube
storeImageRepository: 127.0.0.1:15000/cube-store
policy: {range: ">=1.2.0 <2", preReleases: true, keep: 10}
interval: 10s
pullSecretRef: {name: registry}
caBundle: "-----BEGIN CERTIFICATE-----"
insecure: true
suspend: false
`},
		{name: "a list", with: `{versions: [{version: 1.2.3, digest: "sha256:` + strings.Repeat("0a", 32) + `"}, {version: 1.3.0-rc.1}]}`},
		{name: "no repository", with: `{imageRepository: null}`, field: "spec.imageRepository", message: "Required value"},
		{name: "policy and versions", with: `{policy: {range: "~1.2"}, versions: [{version: 1.2.3}]}`,
			field: "spec", message: "policy and versions exclude each other: give a range of versions or an explicit list"},
		{name: "policy added to versions", with: `{versions: [{version: 1.2.3}]}`, then: `{policy: {keep: 5}}`,
			field: "spec", message: "policy and versions exclude each other"},
		{name: "policy instead of versions", with: `{versions: [{version: 1.2.3}]}`, then: `{policy: {keep: 5}, versions: null}`},

		{name: "imageRepository: host alone", with: `{imageRepository: cube}`},
		{name: "imageRepository: doubled underscore", with: `{imageRepository: registry.example.com/a__b/c-d}`},
		{name: "imageRepository: with tag", with: `{imageRepository: "registry.example.com/cube:v1.2.3"}`, field: "spec.imageRepository", message: repositoryMessage},
		{name: "imageRepository: with digest", with: `{imageRepository: "registry.example.com/cube@sha256:00"}`, field: "spec.imageRepository", message: repositoryMessage},
		{name: "imageRepository: with scheme", with: `{imageRepository: "https://registry.example.com/cube"}`, field: "spec.imageRepository", message: repositoryMessage},
		{name: "imageRepository: upper case", with: `{imageRepository: registry.example.com/Cube}`, field: "spec.imageRepository", message: repositoryMessage},
		{name: "imageRepository: slash at the end", with: `{imageRepository: registry.example.com/cube/}`, field: "spec.imageRepository", message: repositoryMessage},
		{name: "imageRepository: with password", with: `{imageRepository: "user:password@registry.example.com/cube"}`, field: "spec.imageRepository", message: repositoryMessage},
		{name: "storeImageRepository: with tag", with: `{storeImageRepository: "registry.example.com/cubestore:v1"}`, field: "spec.storeImageRepository", message: storeMessage},

		{name: "interval: hours and minutes", with: `{interval: 1h30m}`},
		{name: "interval: 1s", with: `{interval: 1s}`},
		{name: "interval: below 1s", with: `{interval: 999ms}`, field: "spec.interval", message: intervalMessage},
		{name: "interval: above 24h", with: `{interval: 24h1s}`, field: "spec.interval", message: intervalMessage},
		{name: "interval: zero", with: `{interval: 0s}`, field: "spec.interval", message: intervalMessage},
		{name: "interval: without unit", with: `{interval: "10"}`, field: "spec.interval", message: intervalPattern},
		{name: "interval: negative", with: `{interval: -10s}`, field: "spec.interval", message: intervalPattern},
		{name: "interval: days", with: `{interval: 1d}`, field: "spec.interval", message: intervalPattern},
		{name: "interval: number", with: `{interval: 10}`, field: "spec.interval", message: `must be of type string: "integer"`},

		{name: "versions: with prefix", with: `{versions: [{version: v1.2.3}]}`, field: "spec.versions[0].version", message: listedMessage},
		{name: "versions: word", with: `{versions: [{version: latest}]}`, field: "spec.versions[0].version", message: listedMessage},
		{name: "versions: build", with: `{versions: [{version: 1.2.3+build}]}`, field: "spec.versions[0].version", message: listedMessage},
		{name: "versions: leading zero", with: `{versions: [{version: 1.02.3}]}`, field: "spec.versions[0].version", message: listedMessage},
		{name: "versions: the same twice", with: `{versions: [{version: 1.2.3}, {version: 1.2.3}]}`, field: "spec.versions[1]", message: "Duplicate value"},
		{name: "versions: digest of another algorithm", with: `{versions: [{version: 1.2.3, digest: "md5:00"}]}`,
			field: "spec.versions[0].digest", message: "should match '^sha256:[0-9a-f]{64}$'"},
		{name: "versions: empty list", with: `{versions: []}`, field: "spec.versions", message: "should have at least 1 items"},

		{name: "metadata.name: 63 characters", metadataName: strings.Repeat("a", 63)},
		{name: "metadata.name: 64 characters", metadataName: strings.Repeat("a", 64), field: "<nil>", message: "metadata.name must be no more than 63 characters"},
	},
}
