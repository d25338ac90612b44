package api_test

import "strings"

var _ = declare(table{
	kind:       "Agent",
	headings:   "Name ID Deployment Model Ready Reason [Message] Age",
	selectable: map[string]string{"spec.deploymentRef.name": "analytics", "spec.modelEndpointRef.name": "claude"},
	whole: []string{
		`
deploymentRef: {name: analytics}
modelEndpointRef: {name: claude}
displayName: Analyst
description: Answers questions about orders.
configName: analyst
instructions: |
  Our fiscal year begins in February.
accessibleViews: [orders_view, _customers]
limits: {turns: 10, toolCalls: 20, tokens: 100000, rows: 1000, seconds: 120}
memoryMode: Disabled
allowEmbedding: true
allowMCP: true
suspended: true
`,
	},
	spec: `{deploymentRef: {name: analytics}, modelEndpointRef: {name: claude}}`,
	cases: []validationCase{
		{name: "what is required"},
		{name: "object name: a dot", metadataName: "a.b", field: "<nil>", message: "metadata.name must have no more than 63 characters"},
		{name: "deploymentRef: missing", with: `{deploymentRef: null}`, field: "spec.deploymentRef", message: "Required value"},
		{name: "deploymentRef: is immutable", then: `{deploymentRef: {name: other}}`, field: "spec.deploymentRef", message: "deploymentRef is immutable"},
		{name: "modelEndpointRef: missing", with: `{modelEndpointRef: null}`, field: "spec.modelEndpointRef", message: "Required value"},
		{name: "modelEndpointRef: empty", with: `{modelEndpointRef: {name: ""}}`, field: "spec.modelEndpointRef.name", message: "at least 1"},
		{name: "modelEndpointRef: may change", then: `{modelEndpointRef: {name: other}}`},
		{name: "displayName: a new line", with: `{displayName: "a\nb"}`, field: "spec.displayName", message: "must not contain control characters"},
		{name: "configName: a control character", with: `{configName: "a\u0007"}`, field: "spec.configName", message: "must not contain control characters"},
		{name: "configName: words", with: `{configName: "Sales agent"}`},
		{name: "instructions: too long", with: `{instructions: ` + strings.Repeat("a", 32769) + `}`, field: "spec.instructions", message: "may not be more than 32768"},
		{name: "accessibleViews: the same twice", with: `{accessibleViews: [a, a]}`, field: "spec.accessibleViews[1]", message: "Duplicate value"},
		{name: "accessibleViews: a member", with: `{accessibleViews: [orders.count]}`, field: "spec.accessibleViews[0]", message: "should match"},
		{name: "limits: no turns", with: `{limits: {turns: 0}}`, field: "spec.limits.turns", message: "greater than or equal to 1"},
		{name: "limits: many tool calls", with: `{limits: {toolCalls: 501}}`, field: "spec.limits.toolCalls", message: "less than or equal to 500"},
		{name: "limits: few tokens", with: `{limits: {tokens: 999}}`, field: "spec.limits.tokens", message: "greater than or equal to 1000"},
		{name: "limits: many rows", with: `{limits: {rows: 1000001}}`, field: "spec.limits.rows", message: "less than or equal to 1000000"},
		{name: "limits: a long run", with: `{limits: {seconds: 3601}}`, field: "spec.limits.seconds", message: "less than or equal to 3600"},
		{name: "memoryMode: unknown", with: `{memoryMode: User}`, field: "spec.memoryMode", message: `supported values: "Disabled"`},
	},
})
