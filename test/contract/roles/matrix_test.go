package roles_test

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"
	"testing"

	authenticationv1 "k8s.io/api/authentication/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/quoin-dev/quoin/api/v1alpha1"
	"github.com/quoin-dev/quoin/internal/permission"
)

// needs is which permission the operations of the API need. It is written from the documentation and not derived from the routes.
var needs = map[string]string{
	"": `getSpec getMe getTenantSettings getAppConfig getAppTheme getEmbedTheme listRegions`,
	"Admin": `listApiKeys createApiKey getApiKey deleteApiKey getUsers createUser getUser updateUser deleteUser bulkUserAction
		getUserGroups deleteUserGroup getUserAttributes createUserAttribute updateUserAttribute deleteUserAttribute
		getUserAttributeValues upsertUserAttributeValue getRoles createRole getRole updateRole deleteRole assignRoleToUser
		removeRoleFromUser updateTenantSettings listOidcTokenConfigs createOidcTokenConfig getOidcTokenConfig updateOidcTokenConfig
		deleteOidcTokenConfig`,
	"AuditLogManage": `exportAuditLogs`,
	"OAuthIntegrationsManage": `listOAuthIntegrations createOAuthIntegration getOAuthIntegration updateOAuthIntegration
		deleteOAuthIntegration`,
	"DeploymentsManage": `createDeployToken`,
	"DeploymentCreate":  `createDeployment getGitHubStatus listGitHubInstallations listGitHubRepositories listGitHubBranches`,
	"DeploymentRead": `getDeployments getDeployment getDeploymentEnvironments getDeploymentSettings listDeploymentVersions getEnvVariables
		buildStatus pods logs getDeploymentEnvironmentTokens createDeploymentEnvironmentToken`,
	"DeploymentAgentRead": `streamChatState abortChat listAgents listAgentSkills startEvaluation startChatReplay listEvaluations getEvaluation
		listEvaluationResults cancelEvaluation`,
	"DeploymentUpdate": `listAgentUsage updateDeployment advanceCreationStep resetCreationStep`,
	"DeploymentDelete": `deleteDeployment`,
	"SecretsManage":    `setEnvVariables deploySetEnv`,
	"SchemaRead": `createDeploymentEnvironmentTokenForMetaSync listBranches listFiles fileHashes validateDataModel listDbtSyncs
		getDbtSyncStatus getDbtSyncLogs getDbtSyncResult getDbtSyncGeneratedFiles livePreviewStatus deployListDeployments deployFiles`,
	"SchemaUpdate": `createBranch removeBranch setBranchStagingEnvironment pull commitChanges mergeIntoParentBranch mergeToDefaultBranch
		startUpload uploadFile finishUpload startDbtSync cancelDbtSync gitHook dbtHook createGitToken
		deployStartUpload deployUploadFile deployFinishUpload`,
	"SchemaUpdateDevBranches": `startDevMode stopDevMode updateFiles removeFiles renameFiles`,
	"FolderRead":              `getFolders getFolderAncestors`,
	"FolderEdit":              `createFolder updateFolder deleteFolder`,
	"WorkbookRead":            `getWorkbooks getWorkbook listDashboardVersions getDashboardVersion setWorkbookFavorite removeWorkbookFavorite runDashboardReport`,
	"WorkbookEdit":            `createWorkbook upsertWorkbookBySlug updateWorkbook updateWorkbookDashboard updatePublishedDashboardAiWidgetThread duplicateWorkbook publishDashboard restoreDashboardVersion deleteWorkbook`,
	"ReportRead":              `getReports getReport getReportFolders connectReportToWorkbook disconnectReportFromWorkbook refreshReport runReport`,
	"ReportEdit":              `createReport upsertReportByPublicId updateReport deleteReport`,
	// Operations with rules of their own, which other tests check.
	"-": `exchangeDeployToken updateMySettings deploymentToken livePreviewToken connectGitHub
		workspaceObjects moveWorkspaceObject bulkMoveWorkspaceObjects bulkDeleteWorkspaceObjects sharedWorkspaceObjects
		listUserOAuthTokens getUserOAuthToken revokeUserOAuthToken initiateOAuthFlow
		getResourcePolicies setUserResourcePolicy setGroupResourcePolicy`,
}

