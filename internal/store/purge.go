package store

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"k8s.io/utils/clock"
)

// Deleted names whose rows an owner purges.
type Deleted struct {
	AccountUID string
	// DeploymentUID is set if only this deployment of the account is deleted.
	DeploymentUID string
}

// Cluster reports which objects exist. UIDs are never reused, so the content of an object that
// does not exist is never needed again. An implementation must return true or an error unless the
// API server itself, not a cache, reports that no object has the name, or one with another UID.
type Cluster interface {
	AccountExists(ctx context.Context, a Account) (bool, error)
	DeploymentExists(ctx context.Context, d Deployment) (bool, error)
}

// PurgeTable returns Owner.Purge for a table with the columns account_uid and deployment_uid; key are
// the columns of its primary key.
func PurgeTable(table, key string) func(ctx context.Context, tx *Tx, of Deleted, limit int) (more bool, err error) {
	return func(ctx context.Context, tx *Tx, of Deleted, limit int) (bool, error) {
		where, args := "account_uid = $1 LIMIT $2", []any{of.AccountUID, limit}
		if of.DeploymentUID != "" {
			where, args = "account_uid = $1 AND deployment_uid = $2 LIMIT $3", []any{of.AccountUID, of.DeploymentUID, limit}
		}
		result, err := tx.ExecContext(ctx, fmt.Sprintf("DELETE FROM %s WHERE (%s) IN (SELECT %s FROM %s WHERE %s)", table, key, key, table, where), args...)
		if err != nil {
			return false, err
		}
		deleted, err := result.RowsAffected()
		return int(deleted) == limit, err
	}
}

// PurgeInOrder returns Owner.Purge for several tables: rows of one are deleted when those before it have none left.
func PurgeInOrder(tables ...func(ctx context.Context, tx *Tx, of Deleted, limit int) (more bool, err error)) func(ctx context.Context, tx *Tx, of Deleted, limit int) (more bool, err error) {
	return func(ctx context.Context, tx *Tx, of Deleted, limit int) (bool, error) {
		for _, purge := range tables {
			if more, err := purge(ctx, tx, of, limit); more || err != nil {
				return more, err
			}
		}
		return false, nil
	}
}

const (
	// purgeLimit is the maximum number of rows that one transaction of a purge deletes.
	purgeLimit = 500
	// purgePage is the number of accounts or deployments that are read at once.
	purgePage = 200
)

// Purger deletes the content of deleted accounts and deployments. Its state is in the database:
// after a crash at any point the next scan continues. Any number of replicas may run it.
type Purger struct {
	Store   *Store
	Cluster Cluster
	// Delay is how long an object must have been absent before its content is deleted. Within it
	// content can be assigned to an object that was restored from a backup with another UID.
	Delay time.Duration
	Clock clock.PassiveClock
	Log   *slog.Logger
}

// Run scans at an interval until the context ends.
func (p *Purger) Run(ctx context.Context, interval time.Duration) error {
	return Repeat(ctx, interval, p.Log, "Content of deleted accounts or deployments could not be purged", p.Scan)
}

// recorded is a row of the tables account and deployment.
type recorded struct {
	account     Account
	deployment  Deployment // zero for an account
	absentSince int64
}

func (r recorded) uid() string {
	if r.deployment.UID != "" {
		return r.deployment.UID
	}
	return r.account.UID
}

// Scan checks all recorded accounts and deployments once, and purges the content of those that are
// absent. The failure of one does not keep others from being purged.
func (p *Purger) Scan(ctx context.Context) error {
	accounts := p.scan(ctx, "account",
		"SELECT uid, name, '', '', '', absent_since FROM account WHERE uid > $1 ORDER BY uid LIMIT $2",
		func(ctx context.Context, r recorded) (bool, error) { return p.Cluster.AccountExists(ctx, r.account) })
	deployments := p.scan(ctx, "deployment",
		"SELECT account_uid, '', uid, namespace, name, absent_since FROM deployment WHERE uid > $1 ORDER BY uid LIMIT $2",
		func(ctx context.Context, r recorded) (bool, error) {
			return p.Cluster.DeploymentExists(ctx, r.deployment)
		})
	return errors.Join(accounts, deployments)
}

