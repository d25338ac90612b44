package store

import (
	"context"
	"log/slog"
	"time"
)

// Repeat calls work at an interval until the context ends. It logs an error of work as the cause of failure,
// which describes what could not be done, and returns nil.
func Repeat(ctx context.Context, interval time.Duration, log *slog.Logger, failure string, work func(ctx context.Context) error) error {
	ticker := time.NewTicker(interval)
	defer ticker.Stop()
	for {
		if err := work(ctx); err != nil && ctx.Err() == nil {
			log.Warn(failure+"; it is retried", "cause", err.Error())
		}
		select {
		case <-ctx.Done():
			return nil
		case <-ticker.C:
		}
	}
}
