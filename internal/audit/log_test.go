package audit

import (
	"context"
	"encoding/json"
	"errors"
	"math/rand/v2"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/uuid"
	"github.com/prometheus/client_golang/prometheus"
	clocktesting "k8s.io/utils/clock/testing"

	"github.com/quoin-dev/quoin/internal/store"
)

func testAttempt(t *testing.T, w *world) {
	l := w.log(t, Options{Clock: clocktesting.NewFakePassiveClock(epoch)})
	a, err := l.Begin(t.Context(), Event{Account: "demo", Name: CreatedDeployment, Source: SourceREST, Actor: Actor{ActorKey, "k1", ""}, Object: Object{Kind: "Deployment"}, RequestID: "r1"})
	if err != nil {
		t.Fatal(err)
	}
	want := Event{
		ID: a.ID(), Account: "demo", Time: epoch, Name: CreatedDeployment, Outcome: Attempted, Source: SourceREST,
		Actor: Actor{ActorKey, "k1", ""}, Object: Object{Kind: "Deployment"}, RequestID: "r1",
	}
	if diff := cmp.Diff([]Event{want}, find(t, l, Filter{})); diff != "" {
		t.Fatal("attempted:", diff)
	}
	details := Details{Reason: "201", Deployment: Deployment{"7", "Analytics"}, Object: Object{"Deployment", "demo", "analytics", "7"}, Changes: json.RawMessage(`{"spec.size":{"after":"Large"}}`)}
	if err := a.End(t.Context(), Succeeded, details); err != nil {
		t.Fatal(err)
	}
	want.Outcome, want.Reason, want.Deployment, want.Object, want.Changes = Succeeded, details.Reason, details.Deployment, details.Object, details.Changes
	if diff := cmp.Diff([]Event{want}, find(t, l, Filter{Search: "large analytics"})); diff != "" {
		t.Fatal("succeeded:", diff)
	}
	// An outcome is final.
	if err := a.End(t.Context(), Failed, Details{Reason: "500"}); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff([]Event{want}, find(t, l, Filter{})); diff != "" {
		t.Fatal("ended twice:", diff)
	}
	if err := a.End(t.Context(), "done", Details{}); !errors.Is(err, ErrInvalid) {
		t.Error("an unknown outcome:", err)
	}
	if _, err := l.Begin(t.Context(), Event{}); !errors.Is(err, ErrInvalid) {
		t.Error("an empty event:", err)
	}
}

func testAllFields(t *testing.T, w *world) {
	l := w.log(t, Options{})
	odd := "é'\"\\;--\n\t\U0001F600 $1 ?"
	e := Event{
		ID: uuid.Must(uuid.NewV7()), Account: "demo", Time: epoch.Add(123456 * time.Microsecond), Name: UpdatedBranch, Outcome: Failed, Reason: odd + "1",
		Source: SourceKubernetes, Actor: Actor{ActorServiceAccount, odd + "2", odd + "3"}, Deployment: Deployment{odd + "4", odd + "5"},
		Object: Object{odd + "6", odd + "7", odd + "8", odd + "9"}, IP: odd + "a", RequestID: odd + "b", Changes: json.RawMessage(`{"a":{"after":"é\u0000\n'\"","before":[1,null]}}`),
	}
	record(t, l, e)
	if diff := cmp.Diff([]Event{e}, find(t, l, Filter{})); diff != "" {
		t.Error(diff)
	}
	long := strings.Repeat("\U0001F600x ", 5000)
	record(t, l, Event{
		Account: strings.Repeat("a", maxAccount), Name: UpdatedBranch, Outcome: Failed, Reason: long, Source: SourceSCIM, Actor: Actor{ActorSystem, long, long},
		Deployment: Deployment{long, long}, Object: Object{long, long, long, long}, IP: long, RequestID: long, Changes: json.RawMessage(`{"a":"` + long + `"}`),
	})
	if got := find(t, l, Filter{Account: strings.Repeat("a", maxAccount)}); len(got) != 1 {
		t.Errorf("the longest event: %d", len(got))
	}
}