func (p *Purger) scan(ctx context.Context, table, query string, exists func(context.Context, recorded) (bool, error)) error {
	var failed []error
	for last := ""; ; {
		page, err := p.page(ctx, query, last)
		if err != nil {
			return errors.Join(append(failed, fmt.Errorf("list rows of %s: %w", table, err))...)
		}
		for _, r := range page {
			last = r.uid()
			if err := p.visit(ctx, table, r, exists); err != nil {
				failed = append(failed, fmt.Errorf("%s %q: %w", table, last, err))
			}
		}
		if len(page) < purgePage || ctx.Err() != nil {
			return errors.Join(failed...)
		}
	}
}

func (p *Purger) page(ctx context.Context, query, after string) (page []recorded, err error) {
	rows, err := p.Store.Reader().QueryContext(ctx, query, after, purgePage)
	if err != nil {
		return nil, err
	}
	defer func() { _ = rows.Close() }()
	for rows.Next() {
		var r recorded
		if err := rows.Scan(&r.account.UID, &r.account.Name, &r.deployment.UID, &r.deployment.Namespace, &r.deployment.Name, &r.absentSince); err != nil {
			return nil, err
		}
		page = append(page, r)
	}
	return page, rows.Err()
}

// visit purges the content of an object that has been absent for the delay.
func (p *Purger) visit(ctx context.Context, table string, r recorded, exists func(context.Context, recorded) (bool, error)) error {
	present, err := exists(ctx, r)
	if err != nil {
		return err
	}
	now := p.Clock.Now()
	absentSince := now.UnixMicro()
	switch {
	case present:
		absentSince = 0
	case r.absentSince != 0:
		absentSince = r.absentSince
	}
	if absentSince != r.absentSince {
		err := p.Store.Tx(ctx, func(tx *Tx) error {
			_, err := tx.ExecContext(ctx, "UPDATE "+table+" SET absent_since = $2 WHERE uid = $1", r.uid(), absentSince)
			return err
		})
		if err != nil {
			return err
		}
	}
	if present || now.Sub(time.UnixMicro(absentSince)) < p.Delay {
		return nil
	}
	return p.purge(ctx, table, r)
}

// purge deletes the rows of all owners in bounded transactions, and then the record of the object.
// Foreign keys keep the record while an owner has rows left, such as those written meanwhile by a
// request that began before the object was deleted: the next scan purges them.
func (p *Purger) purge(ctx context.Context, table string, r recorded) error {
	of := Deleted{AccountUID: r.account.UID, DeploymentUID: r.deployment.UID}
	for _, owner := range p.Store.owners {
		if owner.Purge == nil {
			continue
		}
		for more := true; more; {
			err := p.Store.Tx(ctx, func(tx *Tx) (err error) {
				more, err = owner.Purge(ctx, tx, of, purgeLimit)
				return err
			})
			if err != nil {
				return fmt.Errorf("purge content of %q: %w", owner.Name, err)
			}
		}
	}
	err := p.Store.Tx(ctx, func(tx *Tx) error {
		statements := []string{"DELETE FROM deployment WHERE uid = $1"}
		if r.deployment.UID == "" {
			statements = []string{"DELETE FROM account_sequence WHERE account_uid = $1", "DELETE FROM deployment WHERE account_uid = $1", "DELETE FROM account WHERE uid = $1"}
		}
		for _, statement := range statements {
			if _, err := tx.ExecContext(ctx, statement, r.uid()); err != nil {
				return err
			}
		}
		return nil
	})
	if err != nil {
		return fmt.Errorf("delete the record: %w", err)
	}
	p.Log.Info("Purged content", "kind", table, "account", r.account.Name, "deployment", r.deployment.Name, "uid", r.uid())
	return nil
}
