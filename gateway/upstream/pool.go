package upstream

import (
	"context"
	"errors"
	"slices"
	"sync"
	"time"
)

// Why there is no endpoint for a request.
var (
	// ErrNoEndpoint says that none became ready in time.
	ErrNoEndpoint = errors.New("no pod of the environment is ready")
	// ErrTooManyWaiting says that enough others wait for one.
	ErrTooManyWaiting = errors.New("no pod of the environment is ready, and too many requests wait for one")
)

// An endpoint that cannot be connected to is left out for a moment, longer each time: pods die
// before anybody says so.
const (
	firstPause = 250 * time.Millisecond
	maxPause   = 4 * time.Second
)

// Limits say how long and how many requests wait for an endpoint.
type Limits struct {
	Wait       time.Duration
	MaxWaiting int
}

// Pool is the ready endpoints of one port of an environment.
type Pool struct {
	limits  Limits
	metrics *Metrics

	mu        sync.Mutex
	endpoints []*Endpoint
	next      int // where to begin looking: equals take turns
	waiting   int
	changed   chan struct{} // closed when endpoints change
}

// Endpoint is a pod's address and what the gateway knows of it. Its fields are guarded by the
// pool.
type Endpoint struct {
	// Address is host:port.
	Address string

	pool        *Pool
	inFlight    int
	failures    int
	pausedUntil time.Time
}

func newPool(limits Limits, m *Metrics) *Pool {
	return &Pool{limits: limits, metrics: m, changed: make(chan struct{})}
}

// set replaces the endpoints; what is known of those that stay is kept.
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

// Ready tells whether a request would be sent at once.
func (p *Pool) Ready() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return len(p.endpoints) > 0
}

// Addresses are those of all endpoints.
func (p *Pool) Addresses() []string {
	p.mu.Lock()
	defer p.mu.Unlock()
	out := make([]string, 0, len(p.endpoints))
	for _, e := range p.endpoints {
		out = append(out, e.Address)
	}
	return out
}

// Acquire takes the endpoint with the least in flight, one that is not in tried if there is
// any, and waits for one within the limits. Release must be called when it is done with.
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
	limit := time.NewTimer(p.limits.Wait)
	defer limit.Stop()
	p.mu.Unlock()
	return p.wait(ctx, tried, limit.C)
}

func (p *Pool) wait(ctx context.Context, tried []*Endpoint, limit <-chan time.Time) (*Endpoint, error) {
	for {
		p.mu.Lock()
		e, soonest := p.pick(tried)
		changed := p.changed
		p.mu.Unlock()
		if e != nil {
			return e, nil
		}
		pause := time.NewTimer(soonest)
		select {
		case <-ctx.Done():
			pause.Stop()
			return nil, ctx.Err()
		case <-limit:
			pause.Stop()
			return nil, ErrNoEndpoint
		case <-changed:
		case <-pause.C:
		}
		pause.Stop()
	}
}

// pick takes an endpoint, or says how soon one that is paused may be tried again.
func (p *Pool) pick(tried []*Endpoint) (*Endpoint, time.Duration) {
	now, soonest := time.Now(), maxPause
	var best *Endpoint
	bestTried := false
	for i := range p.endpoints {
		e := p.endpoints[(p.next+i)%len(p.endpoints)]
		if pause := e.pausedUntil.Sub(now); pause > 0 {
			soonest = min(soonest, pause)
			continue
		}
		again := slices.Contains(tried, e)
		if best == nil || bestTried && !again || bestTried == again && e.inFlight < best.inFlight {
			best, bestTried = e, again
		}
	}
	if best == nil {
		return nil, soonest
	}
	p.next++
	best.inFlight++
	return best, 0
}

// other tells whether there is an endpoint besides those tried that may be sent to now.
func (p *Pool) other(tried []*Endpoint) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	now := time.Now()
	return slices.ContainsFunc(p.endpoints, func(e *Endpoint) bool {
		return !slices.Contains(tried, e) && !e.pausedUntil.After(now)
	})
}

// Release gives an endpoint back.
func (e *Endpoint) Release() {
	e.pool.mu.Lock()
	defer e.pool.mu.Unlock()
	e.inFlight--
}

// Failed says that no connection to the endpoint could be made. Of many who say so at the same
// time one counts.
func (e *Endpoint) Failed() {
	e.pool.mu.Lock()
	defer e.pool.mu.Unlock()
	now := time.Now()
	if e.pausedUntil.After(now) {
		return
	}
	e.pausedUntil = now.Add(min(maxPause, firstPause<<min(e.failures, 10)))
	e.failures++
}

// Reached says that the endpoint has answered.
func (e *Endpoint) Reached() {
	e.pool.mu.Lock()
	defer e.pool.mu.Unlock()
	e.failures, e.pausedUntil = 0, time.Time{}
}
