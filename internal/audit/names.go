package audit

import "slices"

// names are the declared names.
var names []string

// declare adds a name to Names.
func declare(name string) string {
	names = append(names, name)
	return name
}

// Names of events that the documented product lists, verbatim.
var (
	CreatedUser            = declare("Created user")
	DeletedUser            = declare("Deleted user")
	InvitedUser            = declare("Invited user")
	UpdatedUserProfile     = declare("Updated user profile")
	RequestedPasswordReset = declare("Requested password reset")
	ChangedPassword        = declare("Changed password")

	CreatedUserViaSCIM  = declare("Created user via SCIM")
	UpdatedUserViaSCIM  = declare("Updated user via SCIM")
	DeletedUserViaSCIM  = declare("Deleted user via SCIM")
	CreatedGroupViaSCIM = declare("Created group via SCIM")
	UpdatedGroupViaSCIM = declare("Updated group via SCIM")
	DeletedGroupViaSCIM = declare("Deleted group via SCIM")

	CreatedRole         = declare("Created role")
	DeletedRole         = declare("Deleted role")
	UpdatedRole         = declare("Updated role")
	AssignedRoleToUser  = declare("Assigned role to user")
	AssignedRolesToUser = declare("Assigned roles to user")
	RemovedRoleFromUser = declare("Removed role from user")

	LoggedIn                 = declare("Logged in")
	LoggedOut                = declare("Logged out")
	RedirectedToSAMLProvider = declare("Redirected to SAML provider for login")
	LoggedInViaSAML          = declare("Logged in via SAML")

	UpdatedAccountSettings       = declare("Updated account settings")
	UpdatedAccountAuthentication = declare("Updated account authentication configuration")
	UpdatedAccountSAML           = declare("Updated account SAML configuration")
	UploadedIdentityProvider     = declare("Uploaded identity provider metadata file")

	CreatedDeployment              = declare("Created deployment")
	DeletedDeployment              = declare("Deleted deployment")
	UpdatedDeploymentConfiguration = declare("Updated deployment configuration")
	EnabledSQLAPI                  = declare("Enabled SQL API for deployment")
	GeneratedDataModel             = declare("Generated data model")

	CreatedGitBranch          = declare("Created Git branch")
	DeletedGitBranch          = declare("Deleted Git branch")
	EnteredDevMode            = declare("Entered dev mode")
	ExitedDevMode             = declare("Exited dev mode")
	PulledChanges             = declare("Pulled changes to data model")
	CommittedAndMergedChanges = declare("Committed and merged changes to data model")
	MergedChanges             = declare("Merged changes to data model")
	RevertedChanges           = declare("Reverted changes to data model in branch")
	RequestedGitHubConnection = declare("Requested connection of GitHub account")
	ConnectedGitHubRepository = declare("Connected deployment to GitHub repository")
	GeneratedSSHKey           = declare("Generated SSH key for deployment")
	ConnectedGitUpstream      = declare("Connected deployment to Git upstream")
	GeneratedGitCredentials   = declare("Generated Git credentials for Cube Cloud repository")
	GeneratedGitWebhookToken  = declare("Generated webhook token for Git repository")
	ReceivedGitHook           = declare("Received a Git hook")
	StartedUploadingFiles     = declare("Started uploading files")
	FinishedUploadingFiles    = declare("Finished uploading files")
	TriggeredNewBuild         = declare("Triggered new build")
	CreatedBudget             = declare("Created budget")
	DeletedBudget             = declare("Deleted budget")
	UpdatedBudget             = declare("Updated budget")
)

// Names of events that the documented product does not list.
var (
	CreatedAPIKey            = declare("Created API key")
	UpdatedAPIKey            = declare("Updated API key")
	DeletedAPIKey            = declare("Deleted API key")
	UpdatedBranch            = declare("Updated branch")
	CreatedEnvironment       = declare("Created environment")
	DeletedEnvironment       = declare("Deleted environment")
	UpdatedEnvironment       = declare("Updated environment")
	CreatedDataToken         = declare("Created data token")
	CreatedMetadataToken     = declare("Created metadata token")
	ReadEnvironmentVariables = declare("Viewed environment variables")
	RolledDeployment         = declare("Rolled deployment to version")
	RolledBackDeployment     = declare("Rolled deployment back")
	StartedDbtSync           = declare("Started dbt sync")
	FinishedDbtSync          = declare("Finished dbt sync")
	ExportedAuditLog         = declare("Exported audit log")
	CreatedFolder            = declare("Created folder")
	UpdatedFolder            = declare("Updated folder")
	DeletedFolder            = declare("Deleted folder")
	CreatedObject            = declare("Created object")
	UpdatedObject            = declare("Updated object")
	DeletedObject            = declare("Deleted object")
)

// Names returns the names that an event can have, in the order of declaration.
func Names() []string { return slices.Clone(names) }

// Known reports whether a name is declared.
func Known(name string) bool { return slices.Contains(names, name) }
