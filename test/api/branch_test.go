package api_test

import "strings"

const stagingMessage = "stagingEnvironmentEnabled requires role: shared; a personal or production branch cannot have a staging environment"

var _ = declare(table{
	kind:       "Branch",
	headings:   "Name ID Deployment Branch Role Staging [Commit] Ready Reason [Message] Age",
	selectable: map[string]string{"spec.deploymentRef.name": "analytics", "spec.name": "next"},
	whole: []string{
		`
deploymentRef:
  name: analytics
name: next
parentBranch: main
role: shared
stagingEnvironmentEnabled: true
`,
	},
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
		{name: "deploymentRef: changed", then: `{deploymentRef: {name: other}}`, field: "spec.deploymentRef", message: "deploymentRef is immutable"},
		{name: "deploymentRef: without name", with: `{deploymentRef: {name: null}}`, field: "spec.deploymentRef.name", message: "Required value"},
		{name: "name: changed", then: `{name: other}`, field: "spec.name", message: "name is immutable"},
		{name: "name: folders", with: `{name: feature/orders-2.0_x}`},
		{name: "name: not ASCII", with: `{name: größe}`},
		// Unusual but valid in Git; a deployment must not fail for it.
		{name: "name: hyphen first", with: `{name: -main}`},
		{name: "name: at sign inside", with: `{name: user@host}`},
		{name: "name: 244 characters", with: `{name: ` + strings.Repeat("a", 244) + `}`},
		{name: "name: 245 characters", with: `{name: ` + strings.Repeat("a", 245) + `}`, field: "spec.name", message: "may not be more than 244"},
	}, badBranchCases()...),
})

// badBranches are invalid ref names (git-check-ref-format).
var badBranches = []string{
	"feature branch", "/main", "main/", "main//x", "main..x", "main.", ".main", "feature/.x", "main.lock", "x.lock/y",
	"main@{1}", "@", "a~1", "a^", "a:b", "a?", "a*", "a[b", `a\\b`, `a\tb`, `a\ab`,
}

func badBranchCases() []validationCase {
	var cases []validationCase
	for _, name := range badBranches {
		cases = append(cases, validationCase{name: "name: " + name, with: `{name: "` + name + `"}`, field: "spec.name", message: branchMessage})
	}
	return cases
}
