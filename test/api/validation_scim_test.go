package api_test

var scimUserTable = table{
	kind: "ScimUser",
	spec: `{userName: ada@example.com}`,
	cases: append([]validationCase{
		{name: "a userName is enough"},
		{name: "a whole user", with: `
externalId: 00u1
name: {givenName: Ada, familyName: Lovelace, formatted: Ada Lovelace}
displayName: Ada
active: true
emails: [{value: ada@example.com, type: work, primary: true}, {value: ada@home.example, type: home, primary: false}, {value: a@example.com}]
phoneNumbers: [{value: "+1 555 0100", type: work}]
addresses: [{type: work, country: GB, primary: true}]
enterprise: {employeeNumber: "701984", department: Engines, manager: {value: grace}}
extensions:
- schema: urn:ietf:params:scim:schemas:extension:acme:2.0:User
  attributes: {badge: 7, tags: [a, b], nested: {deep: true}}
`},
		{name: "no userName", with: `{userName: null}`, field: "spec.userName", message: "Required value"},
		{name: "userName: may change", then: `{userName: ada.lovelace@example.com}`},
		{name: "active: text", with: `{active: "True"}`, field: "spec.active", message: `must be of type boolean: "string"`},
		{name: "extensions: not a URN", with: `{extensions: [{schema: "acme:User", attributes: {}}]}`, field: "spec.extensions[0].schema", message: "should match '^[uU][rR][nN]:"},
		{name: "extensions: the same twice", with: `{extensions: [{schema: "urn:a:b", attributes: {}}, {schema: "urn:a:b", attributes: {}}]}`,
			field: "spec.extensions[1]", message: "Duplicate value"},
		{name: "extensions: no attributes", with: `{extensions: [{schema: "urn:a:b"}]}`, field: "spec.extensions[0].attributes", message: "Required value"},
	}, twoPrimaryCases()...),
}

// twoPrimaryCases: "The primary attribute value true MUST appear no more than once" (RFC 7643 section 2.4).
func twoPrimaryCases() []validationCase {
	var cases []validationCase
	for _, attribute := range []string{"emails", "phoneNumbers", "ims", "photos", "addresses", "entitlements", "roles", "x509Certificates"} {
		cases = append(cases, validationCase{name: attribute + ": two primary",
			with:  `{` + attribute + `: [{type: work, primary: true}, {type: home, primary: true}]}`,
			field: "spec." + attribute, message: "at most one of " + attribute + " can be primary"})
	}
	return cases
}

var scimGroupTable = table{
	kind: "ScimGroup",
	spec: `{displayName: Analysts}`,
	cases: []validationCase{
		{name: "a displayName is enough"},
		{name: "members in place", with: `{externalId: g1, members: [{value: ada, display: Ada}, {value: engineers, type: Group}]}`},
		{name: "members in chunks", with: `{memberChunks: [{name: analysts-0a0b, count: 1000}]}`},
		{name: "no displayName", with: `{displayName: null}`, field: "spec.displayName", message: "Required value"},
		{name: "members: the same twice", with: `{members: [{value: ada}, {value: ada}]}`, field: "spec.members[1]", message: "Duplicate value"},
		{name: "members: type", with: `{members: [{value: ada, type: Robot}]}`, field: "spec.members[0].type", message: `supported values: "User", "Group"`},
		{name: "memberChunks: empty chunk", with: `{memberChunks: [{name: c, count: 0}]}`, field: "spec.memberChunks[0].count", message: "should be greater than or equal to 1"},
		{name: "displayName: may change", then: `{displayName: Data analysts}`},
	},
}

var scimMemberChunkTable = table{
	kind: "ScimMemberChunk",
	spec: `{members: [{value: ada}]}`,
	cases: []validationCase{
		{name: "a member is enough"},
		{name: "no member", with: `{members: []}`, field: "spec.members", message: "should have at least 1 items"},
		{name: "a member added", then: `{members: [{value: ada}, {value: grace}]}`, field: "spec", message: "a chunk is immutable: make another one"},
		{name: "a member changed", then: `{members: [{value: grace}]}`, field: "spec", message: "a chunk is immutable: make another one"},
	},
}

var apiKeyTable = table{
	kind: "ApiKey",
	spec: `{}`,
	cases: []validationCase{
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
		{name: "token: changed", with: `{token: {id: 0123456789ab, sha256: 0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef}}`, then: `{token: {id: 0123456789ac, sha256: 0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef}}`, field: "spec.token", message: "token cannot be changed: make a new key"},
		{name: "token: taken away", with: `{token: {id: 0123456789ab, sha256: 0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef}}`, then: `{token: null}`, field: "spec.token", message: "token cannot be changed: make a new key"},
		{name: "token: given later", then: `{token: {id: 0123456789ab, sha256: 0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef}}`, field: "spec.token", message: "token cannot be changed: make a new key"},
		{name: "revoked: set", then: `{revoked: true}`},
		{name: "revoked: stays while others change", with: `{revoked: true}`, then: `{displayName: Old}`},
		{name: "revoked: made false", with: `{revoked: true}`, then: `{revoked: false}`, field: "spec.revoked", message: "a revoked key cannot be given back: make a new one"},
		{name: "revoked: left out", with: `{revoked: true}`, then: `{revoked: null}`, field: "spec.revoked", message: "a revoked key cannot be given back: make a new one"},
	},
}

