package dbtobjects

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/uuid"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	"github.com/quoin-dev/quoin/api/v1alpha1"
	"github.com/quoin-dev/quoin/internal/apitest"
	"github.com/quoin-dev/quoin/internal/audit"
	"github.com/quoin-dev/quoin/internal/content"
	"github.com/quoin-dev/quoin/internal/content/contenttest"
	"github.com/quoin-dev/quoin/internal/content/dbtsync"
	"github.com/quoin-dev/quoin/internal/content/repository"
	"github.com/quoin-dev/quoin/internal/engine"
	"github.com/quoin-dev/quoin/internal/serving"
	"github.com/quoin-dev/quoin/internal/store"
	"github.com/quoin-dev/quoin/internal/store/storetest"
	"github.com/quoin-dev/quoin/internal/tenant"
)

// world is a server with a database and a fake Kubernetes API server, which have the accounts acme and
// globex with a deployment named sales each. There is no controller: the tests set the stages.
type world struct {
	*testing.T
	kube    client.WithWatch
	syncs   *dbtsync.Syncs
	store   *store.Store
	objects *Objects
	web     *httptest.Server
	// reads counts the reads from the Kubernetes API server.
	reads atomic.Int64
	// outdated changes what the cache returns for a DbtSync; it may be nil.
	outdated func(*v1alpha1.DbtSync)

	mu    sync.Mutex
	clock time.Time // guarded by mu
}

func (w *world) now() time.Time {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.clock
}

func (w *world) later(by time.Duration) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.clock = w.clock.Add(by)
}

func newWorld(t *testing.T) *world {
	t.Helper()
	s := contenttest.Open(t, storetest.SQLiteURL(t), audit.Owner, repository.Owner, dbtsync.Owner)
	w := &world{T: t, store: s, clock: time.Date(2026, 11, 22, 12, 0, 0, 0, time.UTC)}
	var all []client.Object
	for _, name := range []string{"acme", "globex"} {
		all = append(all, account(name), deployment(name))
	}
	w.kube = interceptor.NewClient(fake.NewClientBuilder().WithScheme(apitest.Scheme(t)).WithObjects(all...).WithStatusSubresource(&v1alpha1.DbtSync{}).
		WithIndex(&v1alpha1.Account{}, tenant.IndexNamespace, tenant.NamespaceOf).Build(),
		interceptor.Funcs{Create: func(ctx context.Context, c client.WithWatch, o client.Object, opts ...client.CreateOption) error {
			o.SetUID(types.UID(uuid.NewString()))
			return c.Create(ctx, o, opts...)
		}})
	w.syncs = &dbtsync.Syncs{DB: s, Record: func(context.Context, *store.Tx, audit.Event) error { return nil }, Now: w.now}
	w.objects = w.replica()
	handler := serving.Wrap(w.objects, serving.WrapOptions{
		Log: slog.New(slog.DiscardHandler), BodyLimitOf: BodyLimit, TrustedProxies: []netip.Prefix{netip.MustParsePrefix("127.0.0.0/8"), netip.MustParsePrefix("::1/128")},
	})
	w.web = httptest.NewServer(handler)
	t.Cleanup(w.web.Close)
	return w
}

func account(name string) *v1alpha1.Account {
	return &v1alpha1.Account{ObjectMeta: metav1.ObjectMeta{Name: name, UID: types.UID("account-" + name)}, Spec: v1alpha1.AccountSpec{Namespace: name}}
}

func deployment(namespace string) *v1alpha1.Deployment {
	return &v1alpha1.Deployment{
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "sales", UID: types.UID("deployment-" + namespace), Labels: map[string]string{v1alpha1.LabelID: "7"}},
		Spec:       v1alpha1.DeploymentSpec{Model: v1alpha1.ModelSource{Repository: &v1alpha1.RepositorySource{}}},
	}
}

// scope returns the deployment of an account in the form of the content store.
func (w *world) scope(name string) content.Scope { return scopeOf(account(name), deployment(name)) }

// replica returns Objects of another process.
func (w *world) replica() *Objects {
	cached := interceptor.NewClient(w.kube, interceptor.Funcs{Get: func(ctx context.Context, c client.WithWatch, key client.ObjectKey, o client.Object, opts ...client.GetOption) error {
		err := c.Get(ctx, key, o, opts...)
		if obj, ok := o.(*v1alpha1.DbtSync); ok && w.outdated != nil && err == nil {
			w.outdated(obj)
		}
		return err
	}})
	live := interceptor.NewClient(w.kube, interceptor.Funcs{Get: func(ctx context.Context, c client.WithWatch, key client.ObjectKey, o client.Object, opts ...client.GetOption) error {
		w.reads.Add(1)
		return c.Get(ctx, key, o, opts...)
	}})
	return New(Options{
		Cached: cached, Live: live, Writer: w.kube, Syncs: w.syncs, Git: true, Trusted: func() []byte { return []byte("certificates") },
		Log: slog.New(slog.DiscardHandler), Now: w.now,
	})
}

