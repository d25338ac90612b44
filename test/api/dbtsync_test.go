package api_test

const (
	dbtSourceMessage = "must set exactly one of git and manifest"
	dbtRefMessage    = "must be the name of a branch or tag such as main or v1.2.3"
	dbtURLMessage    = "must be a URL such as https://git.example.com/team/dbt.git, without password, and without user name unless the scheme is ssh"
)

// dbtGit is a dbt project in Git with one more field.
func dbtGit(fields string) string {
	return `{source: {manifest: null, git: {` + fields + `}}}`
}

var _ = declare(table{
	kind:       "DbtSync",
	headings:   "Name Deployment Branch Stage Ready Reason Age",
	selectable: map[string]string{"spec.deploymentRef.name": "analytics"},
	whole: []string{
		// git
		`
deploymentRef:
  name: analytics
branch: dbt
source:
  git:
    url: https://git.example.com/dbt.git
    ref: main
    path: warehouse
    secretRef:
      name: git
    selector: tag:marts
    target: prod
    schema: analytics
    database: warehouse
options:
  outputPath: model/cubes/dbt
  namePrefix: dbt_
  titlePrefix: "(dbt) "
  martsOnly: true
  primaryKeySuffix: _id
  defaultMeasures: true
  joins: true
  reverseJoins: false
  typesFromCatalog: true
trigger: manual
cancelled: false
`,
		// manifest
		`
deploymentRef:
  name: analytics
source:
  manifest:
    configMapRef:
      name: manifest
`,
	},
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
		{name: "git: ref that is an option", with: dbtGit(`url: "https://git.example.com/dbt.git", ref: "--all"`), field: "spec.source.git.ref", message: dbtRefMessage},
		{name: "git: target", with: dbtGit(`url: "https://git.example.com/dbt.git", target: "--x"`), field: "spec.source.git.target", message: "should match '^[A-Za-z0-9_][A-Za-z0-9_-]*$'"},
		{name: "branch: not a branch name", with: `{branch: "a..b"}`, field: "spec.branch", message: branchMessage},
		{name: "options: types from the catalog of a manifest", with: `{options: {typesFromCatalog: true}}`, field: "spec.options.typesFromCatalog", message: "typesFromCatalog needs source.git: a manifest has no catalog"},
		{name: "options: no types from the catalog", with: `{options: {typesFromCatalog: false}}`},
		{name: "options: path that climbs", with: `{options: {outputPath: model/../..}}`, field: "spec.options.outputPath", message: "must not contain the segment .."},
		{name: "trigger: unknown", with: `{trigger: cron}`, field: "spec.trigger", message: `supported values: "manual", "api", "webhook", "agent"`},
		{name: "deploymentRef: changed", then: `{deploymentRef: {name: other}}`, field: "spec.deploymentRef", message: "deploymentRef is immutable: create another DbtSync"},
		{name: "source: changed", then: `{source: {manifest: {configMapRef: {name: other}}}}`, field: "spec.source", message: "source is immutable: create another DbtSync"},
		{name: "branch: added", then: `{branch: main}`, field: "spec.branch", message: "branch is immutable: create another DbtSync"},
		{name: "branch: changed", with: `{branch: main}`, then: `{branch: next}`, field: "spec.branch", message: "branch is immutable: create another DbtSync"},
		{name: "branch: removed", with: `{branch: main}`, then: `{branch: null}`, field: "spec.branch", message: "branch is immutable: create another DbtSync"},
		{name: "options: added", then: `{options: {joins: false}}`, field: "spec.options", message: "options are immutable: create another DbtSync"},
		{name: "options: changed", with: `{options: {joins: false}}`, then: `{options: {joins: true}}`, field: "spec.options", message: "options are immutable: create another DbtSync"},
		{name: "trigger: changed", with: `{trigger: api}`, then: `{trigger: manual}`, field: "spec.trigger", message: "trigger is immutable: create another DbtSync"},
		{name: "cancelled: set", with: `{branch: main, options: {joins: false}}`, then: `{cancelled: true}`},
		{name: "cancelled: taken back", with: `{cancelled: true}`, then: `{cancelled: false}`, field: "spec.cancelled", message: "cancelled cannot be unset: create another DbtSync"},
		{name: "cancelled: left out", with: `{cancelled: true}`, then: `{cancelled: null}`, field: "spec.cancelled", message: "cancelled cannot be unset: create another DbtSync"},
	},
})
