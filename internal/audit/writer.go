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
	// maxBatch is how many events one transaction takes, a few more if they came together.
	maxBatch = 256
	// tries is how often a transaction is tried. After the server was restarted the first one on
	// each connection of before fails.
	tries = 3
)

// writer stores what callers hand in. One goroutine takes everything that waits and stores it in
// one transaction; what comes meanwhile waits for the next. So a caller alone waits for nobody,
// and many share the wait for the disk.
type writer struct {
	to      *store.Store
	most    int
	timeout time.Duration

	mu      sync.Mutex
	waiting []*handedIn
	events  int // in waiting
	closed  bool

	wake chan struct{} // holds one when there is something to look at
	done chan struct{} // closed when the goroutine has ended
}

// handedIn is what one caller waits for.
type handedIn struct {
	events []Event
	rows   [][]any
	// stored gets one value.
	stored chan error
	// gone tells that the caller waits no more; what has not begun is not done then.
	gone atomic.Bool
}

func startWriter(to *store.Store, most int, timeout time.Duration) *writer {
	w := &writer{to: to, most: most, timeout: timeout, wake: make(chan struct{}, 1), done: make(chan struct{})}
	go w.run()
	return w
}

// store returns when the events are on disk, or with an error when they may not be.
func (w *writer) store(ctx context.Context, events []Event) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	start := time.Now()
	h := &handedIn{events: events, rows: make([][]any, len(events)), stored: make(chan error, 1)}
	for i := range events {
		h.rows[i] = events[i].row()
	}
	timeout := time.NewTimer(w.timeout)
	defer timeout.Stop()
	err := w.handIn(h)
	if err == nil {
		select {
		case err = <-h.stored:
		case <-timeout.C:
			err = fmt.Errorf("%w: the database has not answered in %s", ErrUnavailable, w.timeout)
		case <-ctx.Done():
			err = ctx.Err()
		}
		h.gone.Store(true)
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

func (w *writer) handIn(h *handedIn) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.closed {
		return fmt.Errorf("%w: it is shut down", ErrUnavailable)
	}
	if w.events+len(h.events) > w.most && w.events > 0 {
		return fmt.Errorf("%w: %d events wait to be stored", ErrUnavailable, w.events)
	}
	w.waiting = append(w.waiting, h)
	w.count(len(h.events))
	w.signal()
	return nil
}

// count and signal are called with mu held.
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
			together, closed := w.take()
			if len(together) == 0 && closed {
				return
			}
			if len(together) == 0 {
				break
			}
			w.commit(together)
		}
	}
}

// take takes what waits, up to the size of a transaction, without those whose callers are gone.
func (w *writer) take() (together []*handedIn, closed bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	taken := 0
	for len(w.waiting) > 0 && taken < maxBatch {
		h := w.waiting[0]
		w.waiting[0] = nil
		w.waiting = w.waiting[1:]
		w.count(-len(h.events))
		if !h.gone.Load() {
			together = append(together, h)
			taken += len(h.events)
		}
	}
	if len(w.waiting) == 0 {
		w.waiting = nil
	}
	return together, w.closed
}

// commit stores what several callers have handed in and tells each. Rows that the database
// refuses must not keep those of others from being stored: then each goes alone.
func (w *writer) commit(together []*handedIn) {
	ctx, cancel := context.WithTimeout(context.Background(), w.timeout)
	defer cancel()
	err := w.insert(ctx, together)
	if err == nil || len(together) == 1 || !w.to.Dialect().Refused(err) {
		for _, h := range together {
			h.stored <- err
		}
		return
	}
	for _, h := range together {
		h.stored <- w.insert(ctx, []*handedIn{h})
	}
}

// insert may try again after any error, as storing an event twice stores it once: also after a
// commit whose answer was lost.
func (w *writer) insert(ctx context.Context, together []*handedIn) (err error) {
	rows := merge(together)
	for range tries {
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

// merge is all rows, one for each event: in one statement a row cannot be stored twice. An
// outcome takes the place of an attempt, as in the statement. They are in the order of their ids,
// so that replicas that store the same events do not wait for each other in a circle.
func merge(together []*handedIn) [][]any {
	rows := map[uuid.UUID][]any{}
	for _, h := range together {
		for i, row := range h.rows {
			before, twice := rows[h.events[i].ID]
			if !twice || before[outcomeColumn] == string(Attempted) {
				rows[h.events[i].ID] = row
			}
		}
	}
	merged := make([][]any, 0, len(rows))
	for _, id := range slices.SortedFunc(maps.Keys(rows), func(a, b uuid.UUID) int { return bytes.Compare(a[:], b[:]) }) {
		merged = append(merged, rows[id])
	}
	return merged
}
