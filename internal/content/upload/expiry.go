package upload

import (
	"context"
	"log/slog"
	"time"

	"github.com/quoin-dev/quoin/internal/store"
)

const (
	// expireBatch is the maximum number of rows that one transaction of Expire deletes.
	expireBatch = 500
	// hashLifetime is how long the hash of a file is stored before it is computed again. Rows of blobs
	// that no longer exist end with it.
	hashLifetime = 90 * 24 * time.Hour
)

// Expire deletes expired uploads with their files, and old hashes. The files of an upload are deleted
// first, so that after a crash the next call continues. Any number of replicas may run it.
func Expire(ctx context.Context, st *store.Store, now time.Time) error {
	for _, statement := range []struct {
		text   string
		before time.Time
	}{
		{`DELETE FROM upload_file WHERE (account_uid, upload_id, path) IN (SELECT f.account_uid, f.upload_id, f.path FROM upload AS u
			JOIN upload_file AS f ON f.account_uid = u.account_uid AND f.upload_id = u.id WHERE u.expires_at <= $1 LIMIT $2)`, now},
		{"DELETE FROM upload WHERE (account_uid, id) IN (SELECT account_uid, id FROM upload WHERE expires_at <= $1 LIMIT $2)", now},
		{`DELETE FROM upload_hash WHERE (account_uid, deployment_uid, blob) IN (
			SELECT account_uid, deployment_uid, blob FROM upload_hash WHERE created_at <= $1 LIMIT $2)`, now.Add(-hashLifetime)},
	} {
		if err := st.DeleteBefore(ctx, statement.text, statement.before, expireBatch); err != nil {
			return err
		}
	}
	return nil
}

// RunExpiry runs Expire at an interval until the context ends.
func RunExpiry(ctx context.Context, st *store.Store, interval time.Duration, log *slog.Logger) error {
	return store.Repeat(ctx, interval, log, "Expired uploads could not be deleted", func(ctx context.Context) error { return Expire(ctx, st, time.Now()) })
}
