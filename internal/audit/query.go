package audit

import (
	"cmp"
	"context"
	"database/sql"
	"errors"
	"fmt"
	"iter"
	"math"
	"slices"
	"strings"
	"time"

	"github.com/google/uuid"

	"github.com/quoin-dev/quoin/internal/fold"
)

// Filter says which events. Those that match all of it are found.
type Filter struct {
	// Account is the name of the account. It must be given.
	Account string
	// Start and End bound the time: Start ≤ time < End. Zero is no bound.
	Start, End time.Time
	// Search is words in the text of an event: names, ids, e-mail address, IP address, changes.
	Search string
	// EventName is one of Names.
	EventName string
	// UserEmail is compared without regard to case.
	UserEmail string
	// DeploymentIDs are of any of these deployments; nil is all, and events without one.
	DeploymentIDs []string
}

const (
	// pageSize is how many events are read at once. Two pages are in memory.
	pageSize = 500
	// mostProposed is how many events the index may propose. With more of them it is quicker to
	// read all events of the account in their order.
	mostProposed = 50_000
	// mostPerKey is how many events are read by their ids at once.
	mostPerKey = 200
	// statementTimeout bounds one statement.
	statementTimeout = 30 * time.Second
)

// Query finds events, in the order of time and id. Every change that was acknowledged before
// Query is in it; whether later ones are is not said. The first events are read before it
// returns; an error in the middle is the last thing yielded. It can be ranged over once.
//
// Between two pages it holds nothing of the database: no transaction, no lock.
func (l *Log) Query(ctx context.Context, f Filter) (iter.Seq2[Event, error], error) {
	q, err := l.newQuery(f)
	if err != nil {
		return nil, err
	}
	first, err := q.begin(ctx)
	if err != nil {
		return nil, q.failed(ctx, err)
	}
	return func(yield func(Event, error) bool) {
		ctx, cancel := context.WithCancel(ctx)
		defer cancel()
		for now := (page{events: first}); ; {
			if now.err != nil {
				yield(Event{}, q.failed(ctx, now.err))
				return
			}
			next := q.readAhead(ctx)
			for i := range now.events {
				if q.matches(&now.events[i]) && !yield(now.events[i], nil) {
					return
				}
			}
			var more bool
			if now, more = <-next; !more {
				return
			}
		}
	}, nil
}

// page is some events, or why there are none.
type page struct {
	events []Event
	err    error
}

// readAhead reads the next page while the one before is worked on. The channel is closed without
// one where there is none.
func (q *query) readAhead(ctx context.Context) <-chan page {
	next := make(chan page, 1)
	if q.finished {
		close(next)
		return next
	}
	go func() {
		defer close(next)
		events, err := q.next(ctx)
		next <- page{events, err}
	}()
	return next
}

// key is the place of an event in the order.
type key struct {
	time int64
	id   string
}

func (k key) compare(other key) int {
	return cmp.Or(cmp.Compare(k.time, other.time), strings.Compare(k.id, other.id))
}

// query is a Filter at work.
type query struct {
	Filter
	log   *Log
	words []string
	email string
	// end is the time that no event reaches.
	end int64
	// last is the event that was read last, where events are read in their order.
	last key
	// proposed are the events still to be read, where the index has proposed some.
	proposed []key
	byIndex  bool
	finished bool
}

func (l *Log) newQuery(f Filter) (*query, error) {
	q := &query{Filter: f, log: l, email: fold.Case(f.UserEmail), end: math.MaxInt64}
	q.last = key{math.MinInt64, uuid.Max.String()}
	if !f.Start.IsZero() {
		q.last.time = ceilMicro(f.Start) - 1
	}
	if !f.End.IsZero() {
		q.end = ceilMicro(f.End)
	}
	var err error
	q.words, err = searchWords(f.Search)
	switch {
	case err != nil:
		return nil, err
	case f.Account == "":
		return nil, fmt.Errorf("%w filter: the account must be given", ErrInvalid)
	case f.EventName != "" && !Known(f.EventName):
		return nil, fmt.Errorf("%w filter: no event is named %q", ErrInvalid, cut(clean(f.EventName), mostName))
	case len(f.UserEmail) > mostEmail || clean(f.UserEmail) != f.UserEmail:
		return nil, fmt.Errorf("%w filter: the e-mail address has more than %d bytes, or is not UTF-8", ErrInvalid, mostEmail)
	}
	return q, nil
}

// ceilMicro is the first microsecond that is not before t.
func ceilMicro(t time.Time) int64 {
	micros := t.UnixMicro()
	if time.UnixMicro(micros).Before(t) {
		micros++
	}
	return micros
}

// begin reads the first page, and decides how the others are read.
func (q *query) begin(ctx context.Context) ([]Event, error) {
	if q.DeploymentIDs != nil && len(q.DeploymentIDs) == 0 || q.last.time >= q.end {
		q.finished = true
		return nil, nil
	}
	if err := q.boundEnd(ctx); err != nil {
		return nil, err
	}
	if err := q.propose(ctx); err != nil {
		return nil, err
	}
	return q.next(ctx)
}

