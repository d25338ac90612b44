package subject

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"

	"github.com/quoin-dev/quoin/internal/audit"
	"github.com/quoin-dev/quoin/internal/content"
	"github.com/quoin-dev/quoin/internal/store"
)

// transferred is the name of the event.
var transferred = audit.Declare("Transferred content of deleted user")

// batch is the maximum number of rows that one transaction of Release changes.
const batch = 500

// Part is content that names users.
type Part struct {
	// Name is the name of its number of rows in the event, such as workbooks.
	Name string
	// Do changes at most limit rows that name a user so that they name another owner, or deletes them. It returns their number.
	Do func(ctx context.Context, tx *store.Tx, accountUID, user, owner string, limit int) (int, error)
}

// selected selects the keys of rows. Indexes begin with the UIDs of the deployment and the account, or with that of the account.
const selected = `(%[3]s) IN (SELECT %[3]s FROM %[1]s
	WHERE account_uid = $1 AND deployment_uid IN (SELECT uid FROM deployment WHERE account_uid = $1) AND %[2]s = $2 LIMIT $3)`

// Reassigned returns the Part of a column whose value becomes the new owner. The table has columns account_uid and deployment_uid;
// key are those of its primary key.
func Reassigned(name, table, key, column string) Part {
	statement := fmt.Sprintf("UPDATE %[1]s SET %[2]s = $4 WHERE "+selected, table, column, key)
	return Part{name, func(ctx context.Context, tx *store.Tx, accountUID, user, owner string, limit int) (int, error) {
		return Changed(tx.ExecContext(ctx, statement, accountUID, user, limit, owner))
	}}
}

// Removed returns the Part of rows that are deleted with the user in a column.
func Removed(name, table, key, column string) Part {
	statement := fmt.Sprintf("DELETE FROM %[1]s WHERE "+selected, table, column, key)
	return Part{name, func(ctx context.Context, tx *store.Tx, accountUID, user, _ string, limit int) (int, error) {
		return Changed(tx.ExecContext(ctx, statement, accountUID, user, limit))
	}}
}

// Changed returns the number of rows that a statement has changed.
func Changed(result interface{ RowsAffected() (int64, error) }, err error) (int, error) {
	if err != nil {
		return 0, err
	}
	n, err := result.RowsAffected()
	return int(n), err
}

// errDone ends a transaction in which nothing is to be done.
var errDone = errors.New("nothing is to be done")

// Release hands the content of a user who was deleted over to the administrators of the account, and records one event if there
// was any. It does nothing if the user is not recorded. Each transaction changes at most batch rows, and the next call continues
// after a crash at any point. Any number of replicas may call it.
func (u *Users) Release(ctx context.Context, a store.Account, user User, record content.Record) error {
	for more := true; more; {
		err := u.DB.Tx(ctx, func(tx *store.Tx) (err error) {
			if err := tx.LockAccount(ctx, a); err != nil {
				return err
			}
			more, err = u.release(ctx, tx, a, user, record)
			return err
		})
		if errors.Is(err, errDone) {
			return nil
		}
		if err != nil {
			return fmt.Errorf("hand over the content of the deleted user %q: %w", user.Name, err)
		}
	}
	return nil
}

// release is one transaction of Release. The row of the user is deleted by the one that finds no content left.
func (u *Users) release(ctx context.Context, tx *store.Tx, a store.Account, user User, record content.Record) (more bool, err error) {
	known, err := find(ctx, tx, a.UID, user.Name)
	if err != nil {
		return false, err
	}
	// Another replica may have released the user, and the name may be that of another one now.
	if known == nil || known.uid != user.UID {
		return false, errDone
	}
	changed := map[string]int{}
	if err := json.Unmarshal([]byte(known.changed), &changed); err != nil {
		return false, fmt.Errorf("column changed: %w", err)
	}
	left := batch
	for _, part := range u.Parts {
		if left == 0 {
			break
		}
		n, err := part.Do(ctx, tx, a.UID, OwnerOf(user.Name), Administrators(a.Name), left)
		if err != nil {
			return false, fmt.Errorf("%s: %w", part.Name, err)
		}
		if left -= n; n > 0 {
			changed[part.Name] += n
		}
	}
	if left == 0 {
		text, err := json.Marshal(changed)
		if err != nil {
			return false, err
		}
		const mark = "UPDATE content_user SET gone = 1, changed = $3 WHERE account_uid = $1 AND name = $2"
		_, err = tx.ExecContext(ctx, mark, a.UID, user.Name, string(text))
		return true, err
	}
	if _, err := tx.ExecContext(ctx, "DELETE FROM content_user WHERE account_uid = $1 AND name = $2", a.UID, user.Name); err != nil {
		return false, err
	}
	if len(changed) == 0 {
		return false, nil
	}
	return false, recordRelease(ctx, tx, a, user, changed, record)
}

// recordRelease stores the event.
func recordRelease(ctx context.Context, tx *store.Tx, a store.Account, user User, changed map[string]int, record content.Record) error {
	after := map[string]any{"owner": Administrators(a.Name)}
	for name, n := range changed {
		after[name] = n
	}
	return record.Change(ctx, tx, transferred, audit.Object{Kind: kindUser, Name: user.Name}, map[string]any{"owner": OwnerOf(user.Name)}, after)
}
