package oauth

import (
	"fmt"
	"regexp"
	"strings"
	"time"

	"github.com/quoin-dev/quoin/internal/content"
	"github.com/quoin-dev/quoin/internal/content/contenttest"
	"github.com/quoin-dev/quoin/internal/store"
)

func testCode(w *world) {
	code := w.code()
	w.clock = w.clock.Add(CodeLifetime - time.Second)
	tokens := w.redeem(code)
	w.valid(true, tokens)
	if !strings.HasPrefix(tokens.Access, AccessPrefix) || !strings.HasPrefix(tokens.Refresh, RefreshPrefix) {
		w.Errorf("the tokens are %+v", tokens)
	}
	w.clock = w.clock.Add(10 * time.Minute) // what was used is still detected
	_, err := w.store.Redeem(w.Context(), demo, redemption(code))
	w.is(err, ErrReused)
	w.valid(false, tokens)
	w.refresh(tokens.Refresh, ErrUnknown)
	_, err = w.store.Redeem(w.Context(), demo, redemption(code))
	w.is(err, ErrUnknown)
	if got := fmt.Sprint(w.events); got != "[Authorized client Revoked client a code or refresh token was used again]" {
		w.Error(got)
	}
}

func testScope(w *world) {
	request := codeRequest()
	request.Scope = ScopeMCP
	code, err := w.store.IssueCode(w.Context(), demo, request)
	w.must(err)
	limited := w.redeem(code)
	renewed := w.refresh(limited.Refresh, nil)
	device := w.device()
	w.must(w.store.DecideDevice(w.Context(), demo, device.UserCode, true, ada))
	for want, all := range map[string][]*Tokens{ScopeMCP: {limited, renewed}, ScopeAll: {w.redeem(w.code()), w.poll(device, nil)}} {
		for _, t := range all {
			g, err := w.store.Find(w.Context(), demo.UID, t.Access)
			w.must(err)
			if g.Scope != want || t.Grant.Scope != want && t.Grant.Scope != "" {
				w.Errorf("the scope is %q and %q, want %q", g.Scope, t.Grant.Scope, want)
			}
		}
	}
}

func testCodeMismatch(w *world) {
	code := w.code()
	for name, change := range map[string]func(r *Redemption){
		"client":       func(r *Redemption) { r.ClientID = "quoin-web" },
		"redirect URI": func(r *Redemption) { r.RedirectURI += "x" },
		"no verifier":  func(r *Redemption) { r.Verifier = "" },
		"verifier":     func(r *Redemption) { r.Verifier += "x" },
		"challenge":    func(r *Redemption) { r.Verifier = challengeOf(verifier) }, // the method "plain"
	} {
		r := redemption(code)
		change(&r)
		if _, err := w.store.Redeem(w.Context(), demo, r); err == nil {
			w.Fatalf("another %s is accepted", name)
		} else {
			w.is(err, ErrMismatch)
		}
	}
	_, err := w.store.Refresh(w.Context(), demo, cli, code)
	w.is(err, ErrUnknown)
	if n := contenttest.Count(w, w.db, "oauth_token"); n != 1 {
		w.Errorf("%d tokens are stored, want the code only", n)
	}
	w.valid(true, w.redeem(code)) // nothing was changed
	expired := w.code()
	w.clock = w.clock.Add(CodeLifetime)
	_, err = w.store.Redeem(w.Context(), demo, redemption(expired))
	w.is(err, ErrUnknown)
}

func testRefresh(w *world) {
	first := w.redeem(w.code())
	_, err := w.store.Refresh(w.Context(), demo, "quoin-web", first.Refresh)
	w.is(err, ErrMismatch)
	w.refresh(first.Access, ErrUnknown)
	second := w.refresh(first.Refresh, nil)
	w.valid(true, first, second)
	third := w.refresh(second.Refresh, nil)
	w.clock = w.clock.Add(RetryWindow)
	w.refresh(first.Refresh, ErrReused)
	w.valid(false, first, second, third)
	w.refresh(third.Refresh, ErrUnknown)
}