const (
	dbtSourceMessage = "exactly one source is needed: git or manifest"
	dbtURLMessage    = "must be a URL such as https://git.example.com/team/dbt.git, without a password, nor a user name unless over ssh"
)

// dbtGit is a dbt project in Git with one more field.
func dbtGit(fields string) string {
	return `{source: {manifest: null, git: {` + fields + `}}}`
}

var dbtSyncTable = table{
	kind: "DbtSync",
	spec: `{deploymentRef: {name: analytics}, source: {manifest: {configMapRef: {name: manifest}}}}`,
	cases: []validationCase{
		{name: "a deployment and a source are enough"},
		{name: "everything from Git", with: `
branch: dbt-sync/main
trigger: api
options: {outputPath: model/cubes/dbt, namePrefix: "", titlePrefix: "", martsOnly: true, primaryKeySuffix: _key, defaultMeasures: false, joins: true, reverseJoins: true}
source:
  manifest: null
  git: {url: "https://git.example.com/dbt.git", ref: main, path: warehouse, secretRef: {name: git}, selector: "tag:marts"}
`},
		{name: "source: neither", with: `{source: {manifest: null}}`, field: "spec.source", message: dbtSourceMessage},
		{name: "source: both", with: `{source: {git: {url: "https://git.example.com/dbt.git"}}}`, field: "spec.source", message: dbtSourceMessage},
		{name: "git: password", with: dbtGit(`url: "https://user:password@git.example.com/dbt.git"`), field: "spec.source.git.url", message: dbtURLMessage},
		{name: "git: token as user", with: dbtGit(`url: "https://token@git.example.com/dbt.git"`), field: "spec.source.git.url", message: dbtURLMessage},
		{name: "git: scp form", with: dbtGit(`url: "git@git.example.com:dbt.git"`), field: "spec.source.git.url", message: dbtURLMessage},
		{name: "git: over ssh", with: dbtGit(`url: "ssh://git@git.example.com/dbt.git"`)},
		{name: "git: path that climbs", with: dbtGit(`url: "https://git.example.com/dbt.git", path: ../x`), field: "spec.source.git.path", message: pathMessage},
		{name: "git: absolute path", with: dbtGit(`url: "https://git.example.com/dbt.git", path: /x`), field: "spec.source.git.path", message: pathMessage},
		{name: "branch: not a branch name", with: `{branch: "a..b"}`, field: "spec.branch", message: branchMessage},
		{name: "options: path that climbs", with: `{options: {outputPath: model/../..}}`, field: "spec.options.outputPath", message: "must not hold .."},
		{name: "trigger: unknown", with: `{trigger: cron}`, field: "spec.trigger", message: `supported values: "manual", "api", "webhook", "agent"`},
		{name: "deploymentRef: changed", then: `{deploymentRef: {name: other}}`, field: "spec.deploymentRef", message: "deploymentRef cannot be changed: a sync is run once, make another DbtSync"},
		{name: "source: changed", then: `{source: {manifest: {configMapRef: {name: other}}}}`, field: "spec.source", message: "source cannot be changed: a sync is run once, make another DbtSync"},
		{name: "branch: added", then: `{branch: main}`, field: "spec.branch", message: "a sync is run once: make another DbtSync with this branch"},
		{name: "branch: changed", with: `{branch: main}`, then: `{branch: next}`, field: "spec.branch", message: "a sync is run once: make another DbtSync with this branch"},
		{name: "branch: removed", with: `{branch: main}`, then: `{branch: null}`, field: "spec.branch", message: "a sync is run once: make another DbtSync with this branch"},
		{name: "options: added", then: `{options: {joins: false}}`, field: "spec.options", message: "a sync is run once: make another DbtSync with these options"},
		{name: "options: changed", with: `{options: {joins: false}}`, then: `{options: {joins: true}}`, field: "spec.options", message: "a sync is run once: make another DbtSync with these options"},
		{name: "trigger: changed", with: `{trigger: api}`, then: `{trigger: manual}`, field: "spec.trigger", message: "a sync is run once: its trigger cannot be changed"},
		{name: "cancelled: set", with: `{branch: main, options: {joins: false}}`, then: `{cancelled: true}`},
		{name: "cancelled: taken back", with: `{cancelled: true}`, then: `{cancelled: false}`, field: "spec.cancelled", message: "a cancelled sync cannot be resumed: make another DbtSync"},
		{name: "cancelled: left out", with: `{cancelled: true}`, then: `{cancelled: null}`, field: "spec.cancelled", message: "a cancelled sync cannot be resumed: make another DbtSync"},
	},
}
