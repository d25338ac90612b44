package usage

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/quoin-dev/quoin/internal/content"
	"github.com/quoin-dev/quoin/internal/content/contenttest"
	"github.com/quoin-dev/quoin/internal/store"
	"github.com/quoin-dev/quoin/internal/store/storetest"
)

// world is a database with the table of usage, empty at first.
type world struct {
	*testing.T
	db    *store.Store
	usage *Usage
}

func TestDatabases(t *testing.T) {
	storetest.ForEach(t, func(t *testing.T, newDatabase func(testing.TB) string) {
		for name, run := range map[string]func(w *world){
			"sums are divided by what is asked for":            testSums,
			"a run that is recorded again is counted once":     testAgain,
			"accounts and deployments have usage of their own": testTenants,
			"a report has limits":                              testLimits,
			"usage expires":                                    testExpire,
			"usage of deleted deployments is deleted":          testPurge,
			"usage of deleted users is handed over":            testDeletedUser,
			"texts that are too long are rejected":             testInvalid,
			"the tokens of a day are those of an account":      testSpent,
			"the tokens of a day are found by an index":        testPlan,
		} {
			t.Run(name, func(t *testing.T) {
				st := contenttest.Open(t, newDatabase(t), Owner)
				run(&world{t, st, &Usage{st}})
			})
		}
	})
}

var (
	monday  = time.Date(2026, 11, 23, 12, 0, 0, 0, time.UTC)
	tuesday = monday.Add(24 * time.Hour)
)

func scope(account, deployment string) content.Scope {
	return content.Scope{Account: store.Account{UID: account, Name: "name-" + account}, Deployment: store.Deployment{UID: deployment, Namespace: account, Name: "n-" + deployment}}
}

var demo = scope("a", "d")

func (w *world) record(s content.Scope, r Run) {
	w.Helper()
	if err := w.usage.Record(w.Context(), s, r); err != nil {
		w.Fatal(err)
	}
}

// report returns the sums as text.
func (w *world) report(s content.Scope, r Request) (out []string) {
	w.Helper()
	if r.From.IsZero() {
		r.From, r.To = monday, tuesday
	}
	sums, err := w.usage.Report(w.Context(), s, r)
	if err != nil {
		w.Fatal(err)
	}
	for _, sum := range sums {
		day := ""
		if !sum.Day.IsZero() {
			day = sum.Day.Format(time.DateOnly)
		}
		a := sum.Amounts
		out = append(out, fmt.Sprintf("%s|%d|%s|%s|%s|%s: %d runs, %d %s, %d/%d/%d tokens, %d requests, %d calls, %s",
			day, sum.Agent, sum.Endpoint, sum.Caller, sum.User, sum.Source, sum.Runs, a.Cost, sum.Currency, a.InputTokens, a.CachedTokens, a.OutputTokens, a.Requests, a.ToolCalls, a.Duration))
	}
	return out
}

func run(id string, at time.Time, agent int64, user string) Run {
	return Run{
		Source: Chat, ID: id, StartedAt: at, Agent: agent, Endpoint: "local", Caller: "ApiKey:k", User: user, Currency: "USD",
		Amounts: Amounts{InputTokens: 10, CachedTokens: 4, OutputTokens: 5, Requests: 2, ToolCalls: 1, Duration: 1500 * time.Millisecond, Cost: 7},
	}
}

