package chat

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/quoin-dev/quoin/internal/agent/stream"
	"github.com/quoin-dev/quoin/internal/audit"
	"github.com/quoin-dev/quoin/internal/content"
	"github.com/quoin-dev/quoin/internal/content/contenttest"
	"github.com/quoin-dev/quoin/internal/store"
	"github.com/quoin-dev/quoin/internal/store/storetest"
)

// world is a database with the tables of threads, empty at first.
type world struct {
	*testing.T
	db      *store.Store
	threads *Threads
	clock   time.Time
	events  []string
}

// scope returns the deployment of an account.
func scope(account string) content.Scope {
	return content.Scope{
		Account:    store.Account{UID: account, Name: "name-" + account},
		Deployment: store.Deployment{UID: "d-" + account, Namespace: account, Name: "sales"},
	}
}

var demo = scope("a1")

func TestDatabases(t *testing.T) {
	storetest.ForEach(t, func(t *testing.T, newDatabase func(testing.TB) string) {
		for name, run := range map[string]func(w *world){
			"a run from begin to end":                       testRun,
			"a message is answered once":                    testSameMessage,
			"another message waits":                         testOtherMessage,
			"threads have owners":                           testOwners,
			"accounts and agents have threads of their own": testTenants,
			"one of concurrent requests begins the run":     testConcurrent,
			"many lines at once":                            testManyLines,
			"long lines":                                    testLongLines,
			"messages without lines that append text":       testMessages,
			"lines of several runs at once":                 testAppendAll,
			"aborts are found by the holder":                testAborts,
			"a call with an unknown outcome is repeated":    testUnknownOutcome,
			"an abort reaches the holder":                   testAbort,
			"a run whose replica was killed is taken over":  testTakeOver,
			"replicas take over different runs":             testTakeOverTogether,
			"a thread is deleted with its event":            testDelete,
			"threads expire":                                testExpire,
			"what is of deleted deployments is deleted":     testPurge,
			"a new deployment of the name has new threads":  testNewDeployment,
			"the threads of deleted users are deleted":      testDeletedUser,
			"runs that have ended are listed":               testRuns,
			"a thread has a limit":                          testLimit,
			"what cannot be stored is rejected":             testInvalid,
		} {
			t.Run(name, func(t *testing.T) { run(open(t, newDatabase(t))) })
		}
	})
}

func open(t *testing.T, url string) *world {
	t.Helper()
	db := contenttest.Open(t, url, Owner)
	w := &world{T: t, db: db, clock: time.Date(2026, 11, 23, 12, 0, 0, 0, time.UTC)}
	w.threads = &Threads{DB: db, Now: func() time.Time { return w.clock }, Record: func(_ context.Context, _ *store.Tx, e audit.Event) error {
		w.events = append(w.events, e.Name+" "+e.Object.Name)
		return nil
	}}
	return w
}

func (w *world) must(err error) {
	w.Helper()
	if err != nil {
		w.Fatal(err)
	}
}

func (w *world) is(err, want error) {
	w.Helper()
	if !errors.Is(err, want) {
		w.Fatalf("got %v, want %v", err, want)
	}
}

func message(chat, id string) Message {
	return Message{Agent: 7, ChatID: chat, Owner: "user:ada", ID: id, Title: "Orders by status?"}
}

func (w *world) begin(chat, id string) (*Thread, *RunLease) {
	w.Helper()
	thread, run, lease, err := w.threads.Begin(w.Context(), demo, message(chat, id), "replica-1")
	w.must(err)
	if lease == nil || run.State != Running || thread.RunID != run.ID {
		w.Fatalf("the run %+v of %+v has the lease %+v", run, thread, lease)
	}
	return thread, lease
}

// bodies returns texts as the bodies of lines.
func bodies(texts ...string) (out [][]byte) {
	for _, text := range texts {
		out = append(out, []byte(text))
	}
	return out
}

