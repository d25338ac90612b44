package oauth

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/quoin-dev/quoin/internal/audit"
	"github.com/quoin-dev/quoin/internal/store"
)

// Tokens are new tokens of a grant. They cannot be read again.
type Tokens struct {
	Access, Refresh string
	Grant           Grant
}

// tokenRow is a row of oauth_token, and the grant that it belongs to.
type tokenRow struct {
	hash, grant            string
	kind                   kind
	redirectURI, challenge string
	successor              string
	used                   int64
	expires                time.Time
	owner                  Grant
}

func (t *tokenRow) insert(ctx context.Context, tx *store.Tx, accountUID string) error {
	const insert = `INSERT INTO oauth_token (account_uid, hash, kind, grant_id, redirect_uri, challenge, successor, used_at, expires_at)
		VALUES ($1, $2, $3, $4, $5, $6, '', 0, $7)`
	_, err := tx.ExecContext(ctx, insert, accountUID, t.hash, string(t.kind), t.grant, t.redirectURI, t.challenge, t.expires.UnixMicro())
	if err != nil {
		return fmt.Errorf("store a token: %w", err)
	}
	return nil
}

// readToken returns a token whose grant is valid; nil if there is none.
func readToken(ctx context.Context, q store.Querier, accountUID, hash string, k kind, now time.Time) (*tokenRow, error) {
	const query = `SELECT t.grant_id, t.redirect_uri, t.challenge, t.successor, t.used_at, t.expires_at,
			g.client_id, g.scope, g.issuer, g.subject, g.claims, g.user_uid, g.address, g.created_at, g.last_used_at, g.expires_at
		FROM oauth_token AS t JOIN oauth_grant AS g ON g.account_uid = t.account_uid AND g.id = t.grant_id
		WHERE t.account_uid = $1 AND t.hash = $2 AND t.kind = $3 AND g.expires_at > $4`
	t, claims := &tokenRow{hash: hash, kind: k}, ""
	var expires, created, used, grantExpires int64
	err := q.QueryRowContext(ctx, query, accountUID, hash, string(k), now.UnixMicro()).Scan(&t.grant, &t.redirectURI, &t.challenge, &t.successor, &t.used, &expires,
		&t.owner.ClientID, &t.owner.Scope, &t.owner.Issuer, &t.owner.Subject, &claims, &t.owner.UserUID, &t.owner.Address, &created, &used, &grantExpires)
	if errors.Is(err, sql.ErrNoRows) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("find a token: %w", err)
	}
	t.expires, t.owner.ID = time.UnixMicro(expires).UTC(), t.grant
	t.owner.CreatedAt, t.owner.LastUsedAt, t.owner.ExpiresAt = time.UnixMicro(created).UTC(), time.UnixMicro(used).UTC(), time.UnixMicro(grantExpires).UTC()
	return t, t.owner.decode(claims)
}

// Holder returns the person who has granted what a code, refresh token or device code is exchanged for; nil if there is no such
// grant. It changes nothing.
func (s *Store) Holder(ctx context.Context, accountUID, secret string) (*Person, error) {
	p, claims := &Person{}, ""
	err := s.DB.Read(ctx, func(q store.Querier) error {
		const query = `SELECT issuer, subject, claims, user_uid FROM oauth_grant WHERE account_uid = $1 AND expires_at > $3 AND id IN (
			SELECT grant_id FROM oauth_token WHERE account_uid = $1 AND hash = $2 UNION ALL SELECT grant_id FROM oauth_device WHERE account_uid = $1 AND hash = $2)`
		return q.QueryRowContext(ctx, query, accountUID, hash(secret), s.now().UnixMicro()).Scan(&p.Issuer, &p.Subject, &claims, &p.UserUID)
	})
	if errors.Is(err, sql.ErrNoRows) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("find the person of a grant: %w", err)
	}
	return p, p.decode(claims)
}

