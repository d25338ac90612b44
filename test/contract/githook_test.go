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

	"github.com/quoin-dev/quoin/test/contract/internal/apiclient"
)

// A commit is pushed, the Git host says so in its own way, and the branch is at the commit, though
// the interval is a day.
func TestGitHooks(t *testing.T) {
	h := newHooked(t, acme, "hooked")
	hosts := map[string]func(branch, commit string) hook{
		"GitHub": func(branch, commit string) hook {
			body := fmt.Sprintf(`{"ref":"refs/heads/%s","before":"%040d","after":"%s","repository":{"full_name":"team/model"},"pusher":{"name":"ada"},"commits":[{"id":"%s","message":"Ünïcode ✓ \u2028"}]}`, branch, 0, commit, commit)
			return h.signed(body, "User-Agent", "GitHub-Hookshot/044aadd", "X-GitHub-Event", "push", "X-GitHub-Delivery", "72d3162e-cc78-11e3-81ab-4c9367dc0958",
				"X-GitHub-Hook-ID", "292430182", "X-Hub-Signature", "sha1="+digits(sha1.New, h.secret, body))
		},
		"GitHub, as a form": func(branch, commit string) hook {
			body := "payload=" + url.QueryEscape(`{"ref":"refs/heads/`+branch+`","after":"`+commit+`"}`)
			return h.signed(body, "Content-Type", "application/x-www-form-urlencoded", "X-GitHub-Event", "push")
		},
		"Gitea": func(branch, commit string) hook {
			body := "{\n  \"ref\": \"refs/heads/" + branch + "\",\n  \"after\": \"" + commit + "\"\n}"
			right := digits(sha256.New, h.secret, body)
			return h.signed(body, "X-Gitea-Event", "push", "X-Gitea-Signature", right, "X-Gogs-Signature", right, "X-GitHub-Event", "push",
				"X-Hub-Signature", "sha1="+digits(sha1.New, h.secret, body))
		},
		"Gitea, older": func(branch, commit string) hook {
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
	for _, host := range slices.Sorted(maps.Keys(hosts)) {
		t.Run(host, func(t *testing.T) {
			commit := h.push(t, "next", "pushed to "+host)
			h.send(t, hosts[host]("next", commit)).is(202).want("success", true)
			h.follows(t, "next", commit)
		})
	}
	t.Run("a branch that is new", func(t *testing.T) {
		commit := h.push(t, "feature/x", "new")
		h.send(t, hosts["GitHub"]("feature/x", commit)).is(202)
		h.follows(t, "feature/x", commit)
	})
	t.Run("a ping does nothing", func(t *testing.T) {
		before := h.asked(t)
		h.send(t, h.signed(`{"zen":"Design for failure."}`, "X-GitHub-Event", "ping")).is(200).want("success", true)
		if now := h.asked(t); now != before {
			t.Errorf("it asked for a look at %s", now)
		}
	})
	t.Run("while it is suspended", func(t *testing.T) {
		suspend := func(yes bool) {
			t.Helper()
			d := object(t, acme, h.id)
			before := d.DeepCopy()
			d.Spec.Suspend = ptr.To(yes)
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
	t.Run("the audit log has them", func(t *testing.T) {
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

// Whatever is wrong with a hook, the answer is the same, and nothing is read.
func TestGitHooksThatAreRefused(t *testing.T) {
	const body = `{"ref":"refs/heads/next"}`
	h, other, foreign := newHooked(t, acme, "guarded"), newHooked(t, acme, "neighbour"), newHooked(t, globex, "guarded")
	before := h.asked(t)
	to := func(id string) *hooked { return &hooked{account: acme, id: id} }
	right := h.signed(body).headers[1]
	refused := map[string]*answer{
		"no such deployment":                   to("999999").send(t, h.signed(body)),
		"a deployment that takes no hooks":     to(acme.id).send(t, h.signed(body)),
		"the number of no deployment":          to("0").send(t, h.signed(body)),
		"no signature":                         h.send(t, hook{body: body}),
		"another secret":                       h.send(t, hook{body, []string{"X-Hub-Signature-256", "sha256=" + digits(sha256.New, "another secret", body)}}),
		"another body":                         h.send(t, hook{body + " ", h.signed(body).headers}),
		"SHA-1":                                h.send(t, hook{body, []string{"X-Hub-Signature", "sha1=" + digits(sha1.New, h.secret, body)}}),
		"another algorithm's name":             h.send(t, hook{body, []string{"X-Hub-Signature-256", strings.Replace(right, "sha256", "sha512", 1)}}),
		"another token":                        h.send(t, hook{body, []string{"X-Gitlab-Token", h.secret + "x"}}),
		"another deployment's secret":          h.send(t, other.signed(body)),
		"another account's secret":             h.send(t, foreign.signed(body)),
		"on the host of the other account":     (&hooked{account: globex, id: foreign.id}).send(t, h.signed(body)),
		"a number that is the other account's": (&hooked{account: globex, id: "999998"}).send(t, foreign.signed(body)),
	}
	for name, a := range refused {
		a.refused(401, "hook", "signed")
		if string(a.raw) != string(refused["no signature"].raw) || a.header.Get("WWW-Authenticate") == "" {
			t.Errorf("%s: %s %v", name, a.raw, a.header)
		}
	}
	if now := h.asked(t); now != before {
		t.Errorf("it has been asked for a look at %s", now)
	}
	t.Run("with a credential, that counts", func(t *testing.T) {
		as{acme.host, "Bearer nonsense"}.call(t, "POST", h.path(), body, h.signed(body).headers...).refused(401, "Authorization")
	})
	t.Run("a new secret counts, and the old one no more", func(t *testing.T) {
		secret := &corev1.Secret{}
		if err := k8s.Get(t.Context(), client.ObjectKey{Namespace: acme.name, Name: "guarded-hooks"}, secret); err != nil {
			t.Fatal(err)
		}
		old := h.signed(body)
		h.secret = "a new secret of acme's guarded"
		secret.Data["secret"] = []byte(h.secret + "\n")
		if err := k8s.Update(t.Context(), secret); err != nil {
			t.Fatal(err)
		}
		apiclient.Soon(t, func() error {
			if a := h.send(t, old); a.status != 401 {
				return fmt.Errorf("the old one is answered %d", a.status)
			}
			return nil
		})
		h.send(t, h.signed(body)).is(202)
	})
	t.Run("a short secret is none", func(t *testing.T) {
		secret := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: acme.name, Name: "neighbour-hooks"}}
		if err := k8s.Patch(t.Context(), secret, client.RawPatch("application/merge-patch+json", []byte(`{"stringData":{"secret":"hunter2"}}`))); err != nil {
			t.Fatal(err)
		}
		apiclient.Soon(t, func() error {
			if a := other.send(t, other.signed(body)); a.status != 401 {
				return fmt.Errorf("the old one is answered %d", a.status)
			}
			return nil
		})
		other.secret = "hunter2"
		other.send(t, other.signed(body)).refused(401)
	})
}

// A signature opens one door: on every other route, and with every other method, its sender is
// nobody.
func TestGitHooksAreForOneRoute(t *testing.T) {
	h := newHooked(t, acme, "confined")
	before := snapshot(t, acme)
	paths := routes(t)
	paths["/api/scim/v2/Users"], paths["/api/scim/v2/Bulk"] = []string{"GET", "POST"}, []string{"POST"}
	asked := 0
	for path, methods := range paths {
		filled := strings.NewReplacer("{deploymentId}", h.id, "{environmentId}", "1", "{apiKeyId}", "admin").Replace(path)
		if filled == h.path() {
			methods = []string{"GET", "HEAD", "PUT", "PATCH", "DELETE", "OPTIONS"}
		}
		for _, method := range methods {
			for _, body := range []string{"", "{}"} {
				asked++
				what := h.signed(body, "X-Gitlab-Token", h.secret, "X-HTTP-Method-Override", "POST")
				if a := (as{host: acme.host}).call(t, method, filled, what.body, what.headers...); a.status != 401 {
					t.Errorf("%s %s: %d %s", method, path, a.status, a.raw)
				}
			}
		}
	}
	if asked < 50 {
		t.Errorf("only %d requests: this test shows nothing", asked)
	}
	for _, path := range []string{h.path() + "/x", h.path() + "%2fx", strings.Replace(h.path(), "/git-hook", "/%67it-hook/../pull", 1), "/x" + h.path(), strings.ToUpper(h.path())} {
		if a := (as{host: acme.host}).call(t, "POST", path, "{}", h.signed("{}").headers...); a.status != 401 && a.status != 404 {
			t.Errorf("%s: %d %s", path, a.status, a.raw)
		}
	}
	if after := snapshot(t, acme); after != before {
		t.Errorf("deployments have changed:\n%s\n%s", before, after)
	}
	// One spelling of the path is as good as another, as on every route.
	for _, path := range []string{h.path() + "/", strings.Replace(h.path(), "git-hook", "%67it-hook", 1)} {
		(as{host: acme.host}).call(t, "POST", path, "{}", h.signed("{}").headers...).is(202)
	}
}

// The route is one like others for whoever has a key.
func TestGitHookWithAKey(t *testing.T) {
	h := newHooked(t, acme, "keyed")
	admin := acme.as(acme.admin)
	key := func(body map[string]any) as {
		a := admin.call(t, "POST", "/api/v1/api-keys", body).is(200)
		t.Cleanup(func() { admin.call(t, "DELETE", fmt.Sprintf("/api/v1/api-keys/%s", a.at("id")), nil).is(200) })
		return acme.as(fmt.Sprint(a.at("token")))
	}
	commit := h.push(t, "next", "pushed, and told with a key")
	key(map[string]any{"permissions": []string{"SchemaUpdate"}, "deploymentIds": []string{h.id}}).call(t, "POST", h.path(), "not even JSON", "Content-Type", "text/plain").is(202)
	h.follows(t, "next", commit)
	if rows := eventsOf(t, acme, "Received a Git hook", h.id); len(rows) != 1 || !strings.HasPrefix(rows[0]["actor"], "key:") {
		t.Errorf("events: %v", rows)
	}
	key(map[string]any{"permissions": []string{"SchemaRead"}}).call(t, "POST", h.path(), nil).refused(403, "SchemaUpdate")
	key(map[string]any{"permissions": []string{"SchemaUpdate"}, "deploymentIds": []string{acme.id}}).call(t, "POST", h.path(), nil).refused(403, h.id)
	admin.call(t, "POST", "/build/api/v1/deployments/999999/git-hook", nil).refused(404, "999999")
	none := create(t, acme, "Nothing to read")
	admin.call(t, "POST", "/build/api/v1/deployments/"+none+"/git-hook", nil).refused(409, "not in Git")
}

// A body that is too large is said to be, whether its length is declared or not, and whether there
// is such a deployment or not.
func TestGitHooksThatAreTooLarge(t *testing.T) {
	h := newHooked(t, acme, "large")
	const limit = 1 << 20
	body := strings.Repeat("x", limit)
	h.send(t, h.signed(body)).is(202)
	for name, of := range map[string]*hooked{"": h, "unknown, ": {account: acme, id: "999999"}} {
		of.send(t, h.signed(body+"x")).refused(413, "1048576")
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
		_ = response.Body.Close() // it has been read
		if err != nil || response.StatusCode != http.StatusRequestEntityTooLarge || !strings.Contains(string(raw), "1048576") {
			t.Errorf("%sof a length that is not declared: %d %s %v", name, response.StatusCode, raw, err)
		}
	}
}

// Many push at once. Most of their hooks cost nothing, and no push is lost.
func TestGitHooksAtOnce(t *testing.T) {
	h := newHooked(t, globex, "crowded")
	const many = 30
	pushed := make([]string, many)
	branch := func(i int) string { return fmt.Sprintf("crowd-%d", i) }
	var all sync.WaitGroup
	for i := range many {
		all.Go(func() {
			var err error
			if pushed[i], err = h.repository.push(branch(i), "pushed by many"); err != nil {
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
		t.Errorf("%d of %d hooks have asked for a look", len(rows), 3*many)
	}
}
