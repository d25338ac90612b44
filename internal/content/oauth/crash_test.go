package oauth

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/quoin-dev/quoin/internal/audit"
	"github.com/quoin-dev/quoin/internal/content/contenttest"
	"github.com/quoin-dev/quoin/internal/store"
	"github.com/quoin-dev/quoin/internal/store/storetest"
)

// childURL makes the test binary a process that issues a code, exchanges it and refreshes, and stops at a point.
// Its value is the number of the point and the URL of the database.
const childURL = "QUOIN_OAUTH_CHILD_URL"

func TestMain(m *testing.M) {
	storetest.Main(m, map[string]func(arguments string) error{childURL: signInAndStop})
}

// signInAndStop writes each secret that a client has received to standard output.
func signInAndStop(arguments string) error {
	db, _, err := contenttest.OpenChild(arguments, Owner)
	if err != nil {
		return err
	}
	ctx := context.Background()
	s := &Store{DB: db, Record: func(context.Context, *store.Tx, audit.Event) error { return nil }}
	code, err := s.IssueCode(ctx, demo, codeRequest())
	if err != nil {
		return err
	}
	fmt.Println("code", code)
	tokens, err := s.Redeem(ctx, demo, redemption(code))
	if err != nil {
		return err
	}
	fmt.Println("refresh", tokens.Refresh)
	_, err = s.Refresh(ctx, demo, cli, tokens.Refresh)
	return err
}

// TestKilled kills the process before and after each commit. A code gives tokens once, and a client that repeats a
// refresh gets its tokens.
func TestKilled(t *testing.T) {
	storetest.ForEach(t, func(t *testing.T, newDatabase func(testing.TB) string) {
		for _, c := range []struct {
			stop    int
			refresh bool
			err     error
		}{
			{stop: 3},                 // before the exchange of the code is committed
			{stop: 4, err: ErrReused}, // after it: the response is lost
			{stop: 5, refresh: true},  // before the refresh is committed
			{stop: 6, refresh: true},  // after it: the response is lost
		} {
			t.Run(fmt.Sprint("point ", c.stop), func(t *testing.T) {
				url, received := newDatabase(t), map[string]string{}
				storetest.KillChild(t, childURL, contenttest.Arguments(c.stop, url), func(line string) bool {
					name, value, _ := strings.Cut(line, " ")
					received[name] = value
					return line == contenttest.Stopped
				})
				w := open(t, url)
				w.store.Now = nil
				exchange := func() (*Tokens, error) {
					if c.refresh {
						return w.store.Refresh(t.Context(), demo, cli, received["refresh"])
					}
					return w.store.Redeem(t.Context(), demo, redemption(received["code"]))
				}
				tokens, err := exchange()
				if !errors.Is(err, c.err) {
					t.Fatalf("got %v, want %v", err, c.err)
				}
				if err != nil {
					if left := w.left(); left != "0 0 0 0" {
						t.Errorf("%s rows are left", left)
					}
					return
				}
				w.valid(true, tokens)
				w.refresh(tokens.Refresh, nil)
				if _, err := exchange(); !errors.Is(err, ErrReused) {
					t.Errorf("again: %v", err)
				}
				w.valid(false, tokens)
			})
		}
	})
}