// log returns the lines of a thread after a sort.
func (w *world) log(thread, after int64) string {
	w.Helper()
	lines, err := w.threads.Lines(w.Context(), demo.Account.UID, thread, after, 1000)
	w.must(err)
	var out []string
	for _, l := range lines {
		out = append(out, fmt.Sprintf("%d:%s", l.Sort, l.Body))
	}
	return strings.Join(out, " ")
}

func (w *world) logIs(thread, after int64, want string) {
	w.Helper()
	if got := w.log(thread, after); got != want {
		w.Errorf("the lines are %q, want %q", got, want)
	}
}

func testRun(w *world) {
	thread, l := w.begin("c1", "1-message")
	w.must(w.threads.Append(w.Context(), l, bodies("a", `{"b":"\u0000 ü"}`)...))
	w.clock = w.clock.Add(time.Second)
	w.must(w.threads.Append(w.Context(), l))
	w.must(w.threads.End(w.Context(), l, Done, bodies("c")...))
	w.logIs(thread.ID, 0, `1:a 2:{"b":"\u0000 ü"} 3:c`)
	w.logIs(thread.ID, 2, "3:c")
	if lines, err := w.threads.Lines(w.Context(), demo.Account.UID, thread.ID, 0, 2); err != nil || len(lines) != 2 || lines[1].Sort != 2 {
		w.Errorf("a page is %v, %v", lines, err)
	}
	run, err := w.threads.Run(w.Context(), demo.Account.UID, thread.ID, l.Run)
	w.must(err)
	if run.State != Done || run.After != 0 || run.Last != 3 || !run.EndedAt.Equal(w.clock) || !run.CreatedAt.Equal(w.clock.Add(-time.Second)) {
		w.Errorf("the run is %+v", run)
	}
	found, err := w.threads.Find(w.Context(), demo, 7, "c1", "user:ada")
	w.must(err)
	if found.RunID != 0 || found.LastSort != 3 || found.Title != "Orders by status?" || !found.UpdatedAt.Equal(w.clock) {
		w.Errorf("the thread is %+v", found)
	}
	// The next run continues the order of the thread.
	_, next := w.begin("c1", "2-message")
	w.must(w.threads.End(w.Context(), next, Failed, bodies("d")...))
	w.logIs(thread.ID, 3, "4:d")
	w.is(w.threads.Append(w.Context(), next, bodies("e")...), ErrLost)
	_, err = w.threads.Run(w.Context(), demo.Account.UID, thread.ID, 99)
	w.is(err, ErrUnknown)
}

func testSameMessage(w *world) {
	thread, l := w.begin("c1", "1-message")
	for _, state := range []State{Running, Done} {
		again, run, lease, err := w.threads.Begin(w.Context(), demo, message("c1", "1-message"), "replica-2")
		w.must(err)
		if lease != nil || run.ID != l.Run || run.State != state || again.ID != thread.ID {
			w.Errorf("the message again has the run %+v of %+v, lease %+v", run, again, lease)
		}
		if state == Running {
			w.must(w.threads.End(w.Context(), l, Done, bodies("a")...))
		}
	}
	w.logIs(thread.ID, 0, "1:a")
}

func testOtherMessage(w *world) {
	_, l := w.begin("c1", "1-message")
	_, _, _, err := w.threads.Begin(w.Context(), demo, message("c1", "2-message"), "replica-1")
	w.is(err, ErrInProgress)
	if want := "Streaming for thread is in progress"; err.Error() != want {
		w.Errorf("the error is %q, want %q", err, want)
	}
	w.must(w.threads.End(w.Context(), l, Done))
	w.begin("c1", "2-message")
}

func testOwners(w *world) {
	_, l := w.begin("c1", "1-message")
	other := message("c1", "1-message")
	other.Owner = "user:bob"
	_, _, _, err := w.threads.Begin(w.Context(), demo, other, "replica-1")
	w.is(err, ErrForeign)
	_, err = w.threads.Find(w.Context(), demo, 7, "c1", "user:bob")
	w.is(err, ErrForeign)
	_, err = w.threads.Abort(w.Context(), demo, 7, "c1", "user:bob")
	w.is(err, ErrForeign)
	w.is(w.threads.Delete(w.Context(), demo, 7, "c1", "user:bob"), ErrForeign)
	w.must(w.threads.Append(w.Context(), l))
	if l.Abort {
		w.Error("another user has aborted the run")
	}
}

