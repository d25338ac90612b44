package usertoken

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"strconv"
	"time"

	"github.com/quoin-dev/quoin/internal/audit"
	"github.com/quoin-dev/quoin/internal/store"
)

// Status is the state of a token.
type Status string

// The states of tokens.
const (
	// Active: the token is valid, or is refreshed when it is about to expire.
	Active Status = "active"
	// Failing: the last refresh has failed and is tried again.
	Failing Status = "refresh_failed"
	// Ended: the provider has rejected the refresh, or there is none: the person has to authorize the integration again.
	Ended Status = "authorization_required"
)

// Token is a token of a person for an integration.
type Token struct {
	ID   int64
	User string
	// UserUID is the UID of the ScimUser; empty if it is not known.
	UserUID     string
	Integration int64
	Status      Status
	Sealed      Sealed
	// AccessExpiresAt and RefreshExpiresAt are zero if the provider does not tell.
	AccessExpiresAt, RefreshExpiresAt time.Time
	// LastError is the reason of the last failure; it has no secrets.
	LastError            string
	Failures             int
	CreatedAt, UpdatedAt time.Time
	// Revoking reports whether the token was deleted and is revoked at the provider.
	Revoking bool

	due     time.Time
	version int64
}

// DueAt returns when the token is refreshed or revoked; zero for never.
func (t *Token) DueAt() time.Time { return t.due }

// New is a new token. DueAt is when it is refreshed; zero for never.
type New struct {
	// UserUID is the UID of the person, for Put.
	UserUID                                  string
	Sealed                                   Sealed
	AccessExpiresAt, RefreshExpiresAt, DueAt time.Time
}

// micro returns a time as it is stored.
func micro(t time.Time) int64 {
	if t.IsZero() {
		return 0
	}
	return t.UnixMicro()
}

func timeOf(micro int64) time.Time {
	if micro == 0 {
		return time.Time{}
	}
	return time.UnixMicro(micro).UTC()
}

const columns = `id, user_id, user_uid, integration_id, tomb, status, key_id, sealed, access_expires_at, refresh_expires_at, last_error, failures, due_at, version, created_at, updated_at`

func scan(row interface{ Scan(...any) error }) (*Token, error) {
	t := &Token{}
	var tomb, access, refresh, due, created, updated int64
	err := row.Scan(&t.ID, &t.User, &t.UserUID, &t.Integration, &tomb, &t.Status, &t.Sealed.KeyID, &t.Sealed.Text, &access, &refresh, &t.LastError, &t.Failures, &due, &t.version, &created, &updated)
	if err != nil {
		return nil, err
	}
	t.Revoking, t.AccessExpiresAt, t.RefreshExpiresAt = tomb != 0, timeOf(access), timeOf(refresh)
	t.due, t.CreatedAt, t.UpdatedAt = timeOf(due), timeOf(created), timeOf(updated)
	return t, nil
}

// Find returns the token of a person for an integration. The error is ErrUnknown if there is none.
func (s *Store) Find(ctx context.Context, accountUID, user string, integration int64) (t *Token, err error) {
	err = s.DB.Read(ctx, func(q store.Querier) (err error) {
		const query = "SELECT " + columns + " FROM user_oauth_token WHERE account_uid = $1 AND user_id = $2 AND integration_id = $3 AND tomb = 0"
		t, err = scan(q.QueryRowContext(ctx, query, accountUID, user, integration))
		return err
	})
	if errors.Is(err, sql.ErrNoRows) {
		return nil, ErrUnknown
	}
	if err != nil {
		return nil, fmt.Errorf("find an OAuth token: %w", err)
	}
	return t, nil
}

// List returns the tokens of a person, the oldest first.
func (s *Store) List(ctx context.Context, accountUID, user string) (all []*Token, err error) {
	err = s.DB.Read(ctx, func(q store.Querier) error {
		const query = "SELECT " + columns + " FROM user_oauth_token WHERE account_uid = $1 AND user_id = $2 AND tomb = 0 ORDER BY id LIMIT $3"
		all, err = scanAll(ctx, q, query, accountUID, user, MaxTokens)
		return err
	})
	if err != nil {
		return nil, fmt.Errorf("list OAuth tokens: %w", err)
	}
	return all, nil
}

func scanAll(ctx context.Context, q store.Querier, query string, args ...any) (all []*Token, err error) {
	rows, err := q.QueryContext(ctx, query, args...)
	if err != nil {
		return nil, err
	}
	defer func() { _ = rows.Close() }()
	for rows.Next() {
		t, err := scan(rows)
		if err != nil {
			return nil, err
		}
		all = append(all, t)
	}
	return all, rows.Err()
}

// sequence is the name of the ids of tokens.
const sequence = "user_oauth_token"