// wholeAccount are the permissions that one must hold on the whole account.
var wholeAccount = []string{"Admin", "AuditLogManage", "DeploymentCreate", "OAuthIntegrationsManage", "ScimManage"}

// Sets of permissions, with all that they imply.
const (
	onDeployments = "DeploymentRead DeploymentUpdate DeploymentDelete SecretsManage SchemaRead SchemaUpdate SchemaUpdateDevBranches SqlRunnerRead DeploymentAgentRead"
	manage        = "DeploymentsManage DeploymentCreate DeploymentRead DeploymentUpdate DeploymentDelete SecretsManage SchemaRead SchemaUpdate SchemaUpdateDevBranches"
	folders       = "FolderRead FolderEdit FolderManage WorkbookRead WorkbookEdit WorkbookManage ReportRead ReportEdit ReportManage"
	all           = "Admin AuditLogManage OAuthIntegrationsManage ScimManage SqlRunnerRead DeploymentAgentRead " + manage + " " + folders
)

// implied is what single permissions of keys imply besides themselves.
var implied = map[string]string{
	"Admin": all, "DeploymentsManage": manage, "DeploymentUpdate": "DeploymentRead", "DeploymentDelete": "DeploymentRead",
	"SchemaUpdate": "SchemaRead SchemaUpdateDevBranches", "SchemaUpdateDevBranches": "SchemaRead",
	"FolderEdit": "FolderRead", "FolderManage": "FolderRead FolderEdit",
	"WorkbookEdit": "WorkbookRead", "WorkbookManage": "WorkbookRead WorkbookEdit",
	"ReportEdit": "ReportRead", "ReportManage": "ReportRead ReportEdit",
}

// principal is a caller: what it holds on its own deployment, whose number is 1, on the other one, whose number is 3, and on the
// whole account, as sets of permissions.
type principal struct {
	token             string
	own, other, whole string
	// refused is the status for another account.
	refused int
}

func everywhere(token, held string) principal { return principal{token, held, held, held, 401} }

// may reports whether a principal may do what needs a permission, on the deployment with a number; 0 for operations that concern
// none: those that concern the whole account need the permission on all of it, and others anywhere.
func (p principal) may(needed string, deployment int) bool {
	holds := func(set string) bool { return needed == "" || slices.Contains(strings.Fields(set), needed) }
	switch {
	case slices.Contains(wholeAccount, needed):
		return holds(p.whole)
	case deployment == 1:
		return holds(p.own)
	case deployment == 3:
		return holds(p.other)
	}
	return holds(p.own) || holds(p.other) || holds(p.whole)
}

