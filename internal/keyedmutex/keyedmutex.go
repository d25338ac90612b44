// Package keyedmutex provides a mutex for each key, such as an object or an account.
package keyedmutex

import (
	"context"
	"sync"
)

// Mutex has a mutex for each key. The zero value has none that is locked. It is safe for concurrent use.
type Mutex[K comparable] struct {
	mu    sync.Mutex
	locks map[K]*lock
}

// lock is the lock of one key; users counts its holder and the waiters.
type lock struct {
	token chan struct{}
	users int
}

// Lock waits for the lock of a key and returns a function that releases it, or the error of the
// context.
func (m *Mutex[K]) Lock(ctx context.Context, key K) (unlock func(), err error) {
	m.mu.Lock()
	if m.locks == nil {
		m.locks = map[K]*lock{}
	}
	l := m.locks[key]
	if l == nil {
		l = &lock{token: make(chan struct{}, 1)}
		m.locks[key] = l
	}
	l.users++
	m.mu.Unlock()
	leave := func() {
		m.mu.Lock()
		defer m.mu.Unlock()
		if l.users--; l.users == 0 {
			delete(m.locks, key)
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
