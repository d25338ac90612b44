package process

import (
	"context"
	"fmt"
	"time"
)

// Await tries a number of times until it works. The error of the last time is wrapped, that of the
// context is not.
func Await(ctx context.Context, who string, times int, interval time.Duration, try func() error) error {
	var last error
	for range times {
		if last = try(); last == nil {
			return nil
		}
		if Pause(ctx, interval); ctx.Err() != nil {
			return ctx.Err()
		}
	}
	return fmt.Errorf("%s does not answer: %w", who, last)
}

// Pause waits, unless the context ends.
func Pause(ctx context.Context, d time.Duration) {
	select {
	case <-ctx.Done():
	case <-time.After(d):
	}
}