func testSameID(t *testing.T, w *world) {
	l := w.log(t, Options{})
	first, again := at(1), at(1, func(e *Event) { e.Outcome, e.Reason = Failed, "again" })
	record(t, l, first, first, at(2), again)
	record(t, l, again, at(2))
	got := find(t, l, Filter{})
	if diff := cmp.Diff([]Event{first, at(2)}, got); diff != "" {
		t.Error(diff)
	}
	// An attempt gets its outcome, also in the same batch; that of another account does not.
	record(t, l, at(3, func(e *Event) { e.Outcome = Attempted }), at(3))
	record(t, l, at(4, func(e *Event) { e.Outcome = Attempted }))
	record(t, l, at(4, func(e *Event) { e.Account = "other" }))
	got = find(t, l, Filter{Start: epoch.Add(3 * time.Second)})
	if len(got) != 2 || got[0].Outcome != Succeeded || got[1].Outcome != Attempted {
		t.Errorf("%+v", got)
	}
}

// testReplicasRecordTheSame records the same events from several replicas: at the same time, and in
// batches of different orders.
func testReplicasRecordTheSame(t *testing.T, w *world) {
	const n, replicas = 200, 4
	var logs [replicas]*Log
	for i := range logs {
		logs[i] = w.log(t, Options{})
	}
	together := func(record func(replica int) error) {
		var all sync.WaitGroup
		for i := range replicas {
			all.Go(func() {
				if err := record(i); err != nil {
					t.Error(err)
				}
			})
		}
		all.Wait()
	}
	for i := range n {
		together(func(replica int) error { return logs[replica].Record(context.Background(), at(i)) })
	}
	for round := range 5 {
		together(func(replica int) error {
			var events []Event
			for _, i := range rand.New(rand.NewPCG(uint64(replica), uint64(round))).Perm(n) {
				events = append(events, at(n*(1+round)+i))
			}
			return logs[replica].Record(context.Background(), events...)
		})
	}
	if got := find(t, logs[0], Filter{}); len(got) != 6*n {
		t.Errorf("%d events, want %d", len(got), 6*n)
	}
}

func testCancelled(t *testing.T, w *world) {
	l := w.log(t, Options{})
	release := w.block(t)
	l.writer.occupy(t)
	var all sync.WaitGroup
	results := make([]error, 20)
	ctx, cancel := context.WithCancel(context.Background())
	for i := range results {
		all.Go(func() {
			ctx := ctx
			if i%2 == 1 {
				ctx = context.Background()
			}
			results[i] = l.Record(ctx, at(i))
		})
	}
	eventually(t, "all calls are queued", func() bool { return l.writer.queued() == len(results) })
	cancel()
	eventually(t, "cancelled calls return", func() bool { return l.writer.abandoned() == len(results)/2 })
	release()
	all.Wait()
	stored := map[int]bool{}
	for _, n := range numbers(find(t, l, Filter{})) {
		stored[n] = true
	}
	for i, err := range results {
		switch {
		case i%2 == 0 && !errors.Is(err, context.Canceled):
			t.Errorf("caller %d was cancelled and got %v", i, err)
		case i%2 == 1 && (err != nil || !stored[i]):
			t.Errorf("caller %d was not cancelled: %v, stored %v", i, err, stored[i])
		}
	}
	if err := l.Record(ctx, at(100)); !errors.Is(err, context.Canceled) {
		t.Error("with a cancelled context:", err)
	}
}

// occupy makes the writer wait for a transaction while the database is blocked, so that later events
// are queued.
func (w *writer) occupy(t *testing.T) {
	t.Helper()
	e := at(0, func(e *Event) { e.ID, e.Account = uuid.New(), "occupied" })
	if err := w.submit(&submission{events: []Event{e}, rows: [][]any{e.row()}, stored: make(chan error, 1)}); err != nil {
		t.Fatal(err)
	}
	eventually(t, "the writer has taken it", func() bool { return w.queued() == 0 })
}

func (w *writer) queued() int {
	w.mu.Lock()
	defer w.mu.Unlock()
	return len(w.queue)
}

