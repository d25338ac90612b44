package githttp

import (
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"

	"github.com/quoin-dev/quoin/api/v1alpha1"
	"github.com/quoin-dev/quoin/apiserver/access"
	"github.com/quoin-dev/quoin/apiserver/auth"
	"github.com/quoin-dev/quoin/internal/audit"
	"github.com/quoin-dev/quoin/internal/content/contenttest"
	"github.com/quoin-dev/quoin/internal/content/repository"
	"github.com/quoin-dev/quoin/internal/engine"
	"github.com/quoin-dev/quoin/internal/store"
	"github.com/quoin-dev/quoin/internal/store/storetest"
	"github.com/quoin-dev/quoin/internal/tenant"
)

// The passwords of the principals, and of the repository on the internal address.
const (
	writer   = "writer"
	reader   = "reader"
	stranger = "of-another-deployment"
	internal = "the-password-of-the-repository"
)

// world is a server with the repository of deployment 1 of account acme, and a database. Deployment 2
// has its model on a Git host.
type world struct {
	*testing.T
	store  *store.Store
	server *Server
	web    *httptest.Server

	mu     sync.Mutex
	events []audit.Event
	moved  int
}

func acme() *v1alpha1.Account {
	return &v1alpha1.Account{ObjectMeta: metav1.ObjectMeta{Name: "acme", UID: "a1"}, Spec: v1alpha1.AccountSpec{Namespace: "acme"}}
}

func deploymentOf(number string, model v1alpha1.ModelSource) *v1alpha1.Deployment {
	return &v1alpha1.Deployment{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: "acme", Name: "sales-" + number, UID: types.UID("d" + number), Labels: map[string]string{v1alpha1.LabelID: number},
		},
		Spec: v1alpha1.DeploymentSpec{Model: model},
	}
}

var deployments = []*v1alpha1.Deployment{
	deploymentOf("1", v1alpha1.ModelSource{Repository: &v1alpha1.RepositorySource{}}),
	deploymentOf("2", v1alpha1.ModelSource{Git: &v1alpha1.GitSource{URL: "https://git.example.com/model.git"}}),
}

// finder implements DeploymentFinder.
type finder struct{}

// Find implements DeploymentFinder.
func (finder) Find(_ context.Context, namespace, id string) (*v1alpha1.Deployment, error) {
	for _, d := range deployments {
		if d.Namespace == namespace && d.Labels[v1alpha1.LabelID] == id {
			return d.DeepCopy(), nil
		}
	}
	return nil, nil
}

// onBoth runs a test on both databases.
func onBoth(t *testing.T, test func(w *world)) {
	storetest.ForEach(t, func(t *testing.T, newDatabase func(testing.TB) string) {
		test(newWorld(t, newDatabase(t)))
	})
}

// onSQLite runs a test that does not depend on the database.
func onSQLite(t *testing.T) *world { return newWorld(t, storetest.SQLiteURL(t)) }

func newWorld(t *testing.T, url string) *world {
	t.Helper()
	s := contenttest.Open(t, url, audit.Owner, repository.Owner)
	w := &world{T: t, store: s}
	kube := newKube(t)
	w.server = New(Options{
		Deployments: finder{}, Cached: kube, Live: kube,
		Repositories: &repository.Repositories{DB: s, Record: func(_ context.Context, _ *store.Tx, e audit.Event) error {
			w.mu.Lock()
			defer w.mu.Unlock()
			w.events = append(w.events, e)
			return nil
		}},
		Moved: func(context.Context, *v1alpha1.Deployment) error {
			w.mu.Lock()
			defer w.mu.Unlock()
			w.moved++
			return nil
		},
	})
	w.web = httptest.NewServer(http.HandlerFunc(w.serve))
	t.Cleanup(w.web.Close)
	return w
}

func newKube(t *testing.T) client.Client {
	t.Helper()
	scheme := runtime.NewScheme()
	for _, add := range []func(*runtime.Scheme) error{v1alpha1.AddToScheme, corev1.AddToScheme} {
		if err := add(scheme); err != nil {
			t.Fatal(err)
		}
	}
	objects := []client.Object{acme(), &corev1.Secret{
		ObjectMeta: metav1.ObjectMeta{Namespace: "acme", Name: engine.RepositorySecretName("sales-1")},
		Data:       map[string][]byte{"username": []byte("quoin"), "password": []byte(internal)},
	}}
	for _, d := range deployments {
		objects = append(objects, d.DeepCopy())
	}
	return fake.NewClientBuilder().WithScheme(scheme).WithObjects(objects...).
		WithIndex(&v1alpha1.Account{}, tenant.IndexNamespace, tenant.NamespaceOf).Build()
}