// Put stores the token that a person has authorized, in place of the previous one for the integration, and records the event.
func (s *Store) Put(ctx context.Context, a store.Account, user string, integration int64, in New) (*Token, error) {
	var out *Token
	err := s.DB.Tx(ctx, func(tx *store.Tx) (err error) {
		if err := tx.LockAccount(ctx, a); err != nil {
			return err
		}
		now := s.now().UnixMicro()
		id, err := tx.NextID(ctx, a.UID, sequence)
		if err != nil {
			return err
		}
		const insert = `INSERT INTO user_oauth_token (account_uid, id, user_id, integration_id, tomb, status, key_id, sealed, access_expires_at, refresh_expires_at,
				last_error, failures, due_at, lease_until, version, created_at, updated_at, user_uid)
			VALUES ($1, $2, $3, $4, 0, $5, $6, $7, $8, $9, '', 0, $10, 0, 1, $11, $11, $12)
			ON CONFLICT (account_uid, user_id, integration_id, tomb) DO UPDATE SET status = excluded.status, key_id = excluded.key_id, sealed = excluded.sealed,
				access_expires_at = excluded.access_expires_at, refresh_expires_at = excluded.refresh_expires_at, last_error = '', failures = 0, due_at = excluded.due_at,
				lease_until = 0, version = user_oauth_token.version + 1, created_at = excluded.created_at, updated_at = excluded.updated_at,
				user_uid = excluded.user_uid
			RETURNING ` + columns
		out, err = scan(tx.QueryRowContext(ctx, insert, a.UID, id, user, integration, string(Active), in.Sealed.KeyID, in.Sealed.Text,
			micro(in.AccessExpiresAt), micro(in.RefreshExpiresAt), micro(in.DueAt), now, in.UserUID))
		if err != nil {
			return err
		}
		return s.Record(ctx, tx, event(authorized, out))
	})
	if err != nil {
		return nil, fmt.Errorf("store an OAuth token: %w", err)
	}
	return out, nil
}

func event(name string, t *Token) audit.Event {
	id := strconv.FormatInt(t.ID, 10)
	return audit.Event{Name: name, Object: audit.Object{Kind: "UserOAuthToken", Name: t.User + "/" + strconv.FormatInt(t.Integration, 10), ID: id}}
}

// Delete deletes the token of a person for an integration and records the event. The token remains until it is revoked at the
// provider. The error is ErrUnknown if there is none.
func (s *Store) Delete(ctx context.Context, a store.Account, user string, integration int64) error {
	known := false
	err := s.DB.Tx(ctx, func(tx *store.Tx) error {
		if err := tx.LockAccount(ctx, a); err != nil {
			return err
		}
		const update = buryAll + ` AND integration_id = $4 RETURNING ` + columns
		t, err := scan(tx.QueryRowContext(ctx, update, a.UID, user, s.now().UnixMicro(), integration))
		if known = !errors.Is(err, sql.ErrNoRows); !known {
			return nil
		}
		if err != nil {
			return err
		}
		return s.Record(ctx, tx, event(revoked, t))
	})
	if err != nil {
		return fmt.Errorf("delete an OAuth token: %w", err)
	}
	if !known {
		return ErrUnknown
	}
	return nil
}

// buryAll marks tokens of a person as deleted. The version changes, so that a refresh in progress is not stored.
const buryAll = `UPDATE user_oauth_token SET tomb = id, failures = 0, due_at = $3, lease_until = 0, version = version + 1, updated_at = $3
	WHERE account_uid = $1 AND user_id = $2 AND tomb = 0`

// DeleteOf deletes all tokens for an integration, such as one that was deleted, in several transactions. The tokens remain until
// they are revoked at the provider. Authorizations that have begun expire.
func (s *Store) DeleteOf(ctx context.Context, a store.Account, integration int64) error {
	const update = `UPDATE user_oauth_token SET tomb = id, failures = 0, due_at = $3, lease_until = 0, version = version + 1, updated_at = $3
		WHERE account_uid = $1 AND id IN (SELECT id FROM user_oauth_token WHERE account_uid = $1 AND integration_id = $2 AND tomb = 0 LIMIT $4)`
	for deleted := int64(deleteBatch); deleted == deleteBatch; {
		err := s.DB.Tx(ctx, func(tx *store.Tx) error {
			if err := tx.LockAccount(ctx, a); err != nil {
				return err
			}
			result, err := tx.ExecContext(ctx, update, a.UID, integration, s.now().UnixMicro(), deleteBatch)
			if err != nil {
				return err
			}
			deleted, err = result.RowsAffected()
			return err
		})
		if err != nil {
			return fmt.Errorf("delete the OAuth tokens for an integration: %w", err)
		}
	}
	return nil
}

// deleteBatch is the maximum number of tokens that one transaction of DeleteOf deletes.
const deleteBatch = 500

// DeleteAll deletes all tokens and authorizations of a person, such as one who was deactivated. The tokens remain until they
// are revoked at the providers.
func (s *Store) DeleteAll(ctx context.Context, a store.Account, user string) error {
	err := s.DB.Tx(ctx, func(tx *store.Tx) error {
		if err := tx.LockAccount(ctx, a); err != nil {
			return err
		}
		if _, err := tx.ExecContext(ctx, "DELETE FROM user_oauth_flow WHERE account_uid = $1 AND user_id = $2", a.UID, user); err != nil {
			return err
		}
		_, err := tx.ExecContext(ctx, buryAll, a.UID, user, s.now().UnixMicro())
		return err
	})
	if err != nil {
		return fmt.Errorf("delete the OAuth tokens of a person: %w", err)
	}
	return nil
}