func (w *writer) abandoned() (n int) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, sub := range w.queue {
		if sub.abandoned.Load() {
			n++
		}
	}
	return n
}

func testDisconnectedClient(t *testing.T, w *world) {
	l := w.log(t, Options{})
	ctx, cancel := context.WithCancel(t.Context())
	a, err := l.Begin(ctx, at(1))
	if err != nil {
		t.Fatal(err)
	}
	cancel()
	if err := a.End(ctx, Succeeded, Details{}); err != nil {
		t.Fatal(err)
	}
	if got := find(t, l, Filter{}); len(got) != 1 || got[0].Outcome != Succeeded {
		t.Errorf("%+v", got)
	}
}

func testNoAnswer(t *testing.T, w *world) {
	l := w.log(t, Options{Timeout: 200 * time.Millisecond})
	before := gathered(t, "quoin_audit_unavailable_total")
	release := w.block(t)
	for i := range 3 {
		if _, err := l.Begin(t.Context(), at(i)); !errors.Is(err, ErrUnavailable) {
			t.Errorf("attempt %d: %v", i, err)
		}
	}
	if counted := gathered(t, "quoin_audit_unavailable_total") - before; counted != 3 {
		t.Errorf("%v calls were counted, want 3", counted)
	}
	// Reads still succeed.
	if got := find(t, l, Filter{}); len(got) != 0 {
		t.Errorf("%+v", got)
	}
	release()
	eventually(t, "events are stored again", func() bool { return l.Record(context.Background(), at(10)) == nil })
}

func TestFullQueue(t *testing.T) {
	w := &writer{limit: 5, wake: make(chan struct{}, 1)} // not running
	for n := range 5 {
		if err := w.submit(&submission{events: []Event{at(n)}}); err != nil {
			t.Fatal(err)
		}
	}
	err := w.submit(&submission{events: []Event{at(6)}})
	if !errors.Is(err, ErrUnavailable) || !strings.Contains(err.Error(), "queue is full (5 events)") {
		t.Error(err)
	}
	if taken, _ := w.take(); len(taken) != 5 {
		t.Errorf("the batch has %d submissions, want 5", len(taken))
	}
	// An empty queue accepts a submission of any size; it would never fit otherwise.
	if err := w.submit(&submission{events: make([]Event, 9)}); err != nil {
		t.Error(err)
	}
}

func testRejectedRow(t *testing.T, w *world) {
	reject := "ALTER TABLE audit_event ADD CHECK (request_id <> 'reject')"
	if w.store.Dialect() == store.SQLite {
		reject = "CREATE TRIGGER reject BEFORE INSERT ON audit_event WHEN new.request_id = 'reject' BEGIN SELECT RAISE(ABORT, 'rejected'); END"
	}
	w.exec(t, reject)
	l := w.log(t, Options{})
	release := w.block(t)
	l.writer.occupy(t)
	var all sync.WaitGroup
	results := make([]error, 10)
	for i := range results {
		all.Go(func() {
			results[i] = l.Record(context.Background(), at(i, func(e *Event) {
				if i == 5 {
					e.RequestID = "reject"
				}
			}))
		})
	}
	eventually(t, "all calls are queued", func() bool { return l.writer.queued() == len(results) })
	release()
	all.Wait()
	for i, err := range results {
		if (i == 5) != errors.Is(err, ErrUnavailable) {
			t.Errorf("event %d: %v", i, err)
		}
	}
	if diff := cmp.Diff([]int{0, 1, 2, 3, 4, 6, 7, 8, 9}, numbers(find(t, l, Filter{}))); diff != "" {
		t.Error(diff)
	}
}

