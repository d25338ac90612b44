package oauth

import (
	"context"
	"crypto/sha256"
	"encoding/base64"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/quoin-dev/quoin/internal/audit"
	"github.com/quoin-dev/quoin/internal/content/contenttest"
	"github.com/quoin-dev/quoin/internal/store"
	"github.com/quoin-dev/quoin/internal/store/storetest"
)

// world is a database with the tables of sign-in, empty at first.
type world struct {
	*testing.T
	db    *store.Store
	at    string
	store *Store
	clock time.Time
	// events are the names of events, with their reasons.
	events []string
}

func TestDatabases(t *testing.T) {
	storetest.ForEach(t, func(t *testing.T, newDatabase func(testing.TB) string) {
		for name, run := range map[string]func(w *world){
			"a code is exchanged once":                            testCode,
			"a code is exchanged by its client only":              testCodeMismatch,
			"tokens have the scope of their grant":                testScope,
			"a refresh token is exchanged once":                   testRefresh,
			"a refresh whose response was lost is repeated":       testLostResponse,
			"a stolen refresh token is detected":                  testStolen,
			"tokens end":                                          testLifetimes,
			"a client revokes its tokens":                         testRevoke,
			"a device gets tokens once":                           testDevice,
			"a device is denied, expires, and polls too fast":     testDeviceRefusals,
			"sessions are used, listed and ended":                 testSessions,
			"all sessions and grants of a person end":             testEndAll,
			"the database has no secret":                          testAtRest,
			"secrets are valid in their account only":             testTenants,
			"what is expired or of deleted accounts is deleted":   testPurge,
			"claims that are too large are rejected":              testClaims,
			"what was found is forgotten when a grant is revoked": testFound,
		} {
			t.Run(name, func(t *testing.T) { run(open(t, newDatabase(t))) })
		}
	})
}

func open(t *testing.T, url string) *world {
	t.Helper()
	db := contenttest.Open(t, url, Owner)
	w := &world{T: t, db: db, at: url, clock: time.Date(2026, 11, 22, 12, 0, 0, 0, time.UTC)}
	w.store = &Store{DB: db, Now: func() time.Time { return w.clock }, Record: func(_ context.Context, _ *store.Tx, e audit.Event) error {
		w.events = append(w.events, strings.TrimSpace(e.Name+" "+e.Reason))
		return nil
	}}
	return w
}

var (
	demo  = store.Account{UID: "a1", Name: "demo"}
	other = store.Account{UID: "a2", Name: "other"}
	ada   = Person{Issuer: "https://login.example.com", Subject: "u1", Claims: map[string]any{"sub": "u1", "email": "ada@example.com"}, UserUID: "s1"}
	bob   = Person{Issuer: "https://login.example.com", Subject: "u2", Claims: map[string]any{"sub": "u2"}}
)

const (
	cli      = "cube-cli"
	redirect = "http://127.0.0.1:4000/callback"
	verifier = "verifier-of-the-client-verifier-of-the-client"
)

func (w *world) must(err error) {
	w.Helper()
	if err != nil {
		w.Fatal(err)
	}
}

// is checks an error.
func (w *world) is(err, want error) {
	w.Helper()
	if !errors.Is(err, want) {
		w.Fatalf("got %v, want %v", err, want)
	}
}

func challengeOf(verifier string) string {
	sum := sha256.Sum256([]byte(verifier))
	return base64.RawURLEncoding.EncodeToString(sum[:])
}

func codeRequest() Code {
	return Code{ClientID: cli, RedirectURI: redirect, Challenge: challengeOf(verifier), Person: ada, Address: "192.0.2.1"}
}

func redemption(code string) Redemption { return Redemption{code, cli, redirect, verifier} }

func (w *world) code() string {
	w.Helper()
	code, err := w.store.IssueCode(w.Context(), demo, codeRequest())
	w.must(err)
	return code
}

func (w *world) redeem(code string) *Tokens {
	w.Helper()
	tokens, err := w.store.Redeem(w.Context(), demo, redemption(code))
	w.must(err)
	return tokens
}

// refresh exchanges a refresh token and checks the error.
func (w *world) refresh(token string, want error) *Tokens {
	w.Helper()
	tokens, err := w.store.Refresh(w.Context(), demo, cli, token)
	w.is(err, want)
	return tokens
}

// valid checks whether access tokens are valid.
func (w *world) valid(want bool, tokens ...*Tokens) {
	w.Helper()
	for _, t := range tokens {
		g, err := w.store.Find(w.Context(), demo.UID, t.Access)
		if !want {
			w.is(err, ErrUnknown)
			continue
		}
		w.must(err)
		if g.ClientID != cli || g.Subject != "u1" || g.Claims["email"] != "ada@example.com" || g.UserUID != "s1" {
			w.Errorf("the grant is %+v", g)
		}
	}
}
