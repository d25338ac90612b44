package api_test

var _ = declare(table{
	kind:       "ApiKey",
	headings:   "Name Display name Expires Last used Ready Reason Age",
	selectable: map[string]string{"spec.token.id": "0123456789ab", "status.token.id": ""},
	whole: []string{
		`
displayName: Whole
owner:
  scimUser: ada
  issuer: https://idp.example.com
  groups: [admins]
permissions: [ScimManage]
deployments: [analytics]
expirationTime: "2030-01-01T00:00:00Z"
scimProfile: RFC
token:
  id: 0123456789ab
  sha256: 0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef
tokenSecretName: whole
revoked: false
`,
	},
	spec: `{}`,
	cases: append(displayNameCases("spec.displayName"), []validationCase{
		{name: "nothing is needed"},
		{name: "everything", with: `
displayName: Okta
owner: {scimUser: ada}
permissions: [ScimManage, AuditLogManage]
deployments: [analytics]
expirationTime: "2030-01-01T00:00:00Z"
scimProfile: Okta
tokenSecretName: okta
revoked: false
`},
		{name: "permissions: unknown", with: `{permissions: [Everything]}`, field: "spec.permissions[0]", message: `supported values: "Admin", "AuditLogManage"`},
		{name: "permissions: the same twice", with: `{permissions: [Admin, Admin]}`, field: "spec.permissions[1]", message: "Duplicate value"},
		{name: "permissions: empty list", with: `{permissions: []}`, field: "spec.permissions", message: "should have at least 1 items"},
		{name: "deployments: empty list", with: `{deployments: []}`, field: "spec.deployments", message: "should have at least 1 items"},
		{name: "expirationTime: not a time", with: `{expirationTime: tomorrow}`, field: "spec.expirationTime", message: "must be of type date-time"},
		{name: "scimProfile: unknown", with: `{scimProfile: Google}`, field: "spec.scimProfile", message: `supported values: "RFC", "Okta", "EntraID"`},
		{name: "owner: no user", with: `{owner: {}}`, field: "spec.owner.scimUser", message: "Required value"},
		{name: "owner: added", then: `{owner: {scimUser: ada}}`},
		{name: "owner: changed", with: `{owner: {scimUser: ada}}`, then: `{owner: {scimUser: eve}}`, field: "spec.owner", message: "owner cannot be changed or removed: create another ApiKey"},
		{name: "owner: removed", with: `{owner: {scimUser: ada}}`, then: `{owner: null}`, field: "spec.owner", message: "owner cannot be changed or removed: create another ApiKey"},
		{name: "token: changed", with: `{token: {id: 0123456789ab, sha256: 0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef}}`, then: `{token: {id: 0123456789ac, sha256: 0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef}}`, field: "spec.token", message: "token is immutable: create another ApiKey"},
		{name: "token: taken away", with: `{token: {id: 0123456789ab, sha256: 0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef}}`, then: `{token: null}`, field: "spec.token", message: "token is immutable: create another ApiKey"},
		{name: "token: given later", then: `{token: {id: 0123456789ab, sha256: 0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef}}`, field: "spec.token", message: "token is immutable: create another ApiKey"},
		{name: "revoked: set", then: `{revoked: true}`},
		{name: "revoked: stays while others change", with: `{revoked: true}`, then: `{displayName: Old}`},
		{name: "revoked: made false", with: `{revoked: true}`, then: `{revoked: false}`, field: "spec.revoked", message: "revoked cannot be unset: create another ApiKey"},
		{name: "revoked: left out", with: `{revoked: true}`, then: `{revoked: null}`, field: "spec.revoked", message: "revoked cannot be unset: create another ApiKey"},
	}...),
})
