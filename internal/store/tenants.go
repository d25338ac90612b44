package store

import (
	"context"
	"fmt"
	"time"
)

// Account is an account of the cluster.
type Account struct{ UID, Name string }

// Deployment is a deployment of the cluster.
type Deployment struct{ UID, Namespace, Name string }

// MaxID is the largest integer id: the last one that every JSON reader represents exactly (RFC
// 8259, section 6).
const MaxID = 1<<53 - 1

// LockAccount records an account and locks it until the transaction ends. Every transaction that
// changes content of an account calls it first, so changes of one account are serialized on both
// databases, and Purge finds the content of every account that is deleted.
func (t *Tx) LockAccount(ctx context.Context, a Account) error {
	if err := t.Batch(ctx, lockAccount(a)); err != nil {
		return fmt.Errorf("lock account %q: %w", a.Name, err)
	}
	return nil
}

func lockAccount(a Account) *Statement {
	const statement = `INSERT INTO account (uid, name, first_seen, last_seen) VALUES ($1, $2, $3, $3)
		ON CONFLICT (uid) DO UPDATE SET name = excluded.name, last_seen = excluded.last_seen`
	return &Statement{Query: statement, Args: []any{a.UID, a.Name, time.Now().UnixMicro()}}
}

// LockDeployment is LockAccount for content of a deployment. It locks the account, and records the
// deployment too.
func (t *Tx) LockDeployment(ctx context.Context, a Account, d Deployment) error {
	if err := t.Batch(ctx, LockDeployment(a, d)...); err != nil {
		return fmt.Errorf("lock deployment %s/%s: %w", d.Namespace, d.Name, err)
	}
	return nil
}

// LockDeployment returns the statements of Tx.LockDeployment, with which a batch begins.
func LockDeployment(a Account, d Deployment) []*Statement {
	const statement = `INSERT INTO deployment (uid, account_uid, namespace, name, first_seen, last_seen) VALUES ($1, $2, $3, $4, $5, $5)
		ON CONFLICT (uid) DO UPDATE SET last_seen = excluded.last_seen`
	return []*Statement{lockAccount(a), {Query: statement, Args: []any{d.UID, a.UID, d.Namespace, d.Name, time.Now().UnixMicro()}}}
}

// NextID returns the next integer id of a sequence of an account, from 1. An id is never issued
// again, also after its row was deleted. The account must be locked.
func (t *Tx) NextID(ctx context.Context, accountUID, sequence string) (int64, error) {
	const statement = `INSERT INTO account_sequence (account_uid, name, last) VALUES ($1, $2, 1)
		ON CONFLICT (account_uid, name) DO UPDATE SET last = account_sequence.last + 1 RETURNING last`
	var id int64
	if err := t.QueryRowContext(ctx, statement, accountUID, sequence).Scan(&id); err != nil {
		return 0, fmt.Errorf("issue an id of sequence %q: %w", sequence, err)
	}
	if id > MaxID {
		return 0, fmt.Errorf("sequence %q is exhausted", sequence)
	}
	return id, nil
}