// exchange runs work on a token in a transaction, which locks the account. If work returns ErrReused, the
// grant is revoked.
func (s *Store) exchange(ctx context.Context, a store.Account, hash string, k kind, work func(ctx context.Context, tx *store.Tx, t *tokenRow, now time.Time) (*Tokens, error)) (*Tokens, error) {
	var out *Tokens
	var rejected error
	err := s.DB.Tx(ctx, func(tx *store.Tx) error {
		out, rejected = nil, nil
		if err := tx.LockAccount(ctx, a); err != nil {
			return err
		}
		now := s.now()
		t, err := readToken(ctx, tx, a.UID, hash, k, now)
		if err != nil {
			return err
		}
		if t == nil {
			rejected = ErrUnknown
			return nil
		}
		out, err = work(ctx, tx, t, now)
		switch {
		case errors.Is(err, ErrReused):
			rejected = err
			return s.revoke(ctx, tx, a.UID, t.owner, "a code or refresh token was used again")
		case errors.Is(err, ErrUnknown), errors.Is(err, ErrMismatch):
			rejected = err
			return nil
		}
		return err
	})
	if errors.Is(rejected, ErrReused) {
		s.found.forget()
	}
	switch {
	case err != nil:
		return nil, fmt.Errorf("exchange a token: %w", err)
	case rejected != nil:
		return nil, rejected
	}
	return out, nil
}

// revoke deletes a grant with its tokens, and records it.
func (s *Store) revoke(ctx context.Context, tx *store.Tx, accountUID string, g Grant, reason string) error {
	if _, err := tx.ExecContext(ctx, "DELETE FROM oauth_grant WHERE account_uid = $1 AND id = $2", accountUID, g.ID); err != nil {
		return fmt.Errorf("revoke a grant: %w", err)
	}
	if err := deleteTokens(ctx, tx, accountUID, g.ID); err != nil {
		return err
	}
	return s.Record(ctx, tx, audit.Event{Name: revokedClient, Reason: reason, Actor: g.actor(), Object: audit.Object{Kind: "Grant", Name: g.ID, ID: g.ClientID}})
}

func deleteTokens(ctx context.Context, tx *store.Tx, accountUID, grant string) error {
	if _, err := tx.ExecContext(ctx, "DELETE FROM oauth_token WHERE account_uid = $1 AND grant_id = $2", accountUID, grant); err != nil {
		return fmt.Errorf("delete the tokens of a grant: %w", err)
	}
	return nil
}

// issue stores new tokens of a grant.
func issue(ctx context.Context, tx *store.Tx, accountUID string, g Grant, now time.Time) (*Tokens, error) {
	out := &Tokens{Access: newSecret(AccessPrefix), Refresh: newSecret(RefreshPrefix), Grant: g}
	for _, t := range []tokenRow{
		{hash: hash(out.Access), kind: accessKind, grant: g.ID, expires: earlier(now.Add(AccessLifetime), g.ExpiresAt)},
		{hash: hash(out.Refresh), kind: refreshKind, grant: g.ID, expires: earlier(now.Add(RefreshLifetime), g.ExpiresAt)},
	} {
		if err := t.insert(ctx, tx, accountUID); err != nil {
			return nil, err
		}
	}
	const update = "UPDATE oauth_grant SET last_used_at = $3, expires_at = $4 WHERE account_uid = $1 AND id = $2"
	if _, err := tx.ExecContext(ctx, update, accountUID, g.ID, now.UnixMicro(), g.ExpiresAt.UnixMicro()); err != nil {
		return nil, fmt.Errorf("note the use of a grant: %w", err)
	}
	return out, nil
}

func earlier(a, b time.Time) time.Time {
	if a.Before(b) {
		return a
	}
	return b
}

// replace marks a code or refresh token as used, and issues what it is exchanged for.
func (t *tokenRow) replace(ctx context.Context, tx *store.Tx, accountUID string, now time.Time) (*Tokens, error) {
	out, err := issue(ctx, tx, accountUID, t.owner, now)
	if err != nil {
		return nil, err
	}
	if t.used == 0 {
		t.used = now.UnixMicro()
	}
	const update = "UPDATE oauth_token SET used_at = $3, successor = $4, expires_at = $5 WHERE account_uid = $1 AND hash = $2"
	if _, err := tx.ExecContext(ctx, update, accountUID, t.hash, t.used, hash(out.Refresh), t.expires.UnixMicro()); err != nil {
		return nil, fmt.Errorf("mark a token as used: %w", err)
	}
	return out, nil
}

