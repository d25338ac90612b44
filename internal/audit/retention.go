package audit

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"math"
	"time"

	"github.com/google/uuid"

	"github.com/quoin-dev/quoin/internal/store"
)

// The limits of the documented product.
const (
	DefaultMaxAge    = 30 * 24 * time.Hour
	DefaultMaxEvents = 10_000
)

// Limits bound the events of an account; zero means no limit.
type Limits struct {
	MaxAge    time.Duration
	MaxEvents int
}

// deleteBatch is the maximum number of events that one transaction deletes, while others wait.
const deleteBatch = 500

// Retain deletes the oldest events of an account that exceed its limits. It may run concurrently.
func (l *Log) Retain(ctx context.Context, account string, limits Limits) (deleted int, err error) {
	bound, err := l.firstKept(ctx, account, limits)
	if err != nil || bound.time == math.MinInt64 {
		return 0, err
	}
	statement := "DELETE FROM audit_event WHERE id IN (SELECT id FROM audit_event WHERE account = $1 AND (time, id) < ($2, $3) ORDER BY time, id LIMIT $4" +
		l.store.Dialect().ForUpdateSkipLocked() + ")"
	for {
		n, err := l.delete(ctx, statement, account, bound.time, bound.id, deleteBatch)
		if err != nil {
			return deleted, fmt.Errorf("delete events of account %q: %w", account, err)
		}
		deleted += int(n)
		deletedTotal.Add(float64(n))
		if n < deleteBatch {
			return deleted, nil
		}
	}
}

func (l *Log) delete(ctx context.Context, statement string, args ...any) (n int64, err error) {
	ctx, cancel := context.WithTimeout(ctx, statementTimeout)
	defer cancel()
	err = l.store.Tx(ctx, func(tx *store.Tx) error {
		result, err := tx.ExecContext(ctx, statement, args...)
		if err != nil {
			return err
		}
		n, err = result.RowsAffected()
		return err
	})
	return n, err
}

// firstKept returns a key before every event to keep and after all others.
func (l *Log) firstKept(ctx context.Context, account string, limits Limits) (key, error) {
	kept := key{time: math.MinInt64}
	if limits.MaxAge > 0 {
		kept = key{l.clock.Now().Add(-limits.MaxAge).UnixMicro(), uuid.Nil.String()}
	}
	if limits.MaxEvents <= 0 {
		return kept, nil
	}
	var oldest key
	const text = "SELECT time, id FROM audit_event WHERE account = $1 ORDER BY time DESC, id DESC LIMIT 1 OFFSET $2"
	err := l.reader.QueryRowContext(ctx, text, account, limits.MaxEvents-1).Scan(&oldest.time, &oldest.id)
	switch {
	case errors.Is(err, sql.ErrNoRows):
		return kept, nil
	case err != nil:
		return kept, fmt.Errorf("count events of account %q: %w", account, err)
	case oldest.compare(kept) > 0:
		return oldest, nil
	}
	return kept, nil
}

// RunRetention runs Retain for each account that has events, at an interval until the context ends.
// Any number of replicas may run it.
func (l *Log) RunRetention(ctx context.Context, interval time.Duration, limits func(account string) Limits) error {
	return store.Repeat(ctx, interval, l.log, "Expired audit events could not be deleted", func(ctx context.Context) error { return l.retainAll(ctx, limits) })
}

func (l *Log) retainAll(ctx context.Context, limits func(account string) Limits) error {
	var failed []error
	for account := ""; ; {
		// One index lookup for each account, regardless of the number of its events.
		const text = "SELECT account FROM audit_event WHERE account > $1 ORDER BY account LIMIT 1"
		err := l.reader.QueryRowContext(ctx, text, account).Scan(&account)
		if errors.Is(err, sql.ErrNoRows) {
			return errors.Join(failed...)
		}
		if err != nil {
			return errors.Join(append(failed, fmt.Errorf("list accounts: %w", err))...)
		}
		deleted, err := l.Retain(ctx, account, limits(account))
		if err != nil {
			failed = append(failed, err)
		}
		if deleted > 0 {
			l.log.Info("Deleted audit events", "account", account, "events", deleted)
		}
	}
}
