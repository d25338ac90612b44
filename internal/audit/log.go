package audit

import (
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"time"

	"github.com/google/uuid"
	"k8s.io/utils/clock"

	"github.com/quoin-dev/quoin/internal/store"
)

// Options are for NewLog; the zero value is fine.
type Options struct {
	// Clock tells the time of events; the machine's when nil.
	Clock clock.PassiveClock
	// Log is told what retention does; nobody when nil.
	Log *slog.Logger
	// Queue is how many events may wait to be stored; 4096 when zero.
	Queue int
	// Timeout is how long a caller waits at most; five seconds when zero.
	Timeout time.Duration
}

const (
	defaultQueue   = 4096
	defaultTimeout = 5 * time.Second
)

// Log is the audit log in a content store.
type Log struct {
	store  *store.Store
	clock  clock.PassiveClock
	log    *slog.Logger
	writer *writer
}

// NewLog begins to take events. Whoever calls it calls Close.
func NewLog(s *store.Store, o Options) *Log {
	if o.Clock == nil {
		o.Clock = clock.RealClock{}
	}
	if o.Log == nil {
		o.Log = slog.New(slog.DiscardHandler)
	}
	if o.Queue == 0 {
		o.Queue = defaultQueue
	}
	if o.Timeout == 0 {
		o.Timeout = defaultTimeout
	}
	return &Log{store: s, clock: o.Clock, log: o.Log, writer: startWriter(s, o.Queue, o.Timeout)}
}

// Close stores what waits, and takes nothing more.
func (l *Log) Close() { l.writer.close() }

// Attempt is a change whose outcome is not stored yet.
type Attempt struct {
	log   *Log
	event Event
}

// ID is that of the event.
func (a *Attempt) ID() uuid.UUID { return a.event.ID }

// Begin stores that a change is attempted: what e says of an outcome does not count. When it
// returns without an error the event is on disk. After an error nothing may be changed: it is
// ErrUnavailable, the context's, or, where the program is at fault, ErrInvalid.
func (l *Log) Begin(ctx context.Context, e Event) (*Attempt, error) {
	e.Outcome = Attempted
	e, err := e.prepare(l.clock.Now())
	if err != nil {
		return nil, err
	}
	if err := l.writer.store(ctx, []Event{e}); err != nil {
		return nil, err
	}
	return &Attempt{log: l, event: e}, nil
}

// Details are what is known of a change once it has been made. What is not zero takes the place
// of what Begin was given.
type Details struct {
	Reason     string
	Deployment Deployment
	Object     Object
	Changes    json.RawMessage
}

// End stores the outcome of the change. When it returns without an error the outcome is on disk,
// and the change may be acknowledged. After an error, ErrUnavailable, the event may stay as
// attempted. It goes on when the context is cancelled: the change has been made, whether or not
// somebody waits for the answer. An event that has an outcome keeps it.
func (a *Attempt) End(ctx context.Context, outcome Outcome, d Details) error {
	e := a.event
	e.Outcome = outcome
	if d.Reason != "" {
		e.Reason = d.Reason
	}
	if d.Deployment != (Deployment{}) {
		e.Deployment = d.Deployment
	}
	if d.Object != (Object{}) {
		e.Object = d.Object
	}
	if len(d.Changes) > 0 {
		e.Changes = d.Changes
	}
	e, err := e.prepare(e.Time)
	if err != nil {
		return err
	}
	return a.log.writer.store(context.WithoutCancel(ctx), []Event{e})
}

// Record stores events. One whose ID is stored already is passed over, unless it was attempted:
// so the same events may be recorded again after an error. After one, some may be stored.
func (l *Log) Record(ctx context.Context, events ...Event) error {
	prepared := make([]Event, len(events))
	for i, e := range events {
		var err error
		if prepared[i], err = e.prepare(l.clock.Now()); err != nil {
			return fmt.Errorf("event %d: %w", i, err)
		}
	}
	for len(prepared) > 0 {
		n := min(len(prepared), mostTogether)
		if err := l.writer.store(ctx, prepared[:n]); err != nil {
			return err
		}
		prepared = prepared[n:]
	}
	return nil
}
