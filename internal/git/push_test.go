package git

import (
	"bytes"
	"context"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/go-git/go-git/v5/plumbing"
)

// packOfCommit returns a pack with a commit and its objects, without its history.
func packOfCommit(t *testing.T, r *repo, commit string) func([]plumbing.Hash) ([]byte, error) {
	return func([]plumbing.Hash) ([]byte, error) {
		cmd := exec.CommandContext(t.Context(), "git", "pack-objects", "--revs", "--stdout", "--quiet")
		cmd.Dir, cmd.Env, cmd.Stdin = r.dir, gitEnv(), strings.NewReader(commit+"\n")
		return cmd.Output()
	}
}

// remotes returns a repository over HTTPS and over SSH, and a second one with the objects to push.
func remotes(t *testing.T) (r, local *repo, pushes map[string]PushOptions) {
	t.Helper()
	r, url, creds := httpsFixture(t)
	r.git("config", "http.receivepack", "true")
	key, identity := newKey(t, "")
	server := serveSSH(t, filepath.Dir(r.dir), key.PublicKey())
	overSSH := server.url("/model.git")
	return r, newRepo(t, t.TempDir(), "local.git"), map[string]PushOptions{
		"HTTPS": {URL: url, Creds: creds},
		"SSH":   {URL: overSSH, Creds: credentials(t, overSSH, KeyIdentity, identity, KeyKnownHosts, server.knownHosts())},
	}
}

func TestPush(t *testing.T) {
	r, local, pushes := remotes(t)
	commit := local.commit("main", local.tree(local.file("a.yml", "1")))
	for name, o := range pushes {
		push := func(branch, from, to string) error {
			o.Updates = []Update{{Branch: branch, From: plumbing.NewHash(from), To: plumbing.NewHash(to)}}
			o.Pack = packOfCommit(t, local, commit)
			return New(Options{}).Push(context.Background(), o)
		}
		t.Run(name, func(t *testing.T) {
			branch := "next-" + name
			if err := push(branch, "", commit); err != nil || r.git("rev-parse", branch) != commit {
				t.Fatalf("create: %v", err)
			}
			if err := push(branch, "", commit); err != nil {
				t.Errorf("a branch that is there already: %v", err)
			}
			if err := push(branch, commitA, commitB); !errors.Is(err, ErrMoved) {
				t.Errorf("a branch elsewhere: %v", err)
			}
			if err := push(branch, commit, ""); err != nil || r.git("for-each-ref", "refs/heads/"+branch) != "" {
				t.Errorf("delete: %v", err)
			}
		})
	}
}

// TestRefusedPush: the error has the words of the remote, without the password and control characters.
func TestRefusedPush(t *testing.T) {
	r, local, pushes := remotes(t)
	commit := local.commit("main", local.tree(local.file("a.yml", "1")))
	hook := "#!/bin/sh\nprintf 'ask ops \\033[31mnow\\033[0m " + testPassword + "\\n' >&2\nexit 1\n"
	if err := os.WriteFile(filepath.Join(r.dir, "hooks", "pre-receive"), []byte(hook), 0o700); err != nil {
		t.Fatal(err)
	}
	for name, o := range pushes {
		t.Run(name, func(t *testing.T) {
			o.Updates, o.Pack = []Update{{Branch: "main", To: plumbing.NewHash(commit)}}, packOfCommit(t, local, commit)
			err := New(Options{}).Push(t.Context(), o)
			if !errors.Is(err, ErrRefused) || errors.Is(err, ErrUnknownOutcome) || !strings.Contains(err.Error(), "hook declined") || !strings.Contains(err.Error(), "ask ops") {
				t.Fatalf("error %v", err)
			}
			if name == "HTTPS" && strings.Contains(err.Error(), testPassword) || bytes.ContainsRune([]byte(err.Error()), 0x1b) {
				t.Errorf("error %v", err)
			}
			if r.git("for-each-ref") != "" {
				t.Error("the branch exists")
			}
		})
	}
}

// A server without atomic pushes refuses to move one branch: the branch that was merged into it is not deleted.
func TestRefusedPushWithoutAtomic(t *testing.T) {
	r, _, pushes := remotes(t)
	r.git("config", "receive.advertiseAtomic", "false")
	before := r.commit("main", r.tree(r.file("a.yml", "1")))
	after := r.commit("feature", r.tree(r.file("a.yml", "2")), before)
	hook := filepath.Join(r.dir, "hooks", "update")
	for name, o := range pushes {
		t.Run(name, func(t *testing.T) {
			r.git("update-ref", "refs/heads/main", before)
			r.git("update-ref", "refs/heads/feature", after)
			if err := os.WriteFile(hook, []byte("#!/bin/sh\n[ $1 != refs/heads/main ]\n"), 0o700); err != nil {
				t.Fatal(err)
			}
			o.Pack = packOfCommit(t, r, after)
			o.Updates = []Update{
				{Branch: "main", From: plumbing.NewHash(before), To: plumbing.NewHash(after)},
				{Branch: "feature", From: plumbing.NewHash(after)},
			}
			if err := New(Options{}).Push(t.Context(), o); !errors.Is(err, ErrRefused) {
				t.Errorf("error %v", err)
			}
			if r.git("rev-parse", "main") != before || r.git("for-each-ref", "--format=%(objectname)", "refs/heads/feature") != after {
				t.Errorf("the branches are\n%s", r.git("for-each-ref"))
			}
			if err := os.Remove(hook); err != nil {
				t.Fatal(err)
			}
			if err := New(Options{}).Push(t.Context(), o); err != nil {
				t.Error(err)
			}
			if r.git("rev-parse", "main") != after || r.git("for-each-ref", "refs/heads/feature") != "" {
				t.Errorf("the branches are\n%s", r.git("for-each-ref"))
			}
		})
	}
}
