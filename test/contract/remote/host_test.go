package remote_test

import (
	"bytes"
	"fmt"
	"net/http"
	"net/http/cgi"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
)

const (
	user     = "ci"
	password = "hunter2-do-not-print"
)

// host is a Git host with one repository, model.git: git http-backend behind basic authentication.
type host struct {
	testing.TB
	dir, url string

	mu sync.Mutex
	// intercept, if not nil, is called for each request; it returns true if it has answered it.
	intercept func(w http.ResponseWriter, r *http.Request) bool
	requests  []string
	backend   http.Handler
}

// environment returns one without the current user's Git configuration.
func environment() []string {
	return append(os.Environ(),
		"GIT_CONFIG_GLOBAL=/dev/null", "GIT_CONFIG_NOSYSTEM=1",
		"GIT_AUTHOR_NAME=t", "GIT_AUTHOR_EMAIL=t@example.com", "GIT_COMMITTER_NAME=t", "GIT_COMMITTER_EMAIL=t@example.com",
	)
}

// newHost returns a host whose branch main has the file model/a.yml.
func newHost(t testing.TB) *host {
	t.Helper()
	path, err := exec.Command("git", "--exec-path").Output()
	if err != nil {
		t.Skip("SKIPPED: NO GIT BINARY: this test needs a real Git server")
	}
	root := t.TempDir()
	h := &host{TB: t, dir: filepath.Join(root, "model.git")}
	h.run(root, "", "init", "--quiet", "--bare", "--initial-branch=main", h.dir)
	h.git("config", "http.receivepack", "true")
	backend := &cgi.Handler{
		Path: filepath.Join(strings.TrimSpace(string(path)), "git-http-backend"), Dir: root, Stderr: new(bytes.Buffer),
		Env: []string{"GIT_PROJECT_ROOT=" + root, "GIT_HTTP_EXPORT_ALL=1", "GIT_CONFIG_GLOBAL=/dev/null", "GIT_CONFIG_NOSYSTEM=1"},
	}
	h.backend = backend
	server := httptest.NewServer(http.HandlerFunc(h.serve))
	t.Cleanup(server.Close)
	h.url = server.URL + "/model.git"
	h.push("main", map[string]string{"model/a.yml": "one\ntwo\nthree\n"})
	return h
}

func (h *host) serve(w http.ResponseWriter, r *http.Request) {
	h.mu.Lock()
	intercept := h.intercept
	h.requests = append(h.requests, r.Method+" "+r.URL.RequestURI())
	h.mu.Unlock()
	if given, secret, _ := r.BasicAuth(); given != user || secret != password {
		w.Header().Set("WWW-Authenticate", `Basic realm="test"`)
		http.Error(w, "unauthorized", http.StatusUnauthorized)
		return
	}
	if intercept == nil || !intercept(w, r) {
		h.backend.ServeHTTP(w, r)
	}
}

// accept serves a request and discards the response.
func (h *host) accept(r *http.Request) { h.backend.ServeHTTP(httptest.NewRecorder(), r) }

// onRequest sets what happens with requests; nil for nothing.
func (h *host) onRequest(f func(w http.ResponseWriter, r *http.Request) bool) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.intercept = f
}

// oncePushed calls f before the next push is served.
func (h *host) oncePushed(f func()) {
	var once sync.Once
	h.onRequest(func(_ http.ResponseWriter, r *http.Request) bool {
		if isPush(r) {
			once.Do(f)
		}
		return false
	})
}

// isPush reports whether a request is the one of a push that has the objects.
func isPush(r *http.Request) bool {
	return r.Method == http.MethodPost && strings.HasSuffix(r.URL.Path, "/git-receive-pack")
}

// count returns the number of requests with a text since the last call.
func (h *host) count(text string) (n int) {
	h.mu.Lock()
	defer h.mu.Unlock()
	for _, request := range h.requests {
		if strings.Contains(request, text) {
			n++
		}
	}
	h.requests = nil
	return n
}

// hook makes the host run a script before it accepts a push; none if it is empty.
func (h *host) hook(script string) {
	h.Helper()
	path := filepath.Join(h.dir, "hooks", "pre-receive")
	_ = os.Remove(path)
	if script == "" {
		return
	}
	if err := os.WriteFile(path, []byte("#!/bin/sh\n"+script+"\n"), 0o700); err != nil {
		h.Fatal(err)
	}
}

func (h *host) run(dir, stdin string, args ...string) string {
	h.Helper()
	cmd := exec.Command("git", args...)
	cmd.Dir, cmd.Env, cmd.Stdin = dir, environment(), strings.NewReader(stdin)
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	if err != nil {
		h.Fatalf("git %v: %v: %s", args, err, stderr.String())
	}
	return strings.TrimSpace(string(out))
}

func (h *host) git(args ...string) string { h.Helper(); return h.run(h.dir, "", args...) }

// push commits files to a branch, as another client does; an empty text deletes the file.
func (h *host) push(branch string, files map[string]string) string {
	h.Helper()
	index := "GIT_INDEX_FILE=" + filepath.Join(h.TempDir(), "index")
	git := func(stdin string, args ...string) string {
		cmd := exec.Command("git", args...)
		cmd.Dir, cmd.Env, cmd.Stdin = h.dir, append(environment(), index), strings.NewReader(stdin)
		out, err := cmd.CombinedOutput()
		if err != nil {
			h.Fatalf("git %v: %v: %s", args, err, out)
		}
		return strings.TrimSpace(string(out))
	}
	var parents []string
	if head := h.head(branch); head != "" {
		parents = []string{"-p", head}
		git("", "read-tree", head)
	}
	for path, text := range files {
		if text == "" {
			git("", "update-index", "--force-remove", path)
			continue
		}
		blob := git(text, "hash-object", "-w", "--stdin")
		git("", "update-index", "--add", "--cacheinfo", "100644,"+blob+","+path)
	}
	commit := git("", append([]string{"commit-tree", git("", "write-tree"), "-m", "Push"}, parents...)...)
	h.git("update-ref", "refs/heads/"+branch, commit)
	return commit
}

// head returns the commit of a branch; empty if it does not exist.
func (h *host) head(branch string) string {
	h.Helper()
	return h.git("for-each-ref", "--format=%(objectname)", "refs/heads/"+branch)
}

// heads returns the branches with their commits.
func (h *host) heads() string {
	h.Helper()
	return h.git("for-each-ref", "--format=%(refname:short) %(objectname)", "refs/heads")
}

// file returns the text of a file; empty if it does not exist.
func (h *host) file(branch, path string) string {
	h.Helper()
	if h.git("ls-tree", "--name-only", "-r", "refs/heads/"+branch, "--", path) == "" {
		return ""
	}
	return h.git("show", "refs/heads/"+branch+":"+path)
}

// commits returns the number of commits of a branch.
func (h *host) commits(branch string) (n int) {
	h.Helper()
	if _, err := fmt.Sscan(h.git("rev-list", "--count", "refs/heads/"+branch), &n); err != nil {
		h.Fatal(err)
	}
	return n
}
