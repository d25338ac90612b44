// Package subject knows which users have content, and hands the content of users who are deleted over to the administrators of the
// account (docs/decisions/0091).
//
// Content names a user as ScimUser:<name>. Names can be used again, so the table content_user has the UID of the user of each name.
// No user acts under a name while the content of a previous one is under it.
//
//	subject.go     the users that have content
//	release.go     handing over the content of a user who was deleted
//	migrations/    the table
package subject

import (
	"context"
	"database/sql"
	"embed"
	"errors"
	"fmt"
	"time"

	"github.com/quoin-dev/quoin/internal/content"
	"github.com/quoin-dev/quoin/internal/store"
)

//go:embed migrations/*.sql
var migrations embed.FS

// Owner has the table of users.
var Owner = store.Owner{
	Name: "content_subject", Migrations: migrations, Tables: []string{"content_user"},
	Purge: func(ctx context.Context, tx *store.Tx, of store.Deleted, limit int) (bool, error) {
		if of.DeploymentUID != "" {
			return false, nil
		}
		return store.PurgeTable("content_user", "account_uid, name")(ctx, tx, of, limit)
	},
}

// The kinds in the names of owners.
const (
	kindUser    = "ScimUser"
	kindAccount = "Account"
)

// OwnerOf returns how content names a user.
func OwnerOf(user string) string { return kindUser + ":" + user }

// Administrators returns how content names the administrators of an account.
func Administrators(account string) string { return kindAccount + ":" + account }

var (
	// ErrGone is returned for a user who was deleted.
	ErrGone = errors.New("the user was deleted")
	// ErrOther is returned if content under the name is that of another user.
	ErrOther = errors.New("the content of another user has the name")
	// ErrUnknown is returned for a user who is not recorded.
	ErrUnknown = errors.New("the user is not recorded")
)

// User is a ScimUser.
type User struct{ Name, UID string }

// Users are the users of all accounts who have content.
type Users struct {
	DB content.Database
	// Parts are what names users. Their order does not matter.
	Parts []Part
	// Now is the clock; time.Now if nil.
	Now func() time.Time
}

func (u *Users) now() time.Time {
	if u.Now != nil {
		return u.Now()
	}
	return time.Now()
}

// recorded is what is recorded under a name.
type recorded struct {
	uid     string
	gone    bool
	changed string
}

// find returns what is recorded under a name; nil if nothing is.
func find(ctx context.Context, q store.Querier, accountUID, name string) (*recorded, error) {
	const query = "SELECT user_uid, gone, changed FROM content_user WHERE account_uid = $1 AND name = $2"
	r, gone := &recorded{}, 0
	err := q.QueryRowContext(ctx, query, accountUID, name).Scan(&r.uid, &gone, &r.changed)
	if errors.Is(err, sql.ErrNoRows) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("read the user %q of content: %w", name, err)
	}
	r.gone = gone != 0
	return r, nil
}

// Use records a user, who may then act under the name. The error is ErrOther if the content under the name is that of another
// user, and ErrGone if it is that of this user, who was deleted.
func (u *Users) Use(ctx context.Context, a store.Account, user User) error {
	var known *recorded
	err := u.DB.Read(ctx, func(q store.Querier) (err error) {
		known, err = find(ctx, q, a.UID, user.Name)
		return err
	})
	if err != nil || known != nil && known.uid != "" {
		return errors.Join(err, known.check(user))
	}
	return u.DB.Tx(ctx, func(tx *store.Tx) error {
		if err := tx.LockAccount(ctx, a); err != nil {
			return err
		}
		return u.UseTx(ctx, tx, a, user)
	})
}

// UseTx is Use in a transaction that has locked the account.
func (u *Users) UseTx(ctx context.Context, tx *store.Tx, a store.Account, user User) error {
	const upsert = `INSERT INTO content_user (account_uid, name, user_uid, gone, changed, first_seen) VALUES ($1, $2, $3, 0, '{}', $4)
		ON CONFLICT (account_uid, name) DO UPDATE SET user_uid = excluded.user_uid WHERE content_user.user_uid = '' AND content_user.gone = 0`
	if _, err := tx.ExecContext(ctx, upsert, a.UID, user.Name, user.UID, u.now().UnixMicro()); err != nil {
		return fmt.Errorf("record the user %q of content: %w", user.Name, err)
	}
	known, err := find(ctx, tx, a.UID, user.Name)
	return errors.Join(err, known.check(user))
}

// check returns an error if a user is not the recorded one.
func (r *recorded) check(user User) error {
	switch {
	case r == nil, r.uid == user.UID && !r.gone:
		return nil
	case r.uid == user.UID:
		return ErrGone
	}
	return ErrOther
}

// Confirm returns ErrUnknown unless a user is recorded and was not deleted. It is called in each transaction in which the user
// changes content, so that nothing is changed under a name whose content was handed over.
func Confirm(ctx context.Context, tx *store.Tx, a store.Account, user User) error {
	known, err := find(ctx, tx, a.UID, user.Name)
	if err == nil && (known == nil || known.uid != user.UID || known.gone) {
		err = ErrUnknown
	}
	return err
}

// Recorded is a user who has content.
type Recorded struct {
	Account store.Account
	User
	// Gone reports whether the user was deleted and the content is being handed over.
	Gone bool
}

// List returns users of all accounts after one, in the order of account and name.
func (u *Users) List(ctx context.Context, after Recorded, limit int) (all []Recorded, err error) {
	err = u.DB.Read(ctx, func(q store.Querier) error {
		all = nil
		const query = `SELECT u.account_uid, a.name, u.name, u.user_uid, u.gone FROM content_user u JOIN account a ON a.uid = u.account_uid
			WHERE (u.account_uid, u.name) > ($1, $2) ORDER BY u.account_uid, u.name LIMIT $3`
		rows, err := q.QueryContext(ctx, query, after.Account.UID, after.Name, limit)
		if err != nil {
			return err
		}
		defer func() { _ = rows.Close() }()
		for rows.Next() {
			var r Recorded
			var gone int
			if err := rows.Scan(&r.Account.UID, &r.Account.Name, &r.Name, &r.UID, &gone); err != nil {
				return err
			}
			r.Gone = gone != 0
			all = append(all, r)
		}
		return rows.Err()
	})
	if err != nil {
		return nil, fmt.Errorf("list the users of content: %w", err)
	}
	return all, nil
}

// Find returns the user that is recorded under a name; nil if there is none.
func (u *Users) Find(ctx context.Context, a store.Account, name string) (out *Recorded, err error) {
	err = u.DB.Read(ctx, func(q store.Querier) error {
		known, err := find(ctx, q, a.UID, name)
		if out = nil; known != nil {
			out = &Recorded{Account: a, User: User{name, known.uid}, Gone: known.gone}
		}
		return err
	})
	return out, err
}
