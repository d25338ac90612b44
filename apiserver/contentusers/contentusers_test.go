package contentusers

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	"github.com/quoin-dev/quoin/api/v1alpha1"
	"github.com/quoin-dev/quoin/internal/apitest"
	"github.com/quoin-dev/quoin/internal/audit"
	"github.com/quoin-dev/quoin/internal/content"
	"github.com/quoin-dev/quoin/internal/content/access"
	"github.com/quoin-dev/quoin/internal/content/contenttest"
	"github.com/quoin-dev/quoin/internal/content/folder"
	"github.com/quoin-dev/quoin/internal/content/subject"
	"github.com/quoin-dev/quoin/internal/content/workspace"
	"github.com/quoin-dev/quoin/internal/store"
	"github.com/quoin-dev/quoin/internal/store/storetest"
	"github.com/quoin-dev/quoin/internal/tenant"
)

// world is an account with the user ada, a database, and a replica of the service.
type world struct {
	*testing.T
	service *Service
	account *v1alpha1.Account
	api     client.Client
	store   *store.Store
	content *workspace.Workspace
	// failing is returned instead of reading a user from the Kubernetes API server.
	failing error
}

var (
	ada   = subject.User{Name: "ada", UID: "u1"}
	again = subject.User{Name: "ada", UID: "u2"}
)

func newWorld(t *testing.T) *world {
	t.Helper()
	w := &world{T: t, account: &v1alpha1.Account{
		ObjectMeta: metav1.ObjectMeta{Name: "demo", UID: "a1"},
		Spec:       v1alpha1.AccountSpec{Namespace: "demo", Plan: v1alpha1.PlanEnterprise, AuditLog: &v1alpha1.AuditLog{Enabled: ptr.To(true)}},
	}}
	w.api = fake.NewClientBuilder().WithScheme(apitest.Scheme(t)).WithObjects(w.account, user(ada)).
		WithIndex(&v1alpha1.Account{}, tenant.IndexNamespace, tenant.NamespaceOf).Build()
	live := interceptor.NewClient(w.api.(client.WithWatch), interceptor.Funcs{Get: func(ctx context.Context, c client.WithWatch, key client.ObjectKey, o client.Object, options ...client.GetOption) error {
		if w.failing != nil {
			return w.failing
		}
		return c.Get(ctx, key, o, options...)
	}})
	w.store = contenttest.Open(t, storetest.SQLiteURL(t), audit.Owner, folder.Owner, access.Owner, workspace.Owner, subject.Owner)
	w.content = &workspace.Workspace{DB: w.store, Record: func(context.Context, *store.Tx, audit.Event) error { return nil }}
	w.service = New(Options{
		Users: &subject.Users{DB: w.store, Parts: workspace.OfUsers}, Cache: w.api, Live: live, Log: slog.New(slog.DiscardHandler),
	})
	return w
}

func user(u subject.User) *v1alpha1.ScimUser {
	return &v1alpha1.ScimUser{ObjectMeta: metav1.ObjectMeta{Namespace: "demo", Name: u.Name, UID: types.UID(u.UID)}, Spec: v1alpha1.ScimUserSpec{UserName: u.Name}}
}

func (w *world) must(err error) {
	w.Helper()
	if err != nil {
		w.Fatal(err)
	}
}

// create creates a workbook of ada.
func (w *world) create() {
	w.Helper()
	s := content.Scope{Account: stored(w.account), Deployment: store.Deployment{UID: "d1", Namespace: "demo", Name: "sales"}}
	_, err := w.content.Create(w.Context(), s, workspace.Caller{Principal: "ApiKey:k", Owner: subject.OwnerOf("ada")}, workspace.Change{})
	w.must(err)
}

// owners returns the owners of all workbooks, in order.
func (w *world) owners() (out string) {
	w.Helper()
	rows, err := w.store.Reader().QueryContext(w.Context(), "SELECT owner FROM workbook ORDER BY id")
	w.must(err)
	defer func() { _ = rows.Close() }()
	for rows.Next() {
		var owner string
		w.must(rows.Scan(&owner))
		out += owner + " "
	}
	w.must(rows.Err())
	return out
}

func (w *world) wantOwners(want string) {
	w.Helper()
	if got := w.owners(); got != want {
		w.Errorf("the owners are %q, want %q", got, want)
	}
}

// replaceUser deletes ada and creates another user of the name.
func (w *world) replaceUser() {
	w.Helper()
	w.must(w.api.Delete(w.Context(), user(ada)))
	w.must(w.api.Create(w.Context(), user(again)))
}

func (w *world) rejects(err error, reason content.Reason) {
	w.Helper()
	contenttest.Rejects(w, err, reason, "delete")
}

const (
	hers           = "ScimUser:ada "
	administrators = "Account:demo "
)

