package store

import (
	"context"
	"log/slog"
	"time"

	"k8s.io/utils/clock"
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

const (
	// minRetry and maxRetry are the times between two calls of Retry. They double.
	minRetry = 100 * time.Millisecond
	maxRetry = time.Second
)

// Retry calls do until it succeeds, its error is final, or the context has ended. It returns the error of the last call.
func Retry(ctx context.Context, clk clock.WithDelayedExecution, final func(error) bool, do func(ctx context.Context) error) error {
	for pause := minRetry; ; pause = min(2*pause, maxRetry) {
		err := do(ctx)
		if err == nil || final(err) || ctx.Err() != nil {
			return err
		}
		timer := clk.NewTimer(pause)
		select {
		case <-ctx.Done():
			timer.Stop()
			return err
		case <-timer.C():
		}
	}
}
