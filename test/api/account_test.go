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
domainSuffixes: [whole.example]
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
  groupRoles: [{group: analysts, roles: [analyst, Viewer]}]
  clientID: quoin
  clientSecretRef: {name: login, key: secret}
  displayName: Example Inc.
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
  assignRoles: true
defaultRole: Viewer
settings:
  oidc: true
  supportAccess: true
  aibiUserInterface: true
  restrictDataDownload: true
  sheetsAgentChat: true
  maintenanceWindow: {enabled: true, day: Sunday, time: "02:00"}
  timezone: {enabled: true, name: Europe/Berlin, allowUserOverride: true}
github:
  installationIds: [1, 2]
mcp:
  deployments: [sales, finance]
  redirectURIs: ["https://assistant.example.net/callback"]
theme:
  applyGlobally: true
  logoURL: https://cdn.example.com/logo.svg
  palette:
    accent: {color: "#3B5BDB"}
    base: {color: "#3B5BDB"}
    danger: {color: "#3B5BDB"}
    note: {color: "#3B5BDB"}
    success: {color: "#3B5BDB"}
    warning: {color: "#3B5BDB"}
    codeSaturation: 50
    contrastLevel: 50
    pastel: true
    surfaceMode: tinted
  typography:
    fonts: [{id: inter, url: "https://cdn.example.com/inter.woff2", format: woff2, family: Inter, name: Inter}]
    body: {font: inter, weight: 400}
    heading: {font: inter, weight: 700}
`,
		`
host: whole.example.com
namespace: whole
theme:
  palette:
    accent: {hue: 200, saturation: 50}
    base: {hue: 200, saturation: 50}
    danger: {hue: 200, saturation: 50}
    note: {hue: 200, saturation: 50}
    success: {hue: 200, saturation: 50}
    warning: {hue: 200, saturation: 50}
