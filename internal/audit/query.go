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

// Filter selects events: those that match all its fields.
type Filter struct {
	// Account is the name of the account; required.
	Account string
	// Start and End bound the time: Start ≤ time < End. Zero means no bound.
	Start, End time.Time
	// Search has words of the text of an event: names, ids, e-mail address, IP address, changes.
	Search string
	// EventName is one of Names.
	EventName string
	// UserEmail is compared case-insensitively.
	UserEmail string
	// DeploymentIDs selects events of any of these deployments; nil selects all events.
	DeploymentIDs []string
}

const (
	// pageSize is the number of events read at once. Two pages are in memory.
	pageSize = 500
	// maxProposed is the maximum number of events that the index proposes. With more it is faster to
	// read all events of the account in order.
	maxProposed = 50_000
	// maxPerQuery is the number of events read by id at once.
	maxPerQuery = 200
	// statementTimeout bounds one statement.
	statementTimeout = 30 * time.Second
)

// Query returns events in the order of time and id. It includes every change that was acknowledged
// before the call, and possibly later ones. The first events are read before it returns; a later
// error is yielded last. The sequence can be ranged over once.
//
// Between two pages it holds neither a transaction nor a lock.
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
		for current := (page{events: first}); ; {
			if current.err != nil {
				yield(Event{}, q.failed(ctx, current.err))
				return
			}
			next := q.readAhead(ctx)
			for i := range current.events {
				if q.matches(&current.events[i]) && !yield(current.events[i], nil) {
					return
				}
			}
			var more bool
			if current, more = <-next; !more {
				return
			}
		}
	}, nil
}

// page is a page of events, or the error of reading it.
type page struct {
	events []Event
	err    error
}

// readAhead reads the next page while the current one is processed. After the last page it returns
// a closed channel.
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

// key is the position of an event in the order.
type key struct {
	time int64
	id   string
}

func (k key) compare(other key) int {
	return cmp.Or(cmp.Compare(k.time, other.time), strings.Compare(k.id, other.id))
}

// query is the state of a Query.
type query struct {
	Filter
	log   *Log
	words []string
	email string
	// end is the exclusive upper bound of the time.
	end int64
	// last is the last event read, if events are read in order.
	last key
	// proposed are the events left to be read, if the index has proposed them.
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
		return nil, fmt.Errorf("%w filter: the account is required", ErrInvalid)
	case f.EventName != "" && !Known(f.EventName):
		return nil, fmt.Errorf("%w filter: no event is named %q; allowed: the names of events in the audit log, as they are written there", ErrInvalid, cut(clean(f.EventName), maxName))
	case len(f.UserEmail) > maxEmail || clean(f.UserEmail) != f.UserEmail:
		return nil, fmt.Errorf("%w filter: the e-mail address has more than %d bytes, or is not UTF-8", ErrInvalid, maxEmail)
	}
	return q, nil
}

// ceilMicro returns the first microsecond that is not before t.
func ceilMicro(t time.Time) int64 {
	micros := t.UnixMicro()
	if time.UnixMicro(micros).Before(t) {
		micros++
	}
	return micros
}

// begin reads the first page and decides how the others are read.
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

// boundEnd excludes events that are recorded from now on, so that the query ends. Stored events are
// included even if their time is in the future: the clock of another replica may be ahead.
func (q *query) boundEnd(ctx context.Context) error {
	var last sql.NullInt64
	err := q.read(ctx, "SELECT MAX(time) FROM audit_event WHERE account = $1", []any{q.Account}, func(rows *sql.Rows) error { return rows.Scan(&last) })
	q.end = min(q.end, max(q.log.clock.Now().UnixMicro(), last.Int64)+1)
	return err
}

// propose reads from the index which events have the words, if there are words in it.
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
	if err != nil || len(keys) > maxProposed {
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
	return text, []any{terms(dialect, words), q.Account, q.last.time, q.end, maxProposed + 1}
}

// indexWords returns words that every matching event has: those of the search, and those of the name
// and the e-mail address, which are among the words of their event.
func (q *query) indexWords() []string {
	words := slices.Clone(q.words)
	for _, text := range []string{q.EventName, q.UserEmail} {
		eachWord(text, false, func(word string) bool {
			words = append(words, strings.Clone(word))
			return true
		})
	}
	words = slices.DeleteFunc(words, func(word string) bool { return len(word) < minIndexed })
	prefix := indexPrefix(q.Account)
	for i := range words {
		words[i] = prefix + indexedPart(words[i])
	}
	slices.Sort(words)
	words = slices.Compact(words)
	return words[:min(len(words), maxSearchWords)]
}

// inOrder reads the events after a key.
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

// nextProposed reads the next events that the index has proposed. Some may have been deleted.
func (q *query) nextProposed(ctx context.Context) ([]Event, error) {
	keys := q.proposed[:min(len(q.proposed), maxPerQuery)]
	q.proposed = q.proposed[len(keys):]
	q.finished = len(q.proposed) == 0
	if len(keys) == 0 {
		return nil, nil
	}
	// The number of parameters is constant, so that the statement is prepared once.
	ids := make([]any, maxPerQuery)
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
	parameters := make([]string, maxPerQuery)
	for i := range parameters {
		parameters[i] = fmt.Sprintf("$%d", i+1)
	}
	return "SELECT " + selected + " FROM audit_event WHERE id IN (" + strings.Join(parameters, ", ") + ")"
}()

func (q *query) events(ctx context.Context, capacity int, text string, args ...any) ([]Event, error) {
	events := make([]Event, 0, capacity)
	err := q.read(ctx, text, args, func(rows *sql.Rows) error {
		events = append(events, Event{})
		return events[len(events)-1].scan(rows)
	})
	return events, err
}

// read runs a statement and reads all its rows.
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

// matches reports whether an event matches the filter. Nothing else decides that.
func (q *query) matches(e *Event) bool {
	return (q.EventName == "" || e.Name == q.EventName) &&
		(q.email == "" || fold.Case(e.Actor.Email) == q.email) &&
		(q.DeploymentIDs == nil || slices.Contains(q.DeploymentIDs, e.Deployment.ID) && e.Deployment.ID != "") &&
		e.Account == q.Account && e.hasWords(q.words)
}

// failed returns the error for the caller.
func (q *query) failed(ctx context.Context, err error) error {
	if ctx.Err() != nil {
		return ctx.Err()
	}
	return fmt.Errorf("%w: %w", ErrUnavailable, err)
}
