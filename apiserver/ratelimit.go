package apiserver

import (
	"context"
	"sync"
	"time"

	"golang.org/x/time/rate"
)

// maxCallers bounds the memory of rateLimits. Beyond it, the limits of the least recently active
// callers are reset.
const maxCallers = 10_000

// rateLimits limits the requests of each caller.
type rateLimits struct {
	perSecond rate.Limit
	burst     int
	mu        sync.Mutex
	// recent and older hold the limiters of callers: older those that are not in use since recent was
	// last full.
	recent, older map[string]*rate.Limiter
}

func newRateLimits(perSecond float64, burst int) *rateLimits {
	return &rateLimits{perSecond: rate.Limit(perSecond), burst: burst, recent: map[string]*rate.Limiter{}}
}

// take admits a request of a caller and returns 0, or returns the time after which to retry.
func (r *rateLimits) take(caller string) time.Duration {
	r.mu.Lock()
	limiter := r.recent[caller]
	if limiter == nil {
		if limiter = r.older[caller]; limiter == nil {
			limiter = rate.NewLimiter(r.perSecond, r.burst)
		}
		if len(r.recent) >= maxCallers/2 {
			r.older, r.recent = r.recent, map[string]*rate.Limiter{}
		}
		r.recent[caller] = limiter
	}
	r.mu.Unlock()
	reservation := limiter.Reserve()
	if wait := reservation.Delay(); wait > 0 {
		reservation.Cancel()
		return wait
	}
	return 0
}

// wait waits until a request of a caller is admitted, or the context ends.
func (r *rateLimits) wait(ctx context.Context, caller string) error {
	for {
		pause := r.take(caller)
		if pause == 0 {
			return nil
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(pause):
		}
	}
}
