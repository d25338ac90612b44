package api_test

import "strings"

var _ = declare(table{
	kind:       "Environment",
	headings:   "Name ID Deployment Type Version Replicas Active Ready Reason [URL] [Message] Age",
	selectable: map[string]string{"spec.deploymentRef.name": "analytics", "spec.type": "staging"},
	whole: []string{
		`
deploymentRef:
  name: analytics
type: staging
branchRef:
  name: analytics-next
deploymentGeneration: 1
version: 1.2.3
image: registry.example.com/team/cube:v1.2.3
storeImage: registry.example.com/team/cubestore:v1.2.3
modelCommit: 0123456789abcdef0123456789abcdef01234567
idleSeconds: 1800
`,
	},
	spec: `{deploymentRef: {name: analytics}, type: production, version: 1.2.3, image: "registry.example.com/cube:v1.2.3"}`,
	cases: []validationCase{
		{name: "production without a branch"},
		{name: "production with a branch", with: `{branchRef: {name: analytics-main}, modelCommit: ` + strings.Repeat("0a", 20) + `}`},
		{name: "staging with a branch", with: `{type: staging, branchRef: {name: analytics-next}, storeImage: "registry.example.com/cubestore:v1.2.3"}`},
		{name: "staging without a branch", with: `{type: staging}`, field: "spec.branchRef", message: "branchRef is required unless type is production"},
		{name: "development without a branch", with: `{type: development}`, field: "spec.branchRef", message: "branchRef is required unless type is production"},
		{name: "type: unknown", with: `{type: preview, branchRef: {name: b}}`, field: "spec.type", message: `supported values: "production", "staging", "development"`},
		{name: "type: missing", with: `{type: null}`, field: "spec.type", message: "Required value"},
		{name: "type: changed", with: `{branchRef: {name: b}}`, then: `{type: staging}`, field: "spec.type", message: "type is immutable"},
		{name: "deploymentRef: changed", then: `{deploymentRef: {name: other}}`, field: "spec.deploymentRef", message: "deploymentRef is immutable"},
		{name: "branchRef: changed", with: `{branchRef: {name: b}}`, then: `{branchRef: {name: c}}`, field: "spec.branchRef", message: "branchRef is immutable"},
		{name: "branchRef: added", then: `{branchRef: {name: b}}`, field: "spec.branchRef", message: "branchRef cannot be added or removed"},
		{name: "branchRef: removed", with: `{branchRef: {name: b}}`, then: `{branchRef: null}`, field: "spec.branchRef", message: "branchRef cannot be added or removed"},
		{name: "version and image: may change", then: `{version: 1.2.4, image: "registry.example.com/cube:v1.2.4"}`},
		{name: "modelCommit: short", with: `{modelCommit: 0a0b0c}`, field: "spec.modelCommit", message: "should match '^([0-9a-f]{40}|[0-9a-f]{64})$'"},
		{name: "modelCommit: SHA-256", with: `{modelCommit: ` + strings.Repeat("0a", 32) + `}`},
		{name: "idleSeconds: staging", with: `{type: staging, branchRef: {name: b}, idleSeconds: 600}`, then: `{idleSeconds: null}`},
		{name: "idleSeconds: development", with: `{type: development, branchRef: {name: b}, idleSeconds: 604800}`},
		{name: "idleSeconds: production", with: `{idleSeconds: 1800}`, field: "spec.idleSeconds", message: "idleSeconds must not be set for type production"},
		{name: "idleSeconds: shorter than use is noted", with: `{type: staging, branchRef: {name: b}, idleSeconds: 599}`, field: "spec.idleSeconds", message: "should be greater than or equal to 600"},
		{name: "metadata.name: 50 characters", metadataName: strings.Repeat("a", 50)},
		{name: "metadata.name: 51 characters", metadataName: strings.Repeat("a", 51), field: "<nil>", message: "metadata.name must be no more than 50 characters"},
	},
})
