package serving_test

import (
	"net/http"
	"strings"
	"testing"

	"github.com/quoin-dev/quoin/test/internal/apiclient"
)

// places is the number of requests that a server handles at once.
const places = 500

// works checks that callers of accounts are served.
func works(t *testing.T, hosts map[string]string) {
	t.Helper()
	client := from(t, 1)
	for host, key := range hosts {
		if a := get(t, client, host, "/api/v1/deployments", keys[key]); a.Status != http.StatusOK {
			t.Errorf("%s: %d %s", key, a.Status, a.Body)
		}
	}
}

// TestSlowBodiesOfOneCaller: a caller with a valid key opens as many requests as the server handles at once, announces bodies
// and does not send them. The caller holds at most a tenth of the places; the rest is refused with 429. Other accounts, and
// other callers of the same account, are served meanwhile. The server ends the requests by itself.
func TestSlowBodiesOfOneCaller(t *testing.T) {
	idle(t)
	refused := slowRequests(t, places, 2, post(mallory, "/api/v1/api-keys", "Authorization: Bearer "+keys["mallory-1"]+"\r\n"))
	held := inFlight(t)
	t.Logf("places held: %d of %d; refused: %v", held, places, refused)
	if held > places/10 || refused[http.StatusTooManyRequests] != places-held {
		t.Errorf("the caller holds %d of %d places, at most a tenth is allowed; refused: %v", held, places, refused)
	}
	works(t, map[string]string{victim: "victim-1", mallory: "mallory-2"})
	idle(t)
}

// TestSlowBodiesOfOneAccount: the same attack with the keys of several callers of an account, each of which may hold a tenth of
// the places. The account holds at most a fifth.
func TestSlowBodiesOfOneAccount(t *testing.T) {
	idle(t)
	refused := 0
	for _, name := range []string{"mallory-1", "mallory-2", "mallory-3"} {
		refused += slowRequests(t, places/5, 2, post(mallory, "/api/scim/v2/Users", "Authorization: Bearer "+keys[name]+"\r\n"))[http.StatusTooManyRequests]
	}
	held := inFlight(t)
	t.Logf("places held: %d of %d; refused: %d", held, places, refused)
	if held > places/5 || refused < places/5 {
		t.Errorf("the account holds %d of %d places, at most a fifth is allowed; refused: %d", held, places, refused)
	}
	works(t, map[string]string{victim: "victim-1", other: "other-1"})
}

// TestSlowBodiesWithoutCredential: a client without credential opens push hooks, whose bodies are read before they can be
// authenticated. One address holds at most a tenth of the places.
func TestSlowBodiesWithoutCredential(t *testing.T) {
	idle(t)
	refused := slowRequests(t, places, 3, post(victim, "/build/api/v1/deployments/1/git-hook", "X-Hub-Signature-256: sha256="+
		"0000000000000000000000000000000000000000000000000000000000000000\r\n"))
	held := inFlight(t)
	t.Logf("places held: %d of %d; refused: %v", held, places, refused)
	if held > places/10 || refused[http.StatusTooManyRequests] == 0 {
		t.Errorf("the address holds %d of %d places, at most a tenth is allowed; refused: %v", held, places, refused)
	}
	works(t, map[string]string{victim: "victim-1", other: "other-1"})
}

// TestSlowHooksOfManyAddresses: clients without credential, with many addresses, open as many push hooks as the server reads at
// once and do not send their bodies. The hooks of a Git host are read and checked meanwhile.
func TestSlowHooksOfManyAddresses(t *testing.T) {
	idle(t)
	const addresses, each = 4, 25
	for n := range byte(addresses) {
		slowRequests(t, each, 40+n, post(victim, "/build/api/v1/deployments/1/git-hook", "X-Hub-Signature-256: sha256="+
			"0000000000000000000000000000000000000000000000000000000000000000\r\n"))
	}
	held := inFlight(t)
	t.Logf("places held: %d of %d", held, places)
	if held == 0 {
		t.Error("no body is awaited: the attack proves nothing")
	}
	a, err := apiclient.Request{
		Method: http.MethodPost, URL: "https://" + victim + "/build/api/v1/deployments/1/git-hook",
		Header: []string{"X-Hub-Signature-256", "sha256=" + strings.Repeat("0", 64), "X-GitHub-Event", "push"}, Body: map[string]any{},
	}.Send(t.Context(), from(t, 50))
	if err != nil || a.Status != http.StatusUnauthorized {
		t.Errorf("a hook of another address: %d %s %v, want its signature checked", a.Status, a.Body, err)
	}
}
