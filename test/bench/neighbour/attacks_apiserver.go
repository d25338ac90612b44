package main

import (
	"context"
	"crypto/rand"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"net/url"
	"strconv"
	"strings"
	"time"

	"github.com/quoin-dev/quoin/apiserver/auth"
)

// slowBodies sends bodies of one octet a second with a valid key, in more requests than the server handles at once.
var slowBodies = repeat(800, func(ctx context.Context, a *attacker, worker int) string {
	path := []string{"/api/v1/api-keys", "/api/scim/v2/Users"}[worker%2]
	return hold(ctx, a.API, a.Attacker.Host, worker, head("POST", path, a.Attacker.Host, bearer(a.Attacker.Key)+slowBody), "{")
})

func victimHost(a *attacker) (address, host string)   { return a.API, a.Victim.Host }
func attackerHost(a *attacker) (address, host string) { return a.API, a.Attacker.Host }

// madeUpTokens sends tokens to the victim that look like those of ServiceAccounts, each another one.
var madeUpTokens = flood(32, victimHost, func(a *attacker, _, _ int) string {
	return head("GET", "/api/v1/deployments", a.Victim.Host, bearer(madeUpToken()))
})

func madeUpToken() string {
	part := func(value any) string {
		text, _ := json.Marshal(value) // of strings and numbers
		return base64.RawURLEncoding.EncodeToString(text)
	}
	now := time.Now()
	return part(map[string]any{"alg": "RS256", "kid": "k"}) + "." + part(map[string]any{
		"iss": "https://kubernetes.default.svc", "sub": "system:serviceaccount:default:robot", "aud": []string{auth.Audience},
		"exp": now.Add(time.Hour).Unix(), "iat": now.Unix(), "jti": rand.Text(),
	}) + "." + base64.RawURLEncoding.EncodeToString([]byte(rand.Text()))
}

// documents requests the discovery and OpenAPI documents of the aggregated API and of the account, with made-up tokens and
// without any.
var documents = flood(32, victimHost, func(a *attacker, worker, n int) string {
	paths := []string{"/apis", "/apis/api.platform.quoin.dev/v1", "/openapi/v2", "/openapi/v3", "/openapi.json", "/docs", "/api/scim/v2/Schemas"}
	host, headers := a.Victim.Host, ""
	if worker%2 == 0 {
		host = "quoin-apiserver.quoin-system.svc"
	}
	if n%2 == 0 {
		headers = bearer(madeUpToken())
	}
	return head("GET", paths[n%len(paths)], host, headers)
})

// filters evaluates filters over the directory of the attacker that no index answers.
var filters = flood(16, attackerHost, func(a *attacker, _, n int) string {
	filter := fmt.Sprintf(`(displayName co "directory" and title ne "x%d") or not (emails.value ew "example.com")`, n)
	return head("GET", "/api/scim/v2/Users?count=100&sortBy=displayName&filter="+url.QueryEscape(filter), a.Attacker.Host, bearer(a.Attacker.Key))
})

// endlessLists reads the whole directory again and again, in the largest pages.
var endlessLists = flood(16, attackerHost, func(a *attacker, _, n int) string {
	return head("GET", "/api/scim/v2/Users?count=1000&startIndex="+strconv.Itoa(1+n%3*1000), a.Attacker.Host, bearer(a.Attacker.Key))
})

// pushHooks sends hooks to the victim with invalid signatures, for several deployments. Half of the workers send their
// bodies slowly.
var pushHooks = func(ctx context.Context, a *attacker) error {
	const bytes = 64 << 10
	body := `{"ref":"refs/heads/main","padding":"` + strings.Repeat("x", bytes) + `"}`
	hook := func(a *attacker, n int) string {
		return head("POST", fmt.Sprintf("/build/api/v1/deployments/%d/git-hook", 1+n%100), a.Victim.Host,
			"X-Hub-Signature-256: sha256="+strings.Repeat("0", 64)+"\r\nContent-Type: application/json\r\nContent-Length: "+strconv.Itoa(len(body))+"\r\n")
	}
	slow := repeat(400, func(ctx context.Context, a *attacker, worker int) string {
		return "slow: " + hold(ctx, a.API, a.Victim.Host, worker, hook(a, worker), "{")
	})
	fast := flood(16, victimHost, func(a *attacker, worker, n int) string { return hook(a, worker+n) + body })
	done := make(chan error, 1)
	go func() { done <- slow(ctx, a) }()
	err := fast(ctx, a)
	if slowErr := <-done; err == nil {
		err = slowErr
	}
	return err
}
