package dbtsync

import (
	"context"
	"database/sql"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"time"

	"github.com/quoin-dev/quoin/api/v1alpha1"
	"github.com/quoin-dev/quoin/internal/audit"
	"github.com/quoin-dev/quoin/internal/content"
	"github.com/quoin-dev/quoin/internal/store"
)

// waiting is lease_until of a run that waits for its pod: no worker claims it.
const waiting = math.MaxInt64

// Pending is a running sync with a DbtSync.
type Pending struct {
	Sync
	Scope content.Scope
	// ObjectUID is that of the DbtSync; empty if it may not exist yet.
	ObjectUID string
	// Git is the dbt project; nil for source manifest.
	Git *v1alpha1.DbtGitSource
	// Options configure the conversion.
	Options v1alpha1.DbtOptions
	// Waits reports whether it waits for its pod.
	Waits bool
}

const pendingColumns = ", object_uid, options, git, lease_until"

// scanPending reads a row with syncColumns and pendingColumns.
func scanPending(row interface{ Scan(into ...any) error }, p *Pending, more ...any) error {
	var options, git string
	var lease int64
	if err := scan(row, &p.Sync, append([]any{&p.ObjectUID, &options, &git, &lease}, more...)...); err != nil {
		return err
	}
	p.Waits = p.Status == Running && lease == waiting
	return errors.Join(json.Unmarshal([]byte(options), &p.Options), json.Unmarshal([]byte(git), &p.Git))
}

// Pending returns the running syncs of all deployments that have a DbtSync, at most limit, after one in their order; the first
// ones if that is nil.
func (s *Syncs) Pending(ctx context.Context, after *Pending, limit int) (all []Pending, err error) {
	const query = "SELECT " + syncColumns + pendingColumns + `, account_uid, deployment_uid,
			(SELECT name FROM account WHERE uid = account_uid), (SELECT namespace FROM deployment WHERE uid = deployment_uid), (SELECT name FROM deployment WHERE uid = deployment_uid)
		FROM dbt_sync WHERE status = 'RUNNING' AND object_name <> '' AND (account_uid, id) > ($1, $2) ORDER BY account_uid, id LIMIT $3`
	account, number := "", int64(0)
	if after != nil {
		account, number = after.Scope.Account.UID, after.Number
	}
	err = s.DB.Read(ctx, func(q store.Querier) error {
		all = nil
		rows, err := q.QueryContext(ctx, query, account, number, limit)
		if err != nil {
			return fmt.Errorf("read pending syncs: %w", err)
		}
		defer func() { _ = rows.Close() }()
		for rows.Next() {
			var p Pending
			of := &p.Scope
			if err := scanPending(rows, &p, &of.Account.UID, &of.Deployment.UID, &of.Account.Name, &of.Deployment.Namespace, &of.Deployment.Name); err != nil {
				return fmt.Errorf("read pending syncs: %w", err)
			}
			all = append(all, p)
		}
		return rows.Err()
	})
	return all, err
}

// OfObject returns the sync of a DbtSync; nil if it has none. The sync of an object that a user has created
// has the UID of the object as its id.
func (s *Syncs) OfObject(ctx context.Context, of content.Scope, name, uid string) (found *Pending, err error) {
	const query = "SELECT " + syncColumns + pendingColumns + ` FROM dbt_sync
		WHERE account_uid = $1 AND deployment_uid = $2 AND object_name = $3 AND (object_uid = $4 OR object_uid = '' OR job = $4) ORDER BY id DESC LIMIT 1`
	err = s.DB.Read(ctx, func(q store.Querier) error {
		p := &Pending{Scope: of}
		err := scanPending(q.QueryRowContext(ctx, query, of.Account.UID, of.Deployment.UID, name, uid), p)
		if errors.Is(err, sql.ErrNoRows) {
			return nil
		}
		if err != nil {
			return fmt.Errorf("read the sync of an object: %w", err)
		}
		found = p
		return nil
	})
	return found, err
}

// Created stores that the DbtSync of a sync exists.
func (s *Syncs) Created(ctx context.Context, p *Pending, uid string) error {
	return s.DB.Tx(ctx, func(tx *store.Tx) error {
		const statement = `UPDATE dbt_sync SET object_uid = $3 WHERE account_uid = $1 AND id = $2 AND object_uid = ''`
		_, err := tx.ExecContext(ctx, statement, p.Scope.Account.UID, p.Number, uid)
		return err
	})
}

// Progress stores the stage and the phases of the pod of a waiting sync, if they differ.
func (s *Syncs) Progress(ctx context.Context, p *Pending, stage Stage, phases []Phase) error {
	next := p.Sync
	next.Stage, next.Phases = stage, phases
	if next.Stage == p.Stage && samePhases(next.Phases, p.Phases) {
		return nil
	}
	return s.DB.Tx(ctx, func(tx *store.Tx) error {
		_, err := s.putWaiting(ctx, tx, p, &next, waiting)
		return err
	})
}

