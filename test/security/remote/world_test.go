// Package remote_test attacks the REST API through the Git host with the data model of a deployment:
// every account chooses the hosts that quoin apiserver reads and pushes to.
package remote_test

import (
	"bytes"
	"context"
	"encoding/json"
	"net/http/httptest"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"

	"github.com/quoin-dev/quoin/api/v1alpha1"
	"github.com/quoin-dev/quoin/apiserver/access"
	"github.com/quoin-dev/quoin/apiserver/auth"
	"github.com/quoin-dev/quoin/apiserver/gitmirror"
	"github.com/quoin-dev/quoin/apiserver/rest"
	"github.com/quoin-dev/quoin/apiserver/rest/model"
	"github.com/quoin-dev/quoin/internal/apitest"
	"github.com/quoin-dev/quoin/internal/audit"
	"github.com/quoin-dev/quoin/internal/content"
	"github.com/quoin-dev/quoin/internal/content/devmode"
	"github.com/quoin-dev/quoin/internal/content/repository"
	"github.com/quoin-dev/quoin/internal/kube"
	"github.com/quoin-dev/quoin/internal/store"
	"github.com/quoin-dev/quoin/internal/store/storetest"
)

const (
	user     = "ci"
	password = "hunter2-do-not-print"
)

// ada works in every account.
var ada = &auth.Principal{Kind: auth.KindUser, ID: "ada", Name: "Ada", Email: "ada@example.com", Grants: access.OnAll(v1alpha1.PermissionSchemaUpdate, v1alpha1.PermissionSchemaRead)}

// world is a replica of the server. The deployment with the id 7 of each account has its model on a Git
// host; the other ids are further deployments with the same host.
type world struct {
	testing.TB
	repositories *repository.Repositories
	kube         client.Client
	server       *rest.API

	mu     sync.Mutex
	events []string
	ahead  time.Duration
	// urls are the remotes by the namespace of the account.
	urls map[string]string
}

func newWorld(t testing.TB, timeouts gitmirror.Timeouts) *world {
	t.Helper()
	s, err := store.Open(context.Background(), storetest.SQLiteURL(t), nil, audit.Owner, repository.Owner, devmode.Owner)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = s.Close() })
	w := &world{TB: t, urls: map[string]string{}}
	w.repositories = &repository.Repositories{DB: s, Record: w.record}
	w.kube = fake.NewClientBuilder().WithScheme(apitest.Scheme(t)).Build()
	mirrors := gitmirror.New(gitmirror.Options{Repositories: w.repositories, Live: w.kube, AllowInsecure: true, Now: w.now, Timeouts: timeouts})
	groups := model.New(model.Options{
		Kube: kube.NewClient(w.kube, w.kube, "test"), Catalog: w, Repositories: w.repositories, Mirrors: mirrors,
		DevMode: &devmode.DevMode{DB: s}, Moved: func(context.Context, *v1alpha1.Deployment) error { return nil },
	})
	if w.server, err = rest.New(rest.Options{Deployments: w}, groups...); err != nil {
		t.Fatal(err)
	}
	return w
}

// uses makes an account use a remote, with a Secret; without data it has none.
func (w *world) uses(account, url string, secret map[string][]byte) {
	w.Helper()
	w.mu.Lock()
	defer w.mu.Unlock()
	w.urls[account] = url
	o := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: account, Name: "git"}, Data: secret}
	_ = w.kube.Delete(context.Background(), o.DeepCopy()) // it may not exist
	if err := w.kube.Create(context.Background(), o); err != nil {
		w.Fatal(err)
	}
}

// basic is the Secret of a remote over HTTP.
func basic() map[string][]byte {
	return map[string][]byte{"username": []byte(user), "password": []byte(password)}
}

func (w *world) record(_ context.Context, _ *store.Tx, e audit.Event) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.events = append(w.events, e.Name+": "+string(e.Outcome)+" "+e.Reason)
	return nil
}

func (w *world) recorded() string {
	w.mu.Lock()
	defer w.mu.Unlock()
	return strings.Join(w.events, "\n")
}

func (w *world) now() time.Time {
	w.mu.Lock()
	defer w.mu.Unlock()
	return time.Now().Add(w.ahead)
}

// later lets the time pass after which remotes are read again.
func (w *world) later() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.ahead += time.Minute
}

func (w *world) deployment(namespace, id string) *v1alpha1.Deployment {
	w.mu.Lock()
	defer w.mu.Unlock()
	return &v1alpha1.Deployment{
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "d" + id, UID: types.UID(namespace + id), Labels: map[string]string{v1alpha1.LabelID: id}},
		Spec: v1alpha1.DeploymentSpec{Model: v1alpha1.ModelSource{Git: &v1alpha1.GitSource{
			URL: w.urls[namespace], SecretRef: &v1alpha1.LocalReference{Name: "git"},
		}}},
	}
}

