package serving

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"
)

// Background is what a server does beside answering: caches, certificates, logs. It goes on until
// the last request has been answered, because that one needs it too; the first failure ends all.
type Background struct {
	serve   context.Context //nolint:containedctx // what the server runs in
	stop    context.CancelCauseFunc
	work    context.Context //nolint:containedctx // what is in the background runs in
	end     context.CancelFunc
	running sync.WaitGroup
}

// longestEnd bounds how long what is in the background may take to end.
const longestEnd = 10 * time.Second

// NewBackground returns the context to serve in, which ends with the given one, or when something
// in the background fails.
func NewBackground(ctx context.Context) (context.Context, *Background) {
	b := &Background{}
	b.serve, b.stop = context.WithCancelCause(ctx)
	b.work, b.end = context.WithCancel(context.WithoutCancel(ctx))
	return b.serve, b
}

// Context is that of the work. It outlives the one to serve in.
func (b *Background) Context() context.Context { return b.work }

// Run begins to work at something; name says in the error what it was.
func (b *Background) Run(name string, work func(context.Context) error) {
	b.running.Go(func() {
		if err := work(b.work); err != nil && b.work.Err() == nil {
			b.stop(fmt.Errorf("%s: %w", name, err))
		}
	})
}

// End ends the work, once serving has ended with err, and waits until it has. It returns what went
// wrong first: in the background, if that is what ended the serving.
func (b *Background) End(err error) error {
	first := context.Cause(b.serve)
	b.end()
	b.stop(nil)
	ended := make(chan struct{})
	go func() {
		b.running.Wait()
		close(ended)
	}()
	select {
	case <-ended:
	case <-time.After(longestEnd): // the process ends, whatever it still does
	}
	switch {
	case first != nil && !errors.Is(first, context.Canceled) && !errors.Is(first, context.DeadlineExceeded):
		return first
	case errors.Is(err, context.Canceled):
		return nil
	}
	return err
}