// principals returns a caller of each kind.
func principals(t *testing.T) map[string]principal {
	t.Helper()
	limited := acme.role(t, object{"name": "Limited", "policies": onAnalytics("All")})
	modeler := acme.role(t, object{"name": "Modeler", "policies": onAnalytics("SchemaUpdateDevBranches")})
	auditor := acme.role(t, object{"name": "Auditor", "policies": []object{policy("Global", []string{"AuditLogManage"}, "All"), policy("Folder", []string{"FolderEdit"}, "All")}})
	having := func(name string, roles ...string) string {
		key := acme.user(t, name)
		for _, role := range roles {
			acme.call(t, acme.admin, "PUT", userPath(role, name), nil).Is(204)
		}
		return key
	}
	const developer, explorer, viewer = manage + " SqlRunnerRead DeploymentAgentRead " + folders, "DeploymentRead SchemaRead SqlRunnerRead DeploymentAgentRead FolderRead FolderEdit WorkbookRead WorkbookEdit ReportRead ReportEdit", "DeploymentRead SchemaRead DeploymentAgentRead FolderRead WorkbookRead ReportRead"
	of := func(token, own, other, whole string) principal { return principal{token, own, other, whole, 401} }
	account := func(name, held string, verbs ...string) principal {
		return principal{serviceAccount(t, name, verbs...), held, held, held, 403}
	}
	limitedKey := acme.key(t, "limited-key", v1alpha1.ApiKeySpec{Deployments: []string{"analytics"}})
	limitedUser := having("limited-user", limited)
	limitedKeyOfUser := acme.key(t, "elsewhere", v1alpha1.ApiKeySpec{Owner: &v1alpha1.ApiKeyOwner{ScimUser: "limited-user"}, Deployments: []string{"sales"}})
	found := map[string]principal{
		"key":                                   everywhere(acme.admin, all),
		"key on one deployment":                 of(limitedKey, all, "", ""),
		"user without a role":                   everywhere(having("nobody"), "DeploymentRead SchemaRead"),
		"Developer":                             everywhere(acme.user(t, "developer", "Developer"), developer),
		"Explorer":                              everywhere(acme.user(t, "explorer", "Explorer"), explorer),
		"Viewer":                                everywhere(acme.user(t, "viewer", "Viewer"), viewer),
		"custom role on one deployment":         of(limitedUser, onDeployments, "", ""),
		"such a user's key for another":         of(limitedKeyOfUser, "", "", ""),
		"dev mode on one deployment":            of(having("modeler", modeler), "SchemaUpdateDevBranches SchemaRead", "", ""),
		"two roles":                             of(having("both", modeler, auditor), "SchemaUpdateDevBranches SchemaRead AuditLogManage FolderRead FolderEdit", "AuditLogManage FolderRead FolderEdit", "AuditLogManage FolderRead FolderEdit"),
		"access token":                          everywhere(accessToken("zoe"), "DeploymentRead SchemaRead"),
		"access token, group with a role":       everywhere(accessToken("zoe", "developers"), developer),
		"access token, group of administrators": everywhere(accessToken("zoe", "admins"), all),
		"ServiceAccount, get":                   account("may-get", "DeploymentRead SchemaRead FolderRead WorkbookRead ReportRead", "get"),
		"ServiceAccount, update":                account("may-update", manage+" DeploymentAgentRead "+folders, "get", "update"),
		"ServiceAccount, delete":                account("may-delete", all, "delete"),
	}
	for _, name := range permission.Names() {
		key := acme.key(t, "only-"+strings.ToLower(string(name)), v1alpha1.ApiKeySpec{Permissions: []v1alpha1.Permission{v1alpha1.Permission(name)}})
		found["key with "+string(name)] = everywhere(key, string(name)+" "+implied[string(name)])
	}
	return found
}

// accessToken returns a token of the issuer of acme.
func accessToken(name string, groups ...string) string {
	return issuer.Token(map[string]any{"sub": name, "email": name + "@example.com", "aud": "quoin", "groups": groups})
}

// serviceAccount returns the token of a ServiceAccount that may use verbs on acme.
func serviceAccount(t *testing.T, name string, verbs ...string) string {
	t.Helper()
	sa := &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: name}}
	acme.add(t, sa)
	acme.add(t, &rbacv1.ClusterRole{ObjectMeta: metav1.ObjectMeta{Name: name}, Rules: []rbacv1.PolicyRule{{
		APIGroups: []string{"api.platform.quoin.dev"}, Resources: []string{"accounts/proxy"}, ResourceNames: []string{acme.name}, Verbs: verbs,
	}}})
	acme.add(t, &rbacv1.ClusterRoleBinding{
		ObjectMeta: metav1.ObjectMeta{Name: name}, RoleRef: rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: name},
		Subjects: []rbacv1.Subject{{Kind: "ServiceAccount", Namespace: "default", Name: name}},
	})
	request := &authenticationv1.TokenRequest{Spec: authenticationv1.TokenRequestSpec{Audiences: []string{"quoin"}}}
	if err := k8s.SubResource("token").Create(t.Context(), sa, request); err != nil {
		t.Fatal(err)
	}
	soon(t, func() error {
		if got := acme.call(t, request.Status.Token, "GET", usersPath+"/me", nil); got.Status != 200 {
			return fmt.Errorf("%d %s", got.Status, got.Body)
		}
		return nil
	})
	return request.Status.Token
}

// route is an operation of the API.
type route struct{ method, path, needed string }