func testTenants(w *world) {
	w.begin("c1", "1-message")
	for _, c := range []struct {
		account string
		agent   int64
		chat    string
	}{{"a2", 7, "c1"}, {"a1", 8, "c1"}, {"a1", 7, "c2"}} {
		_, err := w.threads.Find(w.Context(), scope(c.account), c.agent, c.chat, "user:ada")
		w.is(err, ErrUnknown)
		_, err = w.threads.Abort(w.Context(), scope(c.account), c.agent, c.chat, "user:ada")
		w.is(err, ErrUnknown)
		w.is(w.threads.Delete(w.Context(), scope(c.account), c.agent, c.chat, "user:ada"), ErrUnknown)
		m := message(c.chat, "1-message")
		m.Agent = c.agent
		if _, _, lease, err := w.threads.Begin(w.Context(), scope(c.account), m, "replica-1"); err != nil || lease == nil {
			w.Errorf("%+v: lease %+v, %v", c, lease, err)
		}
	}
	for _, id := range []string{"c\x001", "\xff"} { // PostgreSQL rejects such texts
		_, err := w.threads.Find(w.Context(), demo, 7, id, "user:ada")
		w.is(err, ErrUnknown)
	}
	if lines, err := w.threads.Lines(w.Context(), "a2", 1, 0, 10); err != nil || len(lines) != 0 {
		w.Errorf("another account has the lines %v, %v", lines, err)
	}
}

func testConcurrent(w *world) {
	var begun, same atomic.Int32
	var group sync.WaitGroup
	for i := range 8 {
		group.Go(func() {
			_, _, lease, err := w.threads.Begin(w.Context(), demo, message("c1", "1-message"), fmt.Sprint("replica-", i))
			switch {
			case err != nil:
				w.Error(err)
			case lease != nil:
				begun.Add(1)
			default:
				same.Add(1)
			}
		})
	}
	group.Wait()
	if begun.Load() != 1 || same.Load() != 7 {
		w.Errorf("%d requests have begun the run, %d have found it", begun.Load(), same.Load())
	}
}

func testManyLines(w *world) {
	thread, l := w.begin("c1", "1-message")
	const n = 2*rowLines + 3
	var all [][]byte
	for i := range n {
		all = append(all, fmt.Append(nil, i+1))
	}
	w.must(w.threads.Append(w.Context(), l, all...))
	lines, err := w.threads.Lines(w.Context(), demo.Account.UID, thread.ID, 0, 1000)
	w.must(err)
	if len(lines) != n {
		w.Fatalf("%d lines", len(lines))
	}
	for i, line := range lines {
		if line.Sort != int64(i+1) || string(line.Body) != fmt.Sprint(i+1) {
			w.Errorf("line %d is %+v", i, line)
		}
	}
}

// testLongLines reads pages that begin and end within a row.
func testLongLines(w *world) {
	thread, l := w.begin("c1", "1-message")
	var all [][]byte
	for i := range 10 {
		all = append(all, []byte(fmt.Sprint(i+1)+strings.Repeat("x", i*rowBytes/8)))
	}
	w.must(w.threads.Append(w.Context(), l, all...))
	if n := contenttest.Count(w.T, w.db, "chat_line"); n >= len(all) || n < 2 {
		w.Errorf("%d lines are %d rows", len(all), n)
	}
	for after := range int64(10) {
		for limit := 1; limit <= 10; limit++ {
			lines, err := w.threads.Lines(w.Context(), demo.Account.UID, thread.ID, after, limit)
			w.must(err)
			if len(lines) != min(limit, 10-int(after)) {
				w.Fatalf("after %d, %d lines at most: %d", after, limit, len(lines))
			}
			for i, line := range lines {
				if line.Sort != after+int64(i)+1 || string(line.Body) != string(all[line.Sort-1]) {
					w.Errorf("line %d has the sort %d", after+int64(i)+1, line.Sort)
				}
			}
		}
	}
}

