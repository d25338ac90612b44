package modelfetch

import (
	"bytes"
	"encoding/pem"
	"net/http"
	"net/http/cgi"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/quoin-dev/quoin/internal/git"
)

const password = "hunter2-do-not-print"

// run runs git in dir and returns its output.
func run(t *testing.T, dir string, args ...string) string {
	t.Helper()
	cmd := exec.Command("git", args...)
	cmd.Dir = dir
	cmd.Env = append(os.Environ(), "GIT_CONFIG_GLOBAL=/dev/null", "GIT_CONFIG_NOSYSTEM=1",
		"GIT_AUTHOR_NAME=t", "GIT_AUTHOR_EMAIL=t@example.com", "GIT_COMMITTER_NAME=t", "GIT_COMMITTER_EMAIL=t@example.com")
	out, err := cmd.CombinedOutput()
	if err != nil {
		t.Fatalf("git %v: %v: %s", args, err, out)
	}
	return strings.TrimSpace(string(out))
}

// serveModel serves a repository with model/a.yml with git http-backend over
// TLS; the first requests fail with 503.
func serveModel(t *testing.T, failures int32) (url, commit string, ca []byte) {
	t.Helper()
	if _, err := exec.LookPath("git"); err != nil {
		t.Skip("SKIPPED: NO GIT BINARY: this test needs a real Git server")
	}
	root := t.TempDir()
	work := filepath.Join(root, "repo")
	run(t, root, "init", "--quiet", "--initial-branch=main", work)
	if err := os.Mkdir(filepath.Join(work, "model"), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(work, "model", "a.yml"), []byte("cubes: []\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	run(t, work, "add", ".")
	run(t, work, "commit", "--quiet", "-m", "model")

	backend := &cgi.Handler{
		Path: filepath.Join(run(t, root, "--exec-path"), "git-http-backend"),
		Env:  []string{"GIT_PROJECT_ROOT=" + root, "GIT_HTTP_EXPORT_ALL=1", "GIT_CONFIG_GLOBAL=/dev/null", "GIT_CONFIG_NOSYSTEM=1"},
	}
	var requests atomic.Int32
	server := httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if requests.Add(1) <= failures {
			http.Error(w, password, http.StatusServiceUnavailable)
			return
		}
		if _, got, _ := r.BasicAuth(); got != password {
			http.Error(w, password, http.StatusUnauthorized)
			return
		}
		backend.ServeHTTP(w, r)
	}))
	t.Cleanup(server.Close)
	ca = pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: server.Certificate().Raw})
	return server.URL + "/repo/.git", run(t, work, "rev-parse", "HEAD"), ca
}

func secretDir(t *testing.T, pairs ...string) string {
	t.Helper()
	dir := t.TempDir()
	for i := 0; i < len(pairs); i += 2 {
		if err := os.WriteFile(filepath.Join(dir, pairs[i]), []byte(pairs[i+1]), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return dir
}

func TestRunAgainstGitServer(t *testing.T) {
	url, commit, ca := serveModel(t, 1)
	volume := t.TempDir()
	target := filepath.Join(volume, "project")
	args := func(secret string) []string {
		return []string{"--url", url, "--commit", commit, "--ref", "main", "--path", "model", "--target", target, "--credentials-dir", secret}
	}
	var stdout, stderr bytes.Buffer
	good := secretDir(t, git.KeyUsername, "ci", git.KeyPassword, password, git.KeyCACert, string(ca))
	if code := Run(t.Context(), args(good), &stdout, &stderr); code != exitDone {
		t.Fatalf("code %d: %s", code, stderr.String())
	}
	content, err := os.ReadFile(filepath.Join(target, "model", "a.yml"))
	if err != nil || string(content) != "cubes: []\n" {
		t.Errorf("a.yml is %q, %v", content, err)
	}
	if !strings.Contains(stdout.String(), "unexpected status 503") || !strings.Contains(stdout.String(), "(files: 1, bytes: 10)") {
		t.Errorf("output %q", stdout.String())
	}
	entries, err := os.ReadDir(target)
	if err != nil || len(entries) != 2 || entries[0].Name() != "cube.js" {
		t.Errorf("the target holds %v, %v, want the default configuration and the model", entries, err)
	}

	if err := os.RemoveAll(target); err != nil {
		t.Fatal(err)
	}
	wrong := secretDir(t, git.KeyUsername, "ci", git.KeyPassword, password+"x", git.KeyCACert, string(ca))
	if code := Run(t.Context(), args(wrong), &stdout, &stderr); code != exitFailed {
		t.Errorf("wrong password: code %d", code)
	}
	if want := "model-fetch: repository " + url + ": unauthorized\n"; stderr.String() != want {
		t.Errorf("stderr %q, want %q", stderr.String(), want)
	}
	if text := stdout.String() + stderr.String(); strings.Contains(text, password) {
		t.Errorf("%q shows a secret", text)
	}
}
