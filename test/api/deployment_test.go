package api_test

import (
	"slices"
	"strings"
)

const (
	versionMessage = "releaseChannelVersion must be written as 1.2.3, v1.2.3 or <image repository>:v1.2.3"
	gitURLMessage  = "must be a URL such as https://git.example.com/team/model.git or ssh://git@git.example.com/team/model.git"
	gitPartMessage = "must be a valid URL: check the port and the percent-encoding"
	gitTextMessage = "must not contain white space or control characters"
	secretMessage  = "must not contain a password, or a user name unless the scheme is ssh: store them in a Secret and set secretRef"
	branchMessage  = "must be a valid Git branch name such as main or feature/orders"
	pathMessage    = "must be a relative path in the repository, without .."
	modelMessage   = "must set exactly one of git, repository and configMapRef"
	valueMessage   = "must set exactly one of value and valueFrom"
	nameMessage    = "metadata.name must be 1 to 32 lower-case letters, digits and hyphens, beginning with a letter: it becomes a host name"
	workersMessage = "workers require shared storage: remoteClaimRef, or env with the settings of a bucket"
)

var deploymentTable = declare(table{
	kind:       "Deployment",
	headings:   "Name ID Channel Version Target Hold Ready Reason [URL] [Message] Age",
	selectable: map[string]string{"spec.displayName": "Whole", "spec.releaseChannel": "latest"},
	whole: []string{
		// configmap
		`
displayName: Whole
releaseChannel: latest
releaseChannelVersion: v1.2.3
hold: true
upgradePolicy: Minor
model:
  configMapRef:
    name: model
env:
- name: CUBEJS_DB_TYPE
  value: postgres
- name: CUBEJS_DB_PASS
  valueFrom:
    secretKeyRef:
      name: warehouse
      key: password
envFrom:
- name: settings
oauthIntegrations:
- name: warehouse
imagePullSecrets:
- name: registry
size: Dedicated
replicas: 2
resources:
  api: &part
    requests: {cpu: 100m, memory: 256Mi}
    limits: {memory: 1Gi}
  refreshWorker: *part
  storeRouter: *part
  storeWorker: *part
store:
  workers: 2
  remoteClaimRef:
    name: store
  env:
  - name: CUBESTORE_S3_BUCKET
    value: bucket
  - name: CUBESTORE_AWS_SECRET_ACCESS_KEY
    valueFrom:
      secretKeyRef:
        name: bucket
        key: secret
dataAPI:
  customDomain: data.example.com
  basePath: /analytics
rollout:
  progressDeadlineSeconds: 600
dbt:
  git:
    url: https://git.example.com/team/dbt.git
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
  webhookSecretRef:
    name: dbt
    key: hooks
suspend: false
`,
		// git
		`
releaseChannel: latest
model:
  repository:
    branch: main
    path: models
`,
		`
releaseChannel: latest
model:
  git:
    url: ssh://git@git.example.com/team/model.git
    branch: main
    path: models
    secretRef:
      name: git
    githubInstallationId: 12345678
    interval: 1m
    webhookSecretRef:
      name: git
      key: hooks
onDemand:
  roles: [shared, personal]
  idleSeconds: 1800
`,
	},
	spec:  `{releaseChannel: latest, model: {configMapRef: {name: model}}}`,
	cases: slices.Concat(deploymentCases, displayNameCases("spec.displayName"), versionCases(), gitCases(), onDemandCases, storeCases, dbtCases),
})

