package api_test

import "strings"

const (
	httpsEndpoint   = "must be an https:// URL with a host name, without credentials and fragment"
	redirectOfHost  = "must be https://<host of the account>/auth/integrations/callback"
	parameterOfFlow = "must not have a parameter that Quoin sets"
)

var _ = declare(table{
	kind:     "OAuthIntegration",
	headings: "Name Type Client ID Ready Reason [Redirect] [Message] Age",
	whole: []string{
		`
displayName: Databricks
type: databricks
authorizationURL: https://login.example.com/oidc/v1/authorize?tenant=a
tokenURL: https://login.example.com:8443/oidc/v1/token
revocationURL: https://login.example.com/oidc/v1/revoke
clientID: quoin
clientSecretRef: {name: databricks, key: clientSecret}
clientAuthentication: Post
scopes: [sql, offline_access, "https://example.com/scope"]
authorizationParameters: {access_type: offline}
redirectURL: https://demo.example.com/auth/integrations/callback/databricks
config: {region: eu, limits: {rows: 10}}
`,
	},
	spec: `{type: databricks, authorizationURL: "https://login.example.com/authorize", tokenURL: "https://login.example.com/token", clientID: quoin, clientSecretRef: {name: databricks, key: clientSecret}}`,
	cases: []validationCase{
		{name: "what is required"},
		{name: "object name: a dot", metadataName: "a.b", field: "<nil>", message: "metadata.name must have no more than 63 characters"},
		{name: "displayName: a new line", with: `{displayName: "a\nb"}`, field: "spec.displayName", message: "must not contain control characters"},
		{name: "type: a dot", with: `{type: a.b}`, field: "spec.type", message: "should match"},
		{name: "type: may change", then: `{type: snowflake}`},
		{name: "authorizationURL: http", with: `{authorizationURL: "http://login.example.com/a"}`, field: "spec.authorizationURL", message: httpsEndpoint},
		{name: "authorizationURL: a user", with: `{authorizationURL: "https://user@login.example.com/a"}`, field: "spec.authorizationURL", message: httpsEndpoint},
		{name: "tokenURL: a fragment", with: `{tokenURL: "https://login.example.com/a#b"}`, field: "spec.tokenURL", message: httpsEndpoint},
		{name: "tokenURL: no host", with: `{tokenURL: "https:///token"}`, field: "spec.tokenURL", message: httpsEndpoint},
		{name: "tokenURL: a file", with: `{tokenURL: "file:///etc/passwd"}`, field: "spec.tokenURL", message: httpsEndpoint},
		{name: "revocationURL: a space", with: `{revocationURL: "https://login.example.com/a b"}`, field: "spec.revocationURL", message: httpsEndpoint},
		{name: "clientID: a new line", with: `{clientID: "a\nb"}`, field: "spec.clientID", message: "should match"},
		{name: "clientSecretRef: no key", with: `{clientSecretRef: {key: null}}`, field: "spec.clientSecretRef.key", message: "Required value"},
		{name: "clientAuthentication: unknown", with: `{clientAuthentication: None}`, field: "spec.clientAuthentication", message: `supported values: "Basic", "Post"`},
		{name: "scopes: the same twice", with: `{scopes: [a, a]}`, field: "spec.scopes[1]", message: "Duplicate value"},
		{name: "scopes: a space", with: `{scopes: ["a b"]}`, field: "spec.scopes[0]", message: "should match"},
		{name: "authorizationParameters: state", with: `{authorizationParameters: {state: a}}`, field: "spec.authorizationParameters", message: parameterOfFlow},
		{name: "authorizationParameters: a name with a space", with: `{authorizationParameters: {"a b": c}}`, field: "spec.authorizationParameters", message: "must have names of 1 to 64 letters"},
		{name: "redirectURL: another path", with: `{redirectURL: "https://demo.example.com/a"}`, field: "spec.redirectURL", message: redirectOfHost},
		{name: "redirectURL: a long segment", with: `{redirectURL: "https://demo.example.com/auth/integrations/callback/` + strings.Repeat("a", 65) + `"}`, field: "spec.redirectURL", message: redirectOfHost},
		{name: "redirectURL: the path", with: `{redirectURL: "https://demo.example.com:8443/auth/integrations/callback"}`},
	},
})
