// Package remote_test tests changes over REST of data models that are in a Git repository on a Git host:
// the handlers of the REST API with a real database, SQLite and PostgreSQL, and a real Git server. There
// is no controller: each branch has its object at once.
package remote_test

import (
	"bytes"
	"context"
	"encoding/json"
	"io"
	"mime/multipart"
	"net/http/httptest"
	"strconv"
	"strings"
	"sync"
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
	"github.com/quoin-dev/quoin/apiserver/rest/deployments"
	"github.com/quoin-dev/quoin/apiserver/rest/model"
	"github.com/quoin-dev/quoin/internal/apitest"
	"github.com/quoin-dev/quoin/internal/audit"
	"github.com/quoin-dev/quoin/internal/content"
	"github.com/quoin-dev/quoin/internal/content/dbtsync"
	"github.com/quoin-dev/quoin/internal/content/deploytoken"
	"github.com/quoin-dev/quoin/internal/content/devmode"
	"github.com/quoin-dev/quoin/internal/content/repository"
	"github.com/quoin-dev/quoin/internal/content/upload"
	"github.com/quoin-dev/quoin/internal/kube"
	"github.com/quoin-dev/quoin/internal/store"
	"github.com/quoin-dev/quoin/internal/store/storetest"
)

var (
	ada = &auth.Principal{Kind: auth.KindUser, ID: "ada", Name: "Ada Lovelace", Email: "ada@example.com", Grants: access.OnAll(v1alpha1.PermissionSchemaUpdate, v1alpha1.PermissionSchemaRead, v1alpha1.PermissionDeploymentRead)}
	bob = &auth.Principal{Kind: auth.KindAPIKey, ID: "ci", Name: "CI", Grants: access.OnAll(v1alpha1.PermissionSchemaUpdate, v1alpha1.PermissionSchemaRead)}
)

// owners have the tables.
var owners = []store.Owner{audit.Owner, repository.Owner, devmode.Owner, upload.Owner, deploytoken.Owner, dbtsync.Owner}

// world is a replica of the server, and a deployment of an account whose model is on a Git host.
type world struct {
	testing.TB
	host       *host
	db         content.Database
	account    *v1alpha1.Account
	deployment *v1alpha1.Deployment
	mirrors    *gitmirror.Mirrors
	kube       client.Client
	server     *rest.API

	// ask is the server of each environment.
	ask model.Ask
	// observed has the commits that the controller has read, by branch; nil for those of the host.
	observed map[string]string

	mu     sync.Mutex
	events []string
	moved  int
	ahead  time.Duration
}

// onBoth runs a test on both databases, with a new host.
func onBoth(t *testing.T, test func(w *world)) {
	t.Helper()
	storetest.ForEach(t, func(t *testing.T, newDatabase func(testing.TB) string) {
		test(newWorld(t, newHost(t), open(t, newDatabase(t)), "a1"))
	})
}

func open(t testing.TB, url string) *store.Store {
	t.Helper()
	s, err := store.Open(context.Background(), url, nil, owners...)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = s.Close() })
	return s
}

// newWorld returns a replica for a deployment of an account with a UID.
func newWorld(t testing.TB, h *host, db content.Database, uid string) *world {
	t.Helper()
	w := &world{TB: t, host: h, db: db, account: &v1alpha1.Account{
		ObjectMeta: metav1.ObjectMeta{Name: "demo-" + uid, UID: types.UID("account-" + uid)}, Spec: v1alpha1.AccountSpec{Namespace: "demo-" + uid},
	}}
	w.deployment = &v1alpha1.Deployment{
		ObjectMeta: metav1.ObjectMeta{Namespace: w.account.Spec.Namespace, Name: "sales", UID: types.UID("deployment-" + uid), Labels: map[string]string{v1alpha1.LabelID: "7"}},
		Spec:       v1alpha1.DeploymentSpec{Model: v1alpha1.ModelSource{Git: &v1alpha1.GitSource{URL: h.url, SecretRef: &v1alpha1.LocalReference{Name: "git"}}}},
	}
	secret := &corev1.Secret{
		ObjectMeta: metav1.ObjectMeta{Namespace: w.deployment.Namespace, Name: "git"},
		Data:       map[string][]byte{"username": []byte(user), "password": []byte(password)},
	}
	w.kube = fake.NewClientBuilder().WithScheme(apitest.Scheme(t)).WithObjects(w.deployment.DeepCopy(), secret).Build()
	repositories := &repository.Repositories{DB: db, Record: w.record}
	w.mirrors = gitmirror.New(gitmirror.Options{Repositories: repositories, Live: w.kube, AllowInsecure: true, Now: w.now})
	groups := model.New(model.Options{
		Kube: kube.NewClient(w.kube, w.kube, "test"), Catalog: w, Repositories: repositories, Mirrors: w.mirrors,
		DevMode: &devmode.DevMode{DB: db}, Uploads: &upload.Uploads{DB: db, Record: w.record},
		DeployTokens: &deploytoken.Tokens{DB: db, Record: w.record}, DbtSyncs: &dbtsync.Syncs{DB: db, Record: w.record},
		Moved: func(context.Context, *v1alpha1.Deployment) error {
			w.mu.Lock()
			defer w.mu.Unlock()
			w.moved++
			return nil
		},
		Ask: func(ctx context.Context, e *v1alpha1.Environment, token string) (int, io.ReadCloser, error) {
			return w.ask(ctx, e, token)
		},
	})
	groups = append(groups, deployments.New(deployments.Options{
		Kube: kube.NewClient(w.kube, w.kube, "test"), Catalog: w, Repositories: repositories, Mirrors: w.mirrors,
	})...)
	var err error
	if w.server, err = rest.New(rest.Options{Deployments: w}, groups...); err != nil {
		t.Fatal(err)
	}
	return w
}