// testMessages reads what was said, with lines as this release stores them, and as earlier ones did.
func testMessages(w *world) {
	whole := func(l stream.Line) []byte {
		body, err := l.Encode()
		w.must(err)
		return body
	}
	thread, l := w.begin("c1", "1-message")
	said := [][]byte{
		whole(stream.User("u", `"isDelta":true?`)),
		whole(stream.Delta("a", "Ye", stream.PathFinal)), whole(stream.Delta("a", "s.", stream.PathFinal)), whole(stream.Whole("a", "Yes.", stream.PathFinal)),
	}
	w.must(w.threads.Append(w.Context(), l, append(said, said[1:]...)...))
	w.must(w.threads.End(w.Context(), l, Done, whole(stream.Whole("b", "More.", stream.PathFinal))))
	texts := func(after, last int64) (texts []string) {
		m, err := w.threads.Messages(w.Context(), demo.Account.UID, thread.ID, after, last)
		w.must(err)
		for _, message := range m.All() {
			texts = append(texts, message.ID+" "+message.Content)
		}
		return texts
	}
	check := func() {
		for _, c := range []struct {
			after, last int64
			want        string
		}{{0, 8, `[u "isDelta":true? a Yes. b More.]`}, {1, 8, "[a Yes. b More.]"}, {4, 7, "[a Yes.]"}, {0, 2, `[u "isDelta":true?]`}, {8, 9, "[]"}} {
			if got := fmt.Sprint(texts(c.after, c.last)); got != c.want {
				w.Errorf("the lines after %d through %d say %s, want %s", c.after, c.last, got, c.want)
			}
		}
	}
	check()
	if n := contenttest.Count(w.T, w.db, "chat_line WHERE deltas"); n != 2 {
		w.Errorf("%d rows of deltas, want 2: they are not read", n)
	}
	contenttest.Exec(w.T, w.db, "DELETE FROM chat_line")
	contenttest.Exec(w.T, w.db, "INSERT INTO chat_line (account_uid, deployment_uid, thread_id, sort, body) VALUES ($1, $2, $3, 8, $4)",
		demo.Account.UID, demo.Deployment.UID, thread.ID, string(bytes.Join(append(append(said, said[1:]...), whole(stream.Whole("b", "More.", stream.PathFinal))), []byte("\n"))))
	check()
}

// testAppendAll appends to four runs: one is another replica's, and the lines of another are stored already.
func testAppendAll(w *world) {
	var batches []*Batch
	for i := range 4 {
		_, l := w.begin(fmt.Sprint("c", i), "1-message")
		batches = append(batches, &Batch{Lease: l, Bodies: bodies("a", "b")})
	}
	before := *batches[1].Lease
	w.must(w.threads.Append(w.Context(), batches[1].Lease, bodies("a", "b")...))
	*batches[1].Lease = before
	contenttest.Exec(w.T, w.db, "UPDATE chat_thread SET holder = 'replica-2' WHERE id = $1", batches[2].Lease.Thread)
	batches[3].Bodies = nil
	_, err := w.threads.Abort(w.Context(), demo, 7, "c3", "user:ada")
	w.must(err)
	w.must(w.threads.AppendAll(w.Context(), batches...))
	for i, want := range []string{"1:a 2:b", "1:a 2:b", "", ""} {
		b := batches[i]
		w.logIs(b.Lease.Thread, 0, want)
		if lost := errors.Is(b.Err, ErrLost); lost != (i == 2) || lost != (b.Err != nil) || b.Lease.Abort != (i == 3) || b.Lease.LastSort != int64(len(strings.Fields(want))) {
			w.Errorf("run %d: %v, %+v", i, b.Err, b.Lease)
		}
	}
	w.must(w.threads.AppendAll(w.Context()))
}

