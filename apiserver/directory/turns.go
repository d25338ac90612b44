package directory

import (
	"context"
	"sync"
)

// turns lets the changes of an object in this process be made one after the other. Without that
// nothing would be lost either, for a write is refused when the object has changed; but of many
// who change one group at once most would be refused again and again.
type turns struct {
	mu    sync.Mutex
	queue map[objectKey]*turn
}

// turn is whoever holds the token; users counts those who hold it or wait for it.
type turn struct {
	token chan struct{}
	users int
}

func newTurns() *turns { return &turns{queue: map[objectKey]*turn{}} }

// take waits for one's turn, and returns what ends it. An error is that of the context.
func (t *turns) take(ctx context.Context, kind, namespace, name string) (done func(), err error) {
	key := objectKey{kind, namespace, name}
	t.mu.Lock()
	mine := t.queue[key]
	if mine == nil {
		mine = &turn{token: make(chan struct{}, 1)}
		t.queue[key] = mine
	}
	mine.users++
	t.mu.Unlock()
	leave := func() {
		t.mu.Lock()
		defer t.mu.Unlock()
		if mine.users--; mine.users == 0 {
			delete(t.queue, key)
		}
	}
	select {
	case mine.token <- struct{}{}:
		return func() { <-mine.token; leave() }, nil
	case <-ctx.Done():
		leave()
		return nil, ctx.Err()
	}
}
