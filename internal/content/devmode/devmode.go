// Package devmode keeps what Git does not know of the branches of a deployment: the branch from which
// each was created, the owners of personal branches, and the branch that each principal has active in
// dev mode.
//
// Rows follow the branches of the repository: a change of both is one transaction, in which the
// functions with a *store.Tx run. Rows of branches that were deleted by a push are ignored by
// readers, and removed by Retain.
package devmode

import (
	"context"
	"database/sql"
	"embed"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/quoin-dev/quoin/internal/content"
	"github.com/quoin-dev/quoin/internal/store"
)

//go:embed migrations/*.sql
var migrations embed.FS

// Owner has the tables of branches and sessions.
var Owner = store.Owner{Name: "devmode", Migrations: migrations, Tables: []string{"devmode_branch", "devmode_session"}, Purge: purge}

// MaxSessions is the number of principals of a deployment whose active branch is kept: those who have
// entered dev mode last.
const MaxSessions = 1000

// purge is Owner.Purge.
var purge = store.PurgeInOrder(
	store.PurgeTable("devmode_session", "account_uid, deployment_uid, principal"),
	store.PurgeTable("devmode_branch", "account_uid, deployment_uid, name"),
)

// Branch is what is kept of a branch.
type Branch struct {
	Name string
	// Parent is the branch from which it was created.
	Parent string
	// Owner is the principal whose personal branch it is: <kind>:<id>; empty for a shared branch.
	Owner string
}

// State is what is kept of a deployment, as one principal uses it.
type State struct {
	// Active is the branch that the principal has active in dev mode; empty outside of it. The branch
	// may have been deleted by a push.
	Active string
	// Branches are those that are kept, by name.
	Branches map[string]Branch
}

// DevMode is the dev mode of all deployments.
type DevMode struct{ DB content.Database }

// State returns the state of a deployment for a principal.
func (m *DevMode) State(ctx context.Context, s content.Scope, principal string) (state State, err error) {
	err = m.DB.Read(ctx, func(q store.Querier) error {
		state = State{Branches: map[string]Branch{}}
		const active = "SELECT branch FROM devmode_session WHERE account_uid = $1 AND deployment_uid = $2 AND principal = $3"
		err := q.QueryRowContext(ctx, active, s.Account.UID, s.Deployment.UID, principal).Scan(&state.Active)
		if err != nil && !errors.Is(err, sql.ErrNoRows) {
			return fmt.Errorf("read the active branch: %w", err)
		}
		const branches = "SELECT name, parent, owner FROM devmode_branch WHERE account_uid = $1 AND deployment_uid = $2"
		rows, err := q.QueryContext(ctx, branches, s.Account.UID, s.Deployment.UID)
		if err != nil {
			return fmt.Errorf("read the parents of branches: %w", err)
		}
		defer func() { _ = rows.Close() }()
		for rows.Next() {
			var b Branch
			if err := rows.Scan(&b.Name, &b.Parent, &b.Owner); err != nil {
				return fmt.Errorf("read the parents of branches: %w", err)
			}
			state.Branches[b.Name] = b
		}
		return rows.Err()
	})
	return state, err
}

// Put keeps a branch.
func Put(ctx context.Context, tx *store.Tx, s content.Scope, b Branch) error {
	const statement = `INSERT INTO devmode_branch (account_uid, deployment_uid, name, parent, owner) VALUES ($1, $2, $3, $4, $5)
		ON CONFLICT (account_uid, deployment_uid, name) DO UPDATE SET parent = excluded.parent, owner = excluded.owner`
	if _, err := tx.ExecContext(ctx, statement, s.Account.UID, s.Deployment.UID, b.Name, b.Parent, b.Owner); err != nil {
		return fmt.Errorf("keep branch %q: %w", b.Name, err)
	}
	return nil
}

// Delete removes a branch. Its children get its parent, which is that of a branch without row if
// empty, and the principals who have it active leave dev mode.
func Delete(ctx context.Context, tx *store.Tx, s content.Scope, name, parent string) error {
	for _, statement := range []struct {
		text string
		args []any
	}{
		{"UPDATE devmode_branch SET parent = $4 WHERE account_uid = $1 AND deployment_uid = $2 AND parent = $3", []any{parent}},
		{"DELETE FROM devmode_session WHERE account_uid = $1 AND deployment_uid = $2 AND branch = $3", nil},
		{"DELETE FROM devmode_branch WHERE account_uid = $1 AND deployment_uid = $2 AND name = $3", nil},
	} {
		args := append([]any{s.Account.UID, s.Deployment.UID, name}, statement.args...)
		if _, err := tx.ExecContext(ctx, statement.text, args...); err != nil {
			return fmt.Errorf("remove branch %q: %w", name, err)
		}
	}
	return nil
}

// Retain removes the rows of all branches but those with the names.
func Retain(ctx context.Context, tx *store.Tx, s content.Scope, names []string) error {
	kept, err := keptNames(ctx, tx, s)
	if err != nil {
		return err
	}
	for _, name := range kept {
		if slices.Contains(names, name) {
			continue
		}
		if err := Delete(ctx, tx, s, name, ""); err != nil {
			return err
		}
	}
	return nil
}

func keptNames(ctx context.Context, q store.Querier, s content.Scope) (names []string, err error) {
	rows, err := q.QueryContext(ctx, "SELECT name FROM devmode_branch WHERE account_uid = $1 AND deployment_uid = $2", s.Account.UID, s.Deployment.UID)
	if err != nil {
		return nil, fmt.Errorf("list branches: %w", err)
	}
	defer func() { _ = rows.Close() }()
	for rows.Next() {
		var name string
		if err := rows.Scan(&name); err != nil {
			return nil, fmt.Errorf("list branches: %w", err)
		}
		names = append(names, name)
	}
	return names, rows.Err()
}

// Enter makes a branch the active one of a principal.
func Enter(ctx context.Context, tx *store.Tx, s content.Scope, principal, branch string, now time.Time) error {
	const statement = `INSERT INTO devmode_session (account_uid, deployment_uid, principal, branch, entered_at) VALUES ($1, $2, $3, $4, $5)
		ON CONFLICT (account_uid, deployment_uid, principal) DO UPDATE SET branch = excluded.branch, entered_at = excluded.entered_at`
	if _, err := tx.ExecContext(ctx, statement, s.Account.UID, s.Deployment.UID, principal, branch, now.UnixMicro()); err != nil {
		return fmt.Errorf("enter dev mode: %w", err)
	}
	const bound = `DELETE FROM devmode_session WHERE account_uid = $1 AND deployment_uid = $2 AND principal NOT IN (
		SELECT principal FROM devmode_session WHERE account_uid = $1 AND deployment_uid = $2 ORDER BY entered_at DESC, principal LIMIT $3)`
	if _, err := tx.ExecContext(ctx, bound, s.Account.UID, s.Deployment.UID, MaxSessions); err != nil {
		return fmt.Errorf("bound the sessions of a deployment: %w", err)
	}
	return nil
}

// Leave ends the dev mode of a principal.
func Leave(ctx context.Context, tx *store.Tx, s content.Scope, principal string) error {
	const statement = "DELETE FROM devmode_session WHERE account_uid = $1 AND deployment_uid = $2 AND principal = $3"
	if _, err := tx.ExecContext(ctx, statement, s.Account.UID, s.Deployment.UID, principal); err != nil {
		return fmt.Errorf("leave dev mode: %w", err)
	}
	return nil
}
