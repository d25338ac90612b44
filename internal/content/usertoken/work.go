package usertoken

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"time"

	"github.com/quoin-dev/quoin/internal/store"
)

const (
	// Lease is the time for which a replica works on a token. It is longer than a refresh takes, and short, because a refresh
	// whose result is lost with a process is tried again after it: providers accept a refresh token again for some 30 seconds.
	Lease = 20 * time.Second
	// maxError is the maximum length of an error in bytes.
	maxError = 500
)

// Leased is a token that this process works on.
type Leased struct {
	*Token
	Account store.Account
}

// Due leases tokens that are due, of all accounts: those to refresh, and those to revoke.
func (s *Store) Due(ctx context.Context, limit int) ([]Leased, error) {
	now := s.now()
	type key struct {
		account store.Account
		id      int64
	}
	var keys []key
	err := s.DB.Read(ctx, func(q store.Querier) error {
		keys = nil
		const query = `SELECT t.account_uid, a.name, t.id FROM user_oauth_token t JOIN account a ON a.uid = t.account_uid
			WHERE t.due_at > 0 AND t.due_at <= $1 AND t.lease_until <= $1 ORDER BY t.due_at LIMIT $2`
		rows, err := q.QueryContext(ctx, query, now.UnixMicro(), limit)
		if err != nil {
			return err
		}
		defer func() { _ = rows.Close() }()
		for rows.Next() {
			var k key
			if err := rows.Scan(&k.account.UID, &k.account.Name, &k.id); err != nil {
				return err
			}
			keys = append(keys, k)
		}
		return rows.Err()
	})
	if err != nil {
		return nil, fmt.Errorf("list OAuth tokens that are due: %w", err)
	}
	var out []Leased
	for _, k := range keys {
		t, err := s.lease(ctx, k.account, "id = $3 AND due_at > 0 AND due_at <= $2", k.id)
		if err != nil {
			return out, err
		}
		if t != nil {
			out = append(out, Leased{t, k.account})
		}
	}
	return out, nil
}

// LeaseOf leases the token of a person for an integration, whether or not it is due; nil if there is none or another replica
// works on it.
func (s *Store) LeaseOf(ctx context.Context, a store.Account, user string, integration int64) (*Leased, error) {
	t, err := s.lease(ctx, a, "user_id = $3 AND integration_id = $5 AND tomb = 0", user, integration)
	if t == nil || err != nil {
		return nil, err
	}
	return &Leased{t, a}, nil
}

// lease leases one token that a condition selects; nil if there is none. $1 is the account, $2 the time and $4 the end of the
// lease.
func (s *Store) lease(ctx context.Context, a store.Account, condition string, args ...any) (*Token, error) {
	var out *Token
	err := s.DB.Tx(ctx, func(tx *store.Tx) (err error) {
		if err := tx.LockAccount(ctx, a); err != nil {
			return err
		}
		now := s.now()
		all := append([]any{a.UID, now.UnixMicro(), args[0], now.Add(Lease).UnixMicro()}, args[1:]...)
		update := "UPDATE user_oauth_token SET lease_until = $4, version = version + 1 WHERE account_uid = $1 AND lease_until <= $2 AND " + condition + " RETURNING " + columns
		if out, err = scan(tx.QueryRowContext(ctx, update, all...)); errors.Is(err, sql.ErrNoRows) {
			return nil
		}
		return err
	})
	if err != nil {
		return nil, fmt.Errorf("lease an OAuth token: %w", err)
	}
	return out, nil
}

// Refreshed stores the result of a refresh. It reports false if the token was deleted or replaced meanwhile: the new one must
// then be revoked.
func (s *Store) Refreshed(ctx context.Context, l Leased, in New) (bool, error) {
	return s.settle(ctx, l, `UPDATE user_oauth_token SET status = $4, key_id = $5, sealed = $6, access_expires_at = $7, refresh_expires_at = $8, last_error = '', failures = 0,
		due_at = $9, lease_until = 0, updated_at = $10`, string(Active), in.Sealed.KeyID, in.Sealed.Text, micro(in.AccessExpiresAt), micro(in.RefreshExpiresAt), micro(in.DueAt), s.now().UnixMicro())
}