func (w *world) scope() content.Scope {
	return content.Scope{
		Account:    store.Account{UID: string(w.account.UID), Name: w.account.Name},
		Deployment: store.Deployment{UID: string(w.deployment.UID), Namespace: w.deployment.Namespace, Name: w.deployment.Name},
	}
}

func (w *world) record(_ context.Context, _ *store.Tx, e audit.Event) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	outcome := e.Outcome
	if outcome == "" {
		outcome = audit.Succeeded
	}
	w.events = append(w.events, e.Name+": "+string(outcome))
	return nil
}

// recorded returns the events since the last call.
func (w *world) recorded() string {
	w.mu.Lock()
	defer w.mu.Unlock()
	all := strings.Join(w.events, ", ")
	w.events = nil
	return all
}

// now is the clock of the mirrors, and later moves it.
func (w *world) now() time.Time {
	w.mu.Lock()
	defer w.mu.Unlock()
	return time.Now().Add(w.ahead)
}

func (w *world) later(by time.Duration) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.ahead += by
}

// repository returns a session on the mirror.
func (w *world) repository() *repository.Session {
	r := &repository.Repositories{DB: w.db, Record: w.record}
	return r.Mirror(context.Background(), w.scope(), w.deployment.Spec.Model.Git.URL, nil)
}

// Find implements the finder of the engine.
func (w *world) Find(context.Context, string, string) (*v1alpha1.Deployment, error) {
	return w.deployment.DeepCopy(), nil
}

// FindCached implements the finder of the engine.
func (w *world) FindCached(context.Context, string, string) (*v1alpha1.Deployment, error) {
	return w.deployment.DeepCopy(), nil
}

// Branches implements model.Catalog: the objects that the controller would make.
func (w *world) Branches(*v1alpha1.Deployment) (all []*v1alpha1.Branch, err error) {
	for i, line := range strings.Split(w.host.heads(), "\n") {
		name, commit, _ := strings.Cut(line, " ")
		if w.observed != nil {
			commit = w.observed[name]
		}
		role := v1alpha1.BranchShared
		switch {
		case name == "main":
			role = v1alpha1.BranchProduction
		case strings.HasPrefix(name, "dev-"):
			role = v1alpha1.BranchPersonal
		}
		all = append(all, &v1alpha1.Branch{
			ObjectMeta: metav1.ObjectMeta{Namespace: w.deployment.Namespace, Name: "b" + strconv.Itoa(i), Annotations: map[string]string{v1alpha1.AnnotationCommit: commit}, Labels: map[string]string{v1alpha1.LabelRemote: "true", v1alpha1.LabelID: strconv.Itoa(i + 1)}},
			Spec:       v1alpha1.BranchSpec{Name: name, Role: role},
			Status:     v1alpha1.BranchStatus{ID: int64(i + 1), LastHash: commit},
		})
	}
	return all, nil
}

// Environments implements model.Catalog.
func (w *world) Environments(*v1alpha1.Deployment) ([]*v1alpha1.Environment, error) {
	return nil, nil
}

// Deployments implements model.Catalog.
func (w *world) Deployments(string, *auth.Principal, v1alpha1.Permission) ([]*v1alpha1.Deployment, error) {
	return []*v1alpha1.Deployment{w.deployment}, nil
}

// answer is the response to a request.
type answer struct {
	w      *world
	what   string
	status int
	raw    []byte
}

const prefix = "/build/api/v1/deployments/7"

// call sends a request below the deployment. A nil body is none.
func (w *world) call(p *auth.Principal, method, path string, body map[string]any) *answer {
	w.Helper()
	return w.send(p, method, prefix+path, body)
}

func (w *world) send(p *auth.Principal, method, path string, body map[string]any) *answer {
	w.Helper()
	var text []byte
	if body != nil {
		var err error
		text, err = json.Marshal(body)
		w.must(err)
	}
	r := httptest.NewRequestWithContext(context.Background(), method, path, bytes.NewReader(text))
	if body != nil {
		r.Header.Set("Content-Type", "application/json")
	}
	recorder := httptest.NewRecorder()
	w.server.ServeHTTP(recorder, r, w.account, p)
	return &answer{w, method + " " + path, recorder.Code, recorder.Body.Bytes()}
}

// form sends a file of an upload.
func (w *world) form(path string, fields map[string]string, text string) *answer {
	w.Helper()
	var body bytes.Buffer
	form := multipart.NewWriter(&body)
	for name, value := range fields {
		w.must(form.WriteField(name, value))
	}
	file, err := form.CreateFormFile("file", "file")
	w.must(err)
	_, err = file.Write([]byte(text))
	w.must(err)
	w.must(form.Close())
	r := httptest.NewRequestWithContext(context.Background(), "POST", path, &body)
	r.Header.Set("Content-Type", form.FormDataContentType())
	recorder := httptest.NewRecorder()
	w.server.ServeHTTP(recorder, r, w.account, ada)
	return &answer{w, "POST " + path, recorder.Code, recorder.Body.Bytes()}
}

func (w *world) must(err error) {
	w.Helper()
	if err != nil {
		w.Fatal(err)
	}
}

// is checks the status, and that the response has words.
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

// write writes a file to the active branch of a caller.
func (w *world) write(p *auth.Principal, path, text string) *answer {
	w.Helper()
	return w.call(p, "PUT", "/data-model/files", map[string]any{"files": []map[string]any{{"path": path, "content": text}}})
}