func testAborts(w *world) {
	_, l := w.begin("c1", "1-message")
	w.begin("c2", "1-message")
	if got, err := w.threads.Aborts(w.Context(), "replica-1"); err != nil || len(got) != 0 {
		w.Errorf("%v, %v", got, err)
	}
	_, err := w.threads.Abort(w.Context(), demo, 7, "c1", "user:ada")
	w.must(err)
	for holder, want := range map[string]string{"replica-1": fmt.Sprintf("map[a1:[%d]]", l.Run), "replica-2": "map[]"} {
		if got, err := w.threads.Aborts(w.Context(), holder); err != nil || fmt.Sprint(got) != want {
			w.Errorf("%s: %v, %v", holder, got, err)
		}
	}
	w.must(w.threads.End(w.Context(), l, Aborted))
	if got, err := w.threads.Aborts(w.Context(), "replica-1"); err != nil || len(got) != 0 {
		w.Errorf("%v, %v", got, err)
	}
}

func testUnknownOutcome(w *world) {
	thread, l := w.begin("c1", "1-message")
	before := *l
	w.must(w.threads.Append(w.Context(), l, bodies("a", "b")...))
	repeated := before
	w.must(w.threads.Append(w.Context(), &repeated, bodies("a", "b")...))
	if repeated.LastSort != 2 {
		w.Errorf("the last sort is %d", repeated.LastSort)
	}
	before = *l
	w.must(w.threads.End(w.Context(), l, Aborted, bodies("c")...))
	w.must(w.threads.End(w.Context(), &before, Aborted, bodies("c")...))
	w.logIs(thread.ID, 0, "1:a 2:b 3:c")
	w.is(w.threads.End(w.Context(), &RunLease{Account: demo.Account, Thread: thread.ID, Run: l.Run, LastSort: 2}, Done, bodies("c")...), ErrLost)
}

func testAbort(w *world) {
	_, l := w.begin("c1", "1-message")
	active, err := w.threads.Abort(w.Context(), demo, 7, "c1", "user:ada")
	w.must(err)
	w.must(w.threads.Append(w.Context(), l))
	if !active || !l.Abort {
		w.Errorf("active %t, the holder learns of it: %t", active, l.Abort)
	}
	w.must(w.threads.End(w.Context(), l, Aborted))
	// A run that has ended recently is aborted without an error, and the next one is not.
	active, err = w.threads.Abort(w.Context(), demo, 7, "c1", "user:ada")
	w.must(err)
	_, l = w.begin("c1", "2-message")
	w.must(w.threads.Append(w.Context(), l))
	if active || l.Abort {
		w.Errorf("active %t, the next run is aborted: %t", active, l.Abort)
	}
}

func testTakeOver(w *world) {
	thread, l := w.begin("c1", "1-message")
	w.must(w.threads.Append(w.Context(), l, bodies("a")...))
	w.clock = w.clock.Add(Lease - time.Microsecond)
	if got, err := w.threads.TakeOver(w.Context(), 10, "replica-2"); err != nil || len(got) != 0 {
		w.Errorf("taken over %+v, %v before the lease has expired", got, err)
	}
	w.clock = w.clock.Add(time.Microsecond)
	got, err := w.threads.TakeOver(w.Context(), 10, "replica-2")
	w.must(err)
	if len(got) != 1 || got[0].ChatID != "c1" || got[0].Owner != "user:ada" || got[0].Agent != 7 || got[0].LastSort != 1 || got[0].Account != demo.Account {
		w.Fatalf("taken over %+v", got)
	}
	w.is(w.threads.Append(w.Context(), l, bodies("late")...), ErrLost)
	w.must(w.threads.End(w.Context(), got[0], Failed, bodies("error")...))
	w.is(w.threads.End(w.Context(), l, Done, bodies("late")...), ErrLost)
	w.logIs(thread.ID, 0, "1:a 2:error")
	if again, err := w.threads.TakeOver(w.Context(), 10, "replica-2"); err != nil || len(again) != 0 {
		w.Errorf("an ended run is taken over: %+v, %v", again, err)
	}
	// A replica that was only slow, and whose run no other has taken over, continues.
	_, slow := w.begin("c1", "2-message")
	w.clock = w.clock.Add(2 * Lease)
	w.must(w.threads.Append(w.Context(), slow, bodies("b")...))
}

