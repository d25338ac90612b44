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
	"sync"
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

// foundLifetime is how long a token that was found is valid without asking the database again: clients send it with
// each file of an upload, and the question takes longer than all other checks of the credential. The process that
// replaces a token forgets it at once.
const foundLifetime = time.Second

// maxFound bounds the tokens that were found.
const maxFound = 10_000

// foundKey is an account and the SHA-256 of the text of a token.
type foundKey struct {
	account string
	sum     [sha256.Size]byte
}

// stored is a token that was found, with the times at which it expires, zero for never, and is looked up again.
type stored struct {
	token          Token
	expires, until time.Time
}

// isExpired reports whether the token is expired.
func (s *stored) isExpired(now time.Time) bool { return !s.expires.IsZero() && !now.Before(s.expires) }

// found has the tokens that were found lately. It is safe for concurrent use.
type found struct {
	mu     sync.Mutex
	tokens map[foundKey]stored // guarded by mu
	// changes is the number of calls of forget.
	changes int // guarded by mu
}

// get returns a token, if it was found lately, and the number of changes so far.
func (f *found) get(key foundKey, now time.Time) (s stored, ok bool, changes int) {
	f.mu.Lock()
	defer f.mu.Unlock()
	s, ok = f.tokens[key]
	return s, ok && now.Before(s.until), f.changes
}

// put keeps a token, unless it may have been replaced while it was read.
func (f *found) put(key foundKey, s stored, changes int) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.changes != changes {
		return
	}
	if f.tokens == nil || len(f.tokens) >= maxFound {
		f.tokens = map[foundKey]stored{}
	}
	f.tokens[key] = s
}

// forget forgets all tokens.
func (f *found) forget() {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.tokens = nil
	f.changes++
}

// Find returns the token of an account with a text. The error is ErrUnknown unless there is one.
func (t *Tokens) Find(ctx context.Context, accountUID, text string) (*Token, error) {
	key := foundKey{accountUID, sha256.Sum256([]byte(text))}
	now := t.now()
	s, ok, changes := t.found.get(key, now)
	if !ok {
		read, err := t.read(ctx, accountUID, text, key.sum)
		if err != nil {
			return nil, err
		}
		s = *read
		s.until = now.Add(foundLifetime)
		t.found.put(key, s, changes)
	}
	if s.isExpired(t.now()) {
		return nil, ErrUnknown
	}
	return &s.token, nil
}

// read reads the token of an account with a text.
func (t *Tokens) read(ctx context.Context, accountUID, text string, sum [sha256.Size]byte) (*stored, error) {
	id, ok := IDOf(text)
	if !ok {
		return nil, ErrUnknown
	}
	found, hash, expires := &stored{token: Token{ID: id}}, "", int64(0)
	err := t.DB.Read(ctx, func(q store.Querier) error {
		const query = `SELECT t.kind, t.hash, t.expires_at, t.created_by, t.creator_user, t.creator_user_name, t.creator_user_uid, d.uid, d.namespace, d.name
			FROM deploy_token AS t JOIN deployment AS d ON d.uid = t.deployment_uid WHERE t.account_uid = $1 AND t.id = $2`
		d, by := &found.token.Deployment, &found.token.CreatedBy
		return q.QueryRowContext(ctx, query, accountUID, id).Scan(&found.token.Kind, &hash, &expires, &by.Principal, &by.User, &by.UserName, &by.UserUID, &d.UID, &d.Namespace, &d.Name)
	})
	exists := !errors.Is(err, sql.ErrNoRows)
	if err != nil && exists {
		return nil, fmt.Errorf("find a deploy token: %w", err)
	}
	want, err := hex.DecodeString(hash)
	if err != nil || len(want) != sha256.Size {
		want, exists = absent[:], false
	}
	if equal := subtle.ConstantTimeCompare(sum[:], want) == 1; !exists || !equal {
		return nil, ErrUnknown
	}
	if expires > 0 {
		found.expires = time.UnixMicro(expires)
	}
	return found, nil
}
