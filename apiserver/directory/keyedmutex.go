package directory

import (
	"context"
	"sync"

	"github.com/quoin-dev/quoin/internal/freshness"
)

// keyedMutex serializes the changes of one object in this process. It is an optimization: a write
// fails if the object has changed, but with many concurrent changes of one group most of them would
// conflict again and again.
type keyedMutex struct {
	mu    sync.Mutex
	locks map[freshness.ID]*keyedLock
}

// keyedLock is the lock of one object; users counts its holder and the waiters.
type keyedLock struct {
	token chan struct{}
	users int
}

func newKeyedMutex() *keyedMutex { return &keyedMutex{locks: map[freshness.ID]*keyedLock{}} }

// lock waits for the lock of an object and returns a function that releases it, or the error of the
// context.
func (m *keyedMutex) lock(ctx context.Context, id freshness.ID) (unlock func(), err error) {
	m.mu.Lock()
	l := m.locks[id]
	if l == nil {
		l = &keyedLock{token: make(chan struct{}, 1)}
		m.locks[id] = l
	}
	l.users++
	m.mu.Unlock()
	leave := func() {
		m.mu.Lock()
		defer m.mu.Unlock()
		if l.users--; l.users == 0 {
			delete(m.locks, id)
		}
	}
	select {
	case l.token <- struct{}{}:
		return func() { <-l.token; leave() }, nil
	case <-ctx.Done():
		leave()
		return nil, ctx.Err()
	}
}
