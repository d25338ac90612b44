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

// What the documented product keeps.
const (
	DefaultMaxAge    = 30 * 24 * time.Hour
	DefaultMaxEvents = 10_000
)

// Limits say how much is kept of an account; zero is no limit.
type Limits struct {
	MaxAge    time.Duration
	MaxEvents int
}

// deletedAtOnce is how many events one transaction deletes: others wait no longer than that takes.
const deletedAtOnce = 500

// Retain deletes what is over the limits of an account, the oldest first. Several may do so at
// the same time.
func (l *Log) Retain(ctx context.Context, account string, limits Limits) (deleted int, err error) {
	upTo, err := l.firstKept(ctx, account, limits)
	if err != nil || upTo.time == math.MinInt64 {
		return 0, err
	}
	statement := "DELETE FROM audit_event WHERE id IN (SELECT id FROM audit_event WHERE account = $1 AND (time, id) < ($2, $3) ORDER BY time, id LIMIT $4" +
		l.store.Dialect().ForUpdateSkipLocked() + ")"
	for {
		n, err := l.delete(ctx, statement, account, upTo.time, upTo.id, deletedAtOnce)
		if err != nil {
			return deleted, fmt.Errorf("delete events of account %q: %w", account, err)
		}
		deleted += int(n)
		deletedTotal.Add(float64(n))
		if n < deletedAtOnce {
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

// firstKept is before every event that is kept and after every other.
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

// RunRetention deletes what is over the limits of each account that has events, every so often
// until the context ends. Any number of replicas may run it.
func (l *Log) RunRetention(ctx context.Context, every time.Duration, limits func(account string) Limits) error {
	ticker := time.NewTicker(every)
	defer ticker.Stop()
	for {
		if err := l.retainAll(ctx, limits); err != nil && ctx.Err() == nil {
			l.log.Warn("Audit events that are too old or too many are still there, for the next time", "cause", err.Error())
		}
		select {
		case <-ctx.Done():
			return nil
		case <-ticker.C:
		}
	}
}

func (l *Log) retainAll(ctx context.Context, limits func(account string) Limits) error {
	var failed []error
	for account := ""; ; {
		// One step of the index an account, however many events it has.
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
