package e2e_test

import (
	"fmt"
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
)

// gitRepository is a repository on a real Git server over plain HTTP, which pods can reach.
type gitRepository struct {
	url, dir string
	down     atomic.Bool
}

// newGitRepository starts the server, with one commit on the branch main.
func newGitRepository() *gitRepository {
	root := GinkgoT().TempDir()
	r := &gitRepository{dir: filepath.Join(root, "model.git")}
	git(root, "", "init", "--quiet", "--bare", "--initial-branch=main", r.dir)
	backend := &cgi.Handler{
		Path:   filepath.Join(git(root, "", "--exec-path"), "git-http-backend"),
		Dir:    root,
		Env:    append(isolatedGit, "GIT_PROJECT_ROOT="+root, "GIT_HTTP_EXPORT_ALL=1"),
		Stderr: GinkgoWriter,
	}
	listener, err := net.Listen("tcp", net.JoinHostPort(world.address(), "0"))
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
	r.url = fmt.Sprintf("http://%s/model.git", listener.Addr())
	r.commit("main", "cubes: [{name: orders, sql_table: public.orders}]")
	return r
}

// source returns the repository as a model source with an interval of one second.
func (r *gitRepository) source() v1alpha1.GitSource {
	return v1alpha1.GitSource{URL: r.url, Interval: &metav1.Duration{Duration: time.Second}}
}

// commit commits a model to a branch, which it creates if necessary, and returns the hash.
func (r *gitRepository) commit(branch, model string) string {
	blob := git(r.dir, model, "hash-object", "-w", "--stdin")
	tree := git(r.dir, "100644 blob "+blob+"\torders.yml\n", "mktree")
	args := []string{"commit-tree", tree, "-m", "model"}
	if parent := git(r.dir, "", "for-each-ref", "--format=%(objectname)", "refs/heads/"+branch); parent != "" {
		args = append(args, "-p", parent)
	}
	hash := git(r.dir, "", args...)
	git(r.dir, "", "update-ref", "refs/heads/"+branch, hash)
	return hash
}

// remove deletes a branch.
func (r *gitRepository) remove(branch string) {
	git(r.dir, "", "update-ref", "-d", "refs/heads/"+branch)
}

// breakDown makes the server respond with 503 until repair is called.
func (r *gitRepository) breakDown() { r.down.Store(true) }
func (r *gitRepository) repair()    { r.down.Store(false) }

// isolatedGit makes git ignore the user's configuration.
var isolatedGit = []string{
	"GIT_CONFIG_GLOBAL=/dev/null", "GIT_CONFIG_NOSYSTEM=1",
	"GIT_AUTHOR_NAME=e2e", "GIT_AUTHOR_EMAIL=e2e@example.com", "GIT_COMMITTER_NAME=e2e", "GIT_COMMITTER_EMAIL=e2e@example.com",
}

// git runs git in a folder and returns its output.
func git(dir, stdin string, args ...string) string {
	GinkgoHelper()
	cmd := exec.Command("git", args...)
	cmd.Dir, cmd.Env, cmd.Stdin = dir, append(os.Environ(), isolatedGit...), strings.NewReader(stdin)
	out, err := output(cmd)
	Expect(err).NotTo(HaveOccurred())
	return strings.TrimSpace(out)
}
