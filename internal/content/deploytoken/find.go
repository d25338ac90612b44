package deploytoken

import (
	"context"
	"crypto/sha256"
	"crypto/subtle"
	"database/sql"
	"encoding/hex"
	"errors"
	"fmt"
	"regexp"
	"time"

	"github.com/golang-jwt/jwt/v5"

	"github.com/quoin-dev/quoin/internal/store"
)

// Token is a stored token.
type Token struct {
	ID   string
	Kind Kind
	// Deployment to which the token is limited.
	Deployment store.Deployment
	CreatedBy  Creator
}

// ErrUnknown is returned for a token that does not exist, was replaced, or is expired.
var ErrUnknown = errors.New("there is no such deploy token")

var idForm = regexp.MustCompile(`^(deploy|git)-[A-Z2-7]{26}$`)

// IDOf returns the id that a JWT claims to have; false if it has not the form of a token of this
// package. The JWT is not verified.
func IDOf(text string) (string, bool) {
	var c claims
	if _, _, err := jwt.NewParser().ParseUnverified(text, &c); err != nil {
		return "", false
	}
	return c.ID, idForm.MatchString(c.ID)
}

// absent is compared with a token that does not exist, so that the check takes the same time.
var absent = sha256.Sum256(nil)

// Find returns the token of an account with a text. The error is ErrUnknown unless there is one.
func (t *Tokens) Find(ctx context.Context, accountUID, text string) (*Token, error) {
	id, ok := IDOf(text)
	if !ok {
		return nil, ErrUnknown
	}
	found, stored, expires := &Token{ID: id}, "", int64(0)
	err := t.DB.Read(ctx, func(q store.Querier) error {
		const query = `SELECT t.kind, t.hash, t.expires_at, t.created_by, t.creator_user, t.creator_user_name, d.uid, d.namespace, d.name
			FROM deploy_token AS t JOIN deployment AS d ON d.uid = t.deployment_uid WHERE t.account_uid = $1 AND t.id = $2`
		d, by := &found.Deployment, &found.CreatedBy
		return q.QueryRowContext(ctx, query, accountUID, id).Scan(&found.Kind, &stored, &expires, &by.Principal, &by.User, &by.UserName, &d.UID, &d.Namespace, &d.Name)
	})
	exists := !errors.Is(err, sql.ErrNoRows)
	if err != nil && exists {
		return nil, fmt.Errorf("find a deploy token: %w", err)
	}
	want, err := hex.DecodeString(stored)
	if err != nil || len(want) != sha256.Size {
		want, exists = absent[:], false
	}
	sum := sha256.Sum256([]byte(text))
	equal := subtle.ConstantTimeCompare(sum[:], want) == 1
	if !exists || !equal || expires > 0 && !t.now().Before(time.UnixMicro(expires)) {
		return nil, ErrUnknown
	}
	return found, nil
}