func testTakeOverTogether(w *world) {
	for i := range 5 {
		w.begin(fmt.Sprint("c", i), "1-message")
	}
	w.clock = w.clock.Add(Lease)
	var all atomic.Int32
	var group sync.WaitGroup
	for i := range 4 {
		group.Go(func() {
			got, err := w.threads.TakeOver(w.Context(), 10, fmt.Sprint("replica-", i))
			if err != nil {
				w.Error(err)
			}
			all.Add(int32(len(got)))
		})
	}
	group.Wait()
	if all.Load() != 5 {
		w.Errorf("5 runs were taken over %d times", all.Load())
	}
}

func testDelete(w *world) {
	thread, l := w.begin("c1", "1-message")
	w.begin("c2", "1-message")
	w.must(w.threads.Append(w.Context(), l, bodies("a")...))
	w.must(w.threads.Delete(w.Context(), demo, 7, "c1", "user:ada"))
	w.is(w.threads.Append(w.Context(), l, bodies("b")...), ErrLost)
	w.is(w.threads.End(w.Context(), l, Done), ErrLost)
	w.logIs(thread.ID, 0, "")
	if got := fmt.Sprint(w.events); got != "[Deleted chat thread c1]" {
		w.Errorf("the events are %s", got)
	}
	if n := contenttest.Count(w.T, w.db, "chat_thread"); n != 1 {
		w.Errorf("%d threads are left", n)
	}
	if again, _ := w.begin("c1", "1-message"); again.ID == thread.ID || again.LastSort != 0 {
		w.Errorf("the new thread is %+v", again)
	}
}

func testExpire(w *world) {
	old, l := w.begin("old", "1-message")
	w.must(w.threads.Append(w.Context(), l, bodies("a")...))
	w.must(w.threads.End(w.Context(), l, Done, bodies("b")...))
	_, running := w.begin("running", "1-message")
	w.must(w.threads.Append(w.Context(), running, bodies("c")...))
	w.clock = w.clock.Add(time.Hour)
	young, l := w.begin("young", "1-message")
	w.must(w.threads.End(w.Context(), l, Done, bodies("d")...))
	w.must(Expire(w.Context(), w.db, w.clock.Add(-time.Minute)))
	w.logIs(old.ID, 0, "")
	w.logIs(young.ID, 0, "1:d")
	w.logIs(running.Thread, 0, "1:c")
	for table, want := range map[string]int{"chat_thread": 2, "chat_run": 2, "chat_line": 2} {
		if n := contenttest.Count(w.T, w.db, table); n != want {
			w.Errorf("%d rows of %s are left, want %d", n, table, want)
		}
	}
}

func testPurge(w *world) {
	for _, account := range []string{"a1", "a2"} {
		_, _, l, err := w.threads.Begin(w.Context(), scope(account), message("c1", "1-message"), "replica-1")
		w.must(err)
		for _, text := range []string{"a", "b", "c"} {
			w.must(w.threads.Append(w.Context(), l, bodies(text)...))
		}
	}
	for more, calls := true, 0; more; calls++ {
		w.must(w.db.Tx(w.Context(), func(tx *store.Tx) (err error) {
			more, err = purge(w.Context(), tx, store.Deleted{AccountUID: "a1", DeploymentUID: "d-a1"}, 2)
			return err
		}))
		if calls > 10 {
			w.Fatal("the purge does not end")
		}
	}
	for table, want := range map[string]int{"chat_thread": 1, "chat_run": 1, "chat_line": 3} {
		if n := contenttest.Count(w.T, w.db, table); n != want {
			w.Errorf("%d rows of %s are left, want %d", n, table, want)
		}
	}
}

