package upstream

import (
	"context"
	"errors"
	"slices"
	"sync"
	"time"
)

// Reasons why a request has no endpoint.
var (
	// ErrNoEndpoint means that no endpoint became ready before the timeout.
	ErrNoEndpoint = errors.New("no pod of the environment is ready")
	// ErrTooManyWaiting means that the maximum number of requests wait for an endpoint.
	ErrTooManyWaiting = errors.New("no pod of the environment is ready, and too many requests wait for one")
)

// Exponential backoff of an endpoint that cannot be connected to: a pod may fail before its
// EndpointSlice changes.
const (
	minBackoff = 250 * time.Millisecond
	maxBackoff = 4 * time.Second
)

// Limits are the timeout of requests that wait for an endpoint, and their maximum number.
type Limits struct {
	Wait       time.Duration
	MaxWaiting int
}

// Pool holds the ready endpoints of one port of an environment.
type Pool struct {
	limits  Limits
	metrics *Metrics

	mu        sync.Mutex
	endpoints []*Endpoint
	next      int // where to start: equally loaded endpoints are used round-robin
	waiting   int
	changed   chan struct{} // closed when endpoints change
}

// Endpoint is a pod's address and its state. The fields are guarded by the pool's mutex.
type Endpoint struct {
	// Address is host:port.
	Address string

	pool         *Pool
	inFlight     int
	failures     int
	backoffUntil time.Time
}

func newPool(limits Limits, m *Metrics) *Pool {
	return &Pool{limits: limits, metrics: m, changed: make(chan struct{})}
}

// set replaces the endpoints, and keeps the state of those that remain.
func (p *Pool) set(addresses []string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	endpoints := make([]*Endpoint, 0, len(addresses))
	for _, address := range addresses {
		i := slices.IndexFunc(p.endpoints, func(e *Endpoint) bool { return e.Address == address })
		if i >= 0 {
			endpoints = append(endpoints, p.endpoints[i])
			continue
		}
		endpoints = append(endpoints, &Endpoint{Address: address, pool: p})
	}
	p.endpoints = endpoints
	close(p.changed)
	p.changed = make(chan struct{})
}

// Ready reports whether the pool has an endpoint.
func (p *Pool) Ready() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return len(p.endpoints) > 0
}

// isUnused reports whether the pool has neither an endpoint nor requests that wait for one.
func (p *Pool) isUnused() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return len(p.endpoints) == 0 && p.waiting == 0
}

// Addresses returns the addresses of all endpoints.
func (p *Pool) Addresses() []string {
	p.mu.Lock()
	defer p.mu.Unlock()
	out := make([]string, 0, len(p.endpoints))
	for _, e := range p.endpoints {
		out = append(out, e.Address)
	}
	return out
}

// Acquire returns the endpoint with the fewest requests in flight, preferably one that is not in
// tried, and waits for one within the limits. The caller must call Release after use.
func (p *Pool) Acquire(ctx context.Context, tried []*Endpoint) (*Endpoint, error) {
	p.mu.Lock()
	if e, _ := p.pick(tried); e != nil {
		p.mu.Unlock()
		return e, nil
	}
	if p.waiting >= p.limits.MaxWaiting {
		p.mu.Unlock()
		return nil, ErrTooManyWaiting
	}
	p.waiting++
	p.metrics.Waiting.Inc()
	defer func() {
		p.metrics.Waiting.Dec()
		p.mu.Lock()
		p.waiting--
		p.mu.Unlock()
	}()
	timeout := time.NewTimer(p.limits.Wait)
	defer timeout.Stop()
	p.mu.Unlock()
	return p.wait(ctx, tried, timeout.C)
}

func (p *Pool) wait(ctx context.Context, tried []*Endpoint, timeout <-chan time.Time) (*Endpoint, error) {
	for {
		p.mu.Lock()
		e, retryAfter := p.pick(tried)
		changed := p.changed
		p.mu.Unlock()
		if e != nil {
			return e, nil
		}
		backoff := time.NewTimer(retryAfter)
		select {
		case <-ctx.Done():
			backoff.Stop()
			return nil, ctx.Err()
		case <-timeout:
			backoff.Stop()
			return nil, ErrNoEndpoint
		case <-changed:
		case <-backoff.C:
		}
		backoff.Stop()
	}
}

// pick acquires an endpoint, or returns after which time an endpoint leaves its backoff.
func (p *Pool) pick(tried []*Endpoint) (*Endpoint, time.Duration) {
	now, retryAfter := time.Now(), maxBackoff
	var best *Endpoint
	bestTried := false
	for i := range p.endpoints {
		e := p.endpoints[(p.next+i)%len(p.endpoints)]
		if backoff := e.backoffUntil.Sub(now); backoff > 0 {
			retryAfter = min(retryAfter, backoff)
			continue
		}
		wasTried := slices.Contains(tried, e)
		if best == nil || bestTried && !wasTried || bestTried == wasTried && e.inFlight < best.inFlight {
			best, bestTried = e, wasTried
		}
	}
	if best == nil {
		return nil, retryAfter
	}
	p.next++
	best.inFlight++
	return best, 0
}

// hasUntried reports whether an endpoint that is not in tried is available now.
func (p *Pool) hasUntried(tried []*Endpoint) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	now := time.Now()
	return slices.ContainsFunc(p.endpoints, func(e *Endpoint) bool {
		return !slices.Contains(tried, e) && !e.backoffUntil.After(now)
	})
}

// Release ends the use of an endpoint.
func (e *Endpoint) Release() {
	e.pool.mu.Lock()
	defer e.pool.mu.Unlock()
	e.inFlight--
}

// Failed records that a connection to the endpoint failed. Concurrent failures count once.
func (e *Endpoint) Failed() {
	e.pool.mu.Lock()
	defer e.pool.mu.Unlock()
	now := time.Now()
	if e.backoffUntil.After(now) {
		return
	}
	e.backoffUntil = now.Add(min(maxBackoff, minBackoff<<min(e.failures, 10)))
	e.failures++
}

// Reached records that the endpoint has answered, and ends its backoff.
func (e *Endpoint) Reached() {
	e.pool.mu.Lock()
	defer e.pool.mu.Unlock()
	e.failures, e.backoffUntil = 0, time.Time{}
}
