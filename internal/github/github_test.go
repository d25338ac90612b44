package github_test

import (
	"context"
	"crypto/rand"
	"crypto/rsa"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/quoin-dev/quoin/internal/github"
	"github.com/quoin-dev/quoin/internal/github/githubserver"
)

// newServer returns a server with the installations 1, of "acme" with 250 repositories, 2, which is
// suspended, and an App.
func newServer(t *testing.T) (*githubserver.Server, *github.App) {
	t.Helper()
	s, err := githubserver.New(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(s.Close)
	repositories := map[string]*githubserver.Repository{}
	for i := range 250 {
		repositories[fmt.Sprintf("r%03d", i)] = &githubserver.Repository{ID: int64(i + 1), Branches: []string{"main"}}
	}
	for i := range 120 {
		repositories["r000"].Branches = append(repositories["r000"].Branches, fmt.Sprintf("feature/%d", i))
	}
	s.Installations[1] = &githubserver.Installation{Login: "acme", Repositories: repositories}
	s.Installations[2] = &githubserver.Installation{Login: "globex", Suspended: true}
	app, err := github.New(s.Options)
	if err != nil {
		t.Fatal(err)
	}
	return s, app
}

func TestListsAreReadInPages(t *testing.T) {
	s, app := newServer(t)
	for _, c := range []struct {
		from, count, want int
		first             string
		more              bool
	}{
		{0, 100, 100, "r000", true}, {0, 1000, 250, "r000", false}, {150, 100, 100, "r150", false}, {99, 2, 2, "r099", true}, {200, 50, 50, "r200", false}, {300, 10, 0, "", false},
	} {
		got, more, err := app.Repositories(t.Context(), 1, c.from, c.count)
		if err != nil || len(got) != c.want || more != c.more || c.want > 0 && got[0].Name != c.first {
			t.Errorf("from %d, %d: %d repositories, more %t, %v", c.from, c.count, len(got), more, err)
		}
	}
	if len(s.Tokens) != 1 {
		t.Errorf("%d tokens for six lists, want 1", len(s.Tokens))
	}
	branches, more, err := app.Branches(t.Context(), 1, "acme", "r000", 0, 121)
	if err != nil || more || len(branches) != 121 || branches[0] != "main" {
		t.Errorf("%d branches, more %t, %v", len(branches), more, err)
	}
	for branch, want := range map[string]bool{"feature/7": true, "gone": false, "a/../../..": false, "": false} {
		if got, err := app.HasBranch(t.Context(), 1, "acme", "r000", branch); err != nil || got != want {
			t.Errorf("branch %q: %t, %v", branch, got, err)
		}
	}
}

// GitHub has no refs of a repository without commits.
func TestAnEmptyRepositoryHasNoBranch(t *testing.T) {
	s, app := newServer(t)
	s.Fail = func(w http.ResponseWriter, r *http.Request) bool {
		if !strings.HasSuffix(r.URL.Path, "/acme/r000/git/ref/heads/main") {
			return false
		}
		w.WriteHeader(http.StatusConflict)
		_, _ = w.Write([]byte(`{"message": "Git Repository is empty."}`))
		return true
	}
	if got, err := app.HasBranch(t.Context(), 1, "acme", "r000", "main"); err != nil || got {
		t.Errorf("%t, %v", got, err)
	}
}

func TestInstallationsAndRepositories(t *testing.T) {
	_, app := newServer(t)
	got, err := app.Installation(t.Context(), 1)
	if err != nil || got.ID != 1 || got.AccountID != 1001 || got.Login != "acme" || got.AvatarURL == "" || got.Settings == "" || got.Suspended {
		t.Errorf("%+v, %v", got, err)
	}
	if got, err := app.Installation(t.Context(), 2); err != nil || !got.Suspended {
		t.Errorf("%+v, %v", got, err)
	}
	r, err := app.Repository(t.Context(), 1, "acme", "r007")
	if err != nil || r.ID != 8 || r.Owner != "acme" || r.Name != "r007" || r.DefaultBranch != "main" || r.HTMLURL == "" {
		t.Errorf("%+v, %v", r, err)
	}
	clone := app.CloneURL("acme", "r007")
	if owner, name, ok := app.RepositoryOf(clone); !ok || owner != "acme" || name != "r007" {
		t.Errorf("%s: %s %s %t", clone, owner, name, ok)
	}
	for _, other := range []string{"https://evil.example/acme/r007.git", clone + "/../x", strings.Replace(clone, "http://", "http://evil@", 1), strings.TrimSuffix(clone, "/r007.git"), strings.Replace(clone, "/acme", ".evil.example/acme", 1)} {
		if _, _, ok := app.RepositoryOf(other); ok {
			t.Errorf("%s is taken for a repository", other)
		}
	}
}

// A token for Git reads one repository and nothing else.
func TestTokensReadOneRepository(t *testing.T) {
	s, app := newServer(t)
	token, err := app.ReadToken(t.Context(), 1, "r001")
	if err != nil || time.Until(token.Expires) < 50*time.Minute {
		t.Fatal(token, err)
	}
	if text := fmt.Sprintf("%v %+v %#v %s", token, token, token, token); strings.Contains(text, token.Reveal()) {
		t.Errorf("a token formats as %s", text)
	}
	for path, want := range map[string]int{"repos/acme/r001": 200, "repos/acme/r002": 404, "repos/acme/r001/hooks": 403} {
		r, err := http.NewRequestWithContext(t.Context(), http.MethodGet, s.URL+"/api/v3/"+path, nil)
		if err != nil {
			t.Fatal(err)
		}
		r.Header.Set("Authorization", "Bearer "+token.Reveal())
		response, err := http.DefaultClient.Do(r)
		if err != nil {
			t.Fatal(err)
		}
		response.Body.Close()
		if response.StatusCode != want {
			t.Errorf("%s: %d, want %d", path, response.StatusCode, want)
		}
	}
	if _, err := app.ReadToken(t.Context(), 1, "gone"); !github.IsReason(err, github.NotFound) {
		t.Errorf("no such repository: %v", err)
	}
}

func TestHooksAreCreatedOnce(t *testing.T) {
	s, app := newServer(t)
	for _, secret := range []string{"first", "second"} {
		if err := app.SetHook(t.Context(), 1, "acme", "r001", "https://acme.example/hook", secret); err != nil {
			t.Fatal(err)
		}
	}
	hooks := s.Installations[1].Repositories["r001"].Hooks
	if len(hooks) != 1 || hooks[0].Config.Secret != "second" || hooks[0].Config.URL != "https://acme.example/hook" || hooks[0].Config.ContentType != "json" || !hooks[0].Active || hooks[0].Events[0] != "push" {
		t.Errorf("%+v", hooks)
	}
	s.Installations[1].NoHooks = true
	if err := app.SetHook(t.Context(), 1, "acme", "r002", "https://acme.example/hook", "x"); !github.IsReason(err, github.NotFound) {
		t.Errorf("without the permission: %v", err)
	}
}

// The hooks of other programs stay.
func TestHooksAreRemoved(t *testing.T) {
	s, app := newServer(t)
	for _, url := range []string{"https://acme.example/hook", "https://ci.example/hook"} {
		if err := app.SetHook(t.Context(), 1, "acme", "r001", url, "secret"); err != nil {
			t.Fatal(err)
		}
	}
	for range 2 { // the second time there is none
		if err := app.RemoveHook(t.Context(), 1, "acme", "r001", "https://acme.example/hook"); err != nil {
			t.Error(err)
		}
	}
	if hooks := s.Installations[1].Repositories["r001"].Hooks; len(hooks) != 1 || hooks[0].Config.URL != "https://ci.example/hook" {
		t.Errorf("%+v", hooks)
	}
	s.Installations[1].NoHooks = true
	if err := app.RemoveHook(t.Context(), 1, "acme", "r001", "https://ci.example/hook"); !github.IsReason(err, github.NotFound) {
		t.Errorf("without the permission: %v", err)
	}
}

// TestPrivateCertificateAuthorities: an Enterprise Server with a certificate of a private authority is trusted with that
// authority only.
func TestPrivateCertificateAuthorities(t *testing.T) {
	s, err := githubserver.NewTLS(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(s.Close)
	s.Installations[1] = &githubserver.Installation{Login: "acme"}
	file := filepath.Join(t.TempDir(), "ca.crt")
	if err := os.WriteFile(file, s.CA, 0o600); err != nil {
		t.Fatal(err)
	}
	for ca, ok := range map[string]bool{"": false, file: true} {
		o := s.Options
		o.CAFile = ca
		app, err := github.New(o)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := app.Installation(t.Context(), 1); (err == nil) != ok || err != nil && !github.IsReason(err, github.Unavailable) {
			t.Errorf("with CA %q: %v", ca, err)
		}
		if ok != (string(app.CA()) == string(s.CA)) {
			t.Errorf("CA is %q", app.CA())
		}
	}
	s.Options.CAFile = s.Options.KeyFile // no certificate
	if _, err := github.New(s.Options); err == nil || !strings.Contains(err.Error(), "no certificates in PEM") {
		t.Errorf("a file without certificates: %v", err)
	}
}

// Every failure of the host is an error with a reason, and no error contains a credential.
func TestFailuresOfTheHost(t *testing.T) {
	stolen := ""
	thief := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) { stolen += r.Header.Get("Authorization") }))
	t.Cleanup(thief.Close)
	status := func(code int, header, body string) func(http.ResponseWriter, *http.Request) bool {
		return func(w http.ResponseWriter, _ *http.Request) bool {
			if name, value, ok := strings.Cut(header, ": "); ok {
				w.Header().Set(name, value)
			}
			w.WriteHeader(code)
			_, _ = w.Write([]byte(body))
			return true
		}
	}
	for name, c := range map[string]struct {
		fail   func(http.ResponseWriter, *http.Request) bool
		reason github.Reason
		words  string
	}{
		"rejects the JWT":  {status(401, "", `{"message": "x"}`), github.Unavailable, "--github-app-id"},
		"internal error":   {status(500, "", "oops"), github.Unavailable, "does not answer"},
		"not JSON":         {status(200, "", "<html>"), github.Unavailable, "does not answer"},
		"too large":        {status(200, "", `{"x": "`+strings.Repeat("x", 9<<20)+`"}`), github.Unavailable, "does not answer"},
		"another host":     {status(302, "Location: "+thief.URL+"/", ""), github.Unavailable, "does not answer"},
		"rate limit":       {status(403, "X-RateLimit-Remaining: 0", "{}"), github.Limited, "limits the number of requests"},
		"suspended":        {status(403, "", "{}"), github.Forbidden, "installation 1"},
		"no installation":  {status(404, "", "{}"), github.NotFound, "installation 1"},
		"empty object":     {status(200, "", "{}"), github.Unavailable, "GitHub returned no"},
		"drops connection": {func(http.ResponseWriter, *http.Request) bool { panic(http.ErrAbortHandler) }, github.Unavailable, "does not answer"},
	} {
		t.Run(name, func(t *testing.T) {
			s, app := newServer(t)
			s.Fail = c.fail
			_, first := app.Installation(t.Context(), 1)
			_, second := app.ReadToken(t.Context(), 1, "r001")
			for _, err := range []error{first, second} {
				var e *github.Error
				if !errors.As(err, &e) || e.Reason != c.reason || !strings.Contains(e.Message, c.words) {
					t.Errorf("%v, want reason %d and %q", err, c.reason, c.words)
					continue
				}
				if text := fmt.Sprint(err, errors.Unwrap(err)); strings.Contains(text, "eyJ") || strings.Contains(text, "PRIVATE") {
					t.Errorf("the error contains a credential: %s", text)
				}
			}
		})
	}
	if stolen != "" {
		t.Errorf("another host received %q", stolen)
	}
}