// Failed stores that a refresh or revocation has failed, and when it is tried again; zero for never. The reason must not
// contain a secret.
func (s *Store) Failed(ctx context.Context, l Leased, status Status, reason string, retry time.Time) error {
	_, err := s.settle(ctx, l, `UPDATE user_oauth_token SET status = $4, last_error = $5, failures = failures + 1, due_at = $6, lease_until = 0, updated_at = $7`,
		string(status), reason[:min(len(reason), maxError)], micro(retry), s.now().UnixMicro())
	return err
}

// Release ends a lease without a result. The token is due at a time; zero for never.
func (s *Store) Release(ctx context.Context, l Leased, due time.Time) error {
	_, err := s.settle(ctx, l, "UPDATE user_oauth_token SET lease_until = 0, due_at = $4", micro(due))
	return err
}

// Forget deletes a token without a trace: it is revoked, or its person or integration does not exist.
func (s *Store) Forget(ctx context.Context, l Leased) error {
	_, err := s.settle(ctx, l, "DELETE FROM user_oauth_token")
	return err
}

// settle runs a statement for a token, unless the token has changed since it was leased.
func (s *Store) settle(ctx context.Context, l Leased, statement string, args ...any) (bool, error) {
	changed := int64(0)
	err := s.DB.Tx(ctx, func(tx *store.Tx) error {
		if err := tx.LockAccount(ctx, l.Account); err != nil {
			return err
		}
		result, err := tx.ExecContext(ctx, statement+" WHERE account_uid = $1 AND id = $2 AND version = $3", append([]any{l.Account.UID, l.ID, l.version}, args...)...)
		if err != nil {
			return err
		}
		changed, err = result.RowsAffected()
		return err
	})
	if err != nil {
		return false, fmt.Errorf("store the state of an OAuth token: %w", err)
	}
	return changed > 0, nil
}

// Integration is an integration for which people have tokens.
type Integration struct {
	Account store.Account
	ID      int64
}

// Integrations returns the integrations of all accounts for which people have tokens.
func (s *Store) Integrations(ctx context.Context) (all []Integration, err error) {
	err = s.DB.Read(ctx, func(q store.Querier) error {
		all = nil
		const query = `SELECT DISTINCT t.account_uid, a.name, t.integration_id FROM user_oauth_token t JOIN account a ON a.uid = t.account_uid
			WHERE t.tomb = 0 ORDER BY t.account_uid, t.integration_id`
		rows, err := q.QueryContext(ctx, query)
		if err != nil {
			return err
		}
		defer func() { _ = rows.Close() }()
		for rows.Next() {
			var i Integration
			if err := rows.Scan(&i.Account.UID, &i.Account.Name, &i.ID); err != nil {
				return err
			}
			all = append(all, i)
		}
		return rows.Err()
	})
	if err != nil {
		return nil, fmt.Errorf("list integrations with OAuth tokens: %w", err)
	}
	return all, nil
}

// Person is a person with tokens.
type Person struct {
	Account store.Account
	User    string
	// UserUIDs are the least and the greatest UID of the tokens, which are the same unless another person has the id now.
	UserUIDs [2]string
	// Oldest is when the oldest token was created.
	Oldest time.Time
}

// People returns people with tokens or authorizations after one, in the order of account and id.
func (s *Store) People(ctx context.Context, after Person, limit int) (all []Person, err error) {
	err = s.DB.Read(ctx, func(q store.Querier) error {
		all = nil
		const query = `SELECT t.account_uid, a.name, t.user_id, MIN(t.user_uid), MAX(t.user_uid), MIN(t.created_at) FROM user_oauth_token t JOIN account a ON a.uid = t.account_uid
			WHERE t.tomb = 0 AND (t.account_uid > $1 OR t.account_uid = $1 AND t.user_id > $2)
			GROUP BY t.account_uid, a.name, t.user_id ORDER BY t.account_uid, t.user_id LIMIT $3`
		rows, err := q.QueryContext(ctx, query, after.Account.UID, after.User, limit)
		if err != nil {
			return err
		}
		defer func() { _ = rows.Close() }()
		for rows.Next() {
			var p Person
			var oldest int64
			if err := rows.Scan(&p.Account.UID, &p.Account.Name, &p.User, &p.UserUIDs[0], &p.UserUIDs[1], &oldest); err != nil {
				return err
			}
			p.Oldest = timeOf(oldest)
			all = append(all, p)
		}
		return rows.Err()
	})
	if err != nil {
		return nil, fmt.Errorf("list people with OAuth tokens: %w", err)
	}
	return all, nil
}
