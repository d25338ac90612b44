package git

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

// The environment variables with the options of a fetch in a child process.
const (
	childURL    = "QUOIN_TEST_FETCH_URL"
	childCommit = "QUOIN_TEST_FETCH_COMMIT"
	childDir    = "QUOIN_TEST_FETCH_DIR"
)

// TestMain fetches, instead of running tests, in the child processes of
// TestFetchSurvivesKill.
func TestMain(m *testing.M) {
	url := os.Getenv(childURL)
	if url == "" {
		os.Exit(m.Run())
	}
	creds, err := ParseCredentials(url, map[string][]byte{KeyUsername: []byte(testUser), KeyPassword: []byte(testPassword)})
	if err == nil {
		_, err = New(Options{AllowInsecure: true}).Fetch(context.Background(), FetchOptions{
			URL: url, Creds: creds, Commit: os.Getenv(childCommit), Path: "model", Dir: os.Getenv(childDir),
		})
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

// TestFetchSurvivesKill kills fetches at random times. After each, the target
// is absent or holds one of the two commits completely; the last fetch removes
// the leftovers.
func TestFetchSurvivesKill(t *testing.T) {
	const files = 300
	root := t.TempDir()
	r := newRepo(t, root, "model.git")
	var commits [2]string
	for version := range commits {
		var entries []treeEntry
		for i := range files {
			entries = append(entries, treeEntry{"100644", "blob", "", fmt.Sprintf("f%03d.yml", i)})
		}
		hash := r.blob(fmt.Sprint("version ", version))
		for i := range entries {
			entries[i].hash = hash
		}
		commits[version] = r.commit(fmt.Sprint("v", version), r.tree(r.folder("model", entries...)))
	}
	server := httptest.NewServer(backend(t, root))
	t.Cleanup(server.Close)
	dir := filepath.Join(t.TempDir(), "model")
	child := func(commit string) *exec.Cmd {
		cmd := exec.Command(os.Args[0])
		cmd.Env = append(os.Environ(), childURL+"="+server.URL+"/model.git", childCommit+"="+commit, childDir+"="+dir)
		return cmd
	}
	began := time.Now()
	if out, err := child(commits[0]).CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	duration := time.Since(began)
	for i := range 12 {
		cmd := child(commits[i%2])
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		time.Sleep(time.Duration(rand.Int64N(int64(duration))))
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
		checkWhole(t, dir, files)
	}
	if out, err := child(commits[1]).CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	if got := listing(t, dir); len(got) != files || got["f000.yml"] != "version 1" {
		t.Errorf("%d files, the first is %q", len(got), got["f000.yml"])
	}
	onlyTarget(t, dir)
}

// checkWhole fails unless dir is absent or holds the files of one version.
func checkWhole(t *testing.T, dir string, files int) {
	t.Helper()
	entries, err := fs.Glob(os.DirFS(filepath.Dir(dir)), filepath.Base(dir)+"/*")
	if err != nil {
		t.Fatal(err)
	}
	if _, err := os.Lstat(dir); err != nil && len(entries) == 0 {
		return
	}
	versions := map[string]bool{}
	for _, content := range listing(t, dir) {
		versions[content] = true
	}
	if len(entries) != files || len(versions) != 1 {
		t.Errorf("incomplete target: %d files of %d version(s): %s", len(entries), len(versions), strings.Join(entries[:min(3, len(entries))], ", "))
	}
}

func TestFetchKeepsTargetOnFailure(t *testing.T) {
	r, url, creds := httpsFixture(t)
	good := r.commit("main", r.tree(r.file("a.yml", "good")))
	bad := r.commit("bad", r.tree(r.file("a.yml", "bad"), r.link("z.yml", "/etc/passwd")))
	dir := filepath.Join(t.TempDir(), "model")
	fetch := func(commit string) error {
		_, err := New(Options{}).Fetch(t.Context(), FetchOptions{URL: url, Creds: creds, Commit: commit, Dir: dir})
		return err
	}
	if err := fetch(good); err != nil {
		t.Fatal(err)
	}
	if err := fetch(bad); !errors.Is(err, ErrInvalidTree) {
		t.Fatalf("error %v, want ErrInvalidTree", err)
	}
	if diff := cmp.Diff(map[string]string{"a.yml": "good"}, listing(t, dir)); diff != "" {
		t.Error(diff)
	}
	stale := filepath.Join(filepath.Dir(dir), ".model.fetch-123")
	if err := os.MkdirAll(filepath.Join(stale, "tree"), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := fetch(good); err != nil {
		t.Fatal(err)
	}
	onlyTarget(t, dir)
}

// TestFetchHonoursContext uses servers that stop responding after the refs and
// in the middle of a pack.
func TestFetchHonoursContext(t *testing.T) {
	root := t.TempDir()
	r := newRepo(t, root, "model.git")
	commit := r.commit("main", r.tree(r.file("a.yml", strings.Repeat("a", 1000))))
	inner := backend(t, root)
	tests := map[string]func(w http.ResponseWriter, req *http.Request){
		"silent": func(_ http.ResponseWriter, req *http.Request) {
			_, _ = io.Copy(io.Discard, req.Body) // a server detects a disconnect only after it has read the body
			<-req.Context().Done()
		},
		"middle of the pack": func(w http.ResponseWriter, req *http.Request) {
			recorder := httptest.NewRecorder()
			inner.ServeHTTP(recorder, req)
			body := recorder.Body.Bytes()
			w.Header().Set("Content-Type", recorder.Header().Get("Content-Type"))
			_, _ = w.Write(body[:len(body)/2])
			w.(http.Flusher).Flush()
			<-req.Context().Done()
		},
	}
	for name, upload := range tests {
		t.Run(name, func(t *testing.T) {
			var requested atomic.Bool
			server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
				if req.Method == http.MethodPost {
					requested.Store(true)
					upload(w, req)
					return
				}
				withoutVersion2(inner).ServeHTTP(w, req)
			}))
			t.Cleanup(server.Close)
			url := server.URL + "/model.git"
			creds := credentials(t, url, KeyUsername, testUser, KeyPassword, testPassword)
			ctx, cancel := context.WithTimeout(t.Context(), 300*time.Millisecond)
			defer cancel()
			dir := filepath.Join(t.TempDir(), "model")
			_, err := New(Options{AllowInsecure: true}).Fetch(ctx, FetchOptions{URL: url, Creds: creds, Commit: commit, Dir: dir})
			if !errors.Is(err, ErrUnreachable) || !errors.Is(err, context.DeadlineExceeded) {
				t.Errorf("error %v, want ErrUnreachable and DeadlineExceeded", err)
			}
			if !requested.Load() {
				t.Error("the pack was not requested")
			}
			onlyTarget(t, dir)
		})
	}
}
