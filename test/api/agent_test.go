package api_test

import (
	"strings"
)

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

const (
	modelURL    = "must be an https:// URL with a host name, without credentials, query and fragment"
	modelTokens = "must be less than contextTokens, which is 131072 when absent"
)

var _ = declare(table{
	kind:     "ModelEndpoint",
	headings: "Name Protocol Model Ready Reason Reachable [URL] [Message] Age",
	whole: []string{
		`
protocol: OpenAI
baseURL: http://llama.models.svc:8080/v1
model: smollm2
apiKeySecretRef: {name: model, key: apiKey}
caSecretRef: {name: model, key: ca.crt}
toolCalls: Text
maxOutputTokens: 1024
contextTokens: 8192
limits: {maxConcurrentRequests: 4, requestTimeoutSeconds: 60}
price: {currency: USD, inputPerMillionTokens: "2.50", cachedInputPerMillionTokens: "0.25", outputPerMillionTokens: "10"}
allowedAccounts: [demo]
`,
	},
	spec: `{protocol: OpenAI, model: gpt-x}`,
	cases: []validationCase{
		{name: "what is required"},
		{name: "protocol: missing", with: `{protocol: null}`, field: "spec.protocol", message: "Required value"},
		{name: "protocol: unknown", with: `{protocol: Ollama}`, field: "spec.protocol", message: `supported values: "OpenAI", "Anthropic"`},
		{name: "model: missing", with: `{model: null}`, field: "spec.model", message: "Required value"},
		{name: "model: a path", with: `{model: "org/model:latest@v1"}`},
		{name: "model: a space", with: `{model: "gpt x"}`, field: "spec.model", message: "should match"},
		{name: "model: may change", then: `{model: other}`},

		{name: "baseURL: https", with: `{baseURL: "https://models.example.com/v1"}`},
		{name: "baseURL: a port", with: `{baseURL: "https://models.example.com:8443"}`},
		{name: "baseURL: an IPv6 address", with: `{baseURL: "https://[fd00::1]:8443/v1"}`},
		{name: "baseURL: localhost", with: `{baseURL: "http://localhost:8080/v1"}`},
		{name: "baseURL: 127.0.0.1", with: `{baseURL: "http://127.0.0.1:8080/v1"}`},
		{name: "baseURL: a Service", with: `{baseURL: "http://llama.models.svc/v1"}`},
		{name: "baseURL: a Service with its domain", with: `{baseURL: "http://llama.models.svc.cluster.local:80"}`},
		{name: "baseURL: http", with: `{baseURL: "http://models.example.com/v1"}`, field: "spec.baseURL", message: modelURL},
		{name: "baseURL: http to a host that begins like a Service", with: `{baseURL: "http://llama.models.svc.example.com"}`, field: "spec.baseURL", message: modelURL},
		{name: "baseURL: http to a host that begins like localhost", with: `{baseURL: "http://localhost.example.com"}`, field: "spec.baseURL", message: modelURL},
		{name: "baseURL: http to an address", with: `{baseURL: "http://169.254.169.254/v1"}`, field: "spec.baseURL", message: modelURL},
		{name: "baseURL: a user", with: `{baseURL: "https://user:password@models.example.com"}`, field: "spec.baseURL", message: modelURL},
		{name: "baseURL: a user of localhost", with: `{baseURL: "http://localhost:8080@models.example.com"}`, field: "spec.baseURL", message: modelURL},
		{name: "baseURL: a query", with: `{baseURL: "https://models.example.com/v1?key=a"}`, field: "spec.baseURL", message: modelURL},
		{name: "baseURL: a fragment", with: `{baseURL: "https://models.example.com/v1#a"}`, field: "spec.baseURL", message: modelURL},
		{name: "baseURL: a space", with: `{baseURL: "https://models.example.com/a b"}`, field: "spec.baseURL", message: modelURL},
		{name: "baseURL: no host", with: `{baseURL: "https:///v1"}`, field: "spec.baseURL", message: modelURL},
		{name: "baseURL: a file", with: `{baseURL: "file:///etc/passwd"}`, field: "spec.baseURL", message: modelURL},

		{name: "apiKeySecretRef: no key", with: `{apiKeySecretRef: {name: model}}`, field: "spec.apiKeySecretRef.key", message: "Required value"},
		{name: "caSecretRef: no name", with: `{caSecretRef: {key: ca.crt}}`, field: "spec.caSecretRef.name", message: "Required value"},
		{name: "toolCalls: unknown", with: `{toolCalls: None}`, field: "spec.toolCalls", message: `supported values: "Native", "Text"`},

		{name: "maxOutputTokens: less than the context", with: `{maxOutputTokens: 1024, contextTokens: 1025}`},
		{name: "maxOutputTokens: the context", with: `{maxOutputTokens: 1024, contextTokens: 1024}`, field: "spec.maxOutputTokens", message: modelTokens},
		{name: "maxOutputTokens: the default context", with: `{maxOutputTokens: 131072}`, field: "spec.maxOutputTokens", message: modelTokens},
		{name: "maxOutputTokens: few", with: `{maxOutputTokens: 15}`, field: "spec.maxOutputTokens", message: "greater than or equal to 16"},
		{name: "contextTokens: the default answer", with: `{contextTokens: 8192}`, field: "spec.contextTokens", message: "must be greater than maxOutputTokens, which is 8192 when absent"},
		{name: "limits: no requests", with: `{limits: {maxConcurrentRequests: 0}}`, field: "spec.limits.maxConcurrentRequests", message: "greater than or equal to 1"},
		{name: "limits: a long request", with: `{limits: {requestTimeoutSeconds: 3601}}`, field: "spec.limits.requestTimeoutSeconds", message: "less than or equal to 3600"},

		{name: "price: without cached tokens", with: `{price: {currency: EUR, inputPerMillionTokens: "0", outputPerMillionTokens: "0.000001"}}`},
		{name: "price: no currency", with: `{price: {inputPerMillionTokens: "1", outputPerMillionTokens: "1"}}`, field: "spec.price.currency", message: "Required value"},
		{name: "price: lower case", with: `{price: {currency: eur, inputPerMillionTokens: "1", outputPerMillionTokens: "1"}}`, field: "spec.price.currency", message: "should match"},
		{name: "price: negative", with: `{price: {currency: EUR, inputPerMillionTokens: "-1", outputPerMillionTokens: "1"}}`, field: "spec.price.inputPerMillionTokens", message: "should match"},
		{name: "price: an exponent", with: `{price: {currency: EUR, inputPerMillionTokens: "1", outputPerMillionTokens: "1e3"}}`, field: "spec.price.outputPerMillionTokens", message: "should match"},
		{name: "price: a number", with: `{price: {currency: EUR, inputPerMillionTokens: 1, outputPerMillionTokens: "1"}}`, field: "spec.price.inputPerMillionTokens", message: "must be of type string"},

		{name: "allowedAccounts: none", with: `{allowedAccounts: []}`},
		{name: "allowedAccounts: the same twice", with: `{allowedAccounts: [demo, demo]}`, field: "spec.allowedAccounts[1]", message: "Duplicate value"},
		{name: "allowedAccounts: upper case", with: `{allowedAccounts: [Demo]}`, field: "spec.allowedAccounts[0]", message: "should match"},

		{name: "metadata.name: 63 characters", metadataName: strings.Repeat("a", 63)},
		{name: "metadata.name: 64 characters", metadataName: strings.Repeat("a", 64), field: "<nil>", message: "metadata.name must be no more than 63 characters"},
	},
})