var deploymentCases = []validationCase{
	{name: "a channel and a model are enough"},
	{name: "no channel", with: `{releaseChannel: null}`, field: "spec.releaseChannel", message: "Required value"},
	{name: "no model", with: `{model: null}`, field: "spec.model", message: "Required value"},
	{name: "model: neither source", with: `{model: {configMapRef: null}}`, field: "spec.model", message: modelMessage},
	{name: "model: both sources", with: `{model: {git: {url: "https://git.example.com/m.git"}}}`, field: "spec.model", message: modelMessage},
	{name: "model: Git and repository", with: `{model: {configMapRef: null, repository: {}, git: {url: "https://git.example.com/m.git"}}}`, field: "spec.model", message: modelMessage},
	{name: "model: all sources", with: `{model: {repository: {}, git: {url: "https://git.example.com/m.git"}}}`, field: "spec.model", message: modelMessage},
	{name: "repository: defaults", with: `{model: {configMapRef: null, repository: {}}}`},
	{name: "repository: everything", with: `{model: {configMapRef: null, repository: {branch: release/1, path: models/sales}}}`},
	{name: "repository: invalid branch", with: `{model: {configMapRef: null, repository: {branch: "a..b"}}}`, field: "spec.model.repository.branch", message: branchMessage},
	{name: "repository: path that climbs", with: `{model: {configMapRef: null, repository: {path: ../x}}}`, field: "spec.model.repository.path", message: pathMessage},
	{name: "model: changed to a repository", then: `{model: {configMapRef: null, repository: {}}}`},
	{name: "model: changed to Git", then: `{model: {configMapRef: null, git: {url: "https://git.example.com/m.git"}}}`},

	{name: "displayName", with: `{displayName: Sales & Märkte}`},
	{name: "displayName: blank before", with: `{displayName: " Sales"}`, field: "spec.displayName", message: "must not begin or end with white space"},
	{name: "displayName: line end after", with: `{displayName: "Sales\n"}`, field: "spec.displayName", message: "must not begin or end with white space"},

	{name: "hold without a pin", with: `{hold: true}`},
	{name: "hold false with a pin", with: `{hold: false, releaseChannelVersion: v1.2.3}`},
	{name: "upgradePolicy: unknown", with: `{upgradePolicy: Major}`, field: "spec.upgradePolicy", message: `supported values: "Latest", "Minor", "Patch"`},
	{name: "size: unknown", with: `{size: Large}`, field: "spec.size", message: `supported values: "Shared", "Dedicated"`},
	{name: "replicas: 0", with: `{replicas: 0}`},
	{name: "replicas: 100", with: `{replicas: 100}`},
	{name: "replicas: 101", with: `{replicas: 101}`, field: "spec.replicas", message: "should be less than or equal to 100"},
	{name: "replicas: -1", with: `{replicas: -1}`, field: "spec.replicas", message: "should be greater than or equal to 0"},
	{name: "replicas: text", with: `{replicas: "2"}`, field: "spec.replicas", message: `must be of type integer: "string"`},
	{name: "rollout: deadline too short", with: `{rollout: {progressDeadlineSeconds: 4}}`,
		field: "spec.rollout.progressDeadlineSeconds", message: "should be greater than or equal to 5"},

	{name: "env: value and secret", with: `{env: [{name: A, value: ""}, {name: B, valueFrom: {secretKeyRef: {name: s, key: k}}}]}`},
	{name: "env: lines and tabs", with: `{env: [{name: A, value: "a\n\tb"}]}`},
	{name: "env: NUL", with: `{env: [{name: A, value: "a\u0000b"}]}`, field: "spec.env[0].value", message: "should match"},
	{name: "env: neither", with: `{env: [{name: A}]}`, field: "spec.env[0]", message: valueMessage},
	{name: "env: both", with: `{env: [{name: A, value: a, valueFrom: {secretKeyRef: {name: s, key: k}}}]}`, field: "spec.env[0]", message: valueMessage},
	{name: "env: no source", with: `{env: [{name: A, valueFrom: {}}]}`, field: "spec.env[0].valueFrom.secretKeyRef", message: "Required value"},
	{name: "env: bad name", with: `{env: [{name: A-B, value: a}]}`, field: "spec.env[0].name", message: "should match '^[A-Za-z_][A-Za-z0-9_]*$'"},
	{name: "env: the same twice", with: `{env: [{name: A, value: a}, {name: A, value: b}]}`, field: "spec.env[1]", message: "Duplicate value"},
	{name: "envFrom: the same twice", with: `{envFrom: [{name: a}, {name: a}]}`, field: "spec.envFrom[1]", message: "Duplicate value"},

	{name: "resources", with: `{resources: {api: {requests: {cpu: 500m, memory: 1Gi}, limits: {memory: 2Gi}}, refreshWorker: {requests: {cpu: 1}}}}`},
	{name: "resources: not a quantity", with: `{resources: {api: {requests: {cpu: lots}}}}`, field: "spec.resources.api.requests.cpu", message: "should match"},

	{name: "dataAPI", with: `{dataAPI: {customDomain: data.example.com, basePath: /analytics/v2}}`},
	{name: "dataAPI: bad host", with: `{dataAPI: {customDomain: "https://data.example.com"}}`, field: "spec.dataAPI.customDomain", message: hostMessage},
	{name: "dataAPI: path without slash", with: `{dataAPI: {basePath: analytics}}`, field: "spec.dataAPI.basePath", message: `should match '^(/[A-Za-z0-9._~-]+)+$'`},
	{name: "dataAPI: path with slash after", with: `{dataAPI: {basePath: /analytics/}}`, field: "spec.dataAPI.basePath", message: `should match '^(/[A-Za-z0-9._~-]+)+$'`},
	{name: "dataAPI: path that climbs", with: `{dataAPI: {basePath: /a/../b}}`, field: "spec.dataAPI.basePath", message: "must not contain the segments . and .."},
	{name: "dataAPI: path that stays", with: `{dataAPI: {basePath: /a/./b}}`, field: "spec.dataAPI.basePath", message: "must not contain the segments . and .."},

	{name: "metadata.name: 32 characters", metadataName: "a" + strings.Repeat("1", 31)},
	{name: "metadata.name: 33 characters", metadataName: "a" + strings.Repeat("1", 32), field: "<nil>", message: nameMessage},
	{name: "metadata.name: digit first", metadataName: "1a", field: "<nil>", message: nameMessage},
	{name: "metadata.name: full stop", metadataName: "a.b", field: "<nil>", message: nameMessage},
}