func testLostResponse(w *world) {
	first := w.redeem(w.code())
	lost := w.refresh(first.Refresh, nil)
	again := w.refresh(first.Refresh, nil)
	third := w.refresh(again.Refresh, nil)
	w.valid(true, first, lost, again, third)
	// Another party has the one that was thought to be lost.
	w.refresh(lost.Refresh, ErrReused)
	w.valid(false, first, lost, again, third)
	late := w.redeem(w.code())
	w.refresh(late.Refresh, nil)
	w.clock = w.clock.Add(RetryWindow)
	w.refresh(late.Refresh, ErrReused)
}

func testStolen(w *world) {
	first := w.redeem(w.code())
	second := w.refresh(first.Refresh, nil)
	third := w.refresh(second.Refresh, nil)
	w.refresh(first.Refresh, ErrReused) // within the window: its successor was used
	w.valid(false, first, second, third)
}

func testLifetimes(w *world) {
	begin := w.clock
	tokens := w.redeem(w.code())
	w.clock = w.clock.Add(AccessLifetime - time.Second)
	w.valid(true, tokens)
	w.clock = w.clock.Add(time.Second)
	w.valid(false, tokens)
	unused := w.redeem(w.code())
	for w.clock.Before(begin.Add(GrantLifetime)) {
		tokens = w.refresh(tokens.Refresh, nil)
		w.clock = w.clock.Add(RefreshLifetime - time.Hour)
	}
	w.refresh(tokens.Refresh, ErrUnknown)
	w.refresh(unused.Refresh, ErrUnknown)
}

func testRevoke(w *world) {
	for _, by := range []func(t *Tokens) string{func(t *Tokens) string { return t.Access }, func(t *Tokens) string { return t.Refresh }} {
		tokens, kept := w.redeem(w.code()), w.redeem(w.code())
		w.must(w.store.Revoke(w.Context(), demo, "quoin-web", by(tokens)))
		w.must(w.store.Revoke(w.Context(), demo, cli, "unknown"))
		w.valid(true, tokens, kept)
		w.must(w.store.Revoke(w.Context(), demo, cli, by(tokens)))
		w.valid(false, tokens)
		w.refresh(tokens.Refresh, ErrUnknown)
		w.valid(true, kept)
	}
}

var userCodeForm = regexp.MustCompile(`^[BCDFGHJKLMNPQRSTVWXZ]{4}-[BCDFGHJKLMNPQRSTVWXZ]{4}$`)

func (w *world) device() *Device {
	w.Helper()
	d, err := w.store.StartDevice(w.Context(), demo, cli, "192.0.2.1")
	w.must(err)
	if !userCodeForm.MatchString(d.UserCode) {
		w.Errorf("the user code is %q", d.UserCode)
	}
	return d
}

// poll polls for a device after the interval, and checks the error.
func (w *world) poll(d *Device, want error) *Tokens {
	w.Helper()
	w.clock = w.clock.Add(DeviceInterval)
	tokens, err := w.store.PollDevice(w.Context(), demo, cli, d.Code)
	w.is(err, want)
	return tokens
}

func testDevice(w *world) {
	d, untouched := w.device(), w.device()
	w.poll(d, ErrPending)
	found, err := w.store.FindDevice(w.Context(), demo.UID, " "+strings.ToLower(strings.ReplaceAll(d.UserCode, "-", " ")))
	w.must(err)
	if found.ClientID != cli || found.Address != "192.0.2.1" {
		w.Errorf("the request is %+v", found)
	}
	w.must(w.store.DecideDevice(w.Context(), demo, d.UserCode, true, ada))
	w.is(w.store.DecideDevice(w.Context(), demo, d.UserCode, false, bob), ErrUnknown) // it is decided
	_, err = w.store.FindDevice(w.Context(), demo.UID, d.UserCode)
	w.is(err, ErrUnknown)
	_, err = w.store.PollDevice(w.Context(), demo, "quoin-web", d.Code)
	w.is(err, ErrMismatch)
	tokens := w.poll(d, nil)
	w.valid(true, tokens)
	next := w.refresh(tokens.Refresh, nil)
	w.poll(d, ErrReused)
	w.valid(false, tokens, next)
	w.poll(d, ErrUnknown)
	w.poll(untouched, ErrPending)
}

