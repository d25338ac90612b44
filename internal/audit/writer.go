package audit

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/google/uuid"

	"github.com/quoin-dev/quoin/internal/store"
)

const (
	// maxBatch is the number of events in one transaction, exceeded only by those of one caller.
	maxBatch = 256
	// maxTries bounds the tries of a transaction. After a restart of the server the first try on
	// each old connection fails.
	maxTries = 3
)

// writer stores events in batches. One goroutine stores all queued events in one transaction; those
// that arrive meanwhile wait for the next. So a single caller never waits for a batch to fill, and
// many callers share the wait for the disk.
type writer struct {
	to      *store.Store
	limit   int
	timeout time.Duration

	mu     sync.Mutex
	queue  []*submission
	events int // in queue
	closed bool

	wake chan struct{} // has one element if the queue or closed has changed
	done chan struct{} // closed when the goroutine has ended
}

// submission is the events of one caller.
type submission struct {
	events []Event
	rows   [][]any
	// stored receives the result.
	stored chan error
	// abandoned is set when the caller no longer waits; unless stored by then, it is dropped.
	abandoned atomic.Bool
}

func startWriter(to *store.Store, limit int, timeout time.Duration) *writer {
	w := &writer{to: to, limit: limit, timeout: timeout, wake: make(chan struct{}, 1), done: make(chan struct{})}
	go w.run()
	return w
}

// store returns nil once the events are on disk. After an error they may be.
func (w *writer) store(ctx context.Context, events []Event) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	start := time.Now()
	sub := &submission{events: events, rows: make([][]any, len(events)), stored: make(chan error, 1)}
	for i := range events {
		sub.rows[i] = events[i].row()
	}
	timeout := time.NewTimer(w.timeout)
	defer timeout.Stop()
	err := w.submit(sub)
	if err == nil {
		select {
		case err = <-sub.stored:
		case <-timeout.C:
			err = fmt.Errorf("%w: the database did not answer within %s", ErrUnavailable, w.timeout)
		case <-ctx.Done():
			err = ctx.Err()
		}
		sub.abandoned.Store(true)
	}
	if errors.Is(err, ErrUnavailable) {
		unavailableTotal.Inc()
	}
	if err != nil {
		return err
	}
	storeSeconds.Observe(time.Since(start).Seconds())
	for i := range events {
		eventsTotal.WithLabelValues(string(events[i].Outcome)).Inc()
	}
	return nil
}

func (w *writer) submit(sub *submission) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.closed {
		return fmt.Errorf("%w: it is shut down", ErrUnavailable)
	}
	if w.events+len(sub.events) > w.limit && w.events > 0 {
		return fmt.Errorf("%w: the queue is full (%d events)", ErrUnavailable, w.events)
	}
	w.queue = append(w.queue, sub)
	w.count(len(sub.events))
	w.signal()
	return nil
}

// count and signal must be called with mu held.
func (w *writer) count(n int) {
	w.events += n
	queueLength.Add(float64(n))
}

func (w *writer) signal() {
	select {
	case w.wake <- struct{}{}:
	default:
	}
}

func (w *writer) close() {
	w.mu.Lock()
	w.closed = true
	w.signal()
	w.mu.Unlock()
	<-w.done
}

func (w *writer) run() {
	defer close(w.done)
	for range w.wake {
		for {
			batch, closed := w.take()
			if len(batch) == 0 && closed {
				return
			}
			if len(batch) == 0 {
				break
			}
			w.commit(batch)
		}
	}
}

// take removes a batch from the queue, without abandoned submissions.
func (w *writer) take() (batch []*submission, closed bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	taken := 0
	for len(w.queue) > 0 && taken < maxBatch {
		next := w.queue[0]
		w.queue[0] = nil
		w.queue = w.queue[1:]
		w.count(-len(next.events))
		if !next.abandoned.Load() {
			batch = append(batch, next)
			taken += len(next.events)
		}
	}
	if len(w.queue) == 0 {
		w.queue = nil
	}
	return batch, w.closed
}

// commit stores a batch and sends the result to each caller. If the database rejects rows, each
// submission is stored on its own, so that it does not affect those of other callers.
func (w *writer) commit(batch []*submission) {
	ctx, cancel := context.WithTimeout(context.Background(), w.timeout)
	defer cancel()
	err := w.insert(ctx, batch)
	if err == nil || len(batch) == 1 || !w.to.Dialect().Refused(err) {
		for _, sub := range batch {
			sub.stored <- err
		}
		return
	}
	for _, sub := range batch {
		sub.stored <- w.insert(ctx, []*submission{sub})
	}
}

// insert retries after any error, also after a commit whose answer was lost, because storing an
// event is idempotent.
func (w *writer) insert(ctx context.Context, batch []*submission) (err error) {
	rows := merge(batch)
	for range maxTries {
		err = w.to.Tx(ctx, func(tx *store.Tx) error { return upsert(ctx, tx, rows) })
		if err == nil {
			return nil
		}
		if ctx.Err() != nil || w.to.Dialect().Refused(err) {
			break
		}
	}
	return fmt.Errorf("%w: %w", ErrUnavailable, err)
}

// merge returns one row for each event of a batch: one statement cannot store a row twice. An
// outcome replaces an attempt, as in the statement. The rows are in the order of their ids, so that
// replicas that store the same events do not deadlock.
func merge(batch []*submission) [][]any {
	rows := map[uuid.UUID][]any{}
	for _, sub := range batch {
		for i, row := range sub.rows {
			before, repeated := rows[sub.events[i].ID]
			if !repeated || before[outcomeColumn] == string(Attempted) {
				rows[sub.events[i].ID] = row
			}
		}
	}
	merged := make([][]any, 0, len(rows))
	for _, id := range slices.SortedFunc(maps.Keys(rows), func(a, b uuid.UUID) int { return bytes.Compare(a[:], b[:]) }) {
		merged = append(merged, rows[id])
	}
	return merged
}