// versionCases are the written forms of a version (spec: "Update a deployment").
func versionCases() []validationCase {
	var cases []validationCase
	for _, version := range []string{
		"1.2.3", "v1.2.3", "v0.0.0", "1.2.3-rc.1", "cube:v1.2.3",
		"127.0.0.1:15000/cube:v1.2.3", "registry.example.com/team/cube:v1.2.3-rc.1",
	} {
		cases = append(cases, validationCase{name: "version: " + version, with: `{releaseChannelVersion: "` + version + `"}`})
	}
	for _, version := range []string{
		"latest", "v1.2.x", "1.2.3+build", "v01.2.3", "V1.2.3", "v1.2.3-", "v1.2.3 ", "repo:1.2.3", "repo:latest", "=1.2.3", ">=1.2.3",
		"registry.example.com/cube:v1.2.3@sha256:" + strings.Repeat("0a", 32), "registry.example.com/cube@sha256:" + strings.Repeat("0a", 32),
		"https://registry.example.com/cube/v1.2.3", "registry.example.com/Cube:v1.2.3",
	} {
		cases = append(cases, validationCase{name: "version: " + version, with: `{releaseChannelVersion: "` + version + `"}`,
			field: "spec.releaseChannelVersion", message: versionMessage})
	}
	return append(cases,
		validationCase{name: "version: v1.2 is too short", with: `{releaseChannelVersion: v1.2}`,
			field: "spec.releaseChannelVersion", message: "should be at least 5 chars long"},
		validationCase{name: "version: v1.20 is incomplete", with: `{releaseChannelVersion: v1.20}`,
			field: "spec.releaseChannelVersion", message: versionMessage},
		validationCase{name: "version: may change", with: `{releaseChannelVersion: v1.2.2}`, then: `{releaseChannelVersion: v1.2.3}`},
		validationCase{name: "version: may be taken away", with: `{releaseChannelVersion: v1.2.2}`, then: `{releaseChannelVersion: null}`},
	)
}

// gitSource is a model in Git with one more field.
func gitSource(field string) string {
	return `{model: {configMapRef: null, git: {` + field + `}}}`
}

