package api_test

var _ = declare(table{
	kind:       "ScimGroup",
	headings:   "Name Group Members Ready Reason [Message] Age",
	selectable: map[string]string{"spec.displayName": "Analysts", "spec.externalId": "g1"},
	whole: []string{
		`
displayName: Analysts
externalId: g1
accountRoles: [analyst]
members:
- value: ada
  type: User
  display: Ada
removedMembers: [ada]
memberChunkList: |
  whole-1 2 0
memberChanges: |
  +eve
  -joe
memberChunks:
- name: whole-0
  count: 2
  removed: 0,1
extensions:
- schema: urn:example:extension:Group
  attributes:
    colour: blue
`,
	},
	spec: `{displayName: Analysts}`,
	cases: append(displayNameCases("spec.displayName"), []validationCase{
		{name: "a displayName is enough"},
		{name: "members in place", with: `{externalId: g1, members: [{value: ada, display: Ada}, {value: engineers, type: Group}]}`},
		{name: "members in chunks", with: `{memberChunks: [{name: analysts-0a0b, count: 1000}]}`},
		{name: "no displayName", with: `{displayName: null}`, field: "spec.displayName", message: "Required value"},
		{name: "accountRoles: Admin", with: `{accountRoles: [Admin]}`, field: "spec.accountRoles[0]", message: "Admin is not assigned as a role"},
		{name: "members: the same twice", with: `{members: [{value: ada}, {value: ada}]}`, field: "spec.members[1]", message: "Duplicate value"},
		{name: "members: type", with: `{members: [{value: ada, type: Robot}]}`, field: "spec.members[0].type", message: `supported values: "User", "Group"`},
		{name: "memberChunks: removed", with: `{memberChunks: [{name: analysts-0a0b, count: 2, removed: "-1"}]}`, field: "spec.memberChunks[0].removed", message: "should match"},
		{name: "removedMembers: empty id", with: `{removedMembers: [""]}`, field: "spec.removedMembers[0]", message: "should be at least 1 chars long"},
		{name: "memberChunks: empty chunk", with: `{memberChunks: [{name: c, count: 0}]}`, field: "spec.memberChunks[0].count", message: "should be greater than or equal to 1"},
		{name: "displayName: may change", then: `{displayName: Data analysts}`},
	}...),
})

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