// putWaiting stores the state of a waiting sync. It reports whether the sync still waits.
func (s *Syncs) putWaiting(ctx context.Context, tx *store.Tx, p *Pending, next *Sync, lease int64) (bool, error) {
	report, err := json.Marshal(next.Report)
	if err != nil {
		return false, err
	}
	log, err := json.Marshal(logOf(next))
	if err != nil {
		return false, err
	}
	completed := int64(0)
	if !next.CompletedAt.IsZero() {
		completed = next.CompletedAt.UnixMicro()
	}
	const statement = `UPDATE dbt_sync SET status = $3, stage = $4, error = $5, report = $6, log = $7, completed_at = $8, updated_at = $9, lease_until = $10
		WHERE account_uid = $1 AND id = $2 AND status = 'RUNNING' AND lease_until = $11`
	result, err := tx.ExecContext(ctx, statement, p.Scope.Account.UID, p.Number, string(next.Status), string(next.Stage), next.Error, string(report), string(log),
		completed, s.now().UnixMicro(), lease, int64(waiting))
	if err != nil {
		return false, fmt.Errorf("update a sync: %w", err)
	}
	changed, err := result.RowsAffected()
	return changed == 1, err
}

// Deliver stores the manifest of a waiting sync: JSON with the manifest in the field "manifest", gzip. A
// pod that has no response sends it again.
func (s *Syncs) Deliver(ctx context.Context, p *Pending, manifest []byte) error {
	return s.DB.Tx(ctx, func(tx *store.Tx) error {
		if err := tx.LockDeployment(ctx, p.Scope.Account, p.Scope.Deployment); err != nil {
			return err
		}
		found, err := get(ctx, tx, p.Scope, p.ID)
		if err != nil {
			return err
		}
		if found.Status != Running {
			return content.Errorf(content.Conflict, "dbt sync %s has ended: %s", found.ID, found.Status)
		}
		var lease int64
		if _, err := read(ctx, tx, p.Scope, p.ID, ", lease_until", &lease); err != nil {
			return err
		}
		if lease != waiting {
			return nil // it has the manifest already
		}
		if err := deleteManifest(ctx, tx, p.Scope, p.Number); err != nil {
			return err
		}
		return insertData(ctx, tx, p.Scope, p.Number, manifestData, manifest, s.now().Add(manifestKept))
	})
}

// Release lets workers begin a sync whose pod has ended. A sync without a manifest fails.
func (s *Syncs) Release(ctx context.Context, p *Pending, phases []Phase) error {
	next := p.Sync
	next.Phases, next.Stage = phases, ProcessingManifest
	missing := false
	err := s.DB.Tx(ctx, func(tx *store.Tx) error {
		var count int
		const query = `SELECT COUNT(*) FROM dbt_sync_data WHERE account_uid = $1 AND id = $2 AND kind = $3`
		if err := tx.QueryRowContext(ctx, query, p.Scope.Account.UID, p.Number, manifestData).Scan(&count); err != nil {
			return fmt.Errorf("find the manifest of a sync: %w", err)
		}
		if missing = count == 0; missing {
			return nil
		}
		if s.Started != nil {
			tx.AfterCommit(s.Started)
		}
		_, err := s.putWaiting(ctx, tx, p, &next, s.now().UnixMicro())
		return err
	})
	if err == nil && missing {
		return s.Fail(ctx, p, ProcessingManifest, phases, "the pod has ended without delivering the manifest")
	}
	return err
}

// Fail ends a waiting sync with an error for users.
func (s *Syncs) Fail(ctx context.Context, p *Pending, stage Stage, phases []Phase, message string) error {
	next := p.Sync
	next.Status, next.Stage, next.Error, next.CompletedAt = Failed, stage, message, s.now()
	if phases != nil {
		next.Phases = phases
	}
	return s.DB.Tx(ctx, func(tx *store.Tx) error {
		if err := tx.LockDeployment(ctx, p.Scope.Account, p.Scope.Deployment); err != nil {
			return err
		}
		if ended, err := s.putWaiting(ctx, tx, p, &next, waiting); err != nil || !ended {
			return err
		}
		if err := deleteManifest(ctx, tx, p.Scope, p.Number); err != nil {
			return err
		}
		tx.AfterCommit(func() { observe(&next, next.CompletedAt) })
		e := event(p.Scope, audit.FinishedDbtSync, &next, map[string]any{"status": string(Failed), "error": message})
		e.Outcome = audit.Failed
		return s.Record(ctx, tx, e)
	})
}

// sandboxPhases returns the phases of the pod.
func sandboxPhases(all []Phase) (phases []Phase) {
	for _, p := range all {
		if p.Sandbox {
			phases = append(phases, p)
		}
	}
	return phases
}

func samePhases(a, b []Phase) bool {
	if len(a) != len(b) {
		return false
	}
	for i := range a {
		if a[i] != b[i] {
			return false
		}
	}
	return true
}

// logOf returns the log of a sync before a worker has begun it.
func logOf(s *Sync) []Entry {
	first := "Started a sync of an uploaded manifest"
	if s.Source == SourceGit {
		first = "Started a sync of a Git repository"
	}
	log := []Entry{{Time: s.StartedAt, Message: first}}
	for _, p := range sandboxPhases(s.Phases) {
		e := Entry{Time: s.StartedAt.Add(p.Start + p.Duration), Phase: p.Name, Duration: max(p.Duration, time.Millisecond), Message: "Completed"}
		if !p.OK {
			e.Failure, e.Message = true, p.Message
		}
		log = append(log, e)
	}
	if s.Status == Failed && (len(log) == 1 || !log[len(log)-1].Failure) {
		log = append(log, Entry{Time: s.CompletedAt, Failure: true, Message: s.Error})
	}
	return log
}
