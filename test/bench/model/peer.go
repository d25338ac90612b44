package main

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"log"
	"net/http/cgi"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
)

// peer is `git http-backend` behind a server with TLS, without authentication.
type peer struct {
	*httptest.Server
	folder       string
	repositories int
}

// newPeer starts a peer. The caller must close it.
func newPeer(ctx context.Context, folder string) (*peer, error) {
	path, err := exec.CommandContext(ctx, "git", "--exec-path").Output()
	if err != nil {
		return nil, fmt.Errorf("git is required: %w", err)
	}
	if err := os.Mkdir(folder, 0o700); err != nil {
		return nil, err
	}
	server := httptest.NewUnstartedServer(&cgi.Handler{
		Path: filepath.Join(string(bytes.TrimSpace(path)), "git-http-backend"), Dir: folder, Stderr: io.Discard,
		Env: []string{"GIT_PROJECT_ROOT=" + folder, "GIT_HTTP_EXPORT_ALL=1", "GIT_CONFIG_GLOBAL=/dev/null", "GIT_CONFIG_NOSYSTEM=1"},
	})
	server.Config.ErrorLog = log.New(io.Discard, "", 0)
	server.StartTLS()
	return &peer{Server: server, folder: folder}, nil
}

// newRepository creates an empty repository and returns its URL.
func (p *peer) newRepository(ctx context.Context) (string, error) {
	p.repositories++
	name := fmt.Sprintf("%d.git", p.repositories)
	if err := git(ctx, p.folder, "init", "--quiet", "--bare", "--initial-branch=main", name); err != nil {
		return "", err
	}
	return p.URL + "/" + name, git(ctx, filepath.Join(p.folder, name), "config", "http.receivepack", "true")
}
