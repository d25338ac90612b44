package usertoken

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/quoin-dev/quoin/internal/audit"
	"github.com/quoin-dev/quoin/internal/content/contenttest"
	"github.com/quoin-dev/quoin/internal/store"
	"github.com/quoin-dev/quoin/internal/store/storetest"
)

// childURL makes the test binary a process that begins and ends an authorization, stores its token and refreshes it, and stops at
// a point. Its value is the number of the point and the URL of the database.
const childURL = "QUOIN_USER_TOKEN_CHILD_URL"

func TestMain(m *testing.M) {
	storetest.Main(m, map[string]func(arguments string) error{childURL: authorizeAndStop})
}

func authorizeAndStop(arguments string) error {
	db, _, err := contenttest.OpenChild(arguments, Owner)
	if err != nil {
		return err
	}
	ctx := context.Background()
	s := &Store{DB: db, Record: func(context.Context, *store.Tx, audit.Event) error { return nil }}
	state := NewState()
	fmt.Println("state", state)
	if _, err := s.Begin(ctx, demo, state, flow("ada")); err != nil {
		return err
	}
	if _, err := s.End(ctx, demo, "ada", state); err != nil {
		return err
	}
	if _, err := s.Put(ctx, demo, "ada", 3, New{Sealed: Sealed{"1", "first"}, DueAt: time.Now()}); err != nil {
		return err
	}
	l, err := s.LeaseOf(ctx, demo, "ada", 3)
	if err != nil {
		return err
	}
	_, err = s.Refreshed(ctx, *l, New{Sealed: Sealed{"1", "second"}, DueAt: time.Now()})
	return err
}

// TestKilled kills the process before and after each commit. A state is used once; a token is stored whole or not at all, and a
// replica that was killed while it refreshed keeps no other from doing so.
func TestKilled(t *testing.T) {
	storetest.ForEach(t, func(t *testing.T, newDatabase func(testing.TB) string) {
		for _, c := range []struct {
			stop int
			// state reports whether the state can be used after the kill, and token is the stored token.
			state bool
			token string
		}{
			{stop: 2, state: true}, // the authorization has begun
			{stop: 3, state: true}, // before its end is committed: no code was exchanged
			{stop: 4},              // after it: the code may be exchanged
			{stop: 5},              // the code was exchanged, the token is not stored
			{stop: 6, token: "first"},
			{stop: 8, token: "first"}, // leased
			{stop: 9, token: "first"}, // refreshed at the provider, not stored
			{stop: 10, token: "second"},
		} {
			t.Run(fmt.Sprint("point ", c.stop), func(t *testing.T) {
				url, state := newDatabase(t), ""
				storetest.KillChild(t, childURL, contenttest.Arguments(c.stop, url), func(line string) bool {
					if text, ok := strings.CutPrefix(line, "state "); ok {
						state = text
					}
					return line == contenttest.Stopped
				})
				w := open(t, url)
				w.clock = time.Now()
				if _, err := w.store.End(t.Context(), demo, "ada", state); (err == nil) != c.state {
					t.Errorf("the state is used: %v", err)
				}
				found, err := w.store.Find(t.Context(), demo.UID, "ada", 3)
				if (err == nil) != (c.token != "") || err == nil && found.Sealed.Text != c.token {
					t.Fatalf("the token is %+v, %v", found, err)
				}
				w.clock = w.clock.Add(Lease)
				if got := w.due(); c.token != "" && len(got) != 1 {
					t.Errorf("%d tokens are due after the lease", len(got))
				}
				state = NewState()
				if _, err := w.store.Begin(t.Context(), demo, state, flow("ada")); err != nil {
					t.Fatal(err)
				}
				if _, err := w.store.End(t.Context(), demo, "ada", state); err != nil {
					t.Errorf("another authorization: %v", err)
				}
				w.put("ada", 3)
			})
		}
	})
}
