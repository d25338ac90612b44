package query

import (
	"context"
	"errors"
	"net/http"
	"sync"
)

// Runner runs queries. Equal queries with the same target and identity run once at a time, and have one result.
type Runner struct {
	// HTTP sends the requests. It must have no timeout of its own, and not follow redirects with a token.
	HTTP *http.Client
	// MaxHeld limits the responses that are in memory at a time, in bytes as they are sent: those of results that are being
	// read, and of results that have not been released. Decoded, they take about ten times as much. No limit if 0.
	MaxHeld int64
	// MaxHeldOfAccount limits those of one account (Target.Account), so that its large results leave memory for others. It is
	// more than Limits.Bytes: a result that is too large is a LimitError, and not ErrBusy. No limit if 0.
	MaxHeldOfAccount int64

	held    memory
	mu      sync.Mutex
	running map[key]*shared
}

// shared is a run and the callers that wait for it.
type shared struct {
	cancel context.CancelFunc
	done   chan struct{}
	// waiting and ended are guarded by Runner.mu; result and err are set before done is closed.
	waiting int
	ended   bool
	result  *Result
	err     error
}

// NewClient returns a client for Runner.
func NewClient(transport http.RoundTripper) *http.Client {
	return &http.Client{
		Transport:     transport,
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}
}

// Run runs a query and returns its result, which other callers may have too, and which the caller releases. The run ends in the
// data plane when the contexts of all its callers have ended.
//
// Errors are *InvalidError, *LimitError, *ServerError, ErrBusy, those of Target.Token and of the context, and others if the
// data API is not available.
func (r *Runner) Run(ctx context.Context, q Query, t Target, l Limits) (*Result, error) {
	q, err := q.normalize()
	if err != nil {
		return nil, err
	}
	k := q.key(t, l)
	for {
		s, begun := r.join(ctx, k, q, t, l)
		select {
		case <-s.done:
		case <-ctx.Done():
			r.leave(k, s)
			return nil, context.Cause(ctx)
		}
		var token *tokenError
		if begun || !errors.As(s.err, &token) {
			return s.result, s.err
		}
		// The run had the tokens of another caller, who gets none any more.
	}
}

// join returns the run of a key, and begins it if there is none.
func (r *Runner) join(ctx context.Context, k key, q Query, t Target, l Limits) (s *shared, begun bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if s := r.running[k]; s != nil {
		s.waiting++
		return s, false
	}
	// The run does not end with the context of its first caller.
	ctx, cancel := context.WithCancel(context.WithoutCancel(ctx))
	s = &shared{cancel: cancel, done: make(chan struct{}), waiting: 1}
	if r.running == nil {
		r.running = map[key]*shared{}
	}
	r.running[k] = s
	go func() {
		defer cancel()
		work := newRun(r.HTTP, q, t, l)
		work.held = &holding{runner: r, account: t.Account}
		s.result, s.err = work.do(ctx)
		r.mu.Lock()
		r.forget(k, s)
		s.ended = true
		if s.err != nil || s.waiting == 0 {
			work.held.reset()
		}
		work.held.users.Store(int64(s.waiting))
		r.mu.Unlock()
		close(s.done)
	}()
	return s, true
}

// leave removes a caller from a run, and cancels the run of the last one.
func (r *Runner) leave(k key, s *shared) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if s.ended {
		if s.err == nil {
			s.result.Release()
		}
		return
	}
	if s.waiting--; s.waiting == 0 {
		r.forget(k, s) // the next caller begins another run
		s.cancel()
	}
}

func (r *Runner) forget(k key, s *shared) {
	if r.running[k] == s {
		delete(r.running, k)
	}
}
