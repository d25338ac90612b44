package contract_test

import (
	"crypto/sha1" // what Git hosts send besides
	"crypto/sha256"
	"fmt"
	"io"
	"maps"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"sync"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/quoin-dev/quoin/test/internal/apiclient"
)

// gitHosts returns push hooks as Git hosts send them, by host.
func (h *hooked) gitHosts() map[string]func(branch, commit string) hook {
	return map[string]func(branch, commit string) hook{
		"GitHub": func(branch, commit string) hook {
			body := fmt.Sprintf(`{"ref":"refs/heads/%s","before":"%040d","after":"%s","repository":{"full_name":"team/model"},"pusher":{"name":"ada"},"commits":[{"id":"%s","message":"Ünïcode ✓ \u2028"}]}`, branch, 0, commit, commit)
			return h.signed(body, "User-Agent", "GitHub-Hookshot/044aadd", "X-GitHub-Event", "push", "X-GitHub-Delivery", "72d3162e-cc78-11e3-81ab-4c9367dc0958",
				"X-GitHub-Hook-ID", "292430182", "X-Hub-Signature", "sha1="+digits(sha1.New, h.secret, body))
		},
		"GitHub, form-encoded": func(branch, commit string) hook {
			body := "payload=" + url.QueryEscape(`{"ref":"refs/heads/`+branch+`","after":"`+commit+`"}`)
			return h.signed(body, "Content-Type", "application/x-www-form-urlencoded", "X-GitHub-Event", "push")
		},
		"Gitea": func(branch, commit string) hook {
			body := "{\n  \"ref\": \"refs/heads/" + branch + "\",\n  \"after\": \"" + commit + "\"\n}"
			signature := digits(sha256.New, h.secret, body)
			return h.signed(body, "X-Gitea-Event", "push", "X-Gitea-Signature", signature, "X-Gogs-Signature", signature, "X-GitHub-Event", "push",
				"X-Hub-Signature", "sha1="+digits(sha1.New, h.secret, body))
		},
		"Gitea, old version": func(branch, commit string) hook {
			body := `{"ref":"refs/heads/` + branch + `","after":"` + commit + `"}`
			return hook{body, []string{"X-Gitea-Event", "push", "X-Gitea-Signature", digits(sha256.New, h.secret, body)}}
		},
		"Bitbucket": func(branch, commit string) hook {
			body := `{"push":{"changes":[{"new":{"name":"` + branch + `","target":{"hash":"` + commit + `"}}}]}}`
			return hook{body, []string{"X-Event-Key", "repo:push", "X-Hub-Signature", "sha256=" + digits(sha256.New, h.secret, body)}}
		},
		"GitLab": func(branch, commit string) hook {
			body := `{"object_kind":"push","ref":"refs/heads/` + branch + `","after":"` + commit + `"}`
			return hook{body, []string{"X-Gitlab-Event", "Push Hook", "X-Gitlab-Instance", "https://gitlab.example.com", "X-Gitlab-Token", h.secret}}
		},
	}
}