// routes returns the operations of the document that the table says something of, by id. Each must be in the table.
func routes(t *testing.T) map[string]route {
	t.Helper()
	var document struct {
		Paths map[string]map[string]struct {
			OperationID string `json:"operationId"`
		} `json:"paths"`
	}
	if err := json.Unmarshal(acme.call(t, acme.admin, "GET", "/api/v1/spec", nil).Is(200).Body, &document); err != nil {
		t.Fatal(err)
	}
	needed := map[string]string{}
	for permission, operations := range needs {
		for _, id := range strings.Fields(operations) {
			needed[id] = permission
		}
	}
	found := map[string]route{}
	for path, methods := range document.Paths {
		for method, op := range methods {
			if strings.HasPrefix(path, "/api/scim/") {
				continue
			}
			permission, known := needed[op.OperationID]
			if !known {
				t.Errorf("%s %s (%s) is not in the table", method, path, op.OperationID)
				continue
			}
			delete(needed, op.OperationID)
			if permission != "-" {
				found[op.OperationID] = route{strings.ToUpper(method), path, permission}
			}
		}
	}
	if len(needed) > 0 {
		t.Errorf("the document does not have %v", slices.Sorted(maps.Keys(needed)))
	}
	return found
}

var parameter = regexp.MustCompile(`\{[^}]*\}`)

// TestEveryPrincipalOnEveryRoute sends each operation as each kind of caller to its own deployment, another one and another
// account. The body is invalid and the objects below deployments do not exist, so that authorized requests change nothing.
func TestEveryPrincipalOnEveryRoute(t *testing.T) {
	all, callers := routes(t), principals(t)
	for name, p := range callers {
		for id, r := range all {
			if id == "deleteDeployment" {
				continue // it would succeed
			}
			for _, number := range p.numbers(r) {
				path := strings.NewReplacer("{deploymentId}", fmt.Sprint(number), "{installationId}", "1").Replace(r.path)
				path = parameter.ReplaceAllString(path, "999")
				if id == "validateDataModel" {
					path += "?branchName=none" // it waits for the environment of a branch
				}
				want := p.may(r.needed, number)
				if got := acme.call(t, p.token, r.method, path, "[]"); (got.Status != 403) != want || got.Status == 401 {
					t.Errorf("%s: %s %s (%s) is answered %d, allowed: %t: %.200s", name, r.method, path, id, got.Status, want, got.Body)
				}
			}
			if strings.HasPrefix(name, "key with ") && id != "getMe" {
				continue // that of all keys
			}
			path := parameter.ReplaceAllString(r.path, "1")
			if got := globex.call(t, p.token, r.method, path, "[]"); got.Status != p.refused {
				t.Errorf("%s: %s %s of another account is answered %d, want %d", name, r.method, path, got.Status, p.refused)
			}
		}
	}
	testDeletion(t, callers)
}

// numbers returns the deployments to which an operation is sent; 0 if it concerns none. For callers that may do the same on all
// deployments, it is one.
func (p principal) numbers(r route) []int {
	switch {
	case !strings.Contains(r.path, "{deploymentId}"):
		return []int{0}
	case p.own == p.other:
		return []int{1}
	}
	return []int{1, 3}
}

// testDeletion deletes deployments as each caller, and creates them again.
func testDeletion(t *testing.T, callers map[string]principal) {
	t.Helper()
	for name, p := range callers {
		for number, deployment := range map[int]string{1: "analytics", 3: "sales"} {
			path := fmt.Sprintf("/api/v1/deployments/%d", number)
			want := p.may("DeploymentDelete", number)
			if got := acme.call(t, p.token, "DELETE", path, nil); (got.Status != 403) != want {
				t.Errorf("%s: DELETE %s is answered %d, allowed: %t: %s", name, path, got.Status, want, got.Body)
			}
			if !want {
				continue
			}
			d := &v1alpha1.Deployment{ObjectMeta: meta(deployment)}
			d.Labels = map[string]string{v1alpha1.LabelID: fmt.Sprint(number)}
			d.Spec = v1alpha1.DeploymentSpec{ReleaseChannel: "latest", Model: v1alpha1.ModelSource{ConfigMapRef: &v1alpha1.LocalReference{Name: "model"}}}
			soon(t, func() error { return client.IgnoreAlreadyExists(k8s.Create(context.WithoutCancel(t.Context()), d)) })
			soon(t, func() error {
				if got := acme.call(t, acme.admin, "GET", path, nil); got.Status != 200 {
					return fmt.Errorf("%d %s", got.Status, got.Body)
				}
				return nil
			})
		}
	}
}
