package git

import (
	"context"
	"fmt"
	"io/fs"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"
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
	_, err := New(Options{AllowInsecure: true}).Fetch(context.Background(), FetchOptions{
		URL: url, Commit: os.Getenv(childCommit), Path: "model", Dir: os.Getenv(childDir),
	})
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
	dir := filepath.Join(t.TempDir(), "model")
	child := func(commit string) *exec.Cmd {
		cmd := exec.Command(os.Args[0])
		cmd.Env = append(os.Environ(), childURL+"=file://"+r.dir, childCommit+"="+commit, childDir+"="+dir)
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