func testSums(w *world) {
	w.record(demo, run("1/1", monday, 1, "ScimUser:ada"))
	w.record(demo, run("1/2", monday.Add(11*time.Hour+59*time.Minute), 1, "ScimUser:ada"))
	w.record(demo, run("2/1", tuesday, 2, "ScimUser:bob"))
	free := run("3", tuesday, 2, "")
	free.Currency, free.Amounts.Cost, free.Source = "", 0, MCP
	w.record(demo, free)
	for _, tc := range []struct {
		r    Request
		want []string
	}{
		{Request{}, []string{
			"|0||||: 1 runs, 0 , 10/4/5 tokens, 2 requests, 1 calls, 1.5s", "|0||||: 3 runs, 21 USD, 30/12/15 tokens, 6 requests, 3 calls, 4.5s",
		}},
		{Request{By: []Dimension{ByUser, ByDay}}, []string{
			"2026-11-23|0|||ScimUser:ada|: 2 runs, 14 USD, 20/8/10 tokens, 4 requests, 2 calls, 3s",
			"2026-11-24|0||||: 1 runs, 0 , 10/4/5 tokens, 2 requests, 1 calls, 1.5s",
			"2026-11-24|0|||ScimUser:bob|: 1 runs, 7 USD, 10/4/5 tokens, 2 requests, 1 calls, 1.5s",
		}},
		{Request{By: Dimensions, From: tuesday, To: tuesday}, []string{
			"2026-11-24|2|local|ApiKey:k||mcp: 1 runs, 0 , 10/4/5 tokens, 2 requests, 1 calls, 1.5s",
			"2026-11-24|2|local|ApiKey:k|ScimUser:bob|chat: 1 runs, 7 USD, 10/4/5 tokens, 2 requests, 1 calls, 1.5s",
		}},
		{Request{By: []Dimension{ByAgent}, Users: []string{"ScimUser:ada", "ScimUser:eve"}}, []string{
			"|1||||: 2 runs, 14 USD, 20/8/10 tokens, 4 requests, 2 calls, 3s",
		}},
		{Request{Users: []string{}}, nil},
	} {
		if diff := cmp.Diff(tc.want, w.report(demo, tc.r)); diff != "" {
			w.Errorf("%+v: %s", tc.r, diff)
		}
	}
}

// testAgain: the last sums count, whatever is repeated.
func testAgain(w *world) {
	first, last := run("1/1", monday, 1, "ScimUser:ada"), run("1/1", monday, 1, "ScimUser:ada")
	last.Amounts = Amounts{InputTokens: 30, CachedTokens: 4, OutputTokens: 9, Requests: 3, ToolCalls: 1, Duration: 2 * time.Second, Cost: 20}
	for _, r := range []Run{first, first, last, last, first} {
		w.record(demo, r)
	}
	if diff := cmp.Diff([]string{"|0||||: 1 runs, 20 USD, 30/4/9 tokens, 3 requests, 1 calls, 2s"}, w.report(demo, Request{})); diff != "" {
		w.Error(diff)
	}
}

func testTenants(w *world) {
	w.record(demo, run("1", monday, 1, "ScimUser:ada"))
	w.record(scope("a", "other"), run("1", monday, 1, "ScimUser:ada"))
	w.record(scope("b", "e"), run("1", monday, 1, "ScimUser:ada"))
	for _, s := range []content.Scope{demo, scope("a", "other"), scope("b", "e")} {
		if got := w.report(s, Request{}); len(got) != 1 || !strings.Contains(got[0], ": 1 runs") {
			w.Errorf("%+v: %v", s, got)
		}
	}
	if got := w.report(content.Scope{Account: store.Account{UID: "b"}, Deployment: demo.Deployment}, Request{}); got != nil {
		w.Error(got)
	}
}

func testLimits(w *world) {
	_, err := w.usage.Report(w.Context(), demo, Request{From: tuesday, To: monday})
	contenttest.Rejects(w, err, content.Invalid, "to: 2026-11-23 is before from, 2026-11-24")
	_, err = w.usage.Report(w.Context(), demo, Request{From: monday, To: monday.AddDate(0, 0, MaxDays)})
	contenttest.Rejects(w, err, content.Invalid, "allowed: 400")
}

func testExpire(w *world) {
	w.record(demo, run("1", monday, 1, ""))
	w.record(demo, run("2", tuesday, 1, ""))
	if err := Expire(w.Context(), w.db, monday); err != nil {
		w.Fatal(err)
	}
	if n := contenttest.Count(w, w.db, "agent_usage"); n != 1 {
		w.Errorf("%d rows", n)
	}
}

func testPurge(w *world) {
	w.record(demo, run("1", monday, 1, ""))
	w.record(scope("a", "other"), run("1", monday, 1, ""))
	err := w.db.Tx(w.Context(), func(tx *store.Tx) error {
		_, err := Owner.Purge(w.Context(), tx, store.Deleted{AccountUID: "a", DeploymentUID: "d"}, 10)
		return err
	})
	if n := contenttest.Count(w, w.db, "agent_usage"); err != nil || n != 1 {
		w.Errorf("%d rows, %v", n, err)
	}
}