`,
	},
	spec: `{host: demo.example.com, namespace: demo}`,
	cases: append(displayNameCases("spec.displayName"), []validationCase{
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
settings:
  oidc: false
  supportAccess: true
  aibiUserInterface: true
  restrictDataDownload: true
  sheetsAgentChat: true
  maintenanceWindow: {enabled: true, day: Monday, time: "23:59"}
  timezone: {enabled: true, name: America/Argentina/Buenos_Aires, allowUserOverride: true}
github: {installationIds: [1, 9007199254740991]}
mcp: {deployments: [], redirectURIs: []}
theme:
  applyGlobally: true
  logoURL: https://cdn.example.com/logo.svg?v=2
  palette: {accent: {color: "#3B5BDB"}, base: {hue: 360, saturation: 100}, codeSaturation: 0, contrastLevel: 100, pastel: true, surfaceMode: tinted}
  typography:
    fonts: [{id: inter, url: "https://cdn.example.com/inter.woff2", format: woff2, family: Inter, name: Inter}]
    body: {font: inter}
    heading: {font: inter, weight: 700}
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
		{name: "host: the last port", with: `{host: "demo.example.com:65535"}`},
		{name: "host: port above the last", with: `{host: "demo.example.com:65536"}`, field: "spec.host", message: hostMessage},
		{name: "host: port without number", with: `{host: "demo.example.com:"}`, field: "spec.host", message: hostMessage},
		{name: "host: with user", with: `{host: admin@example.com}`, field: "spec.host", message: hostMessage},
		{name: "customDomains: bad host", with: `{customDomains: [good.example.com, Bad_host]}`, field: "spec.customDomains[1]", message: hostMessage},
		{name: "customDomains: the host", with: `{customDomains: [bi.example.com, "demo.example.com:8443"]}`, field: "spec.customDomains", message: "must not contain the host of spec.host"},
		{name: "customDomains: the same twice", with: `{customDomains: [bi.example.com, "bi.example.com:8443"]}`, field: "spec.customDomains", message: "must not contain a host twice"},
		{name: "domainSuffixes", with: `{domainSuffixes: [example.com, org]}`},
		{name: "domainSuffixes: with a port", with: `{domainSuffixes: ["example.com:1"]}`, field: "spec.domainSuffixes[0]", message: "must be a domain name in lower case"},
		{name: "domainSuffixes: begins with a full stop", with: `{domainSuffixes: [.example.com]}`, field: "spec.domainSuffixes[0]", message: "must be a domain name in lower case"},
		{name: "domainSuffixes: none", with: `{domainSuffixes: []}`, field: "spec.domainSuffixes", message: "at least 1 items"},
		{name: "dataDomain: bad host", with: `{dataDomain: data_domain}`, field: "spec.dataDomain", message: hostMessage},

		{name: "namespace: upper case", with: `{namespace: Demo}`, field: "spec.namespace", message: "should match '^[a-z0-9]([-a-z0-9]*[a-z0-9])?$'"},
		{name: "namespace: default", with: `{namespace: default}`, field: "spec.namespace", message: "must not be a namespace of Kubernetes"},
		{name: "namespace: kube-system", with: `{namespace: kube-system}`, field: "spec.namespace", message: "must not be a namespace of Kubernetes"},
		{name: "namespace: kube-public", with: `{namespace: kube-public}`, field: "spec.namespace", message: "must not be a namespace of Kubernetes"},
		{name: "namespace: kube-node-lease", with: `{namespace: kube-node-lease}`, field: "spec.namespace", message: "must not be a namespace of Kubernetes"},
		{name: "namespace: begins like Kubernetes", with: `{namespace: kubernetes-analytics}`},
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

		{name: "settings: unknown day", with: `{settings: {maintenanceWindow: {day: Caturday}}}`, field: "spec.settings.maintenanceWindow.day", message: `supported values: "Monday", "Tuesday"`},
		{name: "settings: unknown hour", with: `{settings: {maintenanceWindow: {time: "24:00"}}}`, field: "spec.settings.maintenanceWindow.time", message: "should match"},
		{name: "settings: path as time zone", with: `{settings: {timezone: {name: "../etc"}}}`, field: "spec.settings.timezone.name", message: "should match"},
		{name: "github: no installations", with: `{github: {installationIds: []}}`, field: "spec.github.installationIds", message: "should have at least 1 items"},
		{name: "github: installation 0", with: `{github: {installationIds: [0]}}`, field: "spec.github.installationIds[0]", message: "should be greater than or equal to 1"},
		{name: "github: one twice", with: `{github: {installationIds: [1, 1]}}`, field: "spec.github.installationIds[1]", message: "Duplicate value"},
		{name: "mcp: one deployment twice", with: `{mcp: {deployments: [sales, sales]}}`, field: "spec.mcp.deployments[1]", message: "Duplicate value"},
		{name: "mcp: redirect over http", with: `{mcp: {redirectURIs: ["http://assistant.example.net/callback"]}}`, field: "spec.mcp.redirectURIs[0]", message: "should match"},
		{name: "mcp: redirect with a query", with: `{mcp: {redirectURIs: ["https://assistant.example.net/callback?x=1"]}}`, field: "spec.mcp.redirectURIs[0]", message: "should match"},
		{name: "mcp: redirect with a user", with: `{mcp: {redirectURIs: ["https://acme@assistant.example.net/callback"]}}`, field: "spec.mcp.redirectURIs[0]", message: "should match"},
		{name: "mcp: redirect with a fragment", with: `{mcp: {redirectURIs: ["https://assistant.example.net/callback#x"]}}`, field: "spec.mcp.redirectURIs[0]", message: "should match"},
		{name: "theme: logo over http", with: `{theme: {logoURL: "http://cdn.example.com/logo.svg"}}`, field: "spec.theme.logoURL", message: "must be an https:// URL"},
		{name: "theme: font over http", with: `{theme: {typography: {fonts: [{id: a, url: "http://x.example.com", format: otf}], body: {font: a}, heading: {font: a}}}}`,
			field: "spec.theme.typography.fonts[0].url", message: "must be an https:// URL"},
		{name: "theme: unknown font of the body", with: `{theme: {typography: {fonts: [{id: a, url: "https://x.example.com", format: otf}], body: {font: b}, heading: {font: a}}}}`,
			field: "spec.theme.typography.body", message: "body.font must be the id of one of fonts"},
		{name: "theme: unknown font of headings", with: `{theme: {typography: {fonts: [{id: a, url: "https://x.example.com", format: otf}], body: {font: a}, heading: {font: b}}}}`,
			field: "spec.theme.typography.heading", message: "heading.font must be the id of one of fonts"},
		{name: "theme: color by name", with: `{theme: {palette: {accent: {color: red}}}}`, field: "spec.theme.palette.accent.color", message: "at least 7 chars long"},
		{name: "theme: note: color and hue", with: `{theme: {palette: {note: {color: "#FFFFFF", hue: 1}}}}`, field: "spec.theme.palette.note", message: "color and hue or saturation exclude each other"},
		{name: "theme: accent: color and hue", with: `{theme: {palette: {accent: {color: "#FFFFFF", hue: 1}}}}`, field: "spec.theme.palette.accent", message: "color and hue or saturation exclude each other"},
		{name: "theme: base: color and hue", with: `{theme: {palette: {base: {color: "#FFFFFF", hue: 1}}}}`, field: "spec.theme.palette.base", message: "color and hue or saturation exclude each other"},
		{name: "theme: danger: color and hue", with: `{theme: {palette: {danger: {color: "#FFFFFF", hue: 1}}}}`, field: "spec.theme.palette.danger", message: "color and hue or saturation exclude each other"},
		{name: "theme: success: color and hue", with: `{theme: {palette: {success: {color: "#FFFFFF", hue: 1}}}}`, field: "spec.theme.palette.success", message: "color and hue or saturation exclude each other"},
		{name: "theme: warning: color and hue", with: `{theme: {palette: {warning: {color: "#FFFFFF", hue: 1}}}}`, field: "spec.theme.palette.warning", message: "color and hue or saturation exclude each other"},

		{name: "scim.schemas: caseExact of a number", with: `{scim: {schemas: [{id: "urn:example:Badge", resourceType: User, attributes: [{name: number, type: integer, caseExact: true}]}]}}`,
			field: "spec.scim.schemas[0].attributes[0].caseExact", message: "caseExact requires type string or reference"},
		{name: "scim.schemas: a standard one", with: `{scim: {schemas: [{id: "URN:ietf:params:scim:schemas:core:2.0:User", resourceType: User, attributes: [{name: number, type: integer}]}]}}`,
			field: "spec.scim.schemas[0].id", message: "must not be one of the standard schemas"},
		{name: "scim.schemas: the enterprise extension", with: `{scim: {schemas: [{id: "urn:ietf:params:scim:schemas:extension:Enterprise:2.0:User", resourceType: User, attributes: [{name: number, type: integer}]}]}}`,
			field: "spec.scim.schemas[0].id", message: "must not be one of the standard schemas"},
		{name: "scim.schemas: one as Entra ID names its own", with: `{scim: {schemas: [{id: "urn:ietf:params:scim:schemas:extension:contoso:2.0:User", resourceType: User, attributes: [{name: number, type: integer}]}]}}`},

		{name: "defaultRole: Admin", with: `{defaultRole: Admin}`, field: "spec.defaultRole", message: "Admin is not assigned as a role"},
		{name: "oidcIssuers: groupRoles with Admin", with: `{oidcIssuers: [{url: "https://login.example.com", audiences: [a], groupRoles: [{group: g, roles: [viewer, Admin]}]}]}`,
			field: "spec.oidcIssuers[0].groupRoles[0].roles[1]", message: "Admin is not assigned as a role"},
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
		{name: "oidcIssuers: client", with: `{oidcIssuers: [{url: "https://a.example", audiences: [a], clientID: quoin}]}`},
		{name: "oidcIssuers: secret without client", with: `{oidcIssuers: [{url: "https://a.example", audiences: [a], clientSecretRef: {name: login, key: secret}}]}`,
			field: "spec.oidcIssuers[0].clientSecretRef", message: "clientSecretRef requires clientID"},
		{name: "oidcIssuers: name without client", with: `{oidcIssuers: [{url: "https://a.example", audiences: [a], displayName: A}]}`,
			field: "spec.oidcIssuers[0].displayName", message: "displayName requires clientID"},
		{name: "oidcIssuers: name with a line break", with: `{oidcIssuers: [{url: "https://a.example", audiences: [a], clientID: quoin, displayName: "A\nB"}]}`,
			field: "spec.oidcIssuers[0].displayName", message: "must not contain control characters"},

		{name: "metadata.name: 63 characters", metadataName: strings.Repeat("a", 63)},
		{name: "metadata.name: 64 characters", metadataName: strings.Repeat("a", 64), field: "<nil>", message: "metadata.name must be no more than 63 characters"},
	}...),
})
