package audit

import (
	"cmp"
	"context"
	"database/sql"
	"embed"
	"encoding/json"
	"fmt"
	"log/slog"
	"time"

	"github.com/google/uuid"
	"k8s.io/utils/clock"

	"github.com/quoin-dev/quoin/internal/store"
)

//go:embed migrations/*.sql
var migrations embed.FS

// Owner has the tables of the audit log. Events belong to the name of an account and are deleted
// by retention only, so it has no Purge.
var Owner = store.Owner{Name: "audit", Migrations: migrations, Tables: []string{"audit_event"}}

// planning makes PostgreSQL plan each read of events for its words and times: one plan for all
// would read every event where the index suffices. It also makes it read in the order of an index:
// without statistics the planner takes the table for small, and sorts all events for each page.
var planning = map[string]string{"plan_cache_mode": "force_custom_plan", "enable_sort": "off"}

// Options configure NewLog; the zero value is valid.
type Options struct {
	// Clock returns the time of events; the system clock if nil.
	Clock clock.PassiveClock
	// Log receives the results of retention; none if nil.
	Log *slog.Logger
	// Queue is the maximum number of events that wait to be stored; 4096 if zero.
	Queue int
	// Timeout is the maximum time that a caller waits; five seconds if zero.
	Timeout time.Duration
}

const (
	defaultQueue   = 4096
	defaultTimeout = 5 * time.Second
)

// Log is the audit log in a content store.
type Log struct {
	store  *store.Store
	reader *sql.DB
	clock  clock.PassiveClock
	log    *slog.Logger
	writer *writer
}

// NewLog returns the audit log in a store, which has been opened with Owner. The caller must call
// Close.
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
	return &Log{store: s, reader: s.NewReader(planning), clock: o.Clock, log: o.Log, writer: startWriter(s, o.Queue, o.Timeout)}
}

// Close stores the queued events; later ones are ErrUnavailable.
func (l *Log) Close() { l.writer.close() }

// Attempt is a change whose outcome is not stored yet.
type Attempt struct {
	log   *Log
	event Event
}

// ID returns the id of the event.
func (a *Attempt) ID() uuid.UUID { return a.event.ID }

// Begin stores that a change is attempted; the outcome of e is ignored. Without an error the event
// is on disk. After an error the change must not be made: it is ErrUnavailable, the error of the
// context, or, for a bug, ErrInvalid.
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

// Details are known once a change has been made. Fields that are not zero replace those of the event
// of Begin.
type Details struct {
	Reason     string
	Deployment Deployment
	Object     Object
	Changes    json.RawMessage
}

// End stores the outcome of the change. Without an error the outcome is on disk, and the change may
// be acknowledged. After an error, ErrUnavailable, the event may remain Attempted. Cancelling the
// context does not stop it, because the change has been made whether or not the caller still waits.
// An event that has an outcome keeps it.
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

// Record stores events. An event whose ID is stored is ignored, unless the stored one is Attempted,
// so the same events may be recorded again after an error. After an error, some may be stored.
func (l *Log) Record(ctx context.Context, events ...Event) error {
	prepared := make([]Event, len(events))
	for i, e := range events {
		var err error
		if prepared[i], err = e.prepare(l.clock.Now()); err != nil {
			return fmt.Errorf("event %d: %w", i, err)
		}
	}
	for len(prepared) > 0 {
		n := min(len(prepared), maxBatch)
		if err := l.writer.store(ctx, prepared[:n]); err != nil {
			return err
		}
		prepared = prepared[n:]
	}
	return nil
}

// RecordTx stores an event in the transaction of the change itself: both are committed, or neither
// is. It is for changes in the content store; for all others there are Begin and End. The event has
// succeeded if it has no outcome. An event that is stored as Attempted gets the outcome of one with
// the same id.
func RecordTx(ctx context.Context, tx *store.Tx, e Event) error {
	e.Outcome = cmp.Or(e.Outcome, Succeeded)
	e, err := e.prepare(time.Now())
	if err != nil {
		return err
	}
	if err := upsert(ctx, tx, [][]any{e.row()}); err != nil {
		return err
	}
	tx.AfterCommit(func() { eventsTotal.WithLabelValues(string(e.Outcome)).Inc() })
	return nil
}
