package serving

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"
)

// Background runs the background tasks of a server: caches, certificates, logs. They run until the
// last request has been answered, because requests depend on them. The first failure of a task
// stops the server.
type Background struct {
	serve   context.Context //nolint:containedctx // the context of the server
	stop    context.CancelCauseFunc
	work    context.Context //nolint:containedctx // the context of the tasks
	end     context.CancelFunc
	running sync.WaitGroup
}

// endTimeout is how long End waits for the tasks.
const endTimeout = 10 * time.Second

// NewBackground returns the context of the server, which ends with ctx or when a task fails.
func NewBackground(ctx context.Context) (context.Context, *Background) {
	b := &Background{}
	b.serve, b.stop = context.WithCancelCause(ctx)
	b.work, b.end = context.WithCancel(context.WithoutCancel(ctx))
	return b.serve, b
}

// Context returns the context of the tasks. It outlives the context of the server.
func (b *Background) Context() context.Context { return b.work }

// Run starts a task; name identifies it in errors.
func (b *Background) Run(name string, work func(context.Context) error) {
	b.running.Go(func() {
		if err := work(b.work); err != nil && b.work.Err() == nil {
			b.stop(fmt.Errorf("%s: %w", name, err))
		}
	})
}

// End stops the tasks after the server has stopped with err, and waits for them. It returns the
// error of a task if that stopped the server, and err otherwise.
func (b *Background) End(err error) error {
	first := context.Cause(b.serve)
	b.end()
	b.stop(nil)
	select {
	case <-ended(&b.running):
	case <-time.After(endTimeout): // the process exits without them
	}
	switch {
	case first != nil && !errors.Is(first, context.Canceled) && !errors.Is(first, context.DeadlineExceeded):
		return first
	case errors.Is(err, context.Canceled):
		return nil
	}
	return err
}

// ended returns a channel that is closed when a group has ended.
func ended(group *sync.WaitGroup) <-chan struct{} {
	c := make(chan struct{})
	go func() {
		group.Wait()
		close(c)
	}()
	return c
}
