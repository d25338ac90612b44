package turns

import (
	"context"
	"sync"
)

// Places limits concurrent work, of all owners and of each, in turns between owners. It is safe for concurrent
// use. Create it with NewPlaces.
type Places[K comparable] struct {
	mu     sync.Mutex
	limits *Limits[K, chan struct{}]
}

// NewPlaces returns places for at most total work at a time, and at most each of one owner.
func NewPlaces[K comparable](total, each int) *Places[K] {
	return &Places[K]{limits: NewLimits[K, chan struct{}](total, each)}
}

// Acquire waits for a place for an owner, or returns the error of ctx. The caller must call release once.
func (p *Places[K]) Acquire(ctx context.Context, owner K) (release func(), err error) {
	ready := make(chan struct{})
	p.mu.Lock()
	p.limits.Add(owner, ready)
	p.start()
	p.mu.Unlock()
	select {
	case <-ready:
		return func() { p.release(owner) }, nil
	case <-ctx.Done():
	}
	p.mu.Lock()
	waited := p.limits.Remove(owner, ready)
	p.mu.Unlock()
	if !waited { // it has got a place at the same time
		p.release(owner)
	}
	return nil, ctx.Err()
}

// Waiting returns how much work waits for a place.
func (p *Places[K]) Waiting() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.limits.Waiting()
}

func (p *Places[K]) release(owner K) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.limits.Done(owner)
	p.start()
}

// start gives places to those that wait. The caller must hold mu.
func (p *Places[K]) start() {
	for ready, ok := p.limits.Start(); ok; ready, ok = p.limits.Start() {
		close(ready)
	}
}