func testDeviceRefusals(w *world) {
	d := w.device()
	w.poll(d, ErrPending)
	_, err := w.store.PollDevice(w.Context(), demo, cli, d.Code)
	w.is(err, ErrSlowDown)
	w.poll(d, ErrSlowDown) // the interval is five seconds longer, and again
	w.clock = w.clock.Add(3 * DeviceInterval)
	w.poll(d, ErrPending)
	w.must(w.store.DecideDevice(w.Context(), demo, d.UserCode, false, ada))
	w.poll(d, ErrDenied)
	for _, approve := range []bool{true, false} {
		d = w.device()
		if approve {
			w.must(w.store.DecideDevice(w.Context(), demo, d.UserCode, true, ada))
		}
		w.clock = w.clock.Add(DeviceLifetime)
		w.poll(d, ErrUnknown)
		w.is(w.store.DecideDevice(w.Context(), demo, d.UserCode, true, ada), ErrUnknown)
	}
	_, err = w.store.PollDevice(w.Context(), demo, cli, "unknown")
	w.is(err, ErrUnknown)
	_, err = w.store.FindDevice(w.Context(), demo.UID, "")
	w.is(err, ErrUnknown)
}

func (w *world) session(p Person, previous string) (*Session, string) {
	w.Helper()
	s, secret, err := w.store.StartSession(w.Context(), demo, Session{Person: p, Address: "192.0.2.1", UserAgent: strings.Repeat("u", 1000)}, previous)
	w.must(err)
	return s, secret
}

// ended checks that a session has ended.
func (w *world) ended(secret string) {
	w.Helper()
	_, err := w.store.Session(w.Context(), demo, secret)
	w.is(err, ErrUnknown)
}

func testSessions(w *world) {
	_, old := w.session(ada, "")
	first, secret := w.session(ada, old)
	w.ended(old)
	w.session(bob, "")
	for w.clock.Before(first.ExpiresAt.Add(-SessionIdle)) {
		w.clock = w.clock.Add(SessionIdle - time.Minute)
		found, err := w.store.Session(w.Context(), demo, secret)
		w.must(err)
		if found.ID != first.ID || found.Subject != "u1" || found.UserUID != "s1" || len(found.UserAgent) != maxText {
			w.Errorf("found %+v", found)
		}
	}
	w.clock = w.clock.Add(time.Second)
	second, idle := w.session(ada, "")
	listed, err := w.store.Sessions(w.Context(), demo.UID, ada)
	w.must(err)
	if len(listed) != 2 || listed[0].ID != second.ID {
		w.Errorf("%d sessions are listed: %+v", len(listed), listed)
	}
	w.is(w.store.EndSession(w.Context(), demo, bob, second.ID), ErrUnknown)
	w.clock = first.ExpiresAt
	w.ended(secret)
	w.clock = w.clock.Add(SessionIdle)
	w.ended(idle)
	last, secret := w.session(ada, "")
	w.must(w.store.EndSession(w.Context(), demo, ada, last.ID))
	w.ended(secret)
}

func testEndAll(w *world) {
	_, secret := w.session(ada, "")
	_, others := w.session(bob, "")
	tokens, again := w.redeem(w.code()), w.redeem(w.code())
	grants, err := w.store.Grants(w.Context(), demo.UID, ada)
	w.must(err)
	if len(grants) != 2 || grants[0].ClientID != cli || grants[0].Address != "192.0.2.1" {
		w.Errorf("the grants are %+v", grants)
	}
	w.is(w.store.RevokeGrant(w.Context(), demo, bob, again.Grant.ID), ErrUnknown)
	w.must(w.store.RevokeGrant(w.Context(), demo, ada, again.Grant.ID))
	w.valid(false, again)
	w.valid(true, tokens)
	w.must(w.store.EndAll(w.Context(), demo, ada))
	w.valid(false, tokens)
	w.ended(secret)
	_, secret = w.session(ada, "")
	tokens = w.redeem(w.code())
	w.must(w.store.EndUser(w.Context(), demo, "another"))
	w.valid(true, tokens)
	w.must(w.store.EndUser(w.Context(), demo, ada.UserUID))
	w.valid(false, tokens)
	w.ended(secret)
	if _, err := w.store.Session(w.Context(), demo, others); err != nil {
		w.Error(err)
	}
}

