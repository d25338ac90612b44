// Package gitops_test checks what GitOps tools rely on: the health checks for Argo CD, the examples, and that applying
// the samples again changes nothing while the controllers run.
package gitops_test

import (
	"context"
	"io"
	"net"
	"net/http"
	"net/http/cgi"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/go-logr/logr"
	"github.com/prometheus/client_golang/prometheus"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/config"
	ctrllog "sigs.k8s.io/controller-runtime/pkg/log"
	"sigs.k8s.io/controller-runtime/pkg/manager"
	"sigs.k8s.io/controller-runtime/pkg/metrics/server"

	"github.com/quoin-dev/quoin/controllers"
	"github.com/quoin-dev/quoin/internal/apitest"
	"github.com/quoin-dev/quoin/test/internal/clustertest"
)

// world is an API server with the controllers of Quoin, a registry with images and a Git server.
type world struct {
	client.Client
	registry, git string // addresses of the servers
}

// newWorld starts all servers and the controllers. They stop with the test.
func newWorld(t *testing.T) *world {
	t.Helper()
	if os.Getenv("KUBEBUILDER_ASSETS") == "" {
		if os.Getenv("CI") != "" {
			t.Fatal("KUBEBUILDER_ASSETS is not set")
		}
		t.Skip("SKIPPED LOUDLY: KUBEBUILDER_ASSETS is not set; run make test-unit, which builds an API server")
	}
	ctrllog.SetLogger(logr.Discard())
	env, err := apitest.Start()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = env.Stop() })
	scheme, err := controllers.Scheme()
	if err != nil {
		t.Fatal(err)
	}
	api, err := client.New(env.Config, client.Options{Scheme: scheme})
	if err != nil {
		t.Fatal(err)
	}
	w := &world{Client: api, registry: startRegistry(t), git: startGit(t)}
	w.createNamespaces(t, "quoin-system")
	startControllers(t, env.Config)
	return w
}

// createNamespaces creates namespaces that are not part of the samples.
func (w *world) createNamespaces(t *testing.T, names ...string) {
	t.Helper()
	for _, name := range names {
		if err := w.Create(t.Context(), &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: name}}); err != nil {
			t.Fatal(err)
		}
	}
}

// startControllers starts the controllers with their caches and watches.
func startControllers(t *testing.T, restConfig *rest.Config) {
	t.Helper()
	ctx, cancel := context.WithCancel(context.WithoutCancel(t.Context()))
	ended := make(chan error, 1)
	go func() {
		ended <- controllers.Run(ctx, restConfig, manager.Options{
			Metrics:    server.Options{BindAddress: "0"},
			Controller: config.Controller{SkipNameValidation: ptr.To(true)}, // other tests have run controllers of the same names
		}, controllers.Config{
			Namespace: "quoin-system", Image: "quoin:test", Concurrency: 2, MaxRollouts: 10, SQLPort: 5432,
			AllowInsecureGit: true, Registerer: prometheus.NewRegistry(),
		})
	}()
	t.Cleanup(func() {
		cancel()
		if err := <-ended; err != nil {
			t.Errorf("the controllers ended: %v", err)
		}
	})
}

// startRegistry starts a registry with three versions of the images of the samples, and returns its address.
func startRegistry(t *testing.T) string {
	t.Helper()
	address, err := clustertest.StartRegistry(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"cube", "cube-store"} {
		if err := clustertest.PushImages(t.Context(), address+"/"+name, "1.2.1", "1.2.2", "1.2.3"); err != nil {
			t.Fatal(err)
		}
	}
	return address
}

// startGit starts a Git server with the repository model.git, which has the branches main and next, and returns its address.
func startGit(t *testing.T) string {
	t.Helper()
	root := t.TempDir()
	isolated := []string{
		"GIT_CONFIG_GLOBAL=/dev/null", "GIT_CONFIG_NOSYSTEM=1",
		"GIT_AUTHOR_NAME=test", "GIT_AUTHOR_EMAIL=test@example.com", "GIT_COMMITTER_NAME=test", "GIT_COMMITTER_EMAIL=test@example.com",
	}
	git := func(dir, stdin string, args ...string) string {
		cmd := exec.CommandContext(t.Context(), "git", args...)
		cmd.Dir, cmd.Env, cmd.Stdin = dir, append(os.Environ(), isolated...), strings.NewReader(stdin)
		out, err := cmd.Output()
		if err != nil {
			t.Fatalf("git %v: %v", args, err)
		}
		return strings.TrimSpace(string(out))
	}
	repository := filepath.Join(root, "model.git")
	git(root, "", "init", "--quiet", "--bare", "--initial-branch=main", repository)
	blob := git(repository, "cubes: [{name: orders, sql_table: public.orders}]", "hash-object", "-w", "--stdin")
	commit := git(repository, "", "commit-tree", git(repository, "100644 blob "+blob+"\torders.yml\n", "mktree"), "-m", "model")
	for _, branch := range []string{"main", "next"} {
		git(repository, "", "update-ref", "refs/heads/"+branch, commit)
	}
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	s := &http.Server{Handler: &cgi.Handler{
		Path: filepath.Join(git(root, "", "--exec-path"), "git-http-backend"), Dir: root, Stderr: io.Discard,
		Env: append(isolated, "GIT_PROJECT_ROOT="+root, "GIT_HTTP_EXPORT_ALL=1"),
	}}
	go func() { _ = s.Serve(listener) }()
	t.Cleanup(func() { _ = s.Close() })
	return listener.Addr().String()
}
