package api_test

import (
	"fmt"
	"slices"
	"strings"

	"github.com/quoin-dev/quoin/internal/permission"
)

const (
	onDeployments = "do not act on certain deployments"
	onlyAll       = "must be All, except for resourceType Deployment"
)

var _ = declare(table{
	kind:       "AccountRole",
	headings:   "Name Role ID Ready Reason [Message] Age",
	selectable: map[string]string{"spec.name": "Sales EU"},
	whole: []string{`
name: Sales EU
description: Reads deployments.
policies:
- {resourceType: Deployment, actions: [DeploymentRead, All], resources: [sales, "12"]}
- {resourceType: Global, actions: [AuditLogManage], resources: [All]}
- {resourceType: Folder, actions: [FolderEdit], resources: [All]}
- {resourceType: Workbook, actions: [WorkbookRead], resources: [All]}
- {resourceType: Report, actions: [ReportManage], resources: [All]}
`},
	spec: `{name: Analyst}`,
	cases: slices.Concat(roleActionCases(), displayNameCases("spec.name"), []validationCase{
		{name: "metadata.name: 64 characters", metadataName: strings.Repeat("a", 64), field: "<nil>", message: "metadata.name must be no more than 63 characters"},
		{name: "only a name"},
		{name: "name: empty", with: `{name: ""}`, field: "spec.name", message: "at least 1"},
		{name: "name: reserved", with: `{name: viewer}`, field: "spec.name", message: "must not be a reserved name"},
		{name: "name: reserved by the documented API", with: `{name: D3User}`, field: "spec.name", message: "must not be a reserved name"},
		{name: "name: None and All are none", with: `{name: None}`},
		{name: "name: a space at the end", with: `{name: "Admin "}`, field: "spec.name", message: "must not begin or end with a space"},
		{name: "name: may change", then: `{name: Analysts}`},
		{name: "policies: without actions", with: `{policies: [{resourceType: Global, actions: [], resources: [All]}]}`, field: "spec.policies[0].actions", message: "at least 1"},
		{name: "policies: without resources", with: `{policies: [{resourceType: Deployment, actions: [All], resources: []}]}`, field: "spec.policies[0].resources", message: "at least 1"},
		{name: "policies: All and another one", with: `{policies: [{resourceType: Deployment, actions: [All], resources: [All, sales]}]}`, field: "spec.policies[0].resources", message: "All must be the only resource"},
		{name: "policies: Global on a deployment", with: `{policies: [{resourceType: Global, actions: [DeploymentRead], resources: [sales]}]}`, field: "spec.policies[0].resources", message: onlyAll},
		{name: "policies: on one folder", with: `{policies: [{resourceType: Folder, actions: [FolderRead], resources: ["7"]}]}`, field: "spec.policies[0].resources", message: onlyAll},
		{name: "policies: account-wide on a deployment", with: `{policies: [{resourceType: Deployment, actions: [DeploymentRead, DeploymentCreate], resources: [sales]}]}`, field: "spec.policies[0].actions", message: onDeployments},
		{name: "policies: not a name", with: `{policies: [{resourceType: Deployment, actions: [All], resources: [Sales]}]}`, field: "spec.policies[0].resources[0]", message: "should match"},
		{name: "policies: id 0", with: `{policies: [{resourceType: Deployment, actions: [All], resources: ["0"]}]}`, field: "spec.policies[0].resources[0]", message: "should match"},
		{name: "policies: a resource type that is not used", with: `{policies: [{resourceType: Agent, actions: [All], resources: [All]}]}`, field: "spec.policies[0].resourceType", message: `supported values: "Global", "Deployment", "Folder", "Workbook", "Report"`},
		{name: "policies: Admin", with: `{policies: [{resourceType: Global, actions: [Admin], resources: [All]}]}`, field: "spec.policies[0].actions[0]", message: "Unsupported value"},
		{name: "policies: ScimManage", with: `{policies: [{resourceType: Global, actions: [ScimManage], resources: [All]}]}`, field: "spec.policies[0].actions[0]", message: "Unsupported value"},
	}),
})

// rejection is the message of the schema for actions of other types of resources.
var rejection = map[permission.Resource]string{
	permission.Global:     "All is an action on deployments",
	permission.Deployment: onDeployments,
	permission.Folder:     "must be FolderRead, FolderEdit or FolderManage",
	permission.Workbook:   "must be WorkbookRead, WorkbookEdit or WorkbookManage",
	permission.Report:     "must be ReportRead, ReportEdit or ReportManage",
}

// roleActionCases are every action with every type of resources, which the schema accepts as permission.CheckPolicy does.
func roleActionCases() []validationCase {
	var cases []validationCase
	for _, on := range []permission.Resource{permission.Global, permission.Deployment, permission.Folder, permission.Workbook, permission.Report} {
		for _, action := range permission.Actions {
			c := validationCase{
				name: fmt.Sprintf("policies: %s with %s", action.Name, on),
				with: fmt.Sprintf("{policies: [{resourceType: %s, actions: [%s], resources: [All]}]}", on, action.Name),
			}
			if permission.CheckPolicy(on, action.Name) != nil {
				c.field, c.message = "spec.policies[0].actions", rejection[on]
				if action.Unused != "" {
					c.field, c.message = "spec.policies[0].actions[0]", "Unsupported value"
				}
			}
			cases = append(cases, c)
		}
	}
	return cases
}
