package oauth

import (
	"context"
	"crypto/rand"
	"database/sql"
	"errors"
	"fmt"
	"time"

	"github.com/quoin-dev/quoin/internal/audit"
	"github.com/quoin-dev/quoin/internal/store"
)

// Names of events.
var (
	authorizedClient = audit.Declare("Authorized client")
	revokedClient    = audit.Declare("Revoked client")
)

// Session is a session of a browser.
type Session struct {
	ID string
	Person
	Address, UserAgent               string
	CreatedAt, LastUsedAt, ExpiresAt time.Time
}

// maxText is the maximum length of an address or user agent in bytes; longer ones are truncated.
const maxText = 256

func truncated(text string) string { return text[:min(len(text), maxText)] }

// StartSession starts a session, records the event, and returns the session and its secret. The session with
// the secret previous, if there is one, ends.
func (s *Store) StartSession(ctx context.Context, a store.Account, in Session, previous string) (*Session, string, error) {
	claims, err := in.encode()
	if err != nil {
		return nil, "", err
	}
	now := s.now()
	secret := newSecret(sessionPrefix)
	in.ID, in.CreatedAt, in.LastUsedAt, in.ExpiresAt = rand.Text(), now, now, now.Add(SessionLifetime)
	in.Address, in.UserAgent = truncated(in.Address), truncated(in.UserAgent)
	err = s.DB.Tx(ctx, func(tx *store.Tx) error {
		if err := tx.LockAccount(ctx, a); err != nil {
			return err
		}
		if previous != "" {
			if _, err := tx.ExecContext(ctx, "DELETE FROM oauth_session WHERE account_uid = $1 AND hash = $2", a.UID, hash(previous)); err != nil {
				return fmt.Errorf("end the previous session: %w", err)
			}
		}
		const insert = `INSERT INTO oauth_session (account_uid, id, hash, issuer, subject, claims, address, user_agent, created_at, last_used_at, expires_at, user_uid)
			VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $9, $10, $11)`
		_, err := tx.ExecContext(ctx, insert, a.UID, in.ID, hash(secret), in.Issuer, in.Subject, claims, in.Address, in.UserAgent, now.UnixMicro(), in.ExpiresAt.UnixMicro(), in.UserUID)
		if err != nil {
			return fmt.Errorf("start a session: %w", err)
		}
		return s.Record(ctx, tx, audit.Event{Name: audit.LoggedIn, Actor: in.actor(), Object: audit.Object{Kind: "Session", Name: in.ID}})
	})
	if err != nil {
		return nil, "", err
	}
	return &in, secret, nil
}

const sessionColumns = "id, issuer, subject, claims, address, user_agent, created_at, last_used_at, expires_at, user_uid"

func scanSession(row interface{ Scan(...any) error }) (*Session, error) {
	out, claims := &Session{}, ""
	var created, used, expires int64
	if err := row.Scan(&out.ID, &out.Issuer, &out.Subject, &claims, &out.Address, &out.UserAgent, &created, &used, &expires, &out.UserUID); err != nil {
		return nil, err
	}
	out.CreatedAt, out.LastUsedAt, out.ExpiresAt = time.UnixMicro(created).UTC(), time.UnixMicro(used).UTC(), time.UnixMicro(expires).UTC()
	return out, out.decode(claims)
}

// Session returns the session with a secret and notes its use. The error is ErrUnknown unless there is one.
func (s *Store) Session(ctx context.Context, a store.Account, secret string) (*Session, error) {
	now := s.now()
	var found *Session
	err := s.DB.Read(ctx, func(q store.Querier) (err error) {
		const query = "SELECT " + sessionColumns + " FROM oauth_session WHERE account_uid = $1 AND hash = $2 AND expires_at > $3 AND last_used_at > $4"
		found, err = scanSession(q.QueryRowContext(ctx, query, a.UID, hash(secret), now.UnixMicro(), now.Add(-SessionIdle).UnixMicro()))
		return err
	})
	if errors.Is(err, sql.ErrNoRows) {
		return nil, ErrUnknown
	}
	if err != nil {
		return nil, fmt.Errorf("find a session: %w", err)
	}
	if now.Sub(found.LastUsedAt) < touchInterval {
		return found, nil
	}
	err = s.DB.TxAsync(ctx, func(tx *store.Tx) error {
		if err := tx.LockAccount(ctx, a); err != nil {
			return err
		}
		_, err := tx.ExecContext(ctx, "UPDATE oauth_session SET last_used_at = $3 WHERE account_uid = $1 AND id = $2", a.UID, found.ID, now.UnixMicro())
		return err
	})
	if err != nil {
		return nil, fmt.Errorf("note the use of a session: %w", err)
	}
	return found, nil
}

