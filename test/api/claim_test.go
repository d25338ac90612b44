package api_test

var _ = declare(table{
	kind:       "Claim",
	headings:   "Name Attribute Kind Holder Value [Holder Namespace] Age",
	selectable: map[string]string{"spec.holder.name": "analytics"},
	whole: []string{
		`
attribute: host
value: bi.example.com
holder:
  kind: Deployment
  namespace: demo
  name: analytics
  uid: 0a0b0c
  generation: 3
`,
	},
	spec: `{attribute: Deployment.displayName, holder: {kind: Deployment, name: analytics}}`,
	cases: []validationCase{
		{name: "a claim"},
		{name: "a claim with uid", with: `{holder: {uid: 0a0b}}`},
		{name: "holder: taken over", then: `{holder: {name: other, uid: 0a0b}}`},
		{name: "holder: missing", with: `{holder: null}`, field: "spec.holder", message: "Required value"},
		{name: "value: changed", with: `{value: a.example.com}`, then: `{value: b.example.com}`, field: "spec.value", message: "value is immutable"},
		{name: "attribute: changed", then: `{attribute: ScimUser.userName}`, field: "spec.attribute", message: "attribute is immutable"},
	},
})
