package deploytoken

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/golang-jwt/jwt/v5"

	"github.com/quoin-dev/quoin/internal/audit"
	"github.com/quoin-dev/quoin/internal/content"
	"github.com/quoin-dev/quoin/internal/content/contenttest"
	"github.com/quoin-dev/quoin/internal/store"
	"github.com/quoin-dev/quoin/internal/store/storetest"
)

// world is a database with the table of tokens, empty at first.
type world struct {
	*testing.T
	store  *store.Store
	tokens *Tokens
	clock  time.Time
	events []string
}

var cases = []struct {
	name string
	run  func(w *world)
}{
	{"a deploy token is valid until it is replaced", testReplace},
	{"a deploy token that another replica replaces", testReplicas},
	{"a Git token is valid for an hour", testGit},
	{"a token that was changed is not valid", testForgery},
	{"a token is valid in its account only", testTenants},
	{"the database has no token", testAtRest},
	{"expired tokens and those of deleted deployments are purged", testPurge},
	{"Git tokens are bounded", testBound},
}

func TestDatabases(t *testing.T) {
	storetest.ForEach(t, func(t *testing.T, newDatabase func(testing.TB) string) {
		for _, c := range cases {
			t.Run(c.name, func(t *testing.T) { c.run(open(t, newDatabase(t))) })
		}
	})
}

func open(t *testing.T, url string) *world {
	t.Helper()
	st := contenttest.Open(t, url, Owner)
	w := &world{T: t, store: st, clock: time.Date(2026, 11, 22, 12, 0, 0, 0, time.UTC)}
	w.tokens = &Tokens{DB: st, Now: func() time.Time { w.clock = w.clock.Add(time.Millisecond); return w.clock }, Record: func(_ context.Context, _ *store.Tx, e audit.Event) error {
		w.events = append(w.events, e.Name)
		return nil
	}}
	return w
}

func scope(account, deployment string) content.Scope {
	return content.Scope{Account: store.Account{UID: account, Name: "demo"}, Deployment: store.Deployment{UID: deployment, Namespace: "demo", Name: "sales-" + deployment}}
}

// ada is the creator of the tokens.
var ada = Creator{Principal: "User:u1", User: "ada", UserName: "ada@example.com"}

func (w *world) issue(s content.Scope, kind Kind) *Issued {
	w.Helper()
	issued, err := w.tokens.Issue(w.Context(), s, ada, New{Kind: kind, Number: "7", URL: "https://demo.example.com"})
	if err != nil {
		w.Fatal(err)
	}
	return issued
}

func (w *world) find(account, text string) *Token {
	w.Helper()
	found, err := w.tokens.Find(w.Context(), account, text)
	if err != nil {
		w.Fatal(err)
	}
	return found
}

func (w *world) unknown(account, text string) {
	w.Helper()
	if found, err := w.tokens.Find(w.Context(), account, text); !errors.Is(err, ErrUnknown) {
		w.Errorf("found %+v, %v", found, err)
	}
}

func testReplace(w *world) {
	first := w.issue(scope("a1", "d1"), Deploy)
	payload := jwt.MapClaims{}
	if _, _, err := jwt.NewParser().ParseUnverified(first.Token, &payload); err != nil {
		w.Fatal(err)
	}
	if payload["deploymentId"] != "7" || payload["url"] != "https://demo.example.com" || payload["iat"] == nil || payload["exp"] != nil || !first.ExpiresAt.IsZero() {
		w.Errorf("the claims are %v", payload)
	}
	found := w.find("a1", first.Token)
	want := Token{ID: found.ID, Kind: Deploy, Deployment: scope("a1", "d1").Deployment, CreatedBy: ada}
	if *found != want {
		w.Errorf("found %+v, want %+v", *found, want)
	}
	other, git := w.issue(scope("a1", "d2"), Deploy), w.issue(scope("a1", "d1"), Git)
	second := w.issue(scope("a1", "d1"), Deploy)
	w.unknown("a1", first.Token)
	for _, valid := range []*Issued{second, other, git} {
		w.find("a1", valid.Token)
	}
	if got := fmt.Sprint(w.events); got != "[Created deploy token Created deploy token Generated Git credentials for Cube Cloud repository Created deploy token]" {
		w.Error(got)
	}
}

// testReplicas: a replica that has found a token accepts it for a second after another one has replaced it.
func testReplicas(w *world) {
	s := scope("a1", "d1")
	here, there := w.tokens, &Tokens{DB: w.store, Now: w.tokens.Now, Record: w.tokens.Record}
	first := w.issue(s, Deploy)
	w.find("a1", first.Token)
	w.tokens = there
	replaced := w.clock
	second := w.issue(s, Deploy)
	w.unknown("a1", first.Token)
	w.tokens = here
	w.find("a1", second.Token)
	w.find("a1", first.Token)
	w.unknown("a2", first.Token)
	w.clock = replaced.Add(foundLifetime)
	w.unknown("a1", first.Token)
	w.find("a1", second.Token)
}

