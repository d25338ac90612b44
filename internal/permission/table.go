package permission

// Table declares the permissions, in the order of the documented API. A new permission is a row
// here and `make generate`.
var Table = []Permission{
	{
		Name: "Admin", AccountWide: true, GrantedBy: []string{"delete"},
		Allows: "everything, including API keys and account settings",
	},
	{
		Name: "AuditLogManage", AccountWide: true,
		Allows: "reading and exporting the audit log",
	},
	{
		Name: "DeploymentsManage", GrantedBy: []string{"update"},
		Implies: []Name{
			"DeploymentCreate", "DeploymentRead", "DeploymentUpdate", "DeploymentDelete", "SecretsManage", "SchemaRead", "SchemaUpdate",
		},
		Allows: "everything on deployments, their variables and data models",
	},
	{
		Name: "DeploymentCreate", AccountWide: true,
		Allows: "creating deployments, and listing repositories on GitHub",
	},
	{
		Name: "DeploymentRead", GrantedBy: []string{"update", "get"},
		Allows: "reading deployments, their environments, pods, logs, settings, versions and variables (values of secret variables are masked)",
	},
	{
		Name: "DeploymentUpdate", Implies: []Name{"DeploymentRead"},
		Allows: "updating deployments and creating data API tokens",
	},
	{
		Name: "DeploymentDelete", Implies: []Name{"DeploymentRead"},
		Allows: "deleting deployments",
	},
	{
		Name:   "SecretsManage",
		Allows: "setting variables of deployments",
	},
	{
		Name: "SchemaRead", GrantedBy: []string{"update", "get"},
		Allows: "reading branches and creating metadata tokens",
	},
	{
		Name: "SchemaUpdate", Implies: []Name{"SchemaRead"},
		Allows: "creating, deleting and pulling branches and switching their staging environments",
	},
	{
		Name: "FolderRead", GrantedBy: []string{"update", "get"},
		Allows: "reading folders",
	},
	{
		Name: "FolderEdit", Implies: []Name{"FolderRead"},
		Allows: "creating and updating folders",
	},
	{
		Name: "FolderManage", Implies: []Name{"FolderRead", "FolderEdit"}, GrantedBy: []string{"update"},
		Allows: "everything on folders",
	},
	{
		Name:   "SqlRunnerRead",
		Allows: "nothing yet: reserved for the SQL runner",
	},
	{
		Name: "ScimManage", AccountWide: true,
		Allows: "provisioning users and groups over SCIM",
	},
}
