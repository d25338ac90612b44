package store

import (
	"context"
	"time"
)

// DeleteBefore deletes rows from before a time. statement deletes those with a time of at most $1, in
// microseconds since 1970, and at most $2 rows; it runs in transactions of batch rows until none are left.
// After a crash the next call continues, and any number of replicas may run it.
func (s *Store) DeleteBefore(ctx context.Context, statement string, before time.Time, batch int64) error {
	for {
		var deleted int64
		err := s.Tx(ctx, func(tx *Tx) error {
			result, err := tx.ExecContext(ctx, statement, before.UnixMicro(), batch)
			if err != nil {
				return err
			}
			deleted, err = result.RowsAffected()
			return err
		})
		if err != nil || deleted < batch {
			return err
		}
	}
}
