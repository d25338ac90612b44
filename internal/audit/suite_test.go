package audit

import (
	"context"
	"fmt"
	"iter"
	"testing"
	"time"

	"github.com/google/uuid"

	"github.com/quoin-dev/quoin/internal/store"
	"github.com/quoin-dev/quoin/internal/store/storetest"
)

// world is a database, empty at first.
type world struct {
	url   string
	store *store.Store
}

// cases run on both databases.
var cases = []struct {
	name string
	run  func(t *testing.T, w *world)
}{
	{"an attempt is stored, then its outcome", testAttempt},
	{"fields are read as they were stored", testAllFields},
	{"storing an ID again has no effect", testSameID},
	{"replicas record the same events", testReplicasRecordTheSame},
	{"a cancelled call loses no other events", testCancelled},
	{"the outcome is stored after the client has disconnected", testDisconnectedClient},
	{"a database that does not answer", testNoAnswer},
	{"a rejected row loses no other events", testRejectedRow},
	{"a closed log", testClosed},
	{"filters", testFilters},
	{"order and pages", testPages},
	{"time bounds", testTimeBounds},
	{"an export while events come and go", testExportDuringChanges},
	{"search", testSearch},
	{"searches with syntax of the query languages", testSearchSyntax},
	{"the index finds the same as reading all events", testIndexAgainstReading},
	{"many matches", testManyMatches},
	{"a cancelled query", testCancelledQuery},
	{"an export", testExport},
	{"retention by age and by count", testRetention},
	{"concurrent retention and writes", testRetentionWhileWriting},
	{"retention of all accounts", testRunRetention},
	{"metrics", testMetrics},
	{"an event in the transaction of its change", testRecordTx},
	{"an id that is known later", testIdentify},
}

func TestDatabases(t *testing.T) {
	storetest.ForEach(t, func(t *testing.T, newDatabase func(testing.TB) string) {
		for _, c := range cases {
			t.Run(c.name, func(t *testing.T) { c.run(t, openWorld(t, newDatabase(t))) })
		}
	})
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

// longTimeout is for tests that are not about timeouts, on a busy machine.
const longTimeout = 2 * time.Minute

func (w *world) log(t testing.TB, o Options) *Log {
	t.Helper()
	if o.Timeout == 0 {
		o.Timeout = longTimeout
	}
	l := NewLog(w.store, o)
	t.Cleanup(l.Close)
	return l
}

// epoch is the time of the first event of the tests.
var epoch = time.Date(2026, 11, 21, 12, 0, 0, 0, time.UTC)

// at returns a finished event, n seconds after epoch, with an id in the order of n.
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

// find returns the result of a query.
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

// numbers returns the arguments of at of the events.
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

// block keeps other transactions from writing until release is called.
func (w *world) block(t testing.TB) (release func()) {
	t.Helper()
	blocked, free, ended := make(chan struct{}), make(chan struct{}), make(chan error, 1)
	go func() {
		ended <- w.store.Tx(context.Background(), func(tx *store.Tx) error {
			// In SQLite the transaction itself is exclusive.
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

// eventually waits until a condition holds.
func eventually(t testing.TB, what string, holds func() bool) {
	t.Helper()
	for deadline := time.Now().Add(longTimeout); !holds(); time.Sleep(time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatal("timeout: ", what)
		}
	}
}
