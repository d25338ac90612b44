package process

import (
	"context"
	"fmt"
	"time"
)

// Await calls try up to a number of times until it succeeds. It returns the error of the last call, wrapped, or that
// of the context.
func Await(ctx context.Context, name string, times int, interval time.Duration, try func() error) error {
	var err error
	for range times {
		if err = try(); err == nil {
			return nil
		}
		if Pause(ctx, interval); ctx.Err() != nil {
			return ctx.Err()
		}
	}
	return fmt.Errorf("%s does not answer: %w", name, err)
}

// Pause sleeps until the time has passed or the context ends.
func Pause(ctx context.Context, d time.Duration) {
	select {
	case <-ctx.Done():
	case <-time.After(d):
	}
}
