package access

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"time"

	"github.com/quoin-dev/quoin/internal/content"
	"github.com/quoin-dev/quoin/internal/store"
)

// MaxGrants is the maximum number of grants on an object.
const MaxGrants = 1000

// Grant is a level of a subject on an object.
type Grant struct {
	// Object is what the level was granted on: the object itself, or what contains it.
	Object
	// Subject is User(name), Group(name) or Everyone.
	Subject string
	Level   Level
	// CreatedAt is when the level was granted, CreatedBy the principal.
	CreatedAt time.Time
	CreatedBy string
}

// Grants returns the grants on an object, and those that it inherits: the nearest one of each subject. They are ordered by
// distance and subject; those on the object itself come first.
func Grants(ctx context.Context, q store.Querier, s content.Scope, o Object) (out []Grant, err error) {
	query := pathStatement(o) + `SELECT path.kind, path.id, g.subject, g.level, g.created_at, g.created_by FROM path
		JOIN access_grant AS g ON g.account_uid = $1 AND g.object_kind = path.kind AND g.object_id = path.id ORDER BY path.depth, g.subject`
	rows, err := q.QueryContext(ctx, query, s.Account.UID, s.Deployment.UID, o.ID)
	if err != nil {
		return nil, fmt.Errorf("read the grants on %s %d: %w", o.Kind, o.ID, err)
	}
	defer func() { _ = rows.Close() }()
	known := map[string]bool{}
	for rows.Next() {
		var g Grant
		var created int64
		if err := rows.Scan(&g.Kind, &g.ID, &g.Subject, &g.Level, &created, &g.CreatedBy); err != nil {
			return nil, fmt.Errorf("read the grants on %s %d: %w", o.Kind, o.ID, err)
		}
		g.CreatedAt = time.UnixMicro(created).UTC()
		if !known[g.Subject] {
			known[g.Subject] = true
			out = append(out, g)
		}
	}
	return out, rows.Err()
}

// Set stores a grant, or removes it if its level is None. It returns the level before; None without one.
func Set(ctx context.Context, tx *store.Tx, s content.Scope, g Grant) (before Level, err error) {
	const query = "SELECT level FROM access_grant WHERE account_uid = $1 AND deployment_uid = $2 AND object_kind = $3 AND object_id = $4 AND subject = $5"
	key := []any{s.Account.UID, s.Deployment.UID, string(g.Kind), g.ID, g.Subject}
	if err := tx.QueryRowContext(ctx, query, key...).Scan(&before); err != nil && !errors.Is(err, sql.ErrNoRows) {
		return None, fmt.Errorf("read a grant on %s %d: %w", g.Kind, g.ID, err)
	}
	var statement string
	switch {
	case g.Level == before:
		return before, nil
	case g.Level == None:
		statement = "DELETE FROM access_grant WHERE account_uid = $1 AND deployment_uid = $2 AND object_kind = $3 AND object_id = $4 AND subject = $5"
	case before == None:
		if err := checkCount(ctx, tx, s, g.Object); err != nil {
			return None, err
		}
		key = append(key, int(g.Level), g.CreatedAt.UnixMicro(), g.CreatedBy)
		statement = `INSERT INTO access_grant (account_uid, deployment_uid, object_kind, object_id, subject, level, created_at, created_by)
			VALUES ($1, $2, $3, $4, $5, $6, $7, $8)`
	default:
		key = append(key, int(g.Level), g.CreatedAt.UnixMicro(), g.CreatedBy)
		statement = `UPDATE access_grant SET level = $6, created_at = $7, created_by = $8
			WHERE account_uid = $1 AND deployment_uid = $2 AND object_kind = $3 AND object_id = $4 AND subject = $5`
	}
	if _, err := tx.ExecContext(ctx, statement, key...); err != nil {
		return None, fmt.Errorf("store a grant on %s %d: %w", g.Kind, g.ID, err)
	}
	return before, nil
}

// checkCount returns an error if an object can have no other grant.
func checkCount(ctx context.Context, tx *store.Tx, s content.Scope, o Object) error {
	const query = "SELECT COUNT(*) FROM access_grant WHERE account_uid = $1 AND deployment_uid = $2 AND object_kind = $3 AND object_id = $4"
	var n int
	if err := tx.QueryRowContext(ctx, query, s.Account.UID, s.Deployment.UID, string(o.Kind), o.ID).Scan(&n); err != nil {
		return fmt.Errorf("count the grants on %s %d: %w", o.Kind, o.ID, err)
	}
	if n >= MaxGrants {
		return content.Errorf(content.Conflict, "resourceId: %s %d has %d grants already; allowed: %d", noun(o.Kind), o.ID, n, MaxGrants)
	}
	return nil
}

// Deleted removes the grants on a deleted object. It is called in the transaction that deletes the object.
func Deleted(ctx context.Context, tx *store.Tx, s content.Scope, o Object) error {
	const statement = "DELETE FROM access_grant WHERE account_uid = $1 AND deployment_uid = $2 AND object_kind = $3 AND object_id = $4"
	if _, err := tx.ExecContext(ctx, statement, s.Account.UID, s.Deployment.UID, string(o.Kind), o.ID); err != nil {
		return fmt.Errorf("delete the grants on %s %d: %w", o.Kind, o.ID, err)
	}
	return nil
}