// The fetch interval is a day.
func TestPushHooksOfGitHostsTriggerAFetch(t *testing.T) {
	h := newHooked(t, acme, "hooked")
	hosts := h.gitHosts()
	for _, host := range slices.Sorted(maps.Keys(hosts)) {
		t.Run(host, func(t *testing.T) {
			commit := h.push(t, "next", "pushed to "+host)
			h.send(t, hosts[host]("next", commit)).is(202).want("success", true)
			h.follows(t, "next", commit)
		})
	}
	t.Run("new branch", func(t *testing.T) {
		commit := h.push(t, "feature/x", "new")
		h.send(t, hosts["GitHub"]("feature/x", commit)).is(202)
		h.follows(t, "feature/x", commit)
	})
	t.Run("a ping triggers no fetch", func(t *testing.T) {
		before := h.lastRequest(t)
		h.send(t, h.signed(`{"zen":"Design for failure."}`, "X-GitHub-Event", "ping")).is(200).want("success", true)
		if request := h.lastRequest(t); request != before {
			t.Errorf("a fetch was requested at %s", request)
		}
	})
	t.Run("a hook during suspension is processed afterwards", func(t *testing.T) {
		suspend := func(value bool) {
			t.Helper()
			d := object(t, acme, h.id)
			before := d.DeepCopy()
			d.Spec.Suspend = ptr.To(value)
			if err := k8s.Patch(t.Context(), d, client.MergeFrom(before)); err != nil {
				t.Fatal(err)
			}
		}
		suspend(true)
		commit := h.push(t, "next", "pushed while suspended")
		h.send(t, hosts["GitHub"]("next", commit)).is(202)
		suspend(false)
		h.follows(t, "next", commit)
	})
	t.Run("the audit log has an event for each fetch", func(t *testing.T) {
		rows := eventsOf(t, acme, "Received a Git hook", h.id)
		if len(rows) == 0 {
			t.Fatal("no event")
		}
		for _, r := range rows {
			for column, want := range map[string]string{"actor": "system:git-hook/hooked", "deployment_name": "hooked", "object": "Deployment/acme/hooked", "outcome": "succeeded", "source": "rest", "user_email": ""} {
				if r[column] != want {
					t.Errorf("%s is %q, want %q: %v", column, r[column], want, r)
				}
			}
		}
	})
}

// All invalid hooks get the same response, so that it does not reveal which deployments exist.
func TestInvalidGitHooksAreRejectedAlike(t *testing.T) {
	const body = `{"ref":"refs/heads/next"}`
	h, other, foreign := newHooked(t, acme, "guarded"), newHooked(t, acme, "neighbour"), newHooked(t, globex, "guarded")
	before := h.lastRequest(t)
	to := func(id string) *hooked { return &hooked{account: acme, id: id} }
	signature := h.signed(body).headers[1]
	rejected := map[string]*response{
		"no such deployment":               to("999999").send(t, h.signed(body)),
		"a deployment without hooks":       to(acme.id).send(t, h.signed(body)),
		"an id that is never assigned":     to("0").send(t, h.signed(body)),
		"no signature":                     h.send(t, hook{body: body}),
		"another secret":                   h.send(t, hook{body, []string{"X-Hub-Signature-256", "sha256=" + digits(sha256.New, "another secret", body)}}),
		"another body":                     h.send(t, hook{body + " ", h.signed(body).headers}),
		"SHA-1":                            h.send(t, hook{body, []string{"X-Hub-Signature", "sha1=" + digits(sha1.New, h.secret, body)}}),
		"another algorithm":                h.send(t, hook{body, []string{"X-Hub-Signature-256", strings.Replace(signature, "sha256", "sha512", 1)}}),
		"another token":                    h.send(t, hook{body, []string{"X-Gitlab-Token", h.secret + "x"}}),
		"another deployment's secret":      h.send(t, other.signed(body)),
		"another account's secret":         h.send(t, foreign.signed(body)),
		"on the host of another account":   (&hooked{account: globex, id: foreign.id}).send(t, h.signed(body)),
		"an unknown id on another account": (&hooked{account: globex, id: "999998"}).send(t, foreign.signed(body)),
	}
	for name, a := range rejected {
		a.rejected(401, "hook", "signed")
		if string(a.raw) != string(rejected["no signature"].raw) || a.header.Get("WWW-Authenticate") == "" {
			t.Errorf("%s: %s %v", name, a.raw, a.header)
		}
	}
	if request := h.lastRequest(t); request != before {
		t.Errorf("a fetch was requested at %s", request)
	}
	t.Run("an invalid credential takes precedence over a valid signature", func(t *testing.T) {
		caller{acme.host, "Bearer nonsense"}.call(t, "POST", h.path(), body, h.signed(body).headers...).rejected(401, "Authorization")
	})
}

