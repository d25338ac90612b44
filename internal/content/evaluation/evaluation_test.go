package evaluation

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/quoin-dev/quoin/internal/agent/grading"
	"github.com/quoin-dev/quoin/internal/audit"
	"github.com/quoin-dev/quoin/internal/content"
	"github.com/quoin-dev/quoin/internal/content/contenttest"
	"github.com/quoin-dev/quoin/internal/store"
	"github.com/quoin-dev/quoin/internal/store/storetest"
)

// world is a database with the tables of evaluations, empty at first.
type world struct {
	*testing.T
	db          *store.Store
	evaluations *Evaluations
	clock       time.Time

	mu     sync.Mutex
	events []string
	// refused is the error of the audit log.
	refused error
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
			"an evaluation from start to end":                        testRun,
			"a failure has its reason":                               testFailure,
			"accounts and deployments have evaluations of their own": testTenants,
			"lists have pages":                                       testPages,
			"a call with an unknown outcome is repeated":             testUnknownOutcome,
			"results come at the same time":                          testConcurrent,
			"a cancellation reaches the holder":                      testCancel,
			"an evaluation whose replica was killed is taken over":   testTakeOver,
			"without an event nothing is stored":                     testUnrecorded,
			"evaluations expire":                                     testExpire,
			"what is of deleted deployments is deleted":              testPurge,
			"the evaluations of deleted users are deleted":           testDeletedUser,
			"what cannot be stored is rejected":                      testInvalid,
		} {
			t.Run(name, func(t *testing.T) { run(open(t, newDatabase(t))) })
		}
	})
}

