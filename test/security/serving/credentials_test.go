package serving_test

import (
	"crypto/ed25519"
	"crypto/rand"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/quoin-dev/quoin/test/internal/apiclient"
)

// issuer is an OpenID Connect issuer that counts how often its keys are fetched.
type issuer struct {
	*httptest.Server
	public  ed25519.PublicKey
	key     ed25519.PrivateKey
	fetches atomic.Int64
}

// newIssuer returns an issuer that ends with the process.
func newIssuer() *issuer {
	i := &issuer{}
	i.public, i.key, _ = ed25519.GenerateKey(rand.Reader)
	i.Server = httptest.NewTLSServer(i)
	return i
}

// ServeHTTP serves the configuration and the keys.
func (i *issuer) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	body := map[string]any{"issuer": i.URL, "jwks_uri": i.URL + "/keys"}
	if r.URL.Path == "/keys" {
		i.fetches.Add(1)
		body = map[string]any{"keys": []any{map[string]any{"kty": "OKP", "crv": "Ed25519", "kid": "1", "x": encode(i.public)}}}
	}
	w.Header().Set("Content-Type", "application/json")
	_ = json.NewEncoder(w).Encode(body)
}

func encode(data []byte) string { return base64.RawURLEncoding.EncodeToString(data) }

// token returns a token of a person, signed with a key that has an id.
func (i *issuer) token(email, kid string, key ed25519.PrivateKey) string {
	payload, _ := json.Marshal(map[string]any{"iss": i.URL, "aud": "quoin", "sub": email, "email": email, "exp": time.Now().Add(time.Hour).Unix()})
	text := encode(fmt.Appendf(nil, `{"alg":"EdDSA","kid":%q,"typ":"JWT"}`, kid)) + "." + encode(payload)
	return text + "." + encode(ed25519.Sign(key, []byte(text)))
}

// TestMadeUpOIDCTokens: a client without credential sends tokens that name the issuer of the victim, each with a new key id and
// an invalid signature. A key that is not known is fetched from the issuer, which could have published it since, so each token
// could cause a fetch: the issuer would lock Quoin out, and its users with it. Fetches stay few, and a user who comes for the
// first time is served during the attack and after it.
func TestMadeUpOIDCTokens(t *testing.T) {
	const tokens, mostFetches = 500, 60
	_, forged, _ := ed25519.GenerateKey(rand.Reader)
	served := func(when string) {
		t.Helper()
		if a := get(t, from(t, 1), victim, "/api/v1/deployments", idp.token(when+"@example.com", "1", idp.key)); a.Status != http.StatusOK {
			t.Errorf("a user %s the attack: %d %s", when, a.Status, a.Body)
		}
	}
	served("before")
	before, client, statuses := idp.fetches.Load(), from(t, 21), map[int]int{}
	for i := range tokens {
		statuses[get(t, client, victim, "/api/v1/deployments", idp.token("mallory@example.com", rand.Text(), forged)).Status]++
		if i == tokens/2 {
			served("during")
		}
	}
	served("after")
	fetches := idp.fetches.Load() - before
	t.Logf("%d made-up tokens: %d fetches of keys, statuses %v", tokens, fetches, statuses)
	if fetches > mostFetches || statuses[http.StatusTooManyRequests] == 0 || statuses[http.StatusOK] > 0 {
		t.Errorf("%d made-up tokens caused %d fetches of keys, want at most %d; statuses %v", tokens, fetches, mostFetches, statuses)
	}
}

// TestMadeUpGitHooks: a client without credential posts push hooks with made-up signatures for all numbers that a deployment
// could have. To check a signature, the server reads the Secret of the deployment, or one that does not exist. Reads of Secrets
// stay few, most hooks are refused with 429, and hooks from other addresses are checked, also for the same account.
func TestMadeUpGitHooks(t *testing.T) {
	for i, route := range []string{"git-hook", "dbt-hook"} {
		t.Run(route, func(t *testing.T) { testMadeUpHooks(t, route, byte(22+100*i)) })
	}
}

// testMadeUpHooks posts hooks to a route, from the loopback address with a number and the next one.
func testMadeUpHooks(t *testing.T, route string, address byte) {
	const hooks, mostReads = 400, 150
	post := func(client *http.Client, number int) int {
		t.Helper()
		a, err := apiclient.Request{
			Method: http.MethodPost, URL: fmt.Sprintf("https://%s/build/api/v1/deployments/%d/%s", victim, number, route),
			Header: []string{"X-Hub-Signature-256", "sha256=" + strings.Repeat("0", 64), "X-GitHub-Event", "push"}, Body: map[string]any{},
		}.Send(t.Context(), client)
		if err != nil {
			t.Fatal(err)
		}
		return a.Status
	}
	before, attacker, statuses := secretReads.Load(), from(t, address), map[int]int{}
	var mu sync.Mutex
	together(hooks, func(i int) {
		status := post(attacker, 1000+i)
		mu.Lock()
		defer mu.Unlock()
		statuses[status]++
	})
	for i := range 4 {
		if status := post(from(t, address+1), 100_000+i); status != http.StatusUnauthorized {
			t.Errorf("a hook from another address after the attack: %d, want it checked", status)
		}
	}
	reads := secretReads.Load() - before
	t.Logf("%d made-up hooks: %d reads of Secrets, statuses %v", hooks, reads, statuses)
	if reads > mostReads || statuses[http.StatusTooManyRequests] < hooks/2 {
		t.Errorf("%d made-up hooks caused %d reads of Secrets, want at most %d; statuses %v", hooks, reads, mostReads, statuses)
	}
}
