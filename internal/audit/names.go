package audit

import "slices"

// Names of events, verbatim those of the documented product.
//
//nolint:gosec // names of events, no credentials
const (
	CreatedUser            = "Created user"
	DeletedUser            = "Deleted user"
	InvitedUser            = "Invited user"
	UpdatedUserProfile     = "Updated user profile"
	RequestedPasswordReset = "Requested password reset"
	ChangedPassword        = "Changed password"

	CreatedUserViaSCIM  = "Created user via SCIM"
	UpdatedUserViaSCIM  = "Updated user via SCIM"
	DeletedUserViaSCIM  = "Deleted user via SCIM"
	CreatedGroupViaSCIM = "Created group via SCIM"
	UpdatedGroupViaSCIM = "Updated group via SCIM"
	DeletedGroupViaSCIM = "Deleted group via SCIM"

	CreatedRole         = "Created role"
	DeletedRole         = "Deleted role"
	UpdatedRole         = "Updated role"
	AssignedRoleToUser  = "Assigned role to user"
	AssignedRolesToUser = "Assigned roles to user"
	RemovedRoleFromUser = "Removed role from user"

	LoggedIn                 = "Logged in"
	LoggedOut                = "Logged out"
	RedirectedToSAMLProvider = "Redirected to SAML provider for login"
	LoggedInViaSAML          = "Logged in via SAML"

	UpdatedAccountSettings       = "Updated account settings"
	UpdatedAccountAuthentication = "Updated account authentication configuration"
	UpdatedAccountSAML           = "Updated account SAML configuration"
	UploadedIdentityProvider     = "Uploaded identity provider metadata file"

	CreatedDeployment              = "Created deployment"
	DeletedDeployment              = "Deleted deployment"
	UpdatedDeploymentConfiguration = "Updated deployment configuration"
	EnabledSQLAPI                  = "Enabled SQL API for deployment"
	GeneratedDataModel             = "Generated data model"

	CreatedGitBranch          = "Created Git branch"
	DeletedGitBranch          = "Deleted Git branch"
	EnteredDevMode            = "Entered dev mode"
	ExitedDevMode             = "Exited dev mode"
	PulledChanges             = "Pulled changes to data model"
	CommittedAndMergedChanges = "Committed and merged changes to data model"
	MergedChanges             = "Merged changes to data model"
	RevertedChanges           = "Reverted changes to data model in branch"
	RequestedGitHubConnection = "Requested connection of GitHub account"
	ConnectedGitHubRepository = "Connected deployment to GitHub repository"
	GeneratedSSHKey           = "Generated SSH key for deployment"
	ConnectedGitUpstream      = "Connected deployment to Git upstream"
	GeneratedGitCredentials   = "Generated Git credentials for Cube Cloud repository"
	GeneratedGitWebhookToken  = "Generated webhook token for Git repository"
	ReceivedGitHook           = "Received a Git hook"
	StartedUploadingFiles     = "Started uploading files"
	FinishedUploadingFiles    = "Finished uploading files"
	TriggeredNewBuild         = "Triggered new build"
	CreatedBudget             = "Created budget"
	DeletedBudget             = "Deleted budget"
	UpdatedBudget             = "Updated budget"
)

// Names of events that the documented product does not list.
//
//nolint:gosec // names of events, no credentials
const (
	CreatedAPIKey            = "Created API key"
	UpdatedAPIKey            = "Updated API key"
	DeletedAPIKey            = "Deleted API key"
	UpdatedBranch            = "Updated branch"
	CreatedEnvironment       = "Created environment"
	DeletedEnvironment       = "Deleted environment"
	UpdatedEnvironment       = "Updated environment"
	CreatedDataToken         = "Created data token"
	CreatedMetadataToken     = "Created metadata token"
	ReadEnvironmentVariables = "Viewed environment variables"
	RolledDeployment         = "Rolled deployment to version"
	RolledBackDeployment     = "Rolled deployment back"
	StartedDbtSync           = "Started dbt sync"
	FinishedDbtSync          = "Finished dbt sync"
	ExportedAuditLog         = "Exported audit log"
	CreatedObject            = "Created object"
	UpdatedObject            = "Updated object"
	DeletedObject            = "Deleted object"
)

// names is the table of what can be recorded and filtered for.
var names = []string{
	CreatedUser, DeletedUser, InvitedUser, UpdatedUserProfile, RequestedPasswordReset, ChangedPassword,
	CreatedUserViaSCIM, UpdatedUserViaSCIM, DeletedUserViaSCIM, CreatedGroupViaSCIM, UpdatedGroupViaSCIM, DeletedGroupViaSCIM,
	CreatedRole, DeletedRole, UpdatedRole, AssignedRoleToUser, AssignedRolesToUser, RemovedRoleFromUser,
	LoggedIn, LoggedOut, RedirectedToSAMLProvider, LoggedInViaSAML,
	UpdatedAccountSettings, UpdatedAccountAuthentication, UpdatedAccountSAML, UploadedIdentityProvider,
	CreatedDeployment, DeletedDeployment, UpdatedDeploymentConfiguration, EnabledSQLAPI, GeneratedDataModel,
	CreatedGitBranch, DeletedGitBranch, EnteredDevMode, ExitedDevMode, PulledChanges, CommittedAndMergedChanges, MergedChanges, RevertedChanges,
	RequestedGitHubConnection, ConnectedGitHubRepository, GeneratedSSHKey, ConnectedGitUpstream, GeneratedGitCredentials, GeneratedGitWebhookToken,
	ReceivedGitHook, StartedUploadingFiles, FinishedUploadingFiles, TriggeredNewBuild,
	CreatedBudget, DeletedBudget, UpdatedBudget,

	CreatedAPIKey, UpdatedAPIKey, DeletedAPIKey, UpdatedBranch, CreatedEnvironment, DeletedEnvironment, UpdatedEnvironment, CreatedDataToken, CreatedMetadataToken,
	ReadEnvironmentVariables, RolledDeployment, RolledBackDeployment, StartedDbtSync, FinishedDbtSync, ExportedAuditLog,
	CreatedObject, UpdatedObject, DeletedObject,
}

// Names are those that an event can have.
func Names() []string { return slices.Clone(names) }

// Known tells whether an event can have a name.
func Known(name string) bool { return slices.Contains(names, name) }
