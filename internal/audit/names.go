package audit

import "slices"

// names are the declared names.
var names []string

// Declare adds a name to Names and returns it. It is for package-level variables, also of packages of
// content.
func Declare(name string) string {
	names = append(names, name)
	return name
}

// Names of events that the documented product lists, verbatim.
var (
	CreatedUser            = Declare("Created user")
	DeletedUser            = Declare("Deleted user")
	InvitedUser            = Declare("Invited user")
	UpdatedUserProfile     = Declare("Updated user profile")
	RequestedPasswordReset = Declare("Requested password reset")
	ChangedPassword        = Declare("Changed password")

	CreatedUserViaSCIM  = Declare("Created user via SCIM")
	UpdatedUserViaSCIM  = Declare("Updated user via SCIM")
	DeletedUserViaSCIM  = Declare("Deleted user via SCIM")
	CreatedGroupViaSCIM = Declare("Created group via SCIM")
	UpdatedGroupViaSCIM = Declare("Updated group via SCIM")
	DeletedGroupViaSCIM = Declare("Deleted group via SCIM")

	CreatedRole         = Declare("Created role")
	DeletedRole         = Declare("Deleted role")
	UpdatedRole         = Declare("Updated role")
	AssignedRoleToUser  = Declare("Assigned role to user")
	AssignedRolesToUser = Declare("Assigned roles to user")
	RemovedRoleFromUser = Declare("Removed role from user")

	LoggedIn                 = Declare("Logged in")
	LoggedOut                = Declare("Logged out")
	RedirectedToSAMLProvider = Declare("Redirected to SAML provider for login")
	LoggedInViaSAML          = Declare("Logged in via SAML")

	UpdatedAccountSettings       = Declare("Updated account settings")
	UpdatedAccountAuthentication = Declare("Updated account authentication configuration")
	UpdatedAccountSAML           = Declare("Updated account SAML configuration")
	UploadedIdentityProvider     = Declare("Uploaded identity provider metadata file")

	CreatedDeployment              = Declare("Created deployment")
	DeletedDeployment              = Declare("Deleted deployment")
	UpdatedDeploymentConfiguration = Declare("Updated deployment configuration")
	EnabledSQLAPI                  = Declare("Enabled SQL API for deployment")
	GeneratedDataModel             = Declare("Generated data model")

	CreatedGitBranch          = Declare("Created Git branch")
	DeletedGitBranch          = Declare("Deleted Git branch")
	EnteredDevMode            = Declare("Entered dev mode")
	ExitedDevMode             = Declare("Exited dev mode")
	PulledChanges             = Declare("Pulled changes to data model")
	CommittedAndMergedChanges = Declare("Committed and merged changes to data model")
	MergedChanges             = Declare("Merged changes to data model")
	RevertedChanges           = Declare("Reverted changes to data model in branch")
	RequestedGitHubConnection = Declare("Requested connection of GitHub account")
	ConnectedGitHubRepository = Declare("Connected deployment to GitHub repository")
	GeneratedSSHKey           = Declare("Generated SSH key for deployment")
	ConnectedGitUpstream      = Declare("Connected deployment to Git upstream")
	GeneratedGitCredentials   = Declare("Generated Git credentials for Cube Cloud repository")
	GeneratedGitWebhookToken  = Declare("Generated webhook token for Git repository")
	ReceivedGitHook           = Declare("Received a Git hook")
	StartedUploadingFiles     = Declare("Started uploading files")
	FinishedUploadingFiles    = Declare("Finished uploading files")
	TriggeredNewBuild         = Declare("Triggered new build")
	CreatedBudget             = Declare("Created budget")
	DeletedBudget             = Declare("Deleted budget")
	UpdatedBudget             = Declare("Updated budget")
)

// Names of events that the documented product does not list.
var (
	CreatedAPIKey            = Declare("Created API key")
	UpdatedAPIKey            = Declare("Updated API key")
	DeletedAPIKey            = Declare("Deleted API key")
	CreatedUserAttribute     = Declare("Created user attribute")
	UpdatedUserAttribute     = Declare("Updated user attribute")
	DeletedUserAttribute     = Declare("Deleted user attribute")
	CreatedOidcTokenConfig   = Declare("Created OIDC token configuration")
	UpdatedOidcTokenConfig   = Declare("Updated OIDC token configuration")
	DeletedOidcTokenConfig   = Declare("Deleted OIDC token configuration")
	CreatedOAuthIntegration  = Declare("Created OAuth integration")
	UpdatedOAuthIntegration  = Declare("Updated OAuth integration")
	DeletedOAuthIntegration  = Declare("Deleted OAuth integration")
	CreatedAgent             = Declare("Created agent")
	UpdatedAgent             = Declare("Updated agent")
	DeletedAgent             = Declare("Deleted agent")
	UpdatedBranch            = Declare("Updated branch")
	CreatedEnvironment       = Declare("Created environment")
	DeletedEnvironment       = Declare("Deleted environment")
	UpdatedEnvironment       = Declare("Updated environment")
	CreatedDataToken         = Declare("Created data token")
	CreatedMetadataToken     = Declare("Created metadata token")
	ReadEnvironmentVariables = Declare("Viewed environment variables")
	RolledDeployment         = Declare("Rolled deployment to version")
	RolledBackDeployment     = Declare("Rolled deployment back")
	StartedDbtSync           = Declare("Started dbt sync")
	FinishedDbtSync          = Declare("Finished dbt sync")
	ExportedAuditLog         = Declare("Exported audit log")
	CreatedObject            = Declare("Created object")
	UpdatedObject            = Declare("Updated object")
	DeletedObject            = Declare("Deleted object")
)

// Names returns the names that an event can have, in the order of declaration.
func Names() []string { return slices.Clone(names) }

// Known reports whether a name is declared.
func Known(name string) bool { return slices.Contains(names, name) }