func gitCases() []validationCase {
	cases := []validationCase{
		{name: "git: no url", with: gitSource("branch: main"), field: "spec.model.git.url", message: "Required value"},
		{name: "git: everything", with: gitSource(`url: "https://git.example.com/m.git", branch: main, path: models/sales, secretRef: {name: git}, interval: 30s, webhookSecretRef: {name: git, key: hooks}`)},
		{name: "git: GitHub App", with: gitSource(`url: "https://github.com/team/m.git", githubInstallationId: 9007199254740991, secretRef: {name: git}`)},
		{name: "git: GitHub App without a Secret", with: gitSource(`url: "https://github.com/team/m.git", githubInstallationId: 1`), field: "spec.model.git.githubInstallationId", message: "githubInstallationId requires secretRef, the Secret in which the token is stored"},
		{name: "git: GitHub App 0", with: gitSource(`url: "https://github.com/team/m.git", githubInstallationId: 0, secretRef: {name: git}`), field: "spec.model.git.githubInstallationId", message: "should be greater than or equal to 1"},
		{name: "git: webhook secret without a key", with: gitSource(`url: "https://git.example.com/m.git", webhookSecretRef: {name: git}`), field: "spec.model.git.webhookSecretRef.key", message: "Required value"},
		{name: "git: interval below 1s", with: gitSource(`url: "https://git.example.com/m.git", interval: 500ms`), field: "spec.model.git.interval", message: intervalMessage},
		{name: "git: interval without unit", with: gitSource(`url: "https://git.example.com/m.git", interval: "30"`), field: "spec.model.git.interval", message: intervalPattern},
		{name: "git: absolute path", with: gitSource(`url: "https://git.example.com/m.git", path: /models`), field: "spec.model.git.path", message: pathMessage},
		{name: "git: path that climbs", with: gitSource(`url: "https://git.example.com/m.git", path: models/../..`), field: "spec.model.git.path", message: pathMessage},
		{name: "git: two full stops in a name", with: gitSource(`url: "https://git.example.com/m.git", path: models..v2`)},
	}
	for _, url := range []string{
		"https://git.example.com/team/model.git", "https://git.example.com:8443/model", "http://127.0.0.1:3000/model.git",
		"ssh://git@git.example.com/team/model.git", "ssh://git@git.example.com:2222/model.git", "ssh://git.example.com/model.git",
		"https://git.example.com/~user/model.git",
	} {
		cases = append(cases, validationCase{name: "git: " + url, with: gitSource(`url: "` + url + `"`)})
	}
	for _, url := range []string{
		"https://user:password@git.example.com/model.git", "https://ghp_token@git.example.com/model.git",
		"https://:token@git.example.com/model.git", "http://user:password@git.example.com/model.git", "ssh://git:password@git.example.com/model.git",
	} {
		cases = append(cases, validationCase{name: "git: " + url, with: gitSource(`url: "` + url + `"`), field: "spec.model.git.url", message: secretMessage})
	}
	for _, url := range []string{
		"git@git.example.com:team/model.git", "git://git.example.com/model.git", "file:///srv/model.git", "https://git.example.com",
		"https://git.example.com/", "https://git.example.com/model.git?ref=main", "https://git.example.com/model.git#main", "https://git.example.com/my model.git",
	} {
		cases = append(cases, validationCase{name: "git: " + url, with: gitSource(`url: "` + url + `"`), field: "spec.model.git.url", message: gitURLMessage})
	}
	for _, url := range []string{"https://git.example.com:port/model.git", "https://git.example.com/%zz.git", "ssh://git@[::1/model.git"} {
		cases = append(cases, validationCase{name: "git: " + url, with: gitSource(`url: "` + url + `"`), field: "spec.model.git.url", message: gitPartMessage})
	}
	// As YAML writes them, and percent-encoded.
	for _, url := range []string{`https://git.example.com/a\tb.git`, `https://git.example.com/a\u00a0b.git`, `https://git.example.com/a%0Ab.git`} {
		cases = append(cases, validationCase{name: "git: " + url, with: gitSource(`url: "` + url + `"`), field: "spec.model.git.url", message: gitTextMessage})
	}
	for _, branch := range badBranches {
		cases = append(cases, validationCase{name: "git: branch " + branch, with: gitSource(`url: "https://git.example.com/m.git", branch: "` + branch + `"`),
			field: "spec.model.git.branch", message: branchMessage})
	}
	return cases
}

