package dbtsync

import (
	"context"
	"log/slog"
	"time"

	"github.com/quoin-dev/quoin/internal/store"
)

// expireBatch is the maximum number of rows that one transaction of Expire deletes.
const expireBatch = 100

// Expire deletes manifests and files that are expired. Any number of replicas may run it.
func Expire(ctx context.Context, s *store.Store, now time.Time) error {
	const statement = `DELETE FROM dbt_sync_data WHERE (account_uid, id, kind) IN (SELECT account_uid, id, kind FROM dbt_sync_data WHERE expires_at <= $1 LIMIT $2)`
	return s.DeleteBefore(ctx, statement, now, expireBatch)
}

// RunExpiry runs Expire at an interval until the context ends.
func RunExpiry(ctx context.Context, s *store.Store, interval time.Duration, log *slog.Logger) error {
	return store.Repeat(ctx, interval, log, "Expired files of dbt syncs could not be deleted", func(ctx context.Context) error { return Expire(ctx, s, time.Now()) })
}