func TestTimeouts(t *testing.T) {
	s, app := newServer(t)
	s.Fail = func(_ http.ResponseWriter, r *http.Request) bool { <-r.Context().Done(); return true }
	ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	if _, err := app.Installation(ctx, 1); !github.IsReason(err, github.Unavailable) {
		t.Errorf("%v", err)
	}
}

func TestKeys(t *testing.T) {
	s, _ := newServer(t)
	for name, text := range map[string]string{"empty": "", "not PEM": "x", "no key": "-----BEGIN RSA PRIVATE KEY-----\nAAAA\n-----END RSA PRIVATE KEY-----\n"} {
		o := s.Options
		o.KeyFile = filepath.Join(t.TempDir(), "key.pem")
		if err := os.WriteFile(o.KeyFile, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		if _, err := github.New(o); err == nil || strings.Contains(err.Error(), "AAAA") {
			t.Errorf("%s: %v", name, err)
		}
	}
	other, err := rsa.GenerateKey(rand.Reader, 2048)
	if err != nil {
		t.Fatal(err)
	}
	app, err := github.New(s.Options)
	if err != nil {
		t.Fatal(err)
	}
	// The key file is replaced: the next request uses it, and the host does not know it.
	replaced := pem.EncodeToMemory(&pem.Block{Type: "RSA PRIVATE KEY", Bytes: x509.MarshalPKCS1PrivateKey(other)})
	if err := os.WriteFile(s.Options.KeyFile, replaced, 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := app.Installation(t.Context(), 1); !github.IsReason(err, github.Unavailable) || !strings.Contains(err.Error(), "credentials") {
		t.Errorf("with another key: %v", err)
	}
}