func TestGitHookSecretsAreRotated(t *testing.T) {
	const body = `{"ref":"refs/heads/next"}`
	t.Run("a new secret replaces the old one", func(t *testing.T) {
		h := newHooked(t, acme, "rotated")
		secret := &corev1.Secret{}
		if err := k8s.Get(t.Context(), client.ObjectKey{Namespace: acme.name, Name: "rotated-hooks"}, secret); err != nil {
			t.Fatal(err)
		}
		old := h.signed(body)
		h.secret = "a new secret of acme's rotated"
		secret.Data["secret"] = []byte(h.secret + "\n")
		if err := k8s.Update(t.Context(), secret); err != nil {
			t.Fatal(err)
		}
		apiclient.Soon(t, func() error {
			if a := h.send(t, old); a.status != 401 {
				return fmt.Errorf("status %d with the old secret", a.status)
			}
			return nil
		})
		h.send(t, h.signed(body)).is(202)
	})
	t.Run("a secret that is too short is not used", func(t *testing.T) {
		h := newHooked(t, acme, "short")
		secret := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: acme.name, Name: "short-hooks"}}
		if err := k8s.Patch(t.Context(), secret, client.RawPatch("application/merge-patch+json", []byte(`{"stringData":{"secret":"hunter2"}}`))); err != nil {
			t.Fatal(err)
		}
		apiclient.Soon(t, func() error {
			if a := h.send(t, h.signed(body)); a.status != 401 {
				return fmt.Errorf("status %d with the old secret", a.status)
			}
			return nil
		})
		h.secret = "hunter2"
		h.send(t, h.signed(body)).rejected(401)
	})
}

// On every other route, and with every other method, the sender of a signed hook is unauthenticated.
func TestGitHookSignaturesAuthenticateOneRouteOnly(t *testing.T) {
	h := newHooked(t, acme, "confined")
	before := snapshot(t, acme)
	paths := routes(t)
	paths["/api/scim/v2/Users"], paths["/api/scim/v2/Bulk"] = []string{"GET", "POST"}, []string{"POST"}
	requests := 0
	for path, methods := range paths {
		filled := strings.NewReplacer("{deploymentId}", h.id, "{environmentId}", "1", "{apiKeyId}", "admin").Replace(path)
		if filled == h.path() {
			methods = []string{"GET", "HEAD", "PUT", "PATCH", "DELETE", "OPTIONS"}
		}
		for _, method := range methods {
			for _, body := range []string{"", "{}"} {
				requests++
				signed := h.signed(body, "X-Gitlab-Token", h.secret, "X-HTTP-Method-Override", "POST")
				if a := (caller{host: acme.host}).call(t, method, filled, signed.body, signed.headers...); a.status != 401 {
					t.Errorf("%s %s: %d %s", method, path, a.status, a.raw)
				}
			}
		}
	}
	if requests < 50 {
		t.Errorf("only %d requests", requests)
	}
	for _, path := range []string{h.path() + "/x", h.path() + "%2fx", strings.Replace(h.path(), "/git-hook", "/%67it-hook/../pull", 1), "/x" + h.path(), strings.ToUpper(h.path())} {
		if a := (caller{host: acme.host}).call(t, "POST", path, "{}", h.signed("{}").headers...); a.status != 401 && a.status != 404 {
			t.Errorf("%s: %d %s", path, a.status, a.raw)
		}
	}
	if after := snapshot(t, acme); after != before {
		t.Errorf("the deployments have changed:\n%s\n%s", before, after)
	}
	// Other spellings of the path are equivalent, as on every route.
	for _, path := range []string{h.path() + "/", strings.Replace(h.path(), "git-hook", "%67it-hook", 1)} {
		(caller{host: acme.host}).call(t, "POST", path, "{}", h.signed("{}").headers...).is(202)
	}
}

