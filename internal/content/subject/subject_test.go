package subject_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"testing"

	"k8s.io/utils/clock"
	"k8s.io/utils/ptr"

	"github.com/quoin-dev/quoin/internal/audit"
	"github.com/quoin-dev/quoin/internal/content"
	"github.com/quoin-dev/quoin/internal/content/access"
	"github.com/quoin-dev/quoin/internal/content/contenttest"
	"github.com/quoin-dev/quoin/internal/content/folder"
	. "github.com/quoin-dev/quoin/internal/content/subject"
	"github.com/quoin-dev/quoin/internal/content/workspace"
	"github.com/quoin-dev/quoin/internal/store"
	"github.com/quoin-dev/quoin/internal/store/storetest"
)

// childURL makes the test binary a process that hands over the content of ada, and stops at a point.
const childURL = "QUOIN_SUBJECT_CHILD_URL"

func TestMain(m *testing.M) {
	storetest.Main(m, map[string]func(argument string) error{childURL: releaseSlowly})
}

var (
	demo   = store.Account{UID: "a1", Name: "demo"}
	ada    = User{Name: "ada", UID: "u1"}
	again  = User{Name: "ada", UID: "u2"}
	owners = []store.Owner{audit.Owner, folder.Owner, access.Owner, workspace.Owner, Owner}
)

func scope(deployment string) content.Scope {
	return content.Scope{Account: demo, Deployment: store.Deployment{UID: deployment, Namespace: "demo", Name: deployment}}
}

// world is a database with workspace content, empty at first.
type world struct {
	*testing.T
	store   *store.Store
	users   *Users
	content *workspace.Workspace
}

func open(t *testing.T, url string) *world {
	t.Helper()
	s := contenttest.Open(t, url, owners...)
	return &world{t, s, &Users{DB: s, Parts: workspace.OfUsers}, &workspace.Workspace{DB: s, Record: unrecorded}}
}

func unrecorded(context.Context, *store.Tx, audit.Event) error { return nil }

func record(ctx context.Context, tx *store.Tx, e audit.Event) error {
	e.Account, e.Source, e.Actor = demo.Name, audit.SourceController, audit.Actor{Kind: audit.ActorSystem, ID: "quoin-apiserver"}
	return audit.RecordTx(ctx, tx, e)
}

func (w *world) must(err error) {
	w.Helper()
	if err != nil {
		w.Fatal(err)
	}
}

// workbooks creates workbooks of a user, half of them in each of two deployments, with a report and a version in the first one.
func (w *world) workbooks(owner string, n int) {
	w.Helper()
	by := workspace.Caller{Principal: "ApiKey:k", Owner: owner, Access: access.Everything}
	for i := range n {
		s := scope(fmt.Sprint("d", i%2))
		wb, err := w.content.Create(w.Context(), s, by, workspace.Change{Name: ptr.To(fmt.Sprint(owner, " ", i))})
		w.must(err)
		if i > 0 {
			continue
		}
		placement := &workspace.PlacementChange{ExternalWorkbook: "x", ResultLocation: "S!A1"}
		_, err = w.content.CreateReport(w.Context(), s, by, workspace.ReportChange{WorkbookID: &wb.ID, Placement: placement})
		w.must(err)
		_, err = w.content.Publish(w.Context(), s, by, wb.ID, workspace.Publication{Config: workspace.Object{"widgets": []any{}}})
		w.must(err)
	}
}

// owned returns the number of rows that name each owner.
func (w *world) owned() map[string]int {
	w.Helper()
	counts := map[string]int{}
	for _, column := range []string{"owner FROM workbook", "owner FROM report", "refreshed_by FROM report", "owner FROM dashboard_version", "placed_by FROM report_placement"} {
		rows, err := w.store.Reader().QueryContext(w.Context(), "SELECT "+column)
		w.must(err)
		for rows.Next() {
			var owner string
			w.must(rows.Scan(&owner))
			counts[owner]++
		}
		w.must(errors.Join(rows.Err(), rows.Close()))
	}
	return counts
}

func (w *world) wantOwned(want map[string]int) {
	w.Helper()
	if got := w.owned(); fmt.Sprint(got) != fmt.Sprint(want) {
		w.Errorf("the owners are %v, want %v", got, want)
	}
}

// events returns the changes of the recorded events.
func (w *world) events() (out []string) {
	w.Helper()
	l := audit.NewLog(w.store, audit.Options{})
	defer l.Close()
	events, err := l.Query(w.Context(), audit.Filter{Account: demo.Name})
	w.must(err)
	for e, err := range events {
		w.must(err)
		changes := map[string]struct{ Before, After any }{}
		w.must(json.Unmarshal(e.Changes, &changes))
		out = append(out, fmt.Sprintf("%s %s %v: %v", e.Name, e.Object.Name, changes["owner"], changes["workbooks"].After))
	}
	return out
}

func (w *world) wantEvents(want ...string) {
	w.Helper()
	if got := w.events(); fmt.Sprint(got) != fmt.Sprint(want) {
		w.Errorf("the events are %q, want %q", got, want)
	}
}

