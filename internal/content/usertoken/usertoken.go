// Package usertoken has the OAuth tokens of people for integrations, and the authorizations that people have begun. It stores
// the tokens as the caller has encrypted them.
//
// A state is deleted by the transaction that returns what it stands for, so a response of a provider is used once. A token is
// refreshed or revoked by the replica that has leased it; the result is stored only if the token is still the one that was
// leased.
//
//	usertoken.go   the model, authorizations, purge and expiry
//	token.go       tokens: reading, storing, deleting
//	work.go        leases: refresh and revocation
//	migrations/    the tables
package usertoken

import (
	"context"
	"crypto/rand"
	"crypto/sha256"
	"database/sql"
	"embed"
	"encoding/hex"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"github.com/quoin-dev/quoin/internal/audit"
	"github.com/quoin-dev/quoin/internal/content"
	"github.com/quoin-dev/quoin/internal/store"
)

//go:embed migrations/*.sql
var migrations embed.FS

// Owner has the tables of tokens.
var Owner = store.Owner{Name: "user_oauth", Migrations: migrations, Tables: []string{"user_oauth_token", "user_oauth_flow"}, Purge: purge}

// Names of events.
var (
	authorized = audit.Declare("Authorized OAuth integration")
	revoked    = audit.Declare("Revoked OAuth token")
)

const (
	// FlowLifetime is the time that a person has at the provider.
	FlowLifetime = 10 * time.Minute
	// MaxFlows is the number of authorizations of a person that are kept: the newest ones.
	MaxFlows = 20
	// MaxTokens is the number of tokens of a person: there are fewer integrations.
	MaxTokens = 1000
	// expireBatch is the maximum number of rows that one transaction of Expire deletes.
	expireBatch = 500
)

// ErrUnknown is returned for a state or token that does not exist, has expired, was used, or is that of another person or
// account.
var ErrUnknown = errors.New("it does not exist, has expired or was used")

// Store has the tokens of all accounts.
type Store struct {
	DB     content.Database
	Record content.Record
	// Now is the clock; time.Now if nil.
	Now func() time.Time
}

func (s *Store) now() time.Time {
	now := time.Now
	if s.Now != nil {
		now = s.Now
	}
	return now().UTC().Truncate(time.Microsecond)
}

// Sealed is an encrypted secret.
type Sealed struct{ KeyID, Text string }

// Flow is an authorization that a person has begun.
type Flow struct {
	// User is the id of the person, and Integration the number of the integration.
	User        string
	Integration int64
	// RedirectURI is that of the authorization request.
	RedirectURI string
	// Verifier is the code verifier (RFC 7636).
	Verifier Sealed
}

// NewState returns a random state.
func NewState() string { return rand.Text() + rand.Text() }

// hash returns the form in which a state is stored.
func hash(state string) string {
	sum := sha256.Sum256([]byte(state))
	return hex.EncodeToString(sum[:])
}

// Begin stores an authorization, and deletes the oldest ones of the person above the limit. It returns when it expires.
func (s *Store) Begin(ctx context.Context, a store.Account, state string, in Flow) (time.Time, error) {
	now := s.now()
	expires := now.Add(FlowLifetime)
	err := s.DB.Tx(ctx, func(tx *store.Tx) error {
		if err := tx.LockAccount(ctx, a); err != nil {
			return err
		}
		const insert = `INSERT INTO user_oauth_flow (account_uid, hash, user_id, integration_id, key_id, sealed, redirect_uri, created_at, expires_at)
			VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9)`
		_, err := tx.ExecContext(ctx, insert, a.UID, hash(state), in.User, in.Integration, in.Verifier.KeyID, in.Verifier.Text, in.RedirectURI, now.UnixMicro(), expires.UnixMicro())
		if err != nil {
			return err
		}
		const trim = `DELETE FROM user_oauth_flow WHERE account_uid = $1 AND hash IN (
			SELECT hash FROM user_oauth_flow WHERE account_uid = $1 AND user_id = $2 ORDER BY created_at DESC, hash LIMIT 1000 OFFSET $3)`
		_, err = tx.ExecContext(ctx, trim, a.UID, in.User, MaxFlows)
		return err
	})
	if err != nil {
		return time.Time{}, fmt.Errorf("begin an authorization: %w", err)
	}
	return expires, nil
}

// End deletes an authorization and returns it. The error is ErrUnknown if there is none, or if it is that of another person.
func (s *Store) End(ctx context.Context, a store.Account, user, state string) (*Flow, error) {
	var out *Flow
	err := s.DB.Tx(ctx, func(tx *store.Tx) error {
		if err := tx.LockAccount(ctx, a); err != nil {
			return err
		}
		found, expires := Flow{}, int64(0)
		const remove = `DELETE FROM user_oauth_flow WHERE account_uid = $1 AND hash = $2
			RETURNING user_id, integration_id, key_id, sealed, redirect_uri, expires_at`
		err := tx.QueryRowContext(ctx, remove, a.UID, hash(state)).Scan(&found.User, &found.Integration, &found.Verifier.KeyID, &found.Verifier.Text, &found.RedirectURI, &expires)
		if out = nil; errors.Is(err, sql.ErrNoRows) {
			return nil
		}
		if found.User == user && expires > s.now().UnixMicro() {
			out = &found
		}
		return err
	})
	if err != nil {
		return nil, fmt.Errorf("end an authorization: %w", err)
	}
	if out == nil {
		return nil, ErrUnknown
	}
	return out, nil
}

// purgeAccount deletes rows of an account.
var purgeAccount = store.PurgeInOrder(
	store.PurgeTable("user_oauth_flow", "account_uid, hash"),
	store.PurgeTable("user_oauth_token", "account_uid, id"),
)

// purge is Owner.Purge. No row belongs to a deployment.
func purge(ctx context.Context, tx *store.Tx, of store.Deleted, limit int) (bool, error) {
	if of.DeploymentUID != "" {
		return false, nil
	}
	return purgeAccount(ctx, tx, of, limit)
}

// RunExpiry deletes authorizations that have expired, at an interval, until the context ends.
func RunExpiry(ctx context.Context, st *store.Store, interval time.Duration, log *slog.Logger) error {
	return store.Repeat(ctx, interval, log, "Expired authorizations could not be deleted", func(ctx context.Context) error { return Expire(ctx, st, time.Now()) })
}

// Expire deletes authorizations that have expired. Any number of replicas may run it.
func Expire(ctx context.Context, st *store.Store, now time.Time) error {
	const statement = `DELETE FROM user_oauth_flow WHERE (account_uid, hash) IN (SELECT account_uid, hash FROM user_oauth_flow WHERE expires_at <= $1 LIMIT $2)`
	return st.DeleteBefore(ctx, statement, now, expireBatch)
}