func (w *world) must(err error) {
	w.Helper()
	if err != nil {
		w.Fatal(err)
	}
}

// start starts a sync of a Git repository over REST, and returns its object when it has been admitted.
func (w *world) start(account string) *v1alpha1.DbtSync {
	w.Helper()
	s, err := w.syncs.Start(w.Context(), w.scope(account), "key:k1", dbtsync.New{
		DeploymentNumber: "7", Trigger: "api", Output: dbtsync.ToBranch, Branch: "dbt-sync/" + uuid.NewString(), Base: "main", AuthorName: "a", AuthorEmail: "a@example.com",
		Git: &v1alpha1.DbtGitSource{URL: "https://git.example.com/dbt.git"},
	})
	w.must(err)
	w.pass()
	obj := w.get(account, s.ObjectName)
	if obj.Status.Stage != v1alpha1.DbtStageInitializing {
		w.Fatalf("the object is not admitted: %+v", obj.Status)
	}
	w.reads.Store(0)
	return obj
}

// pass makes passes until the objects are as the rows are.
func (w *world) pass() {
	w.Helper()
	for range 3 {
		w.must(w.objects.Pass(w.Context()))
	}
}

func (w *world) get(namespace, name string) *v1alpha1.DbtSync {
	w.Helper()
	obj := &v1alpha1.DbtSync{}
	w.must(w.kube.Get(w.Context(), client.ObjectKey{Namespace: namespace, Name: name}, obj))
	return obj
}

// stage sets the stage of an object, as quoin controller does.
func (w *world) stage(obj *v1alpha1.DbtSync, stage string) {
	w.Helper()
	obj = w.get(obj.Namespace, obj.Name)
	before := obj.DeepCopy()
	obj.Status.Stage = stage
	w.must(w.kube.Status().Patch(w.Context(), obj, client.MergeFrom(before)))
}

// password returns the password for the delivery of a sync.
func (w *world) password(obj *v1alpha1.DbtSync) string {
	w.Helper()
	secret := &corev1.Secret{}
	w.must(w.kube.Get(w.Context(), client.ObjectKey{Namespace: obj.Namespace, Name: engine.DbtDeliveryName(obj.Name)}, secret))
	if len(secret.Data[corev1.BasicAuthPasswordKey]) < 20 || string(secret.Data["ca.crt"]) != "certificates" {
		w.Errorf("the Secret has %q", secret.Data)
	}
	return string(secret.Data[corev1.BasicAuthPasswordKey])
}

// delivery is a request of a pod, or of an attacker.
type delivery struct {
	namespace, name, password string
	method                    string // PUT if empty
	body                      io.Reader
	// from is the address of the client; 10.0.0.1 if empty.
	from string
}

// of returns the delivery of a manifest for a sync.
func of(obj *v1alpha1.DbtSync, password string) delivery {
	return delivery{namespace: obj.Namespace, name: obj.Name, password: password, body: strings.NewReader(`{"manifest":` + manifest + `}`)}
}

const manifest = `{"metadata":{"dbt_schema_version":"https://schemas.getdbt.com/dbt/manifest/v12.json","dbt_version":"1.10.2","adapter_type":"postgres"},
	"nodes":{"model.shop.orders":{"resource_type":"model","name":"orders","schema":"analytics","columns":{"id":{"name":"id"}}}}}`

// send sends a delivery, and returns the status and the error in the response.
func (w *world) send(d delivery) (int, string) {
	w.Helper()
	status, text, err := w.request(d)
	w.must(err)
	return status, text
}

func (w *world) request(d delivery) (int, string, error) {
	if d.method == "" {
		d.method = http.MethodPut
	}
	if d.from == "" {
		d.from = "10.0.0.1"
	}
	r, err := http.NewRequestWithContext(w.Context(), d.method, w.web.URL+engine.DbtDeliveryPath(d.namespace, d.name), d.body)
	if err != nil {
		return 0, "", err
	}
	if d.password != "" {
		r.SetBasicAuth("dbt", d.password)
	}
	r.Header.Set("X-Forwarded-For", d.from)
	response, err := http.DefaultClient.Do(r)
	if err != nil {
		return 0, "", err
	}
	defer response.Body.Close()
	raw, err := io.ReadAll(response.Body)
	if err != nil {
		return 0, "", err
	}
	var text struct{ Error string }
	if len(raw) > 0 {
		if err := json.Unmarshal(raw, &text); err != nil {
			return 0, "", fmt.Errorf("%w: %s", err, raw)
		}
	}
	return response.StatusCode, text.Error, nil
}