func testAtRest(w *world) {
	_, session := w.session(ada, "")
	code, d := w.code(), w.device()
	tokens := w.redeem(code)
	err := store.Dump(w.Context(), w.at, contenttest.Owners([]store.Owner{Owner}), func(r store.Record) error {
		for _, secret := range []string{session, code, d.Code, d.UserCode, strings.ReplaceAll(d.UserCode, "-", ""), tokens.Access, tokens.Refresh} {
			if strings.Contains(fmt.Sprint(r.Row), secret) {
				w.Errorf("the row %v has a secret", r.Row)
			}
		}
		return nil
	})
	w.must(err)
}

func testTenants(w *world) {
	_, session := w.session(ada, "")
	code, d := w.code(), w.device()
	tokens := w.redeem(w.code())
	_, err := w.store.Redeem(w.Context(), other, redemption(code))
	w.is(err, ErrUnknown)
	_, err = w.store.Refresh(w.Context(), other, cli, tokens.Refresh)
	w.is(err, ErrUnknown)
	_, err = w.store.Find(w.Context(), other.UID, tokens.Access)
	w.is(err, ErrUnknown)
	_, err = w.store.Session(w.Context(), other, session)
	w.is(err, ErrUnknown)
	_, err = w.store.PollDevice(w.Context(), other, cli, d.Code)
	w.is(err, ErrUnknown)
	w.is(w.store.DecideDevice(w.Context(), other, d.UserCode, true, ada), ErrUnknown)
	w.must(w.store.Revoke(w.Context(), other, cli, tokens.Access))
	w.must(w.store.EndAll(w.Context(), other, ada))
	w.valid(true, tokens)
}

// left returns the number of rows of each table.
func (w *world) left() string {
	w.Helper()
	var all []string
	for _, table := range Owner.Tables {
		all = append(all, fmt.Sprint(contenttest.Count(w, w.db, table)))
	}
	return strings.Join(all, " ")
}

func testPurge(w *world) {
	w.session(ada, "")
	w.device()
	w.redeem(w.code())
	w.code()
	if got := w.left(); got != "1 2 4 1" {
		w.Errorf("%s rows", got)
	}
	w.must(Expire(w.Context(), w.db, w.clock))
	if got := w.left(); got != "1 2 4 1" {
		w.Errorf("%s rows after nothing has expired", got)
	}
	w.must(Expire(w.Context(), w.db, w.clock.Add(max(DeviceLifetime, SessionIdle))))
	if got := w.left(); got != "0 1 1 0" {
		w.Errorf("%s rows, want a grant with its refresh token", got)
	}
	w.session(ada, "")
	w.device()
	for _, of := range []store.Deleted{{AccountUID: "a1", DeploymentUID: "d1"}, {AccountUID: "a1"}} {
		w.must(w.db.Tx(w.Context(), func(tx *store.Tx) error {
			more, err := Owner.Purge(w.Context(), tx, of, 10)
			if more {
				w.Error("there is more")
			}
			return err
		}))
		want := "0 0 0 0"
		if of.DeploymentUID != "" {
			want = "1 1 1 1"
		}
		if got := w.left(); got != want {
			w.Errorf("%s rows, want %s", got, want)
		}
	}
}

func testClaims(w *world) {
	large := Person{Issuer: ada.Issuer, Subject: "u1", Claims: map[string]any{"groups": strings.Repeat("g", maxClaims)}}
	_, _, err := w.store.StartSession(w.Context(), demo, Session{Person: large}, "")
	contenttest.Rejects(w, err, content.Invalid, "at most 65536 are allowed")
}

func testFound(w *world) {
	tokens := w.redeem(w.code())
	w.valid(true, tokens)
	there := &Store{DB: w.db, Now: w.store.Now, Record: w.store.Record}
	w.must(there.Revoke(w.Context(), demo, cli, tokens.Access))
	w.valid(true, tokens) // of another replica: for a second
	w.clock = w.clock.Add(foundLifetime)
	w.valid(false, tokens)
}