var onDemandCases = []validationCase{
	{name: "onDemand: with Git", with: `{model: {git: {url: "https://git.example.com/model.git"}, configMapRef: null}, onDemand: {roles: [shared, personal], idleSeconds: 600}}`},
	{name: "onDemand: with a config map", with: `{onDemand: {roles: [shared]}}`, field: "spec.onDemand", message: "onDemand requires model.git or model.repository"},
	{name: "onDemand: production", with: `{model: {git: {url: "https://git.example.com/model.git"}, configMapRef: null}, onDemand: {roles: [production]}}`, field: "spec.onDemand.roles[0]", message: `supported values: "shared", "personal"`},
	{name: "onDemand: no roles", with: `{model: {git: {url: "https://git.example.com/model.git"}, configMapRef: null}, onDemand: {idleSeconds: 600}}`, field: "spec.onDemand.roles", message: "Required value"},
	{name: "onDemand: a role twice", with: `{model: {git: {url: "https://git.example.com/model.git"}, configMapRef: null}, onDemand: {roles: [shared, shared]}}`, field: "spec.onDemand.roles[1]", message: "Duplicate value"},
}

var storeCases = []validationCase{
	{name: "store: for Dedicated", with: `{size: Dedicated, store: {workers: 2, remoteClaimRef: {name: store}}}`},
	{name: "store: workers and a bucket", with: `{size: Dedicated, store: {workers: 2, env: [{name: CUBESTORE_S3_BUCKET, value: b}]}}`},
	{name: "store: router alone", with: `{size: Dedicated, store: {workers: 0}}`},
	{name: "store: for Shared", with: `{size: Shared, store: {workers: 0}}`, field: "spec.store", message: "store requires size: Dedicated"},
	{name: "store: without size", with: `{store: {workers: 0}}`, field: "spec.store", message: "store requires size: Dedicated"},
	{name: "store: size taken away", with: `{size: Dedicated, store: {workers: 0}}`, then: `{size: null}`, field: "spec.store", message: "store requires size: Dedicated"},
	{name: "store: workers without a place", with: `{size: Dedicated, store: {workers: 1}}`, field: "spec.store.workers", message: workersMessage},
	{name: "store: workers with an empty env", with: `{size: Dedicated, store: {workers: 1, env: []}}`, field: "spec.store.workers", message: workersMessage},
	{name: "store: 33 workers", with: `{size: Dedicated, store: {workers: 33, remoteClaimRef: {name: s}}}`, field: "spec.store.workers", message: "should be less than or equal to 32"},
	{name: "store: env with neither", with: `{size: Dedicated, store: {env: [{name: A}]}}`, field: "spec.store.env[0]", message: valueMessage},
}

var dbtCases = []validationCase{
	{name: "dbt: a project", with: `{dbt: {git: {url: "https://git.example.com/dbt.git"}}}`},
	{name: "dbt: a webhook secret", with: `{dbt: {git: {url: "https://git.example.com/dbt.git"}, webhookSecretRef: {name: dbt, key: hooks}}}`},
	{name: "dbt: a webhook secret without a key", with: `{dbt: {git: {url: "https://git.example.com/dbt.git"}, webhookSecretRef: {name: dbt}}}`, field: "spec.dbt.webhookSecretRef.key", message: "Required value"},
	{name: "dbt: no project", with: `{dbt: {}}`, field: "spec.dbt.git", message: "Required value"},
	{name: "dbt: not a URL", with: `{dbt: {git: {url: "git@git.example.com:dbt.git"}}}`, field: "spec.dbt.git.url", message: dbtURLMessage},
	{name: "dbt: path that climbs", with: `{dbt: {git: {url: "https://git.example.com/dbt.git", path: ../x}}}`, field: "spec.dbt.git.path", message: pathMessage},
	{name: "dbt: ref that is an option", with: `{dbt: {git: {url: "https://git.example.com/dbt.git", ref: "--all"}}}`, field: "spec.dbt.git.ref", message: dbtRefMessage},
	{name: "dbt: output path that climbs", with: `{dbt: {git: {url: "https://git.example.com/dbt.git"}, options: {outputPath: model/../..}}}`, field: "spec.dbt.options.outputPath", message: "must not contain the segment .."},
}
