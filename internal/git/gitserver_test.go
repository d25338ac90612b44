package git

import (
	"bytes"
	"encoding/pem"
	"io"
	"log"
	"net/http"
	"net/http/cgi"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

const (
	testUser     = "ci"
	testPassword = "hunter2-do-not-print"
)

// gitEnv returns an environment without the current user's Git configuration.
func gitEnv() []string {
	return append(os.Environ(),
		"GIT_CONFIG_GLOBAL=/dev/null", "GIT_CONFIG_NOSYSTEM=1",
		"GIT_AUTHOR_NAME=t", "GIT_AUTHOR_EMAIL=t@example.com", "GIT_COMMITTER_NAME=t", "GIT_COMMITTER_EMAIL=t@example.com",
	)
}

// repo is a bare repository that tests write with the git binary.
type repo struct {
	t   *testing.T
	dir string
}

// newRepo creates root/name, or skips the test if git is not installed.
func newRepo(t *testing.T, root, name string, initArgs ...string) *repo {
	t.Helper()
	if _, err := exec.LookPath("git"); err != nil {
		t.Skip("SKIPPED: NO GIT BINARY: this test needs a real Git server")
	}
	r := &repo{t: t, dir: filepath.Join(root, name)}
	args := append([]string{"init", "--quiet", "--bare", "--initial-branch=main"}, initArgs...)
	run(t, root, "", append(args, r.dir)...)
	return r
}

func run(t *testing.T, dir, stdin string, args ...string) string {
	t.Helper()
	cmd := exec.Command("git", args...)
	cmd.Dir, cmd.Env, cmd.Stdin = dir, gitEnv(), strings.NewReader(stdin)
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("git %v: %v: %s", args, err, stderr.String())
	}
	return strings.TrimSpace(string(out))
}

func (r *repo) git(args ...string) string { r.t.Helper(); return run(r.t, r.dir, "", args...) }

func (r *repo) blob(content string) string {
	r.t.Helper()
	return run(r.t, r.dir, content, "hash-object", "-w", "--stdin")
}

// treeEntry is a line of git mktree's input.
type treeEntry struct{ mode, kind, hash, name string }

func (r *repo) file(name, content string) treeEntry {
	return treeEntry{"100644", "blob", r.blob(content), name}
}

func (r *repo) link(name, target string) treeEntry {
	return treeEntry{"120000", "blob", r.blob(target), name}
}

func (r *repo) folder(name string, entries ...treeEntry) treeEntry {
	return treeEntry{"040000", "tree", r.tree(entries...), name}
}

func submodule(name string) treeEntry {
	return treeEntry{"160000", "commit", strings.Repeat("1", 40), name}
}

func (r *repo) tree(entries ...treeEntry) string {
	r.t.Helper()
	var in strings.Builder
	for _, e := range entries {
		in.WriteString(e.mode + " " + e.kind + " " + e.hash + "\t" + e.name + "\n")
	}
	return run(r.t, r.dir, in.String(), "mktree", "--missing")
}

// rawTree writes a tree that git mktree rejects.
func (r *repo) rawTree(entries ...treeEntry) string {
	r.t.Helper()
	var in bytes.Buffer
	for _, e := range entries {
		in.WriteString(strings.TrimPrefix(e.mode, "0") + " " + e.name + "\x00")
		for i := 0; i < len(e.hash); i += 2 {
			in.WriteByte(unhex(e.hash[i])<<4 | unhex(e.hash[i+1]))
		}
	}
	return run(r.t, r.dir, in.String(), "hash-object", "-t", "tree", "-w", "--literally", "--stdin")
}

func unhex(c byte) byte {
	if c <= '9' {
		return c - '0'
	}
	return c - 'a' + 10
}

// commit creates a commit of a tree and updates the branch to it.
func (r *repo) commit(branch, tree string, parents ...string) string {
	r.t.Helper()
	args := []string{"commit-tree", tree, "-m", "test"}
	for _, p := range parents {
		args = append(args, "-p", p)
	}
	commit := r.git(args...)
	r.git("update-ref", "refs/heads/"+branch, commit)
	return commit
}

// serveHTTPS serves the repositories under root with git http-backend, over
// TLS with basic authentication. It returns the base URL and the CA.
func serveHTTPS(t *testing.T, root string) (base string, ca []byte) {
	t.Helper()
	server := httptest.NewUnstartedServer(backend(t, root))
	server.Config.ErrorLog = log.New(io.Discard, "", 0) // handshakes that fail on purpose
	server.StartTLS()
	t.Cleanup(server.Close)
	return server.URL, pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: server.Certificate().Raw})
}

func backend(t *testing.T, root string) http.Handler {
	t.Helper()
	path, err := exec.Command("git", "--exec-path").Output()
	if err != nil {
		t.Skip("SKIPPED: NO GIT BINARY: this test needs a real Git server")
	}
	handler := &cgi.Handler{
		Path:   filepath.Join(strings.TrimSpace(string(path)), "git-http-backend"),
		Dir:    root,
		Env:    []string{"GIT_PROJECT_ROOT=" + root, "GIT_HTTP_EXPORT_ALL=1", "GIT_CONFIG_GLOBAL=/dev/null", "GIT_CONFIG_NOSYSTEM=1"},
		Stderr: new(bytes.Buffer),
	}
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		user, password, _ := r.BasicAuth()
		if user != testUser || password != testPassword {
			w.Header().Set("WWW-Authenticate", `Basic realm="test"`)
			http.Error(w, "wrong password "+password, http.StatusUnauthorized)
			return
		}
		handler.ServeHTTP(w, r)
	})
}

// withoutVersion2 makes a server use version 0 of the protocol.
func withoutVersion2(inner http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		r.Header.Del("Git-Protocol")
		inner.ServeHTTP(w, r)
	})
}

// credentials parses a Secret's data, as pairs of key and value.
func credentials(t *testing.T, url string, pairs ...string) Credentials {
	t.Helper()
	data := map[string][]byte{}
	for i := 0; i < len(pairs); i += 2 {
		data[pairs[i]] = []byte(pairs[i+1])
	}
	c, err := ParseCredentials(url, data)
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// httpsFixture returns a repository that is served over HTTPS, with its URL and
// credentials.
func httpsFixture(t *testing.T) (r *repo, url string, creds Credentials) {
	t.Helper()
	root := t.TempDir()
	r = newRepo(t, root, "model.git")
	base, ca := serveHTTPS(t, root)
	url = base + "/model.git"
	return r, url, credentials(t, url, KeyUsername, testUser, KeyPassword, testPassword, KeyCACert, string(ca))
}
