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
	"sync"

	"github.com/quoin-dev/quoin/internal/processors"
	"github.com/quoin-dev/quoin/internal/turns"
)

// Semaphore limits concurrent work. It is safe for concurrent use.
type Semaphore struct {
	mu   sync.Mutex
	free int
	// waiting is the work of accounts that waits.
	waiting turns.Queue[string, chan struct{}]
	// preemptible is set if the threads of all other work preempt those of the work.
	preemptible bool
}

// Processors is the semaphore of the processors of this process: all but one, and one at least. While the work has its turn,
// the threads of all other work preempt its own. So a turn must be ended by the goroutine that has begun it: another one has
// another thread.
var Processors = &Semaphore{free: max(1, processors.Count-1), preemptible: true}

// New returns a semaphore with limit places.
func New(limit int) *Semaphore {
	return &Semaphore{free: limit}
}

// Turn is work for an account. Only one goroutine may use it.
type Turn struct {
	semaphore *Semaphore
	ctx       context.Context //nolint:containedctx // that of the work
	account   string
	held      bool
	// endPreemptible is set while the work has its turn and is preemptible.
	endPreemptible func()
}

// Begin waits until work for an account may run, or returns the error of ctx. The caller must call End.
func (s *Semaphore) Begin(ctx context.Context, account string) (*Turn, error) {
	t := s.Work(ctx, account)
	return t, t.resume()
}

// End ends the work.
func (t *Turn) End() {
	if t.held {
		t.held = false
		if t.endPreemptible != nil {
			t.endPreemptible()
			t.endPreemptible = nil
		}
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

// Aside runs a function that waits for others, such as a database, while other work may run.
func (t *Turn) Aside(wait func() error) error {
	if !t.held {
		return wait()
	}
	t.End()
	err := wait()
	if resumeErr := t.resume(); err == nil {
		err = resumeErr
	}
	return err
}

// Work returns work for an account that has not begun. The caller must call End.
func (s *Semaphore) Work(ctx context.Context, account string) *Turn {
	return &Turn{semaphore: s, ctx: ctx, account: account}
}

// BeginIf is Begin if the work is long. Short work, of a millisecond or so, needs no place, and Yield does nothing.
func (s *Semaphore) BeginIf(ctx context.Context, long bool, account string) (*Turn, error) {
	t := s.Work(ctx, account)
	return t, t.BeginIf(long)
}

// BeginIf waits until the work may run if it is long and has not begun, or returns the error of its context.
func (t *Turn) BeginIf(long bool) error {
	if t.held || !long {
		return t.ctx.Err()
	}
	return t.resume()
}

// Waiting returns how much work of an account waits.
func (s *Semaphore) Waiting(account string) int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.waiting.Len(account)
}

func (t *Turn) resume() error {
	if err := t.semaphore.acquire(t.ctx, t.account); err != nil {
		return err
	}
	t.held = true
	if t.semaphore.preemptible {
		t.endPreemptible = processors.Preemptible()
	}
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
	t := s.Work(ctx, account)
	return bufio.NewReaderSize(&reader{t, r}, readStep), t.End
}

// Reader returns a reader for the work, which lets other work run while it waits for r.
func (t *Turn) Reader(r io.Reader) io.Reader { return &reader{t, r} }

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
	return !s.waiting.IsEmpty()
}

func (s *Semaphore) acquire(ctx context.Context, account string) error {
	s.mu.Lock()
	if s.free > 0 {
		s.free--
		s.mu.Unlock()
		return nil
	}
	turn := make(chan struct{})
	s.waiting.Push(account, turn)
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
	return s.waiting.Remove(account, turn)
}

// release gives the place to the work whose turn it is.
func (s *Semaphore) release() {
	s.mu.Lock()
	defer s.mu.Unlock()
	turn, ok := s.waiting.Pop()
	if !ok {
		s.free++
		return
	}
	close(turn)
}
