package oauth

import (
	"cmp"
	"context"
	"crypto/rand"
	"crypto/sha256"
	"crypto/subtle"
	"encoding/base64"
	"fmt"
	"time"

	"github.com/quoin-dev/quoin/internal/audit"
	"github.com/quoin-dev/quoin/internal/store"
)

// Grant is what a person has granted to a client: to act on behalf of the person.
type Grant struct {
	ID, ClientID string
	// Scope is what the tokens are valid for: ScopeAll if it is empty.
	Scope string
	Person
	// Address from which the client has requested it.
	Address string
	// LastUsedAt is when the client has last requested tokens.
	CreatedAt, LastUsedAt, ExpiresAt time.Time
}

// Code is an authorization request that a person has approved.
type Code struct {
	ClientID, RedirectURI string
	// Scope is that of the grant: ScopeAll if it is empty.
	Scope string
	// Challenge is the code challenge of the method S256 (RFC 7636, section 4.2).
	Challenge string
	Person    Person
	Address   string
}

// kind is the kind of a row of oauth_token.
type kind string

const (
	codeKind    kind = "code"
	accessKind  kind = "access"
	refreshKind kind = "refresh"
)

// IssueCode stores a grant and returns its authorization code.
func (s *Store) IssueCode(ctx context.Context, a store.Account, in Code) (string, error) {
	claims, err := in.Person.encode()
	if err != nil {
		return "", err
	}
	now, code := s.now(), newSecret(codePrefix)
	err = s.DB.Tx(ctx, func(tx *store.Tx) error {
		if err := tx.LockAccount(ctx, a); err != nil {
			return err
		}
		// Until the code is exchanged, the grant ends with it.
		g := Grant{ID: rand.Text(), ClientID: in.ClientID, Scope: in.Scope, Person: in.Person, Address: in.Address, ExpiresAt: now.Add(CodeLifetime)}
		if err := s.insertGrant(ctx, tx, a.UID, g, claims, now); err != nil {
			return err
		}
		t := tokenRow{hash: hash(code), kind: codeKind, grant: g.ID, redirectURI: in.RedirectURI, challenge: in.Challenge, expires: now.Add(CodeLifetime)}
		return t.insert(ctx, tx, a.UID)
	})
	if err != nil {
		return "", fmt.Errorf("issue a code: %w", err)
	}
	return code, nil
}

// insertGrant stores a grant and records it.
func (s *Store) insertGrant(ctx context.Context, tx *store.Tx, accountUID string, g Grant, claims string, now time.Time) error {
	const insert = `INSERT INTO oauth_grant (account_uid, id, client_id, scope, issuer, subject, claims, address, created_at, last_used_at, expires_at, user_uid)
		VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $9, $10, $11)`
	_, err := tx.ExecContext(ctx, insert, accountUID, g.ID, g.ClientID, cmp.Or(g.Scope, ScopeAll), g.Issuer, g.Subject, claims, truncated(g.Address), now.UnixMicro(), g.ExpiresAt.UnixMicro(), g.UserUID)
	if err != nil {
		return fmt.Errorf("store a grant: %w", err)
	}
	return s.Record(ctx, tx, audit.Event{Name: authorizedClient, Actor: g.actor(), Object: audit.Object{Kind: "Grant", Name: g.ID, ID: g.ClientID}})
}

// Redemption is the exchange of a code for tokens.
type Redemption struct{ Code, ClientID, RedirectURI, Verifier string }

// The scopes of grants: all that the person may do, or the MCP endpoint only.
const (
	ScopeAll = "all"
	ScopeMCP = "mcp-agent-access"
)

// Redeem exchanges an authorization code for tokens. The error is ErrUnknown, ErrReused or ErrMismatch if the
// code is invalid.
func (s *Store) Redeem(ctx context.Context, a store.Account, in Redemption) (*Tokens, error) {
	return s.exchange(ctx, a, hash(in.Code), codeKind, func(ctx context.Context, tx *store.Tx, t *tokenRow, now time.Time) (*Tokens, error) {
		sum := sha256.Sum256([]byte(in.Verifier))
		challenge := base64.RawURLEncoding.EncodeToString(sum[:])
		switch {
		case t.owner.ClientID != in.ClientID, t.redirectURI != in.RedirectURI, subtle.ConstantTimeCompare([]byte(challenge), []byte(t.challenge)) != 1:
			return nil, ErrMismatch
		case t.used != 0:
			return nil, ErrReused
		case now.UnixMicro() >= t.expires.UnixMicro():
			return nil, ErrUnknown
		}
		t.expires = now.Add(keptFor)
		t.owner.ExpiresAt = now.Add(GrantLifetime)
		return t.replace(ctx, tx, a.UID, now)
	})
}

// Grants returns the grants of a person, the one that was used last first.
func (s *Store) Grants(ctx context.Context, accountUID string, p Person) (all []*Grant, err error) {
	err = s.DB.Read(ctx, func(q store.Querier) error {
		all = nil
		const query = `SELECT id, client_id, issuer, subject, address, created_at, last_used_at, expires_at FROM oauth_grant
			WHERE account_uid = $1 AND issuer = $2 AND subject = $3 AND expires_at > $4 ORDER BY last_used_at DESC, id LIMIT 1000`
		rows, err := q.QueryContext(ctx, query, accountUID, p.Issuer, p.Subject, s.now().UnixMicro())
		if err != nil {
			return err
		}
		defer func() { _ = rows.Close() }()
		for rows.Next() {
			var g Grant
			var created, used, expires int64
			if err := rows.Scan(&g.ID, &g.ClientID, &g.Issuer, &g.Subject, &g.Address, &created, &used, &expires); err != nil {
				return err
			}
			g.CreatedAt, g.LastUsedAt, g.ExpiresAt = time.UnixMicro(created).UTC(), time.UnixMicro(used).UTC(), time.UnixMicro(expires).UTC()
			all = append(all, &g)
		}
		return rows.Err()
	})
	if err != nil {
		return nil, fmt.Errorf("list grants: %w", err)
	}
	return all, nil
}
