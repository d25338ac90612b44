package dbtsync

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"strings"
	"time"

	"github.com/google/uuid"

	"github.com/quoin-dev/quoin/api/v1alpha1"
	"github.com/quoin-dev/quoin/internal/audit"
	"github.com/quoin-dev/quoin/internal/content"
	"github.com/quoin-dev/quoin/internal/store"
)

// New is a sync to start.
type New struct {
	// DeploymentNumber is the id of the deployment, for events.
	DeploymentNumber string
	Trigger          string
	Output           Output
	Ref              string
	// Branch receives the files, Base is the branch from which it is created if it does not exist, that of
	// production if empty, and Root the directory of the data model. They are empty for ToFiles.
	Branch, Base, Root string
	// Catalog is that of Databricks; it may be empty.
	Catalog string
	// AuthorName and AuthorEmail are those of the commit.
	AuthorName, AuthorEmail string
	// Manifest is what the request contained: JSON with the manifest in the field "manifest", gzip. If it
	// is nil, the sync waits until its pod delivers it.
	Manifest []byte
	// Options configure the conversion.
	Options v1alpha1.DbtOptions
	// Git is the dbt project; nil for source manifest.
	Git *v1alpha1.DbtGitSource
	// ID of the sync; a new one if empty. ObjectName and ObjectUID are those of its DbtSync; they are empty
	// for a sync without an object, or whose object does not exist yet.
	ID, ObjectName, ObjectUID string
	// Push is what has triggered it, and Delivery identifies the webhook among those of the deployment, for
	// StartPushed.
	Push     *Push
	Delivery string
}

// objectPrefix is the prefix of the names of DbtSyncs of syncs that are started over REST.
const objectPrefix = "dbt-sync-"

// Start starts a sync on behalf of a principal. A branch has one running sync. A sync without a manifest
// gets a DbtSync, whose name is derived from its id.
func (s *Syncs) Start(ctx context.Context, of content.Scope, by string, in New) (started Sync, err error) {
	err = s.DB.Tx(ctx, func(tx *store.Tx) error {
		if err := tx.LockDeployment(ctx, of.Account, of.Deployment); err != nil {
			return err
		}
		if err := checkRunning(ctx, tx, of, in.Branch); err != nil {
			return err
		}
		started, err = s.begin(ctx, tx, of, by, in)
		return err
	})
	return started, err
}

// begin stores a new sync and its event.
func (s *Syncs) begin(ctx context.Context, tx *store.Tx, of content.Scope, by string, in New) (started Sync, err error) {
	number, err := tx.NextID(ctx, of.Account.UID, "dbt_sync")
	if err != nil {
		return started, err
	}
	started = newSync(in, number, by, s.now())
	if err := insert(ctx, tx, of, &started, in); err != nil {
		return started, err
	}
	if s.Started != nil {
		tx.AfterCommit(s.Started)
	}
	details := map[string]any{"output": string(in.Output), "branch": in.Branch, "trigger": in.Trigger}
	if in.Push != nil {
		details["pushedBranch"], details["commit"] = in.Push.Branch, in.Push.Commit
	}
	return started, s.Record(ctx, tx, event(of, audit.StartedDbtSync, &started, details))
}

// newSync returns the sync of a request.
func newSync(in New, number int64, by string, now time.Time) Sync {
	started := Sync{
		ID: in.ID, Number: number, Trigger: in.Trigger, Source: SourceManifest, Output: in.Output, Ref: in.Ref, Branch: in.Branch,
		StartedBy: by, StartedAt: now, UpdatedAt: now, Status: Running, Stage: Initializing, ObjectName: in.ObjectName,
		Report: Report{Push: in.Push},
	}
	if in.Git != nil {
		started.Source = SourceGit
	}
	if started.ID == "" {
		started.ID = uuid.NewString()
	}
	if started.ObjectName == "" && in.Manifest == nil {
		started.ObjectName = objectPrefix + started.ID
	}
	return started
}

// checkRunning returns an error if another sync of the branch is running, or too many of the deployment.
func checkRunning(ctx context.Context, tx *store.Tx, of content.Scope, branch string) error {
	const query = `SELECT COUNT(*), COALESCE(SUM(CASE WHEN branch = $3 THEN 1 ELSE 0 END), 0) FROM dbt_sync
		WHERE deployment_uid = $1 AND account_uid = $2 AND status = 'RUNNING'`
	var running, same int64
	if err := tx.QueryRowContext(ctx, query, of.Deployment.UID, of.Account.UID, branch).Scan(&running, &same); err != nil {
		return fmt.Errorf("count running syncs: %w", err)
	}
	switch {
	case branch != "" && same > 0:
		return content.Errorf(content.Conflict, "branchName: a dbt sync to branch %q is running; wait for it or cancel it", clip(branch))
	case running >= MaxRunning:
		return content.Errorf(content.Conflict, "%d dbt syncs of the deployment are running; allowed: %d", running, MaxRunning)
	}
	return nil
}

