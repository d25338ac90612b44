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
	// Object is what the level was granted on: the object itself, or what contains it. Name is its name.
	Object
	Name string
	// Subject is User(name), Group(name) or Everyone; for an owner, as it is stored with objects.
	Subject string
	// GroupUID is the UID of a group; empty for others, and if it is not known.
	GroupUID string
	Level    Level
	// IsOwner is set for the level that the owner of an object has.
	IsOwner bool
	// CreatedAt is when the level was granted, CreatedBy the principal.
	CreatedAt time.Time
	CreatedBy string
}

// Grants returns the owner of an object and the grants on it, and what it inherits: the nearest level of each other subject. They
// are ordered by distance, the owner of an object before its grants, and by subject. They are empty if the object does not exist.
func Grants(ctx context.Context, q store.Querier, s content.Scope, o Object) (out []Grant, err error) {
	query := pathStatement(o) + `SELECT path.kind, path.id, path.name, path.owner, COALESCE(g.subject, ''), COALESCE(g.level, 0), COALESCE(g.created_at, 0),
		COALESCE(g.created_by, ''), COALESCE(g.group_uid, '') FROM path
		LEFT JOIN access_grant AS g ON g.account_uid = $1 AND g.object_kind = path.kind AND g.object_id = path.id ORDER BY path.depth, g.subject`
	rows, err := q.QueryContext(ctx, query, s.Account.UID, s.Deployment.UID, o.ID)
	if err != nil {
		return nil, fmt.Errorf("read the grants on %s %d: %w", o.Kind, o.ID, err)
	}
	defer func() { _ = rows.Close() }()
	known, at := map[string]bool{}, Object{}
	add := func(g Grant) {
		if g.Subject != "" && (g.Object == o || !known[g.Subject+"/"+g.GroupUID]) {
			known[g.Subject+"/"+g.GroupUID] = true
			out = append(out, g)
		}
	}
	for rows.Next() {
		var g Grant
		var owner string
		var created int64
		if err := rows.Scan(&g.Kind, &g.ID, &g.Name, &owner, &g.Subject, &g.Level, &created, &g.CreatedBy, &g.GroupUID); err != nil {
			return nil, fmt.Errorf("read the grants on %s %d: %w", o.Kind, o.ID, err)
		}
		if g.Object != at {
			at = g.Object
			add(Grant{Object: at, Name: g.Name, Subject: owner, Level: Manage, IsOwner: true})
		}
		g.CreatedAt = time.UnixMicro(created).UTC()
		add(g)
	}
	return out, rows.Err()
}

// tables have the objects of the kinds.
var tables = map[Kind]string{Folder: "folder", Workbook: "workbook", Report: "report"}

// stored is the condition for the row of a grant; $1 to $5 are grantKey.
const stored = " WHERE account_uid = $1 AND deployment_uid = $2 AND object_kind = $3 AND object_id = $4 AND subject = $5"

func grantKey(s content.Scope, g *Grant) []any {
	return []any{s.Account.UID, s.Deployment.UID, string(g.Kind), g.ID, g.Subject}
}

// Set stores a grant on an object that exists, or removes it if its level is None. It returns the level before; None without one. A
// grant to a deleted group of the same name is removed.
func Set(ctx context.Context, tx *store.Tx, s content.Scope, g Grant) (before Level, err error) {
	var uid string
	err = tx.QueryRowContext(ctx, "SELECT level, group_uid FROM access_grant"+stored, grantKey(s, &g)...).Scan(&before, &uid)
	if err != nil && !errors.Is(err, sql.ErrNoRows) {
		return None, fmt.Errorf("read a grant on %s %d: %w", g.Kind, g.ID, err)
	}
	if uid != "" && uid != g.GroupUID {
		if before, err = None, set(ctx, tx, s, &g, before, None); err != nil {
			return None, err
		}
	}
	if g.Level == before && (before == None || uid == g.GroupUID) {
		return before, nil
	}
	return before, set(ctx, tx, s, &g, before, g.Level)
}

// set changes the level of a grant.
func set(ctx context.Context, tx *store.Tx, s content.Scope, g *Grant, before, after Level) error {
	var statement string
	key := grantKey(s, g)
	switch {
	case after == None:
		statement = "DELETE FROM access_grant" + stored
	case before == None:
		if err := checkCount(ctx, tx, s, g.Object); err != nil {
			return err
		}
		key = append(key, int(after), g.CreatedAt.UnixMicro(), g.CreatedBy, g.GroupUID)
		statement = `INSERT INTO access_grant (account_uid, deployment_uid, object_kind, object_id, subject, level, created_at, created_by, group_uid)
			VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9)`
	default:
		key = append(key, int(after), g.CreatedAt.UnixMicro(), g.CreatedBy, g.GroupUID)
		statement = "UPDATE access_grant SET level = $6, created_at = $7, created_by = $8, group_uid = $9" + stored
	}
	if _, err := tx.ExecContext(ctx, statement, key...); err != nil {
		return fmt.Errorf("store a grant on %s %d: %w", g.Kind, g.ID, err)
	}
	return nil
}

// tooManyError is the rejection of a grant on an object that can have no other.
type tooManyError struct{ error }

// Unwrap returns the *content.Error.
func (e tooManyError) Unwrap() error { return e.error }

// checkCount returns an error if an object does not exist, or can have no other grant.
func checkCount(ctx context.Context, tx *store.Tx, s content.Scope, o Object) error {
	exists := false
	existence := "SELECT EXISTS (SELECT 1 FROM " + tables[o.Kind] + " WHERE account_uid = $1 AND deployment_uid = $2 AND id = $3)"
	if err := tx.QueryRowContext(ctx, existence, s.Account.UID, s.Deployment.UID, o.ID).Scan(&exists); err != nil {
		return fmt.Errorf("read %s %d: %w", o.Kind, o.ID, err)
	}
	if !exists {
		return NotFound(o)
	}
	const query = "SELECT COUNT(*) FROM access_grant WHERE account_uid = $1 AND deployment_uid = $2 AND object_kind = $3 AND object_id = $4"
	var n int
	if err := tx.QueryRowContext(ctx, query, s.Account.UID, s.Deployment.UID, string(o.Kind), o.ID).Scan(&n); err != nil {
		return fmt.Errorf("count the grants on %s %d: %w", o.Kind, o.ID, err)
	}
	if n >= MaxGrants {
		return tooManyError{content.Errorf(content.Conflict, "resourceId: %s %d has %d grants already; allowed: %d", noun(o.Kind), o.ID, n, MaxGrants)}
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
