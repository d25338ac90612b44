// Package oauth has the state of sign-in: sessions of browsers, what people have granted to clients, with
// the codes and tokens of each grant, and the requests of devices.
//
// Secrets are random texts of which only the SHA-256 is stored. Each secret that may be used once is marked
// as used in the transaction that stores what it is exchanged for, so a process that is killed at any point
// leaves it either unused or exchanged.
//
//	oauth.go       secrets, the clock, purge and expiry
//	session.go     sessions of browsers
//	grant.go       grants and codes
//	token.go       access tokens and refresh tokens
//	device.go      requests of devices (RFC 8628)
//	migrations/    the tables
package oauth

import (
	"context"
	"crypto/rand"
	"crypto/sha256"
	"embed"
	"encoding/hex"
	"encoding/json"
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

// Owner has the tables of sign-in.
var Owner = store.Owner{Name: "oauth", Migrations: migrations, Tables: []string{"oauth_session", "oauth_grant", "oauth_token", "oauth_device"}, Purge: purge}

// Prefixes of secrets, by which people and scanners recognize them.
const (
	AccessPrefix  = "qat_"
	RefreshPrefix = "qrt_"
	codePrefix    = "qac_"
	devicePrefix  = "qdc_"
	sessionPrefix = "qss_"
)

const (
	// SessionIdle and SessionLifetime end a session: the time since its last use, and since it began.
	SessionIdle     = 8 * time.Hour
	SessionLifetime = 7 * 24 * time.Hour
	// touchInterval is the time after which the last use of a session is stored again.
	touchInterval = time.Minute
	// CodeLifetime is the lifetime of an authorization code.
	CodeLifetime = time.Minute
	// keptFor is how long a code that was used is kept, to detect that it is used again.
	keptFor = time.Hour
	// AccessLifetime and RefreshLifetime are those of tokens, and GrantLifetime that of all tokens of a grant.
	AccessLifetime  = time.Hour
	RefreshLifetime = 30 * 24 * time.Hour
	GrantLifetime   = 90 * 24 * time.Hour
	// RetryWindow is how long a refresh token that was used is accepted again if its successor was not used:
	// the response with the successor may have been lost.
	RetryWindow = 2 * time.Minute
	// DeviceLifetime is the lifetime of a request of a device, and DeviceInterval the initial time between
	// two polls, to which slowDown is added after one that comes too early.
	DeviceLifetime = 15 * time.Minute
	DeviceInterval = 5 * time.Second
	slowDown       = 5 * time.Second
	// maxClaims bounds the claims of a person.
	maxClaims = 64 << 10
	// expireBatch is the maximum number of rows that one transaction of Expire deletes.
	expireBatch = 500
)

var (
	// ErrUnknown is returned for a secret that does not exist, is expired, or is that of another account.
	ErrUnknown = errors.New("it does not exist, has expired or was revoked")
	// ErrReused is returned for a secret that was used before. What it was exchanged for is revoked.
	ErrReused = errors.New("it was used before: what it was exchanged for is revoked")
	// ErrMismatch is returned for a secret that is used by another client, with another redirect URI, or with
	// a wrong verifier. Nothing is changed.
	ErrMismatch = errors.New("it was issued to another client, for another redirect URI, or with another code challenge")
	// ErrPending is returned until a person has decided on the request of a device.
	ErrPending = errors.New("the request is pending")
	// ErrSlowDown is returned if a device polls too fast.
	ErrSlowDown = errors.New("the device polls too fast")
	// ErrDenied is returned if the request of a device was denied.
	ErrDenied = errors.New("the request was denied")
)

// Store is the state of sign-in of all accounts. It must not be copied after first use.
type Store struct {
	DB     content.Database
	Record content.Record
	// Now is the clock; time.Now if nil.
	Now func() time.Time

	found found
}

func (s *Store) now() time.Time {
	now := time.Now
	if s.Now != nil {
		now = s.Now
	}
	return now().UTC().Truncate(time.Microsecond)
}

// Person is a person who has authenticated at an issuer.
type Person struct {
	// Issuer is the URL of the issuer, and Subject identifies the person there.
	Issuer, Subject string
	// Claims of the ID token from which the principal of the person is derived.
	Claims map[string]any
	// UserUID is the UID of the SCIM user of the person; empty if there was none, or if it is not known.
	UserUID string
}

// actor returns the person as the actor of events.
func (p Person) actor() audit.Actor {
	email, _ := p.Claims["email"].(string)
	return audit.Actor{Kind: audit.ActorUser, ID: p.Subject, Email: email}
}

// encode returns the claims as they are stored.
func (p Person) encode() (string, error) {
	data, err := json.Marshal(p.Claims)
	if err != nil {
		return "", fmt.Errorf("encode claims: %w", err)
	}
	if len(data) > maxClaims {
		return "", content.Errorf(content.Invalid, "the claims of the ID token have %d bytes: at most %d are allowed; reduce the groups in the token", len(data), maxClaims)
	}
	return string(data), nil
}

func (p *Person) decode(claims string) error {
	if err := json.Unmarshal([]byte(claims), &p.Claims); err != nil {
		return fmt.Errorf("decode claims: %w", err)
	}
	return nil
}

// newSecret returns a secret of 260 random bits.
func newSecret(prefix string) string { return prefix + rand.Text() + rand.Text() }

// hash returns the form in which a secret is stored. A lookup by it reveals nothing by its duration: a caller
// cannot choose the hash that is compared without knowing a secret with it.
func hash(secret string) string {
	sum := sha256.Sum256([]byte(secret))
	return hex.EncodeToString(sum[:])
}

// purgeAccount deletes rows of an account.
var purgeAccount = store.PurgeInOrder(
	store.PurgeTable("oauth_device", "account_uid, hash"),
	store.PurgeTable("oauth_token", "account_uid, hash"),
	store.PurgeTable("oauth_grant", "account_uid, id"),
	store.PurgeTable("oauth_session", "account_uid, id"),
)

// purge is Owner.Purge. No row belongs to a deployment.
func purge(ctx context.Context, tx *store.Tx, of store.Deleted, limit int) (bool, error) {
	if of.DeploymentUID != "" {
		return false, nil
	}
	return purgeAccount(ctx, tx, of, limit)
}

// Expire deletes what is expired. Any number of replicas may run it.
func Expire(ctx context.Context, st *store.Store, now time.Time) error {
	for _, table := range []struct {
		name, key, time string
		before          time.Time
	}{
		{"oauth_session", "account_uid, id", "expires_at", now},
		{"oauth_session", "account_uid, id", "last_used_at", now.Add(-SessionIdle)},
		{"oauth_grant", "account_uid, id", "expires_at", now},
		{"oauth_token", "account_uid, hash", "expires_at", now},
		{"oauth_device", "account_uid, hash", "expires_at", now},
	} {
		statement := fmt.Sprintf("DELETE FROM %[1]s WHERE (%[2]s) IN (SELECT %[2]s FROM %[1]s WHERE %[3]s <= $1 LIMIT $2)", table.name, table.key, table.time)
		if err := st.DeleteBefore(ctx, statement, table.before, expireBatch); err != nil {
			return fmt.Errorf("table %s: %w", table.name, err)
		}
	}
	return nil
}

// RunExpiry runs Expire at an interval until the context ends.
func RunExpiry(ctx context.Context, st *store.Store, interval time.Duration, log *slog.Logger) error {
	return store.Repeat(ctx, interval, log, "Expired sessions and tokens could not be deleted", func(ctx context.Context) error { return Expire(ctx, st, time.Now()) })
}
