package audit

import (
	"context"
	"fmt"
	"iter"
	"path/filepath"
	"testing"
	"time"

	"github.com/google/uuid"

	"github.com/quoin-dev/quoin/internal/store"
	"github.com/quoin-dev/quoin/internal/store/postgrestest"
)

// world is one of the two databases, empty at first.
type world struct {
	url   string
	store *store.Store
}

// cases are run on both databases.
var cases = []struct {
	name string
	run  func(t *testing.T, w *world)
}{
	{"an attempt is stored before, its outcome after", testAttempt},
	{"all fields come back", testAllFields},
	{"the same ID is one event", testSameID},
	{"several record the same events", testSeveralRecordTheSame},
	{"what is cancelled does not lose others", testCancelled},
	{"the outcome is stored when the client is gone", testClientGone},
	{"a database that does not answer", testNoAnswer},
	{"a refused row does not lose others", testRefusedRow},
	{"a closed log", testClosed},
	{"filters", testFilters},
	{"order and pages", testPages},
	{"bounds of time", testBoundsOfTime},
	{"a moving log", testMovingLog},
	{"search", testSearch},
	{"odd searches", testOddSearches},
	{"the index finds what reading finds", testIndexAgainstReading},
	{"many matches", testManyMatches},
	{"a cancelled query", testCancelledQuery},
	{"an export", testExport},
	{"retention by age and by count", testRetention},
	{"retention by several, while others write", testRetentionWhileWriting},
	{"retention of all accounts", testRunRetention},
	{"metrics", testMetrics},
	{"an event in the transaction of its change", testRecordTx},
}

func TestSQLite(t *testing.T) {
	runCases(t, func(t *testing.T) string { return "sqlite://" + filepath.Join(t.TempDir(), "content.db") })
}

func TestPostgreSQL(t *testing.T) {
	server := postgrestest.StartServer(t)
	runCases(t, func(t *testing.T) string { return server.Database(t) })
}

func runCases(t *testing.T, fresh func(t *testing.T) string) {
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) { c.run(t, openWorld(t, fresh(t))) })
	}
}

func openWorld(t testing.TB, url string) *world {
	t.Helper()
	s, err := store.Open(t.Context(), url, nil, Owner)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	})
	return &world{url: url, store: s}
}

// patient is the timeout where a test is not about it, on a busy machine.
const patient = 2 * time.Minute

func (w *world) log(t testing.TB, o Options) *Log {
	t.Helper()
	if o.Timeout == 0 {
		o.Timeout = patient
	}
	l := NewLog(w.store, o)
	t.Cleanup(l.Close)
	return l
}

// epoch is the time of the first event in tests.
var epoch = time.Date(2026, 11, 21, 12, 0, 0, 0, time.UTC)

// at is a finished event, n seconds after epoch, with an id in the order of n.
func at(n int, change ...func(*Event)) Event {
	e := Event{
		ID: uuid.MustParse(fmt.Sprintf("00000000-0000-7000-8000-%012x", n)), Account: "demo", Time: epoch.Add(time.Duration(n) * time.Second),
		Name: CreatedUser, Outcome: Succeeded, Source: SourceREST, Actor: Actor{Kind: ActorUser},
	}
	for _, c := range change {
		c(&e)
	}
	return e
}

func record(t testing.TB, l *Log, events ...Event) {
	t.Helper()
	if err := l.Record(context.Background(), events...); err != nil {
		t.Fatal(err)
	}
}

// find is what a query yields.
func find(t testing.TB, l *Log, f Filter) []Event {
	t.Helper()
	if f.Account == "" {
		f.Account = "demo"
	}
	events, err := l.Query(context.Background(), f)
	if err != nil {
		t.Fatal(err)
	}
	return collect(t, events)
}

func collect(t testing.TB, events iter.Seq2[Event, error]) (all []Event) {
	t.Helper()
	for e, err := range events {
		if err != nil {
			t.Fatal(err)
		}
		all = append(all, e)
	}
	return all
}

// numbers are those that at was given.
func numbers(events []Event) []int {
	all := []int{}
	for _, e := range events {
		all = append(all, int(e.Time.Sub(epoch)/time.Second))
	}
	return all
}

func (w *world) count(t testing.TB) (n int) {
	t.Helper()
	if err := w.store.Reader().QueryRowContext(context.Background(), "SELECT COUNT(*) FROM audit_event").Scan(&n); err != nil {
		t.Fatal(err)
	}
	return n
}

// block keeps others from writing until release is called.
func (w *world) block(t testing.TB) (release func()) {
	t.Helper()
	blocked, free, ended := make(chan struct{}), make(chan struct{}), make(chan error, 1)
	go func() {
		ended <- w.store.Tx(context.Background(), func(tx *store.Tx) error {
			// SQLite's transaction is exclusive by itself; the statement does nothing there.
			statement := "LOCK TABLE audit_event IN EXCLUSIVE MODE"
			if w.store.Dialect() == store.SQLite {
				statement = "SELECT 1"
			}
			_, err := tx.ExecContext(context.Background(), statement)
			close(blocked)
			<-free
			return err
		})
	}()
	<-blocked
	return func() {
		close(free)
		if err := <-ended; err != nil {
			t.Error(err)
		}
	}
}

// eventually waits for a condition.
func eventually(t testing.TB, what string, holds func() bool) {
	t.Helper()
	for deadline := time.Now().Add(patient); !holds(); time.Sleep(time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatal("it never came: ", what)
		}
	}
}