// With an API key, the route behaves like any other.
func TestGitHookRouteAcceptsAPIKeys(t *testing.T) {
	h := newHooked(t, acme, "keyed")
	admin := acme.as(acme.admin)
	key := func(body map[string]any) caller {
		a := admin.call(t, "POST", "/api/v1/api-keys", body).is(200)
		t.Cleanup(func() { admin.call(t, "DELETE", fmt.Sprintf("/api/v1/api-keys/%s", a.at("id")), nil).is(200) })
		return acme.as(fmt.Sprint(a.at("token")))
	}
	commit := h.push(t, "next", "pushed, with a key")
	key(map[string]any{"permissions": []string{"SchemaUpdate"}, "deploymentIds": []string{h.id}}).call(t, "POST", h.path(), "not even JSON", "Content-Type", "text/plain").is(202)
	h.follows(t, "next", commit)
	if rows := eventsOf(t, acme, "Received a Git hook", h.id); len(rows) != 1 || !strings.HasPrefix(rows[0]["actor"], "key:") {
		t.Errorf("events: %v", rows)
	}
	key(map[string]any{"permissions": []string{"SchemaRead"}}).call(t, "POST", h.path(), nil).rejected(403, "SchemaUpdate")
	key(map[string]any{"permissions": []string{"SchemaUpdate"}, "deploymentIds": []string{acme.id}}).call(t, "POST", h.path(), nil).rejected(403, h.id)
	admin.call(t, "POST", "/build/api/v1/deployments/999999/git-hook", nil).rejected(404, "999999")
	none := create(t, acme, "Nothing to read")
	admin.call(t, "POST", "/build/api/v1/deployments/"+none+"/git-hook", nil).rejected(409, "not in Git")
}

// The status is 413 whether the length is declared or not, and whether the deployment exists or not.
func TestLargeGitHooksAreRejected(t *testing.T) {
	h := newHooked(t, acme, "large")
	const limit = 1 << 20
	body := strings.Repeat("x", limit)
	h.send(t, h.signed(body)).is(202)
	for name, of := range map[string]*hooked{"": h, "unknown, ": {account: acme, id: "999999"}} {
		of.send(t, h.signed(body+"x")).rejected(413, "1048576")
		a := h.signed(body + "x")
		request, err := http.NewRequestWithContext(t.Context(), http.MethodPost, "https://"+acme.host+of.path(), io.MultiReader(strings.NewReader(a.body)))
		if err != nil {
			t.Fatal(err)
		}
		for i := 0; i+1 < len(a.headers); i += 2 {
			request.Header.Set(a.headers[i], a.headers[i+1])
		}
		response, err := httpClient.Do(request)
		if err != nil {
			t.Fatal(err)
		}
		raw, err := io.ReadAll(response.Body)
		_ = response.Body.Close()
		if err != nil || response.StatusCode != http.StatusRequestEntityTooLarge || !strings.Contains(string(raw), "1048576") {
			t.Errorf("%sundeclared length: %d %s %v", name, response.StatusCode, raw, err)
		}
	}
}

// Concurrent hooks are coalesced, and no push is lost.
func TestConcurrentGitHooksAreCoalesced(t *testing.T) {
	h := newHooked(t, globex, "crowded")
	const many = 30
	pushed := make([]string, many)
	branch := func(i int) string { return fmt.Sprintf("crowd-%d", i) }
	var all sync.WaitGroup
	for i := range many {
		all.Go(func() {
			var err error
			if pushed[i], err = h.repository.push(branch(i), "concurrent push"); err != nil {
				t.Error(err)
				return
			}
			for range 3 {
				if a := h.send(t, h.signed(`{"ref":"refs/heads/`+branch(i)+`"}`)); a.status != 202 {
					t.Errorf("%d %s", a.status, a.raw)
				}
			}
		})
	}
	all.Wait()
	for i, commit := range pushed {
		h.follows(t, branch(i), commit)
	}
	if rows := eventsOf(t, globex, "Received a Git hook", h.id); len(rows) == 0 || len(rows) >= 3*many {
		t.Errorf("%d of %d hooks requested a fetch", len(rows), 3*many)
	}
}
