package api_test

var _ = declare(table{
	kind:     "ScimMemberChunk",
	headings: "Name Age",
	whole: []string{
		`
users: |
  charles
members:
- value: ada
  type: User
  display: Ada
`,
	},
	spec: `{members: [{value: ada}]}`,
	cases: []validationCase{
		{name: "a member is enough"},
		{name: "users are enough", with: `{members: null, users: ada}`},
		{name: "neither members nor users", with: `{members: null}`, field: "spec", message: "members or users is required"},
		{name: "no member", with: `{members: []}`, field: "spec.members", message: "should have at least 1 items"},
		{name: "a member added", then: `{members: [{value: ada}, {value: grace}]}`, field: "spec", message: "spec is immutable"},
		{name: "a member changed", then: `{members: [{value: grace}]}`, field: "spec", message: "spec is immutable"},
	},
})