// Find implements the finder of the engine.
func (w *world) Find(_ context.Context, namespace, id string) (*v1alpha1.Deployment, error) {
	return w.deployment(namespace, id), nil
}

// FindCached implements the finder of the engine.
func (w *world) FindCached(_ context.Context, namespace, id string) (*v1alpha1.Deployment, error) {
	return w.deployment(namespace, id), nil
}

// Branches implements model.Catalog: those of the mirror.
func (w *world) Branches(d *v1alpha1.Deployment) (all []*v1alpha1.Branch, err error) {
	branches, err := w.mirror(w.Context(), d.Namespace).Branches()
	for _, b := range branches {
		all = append(all, &v1alpha1.Branch{
			ObjectMeta: metav1.ObjectMeta{Namespace: d.Namespace, Name: b.Name, Labels: map[string]string{v1alpha1.LabelRemote: "true"}},
			Spec:       v1alpha1.BranchSpec{Name: b.Name}, Status: v1alpha1.BranchStatus{LastHash: b.Commit.String()},
		})
	}
	return all, err
}

// Environments implements model.Catalog.
func (*world) Environments(*v1alpha1.Deployment) ([]*v1alpha1.Environment, error) {
	return nil, nil
}

// Deployments implements model.Catalog.
func (*world) Deployments(string, *auth.Principal, v1alpha1.Permission) ([]*v1alpha1.Deployment, error) {
	return nil, nil
}

// mirror returns a session on the mirror of deployment 7 of an account.
func (w *world) mirror(ctx context.Context, account string) *repository.Session {
	d := w.deployment(account, "7")
	return w.repositories.Mirror(ctx, content.Scope{
		Account:    store.Account{UID: account, Name: account},
		Deployment: store.Deployment{UID: string(d.UID), Namespace: account, Name: d.Name},
	}, d.Spec.Model.Git.URL, nil)
}

// branches describes the mirror of an account.
func (w *world) branches(account string) map[string]string {
	w.Helper()
	all, err := w.mirror(context.Background(), account).Branches()
	if err != nil {
		w.Fatal(err)
	}
	found := map[string]string{}
	for _, b := range all {
		found[b.Name] = b.Commit.String()
	}
	return found
}

// answer is the response to a request.
type answer struct {
	w      *world
	what   string
	status int
	text   string
}

// call sends a request below deployment 7 of an account.
func (w *world) call(account, method, path string, body map[string]any) *answer {
	w.Helper()
	return w.callOf(context.Background(), account, "7", method, path, body)
}

func (w *world) callOf(ctx context.Context, account, id, method, path string, body map[string]any) *answer {
	w.Helper()
	var text []byte
	if body != nil {
		var err error
		if text, err = json.Marshal(body); err != nil {
			w.Fatal(err)
		}
	}
	r := httptest.NewRequestWithContext(ctx, method, "/build/api/v1/deployments/"+id+path, bytes.NewReader(text))
	if body != nil {
		r.Header.Set("Content-Type", "application/json")
	}
	recorder := httptest.NewRecorder()
	w.server.ServeHTTP(recorder, r, &v1alpha1.Account{
		ObjectMeta: metav1.ObjectMeta{Name: account, UID: types.UID(account)}, Spec: v1alpha1.AccountSpec{Namespace: account},
	}, ada)
	return &answer{w, method + " " + path, recorder.Code, recorder.Body.String()}
}

// is checks the status, and that the response has words.
func (a *answer) is(status int, words ...string) *answer {
	a.w.Helper()
	if a.status != status {
		a.w.Fatalf("%s: got %d, want %d: %.2000s", a.what, a.status, status, a.text)
	}
	for _, word := range words {
		if !strings.Contains(a.text, word) {
			a.w.Errorf("%s: the response has no %q: %.2000s", a.what, word, a.text)
		}
	}
	return a
}

// heapDuring returns by how many bytes the heap grew at most while a function ran.
func heapDuring(f func()) uint64 {
	runtime.GC()
	var before runtime.MemStats
	runtime.ReadMemStats(&before)
	var most atomic.Uint64
	done, ended := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(ended)
		for {
			var now runtime.MemStats
			runtime.ReadMemStats(&now)
			most.Store(max(most.Load(), now.HeapAlloc))
			select {
			case <-done:
				return
			case <-time.After(2 * time.Millisecond):
			}
		}
	}()
	f()
	close(done)
	<-ended
	return most.Load() - min(most.Load(), before.HeapAlloc)
}
