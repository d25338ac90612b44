package chat

import (
	"context"

	"github.com/quoin-dev/quoin/internal/content/subject"
	"github.com/quoin-dev/quoin/internal/store"
)

// OfUsers is what names users: see subject.Users. The threads of a user, who was the only one to see them, are deleted with the
// user.
var OfUsers = []subject.Part{
	{Name: "chatRunsInProgress", Do: interrupted},
	{Name: "chatLines", Do: removed("chat_line", "account_uid, thread_id, sort", "thread_id")},
	{Name: "chatRuns", Do: removed("chat_run", "account_uid, thread_id, id", "thread_id")},
	{Name: "chats", Do: removed("chat_thread", "account_uid, id", "id")},
}

// interrupted takes the leases of runs in progress away, so that nothing is appended while the lines are deleted.
func interrupted(ctx context.Context, tx *store.Tx, accountUID, user, _ string, limit int) (int, error) {
	const statement = `UPDATE chat_thread SET run_id = 0, holder = '', lease_until = 0 WHERE (account_uid, id) IN
		(SELECT account_uid, id FROM chat_thread WHERE account_uid = $1 AND owner = $2 AND run_id <> 0 LIMIT $3)`
	return subject.Changed(tx.ExecContext(ctx, statement, accountUID, user, limit))
}

// removed returns a function that deletes rows of the threads of a user. column has the id of the thread.
func removed(table, key, column string) func(ctx context.Context, tx *store.Tx, accountUID, user, _ string, limit int) (int, error) {
	statement := "DELETE FROM " + table + " WHERE (" + key + ") IN (SELECT " + key + " FROM " + table + ` WHERE account_uid = $1
		AND ` + column + ` IN (SELECT id FROM chat_thread WHERE account_uid = $1 AND owner = $2) LIMIT $3)`
	return func(ctx context.Context, tx *store.Tx, accountUID, user, _ string, limit int) (int, error) {
		return subject.Changed(tx.ExecContext(ctx, statement, accountUID, user, limit))
	}
}
