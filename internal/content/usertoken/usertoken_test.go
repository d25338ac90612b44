package usertoken

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/quoin-dev/quoin/internal/audit"
	"github.com/quoin-dev/quoin/internal/content/contenttest"
	"github.com/quoin-dev/quoin/internal/store"
	"github.com/quoin-dev/quoin/internal/store/storetest"
)

// world is a database with the tables of tokens, empty at first.
type world struct {
	*testing.T
	db     *store.Store
	store  *Store
	clock  time.Time
	events []string
}

var (
	demo  = store.Account{UID: "a1", Name: "demo"}
	other = store.Account{UID: "a2", Name: "other"}
)

func TestDatabases(t *testing.T) {
	storetest.ForEach(t, func(t *testing.T, newDatabase func(testing.TB) string) {
		for name, run := range map[string]func(w *world){
			"an authorization ends once":                    testFlow,
			"only the newest authorizations are kept":       testFlowLimit,
			"a token is stored, replaced and deleted":       testToken,
			"one replica works on a token":                  testLease,
			"the result of a lease is not stored too late":  testLateResult,
			"a failure is tried again when it is due":       testFailure,
			"the tokens of a person are deleted":            testDeleteAll,
			"the tokens for an integration are deleted":     testDeleteOf,
			"what is of deleted accounts is deleted":        testPurge,
			"people with tokens are listed in pages":        testPeople,
			"a token that is replaced while it is revoking": testReplacedWhileRevoking,
		} {
			t.Run(name, func(t *testing.T) { run(open(t, newDatabase(t))) })
		}
	})
}

