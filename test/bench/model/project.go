package main

import (
	"context"
	"crypto/sha1"
	"encoding/hex"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
)

// project is a data model in a working tree of Git, with one commit.
type project struct {
	folder string
	// paths are in order; files are the contents by path.
	paths []string
	files map[string][]byte
}

// newProject makes a project with a number of files of a size.
func newProject(ctx context.Context, folder string, files, size int) (*project, error) {
	p := &project{folder: folder, files: map[string][]byte{}}
	random := rand.New(rand.NewPCG(1, uint64(files)))
	for i := range files {
		path := fmt.Sprintf("model/cubes/area_%03d/cube_%05d.yml", i/50, i)
		p.paths, p.files[path] = append(p.paths, path), cubeOf(random, i, size)
		name := filepath.Join(folder, filepath.FromSlash(path))
		if err := os.MkdirAll(filepath.Dir(name), 0o700); err != nil {
			return nil, err
		}
		if err := os.WriteFile(name, p.files[path], 0o600); err != nil {
			return nil, err
		}
	}
	for _, args := range [][]string{{"init", "--quiet", "--initial-branch=main"}, {"add", "-A"}, {"commit", "--quiet", "-m", "Model"}} {
		if err := git(ctx, folder, args...); err != nil {
			return nil, err
		}
	}
	return p, nil
}

// cubeOf returns the text of a cube, with names that do not repeat.
func cubeOf(random *rand.Rand, i, size int) []byte {
	text := &strings.Builder{}
	fmt.Fprintf(text, "cubes:\n  - name: cube_%05d\n    sql_table: warehouse.table_%08x\n    dimensions:\n", i, random.Uint32())
	for text.Len() < size {
		fmt.Fprintf(text, "      - name: column_%016x\n        sql: \"{CUBE}.c_%08x\"\n        type: string\n", random.Uint64(), random.Uint32())
	}
	return []byte(text.String()[:size])
}

// sha1Of returns the hash that clients send.
func sha1Of(data []byte) string {
	sum := sha1.Sum(data)
	return hex.EncodeToString(sum[:])
}

// push pushes the commit to the branch main of a repository, and returns an error unless that is new.
func (p *project) push(ctx context.Context, url string, more ...string) error {
	return git(ctx, p.folder, append(more, "push", "--quiet", url, "HEAD:refs/heads/main")...)
}

// gitOptions are options of all calls of git: the servers have certificates that only this program trusts, and CGI
// needs the length of a body.
var gitOptions = []string{"-c", "http.sslVerify=false", "-c", "http.proxy=", "-c", "http.postBuffer=134217728", "-c", "gc.auto=0"}

// git runs git without the configuration of the user.
func git(ctx context.Context, folder string, args ...string) error {
	command := exec.CommandContext(ctx, "git", append(gitOptions[:len(gitOptions):len(gitOptions)], args...)...)
	command.Dir = folder
	command.Env = append(os.Environ(), "GIT_CONFIG_GLOBAL=/dev/null", "GIT_CONFIG_NOSYSTEM=1", "GIT_TERMINAL_PROMPT=0", "LC_ALL=C",
		"GIT_AUTHOR_NAME=bench", "GIT_AUTHOR_EMAIL=bench@example.com", "GIT_COMMITTER_NAME=bench", "GIT_COMMITTER_EMAIL=bench@example.com")
	if out, err := command.CombinedOutput(); err != nil {
		return fmt.Errorf("git: %w: %.500s", err, out)
	}
	return nil
}