func testDeletedUser(w *world) {
	w.record(demo, run("1", monday, 1, "ScimUser:ada"))
	w.record(demo, run("2", monday, 1, "ScimUser:bob"))
	own := run("3", monday, 1, "ScimUser:ada")
	own.Caller = "ScimUser:ada"
	w.record(demo, own)
	for range 2 {
		err := w.db.Tx(w.Context(), func(tx *store.Tx) error {
			_, err := OfUsers[0].Do(w.Context(), tx, "a", "ScimUser:ada", "Account:name-a", 10)
			return err
		})
		if err != nil {
			w.Fatal(err)
		}
	}
	want := []string{
		"|0||Account:name-a|Account:name-a|: 1 runs, 7 USD, 10/4/5 tokens, 2 requests, 1 calls, 1.5s",
		"|0||ApiKey:k|Account:name-a|: 1 runs, 7 USD, 10/4/5 tokens, 2 requests, 1 calls, 1.5s",
		"|0||ApiKey:k|ScimUser:bob|: 1 runs, 7 USD, 10/4/5 tokens, 2 requests, 1 calls, 1.5s",
	}
	if diff := cmp.Diff(want, w.report(demo, Request{By: []Dimension{ByCaller, ByUser}})); diff != "" {
		w.Error(diff)
	}
}

func testInvalid(w *world) {
	r := run(strings.Repeat("x", maxText+1), monday, 1, "")
	if err := w.usage.Record(w.Context(), demo, r); err == nil || !strings.Contains(err.Error(), "id has 513 bytes") {
		w.Error(err)
	}
}

func TestCost(t *testing.T) {
	tokens := Amounts{InputTokens: 1000, CachedTokens: 400, OutputTokens: 10}
	for name, tc := range map[string]struct {
		price Price
		want  int64
	}{
		"with cache":    {Price{"2.50", "0.25", "10"}, 1500 + 100 + 100},
		"without cache": {Price{"2.50", "", "10"}, 2500 + 100},
		"rounded up":    {Price{"0", "0", "0.000001"}, 1},
		"free":          {Price{"0", "", "0"}, 0},
		"not a number":  {Price{"x", "", "1"}, -1},
		"negative":      {Price{"-1", "", "1"}, -1},
		"no price":      {Price{}, -1},
		"long":          {Price{"1", "", strings.Repeat("9", 40)}, -1},
		"too large":     {Price{"1", "", strings.Repeat("9", 30)}, -1},
	} {
		got, err := tc.price.Cost(tokens)
		if (err != nil) != (tc.want < 0) || err == nil && got != tc.want {
			t.Errorf("%s: %d, %v", name, got, err)
		}
	}
}

// testSpent: the tokens of a day count for the account, the caller and the user.
func testSpent(w *world) {
	run := func(id, caller, user string, at time.Time, tokens int64) Run {
		return Run{Source: Chat, ID: id, StartedAt: at, Agent: 1, Endpoint: "e", Caller: caller, User: user, Amounts: Amounts{InputTokens: tokens, CachedTokens: 1, OutputTokens: 1, Requests: 1}}
	}
	w.record(demo, run("1", "k1", "u1", tuesday, 10))
	w.record(demo, run("2", "k1", "u2", tuesday, 20))
	w.record(scope("a", "other"), run("1", "k2", "u1", tuesday, 40))
	w.record(demo, run("3", "k1", "u1", monday, 80))
	w.record(scope("b", "d2"), run("1", "k1", "u1", tuesday, 160))
	got, err := w.usage.Spent(w.Context(), "a", tuesday.Add(time.Hour), "k1", "u1")
	if want := (Spent{Account: 73, Caller: 32, User: 52}); err != nil || got != want {
		w.Errorf("%+v %v, want %+v", got, err, want)
	}
	if got, err := w.usage.Spent(w.Context(), "none", tuesday, "k1", "u1"); err != nil || got != (Spent{}) {
		w.Errorf("%+v %v", got, err)
	}
}

// testPlan checks that the usage of other days is not read: limits are checked before each request to a model.
func testPlan(w *world) {
	if w.db.Dialect() == store.PostgreSQL {
		w.Skip("SKIPPED: the plan of PostgreSQL depends on statistics")
	}
	plan := contenttest.Plan(w, w.db, spent, "a", 0, "k", "u")
	if !strings.Contains(plan, "(account_uid=? AND deployment_uid=? AND day=?)") {
		w.Error(plan)
	}
}