// TestTokenIsReplacedWhileItIsRead: what was read before a token was replaced is not kept.
func TestTokenIsReplacedWhileItIsRead(t *testing.T) {
	f, now := &found{}, time.Now()
	key := foundKey{account: "a1"}
	keep := stored{until: now.Add(foundLifetime)}
	_, _, changes := f.get(key, now)
	f.forget()
	f.put(key, keep, changes)
	if _, ok, _ := f.get(key, now); ok {
		t.Error("it is kept")
	}
	f.put(key, keep, changes+1)
	if _, ok, _ := f.get(key, now); !ok {
		t.Error("it is not kept after it was read again")
	}
	for i := range 2 * maxFound {
		f.put(foundKey{account: fmt.Sprint(i)}, keep, changes+1)
	}
	if n := len(f.tokens); n > maxFound {
		t.Errorf("%d tokens are kept, want at most %d", n, maxFound)
	}
}

func testGit(w *world) {
	token := w.issue(scope("a1", "d1"), Git)
	w.clock = token.CreatedAt.Add(GitLifetime - time.Second)
	if found := w.find("a1", token.Token); found.Kind != Git || !token.ExpiresAt.Equal(token.CreatedAt.Add(GitLifetime)) {
		w.Errorf("%+v, %s", found, token.ExpiresAt)
	}
	w.clock = w.clock.Add(time.Second)
	w.unknown("a1", token.Token)
}

func testForgery(w *world) {
	token := w.issue(scope("a1", "d1"), Deploy).Token
	parts := strings.Split(token, ".")
	id, _ := IDOf(token)
	forged := func(key []byte, number string) string {
		text, err := jwt.NewWithClaims(jwt.SigningMethodHS256, claims{number, "https://demo.example.com", jwt.RegisteredClaims{ID: id}}).SignedString(key)
		if err != nil {
			w.Fatal(err)
		}
		return text
	}
	none, err := jwt.NewWithClaims(jwt.SigningMethodNone, claims{RegisteredClaims: jwt.RegisteredClaims{ID: id}}).SignedString(jwt.UnsafeAllowNoneSignatureType)
	if err != nil {
		w.Fatal(err)
	}
	for _, text := range []string{
		"", "x", parts[0] + "." + parts[1] + ".", parts[0] + "." + parts[1] + ".AAAA", token + " ", none,
		forged([]byte("guess"), "7"), forged(nil, "8"), strings.ToUpper(token),
	} {
		w.unknown("a1", text)
	}
	w.find("a1", token)
}

func testTenants(w *world) {
	token := w.issue(scope("a1", "d1"), Deploy)
	w.issue(scope("a2", "d2"), Deploy)
	w.unknown("a2", token.Token)
	w.find("a1", token.Token)
}

func testAtRest(w *world) {
	token := w.issue(scope("a1", "d1"), Deploy).Token
	var id, hash, by string
	if err := w.store.Reader().QueryRowContext(w.Context(), "SELECT id, hash, created_by FROM deploy_token").Scan(&id, &hash, &by); err != nil {
		w.Fatal(err)
	}
	for part := range strings.SplitSeq(token, ".") {
		if strings.Contains(id+hash+by, part) {
			w.Errorf("the row %s %s %s has a part of the token", id, hash, by)
		}
	}
	if len(hash) != 64 {
		w.Errorf("the hash is %q", hash)
	}
}

func (w *world) count() (n int) {
	w.Helper()
	if err := w.store.Reader().QueryRowContext(w.Context(), "SELECT COUNT(*) FROM deploy_token").Scan(&n); err != nil {
		w.Fatal(err)
	}
	return n
}

func testPurge(w *world) {
	deploy := w.issue(scope("a1", "d1"), Deploy)
	w.issue(scope("a1", "d1"), Git)
	w.issue(scope("a1", "d2"), Deploy)
	if err := Expire(w.Context(), w.store, w.clock.Add(GitLifetime)); err != nil || w.count() != 2 {
		w.Errorf("%v: %d tokens are left, want 2", err, w.count())
	}
	w.find("a1", deploy.Token)
	err := w.store.Tx(w.Context(), func(tx *store.Tx) error {
		_, err := Owner.Purge(w.Context(), tx, store.Deleted{AccountUID: "a1", DeploymentUID: "d1"}, 10)
		return err
	})
	if err != nil || w.count() != 1 {
		w.Errorf("%v: %d tokens are left, want 1", err, w.count())
	}
	w.clock = w.clock.Add(foundLifetime)
	w.unknown("a1", deploy.Token)
}

func testBound(w *world) {
	first := w.issue(scope("a1", "d1"), Git)
	other := w.issue(scope("a1", "d2"), Git)
	for range MaxGit - 1 {
		w.issue(scope("a1", "d1"), Git)
	}
	w.find("a1", first.Token)
	last := w.issue(scope("a1", "d1"), Git)
	w.unknown("a1", first.Token)
	w.find("a1", last.Token)
	w.find("a1", other.Token)
	if n := w.count(); n != MaxGit+1 {
		w.Errorf("%d tokens", n)
	}
}