func open(t *testing.T, url string) *world {
	t.Helper()
	db := contenttest.Open(t, url, Owner)
	w := &world{T: t, db: db, clock: time.Date(2026, 11, 23, 12, 0, 0, 0, time.UTC)}
	w.evaluations = &Evaluations{DB: db, Now: func() time.Time { return w.clock }, Record: func(_ context.Context, _ *store.Tx, e audit.Event) error {
		w.mu.Lock()
		defer w.mu.Unlock()
		w.events = append(w.events, e.Name+" "+e.Account+" "+e.Object.ID+" "+string(e.Changes))
		return w.refused
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
		w.Errorf("got %v, want %v", err, want)
	}
}

func questions(total int) New {
	return New{Kind: Questions, Agent: 7, Owner: "ScimUser:ada", Caller: "ApiKey:k1", Request: json.RawMessage(`{"branchName":"main"}`), Total: total}
}

func (w *world) start(s content.Scope, total int) *RunLease {
	w.Helper()
	_, lease, err := w.evaluations.Start(w.Context(), s, questions(total), "replica-1")
	w.must(err)
	return lease
}

func result(n int, verdict grading.Verdict) Result {
	return Result{Number: n, Verdict: verdict, Body: json.RawMessage(fmt.Sprintf(`{"n":%d}`, n))}
}

// find returns the state, the failure and the counts of an evaluation.
func (w *world) find(l *RunLease) string {
	w.Helper()
	e, err := w.evaluations.Find(w.Context(), l.Scope, l.ID)
	w.must(err)
	return strings.TrimSpace(fmt.Sprintf("%s %v %s", e.State, e.Counts, e.Failure))
}

// results returns the numbers and the verdicts of results after a number.
func (w *world) results(l *RunLease, after, limit int) string {
	w.Helper()
	page, err := w.evaluations.Results(w.Context(), l.Scope, l.ID, after, limit)
	w.must(err)
	var out []string
	for _, r := range page.Items {
		if string(r.Body) != fmt.Sprintf(`{"n":%d}`, r.Number) {
			w.Errorf("result %d is %s", r.Number, r.Body)
		}
		out = append(out, fmt.Sprintf("%d:%s", r.Number, r.Verdict))
	}
	if page.HasNext {
		out = append(out, "…")
	}
	return strings.Join(out, " ")
}

func (w *world) equal(got, want string) {
	w.Helper()
	if got != want {
		w.Errorf("got  %s\nwant %s", got, want)
	}
}

func testRun(w *world) {
	e, l, err := w.evaluations.Start(w.Context(), demo, questions(3), "replica-1")
	w.must(err)
	if e.ID != 1 || e.State != Running || e.StartedAt != w.clock || e.Counts.Done() != 0 {
		w.Errorf("it starts as %+v", e)
	}
	w.must(w.evaluations.Add(w.Context(), l, result(2, grading.Fail)))
	w.must(w.evaluations.Add(w.Context(), l, result(1, grading.Pass)))
	w.equal(w.find(l), "running {1 1 0 0}")
	w.must(w.evaluations.Add(w.Context(), l, result(3, grading.Errored)))
	w.clock = w.clock.Add(time.Second)
	w.must(w.evaluations.End(w.Context(), l, ""))
	w.equal(w.find(l), "completed {1 1 0 1}")
	w.equal(w.results(l, 0, 10), "1:pass 2:fail 3:error")
	found, err := w.evaluations.Find(w.Context(), demo, e.ID)
	if w.must(err); found.EndedAt != w.clock || string(found.Request) != `{"branchName":"main"}` || found.Owner != "ScimUser:ada" || found.Caller != "ApiKey:k1" || found.Agent != 7 || found.Total != 3 {
		w.Errorf("%+v", found)
	}
	w.equal(strings.Join(w.events, "\n"), `Started agent evaluation name-a1 1 {"agentId":{"after":7},"branchName":{"after":"main"},"items":{"after":3},"kind":{"after":"questions"},"owner":{"after":"ScimUser:ada"}}
Ended agent evaluation name-a1 1 {"agentId":{"after":7},"kind":{"after":"questions"},"status":{"after":"completed"},"verdicts":{"after":"1 pass, 1 fail, 0 review, 1 error"}}`)
}

func testFailure(w *world) {
	l := w.start(demo, 2)
	w.must(w.evaluations.Add(w.Context(), l, result(1, grading.Review)))
	w.must(w.evaluations.End(w.Context(), l, strings.Repeat("ü", maxText)))
	if got := w.find(l); !strings.HasPrefix(got, "failed {0 0 1 0} üü") || len(got) > maxText+20 {
		w.Errorf("%d bytes: %.50s", len(got), got)
	}
	w.is(w.evaluations.Add(w.Context(), l, result(2, grading.Pass)), ErrLost)
	w.is(w.evaluations.End(w.Context(), l, ""), ErrLost)
	w.is(w.evaluations.Cancel(w.Context(), demo, l.ID, "ApiKey:k1"), ErrEnded)
	w.equal(w.results(l, 0, 10), "1:review")
	if n := len(w.events); n != 2 || !strings.Contains(w.events[1], `"reason":{"after":"ü`) {
		w.Errorf("%d events: %.300v", n, w.events)
	}
}

func testTenants(w *world) {
	other := scope("a2")
	mine, theirs := w.start(demo, 1), w.start(other, 1)
	sibling := demo
	sibling.Deployment.UID, sibling.Deployment.Name = "d-other", "other"
	beside := w.start(sibling, 1)
	if mine.ID != 1 || theirs.ID != 1 || beside.ID != 2 {
		w.Errorf("the numbers are %d, %d and %d", mine.ID, theirs.ID, beside.ID)
	}
	w.must(w.evaluations.Add(w.Context(), theirs, result(1, grading.Pass)))
	for _, s := range []content.Scope{sibling, {Account: other.Account, Deployment: demo.Deployment}} {
		_, err := w.evaluations.Find(w.Context(), s, mine.ID)
		w.is(err, ErrUnknown)
		w.is(w.evaluations.Cancel(w.Context(), s, mine.ID, "x"), ErrUnknown)
		page, err := w.evaluations.Results(w.Context(), s, theirs.ID, 0, 10)
		if w.must(err); len(page.Items) != 0 {
			w.Errorf("%v", page.Items)
		}
	}
	w.equal(w.find(mine), "running {0 0 0 0}")
	w.equal(w.find(theirs), "running {1 0 0 0}")
}

func testPages(w *world) {
	for range 3 {
		w.start(demo, 1)
	}
	l := w.start(demo, 4)
	for n := 4; n > 0; n-- {
		w.must(w.evaluations.Add(w.Context(), l, result(n, grading.Pass)))
	}
	w.equal(w.results(l, 0, 2), "1:pass 2:pass …")
	w.equal(w.results(l, 2, 2), "3:pass 4:pass")
	for after, want := range map[int64]string{0: "4 3 …", 3: "2 1", 1: ""} {
		page, err := w.evaluations.List(w.Context(), demo, after, 2)
		w.must(err)
		var out []string
		for _, e := range page.Items {
			out = append(out, fmt.Sprint(e.ID))
		}
		if page.HasNext {
			out = append(out, "…")
		}
		w.equal(strings.Join(out, " "), want)
	}
}

// unknown is a database whose answers to commits are lost.
type unknown struct {
	content.Database
	lost int
}

func (u *unknown) Tx(ctx context.Context, work func(tx *store.Tx) error) error {
	err := u.Database.Tx(ctx, work)
	if u.lost--; err == nil && u.lost >= 0 {
		return fmt.Errorf("%w: %w", store.ErrUnavailable, store.ErrUnknownOutcome)
	}
	return err
}

func testUnknownOutcome(w *world) {
	l := w.start(demo, 1)
	db := &unknown{w.db, 1}
	w.evaluations.DB = db
	w.is(w.evaluations.Add(w.Context(), l, result(1, grading.Pass)), store.ErrUnknownOutcome)
	w.must(w.evaluations.Add(w.Context(), l, result(1, grading.Pass)))
	db.lost = 1
	w.is(w.evaluations.End(w.Context(), l, ""), store.ErrUnknownOutcome)
	w.must(w.evaluations.End(w.Context(), l, ""))
	w.is(w.evaluations.End(w.Context(), l, "another reason"), ErrLost)
	w.equal(w.find(l), "completed {1 0 0 0}")
	if len(w.events) != 2 {
		w.Errorf("%d events: %v", len(w.events), w.events)
	}
}

func testConcurrent(w *world) {
	l := w.start(demo, 40)
	var group sync.WaitGroup
	for n := range 40 {
		group.Go(func() {
			if err := w.evaluations.Add(w.Context(), l, result(n/2+1, grading.Pass)); err != nil {
				w.Error(err)
			}
		})
	}
	group.Wait()
	w.equal(w.find(l), "running {20 0 0 0}")
}

func testCancel(w *world) {
	l := w.start(demo, 1)
	by, err := w.evaluations.Renew(w.Context(), l)
	w.must(err)
	w.equal(by, "")
	w.must(w.evaluations.Cancel(w.Context(), demo, l.ID, "User:ben"))
	w.must(w.evaluations.Cancel(w.Context(), demo, l.ID, "User:carl"))
	by, err = w.evaluations.Renew(w.Context(), l)
	w.must(err)
	w.equal(by, "User:ben")
	w.is(w.evaluations.Cancel(w.Context(), demo, 99, "User:ben"), ErrUnknown)
}

func testTakeOver(w *world) {
	l := w.start(demo, 2)
	w.must(w.evaluations.Add(w.Context(), l, result(1, grading.Pass)))
	w.clock = w.clock.Add(Lease - time.Microsecond)
	if taken, err := w.evaluations.TakeOver(w.Context(), 10, "replica-2"); err != nil || len(taken) != 0 {
		w.Fatalf("a valid lease is taken over: %v, %v", taken, err)
	}
	_, err := w.evaluations.Renew(w.Context(), l)
	w.must(err)
	w.clock = w.clock.Add(Lease)
	var mu sync.Mutex
	var taken []*RunLease
	var group sync.WaitGroup
	for i := range 4 {
		group.Go(func() {
			all, err := w.evaluations.TakeOver(w.Context(), 10, fmt.Sprint("replica-", i+2))
			if err != nil {
				w.Error(err)
			}
			mu.Lock()
			defer mu.Unlock()
			taken = append(taken, all...)
		})
	}
	group.Wait()
	if len(taken) != 1 || taken[0].ID != l.ID || taken[0].Scope != demo || taken[0].Kind != Questions || taken[0].Agent != 7 {
		w.Fatalf("taken over: %+v", taken)
	}
	w.is(w.evaluations.Add(w.Context(), l, result(2, grading.Pass)), ErrLost)
	_, err = w.evaluations.Renew(w.Context(), l)
	w.is(err, ErrLost)
	w.is(w.evaluations.End(w.Context(), l, ""), ErrLost)
	w.must(w.evaluations.End(w.Context(), taken[0], "the server has ended"))
	w.equal(w.find(l), "failed {1 0 0 0} the server has ended")
	if all, err := w.evaluations.TakeOver(w.Context(), 10, "replica-9"); err != nil || len(all) != 0 {
		w.Errorf("one that has ended is taken over: %v, %v", all, err)
	}
}

func testUnrecorded(w *world) {
	w.refused = errors.New("no audit log")
	_, _, err := w.evaluations.Start(w.Context(), demo, questions(1), "replica-1")
	w.is(err, w.refused)
	if n := contenttest.Count(w, w.db, "evaluation"); n != 0 {
		w.Errorf("%d rows are stored without an event", n)
	}
	w.refused = nil
	l := w.start(demo, 1)
	w.refused = errors.New("no audit log")
	w.is(w.evaluations.End(w.Context(), l, ""), w.refused)
	w.equal(w.find(l), "running {0 0 0 0}")
}

func testExpire(w *world) {
	for range 2 {
		l := w.start(demo, 1)
		w.must(w.evaluations.Add(w.Context(), l, result(1, grading.Pass)))
		w.must(w.evaluations.End(w.Context(), l, ""))
		w.clock = w.clock.Add(time.Hour)
	}
	w.start(demo, 1)
	w.must(Expire(w.Context(), w.db, w.clock.Add(-time.Hour-time.Minute)))
	w.tables(2, 1)
	w.must(Expire(w.Context(), w.db, w.clock))
	w.tables(1, 0)
}

// tables checks the numbers of rows.
func (w *world) tables(evaluations, results int) {
	w.Helper()
	if e, r := contenttest.Count(w, w.db, "evaluation"), contenttest.Count(w, w.db, "evaluation_result"); e != evaluations || r != results {
		w.Errorf("there are %d evaluations and %d results, want %d and %d", e, r, evaluations, results)
	}
}

func testPurge(w *world) {
	for _, s := range []content.Scope{demo, scope("a2")} {
		l := w.start(s, 3)
		for n := range 3 {
			w.must(w.evaluations.Add(w.Context(), l, result(n+1, grading.Pass)))
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
	w.tables(1, 3)
}

func testDeletedUser(w *world) {
	l := w.start(demo, 3)
	for n := range 3 {
		w.must(w.evaluations.Add(w.Context(), l, result(n+1, grading.Pass)))
	}
	other := questions(1)
	other.Owner = "ScimUser:ben"
	_, kept, err := w.evaluations.Start(w.Context(), demo, other, "replica-1")
	w.must(err)
	counts := map[string]int{}
	for more := true; more; {
		more = false
		w.must(w.db.Tx(w.Context(), func(tx *store.Tx) error {
			left := 2 // as subject.Users does
			for _, part := range OfUsers {
				if more = left == 0; more {
					return nil
				}
				n, err := part.Do(w.Context(), tx, demo.Account.UID, "ScimUser:ada", "Account:demo", left)
				if err != nil {
					return err
				}
				counts[part.Name] += n
				left -= n
			}
			more = left == 0
			return nil
		}))
	}
	w.equal(fmt.Sprint(counts), "map[evaluationResults:3 evaluations:1 evaluationsInProgress:1]")
	w.is(w.evaluations.Add(w.Context(), l, result(1, grading.Pass)), ErrLost)
	w.must(w.evaluations.Add(w.Context(), kept, result(1, grading.Pass)))
	w.tables(1, 1)
}

func testInvalid(w *world) {
	for says, change := range map[string]func(*New){
		"there are 0 questions or messages; allowed: 1 to 200":   func(n *New) { n.Total = 0 },
		"there are 201 questions or messages; allowed: 1 to 200": func(n *New) { n.Total = 201 },
		"owner: must have 1 to 4096 bytes":                       func(n *New) { n.Owner = "" },
		"caller: must have 1 to 4096 bytes":                      func(n *New) { n.Caller = "a\x00" },
		"request: must have 1 to 4096 bytes":                     func(n *New) { n.Request = make([]byte, maxText+1) },
	} {
		n := questions(1)
		change(&n)
		_, _, err := w.evaluations.Start(w.Context(), demo, n, "replica-1")
		var rejected *content.Error
		if !errors.As(err, &rejected) || !strings.HasPrefix(rejected.Message, says) {
			w.Errorf("got %v, want %s", err, says)
		}
	}
	l := w.start(demo, 1)
	large := result(1, grading.Pass)
	large.Body = make([]byte, MaxBody+1)
	for says, r := range map[string]Result{"has 131073 bytes; allowed: 131072": large, `has the verdict "maybe"`: result(1, "maybe")} {
		if err := w.evaluations.Add(w.Context(), l, r); err == nil || !strings.Contains(err.Error(), says) {
			w.Errorf("got %v, want %s", err, says)
		}
	}
	w.tables(1, 0)
}
