package audit

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/uuid"
	clocktesting "k8s.io/utils/clock/testing"

	"github.com/quoin-dev/quoin/internal/store"
	"github.com/quoin-dev/quoin/internal/store/postgrestest"
)

func testFilters(t *testing.T, w *world) {
	l := w.log(t, Options{})
	record(t, l,
		at(1, func(e *Event) { e.Actor.Email = "Ada@Example.com"; e.Deployment.ID = "1" }),
		at(2, func(e *Event) {
			e.Actor.Email = "ada@example.com.evil"
			e.Deployment.ID = "11"
			e.Name = CreatedDeployment
		}),
		at(3, func(e *Event) { e.Deployment.ID = "2"; e.Name = CreatedDeployment; e.Object.Name = "created user" }),
		at(4, func(e *Event) { e.Account = "other"; e.Actor.Email = "ada@example.com"; e.Deployment.ID = "1" }),
		at(5, func(e *Event) { e.Name = CreatedUserViaSCIM; e.Actor.Email = "x@example.com" }),
	)
	for name, test := range map[string]struct {
		filter Filter
		want   []int
	}{
		"all of the account":  {Filter{}, []int{1, 2, 3, 5}},
		"another account":     {Filter{Account: "other"}, []int{4}},
		"no such account":     {Filter{Account: "none"}, []int{}},
		"from":                {Filter{Start: epoch.Add(2 * time.Second)}, []int{2, 3, 5}},
		"until":               {Filter{End: epoch.Add(3 * time.Second)}, []int{1, 2}},
		"from and until":      {Filter{Start: epoch.Add(2 * time.Second), End: epoch.Add(3 * time.Second)}, []int{2}},
		"until before from":   {Filter{Start: epoch.Add(3 * time.Second), End: epoch.Add(2 * time.Second)}, []int{}},
		"name":                {Filter{EventName: CreatedUser}, []int{1}},
		"another name":        {Filter{EventName: CreatedDeployment}, []int{2, 3}},
		"e-mail in any case":  {Filter{UserEmail: "ADA@example.COM"}, []int{1}},
		"part of an e-mail":   {Filter{UserEmail: "ada"}, []int{}},
		"e-mail without word": {Filter{UserEmail: "@"}, []int{}},
		"deployment":          {Filter{DeploymentIDs: []string{"1"}}, []int{1}},
		"deployments":         {Filter{DeploymentIDs: []string{"2", "11", "7"}}, []int{2, 3}},
		"no deployment":       {Filter{DeploymentIDs: []string{}}, []int{}},
		"an empty deployment": {Filter{DeploymentIDs: []string{""}}, []int{}},
		"all at once":         {Filter{EventName: CreatedDeployment, UserEmail: "ada@example.com.EVIL", DeploymentIDs: []string{"11"}, Search: "eVi"}, []int{2}},
		"all but one":         {Filter{EventName: CreatedUser, UserEmail: "ada@example.com.evil"}, []int{}},
	} {
		if diff := cmp.Diff(test.want, numbers(find(t, l, test.filter))); diff != "" {
			t.Errorf("%s: %s", name, diff)
		}
	}
	for name, f := range map[string]Filter{
		"no account":    {Account: ""},
		"unknown name":  {Account: "demo", EventName: "Did something"},
		"long e-mail":   {Account: "demo", UserEmail: strings.Repeat("x", maxEmail+1)},
		"NUL in e-mail": {Account: "demo", UserEmail: "a\x00"},
	} {
		if _, err := l.Query(t.Context(), f); !errors.Is(err, ErrInvalid) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// testPages has several pages of events, many with the same time, and ids in random order.
func testPages(t *testing.T, w *world) {
	l := w.log(t, Options{})
	var all []Event
	for i := range 3*pageSize + 7 {
		all = append(all, at(i/400, func(e *Event) { e.ID = uuid.New(); e.Object.Name = "thing"; e.RequestID = fmt.Sprint(i) }))
	}
	record(t, l, all...)
	slices.SortFunc(all, func(a, b Event) int {
		return key{a.Time.UnixMicro(), a.ID.String()}.compare(key{b.Time.UnixMicro(), b.ID.String()})
	})
	for _, f := range []Filter{{}, {Search: "thing"}, {EventName: CreatedUser}} {
		if diff := cmp.Diff(all, find(t, l, f)); diff != "" {
			t.Errorf("%+v: %s", f, diff)
		}
	}
	var exactly []Event
	for i := range pageSize {
		exactly = append(exactly, at(i, func(e *Event) { e.ID, e.Account = uuid.New(), "exact" }))
	}
	record(t, l, exactly...)
	if got := find(t, l, Filter{Account: "exact"}); len(got) != pageSize {
		t.Errorf("exactly a page: %d events, want %d", len(got), pageSize)
	}
	events, err := l.Query(t.Context(), Filter{Account: "demo"})
	if err != nil {
		t.Fatal(err)
	}
	for range events {
		break // no statement stays open
	}
}

func testTimeBounds(t *testing.T, w *world) {
	now := epoch.Add(time.Minute)
	l := w.log(t, Options{Clock: clocktesting.NewFakePassiveClock(now)})
	old := at(0, func(e *Event) { e.ID = uuid.New(); e.Time = time.Date(1969, 1, 1, 0, 0, 0, 0, time.UTC) })
	// The clock of another replica is ahead.
	future := at(0, func(e *Event) { e.ID = uuid.New(); e.Time = now.Add(time.Hour) })
	record(t, l, at(1), future, old)
	if diff := cmp.Diff([]Event{old, at(1), future}, find(t, l, Filter{})); diff != "" {
		t.Error(diff)
	}
	if got := find(t, l, Filter{Start: epoch.Add(time.Second + time.Nanosecond), End: now}); len(got) != 0 {
		t.Errorf("a nanosecond after it: %+v", got)
	}
	if got := find(t, l, Filter{Start: epoch, End: epoch.Add(time.Second + time.Nanosecond)}); len(got) != 1 {
		t.Errorf("ends a nanosecond after it: %+v", got)
	}
}

// testExportDuringChanges changes the events that are being exported.
func testExportDuringChanges(t *testing.T, w *world) {
	clock := clocktesting.NewFakePassiveClock(epoch.Add(time.Hour))
	l := w.log(t, Options{Clock: clock})
	const n = 4 * pageSize // one page is read ahead
	var all []Event
	for i := range n {
		all = append(all, at(i))
	}
	record(t, l, all...)
	events, err := l.Query(t.Context(), Filter{Account: "demo"})
	if err != nil {
		t.Fatal(err)
	}
	clock.SetTime(epoch.Add(2 * time.Hour))
	var got []int
	for e, err := range events {
		if err != nil {
			t.Fatal(err)
		}
		got = append(got, numbers([]Event{e})...)
		// For each event read another is recorded; the export ends nevertheless.
		record(t, l, at(2*3600+len(got)))
		if len(got) == 1 {
			w.exec(t, "DELETE FROM audit_event WHERE time = $1", epoch.Add((n-1)*time.Second).UnixMicro())
		}
	}
	want := []int{}
	for i := range n - 1 {
		want = append(want, i)
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
}

func testSearch(t *testing.T, w *world) {
	l := w.log(t, Options{})
	record(t, l,
		at(1, func(e *Event) {
			e.Name, e.Deployment, e.Object = CreatedDeployment, Deployment{"17", "Größe Ärger"}, Object{"Deployment", "demo-ns", "analytics-main", "o-99"}
		}),
		at(2, func(e *Event) {
			e.Actor, e.IP, e.RequestID = Actor{ActorUser, "oidc|abc", "ada.lovelace@example.com"}, "10.20.30.40", "0123-req"
		}),
		at(3, func(e *Event) {
			e.Changes = json.RawMessage(`{"spec.size":{"before":"Shared","after":"line1\nExtraLarge"},"zahl":42}`)
		}),
		at(4, func(e *Event) { e.Account = "other"; e.Object.Name = "analytics-main" }),
		at(5, func(e *Event) { e.Object.Name = "ΣΊΣΥΦΟΣ İstanbul 日本語" }),
	)
	for search, want := range map[string][]int{
		"":                      {1, 2, 3, 5},
		"created":               {1, 2, 3, 5},
		"deploy":                {1},
		"deployment created":    {1},
		"created deployment no": {},
		"GRÖSSE":                {},
		"größ":                  {1},
		"ÄRGER größe":           {1},
		"analytics":             {1},
		"nalytics":              {},
		"main-analytics":        {1},
		"demo ns":               {1},
		"o-99":                  {1},
		"17":                    {1},
		"ada":                   {2},
		"LOVELACE@example.com":  {2},
		"oidc|abc":              {2},
		"10.20.30.40":           {2},
		"10.20.30.4":            {2},
		"10.20.30.41":           {},
		"0123 req":              {2},
		"shared":                {3},
		"extralarge":            {3},
		"nextra":                {},
		"spec.size":             {3},
		"42":                    {3},
		"σίσυφος":               {5},
		"istanbul":              {},
		"日本":                    {5},
		"succeeded":             {},
		"c":                     {1, 2, 3, 5},
	} {
		if diff := cmp.Diff(want, numbers(find(t, l, Filter{Search: search}))); diff != "" {
			t.Errorf("search %q: %s", search, diff)
		}
	}
}

// testSearchSyntax has searches with operators of the query languages of the databases.
func testSearchSyntax(t *testing.T, w *world) {
	l := w.log(t, Options{})
	record(t, l, at(1, func(e *Event) { e.Object.Name = "near and or not words rowid alpha beta" }), at(2))
	for search, want := range map[string][]int{
		`"alpha`: {1}, `"alpha beta"`: {1}, `alpha"*`: {1}, `'alpha'`: {1}, `'; DROP TABLE audit_event; --`: {}, `alpha*`: {1}, `*alpha`: {1}, `al*`: {1},
		`-alpha`: {1}, `alpha -beta`: {1}, `alpha NOT beta`: {1}, `NOT alpha`: {1}, `alpha AND beta`: {1}, `alpha OR missing`: {}, `NEAR(alpha beta, 5)`: {},
		`NEAR(alpha beta)`: {1}, `words:alpha`: {1}, `rowid:alpha`: {1}, `alpha & beta`: {1}, `alpha | beta`: {1}, `!alpha`: {1}, `alpha <-> beta`: {1}, `alpha:*`: {1},
		`alpha:A`: {1}, `(alpha`: {1}, `alpha)`: {1}, `\alpha`: {1}, `al\pha`: {}, "alpha\x00beta": {1}, "\x00alpha": {1}, "alpha\xff": {1}, "alpha \U0001F600": {1}, "^alpha": {1},
		`{alpha}`: {1}, `alpha + beta`: {1}, `$1 alpha`: {}, `? alpha`: {1}, `%alpha%`: {1}, `alph_`: {1}, "\u202Ealpha": {1}, "alpha\u00a0beta": {1}, "ＡＬＰＨＡ": {},
	} {
		if diff := cmp.Diff(want, numbers(find(t, l, Filter{Search: search}))); diff != "" {
			t.Errorf("search %q: %s", search, diff)
		}
	}
	for _, search := range []string{`"`, `*`, `-`, `:`, "\U0001F600", "\x00", strings.Repeat("x", 10<<10), "a b c d e f g h i j k l m n o p q r s t u v w x y z"} {
		if _, err := l.Query(t.Context(), Filter{Account: "demo", Search: search}); !errors.Is(err, ErrInvalid) {
			t.Errorf("search %.20q: %v", search, err)
		}
	}
	if n := w.count(t); n != 2 {
		t.Errorf("%d events are left", n)
	}
}

// testIndexAgainstReading compares searches with and without the index, for random events and
// searches of a few syllables.
func testIndexAgainstReading(t *testing.T, w *world) {
	l := w.log(t, Options{})
	random := rand.New(rand.NewPCG(3, 4))
	syllables := []string{"an", "ana", "lyt", "ics", "Ö", "ß", "17", "deploy", "ment", " ", "-", "日", "x", "\n", strings.Repeat("long", 20)}
	text := func(most int) string {
		var text strings.Builder
		for range random.IntN(most) {
			text.WriteString(syllables[random.IntN(len(syllables))])
		}
		return text.String()
	}
	for i := range 300 {
		record(t, l, at(i, func(e *Event) {
			e.Account = []string{"demo", "other"}[i%2]
			e.Object.Name, e.Deployment.Name, e.Actor.Email = text(8), text(5), text(3)
			e.Changes, _ = json.Marshal(map[string]string{text(3): text(6)})
		}))
	}
	byIndex, found := 0, 0
	for range 300 {
		f := Filter{Account: []string{"demo", "other"}[random.IntN(2)], Search: text(4)}
		if random.IntN(4) == 0 {
			f.UserEmail = text(3)
		}
		q, err := l.newQuery(f)
		if errors.Is(err, ErrInvalid) {
			continue
		}
		if err := q.propose(t.Context()); err != nil {
			t.Fatalf("%+v: %v", f, err)
		}
		if q.byIndex {
			byIndex++
		}
		read, err := l.newQuery(f)
		if err != nil {
			t.Fatal(err)
		}
		got, want := q.all(t), read.all(t)
		found += len(got)
		if diff := cmp.Diff(want, got); diff != "" {
			t.Fatalf("%+v: %s", f, diff)
		}
	}
	if byIndex < 100 || found < 100 {
		t.Errorf("only %d searches used the index, only %d events were found", byIndex, found)
	}
}

// all reads the rest of a query.
func (q *query) all(t *testing.T) (found []int) {
	t.Helper()
	for !q.finished {
		page, err := q.next(context.Background())
		if err != nil {
			t.Fatal(err)
		}
		for i := range page {
			if q.matches(&page[i]) {
				found = append(found, numbers(page[i:i+1])...)
			}
		}
	}
	return found
}

// testManyMatches has more matches than the index may propose. They are inserted directly, to save
// time.
func testManyMatches(t *testing.T, w *world) {
	l := w.log(t, Options{})
	e := at(0, func(e *Event) { e.Object.Name = "everywhere" })
	words := e.indexed()
	const n = maxProposed + 10
	numbered := "generate_series(1, $3) AS s (value)"
	value := "CAST(LPAD(TO_HEX(s.value), 32, '0') AS UUID)"
	if w.store.Dialect() == store.SQLite {
		numbered = "(WITH RECURSIVE s (value) AS (SELECT 1 UNION ALL SELECT value + 1 FROM s WHERE value < $3) SELECT value FROM s) AS s"
		value = "'00000000-0000-7000-8000-' || printf('%012x', s.value)"
	}
	var blanks []string
	for _, c := range columns[7 : len(columns)-1] {
		blank := "''"
		if c == "object_name" {
			blank = "'everywhere'"
		}
		blanks = append(blanks, blank)
	}
	w.exec(t, "INSERT INTO audit_event ("+strings.Join(columns, ", ")+") SELECT "+value+", 'demo', s.value + CAST($1 AS BIGINT), '"+CreatedUser+"', 'succeeded', '', 'rest', "+
		strings.Join(blanks, ", ")+", "+map[store.Dialect]string{store.SQLite: "$2", store.PostgreSQL: "CAST($2 AS tsvector)"}[w.store.Dialect()]+" FROM "+numbered,
		epoch.UnixMicro(), words, n)
	record(t, l, at(1, func(e *Event) { e.ID, e.Object.Name = uuid.New(), "only here and everywhere" }))
	for search, want := range map[string]int{"everywhere": n + 1, "only": 1, "everywhere only": 1, "nowhere": 0} {
		rows, last := 0, key{}
		events, err := l.Query(t.Context(), Filter{Account: "demo", Search: search})
		if err != nil {
			t.Fatal(err)
		}
		for e, err := range events {
			this := key{e.Time.UnixMicro(), e.ID.String()}
			if err != nil || this.compare(last) <= 0 {
				t.Fatalf("search %q: %v after %v, %v", search, this, last, err)
			}
			rows, last = rows+1, this
		}
		if rows != want {
			t.Errorf("search %q: %d events, want %d", search, rows, want)
		}
	}
}

// TestPostgreSQLReadsByIndex checks plans. With a wrong one an export reads all events for each page.
// The plans of pages do not depend on statistics; those of searches may.
func TestPostgreSQLReadsByIndex(t *testing.T) {
	w := openWorld(t, postgrestest.Start(t))
	w.exec(t, "ALTER TABLE audit_event SET (autovacuum_enabled = false)")
	l := w.log(t, Options{})
	var all []Event
	for i := range 20_000 {
		all = append(all, at(i, func(e *Event) { e.RequestID = fmt.Sprintf("%x", i*7919) }))
	}
	record(t, l, all...)
	q, err := l.newQuery(Filter{Account: "demo", Search: "created " + all[500].RequestID, End: epoch.Add(time.Hour * 1000)})
	if err != nil {
		t.Fatal(err)
	}
	proposal, args := q.proposal(q.indexWords())
	for _, statistics := range []bool{false, true} {
		if statistics {
			if _, err := w.store.Reader().ExecContext(t.Context(), "VACUUM ANALYZE audit_event"); err != nil { // outside a transaction
				t.Fatal(err)
			}
		}
		for range 10 { // by default the server keeps a plan after five
			if plan := l.explain(t, inOrder, "demo", epoch.UnixMicro(), uuid.Nil.String(), q.end, pageSize); !strings.Contains(plan, "audit_event_order") || strings.Contains(plan, "Sort") {
				t.Fatalf("statistics %v: in order: %s", statistics, plan)
			}
			if plan := l.explain(t, proposal, args...); statistics && !strings.Contains(plan, "audit_event_words") {
				t.Fatalf("statistics %v: by words: %s", statistics, plan)
			}
		}
	}
}

func (l *Log) explain(t *testing.T, statement string, args ...any) (plan string) {
	t.Helper()
	rows, err := l.reader.QueryContext(t.Context(), "EXPLAIN "+statement, args...)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = rows.Close() }()
	for rows.Next() {
		var line string
		if err := rows.Scan(&line); err != nil {
			t.Fatal(err)
		}
		plan += "\n" + line
	}
	return plan
}

func testCancelledQuery(t *testing.T, w *world) {
	l := w.log(t, Options{})
	var all []Event
	for i := range 4 * pageSize {
		all = append(all, at(i))
	}
	record(t, l, all...)
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	events, err := l.Query(ctx, Filter{Account: "demo"})
	if err != nil {
		t.Fatal(err)
	}
	var last error
	n := 0
	for _, err := range events {
		cancel()
		if last = err; err == nil {
			n++
		}
	}
	if n < pageSize || n > 2*pageSize || !errors.Is(last, context.Canceled) {
		t.Errorf("%d events, then %v", n, last)
	}
	if _, err := l.Query(ctx, Filter{Account: "demo"}); !errors.Is(err, context.Canceled) {
		t.Error(err)
	}
}

func testExport(t *testing.T, w *world) {
	l := w.log(t, Options{})
	record(t, l, at(1, func(e *Event) {
		e.Name, e.Actor, e.Object = UpdatedDeploymentConfiguration, Actor{ActorKey, "k1", "=cmd@example.com"}, Object{"Deployment", "demo", "analytics", ""}
		e.Changes = json.RawMessage(`{"spec.env":{"after":[{"name":"DB_PASS","value":"hunter2"}]}}`)
	}))
	events, err := l.Query(t.Context(), Filter{Account: "demo"})
	if err != nil {
		t.Fatal(err)
	}
	var text strings.Builder
	if _, err := WriteCSV(&text, events); err != nil {
		t.Fatal(err)
	}
	want := strings.Join(CSVColumns, ",") + "\r\n" +
		`2026-11-21T12:00:01.000000Z,Updated deployment configuration,'=cmd@example.com,key:k1,,,Deployment/demo/analytics,succeeded,rest,,,` +
		`"{""changes"":{""spec.env"":{""after"":[{""name"":""DB_PASS"",""value"":""[HIDDEN]""}]}}}"` + "\r\n"
	if diff := cmp.Diff(want, text.String()); diff != "" {
		t.Error(diff)
	}
}
