package modelfetch

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/quoin-dev/quoin/internal/git"
)

// script is a fetch that returns errs in order, then succeeds and creates the
// target.
type script struct {
	errs  []error
	calls int
}

func (s *script) fetch(_ context.Context, o git.FetchOptions) (git.FetchResult, error) {
	s.calls++
	if s.calls <= len(s.errs) {
		return git.FetchResult{}, s.errs[s.calls-1]
	}
	return git.FetchResult{Files: 2, Bytes: 30}, os.MkdirAll(o.Dir, 0o755)
}

// result is the outcome of a run.
type result struct {
	Code           int
	Stdout, Stderr string
	Termination    string
	Calls          int
}

func runScript(t *testing.T, s *script, args ...string) result {
	t.Helper()
	var stdout, stderr bytes.Buffer
	termination := filepath.Join(t.TempDir(), "termination-log")
	if err := os.WriteFile(termination, []byte("from the last run"), 0o600); err != nil {
		t.Fatal(err)
	}
	s.calls = 0
	c := command{
		fetch:       func(options) fetchFunc { return s.fetch },
		sleep:       func(ctx context.Context, _ time.Duration) error { return ctx.Err() },
		stdout:      &stdout,
		stderr:      &stderr,
		termination: termination,
	}
	code := c.run(t.Context(), args)
	message, err := os.ReadFile(termination)
	if err != nil {
		t.Fatal(err)
	}
	return result{code, stdout.String(), stderr.String(), string(message), s.calls}
}

func TestRunRetries(t *testing.T) {
	down := fmt.Errorf("repository x: connection refused: %w", git.ErrUnreachable)
	untrusted := fmt.Errorf("repository x: %w: %w", git.ErrUnreachable, git.ErrUntrusted)
	tests := map[string]struct {
		errs   []error
		args   []string
		code   int
		calls  int
		stderr string
	}{
		"success":         {nil, nil, exitDone, 1, ""},
		"transient error": {[]error{down, down, down}, nil, exitDone, 4, ""},
		"no time left":    {[]error{down}, []string{"--timeout=500ms"}, exitFailed, 1, "model-fetch: gave up: repository x: connection refused: unreachable\n"},
		"unauthorized":    {[]error{git.ErrUnauthorized}, nil, exitFailed, 1, "model-fetch: unauthorized\n"},
		"not found":       {[]error{git.ErrCommitNotFound}, nil, exitFailed, 1, "model-fetch: commit not found\n"},
		"too large":       {[]error{git.ErrTooLarge}, nil, exitFailed, 1, "model-fetch: too large\n"},
		"untrusted":       {[]error{untrusted}, nil, exitFailed, 1, "model-fetch: repository x: unreachable: untrusted server\n"},
		"disk":            {[]error{errors.New("no space left on device")}, nil, exitFailed, 1, "model-fetch: no space left on device\n"},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			target := filepath.Join(t.TempDir(), "model")
			got := runScript(t, &script{errs: tt.errs}, append(required("--target="+target), tt.args...)...)
			if got.Code != tt.code || got.Calls != tt.calls || got.Stderr != tt.stderr {
				t.Errorf("code %d, %d calls, stderr %q, want %d, %d, %q", got.Code, got.Calls, got.Stderr, tt.code, tt.calls, tt.stderr)
			}
			if tt.code != exitDone {
				if diff := cmp.Diff(strings.TrimSuffix(tt.stderr, "\n"), got.Termination); diff != "" {
					t.Error(diff)
				}
			}
		})
	}
}

func TestRunIsIdempotent(t *testing.T) {
	volume := t.TempDir()
	target := filepath.Join(volume, "model")
	args := func(more ...string) []string { return append(required("--target="+target, "--path=model"), more...) }
	other := "--commit=" + strings.Repeat("b", 40)
	steps := []struct {
		name  string
		args  []string
		errs  []error
		calls int
	}{
		{"first", args(), nil, 1},
		{"same commit", args(), nil, 0},
		{"same commit, spelled differently", args("--commit="+strings.ToUpper(testCommit), "--path=./model/", "--target="+target+"/"), nil, 0},
		{"other path", args("--path=."), nil, 1},
		{"whole repository is the same path", args("--path="), nil, 0},
		{"other commit", args(other), nil, 1},
		{"first commit again", args(), nil, 1},
		{"other commit fails", args(other), []error{git.ErrTooLarge}, 1},
		{"first commit after a failure", args(), nil, 1},
	}
	for _, s := range steps {
		got := runScript(t, &script{errs: s.errs}, s.args...)
		if got.Calls != s.calls {
			t.Errorf("%s: %d calls, want %d; %s%s", s.name, got.Calls, s.calls, got.Stdout, got.Stderr)
		}
	}
	if err := os.RemoveAll(target); err != nil {
		t.Fatal(err)
	}
	if got := runScript(t, &script{}, args()...); got.Calls != 1 {
		t.Errorf("target removed: %d calls, want 1", got.Calls)
	}
	if err := os.WriteFile(filepath.Join(volume, ".model.commit"), []byte(`{"commit":`), 0o600); err != nil {
		t.Fatal(err)
	}
	if got := runScript(t, &script{}, args()...); got.Calls != 1 {
		t.Errorf("truncated marker: %d calls, want 1", got.Calls)
	}
	entries, err := os.ReadDir(target)
	if err != nil || len(entries) != 1 || entries[0].Name() != "cube.js" {
		t.Errorf("the target holds %v, %v: the marker must be outside", entries, err)
	}
}

