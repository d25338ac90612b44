package serving

import (
	"net/http"
	"net/netip"
	"sync"
	"time"
)

// Shares limits the number of concurrent requests of each key, such as a caller, so that one cannot
// hold all places of the server. It is safe for concurrent use. Create it with NewShares.
type Shares[K comparable] struct {
	limit int

	mu   sync.Mutex
	held map[K]int
}

// NewShares returns shares of limit concurrent requests.
func NewShares[K comparable](limit int) *Shares[K] {
	return &Shares[K]{limit: limit, held: map[K]int{}}
}

// Acquire takes a place in the share of a key. It returns nil if all are taken; otherwise the caller
// must call the result once.
func (s *Shares[K]) Acquire(key K) (release func()) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.held[key] >= s.limit {
		return nil
	}
	s.held[key]++
	return func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		if s.held[key]--; s.held[key] == 0 {
			delete(s.held, key)
		}
	}
}

// IsUsed reports whether all places in the share of a key are taken.
func (s *Shares[K]) IsUsed(key K) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.held[key] >= s.limit
}

// limitInFlight limits all concurrent requests to limit, those that are streams to another one, and those of a client address that
// are not authenticated yet to unauthenticated, unless that is 0.
func limitInFlight(limit, unauthenticated int, isStream func(*http.Request) bool, streams int) middleware {
	return func(next http.Handler) http.Handler {
		requests, ofStreams := make(chan struct{}, limit), make(chan struct{}, streams)
		addresses := NewShares[netip.Prefix](unauthenticated)
		return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			e := exchangeOf(r.Context())
			if network := Network(e.client); unauthenticated > 0 && network.IsValid() {
				release := addresses.Acquire(network)
				if release == nil {
					WriteBusy(w, http.StatusTooManyRequests, "too many concurrent unauthenticated requests from the address of the client")
					return
				}
				e.authenticated = sync.OnceFunc(release)
				defer e.authenticated()
			}
			slots := requests
			if isStream != nil && isStream(r) {
				slots = ofStreams
			}
			select {
			case slots <- struct{}{}:
				defer func() { <-slots }()
				next.ServeHTTP(w, r)
			default:
				WriteBusy(w, http.StatusServiceUnavailable, "too many concurrent requests")
			}
		})
	}
}

// WriteBusy responds to a request that is refused for now, with the status 429 or 503 and a
// Retry-After of one second.
func WriteBusy(w http.ResponseWriter, status int, message string) {
	RetryAfter(w, time.Second)
	WriteError(w, status, message+": retry after the time in Retry-After")
}
