package model

import (
	"bytes"
	"context"
	"encoding/json"
	"io"
	"maps"
	"net/http"
	"net/http/httptest"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/go-git/go-git/v5/plumbing"
	"github.com/go-git/go-git/v5/plumbing/object"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	"github.com/quoin-dev/quoin/api/v1alpha1"
	"github.com/quoin-dev/quoin/apiserver/access"
	"github.com/quoin-dev/quoin/apiserver/auth"
	"github.com/quoin-dev/quoin/apiserver/rest"
	"github.com/quoin-dev/quoin/internal/apitest"
	"github.com/quoin-dev/quoin/internal/audit"
	"github.com/quoin-dev/quoin/internal/content"
	"github.com/quoin-dev/quoin/internal/content/devmode"
	"github.com/quoin-dev/quoin/internal/content/repository"
	"github.com/quoin-dev/quoin/internal/content/upload"
	"github.com/quoin-dev/quoin/internal/kube"
	"github.com/quoin-dev/quoin/internal/modeltree"
	"github.com/quoin-dev/quoin/internal/store"
)

var (
	ada = &auth.Principal{Kind: auth.KindUser, ID: "ada", Name: "Ada Lovelace", Email: "ada@example.com", Grants: access.OnAll(v1alpha1.PermissionSchemaUpdate)}
	bob = &auth.Principal{Kind: auth.KindAPIKey, ID: "ci", Name: "CI", Grants: access.OnAll(v1alpha1.PermissionSchemaUpdate)}
	// eve is an administrator.
	eve = &auth.Principal{Kind: auth.KindUser, ID: "eve", Name: "Eve", Email: "eve@example.com", Grants: access.OnAll(v1alpha1.PermissionAdmin)}

	account = &v1alpha1.Account{ObjectMeta: metav1.ObjectMeta{Name: "demo", UID: "a1"}, Spec: v1alpha1.AccountSpec{Namespace: "demo", Host: "demo.example.com"}}
)

// world is the group with a database, and without a controller: each branch has its object at once.
type world struct {
	testing.TB
	repositories *repository.Repositories
	devMode      *devmode.DevMode
	kube         client.Client
	// client is that of the server, on kube.
	client     *kube.Client
	deployment *v1alpha1.Deployment
	// declared are the Branches that users have declared, by the name of the branch.
	declared map[string]*v1alpha1.Branch
	server   *rest.API
	ask      Ask
	// onMoved is called after branches have moved, if it is not nil.
	onMoved func()

	mu     sync.Mutex
	events []audit.Event
	moved  int
}

// sales is the deployment of a world.
func sales() *v1alpha1.Deployment {
	return &v1alpha1.Deployment{
		ObjectMeta: metav1.ObjectMeta{Namespace: "demo", Name: "sales", UID: "d1", Labels: map[string]string{v1alpha1.LabelID: "7"}, CreationTimestamp: metav1.NewTime(time.Unix(1_790_000_000, 0))},
		Spec:       v1alpha1.DeploymentSpec{Model: v1alpha1.ModelSource{Repository: &v1alpha1.RepositorySource{}}},
	}
}

// newWorld returns a world whose branch main has the file model/a.yml.
func newWorld(t testing.TB, url string, objects ...client.Object) *world {
	t.Helper()
	w := openWorld(t, url, objects...)
	w.write("main", map[string]string{"model/a.yml": "one\ntwo\nthree\n"})
	return w
}

func openWorld(t testing.TB, url string, objects ...client.Object) *world {
	t.Helper()
	s, err := store.Open(context.Background(), url, nil, repository.Owner, devmode.Owner, upload.Owner)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = s.Close() })
	w := &world{TB: t, devMode: &devmode.DevMode{DB: s}, deployment: sales(), declared: map[string]*v1alpha1.Branch{}}
	w.repositories = &repository.Repositories{DB: s, Record: w.record}
	w.kube = fake.NewClientBuilder().WithScheme(apitest.Scheme(t)).WithObjects(append(objects, w.deployment.DeepCopy())...).
		WithInterceptorFuncs(interceptor.Funcs{Delete: w.deleteObject}).Build()
	w.serve(Options{Repositories: w.repositories, DevMode: w.devMode, Uploads: &upload.Uploads{DB: s, Record: w.record}, IssueToken: issueToken})
	return w
}