// boundEnd keeps what is recorded from now on from making the query endless. Events that are
// there count even when they are of the future: another replica's clock may be ahead.
func (q *query) boundEnd(ctx context.Context) error {
	var last sql.NullInt64
	err := q.read(ctx, "SELECT MAX(time) FROM audit_event WHERE account = $1", []any{q.Account}, func(rows *sql.Rows) error { return rows.Scan(&last) })
	q.end = min(q.end, max(q.log.clock.Now().UnixMicro(), last.Int64)+1)
	return err
}

// propose asks the index for events that have the words, if there are words worth it.
func (q *query) propose(ctx context.Context) error {
	words := q.indexWords()
	if len(words) == 0 {
		return nil
	}
	text, args := q.proposal(words)
	var keys []key
	err := q.read(ctx, text, args, func(rows *sql.Rows) error {
		var k key
		err := rows.Scan(&k.time, &k.id)
		keys = append(keys, k)
		return err
	})
	if err != nil || len(keys) > mostProposed {
		return err
	}
	slices.SortFunc(keys, key.compare)
	q.proposed, q.byIndex = keys, true
	return nil
}

func (q *query) proposal(words []string) (text string, args []any) {
	dialect := q.log.store.Dialect()
	text = "SELECT audit_event.time, audit_event.id " + matching(dialect) +
		" AND audit_event.account = $2 AND audit_event.time > $3 AND audit_event.time < $4 LIMIT $5"
	return text, []any{terms(dialect, words), q.Account, q.last.time, q.end, mostProposed + 1}
}

// indexWords are words that every event has that is looked for: those of the search, and those of
// a name or an address, which are among the words of their event.
func (q *query) indexWords() []string {
	words := slices.Clone(q.words)
	for _, text := range []string{q.EventName, q.UserEmail} {
		eachWord(text, false, func(word string) bool {
			words = append(words, strings.Clone(word))
			return true
		})
	}
	words = slices.DeleteFunc(words, func(word string) bool { return len(word) < leastIndexed })
	prefix := indexPrefix(q.Account)
	for i := range words {
		words[i] = prefix + indexedPart(words[i])
	}
	slices.Sort(words)
	words = slices.Compact(words)
	return words[:min(len(words), mostSearchWords)]
}

// inOrder reads the events after one.
var inOrder = "SELECT " + selected + " FROM audit_event WHERE account = $1 AND (time, id) > ($2, $3) AND time < $4 ORDER BY time, id LIMIT $5"

// next reads the next page.
func (q *query) next(ctx context.Context) ([]Event, error) {
	if q.byIndex {
		return q.nextProposed(ctx)
	}
	events, err := q.events(ctx, pageSize, inOrder, q.Account, q.last.time, q.last.id, q.end, pageSize)
	if err != nil {
		return nil, err
	}
	q.finished = len(events) < pageSize
	if !q.finished {
		last := &events[len(events)-1]
		q.last = key{last.Time.UnixMicro(), last.ID.String()}
	}
	return events, nil
}

// nextProposed reads the next of the events that the index has proposed. Some may be gone.
func (q *query) nextProposed(ctx context.Context) ([]Event, error) {
	keys := q.proposed[:min(len(q.proposed), mostPerKey)]
	q.proposed = q.proposed[len(keys):]
	q.finished = len(q.proposed) == 0
	if len(keys) == 0 {
		return nil, nil
	}
	// The same number of parameters always, so that the statement is prepared once.
	ids := make([]any, mostPerKey)
	for i := range ids {
		ids[i] = keys[min(i, len(keys)-1)].id
	}
	events, err := q.events(ctx, len(keys), byIDs, ids...)
	slices.SortFunc(events, func(a, b Event) int {
		return key{a.Time.UnixMicro(), a.ID.String()}.compare(key{b.Time.UnixMicro(), b.ID.String()})
	})
	return events, err
}

var byIDs = func() string {
	parameters := make([]string, mostPerKey)
	for i := range parameters {
		parameters[i] = fmt.Sprintf("$%d", i+1)
	}
	return "SELECT " + selected + " FROM audit_event WHERE id IN (" + strings.Join(parameters, ", ") + ")"
}()

func (q *query) events(ctx context.Context, most int, text string, args ...any) ([]Event, error) {
	events := make([]Event, 0, most)
	err := q.read(ctx, text, args, func(rows *sql.Rows) error {
		events = append(events, Event{})
		return events[len(events)-1].scan(rows)
	})
	return events, err
}

// read runs a statement to its end.
func (q *query) read(ctx context.Context, text string, args []any, each func(*sql.Rows) error) (err error) {
	ctx, cancel := context.WithTimeout(ctx, statementTimeout)
	defer cancel()
	rows, err := q.log.reader.QueryContext(ctx, text, args...)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, rows.Close()) }()
	for rows.Next() {
		if err := each(rows); err != nil {
			return err
		}
	}
	return rows.Err()
}

// matches decides about an event that was read. It is the only place that does.
func (q *query) matches(e *Event) bool {
	return (q.EventName == "" || e.Name == q.EventName) &&
		(q.email == "" || fold.Case(e.Actor.Email) == q.email) &&
		(q.DeploymentIDs == nil || slices.Contains(q.DeploymentIDs, e.Deployment.ID) && e.Deployment.ID != "") &&
		e.Account == q.Account && e.hasWords(q.words)
}

// failed is what the caller is told.
func (q *query) failed(ctx context.Context, err error) error {
	if ctx.Err() != nil {
		return ctx.Err()
	}
	return fmt.Errorf("%w: %w", ErrUnavailable, err)
}