func open(t *testing.T, url string) *world {
	t.Helper()
	db := contenttest.Open(t, url, Owner)
	w := &world{T: t, db: db, clock: time.Date(2026, 11, 23, 12, 0, 0, 0, time.UTC)}
	w.store = &Store{DB: db, Now: func() time.Time { return w.clock }, Record: func(_ context.Context, _ *store.Tx, e audit.Event) error {
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

func flow(user string) Flow {
	return Flow{User: user, Integration: 3, RedirectURI: "https://demo.example.com/auth/integrations/callback", Verifier: Sealed{"1", "sealed"}}
}

func (w *world) begin(user string) string {
	w.Helper()
	state := NewState()
	expires, err := w.store.Begin(w.Context(), demo, state, flow(user))
	w.must(err)
	if !expires.Equal(w.clock.Add(FlowLifetime)) {
		w.Errorf("it expires at %s", expires)
	}
	return state
}

func (w *world) put(user string, integration int64) *Token {
	w.Helper()
	t, err := w.store.Put(w.Context(), demo, user, integration, New{Sealed: Sealed{"1", "sealed"}, AccessExpiresAt: w.clock.Add(time.Hour), DueAt: w.clock.Add(50 * time.Minute)})
	w.must(err)
	return t
}

func (w *world) due() []Leased {
	w.Helper()
	all, err := w.store.Due(w.Context(), 10)
	w.must(err)
	return all
}

func testFlow(w *world) {
	state := w.begin("ada")
	_, err := w.store.End(w.Context(), other, "ada", state)
	w.is(err, ErrUnknown)
	got, err := w.store.End(w.Context(), demo, "ada", state)
	w.must(err)
	if *got != flow("ada") {
		w.Errorf("got %+v", got)
	}
	_, err = w.store.End(w.Context(), demo, "ada", state)
	w.is(err, ErrUnknown)
	// Another person ends it, and no one else can continue.
	state = w.begin("ada")
	_, err = w.store.End(w.Context(), demo, "bob", state)
	w.is(err, ErrUnknown)
	_, err = w.store.End(w.Context(), demo, "ada", state)
	w.is(err, ErrUnknown)
	state = w.begin("ada")
	w.clock = w.clock.Add(FlowLifetime)
	_, err = w.store.End(w.Context(), demo, "ada", state)
	w.is(err, ErrUnknown)
	w.begin("ada")
	w.must(Expire(w.Context(), w.db, w.clock.Add(FlowLifetime)))
	if n := contenttest.Count(w.T, w.db, "user_oauth_flow"); n != 0 {
		w.Errorf("%d authorizations are left", n)
	}
}

func testFlowLimit(w *world) {
	oldest := w.begin("ada")
	for range MaxFlows {
		w.clock = w.clock.Add(time.Second)
		w.begin("ada")
	}
	_, err := w.store.End(w.Context(), demo, "ada", oldest)
	w.is(err, ErrUnknown)
	if n := contenttest.Count(w.T, w.db, "user_oauth_flow"); n != MaxFlows {
		w.Errorf("%d authorizations are kept", n)
	}
}

func testToken(w *world) {
	first := w.put("ada", 3)
	w.put("ada", 4)
	w.put("bob", 3)
	w.clock = w.clock.Add(time.Hour)
	second := w.put("ada", 3)
	if second.ID != first.ID || !second.CreatedAt.Equal(w.clock) || second.Status != Active {
		w.Errorf("%+v replaces %+v", second, first)
	}
	all, err := w.store.List(w.Context(), demo.UID, "ada")
	w.must(err)
	if len(all) != 2 || all[0].Integration != 3 || all[1].Integration != 4 || all[0].Sealed != (Sealed{"1", "sealed"}) || !all[0].AccessExpiresAt.Equal(w.clock.Add(time.Hour)) || !all[0].RefreshExpiresAt.IsZero() {
		w.Errorf("listed %+v", all)
	}
	_, err = w.store.Find(w.Context(), other.UID, "ada", 3)
	w.is(err, ErrUnknown)
	w.is(w.store.Delete(w.Context(), other, "ada", 3), ErrUnknown)
	w.must(w.store.Delete(w.Context(), demo, "ada", 3))
	w.is(w.store.Delete(w.Context(), demo, "ada", 3), ErrUnknown)
	_, err = w.store.Find(w.Context(), demo.UID, "ada", 3)
	w.is(err, ErrUnknown)
	if _, err = w.store.Find(w.Context(), demo.UID, "bob", 3); err != nil {
		w.Error(err)
	}
	want := "[Authorized OAuth integration ada/3 Authorized OAuth integration ada/4 Authorized OAuth integration bob/3 Authorized OAuth integration ada/3 Revoked OAuth token ada/3]"
	if got := fmt.Sprint(w.events); got != want {
		w.Errorf("the events are %s", got)
	}
}

func testLease(w *world) {
	w.put("ada", 3)
	if got := w.due(); len(got) != 0 {
		w.Errorf("leased %+v before it is due", got)
	}
	w.clock = w.clock.Add(50 * time.Minute)
	var leased atomic.Int32
	var group sync.WaitGroup
	for range 4 {
		group.Go(func() {
			all, err := w.store.Due(w.Context(), 10)
			if err != nil {
				w.Error(err)
			}
			leased.Add(int32(len(all)))
		})
	}
	group.Wait()
	if leased.Load() != 1 {
		w.Errorf("%d replicas work on it", leased.Load())
	}
	l, err := w.store.LeaseOf(w.Context(), demo, "ada", 3)
	w.must(err)
	if l != nil {
		w.Errorf("leased %+v, which another replica works on", l)
	}
	w.clock = w.clock.Add(Lease) // the replica was killed
	if got := w.due(); len(got) != 1 || got[0].Account != demo {
		w.Errorf("leased %+v", got)
	}
	none, err := w.store.LeaseOf(w.Context(), other, "ada", 3)
	w.must(err)
	if none != nil {
		w.Errorf("leased %+v of another account", none)
	}
}

func testLateResult(w *world) {
	result := New{Sealed: Sealed{"1", "late"}, AccessExpiresAt: w.clock.Add(time.Hour)}
	for name, change := range map[string]func(){
		"a new authorization": func() { w.put("ada", 3) },
		"a deletion":          func() { w.must(w.store.Delete(w.Context(), demo, "ada", 3)) },
		"another lease": func() {
			w.clock = w.clock.Add(Lease)
			_, err := w.store.LeaseOf(w.Context(), demo, "ada", 3)
			w.must(err)
		},
	} {
		w.put("ada", 3)
		l, err := w.store.LeaseOf(w.Context(), demo, "ada", 3)
		w.must(err)
		change()
		stored, err := w.store.Refreshed(w.Context(), *l, result)
		w.must(err)
		w.must(w.store.Failed(w.Context(), *l, Ended, "late", time.Time{}))
		w.must(w.store.Forget(w.Context(), *l))
		if t, err := w.store.Find(w.Context(), demo.UID, "ada", 3); stored || err == nil && (t.Sealed.Text == "late" || t.Status != Active) {
			w.Errorf("%s: the result is stored: %t, %+v", name, stored, t)
		}
	}
}

func testFailure(w *world) {
	w.put("ada", 3)
	w.clock = w.clock.Add(time.Hour)
	l := w.due()[0]
	w.must(w.store.Failed(w.Context(), l, Failing, "the status of the response is 503", w.clock.Add(time.Minute)))
	t, err := w.store.Find(w.Context(), demo.UID, "ada", 3)
	w.must(err)
	if t.Status != Failing || t.Failures != 1 || t.LastError != "the status of the response is 503" {
		w.Errorf("the token is %+v", t)
	}
	if got := w.due(); len(got) != 0 {
		w.Errorf("tried again at once: %+v", got)
	}
	w.clock = w.clock.Add(time.Minute)
	l = w.due()[0]
	stored, err := w.store.Refreshed(w.Context(), l, New{Sealed: Sealed{"2", "new"}, AccessExpiresAt: w.clock.Add(time.Hour), DueAt: w.clock.Add(time.Hour)})
	w.must(err)
	t, err = w.store.Find(w.Context(), demo.UID, "ada", 3)
	w.must(err)
	if !stored || t.Status != Active || t.Failures != 0 || t.LastError != "" || t.Sealed != (Sealed{"2", "new"}) {
		w.Errorf("the token is %+v", t)
	}
	w.clock = w.clock.Add(time.Hour)
	w.must(w.store.Failed(w.Context(), w.due()[0], Ended, "invalid_grant", time.Time{}))
	w.clock = w.clock.Add(1000 * time.Hour)
	if got := w.due(); len(got) != 0 {
		w.Errorf("an authorization that has ended is due: %+v", got)
	}
	again := w.put("ada", 3)
	if again.Status != Active || again.LastError != "" {
		w.Errorf("the token is %+v", again)
	}
	l2, err := w.store.LeaseOf(w.Context(), demo, "ada", 3)
	w.must(err)
	w.must(w.store.Release(w.Context(), *l2, l2.DueAt()))
	l3, err := w.store.LeaseOf(w.Context(), demo, "ada", 3)
	w.must(err)
	if l3 == nil || !l3.DueAt().Equal(again.DueAt()) {
		w.Errorf("leased %+v after a release", l3)
	}
}

func testDeleteAll(w *world) {
	w.put("ada", 3)
	w.put("ada", 4)
	w.put("bob", 3)
	state := w.begin("ada")
	w.must(w.store.DeleteAll(w.Context(), demo, "ada"))
	w.must(w.store.DeleteAll(w.Context(), demo, "ada"))
	_, err := w.store.End(w.Context(), demo, "ada", state)
	w.is(err, ErrUnknown)
	all, err := w.store.List(w.Context(), demo.UID, "ada")
	w.must(err)
	if len(all) != 0 {
		w.Errorf("listed %+v", all)
	}
	revoking := w.due()
	if len(revoking) != 2 || !revoking[0].Revoking || revoking[0].User != "ada" {
		w.Fatalf("to revoke: %+v", revoking)
	}
	for _, l := range revoking {
		w.must(w.store.Forget(w.Context(), l))
	}
	if n := contenttest.Count(w.T, w.db, "user_oauth_token"); n != 1 {
		w.Errorf("%d tokens are left", n)
	}
}

func testDeleteOf(w *world) {
	w.put("ada", 3)
	w.put("ada", 4)
	for i := range deleteBatch {
		w.put(fmt.Sprint("user-", i), 3)
	}
	all, err := w.store.Integrations(w.Context())
	w.must(err)
	if len(all) != 2 || all[0] != (Integration{demo, 3}) || all[1] != (Integration{demo, 4}) {
		w.Errorf("listed %+v", all)
	}
	w.must(w.store.DeleteOf(w.Context(), other, 3))
	w.must(w.store.DeleteOf(w.Context(), demo, 3))
	w.must(w.store.DeleteOf(w.Context(), demo, 3))
	if all, err = w.store.Integrations(w.Context()); err != nil || len(all) != 1 || all[0].ID != 4 {
		w.Errorf("listed %+v, %v", all, err)
	}
	_, err = w.store.Find(w.Context(), demo.UID, "ada", 3)
	w.is(err, ErrUnknown)
	if _, err = w.store.Find(w.Context(), demo.UID, "ada", 4); err != nil {
		w.Error(err)
	}
	revoking, err := w.store.Due(w.Context(), 2*deleteBatch)
	w.must(err)
	if len(revoking) != deleteBatch+1 || !revoking[0].Revoking || revoking[0].Integration != 3 {
		w.Errorf("%d tokens are to be revoked", len(revoking))
	}
}

func testReplacedWhileRevoking(w *world) {
	w.put("ada", 3)
	w.must(w.store.Delete(w.Context(), demo, "ada", 3))
	second := w.put("ada", 3)
	w.must(w.store.Delete(w.Context(), demo, "ada", 3))
	third := w.put("ada", 3)
	if got := w.due(); len(got) != 2 || !got[0].Revoking || !got[1].Revoking || second.ID == third.ID {
		w.Errorf("to revoke: %+v", got)
	}
	t, err := w.store.Find(w.Context(), demo.UID, "ada", 3)
	w.must(err)
	if t.ID != third.ID || t.Revoking {
		w.Errorf("the token is %+v", t)
	}
}

func testPurge(w *world) {
	w.put("ada", 3)
	w.begin("ada")
	for {
		more := false
		w.must(w.db.Tx(w.Context(), func(tx *store.Tx) (err error) {
			more, err = purge(w.Context(), tx, store.Deleted{AccountUID: demo.UID}, 1)
			return err
		}))
		if !more {
			break
		}
	}
	if tokens, flows := contenttest.Count(w.T, w.db, "user_oauth_token"), contenttest.Count(w.T, w.db, "user_oauth_flow"); tokens+flows != 0 {
		w.Errorf("%d tokens and %d authorizations are left", tokens, flows)
	}
}

func testPeople(w *world) {
	for _, user := range []string{"ada", "bob", "cy"} {
		w.put(user, 3)
	}
	w.clock = w.clock.Add(time.Hour)
	w.put("ada", 4)
	var got []string
	after := Person{}
	for {
		page, err := w.store.People(w.Context(), after, 2)
		w.must(err)
		for _, p := range page {
			got = append(got, p.User)
			if p.Account != demo || !p.Oldest.Equal(w.clock.Add(-time.Hour)) {
				w.Errorf("%+v", p)
			}
		}
		if len(page) < 2 {
			break
		}
		after = page[len(page)-1]
	}
	if fmt.Sprint(got) != "[ada bob cy]" {
		w.Errorf("listed %v", got)
	}
}