// serve authenticates a request as package apiserver does.
func (w *world) serve(rw http.ResponseWriter, r *http.Request) {
	if HandlesInternal(r.URL.Path) {
		w.server.ServeInternal(rw, r)
		return
	}
	p := &auth.Principal{Kind: auth.KindAPIKey, Account: "acme", Grants: access.OnAll(permissionRead)}
	switch _, password, _ := r.BasicAuth(); password {
	case writer:
		p.Grants = access.OnAll(permissionRead, permissionWrite)
	case reader:
	case stranger:
		p.Grants = access.On([]string{"other"}, permissionRead, permissionWrite)
	default:
		rw.Header().Set("WWW-Authenticate", Challenge)
		WriteError(rw, http.StatusUnauthorized, "not authenticated")
		return
	}
	w.server.ServeHTTP(rw, r, acme(), p)
}

// address returns the URL of the repository for a principal.
func (w *world) address(password string) string {
	return strings.Replace(w.web.URL, "http://", "http://git:"+password+"@", 1) + "/git/1.git"
}

// git runs git in a folder and returns its output; the test fails if git does.
func (w *world) git(dir string, args ...string) string {
	w.Helper()
	out, err := run(w.T, dir, args...)
	if err != nil {
		w.Fatalf("git %s: %v\n%s", strings.Join(args, " "), err, out)
	}
	return strings.TrimSpace(out)
}

// refused runs git, which must fail with a text in its output.
func (w *world) refused(want, dir string, args ...string) {
	w.Helper()
	out, err := run(w.T, dir, args...)
	if err == nil || !strings.Contains(out, want) {
		w.Errorf("git %s: error %v, want %q in the output:\n%s", strings.Join(args, " "), err, want, out)
	}
}

func run(t *testing.T, dir string, args ...string) (string, error) {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), "git", args...)
	cmd.Dir = dir
	cmd.Env = append(os.Environ(), "GIT_CONFIG_GLOBAL=/dev/null", "GIT_CONFIG_NOSYSTEM=1", "GIT_TERMINAL_PROMPT=0", "LC_ALL=C",
		"GIT_AUTHOR_NAME=Ada", "GIT_AUTHOR_EMAIL=ada@example.com", "GIT_COMMITTER_NAME=Ada", "GIT_COMMITTER_EMAIL=ada@example.com")
	out, err := cmd.CombinedOutput()
	return string(out), err
}

// clone clones the repository with options and returns the folder.
func (w *world) clone(options ...string) string {
	w.Helper()
	dir := filepath.Join(w.TempDir(), "clone")
	w.git(w.TempDir(), append(append([]string{"clone", "-q"}, options...), w.address(writer), dir)...)
	return dir
}

// commit commits a file with a text and returns the commit.
func (w *world) commit(dir, name, text string) string {
	w.Helper()
	w.write(dir, name, text)
	w.git(dir, "add", "-A")
	w.git(dir, "commit", "-q", "-m", "change "+name)
	return w.git(dir, "rev-parse", "HEAD")
}

func (w *world) write(dir, name, text string) {
	w.Helper()
	file := filepath.Join(dir, name)
	if err := os.MkdirAll(filepath.Dir(file), 0o755); err != nil {
		w.Fatal(err)
	}
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		w.Fatal(err)
	}
}

// seeded returns a clone of a repository with a number of commits on main.
func (w *world) seeded(commits int) string {
	w.Helper()
	dir := w.clone()
	for i := range commits {
		w.commit(dir, fmt.Sprintf("model/cubes/c%d.yml", i), fmt.Sprintf("cubes: []  # %d\n", i))
	}
	w.git(dir, "push", "-q", "origin", "main")
	return dir
}

// branches returns the branches with their commits.
func (w *world) branches() map[string]string {
	w.Helper()
	t := target{account: acme(), deployment: deployments[0]}
	all, err := w.server.Repositories.Session(w.Context(), t.scope()).Branches()
	if err != nil {
		w.Fatal(err)
	}
	heads := map[string]string{}
	for _, b := range all {
		heads[b.Name] = b.Commit.String()
	}
	return heads
}
