package main

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/http/cgi"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"time"
)

// The Git server has the repository of the samples' data model. Anybody who
// reaches the node's address may read and push.
const (
	gitDaemon     = "git"
	gitRepository = "model.git"
	gitBranch     = "main"
)

// gitURL is where pods and this machine find the repository.
func (c *cluster) gitURL() string { return "http://" + c.gitAddress() + "/" + gitRepository }

func (c *cluster) gitAddress() string {
	return net.JoinHostPort(c.Address, strconv.Itoa(c.Ports[portGit]))
}

// startGit starts the Git server unless it runs. The repository begins with
// the model of hack/dataplane.
func (c *cluster) startGit(ctx context.Context) error {
	if c.processes().running(gitDaemon) {
		return nil
	}
	source, err := dataplaneSource()
	if err != nil {
		return err
	}
	if !isFolder(c.path("git")) {
		if err := createRepository(ctx, c.path("git"), filepath.Join(source, "model")); err != nil {
			return fmt.Errorf("make the Git repository: %w", err)
		}
	}
	program, err := os.Executable()
	if err != nil {
		return err
	}
	err = c.startAll(ctx, []component{{
		daemon:   daemon{name: gitDaemon, path: program, args: []string{"serve-git", "--root", c.path("git"), "--address", c.gitAddress()}},
		port:     portGit,
		address:  c.Address,
		deadline: 30 * time.Second,
		ready:    httpProbe(http.DefaultClient, c.gitURL()+"/info/refs?service=git-upload-pack"),
	}})
	if err != nil {
		return err
	}
	return c.setEnvironment(variable{"QUOIN_MODEL_URL", c.gitURL()})
}

// createRepository makes a bare repository with the files of a folder in its
// only commit. It takes the name by which it is found when it is whole.
func createRepository(ctx context.Context, root, files string) error {
	partial := root + ".partial"
	if err := errors.Join(os.RemoveAll(partial), os.MkdirAll(partial, 0o755)); err != nil {
		return err
	}
	bare := filepath.Join(partial, gitRepository)
	for _, args := range [][]string{
		{"init", "--quiet", "--bare", "--initial-branch=" + gitBranch, bare},
		{"--git-dir=" + bare, "config", "http.receivepack", "true"},
		{"--git-dir=" + bare, "--work-tree=" + files, "add", "."},
		{"--git-dir=" + bare, "--work-tree=" + files, "commit", "--quiet", "--message=Orders"},
	} {
		if err := git(ctx, args...); err != nil {
			return err
		}
	}
	return os.Rename(partial, root)
}

// gitEnvironment keeps the settings of whoever runs this out of the server.
var gitEnvironment = []string{
	"GIT_CONFIG_GLOBAL=/dev/null", "GIT_CONFIG_NOSYSTEM=1",
	"GIT_AUTHOR_NAME=localcluster", "GIT_AUTHOR_EMAIL=localcluster@quoin.localhost",
	"GIT_COMMITTER_NAME=localcluster", "GIT_COMMITTER_EMAIL=localcluster@quoin.localhost",
}

func git(ctx context.Context, args ...string) error {
	cmd := exec.CommandContext(ctx, "git", args...)
	cmd.Env = append(os.Environ(), gitEnvironment...)
	if output, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("git %s: %w: %s", strings.Join(args, " "), err, lastLines(string(output), 5))
	}
	return nil
}

// serveGit serves the repositories below root at an address until ctx ends.
func serveGit(ctx context.Context, root, address string) error {
	programs, err := exec.CommandContext(ctx, "git", "--exec-path").Output()
	if err != nil {
		return fmt.Errorf("ask git for its programs: %w", err)
	}
	server := &http.Server{
		Addr:              address,
		ReadHeaderTimeout: 10 * time.Second,
		Handler: &cgi.Handler{
			Path: filepath.Join(strings.TrimSpace(string(programs)), "git-http-backend"),
			Env:  append(gitEnvironment, "GIT_PROJECT_ROOT="+root, "GIT_HTTP_EXPORT_ALL=1"),
		},
	}
	go func() {
		<-ctx.Done()
		server.Close()
	}()
	if err := server.ListenAndServe(); !errors.Is(err, http.ErrServerClosed) {
		return err
	}
	return nil
}
