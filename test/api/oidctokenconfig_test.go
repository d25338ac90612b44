package api_test

const (
	claimOfQuoin  = "must not be a claim that Quoin sets"
	nameOfTokens  = "metadata.name must have no more than 63 characters"
	subjectFormat = "should match '^([A-Za-z0-9:_-]|\\{(deployment_id|component|region)\\})+$'"
)

var _ = declare(table{
	kind:     "OidcTokenConfig",
	headings: "Name Audience Variable ID Ready Reason [Issuer] [Message] Age",
	whole: []string{
		`
name: warehouse
audienceType: AWS
audience: sts.amazonaws.com
subjectFormat: "{region}:{deployment_id}:{component}"
customClaims:
- name: https://aws.amazon.com/tags
  value: {principal_tags: {team: [sales]}}
- {name: text, value: a}
targetEnvVar: AWS_WEB_IDENTITY_TOKEN_FILE
deployments: [{name: sales}]
suspend: false
`,
		`{audienceType: Custom, audience: my-cluster}`,
	},
	spec: `{audienceType: AWS}`,
	cases: []validationCase{
		{name: "a type"},
		{name: "object name: a dot", metadataName: "a.b", field: "<nil>", message: nameOfTokens},
		{name: "name: a file of another directory", with: `{name: ../a}`, field: "spec.name", message: "should match"},
		{name: "name: upper case", with: `{name: Aws}`, field: "spec.name", message: "should match"},
		{name: "audienceType: unknown", with: `{audienceType: aws}`, field: "spec.audienceType", message: `supported values: "AWS", "GCP", "Azure", "Snowflake", "Custom"`},
		{name: "audienceType: is immutable", then: `{audienceType: GCP}`, field: "spec.audienceType", message: "audienceType is immutable"},
		{name: "audience: required for Custom", with: `{audienceType: Custom}`, field: "spec.audience", message: "is required if audienceType is Custom"},
		{name: "audience: a space", with: `{audience: "a b"}`, field: "spec.audience", message: "should match"},
		{name: "audience: may change", with: `{audience: a}`, then: `{audience: b}`},
		{name: "subjectFormat: text only", with: `{subjectFormat: "a:b_c-D9"}`},
		{name: "subjectFormat: unknown placeholder", with: `{subjectFormat: "{environment}"}`, field: "spec.subjectFormat", message: subjectFormat},
		{name: "subjectFormat: empty", with: `{subjectFormat: ""}`, field: "spec.subjectFormat", message: "should be at least 1 chars long"},
		{name: "customClaims: sub", with: `{customClaims: [{name: sub, value: a}]}`, field: "spec.customClaims[0].name", message: claimOfQuoin},
		{name: "customClaims: that of Quoin", with: `{customClaims: [{name: platform.quoin.dev, value: {}}]}`, field: "spec.customClaims[0].name", message: claimOfQuoin},
		{name: "customClaims: the same twice", with: `{customClaims: [{name: a, value: 1}, {name: a, value: 2}]}`, field: "spec.customClaims[1]", message: "Duplicate value"},
		{name: "customClaims: no value", with: `{customClaims: [{name: a}]}`, field: "spec.customClaims[0].value", message: "Required value"},
		{name: "targetEnvVar: lower case", with: `{targetEnvVar: token}`, field: "spec.targetEnvVar", message: "should match"},
		{name: "deployments: none", with: `{deployments: []}`, field: "spec.deployments", message: "should have at least 1 items"},
		{name: "deployments: the same twice", with: `{deployments: [{name: a}, {name: a}]}`, field: "spec.deployments[1]", message: "Duplicate value"},
	},
})
