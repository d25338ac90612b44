package dbtsync

import (
	"context"
	"fmt"
	"time"

	"github.com/google/uuid"

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
	// Branch receives the files, Base is the branch from which it is created if it does not exist, and Root
	// the directory of the data model. They are empty for ToFiles.
	Branch, Base, Root string
	// Catalog is that of Databricks; it may be empty.
	Catalog string
	// AuthorName and AuthorEmail are those of the commit.
	AuthorName, AuthorEmail string
	// Manifest is what the request contained: JSON with the manifest in the field "manifest", gzip.
	Manifest []byte
}

// Start starts a sync on behalf of a principal. A branch has one running sync.
func (s *Syncs) Start(ctx context.Context, of content.Scope, by string, in New) (started Sync, err error) {
	err = s.DB.Tx(ctx, func(tx *store.Tx) error {
		if err := tx.LockDeployment(ctx, of.Account, of.Deployment); err != nil {
			return err
		}
		if err := checkRunning(ctx, tx, of, in.Branch); err != nil {
			return err
		}
		number, err := tx.NextID(ctx, of.Account.UID, "dbt_sync")
		if err != nil {
			return err
		}
		now := s.now()
		started = Sync{
			ID: uuid.NewString(), Number: number, Trigger: in.Trigger, Source: "manifest", Output: in.Output, Ref: in.Ref, Branch: in.Branch,
			StartedBy: by, StartedAt: now, UpdatedAt: now, Status: Running, Stage: Initializing,
		}
		if err := insert(ctx, tx, of, &started, in); err != nil {
			return err
		}
		if s.Started != nil {
			tx.AfterCommit(s.Started)
		}
		return s.Record(ctx, tx, event(of, audit.StartedDbtSync, &started, map[string]any{"output": string(in.Output), "branch": in.Branch}))
	})
	return started, err
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
			started_by, author_name, author_email, started_at, updated_at, completed_at, status, stage, error, report, log, files, lease_owner, lease_until, tries)
		VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13, $14, $15, $16, $17, $17, 0, $18, $19, '', '{}', '[]', '[]', '', $17, 0)`
	_, err := tx.ExecContext(ctx, statement, of.Account.UID, of.Deployment.UID, s.Number, s.ID, in.DeploymentNumber, s.Trigger, s.Source, string(s.Output), s.Ref,
		s.Branch, in.Base, in.Root, in.Catalog, s.StartedBy, in.AuthorName, in.AuthorEmail, s.StartedAt.UnixMicro(), string(s.Status), string(s.Stage))
	if err != nil {
		return fmt.Errorf("insert a sync: %w", err)
	}
	if err := insertData(ctx, tx, of, s.Number, manifestData, in.Manifest, s.StartedAt.Add(manifestKept)); err != nil {
		return err
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
		const statement = `UPDATE dbt_sync SET status = 'CANCELLED', error = 'the sync was cancelled', completed_at = $4, updated_at = $4, lease_owner = ''
			WHERE account_uid = $1 AND deployment_uid = $2 AND id = $3 AND status = 'RUNNING'`
		if _, err := tx.ExecContext(ctx, statement, of.Account.UID, of.Deployment.UID, found.Number, s.now().UnixMicro()); err != nil {
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