// testNewDeployment continues a chat after the deployment of the agent was deleted and created again, before the purge.
func testNewDeployment(w *world) {
	again := demo
	again.Deployment.UID = "d-again"
	old, l := w.begin("c1", "1-message")
	w.must(w.threads.Append(w.Context(), l, bodies("a")...))
	_, err := w.threads.Find(w.Context(), again, 7, "c1", "user:ada")
	w.is(err, ErrUnknown)
	_, err = w.threads.Abort(w.Context(), again, 7, "c1", "user:ada")
	w.is(err, ErrUnknown)
	thread, _, next, err := w.threads.Begin(w.Context(), again, message("c1", "1-message"), "replica-1")
	w.must(err)
	if next == nil || thread.ID == old.ID || thread.LastSort != 0 {
		w.Fatalf("the thread is %+v with the lease %+v", thread, next)
	}
	w.is(w.threads.Append(w.Context(), l, bodies("b")...), ErrLost)
	w.is(w.threads.End(w.Context(), l, Done), ErrLost)
	if run, err := w.threads.Run(w.Context(), demo.Account.UID, old.ID, l.Run); err != nil || run.State != Failed || run.Last != 1 {
		w.Errorf("the run of the deleted deployment is %+v, %v", run, err)
	}
	w.must(w.threads.Append(w.Context(), next, bodies("c")...))
	for more := true; more; {
		w.must(w.db.Tx(w.Context(), func(tx *store.Tx) (err error) {
			more, err = purge(w.Context(), tx, store.Deleted{AccountUID: "a1", DeploymentUID: demo.Deployment.UID}, 2)
			return err
		}))
	}
	w.logIs(old.ID, 0, "")
	w.logIs(thread.ID, 0, "1:c")
}

func testRuns(w *world) {
	thread, l := w.begin("c1", "1-message")
	w.must(w.threads.End(w.Context(), l, Done, bodies("a", "b")...))
	_, l = w.begin("c1", "2-message")
	w.must(w.threads.End(w.Context(), l, Failed, bodies("c")...))
	w.begin("c1", "3-message")
	other, _ := w.begin("c2", "4-message")
	runs := func(of *Thread, limit int) (out string) {
		all, err := w.threads.Runs(w.Context(), demo.Account.UID, of.ID, limit)
		w.must(err)
		for _, r := range all {
			out += fmt.Sprintf("%s %s %d-%d ", r.MessageID, r.State, r.After, r.Last)
		}
		return out
	}
	if got := runs(thread, 9) + "| " + runs(thread, 1) + "| " + runs(other, 9); got != "1-message done 0-2 2-message failed 2-3 | 1-message done 0-2 | " {
		w.Error(got)
	}
}

func testLimit(w *world) {
	thread, l := w.begin("c1", "1-message")
	w.must(w.threads.End(w.Context(), l, Done, bodies("a")...))
	contenttest.Exec(w.T, w.db, "UPDATE chat_thread SET last_sort = $1 WHERE id = $2", MaxLines, thread.ID)
	_, _, _, err := w.threads.Begin(w.Context(), demo, message("c1", "2-message"), "replica-1")
	w.is(err, ErrFull)
	if _, run, _, err := w.threads.Begin(w.Context(), demo, message("c1", "1-message"), "replica-1"); err != nil || run.State != Done {
		w.Errorf("the first message again: %+v, %v", run, err)
	}
}

func testInvalid(w *world) {
	long := strings.Repeat("x", MaxID+1)
	for field, m := range map[string]Message{
		"chatId": message(long, "1-message"), "messageId": message("c1", "a\x00"), "owner": {Agent: 7, ChatID: "c1", ID: "1-message"},
	} {
		_, _, _, err := w.threads.Begin(w.Context(), demo, m, "replica-1")
		contenttest.Rejects(w.T, err, content.Invalid, field+": must have 1 to 256 bytes")
	}
	m := message("c1", "1-message")
	m.Title = "\x00" + strings.Repeat("ü", MaxTitle)
	thread, _, _, err := w.threads.Begin(w.Context(), demo, m, "replica-1")
	w.must(err)
	if want := strings.Repeat("ü", MaxTitle/2); thread.Title != want {
		w.Errorf("the title is %q", thread.Title)
	}
}