// Sessions returns the sessions of a person, the one that was used last first.
func (s *Store) Sessions(ctx context.Context, accountUID string, p Person) (all []*Session, err error) {
	now := s.now()
	err = s.DB.Read(ctx, func(q store.Querier) error {
		all = nil
		const query = "SELECT " + sessionColumns + ` FROM oauth_session WHERE account_uid = $1 AND issuer = $2 AND subject = $3 AND expires_at > $4 AND last_used_at > $5
			ORDER BY last_used_at DESC, id LIMIT 1000`
		rows, err := q.QueryContext(ctx, query, accountUID, p.Issuer, p.Subject, now.UnixMicro(), now.Add(-SessionIdle).UnixMicro())
		if err != nil {
			return err
		}
		defer func() { _ = rows.Close() }()
		for rows.Next() {
			one, err := scanSession(rows)
			if err != nil {
				return err
			}
			all = append(all, one)
		}
		return rows.Err()
	})
	if err != nil {
		return nil, fmt.Errorf("list sessions: %w", err)
	}
	return all, nil
}

// EndSession ends a session of a person, and records the event. The error is ErrUnknown unless there is one.
func (s *Store) EndSession(ctx context.Context, a store.Account, p Person, id string) error {
	return s.end(ctx, a, p, "oauth_session", id, audit.Event{Name: audit.LoggedOut, Actor: p.actor(), Object: audit.Object{Kind: "Session", Name: id}})
}

// RevokeGrant revokes a grant of a person, and records the event. The error is ErrUnknown unless there is one.
func (s *Store) RevokeGrant(ctx context.Context, a store.Account, p Person, id string) error {
	err := s.end(ctx, a, p, "oauth_grant", id, audit.Event{Name: revokedClient, Actor: p.actor(), Object: audit.Object{Kind: "Grant", Name: id}})
	s.found.forget() // after an error too, with which the outcome may be unknown
	return err
}

// end deletes a row of a person.
func (s *Store) end(ctx context.Context, a store.Account, p Person, table, id string, e audit.Event) error {
	known := false
	err := s.DB.Tx(ctx, func(tx *store.Tx) error {
		if err := tx.LockAccount(ctx, a); err != nil {
			return err
		}
		result, err := tx.ExecContext(ctx, "DELETE FROM "+table+" WHERE account_uid = $1 AND issuer = $2 AND subject = $3 AND id = $4", a.UID, p.Issuer, p.Subject, id)
		if err != nil {
			return err
		}
		deleted, err := result.RowsAffected()
		if err != nil {
			return err
		}
		if known = deleted > 0; !known {
			return nil
		}
		if err := deleteTokens(ctx, tx, a.UID, id); err != nil {
			return err
		}
		return s.Record(ctx, tx, e)
	})
	if err != nil {
		return fmt.Errorf("delete a row of %s: %w", table, err)
	}
	if !known {
		return ErrUnknown
	}
	return nil
}

// EndAll ends all sessions and grants of a person, such as one who was deactivated.
func (s *Store) EndAll(ctx context.Context, a store.Account, p Person) error {
	return s.endWhere(ctx, a, "issuer = $2 AND subject = $3", p.Issuer, p.Subject)
}

// EndUser ends all sessions and grants of a SCIM user, such as one who was deactivated. Most of these users have none, for which it
// only reads.
func (s *Store) EndUser(ctx context.Context, a store.Account, userUID string) error {
	some := false
	err := s.DB.Read(ctx, func(q store.Querier) error {
		const query = `SELECT EXISTS (SELECT 1 FROM oauth_session WHERE account_uid = $1 AND user_uid = $2)
			OR EXISTS (SELECT 1 FROM oauth_grant WHERE account_uid = $1 AND user_uid = $2)`
		return q.QueryRowContext(ctx, query, a.UID, userUID).Scan(&some)
	})
	if err != nil {
		return fmt.Errorf("find the sessions and grants of a user: %w", err)
	}
	if !some {
		return nil
	}
	return s.endWhere(ctx, a, "user_uid = $2", userUID)
}

// endWhere ends the sessions and grants for which a condition holds. $1 is the account.
func (s *Store) endWhere(ctx context.Context, a store.Account, condition string, args ...any) error {
	args = append([]any{a.UID}, args...)
	err := s.DB.Tx(ctx, func(tx *store.Tx) error {
		if err := tx.LockAccount(ctx, a); err != nil {
			return err
		}
		where := " WHERE account_uid = $1 AND " + condition
		for _, statement := range []string{
			"DELETE FROM oauth_token WHERE account_uid = $1 AND grant_id IN (SELECT id FROM oauth_grant" + where + ")",
			"DELETE FROM oauth_grant" + where,
			"DELETE FROM oauth_session" + where,
		} {
			if _, err := tx.ExecContext(ctx, statement, args...); err != nil {
				return err
			}
		}
		return nil
	})
	s.found.forget()
	if err != nil {
		return fmt.Errorf("end the sessions and grants of a person: %w", err)
	}
	return nil
}
