// Package gitserver serves a Git repository to the controllers and pods of the journeys.
package gitserver

import (
	"errors"
	"fmt"
	"io/fs"
	"net"
	"net/http"
	"net/http/cgi"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync/atomic"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/quoin-dev/quoin/api/v1alpha1"
	"github.com/quoin-dev/quoin/test/e2e/internal/command"
)

// Repository is a repository on a real Git server over plain HTTP, which pods can reach.
type Repository struct {
	URL string
	// Dir is the bare repository.
	Dir  string
	down atomic.Bool
}

// Start starts the server on an address of this machine, with one commit on the branch main.
func Start(address string) *Repository {
	r := serve(address)
	r.Commit("main", "cubes: [{name: orders, sql_table: public.orders}]")
	return r
}

// StartWith starts the server with the files of a folder on the branch main; see CommitFiles.
func StartWith(address, folder string, replacements ...string) *Repository {
	r := serve(address)
	r.CommitFiles("refs/heads/main", folder, replacements...)
	return r
}

// serve starts the server, with an empty repository.
func serve(address string) *Repository {
	root := GinkgoT().TempDir()
	r := &Repository{Dir: filepath.Join(root, "model.git")}
	Git(root, "", "init", "--quiet", "--bare", "--initial-branch=main", r.Dir)
	backend := &cgi.Handler{
		Path:   filepath.Join(Git(root, "", "--exec-path"), "git-http-backend"),
		Dir:    root,
		Env:    append(isolated, "GIT_PROJECT_ROOT="+root, "GIT_HTTP_EXPORT_ALL=1"),
		Stderr: GinkgoWriter,
	}
	listener, err := net.Listen("tcp", net.JoinHostPort(address, "0"))
	Expect(err).NotTo(HaveOccurred())
	server := &http.Server{Handler: http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
		if r.down.Load() {
			http.Error(w, "down for maintenance", http.StatusServiceUnavailable)
			return
		}
		backend.ServeHTTP(w, req)
	})}
	go func() { _ = server.Serve(listener) }()
	DeferCleanup(server.Close)
	r.URL = fmt.Sprintf("http://%s/model.git", listener.Addr())
	return r
}

// Source returns the repository as a model source with an interval of one second.
func (r *Repository) Source() v1alpha1.GitSource {
	return v1alpha1.GitSource{URL: r.URL, Interval: &metav1.Duration{Duration: time.Second}}
}

// Commit commits a model to a branch, which it creates if necessary, and returns the hash.
func (r *Repository) Commit(branch, model string) string {
	blob := Git(r.Dir, model, "hash-object", "-w", "--stdin")
	tree := Git(r.Dir, "100644 blob "+blob+"\torders.yml\n", "mktree")
	args := []string{"commit-tree", tree, "-m", "model"}
	if parent := Git(r.Dir, "", "for-each-ref", "--format=%(objectname)", "refs/heads/"+branch); parent != "" {
		args = append(args, "-p", parent)
	}
	hash := Git(r.Dir, "", args...)
	Git(r.Dir, "", "update-ref", "refs/heads/"+branch, hash)
	return hash
}

// CommitFiles makes a ref refer to a new commit, without parents, of the files of a folder. Pairs of strings are replaced in
// the files.
func (r *Repository) CommitFiles(ref, folder string, replacements ...string) {
	GinkgoHelper()
	replacer, files := strings.NewReplacer(replacements...), GinkgoT().TempDir()
	Expect(os.CopyFS(files, os.DirFS(folder))).To(Succeed())
	Expect(filepath.WalkDir(files, func(path string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() {
			return err
		}
		content, err := os.ReadFile(path)
		return errors.Join(err, os.WriteFile(path, []byte(replacer.Replace(string(content))), 0o600))
	})).To(Succeed())
	Git(r.Dir, "", "--git-dir="+r.Dir, "--work-tree="+files, "add", "--all", files)
	Git(r.Dir, "", "update-ref", ref, Git(r.Dir, "", "commit-tree", Git(r.Dir, "", "write-tree"), "-m", "files"))
}

// Remove deletes a branch.
func (r *Repository) Remove(branch string) {
	Git(r.Dir, "", "update-ref", "-d", "refs/heads/"+branch)
}

// BreakDown makes the server respond with 503 until Repair is called.
func (r *Repository) BreakDown() { r.down.Store(true) }

// Repair ends BreakDown.
func (r *Repository) Repair() { r.down.Store(false) }

// isolated makes git ignore the user's configuration.
var isolated = []string{
	"GIT_CONFIG_GLOBAL=/dev/null", "GIT_CONFIG_NOSYSTEM=1",
	"GIT_AUTHOR_NAME=e2e", "GIT_AUTHOR_EMAIL=e2e@example.com", "GIT_COMMITTER_NAME=e2e", "GIT_COMMITTER_EMAIL=e2e@example.com",
}

// Git runs git in a folder and returns its output.
func Git(dir, stdin string, args ...string) string {
	GinkgoHelper()
	cmd := exec.Command("git", args...)
	cmd.Dir, cmd.Env, cmd.Stdin = dir, append(os.Environ(), isolated...), strings.NewReader(stdin)
	out, err := command.Output(cmd)
	Expect(err).NotTo(HaveOccurred())
	return strings.TrimSpace(out)
}
