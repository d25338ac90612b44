// Package deploytoken has the tokens with which programs change the data model of one deployment: a
// deploy token, which is valid until it is replaced, and Git tokens, which are valid for an hour.
//
// A token is a JWT, because clients decode it to find the server and the deployment. It is signed with
// a key that is discarded: what proves it is its SHA-256, which alone is stored.
//
//	deploytoken.go   the model, issuing and expiry
//	find.go          checking a token
//	migrations/      the table
package deploytoken

import (
	"context"
	"crypto/rand"
	"crypto/sha256"
	"embed"
	"encoding/hex"
	"fmt"
	"log/slog"
	"time"

	"github.com/golang-jwt/jwt/v5"

	"github.com/quoin-dev/quoin/internal/audit"
	"github.com/quoin-dev/quoin/internal/content"
	"github.com/quoin-dev/quoin/internal/store"
)

//go:embed migrations/*.sql
var migrations embed.FS

// Owner has the table of tokens.
var Owner = store.Owner{Name: "deploy_token", Migrations: migrations, Tables: []string{"deploy_token"}, Purge: store.PurgeTable("deploy_token", "account_uid, id")}

// createdDeployToken is the name of the event of a new deploy token.
var createdDeployToken = audit.Declare("Created deploy token")

// Kind is the use of a token. It begins the token's id.
type Kind string

// The kinds of tokens.
const (
	// Deploy is the token of a deployment for uploads: one at a time, until it is replaced.
	Deploy Kind = "deploy"
	// Git is a password of the deployment's repository.
	Git Kind = "git"
)

const (
	// GitLifetime is the lifetime of a Git token.
	GitLifetime = time.Hour
	// MaxGit is the number of Git tokens of a deployment that are kept: the newest ones.
	MaxGit = 100
	// keyBytes is the size of the key that signs a token.
	keyBytes = 32
	// expireBatch is the maximum number of rows that one transaction of Expire deletes.
	expireBatch = 500
)

// Tokens are the tokens of all deployments. It must not be copied after first use.
type Tokens struct {
	DB     content.Database
	Record content.Record
	// Now is the clock; time.Now if nil.
	Now func() time.Time

	found found
}

func (t *Tokens) now() time.Time {
	now := time.Now
	if t.Now != nil {
		now = t.Now
	}
	return now().UTC().Truncate(time.Microsecond)
}

// Creator is the principal that creates a token, and the person behind it.
type Creator struct {
	// Principal has the credential's kind and id.
	Principal string
	// User is the id of the person as a SCIM user; empty if there is no such user.
	User string
	// UserUID is the UID of that SCIM user; empty for a token from before it was stored.
	UserUID string
	// UserName is the SCIM userName of a person who authenticates with it; empty otherwise.
	UserName string
}

// New is a token to issue.
type New struct {
	Kind Kind
	// Number of the deployment, and URL of the account's host: clients read both in the token.
	Number, URL string
}

// Issued is a new token. Its text cannot be read again.
type Issued struct {
	Token     string
	CreatedAt time.Time
	// ExpiresAt is zero for a token without an end.
	ExpiresAt time.Time
}

// claims are the claims of a token.
type claims struct {
	DeploymentID string `json:"deploymentId"`
	URL          string `json:"url"`
	jwt.RegisteredClaims
}

// Issue issues a token. A deploy token replaces the previous one, which is invalid from
// then on.
func (t *Tokens) Issue(ctx context.Context, s content.Scope, by Creator, in New) (*Issued, error) {
	now := t.now()
	id := string(in.Kind) + "-" + rand.Text()
	out := &Issued{CreatedAt: now}
	registered := jwt.RegisteredClaims{ID: id, IssuedAt: jwt.NewNumericDate(now)}
	expires := int64(0)
	if in.Kind == Git {
		out.ExpiresAt = now.Add(GitLifetime)
		registered.ExpiresAt, expires = jwt.NewNumericDate(out.ExpiresAt), out.ExpiresAt.UnixMicro()
	}
	key := make([]byte, keyBytes)
	_, _ = rand.Read(key) // never fails
	var err error
	out.Token, err = jwt.NewWithClaims(jwt.SigningMethodHS256, claims{in.Number, in.URL, registered}).SignedString(key)
	if err != nil {
		return nil, fmt.Errorf("sign a token: %w", err)
	}
	err = t.DB.Tx(ctx, func(tx *store.Tx) error {
		if err := tx.LockDeployment(ctx, s.Account, s.Deployment); err != nil {
			return err
		}
		if err := makeRoom(ctx, tx, s, in.Kind); err != nil {
			return err
		}
		const insert = `INSERT INTO deploy_token (account_uid, deployment_uid, id, kind, hash, created_at, created_by, creator_user, creator_user_name, expires_at, creator_user_uid)
			VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11)`
		_, err := tx.ExecContext(ctx, insert, s.Account.UID, s.Deployment.UID, id, string(in.Kind), hash(out.Token), now.UnixMicro(), by.Principal, by.User, by.UserName, expires, by.UserUID)
		if err != nil {
			return fmt.Errorf("keep a token: %w", err)
		}
		event := audit.Event{Name: createdDeployToken, Object: audit.Object{Kind: "DeployToken", Name: id}}
		if in.Kind == Git {
			event.Name = audit.GeneratedGitCredentials
		}
		return t.Record(ctx, tx, event)
	})
	t.found.forget() // after an error too, with which the outcome may be unknown
	if err != nil {
		return nil, err
	}
	return out, nil
}

// makeRoom deletes the deploy token of a deployment, or the oldest of its Git tokens.
func makeRoom(ctx context.Context, tx *store.Tx, s content.Scope, kind Kind) error {
	kept := 0
	if kind == Git {
		kept = MaxGit - 1
	}
	const statement = `DELETE FROM deploy_token WHERE account_uid = $1 AND id IN (
		SELECT id FROM deploy_token WHERE deployment_uid = $2 AND account_uid = $1 AND kind = $3
		AND id NOT IN (SELECT id FROM deploy_token WHERE deployment_uid = $2 AND account_uid = $1 AND kind = $3 ORDER BY created_at DESC, id LIMIT $4))`
	if _, err := tx.ExecContext(ctx, statement, s.Account.UID, s.Deployment.UID, string(kind), kept); err != nil {
		return fmt.Errorf("delete previous tokens: %w", err)
	}
	return nil
}

// hash returns the form in which a token is stored.
func hash(token string) string {
	sum := sha256.Sum256([]byte(token))
	return hex.EncodeToString(sum[:])
}

// Expire deletes the tokens that are expired. Any number of replicas may run it.
func Expire(ctx context.Context, st *store.Store, now time.Time) error {
	const statement = `DELETE FROM deploy_token WHERE (account_uid, id) IN (
		SELECT account_uid, id FROM deploy_token WHERE expires_at > 0 AND expires_at <= $1 LIMIT $2)`
	return st.DeleteBefore(ctx, statement, now, expireBatch)
}

// RunExpiry runs Expire at an interval until the context ends.
func RunExpiry(ctx context.Context, st *store.Store, interval time.Duration, log *slog.Logger) error {
	return store.Repeat(ctx, interval, log, "Expired Git tokens could not be deleted", func(ctx context.Context) error { return Expire(ctx, st, time.Now()) })
}
