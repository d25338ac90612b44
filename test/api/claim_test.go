package api_test

var _ = declare(table{
	kind:       "Claim",
	headings:   "Name Attribute Kind Holder Age",
	selectable: map[string]string{"spec.holder.name": "analytics"},
	whole: []string{
		`
attribute: Deployment.displayName
holder:
  kind: Deployment
  name: analytics
  uid: 0a0b0c
`,
	},
	spec: `{attribute: Deployment.displayName, holder: {kind: Deployment, name: analytics}}`,
	cases: []validationCase{
		{name: "a claim"},
		{name: "a claim with uid", with: `{holder: {uid: 0a0b}}`},
		{name: "holder: taken over", then: `{holder: {name: other, uid: 0a0b}}`},
		{name: "holder: missing", with: `{holder: null}`, field: "spec.holder", message: "Required value"},
		{name: "attribute: changed", then: `{attribute: ScimUser.userName}`, field: "spec.attribute", message: "attribute is immutable"},
	},
})
