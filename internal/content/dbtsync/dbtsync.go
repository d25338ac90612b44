// Package dbtsync has the dbt syncs of deployments: runs that convert the manifest of a dbt project into
// a data model, and write it to a branch or keep it to be fetched.
//
//	dbtsync.go     the model and its rules
//	changes.go     starting and cancelling
//	webhook.go     runs that a push starts
//	sandbox.go     runs whose manifest is made by a pod
//	queries.go     reading
//	worker.go      claims runs and works on them
//	run.go         the steps of a run
//	write.go       writes files to a branch
//	expiry.go      deletes manifests, files and old runs
//	migrations/    the tables
//
// The manifest of a run is in the request that starts it, or is made from a Git repository by a pod, for
// which the run has a DbtSync. Workers pass over a run that waits for its pod.
//
// A run survives a crash at any point: a replica holds it by a lease, and another one begins it again when
// the lease has expired. Its end and the move of its branch are one transaction, so there is exactly one
// of both.
package dbtsync

import (
	"embed"
	"time"

	"github.com/quoin-dev/quoin/api/v1alpha1"
	"github.com/quoin-dev/quoin/internal/content"
	"github.com/quoin-dev/quoin/internal/dbt"
	"github.com/quoin-dev/quoin/internal/store"
)

//go:embed migrations/*.sql
var migrations embed.FS

// Owner has the tables of syncs.
var Owner = store.Owner{Name: "dbt_sync", Migrations: migrations, Tables: []string{"dbt_sync", "dbt_sync_data", "dbt_sync_delivery"}, Purge: purge}

// purge is Owner.Purge.
var purge = store.PurgeInOrder(
	store.PurgeTable("dbt_sync_data", "account_uid, id, kind"),
	store.PurgeTable("dbt_sync_delivery", "account_uid, id"),
	store.PurgeTable("dbt_sync", "account_uid, id"),
)

// Limits of syncs.
const (
	// MaxRunning is the maximum number of running syncs of a deployment.
	MaxRunning = 10
	// MaxKept is the number of syncs of a deployment that are kept: the newest ones.
	MaxKept = 1000
	// FilesKept is how long generated files are kept after the end of a sync.
	FilesKept = time.Hour
	// manifestKept is how long a manifest is kept at most.
	manifestKept = 24 * time.Hour
	// maxTries is how often a run is begun: it may be what ends the process.
	maxTries = 5
)

// Status is the outcome of a sync.
type Status string

// The outcomes.
const (
	Running   Status = "RUNNING"
	Completed Status = "COMPLETED"
	Failed    Status = "FAILED"
	Cancelled Status = "CANCELLED"
)

// Stage is how far a sync is.
type Stage string

// The stages of a sync, as documented. Those of the pod are in package v1alpha1 too.
const (
	Initializing       Stage = v1alpha1.DbtStageInitializing
	ProcessingManifest Stage = v1alpha1.DbtStageProcessing
	WritingFiles       Stage = "WRITING_CUBE_FILES"
	Finalizing         Stage = "FINALIZING"
	Ended              Stage = "COMPLETED"
	Stopped            Stage = "FAILED"
)

// Output is where generated files go.
type Output string

// The outputs.
const (
	// ToBranch writes the files to a branch of the deployment's repository.
	ToBranch Output = "branch"
	// ToFiles keeps the files to be fetched.
	ToFiles Output = "files"
)

// Sync is a run.
type Sync struct {
	// ID identifies the run in its deployment.
	ID string
	// Number orders the runs of an account.
	Number int64
	// Trigger is what started it: api, manual or webhook.
	Trigger string
	// Source is SourceManifest or SourceGit.
	Source string
	Output Output
	// Ref is the branch or tag of the dbt repository that the caller named; it may be empty.
	Ref string
	// Branch receives the files; empty for ToFiles.
	Branch string
	// StartedBy is a principal: <kind>:<id>.
	StartedBy            string
	StartedAt, UpdatedAt time.Time
	// CompletedAt is zero while it runs.
	CompletedAt time.Time
	Status      Status
	Stage       Stage
	// Error is why it failed, for users.
	Error string
	// ObjectName is the name of its DbtSync; empty if it has none.
	ObjectName string
	Report
}

// The sources of manifests.
const (
	SourceManifest = "manifest"
	SourceGit      = "git"
)

// Report is what is known of a run besides its state.
type Report struct {
	// Push is what has triggered it; nil unless that was a push.
	Push   *Push   `json:"push,omitempty"`
	Phases []Phase `json:"phases,omitempty"`
	// Stats are those of the manifest; nil until it has been read.
	Stats *dbt.Stats `json:"stats,omitempty"`
	// Cubes is the number of generated cubes, and of files.
	Cubes int `json:"cubes,omitempty"`
	// Removed is the number of removed files.
	Removed int `json:"removed,omitempty"`
}

// Phase is a finished phase of a run.
type Phase struct {
	Name string `json:"name"`
	// OK reports whether it succeeded.
	OK bool `json:"ok"`
	// Start is the time since the start of the run.
	Start    time.Duration `json:"start"`
	Duration time.Duration `json:"duration"`
	// Sandbox is true for a phase of the pod, and Message is why it failed.
	Sandbox bool   `json:"sandbox,omitempty"`
	Message string `json:"message,omitempty"`
}

// Entry is an entry of the log of a run.
type Entry struct {
	Time    time.Time `json:"time"`
	Failure bool      `json:"failure,omitempty"`
	Phase   string    `json:"phase,omitempty"`
	Message string    `json:"message"`
	// Duration is that of the phase, in its last entry.
	Duration time.Duration `json:"duration,omitempty"`
}

// File is a generated file.
type File struct {
	Path    string `json:"path"`
	Content string `json:"content"`
}

// Syncs are the syncs of all deployments.
type Syncs struct {
	DB     content.Database
	Record content.Record
	// Now is the clock; time.Now if nil.
	Now func() time.Time
	// Started is called after a sync has been committed, to begin it at once; it may be nil.
	Started func()
}

func (s *Syncs) now() time.Time {
	now := time.Now
	if s.Now != nil {
		now = s.Now
	}
	return now().UTC().Truncate(time.Microsecond)
}

func notFound(id string) error {
	return content.Errorf(content.NotFound, "dbt sync %q does not exist", clip(id))
}

// clip shortens a text of a caller for a message.
func clip(s string) string {
	const most = 100
	runes := []rune(s)
	if len(runes) <= most {
		return s
	}
	return string(runes[:most]) + "…"
}
