// Package ratelimit limits the rate of events by key, such as requests by caller, with bounded memory.
package ratelimit

import (
	"sync"
	"time"

	"golang.org/x/time/rate"
)

// Limits has a token bucket for each key. It is safe for concurrent use. Create it with New.
type Limits[K comparable] struct {
	perSecond rate.Limit
	burst     int
	maxKeys   int

	mu sync.Mutex
	// recent and older hold the buckets: older those that have not been used since recent was last full.
	recent, older map[K]*rate.Limiter
}

// New returns limits of perSecond events on average and burst events at once for each key. Of more than maxKeys keys, the
// limits of the least recently used are reset.
func New[K comparable](perSecond float64, burst, maxKeys int) *Limits[K] {
	return &Limits[K]{perSecond: rate.Limit(perSecond), burst: burst, maxKeys: maxKeys, recent: map[K]*rate.Limiter{}}
}

// Wait returns the time after which an event of a key is admitted, 0 if it is now. It admits none.
func (l *Limits[K]) Wait(key K, now time.Time) time.Duration {
	missing := 1 - l.of(key).TokensAt(now)
	if missing <= 0 {
		return 0
	}
	return time.Duration(missing / float64(l.perSecond) * float64(time.Second))
}

// Take admits an event of a key and returns 0, or returns the time after which to retry.
func (l *Limits[K]) Take(key K, now time.Time) time.Duration {
	reservation := l.of(key).ReserveN(now, 1)
	wait := reservation.DelayFrom(now)
	if wait > 0 {
		reservation.CancelAt(now)
	}
	return wait
}

// Return undoes a Take that has admitted an event: it does not count.
func (l *Limits[K]) Return(key K, now time.Time) {
	l.of(key).AllowN(now, -1) // a negative number of events adds tokens, up to the burst
}

func (l *Limits[K]) of(key K) *rate.Limiter {
	l.mu.Lock()
	defer l.mu.Unlock()
	limiter := l.recent[key]
	if limiter == nil {
		if limiter = l.older[key]; limiter == nil {
			limiter = rate.NewLimiter(l.perSecond, l.burst)
		}
		if len(l.recent) >= l.maxKeys/2 {
			l.older, l.recent = l.recent, map[K]*rate.Limiter{}
		}
		l.recent[key] = limiter
	}
	return limiter
}