// serve makes the API of the group.
func (w *world) serve(o Options) {
	w.Helper()
	w.client = kube.NewClient(w.kube, w.kube, "test")
	o.Kube, o.Catalog, o.Clock = w.client, w, clock.RealClock{}
	o.Moved = func(context.Context, *v1alpha1.Deployment) error {
		w.mu.Lock()
		defer w.mu.Unlock()
		w.moved++
		if w.onMoved != nil {
			w.onMoved()
		}
		return nil
	}
	o.Ask = func(ctx context.Context, e *v1alpha1.Environment, token string) (int, io.ReadCloser, error) {
		return w.ask(ctx, e, token)
	}
	var err error
	if w.server, err = rest.New(rest.Options{Deployments: w}, New(o)...); err != nil {
		w.Fatal(err)
	}
}

func (w *world) record(_ context.Context, _ *store.Tx, e audit.Event) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.events = append(w.events, e)
	return nil
}

// Find implements the finder of the engine.
func (w *world) Find(context.Context, string, string) (*v1alpha1.Deployment, error) {
	return w.deployment.DeepCopy(), nil
}

// FindCached implements the finder of the engine.
func (w *world) FindCached(ctx context.Context, namespace, id string) (*v1alpha1.Deployment, error) {
	return w.Find(ctx, namespace, id)
}

// Branches implements Catalog: the objects that the controller would make.
func (w *world) Branches(d *v1alpha1.Deployment) ([]*v1alpha1.Branch, error) {
	if d.Spec.Model.Repository == nil {
		return nil, nil
	}
	all, err := w.session(w.Context()).Branches()
	objects := make([]*v1alpha1.Branch, len(all), len(all)+len(w.declared))
	for i, b := range all {
		role := (&tree{production: "main"}).roleOf(b.Name)
		objects[i] = &v1alpha1.Branch{
			ObjectMeta: metav1.ObjectMeta{Namespace: d.Namespace, Name: "sales-" + slug(b.Name), Labels: map[string]string{v1alpha1.LabelRemote: "true", v1alpha1.LabelID: strconv.Itoa(i + 1)}},
			Spec:       v1alpha1.BranchSpec{Name: b.Name, Role: role, ParentBranch: "main"},
			Status:     v1alpha1.BranchStatus{ID: int64(i + 1), LastHash: b.Commit.String(), Environment: "sales-" + slug(b.Name)},
		}
	}
	objects = slices.DeleteFunc(objects, func(b *v1alpha1.Branch) bool { return w.declared[b.Spec.Name] != nil })
	return slices.AppendSeq(objects, maps.Values(w.declared)), err
}

// declare creates a Branch for a branch, as a user does with kubectl.
func (w *world) declare(branch string) *v1alpha1.Branch {
	w.Helper()
	b := &v1alpha1.Branch{
		ObjectMeta: metav1.ObjectMeta{Namespace: w.deployment.Namespace, Name: "declared-" + slug(branch), UID: "b1", Labels: map[string]string{v1alpha1.LabelID: "99"}},
		Spec:       v1alpha1.BranchSpec{Name: branch, Role: v1alpha1.BranchShared, ParentBranch: "main"},
		Status:     v1alpha1.BranchStatus{ID: 99},
	}
	w.must(w.kube.Create(w.Context(), b.DeepCopy()))
	w.declared[branch] = b
	return b
}

// deleteObject deletes an object, also from the cache.
func (w *world) deleteObject(ctx context.Context, c client.WithWatch, o client.Object, opts ...client.DeleteOption) error {
	if err := c.Delete(ctx, o, opts...); err != nil {
		return err
	}
	if b, ok := o.(*v1alpha1.Branch); ok {
		delete(w.declared, b.Spec.Name)
	}
	w.client.Tracker().Observer(w.client.KindOf(o))(o, nil)
	return nil
}

// Environments implements Catalog.
func (w *world) Environments(*v1alpha1.Deployment) ([]*v1alpha1.Environment, error) {
	return nil, nil
}

// session returns a session on the repository.
func (w *world) session(ctx context.Context) *repository.Session {
	return w.repositories.Session(ctx, w.scope())
}

func (w *world) scope() content.Scope {
	return content.Scope{
		Account:    store.Account{UID: string(account.UID), Name: account.Name},
		Deployment: store.Deployment{UID: string(w.deployment.UID), Namespace: w.deployment.Namespace, Name: w.deployment.Name},
	}
}

// write commits files to a branch, as a push or an upload does; an empty text deletes the file.
func (w *world) write(branch string, files map[string]string) {
	w.Helper()
	s := w.session(context.Background())
	var from plumbing.Hash
	var parents []plumbing.Hash
	if b, err := s.Branch(branch); err == nil {
		from, parents = b.Commit, []plumbing.Hash{b.Commit}
	}
	var edits []modeltree.Edit
	for path, text := range files {
		edit := modeltree.Edit{Path: path}
		if text != "" {
			blob, err := modeltree.AddBlob(s, []byte(text))
			w.must(err)
			edit.Blob = blob
		}
		edits = append(edits, edit)
	}
	changed, err := modeltree.Apply(s, from, edits)
	w.must(err)
	to, err := modeltree.AddCommit(s, modeltree.Commit{Tree: changed, Parents: parents, AuthorName: "Saver", AuthorEmail: "saver@example.com", Message: "Save", When: time.Now()})
	w.must(err)
	w.must(s.Save([]repository.Move{{Branch: branch, From: from, To: to}}, nil, nil))
}

