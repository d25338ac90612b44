package gitmirror

import (
	"context"
	"sync"

	"github.com/quoin-dev/quoin/internal/turns"
)

// places limits concurrent work, of all accounts and of each, in turns between accounts. It is safe for concurrent
// use.
type places struct {
	mu     sync.Mutex
	limits *turns.Limits[string, chan struct{}]
}

func newPlaces(total, each int) *places {
	return &places{limits: turns.NewLimits[string, chan struct{}](total, each)}
}

// acquire waits for a place for an account. The caller must call release once.
func (p *places) acquire(ctx context.Context, account string) (release func(), err error) {
	ready := make(chan struct{})
	p.mu.Lock()
	p.limits.Add(account, ready)
	p.start()
	p.mu.Unlock()
	select {
	case <-ready:
		return func() { p.release(account) }, nil
	case <-ctx.Done():
	}
	p.mu.Lock()
	waited := p.limits.Remove(account, ready)
	p.mu.Unlock()
	if !waited { // it has got a place at the same time
		p.release(account)
	}
	return nil, ctx.Err()
}

func (p *places) release(account string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.limits.Done(account)
	p.start()
}

// start gives places to those that wait. The caller must hold mu.
func (p *places) start() {
	for ready, ok := p.limits.Start(); ok; ready, ok = p.limits.Start() {
		close(ready)
	}
}
