package main

import (
	"context"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
	"time"
)

// What pods and people do with the repository: clone it and push to it, with the git that is here.
func TestGitServer(t *testing.T) {
	source, err := dataplaneSource()
	if err != nil {
		t.Fatal(err)
	}
	root := filepath.Join(t.TempDir(), "git")
	if err := createRepository(t.Context(), root, filepath.Join(source, "model")); err != nil {
		t.Fatal(err)
	}
	ports, release, err := pickPorts(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	defer release()
	ctx, stop := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- serveGit(ctx, root, loopback(ports[portGit])) }()
	defer func() {
		stop()
		if err := <-ended; err != nil {
			t.Error(err)
		}
	}()
	url := "http://" + loopback(ports[portGit]) + "/" + gitRepository
	if err := awaitReady(t.Context(), "git", os.DevNull, nil, 30*time.Second, httpProbe(http.DefaultClient, url+"/info/refs?service=git-upload-pack")); err != nil {
		t.Fatal(err)
	}

	clone, again := filepath.Join(t.TempDir(), "clone"), filepath.Join(t.TempDir(), "again")
	run := func(args ...string) {
		t.Helper()
		cmd := exec.CommandContext(t.Context(), "git", args...)
		cmd.Env = append(cleanEnvironment(os.Environ()), gitEnvironment...)
		if output, err := cmd.CombinedOutput(); err != nil {
			t.Fatalf("git %v: %v\n%s", args, err, output)
		}
	}
	run("clone", "--quiet", "--branch", gitBranch, url, clone)
	if _, err := os.Stat(filepath.Join(clone, "orders.yml")); err != nil {
		t.Error(err)
	}
	if err := os.WriteFile(filepath.Join(clone, "customers.yml"), []byte("cubes: []\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	run("-C", clone, "add", ".")
	run("-C", clone, "commit", "--quiet", "--message", "Customers")
	run("-C", clone, "push", "--quiet", "origin", gitBranch)
	run("clone", "--quiet", url, again)
	if _, err := os.Stat(filepath.Join(again, "customers.yml")); err != nil {
		t.Error(err)
	}
}