// delete deletes a branch, as a push does.
func (w *world) delete(branch string) {
	w.Helper()
	w.must(w.session(context.Background()).Save([]repository.Move{{Branch: branch, From: w.head(branch)}}, nil, nil))
}

func (w *world) must(err error) {
	w.Helper()
	if err != nil {
		w.Fatal(err)
	}
}

// head returns the commit of a branch; the zero hash if there is none.
func (w *world) head(branch string) plumbing.Hash {
	w.Helper()
	all, err := w.session(w.Context()).Branches()
	w.must(err)
	for _, b := range all {
		if b.Name == branch {
			return b.Commit
		}
	}
	return plumbing.ZeroHash
}

// file returns the text of a file of a branch; empty if it does not exist.
func (w *world) file(branch, path string) string {
	w.Helper()
	s := w.session(context.Background())
	files, err := modeltree.Files(s, w.head(branch), "")
	w.must(err)
	for _, f := range files {
		if f.Path == path {
			text, err := modeltree.Content(s, f.Hash)
			w.must(err)
			return string(text)
		}
	}
	return ""
}

// commitOf returns the newest commit of a branch.
func (w *world) commitOf(branch string) *object.Commit {
	w.Helper()
	c, err := object.GetCommit(w.session(context.Background()), w.head(branch))
	w.must(err)
	return c
}

// answer is the response to a request.
type answer struct {
	w      *world
	what   string
	status int
	raw    []byte
}

const prefix = "/build/api/v1/deployments/7"

// call sends a request of a principal below the deployment. A nil body is none.
func (w *world) call(p *auth.Principal, method, path string, body map[string]any) *answer {
	w.Helper()
	return w.callWith(context.Background(), p, method, path, body)
}

// callWith is the same for a request that ends with a context.
func (w *world) callWith(ctx context.Context, p *auth.Principal, method, path string, body map[string]any) *answer {
	w.Helper()
	var text []byte
	if body != nil {
		var err error
		text, err = json.Marshal(body)
		w.must(err)
	}
	if !strings.HasPrefix(path, "/build/deploy/") && !strings.HasPrefix(path, "/devmode/") {
		path = prefix + path
	}
	r := httptest.NewRequestWithContext(ctx, method, path, bytes.NewReader(text))
	if body != nil {
		r.Header.Set("Content-Type", "application/json")
	}
	return w.send(p, r)
}

// send sends a request of a principal.
func (w *world) send(p *auth.Principal, r *http.Request) *answer {
	w.Helper()
	recorder := httptest.NewRecorder()
	w.server.ServeHTTP(recorder, r, account, p)
	return &answer{w, r.Method + " " + r.URL.Path, recorder.Code, recorder.Body.Bytes()}
}

// is checks the status.
func (a *answer) is(status int, words ...string) *answer {
	a.w.Helper()
	if a.status != status {
		a.w.Fatalf("%s: got %d, want %d: %s", a.what, a.status, status, a.raw)
	}
	for _, word := range words {
		if !strings.Contains(string(a.raw), word) {
			a.w.Errorf("%s: the response has no %q: %s", a.what, word, a.raw)
		}
	}
	return a
}

// get returns a field of the response.
func (a *answer) get(field string) any {
	a.w.Helper()
	var all map[string]any
	if err := json.Unmarshal(a.raw, &all); err != nil {
		a.w.Fatalf("%s: %s", a.what, a.raw)
	}
	return all[field]
}

// enter enters dev mode on a branch and returns the name of the personal branch.
func (w *world) enter(p *auth.Principal, branch string) string {
	w.Helper()
	name, _ := w.call(p, "POST", "/dev-mode", map[string]any{"branchName": branch}).is(200).get("branchName").(string)
	return name
}

// names returns the names of the recorded events, and forgets them.
func (w *world) names() string {
	w.mu.Lock()
	defer w.mu.Unlock()
	var names []string
	for _, e := range w.events {
		names = append(names, e.Name+" "+e.Object.Name)
	}
	w.events = nil
	return strings.Join(names, ", ")
}

// Deployments implements Catalog.
func (w *world) Deployments(string, *auth.Principal, v1alpha1.Permission) ([]*v1alpha1.Deployment, error) {
	return nil, nil
}
