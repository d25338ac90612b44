package model

import (
	"context"
	"errors"
	"iter"
	"math/rand/v2"
	"time"
)

// Retry repeats requests that have failed before their first event, if they can succeed later.
type Retry struct {
	Model
	// Tries is the maximum number of requests.
	Tries int
	// Pause is the time before the second request, and MaxPause the maximum before any. They double, with jitter.
	Pause, MaxPause time.Duration
	// Sleep waits; for tests. If nil, it is that of the clock.
	Sleep func(ctx context.Context, d time.Duration) error
}

// Stream implements Model. A failure for which the provider asks to wait longer than MaxPause is returned at once.
func (r *Retry) Stream(ctx context.Context, in *Request) iter.Seq2[Event, error] {
	return func(yield func(Event, error) bool) {
		for try, pause := 1, r.Pause; ; try, pause = try+1, min(2*pause, r.MaxPause) {
			failed := r.try(ctx, in, yield)
			if failed == nil {
				return
			}
			wait := max(pause/2+rand.N(pause/2+1), failed.RetryAfter) //nolint:gosec // jitter
			if try >= r.Tries || !failed.Retryable() || failed.RetryAfter > r.MaxPause {
				yield(Event{}, failed)
				return
			}
			if err := r.sleep(ctx, wait); err != nil {
				yield(Event{}, err)
				return
			}
		}
	}
}

// try streams once. It returns a failure before the first event, which it has not yielded.
func (r *Retry) try(ctx context.Context, in *Request, yield func(Event, error) bool) *Error {
	begun := false
	for e, err := range r.Model.Stream(ctx, in) {
		var failed *Error
		if err != nil && !begun && errors.As(err, &failed) {
			return failed
		}
		begun = true
		if !yield(e, err) || err != nil {
			return nil
		}
	}
	return nil
}

func (r *Retry) sleep(ctx context.Context, d time.Duration) error {
	if r.Sleep != nil {
		return r.Sleep(ctx, d)
	}
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-ctx.Done():
		return context.Cause(ctx)
	case <-timer.C:
		return nil
	}
}
