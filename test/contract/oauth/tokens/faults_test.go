package tokens_test

import (
	"context"
	"errors"
	"net/http"
	"sync/atomic"
	"testing"
	"time"

	"github.com/quoin-dev/quoin/apiserver/usertokens"
	"github.com/quoin-dev/quoin/internal/content"
	"github.com/quoin-dev/quoin/internal/content/usertoken"
	"github.com/quoin-dev/quoin/internal/store"
)

// faulty is a database whose transactions wait for a function first.
type faulty struct {
	content.Database
	before atomic.Pointer[func() error]
}

func (f *faulty) set(before func() error) { f.before.Store(&before) }

// Tx implements content.Database.
func (f *faulty) Tx(ctx context.Context, work func(tx *store.Tx) error) error {
	if before := f.before.Load(); before != nil {
		if err := (*before)(); err != nil {
			return err
		}
	}
	return f.Database.Tx(ctx, work)
}

// faultyReplica returns a replica with a database that can fail.
func (w *world) faultyReplica() (*usertokens.Service, *faulty) {
	r, db := w.replica(), &faulty{Database: w.db}
	r.Store = &usertoken.Store{DB: db, Now: w.clock.Now, Record: r.Store.Record}
	return r, db
}

// onRefresh calls a function when the provider receives a request of a refresh, before it responds.
func (w *world) onRefresh(f func()) {
	w.provider.Fail(func(r *http.Request) (int, string) {
		if r.PostFormValue("grant_type") == "refresh_token" {
			f()
		}
		return 0, ""
	})
}

// killed makes a replica refresh the token of ada, and stops it forever between the response of the provider and the commit, as
// the kill of its process does. Its lease has expired then.
func (w *world) killed() {
	w.Helper()
	r, db := w.faultyReplica()
	stopped := make(chan struct{})
	w.onRefresh(func() {
		db.set(func() error {
			close(stopped)
			select {}
		})
	})
	w.clock.Step(56 * time.Minute)
	go func() { _ = r.Round(context.Background()) }()
	select {
	case <-stopped:
	case <-time.After(time.Minute):
		w.Fatal("the replica does not store a refreshed token")
	}
	w.provider.Fail(nil)
	w.round()
	if n := w.provider.Refreshes(); n != 1 {
		w.Errorf("%d refreshes while the token is leased", n)
	}
	w.clock.Step(usertoken.Lease)
	w.round()
}

// TestKilledBeforeTheCommit: the refresh is tried again with the previous refresh token as soon as the lease ends. Most providers
// accept it for that long; otherwise the person authorizes the integration again, and has the access token until it expires.
func TestKilledBeforeTheCommit(t *testing.T) {
	t.Run("the provider accepts the previous refresh token", func(t *testing.T) {
		w := newWorld(t)
		w.provider.AcceptUsed()
		w.authorize("ada", 3)
		w.killed()
		if got, c := w.token("ada", 3), w.credential("ada"); got.Status != usertoken.Active || !w.provider.IsLive(c.AccessToken) || w.provider.Refreshes() != 2 {
			t.Errorf("%d refreshes: %+v, %+v", w.provider.Refreshes(), got, c)
		}
	})
	t.Run("the provider does not", func(t *testing.T) {
		w := newWorld(t)
		w.authorize("ada", 3)
		before := w.credential("ada")
		w.killed()
		if got, c := w.token("ada", 3), w.credential("ada"); got.Status != usertoken.Ended || c.AccessToken != before.AccessToken || c.Status != "authorization_required" {
			t.Errorf("%+v, %+v", got, c)
		}
		w.authorize("ada", 3)
		if got := w.token("ada", 3); got.Status != usertoken.Active {
			t.Errorf("after another authorization: %+v", got)
		}
	})
}

// TestLeaseIsShort: with the interval of the worker, a refresh that was interrupted is tried again within 30 seconds.
func TestLeaseIsShort(t *testing.T) {
	if usertoken.Lease > 25*time.Second {
		t.Errorf("a lease has %s", usertoken.Lease)
	}
}

// TestDatabaseFailsAtTheCommit: the result of a refresh is stored when the database responds again.
func TestDatabaseFailsAtTheCommit(t *testing.T) {
	w := newWorld(t)
	w.authorize("ada", 3)
	r, db := w.faultyReplica()
	var tries atomic.Int32
	w.onRefresh(func() {
		db.set(func() error {
			if tries.Add(1) <= 3 {
				return errors.New("the database does not respond")
			}
			return nil
		})
	})
	w.clock.Step(56 * time.Minute)
	w.must(r.Round(t.Context()))
	w.wantRefreshed()
	if n := tries.Load(); n != 4 {
		t.Errorf("%d transactions", n)
	}
}

// TestCallerDisconnectsDuringARefresh: the result is stored, whether a client disconnects or the process is asked to stop.
func TestCallerDisconnectsDuringARefresh(t *testing.T) {
	for name, run := range map[string]func(ctx context.Context, w *world){
		"a client": func(ctx context.Context, w *world) { _, _ = w.service.Credentials(ctx, w.account, "ada", named) },
		"the end":  func(ctx context.Context, w *world) { _ = w.service.Round(ctx) },
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t)
			w.authorize("ada", 3)
			w.clock.Step(2 * time.Hour)
			ctx, disconnect := context.WithCancel(t.Context())
			defer disconnect()
			w.onRefresh(disconnect)
			run(ctx, w)
			w.provider.Fail(nil)
			w.wantRefreshed()
		})
	}
}

// TestBrowserDisconnectsDuringTheExchange: the token is stored.
func TestBrowserDisconnectsDuringTheExchange(t *testing.T) {
	w := newWorld(t)
	response := w.response("ada", 3)
	ctx, disconnect := context.WithCancel(t.Context())
	defer disconnect()
	w.provider.Fail(func(*http.Request) (int, string) { disconnect(); return 0, "" })
	_, _ = w.service.Complete(ctx, w.account, "ada", callback, response)
	if c := w.credential("ada"); !w.provider.IsLive(c.AccessToken) {
		t.Errorf("the credential is %+v", c)
	}
}

// wantRefreshed checks that the token of ada was refreshed once, and that the result is stored.
func (w *world) wantRefreshed() {
	w.Helper()
	got, c := w.token("ada", 3), w.credential("ada")
	if w.provider.Refreshes() != 1 || got.Status != usertoken.Active || !w.provider.IsLive(c.AccessToken) || !got.AccessExpiresAt.After(w.clock.Now().Add(30*time.Minute)) {
		w.Errorf("%d refreshes: %+v, %+v", w.provider.Refreshes(), got, c)
	}
}
