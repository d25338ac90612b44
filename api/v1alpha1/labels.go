package v1alpha1

// Labels and annotations that the controllers write and that users may rely on.
const (
	// LabelID is the number of a Deployment, Environment or Branch in its account:
	// decimal digits, given out in order, never reused. It is stored before the number is
	// shown anywhere, and a label survives backup and restore, which status need not.
	LabelID = Group + "/id"
	// LabelDeployment names the Deployment that an object belongs to.
	LabelDeployment = Group + "/deployment"
	// LabelEnvironment names the Environment that a workload object belongs to.
	LabelEnvironment = Group + "/environment"
	// LabelBranch names the Branch object that an object belongs to.
	LabelBranch = Group + "/branch"
	// LabelRemote is "true" on Branch objects that follow a ref of the remote repository:
	// the controller made them and removes them with the ref.
	LabelRemote = Group + "/from-remote"

	// LabelWarmUp is, on API pods that have to compile the data model before they serve, the hash
	// of the inputs they were rendered from. It tells the pods of now from those of before.
	LabelWarmUp = Group + "/warm-up"

	// AnnotationIssuedIDs is the account's ledger of numbers given out, as
	// "deployments=12,environments=30,branches=7". An annotation, because it must outlive
	// a restore that drops status.
	AnnotationIssuedIDs = Group + "/issued-ids"
	// AnnotationEnvironmentID is, on the object that an Environment is made for (Deployment
	// or Branch), the number of that Environment: it stays the same when the Environment is
	// removed and made again.
	AnnotationEnvironmentID = Group + "/environment-id"
	// AnnotationCommit is, on Branch objects, the commit that the remote's ref points at, and
	// CommitMissing when the remote has no such ref.
	AnnotationCommit = Group + "/remote-commit"
	// CommitMissing says that the remote repository has no such branch.
	CommitMissing = "missing"
	// AnnotationReconcile asks for a reconciliation now: any new value does.
	AnnotationReconcile = Group + "/reconcile-requested-at"
	// AnnotationWakeRequested is, on Environments, when the gateway last wanted an environment
	// that is asleep to wake up, in the form of RFC 3339.
	AnnotationWakeRequested = Group + "/wake-requested-at"
	// AnnotationLastUsed is, on staging and development Environments, when the gateway last
	// passed a request on, in the form of RFC 3339. It lags behind by up to 5 minutes.
	AnnotationLastUsed = Group + "/last-used-at"
	// AnnotationUsed is, on ScimMemberChunks, when somebody last wanted to refer to the chunk.
	// Any new value keeps it from being collected as unused; see controllers/scimgroup.
	AnnotationUsed = Group + "/used-at"
	// AnnotationInputs is, on workload objects, the hash of the inputs they were rendered from.
	AnnotationInputs = Group + "/inputs-hash"
	// AnnotationRevision is, on workload objects, the revision of the renderer that made them.
	AnnotationRevision = Group + "/renderer-revision"

	// FinalizerAccount lets an Account's objects go before the Account does.
	FinalizerAccount = Group + "/account-teardown"
)
