package api_test

var _ = declare(table{
	kind:     "Role",
	headings: "Name Role Ready Reason Age",
	whole:    []string{`{displayName: Analyst, permissions: [DeploymentRead]}`},
	spec:     `{displayName: Analyst, permissions: [DeploymentRead]}`,
	cases: []validationCase{
		{name: "a display name and a permission"},
		{name: "permissions: unknown", with: `{permissions: [Everything]}`, field: "spec.permissions[0]", message: `supported values: "Admin", "AuditLogManage"`},
	},
})
