package usage

import (
	"context"
	"fmt"
	"time"

	"github.com/quoin-dev/quoin/internal/store"
)

// Spent are the tokens of a day, of requests and answers together.
type Spent struct{ Account, Caller, User int64 }

// spent sums up the tokens of a day. The index begins with the account and the deployment.
const spent = `SELECT COALESCE(CAST(SUM(input_tokens + output_tokens) AS BIGINT), 0),
		COALESCE(CAST(SUM(CASE WHEN caller = $3 THEN input_tokens + output_tokens ELSE 0 END) AS BIGINT), 0),
		COALESCE(CAST(SUM(CASE WHEN user_name = $4 THEN input_tokens + output_tokens ELSE 0 END) AS BIGINT), 0)
	FROM agent_usage WHERE account_uid = $1 AND deployment_uid IN (SELECT uid FROM deployment WHERE account_uid = $1) AND day = $2`

// Spent returns the tokens that were used in the day of a time (UTC) by an account, and of them those by a caller and for a user.
// Runs count for the day in which they began. It is called before each request to a model, and reads the rows of the day only.
func (u *Usage) Spent(ctx context.Context, accountUID string, at time.Time, caller, user string) (out Spent, err error) {
	err = u.DB.Read(ctx, func(q store.Querier) error {
		return q.QueryRowContext(ctx, spent, accountUID, dayOf(at).UnixMicro(), caller, user).Scan(&out.Account, &out.Caller, &out.User)
	})
	if err != nil {
		return Spent{}, fmt.Errorf("sum up the tokens of a day: %w", err)
	}
	return out, nil
}
