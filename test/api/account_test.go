package api_test

import "strings"

const hostMessage = "must be a host name in lower case such as analytics.example.com, with an optional port such as :8443"

var _ = declare(table{
	kind:       "Account",
	headings:   "Name URL Namespace [Plan] Ready Reason [Message] Age",
	selectable: map[string]string{"spec.namespace": "whole", "spec.host": "whole.example.com"},
	whole: []string{
		`
displayName: Whole
host: whole.example.com
customDomains: [analytics.whole.example]
dataDomain: data.whole.example.com
namespace: whole
plan: Enterprise
auditLog:
  enabled: true
  retentionDays: 30
  maxEvents: 100000
oidcIssuers:
- url: https://login.example.com
  audiences: [quoin]
  userNameClaim: email
  groupsClaim: groups
  adminGroups: [admins]
scim:
  schemas:
  - id: urn:example:scim:schemas:Badge
    resourceType: User
    name: Badge
    description: What opens doors
    attributes:
    - name: number
      type: string
      multiValued: false
      required: false
      caseExact: true
      immutable: true
      description: The number on it
`,
	},
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
		{name: "namespace: changed", then: `{namespace: other}`, field: "spec.namespace", message: "namespace is immutable: create another Account"},
		{name: "host: may change", then: `{host: other.example.com}`},

		{name: "plan: unknown", with: `{plan: Premium}`, field: "spec.plan", message: `supported values: "Standard", "Enterprise"`},
		{name: "auditLog: without plan", with: `{auditLog: {enabled: true}}`, field: "spec.auditLog.enabled", message: "auditLog.enabled requires plan: Enterprise"},
		{name: "auditLog: with Standard", with: `{plan: Standard, auditLog: {enabled: true}}`, field: "spec.auditLog.enabled", message: "auditLog.enabled requires plan: Enterprise"},
		{name: "auditLog: off with Standard", with: `{plan: Standard, auditLog: {enabled: false}}`},
		{name: "auditLog: settings alone with Standard", with: `{plan: Standard, auditLog: {retentionDays: 7}}`},
		{name: "auditLog: plan taken away", with: `{plan: Enterprise, auditLog: {enabled: true}}`, then: `{plan: Standard}`,
			field: "spec.auditLog.enabled", message: "auditLog.enabled requires plan: Enterprise"},

		{name: "scim.schemas: caseExact of a number", with: `{scim: {schemas: [{id: "urn:example:Badge", resourceType: User, attributes: [{name: number, type: integer, caseExact: true}]}]}}`,
			field: "spec.scim.schemas[0].attributes[0].caseExact", message: "caseExact requires type string or reference"},
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
})