func TestRunOutput(t *testing.T) {
	target := filepath.Join(t.TempDir(), "model")
	args := required("--target=" + target)
	down := fmt.Errorf("repository x: %w", git.ErrUnreachable)
	got := runScript(t, &script{errs: []error{down}}, args...)
	lines := strings.Split(strings.TrimSpace(got.Stdout), "\n")
	if len(lines) != 3 || lines[0] != "Fetching commit "+testCommit+" of https://example.com/a.git" ||
		!strings.HasPrefix(lines[1], "Retrying in ") || !strings.HasSuffix(lines[1], ": repository x: unreachable") ||
		lines[2] != "Wrote "+target+" (files: 2, bytes: 30)" {
		t.Errorf("output %q", lines)
	}
	got = runScript(t, &script{}, args...)
	if want := "Commit " + testCommit + " is already in " + target + "\n"; got.Stdout != want {
		t.Errorf("output %q, want %q", got.Stdout, want)
	}
}

func TestRunUsage(t *testing.T) {
	got := runScript(t, &script{}, required("--commit=main")...)
	if got.Code != exitUsage || got.Calls != 0 {
		t.Errorf("code %d, %d calls, want 2, 0", got.Code, got.Calls)
	}
	want := `model-fetch: invalid fetch options: commit "main": want 40 hex digits`
	if got.Stderr != want+"\n" || got.Termination != want {
		t.Errorf("stderr %q, termination %q, want %q", got.Stderr, got.Termination, want)
	}
	got = runScript(t, &script{}, "-h")
	if got.Code != exitDone || !strings.Contains(got.Stderr, "-max-bytes") || !strings.Contains(got.Stderr, "256Mi") {
		t.Errorf("help: code %d, %q", got.Code, got.Stderr)
	}
}

func TestRunCanceled(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	calls := 0
	c := command{
		fetch: func(options) fetchFunc {
			return func(context.Context, git.FetchOptions) (git.FetchResult, error) {
				calls++
				return git.FetchResult{}, git.ErrUnreachable
			}
		},
		sleep:  func(ctx context.Context, _ time.Duration) error { cancel(); return ctx.Err() },
		stdout: new(bytes.Buffer), stderr: new(bytes.Buffer),
	}
	if code := c.run(ctx, required("--target="+filepath.Join(t.TempDir(), "model"))); code != exitFailed || calls != 1 {
		t.Errorf("code %d, %d calls, want 1, 1", code, calls)
	}
}

func TestSleepEndsWithItsContext(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if err := sleep(ctx, time.Hour); !errors.Is(err, context.Canceled) {
		t.Errorf("error %v, want Canceled", err)
	}
	if err := sleep(t.Context(), time.Microsecond); err != nil {
		t.Error(err)
	}
}

func TestWriteTermination(t *testing.T) {
	dir := t.TempDir()
	absent := filepath.Join(dir, "absent")
	WriteTermination(absent, "message")
	if _, err := os.Stat(absent); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("the file was created: %v", err)
	}
	path := filepath.Join(dir, "log")
	if err := os.WriteFile(path, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	WriteTermination(path, "a"+strings.Repeat("é", maxTermination))
	got, err := os.ReadFile(path)
	if want := "a" + strings.Repeat("é", maxTermination/2-1); err != nil || string(got) != want {
		t.Errorf("%d bytes, %v, want %d", len(got), err, len(want))
	}
}

// TestReadCredentials uses a folder with the layout of a Secret volume.
func TestReadCredentials(t *testing.T) {
	const url = "https://example.com/a.git"
	dir := t.TempDir()
	data := filepath.Join(dir, "..2026_01_01")
	if err := os.Mkdir(data, 0o755); err != nil {
		t.Fatal(err)
	}
	link := func(target, name string) {
		t.Helper()
		if err := os.Symlink(target, filepath.Join(dir, name)); err != nil {
			t.Fatal(err)
		}
	}
	link("..2026_01_01", "..data")
	if err := os.WriteFile(filepath.Join(data, git.KeyUsername), []byte("u\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	link("..data/"+git.KeyUsername, git.KeyUsername)
	link("..data", "folder")

	_, err := ReadCredentials(url, dir)
	if want := `invalid credentials: key "password" is missing`; err == nil || err.Error() != want {
		t.Errorf("error %v, want %q", err, want)
	}
	if err := os.WriteFile(filepath.Join(dir, git.KeyPassword), []byte("p"), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := ReadCredentials(url, dir); err != nil {
		t.Error(err)
	}
	if err := os.WriteFile(filepath.Join(dir, git.KeyCACert), make([]byte, maxKey+1), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := ReadCredentials(url, dir); err == nil || !strings.Contains(err.Error(), `key "ca.crt": larger than 1 MiB`) {
		t.Errorf("error %v, want one about the size", err)
	}
	if _, err := ReadCredentials(url, filepath.Join(dir, "absent")); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("error %v, want ErrNotExist", err)
	}
	if _, err := ReadCredentials(url, ""); err != nil {
		t.Error(err)
	}
}