func testClosed(t *testing.T, w *world) {
	l := NewLog(w.store, Options{Timeout: longTimeout})
	release := w.block(t)
	l.writer.occupy(t)
	var all sync.WaitGroup
	for i := range 3 {
		all.Go(func() {
			if err := l.Record(context.Background(), at(i)); err != nil {
				t.Errorf("event %d was queued when the log was closed: %v", i, err)
			}
		})
	}
	eventually(t, "the calls are queued", func() bool { return l.writer.queued() == 3 })
	closed := make(chan struct{})
	go func() { l.Close(); close(closed) }()
	eventually(t, "the writer is closed", func() bool {
		l.writer.mu.Lock()
		defer l.writer.mu.Unlock()
		return l.writer.closed
	})
	if err := l.Record(t.Context(), at(9)); !errors.Is(err, ErrUnavailable) {
		t.Error(err)
	}
	release()
	<-closed
	all.Wait()
	if diff := cmp.Diff([]int{0, 1, 2}, numbers(find(t, l, Filter{}))); diff != "" {
		t.Error(diff)
	}
	l.Close() // idempotent
}

func testMetrics(t *testing.T, w *world) {
	l := w.log(t, Options{Clock: clocktesting.NewFakePassiveClock(epoch.Add(time.Hour))})
	names := []string{"quoin_audit_events_total", "quoin_audit_store_duration_seconds", "quoin_audit_deleted_total", "quoin_audit_exported_rows_total", "quoin_audit_queue_length"}
	before := map[string]float64{}
	for _, name := range names {
		before[name] = gathered(t, name)
	}
	a, err := l.Begin(t.Context(), at(1))
	if err != nil {
		t.Fatal(err)
	}
	if err := a.End(t.Context(), Failed, Details{}); err != nil {
		t.Fatal(err)
	}
	events, err := l.Query(t.Context(), Filter{Account: "demo"})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := WriteCSV(&strings.Builder{}, events); err != nil {
		t.Fatal(err)
	}
	if _, err := l.Retain(t.Context(), "demo", Limits{MaxAge: time.Second}); err != nil {
		t.Fatal(err)
	}
	got := map[string]float64{}
	for _, name := range names {
		got[name] = gathered(t, name) - before[name]
	}
	want := map[string]float64{names[0]: 2, names[1]: 2, names[2]: 1, names[3]: 1, names[4]: 0}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
}

// gathered returns the sum of a metric over all labels; of a histogram, its count.
func gathered(t testing.TB, name string) (sum float64) {
	t.Helper()
	registry := prometheus.NewRegistry()
	registry.MustRegister(Collectors()...)
	families, err := registry.Gather()
	if err != nil {
		t.Fatal(err)
	}
	for _, family := range families {
		if family.GetName() != name {
			continue
		}
		for _, m := range family.GetMetric() {
			sum += m.GetCounter().GetValue() + m.GetGauge().GetValue() + float64(m.GetHistogram().GetSampleCount())
		}
	}
	return sum
}

func (w *world) exec(t testing.TB, statement string, args ...any) {
	t.Helper()
	err := w.store.Tx(context.Background(), func(tx *store.Tx) error {
		_, err := tx.ExecContext(context.Background(), statement, args...)
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
}

func testRecordTx(t *testing.T, w *world) {
	l := w.log(t, Options{})
	broken := errors.New("broken")
	before := gathered(t, "quoin_audit_events_total")
	write := func(n int, fail error) error {
		return w.store.Tx(t.Context(), func(tx *store.Tx) error {
			return errors.Join(RecordTx(t.Context(), tx, at(n, func(e *Event) { e.Outcome = "" })), fail)
		})
	}
	if err := errors.Join(write(1, nil), write(3, nil)); err != nil {
		t.Fatal(err)
	}
	if err := write(2, broken); !errors.Is(err, broken) {
		t.Error(err)
	}
	if diff := cmp.Diff([]Event{at(1), at(3)}, find(t, l, Filter{})); diff != "" {
		t.Error(diff)
	}
	if n := gathered(t, "quoin_audit_events_total") - before; n != 2 {
		t.Errorf("%v events are counted, want 2", n)
	}
	err := w.store.Tx(t.Context(), func(tx *store.Tx) error { return RecordTx(t.Context(), tx, Event{Account: "demo"}) })
	if !errors.Is(err, ErrInvalid) {
		t.Error(err)
	}
}