const event = "Transferred content of deleted user ada {ScimUser:ada Account:demo}: "

func TestDatabases(t *testing.T) {
	storetest.ForEach(t, func(t *testing.T, newDatabase func(testing.TB) string) {
		for name, run := range map[string]func(w *world){
			"content is handed over":                   testRelease,
			"a name is used again":                     testReuse,
			"a user who is gone changes nothing":       testGone,
			"an unknown UID becomes that of the user":  testUnknownUID,
			"replicas hand over at the same time":      testReplicas,
			"users are listed in pages":                testList,
			"a purge deletes the users of an account":  testPurge,
			"the event and the change are one":         testRecorded,
			"users without content have no event":      testNothing,
			"a new user's content is not handed over":  testNewUser,
			"the content is found by an index, always": testPlan,
		} {
			t.Run(name, func(t *testing.T) { run(open(t, newDatabase(t))) })
		}
	})
}

func testRelease(w *world) {
	w.must(w.users.Use(w.Context(), demo, ada))
	w.must(w.users.Use(w.Context(), demo, ada))
	w.workbooks("ScimUser:ada", 1203)
	w.workbooks("ScimUser:ada2", 3)
	w.wantOwned(map[string]int{"ScimUser:ada": 1207, "ScimUser:ada2": 7})
	for range 2 {
		w.must(w.users.Release(w.Context(), demo, ada, record))
		w.wantOwned(map[string]int{"Account:demo": 1207, "ScimUser:ada2": 7})
		w.wantEvents(event + "1203")
	}
	if n := contenttest.Count(w, w.store, "content_user"); n != 0 {
		w.Errorf("%d users are left", n)
	}
}

func testReuse(w *world) {
	w.must(w.users.Use(w.Context(), demo, ada))
	w.workbooks("ScimUser:ada", 1)
	if err := w.users.Use(w.Context(), demo, again); !errors.Is(err, ErrOther) {
		w.Errorf("another user of the name: %v", err)
	}
	w.must(w.users.Release(w.Context(), demo, ada, record))
	w.must(w.users.Use(w.Context(), demo, again))
	if err := w.users.Use(w.Context(), demo, ada); !errors.Is(err, ErrOther) {
		w.Errorf("the deleted user: %v", err)
	}
	// The name in another account is another user.
	w.must(w.users.Use(w.Context(), store.Account{UID: "a2", Name: "other"}, ada))
}

func testGone(w *world) {
	w.must(w.users.Use(w.Context(), demo, ada))
	confirm := func(user User) error {
		return w.store.Tx(w.Context(), func(tx *store.Tx) error {
			if err := tx.LockAccount(w.Context(), demo); err != nil {
				return err
			}
			return Confirm(w.Context(), tx, demo, user)
		})
	}
	w.must(confirm(ada))
	contenttest.Exec(w, w.store, "UPDATE content_user SET gone = 1")
	if err := w.users.Use(w.Context(), demo, ada); !errors.Is(err, ErrGone) {
		w.Errorf("a user who is gone: %v", err)
	}
	if err := w.users.Use(w.Context(), demo, again); !errors.Is(err, ErrOther) {
		w.Errorf("the next user: %v", err)
	}
	for name, user := range map[string]User{"a user who is gone": ada, "another one": again, "an unknown one": {"bob", "u3"}} {
		if err := confirm(user); !errors.Is(err, ErrUnknown) {
			w.Errorf("%s changes content: %v", name, err)
		}
	}
}

func testUnknownUID(w *world) {
	w.must(w.users.Use(w.Context(), demo, User{Name: "ada"}))
	w.must(w.users.Use(w.Context(), demo, again))
	if err := w.users.Use(w.Context(), demo, ada); !errors.Is(err, ErrOther) {
		w.Error(err)
	}
	found, err := w.users.Find(w.Context(), demo, "ada")
	w.must(err)
	if found == nil || found.UID != again.UID {
		w.Errorf("%+v is recorded", found)
	}
}

func testReplicas(w *world) {
	w.must(w.users.Use(w.Context(), demo, ada))
	w.workbooks("ScimUser:ada", 1600)
	var group sync.WaitGroup
	for range 4 {
		group.Go(func() {
			if err := w.users.Release(w.Context(), demo, ada, record); err != nil {
				w.Error(err)
			}
		})
	}
	group.Wait()
	w.wantOwned(map[string]int{"Account:demo": 1604})
	w.wantEvents(event + "1600")
}

func testList(w *world) {
	for _, a := range []store.Account{{UID: "a2", Name: "b"}, demo} {
		for _, name := range []string{"x", "y", "z"} {
			w.must(w.users.Use(w.Context(), a, User{name, "u"}))
		}
	}
	got := ""
	for after := (Recorded{}); ; {
		page, err := w.users.List(w.Context(), after, 2)
		w.must(err)
		for _, r := range page {
			got += r.Account.Name + " " + r.Name + ", "
			after = r
		}
		if len(page) == 0 {
			break
		}
	}
	if want := "demo x, demo y, demo z, b x, b y, b z, "; got != want {
		w.Errorf("got %q, want %q", got, want)
	}
}

