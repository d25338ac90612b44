package api_test

import "strings"

// badBranches are not names of refs to Git (git-check-ref-format).
var badBranches = []string{
	"feature branch", "/main", "main/", "main//x", "main..x", "main.", ".main", "feature/.x", "main.lock", "x.lock/y",
	"main@{1}", "@", "a~1", "a^", "a:b", "a?", "a*", "a[b", `a\\b`, `a\tb`, `a\ab`,
}

var environmentTable = table{
	kind: "Environment",
	spec: `{deploymentRef: {name: analytics}, type: production, version: 1.2.3, image: "registry.example.com/cube:v1.2.3"}`,
	cases: []validationCase{
		{name: "production without a branch"},
		{name: "production with a branch", with: `{branchRef: {name: analytics-main}, modelCommit: ` + strings.Repeat("0a", 20) + `}`},
		{name: "staging with a branch", with: `{type: staging, branchRef: {name: analytics-next}, storeImage: "registry.example.com/cubestore:v1.2.3"}`},
		{name: "staging without a branch", with: `{type: staging}`, field: "spec.branchRef", message: "branchRef is needed unless type is production"},
		{name: "development without a branch", with: `{type: development}`, field: "spec.branchRef", message: "branchRef is needed unless type is production"},
		{name: "type: unknown", with: `{type: preview, branchRef: {name: b}}`, field: "spec.type", message: `supported values: "production", "staging", "development"`},
		{name: "type: missing", with: `{type: null}`, field: "spec.type", message: "Required value"},
		{name: "type: changed", with: `{branchRef: {name: b}}`, then: `{type: staging}`, field: "spec.type", message: "type cannot be changed"},
		{name: "deploymentRef: changed", then: `{deploymentRef: {name: other}}`, field: "spec.deploymentRef", message: "deploymentRef cannot be changed"},
		{name: "branchRef: changed", with: `{branchRef: {name: b}}`, then: `{branchRef: {name: c}}`, field: "spec.branchRef", message: "branchRef cannot be changed"},
		{name: "branchRef: added", then: `{branchRef: {name: b}}`, field: "spec.branchRef", message: "branchRef cannot be added or removed"},
		{name: "branchRef: removed", with: `{branchRef: {name: b}}`, then: `{branchRef: null}`, field: "spec.branchRef", message: "branchRef cannot be added or removed"},
		{name: "version and image: may change", then: `{version: 1.2.4, image: "registry.example.com/cube:v1.2.4"}`},
		{name: "modelCommit: short", with: `{modelCommit: 0a0b0c}`, field: "spec.modelCommit", message: "should match '^([0-9a-f]{40}|[0-9a-f]{64})$'"},
		{name: "modelCommit: SHA-256", with: `{modelCommit: ` + strings.Repeat("0a", 32) + `}`},
		{name: "idleSeconds: staging", with: `{type: staging, branchRef: {name: b}, idleSeconds: 600}`, then: `{idleSeconds: null}`},
		{name: "idleSeconds: development", with: `{type: development, branchRef: {name: b}, idleSeconds: 604800}`},
		{name: "idleSeconds: production", with: `{idleSeconds: 1800}`, field: "spec.idleSeconds", message: "idleSeconds is not for production, which is always awake"},
		{name: "idleSeconds: shorter than use is noted", with: `{type: staging, branchRef: {name: b}, idleSeconds: 599}`, field: "spec.idleSeconds", message: "should be greater than or equal to 600"},
		{name: "metadata.name: 50 characters", metadataName: strings.Repeat("a", 50)},
		{name: "metadata.name: 51 characters", metadataName: strings.Repeat("a", 51), field: "<nil>", message: "metadata.name must be no more than 50 characters"},
	},
}

const stagingMessage = "stagingEnvironmentEnabled needs role: shared; a personal or production branch cannot have a staging environment"

var branchTable = table{
	kind: "Branch",
	spec: `{deploymentRef: {name: analytics}, name: next, role: shared}`,
	cases: append([]validationCase{
		{name: "a shared branch"},
		{name: "a shared branch with staging", with: `{parentBranch: main, stagingEnvironmentEnabled: true}`},
		{name: "a personal branch without staging", with: `{role: personal, stagingEnvironmentEnabled: false}`},
		{name: "the production branch", with: `{role: production}`},
		{name: "a personal branch with staging", with: `{role: personal, stagingEnvironmentEnabled: true}`, field: "spec.stagingEnvironmentEnabled", message: stagingMessage},
		{name: "the production branch with staging", with: `{role: production, stagingEnvironmentEnabled: true}`, field: "spec.stagingEnvironmentEnabled", message: stagingMessage},
		{name: "staging switched on for personal", with: `{role: personal}`, then: `{stagingEnvironmentEnabled: true}`, field: "spec.stagingEnvironmentEnabled", message: stagingMessage},
		{name: "staging switched on for shared", then: `{stagingEnvironmentEnabled: true}`},
		{name: "a branch with staging becomes personal", with: `{stagingEnvironmentEnabled: true}`, then: `{role: personal}`, field: "spec.stagingEnvironmentEnabled", message: stagingMessage},
		{name: "role: unknown", with: `{role: main}`, field: "spec.role", message: `supported values: "production", "shared", "personal"`},
		{name: "role: missing", with: `{role: null}`, field: "spec.role", message: "Required value"},
		{name: "deploymentRef: changed", then: `{deploymentRef: {name: other}}`, field: "spec.deploymentRef", message: "deploymentRef cannot be changed"},
		{name: "deploymentRef: without name", with: `{deploymentRef: {name: null}}`, field: "spec.deploymentRef.name", message: "Required value"},
		{name: "name: changed", then: `{name: other}`, field: "spec.name", message: "name cannot be changed"},
		{name: "name: folders", with: `{name: feature/orders-2.0_x}`},
		{name: "name: not ASCII", with: `{name: größe}`},
		// Odd, but a remote may have it, and a deployment must not fail for it.
		{name: "name: hyphen first", with: `{name: -main}`},
		{name: "name: at sign inside", with: `{name: user@host}`},
		{name: "name: 244 characters", with: `{name: ` + strings.Repeat("a", 244) + `}`},
		{name: "name: 245 characters", with: `{name: ` + strings.Repeat("a", 245) + `}`, field: "spec.name", message: "may not be more than 244"},
	}, badBranchCases()...),
}

func badBranchCases() []validationCase {
	var cases []validationCase
	for _, name := range badBranches {
		cases = append(cases, validationCase{name: "name: " + name, with: `{name: "` + name + `"}`, field: "spec.name", message: branchMessage})
	}
	return cases
}

var claimTable = table{
	kind: "Claim",
	spec: `{attribute: Deployment.displayName, holder: {kind: Deployment, name: analytics}}`,
	cases: []validationCase{
		{name: "a claim"},
		{name: "a claim with uid", with: `{holder: {uid: 0a0b}}`},
		{name: "holder: taken over", then: `{holder: {name: other, uid: 0a0b}}`},
		{name: "holder: missing", with: `{holder: null}`, field: "spec.holder", message: "Required value"},
		{name: "attribute: changed", then: `{attribute: ScimUser.userName}`, field: "spec.attribute", message: "attribute cannot be changed"},
	},
}
