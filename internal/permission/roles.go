package permission

import (
	"fmt"
	"slices"
	"strings"
)

// Resource is the type of the resources of a policy of a role.
type Resource string

// The types of resources that policies can have.
const (
	Global     Resource = "Global"
	Deployment Resource = "Deployment"
	Folder     Resource = "Folder"
	Workbook   Resource = "Workbook"
	Report     Resource = "Report"
)

// Resources are the types of resources of the documented API. Quoin uses those with permissions.
var Resources = []Resource{Global, Deployment, Report, "ReportFolder", "Agent", "AgentSpace", Workbook, "Dashboard", Folder, "ChatThread"}

// used are the types of resources that have permissions.
var used = []Resource{Global, Deployment, Folder, Workbook, Report}

// All is the action of a policy with all permissions on deployments.
const All Name = "All"

// Action is an action that the documented API lists for policies of roles.
type Action struct {
	Name Name
	// Unused is why no role can have the action; empty if roles can.
	Unused string
}

// Reasons why Quoin does not use an action.
const (
	alerts    = "there are no alerts"
	agents    = "agents are objects of Kubernetes"
	chats     = "a chat is read by the person who has begun it"
	look      = "there are no palettes and themes of dashboards"
	tiers     = "roles have no license tiers"
	embedding = "there is no embedding"
)

// Actions are the actions of the documented API, in its order.
var Actions = []Action{
	{Name: All},
	{Name: "DeploymentsManage"},
	{Name: "DeploymentCreate"},
	{Name: "DeploymentRead"},
	{Name: "DeploymentUpdate"},
	{Name: "DeploymentDelete"},
	{Name: "SecretsManage"},
	{"DownloadData", "the data API answers queries, which DeploymentRead allows, and has no files to download"},
	{"PlaygroundRead", "there is no playground"},
	{Name: "SchemaRead"},
	{Name: "SchemaUpdate"},
	{Name: "SchemaUpdateDevBranches"},
	{"APMRead", "there is no performance monitoring over the API"},
	{"ChatHistoryRead", chats},
	{"PreAggregationBuild", "pre-aggregations are built by the refresh worker only"},
	{"AlertsCreate", alerts},
	{"AlertsRead", alerts},
	{"AlertsUpdate", alerts},
	{"AlertsDelete", alerts},
	{Name: "AuditLogManage"},
	{"BillingRead", "there is no billing"},
	{Name: "SqlRunnerRead"},
	{"DataAssetsRead", "there are no data assets"},
	{"DataAssetsManage", "there are no data assets"},
	{"CubeNetworkConnect", "there are no private networks"},
	{Name: "ReportRead"},
	{Name: "ReportEdit"},
	{Name: "ReportManage"},
	{Name: "WorkbookManage"},
	{Name: "WorkbookRead"},
	{Name: "WorkbookEdit"},
	{"ChatThreadRead", chats},
	{"AgentManage", agents},
	{"AgentRead", agents},
	{"AgentSpaceManage", agents},
	{"AgentAdmin", agents},
	{Name: "DeploymentAgentRead"},
	{Name: "OAuthIntegrationsManage"},
	{"OAuthIntegrationsIssueTokens", "each user authorizes OAuth integrations for themselves, without a permission"},
	{"McpToolsManage", "spec.mcp of the Account has the deployments that MCP tools reach"},
	{"AIBIDevelop", tiers},
	{"AIBIExplore", tiers},
	{"AIBIView", tiers},
	{"ChartPalettesManage", look},
	{"DashboardThemesManage", look},
	{"AIBIDeveloper", tiers},
	{"AIBIUser", tiers},
	{"AIBIViewer", tiers},
	{"EmbedDeploymentRead", embedding},
	{"EmbedDashboardRead", embedding},
	{Name: "FolderRead"},
	{Name: "FolderEdit"},
	{Name: "FolderManage"},
	{"ScheduledTasksCreate", "there are no scheduled tasks"},
}

// UsedActions returns the names of the actions that roles can have.
func UsedActions() []Name {
	var names []Name
	for _, a := range Actions {
		if a.Unused == "" {
			names = append(names, a.Name)
		}
	}
	return names
}

// CheckPolicy returns an error if a policy of a role cannot have an action on resources of a type. The text names the action
// and what is allowed.
func CheckPolicy(on Resource, action Name) error {
	if !slices.Contains(used, on) {
		return fmt.Errorf("resourceType: %q is not used here; allowed: Global, Deployment, Folder, Workbook, Report", on)
	}
	i := slices.IndexFunc(Actions, func(a Action) bool { return a.Name == action })
	switch {
	case i < 0:
		return fmt.Errorf("actions: %q is not an action", action)
	case Actions[i].Unused != "":
		return fmt.Errorf("actions: %s is not used here: %s", action, Actions[i].Unused)
	}
	if action == All && on == Deployment {
		return nil
	}
	if p, _ := Lookup(action); slices.Contains(p.Policies, on) {
		return nil
	}
	var allowed []string
	if on == Deployment {
		allowed = append(allowed, string(All))
	}
	for _, p := range Table {
		if slices.Contains(p.Policies, on) {
			allowed = append(allowed, string(p.Name))
		}
	}
	return fmt.Errorf("actions: %s is not an action with resourceType %s; allowed: %s", action, on, strings.Join(allowed, ", "))
}

// OnDeployments returns the permissions of the action All: those of policies on deployments.
func OnDeployments() []Name {
	var names []Name
	for _, p := range Table {
		if slices.Contains(p.Policies, Deployment) {
			names = append(names, p.Name)
		}
	}
	return names
}

// Role is a built-in role.
type Role struct {
	// Name of the role in assignments.
	Name string
	// ID of the role in the REST API. Numbers of other roles are counted from 1 and do not reach it.
	ID int64
	// Permissions of the role, on everything.
	Permissions []Name
}

// BuiltIn are the built-in roles that can be assigned. Admin is none of them: it is spec.admin of a user.
var BuiltIn = []Role{
	{Name: "Developer", ID: 9007199254740001, Permissions: []Name{"DeploymentsManage", "SqlRunnerRead", "FolderManage", "WorkbookManage", "ReportManage", "DeploymentAgentRead"}},
	{Name: "Explorer", ID: 9007199254740002, Permissions: []Name{"DeploymentRead", "SchemaRead", "SqlRunnerRead", "FolderEdit", "WorkbookEdit", "ReportEdit", "DeploymentAgentRead"}},
	{Name: "Viewer", ID: 9007199254740003, Permissions: []Name{"DeploymentRead", "SchemaRead", "FolderRead", "WorkbookRead", "ReportRead", "DeploymentAgentRead"}},
}

// reserved are the names that custom roles cannot have, in lower case.
var reserved = []string{"admin", "developer", "explorer", "viewer", "aibideveloper", "d3user", "aibiuser", "aibiviewer", "guest", "embeduser"}

// IsReserved reports whether custom roles cannot have a name.
func IsReserved(name string) bool { return slices.Contains(reserved, strings.ToLower(name)) }
