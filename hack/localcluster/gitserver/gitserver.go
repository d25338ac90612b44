// Package gitserver runs a Git server with the data model of the samples.
package gitserver

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

	"github.com/quoin-dev/quoin/hack/localcluster/cluster"
	"github.com/quoin-dev/quoin/hack/localcluster/dataplane"
	"github.com/quoin-dev/quoin/hack/localcluster/host"
	"github.com/quoin-dev/quoin/hack/localcluster/process"
)

// The Git server has the repository of the samples' data model. It allows
// unauthenticated reads and pushes on the node's address.
const (
	daemonName = "git"
	repository = "model.git"
	branch     = "main"
	staging    = "next"
)

// url returns the URL of the repository for pods and this machine.
func url(c *cluster.Cluster) string { return "http://" + address(c) + "/" + repository }

func address(c *cluster.Cluster) string {
	return net.JoinHostPort(c.Address, strconv.Itoa(c.Ports[cluster.PortGit]))
}

// Start starts the Git server unless it runs. The repository has the model of
// hack/dataplane.
func Start(ctx context.Context, c *cluster.Cluster) error {
	if c.Daemons().Running(daemonName) {
		return nil
	}
	source, err := dataplane.Source()
	if err != nil {
		return err
	}
	if !host.IsFolder(c.Path("git")) {
		if err := createRepository(ctx, c.Path("git"), filepath.Join(source, "model")); err != nil {
			return fmt.Errorf("create the Git repository: %w", err)
		}
	}
	program, err := os.Executable()
	if err != nil {
		return err
	}
	err = c.StartAll(ctx, []cluster.Component{{
		Daemon:  process.Daemon{Name: daemonName, Path: program, Args: []string{"serve-git", "--root", c.Path("git"), "--address", address(c)}},
		Port:    cluster.PortGit,
		Address: c.Address,
		Timeout: 30 * time.Second,
		Ready:   process.HTTPProbe(http.DefaultClient, url(c)+"/info/refs?service=git-upload-pack"),
	}})
	if err != nil {
		return err
	}
	return c.SetEnvironment(cluster.Variable{Name: "QUOIN_MODEL_URL", Value: url(c)})
}

// createRepository creates a bare repository whose only commit has the files of
// a folder. Both branches refer to it. It renames the complete repository to root.
func createRepository(ctx context.Context, root, files string) error {
	partial := root + ".partial"
	if err := errors.Join(os.RemoveAll(partial), os.MkdirAll(partial, 0o755)); err != nil {
		return err
	}
	bare := filepath.Join(partial, repository)
	for _, args := range [][]string{
		{"init", "--quiet", "--bare", "--initial-branch=" + branch, bare},
		{"--git-dir=" + bare, "config", "http.receivepack", "true"},
		{"--git-dir=" + bare, "--work-tree=" + files, "add", "."},
		{"--git-dir=" + bare, "--work-tree=" + files, "commit", "--quiet", "--message=Orders"},
		{"--git-dir=" + bare, "branch", staging},
	} {
		if err := git(ctx, args...); err != nil {
			return err
		}
	}
	return os.Rename(partial, root)
}

// environment isolates the server from the current user's Git configuration.
var environment = []string{
	"GIT_CONFIG_GLOBAL=/dev/null", "GIT_CONFIG_NOSYSTEM=1",
	"GIT_AUTHOR_NAME=localcluster", "GIT_AUTHOR_EMAIL=localcluster@quoin.localhost",
	"GIT_COMMITTER_NAME=localcluster", "GIT_COMMITTER_EMAIL=localcluster@quoin.localhost",
}

func git(ctx context.Context, args ...string) error {
	cmd := exec.CommandContext(ctx, "git", args...)
	cmd.Env = append(os.Environ(), environment...)
	if output, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("git %s: %w: %s", strings.Join(args, " "), err, process.LastLines(string(output), 5))
	}
	return nil
}

// Serve serves the repositories below root at an address until ctx ends.
func Serve(ctx context.Context, root, address string) error {
	programs, err := exec.CommandContext(ctx, "git", "--exec-path").Output()
	if err != nil {
		return fmt.Errorf("get the exec path of git: %w", err)
	}
	server := &http.Server{
		Addr:              address,
		ReadHeaderTimeout: 10 * time.Second,
		Handler: &cgi.Handler{
			Path: filepath.Join(strings.TrimSpace(string(programs)), "git-http-backend"),
			Env:  append(environment, "GIT_PROJECT_ROOT="+root, "GIT_HTTP_EXPORT_ALL=1"),
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
