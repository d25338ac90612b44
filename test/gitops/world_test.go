// Package gitops_test checks what GitOps tools rely on: the health checks for Argo CD, the examples, and that applying
// the samples again changes nothing while the controllers run.
package gitops_test

import (
	"context"
	"io"
	"log"
	"net"
	"net/http"
	"net/http/cgi"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/go-logr/logr"
	"github.com/google/go-containerregistry/pkg/crane"
	"github.com/google/go-containerregistry/pkg/registry"
	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/empty"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
	"github.com/prometheus/client_golang/prometheus"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
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
	s := httptest.NewServer(registry.New(registry.Logger(log.New(io.Discard, "", 0))))
	t.Cleanup(s.Close)
	address := strings.TrimPrefix(s.URL, "http://")
	for _, name := range []string{"cube", "cube-store"} {
		for _, tag := range []string{"v1.2.1", "v1.2.2", "v1.2.3"} {
			image, err := mutate.Config(empty.Image, v1.Config{Labels: map[string]string{"tag": name + tag}})
			if err != nil {
				t.Fatal(err)
			}
			if err := crane.Push(image, address+"/"+name+":"+tag); err != nil {
				t.Fatal(err)
			}
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

// runWorkloads makes the pods of all workloads ready, as the controllers and nodes of Kubernetes do.
func (w *world) runWorkloads(t *testing.T) {
	t.Helper()
	var deployments appsv1.DeploymentList
	if err := w.List(t.Context(), &deployments); err != nil {
		t.Fatal(err)
	}
	for _, d := range deployments.Items {
		n := ptr.Deref(d.Spec.Replicas, 1)
		d.Status = appsv1.DeploymentStatus{ObservedGeneration: d.Generation, Replicas: n, UpdatedReplicas: n, ReadyReplicas: n, AvailableReplicas: n}
		w.updateStatus(t, &d)
	}
	var sets appsv1.StatefulSetList
	if err := w.List(t.Context(), &sets); err != nil {
		t.Fatal(err)
	}
	for _, s := range sets.Items {
		n := ptr.Deref(s.Spec.Replicas, 1)
		s.Status = appsv1.StatefulSetStatus{
			ObservedGeneration: s.Generation, Replicas: n, UpdatedReplicas: n, CurrentReplicas: n, ReadyReplicas: n, AvailableReplicas: n,
			CurrentRevision: "1", UpdateRevision: "1",
		}
		w.updateStatus(t, &s)
	}
}

// updateStatus writes a status; a conflict is left to the next pass.
func (w *world) updateStatus(t *testing.T, obj client.Object) {
	t.Helper()
	if err := w.Status().Update(t.Context(), obj); err != nil && !apierrors.IsConflict(err) && !apierrors.IsNotFound(err) {
		t.Fatal(err)
	}
}
