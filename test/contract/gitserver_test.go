package contract_test

import (
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/cgi"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"
)

// gitServer serves repositories on loopback with git-http-backend.
type gitServer struct{ root, url string }

// gitHost serves the repositories of all deployments.
var gitHost *gitServer

type repository struct{ dir, url string }

func newGitServer(ctx context.Context, folder string) (*gitServer, error) {
	root, err := os.MkdirTemp(folder, "git-")
	if err != nil {
		return nil, err
	}
	path, err := git(root, "", "--exec-path")
	if err != nil {
		return nil, err
	}
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, err
	}
	server := &http.Server{ReadHeaderTimeout: time.Minute, Handler: &cgi.Handler{
		Path: filepath.Join(path, "git-http-backend"), Dir: root, Stderr: io.Discard,
		Env: append(isolatedGit, "GIT_PROJECT_ROOT="+root, "GIT_HTTP_EXPORT_ALL=1"),
	}}
	go func() { _ = server.Serve(listener) }()
	context.AfterFunc(ctx, func() { _ = server.Close() })
	return &gitServer{root: root, url: "http://" + listener.Addr().String()}, nil
}

func (g *gitServer) repository(name string) (*repository, error) {
	r := &repository{dir: filepath.Join(g.root, name+".git"), url: g.url + "/" + name + ".git"}
	if _, err := git(g.root, "", "init", "--quiet", "--bare", "--initial-branch=main", r.dir); err != nil {
		return nil, err
	}
	if _, err := git(r.dir, "", "config", "http.receivepack", "true"); err != nil { // for anonymous clients too
		return nil, err
	}
	for _, branch := range []string{"main", "next", "dev-ada"} {
		if err := r.commit(branch); err != nil {
			return nil, err
		}
	}
	return r, nil
}

func (r *repository) commit(branch string) error {
	_, err := r.push(branch, "model of "+branch)
	return err
}

// push sets a branch to a new commit and returns its hash.
func (r *repository) push(branch, message string) (string, error) {
	blob, err := git(r.dir, "cubes: [] # "+branch+"\n", "hash-object", "-w", "--stdin")
	if err != nil {
		return "", err
	}
	tree, err := git(r.dir, "100644 blob "+blob+"\torders.yml\n", "mktree")
	if err != nil {
		return "", err
	}
	hash, err := git(r.dir, "", "commit-tree", tree, "-m", message)
	if err != nil {
		return "", err
	}
	_, err = git(r.dir, "", "update-ref", "refs/heads/"+branch, hash)
	return hash, err
}

// isolatedGit makes git ignore the user's configuration.
var isolatedGit = []string{
	"GIT_CONFIG_GLOBAL=/dev/null", "GIT_CONFIG_NOSYSTEM=1",
	"GIT_AUTHOR_NAME=t", "GIT_AUTHOR_EMAIL=t@example.com", "GIT_COMMITTER_NAME=t", "GIT_COMMITTER_EMAIL=t@example.com",
}

func git(dir, stdin string, args ...string) (string, error) {
	cmd := exec.Command("git", args...)
	cmd.Dir, cmd.Env, cmd.Stdin = dir, append(os.Environ(), isolatedGit...), strings.NewReader(stdin)
	out, err := cmd.Output()
	if err != nil {
		return "", fmt.Errorf("git %v: %w", args, err)
	}
	return strings.TrimSpace(string(out)), nil
}
