// Package token keeps which tokens have been issued for environments: their ids, lifetimes and
// scopes. It keeps neither a token nor a security context, so that a reader of the database cannot
// use or reveal one.
package token

import (
	"context"
	"embed"
	"fmt"
	"log/slog"
	"slices"
	"time"

	"github.com/quoin-dev/quoin/internal/content"
	"github.com/quoin-dev/quoin/internal/store"
)

//go:embed migrations/*.sql
var migrations embed.FS

// Owner has the table of issued tokens.
var Owner = store.Owner{Name: "issued_token", Migrations: migrations, Tables: []string{"issued_token"}, Purge: store.PurgeTable("issued_token", "account_uid, id")}

const (
	// MaxPerEnvironment is the number of tokens of an environment that are kept: the newest ones.
	MaxPerEnvironment = 10_000
	// MaxListed is the number of tokens that List returns: the newest ones of the caller.
	MaxListed = 1000
	// expireBatch is the maximum number of rows that one transaction of Expire deletes.
	expireBatch = 500
)

// Token is an issued token.
type Token struct {
	ID int64
	// EnvironmentUID is the UID of the Environment that accepts the token.
	EnvironmentUID string
	// MetadataOnly reports whether the token cannot query data.
	MetadataOnly bool
	CreatedAt    time.Time
	// CreatedBy is the principal to which it was issued: <kind>:<id>.
	CreatedBy string
	ExpiresAt time.Time
}

// Tokens are the issued tokens of all deployments.
type Tokens struct {
	DB content.Database
}

// Add keeps a token and returns its id.
func (t *Tokens) Add(ctx context.Context, s content.Scope, added Token) (id int64, err error) {
	err = t.DB.Tx(ctx, func(tx *store.Tx) error {
		if err := tx.LockDeployment(ctx, s.Account, s.Deployment); err != nil {
			return err
		}
		if id, err = tx.NextID(ctx, s.Account.UID, "issued_token"); err != nil {
			return err
		}
		const insert = `INSERT INTO issued_token (account_uid, deployment_uid, id, environment_uid, metadata_only, created_at, created_by, expires_at)
			VALUES ($1, $2, $3, $4, $5, $6, $7, $8)`
		metadataOnly := 0
		if added.MetadataOnly {
			metadataOnly = 1
		}
		_, err := tx.ExecContext(ctx, insert, s.Account.UID, s.Deployment.UID, id, added.EnvironmentUID, metadataOnly,
			added.CreatedAt.UnixMicro(), added.CreatedBy, added.ExpiresAt.UnixMicro())
		if err != nil {
			return fmt.Errorf("keep a token: %w", err)
		}
		const bound = `DELETE FROM issued_token WHERE environment_uid = $1 AND deployment_uid = $2 AND account_uid = $3 AND id <= (
			SELECT id FROM issued_token WHERE environment_uid = $1 AND deployment_uid = $2 AND account_uid = $3 ORDER BY id DESC LIMIT 1 OFFSET $4)`
		if _, err := tx.ExecContext(ctx, bound, added.EnvironmentUID, s.Deployment.UID, s.Account.UID, MaxPerEnvironment); err != nil {
			return fmt.Errorf("bound the tokens of an environment: %w", err)
		}
		return nil
	})
	return id, err
}

// List returns the tokens of an environment that were issued to a principal and are not expired, by
// id: the newest MaxListed.
func (t *Tokens) List(ctx context.Context, s content.Scope, environmentUID, by string, now time.Time) (all []Token, err error) {
	err = t.DB.Read(ctx, func(q store.Querier) error {
		all = nil
		const query = `SELECT id, environment_uid, metadata_only, created_at, created_by, expires_at FROM issued_token
			WHERE environment_uid = $1 AND deployment_uid = $2 AND account_uid = $3 AND created_by = $4 AND expires_at > $5 ORDER BY id DESC LIMIT $6`
		rows, err := q.QueryContext(ctx, query, environmentUID, s.Deployment.UID, s.Account.UID, by, now.UnixMicro(), MaxListed)
		if err != nil {
			return fmt.Errorf("list tokens: %w", err)
		}
		defer func() { _ = rows.Close() }()
		for rows.Next() {
			var found Token
			var created, expires int64
			if err := rows.Scan(&found.ID, &found.EnvironmentUID, &found.MetadataOnly, &created, &found.CreatedBy, &expires); err != nil {
				return fmt.Errorf("list tokens: %w", err)
			}
			found.CreatedAt, found.ExpiresAt = time.UnixMicro(created).UTC(), time.UnixMicro(expires).UTC()
			all = append(all, found)
		}
		return rows.Err()
	})
	slices.Reverse(all)
	return all, err
}

// Expire deletes the tokens that are expired. Any number of replicas may run it.
func Expire(ctx context.Context, s *store.Store, now time.Time) error {
	const statement = `DELETE FROM issued_token WHERE (account_uid, id) IN (SELECT account_uid, id FROM issued_token WHERE expires_at <= $1 LIMIT $2)`
	return s.DeleteBefore(ctx, statement, now, expireBatch)
}

// RunExpiry runs Expire at an interval until the context ends.
func RunExpiry(ctx context.Context, s *store.Store, interval time.Duration, log *slog.Logger) error {
	return store.Repeat(ctx, interval, log, "Expired tokens could not be deleted", func(ctx context.Context) error { return Expire(ctx, s, time.Now()) })
}