// purgedCluster has no account a1.
type purgedCluster struct{}

func (purgedCluster) AccountExists(_ context.Context, a store.Account) (bool, error) {
	return a.UID != demo.UID, nil
}

func (purgedCluster) DeploymentExists(context.Context, store.Deployment) (bool, error) {
	return false, nil
}

func testPurge(w *world) {
	w.must(w.users.Use(w.Context(), demo, ada))
	w.must(w.users.Use(w.Context(), store.Account{UID: "a2", Name: "other"}, ada))
	w.workbooks("ScimUser:ada", 2)
	purger := &store.Purger{Store: w.store, Cluster: purgedCluster{}, Clock: clock.RealClock{}, Log: slog.New(slog.DiscardHandler)}
	w.must(purger.Scan(w.Context()))
	if n, accounts := contenttest.Count(w, w.store, "content_user"), contenttest.Count(w, w.store, "account"); n != 1 || accounts != 1 {
		w.Errorf("%d users and %d accounts are left", n, accounts)
	}
}

func testRecorded(w *world) {
	w.must(w.users.Use(w.Context(), demo, ada))
	w.workbooks("ScimUser:ada", 2)
	failing := errors.New("failing")
	if err := w.users.Release(w.Context(), demo, ada, func(context.Context, *store.Tx, audit.Event) error { return failing }); !errors.Is(err, failing) {
		w.Error(err)
	}
	w.wantOwned(map[string]int{"ScimUser:ada": 6})
	w.must(w.users.Release(w.Context(), demo, ada, record))
	w.wantEvents(event + "2")
}

func testNothing(w *world) {
	w.must(w.users.Use(w.Context(), demo, ada))
	w.must(w.users.Release(w.Context(), demo, ada, record))
	w.must(w.users.Release(w.Context(), demo, User{"bob", "u3"}, record))
	w.wantEvents()
}

// testNewUser hands over the content of the deleted user again, as a replica that was slow.
func testNewUser(w *world) {
	w.must(w.users.Use(w.Context(), demo, again))
	w.workbooks("ScimUser:ada", 1)
	w.must(w.users.Release(w.Context(), demo, ada, record))
	w.wantOwned(map[string]int{"ScimUser:ada": 5})
	w.wantEvents()
}

// testPlan checks that the content of a user is found without reading that of others.
func testPlan(w *world) {
	if w.store.Dialect() == store.PostgreSQL {
		w.Skip("SKIPPED: the plan of PostgreSQL depends on statistics")
	}
	const query = `SELECT account_uid, id FROM workbook
		WHERE account_uid = 'a1' AND deployment_uid IN (SELECT uid FROM deployment WHERE account_uid = 'a1') AND owner = 'x' LIMIT 500`
	plan := contenttest.Plan(w, w.store, query)
	const want = "SEARCH workbook USING INDEX workbook_owner (deployment_uid=? AND account_uid=? AND owner=?)\n"
	if got := plan[:min(len(plan), len(want))]; got != want {
		w.Error(plan)
	}
}

func releaseSlowly(argument string) error {
	stepping, _, err := contenttest.OpenChild(argument, owners...)
	if err != nil {
		return err
	}
	users := &Users{DB: stepping, Parts: workspace.OfUsers}
	return users.Release(context.Background(), demo, ada, func(ctx context.Context, tx *store.Tx, e audit.Event) error {
		stepping.Point()
		return record(ctx, tx, e)
	})
}

// TestReleaseIsKilled kills the process at each point: before and after the commit of each transaction, and before the event.
// The content is then handed over by another process, with one event that counts everything.
func TestReleaseIsKilled(t *testing.T) {
	storetest.ForEach(t, func(t *testing.T, newDatabase func(testing.TB) string) {
		const workbooks, points = 600, 5
		for stop := 1; stop <= points; stop++ {
			url := newDatabase(t)
			w := open(t, url)
			w.must(w.users.Use(t.Context(), demo, ada))
			w.workbooks("ScimUser:ada", workbooks)
			w.must(w.store.Close())
			storetest.KillChild(t, childURL, contenttest.Arguments(stop, url), func(line string) bool { return line == contenttest.Stopped })
			w = open(t, url)
			if moved := w.owned()["Account:demo"]; (moved == 0) != (stop == 1) || (moved == workbooks+4) != (stop == points) {
				t.Errorf("killed at point %d: %d rows are handed over", stop, moved)
			}
			if err := w.users.Use(t.Context(), demo, again); (err == nil) != (stop == points) {
				t.Errorf("killed at point %d: the next user of the name: %v", stop, err)
			}
			if stop < points {
				w.must(w.users.Release(t.Context(), demo, ada, record))
			}
			w.wantOwned(map[string]int{"Account:demo": workbooks + 4})
			w.wantEvents(event + fmt.Sprint(workbooks))
		}
	})
}
