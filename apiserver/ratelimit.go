package apiserver

import (
	"context"
	"sync"
	"time"

	"golang.org/x/time/rate"
)

// maxCallers bounds the memory of rates; beyond it those that have not called for longest
// begin anew.
const maxCallers = 10_000

// rates lets each caller through so many times a second, on average.
type rates struct {
	perSecond rate.Limit
	burst     int
	mu        sync.Mutex
	young     map[string]*rate.Limiter
	old       map[string]*rate.Limiter
}

func newRates(perSecond float64, burst int) *rates {
	return &rates{perSecond: rate.Limit(perSecond), burst: burst, young: map[string]*rate.Limiter{}}
}

// take lets a caller through, or says how long it has to wait.
func (r *rates) take(caller string) time.Duration {
	r.mu.Lock()
	limiter := r.young[caller]
	if limiter == nil {
		if limiter = r.old[caller]; limiter == nil {
			limiter = rate.NewLimiter(r.perSecond, r.burst)
		}
		if len(r.young) >= maxCallers/2 {
			r.old, r.young = r.young, map[string]*rate.Limiter{}
		}
		r.young[caller] = limiter
	}
	r.mu.Unlock()
	reservation := limiter.Reserve()
	if wait := reservation.Delay(); wait > 0 {
		reservation.Cancel()
		return wait
	}
	return 0
}

// wait lets a caller through when it may go on.
func (r *rates) wait(ctx context.Context, caller string) error {
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
