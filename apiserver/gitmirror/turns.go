package gitmirror

import (
	"context"
	"slices"
	"sync"
)

// turns limits concurrent work, of all accounts and of each. Of the accounts that wait, the one with the
// least work in progress is next. It is safe for concurrent use.
type turns struct {
	total, each int

	mu      sync.Mutex
	all     int
	held    map[string]int
	waiting []*waiter
}

// waiter is work that waits. ready is closed when it has a place.
type waiter struct {
	account string
	ready   chan struct{}
}

func newTurns(total, each int) *turns {
	return &turns{total: total, each: each, held: map[string]int{}}
}

// acquire waits for a place for an account. The caller must call release once.
func (t *turns) acquire(ctx context.Context, account string) (release func(), err error) {
	w := &waiter{account, make(chan struct{})}
	t.mu.Lock()
	t.waiting = append(t.waiting, w)
	t.start()
	t.mu.Unlock()
	select {
	case <-w.ready:
		return func() { t.release(account) }, nil
	case <-ctx.Done():
	}
	t.mu.Lock()
	i := slices.Index(t.waiting, w)
	if i >= 0 {
		t.waiting = slices.Delete(t.waiting, i, i+1)
	}
	t.mu.Unlock()
	if i < 0 { // it has got a place at the same time
		t.release(account)
	}
	return nil, ctx.Err()
}

func (t *turns) release(account string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.all--
	if t.held[account]--; t.held[account] == 0 {
		delete(t.held, account)
	}
	t.start()
}

// start gives places to those that wait. The caller must hold mu.
func (t *turns) start() {
	for t.all < t.total {
		next := -1
		for i, w := range t.waiting {
			if t.held[w.account] < t.each && (next < 0 || t.held[w.account] < t.held[t.waiting[next].account]) {
				next = i
			}
		}
		if next < 0 {
			return
		}
		w := t.waiting[next]
		t.waiting = slices.Delete(t.waiting, next, next+1)
		t.all++
		t.held[w.account]++
		close(w.ready)
	}
}