// Refresh exchanges a refresh token for new tokens (RFC 6749, section 6). The error is ErrUnknown, ErrReused or
// ErrMismatch if it is invalid.
//
// A refresh token that was used is accepted again during RetryWindow, until its successor is used: the client
// may not have received the successor, which then becomes a used one. So if a stolen token is used, the next
// use by the other party is detected.
func (s *Store) Refresh(ctx context.Context, a store.Account, clientID, refresh string) (*Tokens, error) {
	return s.exchange(ctx, a, hash(refresh), refreshKind, func(ctx context.Context, tx *store.Tx, t *tokenRow, now time.Time) (*Tokens, error) {
		switch {
		case t.owner.ClientID != clientID:
			return nil, ErrMismatch
		case t.used == 0 && !now.Before(t.expires):
			return nil, ErrUnknown
		case t.used == 0:
			return t.replace(ctx, tx, a.UID, now)
		case t.successor == "", now.Sub(time.UnixMicro(t.used)) >= RetryWindow:
			return nil, ErrReused
		}
		const supersede = "UPDATE oauth_token SET used_at = $3 WHERE account_uid = $1 AND hash = $2 AND used_at = 0"
		result, err := tx.ExecContext(ctx, supersede, a.UID, t.successor, now.UnixMicro())
		if err != nil {
			return nil, fmt.Errorf("mark the successor of a token as used: %w", err)
		}
		unused, err := result.RowsAffected()
		if err != nil {
			return nil, err
		}
		if unused == 0 {
			return nil, ErrReused
		}
		return t.replace(ctx, tx, a.UID, now)
	})
}

// Revoke revokes the grant of an access token or refresh token of a client (RFC 7009). It does nothing for
// another text.
func (s *Store) Revoke(ctx context.Context, a store.Account, clientID, token string) error {
	err := s.DB.Tx(ctx, func(tx *store.Tx) error {
		if err := tx.LockAccount(ctx, a); err != nil {
			return err
		}
		for _, k := range []kind{refreshKind, accessKind} {
			t, err := readToken(ctx, tx, a.UID, hash(token), k, s.now())
			if err != nil {
				return err
			}
			if t != nil && t.owner.ClientID == clientID {
				return s.revoke(ctx, tx, a.UID, t.owner, "")
			}
		}
		return nil
	})
	s.found.forget()
	if err != nil {
		return fmt.Errorf("revoke a token: %w", err)
	}
	return nil
}

const (
	// foundLifetime is how long an access token that was found is valid without asking the database again. The
	// process that revokes it forgets it at once.
	foundLifetime = time.Second
	// maxFound bounds the tokens that were found.
	maxFound = 10_000
)

// foundKey is an account and the hash of an access token.
type foundKey struct{ account, hash string }

type foundGrant struct {
	grant          *Grant
	expires, until time.Time
}

// found has the access tokens that were found lately. It is safe for concurrent use.
type found struct {
	mu      sync.Mutex
	grants  map[foundKey]foundGrant // guarded by mu
	changes int                     // guarded by mu; the number of calls of forget
}

// get returns a grant, nil if it was not found lately, and the number of changes so far.
func (f *found) get(key foundKey, now time.Time) (*foundGrant, int) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if g, ok := f.grants[key]; ok && now.Before(g.until) && now.Before(g.expires) {
		return &g, f.changes
	}
	return nil, f.changes
}

// put keeps a grant, unless it may have been revoked while it was read.
func (f *found) put(key foundKey, g foundGrant, changes int) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.changes != changes {
		return
	}
	if f.grants == nil || len(f.grants) >= maxFound {
		f.grants = map[foundKey]foundGrant{}
	}
	f.grants[key] = g
}

func (f *found) forget() {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.grants = nil
	f.changes++
}

// Find returns the grant of an access token. It is shared and must not be modified. The error is ErrUnknown
// unless there is one.
func (s *Store) Find(ctx context.Context, accountUID, access string) (*Grant, error) {
	key, now := foundKey{accountUID, hash(access)}, s.now()
	known, changes := s.found.get(key, now)
	if known != nil {
		return known.grant, nil
	}
	var t *tokenRow
	err := s.DB.Read(ctx, func(q store.Querier) (err error) {
		t, err = readToken(ctx, q, accountUID, key.hash, accessKind, now)
		return err
	})
	switch {
	case err != nil:
		return nil, err
	case t == nil || !now.Before(t.expires):
		return nil, ErrUnknown
	}
	s.found.put(key, foundGrant{&t.owner, t.expires, now.Add(foundLifetime)}, changes)
	return &t.owner, nil
}