func TestSweep(t *testing.T) {
	for name, c := range map[string]struct {
		before func(w *world)
		fails  bool
		want   string
	}{
		"the user exists":              {func(*world) {}, false, hers},
		"the user is deactivated":      {(*world).deactivate, false, hers},
		"the user is deleted":          {func(w *world) { w.must(w.api.Delete(w.Context(), user(ada))) }, false, administrators},
		"another user has the name":    {(*world).replaceUser, false, administrators},
		"Kubernetes does not answer":   {func(w *world) { w.replaceUser(); w.failing = errors.New("unreachable") }, true, hers},
		"the cache is empty":           {func(w *world) { w.service.Cache = emptyOfUsers{w.api} }, false, hers},
		"the account is being deleted": {(*world).deleteAccount, false, hers},
		"the account is another one":   {func(w *world) { w.replaceUser(); w.replaceAccount() }, false, hers},
		"a process was killed":         {func(w *world) { contenttest.Exec(w, w.store, "UPDATE content_user SET gone = 1") }, false, administrators},
		"the UID is not known":         {func(w *world) { w.replaceUser(); contenttest.Exec(w, w.store, "UPDATE content_user SET user_uid = ''") }, false, hers},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t)
			w.must(w.service.Admit(t.Context(), w.account, ada))
			w.create()
			c.before(w)
			for range 2 {
				if err := w.service.Sweep(t.Context()); (err != nil) != c.fails {
					t.Error(err)
				}
				w.wantOwners(c.want)
			}
			w.failing = nil
		})
	}
}

func (w *world) deactivate() {
	u := user(ada)
	w.must(w.api.Get(w.Context(), client.ObjectKeyFromObject(u), u))
	u.Spec.Active = ptr.To(false)
	w.must(w.api.Update(w.Context(), u))
}

func (w *world) deleteAccount() {
	w.account.Finalizers = []string{"test/kept"}
	w.must(w.api.Update(w.Context(), w.account))
	w.must(w.api.Delete(w.Context(), w.account))
	w.must(w.api.Delete(w.Context(), user(ada)))
}

func (w *world) replaceAccount() {
	w.must(w.api.Delete(w.Context(), w.account))
	w.must(w.api.Create(w.Context(), &v1alpha1.Account{ObjectMeta: metav1.ObjectMeta{Name: "demo", UID: "a2"}, Spec: w.account.Spec}))
}

// emptyOfUsers is a cache without users.
type emptyOfUsers struct{ client.Client }

func (e emptyOfUsers) Get(ctx context.Context, key client.ObjectKey, o client.Object, options ...client.GetOption) error {
	if _, ok := o.(*v1alpha1.ScimUser); ok {
		key.Name = "nobody"
	}
	return e.Client.Get(ctx, key, o, options...)
}

// TestNamesAreUsedAgain: the next user of a name is admitted when the content of the deleted one is handed over, also if the worker
// has not noticed the deletion.
func TestNamesAreUsedAgain(t *testing.T) {
	w := newWorld(t)
	w.must(w.service.Admit(t.Context(), w.account, ada))
	w.create()
	w.replaceUser()
	w.failing = errors.New("unreachable")
	if err := w.service.Admit(t.Context(), w.account, again); !errors.Is(err, w.failing) {
		t.Errorf("Kubernetes does not answer: %v", err)
	}
	w.wantOwners(hers)
	w.failing = nil
	w.must(w.service.Admit(t.Context(), w.account, again))
	w.wantOwners(administrators)
	w.create()
	// A replica whose cache is behind does not take the content of the new user.
	behind := New(w.service.Options)
	w.rejects(behind.Admit(t.Context(), w.account, ada), content.Forbidden)
	w.wantOwners(administrators + hers)
	w.must(w.service.Sweep(t.Context()))
	w.wantOwners(administrators + hers)
}

// TestLargeContent: a request of the next user of a name does not wait for long.
func TestLargeContent(t *testing.T) {
	w := newWorld(t)
	w.must(w.service.Admit(t.Context(), w.account, ada))
	w.create()
	w.replaceUser()
	ctx, cancel := context.WithCancel(t.Context())
	w.service.Users.Parts = []subject.Part{{Name: "endless", Do: func(context.Context, *store.Tx, string, string, string, int) (int, error) {
		cancel()
		return 500, nil
	}}}
	w.rejects(w.service.Admit(ctx, w.account, again), content.Unavailable)
	w.service.Users.Parts = workspace.OfUsers
	w.must(w.service.releaseObserved(t.Context()))
	w.must(w.service.Admit(t.Context(), w.account, again))
	w.wantOwners(administrators)
}

// TestRunObservesDeletions: the worker hands over the content of a user who is deleted at once.
func TestRunObservesDeletions(t *testing.T) {
	w := newWorld(t)
	w.must(w.service.Admit(t.Context(), w.account, ada))
	w.create()
	ctx, stop := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- w.service.Run(ctx) }()
	w.must(w.api.Delete(t.Context(), user(ada)))
	w.service.Left(client.ObjectKey{Namespace: "demo", Name: "ada"})
	w.service.Left(client.ObjectKey{Namespace: "another", Name: "ada"})
	for deadline := time.Now().Add(time.Minute); w.owners() == hers && time.Now().Before(deadline); {
		time.Sleep(10 * time.Millisecond)
	}
	stop()
	w.must(<-ended)
	w.wantOwners(administrators)
	l := audit.NewLog(w.store, audit.Options{})
	defer l.Close()
	events, err := l.Query(t.Context(), audit.Filter{Account: "demo"})
	w.must(err)
	var got []string
	for e, err := range events {
		w.must(err)
		got = append(got, fmt.Sprint(e.Name, " ", e.Actor.ID, " ", e.Object.Name))
	}
	if fmt.Sprint(got) != "[Transferred content of deleted user quoin-apiserver ada]" {
		t.Errorf("the events are %q", got)
	}
}
