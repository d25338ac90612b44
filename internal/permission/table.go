package permission

// Table declares the permissions, in the order of the documented API. A new permission is a row
// here and `make generate`.
var Table = []Permission{
	{
		Name: "Admin", AccountWide: true, GrantedBy: []string{"delete"},
		Allows: "everything, including API keys and account settings",
	},
	{
		Name: "AuditLogManage", AccountWide: true, Policies: []Resource{Global},
		Allows: "reading and exporting the audit log",
	},
	{
		Name: "DeploymentsManage", GrantedBy: []string{"update"}, Policies: []Resource{Global},
		Implies: []Name{
			"DeploymentCreate", "DeploymentRead", "DeploymentUpdate", "DeploymentDelete", "SecretsManage",
			"SchemaRead", "SchemaUpdate", "SchemaUpdateDevBranches",
		},
		Allows: "everything on deployments, their variables and data models",
	},
	{
		Name: "DeploymentCreate", AccountWide: true, Policies: []Resource{Global},
		Allows: "creating deployments, and listing repositories on GitHub",
	},
	{
		Name: "DeploymentRead", GrantedBy: []string{"update", "get"}, Policies: []Resource{Global, Deployment},
		Allows: "reading deployments, their environments, pods, logs, settings, versions and variables (values of secret variables are masked); for users with a role, creating data API tokens without a security context",
	},
	{
		Name: "DeploymentUpdate", Implies: []Name{"DeploymentRead"}, Policies: []Resource{Global, Deployment},
		Allows: "updating deployments and creating data API tokens",
	},
	{
		Name: "DeploymentDelete", Implies: []Name{"DeploymentRead"}, Policies: []Resource{Global, Deployment},
		Allows: "deleting deployments",
	},
	{
		Name: "SecretsManage", Policies: []Resource{Global, Deployment},
		Allows: "setting variables of deployments",
	},
	{
		Name: "SchemaRead", GrantedBy: []string{"update", "get"}, Policies: []Resource{Global, Deployment},
		Allows: "reading branches and creating metadata tokens; data API tokens of people without it read no metadata",
	},
	{
		Name: "SchemaUpdate", Implies: []Name{"SchemaRead", "SchemaUpdateDevBranches"}, Policies: []Resource{Global, Deployment},
		Allows: "creating, deleting and pulling branches and switching their staging environments",
	},
	{
		Name: "SchemaUpdateDevBranches", Implies: []Name{"SchemaRead"}, Policies: []Resource{Global, Deployment},
		Allows: "dev mode: changing files of personal branches, without committing to others",
	},
	{
		Name: "FolderRead", GrantedBy: []string{"update", "get"}, Policies: []Resource{Global, Folder},
		Allows: "reading folders",
	},
	{
		Name: "FolderEdit", Implies: []Name{"FolderRead"}, Policies: []Resource{Global, Folder},
		Allows: "creating and updating folders",
	},
	{
		Name: "FolderManage", Implies: []Name{"FolderRead", "FolderEdit"}, GrantedBy: []string{"update"}, Policies: []Resource{Global, Folder},
		Allows: "everything on folders",
	},
	{
		Name: "WorkbookRead", GrantedBy: []string{"update", "get"}, Policies: []Resource{Global, Workbook},
		Allows: "reading workbooks",
	},
	{
		Name: "WorkbookEdit", Implies: []Name{"WorkbookRead"}, Policies: []Resource{Global, Workbook},
		Allows: "creating and updating workbooks",
	},
	{
		Name: "WorkbookManage", Implies: []Name{"WorkbookRead", "WorkbookEdit"}, GrantedBy: []string{"update"}, Policies: []Resource{Global, Workbook},
		Allows: "everything on workbooks",
	},
	{
		Name: "ReportRead", GrantedBy: []string{"update", "get"}, Policies: []Resource{Global, Report},
		Allows: "reading reports, and recording which spreadsheets have their results",
	},
	{
		Name: "ReportEdit", Implies: []Name{"ReportRead"}, Policies: []Resource{Global, Report},
		Allows: "creating and updating reports",
	},
	{
		Name: "ReportManage", Implies: []Name{"ReportRead", "ReportEdit"}, GrantedBy: []string{"update"}, Policies: []Resource{Global, Report},
		Allows: "everything on reports",
	},
	{
		Name: "SqlRunnerRead", Policies: []Resource{Global, Deployment},
		Allows: "running SQL; data API tokens of people without it do not",
	},
	{
		Name: "DeploymentAgentRead", GrantedBy: []string{"update"}, Policies: []Resource{Global, Deployment},
		Allows: "listing the agents of deployments and their skills, and, with DeploymentRead, asking them",
	},
	{
		Name: "OAuthIntegrationsManage", AccountWide: true, Policies: []Resource{Global},
		Allows: "reading, creating, changing and deleting OAuth integrations",
	},
	{
		Name: "ScimManage", AccountWide: true,
		Allows: "provisioning users and groups over SCIM",
	},
}
