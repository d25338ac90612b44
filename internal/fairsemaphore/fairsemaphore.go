// Package fairsemaphore limits how much work that needs processor time runs at once, and takes turns between the accounts
// that it is for.
//
// The Go scheduler polls the network late while all processors run goroutines that do not block: only every ten
// milliseconds. So work that a tenant can make long, such as reading a large document, leaves a processor to the requests
// of others, and lets other such work run between its steps.
package fairsemaphore

import (
	"bufio"
	"context"
	"io"
	"iter"
	"runtime"
	"slices"
	"sync"
)

// Semaphore limits concurrent work. It is safe for concurrent use.
type Semaphore struct {
	mu   sync.Mutex
	free int
	// order has the accounts with waiting work; the next turn is that of the first.
	order   []string
	waiting map[string][]chan struct{}
}

// Processors is the semaphore of the processors of this process: all but one, and one at least.
var Processors = newSemaphore(max(1, runtime.GOMAXPROCS(0)-1))

func newSemaphore(limit int) *Semaphore {
	return &Semaphore{free: limit, waiting: map[string][]chan struct{}{}}
}

// Turn is work for an account. Only one goroutine may use it.
type Turn struct {
	semaphore *Semaphore
	ctx       context.Context //nolint:containedctx // that of the work
	account   string
	held      bool
}

// Begin waits until work for an account may run, or returns the error of ctx. The caller must call End.
func (s *Semaphore) Begin(ctx context.Context, account string) (*Turn, error) {
	t := &Turn{semaphore: s, ctx: ctx, account: account}
	return t, t.resume()
}

// End ends the work.
func (t *Turn) End() {
	if t.held {
		t.held = false
		t.semaphore.release()
	}
}

// Yield lets other work run that waits. The caller calls it every millisecond or so.
func (t *Turn) Yield() error {
	if !t.held || !t.semaphore.isContended() {
		return t.ctx.Err()
	}
	t.End()
	return t.resume()
}

// BeginIf is Begin if the work is long. Short work, of a millisecond or so, needs no place, and Yield does nothing.
func (s *Semaphore) BeginIf(ctx context.Context, long bool, account string) (*Turn, error) {
	if long {
		return s.Begin(ctx, account)
	}
	return &Turn{semaphore: s, ctx: ctx, account: account}, ctx.Err()
}

func (t *Turn) resume() error {
	if err := t.semaphore.acquire(t.ctx, t.account); err != nil {
		return err
	}
	t.held = true
	return nil
}

// Iterate returns the elements of a sequence for the work, which yields after every step of them. It ends early if ctx
// ends.
func Iterate[T any](t *Turn, step int, elements iter.Seq[T]) iter.Seq[T] {
	return func(use func(T) bool) {
		n := 0
		for element := range elements {
			if n++; n%step == 0 && t.Yield() != nil || !use(element) {
				return
			}
		}
	}
}

// Reader returns a reader for work on what it reads from r. The work runs between the reads, and ends with the function.
func (s *Semaphore) Reader(ctx context.Context, account string, r io.Reader) (_ io.Reader, end func()) {
	t := &Turn{semaphore: s, ctx: ctx, account: account}
	return bufio.NewReaderSize(&reader{t, r}, readStep), t.End
}

// readStep is how much is read at once, in bytes: the work on it should take a millisecond or so.
const readStep = 32 << 10

type reader struct {
	turn *Turn
	io.Reader
}

// Read implements io.Reader.
func (r *reader) Read(p []byte) (int, error) {
	r.turn.End()
	n, err := r.Reader.Read(p)
	if resumeErr := r.turn.resume(); resumeErr != nil {
		return n, resumeErr
	}
	return n, err
}

// Writer returns a writer for the work, which lets other work run while it writes to w.
func (t *Turn) Writer(w io.Writer) io.Writer { return &writer{t, w} }

type writer struct {
	turn *Turn
	io.Writer
}

// Write implements io.Writer.
func (w *writer) Write(p []byte) (int, error) {
	if !w.turn.held {
		return w.Writer.Write(p)
	}
	w.turn.End()
	n, err := w.Writer.Write(p)
	if resumeErr := w.turn.resume(); resumeErr != nil {
		return n, resumeErr
	}
	return n, err
}

func (s *Semaphore) isContended() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.order) > 0
}

func (s *Semaphore) acquire(ctx context.Context, account string) error {
	s.mu.Lock()
	if s.free > 0 {
		s.free--
		s.mu.Unlock()
		return nil
	}
	turn := make(chan struct{})
	if len(s.waiting[account]) == 0 {
		s.order = append(s.order, account)
	}
	s.waiting[account] = append(s.waiting[account], turn)
	s.mu.Unlock()
	select {
	case <-turn:
		return nil
	case <-ctx.Done():
	}
	if !s.leave(account, turn) {
		s.release() // the turn has come meanwhile
	}
	return ctx.Err()
}

// leave removes work from that which waits, or returns false if its turn has come.
func (s *Semaphore) leave(account string, turn chan struct{}) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	i := slices.Index(s.waiting[account], turn)
	if i < 0 {
		return false
	}
	if s.waiting[account] = slices.Delete(s.waiting[account], i, i+1); len(s.waiting[account]) == 0 {
		delete(s.waiting, account)
		s.order = slices.DeleteFunc(s.order, func(name string) bool { return name == account })
	}
	return true
}

// release gives the place to the work whose turn it is.
func (s *Semaphore) release() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.order) == 0 {
		s.free++
		return
	}
	account := s.order[0]
	s.order = s.order[1:]
	turns := s.waiting[account]
	if len(turns) == 1 {
		delete(s.waiting, account)
	} else {
		s.waiting[account] = turns[1:]
		s.order = append(s.order, account)
	}
	close(turns[0])
}
