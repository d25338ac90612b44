// Package gitserver runs a Git server with the data model of the samples.
package gitserver

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"net/http"
	"net/http/cgi"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"github.com/quoin-dev/quoin/hack/localcluster/binaries"
	"github.com/quoin-dev/quoin/hack/localcluster/cluster"
	"github.com/quoin-dev/quoin/hack/localcluster/host"
	"github.com/quoin-dev/quoin/hack/localcluster/process"
)

// The Git server has the repositories of the samples: a data model, and a dbt
// project with a package that it depends on. It allows unauthenticated reads and
// pushes on the node's address.
const (
	daemonName    = "git"
	modelName     = "model.git"
	dbtName       = "dbt.git"
	dbtMoneyName  = "dbt-money.git"
	branch        = "main"
	documentedURL = "http://git.quoin.localhost:15080" // in the files
)

// repository is a repository whose only commit has the files of a folder.
type repository struct {
	name, folder string
	// ref is another ref that refers to the commit; empty for none.
	ref string
}

// repositories returns the repositories of the samples.
func repositories() ([]repository, error) {
	root, err := binaries.RepositoryRoot()
	hack := filepath.Join(root, "hack")
	return []repository{
		{name: modelName, folder: filepath.Join(hack, "dataplane", "model"), ref: "refs/heads/next"}, // a staging environment
		{name: dbtName, folder: filepath.Join(hack, "dbt", "example", "project")},
		{name: dbtMoneyName, folder: filepath.Join(hack, "dbt", "example", "money"), ref: "refs/tags/1.0.0"},
	}, err
}

// url returns the URL of a repository for pods and this machine.
func url(c *cluster.Cluster, repository string) string {
	return "http://" + address(c) + "/" + repository
}

func address(c *cluster.Cluster) string {
	return net.JoinHostPort(c.Address, strconv.Itoa(c.Ports[cluster.PortGit]))
}

// Start starts the Git server unless it runs.
func Start(ctx context.Context, c *cluster.Cluster) error {
	if c.Daemons().Running(daemonName) {
		return nil
	}
	all, err := repositories()
	if err != nil {
		return err
	}
	if !host.IsFolder(c.Path("git")) {
		if err := createRepositories(ctx, c.Path("git"), "http://"+address(c), all); err != nil {
			return fmt.Errorf("create the Git repositories: %w", err)
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
		Ready:   process.HTTPProbe(http.DefaultClient, url(c, modelName)+"/info/refs?service=git-upload-pack"),
	}})
	if err != nil {
		return err
	}
	return c.SetEnvironment(
		cluster.Variable{Name: "QUOIN_MODEL_URL", Value: url(c, modelName)},
		cluster.Variable{Name: "QUOIN_DBT_URL", Value: url(c, dbtName)},
	)
}

// createRepositories creates repositories below root, for a server with this
// URL. It renames the complete folder to root.
func createRepositories(ctx context.Context, root, server string, repositories []repository) error {
	partial := root + ".partial"
	if err := errors.Join(os.RemoveAll(partial), os.MkdirAll(partial, 0o755)); err != nil {
		return err
	}
	for _, r := range repositories {
		if err := r.create(ctx, partial, server); err != nil {
			return fmt.Errorf("%s: %w", r.name, err)
		}
	}
	return os.Rename(partial, root)
}

// create creates a bare repository below root.
func (r repository) create(ctx context.Context, root, server string) error {
	bare, files := filepath.Join(root, r.name), filepath.Join(root, "files")
	if err := copyFiles(r.folder, files, strings.NewReplacer(documentedURL, server)); err != nil {
		return err
	}
	commands := [][]string{
		{"init", "--quiet", "--bare", "--initial-branch=" + branch, bare},
		{"--git-dir=" + bare, "config", "http.receivepack", "true"},
		{"--git-dir=" + bare, "--work-tree=" + files, "add", "."},
		{"--git-dir=" + bare, "--work-tree=" + files, "commit", "--quiet", "--message=Orders"},
	}
	if r.ref != "" {
		commands = append(commands, []string{"--git-dir=" + bare, "update-ref", r.ref, branch})
	}
	for _, args := range commands {
		if err := git(ctx, args...); err != nil {
			return err
		}
	}
	return os.RemoveAll(files)
}

// copyFiles copies the files of a folder, with replacements.
func copyFiles(source, target string, replacer *strings.Replacer) error {
	return filepath.WalkDir(source, func(path string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() {
			return err
		}
		name, err := filepath.Rel(source, path)
		if err != nil {
			return err
		}
		content, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		copied := filepath.Join(target, name)
		return errors.Join(os.MkdirAll(filepath.Dir(copied), 0o755), os.WriteFile(copied, []byte(replacer.Replace(string(content))), 0o644))
	})
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
