package dbtsync

import (
	"context"
	"database/sql"
	"encoding/json"
	"errors"
	"fmt"

	"github.com/quoin-dev/quoin/internal/content"
	"github.com/quoin-dev/quoin/internal/store"
)

// TriggerWebhook is the trigger of syncs that a push to the dbt repository has started.
const TriggerWebhook = "webhook"

// MaxDeliveries is the number of webhooks of a deployment that are remembered: the newest ones.
const MaxDeliveries = 1000

// Push is a push to the dbt repository.
type Push struct {
	// Branch is the pushed branch or tag.
	Branch string `json:"branch"`
	// Commit is its new commit; empty if the Git host has not named it.
	Commit string `json:"commit,omitempty"`
}

// StartPushed starts a sync after a push to the dbt repository, and reports whether it did. There is none to
// start if the webhook is known by in.Delivery, or if a sync of the same project has not fetched the repository
// yet: that one is returned then.
//
// Of the syncs that pushes start, one of a deployment runs and one waits for its end: see Queue.
func (s *Syncs) StartPushed(ctx context.Context, of content.Scope, by string, in New) (found Sync, started bool, err error) {
	in.Trigger = TriggerWebhook
	err = s.DB.Tx(ctx, func(tx *store.Tx) error {
		if err := tx.LockDeployment(ctx, of.Account, of.Deployment); err != nil {
			return err
		}
		known := false
		if found, known, err = delivered(ctx, tx, of, in.Delivery); err != nil || known {
			return err
		}
		covered := false
		if found, covered, err = s.cover(ctx, tx, of, in); err != nil {
			return err
		}
		if started = !covered; started {
			if found, err = s.begin(ctx, tx, of, by, in); err != nil {
				return err
			}
		}
		return remember(ctx, tx, of, in.Delivery, found.ID)
	})
	if err != nil {
		return Sync{}, false, err
	}
	return found, started, nil
}

// delivered returns the sync with which a webhook has been answered.
func delivered(ctx context.Context, tx *store.Tx, of content.Scope, delivery string) (found Sync, known bool, err error) {
	const query = `SELECT job FROM dbt_sync_delivery WHERE account_uid = $1 AND deployment_uid = $2 AND delivery = $3`
	var job string
	err = tx.QueryRowContext(ctx, query, of.Account.UID, of.Deployment.UID, delivery).Scan(&job)
	if errors.Is(err, sql.ErrNoRows) {
		return found, false, nil
	}
	if err != nil {
		return found, false, fmt.Errorf("find a webhook: %w", err)
	}
	found, err = get(ctx, tx, of, job)
	var missing *content.Error
	if errors.As(err, &missing) && missing.Reason == content.NotFound {
		return Sync{ID: job}, true, nil // it was started long ago, and has been deleted
	}
	return found, true, err
}

// cover returns the queued sync of the same project, which fetches the repository after this push.
func (s *Syncs) cover(ctx context.Context, tx *store.Tx, of content.Scope, in New) (found Sync, covered bool, err error) {
	git, err := json.Marshal(in.Git)
	if err != nil {
		return found, false, err
	}
	options, err := json.Marshal(in.Options)
	if err != nil {
		return found, false, err
	}
	const query = "SELECT " + syncColumns + ` FROM dbt_sync WHERE account_uid = $1 AND deployment_uid = $2 AND status = 'RUNNING' AND started_from = $3
		AND object_uid = '' AND git = $4 AND options = $5 ORDER BY id DESC LIMIT 1`
	err = scan(tx.QueryRowContext(ctx, query, of.Account.UID, of.Deployment.UID, TriggerWebhook, string(git), string(options)), &found)
	if errors.Is(err, sql.ErrNoRows) {
		return found, false, nil
	}
	if err != nil {
		return found, false, fmt.Errorf("find a queued sync: %w", err)
	}
	found.Push, found.UpdatedAt = in.Push, s.now()
	report, err := json.Marshal(found.Report)
	if err != nil {
		return found, false, err
	}
	const statement = `UPDATE dbt_sync SET report = $3, updated_at = $4 WHERE account_uid = $1 AND id = $2`
	if _, err := tx.ExecContext(ctx, statement, of.Account.UID, found.Number, string(report), found.UpdatedAt.UnixMicro()); err != nil {
		return found, false, fmt.Errorf("update a queued sync: %w", err)
	}
	return found, true, nil
}

// remember stores with which sync a webhook is answered, and forgets the oldest ones beyond MaxDeliveries.
func remember(ctx context.Context, tx *store.Tx, of content.Scope, delivery, job string) error {
	id, err := tx.NextID(ctx, of.Account.UID, "dbt_sync_delivery")
	if err != nil {
		return err
	}
	const statement = `INSERT INTO dbt_sync_delivery (account_uid, deployment_uid, id, delivery, job) VALUES ($1, $2, $3, $4, $5)`
	if _, err := tx.ExecContext(ctx, statement, of.Account.UID, of.Deployment.UID, id, delivery, job); err != nil {
		return fmt.Errorf("store a webhook: %w", err)
	}
	const surplus = `DELETE FROM dbt_sync_delivery WHERE deployment_uid = $1 AND account_uid = $2 AND id <= (
		SELECT id FROM dbt_sync_delivery WHERE deployment_uid = $1 AND account_uid = $2 ORDER BY id DESC LIMIT 1 OFFSET $3)`
	if _, err := tx.ExecContext(ctx, surplus, of.Deployment.UID, of.Account.UID, MaxDeliveries); err != nil {
		return fmt.Errorf("delete old webhooks: %w", err)
	}
	return nil
}

// Queue tells of the syncs of Pending, in their order, which have to wait: those that a push has started while
// an earlier one of the deployment runs. The zero value is ready to use.
type Queue struct {
	busy map[string]bool
}

// Waits reports whether the next sync has to wait. It has no DbtSync then.
func (q *Queue) Waits(p *Pending) bool {
	if p.Trigger != TriggerWebhook {
		return false
	}
	of := p.Scope.Account.UID + "/" + p.Scope.Deployment.UID
	if q.busy[of] {
		return p.ObjectUID == ""
	}
	if q.busy == nil {
		q.busy = map[string]bool{}
	}
	q.busy[of] = true
	return false
}
