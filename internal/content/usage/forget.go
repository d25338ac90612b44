package usage

import (
	"context"

	"github.com/quoin-dev/quoin/internal/content/subject"
	"github.com/quoin-dev/quoin/internal/store"
)

// OfUsers is what names users: see subject.Users. What a deleted user has used remains, as usage of the administrators.
var OfUsers = []subject.Part{{Name: "agentUsage", Do: handOver}}

func handOver(ctx context.Context, tx *store.Tx, accountUID, user, administrators string, limit int) (int, error) {
	const statement = `UPDATE agent_usage SET user_name = CASE WHEN user_name = $2 THEN $3 ELSE user_name END,
		caller = CASE WHEN caller = $2 THEN $3 ELSE caller END
		WHERE (account_uid, deployment_uid, source, run) IN (SELECT account_uid, deployment_uid, source, run FROM agent_usage
		WHERE account_uid = $1 AND (user_name = $2 OR caller = $2) LIMIT $4)`
	return subject.Changed(tx.ExecContext(ctx, statement, accountUID, user, administrators, limit))
}