// insert stores a new sync and its manifest, and deletes the oldest ended syncs beyond MaxKept.
func insert(ctx context.Context, tx *store.Tx, of content.Scope, s *Sync, in New) error {
	const statement = `INSERT INTO dbt_sync (account_uid, deployment_uid, id, job, deployment_number, started_from, source, output, git_ref, branch, base_branch, root, catalog,
			started_by, author_name, author_email, started_at, updated_at, completed_at, status, stage, error, report, log, files, lease_owner, lease_until, tries,
			object_name, object_uid, options, git)
		VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13, $14, $15, $16, $17, $17, 0, $18, $19, '', $25, '[]', '[]', '', $20, 0, $21, $22, $23, $24)`
	lease := s.StartedAt.UnixMicro()
	if in.Manifest == nil {
		lease = waiting
	}
	options, err := json.Marshal(in.Options)
	if err != nil {
		return err
	}
	git, err := json.Marshal(in.Git)
	if err != nil {
		return err
	}
	report, err := json.Marshal(s.Report)
	if err != nil {
		return err
	}
	_, err = tx.ExecContext(ctx, statement, of.Account.UID, of.Deployment.UID, s.Number, s.ID, in.DeploymentNumber, s.Trigger, s.Source, string(s.Output), s.Ref,
		s.Branch, in.Base, in.Root, in.Catalog, s.StartedBy, in.AuthorName, in.AuthorEmail, s.StartedAt.UnixMicro(), string(s.Status), string(s.Stage),
		lease, s.ObjectName, in.ObjectUID, string(options), string(git), string(report))
	if err != nil {
		return fmt.Errorf("insert a sync: %w", err)
	}
	if in.Manifest != nil {
		if err := insertData(ctx, tx, of, s.Number, manifestData, in.Manifest, s.StartedAt.Add(manifestKept)); err != nil {
			return err
		}
	}
	const surplus = `DELETE FROM dbt_sync WHERE deployment_uid = $1 AND account_uid = $2 AND status <> 'RUNNING' AND id <= (
		SELECT id FROM dbt_sync WHERE deployment_uid = $1 AND account_uid = $2 ORDER BY id DESC LIMIT 1 OFFSET $3)`
	if _, err := tx.ExecContext(ctx, surplus, of.Deployment.UID, of.Account.UID, MaxKept); err != nil {
		return fmt.Errorf("delete old syncs: %w", err)
	}
	return nil
}

// The kinds of data.
const (
	manifestData = "manifest"
	filesData    = "files"
)

func insertData(ctx context.Context, tx *store.Tx, of content.Scope, number int64, kind string, data []byte, expires time.Time) error {
	const statement = `INSERT INTO dbt_sync_data (account_uid, deployment_uid, id, kind, data, expires_at) VALUES ($1, $2, $3, $4, $5, $6)`
	if _, err := tx.ExecContext(ctx, statement, of.Account.UID, of.Deployment.UID, number, kind, data, expires.UnixMicro()); err != nil {
		return fmt.Errorf("insert the %s of a sync: %w", kind, err)
	}
	return nil
}

// Cancel ends a running sync. It has written nothing, and writes nothing afterwards.
func (s *Syncs) Cancel(ctx context.Context, of content.Scope, id string) error {
	return s.DB.Tx(ctx, func(tx *store.Tx) error {
		if err := tx.LockDeployment(ctx, of.Account, of.Deployment); err != nil {
			return err
		}
		found, err := get(ctx, tx, of, id)
		switch {
		case err != nil:
			return err
		case found.Status == Cancelled:
			return nil
		case found.Status != Running:
			return content.Errorf(content.Conflict, "dbt sync %s has ended: %s", found.ID, found.Status)
		}
		const statement = `UPDATE dbt_sync SET status = 'CANCELLED', error = $5, completed_at = $4, updated_at = $4, lease_owner = ''
			WHERE account_uid = $1 AND deployment_uid = $2 AND id = $3 AND status = 'RUNNING'`
		if _, err := tx.ExecContext(ctx, statement, of.Account.UID, of.Deployment.UID, found.Number, s.now().UnixMicro(), v1alpha1.DbtCancelled); err != nil {
			return fmt.Errorf("cancel a sync: %w", err)
		}
		if err := deleteManifest(ctx, tx, of, found.Number); err != nil {
			return err
		}
		return s.Record(ctx, tx, event(of, audit.FinishedDbtSync, &found, map[string]any{"status": string(Cancelled)}))
	})
}

func deleteManifest(ctx context.Context, tx *store.Tx, of content.Scope, number int64) error {
	const statement = `DELETE FROM dbt_sync_data WHERE account_uid = $1 AND deployment_uid = $2 AND id = $3 AND kind = $4`
	if _, err := tx.ExecContext(ctx, statement, of.Account.UID, of.Deployment.UID, number, manifestData); err != nil {
		return fmt.Errorf("delete the manifest of a sync: %w", err)
	}
	return nil
}

// maxRefInBranch is the number of characters of the ref in the name of a new branch.
const maxRefInBranch = 40

// NewBranch returns the documented name of a new branch: dbt-sync/<ref>-<time>-<suffix>.
func NewBranch(of New, now time.Time) string {
	ref := of.Ref
	switch {
	case ref != "":
	case of.Git == nil:
		ref = SourceManifest
	case of.Git.Ref != "":
		ref = of.Git.Ref
	default:
		ref = SourceGit
	}
	ref = strings.Map(func(r rune) rune {
		if r == '.' || r == '_' || r == '-' || r >= '0' && r <= '9' || r >= 'A' && r <= 'Z' || r >= 'a' && r <= 'z' {
			return r
		}
		return '-'
	}, ref)
	ref = strings.TrimLeft(strings.ReplaceAll(ref[:min(len(ref), maxRefInBranch)], "..", "--"), ".")
	suffix := make([]byte, 4)
	_, _ = rand.Read(suffix) // never fails
	return "dbt-sync/" + ref + "-" + now.UTC().Format("20060102150405") + "-" + hex.EncodeToString(suffix)
}
